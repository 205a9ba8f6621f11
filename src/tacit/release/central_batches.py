"""Central trust, single batches: a curator releases the counts of every batch once, with correlated Gaussian noise.

G1  A person is in one batch, and batches are released in the order of a public schedule. What leaves is, in other
    words, C x + N(0, σ²) with columns of C of length at most 1 (`tacit.release.central_batches`): replacing a
    person moves it by at most what it moves one batch, so the exposure is that of one release of σ, whatever later
    batches depend on: Lemma C2 (factorization).
G2  `fresh` noise is C = I: every batch for itself, the same price.
G3  Everything a learner does with the batches is post-processing; by Lemma P8 (billboard) the actions of all other
    people are joint-DP.

Counters are those of the complement encoding: transitions, rewards, visits without reward.

Correlated noise: whoever releases C x + N(0, σ²) row by row, with C lower triangular and columns of length at
most 1, pays for one release of σ; the increments x̂ = x + e then carry noise e of covariance σ² X⁻¹, X = C'C. Fresh
noise is X = I. A learner that plans batch t + 1 from the sum of all batches up to t suffers

    Σ_t n_{t+1} Var(e_1 + ... + e_t) = σ² tr(M X⁻¹),     M = L' diag(n) L,   L the lower triangle of ones,

which is convex in X. Under diag X = 1 the least is at X = D^-½ (D^½ M D^½)^½ D^-½ with D = diag (D^½ M D^½)^½.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Self

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.arrays import Floats
from tacit.data.counts import count_trajectories
from tacit.data.gradients import in_range
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, require
from tacit.noise.gaussian import Gaussian
from tacit.protocol import Calibration, Noise, PrivateStatistics
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import (
    Batch,
    batch_spec,
    batch_statistics,
    certificate_of,
    next_users,
    require_answer,
    require_shape,
)
from tacit.release.shuffle.roles import require_complete
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent, exact_counts
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec
from tacit.statistics.count_vectors import count_families

ROUNDS: Final = 200
"""Iterations of the fixed point; it contracts by a half, so this is far more than enough."""


@lru_cache(maxsize=64)
def correlated_factor(following: tuple[int, ...]) -> Floats:
    """The lower triangular C[t,j] for batches after which so many users act on what was released up to there.

    >>> C = correlated_factor((100, 200, 400))
    >>> bool(np.allclose(np.tril(C), C)), bool(((C**2).sum(axis=0) <= 1.0).all())
    (True, True)
    """
    n = np.array(following, dtype=np.float64)
    require(len(n) > 0 and bool((n > 0).all()), "every batch must have users who act on it", len(n))
    L = np.tril(np.ones((len(n), len(n))))
    X = _least(L.T @ (n[:, np.newaxis] * L))
    # Columns of length at most 1, for certain: whatever the rounding, the longest is scaled to just below.
    C = _reverse_cholesky(X)
    longest = float(np.sqrt((C * C).sum(axis=0)).max())
    factor = C / (longest * (1.0 + 1e-12))
    factor.setflags(write=False)
    return factor


def _least(M: Floats) -> Floats:
    """The X of unit diagonal with the least tr(M X⁻¹)."""
    D = np.sqrt(np.diag(M))
    for _ in range(ROUNDS):
        root = _root(np.sqrt(D)[:, np.newaxis] * M * np.sqrt(D))
        after = np.diag(root).copy()
        done = bool(np.allclose(after, D, rtol=1e-12, atol=0.0))
        D = after
        if done:
            break
    root = _root(np.sqrt(D)[:, np.newaxis] * M * np.sqrt(D))
    return np.asarray(root / np.sqrt(D)[:, np.newaxis] / np.sqrt(D))


def _root(matrix: Floats) -> Floats:
    """The positive square root of a positive definite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _reverse_cholesky(X: Floats) -> Floats:
    """The lower triangular C with C'C = X: the Cholesky factor of X read from its last row."""
    return np.asarray(np.linalg.cholesky(X[::-1, ::-1])[::-1, ::-1].T)


