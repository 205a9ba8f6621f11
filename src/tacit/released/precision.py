"""How precise released sums are: the functions c_{k,1..4} of [garcelon2021local] Assumption 3, for any local mechanism.

The noise of one user in one statistic has variance at most v and is sub-gamma with scale c:

    ln E exp(λX) ≤ λ² v / (2 (1 - cλ))      Gaussian: c = 0;  Laplace of scale b: v = 2b², c = b;  |X| ≤ R: c = R/3

so that the sum over n users, each with fresh noise, stays within

    √(2 n v L) + c L        with probability at least 1 - 2 e^{-L},

also when the users' data depend on the noise of earlier users (the noise is a martingale difference): Lemma N1
(sub-gamma radius). For Laplace noise this is √2 tighter than the printed b max{√n, √L} √(8L); for randomized response
and Gaussian noise it repairs printed radii that are too small.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.released.counts import CountShape

REWARD, VISIT, ROW, CELL = 0, 1, 2, 3
"""The statistics of c_{k,1}, c_{k,2}, c_{k,3}, c_{k,4}: R(s,a), N(s,a), Σ_s' N(s,a,s'), N(s,a,s')."""


class SumPrecision(NamedTuple):
    """Variance and sub-gamma scale of one user's noise in each of the four statistics."""

    variance: Floats
    scale: Floats


def exact_sums() -> SumPrecision:
    """No noise at all."""
    return SumPrecision(variance=np.zeros(4), scale=np.zeros(4))


@kernel
def sum_radius(precision: SumPrecision, statistic: int, users: float, log_term: float) -> float:
    """√(2 n v L) + c L: exceeded by the noise of a sum over n users with probability at most 2 e^{-L}.

    >>> laplace = SumPrecision(variance=np.full(4, 2.0), scale=np.ones(4))
    >>> sum_radius(laplace, REWARD, 100.0, 2.0)
    30.284271247461902
    """
    spread = 2.0 * users * float(precision.variance[statistic]) * log_term
    return math.sqrt(spread) + float(precision.scale[statistic]) * log_term


class Sampling(NamedTuple):
    """What it costs that users send a random part of their trajectory instead of all of it."""

    weight: float
    """What is estimated from n counts is as uncertain as if it rested on n/weight users."""
    noise_share: Floats
    """[3]: how much of the stated variance of transitions, visits, rewards is noise; the rest bounds the sampling."""


def everything_sent() -> Sampling:
    """Every user sends all: counts are users, and the stated variance is that of the noise."""
    return Sampling(weight=1.0, noise_share=np.ones(3))


class CountPrecision(NamedTuple):
    """Sub-gamma scales of the noise in one cell of transitions, visits and rewards; variances come with the release.

    A sum of independent noises keeps the largest scale of its terms, so the scale does not grow with time; what grows
    is the variance, which `CountStatistics.variance` states as of now.
    """

    scale: Floats


def exact_counts() -> CountPrecision:
    """Scales of Gaussian noise, or of none at all."""
    return CountPrecision(scale=np.zeros(3))


@kernel
def now_radius(precision: CountPrecision, variance: Floats, family: int, log_term: float) -> float:
    """√(2 v L) + c L: exceeded by the noise of one released number with probability at most 2 e^{-L}.

    >>> now_radius(CountPrecision(scale=np.array([0.0, 1.0, 1.0])), np.array([2.0, 2.0, 8.0]), 2, 4.0)
    12.0
    """
    return math.sqrt(2.0 * float(variance[family]) * log_term) + float(precision.scale[family]) * log_term


def precision_log_term(shape: CountShape, releases: int, failure_prob: float) -> float:
    """The L for which every number of every release is within its radius, but for this probability.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> round(precision_log_term(shape, 20_000, 0.05), 2)
    19.26
    """
    rows = shape.stages * shape.num_states * shape.num_actions
    numbers = rows * shape.num_states + 2 * rows
    return math.log(2.0 * numbers * releases / failure_prob)
