"""Returns of arms: what a batch of users in public groups, each of whom rounded their return to a bit, releases.

    none      the sum of an arm's bits, as it is
    gaussian  the sum and Gaussian noise                        central trust
    bits      the sum and (B − B')/2, two sums of noise bits    shuffle trust
    flips     the sum of flipped bits                           local trust

The law of the noise is public and exact: it is computed with, not estimated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, TypeAlias

from tacit.errors import InvalidInput, UnknownName, require, require_count, require_real
from tacit.noise.dominating_pmf import DominatingPMF, gaussian_law, half_bits_laws


@dataclass(frozen=True, slots=True)
class NoNoise:
    """No noise at all: nobody is protected."""

    KIND: ClassVar[str] = "none"
    flip: ClassVar[float] = 0.0

    def variance(self) -> float:
        """Of the noise in a sum."""
        return 0.0

    def laws(self, scale: float, step: float) -> tuple[DominatingPMF, ...]:
        """Nothing is added."""
        del scale, step
        return ()


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """Gaussian noise in the sum of an arm; on a lattice, it is so but for a public distance and a public rounding."""

    std: float
    rounding: float = 0.0
    """How far a lattice point may lie from the number that was rounded to it."""
    distance: float = 0.0
    """Total variation from rounded Gaussian noise: Lemma N7 (rounded Gaussian)."""

    KIND: ClassVar[str] = "gaussian"
    flip: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        require_real("std", self.std, low=0.0, open_low=True)
        require_real("rounding", self.rounding, low=0.0)
        require_real("distance", self.distance, low=0.0, high=1.0)

    def variance(self) -> float:
        """Of the noise in a sum."""
        return self.std**2

    def laws(self, scale: float, step: float) -> tuple[DominatingPMF, ...]:
        """The law above scale times the noise, either side."""
        found = gaussian_law(scale * self.std, step)
        moved = math.ceil(scale * self.rounding / step)
        beyond = min(1.0, found.beyond + self.distance)
        return (DominatingPMF(step=step, first=found.first + moved, mass=found.mass, beyond=beyond),)


@dataclass(frozen=True, slots=True)
class BitNoiseSum:
    """Half the difference of two centred sums of so many noise bits each in the sum of an arm.

    A mirrored bit has the centred law of a bit that is subtracted, so mirrored noise is the same with twice the bits.
    """

    bits: int
    probability: float

    KIND: ClassVar[str] = "bits"
    flip: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        require_count("bits", self.bits, most=2**63 - 1)
        require_real("probability", self.probability, low=0.0, high=0.5, open_low=True)

    def variance(self) -> float:
        """Of the noise in a sum: 2 N q (1 − q)/4."""
        return self.bits * self.probability * (1.0 - self.probability) / 2.0

    def laws(self, scale: float, step: float) -> tuple[DominatingPMF, ...]:
        """The laws above scale · B/2 and − scale · B'/2, either side."""
        return half_bits_laws(self.bits, self.probability, scale, step)


@dataclass(frozen=True, slots=True)
class FlippedBits:
    """Every bit flipped with this probability before it was added."""

    flip: float

    KIND: ClassVar[str] = "flips"

    def __post_init__(self) -> None:
        require_real("flip", self.flip, low=0.0, high=0.5)
        require(self.flip < 0.5, "flips must leave something of a bit (below 1/2)", self.flip)

    def variance(self) -> float:
        """All of it is in the bits."""
        return 0.0

    def laws(self, scale: float, step: float) -> tuple[DominatingPMF, ...]:
        """Nothing is added to the sum of flipped bits."""
        del scale, step
        return ()


ArmNoise: TypeAlias = NoNoise | GaussianSum | BitNoiseSum | FlippedBits
KINDS: Final[Mapping[str, type[ArmNoise]]] = {
    kind.KIND: kind for kind in (NoNoise, GaussianSum, BitNoiseSum, FlippedBits)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStatistics:
    """The released sums of the arms' bits, and the law of their noise; every entry is public.

    >>> found = ArmStatistics(sums=(30.0, 45.0), users=(100, 100), noise=FlippedBits(flip=0.25))
    >>> [round(mean, 3) for mean in found.means]
    [0.1, 0.4]
    """

    sums: tuple[float, ...]
    users: tuple[int, ...]
    noise: ArmNoise

    def __post_init__(self) -> None:
        require(len(self.sums) == len(self.users) > 0, "every arm must have a sum and users", len(self.users))
        for users in self.users:
            require_count("users of an arm", users)
        for total in self.sums:
            require_real("released sum", total)

    @property
    def means(self) -> tuple[float, ...]:
        """Unbiased means of the bits, in [0, 1] but for noise."""
        flip = self.noise.flip
        # (ñ/n − f)/(1 − 2f)
        pairs = zip(self.sums, self.users, strict=True)
        return tuple((total / users - flip) / (1.0 - 2.0 * flip) for total, users in pairs)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        noise = {"kind": self.noise.KIND, **asdict(self.noise)}
        return {"sums": list(self.sums), "users": list(self.users), "noise": noise}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ArmStatistics:
        """What `to_dict` wrote; anything missing or unknown is refused."""
        require(set(plain) == {"sums", "users", "noise"}, "released arms have sums, users and noise", sorted(plain))
        return cls(sums=tuple(plain["sums"]), users=tuple(plain["users"]), noise=noise_from_dict(plain["noise"]))


def noise_from_dict(plain: Mapping[str, Any]) -> ArmNoise:
    """The noise of arms that was written as JSON."""
    numbers = {name: value for name, value in plain.items() if name != "kind"}
    if plain.get("kind") not in KINDS:
        raise UnknownName("noise of arms", str(plain.get("kind")), KINDS)
    try:
        return KINDS[plain["kind"]](**numbers)
    except TypeError as error:
        raise InvalidInput(f"noise of the kind '{plain['kind']}' has other numbers than given") from error
