"""LDP-RTS: Thompson sampling over policies from one-bit returns, for local trust at a small epsilon.

A message that covers a whole trajectory spreads epsilon over many counters. Here everybody follows a public policy that
the learner drew, and says one bit about the return, with all of epsilon on it. Policies are stationary and
deterministic, π(s); the learner believes in a linear model of what they are worth,

    y = min(G, C)/C = μ + Σ_s β[s, π(s)] + noise        β ~ N(0, 0.1²), Var noise = e^ε/(e^ε−1)² + 1/16

and every policy is greedy in a draw of β from the posterior. The range C is a private choice of its own: the least of
eight levels with P(G > C) at most 0.1 (and its standard error), found by halving, asked of other people at the start of
the run and twice again, when policies have become better. What was learned with another range stays, with an intercept
of its own: policies that are good at min(G, C) are good starts for a larger C.

The schedule, the levels and all constants are public and the same for all worlds. Nothing about its regret is proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require_count
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.schedules import grouped, split_evenly
from tacit.planning.loss_budget import LossBudget
from tacit.policies import AnyPolicy, DeterministicPolicy, Policy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.counts import CountShape
from tacit.released.returns import BitNoise, ReturnQuery, ReturnStatistics

DRAWS: Final = 50
"""Policies that share a batch."""
BATCHES: Final = 80
"""Batches of a run, about."""
LEVELS: Final = 8
"""Ranges that are compared: H/8, 2H/8, ..., H."""
HALVINGS: Final = 3
"""Questions until one of the levels is left."""
RANGE_SHARE: Final = 0.04
"""The share of the users who are asked for each choice of the range."""
RANGE_STARTS: Final = (0.0, 0.2, 0.5)
"""Where in the run the range is chosen."""
TAIL: Final = 0.1
"""How many returns may lie beyond the range."""
PRIOR_STD: Final = 0.1
"""Of what one state's action is worth, in units of the range."""
INTERCEPT_STD: Final = 1.0
SAMPLING: Final = 1.0 / 16.0
"""The variance of a return in its range, beside that of the noise."""


class Stage(NamedTuple):
    """One batch of the public schedule."""

    users: int
    period: int
    """Which choice of the range it belongs to."""
    halving: int | None
    """The number of the question about the range; None: returns are asked."""


class RTSBelief(NamedTuple):
    """What was released so far: sums over the policies that were tried, for each choice of the range."""

    stage: int
    low: int
    """Levels up to this one are too small, as far as is known."""
    high: int
    """The level that is taken unless a smaller one is found."""
    levels: Ints
    """[periods]: the chosen levels, 0 before."""
    gram: Floats
    """[periods, SA + 1, SA + 1]: Σ n φφ' of what is tried, the intercept last."""
    sums: Floats
    """[periods, SA + 1]: Σ φ ŷ, with ŷ the de-biased number of ones."""
    asked: Ints
    """[groups, S]: the policies of the batch that was planned last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnRequest:
    """What a learner of returns may know before it starts: public sizes, the user's choices, the noise of one bit."""

    name: str
    shape: CountShape
    episodes: int
    constants: Constants | None
    z: float | None
    noise: BitNoise
    options: Mapping[str, str]
    baseline: Policy | None = None
    """What people do already."""
    budget: LossBudget | None = None
    """How much mean return may be lost against it; None: as much as exploration costs."""


