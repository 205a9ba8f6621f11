"""How precise the counts of any privatizer are: the private-counts assumption, stated once for all trust models.

A released number has noise of the variance that comes with it (`CountStatistics.variance`, as of now) and of a
sub-gamma scale that does not change; together they are a radius (`tacit.released.precision.now_radius`):

    Gaussian counters      0
    Laplace counters       b of one node: independent noises add up to the same scale
    shuffled bits          1/3: a centred bit is bounded by 1
    local messages         that of one user's message
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.mechanisms.accumulated import AccumulatedNoise
from tacit.mechanisms.kary_tree import KaryTree
from tacit.mechanisms.one_slot import OneSlot
from tacit.mechanisms.tree import LaplaceTree
from tacit.privatizers.central import Central
from tacit.privatizers.central_batches import CentralBatches
from tacit.privatizers.local import Local
from tacit.privatizers.shuffled import Shuffled
from tacit.released.precision import (
    CELL,
    REWARD,
    VISIT,
    CountPrecision,
    Sampling,
    everything_sent,
    exact_counts,
)

__all__ = ["count_precision", "sampling_of"]


def count_precision(privatizer: Any) -> CountPrecision:
    """The sub-gamma scales of the noise in transitions, visits and rewards.

    >>> from tacit.privatizers.none import Unprotected
    >>> from tacit.released.counts import CountShape
    >>> count_precision(Unprotected(shape=CountShape(horizon=2, num_states=2, num_actions=2, staged=True))).scale
    array([0., 0., 0.])
    """
    if isinstance(privatizer, Central | CentralBatches):
        return CountPrecision(scale=np.full(3, _counter_scale(privatizer.counter)))
    if isinstance(privatizer, Local):
        scale = privatizer.precision().scale
        return CountPrecision(scale=np.array([scale[CELL], scale[VISIT], scale[REWARD]]))
    if isinstance(privatizer, Shuffled):
        return CountPrecision(scale=np.full(3, 1.0 / 3.0))
    return exact_counts()


def sampling_of(privatizer: Any) -> Sampling:
    """What it costs that users send one slot only; nothing under any other mechanism.

    >>> from tacit.privatizers.none import Unprotected
    >>> from tacit.released.counts import CountShape
    >>> sampling_of(Unprotected(shape=CountShape(horizon=2, num_states=2, num_actions=2, staged=True))).weight
    1.0
    """
    noise, moved = (getattr(privatizer, name, None) for name in ("mechanism", "transition_mechanism"))
    if not isinstance(noise, OneSlot) or not isinstance(moved, OneSlot):
        return everything_sent()
    # Where nothing varies (one cell, one slot) any share will do.
    outcomes, transitions = (one.noise_variance / (one.variance or 1.0) for one in (noise, moved))
    return Sampling(weight=max(noise.weight, moved.weight), noise_share=np.array([transitions, outcomes, outcomes]))


def _counter_scale(counter: Any) -> float:
    if isinstance(counter, LaplaceTree | KaryTree):
        return counter.scale
    if isinstance(counter, AccumulatedNoise) and counter.pure:
        return counter.scale
    return 0.0
