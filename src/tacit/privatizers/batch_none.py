"""Batches of their own without noise: the same schedule and the same statistics, exact, and nobody is protected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim, no_privacy
from tacit.accounting.events import Events, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.privatizers.batch_release import BatchState, batch_spec, batch_statistics, exact_statistics, next_users
from tacit.privatizers.certification import certificate_of
from tacit.privatizers.contract import Batch, require_answer, require_shape
from tacit.privatizers.shuffler import require_complete
from tacit.privatizers.statistics import count_families
from tacit.protocol import Calibration, Noise, Private
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent, exact_counts

__all__ = ["BatchUnprotected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchUnprotected:
    """The same batches, exact: nobody is protected, and the claim says so."""

    shape: CountShape
    batches: tuple[PlannedBatch, ...] = ()

    answers = BatchQuery
    kernel = None
    parameters = None

    def planned(self, batches: Sequence[PlannedBatch]) -> Self:
        """The same with the schedule of a run."""
        return replace(self, batches=tuple(batches))

    @property
    def name(self) -> str:
        """For tables."""
        return "none (batches)"

    @property
    def claim(self) -> PrivacyClaim:
        """Epsilon is infinite."""
        return no_privacy()

    @property
    def calibration(self) -> Calibration:
        """There is no noise to calibrate."""
        return "none"

    def std(self, users: int, request: BatchQuery) -> float:
        """No noise."""
        del users, request
        return 0.0

    def precision(self, users: int, request: BatchQuery) -> float:
        """Counts are exact."""
        del users, request
        return 0.0

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, "families")

    def events(self) -> Events:
        """One unprotected release."""
        return ((UnprotectedEvent(), 1),)

    def noise_std(self) -> dict[str, float]:
        """No noise."""
        return {"transitions": 0.0, "visits": 0.0, "rewards": 0.0}

    def count_precision(self) -> CountPrecision:
        """Counts are exact."""
        return exact_counts()

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def certificate(self) -> Certificate:
        """It certifies that nothing is protected."""
        return certificate_of(self, noise="none")

    def reports(self) -> tuple[BatchReport, ...]:
        """No messages are counted where nothing is protected."""
        return ()

    def begin(self) -> BatchState:
        """No batch yet."""
        return BatchState(released=empty_counts(self.shape), done=0)

    def release(
        self, state: BatchState, users: Batch, query: BatchQuery, noise: Noise
    ) -> tuple[BatchState, Private[CountStatistics]]:
        """The next batch of the schedule, as it is."""
        require_answer(self, query)
        planned = next_users(self.batches, state, query)
        if isinstance(users, Trajectories):
            whole = require_shape(users, self.shape)
            counts = count_trajectories(whole, self.shape.num_states, self.shape.num_actions)
        else:
            counts = require_shape(users, self.shape)
        require_complete(counts.users, planned)
        spec = batch_spec(self.shape, "tight", query.layer)
        released = batch_statistics(exact_statistics(counts, spec), np.zeros(3), planned, query, spec, 0.0)
        return BatchState(released=released, done=state.done + 1), Private(released, self.claim)