class LDPRTS(PlanningLearner[RTSBelief, ReturnQuery]):
    """Thompson sampling over stationary policies, from one randomized bit of everybody."""

    asks = ReturnQuery

    def __init__(self, *, shape: CountShape, episodes: int, noise: BitNoise, name: str = "ldp-rts") -> None:
        self.name, self.shape, self.noise = name, shape, noise
        self.constants: Constants = "none"
        self.z: float | None = None
        self.stages = schedule(require_count("episodes", episodes))
        """The batches of the run; all of them are fixed beforehand."""

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The users of every batch."""
        return tuple(stage.users for stage in self.stages)

    def begin(self) -> RTSBelief:
        """Nothing was released."""
        cells, periods = self.shape.num_states * self.shape.num_actions + 1, len(RANGE_STARTS)
        return RTSBelief(
            stage=0,
            low=0,
            high=LEVELS,
            levels=np.zeros(periods, dtype=np.int64),
            gram=np.zeros((periods, cells, cells)),
            sums=np.zeros((periods, cells)),
            asked=np.zeros((0, self.shape.num_states), dtype=np.int64),
        )

    def plan(self, belief: RTSBelief, rng: np.random.Generator) -> tuple[RTSBelief, Plan[ReturnQuery]]:
        """Policies that are greedy in draws from the posterior, everybody assigned by the learner's own coins."""
        if belief.stage >= len(self.stages):
            return belief, Plan(policy=self.policy(belief), users=None, query=None)
        now = self.stages[belief.stage]
        J = min(DRAWS, now.users)
        drawn = self._greedy(self._draws(belief, J, rng))
        groups = grouped(self._staged(drawn), split_evenly(now.users, J))
        asked = np.stack([policy.actions[0] for policy, _ in groups])
        sizes = tuple(count for _, count in groups)
        if now.halving is None:
            query = ReturnQuery(groups=sizes, bit="mean", level=self._value(int(belief.levels[now.period])))
        else:
            query = ReturnQuery(groups=sizes, bit="tail", level=self._value((belief.low + belief.high) // 2))
        plan = Plan(policy=groups[0][0], users=now.users, query=query, groups=groups)
        return belief._replace(asked=asked), plan

    def last(self, belief: RTSBelief, plan: Plan[ReturnQuery], rng: np.random.Generator) -> Plan[ReturnQuery]:
        """The policy that is best in the mean of the posterior."""
        return Plan(policy=self.policy(belief), users=None, query=None)

    def update(self, belief: RTSBelief, released: PrivateStatistics[ReturnStatistics]) -> RTSBelief:
        """Halve the levels that are left, or take the returns in."""
        answers = statistics_of(released, ReturnStatistics)
        now, after = self.stages[belief.stage], belief._replace(stage=belief.stage + 1)
        if now.halving is None:
            answers = answers.first(len(belief.asked))
        users = answers.groups.astype(np.float64)
        found = self.noise.debias(answers.ones, users)
        if now.halving is not None:
            return self._halved(after, now, float(found.sum()), float(users.sum()))
        tried = self.features(belief.asked)
        gram, sums = belief.gram.copy(), belief.sums.copy()
        gram[now.period] += (tried * users[:, np.newaxis]).T @ tried
        sums[now.period] += tried.T @ found
        return after._replace(gram=gram, sums=sums)

    def policy(self, belief: RTSBelief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The policy that is best in the mean of the posterior."""
        mean, _ = self.posterior(belief)
        return DeterministicPolicy(self._staged(self._greedy(mean[np.newaxis]))[0])

    def posterior(self, belief: RTSBelief) -> tuple[Floats, Floats]:
        """The mean of β [SA] and the Cholesky factor L of its precision, LL'."""
        cells, noise = belief.sums.shape[1] - 1, self.noise.variance + SAMPLING
        precision, shift = np.eye(cells) / PRIOR_STD**2, np.zeros(cells)
        for gram, sums in zip(belief.gram / noise, belief.sums / noise, strict=True):
            # The intercept of a period integrated out: Schur's complement of its own precision
            own = gram[-1, -1] + 1.0 / INTERCEPT_STD**2
            precision += gram[:-1, :-1] - np.outer(gram[:-1, -1], gram[:-1, -1]) / own
            shift += sums[:-1] - gram[:-1, -1] * (sums[-1] / own)
        return np.asarray(np.linalg.solve(precision, shift)), np.asarray(np.linalg.cholesky(precision))

    def _draws(self, belief: RTSBelief, count: int, rng: np.random.Generator) -> Floats:
        """[count, SA]: draws of β from the posterior, mean + L'⁻¹ z."""
        mean, factor = self.posterior(belief)
        return np.asarray(mean + np.linalg.solve(factor.T, rng.standard_normal((len(mean), count))).T)

    def _greedy(self, worth: Floats) -> Ints:
        """[draws, S]: the best action of every state."""
        S, A = self.shape.num_states, self.shape.num_actions
        return np.asarray(worth.reshape(-1, S, A).argmax(axis=2), dtype=np.int64)

    def _staged(self, policies: Ints) -> Ints:
        """[draws, H, S]: the same policy at every step."""
        return np.repeat(policies[:, np.newaxis], self.shape.horizon, axis=1)

    def features(self, policies: Ints) -> Floats:
        """[policies, SA + 1]: a one for the action of every state, and one for the intercept."""
        S, A = self.shape.num_states, self.shape.num_actions
        hot = np.zeros((len(policies), S * A + 1))
        hot[np.arange(len(policies))[:, np.newaxis], np.arange(S) * A + policies] = 1.0
        hot[:, -1] = 1.0
        return hot

    def reach(self, level: int) -> float:
        """The share of the largest return that a level covers."""
        return level / LEVELS

    def _value(self, level: int) -> float:
        """H/8, ..., H."""
        return self.shape.horizon * level / LEVELS

    def _halved(self, after: RTSBelief, now: Stage, ones: float, users: float) -> RTSBelief:
        """P(G > c) ≤ 0.1 + se: the level is enough, otherwise a larger one is needed."""
        middle = (after.low + after.high) // 2
        error = float(np.sqrt((self.noise.variance + TAIL * (1.0 - TAIL)) / users))
        low, high = (after.low, middle) if ones / users <= TAIL + error else (middle, after.high)
        if now.halving is not None and now.halving + 1 < HALVINGS:
            return after._replace(low=low, high=high)
        levels = after.levels.copy()
        levels[now.period] = high
        return after._replace(low=0, high=LEVELS, levels=levels)


def schedule(episodes: int) -> tuple[Stage, ...]:
    """The public schedule: at each start the range is chosen, and until the next one returns are asked.

    >>> [stage.users for stage in schedule(20_000) if stage.halving is not None][:3], len(schedule(20_000))
    ([266, 266, 266], 80)
    """
    each, batch = int(RANGE_SHARE * episodes) // HALVINGS, max(1, episodes // BATCHES)
    if each < 1:
        raise InvalidInput(
            f"ldp-rts asks {RANGE_SHARE:.0%} of the users for the range of returns, in {HALVINGS} questions; "
            f"{episodes} episodes are too few, run at least {int(np.ceil(HALVINGS / RANGE_SHARE))}"
        )
    found: list[Stage] = []
    ends = [int(start * episodes) for start in RANGE_STARTS[1:]] + [episodes]
    for period, end in enumerate(ends):
        found += [Stage(users=each, period=period, halving=k) for k in range(HALVINGS)]
        left = end - sum(stage.users for stage in found)
        parts = split_evenly(left, max(1, round(left / batch)))
        found += [Stage(users=users, period=period, halving=None) for users in parts]
    return tuple(found)


def make_ldp_rts(request: ReturnRequest) -> LDPRTS:
    """The learner that a request amounts to."""
    if request.constants not in (None, "none") or request.z is not None:
        raise InvalidInput(f"{request.name} has a prior instead of confidence widths; remove constants and z")
    return LDPRTS(shape=request.shape, episodes=request.episodes, noise=request.noise)
