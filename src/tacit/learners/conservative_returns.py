"""Conservative exploration under local trust: ldp-rts that loses at most a public budget against the baseline.

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
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.ldp_rts import LDPRTS, RANGE_STARTS, ReturnRequest, RTSBelief, make_ldp_rts
from tacit.planning.loss_budget import GRID, MIN_BUDGET, LossBudget, Standing, mean_bounds, mixed
from tacit.policies import AnyPolicy, DeterministicPolicy, Policy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.returns import ReturnQuery, ReturnStatistics

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
