"""LDP-RTS: its schedule, the private choice of the range, its posterior against a slow twin, and what it learns."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tacit.accounting.claims import no_privacy
from tacit.errors import InvalidInput, TacitError
from tacit.learners.ldp_rts import (
    HALVINGS,
    LDPRTS,
    LEVELS,
    PRIOR_STD,
    RANGE_STARTS,
    SAMPLING,
    RTSBelief,
    schedule,
)
from tacit.policies import DeterministicPolicy
from tacit.protocol import PrivateStatistics
from tacit.released.counts import CountShape
from tacit.released.returns import BitNoise, ReturnQuery, ReturnStatistics
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate
from tacit.study.state import decode_state, encode_state

SHAPE = CountShape(horizon=4, num_states=2, num_actions=3, staged=True)
NOISE = BitNoise(flip=0.25, variance=0.75)


def learner_of(episodes: int = 4000, noise: BitNoise = NOISE) -> LDPRTS:
    return LDPRTS(shape=SHAPE, episodes=episodes, noise=noise)


def answered(query: ReturnQuery, ones: Any) -> PrivateStatistics[ReturnStatistics]:
    sizes = np.array(query.groups, dtype=np.int64)
    given = np.broadcast_to(np.asarray(ones, dtype=np.float64), sizes.shape).copy()
    return PrivateStatistics(ReturnStatistics(given, sizes, np.zeros(1), np.array([sizes.sum()])), no_privacy())


@pytest.mark.parametrize("episodes", [75, 100, 401, 20_000, 200_000])
def test_the_schedule_uses_everybody_up_and_chooses_the_range_three_times(episodes: int) -> None:
    stages = schedule(episodes)
    assert sum(stage.users for stage in stages) == episodes
    assert min(stage.users for stage in stages) >= 1
    asked = [(stage.period, stage.halving) for stage in stages if stage.halving is not None]
    assert asked == list(product(range(len(RANGE_STARTS)), range(HALVINGS)))
    assert [stage.period for stage in stages] == sorted(stage.period for stage in stages)


def test_too_few_users_are_refused_with_the_least_number() -> None:
    with pytest.raises(InvalidInput, match="run at least 75"):
        schedule(74)


@pytest.mark.parametrize("least", range(1, LEVELS + 1))
def test_the_least_level_that_is_enough_is_found(least: int) -> None:
    """Answers without noise: P(G > c) is 1 below the level and 0 from it on."""
    learner = learner_of(noise=BitNoise(flip=0.0, variance=0.0))
    belief = learner.begin()
    for _ in range(HALVINGS):
        belief, plan = learner.plan(belief, np.random.default_rng(0))
        assert plan.query is not None
        assert plan.query.bit == "tail"
        beyond = plan.query.level < SHAPE.horizon * least / LEVELS
        belief = learner.update(belief, answered(plan.query, plan.query.groups if beyond else 0.0))
    _, plan = learner.plan(belief, np.random.default_rng(0))
    assert plan.query is not None
    assert (plan.query.bit, plan.query.level) == ("mean", SHAPE.horizon * least / LEVELS)


def test_a_tail_within_its_standard_error_is_enough_and_one_beyond_is_not() -> None:
    learner = learner_of()
    for excess, high in ((0.9, LEVELS // 2), (1.1, LEVELS)):
        belief, plan = learner.plan(learner.begin(), np.random.default_rng(0))
        assert plan.query is not None
        users = np.array(plan.query.groups, dtype=np.float64)
        tail = 0.1 + excess * np.sqrt((NOISE.variance + 0.09) / users.sum())
        # E ones = n (f + (1 − 2f) p)
        belief = learner.update(belief, answered(plan.query, users * (0.25 + 0.5 * tail)))
        assert belief.high == high


def run(learner: LDPRTS, steps: int, seed: int = 0) -> tuple[RTSBelief, list[tuple[int, np.ndarray[Any, Any], float]]]:
    """A run on made-up answers, and every single (period, policy, de-biased bit) of it."""
    coins, belief, seen = np.random.default_rng(seed), learner.begin(), []
    for _ in range(steps):
        belief, plan = learner.plan(belief, coins)
        assert plan.query is not None
        sizes = np.array(plan.query.groups)
        ones = coins.binomial(sizes, 0.4)
        if plan.query.bit == "mean":
            period = learner.stages[belief.stage].period
            for (policy, users), count in zip(plan.groups, ones, strict=True):
                assert isinstance(policy, DeterministicPolicy)
                assert (policy.actions == policy.actions[0]).all()
                bits = [1.0] * count + [0.0] * (users - count)
                seen += [(period, policy.actions[0], (bit - 0.25) / 0.5) for bit in bits]
        belief = learner.update(belief, answered(plan.query, ones))
    return belief, seen


def test_the_posterior_is_that_of_a_slow_twin() -> None:
    """Person by person, with all intercepts as parameters of their own."""
    learner = learner_of(400)
    belief, seen = run(learner, len(learner.stages))
    S, A, R = SHAPE.num_states, SHAPE.num_actions, len(RANGE_STARTS)
    precision, shift = np.diag([1.0 / PRIOR_STD**2] * (S * A) + [1.0] * R), np.zeros(S * A + R)
    for period, actions, y in seen:
        phi = np.zeros(S * A + R)
        for s in range(S):
            phi[s * A + actions[s]] = 1.0
        phi[S * A + period] = 1.0
        precision += np.outer(phi, phi) / (NOISE.variance + SAMPLING)
        shift += phi * y / (NOISE.variance + SAMPLING)
    assert {period for period, _, _ in seen} == {0, 1, 2}
    covariance = np.linalg.inv(precision)
    mean, factor = learner.posterior(belief)
    np.testing.assert_allclose(mean, (covariance @ shift)[: S * A], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.linalg.inv(factor @ factor.T), covariance[: S * A, : S * A], rtol=1e-8, atol=1e-12)
    best = (covariance @ shift)[: S * A].reshape(S, A).argmax(axis=1)
    ended = learner.policy(belief)
    assert isinstance(ended, DeterministicPolicy)
    assert ended.actions.tolist() == [best.tolist()] * SHAPE.horizon


def test_draws_have_the_mean_and_the_covariance_of_the_posterior() -> None:
    """20,000 draws: every entry within five standard errors."""
    learner = learner_of(400)
    belief, _ = run(learner, 30)
    mean, factor = learner.posterior(belief)
    covariance = np.linalg.inv(factor @ factor.T)
    draws = learner._draws(belief, 20_000, np.random.default_rng(1))
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * spread / np.sqrt(20_000)).all()
    found = np.cov(draws, rowvar=False)
    assert (np.abs(found - covariance) < 5.0 * np.sqrt(2.0 / 20_000) * np.outer(spread, spread)).all()


def test_a_belief_is_written_down_and_read_back_bit_for_bit() -> None:
    learner = learner_of(400)
    belief, _ = run(learner, 20)
    again = decode_state(encode_state(belief))
    assert isinstance(again, RTSBelief)
    assert encode_state(again) == encode_state(belief)
    assert isinstance(again.stage, int)


def config(**changes: Any) -> RunConfig:
    asked: dict[str, Any] = {
        "environment": "riverswim", "learner": "ldp-rts", "episodes": 20_000, "seeds": (0,), "trust": "local",
        "epsilon": 2.0, "delta": 0.0,
    }  # fmt: skip
    return RunConfig(**asked | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"constants": "practical"}, "prior instead of"), ({"z": 1.0}, "prior instead of"),
     ({"batch": 50}, "remove batch"), ({"episodes": 50}, "too few"), ({"trust": "central"}, "not central"),
     ({"environment": "layered"}, "layered world has no rewards"),
     ({"learner": "ldp-rts:time_homogeneous=true"}, "option of learner ldp-rts")],
)  # fmt: skip
def test_what_does_not_belong_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TacitError, match=words):
        assemble(config(**changes))


@pytest.mark.statistical
def test_it_learns_riverswim_at_epsilon_2() -> None:
    """The median of five seeds is below a fifth of the regret of uniform play; a pure certificate, as claimed."""
    parts = assemble(config())
    best, uniform = parts.values
    shares = [
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20_000, seed=seed).regret[-1]
        / (20_000 * (best - uniform))
        for seed in range(5)
    ]
    assert np.median(shares) < 0.2
    assert (parts.certificate.epsilon, parts.certificate.delta, parts.certificate.holds) == (2.0, 0.0, True)
