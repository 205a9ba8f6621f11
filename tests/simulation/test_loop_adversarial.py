"""The loop with adversarial losses: hindsight, both speeds, what is never released, and how fast regret grows."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from loss_games import SMALL, parts_of, play

from tacit.accounting.ledger import Ledger
from tacit.data.trajectories import prepare_layered, walk_layered
from tacit.environments.layered import layered, layered_trap
from tacit.errors import InvalidInput, PrivacyBudgetExceeded
from tacit.learners.loss_contract import LossLearner
from tacit.simulation.judges.games import begin_loss_tally, expected_loss, hindsight, loss_truth, record_mark
from tacit.simulation.simulate import simulate


def brute_force(world, losses: np.ndarray) -> float:
    """The least loss over all deterministic policies, each evaluated on its own."""
    X, A = world.mdp.num_states - 1, world.mdp.num_actions
    truth, states = loss_truth(world.mdp), np.zeros(X + 1)
    best = math.inf
    for choice in itertools.product(range(A), repeat=X):
        policy = np.eye(A)[list(choice)].ravel()
        best = min(best, expected_loss(truth, policy, losses, states))
    return best


@pytest.mark.parametrize("sizes", [(1, 3, 3), (2, 3, 2), (3, 2, 2), (4, 2, 2)])
def test_hindsight_is_the_best_of_all_deterministic_policies(sizes) -> None:
    layers, states, actions = sizes
    world = layered(layers=layers, states=states, actions=actions, seed=7)
    truth = loss_truth(world.mdp)
    pairs, scratch = len(world.base.ravel()), np.zeros(world.mdp.num_states)
    for seed in range(3):
        losses, policy = np.random.default_rng(seed).random(pairs) * 50.0, np.zeros(pairs)
        best = hindsight(truth, losses, scratch, policy)
        assert best == pytest.approx(brute_force(world, losses), abs=1e-12)
        # The policy that is returned attains it: the regret of the optimal policy is zero.
        assert expected_loss(truth, policy, losses, scratch) == pytest.approx(best, abs=1e-12)


def test_expected_losses_are_those_of_walks() -> None:
    # 40,000 walks of losses in [0, 4]: 5 standard errors are 0.05, a false alarm below 1e-6.
    world = layered(seed=2)
    truth, generator = loss_truth(world.mdp), np.random.default_rng(5)
    policy = generator.dirichlet(np.ones(2), size=10).ravel()
    losses, sampler = generator.random(20), prepare_layered(world.mdp)
    pairs, triples, total = np.zeros(4, np.int64), np.zeros(4, np.int64), 0.0
    for _ in range(40_000):
        walk_layered(sampler, policy, generator, pairs, triples)
        total += losses[pairs].sum()
        assert (np.array(sampler.first_triple)[pairs] <= triples).all()
    assert total / 40_000 == pytest.approx(expected_loss(truth, policy, losses, np.zeros(11)), abs=0.05)


def test_impossible_steps_and_actions_are_never_taken() -> None:
    trap = layered_trap(slip=0.0)
    sampler, generator = prepare_layered(trap.mdp), np.random.default_rng(0)
    pairs, triples = np.zeros(4, np.int64), np.zeros(4, np.int64)
    flat = trap.mdp.flat_transitions
    policy = np.tile([0.0, 1.0], 10)
    for _ in range(300):
        walk_layered(sampler, policy, generator, pairs, triples)
        assert (pairs % 2 == 1).all()
        assert (flat[triples] > 0.0).all()


def test_reference_policies_are_judged_on_the_same_losses() -> None:
    world = layered_trap()
    truth = loss_truth(world.mdp)
    tally, curves = begin_loss_tally(truth), np.zeros((3, 1))
    tally.cumulative[:] = 100.0 * world.base.ravel()
    record_mark(truth, tally, 0, curves)
    best = hindsight(truth, tally.cumulative, np.zeros(11), np.zeros(20))
    assert curves[0, 0] == pytest.approx(-best)
    assert curves[2, 0] > curves[1, 0] > 0.0


CASES = [
    ("o-reps", {}),
    ("uc-o-reps", {}),
    ("uc-o-reps", {"constants": "theory", "trust": "central", "epsilon": 5.0, "delta": 1e-6}),
    ("uc-o-reps", {"trust": "local", "epsilon": 5.0, "delta": 0.0, "calibration": "paper"}),
    ("uob-reps", {}),
    ("uob-lbps", {}),
    ("uob-lbps", {"trust": "central", "epsilon": 5.0, "delta": 1e-6, "estimator": "as-written"}),
    ("uob-lbps", {"trust": "local", "epsilon": 5.0, "delta": 0.0}),
]


@pytest.mark.slow  # every option; each learner once: test_loop_registered
@pytest.mark.parametrize(("learner", "options"), CASES)
def test_both_speeds_give_the_same_bits(learner, options) -> None:
    K = 60
    parts = parts_of(learner, K, adversary="switching:segments=3", **options)
    marks = [1, 7, 30, K]
    fast = play(parts, K, seed=3, marks=marks)
    slow = play(parts, K, seed=3, compiled=False, marks=marks)
    assert (fast.regret == slow.regret).all()
    assert dataclasses.asdict(fast.losses) == dataclasses.asdict(slow.losses)
    assert (play(parts, K, seed=4, marks=marks).regret != fast.regret).any()


def test_the_last_user_is_never_released() -> None:
    parts = parts_of("uc-o-reps", 9, trust="central", epsilon=5.0, delta=1e-6)
    seen: list[int] = []
    learner = parts.learner
    spying = LossLearner.__new__(LossLearner)
    spying.__dict__.update(learner.__dict__)

    def update(belief, released):
        seen.append(int(released.statistics.users[0]))
        return learner.update(belief, released)

    spying.update = update
    play(dataclasses.replace(parts, learner=spying), 9, compiled=False)
    assert seen == list(range(1, 9))


def test_users_are_charged_before_the_first_one_comes(tmp_path) -> None:
    parts = parts_of("uc-o-reps", 20, trust="central", epsilon=2.0, delta=1e-6)
    ledger = Ledger.open(tmp_path / "ledger.sqlite", parts.claim)
    simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20, seed=0, ledger=ledger)
    assert len(ledger.entries()) == 1
    came = []
    with pytest.raises(PrivacyBudgetExceeded):
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20, seed=1, ledger=ledger, progress=came.append)
    assert came == []


def test_parts_that_do_not_fit_are_refused() -> None:
    parts, other = parts_of("uc-o-reps", 20), parts_of("uc-o-reps", 20, environment="layered:layers=2")
    with pytest.raises(InvalidInput, match="must have the layers"):
        play(dataclasses.replace(parts, world=other.world), 20)
    bandit = parts_of("uob-lbps", 20)
    with pytest.raises(InvalidInput, match="feedback is full, got 'bandit'"):
        play(dataclasses.replace(parts, privatizer=bandit.privatizer), 20)
    with pytest.raises(InvalidInput, match="losses for all episodes"):
        play(parts, 21)


def test_regret_can_be_negative_where_losses_change() -> None:
    K = 4000
    parts = parts_of("uc-o-reps:eta=10", K, environment="layered:seed=1", adversary="drift")
    assert play(parts, K).regret[-1] < 0.0


@pytest.mark.parametrize("trust", ["none", "central", "local"])
@pytest.mark.parametrize("learner", ["uc-o-reps", "uob-lbps"])
def test_every_solve_converges_and_a_trap_is_learned(learner, trust) -> None:
    # Regression: at K = 4000 every mode stays feasible; without privacy the trap is left behind.
    K = 4000
    privacy = {} if trust == "none" else {"trust": trust, "epsilon": 10.0, "delta": 0.0}
    found = play(parts_of(learner, K, environment="layered-trap", adversary="sinusoidal", **privacy), K)
    assert found.losses.solves >= K - 1
    assert found.losses.unconverged == 0
    assert found.losses.worst_gap < 1e-7
    assert found.losses.myopic[-1] > found.losses.uniform[-1] > 0.0
    if trust == "none":
        assert found.regret[-1] < (0.2 if learner == "uc-o-reps" else 0.8) * found.losses.uniform[-1]


def test_regret_without_privacy_is_that_of_the_prototype() -> None:
    # Theory constants, K = 10⁴, iid: the prototype had 311 (0.07 of chance); bandit regret grew slower than K^0.75.
    world = "layered:layers=4,states=3,actions=2,seed=1"
    K = 10_000
    full = play(parts_of("uc-o-reps", K, environment=world, constants="theory"), K)
    assert 100.0 < full.regret[-1] < 700.0
    assert full.regret[-1] < 0.15 * full.losses.uniform[-1]
    ends = [play(parts_of("uob-lbps", k, environment=world, constants="theory"), k).regret[-1] for k in (3000, 30_000)]
    assert math.log10(ends[1] / ends[0]) < 0.75


def test_the_offset_of_the_printed_estimator_is_self_reinforcing() -> None:
    # No noise at all, E' = 30 assumed: only the offset differs. Losses turn after a tenth of the episodes.
    slopes = {}
    for estimator in ("as-written", "centred"):
        ends = [
            play(
                parts_of(
                    "uob-lbps:radius=30", k, environment="layered:seed=1", adversary="turning", estimator=estimator
                ),
                k,
            ).regret[-1]
            for k in (3000, 30_000)
        ]
        slopes[estimator] = math.log10(ends[1] / ends[0])
    assert slopes["as-written"] > 0.9
    assert slopes["centred"] < 0.6


@pytest.mark.parametrize("environment", ["layered:layers=1,states=1,actions=3", "layered:layers=3,states=1,actions=1"])
@pytest.mark.parametrize("learner", ["o-reps", "uc-o-reps", "uob-reps", "uob-lbps"])
def test_the_smallest_worlds_work(environment, learner) -> None:
    found = play(parts_of(learner, 50, environment=environment), 50)
    assert found.losses.unconverged == 0
    if environment.endswith("actions=1"):
        assert found.regret[-1] == pytest.approx(0.0, abs=1e-9)


def test_one_episode_is_a_run() -> None:
    found = play(parts_of("uc-o-reps", 1, environment=SMALL), 1)
    assert found.regret.shape == (1,)
    assert found.regret[0] >= 0.0


def test_unknown_transitions_cost_nothing_where_they_are_known_and_more_where_they_are_random() -> None:
    K, world = 1500, "layered-support:spread={}"
    known = play(parts_of("o-reps", K, environment=world.format(1.0)), K).losses.optimism
    assert known == pytest.approx(0.0, abs=1e-6 * K)
    # Both parts of the theorem: certain steps cost next to nothing, uniform ones a multiple of it.
    costs = [play(parts_of("uc-o-reps", K, environment=world.format(s)), K).losses.optimism for s in (0.0, 0.2, 1.0)]
    assert costs[0] < costs[1] < costs[2]
    assert costs[2] > 100.0
