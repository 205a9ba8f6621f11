"""`CountStatistics`: the running totals that a learner of tabular models sees, whatever the trust model.

The arrays are noisy (unless the trust model is `none`), and `variance` says by how much. They are a NamedTuple of
arrays so that the same object serves the interpreted loop, the compiled loop and a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import MAX_HORIZON, require, require_count
from tacit.support import ReleasedCells, Support, counter_cells


class CountStatistics(NamedTuple):
    """Totals over all users so far; the leading axis is the step h, or has length 1 when steps are pooled."""

    transitions: Floats
    """[H or 1, S, A, S]: Ñ(s,a,s') over the H-1 steps that have a successor (the last stage stays zero)."""
    visits: Floats
    """[H or 1, S, A]: Ñ(s,a)."""
    rewards: Floats
    """[H or 1, S, A]: sums of rewards R̃(s,a)."""
    squares: Floats
    """[H or 1, S, A]: sums of squared rewards; the sums themselves where rewards are binary."""
    variance: Floats
    """[3]: noise variance of one cell of transitions, visits, rewards, as of now."""
    users: Ints
    """[1]: how many users the totals cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountShape:
    """The public shape of the statistics."""

    horizon: int
    num_states: int
    num_actions: int
    staged: bool
    support: Support | None = None
    """The public declaration of what can happen; None: nothing is declared, and every counter is released."""

    def __post_init__(self) -> None:
        require_count("horizon", self.horizon, most=MAX_HORIZON)
        known = self.support
        if known is not None:
            sizes = (self.horizon, self.num_states, self.num_actions)
            declared = (known.horizon, known.num_states, known.num_actions)
            require(
                sizes == declared, f"a support must have the horizon, states, actions {sizes} of its world", declared
            )

    @property
    def stages(self) -> int:
        """The length of the leading axis: H when steps are kept apart, 1 when they are pooled."""
        return self.horizon if self.staged else 1

    @property
    def cells(self) -> ReleasedCells:
        """Flat places in `CountStatistics` of the counters that are released."""
        return counter_cells(self.support, (self.horizon, self.num_states, self.num_actions), self.staged)


def empty_counts(shape: CountShape) -> CountStatistics:
    """Totals before anybody came.

    >>> empty_counts(CountShape(horizon=6, num_states=4, num_actions=2, staged=False)).transitions.shape
    (1, 4, 2, 4)
    """
    rows = (shape.stages, shape.num_states, shape.num_actions)
    return CountStatistics(
        transitions=np.zeros((*rows, shape.num_states)),
        visits=np.zeros(rows),
        rewards=np.zeros(rows),
        squares=np.zeros(rows),
        variance=np.zeros(3),
        users=np.zeros(1, dtype=np.int64),
    )
