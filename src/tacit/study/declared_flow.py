"""Flow conservation over a declared support: the same three laws, on the counters that are released.

    F1   Σ_(s,a) N(h,s,a,s')  =  Σ_a N(h+1,s',a)      for every s' within reach; a row with a single successor has no
                                                      counters of its own: whoever was there went there
    F2   Σ_s'    N(h,s,a,s')  =  N(h,s,a)             for every row with several successors
    F3   Σ_(s,a) N(h,s,a)    <=  users                over the states within reach

A step that contradicts the declaration sets no counter (Lemma S9 (declared support)), so people who do what cannot be
are missing on one side: a declaration that is false shows here, as made-up reports do.
"""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats
from tacit.released.counts import CountStatistics
from tacit.support import Support


def supported_gaps(statistics: CountStatistics, support: Support) -> list[tuple[Floats, Floats]]:
    """How far F1, F2 and F3 are from holding, line by line, with the standard deviation of each line's noise."""
    H, S, A = support.horizon, support.num_states, support.num_actions
    cells, counter = support.released, float(statistics.variance[2])
    moves = np.zeros((H - 1, S, A, S), dtype=bool)
    moves.reshape(-1)[cells.moves] = True
    # One counter of noise for visits without a reward, another one where there can be any.
    noisy = np.bincount(np.concatenate([cells.zeros, cells.ones]), minlength=H * S * A).reshape(H, S, A)
    # Rows with a single successor are looked up below, whatever is filled in for them.
    noise, moved = counter * noisy, np.where(moves, statistics.transitions[:-1], 0.0)
    arrived, spread = moved.sum(axis=(1, 2)), counter * moves.sum(axis=(1, 2))
    # N(h,s,a,s') = N(h,s,a) where s' alone can follow
    h, s, a = np.nonzero(cells.single >= 0)
    np.add.at(arrived, (h, cells.single[h, s, a]), statistics.visits[h, s, a])
    np.add.at(spread, (h, cells.single[h, s, a]), noise[h, s, a])
    reached, several = support.reach[1:], moves.any(axis=3)
    arrivals = np.abs(arrived - statistics.visits[1:].sum(axis=2))[reached]
    left = np.abs(moved.sum(axis=3) - statistics.visits[:-1])[several]
    own = counter * moves.sum(axis=3)
    above = statistics.visits.sum(axis=(1, 2)) - float(statistics.users[0])
    return [
        (arrivals, np.sqrt(spread + noise[1:].sum(axis=2))[reached]),
        (left, np.sqrt(own + noise[:-1])[several]),
        (above, np.sqrt(noise.sum(axis=(1, 2)))),
    ]
