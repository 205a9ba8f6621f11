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

Conservative exploration under local trust: ldp-rts that loses at most a public budget against the baseline.

A batch of people follows the baseline and says one bit about the whole return (range H); that bounds the baseline from
above. Afterwards explorers (draws from the posterior), followers of the candidate (the mean of the posterior) and
everybody else (the baseline, or a candidate that is proven to be as good) share the batches, in public groups whose
bits are known apart. Questions about the range are asked of everybody else only. Bits bound values from below:

    v ≥ (C/H) (p̲ − f)/(1 − 2f)        p̲: lower bound of the mean bit (`mean_bounds`), f: how often bits are flipped

for each period of one range C, explorers together, every candidate by itself. One bit says little at a small epsilon:
a budget is used up by uncertainty unless many people come. Lemma B3 (a budget from bits).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require_count
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.schedules import grouped, split_evenly
from tacit.planning.loss_budget import GRID, MIN_BUDGET, LossBudget, Standing, mean_bounds, mixed
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


MAX_FIRST: Final = 0.1
"""The share of the users who play the baseline before anybody explores, at most."""
MAX_CANDIDATES: Final = 20
"""After so many candidates the last one stays."""
CANDIDATE_MARGIN: Final = 0.01
"""A new candidate replaces the old one if its posterior mean is better by this share of the range."""
PERIODS: Final = len(RANGE_STARTS)


class ReturnsBelief(NamedTuple):
    """The belief of ldp-rts, and the bits of every arm; arm 0 is the baseline, arms 1.. are candidates."""

    inner: RTSBelief
    started: bool
    """Whether the baseline was measured."""
    tables: Ints
    """[candidates, S]"""
    current: int
    """The arm of the candidate; 0: there is none yet."""
    ones: Floats
    """[1 + arms, periods]: bits that are one; explorers first, then the arms."""
    users: Floats
    """[1 + arms, periods]: who sent them; of the baseline only those of its own batch, whose range is H."""
    planned: Ints
    """[groups]: the rows of the groups of the batch that was planned last, -1: not counted."""
    waiting: float = 0.0
    """People of that batch who may lose something: explorers, and followers of a candidate; 0 once it has answered."""
    unmeasured: float = 0.0
    """Such people of stages that were given up: nobody knows what they lost."""


