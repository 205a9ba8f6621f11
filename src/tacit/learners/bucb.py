"""BUCB: optimism in batches for central and shuffle trust, with rows that weigh their batches and flows that add up.

Every batch runs a mixture of optimistic policies, planned one after the other with hallucinated visits; the last one
exploits lower bounds and releases nothing. What it does with a release is post-processing:

1. the counts of a batch are projected onto what a flow of n people can be (`tacit.planning.flow_projection`);
2. each row of the model weighs the batches by what they saw of it against their noise, whose covariance over batches
   is public (`row_weights`): first by the batches' sizes, then twice by the visits of their mixtures in the model;
3. unknown rows are worth half of what remains.

`share_across_steps=true` is a public declaration that transitions and rewards do not depend on the step: rows share
the steps, and every step of a row weighs what it saw against its noise, as its batches do: a step that cannot be
reached yet would add noise only.
With a `log` its released totals are batch 0: nobody plays uniformly, rows were met as often as its released visits say,
and its noise stands beside that of the batches, independent of theirs.
`start=baseline` begins with what people do already instead of uniform play, and keeps to it where nothing is known.
Schedule, noise and z are the same everywhere. Nothing about its regret is proved under `constants=practical`; with
`constants=valid` it plans in proved bands of V* (`ValidBUCB`). Every run ends with an interval of V*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.learners.batch_bands import value_interval
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.schedules import given_stages, grouped, growing_batches, split_evenly
from tacit.learners.sdp_pe_plus import EVERYTHING
from tacit.planning.flow_projection import counters_of
from tacit.planning.valid_bands import ValueInterval
from tacit.planning.weighted_rows import (
    ProvedBands,
    Rows,
    blank_rows,
    mixture_visits,
    optimists,
    pessimist,
    policy_visits,
    row_weights,
    weighted_rows,
)
from tacit.planning.widths import DEFAULT_Z
from tacit.policies import DeterministicPolicy, Policy, uniform_policy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.batches import BatchNoise, BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics

POLICIES: Final = 32
"""How many optimistic policies share a batch."""
GROWTH: Final = 1.25
"""How much larger than the one before a batch is."""
FIRST: Final = 1.5
"""The first batch has so many users per pair (s,a) and standard deviation of the noise."""
EARLIEST: Final = 20
"""The first batch is at most this part of the run."""
MODEL_SHARE: Final = 0.9
"""The share of a batch that is taken to go where the model says; the rest is spread evenly."""
ROUNDS: Final = 2
RESOLUTION: Final = 1e-9
"""Shares of a batch below this are rounding."""


class BUCBBelief(NamedTuple):
    """What was released so far, projected, and which policies the batches followed."""

    transitions: Floats
    """[B,H,S,A,S]; over a declared support [B, released transitions]"""
    visits: Floats
    """[B,H,S,A]"""
    rewards: Floats
    """[B,H,S,A]"""
    users: Floats
    """[B]"""
    policies: tuple[Ints, ...]
    """[J,H,S] of every batch that was planned; the first one, of uniform play or the baseline, is empty."""
    shares: tuple[Floats, ...]
    """[J]: which part of the batch followed each policy; who is missing followed the baseline."""


class BUCB(PlanningLearner[BUCBBelief, BatchQuery]):
    """Optimistic mixtures in batches that grow by a quarter; the last batch exploits and releases nothing."""

    asks = BatchQuery
    over_support = True
    growth = GROWTH

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        noise: BatchNoise,
        z: float | None = None,
        pooled: bool = False,
        name: str = "bucb",
        sizes: tuple[int, ...] | None = None,
        start: Policy | None = None,
        log: CountStatistics | None = None,
    ) -> None:
        require(shape.staged, "bucb takes counts that keep the steps apart (staged)", shape.staged)
        self.name, self.shape, self.pooled = name, shape, pooled
        self.start = start
        """What the first batch follows; None: every action alike."""
        self.constants: Constants = "practical"
        self._z = require_real("z", DEFAULT_Z if z is None else z, low=0.0)
        self.z: float | None = self._z
        episodes = require_count("episodes", episodes)
        self.std = noise.batch_std(max(2, episodes // EARLIEST) if sizes is None else max(sizes), EVERYTHING)
        self.counters = counters_of(shape, pooled)
        """What is released of a batch, and the rows of the model."""
        # n₁ = 1.5 σ S A, at least 2, at most K/20; the states that can be reached count
        states = float((self.counters.even[..., 0] > 0.0).sum(axis=1).mean())
        first = min(FIRST * self.std * states * shape.num_actions, episodes / EARLIEST)
        own = growing_batches(episodes, first=first, growth=self.growth) if sizes is None else ()
        self.stages = own or given_stages(sizes, episodes)
        """Users of each stage; the last one exploits."""
        if len(self.stages) < 2:
            raise InvalidInput(f"bucb needs at least two batches, got {episodes} episodes; run more")
        self.batches = tuple(PlannedBatch(users=users, query=EVERYTHING) for users in self.stages[:-1])
        following = tuple(max(1, users) for users in self.stages[1:])
        self.following = following
        self.covariance = noise.batch_covariance([batch.users for batch in self.batches], following)
        """[B,B]: of the noise in one counter over the batches; public."""
        self.log = log
        """The totals of a log, batch 0; None: there is none."""
        self.before = 0 if log is None else 1
        if log is not None:
            # One counter of the log has the variance of its sums of rewards.
            alone = np.array([[float(log.variance[2])]])
            none = np.zeros((1, len(self.covariance)))
            self.covariance = np.block([[alone, none], [none.T, self.covariance]])
        self.scale = float(noise.count_precision().scale.max())
        """The sub-gamma scale of that noise."""

    def begin(self) -> BUCBBelief:
        """Nothing was released but the log, if there is one."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        empty = BUCBBelief(
            transitions=np.zeros((0, *self.counters.shape)),
            visits=np.zeros((0, H, S, A)),
            rewards=np.zeros((0, H, S, A)),
            users=np.zeros(0),
            policies=(),
            shares=(),
        )
        if self.log is None:
            return empty
        # Everybody who reported, unless the released first steps say that covers, who count for nothing, were many.
        found, people = float(self.log.visits[0].sum()), float(self.log.users[0])
        doubt = 3.0 * float(np.sqrt(self.log.variance[1] * S * A))
        people = people if found > people - doubt else max(1.0, np.rint(found))
        return self._kept(self.followed(empty, (), 1), self.log, people)

    def plan(self, belief: BUCBBelief, rng: np.random.Generator) -> tuple[BUCBBelief, Plan[BatchQuery]]:
        """A mixture of optimistic policies, everybody assigned by the learner's own coins."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        stage = len(belief.users) - self.before
        if len(belief.users) == 0:
            first = uniform_policy(H, S, A) if self.start is None else self.start
            return self.followed(belief, (), self.stages[0]), Plan(policy=first, users=self.stages[0], query=EVERYTHING)
        model, rho = self.model(belief)
        if stage == len(self.stages) - 1:
            return belief, Plan(policy=self.exploiter(belief, model, rng), users=None, query=None)
        users = self.stages[stage]
        groups = self.explorers(belief, model, rho, users, rng)
        plan = Plan(policy=groups[0][0], users=users, query=EVERYTHING, groups=groups)
        return self.followed(belief, groups, users), plan

    def last(self, belief: BUCBBelief, plan: Plan[BatchQuery], rng: np.random.Generator) -> Plan[BatchQuery]:
        """The policy that is best for lower bounds, if anything is known."""
        known = len(belief.users) > 0
        policy = self.exploiter(belief, self.model(belief)[0], rng) if known else plan.policy
        return Plan(policy=policy, users=None, query=None)

    def explorers(
        self, belief: BUCBBelief, model: Rows, rho: Floats, users: int, rng: np.random.Generator
    ) -> tuple[tuple[DeterministicPolicy, int], ...]:
        """Optimistic policies for so many users, and who follows which."""
        J, (H, S) = min(POLICIES, users), (self.shape.horizon, self.shape.num_states)
        policies = np.zeros((J, H, S), dtype=np.int64)
        enough = max(1.0, 4.0 * self.std)
        optimists(
            model, self.proved(belief), rho, self._z, users / J, enough, rng.random((J, H, S)), policies
        )  # fmt: skip
        return grouped(policies, split_evenly(users, J))

    def proved(self, belief: BUCBBelief) -> ProvedBands | None:
        """The bands that a mixture keeps to; None: it has none."""
        return None

    def exploiter(self, belief: BUCBBelief, model: Rows, rng: np.random.Generator) -> DeterministicPolicy:
        """The policy that is best for lower bounds; where nobody tried its action, what people do already."""
        H, S = self.shape.horizon, self.shape.num_states
        actions = pessimist(model, H, self._z, rng.random((H, S)))
        if self.start is not None:
            usual = self.start.probabilities(self.shape.num_actions).argmax(axis=2)
            rows = np.broadcast_to(model.n, (H, *model.n.shape[1:]))
            seen = np.take_along_axis(rows, actions[..., np.newaxis], axis=2)[..., 0]
            actions = np.where(seen > 0.0, actions, usual)
        return DeterministicPolicy(actions)

    def followed(self, belief: BUCBBelief, groups: Sequence[tuple[DeterministicPolicy, int]], users: int) -> BUCBBelief:
        """The belief once a batch is planned in which these groups follow policies of their own."""
        none = np.zeros((0, self.shape.horizon, self.shape.num_states), dtype=np.int64)
        merged = np.stack([policy.actions for policy, _ in groups]) if groups else none
        shares = np.array([count / users for _, count in groups])
        # A stage that was given up and is planned anew leaves no trace: what was followed belongs to what was released
        done = len(belief.users)
        return belief._replace(policies=(*belief.policies[:done], merged), shares=(*belief.shares[:done], shares))

    def update(self, belief: BUCBBelief, released: PrivateStatistics[CountStatistics]) -> BUCBBelief:
        """Keep the batch, projected."""
        batch = statistics_of(released, CountStatistics)
        return self._kept(belief, batch, float(batch.users[0]))

    def _kept(self, belief: BUCBBelief, batch: CountStatistics, people: float) -> BUCBBelief:
        flow = self.counters.taken(batch)
        if self.std > 0.0:
            flow = self.counters.project(flow, people)
        return belief._replace(
            transitions=np.concatenate([belief.transitions, flow.moved[np.newaxis]]),
            visits=np.concatenate([belief.visits, (flow.ones + flow.zeros)[np.newaxis]]),
            rewards=np.concatenate([belief.rewards, flow.ones[np.newaxis]]),
            users=np.append(belief.users, people),
        )

    def interval(self, belief: BUCBBelief) -> ValueInterval | None:
        """Where V* lies with probability 0.95, by valid bands, although this learner plans by the practical rule.

        None over a declared support, which may be wrong, and with a log: bands over these are not proved.
        """
        return value_interval(self, belief) if self.counters.full and self.log is None else None

    def model(self, belief: BUCBBelief) -> tuple[Rows, Floats]:
        """The model in which everything is planned, and the distribution of the first state."""
        S, A, B = self.shape.num_states, self.shape.num_actions, len(belief.users)
        covariance = self.covariance[:B, :B]
        even = self.counters.even[..., np.newaxis] * belief.users / (S * A)
        weights, variance = row_weights(even, covariance, together=self.pooled)
        rho = self._first_states(belief, weights, variance)
        model = self._rows(belief, weights, variance)
        for _ in range(ROUNDS):
            # m_b = 0.9 n_b · occupancy of the batch's mixture + 0.1 n_b / SA
            met = np.stack([self._met(belief, b, model, rho) for b in range(B)], axis=-1)
            seen = np.where(even > 0.0, MODEL_SHARE * met + (1.0 - MODEL_SHARE) * even, 0.0)
            weights, variance = row_weights(seen, covariance, together=self.pooled)
            model = self._rows(belief, weights, variance)
        return model, rho

    def _rows(self, belief: BUCBBelief, weights: Floats, variance: Floats) -> Rows:
        index = self.counters
        model = blank_rows(index, 1 if self.pooled else self.shape.horizon)
        weighted_rows(
            *index.cells, index.single, index.by_row(belief.transitions), belief.visits, belief.rewards, weights,
            variance, index.kept, model,
        )  # fmt: skip
        return model

    def _met(self, belief: BUCBBelief, b: int, model: Rows, rho: Floats) -> Floats:
        """How often the people of a batch met each row [H,S,A], according to the model."""
        found = np.zeros((self.shape.horizon, *model.r.shape[1:]))
        shares, users = belief.shares[b], float(belief.users[b])
        if b < self.before:
            return np.asarray(np.maximum(belief.visits[b], 0.0))
        if len(shares) > 0:
            mixture_visits(model, rho, belief.policies[b], belief.users[b] * shares, found)
        rest = 1.0 - float(shares.sum())
        if rest > RESOLUTION:
            # The others follow what the first batch follows: every action alike, or the baseline
            H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
            table = np.ones((H, S, A)) if self.start is None else self.start.probabilities(A)
            policy_visits(model, rho, rest * users, table, float(A) if self.start is None else 1.0, found)
        return found

    def _first_states(self, belief: BUCBBelief, weights: Floats, variance: Floats) -> Floats:
        """The distribution of the first state, from the released visits of the first step; noise explains the rest."""
        starts = self.counters.starts
        s = int(starts[0])
        found = np.tensordot(weights[0, s, 0], belief.visits[:, 0, starts], axes=1).sum(axis=1)
        noise = float(variance[0, s, 0]) * float(self.counters.kept.visits[0, s, 0])
        floor = max(0.5, 2.0 * float(np.sqrt(noise * self.shape.num_actions)))
        kept = np.where(found > floor, found, 0.0)
        rho = np.zeros(self.shape.num_states)
        rho[starts] = kept / kept.sum() if kept.sum() > 0.0 else 1.0 / len(kept)
        return rho
