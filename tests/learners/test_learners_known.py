"""Known transitions: only losses are released, and the learners are O-REPS, UOB-LBPS and UOB-REPS on the true model."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.audit.conformance import check_privatizer
from tacit.audit.learners import audit_learner
from tacit.data.trajectories import LossUser
from tacit.environments.layered import layered
from tacit.errors import InvalidInput, NotSupported
from tacit.planning.layered import layered_geometry
from tacit.randomness import SimulationNoise
from tacit.release.loss_noise import LossNoise
from tacit.release.losses import make_adversarial
from tacit.released.losses import LayeredShape, LossQuery, LossStatistics
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

NAME = "layered:layers=3,states=2,actions=2,seed=1"
WORLD = layered(layers=3, states=2, actions=2, seed=1).mdp
GEOMETRY = layered_geometry(WORLD.widths, 2)
P = np.array(WORLD.flat_transitions)
TRIPLES, PAIRS = int(GEOMETRY.edges[-1]), len(GEOMETRY.edges) - 1
SHAPE = LayeredShape(horizon=3, pairs=5, pair_of=(0, 0, 1, 1, 2, 3, 4))
KNOWN = ("o-reps", "uob-lbps:transitions=known", "uob-reps:transitions=known")


def config(learner: str, **changes) -> RunConfig:
    base = {"environment": NAME, "adversary": "iid", "learner": learner, "episodes": 60, "seeds": (0,)}
    return RunConfig(**{**base, **changes})


def claim_of(trust: str, epsilon: float = 1.0, delta: float = 0.0) -> PrivacyClaim:
    return PrivacyClaim(
        trust=trust, epsilon=epsilon, delta=delta, unit=PrivacyUnit(reports=1, per_stage=1), neighbours="replace-one",
        output=OUTPUTS[trust][0],
    )  # fmt: skip


def built(trust: str, feedback: str, *, delta: float = 0.0, known: bool = True, **options):
    return make_adversarial(
        shape=SHAPE, claim=claim_of(trust, delta=delta), episodes=50, feedback=feedback, known_transitions=known,
        **options,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ what is released


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("feedback", ["full", "bandit"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_all_of_epsilon_is_spent_on_the_losses(trust, feedback, delta) -> None:
    known, counted = built(trust, feedback, delta=delta), built(trust, feedback, delta=delta, known=False)
    assert known.certificate().epsilon == pytest.approx(1.0, rel=2e-3)
    assert known.certificate().holds
    assert [family.name for family in known.families()] == ["losses"]
    assert 0.0 < known.noise_std()["losses"] < 0.95 * counted.noise_std()["losses"]
    assert known.noise_std()["transitions"] == known.noise_std()["visits"] == 0.0


@pytest.mark.parametrize(("feedback", "printed"), [("full", 5 / 9), ("bandit", 2 / 3)])
@pytest.mark.parametrize("trust", ["central", "local"])
def test_printed_losses_cost_what_they_cost_alone(trust, feedback, printed) -> None:
    """X'A/(3H) ε and 2 ε/3: the printed noise of the losses, and nothing beside it."""
    known = built(trust, feedback, calibration="paper")
    assert known.certificate().epsilon == pytest.approx(printed, rel=1e-9)
    assert known.noise_std()["losses"] == built(trust, feedback, known=False, calibration="paper").noise_std()["losses"]


