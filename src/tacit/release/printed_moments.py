"""Simulation only: running sums of moments with the Gaussian noise that papers on private linear bandits print.

    central   a binary tree over single users, m = 1 + ⌈log₂ K⌉ levels; every node has symmetric noise whose entries
              beside the diagonal have σ = 4 √m L̃² ln(4/δ)/ε, L̃² = 1 + 1/4 (Shariff and Sheffet 2018)
    local     every user adds symmetric noise to x xᵀ and noise to x (r − 1/2), σ = 4 √(2 ln(2.5/δ))/ε: half of ε and of
              δ for each (Zheng et al. 2020)
    shuffle   batches of B = ⌈K^(3/5)⌉ users, each of whom adds σ = 4 √(2 ln(2.5 B/δ) ln(2/δ))/(ε √B) in the same way
              (Chowdhury and Zhou 2022)

A node, or a user, with entries of deviation σ beside the diagonal and √2 σ on it tells apart two people by at most

    μ² = (1 − c² + (1 + c)/2)/σ² ≤ 25/(16 σ²) = (L̃²/σ)²,    c the cosine between their rows, rewards opposite

and a person is in m nodes. Under shuffle trust messages are Gaussian: what the exact accountant certifies is one
message alone, because it has no theorem about the amplification of such noise. That is an upper bound, which refutes
nothing. The constants are quoted from memory of
the papers; they have not been compared with the texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.events.gaussian import GaussianEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import FeatureUsers
from tacit.errors import NotSupported, require
from tacit.protocol import Calibration, Noise, PrivateStatistics, Query
from tacit.randomness import SimulationNoise
from tacit.release.request import PrivacyRequest, make_claim
from tacit.released.moments import MomentQuery, MomentShape, MomentStatistics, empty_moments

SPREAD: Final = 1.25
"""L̃²: the squared length of (x, r − 1/2), and √(25/16): what one node tells, in units of σ."""


class PrintedState(NamedTuple):
    """Exact sums, the noise that is in force, and what was released last."""

    gram: Floats
    rewards: Floats
    levels: Floats
    """[levels, M, d, d + 1]: noise of the tree's open nodes; of everyone together elsewhere."""
    done: Ints
    """[1]: reports so far."""
    released: MomentStatistics

    def __repr__(self) -> str:
        return f"PrintedState({int(self.done[0])} reports)"  # never what people did


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedMoments:
    """Running sums of moments with printed noise; each release has everyone so far in it."""

    shape: MomentShape
    claim: PrivacyClaim
    sigma: float
    """σ of one node, or of one user."""
    levels: int
    """m under central trust, else 1."""
    users_per_batch: int
    """How many users report together."""

    kernel: ClassVar[None] = None
    parameters: ClassVar[None] = None
    calibration: ClassVar[Calibration] = "paper"
    honest_fraction: ClassVar[float] = 1.0
    answers: ClassVar[type[Query]] = MomentQuery

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return f"{self.claim.trust}/{'tree' if self.claim.trust == 'central' else 'gaussian'} moments as printed"

    def families(self) -> tuple[Family, ...]:
        """One vector per node."""
        return (Family(name="moments", up=1, down=0, shift=SPREAD),)

    def events(self) -> Events:
        """One node or message, m times."""
        return ((GaussianEvent(sigma=self.sigma, shift=SPREAD), self.levels),)

    def noise_std(self) -> dict[str, float]:
        """Of an entry beside the diagonal, of one node."""
        return {"moments": self.sigma}

    def moment_std(self, users: int, query: MomentQuery) -> tuple[float, float]:
        """Of so many users together: on the diagonal of G, and in an entry of v."""
        found = math.sqrt(self._variance(users))
        return math.sqrt(2.0) * found, found

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        families = tuple(CertifiedFamily.of(one, noise="gaussian", std=self.sigma) for one in self.families())
        claim = self.claim
        says = f"epsilon {claim.epsilon:g}, delta {claim.delta:g} by sigma {self.sigma:.4g} per node, from memory"
        # Of a single message nothing follows for what a paper says of shuffled ones.
        quoted = None if claim.trust == "shuffle" else says
        return certify(self.events(), families, claim, calibration="paper", paper_says=quoted, by=self)

    def planned(self, batches: Sequence[Any], following: Sequence[int] | None = None) -> Self:
        """The noise does not depend on the schedule."""
        return self

    def begin(self) -> PrintedState:
        """Nothing yet."""
        M, d = self.shape.slots, self.shape.features
        levels = np.zeros((self.levels, M, d, d + 1))
        zero = np.zeros(1, dtype=np.int64)
        return PrintedState(np.zeros((M, d, d)), np.zeros((M, d)), levels, zero, empty_moments(self.shape))

    def release(
        self, state: PrintedState, users: FeatureUsers, query: MomentQuery, noise: Noise
    ) -> tuple[PrintedState, PrivateStatistics[MomentStatistics]]:
        """The sums with these users, and the noise of everyone so far."""
        if not isinstance(noise, SimulationNoise):
            raise NotSupported("printed noise is continuous: it exists in simulations only")
        M, n = self.shape.slots, users.users
        gram, rewards = state.gram.copy(), state.rewards.copy()
        slots = np.zeros(n, dtype=np.int64) if self.shape.shared else users.actions
        for k in range(M):
            x = users.x[slots == k]
            gram[k] += x.T @ x
            rewards[k] += x.T @ (users.rewards[slots == k] - 0.5)
        levels, done = self._noise(state, n, noise.generator), state.done + n
        total = levels.sum(axis=0)
        variance = self._variance(int(done[0]))
        released = MomentStatistics(
            gram=gram + total[:, :, :-1],
            rewards=rewards + total[:, :, -1],
            gram_variance=np.full(M, 2.0 * variance),
            reward_variance=np.full(M, variance),
            users=done,
            slot_users=np.full(M, -1) if M > 1 else done.copy(),
        )
        return PrintedState(gram, rewards, levels, done, released), PrivateStatistics(released, self.claim)

    def _variance(self, users: int) -> float:
        """Of an entry of v in the sums of so many users, at most."""
        return self.sigma**2 * (self.levels if self.claim.trust == "central" else users)

    def _noise(self, state: PrintedState, users: int, rng: np.random.Generator) -> Floats:
        levels = state.levels.copy()
        if self.claim.trust != "central":
            levels[0] += self._drawn(rng) * math.sqrt(users)
            return levels
        require(users == 1, "a tree takes users one by one", users)
        # node number t closes all lower ones: the level of the lowest bit of t is drawn anew
        t = int(state.done[0]) + 1
        level = (t & -t).bit_length() - 1
        levels[:level] = 0.0
        levels[level] = self._drawn(rng)
        return levels

    def _drawn(self, rng: np.random.Generator) -> Floats:
        """Symmetric noise, σ beside the diagonal and √2 σ on it, and σ in v: [M, d, d + 1]."""
        M, d = self.shape.slots, self.shape.features
        drawn = rng.normal(size=(M, d, d + 1))
        square = drawn[:, :, :-1]
        symmetric = (square + square.transpose(0, 2, 1)) / math.sqrt(2.0)
        return np.asarray(self.sigma * np.concatenate([symmetric, drawn[:, :, -1:]], axis=2))


def printed_moments(request: PrivacyRequest) -> PrintedMoments:
    """The noise that the paper of a trust model prints, for K users."""
    claim, K = make_claim(request), request.episodes
    if claim.delta == 0.0:
        raise NotSupported("printed noise of moments is Gaussian, which is never pure (delta 0); give a delta")
    epsilon, delta, levels, batch = claim.epsilon, claim.delta, 1, 1
    if claim.trust == "central":
        levels = 1 + math.ceil(math.log2(max(2, K)))
        sigma = 4.0 * math.sqrt(levels) * SPREAD * math.log(4.0 / delta) / epsilon
    elif claim.trust == "local":
        sigma = 4.0 * math.sqrt(2.0 * math.log(2.5 / delta)) / epsilon
    else:
        batch = math.ceil(K**0.6)
        sigma = 4.0 * math.sqrt(2.0 * math.log(2.5 * batch / delta) * math.log(2.0 / delta)) / epsilon
        sigma /= math.sqrt(batch)
    return PrintedMoments(shape=request.shape, claim=claim, sigma=sigma, levels=levels, users_per_batch=batch)
