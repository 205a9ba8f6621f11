"""Counters of a declared support under examination: which released numbers have noise of their own, and what follows.

Off these counters a release must be an exact zero; a row with a single successor has its visits as transitions. Both
are told here from the declaration alone, apart from every kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.released.counts import CountShape, CountStatistics
from tacit.support import Support, pooled_cells, released_cells

__all__ = ["Kept", "as_encoded", "cells_of", "what_follows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Kept(NamedTuple):
    """Flat places of the counters that are released, and of the transitions that follow from visits."""

    moves: Ints
    ones: Ints
    zeros: Ints
    sure_rows: Ints
    sure_cells: Ints


def cells_of(shape: CountShape, support: Support) -> Kept:
    """The counters of a shape whose support is declared."""
    cells = released_cells(support) if shape.staged else pooled_cells(support)
    rows = np.flatnonzero(cells.single.ravel() >= 0)
    return Kept(cells.moves, cells.ones, cells.zeros, rows, rows * shape.num_states + cells.single.ravel()[rows])


def as_encoded(shape: CountShape, totals: CountStatistics) -> CountStatistics:
    """Exact statistics as they are encoded: without what the declaration excludes; themselves where nothing is."""
    if shape.support is None:
        return totals
    kept = cells_of(shape, shape.support)
    visits = _only(totals.visits, kept.zeros)
    transitions = _only(totals.transitions, kept.moves)
    transitions.reshape(-1)[kept.sure_cells] = visits.reshape(-1)[kept.sure_rows]
    rewards, squares = (_only(part, kept.ones) for part in (totals.rewards, totals.squares))
    return totals._replace(transitions=transitions, visits=visits, rewards=rewards, squares=squares)


def what_follows(shape: CountShape, statistics: CountStatistics) -> Floats:
    """What must be zero in a release: numbers off the counters, and transitions of sure rows less their visits."""
    if shape.support is None:
        return np.zeros(0)
    kept = cells_of(shape, shape.support)
    transitions, visits = statistics.transitions.reshape(-1).copy(), statistics.visits.reshape(-1)
    transitions[kept.sure_cells] -= visits[kept.sure_rows]
    off = [np.delete(transitions, kept.moves), np.delete(visits, kept.zeros)]
    off += [np.delete(part.reshape(-1), kept.ones) for part in (statistics.rewards, statistics.squares)]
    return np.concatenate(off)


def _only(values: Floats, cells: Ints) -> Floats:
    """The values in these places, zeros elsewhere."""
    found = np.zeros_like(values)
    found.reshape(-1)[cells] = values.reshape(-1)[cells]
    return found