def sequential(C: Floats, past: Sequence[Floats], fresh: Floats) -> Floats:
    """The noise of the next increment: e_t = (z_t - Σ_{j<t} C_tj e_j) / C_tt, so that C e = z."""
    t = len(past)
    total = fresh.copy()
    for j, earlier in enumerate(past):
        total -= C[t, j] * earlier
    return np.asarray(total / C[t, t])


Correlation = Literal["correlated", "fresh"]


class CuratorState(NamedTuple):
    """The last release, how many batches are done, and the noise of the batches so far (secret)."""

    released: CountStatistics
    done: int
    noise: tuple[Floats, ...]

    def __repr__(self) -> str:
        return f"CuratorState({self.done} batches released)"  # never the noise


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralBatches:
    """Noisy counts of single batches, released by a trusted curator."""

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    noise: Gaussian
    """The noise of one batch that is released alone."""
    correlation: Correlation = "correlated"
    batches: tuple[PlannedBatch, ...] = ()
    """The schedule, empty until it is `planned`."""
    following: tuple[int, ...] = ()
    """How many people act on the batches up to each one."""

    answers = BatchQuery
    kernel = None
    parameters = None

    def __post_init__(self) -> None:
        if self.claim.trust != "central":
            raise InvalidInput(f"CentralBatches needs a claim with trust 'central', got {self.claim.trust!r}")
        require(self.shape.staged, "batches of their own keep the steps apart (staged)", self.shape.staged)
        require(self.correlation in ("correlated", "fresh"), "noise must be correlated or fresh", self.correlation)

    @classmethod
    def calibrated(cls, shape: CountShape, claim: PrivacyClaim, correlation: Correlation) -> Self:
        """The least noise under which one batch is (epsilon, delta)-private."""
        g = claim.unit.reports
        if g > 1 and correlation == "correlated":
            raise NotSupported(
                f"correlated noise covers one report per person, not {g}; use mechanism 'batched', whose batches have "
                "noise of their own"
            )
        # A person who reports in g batches meets every differing counter g times.
        families = [replace(family, up=g * family.up, down=g * family.down) for family in cls._families(shape)]
        noise = Gaussian.calibrate(families, claim.epsilon, claim.delta)
        return cls(shape=shape, claim=claim, calibration="tight", noise=noise, correlation=correlation)

    @property
    def name(self) -> str:
        """For tables."""
        return f"central/{self.correlation} batches"

    def planned(self, batches: Sequence[PlannedBatch], following: Sequence[int] | None = None) -> Self:
        """The same with the schedule of a run; `following` says who acts on each batch (the next one, by default)."""
        for batch in batches:
            require(batch.query.layer is None, "central batches release all layers", batch.query.name)
        sizes = [batch.users for batch in batches]
        after = tuple(sizes[1:] + sizes[-1:]) if following is None else tuple(following)
        return replace(self, batches=tuple(batches), following=after)

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The standard deviation of the noise in one counter of a batch that is released alone."""
        self._require_everything(query)
        return self.noise.std

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """Only unbiased counts are released."""
        self._require_everything(query)
        return 0.0

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """[B,B]: the covariance of the noise in one counter over the batches of a schedule: σ² (C'C)⁻¹."""
        C = self._factor(tuple(following))
        inverse = np.linalg.inv(C)
        return np.asarray(self.noise.variance * inverse @ inverse.T)

    def families(self) -> tuple[Family, ...]:
        """What one user can change, in one batch."""
        return self._families(self.shape)

    def events(self) -> Events:
        """The exposure of one person: one release of σ over the families for every batch with a report (G1)."""
        one = tuple(event for family in self.families() for event in self.noise.events(family))
        return in_stages(one, self.claim.unit.reports)

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any batch."""
        most = float(np.sqrt(np.diag(self._covariance()).max()))
        return {"transitions": most if self.shape.horizon > 1 else 0.0, "visits": most * 2**0.5, "rewards": most}

    def precision(self) -> None:
        """Batches are released, not sums over users."""

    def count_precision(self) -> CountPrecision:
        """Gaussian noise has no sub-gamma scale."""
        return exact_counts()

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        alone = self.noise.std
        std = {"transitions": alone, "visits": alone, "rewards": alone}
        return certificate_of(self, noise=f"{self.correlation} gaussian", std=std, several=self.correlation == "fresh")

    def reports(self) -> tuple[BatchReport, ...]:
        """A curator counts no messages."""
        return ()

    def begin(self) -> CuratorState:
        """No batch yet."""
        return CuratorState(released=empty_counts(self.shape), done=0, noise=())

    def release(
        self, state: CuratorState, users: Batch, query: BatchQuery, noise: Noise
    ) -> tuple[CuratorState, PrivateStatistics[CountStatistics]]:
        """The next batch of the schedule, with its noise. Simulation only."""
        require_answer(self, query)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"this privatizer draws simulation noise, got {type(noise).__name__}")
        planned, shape = next_users(self.batches, state, query), self.shape  # type: ignore[arg-type]
        if isinstance(users, Trajectories):
            inside = in_range(require_shape(users, shape), shape.num_states, shape.num_actions, shape.horizon)
            kept = np.clip(np.nan_to_num(inside.rewards, nan=0.0), 0.0, 1.0)
            counts = count_trajectories(replace(inside, rewards=kept), shape.num_states, shape.num_actions)
        else:
            counts = require_shape(users, shape)
        require_complete(counts.users, planned)
        H, S, A = shape.horizon, shape.num_states, shape.num_actions
        spec = batch_spec(shape, "tight", None)
        fresh = self.noise.sample(spec.num_counters, noise)
        e = sequential(self._factor(self.following), state.noise, fresh)
        if spec.support is not None:
            exact = spec.counters(counts.transitions, counts.visits, counts.rewards)
            return self._released(state, spec.arrays(exact + e), e, query, spec)
        moves, cells = (H - 1) * S * A * S, (H, S, A)
        zero, one = (e[moves:].reshape(*cells, 2)[..., r] for r in (0, 1))
        transitions = counts.transitions.astype(np.float64)
        transitions[:-1] += e[:moves].reshape(H - 1, S, A, S)
        # R̃ = R + e₁ and Ñ = R̃ + (N - R)~
        noisy = NoisyCounts(transitions, counts.visits + zero + one, counts.rewards + one)
        return self._released(state, noisy, e, query, spec)

    def _released(
        self, state: CuratorState, noisy: NoisyCounts, e: Floats, query: BatchQuery, spec: ReleaseSpec
    ) -> tuple[CuratorState, PrivateStatistics[CountStatistics]]:
        """The noisy counts of a batch with the variance of their noise, and the state after it."""
        v = float(self._covariance()[state.done, state.done])
        variance = np.array([v if self.shape.horizon > 1 else 0.0, 2.0 * v, v])
        released = batch_statistics(noisy, variance, self.batches[state.done].users, query, spec, 0.0)
        after = CuratorState(released=released, done=state.done + 1, noise=(*state.noise, e))
        return after, PrivateStatistics(released, self.claim)

    @staticmethod
    def _families(shape: CountShape) -> tuple[Family, ...]:
        return (
            count_families(shape, "complement")
            if shape.support is None
            else batch_spec(shape, "tight", None).families()
        )

    def _covariance(self) -> Floats:
        require(len(self.batches) > 0, "a schedule must have at least one batch that reports", 0)
        return self.batch_covariance([batch.users for batch in self.batches], self.following)

    def _factor(self, following: tuple[int, ...]) -> Floats:
        return np.eye(len(following)) if self.correlation == "fresh" else correlated_factor(following)

    @staticmethod
    def _require_everything(query: BatchQuery) -> None:
        if query.layer is not None or query.failure_prob is not None:
            raise NotSupported(
                "central batches release unbiased counts of all layers; sdp-pe, which asks for single layers or "
                "consistent counts, needs trust shuffle"
            )
