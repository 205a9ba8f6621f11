"""The release of one user's counts and losses as one kernel, for every trust model.

Noise never depends on data, so every statistic is a stream of noise beside exact totals: a continual counter, fresh
noise per user that adds up in the totals (local messages), or silence (nothing protected, or declared public). What is
released after a user is totals + noise; bandit losses are released once, in the user's own episode, with that episode's
fresh noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import LossUser
from tacit.errors import BudgetSpent, NotSupported
from tacit.kernels import kernel, lean_kernel
from tacit.mechanisms.continual.accumulated import AccumulatedParams, AccumulatedState, accumulated_step
from tacit.mechanisms.continual.factorization import BufferedParams, BufferedState, BufferedToeplitz, buffered_step
from tacit.mechanisms.continual.tree import LaplaceTree, TreeParams, TreeState, laplace_tree_step
from tacit.mechanisms.noise.gaussian import Gaussian
from tacit.mechanisms.noise.laplace import Laplace
from tacit.privatizers.loss_parts import Source
from tacit.released.losses import LossQuery, LossStatistics

__all__ = [
    "COMPLEMENTS",
    "OWN",
    "SUMS",
    "ExactLosses",
    "LossLayout",
    "LossParameters",
    "LossState",
    "NoiseParams",
    "NoiseState",
    "Stream",
    "noise_step",
    "release_losses",
    "stream_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OWN, SUMS, COMPLEMENTS = 0, 1, 2
"""Where visits come from: a stream of their own, sums of transitions, or losses plus complements."""
SILENT, SINGLE, TREE, BUFFERED = 0, 1, 2, 3
"""Kinds of streams."""


class LossLayout(NamedTuple):
    """What is counted and how it is shown; the same type under every trust model."""

    pair_of: Ints
    """[triples]"""
    full: bool
    visits_from: int
    releases: int
    variance: Floats
    """[3]: of the noise in transitions, visits, losses: of one release, or of one user's share of it."""
    growth: Floats
    """[3]: 1 where the noise of all users adds up, else 0."""


class LossParameters(NamedTuple):
    """Public parameters of the kernel: the layout and those of the four streams."""

    layout: LossLayout
    transitions: NoiseParams
    visits: NoiseParams
    losses: NoiseParams
    complements: NoiseParams


class ExactLosses(NamedTuple):
    """Sensitive: totals over all users so far, and the losses of the last one."""

    transitions: Floats
    visits: Floats
    losses: Floats
    """[pairs]: Σ_k l_k(x,a), with bandit feedback over visited pairs."""
    own: Floats
    """[pairs]: the losses of the current user."""
    users: Ints

    def __repr__(self) -> str:
        return "ExactLosses()"  # never its contents


class LossState(NamedTuple):
    """The memory of whoever counts: exact totals (sensitive), noise streams (secret) and what was released."""

    exact: ExactLosses
    transitions: NoiseState
    visits: NoiseState
    losses: NoiseState
    complements: NoiseState
    released: LossStatistics

    def __repr__(self) -> str:
        return f"LossState({int(self.exact.users[0])} users)"  # never what they did


class NoiseParams(NamedTuple):
    """Public parameters of one stream of noise, whatever its kind."""

    kind: int
    releases: int
    scale: float
    levels: int
    flag: bool
    """Tree: padded. Single noises: Laplace, not Gaussian."""
    rates: Floats
    weights: Floats


class NoiseState(NamedTuple):
    """The noise of d counters, whatever the kind of stream."""

    time: Ints  # [1], users so far
    memory: Floats  # [levels or buffers, d]
    draws: Floats  # [1 or levels, d], fresh noise of this user
    noise: Floats  # [d], noise of the current totals


class Stream(NamedTuple):
    """A stream of noise: its parameters and the shape of its memory."""

    params: NoiseParams
    memory: int
    draws: int

    def begin(self, dimension: int) -> NoiseState:
        """The stream before the first user."""
        return NoiseState(
            time=np.zeros(1, dtype=np.int64),
            memory=np.zeros((self.memory, dimension)),
            draws=np.zeros((self.draws, dimension)),
            noise=np.zeros(dimension),
        )


def stream_of(source: Source | None, steps: int) -> Stream:
    """The stream of a source over so many users; single noises add up (`noise`) and are kept (`draws`)."""
    none = np.zeros(0)
    if source is None:
        return Stream(NoiseParams(SILENT, 0, 0.0, 0, False, none, none), memory=1, draws=1)
    if isinstance(source, Laplace | Gaussian):
        pure = isinstance(source, Laplace)
        scale = source.scale if isinstance(source, Laplace) else source.sigma
        return Stream(NoiseParams(SINGLE, steps, scale, 0, pure, none, none), memory=1, draws=1)
    if isinstance(source, LaplaceTree):
        tree = source.params
        params = NoiseParams(TREE, tree.releases, tree.scale, tree.levels, tree.padded, none, none)
        return Stream(params, memory=tree.levels, draws=tree.levels if tree.padded else 1)
    if isinstance(source, BufferedToeplitz):
        kept = source.params
        params = NoiseParams(BUFFERED, kept.releases, kept.sigma, 0, False, kept.rates, kept.weights)
        return Stream(params, memory=len(kept.rates), draws=1)
    raise NotSupported(f"losses are counted with trees and factorizations, not with {type(source).__name__}")


