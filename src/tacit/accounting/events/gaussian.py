"""Gaussian noise: the exact trade between ε, δ and the distance μ = shift / σ, and its variant on the integers.

Adding N(0, σ²) to a vector whose neighbours are at Euclidean distance Δ₂ is exactly as private as telling N(0, 1) from
N(μ, 1) with μ = Δ₂/σ, and composing shifts adds their squares: μ² = Σ (shift/σ)². The curve

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)

is the same in both directions (Lemma P5 (Gaussian curve)). Everything here is rounded to the private side:
`gaussian_delta` and `gaussian_epsilon` never come out too small, `gaussian_mu` never too large, so
`gaussian_delta(epsilon, gaussian_mu(epsilon, delta))` is at most `delta` in floating point too. For compositions in
which it is not alone, the pair has the loss μ²/2 − μx, cut into cells and split pessimistically as for every
log-concave noise (`gaussian_pld`).

On the integers, P(z) ∝ exp(−z²/(2σ²)) against Q(z) = P(z − s): the loss (s² − 2sz)/(2σ²) is known in closed form and
the masses are those of the integers, so the only approximation is the cut at 14σ, which counts as infinite loss. The
curve is close to that of the continuous Gaussian but not below it (0.1 % above in ε at the reference instance,
σ = 4.2), and a sum of discrete Gaussians is not one: deployment noise gets its own certificate from here.

References: B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8;
C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.

Over a Poisson sample of the users (`SampledGaussianEvent`) privacy is amplified, under replace-one neighbours.
Each user takes part with probability q, by an independent secret coin, and adds a vector of norm at most C to a sum
with noise N(0, σ² I). Replacing a user whose vector is v by one whose vector is v' changes, given everybody else,

    P = (1-q) N(0) + q N(v)    into    Q = (1-q) N(0) + q N(v').

The worst case is v = -v' = C in one dimension, at every ε (Lemma D4 (Poisson sample)), because

1. turning helps: reflect v' at the hyperplane through 0 that takes it to the far side of v. N(0) does not notice, and
   ∫ [P - αQ]₊ does not decrease, since a ↦ [a]₊ is convex: of the two ways to pair the larger and the smaller density
   of v at x and its mirror image with those of v', the opposite one gives the larger sum. So v' = -|v'| v/|v|;
2. then everything happens on a line, P/Q increases along it, the best event is a half-line, and its probability grows
   with |v| under P and falls with |v'| under Q.

Here ℓ(x) = ln P/Q, δ(ℓ(t)) = P[x ≥ t] - e^ℓ(t) Q[x ≥ t], and by symmetry both directions have the same curve. Its
points are joined by straight lines in e^ε, which only adds privacy loss; the result composes like every other event.

Without sampling (q = 1) this is the Gaussian mechanism at distance 2C. Nothing here may be used unless every user
really is drawn by a coin of their own: shuffling or batches of a fixed size are not Poisson sampling.

References: B. Balle, G. Barthe and M. Gaboardi (2018); V. Doroshenko et al. (2022) for joining the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy

from tacit.accounting.events.protocol import Event, require_whole, rounded_up, times
from tacit.accounting.pld import PLD, shifted_pld
from tacit.accounting.privacy_loss import Floats
from tacit.errors import NotSupported, require_real

ULP = 2.0**-52
TINY = 5e-324
ROOT_HALF = math.sqrt(0.5)
DEVIATIONS = 14.0  # the rest, 8e-45, counts as infinite loss
CELLS_PER_DEVIATION, MARGIN = 200, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianEvent(Event):
    """Gaussian noise of this parameter sigma (continuous, or discrete on the integers) over one shift."""

    NAME: ClassVar[str] = "gaussian"

    sigma: float
    shift: float
    discrete: bool = False

    def __post_init__(self) -> None:
        require_real("sigma", self.sigma, low=0.0, open_low=True)
        require_real("shift", self.shift, low=0.0)

    def pld(self) -> PLD:
        """The continuous pair at distance μ, or that of the integers.

        >>> round(GaussianEvent(sigma=4.2247, shift=1.0, discrete=True).pld().epsilon(1e-6), 3)
        1.001
        """
        if self.shift == 0.0:
            return PLD.from_guarantee(0.0, 0.0)
        if self.discrete:
            return _discrete(self.sigma, require_whole(self.shift))
        return gaussian_pld(rounded_up(Fraction(self.shift) / Fraction(self.sigma)))

    def pure(self) -> float:
        """No pure guarantee: the loss is unbounded."""
        return math.inf if self.shift else 0.0

    def mu_squared(self) -> Fraction | None:
        """(shift/σ)² for continuous noise; on the integers the curve is not quite that."""
        return None if self.discrete else self.concentrated()

    def concentrated(self) -> Fraction:
        """(shift/σ)², on the integers, too: Lemma P18 (Rényi forms)."""
        return (Fraction(self.shift) / Fraction(self.sigma)) ** 2

    def scaled(self, factor: float) -> GaussianEvent:
        """A larger shift; a whole one on the integers."""
        shift = times(self.shift, factor)
        return replace(self, shift=float(require_whole(shift)) if self.discrete else shift)

    def noisier(self, factor: float) -> GaussianEvent:
        """A larger sigma."""
        return replace(self, sigma=self.sigma * factor)

    def signal(self) -> float:
        """(shift/σ)²."""
        return self.shift**2 / self.sigma**2


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The δ at this ε of the pair N(0, 1), N(mu, 1), rounded up.

    >>> f"{gaussian_delta(1.0, 0.2367):.3e}"
    '9.996e-07'
    """
    require_real("epsilon", epsilon, low=0.0)
    require_real("mu", mu, low=0.0)
    if mu == 0.0:
        return 0.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > 39.0:  # φ(39) is below the least positive float
        return TINY
    # φ(far) e^ε = φ(near), hence with the Mills ratio M(x) = Φ(−x)/φ(x):  δ = Φ(−near) − φ(near) M(far)
    # and, where near > 0 and both terms are small,                         δ = φ(near) [M(near) − M(far)].
    density = math.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    second = density * _mills(far)
    first = density * _mills(near) if near > 0.0 else 0.5 * math.erfc(near * ROOT_HALF)
    # Every operation is right to a few units in the last place, and `near` and `far` to a few units of `far`;
    # the exponent magnifies that by |near|, and |M'(x)| ≤ 1/(1 + x²) for x ≥ 0.
    slope = density * far / (1.0 + max(near, 0.0) * near)
    error = ULP * ((8.0 + 4.0 * abs(near) * far) * abs(first - second) + 8.0 * first + 4.0 * slope)
    return min(1.0, max(0.0, first - second) + error + TINY)


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The least ε at this δ of the pair N(0, 1), N(mu, 1), rounded up; infinite when δ = 0 and mu > 0.

    >>> f"{gaussian_epsilon(1e-6, 0.2367):.4f}"
    '1.0000'
    """
    require_real("delta", delta, low=0.0, high=1.0)
    require_real("mu", mu, low=0.0)
    if mu == 0.0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0.0:
        return math.inf
    high = mu
    while gaussian_delta(high, mu) > delta:
        high *= 2.0
    return _boundary(0.0, high, lambda epsilon: gaussian_delta(epsilon, mu) > delta)[1]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ that is (epsilon, delta)-private, rounded down: calibrate σ = Δ₂ / gaussian_mu(epsilon, delta).

    >>> f"{gaussian_mu(1.0, 1e-6):.5f}"
    '0.23670'
    >>> gaussian_delta(1.0, gaussian_mu(1.0, 1e-6)) <= 1e-6
    True
    """
    require_real("epsilon", epsilon, low=0.0)
    require_real("delta", delta, low=0.0, high=1.0)
    return _largest_mu(float(epsilon), float(delta))


