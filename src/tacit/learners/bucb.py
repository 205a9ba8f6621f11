"""BUCB: optimism in batches for central and shuffle trust, with rows that weigh their batches and flows that add up.

Every batch runs a mixture of optimistic policies, planned one after the other with hallucinated visits; the last one
exploits lower bounds and releases nothing. What it does with a release is post-processing:

1. the counts of a batch are projected onto what a flow of n people can be (`tacit.planning.flow_projection`);
2. each row of the model weighs the batches by what they saw of it against their noise, whose covariance over batches
   is public (`row_weights`): first by the batches' sizes, then twice by the visits of their mixtures in the model;
3. unknown rows are worth half of what remains.

`pooled=true` is a public declaration that transitions and rewards do not depend on the step: rows sum over the steps.
`pooled=weighed` is the same declaration, and every step of a row weighs what it saw against its noise, as its batches
do: where nobody can be yet, a step would add noise only. `pooled=tested` pools steps in this way
until the released counts refute it (`tested_bucb`).
`start=baseline` begins with what people do already instead of uniform play, and keeps to it where nothing is known.
Schedule, noise and z are the same everywhere. Nothing about its regret is proved under `constants=practical`; with
`constants=valid` it plans in proved bands of V* (`bucb_valid`). Every run ends with an interval of V*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.learners.bands import Without, value_interval
from tacit.learners.contract import PlanningLearner, statistics_of
from tacit.learners.schedules import given_stages, grouped, growing_batches, split_evenly
from tacit.learners.sdp_pe_plus import EVERYTHING
from tacit.planning.flow_projection import FlowCounts, kept_variance, project
from tacit.planning.valid_bands import ValueInterval
from tacit.planning.weighted_rows import Rows, mixture_visits, optimists, pessimist, row_weights, weighted_rows
from tacit.planning.widths import DEFAULT_Z
from tacit.policies import DeterministicPolicy, Policy, uniform_policy
from tacit.protocol import Constants, Plan, Private
from tacit.released.batches import BatchNoise, BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics

__all__ = ["BUCB", "BUCBBelief", "first_states"]

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
    growth = GROWTH
    without: Without = "nothing"

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        noise: BatchNoise,
        z: float | None = None,
        pooled: bool = False,
        weighed: bool = False,
        name: str = "bucb",
        sizes: tuple[int, ...] | None = None,
        start: Policy | None = None,
    ) -> None:
        require(shape.staged, "bucb takes counts that keep the steps apart (staged)", shape.staged)
        self.name, self.shape, self.pooled = name, shape, pooled
        self.weighed = weighed
        """Whether the steps of a pooled row weigh what they saw; otherwise all of them weigh the same."""
        self.start = start
        """What the first batch follows; None: every action alike."""
        self.constants: Constants = "practical"
        self._z = require_real("z", DEFAULT_Z if z is None else z, low=0.0)
        self.z: float | None = self._z
        episodes = require_count("episodes", episodes)
        self.std = noise.batch_std(max(2, episodes // EARLIEST) if sizes is None else max(sizes), EVERYTHING)
        # n₁ = 1.5 σ S A, at least 2, at most K/20; of a declared support the states that can be reached count
        states = shape.num_states if shape.support is None else float(shape.support.reach.sum(axis=1).mean())
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
        self.scale = float(noise.count_precision().scale.max())
        """The sub-gamma scale of that noise."""

    def begin(self) -> BUCBBelief:
        """Nothing was released."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        return BUCBBelief(
            transitions=np.zeros((0, H, S, A, S)),
            visits=np.zeros((0, H, S, A)),
            rewards=np.zeros((0, H, S, A)),
            users=np.zeros(0),
            policies=(),
            shares=(),
        )

    def plan(self, belief: BUCBBelief, coins: np.random.Generator) -> tuple[BUCBBelief, Plan[BatchQuery]]:
        """A mixture of optimistic policies, everybody assigned by the learner's own coins."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        stage = len(belief.users)
        if stage == 0:
            first = uniform_policy(H, S, A) if self.start is None else self.start
            return self.followed(belief, (), self.stages[0]), Plan(policy=first, users=self.stages[0], query=EVERYTHING)
        model, rho = self.model(belief)
        if stage == len(self.stages) - 1:
            return belief, Plan(policy=self.exploiter(model, coins), users=None, query=None)
        users = self.stages[stage]
        groups = self.explorers(model, rho, users, coins)
        plan = Plan(policy=groups[0][0], users=users, query=EVERYTHING, groups=groups)
        return self.followed(belief, groups, users), plan

    def last(self, belief: BUCBBelief, plan: Plan[BatchQuery], coins: np.random.Generator) -> Plan[BatchQuery]:
        """The policy that is best for lower bounds, if anything is known."""
        known = len(belief.users) > 0
        policy = self.exploiter(self.model(belief)[0], coins) if known else plan.policy
        return Plan(policy=policy, users=None, query=None)

    def explorers(
        self, model: Any, rho: Floats, users: int, coins: np.random.Generator
    ) -> tuple[tuple[DeterministicPolicy, int], ...]:
        """Optimistic policies for so many users, and who follows which."""
        J, (H, S) = min(POLICIES, users), (self.shape.horizon, self.shape.num_states)
        policies = np.zeros((J, H, S), dtype=np.int64)
        self._explored(model, rho, users / J, coins.random((J, H, S)), policies)
        return grouped(policies, split_evenly(users, J))

    def exploiter(self, model: Any, coins: np.random.Generator) -> DeterministicPolicy:
        """The policy that is best for lower bounds; where nobody tried its action, what people do already."""
        H, S = self.shape.horizon, self.shape.num_states
        actions = self._exploited(model, coins.random((H, S)))
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

    def update(self, belief: BUCBBelief, released: Private[CountStatistics]) -> BUCBBelief:
        """Keep the batch, projected."""
        batch = statistics_of(released, CountStatistics)
        noisy = FlowCounts(batch.transitions[:-1], batch.rewards, batch.visits - batch.rewards)
        flow = project(noisy, float(batch.users[0])) if self.std > 0.0 else noisy
        transitions = np.concatenate([flow.moved, np.zeros_like(batch.transitions[:1])])
        return belief._replace(
            transitions=np.concatenate([belief.transitions, transitions[np.newaxis]]),
            visits=np.concatenate([belief.visits, (flow.ones + flow.zeros)[np.newaxis]]),
            rewards=np.concatenate([belief.rewards, flow.ones[np.newaxis]]),
            users=np.append(belief.users, float(batch.users[0])),
        )

    def interval(self, belief: BUCBBelief) -> ValueInterval | None:
        """Where V* lies with probability 0.95, by valid bands, although this learner plans by the practical rule."""
        return value_interval(self, belief)

    def _explored(self, model: Any, rho: Floats, visits: float, coins: Floats, policies: Ints) -> None:
        optimists(model, rho, self._z, visits, max(1.0, 4.0 * self.std), coins, policies)

    def _exploited(self, model: Any, coins: Floats) -> Ints:
        return pessimist(model, self.shape.horizon, self._z, coins)

    def model(self, belief: BUCBBelief) -> tuple[Any, Floats]:
        """The model in which everything is planned, and the distribution of the first state."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        together = self.pooled and self.weighed
        W, B = 1 if self.pooled and not together else H, len(belief.users)  # one weight for all steps, or one for each
        covariance = self.covariance[:B, :B]
        kept = self._kept()
        even = np.broadcast_to(H / W * belief.users / (S * A), (W, S, A, B))
        weights, variance = row_weights(even, covariance, together=together)
        rho = first_states(belief, weights[0, 0, 0], float(variance[0, 0, 0]) * 2.0 * kept[1][0])
        model = self._rows(belief, weights, variance, kept)
        for _ in range(ROUNDS):
            # m_b = 0.9 n_b · occupancy of the batch's mixture + 0.1 n_b / SA
            met = np.stack([self._met(belief, b, model, rho, W) for b in range(B)], axis=-1)
            seen = MODEL_SHARE * met + (1.0 - MODEL_SHARE) * even
            weights, variance = row_weights(seen, covariance, together=together)
            model = self._rows(belief, weights, variance, kept)
        return model, rho

    def _kept(self) -> tuple[Floats, Floats]:
        """What the projection leaves of the variance of a transition and of a reward cell, at each step."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        moves, rewards = kept_variance(H, S, A)
        return np.append(moves, 0.0), rewards

    def _rows(self, belief: BUCBBelief, weights: Floats, variance: Floats, kept: tuple[Floats, Floats]) -> Rows:
        L, S, A = 1 if self.pooled else self.shape.horizon, self.shape.num_states, self.shape.num_actions
        model = Rows(P=np.zeros((L, S, A, S)), **{name: np.zeros((L, S, A)) for name in Rows._fields[1:]})
        weighted_rows(
            belief.transitions, belief.visits, belief.rewards, weights, variance, *kept, self.pooled, model
        )  # fmt: skip
        return model

    def _met(self, belief: BUCBBelief, b: int, model: Rows, rho: Floats, steps: int) -> Floats:
        """How often the people of a batch met each row [steps,S,A], according to the model."""
        found = np.zeros((steps, *model.r.shape[1:]))
        shares, users = belief.shares[b], float(belief.users[b])
        if len(shares) == 0 and self.start is None:
            # Uniform play: everybody's visits, spread over the actions
            self._met_uniformly(users, model, rho, found)
        elif len(shares) > 0:
            mixture_visits(model, rho, belief.policies[b], belief.users[b] * shares, found)
        rest = 1.0 - float(shares.sum())
        if self.start is not None and rest > RESOLUTION:
            self._met_at_start(rest * users, self.start, model, rho, found)
        return found

    def _met_at_start(self, users: float, start: Policy, model: Rows, rho: Floats, found: Floats) -> None:
        at, table = rho * users, start.probabilities(self.shape.num_actions)
        for h in range(self.shape.horizon):
            each = at[:, np.newaxis] * table[h]
            found[min(h, len(found) - 1)] += each
            at = np.einsum("sa,sat->t", each, model.P[min(h, len(model.P) - 1)])

    def _met_uniformly(self, users: float, model: Rows, rho: Floats, found: Floats) -> None:
        at = rho * users
        for h in range(self.shape.horizon):
            each = at[:, np.newaxis] / found.shape[2]
            found[min(h, len(found) - 1)] += each
            at = np.einsum("sa,sat->t", np.broadcast_to(each, found.shape[1:]), model.P[min(h, len(model.P) - 1)])


def first_states(belief: BUCBBelief, weights: Floats, variance: float) -> Floats:
    """The distribution of the first state, from the released visits of the first step; what noise explains is none."""
    found = np.tensordot(weights, belief.visits[:, 0], axes=1).sum(axis=1)
    floor = max(0.5, 2.0 * float(np.sqrt(variance * belief.visits.shape[3])))
    kept = np.where(found > floor, found, 0.0)
    if kept.sum() <= 0.0:
        return np.full(len(kept), 1.0 / len(kept))
    return np.asarray(kept / kept.sum())
