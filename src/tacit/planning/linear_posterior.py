"""Reading released moments: the posterior of linear rewards, with the noise of the release as uncertainty.

The model is r − 1/2 = ⟨x, θ⟩ + noise of variance at most 1/4, θ ~ N(0, I/(4d)) in every slot. The sums of batches are

    Ĝ = Σ x xᵀ + E,    v̂ = Σ x (r − 1/2) + e

with E and e of known variance: on the diagonal of E twice that beside it, so that the law of E does not depend on the
basis. Eigenvalues of Ĝ below the noise are no information, so they are floored softly, and no ridge is chosen.

Where |θ| is well above 1/2, the posterior is too narrow and drawn towards zero. It serves decisions; what people are
told are the intervals of `linear_intervals`, which no prior law of θ enters.

No step looks at people: everything here is post-processing of what was released.

Regions that contain the parameters of linear rewards, whatever the noise of the release: the constants 'valid'.

In every slot r − 1/2 = ⟨x, θ⟩ + η with |θ| ≤ 1/2 and |r − 1/2| ≤ 1/2. Of the sums over all batches so far are known

    Ĝ = Σ x xᵀ + E,   v̂ = Σ x (r − 1/2) + e      E, e sub-Gaussian with the stated variances

Whole numbers: Lemma N3 (discrete twins). With ‖E‖ ≤ ρ, λ = ρ + λ₀ and V = Ĝ + λI, both λ₀I + Σ x xᵀ and
M = E + λI are at most V, and M at most (2ρ + λ₀) I. So

    V(θ̂ − θ) = Σ x η + e − Mθ    for θ̂ = V⁻¹ v̂
    ‖θ̂ − θ‖_V ≤ √(ln det(V/λ₀) + 2 ln(1/p))/2 + |e|/√min eig V + √(2ρ + λ₀)/2 + b

with probability 1 − 3p. The first term is the self-normalised bound of Abbasi-Yadkori, Pál and Szepesvári (2011), for
rewards in an interval of length 1, also after they were rounded by coins. ρ is a bound over a net of directions, which
needs no more than sub-Gaussian numbers: uᵀEu has the variance of a diagonal entry for every unit vector u. b is
√n √d/(2N): what rows lose that are whole multiples of 1/N.

p is the failure probability, over the slots and the batches of the whole run.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.released.moments import MomentStatistics

INFLATION: Final = 0.2
"""Deviations of a posterior by which Thompson sampling draws: less than 1, because the floor is cautious already."""
DRAWS: Final = 32
"""Parameters drawn for one batch; every device takes one of them."""


class LinearPosterior(NamedTuple):
    """What is known of θ in every slot: a Gaussian law."""

    mean: Floats
    """[M,d]"""
    covariance: Floats
    """[M,d,d]"""


def soft_floor(eigenvalues: Floats, noise: Floats) -> Floats:
    """Positive eigenvalues near those of a noisy matrix: (w + √(w² + 4f²))/2, which is about w far above the noise f.

    >>> soft_floor(np.array([100.0, 0.0, -100.0]), np.array(3.0)).round(2).tolist()
    [100.09, 3.0, 0.09]
    """
    # The same by the conjugate where w < 0: no digits are lost.
    root = np.sqrt(eigenvalues * eigenvalues + 4.0 * noise * noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(root > eigenvalues, 2.0 * noise * noise / (root - eigenvalues), 0.0)
    return np.where(eigenvalues >= 0.0, (eigenvalues + root) / 2.0, below)


def linear_posterior(
    gram: Floats, rewards: Floats, gram_variance: Floats, reward_variance: Floats, *, prior: float | None = None
) -> LinearPosterior:
    """The posterior of θ, from the sums of all batches so far and the variance of the noise in these sums.

    Parameters
    ----------
    gram, rewards
        [M,d,d] and [M,d]: Σ x xᵀ and Σ x (r − 1/2) of every slot, with noise.
    gram_variance, reward_variance
        [M]: of the noise on the diagonal of the first, and in an entry of the second; 0 without noise.
    prior
        The precision of an entry of θ before there are people; 4d by default.

    Examples
    --------
    >>> found = linear_posterior(np.array([[[800.0]]]), np.array([[200.0]]), np.array([100.0]), np.array([100.0]))
    >>> found.mean.round(3).tolist(), np.sqrt(found.covariance).round(3).tolist()
    ([[0.25]], [[[0.022]]])
    """
    d = rewards.shape[1]
    before = 4.0 * d if prior is None else prior
    w, U = np.linalg.eigh((gram + np.swapaxes(gram, 1, 2)) / 2.0)
    # f = sd(E) √d / 2
    w = soft_floor(w, np.sqrt(gram_variance * d)[:, None] / 2.0)
    # R = w/4 + var e + var E/16: rewards, and the noise of both sums
    R = w / 4.0 + (reward_variance + gram_variance / 16.0)[:, None]
    # P = w²/R + 4d;  mean = U (w/(R P)) Uᵀ v;  cov = U P⁻¹ Uᵀ
    ratio = np.divide(w, R, out=np.zeros_like(w), where=R > 0.0)
    P = w * ratio + before
    mean = np.einsum("mij,mj->mi", U, ratio / P * np.einsum("mji,mj->mi", U, rewards))
    covariance = np.einsum("mij,mj,mkj->mik", U, 1.0 / P, U)
    return LinearPosterior(mean, covariance)


def linear_intervals(
    gram: Floats, rewards: Floats, gram_variance: Floats, reward_variance: Floats, *, span: Floats, z: float
) -> Floats:
    """Intervals [M,d,2] of θ, from sums as `linear_posterior` takes them; NaN where noise hides a coefficient.

    They follow from Ĝ⁻¹ v̂, with the noise of both sums and z deviations to each side, and reach to the posterior's
    mean. A direction u is told apart from noise if uᵀĜu is more than 2 sd(E) √d. Coefficients that need another one
    have no interval.

    Parameters
    ----------
    gram, rewards, gram_variance, reward_variance
        As in `linear_posterior`.
    span
        [d,r]: an orthonormal basis of the rows that there can be (`Features.span`). Of all θ that say the same about
        such rows, the shortest one is meant.
    z
        1.96 for 95 %.

    Examples
    --------
    >>> sums = np.diag([800.0, 20.0])[None], np.array([[200.0, 4.0]]), np.array([100.0]), np.array([100.0])
    >>> linear_intervals(*sums, span=np.eye(2), z=1.96).round(3).tolist()
    [[[0.207, 0.293], [nan, nan]]]
    """
    r = span.shape[1]
    w, U = np.linalg.eigh(span.T @ ((gram + np.swapaxes(gram, 1, 2)) / 2.0) @ span)
    B, E = span @ U, gram_variance[:, None]
    told = w > np.maximum(2.0 * np.sqrt(E * r), 1e-9 * np.abs(w).max(axis=1, keepdims=True))
    w = np.where(told, w, np.inf)
    t = np.einsum("mji,mj->mi", B, rewards) / w
    # var t = (w/4 + var e + var E (|t|² + t²)/2)/w², wider by 1/(1 − z² var E/w²): w has noise, too (Fieller)
    noise = reward_variance[:, None] + E * ((t * t).sum(axis=1, keepdims=True) + t * t) / 2.0
    variance = (1.0 / (4.0 * w) + noise / (w * w)) / (1.0 - z * z * E / (w * w)) ** 2
    mean, drawn = np.einsum("mij,mj->mi", B, t), linear_posterior(gram, rewards, gram_variance, reward_variance).mean
    # What noise hides of a coefficient is taken to be at most as long as 1.
    hidden = np.einsum("mij,mj->mi", B * B, ~told)
    seen = np.einsum("mij,mj->mi", B * B, variance)
    reach = np.where(hidden <= seen, z * np.sqrt(seen + hidden), np.nan)
    return np.stack([np.minimum(mean - reach, drawn), np.maximum(mean + reach, drawn)], axis=2)


def thompson_draws(
    posterior: LinearPosterior, rng: np.random.Generator, *, draws: int = DRAWS, inflation: float = INFLATION
) -> Floats:
    """[draws,M,d]: independent parameters from the posterior, its deviations times `inflation`.

    >>> posterior = LinearPosterior(np.zeros((1, 2)), np.eye(2)[None])
    >>> thompson_draws(posterior, np.random.default_rng(0), draws=3).shape
    (3, 1, 2)
    """
    M, d = posterior.mean.shape
    # Cholesky factors are unique, eigenvectors are not: other machines draw the same.
    L = np.linalg.cholesky(posterior.covariance)
    z = rng.standard_normal((draws, M, d))
    return np.asarray(posterior.mean + inflation * np.einsum("mij,kmj->kmi", L, z))


class LinearRegion(NamedTuple):
    """θ lies within `radius` of `mean`, in the norm of V, in every slot."""

    mean: Floats
    """[M,d]"""
    inverse: Floats
    """[M,d,d]: V⁻¹."""
    radius: Floats
    """[M]"""

    @property
    def widths(self) -> Floats:
        """F [M,d,d]: ‖Fᵀx‖ is how far ⟨x, θ⟩ can be from ⟨x, mean⟩."""
        return np.asarray(self.radius[:, None, None] * np.linalg.cholesky(self.inverse))


def operator_bound(std: float, d: int, failure: float) -> float:
    """ρ: ‖E‖ is at most that but for a probability, where uᵀEu is sub-Gaussian with this deviation for all unit u.

    >>> operator_bound(1.0, 5, 1e-3) < 8.5
    True
    """
    # ‖E‖ ≤ max over an a-net of |uᵀEu| / (1 − 2a); such a net has at most (1 + 2/a)^d directions
    shares = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25)
    counts = [2.0 * (d * math.log1p(2.0 / a) + math.log(2.0 / failure)) for a in shares]
    return std * min(math.sqrt(count) / (1.0 - 2.0 * a) for a, count in zip(shares, counts, strict=True))


def length_bound(std: float, d: int, failure: float) -> float:
    """|e| is at most that but for a probability: Hsu, Kakade and Zhang (2012), for sub-Gaussian vectors."""
    t = math.log(1.0 / failure)
    return std * math.sqrt(d + 2.0 * math.sqrt(d * t) + 2.0 * t)


def linear_region(moments: MomentStatistics, *, grid: int, failure: float, stages: int) -> LinearRegion:
    """The region after so many releases of a run.

    Parameters
    ----------
    moments
        Sums over all batches so far, with the variance of their noise.
    grid
        N: rows are whole multiples of 1/N.
    failure
        The probability that the region of any slot misses its parameter after any of the releases of a run.
    stages
        How many releases the run has.

    Examples
    --------
    >>> from tacit.released.moments import MomentShape, empty_moments
    >>> found = linear_region(empty_moments(MomentShape(features=2, actions=1, shared=False)),
    ...                       grid=1024, failure=0.05, stages=1)
    >>> bool(found.radius[0] > 0.5)
    True
    """
    M, d = moments.rewards.shape
    p = failure / (3.0 * M * stages)
    lost = math.sqrt(float(moments.users[0]) * d) / (2.0 * grid)
    mean, inverse, radius = np.zeros((M, d)), np.zeros((M, d, d)), np.zeros(M)
    for k in range(M):
        rho = operator_bound(math.sqrt(moments.gram_variance[k]), d, p)
        least = max(1.0, rho)
        V = (moments.gram[k] + moments.gram[k].T) / 2.0 + (rho + least) * np.eye(d)
        w, U = np.linalg.eigh(V)
        # V is at least λ₀ where the bound on E holds; where it does not, nothing is claimed
        w = np.maximum(w, least)
        inverse[k] = (U / w) @ U.T
        mean[k] = inverse[k] @ moments.rewards[k]
        seen = 0.5 * math.sqrt(float(np.log(w / least).sum()) + 2.0 * math.log(1.0 / p))
        noise = length_bound(math.sqrt(moments.reward_variance[k]), d, p) / math.sqrt(float(w[0]))
        radius[k] = seen + noise + 0.5 * math.sqrt(2.0 * rho + least) + lost
    return LinearRegion(mean, inverse, radius)
