"""One stage through the shuffler, whatever is counted: labels of ones, data and noise mixed, and sums of labels.

A release says which ones a person has (`ones`), how many there can be, and what noise bits cover (`covered`); bodies,
their checks, the sums and the price of overflowing blocks are here. Guarantees: `tacit.release.shuffle_release`.

How many noise bits each device adds, and how biased they are.

Every device runs the same randomizer: to each counter it adds `bits_per_user` independent bits, each one with
`probability`. The noise of a counter is Binomial(users · bits_per_user, probability), whoever is replaced.

`tight`  the least noise for the claim, by the exact accountant. With N fair bits needed in total, a device adds
         m = ceil(N / n) bits, biased down to the least probability for which n·m of them still do: so rounding N up
         to a multiple of n costs nothing (std 24.6 instead of 27.4 on the reference instance with n = 1000).
         At a large epsilon such bits are at a floor: some bit must be one, but for delta. There m bits of probability q
         and m of 1 - q (`mirrored`) need less (std 2.5 instead of 4.0 at epsilon 10), for twice the messages. Above
         epsilon 4 they are used where they save at least 2 % of the deviation (Lemma M11 (mirrored bits)).
`paper`  tau = 96 ln(2/beta') / eps'^2 with eps' = eps / 3H; n <= tau: ceil(tau/n) fair bits, else one bit with
         probability tau/2n ([bai2024shuffle] Alg. 4). beta' = beta in [bai2024shuffle], beta / HXA in [bai2025secure].
         The printed proof is wrong twice (H counters for 2H; beta not composed) and the constant 96 saves the claim.

Honest share: `tight` needs the noise of gamma·n devices only, so the rest may add none or tell theirs: Lemma M5
(honest share).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bits import gaussian_bits, least_mirrored_probability, least_probability
from tacit.accounting.claims import Trust
from tacit.accounting.composition import composed
from tacit.accounting.events import ApproximationEvent, Events
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.errors import MAX_COUNT, InvalidInput, UnknownName, require, require_count, require_real
from tacit.noise.binomial import Binomial, paper_binomial
from tacit.noise.mirrored import Mirrored
from tacit.protocol import Noise, Query
from tacit.release.contract import ChargedAt
from tacit.release.shuffle.roles import Transport, noise_coins, pack, permuted
from tacit.release.stage import NoSecret, StageRelease, require_people

PaperVariant = Literal["2024", "2025"]

BitKind = Literal["binomial", "mirrored-binomial"]
BIT_KINDS: Final[tuple[BitKind, ...]] = ("binomial", "mirrored-binomial")
"""Bits of one bias, and as many of the opposite one beside them."""

MIRRORED_STD_RATIO: Final = 0.98
"""Mirrored bits, which are twice as many messages, are used below this share of the deviation of bits of one bias."""
LARGE: Final = 4.0
"""Up to this epsilon bits of one bias are used: there mirrored ones save at most 2.4 % of a release of all layers."""
MAX_BITS: Final = 4096
"""What a device is asked to add to one counter, at most; it sets the least batch that can be shuffled."""
MAX_EXACT_BITS = 2.0**32
"""Bits beyond which the smallest batch of a refused request is not computed exactly: that would take a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BitNoise:
    """The same randomizer on every device of a batch.

    >>> noise = BitNoise(users=100, honest_users=90, bits_per_user=4, probability=0.5)
    >>> noise.total.mean, noise.total.std, noise.honest.bits
    (200.0, 10.0, 360)
    """

    users: int
    honest_users: int
    bits_per_user: int
    probability: float
    mirrored: bool = False
    """Whether a device adds as many bits of probability 1 - q to every counter."""

    def __post_init__(self) -> None:
        require_count("users", self.users)
        honest = require_count("honest_users", self.honest_users)
        require(honest <= self.users, f"honest_users must be at most the {self.users} users", honest)
        require_count("bits_per_user", self.bits_per_user)
        require_real("probability of a noise bit", self.probability, low=0.0, high=0.5, open_low=True)

    @property
    def total(self) -> Binomial | Mirrored:
        """The noise of one counter over the batch."""
        return self._of(self.users)

    @property
    def honest(self) -> Binomial | Mirrored:
        """The part of it that the guarantee counts on."""
        return self._of(self.honest_users)

    def _of(self, users: int) -> Binomial | Mirrored:
        law = Mirrored if self.mirrored else Binomial
        return law(bits=users * self.bits_per_user, probability=self.probability)

    def events(self, families: Sequence[Family]) -> Events:
        """What the honest part covers: one event up and one down per family, for biased bits are not symmetric."""
        return tuple(event for family in families for event in self.honest.events(family))


