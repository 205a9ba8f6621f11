"""The binary tree counter: every prefix sum of a stream of K users from at most ⌈log₂ K⌉ noisy node sums.

User k sits at leaf k-1 of a binary tree; prefix k is the disjoint union of one node for every 1-bit of k, all of them
left children. Right children and the root are never released, so their noise is never drawn.
Deviation from [bai2024adversarial] Alg. 4, which puts user k at leaf k and thereby reads nodes that are never filled.

Privacy under adaptive use (the users' data may depend on everything released before): a node is first released at the
step of its last user and keeps its noise from then on, so one user is exposed to `levels` fresh noises per differing
counter, where levels = bit_length(n) for prefixes 1..n (Lemma C1 (binary tree)): ⌈log₂ K⌉ for n = K-1, which is all
that an agent needs who plays K episodes, and bit_length(K) for n = K. Neither ln K (short by up to 1.44) nor the
unrounded log₂ K is enough.

The stream needs one fresh draw and one addition per counter and step. Written from the highest bit down, the noise of
prefix k is that of prefix k & (k-1) (k without its lowest 1-bit) plus the node of the lowest bit, which is new at step
k. So the stream keeps, for every level, the noise of the current prefix down to that level; a node's noise is drawn
once and stays inside those sums for as long as the node is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, LaplaceEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import PrivacyBudgetExceeded, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.continual.counter import LaplaceNodes, Tree, pure_person_events, require_prefix
from tacit.noise.laplace import fill_laplace


class TreeParams(NamedTuple):
    """What the kernels need of a tree: all public."""

    releases: int
    scale: float
    levels: int
    padded: bool


class TreeState(NamedTuple):
    """The noise of d counters: sums[level] is the noise of the current prefix from the top down to `level`."""

    time: Ints  # [1], users so far
    sums: Floats  # [levels, d]
    draws: Floats  # [1, d] or, padded, [levels, d]: fresh noise of this step
    noise: Floats  # [d], noise of the current prefix


@kernel
def tree_advance(params: TreeParams, state: TreeState, draws: Floats) -> None:
    """Count one more user: draws[0] is the noise of the new node, further rows are padding."""
    k = int(state.time[0]) + 1
    if k > params.releases:
        raise PrivacyBudgetExceeded("all releases of this tree are spent; calibrate one with more steps")
    state.time[0] = k
    low = 0
    while (k >> low) & 1 == 0:
        low += 1
    high = low + 1
    while k >> high != 0 and (k >> high) & 1 == 0:
        high += 1
    size = state.noise.shape[0]
    # noise(k) = noise(k & (k-1)) + Z_new
    if k >> high == 0:
        for c in range(size):
            state.sums[low, c] = draws[0, c]
    else:
        for c in range(size):
            state.sums[low, c] = state.sums[high, c] + draws[0, c]
    for c in range(size):
        state.noise[c] = state.sums[low, c]
    # [bai2024adversarial] variant: fresh terms, used once, up to exactly `levels` of them.
    for row in range(1, draws_needed(params, k)):
        for c in range(size):
            state.noise[c] += draws[row, c]


@kernel
def draws_needed(params: TreeParams, k: int) -> int:
    """How many fresh vectors step k consumes: the new node, and in the padded variant one per 0-bit of k."""
    if not params.padded:
        return 1
    zeros = params.levels
    rest = k
    while rest != 0:
        zeros -= rest & 1
        rest >>= 1
    return 1 + zeros


@kernel
def laplace_tree_step(params: TreeParams, state: TreeState, generator: np.random.Generator) -> None:
    """Count one more user with fresh Laplace noise."""
    fill_laplace(state.draws, draws_needed(params, int(state.time[0]) + 1), params.scale, generator)
    tree_advance(params, state, state.draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BinaryTree(Tree):
    """The shape of a binary tree."""

    @property
    def levels(self) -> int:
        """How many released nodes contain one user, at most and exactly for the first one."""
        return tree_levels(self.steps, release_final=self.release_final)

    advance = staticmethod(tree_advance)

    @property
    def params(self) -> TreeParams:
        """The parameters of the kernels."""
        raise NotImplementedError

    def begin(self, dimension: int) -> TreeState:
        """The stream before the first user, for `dimension` counters."""
        params = self.params
        require_count("dimension", dimension)
        fresh = params.levels if params.padded else 1
        return TreeState(
            time=np.zeros(1, dtype=np.int64),
            sums=np.zeros((params.levels, dimension)),
            draws=np.zeros((fresh, dimension)),
            noise=np.zeros(dimension),
        )

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes."""
        return int(draws_needed(self.params, require_prefix(k, self.releases)))

    def terms_at(self, k: int) -> int:
        """How many independent noises prefix k is the sum of."""
        return self.levels if self.params.padded else require_prefix(k, self.releases).bit_count()

    @property
    def max_terms(self) -> int:
        """The largest number of noises in any released prefix."""
        if self.params.padded or self.releases == 0:
            return self.levels
        # The most 1-bits up to n are those of n itself, or of n with one 1-bit cleared and all lower ones set.
        n = self.releases
        below = [(n >> (j + 1)).bit_count() + j for j in range(n.bit_length()) if n >> j & 1]
        return max(n.bit_count(), *below)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceTree(_BinaryTree, LaplaceNodes):
    """The binary tree with Laplace noise of this scale in every node.

    G1. Exposure: one differing counter is covered by exactly `levels` independent Laplace noises of scale `scale`,
        under adaptive use; for pure privacy, epsilon = levels · L1 / scale.
    G2. Error: prefix k carries the sum of popcount(k) independent noises (exactly `levels` if padded), mean zero,
        variance `variance_at(k)` ≤ `max_std`².
    G3. Radius: a released prefix leaves ±radius(p) with probability at most p.
    G4. Consistency: while a node is in use its noise is the same in every prefix (drawn once, kept).
    G5. Calibration: `calibrate` is private for the target it was given, and 0.1% less noise is not.

    `padded` adds fresh noise up to exactly ⌈log₂ K⌉ terms, so that all prefixes are identically distributed
    ([bai2024adversarial]); that is post-processing and costs accuracy only.

    >>> tree = LaplaceTree.calibrate([Family(name="count", up=1, down=0, shift=1.0)], 1.0, 0.0, 20_000)
    >>> tree.levels, round(tree.scale, 6), round(tree.max_std, 1)
    (15, 15.0, 79.4)
    """

    scale: float
    padded: bool = False

    NAME: ClassVar[str] = "laplace-tree"
    SUMMARY: ClassVar[str] = "binary tree of Laplace noises"
    PURE: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Tree.__post_init__(self)
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
        padded: bool = False,
    ) -> Self:
        """The tree with the least common noise for all `families` together."""
        require_real("epsilon", epsilon, low=0.0, open_low=True)

        # ε = Σ_f L · D1_f / b
        pure = tree_levels(steps, release_final=release_final) * sum(family.l1 for family in families) / epsilon
        return least_noise(
            lambda scale: cls(steps=steps, release_final=release_final, scale=scale, padded=padded),
            families,
            epsilon=epsilon,
            delta=delta,
            enough=pure,
        )

    @property
    def params(self) -> TreeParams:
        """The parameters of the kernels."""
        return TreeParams(self.releases, float(self.scale), self.levels, self.padded)

    step = staticmethod(laplace_tree_step)

    def events(self, family: Family) -> Events:
        """What one user is exposed to: `levels` noisy nodes for every differing counter."""
        event = LaplaceEvent(scale=self.scale, shift=family.shift, discrete=False)
        return ((event, self.levels * family.differing),)

    def person_events(self, families: Sequence[Family], reports: int) -> Events:
        """What a person with several reports is exposed to: their pure epsilons add up."""
        return pure_person_events(self, families, reports)


def tree_levels(steps: int, *, release_final: bool = False) -> int:
    """The number of released nodes that contain one user: ⌈log₂ K⌉ for prefixes 1..K-1, bit_length(K) for 1..K.

    >>> [tree_levels(K) for K in (1, 2, 8, 10, 16, 100, 1000)]
    [1, 1, 3, 4, 4, 7, 10]
    >>> [tree_levels(K, release_final=True) for K in (1, 8, 10)]
    [1, 4, 4]
    """
    K = require_count("steps", steps)
    return max(1, (K if release_final else K - 1).bit_length())
