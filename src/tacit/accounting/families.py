"""What one user can change in a release: the worst pattern of shifts, family by family.

With independent noise per counter, the privacy loss depends only on the counters that differ, and the full pattern
(every counter that can move does move, as far as it can) dominates every other one at every epsilon
(Lemma S1 (full pattern), Lemma S4 (staged counts), Lemma S5 (pooled counts)).
So a family is described, exactly, by how many counters go up, how many go down, and by how much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tacit.errors import require, require_count, require_real


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family of released counters under the worst replacement of one user's trajectory.

    Replace-one over a horizon H, one counter per step: H counters lose one, H others gain one.

    >>> visits = Family(name="visits", up=6, down=6, shift=1.0)
    >>> visits.l1, visits.l2_squared, visits.differing
    (12.0, 12.0, 12)

    Aggregated over steps, a user may sit in one cell all the time: one counter loses H, another gains H.

    >>> Family(name="visits", up=1, down=1, shift=6.0).l2_squared
    72.0
    """

    name: str
    up: int
    down: int
    shift: float

    def __post_init__(self) -> None:
        require_count(f"up counters of {self.name}", self.up, least=0)
        require_count(f"down counters of {self.name}", self.down, least=0)
        require_real(f"shift of {self.name}", self.shift, low=0.0, open_low=True)

    @property
    def differing(self) -> int:
        """How many counters differ between two neighbouring inputs."""
        return self.up + self.down

    @property
    def l1(self) -> float:
        """The L1 sensitivity: Σ |shift|."""
        return self.differing * self.shift

    @property
    def l2_squared(self) -> float:
        """The squared L2 sensitivity: Σ shift²."""
        return self.differing * self.shift**2


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedFamily:
    """One released family: what one user can change in it, and the noise that covers it."""

    name: str
    l1: float
    l2: float
    differing: int
    noise: str
    std: float

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> CertifiedFamily:
        """The family of a certificate that was written; fields and their types must be these."""
        kinds: Mapping[str, Any] = {"str": str, "int": int, "float": (int, float)}
        wanted = {item.name: kinds[str(item.type)] for item in fields(cls)}
        require(set(plain) == set(wanted), f"a certified family has the entries {', '.join(wanted)}", sorted(plain))
        for name, kind in wanted.items():
            right = isinstance(plain[name], kind) and not isinstance(plain[name], bool)
            require(right, f"{name} of a certified family must be of its type", plain[name])
        return cls(**plain)

    @classmethod
    def of(cls, family: Family, *, noise: str, std: float) -> CertifiedFamily:
        """Describe `family` under noise of this name and standard deviation.

        >>> CertifiedFamily.of(Family(name="visits", up=6, down=6, shift=1.0), noise="laplace", std=17.0).l1
        12.0
        """
        l2 = math.sqrt(family.l2_squared)
        return cls(name=family.name, l1=family.l1, l2=l2, differing=family.differing, noise=noise, std=std)