class ConservativeReturns(PlanningLearner[ReturnsBelief, ReturnQuery]):
    """Baseline, candidate and explorers in public groups that a budget covers in the worst case."""

    asks = ReturnQuery

    def __init__(self, request: ReturnRequest, *, baseline: Policy, budget: LossBudget) -> None:
        self.baseline, self.budget, self.noise = baseline, budget, request.noise
        self.shape, self.name = request.shape, request.name
        self.z: float | None = None
        self.constants: Constants = "none"
        events = len(GRID) * (1 + PERIODS * (1 + MAX_CANDIDATES))
        self.log_term = math.log(events / budget.failure_prob)
        """ℓ: one event for every tilt, of the baseline, of the explorers and of every candidate in every period."""
        self.most = budget.total * request.episodes
        kept = 1.0 - 2.0 * self.noise.flip
        # √(ℓ/2n)/(1 − 2f) ≤ total/2, or a tenth of the users: whichever is less
        enough = 2.0 * self.log_term / max(kept * budget.total, MIN_BUDGET) ** 2
        self.first = max(1, int(min(MAX_FIRST * request.episodes, enough)))
        self.inner = LDPRTS(shape=request.shape, episodes=request.episodes - self.first, noise=request.noise)

    @property
    def settings(self) -> dict[str, float | str]:
        """The public numbers of the budget."""
        return {
            "loss_budget": self.budget.total,
            "stage_loss_budget": self.budget.most_of_a_stage,
            "budget_failure_prob": self.budget.failure_prob,
        }

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The users of every batch; the first one plays the baseline."""
        return (self.first, *self.inner.batch_sizes)

    def begin(self) -> ReturnsBelief:
        """Nobody was asked."""
        return ReturnsBelief(
            inner=self.inner.begin(),
            started=False,
            tables=np.zeros((0, self.shape.num_states), dtype=np.int64),
            current=0,
            ones=np.zeros((2, PERIODS)),
            users=np.zeros((2, PERIODS)),
            planned=np.zeros(0, dtype=np.int64),
        )

    def plan(self, belief: ReturnsBelief, rng: np.random.Generator) -> tuple[ReturnsBelief, Plan[ReturnQuery]]:
        """Spread the next users over the arms, as the budget allows; a batch that never answered is lost."""
        belief = belief._replace(waiting=0.0, unmeasured=belief.unmeasured + belief.waiting)
        if not belief.started:
            query = ReturnQuery(groups=(self.first,), bit="mean", level=float(self.shape.horizon))
            after = belief._replace(planned=np.array([1]))
            return after, Plan(policy=self.baseline, users=self.first, query=query)
        inner, plan = self.inner.plan(belief.inner, rng)
        if plan.query is None or plan.users is None:
            return belief, self._served(belief)
        belief = self._with_candidate(belief._replace(inner=inner))
        costs, unseen = self.costs(belief), self.highest(belief)
        rest = min(costs, key=costs.__getitem__)
        if plan.query.bit == "tail":
            query = ReturnQuery(groups=(plan.users,), bit="tail", level=plan.query.level)
            after = belief._replace(planned=np.array([-1]))
            return after, Plan(policy=self._policy_of(belief, rest), users=plan.users, query=query)
        allowed = min(self.budget.most_of_a_stage * plan.users, self.most - self.lost(belief))
        chosen = mixed(
            users=plan.users,
            allowed=allowed,
            gain=-costs[rest],
            unseen=unseen,
            candidate=costs[belief.current],
            last=False,
        )
        return self._spread(belief, plan, chosen.explorers, chosen.candidates, rest)

    def last(self, belief: ReturnsBelief, plan: Plan[ReturnQuery], rng: np.random.Generator) -> Plan[ReturnQuery]:
        """The candidate, if the budget covers it."""
        return self._served(belief)

    def update(self, belief: ReturnsBelief, released: PrivateStatistics[ReturnStatistics]) -> ReturnsBelief:
        """Take the bits of every group in; ldp-rts gets those of policies that it can describe."""
        rows = belief.planned
        answers = statistics_of(released, ReturnStatistics).first(len(rows))
        now = 0 if not belief.started else self.inner.stages[belief.inner.stage].period
        belief = belief._replace(waiting=0.0)
        ones, users = belief.ones.copy(), belief.users.copy()
        counted = rows >= 0
        np.add.at(ones[:, now], rows[counted], answers.ones[counted])
        np.add.at(users[:, now], rows[counted], answers.groups[counted].astype(np.float64))
        after = belief._replace(ones=ones, users=users)
        if not belief.started:
            return after._replace(started=True)
        whole = self.inner.stages[belief.inner.stage].halving is not None
        told = np.ones(len(rows), dtype=bool) if whole else rows != -1
        if not told.any():
            return after._replace(inner=belief.inner._replace(stage=belief.inner.stage + 1))
        part = answers._replace(ones=answers.ones[told], groups=answers.groups[told])
        return after._replace(inner=self.inner.update(belief.inner, PrivateStatistics(part, released.claim)))

    def policy(self, belief: ReturnsBelief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The policy that is best in the mean of the posterior."""
        return self.inner.policy(belief.inner, planned)

    def highest(self, belief: ReturnsBelief) -> float:
        """The upper bound of what the baseline is worth, in shares of H."""
        if belief.users[1, 0] == 0.0:
            return 1.0
        _, high = mean_bounds(float(belief.ones[1, 0]), float(belief.users[1, 0]), self.log_term)
        return self._unflipped(high)

    def lowest(self, belief: ReturnsBelief, row: int, period: int) -> float:
        """The lower bound of what explorers (row 0) or a candidate were worth in a period, in shares of H."""
        n = float(belief.users[row, period])
        if n == 0.0:
            return 0.0
        low, _ = mean_bounds(float(belief.ones[row, period]), n, self.log_term)
        return self.inner.reach(int(belief.inner.levels[period])) * self._unflipped(low)

    def costs(self, belief: ReturnsBelief) -> dict[int, float]:
        """What one follower of each arm may lose against the baseline, at most."""
        high = self.highest(belief)
        arms = range(1, len(belief.tables) + 1)
        best = {arm: max(self.lowest(belief, 1 + arm, period) for period in range(PERIODS)) for arm in arms}
        return {0: 0.0, **{arm: high - low for arm, low in best.items()}}

    def lost(self, belief: ReturnsBelief) -> float:
        """The most that all users so far may have lost against the baseline, in shares of H."""
        high, costs = self.highest(belief), self.costs(belief)
        explored = sum(
            float(belief.users[0, period]) * (high - self.lowest(belief, 0, period)) for period in range(PERIODS)
        )
        followed = sum(float(belief.users[1 + arm].sum()) * cost for arm, cost in costs.items() if arm > 0)
        return explored + followed + belief.unmeasured * high

    def standing(self, belief: ReturnsBelief) -> Standing:
        """What bits prove: an upper bound of the baseline, and a lower one of the candidate's gain."""
        gain = None if belief.current == 0 else (-self.costs(belief)[belief.current], 1.0)
        return Standing(
            baseline=(0.0, self.highest(belief)),
            gain=gain,
            lost=self.lost(belief) * self.budget.total / self.most,
            budget=self.budget.total,
        )

    def _unflipped(self, share: float) -> float:
        return min(1.0, max(0.0, (share - self.noise.flip) / (1.0 - 2.0 * self.noise.flip)))

    def _with_candidate(self, belief: ReturnsBelief) -> ReturnsBelief:
        """The belief with its candidate: the old one, unless the posterior finds the new one clearly better."""
        new = self._table(self.inner.policy(belief.inner))
        if belief.current > 0:
            mean, _ = self.inner.posterior(belief.inner)
            worth = self.inner.features(np.stack([new, belief.tables[belief.current - 1]]))[:, :-1] @ mean
            if worth[0] <= worth[1] + CANDIDATE_MARGIN or len(belief.tables) >= MAX_CANDIDATES:
                return belief
        for number, table in enumerate(belief.tables):
            if np.array_equal(table, new):
                return belief._replace(current=number + 1)
        row = np.zeros((1, PERIODS))
        return belief._replace(
            tables=np.vstack([belief.tables, new[np.newaxis]]),
            current=len(belief.tables) + 1,
            ones=np.vstack([belief.ones, row]),
            users=np.vstack([belief.users, row]),
        )

    def _spread(
        self, belief: ReturnsBelief, plan: Plan[ReturnQuery], exploring: int, candidates: int, rest: int
    ) -> tuple[ReturnsBelief, Plan[ReturnQuery]]:
        """The plan of a batch that is asked for returns, and the belief once it is made."""
        users = plan.users or 0
        left = users - exploring - candidates
        groups: list[tuple[Policy, int]] = _first_of(plan, exploring)
        rows, asked = [0] * len(groups), [self._table(policy) for policy, _ in groups]
        if left > 0:
            groups.append((self._policy_of(belief, rest), left))
            rows.append(-1 if rest == 0 else 1 + rest)
        sizes = [count for _, count in groups]
        if candidates > 0:
            sizes.append(candidates)
            rows.append(1 + belief.current)
        asked += [belief.tables[row - 2] for row in rows if row > 1]
        query = plan.query
        if query is None:
            raise InvalidInput("a batch that is spread over arms must be asked something")
        told = np.stack(asked) if asked else np.zeros((0, self.shape.num_states), dtype=np.int64)
        inner, planned = belief.inner._replace(asked=told), np.array(rows, dtype=np.int64)
        after = belief._replace(inner=inner, planned=planned, waiting=float(users - left))
        new = ReturnQuery(groups=tuple(sizes), bit=query.bit, level=query.level)
        final = self._policy_of(belief, belief.current)
        return after, Plan(policy=final, users=users, query=new, groups=tuple(groups))

    def _served(self, belief: ReturnsBelief) -> Plan[ReturnQuery]:
        """The candidate, if its followers lose no more than the budget in the worst case; else what costs least."""
        belief = self._with_candidate(belief)
        costs = self.costs(belief)
        covered = costs[belief.current] <= self.budget.total
        served = self._policy_of(belief, belief.current if covered else min(costs, key=costs.__getitem__))
        return Plan(policy=self.policy(belief), users=1, query=None, groups=((served, 1),))

    def _policy_of(self, belief: ReturnsBelief, arm: int) -> Policy:
        if arm == 0:
            return self.baseline
        return DeterministicPolicy(np.tile(belief.tables[arm - 1], (self.shape.horizon, 1)))

    @staticmethod
    def _table(policy: AnyPolicy) -> Ints:
        if not isinstance(policy, DeterministicPolicy):
            raise InvalidInput(f"ldp-rts draws deterministic policies, got a {type(policy).__name__}")
        return np.asarray(policy.actions[0])


def _first_of(plan: Plan[ReturnQuery], users: int) -> list[tuple[Policy, int]]:
    """The groups of a plan, scaled down to so many users: each one in turn gives up its share."""
    counts, found = np.array([count for _, count in plan.groups]), []
    ends = np.floor(np.cumsum(counts) * (users / counts.sum()) + 1e-9).astype(np.int64)
    for (policy, _), count in zip(plan.groups, np.diff(ends, prepend=0), strict=True):
        if count > 0:
            found.append((policy, int(count)))
    return found


def make_conservative_returns(request: ReturnRequest) -> LDPRTS | ConservativeReturns:
    """The learner that a request amounts to: ldp-rts, or ldp-rts within its budget."""
    inner = make_ldp_rts(request)
    if request.budget is None:
        return inner
    if request.baseline is None:
        raise InvalidInput("a loss budget needs a baseline, got none; name what people do already")
    return ConservativeReturns(request, baseline=request.baseline, budget=request.budget)
