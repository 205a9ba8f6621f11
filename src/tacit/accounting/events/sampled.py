"""Gaussian noise over a Poisson sample of the users: privacy amplified by chance, under replace-one neighbours.

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
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from tacit.accounting.events.protocol import Event
from tacit.accounting.pld import PLD
from tacit.accounting.privacy_loss import Floats
from tacit.errors import NotSupported, require_real

POINTS = 3_000
"""Points of the curve on each side of zero."""
DEVIATIONS = 12.0
"""How far the points reach; the rest, 2e-33, counts as infinite loss."""
ULP = 2.0**-52


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
    x = np.linspace(0.0, DEVIATIONS + r, POINTS + 1)
    # ℓ(x) = ln[(1-q) + q e^(rx - r²/2)] - ln[(1-q) + q e^(-rx - r²/2)]
    with np.errstate(divide="ignore"):  # q = 1
        stay = np.log1p(-q)
    losses = np.logaddexp(stay, np.log(q) + r * x - r * r / 2) - np.logaddexp(stay, np.log(q) - r * x - r * r / 2)
    p_tail = (1.0 - q) * ndtr(-x) + q * ndtr(r - x)
    q_tail = (1.0 - q) * ndtr(-x) + q * ndtr(-r - x)
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
