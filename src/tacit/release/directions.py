"""Local trust, vectors: every person sends the number of one of M public random directions, with all of epsilon.

    seed      16 bytes, drawn before the data; direction j < M/2 has the entries popcount(SHA-256(seed, j, i)) − 128,
              and direction j + M/2 is its opposite
    v         the person's vector, made as long as the longest by a coin: ±v/|v|, + with probability (1 + |v|/longest)/2
    index     the M directions are ranked by ⟨u_j, ±v⟩, ties by number; one of the first k with probability
              k e^ε/(k e^ε + M − k), else one of the others, each alike

G1  Whatever v is, every index has one of two probabilities whose ratio is e^ε: a body is ε-private, purely, given its
    seed, which does not depend on the data. All of ε is used: Lemma L7 (one of many directions).
G2  E u_index = 8 m v/longest, m the mean score of `mean_score`, up to the distance of the entries from Gaussian numbers
    of variance 64: within 0.1 %. So Σ u/(8m) · longest estimates Σ v, with noise of variance longest²/m² per person
    in every entry.
G3  `simulate` draws the sum at once from that Gaussian law of the entries.
G4  Where the statistic has strata, a body names the public stratum of its person, and is about that stratum alone.

A sign bit is M = 2; M = 32 has 6 % more signal at epsilon 1 and 55 % more at epsilon 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Final

import numpy as np
import scipy

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.units import largest_report_epsilon
from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count, require_real
from tacit.noise.exact import bernoulli_logistic, uniform_integers
from tacit.noise.randomized_response import private_keep
from tacit.protocol import Noise, PrivateStatistics, Query
from tacit.randomness import SimulationNoise
from tacit.release.local import LetterBox
from tacit.release.stage import VectorMemory, VectorStage, require_people
from tacit.statistics.vectors import VectorStatistic, in_chunks

DIRECTIONS: Final = 32
"""M"""
SEED: Final = 16
DEVIATION: Final = 8.0
"""Of one entry of a direction: 256 fair bits have the variance 64."""


class SimulatedSums(bytes):
    """Simulation only: sums in place of the messages that they would be of; no device and no collector makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionRelease(VectorStage, LetterBox):
    """One stage of indices of directions; make it with `tacit.release.vectors.VectorPlan`."""

    statistic: VectorStatistic
    claim: PrivacyClaim
    target: int
    least: int
    directions: int
    """M"""
    chosen: int
    """k"""
    epsilon: float
    """Of one message."""

    KIND: ClassVar[str] = "local-vectors"
    name: ClassVar[str] = "local/directions"

    def __post_init__(self) -> None:
        require(self.claim.trust == "local", "directions claim trust 'local'", self.claim.trust)
        self.require_sizes()
        self.statistic.require_reach()
        M = require_count("directions", self.directions, 2, 256)
        require(M % 2 == 0, "directions must be pairs", M)
        require(require_count("chosen", self.chosen) <= M // 2, f"chosen must be at most {M // 2}", self.chosen)
        require_real("epsilon", self.epsilon, low=0.0, open_low=True)

    @property
    def body_size(self) -> int:
        """Stratum, seed and index."""
        return 2 + SEED + 1

    def events(self) -> Events:
        """One message (G1)."""
        return ((PureEvent(epsilon=self.epsilon), 1),)

    @property
    def gain(self) -> float:
        """What is multiplied with a sum of directions: longest/(8 m), in natural units (G2)."""
        score = mean_score(self.directions, self.chosen, self.epsilon)
        return self.statistic.longest / self.statistic.scale / (DEVIATION * score)

    def noise_variance(self, people: int) -> float:
        """Of the noise in one sum of so many messages (G2)."""
        return people * (DEVIATION * self.gain) ** 2

    def encode(self, person: Any, noise: Noise) -> bytes:
        """The device: the seed is drawn before the person's data are looked at."""
        seed = bytes(_below(256, noise, SEED))
        size, stratum, v = self.statistic.size, -1, np.zeros(self.statistic.size, dtype=np.int64)
        if person is not None:
            one = self.statistic.people(person, noise)
            stratum = int(self.statistic.stratum(one)[0])
            labels, amounts = self.statistic.entries(one)
            v[labels[0]] = amounts[0]
        if stratum < 0:
            stratum, v = _below(self.statistic.strata, noise)[0], np.zeros(size, dtype=np.int64)
        half = np.array([direction(seed, j, size, self.directions) for j in range(self.directions // 2)]) @ v
        scores = np.concatenate([half, -half])
        # + with probability (1 + |v|/longest)/2: a fair coin, and another chance where it is lost
        length = self.statistic.longest
        if _below(2, noise) == [0] and _below(length, noise)[0] ** 2 >= int(v @ v):
            scores = -scores
        ranked = np.argsort(-scores, kind="stable")
        k, M = self.chosen, self.directions
        first = self._first(noise)
        place = _below(k, noise)[0] if first else k + _below(M - k, noise)[0]
        return stratum.to_bytes(2, "little") + seed + bytes([int(ranked[place])])

    def _first(self, noise: Noise) -> bool:
        """Whether one of the first k is sent."""
        odds = Fraction(self.directions - self.chosen, self.chosen)
        if isinstance(noise, SimulationNoise):
            return bool(noise.generator.random() < self._keep)
        return not bernoulli_logistic(1, noise, gamma=self.epsilon, odds=odds)[0]

    @property
    def _keep(self) -> float:
        others = (self.directions - self.chosen) * math.exp(-self.epsilon) / self.chosen
        return private_keep(others / (1.0 + others), self.directions)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this body."""
        require(len(body) == self.body_size, f"a body must have {self.body_size} bytes", len(body))
        require(body[-1] < self.directions, f"an index must be below {self.directions}", body[-1])
        stratum = int.from_bytes(body[:2], "little")
        require(stratum < self.statistic.strata, f"a stratum must be below {self.statistic.strata}", stratum)

    def asked(self, query: Query) -> Query:
        """The query of the statistic, and nothing else."""
        self.require_query(query, self.query)
        return query

    def read(self, memory: Any, payload: bytes, people: int) -> tuple[Any, PrivateStatistics[Any]]:
        """The directions that were named, added up."""
        require_people(people, self.least, self.target)
        strata, size = self.statistic.strata, self.statistic.size
        if isinstance(payload, SimulatedSums):
            numbers = np.frombuffer(payload, dtype="<f8").reshape(strata, size + 1)
            sums, users = numbers[:, :size], np.rint(numbers[:, size]).astype(np.int64)
        else:
            total, users = np.zeros((strata, size), dtype=np.int64), np.zeros(strata, dtype=np.int64)
            for body in self.bodies(payload, people):
                stratum = int.from_bytes(body[:2], "little")
                total[stratum] += direction(body[2:-1], body[-1], size, self.directions)
                users[stratum] += 1
            sums = total.astype(np.float64)
        found = self.statistic.read(sums * self.gain, self.noise_variance(1) * users.astype(np.float64), users)
        return VectorMemory(found), PrivateStatistics(found, self.claim)

    def simulate(self, secret: Any, users: Any, query: Query, noise: SimulationNoise) -> tuple[Any, bytes]:
        """Simulation only: the sum of all directions at once (G3).

        u = w + (t − ⟨w, e⟩) e    w Gaussian, e = ±v/|v| the person's direction, t its score of a random rank
        """
        require_people(int(users.users), self.least, self.target)
        self.asked(query)
        generator, strata, size = noise.generator, self.statistic.strata, self.statistic.size
        sums, number = np.zeros((strata, size)), np.zeros(strata)
        for part in in_chunks(self.statistic.people(users, noise)):
            labels, amounts = self.statistic.entries(part)
            n = len(labels)
            stratum = self.statistic.stratum(part)
            lost = stratum < 0
            group = np.where(lost, generator.integers(0, strata, n), stratum)
            v = np.where(lost[:, None], 0, amounts) / self.statistic.longest
            length = np.sqrt((v * v).sum(axis=1))
            sign = np.where(generator.random(n) < (1.0 + length) / 2.0, 1.0, -1.0)
            e = v * (sign / np.where(length > 0.0, length, 1.0))[:, None]
            # With w only where e is not zero, the other entries are Gaussian sums of their own.
            t = _scores(n, self.directions, self.chosen, self._keep, generator)
            w = generator.standard_normal(amounts.shape)
            u = w + (np.where(length > 0.0, t, 0.0) - (w * e).sum(axis=1))[:, None] * e
            np.add.at(number, group, 1.0)
            flat = (group[:, None] * size + labels).ravel()
            sums += np.bincount(flat, weights=u.ravel(), minlength=strata * size).reshape(strata, size)
            touched = np.bincount(flat, minlength=strata * size).reshape(strata, size)
            others = np.bincount(group, minlength=strata)[:, None] - touched
            sums += np.sqrt(others) * generator.standard_normal((strata, size))
        return secret, SimulatedSums(
            np.concatenate([DEVIATION * sums, number[:, None]], axis=1).astype("<f8").tobytes()
        )


def direction(seed: bytes, number: int, size: int, directions: int) -> Ints:
    """Entries of a direction: bits of SHA-256 that are one, less 128; the second half are those of the first, reversed.

    >>> direction(bytes(16), 0, 4, 32).tolist(), direction(bytes(16), 16, 4, 32).tolist()
    ([10, 1, -3, 5], [-10, -1, 3, -5])
    """
    start = seed + bytes([number % (directions // 2)])
    ones = [int.from_bytes(sha256(start + i.to_bytes(2, "little")).digest(), "little").bit_count() for i in range(size)]
    found = np.array(ones, dtype=np.int64) - 128
    return found if number < directions // 2 else -found


@lru_cache(maxsize=256)
def mean_score(directions: int, chosen: int, epsilon: float) -> float:
    """m: the mean of the score that is sent, of `directions` standard Gaussian ones, the first k with weight e^ε.

    >>> round(mean_score(32, 11, 1.0), 3), round(mean_score(2, 1, 1.0), 3)
    (0.393, 0.369)
    """
    first = sum(_order_means(directions // 2)[:chosen]) / chosen
    others = (directions - chosen) * math.exp(-epsilon) / chosen
    keep = 1.0 / (1.0 + others)
    # The scores sum to zero, so the others have the mean −k/(M − k) of the first.
    return first * (keep - (1.0 - keep) * chosen / (directions - chosen))


@lru_cache(maxsize=16)
def _order_means(count: int) -> tuple[float, ...]:
    """The means of the lengths of so many standard Gaussian numbers, in falling order, by quadrature on 0..9."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    x, each = 4.5 * (nodes + 1.0), 4.5 * weights
    density, log_F = 0.5 * math.log(2.0 / math.pi) - x * x / 2.0, np.log(scipy.special.erf(x / math.sqrt(2.0)))
    found = []
    for r in range(1, count + 1):
        # C f(x) F(x)^(n − r) (1 − F(x))^(r − 1), F(x) = 2Φ(x) − 1
        log_c = scipy.special.gammaln(count + 1) - scipy.special.gammaln(r) - scipy.special.gammaln(count - r + 1)
        tail = (r - 1) * (scipy.special.log_ndtr(-x) + math.log(2.0))
        found.append(float((each * x * np.exp(log_c + density + (count - r) * log_F + tail)).sum()))
    return tuple(found)


def _scores(n: int, directions: int, chosen: int, keep: float, generator: np.random.Generator) -> Floats:
    """Scores of the directions that n people send: an order statistic of a random rank."""
    first = generator.random(n) < keep
    rank = np.where(first, generator.integers(0, chosen, n), generator.integers(chosen, directions, n))
    down = rank >= directions // 2
    rank = np.where(down, directions - 1 - rank, rank)
    # The (r + 1)-th largest of n uniform numbers is Beta(n − r, r + 1).
    length = scipy.special.ndtri((1.0 + generator.beta(directions // 2 - rank, rank + 1.0)) / 2.0)
    return np.asarray(np.where(down, -length, length))


def _below(high: int, noise: Noise, count: int = 1) -> list[int]:
    """Uniform whole numbers below `high`."""
    if isinstance(noise, SimulationNoise):
        return [int(one) for one in noise.generator.integers(0, high, count)]
    return [int(one) for one in uniform_integers(count, noise, below=high)]


@lru_cache(maxsize=256)
def directions_for(claim: PrivacyClaim) -> dict[str, Any]:
    """The size of the first group that tells most, and the epsilon of one message."""

    def made(epsilon: float) -> float:
        return epsilon

    each = claim.epsilon
    if not claim.unit.one:
        g = claim.unit.reports
        each = largest_report_epsilon(
            made, lambda epsilon: ((PureEvent(epsilon=epsilon), g),), claim.epsilon, claim.delta
        )
    best = max(range(1, DIRECTIONS // 2 + 1), key=lambda k: mean_score(DIRECTIONS, k, each))
    return {"directions": DIRECTIONS, "chosen": best, "epsilon": each}
