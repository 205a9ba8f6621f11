"""The k-ary tree counter with subtraction: pure privacy with a third of the binary tree's error.

For an odd arity k and m = (k-1)/2, prefix t is written in balanced digits t = Σ_j w_j k^j, |w_j| ≤ m, and its noise is
that of |w_j| nodes of level j (blocks of k^j users): added to the right of the point reached so far if w_j > 0,
subtracted to the left of it if w_j < 0. So `levels` nodes at most contain one user (the middle child of a block is
never used), where (k^levels − 1)/2 ≥ n first holds for the last released prefix n, and prefix t carries Σ|w_j| noises.

The catch, and why it is none. A subtracted node, and the block it is subtracted from, contain users who have not
arrived yet: prefix 2 in base 3 is block {1, 2, 3} minus user 3. Their *sums* are not known, but they cancel: only the
*noises* of the two nodes enter, and these do not depend on any data. So the release is online: true prefix sum plus
(B Z)_t, where Z is the vector of independent node noises, C the incidence of nodes and users, and B C = A is the
lower triangular matrix of ones.

Privacy under adaptive use: transcripts differ by a factor of at most exp(s ‖C e_i‖₁ / b), ‖C e_i‖₁ ≤ levels, if user i
changes by at most s (Lemma C5 (linear Laplace counter)); several counters
compose as pure mechanisms (Lemma C6 (several Laplace counters)).

What is *not* claimed: the history before i tells something about the noise of nodes that contain i (used early, with
opposite signs), so the loss at i is not that of `levels` fresh Laplace noises. Therefore the event is `PureEvent`, and
an accountant for delta > 0 may compose it as such, but not as Laplace noise.

References: J. D. Andersson, R. Pagh, T. A. Steiner, S. Torkamani, "Count on your elders: Laplace vs Gaussian noise",
FORC 2025 (the mechanism, for inputs fixed beforehand); J. Honaker, TPDP 2015. The adaptive proof is ours.

As a stream it needs about one fresh draw and one addition per counter and step.
The prefix k is written in balanced digits w_j ∈ {-m..m} of an odd base. When a digit grows to a positive value, one new
node is added; when it wraps from m to -m (and the next digit grows), m new nodes on the far side of its block are
subtracted at once; while it climbs back to zero they are taken away one by one. So a level keeps the sum of its added
nodes, and the partial sums of its subtracted ones; sums[j] is the noise of all levels from the top down to j.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import PrivacyBudgetExceeded, require, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.continual.counter import LaplaceNodes, Tree, pure_person_events, require_prefix
from tacit.noise.laplace import fill_laplace

_LARGEST_ARITY = 101


class KaryParams(NamedTuple):
    """What the kernels need of a k-ary tree: all public."""

    releases: int
    scale: float
    levels: int
    half: int


class KaryState(NamedTuple):
    """The noise of d counters, m = (arity - 1) / 2."""

    time: Ints  # [1], users so far
    digits: Ints  # [levels], balanced digits of the time
    added: Floats  # [levels, d], noise of the added nodes of each level
    tails: Floats  # [levels, m + 1, d], tails[j, r] = noise of the last r children of the block
    sums: Floats  # [levels + 1, d], noise of the levels from the top down
    draws: Floats  # [levels · m + 1, d], fresh noise of this step
    noise: Floats  # [d], noise of the current prefix


@kernel
def kary_draws_needed(params: KaryParams, state: KaryState) -> int:
    """How many new nodes the next step uses."""
    level = 0
    while level < params.levels and state.digits[level] == params.half:
        level += 1
    grows = level < params.levels and state.digits[level] >= 0
    return level * params.half + (1 if grows else 0)


@kernel
def kary_advance(params: KaryParams, state: KaryState, draws: Floats) -> None:
    """Count one more user: the rows of `draws` are the noises of the new nodes, lowest level first."""
    if state.time[0] >= params.releases:
        raise PrivacyBudgetExceeded("all releases of this tree are spent; calibrate one with more steps")
    state.time[0] += 1
    size = state.noise.shape[0]
    level = 0
    row = 0
    # k ↦ k + 1: digits at m wrap to -m, and m new nodes on the far side of their block are subtracted.
    while state.digits[level] == params.half:
        state.digits[level] = -params.half
        for r in range(1, params.half + 1):
            for c in range(size):
                state.tails[level, r, c] = state.tails[level, r - 1, c] + draws[row, c]
            row += 1
        level += 1
    # The first other digit grows: towards zero it drops a subtracted node, above zero it adds a new one.
    state.digits[level] += 1
    if state.digits[level] == 1:
        for c in range(size):
            state.added[level, c] = draws[row, c]
    elif state.digits[level] > 1:
        for c in range(size):
            state.added[level, c] += draws[row, c]
    # noise(k) = Σ_j sign(w_j) Σ (noise of the |w_j| nodes of level j)
    while level >= 0:
        digit = state.digits[level]
        if digit > 0:
            for c in range(size):
                state.sums[level, c] = state.sums[level + 1, c] + state.added[level, c]
        else:
            for c in range(size):
                state.sums[level, c] = state.sums[level + 1, c] - state.tails[level, -digit, c]
        level -= 1
    for c in range(size):
        state.noise[c] = state.sums[0, c]


@kernel
def kary_step(params: KaryParams, state: KaryState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Laplace noise."""
    fill_laplace(state.draws, kary_draws_needed(params, state), params.scale, generator)
    kary_advance(params, state, state.draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class KaryTree(Tree, LaplaceNodes):
    """The k-ary tree with subtraction and Laplace noise of this scale in every node.

    G1. Exposure: at most `levels` used nodes contain one user, and one differing counter is (levels · shift / scale)-
        private under adaptive use; in total epsilon = levels · L1 / scale.
    G2. Error: prefix t carries Σ|w_j(t)| independent noises, mean zero, variance `variance_at(t)` ≤ `max_std`².
    G3. Radius: a released prefix leaves ±radius(p) with probability at most p.
    G4. Consistency: the stream's noise is B Z exactly: every node is drawn once and has one noise while in use.
    G5. Calibration: `calibrate` is private for the target it was given, and 0.1% less noise is not.

    >>> one = [Family(name="count", up=1, down=0, shift=1.0)]
    >>> tree = KaryTree.calibrate(one, 1.0, 0.0, 20_000, arity=15)
    >>> tree.levels, round(tree.scale, 6), round(tree.max_std, 1)
    (4, 4.0, 29.4)
    """

    arity: int
    scale: float

    NAME: ClassVar[str] = "kary-tree"
    SUMMARY: ClassVar[str] = "k-ary tree of Laplace noises, with subtraction"
    PURE: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Tree.__post_init__(self)
        _require_arity(self.arity)
        require_real("scale", self.scale, low=0.0, open_low=True)

    @classmethod
    def calibrate(
        cls,
        families: Sequence[Family],
        epsilon: float,
        delta: float,
        steps: int,
        *,
        release_final: bool = False,
        arity: int | None = None,
    ) -> Self:
        """The tree with the least common noise for all `families` together, of the best arity unless one is given."""
        require_real("epsilon", epsilon, low=0.0, open_low=True)
        last = _releases(steps, release_final=release_final)
        base = best_arity(steps, release_final=release_final) if arity is None else _require_arity(arity)

        # ε = Σ_f L · D1_f / b
        pure = kary_levels(last, base) * sum(family.l1 for family in families) / epsilon
        return least_noise(
            lambda scale: cls(steps=steps, release_final=release_final, arity=base, scale=scale),
            families,
            epsilon=epsilon,
            delta=delta,
            enough=pure,
        )

    @property
    def levels(self) -> int:
        """How many used nodes contain one user, at most and exactly for the first one."""
        return kary_levels(self.releases, self.arity)

    @property
    def params(self) -> KaryParams:
        """The parameters of the kernels."""
        return KaryParams(self.releases, float(self.scale), self.levels, (self.arity - 1) // 2)

    step = staticmethod(kary_step)
    advance = staticmethod(kary_advance)

    def begin(self, dimension: int) -> KaryState:
        """The stream before the first user, for `dimension` counters."""
        params = self.params
        require_count("dimension", dimension)
        return KaryState(
            time=np.zeros(1, dtype=np.int64),
            digits=np.zeros(params.levels, dtype=np.int64),
            added=np.zeros((params.levels, dimension)),
            tails=np.zeros((params.levels, params.half + 1, dimension)),
            sums=np.zeros((params.levels + 1, dimension)),
            draws=np.zeros((params.levels * params.half + 1, dimension)),
            noise=np.zeros(dimension),
        )

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes."""
        half = (self.arity - 1) // 2
        before = balanced_digits(require_prefix(k, self.releases) - 1, self.arity, self.levels)
        wraps = next((j for j, digit in enumerate(before) if digit != half), self.levels)
        return wraps * half + (wraps < self.levels and before[wraps] >= 0)

    def terms_at(self, k: int) -> int:
        """How many independent noises prefix k is the signed sum of."""
        return sum(abs(digit) for digit in balanced_digits(require_prefix(k, self.releases), self.arity, self.levels))

    @property
    def max_terms(self) -> int:
        """The largest number of noises in any released prefix."""
        return max(1, _most_terms(self.releases, self.arity))

    def events(self, family: Family) -> Events:
        """What one user is exposed to: pure privacy for every differing counter, and nothing finer (see above)."""
        exact = self.levels * Fraction(family.shift) / Fraction(self.scale)
        near = float(exact)
        epsilon = near if Fraction(near) >= exact else math.nextafter(near, math.inf)
        return ((PureEvent(epsilon=epsilon), family.differing),)

    def person_events(self, families: Sequence[Family], reports: int) -> Events:
        """What a person with several reports is exposed to: their pure epsilons add up."""
        return pure_person_events(self, families, reports)


def kary_levels(last: int, arity: int) -> int:
    """The number of balanced digits that write every number up to `last`: the least h with (k^h − 1)/2 ≥ last.

    >>> kary_levels(19_999, 15), kary_levels(13, 3), kary_levels(14, 3)
    (4, 3, 4)
    """
    levels = 1
    while (arity**levels - 1) // 2 < last:
        levels += 1
    return levels


def balanced_digits(number: int, arity: int, levels: int) -> tuple[int, ...]:
    """The digits of `number` in {-(k-1)/2..(k-1)/2}, lowest first.

    >>> balanced_digits(5, 3, 3)
    (-1, -1, 1)
    """
    half, digits, rest = (arity - 1) // 2, [], number
    for _ in range(levels):
        digit = (rest + half) % arity - half
        digits.append(digit)
        rest = (rest - digit) // arity
    return tuple(digits)


@cache
def best_arity(steps: int, *, release_final: bool = False) -> int:
    """The odd arity with the least worst-case error, levels · √(most terms), for this many steps.

    >>> best_arity(20_000)
    15
    """
    last = _releases(require_count("steps", steps), release_final=release_final)
    arities = range(3, _LARGEST_ARITY + 1, 2)
    return min(arities, key=lambda arity: kary_levels(last, arity) ** 2 * _most_terms(last, arity))


def _releases(steps: int, *, release_final: bool) -> int:
    return steps if release_final else steps - 1


def _require_arity(arity: int) -> int:
    require(require_count("arity", arity, least=3) % 2 == 1, "arity must be odd", given=arity)
    return arity


def _most_terms(last: int, arity: int) -> int:
    """The largest Σ|w_j(t)| over 0 ≤ t ≤ last."""
    levels, half = kary_levels(last, arity), (arity - 1) // 2
    most, above = 0, 0
    # A number below `last` agrees with it above some level, is smaller there, and is free below.
    for level, digit in reversed(list(enumerate(balanced_digits(last, arity, levels)))):
        least = 0 if level == levels - 1 else -half
        if digit > least:
            most = max(most, above + max(abs(least), abs(digit - 1)) + level * half)
        above += abs(digit)
    return max(most, above)
