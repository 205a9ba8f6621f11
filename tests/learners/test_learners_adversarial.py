"""Learners of adversarial losses: reductions, slow twins, closed forms, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from contract_calls import told
from flow_doors import barrier_flow, entropy_flow, upper_occupancy
from named_learners import make_learner

from tacit.environments.layered import layered
from tacit.errors import InvalidInput, UnknownName
from tacit.learners.loss_contract import LossRequest
from tacit.learners.occupancy import precision_now
from tacit.learners.table import LEARNERS
from tacit.planning.layered import layered_geometry, repair_counts, theory_intervals
from tacit.release.loss_noise import LossNoise
from tacit.release.losses import AdversarialPrivatizer
from tacit.released.losses import LossStatistics
from tacit.released.precision import CountPrecision
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

WORLD = layered(layers=3, states=2, actions=2, seed=1)
GEOMETRY = layered_geometry(WORLD.mdp.widths, 2)
TRIPLES, PAIRS = int(GEOMETRY.edges[-1]), len(GEOMETRY.edges) - 1


def request(K: int = 1000, *, name: str = "uc-o-reps", **changes) -> LossRequest:
    plain = LossRequest(
        name=name,
        geometry=GEOMETRY,
        episodes=K,
        constants="theory",
        z=None,
        options={},
        precision=CountPrecision(scale=np.zeros(3)),
        variance=np.zeros(3),
        loss_radius=0.0,
        estimator="centred",
    )
    return dataclasses.replace(plain, **changes)


def statistics(seed: int, users: int, *, bandit: bool = False, variance: float = 0.0) -> LossStatistics:
    """Released numbers that could have come from so many users, with noise."""
    generator = np.random.default_rng(seed)
    P = WORLD.mdp.flat_transitions
    fans = np.diff(GEOMETRY.edges)
    visits = generator.integers(1, users, size=PAIRS).astype(np.float64)
    transitions = np.repeat(visits, fans) * P + math.sqrt(variance) * generator.standard_normal(TRIPLES)
    noisy = visits + math.sqrt(variance) * generator.standard_normal(PAIRS)
    losses = generator.random(PAIRS) * (1.0 if bandit else users) + math.sqrt(variance) * generator.standard_normal(
        PAIRS
    )
    return LossStatistics(transitions, noisy, losses, np.full(3, variance), np.array([users]))


def slow_set(asked: LossRequest, released: LossStatistics) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 5.1, 5.2 and 3.1 by the doors of the planning room."""
    E = 4.0 * math.sqrt(2.0 * released.variance[0] * asked.radius_log)
    counts, totals, lo, hi = np.zeros(TRIPLES), np.zeros(PAIRS), np.zeros(TRIPLES), np.zeros(TRIPLES)
    repair_counts(GEOMETRY, released.transitions, released.visits, E, counts, totals)
    theory_intervals(GEOMETRY, counts, totals, E, asked.log_term, 1.0, lo, hi)
    return lo, hi


@pytest.mark.parametrize("variance", [0.0, 25.0])
def test_uc_o_reps_is_the_leader_over_the_set(variance) -> None:
    asked = request()
    learner = make_learner(dataclasses.replace(asked, name="uc-o-reps"))
    belief = learner.begin()
    np.testing.assert_allclose(belief.policy, 0.5, atol=1e-12)
    eta = math.sqrt(math.log(6 * 2 / 3) / 1000)
    for seed in range(4):
        released = statistics(seed, 200 * (seed + 1), variance=variance)
        belief = told(learner, belief, released)
        lo, hi = slow_set(asked, released)
        slow = entropy_flow(GEOMETRY, eta * released.losses, lo, hi)
        np.testing.assert_allclose(belief.policy, slow.policy, atol=1e-9)
        np.testing.assert_allclose(belief.occupancy, slow.occupancy, atol=1e-9)


