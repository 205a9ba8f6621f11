"""The counters of a batch by index: which transitions are released, and which successors a row of the model has.

There is one index, over the declared support; where nothing is declared it is the full one, all counters of all rows.
That one has no lists: kernels are compiled for it as loops over plain arrays, from the same source.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.planning.flow_projection import FlowCounts, Kept, SparseFlow, kept_variance, project
from tacit.released.counts import CountShape, CountStatistics
from tacit.support import Support


class Successors(NamedTuple):
    """The states that can follow a row i: to[at[i] : at[i+1]], or all of them where both are None."""

    at: Ints | None
    """[rows + 1]"""
    to: Ints | None


def successors_of(cells: Ints, rows: int, num_states: int) -> Successors:
    """The successors that sorted cells, row * S + state, name.

    >>> [part.tolist() for part in successors_of(np.array([0, 2, 4]), 2, 3)]
    [[0, 2, 3], [0, 2, 1]]
    """
    return Successors(np.searchsorted(cells, np.arange(rows + 1) * num_states), cells % num_states)


class Counters:
    """The index of one shape: what is released of a batch, and the rows of a model, H per pair or 1 where pooled."""

    def __init__(self, shape: CountShape, *, pooled: bool) -> None:
        H, S, A = shape.horizon, shape.num_states, shape.num_actions
        pairs, support = S * A, shape.support
        self.full = support is None
        """Whether nothing is declared, and every counter is released."""
        reach = np.ones((H, S), dtype=bool) if support is None else support.reach
        self.starts = np.flatnonzero(reach[0])
        self.even = np.repeat((reach * (S / reach.sum(axis=1, keepdims=True)))[..., np.newaxis], A, axis=2)
        """[H,S,A]: times n / SA, the visits of n people who meet all pairs within reach alike."""
        self._flow = None if support is None else _sparse_flow(support)
        self.single: Ints | None = None
        """[H S A]: the only successor of a row without counters of transitions; -1 elsewhere; None: there are none."""
        self.shape: tuple[int, ...] = (H, S, A, S)
        """Of the released transitions of a batch."""
        self.cells = self.rows = Successors(None, None)
        """By step: which transitions are released. By row of the model: what can follow."""
        if self._flow is None:
            self.kept = _full_kept(H, S, A)
            return
        self.kept = self._flow.kept
        moves = shape.cells.moves
        self.shape = moves.shape
        self.cells = successors_of(moves, H * pairs, S)
        self.single = shape.cells.single.ravel()
        led = np.concatenate([moves, shape.cells.sure[1]])
        self.rows = successors_of(np.unique(led % (pairs * S) if pooled else led), (1 if pooled else H) * pairs, S)

    def taken(self, batch: CountStatistics) -> FlowCounts:
        """The released counts of a batch; transitions have `shape`."""
        moved = batch.transitions
        if self._flow is not None:
            moved = moved.reshape(-1)[self._flow.support.released.moves]
        return FlowCounts(moved, batch.rewards, batch.visits - batch.rewards)

    def by_row(self, transitions: Floats) -> Floats:
        """Released transitions of batches as kernels take them: [B,1,cells], or [B,rows,S] of all counters."""
        last = self.shape[-1]
        return transitions.reshape(len(transitions), math.prod(self.shape[:-1]), last)

    def project(self, counts: FlowCounts, people: float) -> FlowCounts:
        """The nearest counts that a flow of so many people can have."""
        if self._flow is not None:
            return self._flow.project(counts, people)
        found = project(counts._replace(moved=counts.moved[:-1]), people)
        return found._replace(moved=np.concatenate([found.moved, np.zeros_like(counts.moved[:1])]))


@lru_cache(maxsize=16)
def counters_of(shape: CountShape, pooled: bool) -> Counters:
    """The index of a shape, prepared once."""
    return Counters(shape, pooled=pooled)


@lru_cache(maxsize=16)
def _sparse_flow(support: Support) -> SparseFlow:
    return SparseFlow(support)


@lru_cache(maxsize=16)
def _full_kept(horizon: int, num_states: int, num_actions: int) -> Kept:
    """What the projection of all counters leaves of the variance in each row."""
    moves, rewards = kept_variance(horizon, num_states, num_actions)
    every = np.ones((1, num_states, num_actions))
    cells: Floats = rewards[:, np.newaxis, np.newaxis] * every
    return Kept(np.append(moves, 0.0)[:, np.newaxis, np.newaxis] * every, 2.0 * cells, cells)
