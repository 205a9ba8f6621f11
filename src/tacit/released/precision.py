"""How precise released sums are: the functions c_{k,1..4} of [garcelon2021local] Assumption 3, for any local mechanism.

The noise of one user in one statistic has variance at most v and is sub-gamma with scale c:

    ln E exp(λX) ≤ λ² v / (2 (1 - cλ))      Gaussian: c = 0;  Laplace of scale b: v = 2b², c = b;  |X| ≤ R: c = R/3

so that the sum over n users, each with fresh noise, stays within

    √(2 n v L) + c L        with probability at least 1 - 2 e^{-L},

also when the users' data depend on the noise of earlier users (the noise is a martingale difference): Lemma N1
(sub-gamma radius). For Laplace noise this is √2 tighter than the printed b max{√n, √L} √(8L); for randomized response
and Gaussian noise it repairs printed radii that are too small.

The radii c_{k,1..4} of [garcelon2021local] as printed: Props. 8, 11, 13 and 15, in one form.

    c_{k,i} = max{ least, a_i max{√((k - past) t_i), linear · L_i} √L_i },   L_i = ln(n_i / δ_k),   δ_k = 3δ/(2π²k²)

    Prop. 8   Laplace, scale b          a = (b√8, b√8, b√8, b√(8/S))     t = (1, 1, S, S)  past 0  linear 1  least 0
    Prop. 11  Gaussian, deviation σ     a = σ                            t = (1, 1, S, 1)  past 1  linear 0  least 1
    Prop. 13  randomized response, ε₀   a = g√(H/2), S times that in c₃  t = 1             past 1  linear 0  least 1
    Prop. 15  bounded by R, R₂          a = √2 (R, R, R₂, R₂)            t = (1, 1, S, 1)  past 1  linear 0  least 0

with g = (2e^ε₀ - 1)/(e^ε₀ - 1); n = 6SA, and 6S²A in c₃ and c₄ of Props. 8 and 15; 4SA, and 4S²A in c₄, of Prop. 13.
They are what is printed and not what is proved: several do not cover (`tacit.released.precision` has radii that do).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.errors import NotSupported
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


class PrintedRadii(NamedTuple):
    """The printed radii of one mechanism; everything but k and δ."""

    amount: Floats
    """[4]: a_i."""
    terms: Floats
    """[4]: t_i."""
    log_numbers: Floats
    """[4]: ln n_i."""
    past: float
    """Whether the sum is said to have k terms (0) or k - 1 (1)."""
    linear: float
    """Whether L_i itself bounds the root from below (Prop. 8)."""
    least: float
    """No radius is smaller."""


@kernel
def printed_radius(radii: PrintedRadii, statistic: int, episode: float, log_failure: float) -> float:
    """c_{k,i} before episode k, where `log_failure` is ln(1/δ_k).

    >>> import numpy as np
    >>> four = np.ones(4)
    >>> gaussian = PrintedRadii(3.0 * four, four, np.log(24.0) * four, past=1.0, linear=0.0, least=1.0)
    >>> printed_radius(gaussian, 0, 1.0, 2.0), round(printed_radius(gaussian, 0, 101.0, 2.0), 3)
    (1.0, 68.266)
    """
    L = float(radii.log_numbers[statistic]) + log_failure
    root = math.sqrt((episode - radii.past) * float(radii.terms[statistic]))
    return max(radii.least, float(radii.amount[statistic]) * max(root, radii.linear * L) * math.sqrt(L))


def printed_radii(privatizer: Any) -> PrintedRadii:
    """The printed c_{k,1..4} of the noise of this privatizer; whatever has none is refused."""
    as_printed = getattr(privatizer, "encoding", None) == "families" and privatizer.calibration == "paper"
    if not as_printed or privatizer.claim.trust != "local":
        raise NotSupported(
            "constants 'printed' are printed for the printed noise of local trust only; use trust 'local' with "
            "calibration 'paper', or constants 'theory'"
        )
    rule = _RULES.get(privatizer.outcome.NAME)
    if rule is None:
        raise NotSupported(f"no paper prints radii for {privatizer.outcome.NAME} noise; use constants 'theory'")
    return rule(privatizer.outcome, privatizer.transition, privatizer.shape)


def _laplace(outcome: Any, moved: Any, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = b max{√k, ln(6SA/δ)} √(8 ln(6SA/δ)),  c₃ = b max{√(kS), ln(6S²A/δ)} √(8 ln(6S²A/δ)) = √S c₄
    S, rows = shape.num_states, _rows(shape)
    own, other = outcome.scale * math.sqrt(8.0), moved.scale * math.sqrt(8.0)
    return PrintedRadii(
        amount=np.array([own, own, other, other / math.sqrt(S)]),
        terms=np.array([1.0, 1.0, S, S]),
        log_numbers=np.log([6.0 * rows, 6.0 * rows, 6.0 * S * rows, 6.0 * S * rows]),
        past=0.0,
        linear=1.0,
        least=0.0,
    )


def _gaussian(outcome: Any, moved: Any, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = c₄ = max{σ √((k-1) ln(6SA/δ)), 1},  c₃ = max{σ √((k-1) S ln(6SA/δ)), 1}
    S = shape.num_states
    return PrintedRadii(
        amount=np.array([outcome.sigma, outcome.sigma, moved.sigma, moved.sigma]),
        terms=np.array([1.0, 1.0, S, 1.0]),
        log_numbers=np.full(4, math.log(6.0 * _rows(shape))),
        past=1.0,
        linear=0.0,
        least=1.0,
    )


def _response(outcome: Any, moved: Any, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = max{1, g √((k-1)H/2 ln(4SA/δ))}, c₃ with S g, c₄ with ln(4S²A/δ);  g = (2e^ε₀ - 1)/(e^ε₀ - 1)
    S, rows, steps = shape.num_states, _rows(shape), 1 if shape.staged else shape.horizon
    # (2e^x - 1)/(e^x - 1) = 1 + 1/(1 - e^-x), for every x
    own, other = ((1.0 - 1.0 / math.expm1(-bit.epsilon)) * math.sqrt(steps / 2.0) for bit in (outcome, moved))
    return PrintedRadii(
        amount=np.array([own, own, S * other, other]),
        terms=np.ones(4),
        log_numbers=np.log([4.0 * rows, 4.0 * rows, 4.0 * rows, 4.0 * S * rows]),
        past=1.0,
        linear=0.0,
        least=1.0,
    )


def _bounded(outcome: Any, moved: Any, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = R √(2(k-1) ln(6SA/δ)),  c₃ = R₂ √(2S(k-1) ln(6S²A/δ)),  c₄ = R₂ √(2(k-1) ln(6S²A/δ))
    S, rows = shape.num_states, _rows(shape)
    own, other = outcome.limit * math.sqrt(2.0), moved.limit * math.sqrt(2.0)
    return PrintedRadii(
        amount=np.array([own, own, other, other]),
        terms=np.array([1.0, 1.0, S, 1.0]),
        log_numbers=np.log([6.0 * rows, 6.0 * rows, 6.0 * S * rows, 6.0 * S * rows]),
        past=1.0,
        linear=0.0,
        least=0.0,
    )


def _rows(shape: CountShape) -> float:
    """SA of the union bounds; SAH where steps are kept apart (footnote 3)."""
    return float(shape.stages * shape.num_states * shape.num_actions)


_RULES: Final[Mapping[str, Callable[[Any, Any, CountShape], PrintedRadii]]] = {
    "laplace": _laplace,
    "gaussian": _gaussian,
    "rr": _response,
    "bounded": _bounded,
}
