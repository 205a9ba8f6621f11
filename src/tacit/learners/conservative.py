"""Conservative exploration: bucb that loses at most a public budget against what people do already.

    first     batches play the baseline, until its value is known as well as the budget asks for
    then      explorers            bucb's optimistic policies, worth nothing until proven
              the candidate        the policy that the model likes best, kept until another one is clearly better
              everybody else       the baseline, or an earlier candidate that is proven to be at least as good
    last      the candidate, as far as the budget covers it

How many explore is decided by the worst case: the largest loss against the baseline among all values of the arms that
agree with what was released (`tacit.planning.loss_budget`). By Lemma B2 (a budget that holds) stage and total budgets
are kept with probability at least 1 - failure_prob, whatever the world is like; the model that explorers and candidate
are planned in need not be right. Schedule, queries and noise are those of bucb: who follows which policy is decided
from releases and public numbers, so the certificate is the same.

BUCB with constants 'valid': the same batches, planned in bands that contain V* with probability 1 - β.

Bands (`tacit.planning.valid_bands`, Lemma W4 (valid bands)) hold whatever the policies were, so everything around them
is free. An eighth of every mixture is optimistic for their upper ends, the others follow the practical rule among the
actions that the bands do not exclude; the last batch is cautious for their lower ends. Ties go to the practical rule.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require_real
from tacit.learners.batch_bands import BETA, confidence_of, evidence_of, interval_in
from tacit.learners.bucb import BUCB, BUCBBelief
from tacit.learners.contract import PlanningLearner, StageRequest, statistics_of
from tacit.learners.sdp_pe_plus import EVERYTHING
from tacit.planning.dynamic import value_of
from tacit.planning.loss_budget import MIN_BUDGET, LossBudget, Polytope, Radii, Standing, mean_bounds, mixed, radii_of
from tacit.planning.valid_bands import Bands, ValueInterval, cautious_plan, widen_nothing, write_bands
from tacit.planning.weighted_rows import ProvedBands, Rows
from tacit.policies import DeterministicPolicy, Policy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics

VALID_GROWTH: Final = 2.0
"""How much larger than the one before a batch is: fewer batches carry less noise, and bands weigh little else."""


class BandBelief(NamedTuple):
    """The belief of BUCB, and the bands that everything released so far leaves."""

    transitions: Floats
    """[B,H,S,A,S]"""
    visits: Floats
    """[B,H,S,A]"""
    rewards: Floats
    """[B,H,S,A]"""
    users: Floats
    """[B]"""
    policies: tuple[Ints, ...]
    shares: tuple[Floats, ...]
    upper: Floats
    """[H+1,S]"""
    lower: Floats
    """[H+1,S]"""
    q_upper: Floats
    """[H,S,A]"""
    q_lower: Floats
    """[H,S,A]"""
    sampling: Floats
    """[H,S,A]: the part of a row's width that more people make smaller like a root."""
    noise: Floats
    """[H,S,A]: the part that they make smaller in proportion."""

    @property
    def bands(self) -> Bands:
        """What is known of V* and Q*."""
        return Bands(self.upper, self.lower, self.q_upper, self.q_lower)


