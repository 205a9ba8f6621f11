"""The confidence set of the transitions, kept up to date from released counts; shared by all learners of losses.

    theory      counts repaired by Eq. 5.1 and 5.2, intervals by Eq. 3.1, scaled by cb and ce
    practical   the one practical rule of `tacit.planning.widths`
    known       lo = hi = P

E = 4 max(r(N(x,a,x')), r(N(x,a))), r = √(2vL) + cL the radius of the noise as of now: the papers leave its constant
open and take the last episode's for all; under local trust v grows with the users, so E is smaller early on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.loss_contract import INFEASIBLE, LossRequest, Multipliers
from tacit.planning.layered import LayeredGeometry
from tacit.planning.transition_intervals import known_intervals, practical_intervals, repair_counts, theory_intervals
from tacit.released.losses import LossStatistics
from tacit.released.precision import CountPrecision, now_radius


class SetParameters(NamedTuple):
    """Everything that decides the set, all public."""

    geometry: LayeredGeometry
    precision: CountPrecision
    log_term: float
    radius_log: float
    multipliers: Multipliers
    known: bool


class SetBelief(NamedTuple):
    """The intervals lo ≤ P(x'|x,a) ≤ hi and what they are computed from."""

    lo: Floats
    hi: Floats
    counts: Floats
    totals: Floats


def set_parameters(request: LossRequest, multipliers: Multipliers) -> SetParameters:
    """The parameters of a request."""
    return SetParameters(
        geometry=request.geometry,
        precision=request.precision,
        log_term=request.log_term,
        radius_log=request.radius_log,
        multipliers=multipliers,
        known=request.known is not None,
    )


def widths_used(request: LossRequest, multipliers: Multipliers) -> dict[str, float]:
    """What decided the widths, for the record: z, or cb, ce and the largest E (nothing where transitions are known)."""
    if request.known is not None:
        return {}
    if multipliers.z >= 0.0:
        return {"z": multipliers.z}
    E = multipliers.ce * float(precision_now(request.precision, request.variance, request.radius_log))
    return {"cb": multipliers.cb, "ce": multipliers.ce, "precision": E}


def begin_set(request: LossRequest) -> SetBelief:
    """Everything is possible, or exactly one thing is."""
    geometry = request.geometry
    triples, pairs = int(geometry.edges[-1]), len(geometry.edges) - 1
    lo, hi = np.zeros(triples), np.ones(triples)
    if request.known is not None:
        known_intervals(request.known, lo, hi)
    else:
        theory_intervals(geometry, np.zeros(triples), np.zeros(pairs), 0.0, 1.0, 1.0, lo, hi)
    return SetBelief(lo=lo, hi=hi, counts=np.zeros(triples), totals=np.zeros(pairs))


@kernel
def precision_now(precision: CountPrecision, variance: Floats, log_term: float) -> float:
    """E as of now; 0 where nothing is noisy.

    >>> precision_now(CountPrecision(scale=np.zeros(3)), np.array([2.0, 8.0, 0.0]), 4.0)
    32.0
    """
    if variance[0] == 0.0 and variance[1] == 0.0:
        return 0.0
    transitions = now_radius(precision, variance, 0, log_term)
    visits = now_radius(precision, variance, 1, log_term)
    return 4.0 * max(transitions, visits)


@kernel
def update_set(parameters: SetParameters, belief: SetBelief, released: LossStatistics, tally: Floats) -> None:
    """𝒫_{k+1} from the counts that were released after episode k."""
    if parameters.known:
        return
    geometry, tuned = parameters.geometry, parameters.multipliers
    if tuned.z >= 0.0:
        practical_intervals(
            geometry, released.transitions, released.visits, released.variance[0], tuned.z,
            belief.lo, belief.hi, belief.counts,
        )  # fmt: skip
        return
    E = tuned.ce * precision_now(parameters.precision, released.variance, parameters.radius_log)
    tally[INFEASIBLE] += repair_counts(geometry, released.transitions, released.visits, E, belief.counts, belief.totals)
    theory_intervals(
        geometry, belief.counts, belief.totals, E, parameters.log_term, tuned.cb, belief.lo, belief.hi
    )  # fmt: skip