@pytest.mark.parametrize("estimator", ["centred", "as-written"])
def test_uob_lbps_is_mirror_descent_with_upper_bounds(estimator) -> None:
    E = 3.0
    asked = request(loss_radius=E, estimator=estimator)
    learner = make_learner(dataclasses.replace(asked, name="uob-lbps"))
    belief = learner.begin()
    policy, previous, lo, hi = belief.policy.copy(), belief.occupancy.copy(), belief.set.lo.copy(), belief.set.hi.copy()
    eta = math.sqrt(6 / 1000)
    for seed in range(4):
        released = statistics(seed, 200 * (seed + 1), bandit=True, variance=0.25)
        upper = upper_occupancy(GEOMETRY, policy, lo, hi)
        clipped = np.clip(released.losses, -E, 1.0 + E)
        if estimator == "centred":
            costs = min(eta, 0.5 / (1.0 + E)) * clipped / upper
        else:
            costs = eta * (clipped + E) / (2.0 * E + 1.0) / upper
        lo, hi = slow_set(asked, released)
        slow = barrier_flow(GEOMETRY, costs, previous, lo, hi)
        belief = told(learner, belief, released)
        np.testing.assert_allclose(belief.policy, slow.policy, atol=1e-7)
        policy, previous = slow.policy, slow.occupancy


def test_without_noise_both_estimators_are_the_same() -> None:
    beliefs = []
    for estimator in ("centred", "as-written"):
        learner = make_learner(request(name="uob-lbps", estimator=estimator))
        belief = learner.begin()
        for seed in range(3):
            belief = told(learner, belief, statistics(seed, 300, bandit=True))
        beliefs.append(belief)
    assert (beliefs[0].policy == beliefs[1].policy).all()