@pytest.mark.parametrize("trust", ["central", "local"])
def test_where_a_user_went_is_not_released(trust) -> None:
    """G4: with full information two users with the same table are the same user."""
    privatizer = built(trust, "full")
    table = np.linspace(0.0, 1.0, SHAPE.pairs)
    walks = (([0, 2, 3], [0, 4, 5]), ([1, 2, 4], [3, 4, 6]))
    released = []
    for pairs, triples in walks:
        user = LossUser(np.array(pairs), np.array(triples), table)
        noise = SimulationNoise(np.random.default_rng(7))
        _, private = privatizer.release(privatizer.begin(), user, LossQuery(full=True), noise)
        released.append(private.statistics)
        assert not private.statistics.transitions.any()
        assert not private.statistics.visits.any()
    assert (released[0].losses == released[1].losses).all()
    assert (released[0].losses != table).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trust", "feedback", "calibration"),
    [
        ("central", "full", "tight"),
        pytest.param("central", "bandit", "paper", marks=pytest.mark.slow),
        pytest.param("local", "bandit", "tight", marks=pytest.mark.slow),
    ],
)
def test_such_privatizers_conform(trust, feedback, calibration) -> None:
    """False alarms below 7e-6 each."""
    made = make_adversarial(
        shape=SHAPE, claim=claim_of(trust, 2.0), episodes=6, feedback=feedback, calibration=calibration,
        known_transitions=True,
    )  # fmt: skip
    check_privatizer(made, replicates=100)


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("learner", KNOWN)
@pytest.mark.parametrize("trust", ["central", "local"])
def test_the_attack_stays_below_the_certificate(learner, trust) -> None:
    """False-alarm rate 0.001 each; power: something of epsilon 2 is seen."""
    (found,) = audit_learner(learner, trust=trust, epsilon=2.0, delta=0.0, trials=8000, false_alarm=1e-3)
    assert found.verdict == "holds"
    assert 0.5 < found.attacked <= found.certified == pytest.approx(2.0)


# ------------------------------------------------------------------------------------------------ what is learned


def flow_of(policy: np.ndarray) -> np.ndarray:
    """q(x,a,x') of a policy[pairs], state by state."""
    arrived, flow = np.zeros(int(GEOMETRY.layers[-1])), np.zeros(TRIPLES)
    arrived[0] = 1.0
    for h in range(len(GEOMETRY.layers) - 2):
        for x in range(GEOMETRY.layers[h], GEOMETRY.layers[h + 1]):
            for a in range(2):
                first, last = GEOMETRY.edges[2 * x + a], GEOMETRY.edges[2 * x + a + 1]
                flow[first:last] = arrived[x] * policy[2 * x + a] * P[first:last]
                arrived[GEOMETRY.layers[h + 1] : GEOMETRY.layers[h + 2]] += flow[first:last]
    return flow