@kernel
def noise_step(params: NoiseParams, state: NoiseState, generator: np.random.Generator) -> None:
    """Move a stream by one user: the step kernel of its mechanism. One type for all, so that one loop serves all."""
    if params.kind == TREE:
        tree = TreeParams(params.releases, params.scale, params.levels, params.flag, False)
        laplace_tree_step(tree, TreeState(state.time, state.memory, state.draws, state.noise), generator)
    elif params.kind == BUFFERED:
        buffered = BufferedParams(params.releases, params.scale, params.rates, params.weights)
        buffered_step(buffered, BufferedState(state.time, state.memory, state.draws, state.noise), generator)
    elif params.kind == SINGLE:
        single = AccumulatedParams(params.releases, params.scale, params.flag)
        accumulated_step(single, AccumulatedState(state.time, state.draws, state.noise), generator)


@kernel
def release_losses(
    parameters: LossParameters, state: LossState, users: LossUser, query: LossQuery, generator: np.random.Generator
) -> None:
    """Take in one user and release anew, in place."""
    if state.exact.users[0] >= parameters.layout.releases:
        raise BudgetSpent("all releases of this privatizer are spent; calibrate for more episodes")
    take_in(parameters.layout, state.exact, users.pairs, users.triples, users.losses)
    noise_step(parameters.transitions, state.transitions, generator)
    noise_step(parameters.visits, state.visits, generator)
    noise_step(parameters.losses, state.losses, generator)
    noise_step(parameters.complements, state.complements, generator)
    # Bandit losses are shown with the fresh noise of their own episode, everything else with that of the totals.
    publish(
        parameters.layout, state.exact, state.transitions.noise, state.visits.noise, state.losses.noise,
        state.losses.draws[0], state.complements.noise, state.released,
    )  # fmt: skip


@lean_kernel
def take_in(layout: LossLayout, exact: ExactLosses, pairs: Ints, triples: Ints, losses: Floats) -> None:
    """Add one user to the exact totals, clipped into range: nothing here raises on data (G3)."""
    size = exact.own.shape[0]
    exact.users[0] += 1
    for pair in range(size):
        exact.own[pair] = 0.0
    if layout.full:
        for pair in range(min(size, losses.shape[0])):
            exact.own[pair] = clipped(losses[pair])
    for h in range(pairs.shape[0]):
        pair = min(max(pairs[h], 0), size - 1)
        triple = min(max(triples[h], 0), exact.transitions.shape[0] - 1)
        new_pair, new_triple = True, True
        for g in range(h):
            # A layered trajectory visits a pair at most once; whoever reports one twice counts once.
            if min(max(pairs[g], 0), size - 1) == pair:
                new_pair = False
            if min(max(triples[g], 0), exact.transitions.shape[0] - 1) == triple:
                new_triple = False
        if new_pair:
            exact.visits[pair] += 1.0
        if new_triple:
            exact.transitions[triple] += 1.0
        if not layout.full and h < losses.shape[0]:
            exact.own[pair] = clipped(losses[h])
    for pair in range(size):
        exact.losses[pair] += exact.own[pair]


@lean_kernel
def clipped(loss: float) -> float:
    """A loss in [0, 1]; NaN is 0."""
    if loss >= 1.0:
        return 1.0
    return loss if loss > 0.0 else 0.0


@lean_kernel
def publish(
    layout: LossLayout,
    exact: ExactLosses,
    transition_noise: Floats,
    visit_noise: Floats,
    loss_noise: Floats,
    fresh_noise: Floats,
    complement_noise: Floats,
    released: LossStatistics,
) -> None:
    """Released numbers = exact numbers + the streams' current noise."""
    for pair in range(released.visits.shape[0]):
        released.visits[pair] = 0.0
    for triple in range(released.transitions.shape[0]):
        released.transitions[triple] = exact.transitions[triple] + transition_noise[triple]
        # Ñ(x,a) = Σ_x' Ñ(x,a,x')
        released.visits[layout.pair_of[triple]] += released.transitions[triple]
    for pair in range(released.visits.shape[0]):
        if layout.visits_from == OWN:
            released.visits[pair] = exact.visits[pair] + visit_noise[pair]
        elif layout.visits_from == COMPLEMENTS:
            # Ñ(x,a) = Σ_k l̃_k 1 + Σ_k (1-l_k)~ 1
            released.visits[pair] = exact.visits[pair] + loss_noise[pair] + complement_noise[pair]
        if layout.full:
            released.losses[pair] = exact.losses[pair] + loss_noise[pair]
        else:
            released.losses[pair] = exact.own[pair] + fresh_noise[pair]
    released.users[0] = exact.users[0]
    for i in range(3):
        grown = 1.0 + layout.growth[i] * (exact.users[0] - 1.0)
        released.variance[i] = layout.variance[i] * grown
