"""Flow conservation: whoever arrives in a state leaves it, so honest counts agree with themselves up to their noise.

    Σ_(s,a) N(h,s,a,s')  =  Σ_a N(h+1,s',a)              for every step h and state s'

The two sides are released with noise of a stated variance. A release in which they differ by more than noise would is
not learned from: it is quarantined, since reports were made up or the collector made a mistake.

The false-alarm rate of the whole test is that of one test at four standard deviations, 6.3e-5, shared over its cells.
Nothing is tested where the statistics do not keep the steps apart, nor under local trust, where a person may send a
random part of a trajectory and the sides belong to different people.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy.special import ndtr, ndtri

from tacit.released.counts import CountStatistics

__all__ = ["SIGMAS", "broken_flow"]

SIGMAS: Final = 4.0
RATE: Final = 2.0 * float(ndtr(-SIGMAS))


def broken_flow(statistics: Any, trust: str) -> str | None:
    """What is wrong with counts that contradict themselves, in words; None: nothing is, or nothing can be said.

    >>> from tacit.released.counts import CountShape, empty_counts
    >>> counts = empty_counts(CountShape(horizon=2, num_states=2, num_actions=1, staged=True))
    >>> broken_flow(counts, "central") is None
    True
    >>> counts.visits[1, 0, 0] = 7.0
    >>> broken_flow(counts, "central")
    'flow: what arrives and what leaves differ in 1 of 2 cells'
    """
    if not isinstance(statistics, CountStatistics) or trust not in ("central", "shuffle"):
        return None
    H, S, A = statistics.visits.shape
    if H < 2:
        return None
    arrived = statistics.transitions[:-1].sum(axis=(1, 2))
    left = statistics.visits[1:].sum(axis=2)
    # Var = S A σ_t² + A σ_v²; half a count for what rounding may do.
    sigma = float(np.sqrt(S * A * statistics.variance[0] + A * statistics.variance[1]))
    bound = -float(ndtri(RATE / (2.0 * arrived.size))) * sigma + 0.5
    broken = int((~(np.abs(arrived - left) <= bound)).sum())
    return None if broken == 0 else f"flow: what arrives and what leaves differ in {broken} of {arrived.size} cells"
