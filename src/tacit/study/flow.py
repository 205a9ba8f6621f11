"""Flow conservation: whoever arrives in a state leaves it, so honest counts agree with themselves up to their noise.

    F1   Σ_(s,a) N(h,s,a,s')  =  Σ_a N(h+1,s',a)              for every step h and state s'
    F2   Σ_s'    N(h,s,a,s')  =  N(h,s,a)                     for every step h, state s and action a
    F3   Σ_(s,a) N(h,s,a)    <=  users                        for every step h: nobody is in two places

All sides are released with noise of a stated variance. A release in which they differ by more than noise would is not
learned from: it is quarantined, since reports were made up or the collector made a mistake. Every counter stands in one
of these lines, so many who lie about a single one are found, and so is whoever sends several trajectories in one
report. One made-up trajectory per report keeps to all three: it is what a person may send, and no test finds it.

The false-alarm rate of the whole test is that of one test at four standard deviations, 6.3e-5, shared over its lines.
A stage that asks about one step is tested by F3 alone, for there is nothing beside it. Nothing is tested where the
statistics do not keep the steps apart, nor under local trust, where a person may send a random part of a trajectory and
the sides belong to different people. Over a declared support the laws are those of `tacit.study.flow`.

Flow conservation over a declared support: the same three laws, on the counters that are released.

    F1   Σ_(s,a) N(h,s,a,s')  =  Σ_a N(h+1,s',a)      for every s' within reach; a row with a single successor has no
                                                      counters of its own: whoever was there went there
    F2   Σ_s'    N(h,s,a,s')  =  N(h,s,a)             for every row with several successors
    F3   Σ_(s,a) N(h,s,a)    <=  users                over the states within reach

A step that contradicts the declaration sets no counter (Lemma S9 (declared support)), so people who do what cannot be
are missing on one side: a declaration that is false shows here, as made-up reports do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

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


SIGMAS: Final = 4.0
RATE: Final = 2.0 * float(ndtr(-SIGMAS))
IMPOSSIBLE: Final = "sums: so many people cannot have sent so many messages of one kind"
"""What is wrong with a sealed batch whose histogram no reports of devices add up to: somebody sent other messages."""


def broken_flow(statistics: Any, trust: str, layer: int | None = None, support: Support | None = None) -> str | None:
    """What is wrong with counts that contradict themselves, in words; None: nothing is, or nothing can be said.

    `layer` is the step that a stage asks about, where it asks about one only; `support` is what its shape declares.

    >>> from tacit.released.counts import CountShape, empty_counts
    >>> counts = empty_counts(CountShape(horizon=2, num_states=2, num_actions=1, staged=True))
    >>> broken_flow(counts, "central") is None
    True
    >>> counts.visits[1, 0, 0] = 7.0
    >>> counts.users[0] = 7
    >>> broken_flow(counts, "central")
    'flow: counts contradict themselves in 1 of 6 lines'
    """
    if not _tested(statistics, trust):
        return None
    gaps = flow_gaps(statistics, layer, support)
    lines = sum(gap.size for gap, _ in gaps)
    z = _allowed(lines)
    # Half a count for what rounding may do; a gap that is no number is no small one.
    broken = sum(int((~(gap <= z * sigma + 0.5)).sum()) for gap, sigma in gaps)
    if broken == 0:
        return None
    declared = "" if support is None else ", or the declared support"
    return f"flow: counts contradict themselves{declared} in {broken} of {lines} lines"


class FlowScore(NamedTuple):
    """How far the lines of one law are from holding, at the worst, in standard deviations of their noise."""

    law: str
    lines: int
    largest: float
    allowed: float
    """Beyond this (and half a count) a release is quarantined."""


def flow_scores(
    statistics: Any, trust: str, layer: int | None = None, support: Support | None = None
) -> tuple[FlowScore, ...]:
    """The largest z-score of each law that is tested; none where nothing is (see above).

    >>> from tacit.released.counts import CountShape, empty_counts
    >>> counts = empty_counts(CountShape(horizon=2, num_states=2, num_actions=1, staged=True))
    >>> counts.variance[:] = 1.0
    >>> counts.visits[1, 0, 0] = 3.0
    >>> [(score.law, round(score.largest, 3)) for score in flow_scores(counts, "central")]
    [('arrivals', 1.732), ('departures', 0.0), ('people', 2.121)]
    """
    if not _tested(statistics, trust):
        return ()
    gaps = flow_gaps(statistics, layer, support)
    allowed = _allowed(sum(gap.size for gap, _ in gaps))
    laws = ("arrivals", "departures", "people")[-len(gaps) :]
    return tuple(
        FlowScore(law, gap.size, _largest(gap, sigma), allowed) for law, (gap, sigma) in zip(laws, gaps, strict=True)
    )


def _tested(statistics: Any, trust: str) -> bool:
    """Whether there is something to test: counts by step, of trajectories that were sent whole."""
    counted = isinstance(statistics, CountStatistics) and trust in ("central", "shuffle")
    return counted and statistics.visits.shape[0] >= 2


def _allowed(lines: int) -> float:
    """The z-score that one of so many lines may have."""
    return -float(ndtri(RATE / (2.0 * lines)))


def _largest(gap: Floats, sigma: Floats | float) -> float:
    """Max gap / σ; without noise a gap of more than half a count is beyond every score."""
    silent = np.where(gap <= 0.5, 0.0, np.inf)
    scores = np.divide(gap, sigma, out=silent, where=np.broadcast_to(np.asarray(sigma) > 0.0, gap.shape))
    return float(np.max(scores, initial=-np.inf)) if gap.size else 0.0


def flow_gaps(
    statistics: CountStatistics, layer: int | None = None, support: Support | None = None
) -> Sequence[tuple[Floats, Floats | float]]:
    """How far F1, F2 and F3 are from holding, line by line, with the standard deviation of their noise."""
    if support is not None and layer is None:
        return supported_gaps(statistics, support)
    _, S, A = statistics.visits.shape
    var_t, var_v = float(statistics.variance[0]), float(statistics.variance[1])
    steps = slice(None) if layer is None else slice(layer, layer + 1)
    # F3: Var = S A σ_v²
    people = statistics.visits[steps].sum(axis=(1, 2)) - float(statistics.users[0])
    above = (people, float(np.sqrt(S * A * var_v)))
    if layer is not None:
        return [above]
    moved = statistics.transitions[:-1]
    # F1: Var = S A σ_t² + A σ_v²
    arrived = np.abs(moved.sum(axis=(1, 2)) - statistics.visits[1:].sum(axis=2))
    # F2: Var = S σ_t² + σ_v²
    left = np.abs(moved.sum(axis=3) - statistics.visits[:-1])
    return [
        (arrived, float(np.sqrt(S * A * var_t + A * var_v))),
        (left, float(np.sqrt(S * var_t + var_v))),
        above,
    ]
