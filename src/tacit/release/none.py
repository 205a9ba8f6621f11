"""No privacy: the statistics are released as they are, and the claim says so (epsilon = inf).

Running totals, or single batches on a schedule: the same statistics as under the other trust models, exact. A learner
that is given zero noise does the same under both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim, no_privacy
from tacit.accounting.events import Events, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Walked
from tacit.kernels import lean_kernel
from tacit.noise.support_index import SupportIndex, places_of
from tacit.protocol import Calibration, Kernel, Noise, PrivateStatistics, Query, Totals
from tacit.release.counts_contract import (
    Batch,
    BatchState,
    CountsState,
    batch_spec,
    batch_statistics,
    certificate_of,
    exact_statistics,
    next_users,
    release_users,
    require_answer,
    require_shape,
)
from tacit.release.shuffle.roles import require_complete
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, SumPrecision, everything_sent, exact_counts, exact_sums
from tacit.statistics.count_vectors import add_batch, add_placed_trajectory, add_trajectory, count_families


class Parameters(NamedTuple):
    """Where the counters stand, if a support is declared."""

    places: SupportIndex


class DenseParameters(NamedTuple):
    """No declared support: an index handed to every user costs a third of a small run."""

    horizon: int


@lean_kernel
def release_dense(parameters: Any, state: CountsState, users: Walked, query: Totals, rng: np.random.Generator) -> None:
    """Add one user to the totals of every counter."""
    add_trajectory(state.released, users.states, users.actions, users.rewards)


@lean_kernel
def release(parameters: Parameters, state: CountsState, users: Walked, query: Totals, rng: np.random.Generator) -> None:
    """Add one user to the totals."""
    add_placed_trajectory(state.released, parameters.places, users.states, users.actions, users.rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected:
    """Everything is released exactly; nobody is protected.

    >>> Unprotected(shape=CountShape(horizon=2, num_states=2, num_actions=2, staged=True)).claim.epsilon
    inf
    """

    shape: CountShape
    batches: tuple[PlannedBatch, ...] | None = None
    """The schedule of single batches, empty until it is `planned`; None: running totals."""

    @property
    def answers(self) -> type[Query]:
        """Running totals, or the batches of the schedule."""
        return Totals if self.batches is None else BatchQuery

    @property
    def kernel(self) -> Kernel | None:
        """The kernel that takes in one user."""
        if self.batches is not None:
            return None
        return release_dense if self.shape.support is None else release

    def planned(self, batches: Sequence[PlannedBatch], following: Sequence[int] | None = None) -> Self:
        """The same with the schedule of a run."""
        del following
        return replace(self, batches=tuple(batches))

    @property
    def name(self) -> str:
        """For tables."""
        return "none" if self.batches is None else "none (batches)"

    @property
    def claim(self) -> PrivacyClaim:
        """Epsilon is infinite."""
        return no_privacy()

    @property
    def calibration(self) -> Calibration:
        """There is no noise to calibrate."""
        return "none"

    @property
    def parameters(self) -> Parameters | DenseParameters:
        """Nothing but places to set."""
        if self.shape.support is None:
            return DenseParameters(horizon=self.shape.horizon)
        return Parameters(places=places_of(self.shape))

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, "families")

    def events(self) -> Events:
        """One unprotected release."""
        return ((UnprotectedEvent(), 1),)

    def noise_std(self) -> dict[str, float]:
        """No noise."""
        return {"transitions": 0.0, "visits": 0.0, "rewards": 0.0}

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """No noise."""
        del users, query
        return 0.0

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """Counts are exact."""
        del users, query
        return 0.0

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """No noise."""
        del following
        return np.zeros((len(sizes), len(sizes)))

    def precision(self) -> SumPrecision:
        """Sums are exact."""
        return exact_sums()

    def count_precision(self) -> CountPrecision:
        """Counts are exact."""
        return exact_counts()

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def certificate(self) -> Certificate:
        """It certifies that nothing is protected."""
        return certificate_of(self, noise="none", std=self.noise_std())

    def reports(self) -> tuple[BatchReport, ...]:
        """No messages are counted where nothing is protected."""
        return ()

    def begin(self) -> CountsState | BatchState:
        """Empty totals, or no batch yet."""
        empty = empty_counts(self.shape)
        return CountsState(released=empty) if self.batches is None else BatchState(released=empty, done=0)

    def release(
        self, state: Any, users: Batch, query: Totals | BatchQuery, noise: Noise
    ) -> tuple[Any, PrivateStatistics[CountStatistics]]:
        """Add users to a copy of the totals, or release the next batch of the schedule, as it is."""
        require_answer(self, query)
        after: CountsState | BatchState
        if isinstance(query, BatchQuery):
            after = self._batch(state, users, query)
        elif isinstance(users, Trajectories):
            after = release_users(self, state, users, query, noise)
        else:
            after = CountsState(released=add_batch(state.released, require_shape(users, self.shape), self.shape))
        return after, PrivateStatistics(after.released, self.claim)

    def _batch(self, state: BatchState, users: Batch, query: BatchQuery) -> BatchState:
        planned = next_users(self.batches or (), state, query)
        if isinstance(users, Trajectories):
            whole = require_shape(users, self.shape)
            counts = count_trajectories(whole, self.shape.num_states, self.shape.num_actions)
        else:
            counts = require_shape(users, self.shape)
        require_complete(counts.users, planned)
        spec = batch_spec(self.shape, "tight", query.layer)
        released = batch_statistics(exact_statistics(counts, spec), np.zeros(3), planned, query, spec, 0.0)
        return BatchState(released=released, done=state.done + 1)