def test_o_reps_is_uc_o_reps_whose_set_is_the_truth() -> None:
    P = WORLD.mdp.flat_transitions
    known = make_learner(request(name="o-reps", known=np.array(P)))
    belief = known.begin()
    released = statistics(0, 500)
    after = told(known, belief, released)
    slow = entropy_flow(GEOMETRY, math.sqrt(math.log(4) / 1000) * released.losses, P, P)
    np.testing.assert_allclose(after.policy, slow.policy, atol=1e-9)
    # The more has been counted, the closer UC-O-REPS comes.
    gaps = []
    for users in (10**3, 10**5, 10**8):
        learner = make_learner(request(name="uc-o-reps"))
        visits = np.full(PAIRS, float(users))
        many = released._replace(transitions=np.repeat(visits, np.diff(GEOMETRY.edges)) * P, visits=visits)
        gaps.append(np.abs(told(learner, learner.begin(), many).policy - after.policy).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-2


def test_one_layer_is_hedge() -> None:
    geometry = layered_geometry((1, 1), 4)
    losses = np.array([3.0, 1.0, 4.0, 1.5])
    for name in ("uc-o-reps", "o-reps"):
        known = np.ones(4) if name == "o-reps" else None
        learner = make_learner(request(name=name, geometry=geometry, known=known))
        released = LossStatistics(np.full(4, 9.0), np.full(4, 9.0), losses, np.zeros(3), np.array([36]))
        policy = told(learner, learner.begin(), released).policy
        eta = math.sqrt(math.log(2 * 4) / 1000)
        expected = np.exp(-eta * losses) / np.exp(-eta * losses).sum()
        np.testing.assert_allclose(policy, expected, atol=1e-12)


def test_a_set_that_says_nothing_gives_the_myopic_policy() -> None:
    learner = make_learner(request(name="uc-o-reps"))
    released = statistics(1, 500)._replace(transitions=np.zeros(TRIPLES), visits=np.zeros(PAIRS))
    policy = told(learner, learner.begin(), released).policy.reshape(-1, 2)
    weights = np.exp(-learner.parameters.eta * released.losses).reshape(-1, 2)
    np.testing.assert_allclose(policy, weights / weights.sum(axis=1, keepdims=True), atol=1e-9)


def silenced(privatizer: AdversarialPrivatizer) -> AdversarialPrivatizer:
    """The same releases without their noise."""
    quiet = {name: LossNoise(family=part.family, source=None) for name, part in privatizer.parts.items()}
    return dataclasses.replace(privatizer, parts=quiet)


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("learner", ["uc-o-reps", "uob-lbps"])
@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_private_runs_without_their_noise_are_the_ancestors(trust, learner, calibration) -> None:
    K, marks = 200, np.array([10, 200])
    common = {"environment": "layered:layers=3,states=2,actions=2,seed=1", "adversary": "iid", "learner": learner}
    plain = assemble(RunConfig(**common, episodes=K, seeds=(0,)))
    private = assemble(
        RunConfig(**common, episodes=K, seeds=(0,), trust=trust, epsilon=1.0, delta=0.0, calibration=calibration)
    )

    def play(learner, privatizer):
        # Fused loops are compared with this one in `test_loop_registered`.
        return simulate(plain.mdp, learner, privatizer, episodes=K, seed=5, checkpoints=marks, speed="interpreted")

    expected = play(plain.learner, plain.privatizer)
    found = play(plain.learner, silenced(private.privatizer))
    assert (found.regret == expected.regret).all()
    noisy = play(plain.learner, private.privatizer)
    assert (noisy.regret != expected.regret).any()


def test_precision_is_four_times_the_larger_radius() -> None:
    precision = CountPrecision(scale=np.array([2.0, 1.0, 0.0]))
    L = 9.0
    expected = 4.0 * max(math.sqrt(2 * 8.0 * L) + 2.0 * L, math.sqrt(2 * 50.0 * L) + 1.0 * L)
    assert precision_now(precision, np.array([8.0, 50.0, 0.0]), L) == pytest.approx(expected)
    assert precision_now(precision, np.zeros(3), L) == 0.0


def test_theory_constants_are_those_of_the_theorems() -> None:
    K = 10_000
    world = layered()
    geometry = layered_geometry(world.mdp.widths, 2)
    full = make_learner(request(K, name="uc-o-reps", geometry=geometry))
    bandit = make_learner(request(K, name="uob-lbps", geometry=geometry))
    assert full.settings["learning_rate"] == pytest.approx(0.0131, abs=5e-5)
    assert bandit.settings["learning_rate"] == pytest.approx(0.0332, abs=5e-5)
    # δ = XA/K makes ln ι = 2 ln K
    assert request(K, geometry=geometry).log_term == pytest.approx(2.0 * math.log(K))
    assert request(3).failure_prob == 0.5
    tuned = make_learner(request(K, name="uc-o-reps", constants="practical", options={"eta": "5", "cb": "0.3"}))
    assert (tuned.settings["eta"], tuned.settings["cb"], tuned.settings["ce"], tuned.z) == (5.0, 0.3, 1.0, None)
    ruled = make_learner(request(K, name="uc-o-reps", constants=None, z=2.0))
    assert (ruled.constants, ruled.settings["z"], ruled.z) == ("practical", 2.0, 2.0)
    assert "cb" not in ruled.settings


def test_the_rate_of_centred_losses_is_capped() -> None:
    learner = make_learner(request(100, name="uob-lbps", loss_radius=300.0))
    assert learner.parameters.eta == pytest.approx(0.5 / 301.0)
    assert make_learner(request(100, name="uob-lbps", loss_radius=300.0, estimator="as-written")).parameters.eta > 0.2
    assert make_learner(request(name="uob-lbps", options={"radius": "7"}, constants=None)).parameters.radius == 7.0


@pytest.mark.parametrize(
    ("name", "changes", "error", "message"),
    [
        ("uc-o-rep", {}, UnknownName, "did you mean 'uc-o-reps'"),
        ("uc-o-reps", {"options": {"bonus": "1"}}, UnknownName, "option of learner"),
        ("o-reps", {"options": {"cb": "1"}}, UnknownName, "option of learner"),
        ("uc-o-reps", {"options": {"eta": "2"}}, InvalidInput, "theory constants leave nothing to choose"),
        ("uc-o-reps", {"z": 2.0}, InvalidInput, "theory constants leave nothing to choose"),
        ("uc-o-reps", {"options": {"eta": "nan"}, "constants": None}, InvalidInput, "finite"),
        ("uc-o-reps", {"options": {"eta": "0"}, "constants": None}, InvalidInput, r"\(0"),
        ("uc-o-reps", {"options": {"cb": "0.3"}, "z": 1.0, "constants": None}, InvalidInput, "give one kind"),
        ("uob-lbps", {"options": {"radius": "-1"}, "constants": None}, InvalidInput, "radius"),
    ],
)
def test_wrong_requests_are_refused(name, changes, error, message) -> None:
    with pytest.raises(error, match=message):
        make_learner(request(name=name, **changes))


def test_an_update_leaves_the_belief_as_it_was() -> None:
    for name in (name for name, row in LEARNERS.items() if row.losses is not None):
        known = np.array(WORLD.mdp.flat_transitions) if name == "o-reps" else None
        learner = make_learner(request(name=name, known=known))
        belief = learner.begin()
        before = belief.policy.copy()
        after = told(learner, belief, statistics(3, 400, bandit=name.startswith("uob")))
        assert (belief.policy == before).all()
        assert (after.policy != before).any()
        np.testing.assert_allclose(after.policy.reshape(-1, 2).sum(axis=1), 1.0, atol=1e-12)
        assert after.tally[1] == 0.0