@lru_cache(maxsize=1024)
def _largest_mu(epsilon: float, delta: float) -> float:
    if delta == 0.0:
        return 0.0
    high = 1.0
    while gaussian_delta(epsilon, high) <= delta and high < 1e300:
        high *= 2.0
    return _boundary(0.0, high, lambda mu: gaussian_delta(epsilon, mu) <= delta)[0]


def classical_gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """The textbook σ = Δ₂ √(2 ln(1.25/δ)) / ε that [he2025policy] Thm. 1 prints with Δ₂ = 2 R_max G / m.

    It is proved for ε ≤ 1 and false for large ε (first violated near ε = 8.4 at δ = 1e-5): the paper calibration only.

    >>> round(classical_gaussian_sigma(1.0, 1e-5), 3)
    4.845
    """
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)
    require_real("sensitivity", sensitivity, low=0.0)
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


@lru_cache(maxsize=64)
def gaussian_pld(mu: float) -> PLD:
    """The privacy loss of a Gaussian shift of `mu` standard deviations, from above.

    >>> round(gaussian_pld(0.2367).epsilon(1e-6), 4)
    1.0
    """
    require_real("mu", mu, low=0.0, open_low=True)
    cells = math.ceil((2.0 * DEVIATIONS + mu) * CELLS_PER_DEVIATION)
    edges = np.linspace(-DEVIATIONS, DEVIATIONS + mu, cells + 1)
    return shifted_pld(_density, lambda x: mu * (mu / 2.0 - x), edges, 0.5 * math.erfc(DEVIATIONS / math.sqrt(2.0)))


def _discrete(sigma: float, s: int) -> PLD:
    """The privacy loss of one integer counter that moves by s."""
    reach = math.ceil(DEVIATIONS * sigma) + MARGIN
    z = np.arange(-reach, reach + s + 1, dtype=np.float64)
    weight = np.exp(-0.5 * (z / sigma) ** 2)
    masses = weight / weight.sum()  # the window has less than all the mass: rounded up as a whole
    # Outside, the weights fall faster than geometrically with the ratio at the nearer edge.
    outside = 2.0 * float(masses[0]) / math.expm1((reach + 0.5) / sigma**2)
    return PLD.from_symmetric_atoms((s * s - 2.0 * s * z) / (2.0 * sigma**2), masses, outside)


