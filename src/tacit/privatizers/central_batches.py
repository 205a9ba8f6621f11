"""Central trust with rare releases: users wait until their batch is complete, then the batch is counted as one step.

A continual counter pays for every release. If the policy changes rarely, most releases are of no use: here a fixed,
public schedule says after how many users the totals are published, and a step of the counter is a whole batch. Each
user is in exactly one batch, so that replacing one changes one step of the stream, by what one user can change.

G1  The ends of the batches are public numbers, fixed beforehand: nothing depends on data. The exposure of a user is
    that of one step of the counter, over the families of the encoding.
G2  Between two ends nothing is published; the users after the last end are counted but never published.
G3  Everything that a learner does with the totals is post-processing.

`batched`               fresh independent noise for every batch, accumulated: B batches carry √B times the noise of one
`batched-factorization` the factorization over batches: the noise of B batches is only ~ (1 + ln(B)/π) times that of one
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.kernels import kernel
from tacit.mechanisms.continual.counter import ContinualCounter
from tacit.privatizers.central import CentralState, publish
from tacit.privatizers.certification import certificate_of
from tacit.privatizers.contract import Batch, release_users, require_answer, require_shape
from tacit.privatizers.layout import dimension_of
from tacit.privatizers.statistics import Encoding, add_batch, add_trajectory, count_families
from tacit.protocol import Calibration, Kernel, Noise, Private, Totals, copy_state
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["CentralBatches", "geometric_ends"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Parameters(NamedTuple):
    """Public parameters of the kernel."""

    counter: Any
    complement: bool
    ends: Ints
    """[batches]: after how many users each batch is published."""
    variances: Floats
    """[batches, 3]: the noise variance of transitions, visits and rewards at each end."""


@cache
def batches_kernel(step: Callable[..., None]) -> Callable[..., None]:
    """The release kernel over one kind of counter."""

    @kernel
    def release(
        parameters: Parameters, state: CentralState, users: Walked, query: Totals, generator: np.random.Generator
    ) -> None:
        add_trajectory(state.exact, users.states, users.actions, users.rewards)
        batch = state.stream.time[0]
        # Nothing leaves before the batch is complete, nor after the last one (G2).
        if batch < parameters.ends.shape[0] and state.exact.users[0] >= parameters.ends[batch]:
            step(parameters.counter, state.stream, generator)
            publish(parameters, state)
            for family in range(3):
                state.released.variance[family] = parameters.variances[batch, family]

    return release


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralBatches:
    """Totals after fixed numbers of users, published by a trusted curator."""

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    encoding: Encoding
    counter: ContinualCounter
    """One step is one batch."""
    ends: tuple[int, ...]
    mechanism: str

    answers = Totals

    def __post_init__(self) -> None:
        if self.claim.trust != "central":
            raise InvalidInput(f"CentralBatches needs a claim with trust 'central', got {self.claim.trust!r}")
        rising = len(self.ends) > 0 and self.ends[0] >= 1 and all(np.diff(self.ends) > 0)
        require(rising, "the ends of the batches must be positive and increase strictly", len(self.ends))
        enough = len(self.ends) <= self.counter.releases
        require(enough, f"the counter pays for {self.counter.releases} batches", len(self.ends))

    @property
    def name(self) -> str:
        """For tables."""
        return f"central/{self.mechanism}"

    @property
    def kernel(self) -> Kernel:
        """The kernel that takes in one user."""
        return batches_kernel(self.counter.step)

    @property
    def parameters(self) -> Parameters:
        """Public parameters of the kernel."""
        visits = 2.0 if self.encoding == "complement" else 1.0
        transitions = 1.0 if self.shape.horizon > 1 else 0.0
        each: Floats = np.array(_variances(cast("Hashable", self.counter), len(self.ends)), dtype=np.float64)
        return Parameters(
            counter=self.counter.params,
            complement=self.encoding == "complement",
            ends=np.array(self.ends, dtype=np.int64),
            variances=each[:, np.newaxis] * np.array([transitions, visits, 1.0]),
        )

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, self.encoding)

    def events(self) -> Events:
        """The exposure of one user: one step of the counter, however many users share it (G1)."""
        return tuple(event for family in self.families() for event in self.counter.events(family))

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any release: that of the last."""
        std = self.counter.std_at(len(self.ends))
        visits = std * 2**0.5 if self.encoding == "complement" else std
        return {"transitions": std if self.shape.horizon > 1 else 0.0, "visits": visits, "rewards": std}

    def count_precision(self) -> CountPrecision:
        """The sub-gamma scale of the counter."""
        return CountPrecision(scale=np.full(3, self.counter.subgamma))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        return certificate_of(self, noise=self.mechanism)

    def begin(self) -> CentralState:
        """Nobody came yet."""
        stream = self.counter.begin(dimension_of(self.shape))
        return CentralState(exact=empty_counts(self.shape), stream=stream, released=empty_counts(self.shape))

    def release(
        self, state: CentralState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[CentralState, Private[CountStatistics]]:
        """Count users; the totals are published anew if a batch is complete with them."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: CentralState = release_users(self, state, users, query, noise)
            return after, Private(after.released, self.claim)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        exact = add_batch(state.exact, require_shape(users, self.shape), self.shape)
        after = CentralState(exact=exact, stream=copy_state(state.stream), released=copy_state(state.released))
        parameters, done = self.parameters, int(after.stream.time[0])
        # Users who come together stay together: a batch may end later than planned, by public numbers.
        if done < len(self.ends) and int(exact.users[0]) >= self.ends[done]:
            self.counter.step(parameters.counter, after.stream, noise.generator)
            publish(parameters, after)
            after.released.variance[:] = parameters.variances[done]
        return after, Private(after.released, self.claim)


def geometric_ends(episodes: int, *, first: int, growth: float) -> tuple[int, ...]:
    """Ends of batches, each about `growth` times the one before, the last of them before the last user.

    >>> geometric_ends(1000, first=50, growth=2.0)
    (50, 100, 200, 400, 800)
    >>> geometric_ends(6, first=1, growth=1.1)
    (1, 2, 3, 4, 5)
    """
    K = require_count("episodes", episodes, least=2)
    end = min(require_count("first", first), K - 1)
    rate = require_real("growth", growth, low=1.0, open_low=True)
    ends: list[int] = []
    while end < K:
        ends.append(end)
        end = max(end + 1, math.ceil(end * rate - 1e-9))
    return tuple(ends)


@lru_cache(maxsize=64)
def _variances(counter: Any, batches: int) -> tuple[float, ...]:
    return tuple(counter.variance_at(k + 1) for k in range(batches))
