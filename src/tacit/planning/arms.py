"""Tests and intervals for the means of one or two arms, valid for any number of users: Lemma B5 (exact arms).

C_i   where the mean p_i of an arm's bits lies, but for a probability γ/2 each
W     a law above (S₁/n₁ − p₁) − (S₀/n₀ − p₀) + noise, whatever p in C₁ × C₀ is
[m₁ − m₀ − x⁺, m₁ − m₀ + x⁻]     x⁺, x⁻ with P(W > x) ≤ (α − γ)/2 to either side
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from tacit.errors import require, require_real
from tacit.noise.dominating_pmf import DominatingPMF, binomial_above
from tacit.released.arms import ArmNoise, ArmStatistics

Verdict: TypeAlias = Literal["better", "worse", "not shown"]

NUISANCE: Final = 0.05
"""γ/α: the share of the error that the sets C_i may take."""
POINTS: Final = 64
"""Points of a grid per standard deviation of the statistic."""
CELLS: Final = 40
"""Cells of a set C_i per standard deviation of the statistic."""
COARSE: Final = 0.5
"""Sets C_i are rounded outwards to multiples of this times 1/√n, so that they recur and their laws are remembered."""
STEPS_PER_OCTAVE: Final = 4
"""Grids are as fine as a power of two to the 1/4 says, so that they recur, too."""
BISECTIONS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmInterval:
    """The mean of an arm, or the difference of two, with an interval that is wrong with probability at most alpha."""

    estimate: float
    low: float
    high: float
    alpha: float
    p_value: float | None
    """A bound of how often data speak so clearly against no difference where there is none; None for a single arm."""


def verdict_of(interval: ArmInterval) -> Verdict:
    """What an interval of a difference shows; how often each of the two statements is wrong, `wrong_verdict` bounds."""
    if interval.low > 0.0:
        return "better"
    return "worse" if interval.high < 0.0 else "not shown"


def wrong_verdict(alpha: float) -> float:
    """How often 'better' is said at most where it is not true, and as often 'worse': (α + γ)/2; both together α.

    >>> round(wrong_verdict(0.05), 6)
    0.02625
    """
    return (1.0 + NUISANCE) * require_alpha(alpha) / 2.0


def interval_of(released: ArmStatistics, alpha: float, *, null: float | None = None) -> ArmInterval:
    """The interval of the difference of two arms (second minus first), or of the mean of a single one.

    The p-value is for no difference; for a single arm it is for a mean of `null`, if one is given.

    >>> from tacit.released.arms import NoNoise
    >>> found = interval_of(ArmStatistics(sums=(400.0, 500.0), users=(1000, 1000), noise=NoNoise()), 0.05)
    >>> round(found.estimate, 3), 0.05 < found.low < 0.06, 0.14 < found.high < 0.15, found.p_value < 0.003
    (0.1, True, True, True)
    """
    a = require_alpha(alpha)
    require(len(released.users) <= 2, "one arm or two are compared", len(released.users))
    gamma, flip = NUISANCE * a, released.noise.flip
    sets = tuple(
        mean_set(total / users, users, released.noise, gamma / len(released.users))
        for total, users in zip(released.sums, released.users, strict=True)
    )
    up, down = _laws(released.users, sets, released.noise)
    each, kept = (a - gamma) / 2.0, 1.0 - 2.0 * flip
    means = released.means
    estimate = means[0] if len(means) == 1 else means[1] - means[0]
    low, high = estimate - up.quantile(each) / kept, estimate + down.quantile(each) / kept
    # p = γ + 2 min over the sides of P(W ≥ what was seen), if that were the truth
    beyond = estimate - (0.0 if null is None else require_real("null", null, low=0.0, high=1.0))
    side = min(up.tail(kept * beyond), down.tail(-kept * beyond))
    known = null is not None if len(means) == 1 else null is None
    require(known or len(means) == 1, "two arms are tested for no difference; remove null", null)
    bounds = (0.0, 1.0) if len(means) == 1 else (-1.0, 1.0)
    return ArmInterval(
        estimate=estimate,
        low=min(bounds[1], max(bounds[0], low)),
        high=max(bounds[0], min(bounds[1], high)),
        alpha=a,
        p_value=min(1.0, gamma + 2.0 * side) if known else None,
    )


def power_of(users: tuple[int, ...], noise: ArmNoise, alpha: float, means: tuple[float, float]) -> float:
    """A lower bound of the probability of the verdict 'better' where the arms have these means.

    >>> from tacit.released.arms import NoNoise
    >>> 0.80 < power_of((480, 480), NoNoise(), 0.05, (0.5, 0.6)) < 0.87
    True
    """
    a, gamma = require_alpha(alpha), NUISANCE * require_alpha(alpha)
    flip, kept = noise.flip, 1.0 - 2.0 * noise.flip
    truth = [flip + kept * require_real("mean", mean, low=0.0, high=1.0) for mean in means]
    # But for γ, the released means lie where the truth itself would put their sets: so C_i is within these.
    sets = tuple(_widened(p, n, noise, gamma / 2.0, gamma / 2.0) for p, n in zip(truth, users, strict=True))
    threshold = _laws(users, sets, noise)[0].quantile((a - gamma) / 2.0)
    _, down = _laws(users, tuple((p, p) for p in truth), noise)
    return max(0.0, 1.0 - gamma - down.tail(truth[1] - truth[0] - threshold))


def mean_set(mean: float, users: int, noise: ArmNoise, failure_prob: float) -> tuple[float, float]:
    """Where the mean of an arm's (flipped) bits lies but for this probability, rounded outwards.

    Half of the probability is for the noise, by its exact law; half for the bits, by Chernoff's bound
    P(kl(S/n, p) ≥ y, S/n on one side of p) ≤ e^{−ny}.
    """
    radius = noise_radius(noise, users, failure_prob / 2.0)
    y = math.log(4.0 / failure_prob) / users
    low, high = _kl_low(max(0.0, mean - radius), y), _kl_high(min(1.0, mean + radius), y)
    return _outwards(low, high, users, noise.flip)


@lru_cache(maxsize=256)
def noise_radius(noise: ArmNoise, users: int, failure_prob: float) -> float:
    """What the noise in the mean of an arm exceeds with at most this probability, either side."""
    variance = noise.variance()
    if variance == 0.0:
        return 0.0
    laws = noise.laws(1.0 / users, math.sqrt(variance) / users / POINTS)
    return _summed(list(laws)).quantile(failure_prob / 2.0)


def require_alpha(alpha: float) -> float:
    """The probability of a wrong verdict, above 0 and at most 1/2."""
    a = require_real("alpha", alpha, low=0.0, high=0.5, open_low=True)
    require(a >= 1e-9, "alpha must be at least 1e-9: tails are computed with doubles", alpha)
    return a


def _widened(p: float, users: int, noise: ArmNoise, stray: float, failure_prob: float) -> tuple[float, float]:
    """The hull of `mean_set` over all released means that are not stray."""
    radius, y = noise_radius(noise, users, stray / 2.0), math.log(4.0 / stray) / users
    least, most = _kl_below(p, y) - radius, _kl_above(p, y) + radius
    low, _ = mean_set(least, users, noise, failure_prob)
    _, high = mean_set(most, users, noise, failure_prob)
    return low, high


@lru_cache(maxsize=4096)
def _laws(
    users: tuple[int, ...], sets: tuple[tuple[float, float], ...], noise: ArmNoise
) -> tuple[DominatingPMF, DominatingPMF]:
    """The laws above the statistic minus its mean, and above the opposite, for all means in the sets."""
    spread = sum(
        _most_variance(low, high) / n + noise.variance() / n**2 for (low, high), n in zip(sets, users, strict=True)
    )
    # A mean of exactly 0 or 1 has no variance: the grid is then as fine as one user.
    std = max(math.sqrt(spread), 1.0 / max(users) / 4.0)
    std = 2.0 ** (math.floor(STEPS_PER_OCTAVE * math.log2(std)) / STEPS_PER_OCTAVE)
    step, width = std / POINTS, std / CELLS
    added = [law for n in users for law in noise.laws(1.0 / n, step)]
    mine = list(zip(users, sets, strict=True))
    up = [binomial_above(n, low, high, step, width) for n, (low, high) in mine[-1:]]
    up += [binomial_above(n, 1.0 - high, 1.0 - low, step, width) for n, (low, high) in mine[:-1]]
    down = [binomial_above(n, 1.0 - high, 1.0 - low, step, width) for n, (low, high) in mine[-1:]]
    down += [binomial_above(n, low, high, step, width) for n, (low, high) in mine[:-1]]
    return _summed([*up, *added]), _summed([*down, *added])


def _summed(laws: list[DominatingPMF]) -> DominatingPMF:
    total = laws[0]
    for law in laws[1:]:
        total = total + law
    return total


def _most_variance(low: float, high: float) -> float:
    p = min(max(0.5, low), high)
    return p * (1.0 - p)


def _outwards(low: float, high: float, users: int, flip: float) -> tuple[float, float]:
    unit = COARSE / math.sqrt(users)
    least, most = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    # The mean of a flipped bit lies in [f, 1 − f].
    return min(max(flip, least), 1.0 - flip), max(min(1.0 - flip, most), flip)


def _kl(q: float, p: float) -> float:
    """The divergence of two coins."""
    first = 0.0 if q <= 0.0 else (math.inf if p <= 0.0 else q * math.log(q / p))
    second = 0.0 if q >= 1.0 else (math.inf if p >= 1.0 else (1.0 - q) * math.log((1.0 - q) / (1.0 - p)))
    return first + second


def _kl_high(q: float, y: float) -> float:
    """The largest p with kl(q, p) ≤ y, rounded up."""
    low, high = q, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _kl(q, middle) <= y else (low, middle)
    return high


def _kl_low(q: float, y: float) -> float:
    """The least p with kl(q, p) ≤ y, rounded down."""
    return 1.0 - _kl_high(1.0 - q, y)


def _kl_above(p: float, y: float) -> float:
    """The largest q with kl(q, p) ≤ y, rounded up."""
    low, high = p, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _kl(middle, p) <= y else (low, middle)
    return high


def _kl_below(p: float, y: float) -> float:
    """The least q with kl(q, p) ≤ y, rounded down."""
    return 1.0 - _kl_above(1.0 - p, y)
