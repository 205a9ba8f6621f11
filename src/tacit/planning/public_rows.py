"""What a declared support says about each row of a model, for the kernels of all learners.

Where a support is declared, released counts of what cannot happen are exact zeros, and a row with a single successor
has its visits as transitions. A learner knows four things more, each of them public:

1. the possible successors of a row: the noise of a row is summed over these, and others are skipped;
2. whether a row can earn anything: if not, its reward has no noise;
3. the most that can be earned from a row on, by the declaration alone;
4. while a row that excludes something is unknown, it is worth its reward and the best of its possible successors.

Optimism keeps its proofs if the declaration is true: Q⋆(s,a) ≤ pays(s,a) + max V⋆ over the possible successors, and
an error of the counts is summed over at most `widest` successors. A row whose successors are all possible is as without
a declaration; so with a full support nothing changes, bit for bit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import inlined, lean_kernel
from tacit.released.counts import CountShape
from tacit.support import Support, released_cells


class PublicRows(NamedTuple):
    """Public facts about the rows (stage, s, a) of a model, numbered (stage · S + s) · A + a."""

    declared: bool
    """Whether a support is declared; if not, nothing else in here but `widest` is used."""
    start: Ints
    """[rows + 1]: the possible successors of row i are to[start[i] : start[i+1]]."""
    to: Ints
    pays: Floats
    """[rows]: 1 where a row can earn anything, else 0."""
    limit: Floats
    """[H, S, A]: the most that can be earned from (s,a) at step h on."""
    widest: int
    """The most successors that a row can have."""


def public_rows(shape: CountShape) -> PublicRows:
    """What is public about the rows of a model with these steps.

    >>> moves = [[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]]
    >>> line = Support(moves=moves, horizon=3, starts=[1, 0, 0], rewards=[[0], [0], [1]])
    >>> found = public_rows(CountShape(horizon=3, num_states=3, num_actions=1, staged=False, support=line))
    >>> found.start.tolist(), found.to.tolist(), found.pays.tolist(), found.limit[..., 0].tolist(), found.widest
    ([0, 2, 4, 4], [0, 1, 1, 2], [0.0, 0.0, 1.0], [[1.0, 2.0, 3.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0]], 2)
    """
    if shape.support is None:
        none = np.zeros(0, dtype=np.int64)
        return PublicRows(False, none, none, np.zeros(0), np.zeros((0, 0, 0)), shape.num_states)
    return _public_rows(shape.support, shape.staged)


@lru_cache(maxsize=16)
def _public_rows(support: Support, staged: bool) -> PublicRows:
    H, S, A = support.horizon, support.num_states, support.num_actions
    cells = released_cells(support, staged)
    led_to = np.sort(np.concatenate([cells.moves, cells.sure[1]]))
    pays, limit = np.zeros((H, S, A)), np.zeros((H + 1, S, A))
    pays.reshape(-1)[support.released.ones] = 1.0
    for h in range(H - 1, -1, -1):
        led = support.moves[min(h, len(support.moves) - 1)]
        earned = support.rewards[min(h, len(support.rewards) - 1)].astype(np.float64)
        # U_h(s,a) = pays(s,a) + max over possible s' of max_a' U_{h+1}(s',a')
        limit[h] = earned + np.where(led, limit[h + 1].max(axis=1), 0.0).max(axis=2)
    return PublicRows(
        declared=True,
        start=np.searchsorted(led_to, np.arange((H if staged else 1) * S * A + 1) * S),
        to=led_to % S,
        pays=(pays if staged else pays.max(axis=0)).ravel(),
        limit=limit[:H],
        widest=support.most_successors,
    )


@inlined
@lean_kernel
def can_follow(public: PublicRows, row: int, state: int) -> bool:
    """Whether a state can follow a row."""
    if not public.declared:
        return True
    found = False
    for c in range(public.start[row], public.start[row + 1]):
        found = found or public.to[c] == state
    return found


@inlined
@lean_kernel
def row_ceiling(public: PublicRows, h: int, s: int, a: int, row: int, remaining: int, V: Floats) -> float:
    """The most that a row can be worth with `remaining` steps left, this one included, when its successors have V."""
    if not public.declared:
        return float(remaining)
    first, stop = public.start[row], public.start[row + 1]
    most = float(public.limit[h, s, a])
    if stop - first == V.shape[0]:
        return most
    best = 0.0
    if remaining > 1:
        for c in range(first, stop):
            best = max(best, V[public.to[c]])
    return min(most, float(public.pays[row]) + best)


@inlined
@lean_kernel
def row_spread(public: PublicRows, row: int, V: Floats, mean: float, spread: float) -> float:
    """Σ (V(s') - mean)² over the possible successors; `spread`, that over all states, where nothing is declared."""
    if not public.declared:
        return spread
    found = 0.0
    for c in range(public.start[row], public.start[row + 1]):
        gap = V[public.to[c]] - mean
        found += gap * gap
    return found


@inlined
@lean_kernel
def reward_noise(public: PublicRows, row: int, variance: float) -> float:
    """The noise variance of a row's reward: none where nothing can be earned."""
    return variance * public.pays[row] if public.declared else variance


@inlined
@lean_kernel
def row_radius(public: PublicRows, visits: float, transitions: float) -> float:
    """How far the transitions of a row can be off in all, if visits and single transitions are off by so much."""
    total = public.widest * transitions
    # The transitions of a sure row are its visits.
    return max(total, visits) if public.declared else total
