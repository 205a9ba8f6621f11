"""How many noise bits each device adds, and how biased they are.

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
from typing import Final, Literal, NoReturn

from tacit.accounting.bits import gaussian_bits, least_mirrored_probability, least_probability
from tacit.accounting.composition import composed
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import MAX_COUNT, InvalidInput, UnknownName, require, require_count, require_real
from tacit.noise.binomial import Binomial, paper_binomial
from tacit.noise.mirrored import Mirrored

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
        spread = 2.0 * other.probability * (1.0 - other.probability) / MIRRORED_STD_RATIO**2
        less = replace(found, probability=0.5 * (1.0 - math.sqrt(1.0 - 4.0 * min(spread, 0.25))))
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