class ValidBUCB(BUCB):
    """BUCB that plans in valid bands and ends with an interval of V*."""

    growth = VALID_GROWTH

    def __init__(self, *, beta: float = BETA, **common: Any) -> None:
        super().__init__(**common)
        self.constants: Constants = "valid"
        self.beta = require_real("beta", beta, low=0.0, high=1.0, open_low=True)
        self.sure = confidence_of(self, plans=len(self.batches), beta=beta)

    def begin(self) -> BandBelief:  # type: ignore[override]
        """Nothing was released, and V* may be anything."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        wide = widen_nothing(H, S, A)
        return BandBelief(*super().begin(), *wide, sampling=np.zeros((H, S, A)), noise=wide.q_upper.copy())

    def proved(self, belief: BandBelief) -> ProvedBands:  # type: ignore[override]
        """The bands so far."""
        return ProvedBands(belief.bands, belief.sampling, belief.noise)

    def exploiter(self, belief: BandBelief, model: Rows, rng: np.random.Generator) -> DeterministicPolicy:  # type: ignore[override]
        """The policy that is cautious in the bands; where actions tie, what the practical rule exploits."""
        otherwise = super().exploiter(belief, model, rng)  # type: ignore[arg-type]
        return DeterministicPolicy(cautious_plan(belief.bands, otherwise.actions))

    def last(self, belief: BandBelief, plan: Plan[BatchQuery], rng: np.random.Generator) -> Plan[BatchQuery]:  # type: ignore[override]
        """The practical rule's policy, as in version 0.8.0: the record of a study that ended early replays."""
        if len(belief.users) == 0:
            return Plan(policy=plan.policy, users=None, query=None)
        policy = super().exploiter(belief, self.model(belief)[0], rng)  # type: ignore[arg-type]
        return Plan(policy=policy, users=None, query=None)

    def update(self, belief: BandBelief, released: PrivateStatistics[CountStatistics]) -> BandBelief:  # type: ignore[override]
        """Keep the batch, projected, and tighten the bands."""
        kept = cast("BandBelief", super().update(belief, released))  # type: ignore[arg-type]
        bands = Bands(*(np.array(part) for part in belief.bands))
        sampling, noise = np.zeros_like(belief.sampling), np.zeros_like(belief.noise)
        write_bands(evidence_of(self, kept), self.sure, bands, sampling, noise)
        return kept._replace(**bands._asdict(), sampling=sampling, noise=noise)

    def interval(self, belief: BandBelief) -> ValueInterval:  # type: ignore[override]
        """Where V* lies."""
        return interval_in(self, belief, belief.bands, self.sure, self.beta)


def make_bucb(request: StageRequest) -> BUCB:
    """The learner that a request amounts to: practical, or in valid bands; steps apart or shared."""
    start = request.started("bucb")
    if request.log is not None and (request.constants == "valid" or request.shape.support is not None or start):
        raise NotSupported("bucb starts with a log by the practical rule, without baseline and declared support only")
    common: dict[str, Any] = {
        "shape": request.shape,
        "episodes": request.episodes,
        "noise": request.noise,
        "z": request.z,
        "pooled": request.options.get("share_across_steps") == "true",
        "sizes": request.sizes,
    }
    if request.constants == "valid":
        if request.shape.support is not None:
            raise NotSupported("constants 'valid' allow no declared support; remove it, or use constants 'practical'")
        if start is not None:
            raise NotSupported(
                "bucb starts from a baseline, and keeps to a loss budget, by the practical rule only; use constants "
                "'practical'"
            )
        return ValidBUCB(**common)
    request.practical_only("bucb")
    if start is not None and request.shape.support is not None:
        raise NotSupported(
            "bucb starts from a baseline, and keeps to a loss budget, on all counters only; leave the declared support "
            "out"
        )
    return BUCB(start=start, log=request.log, **common)


MAX_FIRST: Final = 0.1
"""The share of the users who play the baseline before anybody explores, at most."""
CANDIDATE_MARGIN: Final = 0.0025
"""A new candidate replaces the old one if the model finds it better by this share of the largest return."""
MAX_COMPARED: Final = 4
"""How many candidates are compared with the baseline at each stage."""

Group = tuple[DeterministicPolicy, int]


class ConservativeBelief(NamedTuple):
    """The belief of bucb, and what was released about the arms; arm 0 is the baseline."""

    inner: BUCBBelief
    tables: tuple[Ints, ...]
    """[H,S] of every candidate; empty for the baseline and for the explorers of a stage."""
    current: int
    """The arm of the candidate; 0: there is none, or it is what people do already."""
    shares: tuple[Floats, ...]
    """[arms] of every batch that was planned: which part followed which arm."""
    totals: Floats
    """[B]: the released sums of returns, in shares of H."""
    users: Floats
    """[B]"""
    variance: Floats
    """[B]: of the noise in one released reward counter."""
    unmeasured: float
    """Users of stages that were given up who did not follow the baseline: nobody knows what they lost."""