def best_policy(objective) -> np.ndarray:
    """The policy whose flow has the least objective, by a general minimiser over logits."""

    def policy(logits: np.ndarray) -> np.ndarray:
        share = 1.0 / (1.0 + np.exp(-logits))
        return np.stack([share, 1.0 - share], axis=1).ravel()

    found = minimize(lambda z: objective(flow_of(policy(z))), np.zeros(PAIRS // 2), method="BFGS", tol=1e-12)
    return policy(found.x)


def per_triple(costs: np.ndarray) -> np.ndarray:
    return np.repeat(costs, np.diff(GEOMETRY.edges))


def statistics(losses: np.ndarray) -> LossStatistics:
    """What is released where nothing is counted."""
    return LossStatistics(np.zeros(TRIPLES), np.zeros(PAIRS), losses, np.zeros(3), np.array([50]))


def learner_of(name: str, **privacy):
    return assemble(config(name, **privacy)).learner


def after(learner, belief, losses: np.ndarray):
    learner.kernels.update(learner.parameters, belief, statistics(losses))
    return belief.policy.copy()


def test_o_reps_is_the_leader_on_the_true_model() -> None:
    learner = learner_of("o-reps", trust="central", epsilon=1.0, delta=0.0)
    belief, eta = learner.begin(), learner.settings["learning_rate"]
    losses = 5.0 * np.random.default_rng(0).standard_normal(PAIRS)
    slow = best_policy(lambda q: float(eta * per_triple(losses) @ q + q @ np.log(q)))
    np.testing.assert_allclose(after(learner, belief, losses), slow, atol=1e-5)


def test_uob_reps_is_mirror_descent_on_the_true_model() -> None:
    learner = learner_of("uob-reps:transitions=known", trust="local", epsilon=8.0, delta=0.0)
    belief, gamma, E = learner.begin(), learner.settings["exploration"], learner.settings["loss_radius"]
    eta = learner.settings["learning_rate"]
    # η l̂ ≥ -1, which entropy needs where losses may be negative
    assert eta * E / gamma <= 1.0
    generator = np.random.default_rng(1)
    for _ in range(2):
        policy, before = belief.policy.copy(), belief.occupancy.copy()
        losses = 10.0 * generator.standard_normal(PAIRS)
        losses[0] = 3.0 * E  # outside of what noise can do: clipped
        q = np.add.reduceat(flow_of(policy), GEOMETRY.edges[:-1])
        costs = per_triple(eta * np.clip(losses, -E, 1.0 + E) / (q + gamma))

        def objective(flow, costs=costs, before=before) -> float:
            return float(costs @ flow + flow @ np.log(flow / before))

        np.testing.assert_allclose(after(learner, belief, losses), best_policy(objective), atol=1e-5)


def test_uob_lbps_is_barrier_descent_on_the_true_model() -> None:
    learner = learner_of("uob-lbps:transitions=known", trust="central", epsilon=8.0, delta=0.0)
    belief, E = learner.begin(), learner.settings["loss_radius"]
    eta = learner.settings["learning_rate"]
    generator = np.random.default_rng(2)
    for _ in range(2):
        policy, before = belief.policy.copy(), belief.occupancy.copy()
        losses = 5.0 * generator.standard_normal(PAIRS)
        q = np.add.reduceat(flow_of(policy), GEOMETRY.edges[:-1])
        costs = per_triple(eta * np.clip(losses, -E, 1.0 + E) / q)

        def objective(flow, costs=costs, before=before) -> float:
            return float(costs @ flow + (flow / before - np.log(flow)).sum())

        np.testing.assert_allclose(after(learner, belief, losses), best_policy(objective), atol=1e-5)


@pytest.mark.parametrize("learner", KNOWN)
def test_private_runs_without_their_noise_are_the_learners_without_privacy(learner) -> None:
    plain = assemble(config(learner))
    private = assemble(config(learner, trust="central", epsilon=1.0, delta=0.0))
    quiet = {name: LossNoise(family=part.family, source=None) for name, part in private.privatizer.parts.items()}
    silent = dataclasses.replace(private.privatizer, parts=quiet)

    def play(privatizer):
        marks = np.array([10, 60])
        return simulate(
            plain.mdp, plain.learner, privatizer, episodes=60, seed=5, checkpoints=marks, speed="interpreted"
        ).regret

    assert (play(silent) == play(plain.privatizer)).all()
    assert (play(private.privatizer) != play(plain.privatizer)).any()


def test_o_reps_is_uc_o_reps_with_known_transitions() -> None:
    named, option = (assemble(config(learner)) for learner in ("o-reps", "uc-o-reps:transitions=known"))
    found = [
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=60, seed=1, speed="interpreted").regret
        for parts in (named, option)
    ]
    assert (found[0] == found[1]).all()


def test_impossible_successors_do_not_stop_the_barrier() -> None:
    certain = "layered-support:layers=3,states=2,actions=2,spread=0"
    parts = assemble(config("uob-lbps:transitions=known", environment=certain))
    run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=60, seed=0, speed="interpreted")
    assert run.losses.solves > 50
    assert run.losses.unconverged == 0
    assert math.isfinite(float(run.regret[-1]))


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("learner", "changes", "error", "message"),
    [
        ("uob-reps", {"trust": "central", "epsilon": 1.0, "delta": 0.0}, NotSupported, "uob-reps:transitions=known"),
        ("o-reps", {"z": 2.0}, InvalidInput, "has no widths to choose"),
        ("uc-o-reps:transitions=known,cb=0.3", {}, InvalidInput, "has no widths to choose"),
        ("uob-lbps:transitions=guessed", {}, InvalidInput, "learned, known"),
        (
            "o-reps",
            {"trust": "central", "epsilon": 1.0, "delta": 0.0, "public_losses": True},
            InvalidInput,
            "losses are all that is released",
        ),
    ],
)
def test_wrong_combinations_are_refused(learner, changes, error, message) -> None:
    with pytest.raises(error, match=message):
        assemble(config(learner, **changes))


def test_nothing_is_known_where_nothing_is_protected() -> None:
    from tacit.accounting.claims import no_privacy

    with pytest.raises(InvalidInput, match="require a trust model"):
        make_adversarial(shape=SHAPE, claim=no_privacy(), episodes=5, feedback="full", known_transitions=True)
