"""Where the counters of a declared support stand in a message, and which of them a user sets.

    [ transitions that can happen | ones | zeros, or visits | squares of ones, if released ]

Transitions are those of rows with several successors, ones are pairs that can earn anything, zeros are pairs within
reach (`tacit.support`). A row with a single successor is sure: its transitions are its visits, and it has no counters.

A step that the declaration excludes, or whose row is sure, sets no counter of its family: Lemma S9 (declared support).

A slot is one family at one step, sent as one category out of several. Its categories are the counters of that step,
ones before zeros, and behind them categories that nobody reads: at least one wherever somebody may set no counter, and
as many as it takes for all slots of a family to have the same number, so that one mechanism serves all of them. Each
slot has exactly one true category, whatever a person does: Lemma S10 (categories of a declared support).

Where nothing is declared, a counter is a cell: its place is arithmetic, and kernels sweep one run of all cells.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import lean_kernel
from tacit.noise.protocol import Encoding, Shape
from tacit.support import Support, released_cells


class SupportIndex(NamedTuple):
    """Where the counters of a shape stand, for kernels; everything in it is public."""

    declared: bool
    """Whether a support is declared; if not, counters are cells, in their order."""
    moves: Ints
    """Declared: sorted cells of [stages, S, A, S]; counter i counts transition moves[i]."""
    ones: Ints
    """Declared: sorted rows of [stages, S, A]; these counters come behind the moves."""
    zeros: Ints
    """Declared: sorted rows of [stages, S, A]; these counters come behind the ones."""
    num_moves: int
    num_ones: int
    num_zeros: int
    move_runs: Ints
    """[runs, 2]: cells from first to stop that all have counters, one counter after the other."""
    row_runs: Ints
    """[runs, 3]: rows from first to stop that all have zeros, and whether they all have ones, or none of them has."""
    first_move: Ints
    """[stages + 1]: the counters of a stage are those from first_move[stage] to first_move[stage + 1]."""
    first_one: Ints
    first_zero: Ints
    sure_row: Ints
    """Sorted rows with a single successor."""
    sure_cell: Ints
    """Beside them: the cells of their only transitions."""
    slots: Ints
    """The slots that have counters: 2h outcomes, 2h + 1 transitions of step h."""
    moved: int
    """How many categories every slot of transitions has."""
    outcomes: int
    """How many categories every slot of outcomes has."""

    @property
    def counters(self) -> int:
        """How many counters there are, squares aside."""
        return self.num_moves + self.num_ones + self.num_zeros

    @property
    def all_sure(self) -> bool:
        """Whether every transition follows from visits, and has their noise."""
        return self.declared and self.num_moves == 0


_NONE = np.zeros(0, dtype=np.int64)


def places_of(shape: Shape) -> SupportIndex:
    """The places of a shape: of its declared support, or of everything."""
    if shape.support is not None:
        return _places(shape.support, shape.staged)
    return _everything(shape.horizon, shape.stages, shape.num_states * shape.num_actions, shape.num_states)


@lru_cache(maxsize=64)
def _everything(horizon: int, stages: int, rows: int, num_states: int) -> SupportIndex:
    # The last step has no successor.
    moving = 0 if horizon == 1 else max(1, stages - 1)
    edges, moves = np.arange(stages + 1) * rows, moving * rows * num_states
    return SupportIndex(
        declared=False,
        moves=_NONE,
        ones=_NONE,
        zeros=_NONE,
        num_moves=moves,
        num_ones=stages * rows,
        num_zeros=stages * rows,
        move_runs=np.array([[0, moves]]),
        row_runs=np.array([[0, stages * rows, 1]]),
        first_move=np.minimum(edges * num_states, moves),
        first_one=edges,
        first_zero=edges,
        sure_row=_NONE,
        sure_cell=_NONE,
        slots=np.arange(2 * horizon - 1),
        moved=rows * num_states,
        outcomes=2 * rows,
    )


def _runs(cells: Ints, kinds: Ints) -> Ints:
    """[runs, 3]: first and stop of the runs of consecutive cells of one kind, and the kind."""
    starts = np.flatnonzero(np.append(True, (np.diff(cells) != 1) | (np.diff(kinds) != 0))[: len(cells)])
    stops = np.append(starts[1:], len(cells))[: len(starts)]
    return np.stack([cells[starts], cells[stops - 1] + 1, kinds[starts]], axis=1).astype(np.int64)


@lru_cache(maxsize=64)
def _places(support: Support, staged: bool) -> SupportIndex:
    H, S, A = support.horizon, support.num_states, support.num_actions
    cells, stages = (released_cells(support, staged), H if staged else 1)
    edges = np.arange(stages + 1) * S * A
    first_move = np.searchsorted(cells.moves, edges * S)
    first_one, first_zero = np.searchsorted(cells.ones, edges), np.searchsorted(cells.zeros, edges)
    sure_row = np.flatnonzero(cells.single.ravel() >= 0)
    per_step, outcomes = np.diff(first_move), np.diff(first_one) + np.diff(first_zero)
    moving = [h for h in range(H - 1) if per_step[min(h, stages - 1)] > 0]
    return SupportIndex(
        declared=True,
        moves=cells.moves,
        ones=cells.ones,
        zeros=cells.zeros,
        num_moves=len(cells.moves),
        num_ones=len(cells.ones),
        num_zeros=len(cells.zeros),
        move_runs=_runs(cells.moves, np.zeros_like(cells.moves))[:, :2].copy(),
        row_runs=_runs(cells.zeros, np.isin(cells.zeros, cells.ones).astype(np.int64)),
        first_move=first_move,
        first_one=first_one,
        first_zero=first_zero,
        sure_row=sure_row,
        sure_cell=sure_row * S + cells.single.ravel()[sure_row],
        slots=np.array(sorted([2 * h for h in range(H)] + [2 * h + 1 for h in moving]), dtype=np.int64),
        # Where everything has a counter nobody can be without one.
        moved=int((per_step + (per_step < S * A * S)).max()) if moving else 0,
        outcomes=int((outcomes + (np.diff(first_zero) < S * A)).max()),
    )


@lean_kernel
def position_of(cells: Ints, wanted: int) -> int:
    """The place of a cell in a sorted list, or -1.

    >>> [position_of(np.array([2, 3, 7]), cell) for cell in (2, 7, 5)]
    [0, 2, -1]
    """
    low, high = 0, cells.shape[0]
    while low < high:
        middle = (low + high) // 2
        if cells[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < cells.shape[0] and cells[low] == wanted else -1


@lean_kernel
def places_in(places: SupportIndex, row: int) -> tuple[int, int]:
    """Which of the zeros and which of the ones counts a row; -1 for none."""
    if not places.declared:
        return row, row
    return position_of(places.zeros, row), position_of(places.ones, row)


@lean_kernel
def move_in(places: SupportIndex, cell: int) -> int:
    """Which of the moves counts a cell; -1 for none."""
    return position_of(places.moves, cell) if places.declared else cell


@lean_kernel
def true_category(places: SupportIndex, slot: int, stage: int, row: int, cell: int, one: bool) -> int:
    """The true category of a slot: of who was in `row`, went on by transition `cell`, and earned one or nothing."""
    if slot % 2 == 1:
        first, stop = int(places.first_move[stage]), int(places.first_move[stage + 1])
        found = move_in(places, cell)
        return found - first if found >= 0 else stop - first
    ones = int(places.first_one[stage + 1] - places.first_one[stage])
    zeros = int(places.first_zero[stage + 1] - places.first_zero[stage])
    zero, found = places_in(places, row)
    if one and found >= 0:
        return found - int(places.first_one[stage])
    # A reward where none can be counts as a visit without one.
    return ones + (zero - int(places.first_zero[stage]) if zero >= 0 else zeros)


def excludes_something(shape: Shape) -> bool:
    """Whether a support is declared under which some counter cannot move, or follows from others.

    >>> from types import SimpleNamespace
    >>> free = Support(moves=np.ones((2, 1, 2)), horizon=2)
    >>> from_one = Support(moves=np.ones((2, 1, 2)), horizon=2, starts=[1, 0])
    >>> shapes = [SimpleNamespace(support=told, staged=True, horizon=2, stages=2) for told in (None, free, from_one)]
    >>> [excludes_something(shape) for shape in shapes]
    [False, False, True]
    """
    if shape.support is None:
        return False
    rows = shape.support.num_states * shape.support.num_actions
    stages = shape.stages - 1 if shape.staged else min(1, shape.horizon - 1)
    return places_of(shape).counters < stages * rows * shape.support.num_states + 2 * shape.stages * rows


def slots_of(shape: Shape) -> Ints:
    """The slots of a trajectory: even ones outcomes, odd ones transitions; all 2H - 1 unless a support has fewer."""
    return places_of(shape).slots


def slot_places(places: SupportIndex, slot: int, stages: int) -> Ints:
    """Where the counters of a slot's categories stand in a message; categories that nobody reads have none."""
    stage = min(slot // 2, stages - 1)
    if slot % 2 == 1:
        return np.arange(places.first_move[stage], places.first_move[stage + 1])
    first = places.num_moves
    ones = first + np.arange(places.first_one[stage], places.first_one[stage + 1])
    zeros = first + places.num_ones + np.arange(places.first_zero[stage], places.first_zero[stage + 1])
    return np.concatenate([ones, zeros])


class _Route(NamedTuple):
    """From the cells that the senders of a slot hold to its categories, and from these to their counters."""

    cells: Ints
    """Category i holds cell cells[i] of [S, A, S], or of [2, S, A] with rewards before others."""
    late: Ints
    """Categories to which a reward goes where none can be: it counts as a visit without one."""
    stray: Ints
    """Beside them: the cells of such rewards."""
    categories: int
    """How many there are; the first of those that no cell leads to takes everybody else."""
    counters: Ints
    """Where the categories stand in a message."""


@lru_cache(maxsize=4096)
def _route(support: Support, staged: bool, slot: int) -> _Route:
    places, rows = _places(support, staged), support.num_states * support.num_actions
    stages = len(places.first_move) - 1
    stage, counters = min(slot // 2, stages - 1), slot_places(places, slot, stages)
    if slot % 2:
        own = places.moves[places.first_move[stage] : places.first_move[stage + 1]] - stage * rows * support.num_states
        return _Route(own, _NONE, _NONE, places.moved, counters)
    ones = places.ones[places.first_one[stage] : places.first_one[stage + 1]] - stage * rows
    zeros = places.zeros[places.first_zero[stage] : places.first_zero[stage + 1]] - stage * rows
    late = np.flatnonzero(~np.isin(zeros, ones))
    return _Route(np.concatenate([ones, rows + zeros]), len(ones) + late, zeros[late], places.outcomes, counters)


def category_counts(shape: Shape, slot: int, held: Floats | Ints, senders: int) -> Ints:
    """How many of a slot's senders are in each category; `held` is [S, A, S], or [2, S, A] with rewards before others.

    Where nothing is declared, cells are categories.
    """
    counts = np.asarray(held).astype(np.int64, copy=False)
    if shape.support is None:
        return counts
    route, cells = _route(shape.support, shape.staged, slot), counts.ravel()
    known = len(route.cells)
    found = np.zeros(route.categories, dtype=np.int64)
    found[:known] = cells[route.cells]
    if len(route.late):
        found[route.late] += cells[route.stray]
    if known < len(found):
        found[known] = senders - int(found.sum())
    return found


def gathered(support: Support, staged: bool, arrived: list[Floats]) -> Floats:
    """What arrived in the categories of all slots as one message, added up where steps are pooled."""
    places = _places(support, staged)
    message = np.zeros(places.counters)
    for slot, values in zip(places.slots.tolist(), arrived, strict=True):
        own = _route(support, staged, slot).counters
        message[own] += values[: len(own)]
    return message


def taken(shape: Shape, encoding: Encoding, everything: Floats) -> Floats:
    """The counters of a declared support out of the vector of all counters; the vector itself if none is declared."""
    places = places_of(shape)
    if not places.declared:
        return everything
    block = shape.stages * shape.num_states * shape.num_actions
    blocks = 3 if encoding == "squares" else 2
    moved, rest = np.split(everything, [len(everything) - blocks * block])
    rewards, others, *squares = rest.reshape(blocks, block)
    if encoding == "complement":
        # N - R, and N where nothing can be earned
        nothing = np.ones(block, dtype=bool)
        nothing[places.ones] = False
        others = np.where(nothing, others + rewards, others)
    return np.concatenate(
        [moved[places.moves], rewards[places.ones], others[places.zeros], *(part[places.ones] for part in squares)]
    )
