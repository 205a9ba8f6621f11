"""The statistics of a trajectory that every trust model privatizes, and how far one user can move them.

    transitions  N(s,a,s')  over the H-1 steps that have a successor
    visits       N(s,a)     over the H steps
    rewards      R(s,a)     over the H steps, each reward in [0, 1]

    squares      R₂(s,a)    sums of squared rewards, only for learners that ask for them (LDP-PSRL)

Three encodings. `families` releases the first three as they are, `squares` all four. `complement` releases transitions,
rewards R and complements N - R, from which visits follow as a sum: a visit moves R and N - R by r and 1 - r, together
by one, so that the two families cost as much as one and every counter needs less noise at the same guarantee.

Kept apart by step (`staged`), replacing one trajectory moves two counters per step and family by one; pooled over the
steps, the worst replacement moves two counters of a family by the number of steps (a user may sit in one cell).
Lemma S4 (staged counts), Lemma S5 (pooled counts), Lemma S6 (complements).

Noise is drawn for one flat vector; families differ only in what is added to it and in what is read back:

    [ transitions (stages with a successor) | rewards | visits, or complements N - R | squares of rewards, if released ]

Places of single counters and one user's own vector: `tacit.noise.layout`.
"""

from __future__ import annotations

import numpy as np

from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts
from tacit.kernels import lean_kernel
from tacit.lazy_jit import lazy_jit
from tacit.noise.layout import clipped_index, clipped_reward
from tacit.noise.protocol import Encoding
from tacit.noise.support_index import SupportIndex, places_of, position_of
from tacit.released.counts import CountShape, CountStatistics

__all__ = [
    "Encoding",
    "add_batch",
    "add_placed_trajectory",
    "add_trajectory",
    "add_vector",
    "count_families",
    "dimension_of",
    "family_of",
]


@lean_kernel
def add_trajectory(totals: CountStatistics, states: Ints, actions: Ints, rewards: Floats) -> None:
    """Add one user's exact statistics to the totals, in place; what lies outside the public ranges is clipped."""
    horizon = actions.shape[0]
    stages, S, A = totals.visits.shape
    for h in range(horizon):
        stage = h if stages > 1 else 0
        s, a, r = clipped_index(states[h], S), clipped_index(actions[h], A), clipped_reward(rewards[h])
        totals.visits[stage, s, a] += 1.0
        totals.rewards[stage, s, a] += r
        totals.squares[stage, s, a] += r * r
        if h < horizon - 1:
            totals.transitions[stage, s, a, clipped_index(states[h + 1], S)] += 1.0
    totals.users[0] += 1


@lean_kernel
def add_placed_trajectory(
    totals: CountStatistics, places: SupportIndex, states: Ints, actions: Ints, rewards: Floats
) -> None:
    """The same over a declared support: a step that it excludes is not counted, and sure rows follow from visits."""
    if not places.declared:
        add_trajectory(totals, states, actions, rewards)
        return
    horizon = actions.shape[0]
    stages, S, A = totals.visits.shape
    for h in range(horizon):
        stage = h if stages > 1 else 0
        s, a, r = clipped_index(states[h], S), clipped_index(actions[h], A), clipped_reward(rewards[h])
        row = (stage * S + s) * A + a
        if position_of(places.zeros, row) >= 0:
            totals.visits[stage, s, a] += 1.0
            if position_of(places.ones, row) >= 0:
                totals.rewards[stage, s, a] += r
                totals.squares[stage, s, a] += r * r
            sure = position_of(places.sure_row, row)
            if sure >= 0:
                totals.transitions[stage, s, a, places.sure_cell[sure] % S] = totals.visits[stage, s, a]
        if h < horizon - 1:
            t = clipped_index(states[h + 1], S)
            if position_of(places.moves, row * S + t) >= 0:
                totals.transitions[stage, s, a, t] += 1.0
    totals.users[0] += 1


def add_batch(totals: CountStatistics, batch: ExactCounts, shape: CountShape) -> CountStatistics:
    """New totals with a batch of exact counts added (rewards taken as binary: their squares are themselves)."""
    if shape.support is not None:
        return _add_placed_batch(totals, batch, shape)
    transitions, visits, rewards = _pooled(batch, shape)
    return CountStatistics(
        transitions=totals.transitions + transitions,
        visits=totals.visits + visits,
        rewards=totals.rewards + rewards,
        squares=totals.squares + rewards,
        variance=totals.variance.copy(),
        users=totals.users + batch.users,
    )


def _add_placed_batch(totals: CountStatistics, batch: ExactCounts, shape: CountShape) -> CountStatistics:
    """The same over a declared support, counter by counter that can move."""
    places, after = places_of(shape), CountStatistics._make(part.copy() for part in totals)
    transitions, visits = after.transitions.reshape(-1), after.visits.reshape(-1)
    R, N, moved = batch.rewards, batch.visits, batch.transitions[:-1]
    if not shape.staged:
        R, N, moved = R.sum(axis=0), N.sum(axis=0), moved.sum(axis=0)
    add_cells(
        transitions, visits, after.rewards.reshape(-1), after.squares.reshape(-1), moved.reshape(-1), N.reshape(-1),
        R.reshape(-1), places.moves, places.ones, places.zeros, places.sure_row, places.sure_cell,
    )  # fmt: skip
    after.users[0] += batch.users
    return after


