"""Subset selection of one slot: k cells out of d are sent, the true one among them more often than the others.

The true cell is in the subset with probability p = k e^ε/(k e^ε + d - k), the rest of the subset is drawn uniformly
from the other cells, so that each of them is sent with probability q = (k - p)/(d - 1). With k = 1 this is the direct
answer: the truth, or another cell at random. What it shares with unary encoding, above all the choice of the slot, is
in `one_slot`; its guarantees hold here:

G1  A replaced vector costs ε, exactly: a subset with the true cell is e^ε times as probable as one without it. Where
    e^-ε is too small for a seeded uniform number, the truth is left out more often than that, never less often.
G2  `debias` is unbiased with the stated variance. Bits of one slot depend on each other, never positively: the variance
    of a sum of cells is at most the sum of theirs (Lemma L4 (subset selection)).
G3  `radius` covers the error of a sum over n users, whatever their cells.
G4  `calibrate` takes all of ε for the one slot, rounded to the private side, and the size with the least noise; that is
    at most the noise of unary encoding, and half of it where a slot has few cells (8 cells, ε = 2: 0.33 against 0.72).

References: M. Ye and A. Barg, "Optimal schemes for discrete distribution estimation under locally differential
privacy", IEEE Trans. Inf. Theory 2018; S. Wang et al., "Mutual information optimally local private discrete
distribution estimation", 2016. The one-slot design is not in the papers that tacit implements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count
from tacit.kernels import kernel, lean_kernel
from tacit.noise.exact import bernoulli_logistic, permutation
from tacit.noise.one_slot import OneSlot, calibrated_slot, feeding_slots, one_slot_encoder
from tacit.noise.protocol import Shape, require_simulation
from tacit.noise.randomized_response import MIN_PROBABILITY, private_keep
from tacit.noise.support_index import places_of, slots_of
from tacit.randomness import SecureNoise, SimulationNoise


class Subset(NamedTuple):
    """How the subset of one slot is drawn and de-biased."""

    keep: float
    rise: float
    gain: float
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetSelection(OneSlot):
    """A subset of `size` out of the `cells` of one slot; the slot is one out of `slots`.

    >>> mechanism = SubsetSelection(epsilon=2.0, slots=1, feeding=1, cells=8, size=1)
    >>> round(mechanism.keep, 4), round(mechanism.rise, 4), round(mechanism.noise_variance, 4)
    (0.5135, 0.0695, 0.328)
    """

    cells: int
    size: int

    NAME: ClassVar[str] = "subset"
    SUMMARY: ClassVar[str] = "one slot with all of epsilon, as a subset of its cells"
    COUPLED: ClassVar[bool] = True

    def __post_init__(self) -> None:
        OneSlot.__post_init__(self)  # no super(): a dataclass with slots is built anew
        require_count("cells", self.cells)
        require_count("size", self.size)
        require(self.size <= max(1, self.cells - 1), f"a subset of {self.cells} cells leaves one out", self.size)

    @property
    def keep(self) -> float:
        """P(the true cell is sent), p = k e^ε/(k e^ε + d - k), and below 1 where there is another cell."""
        k, d = self.size, self.cells
        return 1.0 if d == 1 else min(k / (k + (d - k) * math.exp(-self.epsilon)), 1.0 - MIN_PROBABILITY)

    @property
    def sampled_keep(self) -> float:
        """The p that is compared with seeded uniform numbers: rounded so that they never cost more than ε (G1)."""
        odds = (self.cells - self.size) * math.exp(-self.epsilon) / self.size
        return 1.0 if self.cells == 1 else private_keep(odds / (1.0 + odds), self.cells)

    @property
    def rise(self) -> float:
        """P(another cell is sent), q = (k - p)/(d - 1)."""
        k, d = self.size, self.cells
        odds = (d - k) * math.exp(-self.epsilon) / k  # 1 - p = odds/(1 + odds)
        return (k - 1 + odds / (1.0 + odds)) / max(1, d - 1)

    @property
    def contrast(self) -> float:
        """P - q = k (d-k) (e^ε-1) / ((d-1) (d + k (e^ε-1)))."""
        k, d = self.size, self.cells
        lift = -math.expm1(-self.epsilon)
        return 1.0 if d == 1 else k * (d - k) * lift / ((d - 1) * (d * math.exp(-self.epsilon) + k * lift))

    @property
    def covariance(self) -> float:
        """Of two cells that are not the true one: both are among the k or k - 1 others that are drawn."""
        k, d, p = self.size, self.cells, self.keep
        pairs = max(1, (d - 1) * (d - 2))
        return (p * (k - 1) * (k - 2) + (1.0 - p) * k * (k - 1)) / pairs - self.rise**2 if d > 2 else 0.0

    @property
    def true_covariance(self) -> float:
        """P(true and other) - p q = -p (1-p)/(d-1)."""
        return -self.keep * (1.0 - self.keep) / max(1, self.cells - 1)

    def reach(self, cells: int) -> float:
        """At most k cells are sent as one."""
        ones = min(self.size, cells)
        return self.gain * max(cells * self.rise, ones - cells * self.rise) + self.feeding

    def randomize(self, hot: ArrayLike, noise: SimulationNoise) -> Ints:
        """The sent subsets [users, cells] of users whose true cells these are."""
        truths, generator = np.asarray(hot, dtype=np.int64), require_simulation(noise)
        sent = np.zeros((len(truths), self.cells))
        _each_subset(sent, truths, self.size, self.sampled_keep, generator)
        return sent.astype(np.int64)

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel."""
        return one_slot_encoder(send_subset)

    @property
    def parameters(self) -> Subset:
        """What the encoder needs."""
        return Subset(keep=self.sampled_keep, rise=self.rise, gain=self.gain, size=self.size)

    def arrived(self, ones: Ints, senders: int, generator: np.random.Generator) -> Floats:
        """A subset is drawn for every sender."""
        sums = np.zeros(ones.size)
        _add_subsets(sums, ones.ravel(), self.size, self.sampled_keep, generator)
        return self.debias(sums.reshape(ones.shape), senders)

    def sent_bits(self, cells: int, hot: int, noise: SimulationNoise | SecureNoise) -> Ints:
        """An exact coin for the true cell, with odds k e^ε to d - k, and a uniform choice of the others."""
        require(cells == self.cells, f"this slot has {self.cells} cells", cells)
        require(hot >= 0, "a subset is drawn around a true cell", "none")
        if isinstance(noise, SimulationNoise):
            return np.asarray(self.randomize([hot], noise)[0])
        odds = Fraction(self.cells - self.size, self.size)
        kept = not bernoulli_logistic(1, noise, gamma=self.epsilon, odds=odds)[0]
        others = np.delete(np.arange(cells), hot)
        bits = np.zeros(cells, dtype=np.int64)
        bits[others[permutation(cells - 1, noise)[: self.size - kept]]] = 1
        bits[hot] = kept
        return bits

    @classmethod
    def tight(cls, shape: Shape, families: Sequence[Family], epsilon: float, delta: float) -> tuple[Self, Self]:
        """All of ε for the one slot, in subsets of the best size."""
        del families, delta
        places = places_of(shape)
        categories = places.outcomes, max(1, places.moved)
        outcome, moved = (
            cls(epsilon=epsilon, slots=len(slots_of(shape)), feeding=n, cells=d, size=best_size(d, epsilon))
            for n, d in zip(feeding_slots(shape), categories, strict=True)
        )
        return outcome, moved

    @classmethod
    def calibrate(
        cls,
        families: Sequence[Family],
        epsilon: float,
        delta: float,
        *,
        slots: int = 1,
        feeding: int = 1,
        cells: int = 2,
    ) -> SubsetSelection:
        """All of ε for the one slot, in subsets of the best size (G4)."""

        def make(most: float) -> SubsetSelection:
            size = best_size(cells, most)
            return cls(epsilon=most, slots=slots, feeding=feeding, cells=cells, size=size)

        return calibrated_slot(make, families, epsilon, delta)