def least_bit_noise(
    families: Sequence[Family],
    *,
    epsilon: float,
    delta: float,
    users: int,
    honest_fraction: float = 1.0,
    max_bits_per_user: int | None = None,
    kind: BitKind | None = None,
) -> BitNoise:
    """The least noise that gives (epsilon, delta) for the worst replacement of one of `users` trajectories.

    A device that can add at most `max_bits_per_user` bits to a counter makes small batches impossible. Bits are of the
    `kind` that is named; without a name mirrored ones are used where they are worth their messages.
    """
    if kind not in (None, *BIT_KINDS):
        raise UnknownName("kind of noise bits", str(kind), BIT_KINDS)
    users, honest = require_count("users", users), _honest(users, honest_fraction)
    up, down = sum(family.up for family in families), sum(family.down for family in families)
    if max_bits_per_user is not None and delta > 0.0:
        roughly = gaussian_bits(epsilon, delta, up, down)
        if roughly > max(2.0 * max_bits_per_user * honest, MAX_EXACT_BITS):
            _refuse(f"about {roughly / max_bits_per_user / honest_fraction:.2g}", max_bits_per_user, users)
    m = Binomial.calibrate(families, epsilon, delta, users=honest).bits // honest
    if max_bits_per_user is not None and m > max_bits_per_user:
        needed = Binomial.calibrate(families, epsilon, delta).bits
        least = _smallest_batch(needed, honest_fraction, max_bits_per_user)
        _refuse(f"at least {least}", max_bits_per_user, users)
    asked = epsilon, delta, up, down, m * honest
    found = BitNoise(users=users, honest_users=honest, bits_per_user=m, probability=0.5)
    if kind == "mirrored-binomial" or (kind is None and epsilon > LARGE):
        # As many bits of either bias as there are of one, each as likely to be odd as it must be.
        other = replace(found, probability=least_mirrored_probability(*asked), mirrored=True)
        # q (1 − q) of bits of one bias whose deviation is that of these over the ratio: are they private?
        spread = min(2.0 * other.probability * (1.0 - other.probability) / MIRRORED_STD_RATIO**2, 0.25)
        # q = (1 − √(1 − 4s))/2, without the difference that rounds to 0 where s is tiny
        less = replace(found, probability=2.0 * spread / (1.0 + math.sqrt(1.0 - 4.0 * spread)))
        if kind is not None or composed(less.events(families)).delta(epsilon) > delta:
            return other
    # m·n bits are enough when fair; now each of them only as likely as it must be.
    return replace(found, probability=min(0.5, least_probability(*asked)))


def paper_bit_noise(
    *,
    epsilon: float,
    delta: float,
    users: int,
    horizon: int,
    num_states: int,
    num_actions: int,
    variant: PaperVariant,
    honest_fraction: float = 1.0,
) -> BitNoise:
    """The noise as printed; its certificate is the accountant's business.

    >>> round(paper_bit_noise(epsilon=1.0, delta=1e-6, users=1000, horizon=6, num_states=4, num_actions=2,
    ...                       variant="2024").total.std, 1)
    336.2
    """
    users, honest = require_count("users", users), _honest(users, honest_fraction)
    cells = {"2024": None, "2025": horizon * num_states * num_actions}
    if variant not in cells:
        raise UnknownName("paper variant", variant, cells)
    printed = paper_binomial(horizon, epsilon, delta, users=users, cells=cells[variant])
    return BitNoise(
        users=users, honest_users=honest, bits_per_user=printed.bits // users, probability=printed.probability
    )


def _refuse(least: str, max_bits_per_user: int, users: int) -> NoReturn:
    raise InvalidInput(
        f"a batch must have {least} users when a device adds at most {max_bits_per_user} noise bits to a "
        f"counter, got {users}; enlarge the batch, epsilon or delta"
    )


def _smallest_batch(needed: int, honest_fraction: float, max_bits_per_user: int) -> int:
    """The least n with ⌊γn⌋ · max_bits ≥ needed."""
    honest = math.ceil(needed / max_bits_per_user)
    users = math.ceil(honest / honest_fraction)
    while math.floor(honest_fraction * users) < honest:
        users += 1
    return users


def _honest(users: int, honest_fraction: float) -> int:
    """⌊γn⌋: rounded to the side that adds noise."""
    gamma = require_real("honest_fraction", honest_fraction, low=0.0, high=1.0, open_low=True)
    honest = math.floor(gamma * users)
    least = f"{math.ceil(1.0 / gamma)}" if gamma * MAX_COUNT >= 1.0 else "more than all"
    require(honest >= 1, f"a batch must have at least {least} users for an honest fraction of {gamma:g}", users)
    return honest


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
