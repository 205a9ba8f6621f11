"""No privacy: the statistics are released as they are, and the claim says so (epsilon = inf)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim, no_privacy
from tacit.accounting.events import Events, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories, Walked
from tacit.kernels import lean_kernel
from tacit.privatizers.certification import certificate_of
from tacit.privatizers.contract import Batch, CountsState, release_users, require_answer, require_shape
from tacit.privatizers.statistics import add_batch, add_trajectory, count_families
from tacit.protocol import Calibration, Kernel, Noise, Private, Totals
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, SumPrecision, everything_sent, exact_counts, exact_sums

__all__ = ["Unprotected"]


class Parameters(NamedTuple):
    """No privatizer can do with less."""

    unused: int


@lean_kernel
def release(
    parameters: Parameters, state: CountsState, users: Walked, query: Totals, coins: np.random.Generator
) -> None:
    """Add one user to the totals."""
    add_trajectory(state.released, users.states, users.actions, users.rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected:
    """Everything is released exactly; nobody is protected.

    >>> Unprotected(shape=CountShape(horizon=2, num_states=2, num_actions=2, staged=True)).claim.epsilon
    inf
    """

    shape: CountShape

    answers = Totals

    @property
    def kernel(self) -> Kernel:
        """The kernel that takes in one user."""
        return release

    @property
    def name(self) -> str:
        """For tables."""
        return "none"

    @property
    def claim(self) -> PrivacyClaim:
        """Epsilon is infinite."""
        return no_privacy()

    @property
    def calibration(self) -> Calibration:
        """There is no noise to calibrate."""
        return "none"

    @property
    def parameters(self) -> Parameters:
        """Nothing to set."""
        return Parameters(unused=0)

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, "families")

    def events(self) -> Events:
        """One unprotected release."""
        return ((UnprotectedEvent(), 1),)

    def noise_std(self) -> dict[str, float]:
        """No noise."""
        return {"transitions": 0.0, "visits": 0.0, "rewards": 0.0}

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
        return certificate_of(self, noise="none")

    def begin(self) -> CountsState:
        """Empty totals."""
        return CountsState(released=empty_counts(self.shape))

    def release(
        self, state: CountsState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[CountsState, Private[CountStatistics]]:
        """Add a batch to a copy of the totals."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: CountsState = release_users(self, state, users, query, noise)
        else:
            after = CountsState(released=add_batch(state.released, require_shape(users, self.shape), self.shape))
        return after, Private(after.released, self.claim)