def best_size(cells: int, epsilon: float) -> int:
    """The subset size with the least noise; it is next to d/(e^ε+1).

    >>> best_size(8, 2.0), best_size(32, 1.0), best_size(1, 1.0)
    (1, 8, 1)
    """
    near = require_count("cells", cells) / (1.0 + math.exp(min(700.0, epsilon)))
    sizes = {min(max(1, size), max(1, cells - 1)) for size in (math.floor(near), math.ceil(near))}

    def noise(size: int) -> float:
        return SubsetSelection(epsilon=epsilon, slots=1, feeding=1, cells=cells, size=size).noise_variance

    return min(sorted(sizes), key=noise)


@kernel
def add_subset(
    target: Floats,
    first: int,
    half: int,
    jump: int,
    cells: int,
    kept: int,
    hot: int,
    size: int,
    keep: float,
    amount: float,
    generator: np.random.Generator,
) -> None:
    """Draw one subset and add `amount` to its cells below `kept`, which stand as those of `send_bits`."""
    needed = size
    if generator.random() < keep:
        _add(target, first, half, jump, kept, hot, amount)
        needed -= 1
    others = cells - 1
    if needed == 1:
        place = int(generator.random() * others)
        _add(target, first, half, jump, kept, others if place == hot else place, amount)
        return
    # Places are the cells but the true one, which gives its own to the last: two truths share most of a subset.
    for place in range(others):
        if needed == 0:
            return
        # Of the places that are left, `needed` are chosen, all subsets alike.
        if generator.random() * (others - place) < needed:
            _add(target, first, half, jump, kept, others if place == hot else place, amount)
            needed -= 1


@kernel
def _add(target: Floats, first: int, half: int, jump: int, kept: int, cell: int, amount: float) -> None:
    if cell < kept:  # nobody reads the others
        target[first + cell + (jump if cell >= half else 0)] += amount


@lean_kernel
def send_subset(
    bits: Subset,
    message: Floats,
    first: int,
    half: int,
    jump: int,
    cells: int,
    kept: int,
    hot: int,
    generator: np.random.Generator,
) -> None:
    """Send a one-hot vector as a subset, as `send_bits` does."""
    for i in range(kept):
        message[first + i + (jump if i >= half else 0)] += bits.gain * (0.0 - bits.rise)
    add_subset(message, first, half, jump, cells, kept, hot, bits.size, bits.keep, bits.gain, generator)


@kernel
def _each_subset(sent: Floats, truths: Ints, size: int, keep: float, generator: np.random.Generator) -> None:
    """The subset of every sender in a row of its own."""
    cells = sent.shape[1]
    for i in range(len(truths)):
        add_subset(sent[i], 0, cells, 0, cells, cells, truths[i], size, keep, 1.0, generator)


@kernel
def _add_subsets(arrived: Floats, ones: Ints, size: int, keep: float, generator: np.random.Generator) -> None:
    """Add up the subsets of all senders, drawn one by one."""
    cells = ones.shape[0]
    for hot in range(cells):
        for _ in range(ones[hot]):
            add_subset(arrived, 0, cells, 0, cells, cells, hot, size, keep, 1.0, generator)