class Conservative(PlanningLearner[ConservativeBelief, BatchQuery]):
    """Baseline, candidate and explorers in public shares that a budget covers in the worst case."""

    asks = BatchQuery

    def __init__(self, inner: BUCB, *, baseline: Policy, budget: LossBudget, episodes: int) -> None:
        self.inner, self.baseline, self.budget = inner, baseline, budget
        self.name, self.shape, self.z = inner.name, inner.shape, inner.z
        self.constants: Constants = inner.constants
        self.stages, self.batches, self.following = inner.stages, inner.batches, inner.following
        self.std, self.covariance = inner.std, inner.covariance
        self.radii = radii_of(len(self.batches), budget.failure_prob)
        self.tail = 0.0 if inner.scale == 0.0 else tail_of_bits(self.radii, self.shape, np.diag(self.covariance))
        """How much farther than Gaussian noise the noise of few shuffled bits may move a sum, in shares of H."""
        self.most = budget.total * episodes
        """What all users together may lose, in shares of H."""
        # √(ℓ/2n) ≤ total/2, or a tenth of the users: whichever is less
        enough = min(MAX_FIRST * episodes, 2.0 * self.radii.log_term / max(budget.total, MIN_BUDGET) ** 2)
        before = np.cumsum([0, *self.stages[:-1]])
        self.first = max(1, int(np.searchsorted(before, enough)))
        """How many batches play the baseline only."""
        if self.first >= len(self.stages):
            raise InvalidInput(f"a loss budget needs batches to explore in, got {episodes} episodes; run more")

    @property
    def settings(self) -> dict[str, float | str]:
        """The public numbers of the budget."""
        return {
            "loss_budget": self.budget.total,
            "stage_loss_budget": self.budget.most_of_a_stage,
            "budget_failure_prob": self.budget.failure_prob,
        }

    def begin(self) -> ConservativeBelief:
        """Nothing was released."""
        return ConservativeBelief(
            inner=self.inner.begin(),
            tables=(self._no_table(),),
            current=0,
            shares=(),
            totals=np.zeros(0),
            users=np.zeros(0),
            variance=np.zeros(0),
            unmeasured=0.0,
        )

    def plan(self, belief: ConservativeBelief, rng: np.random.Generator) -> tuple[ConservativeBelief, Plan[BatchQuery]]:
        """Spread the next users over the arms, as the budget allows."""
        belief = self._without_given_up(belief)
        stage = len(belief.users)
        if stage < self.first:
            inner = self.inner.followed(belief.inner, (), self.stages[stage])
            after = belief._replace(inner=inner, shares=(*belief.shares, np.ones(1)))
            return after, Plan(policy=self.baseline, users=self.stages[stage], query=EVERYTHING)
        last, users = stage == len(self.stages) - 1, self.stages[stage]
        model, rho = self.inner.model(belief.inner)
        belief = self._with_candidate(belief, model, rng)
        polytope, arm = self.polytope(belief), belief.current
        costs = self._costs(belief, polytope)
        rest = min(costs, key=costs.__getitem__)  # 0, the baseline, costs nothing
        if users == 0:  # the study is over, and serves whoever comes
            return self._served(belief, costs, rest)
        allowed = min(self.budget.most_of_a_stage * users, self.most - self.lost(belief, polytope))
        unseen = polytope.worst(_unit(len(belief.tables), 0))
        chosen = mixed(
            users=users, allowed=allowed, gain=-costs[rest], unseen=unseen, candidate=costs[arm], last=last
        )  # fmt: skip
        explorers = self.inner.explorers(belief.inner, model, rho, chosen.explorers, rng) if chosen.explorers else ()
        return self._spread(belief, explorers, chosen.candidates, rest, last=last)

    def last(self, belief: ConservativeBelief, plan: Plan[BatchQuery], rng: np.random.Generator) -> Plan[BatchQuery]:
        """The candidate, if the budget covers it."""
        belief = self._without_given_up(belief)
        if len(belief.users) == 0:
            return Plan(policy=self.baseline, users=None, query=None)
        belief = self._with_candidate(belief, self.inner.model(belief.inner)[0], rng)
        costs = self._costs(belief, self.polytope(belief))
        return self._served(belief, costs, min(costs, key=costs.__getitem__))[1]

    def update(self, belief: ConservativeBelief, released: PrivateStatistics[CountStatistics]) -> ConservativeBelief:
        """Keep the batch, and the sum of its returns."""
        batch = statistics_of(released, CountStatistics)
        n, H = float(batch.users[0]), self.shape.horizon
        # ΣR = Σ(R − M)/2 + nH/2, as R + M = nH is known: Σ R̃ − (Σ Ñ − nH)/2 has half the noise variance of Σ R̃
        total = float(batch.rewards.sum()) - (float(batch.visits.sum()) - n * H) / 2.0
        return belief._replace(
            inner=self.inner.update(belief.inner, released),
            totals=np.append(belief.totals, total / H),
            users=np.append(belief.users, n),
            variance=np.append(belief.variance, float(batch.variance[2])),
        )

    def polytope(self, belief: ConservativeBelief) -> Polytope:
        """What the arms may be worth: an interval for every batch, and one for all batches up to it."""
        B, arms = len(belief.users), len(belief.tables)
        each = np.zeros((B, arms))
        for b, shares in enumerate(belief.shares[:B]):
            each[b, : len(shares)] = shares
        done, off = np.cumsum(belief.users), self._off(belief)
        totals = np.concatenate([belief.totals, np.cumsum(belief.totals)])
        sums = zip(totals, np.concatenate([belief.users, done]), np.concatenate(off), strict=True)
        found = [mean_bounds(total, users, self.radii.log_term, off=noise) for total, users, noise in sums]
        together = np.cumsum(each * belief.users[:, np.newaxis], axis=0) / done[:, np.newaxis]
        bounds = np.array(found).reshape(-1, 2)
        return Polytope(np.vstack([each, together]), bounds[:, 0], bounds[:, 1])

    def lost(self, belief: ConservativeBelief, polytope: Polytope) -> float:
        """The most that all users so far may have lost, in shares of H: max Σ_i N_i (v_0 − v_i)."""
        weights = np.zeros(len(belief.tables))
        for users, shares in zip(belief.users, belief.shares, strict=False):
            weights[: len(shares)] -= users * shares
            weights[0] += users
        return polytope.worst(weights) + belief.unmeasured

    def standing(self, belief: ConservativeBelief) -> Standing:
        """What the polytope says: its least and largest value of the baseline, and of the candidate's gain."""
        arms, gain = len(belief.tables), None
        polytope, usual = self.polytope(belief), _unit(arms, 0)
        if belief.current > 0:
            more = _unit(arms, belief.current) - usual
            gain = (-polytope.worst(-more), polytope.worst(more))
        return Standing(
            baseline=(-polytope.worst(-usual), polytope.worst(usual)),
            gain=gain,
            lost=self.lost(belief, polytope) * self.budget.total / self.most,
            budget=self.budget.total,
        )

    def _off(self, belief: ConservativeBelief) -> tuple[Floats, Floats]:
        """How far noise may move the sum of every batch, and of all batches up to it: z √(SA v/2H), tails added."""
        B, shape = len(belief.users), self.shape
        scale = self.radii.z * np.sqrt(shape.num_states * shape.num_actions / (2.0 * shape.horizon))
        covariance = self.covariance[:B, :B]
        stated = np.diag(covariance)
        each = np.maximum(stated, belief.variance)
        more = float(np.max(each / np.maximum(stated, 1e-300), initial=1.0)) if stated.any() else 1.0
        together = np.array([covariance[: b + 1, : b + 1].sum() for b in range(B)]) * more
        return scale * np.sqrt(each) + self.tail, scale * np.sqrt(np.maximum(together, 0.0)) + self.tail

    def _with_candidate(self, belief: ConservativeBelief, model: Rows, rng: np.random.Generator) -> ConservativeBelief:
        """The belief with its candidate: the old one, unless the model finds the new one clearly better."""
        new, old = self.inner.exploiter(belief.inner, model, rng), self._policy_of(belief, belief.current)
        if self._worth(model, new) <= self._worth(model, old) + CANDIDATE_MARGIN * self.shape.horizon:
            return belief
        if isinstance(self.baseline, DeterministicPolicy) and np.array_equal(new.actions, self.baseline.actions):
            return belief._replace(current=0)
        for arm in self._candidates(belief):
            if np.array_equal(belief.tables[arm], new.actions):
                return belief._replace(current=arm)
        return belief._replace(tables=(*belief.tables, new.actions), current=len(belief.tables))

    def _worth(self, model: Rows, policy: Policy) -> float:
        """The value of a policy in the model, from an average first state; for choices only, never for bounds."""
        stages = [min(h, len(model.r) - 1) for h in range(self.shape.horizon)]
        values = value_of(model.P[stages], model.r[stages], policy.probabilities(self.shape.num_actions))
        return float(values[0].mean())

    def _costs(self, belief: ConservativeBelief, polytope: Polytope) -> dict[int, float]:
        """What one follower of each known arm may lose against the baseline, at most."""
        compared = {*self._candidates(belief)[-MAX_COMPARED:], belief.current} - {0}
        each = {i: polytope.worst(_unit(len(belief.tables), 0) - _unit(len(belief.tables), i)) for i in compared}
        return {0: 0.0, **each}

    def _spread(
        self,
        belief: ConservativeBelief,
        explorers: tuple[Group, ...],
        candidates: int,
        rest: int,
        *,
        last: bool,
    ) -> tuple[ConservativeBelief, Plan[BatchQuery]]:
        """The plan, and the belief once it is made."""
        stage = len(belief.users)
        users, exploring = self.stages[stage], sum(count for _, count in explorers)
        left = users - exploring - candidates
        tables = (*belief.tables, self._no_table()) if exploring else belief.tables
        shares = np.zeros(len(tables))
        shares[belief.current] += candidates / users
        shares[rest] += left / users
        if exploring:
            shares[-1] = exploring / users
        final, others = self._policy_of(belief, belief.current), self._policy_of(belief, rest)
        groups: tuple[tuple[Policy, int], ...] = (*explorers, (others, left)) if left else explorers
        own = [(policy, count) for policy, count in (*groups, (final, candidates)) if count > 0]
        told = [(p, n) for p, n in own if isinstance(p, DeterministicPolicy) and p is not self.baseline]
        inner = self.inner.followed(belief.inner, told, users)
        after = belief._replace(inner=inner, tables=tables, shares=(*belief.shares, shares))
        query = None if last else EVERYTHING
        return after, Plan(policy=final, users=users, query=query, groups=groups)

    def _served(
        self, belief: ConservativeBelief, costs: dict[int, float], rest: int
    ) -> tuple[ConservativeBelief, Plan[BatchQuery]]:
        """The candidate, if its followers lose no more than the budget in the worst case; else what costs least."""
        final = self._policy_of(belief, belief.current)
        covered = costs[belief.current] <= self.budget.total
        groups = () if covered else ((self._policy_of(belief, rest), 1),)
        return belief, Plan(policy=final, users=1 if groups else None, query=None, groups=groups)

    def _policy_of(self, belief: ConservativeBelief, arm: int) -> Policy:
        return self.baseline if arm == 0 else DeterministicPolicy(belief.tables[arm])

    def _without_given_up(self, belief: ConservativeBelief) -> ConservativeBelief:
        """What was planned for stages that were given up is unmeasured: in the worst case all of it was lost."""
        B = len(belief.users)
        given_up = belief.shares[B:]
        if not given_up:
            return belief
        inner = belief.inner._replace(policies=belief.inner.policies[:B], shares=belief.inner.shares[:B])
        lost = sum(self.stages[B] * float(1.0 - shares[0]) for shares in given_up)
        return belief._replace(inner=inner, shares=belief.shares[:B], unmeasured=belief.unmeasured + lost)

    def _candidates(self, belief: ConservativeBelief) -> list[int]:
        return [arm for arm, table in enumerate(belief.tables) if len(table) > 0]

    def _no_table(self) -> Ints:
        return np.zeros((0, self.shape.num_states), dtype=np.int64)


def _unit(arms: int, arm: int) -> Floats:
    found = np.zeros(arms)
    found[arm] = 1.0
    return found


def tail_of_bits(radii: Radii, shape: CountShape, variances: Floats) -> float:
    """0 where the union bound has room for tails of bits, else z²/12H: Lemma B1 (returns behind released totals).

    κ = z⁴/(48 H S A v) is what a sum of centred bits exceeds the exponent of Gaussian noise by.
    """
    B, cells = len(variances), shape.horizon * shape.num_states * shape.num_actions
    if not variances.any():
        return 0.0
    kappa = radii.z**4 / (48.0 * cells * float(variances.min()))
    room = np.log1p((3.0 * B + 1.0) / ((B + 1.0) * (2.0 * B - 1.0)))
    return 0.0 if kappa <= room else radii.z**2 / (12.0 * shape.horizon)


def make_conservative(request: StageRequest) -> BUCB | Conservative:
    """The learner that a request amounts to: bucb, or bucb within its budget."""
    inner = make_bucb(request)
    if request.budget is None:
        return inner
    if request.baseline is None:
        raise InvalidInput("a loss budget needs a baseline, got none; name what people do already")
    return Conservative(inner, baseline=request.baseline, budget=request.budget, episodes=request.episodes)
