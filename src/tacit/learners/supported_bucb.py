"""BUCB over a declared support: the recipe of `bucb`, on the counters that can move.

Projection, rows and planning know what can happen (`planning.supported_flow`, `planning.supported_rows`); the schedule
counts the states that can be reached. Everything else is `bucb`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput
from tacit.learners.bucb import BUCB, MODEL_SHARE, ROUNDS, BUCBBelief, first_states
from tacit.learners.contract import statistics_of
from tacit.planning.supported_flow import SupportedCounts, SupportedFlow, supported_flow
from tacit.planning.supported_rows import (
    SupportedRows,
    supported_optimists,
    supported_pessimist,
    supported_rows,
    supported_visits,
)
from tacit.planning.weighted_rows import row_weights
from tacit.protocol import Private
from tacit.released.counts import CountStatistics

__all__ = ["SupportedBUCB"]


class SupportedBUCB(BUCB):
    """BUCB whose world has a declared support (`shape.support`)."""

    over_support = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.flow  # noqa: B018 - refused here, not in the first round

    @property
    def flow(self) -> SupportedFlow:
        """The projection, prepared once for all runs."""
        support = self.shape.support
        if support is None:
            raise InvalidInput("this learner needs a declared support; use BUCB without one")
        return supported_flow(support)

    def begin(self) -> BUCBBelief:
        """Nothing was released."""
        empty = super().begin()
        return empty._replace(transitions=np.zeros((0, len(self.flow.row_of))))

    def update(self, belief: BUCBBelief, released: Private[CountStatistics]) -> BUCBBelief:
        """Keep the batch, projected."""
        batch = statistics_of(released, CountStatistics)
        flow, people = self.flow, float(batch.users[0])
        moved = batch.transitions.reshape(-1)[flow.support.released.moves]
        counts = SupportedCounts(moved, batch.rewards, batch.visits - batch.rewards)
        if self.std > 0.0:
            counts = flow.project(counts, people)
        return belief._replace(
            transitions=np.concatenate([belief.transitions, counts.moved[np.newaxis]]),
            visits=np.concatenate([belief.visits, (counts.ones + counts.zeros)[np.newaxis]]),
            rewards=np.concatenate([belief.rewards, counts.ones[np.newaxis]]),
            users=np.append(belief.users, people),
        )

    def interval(self, belief: BUCBBelief) -> None:
        """Bands over a declared support are not proved: it may be wrong."""

    def model(self, belief: BUCBBelief) -> tuple[SupportedRows, Floats]:
        """The model in which everything is planned, and the distribution of the first state."""
        flow, B = self.flow, len(belief.users)
        _, S, A = flow.shape
        covariance = self.covariance[:B, :B]
        # n_b spread evenly over the pairs within reach
        share = flow.support.reach / (flow.support.reach.sum(axis=1, keepdims=True) * A)
        share = share.sum(axis=0, keepdims=True) if self.pooled else share
        share = np.where(share > 0.0, share, 1.0 / (S * A))  # of no interest, but no division by zero
        even = np.repeat(share[:, :, np.newaxis], A, axis=2)[..., np.newaxis] * belief.users
        weights, variance = row_weights(even, covariance)
        rho = self._first(belief, weights, variance)
        model = self._supported(belief, weights, variance)
        for _ in range(ROUNDS):
            # m_b = 0.9 n_b · occupancy of the batch's mixture + 0.1 n_b / pairs
            met = np.stack([self._met(belief, b, model, rho) for b in range(B)], axis=-1)
            weights, variance = row_weights(MODEL_SHARE * met + (1.0 - MODEL_SHARE) * even, covariance)
            model = self._supported(belief, weights, variance)
        return model, rho

    def _first(self, belief: BUCBBelief, weights: Floats, variance: Floats) -> Floats:
        """The distribution of the first state, over those that are declared."""
        starts = np.flatnonzero(self.flow.support.starts)
        s = int(starts[0])
        kept = self.flow.kept_rewards[0, s, 0] * self.flow.width[0, s, 0]
        small = belief._replace(visits=belief.visits[:, :, starts])
        rho = np.zeros(self.shape.num_states)
        rho[starts] = first_states(small, weights[0, s, 0], float(variance[0, s, 0]) * kept)
        return rho

    def _supported(self, belief: BUCBBelief, weights: Floats, variance: Floats) -> SupportedRows:
        return supported_rows(
            self.flow.support,
            pooled=self.pooled,
            moved=belief.transitions,
            ones=belief.rewards,
            zeros=belief.visits - belief.rewards,
            weights=weights,
            variance=variance,
            kept=(self.flow.kept_moves, self.flow.kept_rewards),
        )

    def _met(self, belief: BUCBBelief, b: int, model: Any, rho: Floats) -> Floats:
        """How often the people of a batch met each row, according to the model."""
        found = np.zeros(model.r.shape)
        if len(belief.shares[b]) == 0:
            self._met_uniformly(float(belief.users[b]), model, rho, found)
        else:
            supported_visits(model, rho, belief.policies[b], belief.users[b] * belief.shares[b], found)
        return found

    def _met_uniformly(self, users: float, model: Any, rho: Floats, found: Floats) -> None:
        at, (L, S, A) = rho * users, found.shape
        row = np.repeat(np.arange(L * S * A), np.diff(model.start))
        for h in range(self.shape.horizon):
            stage = min(h, L - 1)
            found[stage] += at[:, np.newaxis] / A
            mine = row // (S * A) == stage
            at = np.bincount(model.to[mine], model.p[mine] * at[row[mine] // A % S] / A, S).astype(np.float64)

    def _explored(self, model: Any, rho: Floats, visits: float, coins: Floats, policies: Ints) -> None:
        supported_optimists(model, rho, self._z, visits, max(1.0, 4.0 * self.std), coins, policies)

    def _exploited(self, model: Any, coins: Floats) -> Ints:
        return supported_pessimist(model, self.shape.horizon, self._z, coins)
