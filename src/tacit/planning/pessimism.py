"""Pessimistic planning: the policy that is best by what the released counts support, for data that nobody can extend.

A learner who may try again is optimistic; whoever learns from a log once must not count on what the log does not show.
So rows (h,s,a) are worth their estimate minus its width, rows that are not supported are worth nothing, and no value
is negative:

    Q̲_h(s,a) = max(0, r̂ - b + Σ_s' P̂(s'|s,a) V̲_{h+1}(s')),    unknown rows: 0,    π_h(s) = argmax_a Q̲_h(s,a)

A row is supported if its released visits exceed what noise alone reaches in any of the H S A rows, but for a stated
probability p: Ñ_h(s,a) > √(2 v ln(H S A / p)), by Lemma N1 (sub-gamma radius), one-sided and with scale 0, for noise of
variance v that is Gaussian, discrete or not. So with probability 1 - p nothing rests on rows that nobody visited.

Where several actions have the same Q̲ (mostly 0, where widths exceed estimates), a known row comes before an unknown
one, then the larger estimate r̂ + P̂V counts, then the smaller number. A state without a known row gets the default
action, and is reported as such. Everything is post-processing of what was released; widths and model are those of
`tacit.planning.widths`, with one parameter z.

Where transitions and rewards are declared not to depend on the step, `pooled_steps` adds the steps up before anything
is planned: H times the visits of a row, √H times the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_real
from tacit.planning.widths import DEFAULT_Z, confidence_model, first_states
from tacit.released.counts import CountStatistics

UNSUPPORTED = 0.05
"""The probability p with which some row without a visit may count as supported."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PessimisticPlan:
    """A policy with what the model says about it."""

    actions: Ints
    """[H,S]"""
    supported: NDArray[np.bool_]
    """[H,S]: whether the log knows the chosen action there; elsewhere it is the default."""
    noise_units: Floats
    """[H,S]: released visits of the chosen action, of the most visited one where it is the default, over the standard
    deviation of their noise (one visit at least)."""
    threshold: float
    """The noise units from which on a row is supported."""
    value: float
    """The estimate of an episode's rewards under the policy, each in [0, 1]."""
    floor: float
    """The same at its most pessimistic."""


def pessimistic_plan(
    counts: CountStatistics,
    *,
    z: float = DEFAULT_Z,
    default: int = 0,
    failure_prob: float = UNSUPPORTED,
    stationary: bool = False,
) -> PessimisticPlan:
    """The policy that is best by lower confidence bounds of stage-wise counts under Gaussian noise, or none.

    >>> from tacit.released.counts import CountShape, empty_counts
    >>> counts = empty_counts(CountShape(horizon=1, num_states=1, num_actions=3, staged=True))
    >>> counts.visits[0, 0, :2], counts.rewards[0, 0, :2] = [1000.0, 1000.0], [200.0, 700.0]
    >>> plan = pessimistic_plan(counts)
    >>> plan.actions.tolist(), round(plan.value, 2), plan.floor < plan.value
    ([[1]], 0.7, True)
    """
    require_real("z", z, low=0.0)
    H, S, A = counts.visits.shape
    require(0 <= default < A, f"the default action must be below {A}", default)
    rho = first_states(counts)
    if stationary:
        counts = pooled_steps(counts)
    model = confidence_model(_supported(counts, failure_prob), rho, z)
    actions: Ints = np.full((H, S), default, dtype=np.int64)
    supported = np.zeros((H, S), dtype=np.bool_)
    low, middle = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        known = model.n[h] > 0.0
        # The last step has no successor: its rows of P̂ are zero, as are those that are unknown.
        below = np.where(known, np.clip(model.lower[h] + model.P[h] @ low, 0.0, H - h), 0.0)
        estimate: Floats = np.where(known, np.minimum(model.r[h] + model.P[h] @ middle, H - h), 0.0)
        for s in range(S):
            supported[h, s] = bool(known[s].any())
            if supported[h, s]:
                ranks = [(below[s, a], known[s, a], estimate[s, a], -a) for a in range(A)]
                actions[h, s] = ranks.index(max(ranks))
        chosen = np.arange(S), actions[h]
        low, middle = below[chosen], estimate[chosen]
    own = np.take_along_axis(counts.visits, actions[..., None], axis=2)[..., 0]
    unit = max(1.0, math.sqrt(float(counts.variance[1])))
    return PessimisticPlan(
        actions=actions,
        supported=supported,
        noise_units=np.round(np.where(supported, own, counts.visits.max(axis=2)) / unit, 3),
        threshold=round(support_floor(counts, failure_prob) / unit, 3),
        value=float(rho @ middle),
        floor=float(rho @ low),
    )


def pooled_steps(counts: CountStatistics) -> CountStatistics:
    """Counts of a stationary world: in every step those of all steps together. Post-processing of what was released.

    First states are read from the first step alone, so before.
    """
    H = len(counts.visits)
    # Ñ(s,a,s') = Σ_{h<H} Ñ_h(s,a,s'), whose noise has variance (H - 1) v; visits and rewards have H steps
    moves = np.broadcast_to(counts.transitions.sum(axis=0), counts.transitions.shape).copy()
    moves[-1] = 0.0
    each = {
        name: np.broadcast_to(getattr(counts, name).sum(axis=0), counts.visits.shape).copy()
        for name in ("visits", "rewards", "squares")
    }
    many = np.array([max(1, H - 1), H, H], dtype=np.float64)
    return counts._replace(transitions=moves, variance=counts.variance * many, **each)


def support_floor(counts: CountStatistics, failure_prob: float = UNSUPPORTED) -> float:
    """The released visits from which on a row is supported."""
    p = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
    # P(noise > √(2 v L)) ≤ e^-L in each of H S A rows; half a visit where there is no noise.
    L = math.log(counts.visits.size / p)
    return max(0.5, math.sqrt(2.0 * float(counts.variance[1]) * L))


def _supported(counts: CountStatistics, failure_prob: float) -> CountStatistics:
    """The counts with zeros in all rows that are not supported."""
    kept = counts.visits > support_floor(counts, failure_prob)
    return counts._replace(
        transitions=np.where(kept[..., None], counts.transitions, 0.0),
        visits=np.where(kept, counts.visits, 0.0),
        rewards=np.where(kept, counts.rewards, 0.0),
        squares=np.where(kept, counts.squares, 0.0),
    )
