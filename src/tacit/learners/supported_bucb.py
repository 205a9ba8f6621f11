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
from tacit.planning.supported_batches import batch_visits, row_plan
from tacit.planning.supported_flow import SupportedCounts, SupportedFlow, supported_flow
from tacit.planning.supported_rows import SupportedRows, supported_optimists, supported_pessimist, supported_rows
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
        support, B = self.flow.support, len(belief.users)
        plan, covariance = row_plan(support, self.pooled), self.covariance[:B, :B]
        even = plan.even[:, np.newaxis] * belief.users
        weights, variance = self._weighed(even, covariance)
        rho = self._first(belief, weights, variance)
        visited = belief.rewards + (belief.visits - belief.rewards)  # ones and zeros, as they are kept
        model = self._supported(belief, visited, weights, variance)
        walkers = _walkers(belief, self.shape.horizon, self.shape.num_states)
        for _ in range(ROUNDS):
            # m_b = 0.9 n_b · occupancy of the batch's mixture + 0.1 n_b / pairs
            met = np.zeros((*variance.shape, B))
            batch_visits(model.start, model.to, model.p, rho, belief.users, *walkers, met)
            within = met.reshape(-1, B)[plan.within]
            weights, variance = self._weighed(MODEL_SHARE * within + (1.0 - MODEL_SHARE) * even, covariance)
            model = self._supported(belief, visited, weights, variance)
        return model, rho

    def _weighed(self, visits: Floats, covariance: Floats) -> tuple[Floats, Floats]:
        """Weights [L,S,A,B] and their variance [L,S,A], from visits [rows within reach, B]; nothing is out of reach."""
        L, S, A = 1 if self.pooled else self.shape.horizon, self.shape.num_states, self.shape.num_actions
        within, B = row_plan(self.flow.support, self.pooled).within, visits.shape[1]
        weights, variance = np.zeros((L * S * A, B)), np.zeros(L * S * A)
        found = row_weights(visits[:, np.newaxis, np.newaxis, :], covariance)
        weights[within], variance[within] = found[0][:, 0, 0], found[1][:, 0, 0]
        return weights.reshape(L, S, A, B), variance.reshape(L, S, A)

    def _first(self, belief: BUCBBelief, weights: Floats, variance: Floats) -> Floats:
        """The distribution of the first state, over those that are declared."""
        starts = np.flatnonzero(self.flow.support.starts)
        s = int(starts[0])
        kept = self.flow.kept_rewards[0, s, 0] * self.flow.width[0, s, 0]
        small = belief._replace(visits=belief.visits[:, :, starts])
        rho = np.zeros(self.shape.num_states)
        rho[starts] = first_states(small, weights[0, s, 0], float(variance[0, s, 0]) * kept)
        return rho

    def _supported(self, belief: BUCBBelief, visited: Floats, weights: Floats, variance: Floats) -> SupportedRows:
        return supported_rows(
            self.flow.support,
            pooled=self.pooled,
            moved=belief.transitions,
            ones=belief.rewards,
            visited=visited,
            weights=weights,
            variance=variance,
        )

    def _explored(self, model: Any, rho: Floats, visits: float, coins: Floats, policies: Ints) -> None:
        supported_optimists(model, rho, self._z, visits, max(1.0, 4.0 * self.std), coins, policies)

    def _exploited(self, model: Any, coins: Floats) -> Ints:
        return supported_pessimist(model, self.shape.horizon, self._z, coins)


def _walkers(belief: BUCBBelief, horizon: int, num_states: int) -> tuple[Ints, Floats, Ints]:
    """The policies of all batches [J,H,S], how many people follow each, and where a batch begins among them."""
    none = np.zeros((0, horizon, num_states), dtype=np.int64)
    done = range(len(belief.users))
    policies = np.concatenate([none, *(belief.policies[b] for b in done)])
    each = np.concatenate([np.zeros(0), *(belief.users[b] * belief.shares[b] for b in done)])
    first = np.cumsum([0, *(len(belief.shares[b]) for b in done)])
    return policies, each, first.astype(np.int64)
