"""The c_{k,1..4} of [garcelon2021local] Asm. 3 for every local mechanism: variance and sub-gamma scale per user."""

from __future__ import annotations

import numpy as np

from tacit.mechanisms.bounded import Bounded
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.one_slot import OneSlot
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.privatizers.local_aggregate import LocalMechanism
from tacit.privatizers.statistics import Encoding
from tacit.released.counts import CountShape
from tacit.released.precision import SumPrecision

__all__ = ["local_precision"]


def local_precision(
    outcome: LocalMechanism, transition: LocalMechanism, encoding: Encoding, shape: CountShape
) -> SumPrecision:
    """What one user's message adds to the noise of R(s,a), N(s,a), Σ_s' N(s,a,s') and N(s,a,s')."""
    S, steps = shape.num_states, 1 if shape.staged else shape.horizon
    summed = 2 if encoding == "complement" else 1  # counters that add up to N(s,a)
    if isinstance(outcome, OneSlot) and isinstance(transition, OneSlot):
        sums = ((outcome, 1), (outcome, summed), (transition, S), (transition, 1))
        variance = [slot.sum_variance(cells) for slot, cells in sums]
        reach = [slot.reach(cells) for slot, cells in sums]
        return SumPrecision(variance=np.array(variance), scale=np.array(reach) / 3.0)
    v, w = outcome.variance, transition.variance
    if isinstance(outcome, RandomizedResponse):  # one noisy bit per step
        v, w = v * steps, w * max(1, steps - 1)
    c, d = _scale(outcome), _scale(transition)
    return SumPrecision(variance=np.array([v, summed * v, S * w, w]), scale=np.array([c, c, d, d]))


def _scale(mechanism: LocalMechanism) -> float:
    """The sub-gamma scale of one independent noise: 0 for Gaussian, b for Laplace, a third of the range if bounded."""
    if isinstance(mechanism, Gaussian):
        return 0.0
    if isinstance(mechanism, Laplace):
        return mechanism.scale
    if isinstance(mechanism, Bounded):
        return mechanism.limit / 3.0
    return mechanism.gain / 3.0