def _cells_work(
    transitions: Floats, visits: Floats, rewards: Floats, squares: Floats, moved: Ints, N: Ints, R: Floats,
    moves: Ints, ones: Ints, zeros: Ints, sure_row: Ints, sure_cell: Ints,
) -> int:  # fmt: skip
    return len(moves) + len(ones) + len(zeros) + len(sure_row)


@lazy_jit(_cells_work)
@lean_kernel
def add_cells(
    transitions: Floats, visits: Floats, rewards: Floats, squares: Floats, moved: Ints, N: Ints, R: Floats,
    moves: Ints, ones: Ints, zeros: Ints, sure_row: Ints, sure_cell: Ints,
) -> None:  # fmt: skip
    """Add the counters of a support, out of flat exact counts, to flat totals."""
    for cell in moves:
        transitions[cell] += moved[cell]
    for row in ones:
        rewards[row] += R[row]
        squares[row] += R[row]
    for row in zeros:
        # N = (N - R) + R, as complements have it; a reward where none can be is a visit without one
        visits[row] += (N[row] - R[row]) + R[row]
    for i in range(len(sure_row)):
        transitions[sure_cell[i]] = visits[sure_row[i]]


def _pooled(batch: ExactCounts, shape: CountShape) -> tuple[Floats, Floats, Floats]:
    """The three families of a batch in the shape of the release; the last step's successors are left out."""
    transitions = batch.transitions.astype(np.float64)
    transitions[-1] = 0.0
    visits, rewards = batch.visits.astype(np.float64), batch.rewards
    if shape.staged:
        return transitions, visits, rewards
    return (
        transitions.sum(axis=0, keepdims=True),
        visits.sum(axis=0, keepdims=True),
        rewards.sum(axis=0, keepdims=True),
    )


def count_families(shape: CountShape, encoding: Encoding) -> tuple[Family, ...]:
    """What one user can change, at worst: 6H - 2 counters in three families, 8H - 2 in four, 4H - 2 with complements.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> [f.l1 for f in count_families(shape, "families")], [f.l1 for f in count_families(shape, "complement")]
    ([10.0, 12.0, 12.0], [10.0, 12.0])
    """
    H = shape.horizon
    # Steps whose every row within reach is sure have no transitions: Lemma S9 (declared support)
    moving = len(places_of(shape).slots) - H
    steps = {"transitions": moving, "visits": H, "rewards": H}
    if encoding == "complement":
        # r + (1 - r) = 1 in the visited cell: the worst case puts all of it into one of the two counters
        steps = {"transitions": moving, "rewards and complements": H}
    elif encoding == "squares":
        steps["squares"] = H
    return tuple(family_of(name, count, staged=shape.staged) for name, count in steps.items() if count > 0)


def family_of(name: str, steps: int, *, staged: bool) -> Family:
    """One counter up and one down per step, or, pooled, one of each by the number of steps."""
    if staged:
        return Family(name=name, up=steps, down=steps, shift=1.0)
    return Family(name=name, up=1, down=1, shift=float(steps))


def dimension_of(shape: CountShape, *, squares: bool = False) -> int:
    """The length of the vector; a vector that is longer by one block of cells holds squares of rewards in it.

    >>> dimension_of(CountShape(horizon=6, num_states=4, num_actions=2, staged=True))
    256
    """
    places = places_of(shape)
    return places.counters + (places.num_ones if squares else 0)


@lean_kernel
def add_vector(released: CountStatistics, vector: Floats, places: SupportIndex, complement: bool) -> None:
    """The analyzer: add a (noisy) vector to the released totals.

    What a declared support excludes stays an exact zero, and sure rows follow from visits.
    """
    transitions, rewards = released.transitions.reshape(-1), released.rewards.reshape(-1)
    visits, squares = released.visits.reshape(-1), released.squares.reshape(-1)
    c = 0
    for run in range(places.move_runs.shape[0]):
        first, stop = places.move_runs[run, 0], places.move_runs[run, 1]
        own, added = transitions[first:stop], vector[c : c + stop - first]
        for i in range(own.shape[0]):
            own[i] += added[i]
        c += stop - first
    zero, square = c + places.num_ones, c + places.num_ones + places.num_zeros
    # Not released: rewards count as binary, their own squares.
    squared = vector.shape[0] > square
    for run in range(places.row_runs.shape[0]):
        first, stop = places.row_runs[run, 0], places.row_runs[run, 1]
        N, other = visits[first:stop], vector[zero : zero + stop - first]
        zero += stop - first
        if places.row_runs[run, 2] == 0:
            for i in range(N.shape[0]):
                N[i] += other[i]  # (N - R)~ alone where nothing can be earned
            continue
        R, R2, reward = rewards[first:stop], squares[first:stop], vector[c : c + stop - first]
        square_of = vector[square : square + stop - first] if squared else reward
        for i in range(N.shape[0]):
            R[i] += reward[i]
            R2[i] += square_of[i]
            # Ñ = R̃ + (N - R)~
            N[i] += reward[i] + other[i] if complement else other[i]
        c, square = c + stop - first, square + stop - first
    for c in range(places.sure_row.shape[0]):
        transitions[places.sure_cell[c]] = visits[places.sure_row[c]]
