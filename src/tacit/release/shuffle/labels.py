"""One stage through the shuffler, whatever is counted: labels of ones, data and noise mixed, and sums of labels.

A release says which ones a person has (`ones`), how many there can be, and what noise bits cover (`covered`); bodies,
their checks, the sums and the price of overflowing blocks are here. Guarantees: `tacit.release.shuffle_release`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import Trust
from tacit.accounting.events import ApproximationEvent, Events
from tacit.arrays import Ints
from tacit.errors import require, require_count
from tacit.noise.binomial import Binomial
from tacit.noise.mirrored import Mirrored
from tacit.protocol import Noise, Query
from tacit.release.contract import ChargedAt
from tacit.release.shuffle.noise import BitNoise
from tacit.release.shuffle.roles import Transport, noise_coins, pack, permuted
from tacit.release.stage import NoSecret, StageRelease, require_people

MIN_PEOPLE = 2
"""A shuffler with a single person hides nobody."""


class LabelRelease(StageRelease):
    """One stage of labels; subclasses are frozen dataclasses of exact public numbers."""

    __slots__ = ()
    TRUST: ClassVar[Trust] = "shuffle"
    CHARGED_AT: ClassVar[ChargedAt] = "release"
    query: Any
    honest: int
    bits_per_user: int
    probability: Fraction
    block: int
    overflow: Fraction
    mirrored: bool

    @property
    def num_counters(self) -> int:
        """C: the labels that stand for something."""
        raise NotImplementedError

    @property
    def slots(self) -> int:
        """How many ones a person has, at most."""
        raise NotImplementedError

    @property
    def most_ones(self) -> int:
        """How many of them are of one label, at most."""
        raise NotImplementedError

    def ones(self, person: Any, noise: Noise) -> NDArray[np.uint32]:
        """The labels of one person's ones; of a cover report, where it is None."""
        raise NotImplementedError

    def covered(self, noise: BitNoise) -> Events:
        """What one report costs under these bits, blocks aside."""
        raise NotImplementedError

    def require_stage(self) -> None:
        """Raise unless the claim, the sizes and the noise fit together."""
        require(self.claim.trust == "shuffle", "a shuffled stage claims trust 'shuffle'", self.claim.trust)
        self.require_sizes(MIN_PEOPLE)
        honest = require_count("honest", self.honest)
        require(honest <= self.least, f"honest must be at most the {self.least} needed", honest)
        for name in ("probability", "overflow"):
            value = getattr(self, name)
            require(Fraction(float(value)) == value, f"{name} must be a double", value)
        _ = self.transport, self.bit_noise(self.least)  # their checks are ours

    @property
    def transport(self) -> Transport:
        """How labels travel."""
        return _transport(self)

    def bit_noise(self, people: int) -> BitNoise:
        """The noise of one counter when so many report; honest devices are the same share of any number."""
        honest = self.honest * people // self.least
        return _bit_noise(people, honest, self.bits_per_user, float(self.probability), self.mirrored)

    def law(self, people: int) -> Binomial | Mirrored:
        """The noise in one counter when so many report."""
        return bits_in_all(self.bit_noise(people))

    @property
    def _most_bits(self) -> int:
        """Noise bits of one device per counter, of both biases."""
        return self.bits_per_user * (2 if self.mirrored else 1)

    @property
    def labels(self) -> np.dtype[Any]:
        """The type of a label: 16 bits, or 32 where there are more counters."""
        return np.dtype("<u2") if self.num_counters < 2**16 else np.dtype("<u4")

    @property
    def body_size(self) -> int:
        """The length of a body in bytes, extra blocks aside."""
        return self.labels.itemsize * self.transport.report_size

    def events(self) -> Events:
        """What one report costs when `least` people report (G2), extra blocks included (G3)."""
        return self.events_at(self.least)

    def events_at(self, people: int) -> Events:
        """The same when so many report."""
        require_people(people, self.least, self.target)
        covered = self.covered(self.bit_noise(people))
        if self.overflow == 0:
            return covered
        return (*covered, (ApproximationEvent(tv=float(self.overflow), up_to=self.claim.epsilon), 1))

    def encode(self, person: Any, noise: Noise) -> bytes:
        """The device: labels of data and noise, sorted, dummies last; None is a cover report (G4)."""
        sent = pack(self.transport, self.ones(person, noise), noise_coins(self.transport, noise))
        return np.sort(sent).astype(self.labels).tobytes()

    def check(self, body: bytes) -> None:
        """Raise unless a body has a length, labels and an order that some device could have sent (G3, G5)."""
        transport, size = self.transport, self.labels.itemsize
        extra, rest = divmod(len(body) - self.body_size, size * transport.block)
        most = -(-transport.noise_bits // transport.block) - 1
        whole = rest == 0 and 0 <= extra <= most
        require(whole, f"a body must have {self.body_size} bytes, or whole blocks more", len(body))
        labels = np.frombuffer(body, dtype=self.labels)
        C, m = transport.num_counters, self._most_bits + self.most_ones
        known = bool(labels[-1] <= C and (labels[1:] >= labels[:-1]).all())
        require(known, f"labels of a body must be sorted and at most {C}", "others")
        real = labels[: np.searchsorted(labels, C)]
        often = len(real) > m and bool((real[m:] == real[:-m]).any())
        require(not often, f"a label must come at most {m} times in a body", "more")

    def shuffle(self, bodies: Sequence[bytes], noise: Noise) -> NDArray[np.uint32]:
        """The shuffler: all labels of a stage in random order; nothing, where reports are missing."""
        require_people(len(bodies), self.least, self.target)
        return permuted([np.frombuffer(body, dtype=self.labels).astype(np.uint32) for body in bodies], noise)

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[NoSecret, bytes]:
        """Count the labels of all bodies; nothing is drawn, all noise is the devices' (G1)."""
        require_people(len(bodies), self.least, self.target)
        self.require_query(query, self.query)
        for body in bodies:
            self.check(body)
        C = self.num_counters
        labels = np.frombuffer(b"".join(bodies), dtype=self.labels)
        return secret, np.bincount(labels, minlength=C + 1)[:C].astype("<i8").tobytes()

    def noise_sums(self, people: int, noise: Any) -> Ints:
        """Simulation only: how many noise ones of every label there are, at once."""
        law = self.law(people)
        return np.rint(law.sample(self.num_counters, noise) + law.mean).astype(np.int64)

    def sums(self, payload: bytes, people: int) -> Ints:
        """The histogram, if so many people can have sent it; it holds the mean of their noise, too."""
        require_people(people, self.least, self.target)
        C = self.num_counters
        require(len(payload) == 8 * C, f"a payload must have {8 * C} bytes", len(payload))
        sums = np.frombuffer(payload, dtype="<i8").astype(np.int64)
        most = people * (self._most_bits + self.most_ones)
        fits = bool((sums >= 0).all() and (sums <= most).all())
        require(fits, f"every sum of {people} reports must lie in 0..{most}", "another")
        return sums


@lru_cache(maxsize=4096)
def _bit_noise(users: int, honest: int, bits_per_user: int, probability: float, mirrored: bool) -> BitNoise:
    return BitNoise(
        users=users,
        honest_users=honest,
        bits_per_user=bits_per_user,
        probability=probability,
        mirrored=mirrored,
    )


@lru_cache(maxsize=4096)
def bits_in_all(noise: BitNoise) -> Binomial | Mirrored:
    """The law of all bits of one counter, remembered."""
    return noise.total


@lru_cache(maxsize=256)  # every device of a stage asks
def _transport(release: LabelRelease) -> Transport:
    return Transport(
        num_counters=release.num_counters,
        slots=release.slots,
        users=release.target,
        bits_per_user=release.bits_per_user,
        probability=float(release.probability),
        mirrored=release.mirrored,
        overflow_prob=float(release.overflow),
        fixed_block=release.block,
    )