def _mills(x: float) -> float:
    """The Mills ratio Φ(−x)/φ(x) for x ≥ 0."""
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x * ROOT_HALF))


def _boundary(low: float, high: float, below: Callable[[float], bool]) -> tuple[float, float]:
    """Bisect until the floats are neighbours: `below` holds at the first and fails at the second."""
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))


POINTS = 3_000
"""Points of the curve on each side of zero."""
REACH = 12.0
"""How far the points reach; the rest, 2e-33, counts as infinite loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussianEvent(Event):
    """Gaussian noise over the sum of a Poisson sample: each user takes part with probability `rate`, independently.

    `norm` bounds the vector that one user adds when taking part.
    """

    NAME: ClassVar[str] = "sampled-gaussian"

    sigma: float
    norm: float
    rate: float

    def __post_init__(self) -> None:
        require_real("sigma", self.sigma, low=0.0, open_low=True)
        require_real("norm", self.norm, low=0.0)
        require_real("sampling rate", self.rate, low=0.0, high=1.0, open_low=True)

    def pld(self) -> PLD:
        """The envelope of the curve's points.

        >>> found = [SampledGaussianEvent(sigma=8.0, norm=1.0, rate=rate).pld() for rate in (1.0, 0.1)]
        >>> [round(pld.epsilon(1e-6), 3) for pld in found]
        [1.061, 0.092]
        """
        return _curve(self.norm / self.sigma, self.rate) if self.norm else PLD.from_guarantee(0.0, 0.0)

    def pure(self) -> float:
        """No pure guarantee: the loss is unbounded."""
        return math.inf if self.norm else 0.0

    def scaled(self, factor: float) -> SampledGaussianEvent:
        """Refused: the users of a group take part by a coin of their own each, which no longer vector describes."""
        if factor != 1:
            raise NotSupported(
                f"a group of {factor:g} is not described under Poisson sampling: each user has a coin; "
                "claim for one user and use PrivacyClaim.group"
            )
        return self

    def noisier(self, factor: float) -> SampledGaussianEvent:
        """A larger sigma."""
        return replace(self, sigma=self.sigma * factor)

    def signal(self) -> float:
        """The mean moves by 2 q r at most; its variance is that of the noise and of the coin, q (1-q) r²."""
        return (2.0 * self.rate * self.norm) ** 2 / (self.sigma**2 + self.rate * (1.0 - self.rate) * self.norm**2)


def _curve(r: float, q: float) -> PLD:
    """The privacy loss of one release, from above; r is the norm in units of the noise's standard deviation."""
    x = np.linspace(0.0, REACH + r, POINTS + 1)
    # ℓ(x) = ln[(1-q) + q e^(rx - r²/2)] - ln[(1-q) + q e^(-rx - r²/2)]
    with np.errstate(divide="ignore"):  # q = 1
        stay = np.log1p(-q)
    losses = np.logaddexp(stay, np.log(q) + r * x - r * r / 2) - np.logaddexp(stay, np.log(q) - r * x - r * r / 2)
    p_tail = (1.0 - q) * scipy.special.ndtr(-x) + q * scipy.special.ndtr(r - x)
    q_tail = (1.0 - q) * scipy.special.ndtr(-x) + q * scipy.special.ndtr(-r - x)
    curve = p_tail - np.exp(losses) * q_tail
    # The difference of two numbers of the size of P's tail, each right to a few units in the last place times x².
    curve = np.maximum(curve, 0.0) + ULP * (16.0 + 4.0 * x * (x + r)) * p_tail
    # δ(-ε) = 1 - e^-ε + e^-ε δ(ε), the other direction's δ being the same
    mirrored = losses[:0:-1]
    below = -np.expm1(-mirrored) + np.exp(-mirrored) * curve[:0:-1]
    return _joined(np.concatenate([-mirrored, losses]), np.concatenate([below, curve]))


def _joined(losses: Floats, curve: Floats) -> PLD:
    """The distribution whose curve is the convex envelope in e^ε of these points.

    The true curve is convex in e^ε and below every point, hence below their envelope, at the points and between them.
    """
    x = np.exp(losses)
    kept: list[int] = []
    for i in range(len(x)):  # the lower hull, from left to right
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            if (curve[b] - curve[a]) * (x[i] - x[a]) < (curve[i] - curve[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    hull = np.array(kept)
    slopes = np.diff(curve[hull]) / np.diff(x[hull])
    # f(x) = ∞-mass + Σ q_i (x_i - x)₊: Q's mass at x_i is the change of slope there, P's mass is x_i times that.
    masses = x[hull] * np.diff(np.concatenate([[-1.0], slopes, [0.0]]))
    return PLD.from_symmetric_atoms(losses[hull], np.maximum(masses, 0.0), float(curve[hull[-1]]))
