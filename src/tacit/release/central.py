"""Central trust: a curator who sees everything counts with continual noisy counters (joint differential privacy).

Roles: the encoder and the shuffler are the identity; the analyzer keeps the exact totals and publishes them with the
noise of a continual counter, which lets every user be counted for one fixed price, however often totals are published.

A step of the counter is one user, or one batch on a public schedule of ends: a counter pays for every release, and
where the policy changes rarely most releases are of no use.

G1  Each user is in exactly one step of the stream, so replacing one changes one step by what one user can change; the
    exposure is that of the counter, over the families of the encoding. The ends are public numbers, fixed beforehand.
    A person with g reports, at most one per step, changes g steps: Lemma C10 (several reports).
G2  Without a schedule the last user is counted but never published: nobody comes after. So prefixes 1..K-1 are
    released. With one, nothing is published between two ends, nor after the last.
G3  Everything a learner does with the totals is post-processing (and the actions of all other users are private, too:
    Lemma P8 (billboard)).

`tight`: complement encoding with the square-root factorization (delta > 0) or the best certified tree (delta = 0).
`paper`: the Laplace binary tree of [bai2024adversarial] Sec. 5 and of the joint-DP literature, scale 3H⌈log₂K⌉/ε in
each of three families; its proof counts H differences per family where replacing a user makes 2H, so its claim of pure
ε-JDP is false, and the certificate says what it really gives.

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

from tacit.accounting.certificate import Certificate, CertifiedFamily
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput, PrivacyBudgetExceeded, require, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.continual.counter import ContinualCounter, person_events
from tacit.noise.support_index import SupportIndex, places_of
from tacit.protocol import Calibration, Kernel, Noise, PrivateStatistics, Totals, copy_state
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import (
    Batch,
    certificate_of,
    certified_families,
    release_users,
    require_answer,
    require_placed,
    require_shape,
)
from tacit.release.totals_release import totals_std, totals_variance
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent
from tacit.statistics.count_vectors import Encoding, add_batch, add_trajectory, count_families, dimension_of


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
    places: SupportIndex
    ends: Ints
    """[batches]: after how many users each batch is published; empty: after every user but the last."""
    variances: Floats
    """[batches, 3]: the noise variance of transitions, visits and rewards at each end."""


@cache
def central_kernel(step: Callable[..., None]) -> Callable[..., None]:
    """The kernel that takes in one user, over one kind of counter."""
    advance = advancing_kernel(step)

    @kernel
    def release(
        parameters: Parameters, state: CentralState, users: Walked, query: Totals, generator: np.random.Generator
    ) -> None:
        add_trajectory(state.exact, users.states, users.actions, users.rewards)
        advance(parameters, state, generator)

    return release


@cache
def advancing_kernel(step: Callable[..., None]) -> Callable[..., None]:
    """The kernel that publishes what is due, over one kind of counter."""

    @kernel
    def advance(parameters: Parameters, state: CentralState, generator: np.random.Generator) -> None:
        done, scheduled = state.stream.time[0], parameters.ends.shape[0] > 0
        if scheduled:
            # Nothing leaves before the batch is complete, nor after the last one (G2). Users who come together stay
            # together: a batch may end later than planned, by public numbers.
            if done < parameters.releases and state.exact.users[0] >= parameters.ends[done]:
                step(parameters.counter, state.stream, generator)
                publish(parameters, state)
                for family in range(3):
                    state.released.variance[family] = parameters.variances[done, family]
        elif done < parameters.releases:
            step(parameters.counter, state.stream, generator)
            publish(parameters, state)
        elif done == parameters.releases:
            state.stream.time[0] += 1  # the last user: counted, never published (G2)
        else:
            raise PrivacyBudgetExceeded("all releases of this counter are spent; calibrate for more episodes")

    return advance


@kernel
def publish(parameters: Any, state: CentralState) -> None:
    """Released totals = exact totals + the counters' current noise (G1).

    Over a declared support nothing else is published, and sure rows follow from visits.
    """
    places, exact, released, noise = parameters.places, state.exact, state.released, state.stream.noise
    transitions, exact_transitions = released.transitions.reshape(-1), exact.transitions.reshape(-1)
    rewards, exact_rewards = released.rewards.reshape(-1), exact.rewards.reshape(-1)
    visits, exact_visits = released.visits.reshape(-1), exact.visits.reshape(-1)
    squares = released.squares.reshape(-1)
    c = 0
    for run in range(places.move_runs.shape[0]):
        first, stop = places.move_runs[run, 0], places.move_runs[run, 1]
        own, count, drawn = transitions[first:stop], exact_transitions[first:stop], noise[c : c + stop - first]
        for i in range(own.shape[0]):
            own[i] = count[i] + drawn[i]
        c += stop - first
    zero = c + places.num_ones
    for run in range(places.row_runs.shape[0]):
        first, stop = places.row_runs[run, 0], places.row_runs[run, 1]
        N, count, other = visits[first:stop], exact_visits[first:stop], noise[zero : zero + stop - first]
        for i in range(N.shape[0]):
            # (N - R)~ where something can be earned, else N~
            N[i] = count[i] + other[i]
        zero += stop - first
        if places.row_runs[run, 2] == 0:
            continue
        R, R2, earned = rewards[first:stop], squares[first:stop], exact_rewards[first:stop]
        drawn = noise[c : c + stop - first]
        for i in range(N.shape[0]):
            R[i] = earned[i] + drawn[i]
            R2[i] = R[i]
            if parameters.complement:
                # Ñ = R̃ + (N - R)~
                N[i] += drawn[i]
        c += stop - first
    for i in range(places.sure_row.shape[0]):
        transitions[places.sure_cell[i]] = visits[places.sure_row[i]]
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
    ends: tuple[int, ...] | None = None
    """The public schedule: after how many users the totals are published. None: after every user but the last."""

    answers = Totals

    def __post_init__(self) -> None:
        if self.claim.trust != "central":
            raise InvalidInput(f"Central needs a claim with trust 'central', got {self.claim.trust!r}")
        require_placed(self.shape, self.encoding)
        if self.ends is not None:
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
        return central_kernel(self.counter.step)

    @property
    def parameters(self) -> Parameters:
        """Public parameters of the kernel."""
        ends = () if self.ends is None else self.ends
        each: Floats = np.array(_variances(cast("Hashable", self.counter), len(ends)), dtype=np.float64)
        return Parameters(
            counter=self.counter.params,
            releases=self.counter.releases if self.ends is None else len(ends),
            complement=self.complement,
            places=places_of(self.shape),
            ends=np.array(ends, dtype=np.int64),
            variances=each[:, np.newaxis] * totals_variance(self.shape, 1.0, complement=self.complement),
        )

    @property
    def complement(self) -> bool:
        """Whether rewards and complements N - R are counted, from which visits follow."""
        return self.encoding == "complement"

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, self.encoding)

    def events(self) -> Events:
        """The exposure of one person over the whole stream: one step for each report, whoever shares it (G1)."""
        return person_events(self.counter, self.families(), self.claim.unit.reports)

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any release; on a schedule that is the last one's."""
        std = self.counter.max_std if self.ends is None else self.counter.std_at(len(self.ends))
        return totals_std(self.shape, std, complement=self.complement)

    def precision(self) -> None:
        """Prefixes are released, not sums over users."""

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
        return certificate_of(self, noise=self.mechanism, std=self.noise_std(), paper_says=printed, several=True)

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        return certified_families(self, noise=self.mechanism, std=self.noise_std())

    def begin(self) -> CentralState:
        """Nobody came yet."""
        stream = self.counter.begin(dimension_of(self.shape))
        released = empty_counts(self.shape)
        if self.ends is None:
            std = self.noise_std()
            released.variance[:] = [std["transitions"] ** 2, std["visits"] ** 2, std["rewards"] ** 2]
        return CentralState(exact=empty_counts(self.shape), stream=stream, released=released)

    def release(
        self, state: CentralState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[CentralState, PrivateStatistics[CountStatistics]]:
        """Count users, one by one, or aggregated counts all together: they are one step, or stay in one batch."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: CentralState = release_users(self, state, users, query, noise)
            return after, PrivateStatistics(after.released, self.claim)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        exact = add_batch(state.exact, require_shape(users, self.shape), self.shape)
        after = CentralState(exact=exact, stream=copy_state(state.stream), released=copy_state(state.released))
        self.advance(after, noise.generator)
        return after, PrivateStatistics(after.released, self.claim)

    def advance(self, state: CentralState, generator: np.random.Generator) -> None:
        """Publish in place what is due once the exact totals have grown by a step."""
        advancing_kernel(self.counter.step)(self.parameters, state, generator)


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
