"""A tabular MDP prepared for sampling: alias tables, so that a step costs the same for any number of states.

Walker's alias method: a row of n probabilities becomes n columns of equal mass, each holding at most two outcomes, and
one uniform number picks the column (its integer part) and the outcome (its fraction). Exact to the 53 bits of a double.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.environments.tabular import TabularMDP
from tacit.kernels import kernel, lean_kernel

__all__ = ["World", "alias_draw", "prepare_world"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class World(NamedTuple):
    """The sampler's arrays; the leading axis of the first three has length H, or 1 when the MDP is time-homogeneous."""

    cut: Floats
    """[H or 1, S, A, S]: a fraction below `cut` keeps the column's own state."""
    other: Ints
    """[H or 1, S, A, S]: the state that takes the rest of the column."""
    reward: Floats
    """[H or 1, S, A]: mean rewards."""
    first_cut: Floats
    """[S]: the same for the initial distribution."""
    first_other: Ints
    bernoulli: bool
    """Whether rewards are drawn (0 or 1 with this mean) or are the mean itself."""


def prepare_world(mdp: TabularMDP) -> World:
    """Build the alias tables of an MDP."""
    cut, other = _alias_tables(mdp.stage_P.reshape(-1, mdp.num_states))
    first_cut, first_other = _alias_tables(mdp.rho.reshape(1, -1))
    return World(
        cut=cut.reshape(mdp.stage_P.shape),
        other=other.reshape(mdp.stage_P.shape),
        reward=np.array(mdp.stage_r),
        first_cut=first_cut[0],
        first_other=first_other[0],
        bernoulli=mdp.reward_kind == "bernoulli",
    )


@lean_kernel
def alias_draw(cut: Floats, other: Ints, uniform: float) -> int:
    """The outcome that a uniform number in [0, 1) selects."""
    scaled = uniform * cut.shape[0]
    column = int(scaled)
    if scaled - column < cut[column]:
        return column
    return int(other[column])


@kernel
def _alias_tables(rows: Floats) -> tuple[Floats, Ints]:
    """Vose's construction for every row: columns with too little mass borrow from columns with too much."""
    count, n = rows.shape
    cut = np.ones((count, n))
    other = np.zeros((count, n), dtype=np.int64)
    low = np.zeros(n, dtype=np.int64)
    high = np.zeros(n, dtype=np.int64)
    mass = np.zeros(n)
    for i in range(count):
        lows, highs = 0, 0
        total = 0.0
        for j in range(n):
            total += rows[i, j]
        for j in range(n):
            mass[j] = rows[i, j] * n / total
            other[i, j] = j
            if mass[j] < 1.0:
                low[lows] = j
                lows += 1
            else:
                high[highs] = j
                highs += 1
        while lows > 0 and highs > 0:
            lows -= 1
            small, large = low[lows], high[highs - 1]
            cut[i, small] = mass[small]
            other[i, small] = large
            mass[large] -= 1.0 - mass[small]
            if mass[large] < 1.0:
                highs -= 1
                low[lows] = large
                lows += 1
        # What is left over differs from mass 1 by rounding only, except that an impossible state stays impossible.
        while lows > 0:
            lows -= 1
            if rows[i, low[lows]] == 0.0:
                cut[i, low[lows]] = 0.0
                other[i, low[lows]] = np.argmax(rows[i])
    return cut, other
