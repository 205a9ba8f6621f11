"""`Verdict`: one published mechanism, what it claims, what the accountant certifies, what least noise would do.

The verdict follows from the numbers and from nothing else: a claim is true if the certified epsilon at the claimed
delta does not exceed the claimed one. Certified numbers are printed rounded up, noise to four digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Final, Protocol

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events, LaplaceEvent
from tacit.accounting.families import Family

__all__ = [
    "ACTIONS",
    "DELTA",
    "EPSILON",
    "HORIZON",
    "LOCAL_DELTA",
    "LOSSES",
    "ROUNDS",
    "STATES",
    "Noisy",
    "Verdict",
    "certified",
    "laplace",
    "listed",
    "per_step",
    "pooled",
    "up",
]

# The reference instance of all rows.
HORIZON: Final = 6
STATES: Final = 4
ACTIONS: Final = 2
EPSILON: Final = 1.0
DELTA: Final = 1e-6
LOCAL_DELTA: Final = 1e-5  # of [he2025policy] and [garcelon2021local]
ROUNDS: Final = 10_000  # K of [bai2024adversarial]
LOSSES: Final = 42  # X'A of [bai2024adversarial]: entries of a loss table


class Noisy(Protocol):
    """Noise that says what a family's release exposes one user to."""

    def events(self, family: Family) -> Events:
        """The exposure of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One row of the table. `claimed` is (epsilon, delta); `epsilon` is the certified number that decides.

    `tight_epsilon` is what the accountant certifies for the least noise named last (None where no noise is named).
    """

    row: int
    source: str
    mechanism: str
    claim: str
    claimed: tuple[float, float]
    epsilon: float
    certified: str
    remark: str
    sound: str
    paper_std: str
    tight_std: str
    tight_epsilon: float | None
    accounted: str
    definition: str
    """The definition of privacy under which the numbers decide, replace-one."""
    unit: str = "one trajectory"
    command: str | None = None
    undecided: str = ""
    """The verdict where the numbers decide nothing: a proof is missing, or nothing is claimed at these sizes."""

    @property
    def decided(self) -> bool:
        """Whether the numbers decide."""
        return not self.undecided

    @property
    def true(self) -> bool:
        """Whether what is claimed is true under `definition`."""
        return self.epsilon <= self.claimed[0]


def certified(noise: Noisy, families: Iterable[Family], delta: float) -> float:
    """The epsilon of these families under one noise."""
    return epsilon_of(tuple(pair for family in families for pair in noise.events(family)), delta)


def laplace(scale: float, noises: int) -> Events:
    """So many Laplace noises over a shift of one each."""
    return ((LaplaceEvent(scale=scale, shift=1.0, discrete=False), noises),)


def per_step(name: str, steps: int) -> Family:
    """Replacing a trajectory moves one counter up and one down at every step."""
    return Family(name=name, up=steps, down=steps, shift=1.0)


def pooled(*steps: int) -> tuple[Family, ...]:
    """Families whose counters add the steps up: at worst one counter goes up and one down by all of them."""
    return tuple(Family(name=f"family {i}", up=1, down=1, shift=float(n)) for i, n in enumerate(steps))


def up(epsilon: float) -> str:
    """Four digits, rounded up.

    >>> up(0.0628001), up(2.0), up(math.inf)
    ('0.06281', '2', 'inf')
    """
    if math.isinf(epsilon):
        return "inf"
    with localcontext(prec=4, rounding=ROUND_CEILING):
        return f"{float(+Decimal(epsilon)):.4g}"


def listed(values: Sequence[float], *, certifies: bool = False) -> str:
    """Numbers side by side.

    >>> listed([335.89, 336.16])
    '335.9 / 336.2'
    """
    return " / ".join(up(value) if certifies else f"{value:.4g}" for value in values)
