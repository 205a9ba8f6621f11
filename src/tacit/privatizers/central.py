"""Central trust: a curator who sees everything counts with continual noisy counters (joint differential privacy).

Roles: the encoder and the shuffler are the identity; the analyzer keeps the exact totals and publishes them with the
noise of a continual counter, which lets every user be counted after every episode for one fixed price.

G1  Each user is one step of the stream; the exposure is that of the counter, over the families of the encoding.
G2  The last user is counted but never published: nobody comes after. So prefixes 1..K-1 are released.
G3  Everything a learner does with the totals is post-processing (and the actions of all other users are private, too:
    Lemma P8 (billboard)).

`tight`: complement encoding with the square-root factorization (delta > 0) or the best certified tree (delta = 0).
`paper`: the Laplace binary tree of [bai2024adversarial] Sec. 5 and of the joint-DP literature, scale 3H⌈log₂K⌉/ε in
each of three families; its proof counts H differences per family where replacing a user makes 2H, so its claim of pure
ε-JDP is false, and the certificate says what it really gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import BudgetSpent, InvalidInput
from tacit.kernels import kernel
from tacit.mechanisms.continual.counter import ContinualCounter
from tacit.privatizers.certification import certificate_of
from tacit.privatizers.contract import Batch, release_users, require_answer, require_shape
from tacit.privatizers.layout import dimension_of
from tacit.privatizers.statistics import Encoding, add_batch, add_trajectory, count_families
from tacit.protocol import Calibration, Kernel, Noise, Private, Totals, copy_state
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["Central", "CentralState"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CentralState(NamedTuple):
    """The curator's memory: exact totals (sensitive), the noise stream (secret) and what was published."""

    exact: CountStatistics
    stream: Any
    released: CountStatistics

    def __repr__(self) -> str:
        return f"CentralState({int(self.released.users[0])} users published)"  # never what they did


class Parameters(NamedTuple):
    """Public parameters of the kernel."""

    counter: Any
    releases: int
    complement: bool


@cache
def central_kernel(step: Callable[..., None]) -> Callable[..., None]:
    """The release kernel over one kind of counter."""

    @kernel
    def release(
        parameters: Parameters, state: CentralState, users: Walked, query: Totals, generator: np.random.Generator
    ) -> None:
        if state.stream.time[0] > parameters.releases:
            raise BudgetSpent("all releases of this counter are spent; calibrate for more episodes")
        add_trajectory(state.exact, users.states, users.actions, users.rewards)
        if state.stream.time[0] < parameters.releases:
            step(parameters.counter, state.stream, generator)
            publish(parameters, state)
        else:
            state.stream.time[0] += 1  # the last user: counted, never published (G2)

    return release


@kernel
def publish(parameters: Any, state: CentralState) -> None:
    """Released totals = exact totals + the counters' current noise (G1)."""
    exact, released, noise = state.exact, state.released, state.stream.noise
    stages, S, A = exact.visits.shape
    cells = stages * S * A
    with_successor = (noise.shape[0] - 2 * cells) // (S * A * S)  # 0 if there is only one step
    c = 0
    for h in range(with_successor):
        for s in range(S):
            for a in range(A):
                for t in range(S):
                    released.transitions[h, s, a, t] = exact.transitions[h, s, a, t] + noise[c]
                    c += 1
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                reward = exact.rewards[h, s, a] + noise[c]
                visits = exact.visits[h, s, a] + noise[c + cells]
                if parameters.complement:
                    # Ñ = R̃ + (N - R)~
                    visits += noise[c]
                released.rewards[h, s, a] = reward
                released.squares[h, s, a] = reward
                released.visits[h, s, a] = visits
                c += 1
    released.users[0] = exact.users[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Central:
    """Noisy continual counters, run by a trusted curator."""

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    encoding: Encoding
    counter: ContinualCounter
    mechanism: str

    answers = Totals

    def __post_init__(self) -> None:
        if self.claim.trust != "central":
            raise InvalidInput(f"Central needs a claim with trust 'central', got {self.claim.trust!r}")

    @property
    def name(self) -> str:
        """For tables."""
        return f"central/{self.mechanism}"

    @property
    def kernel(self) -> Kernel:
        """The kernel that takes in one user."""
        return central_kernel(self.counter.step)

    @property
    def parameters(self) -> Parameters:
        """Public parameters of the kernel."""
        return Parameters(
            counter=self.counter.params, releases=self.counter.releases, complement=self.encoding == "complement"
        )

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, self.encoding)

    def events(self) -> Events:
        """The exposure of one user over the whole stream."""
        return tuple(event for family in self.families() for event in self.counter.events(family))

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any release."""
        std = self.counter.max_std
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
        paper = self.calibration == "paper"
        printed = f"pure epsilon {self.claim.epsilon:g} by tree nodes of scale 3H log K / epsilon" if paper else None
        return certificate_of(self, noise=self.mechanism, paper_says=printed)

    def begin(self) -> CentralState:
        """Nobody came yet."""
        stream = self.counter.begin(dimension_of(self.shape))
        released = empty_counts(self.shape)
        std = self.noise_std()
        released.variance[:] = [std["transitions"] ** 2, std["visits"] ** 2, std["rewards"] ** 2]
        return CentralState(exact=empty_counts(self.shape), stream=stream, released=released)

    def release(
        self, state: CentralState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[CentralState, Private[CountStatistics]]:
        """Count a batch: each trajectory is one step of the stream; aggregated counts are one step together."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: CentralState = release_users(self, state, users, query, noise)
            return after, Private(after.released, self.claim)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        if int(state.stream.time[0]) > self.counter.releases:
            raise BudgetSpent("all releases of this counter are spent; calibrate for more batches")
        stream = copy_state(state.stream)
        released = copy_state(state.released)
        exact = add_batch(state.exact, require_shape(users, self.shape), self.shape)
        after = CentralState(exact=exact, stream=stream, released=released)
        if int(stream.time[0]) < self.counter.releases:
            self.counter.step(self.counter.params, stream, noise.generator)
            publish(self.parameters, after)
        else:
            stream.time[0] += 1  # the last batch: counted, never published (G2)
        return after, Private(after.released, self.claim)
