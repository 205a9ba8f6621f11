"""A statistic of its own under central trust, in one file: the sum of returns, with fresh noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.protocol import TOTALS, Noise, Query, Totals
from tacit.release.curator import CuratorRelease, FreshNoise
from tacit.released.counts import CountShape


class ToyMemory(NamedTuple):
    """The sum that was released last."""

    released: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRelease(CuratorRelease):
    """One stage of the sum of returns."""

    shape: CountShape
    claim: PrivacyClaim
    target: int
    least: int
    levels: int
    unit: int
    variance: int

    KIND: ClassVar[str] = "central-toy"
    name: ClassVar[str] = "central/toy"
    query: ClassVar[Totals] = TOTALS

    def __post_init__(self) -> None:
        self.require_release(self.target * self.shape.horizon * self.unit)

    @property
    def noise(self) -> FreshNoise:
        """What the curator adds."""
        return FreshNoise(size=1, levels=self.levels, unit=self.unit, variance=self.variance)

    def families(self) -> tuple[Family, ...]:
        """A return lies in [0, H]."""
        return (Family(name="returns", up=1, down=0, shift=float(self.shape.horizon)),)

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise."""
        return {"returns": self.noise.std}

    def sums(self, people: Any, query: Query, noise: Noise) -> Ints:
        """Σ returns, in units of 1/levels."""
        return np.array([people.rewards.sum()], dtype=np.int64)

    def begin_memory(self) -> ToyMemory:
        """Nothing is known yet."""
        return ToyMemory(0.0)

    def memory_after(self, memory: ToyMemory, payload: bytes, people: int) -> ToyMemory:
        """The sum of this stage."""
        return ToyMemory(float(self.noise.values(payload)[0]))
