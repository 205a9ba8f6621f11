"""The exact log-likelihood ratio of what is released under two shifts: no distinguisher is better (Neyman-Pearson).

`log_ratio(noise, values, shift)` is ln p(v − shift)/p(v) for centred noise with density or mass p: how much more the
value v looks like a counter that was moved by `shift`. Independent counters add up.

`stream_score` is the same for every prefix that a continual counter publishes, at once. Their noise is V = B z with
independent draws z (B is read off the counter's own kernel), and one replaced user moves them by a known path. If B is
square, z = B⁻¹ V comes back exactly; otherwise the best linear score is used, which is exact for Gaussian noise:

    score = aᵀ Σ⁻¹ (V − a/2),        a = the moved prefixes, Σ = B Bᵀ Var z
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tacit.checks.exposure import noise_map, own_covariance
from tacit.errors import NotSupported
from tacit.mechanisms.accumulated import AccumulatedNoise
from tacit.mechanisms.binomial import Binomial
from tacit.mechanisms.bounded import Bounded
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.kary_tree import KaryTree
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.tree import LaplaceTree

__all__ = ["StreamScore", "bit_ratio", "log_ratio", "stream_score"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def log_ratio(noise: Any, values: Floats, shift: Floats | float) -> Floats:
    """The log ratio ln p(v − shift) − ln p(v), elementwise; ±∞ where only one of the two can have happened.

    >>> log_ratio(Laplace(scale=2.0, discrete=False), np.array([-1.0, 0.5, 3.0]), 1.0).tolist()
    [-0.5, 0.0, 0.5]
    """
    if isinstance(noise, Laplace):
        # (|v| − |v − s|)/b, on the integers as well
        return np.asarray((np.abs(values) - np.abs(values - shift)) / noise.scale)
    if isinstance(noise, Gaussian):
        # (v² − (v − s)²)/2σ²
        return np.asarray((values - 0.5 * np.asarray(shift)) * shift / noise.sigma**2)
    if isinstance(noise, Binomial):
        k = np.rint(values + noise.mean)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(_log_choice(noise, k - shift) - _log_choice(noise, k), nan=0.0))
    if isinstance(noise, Bounded):
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(_log_weight(noise, values - shift) - _log_weight(noise, values), nan=0.0))
    raise NotSupported(f"no likelihood ratio is known for {type(noise).__name__}")


def bit_ratio(sent: Flags, zero: Flags, one: Flags, keep: float, rise: float) -> Floats:
    """The log ratio of P(sent | bit `one`) to P(sent | bit `zero`); a one is kept with `keep`, a zero sent with `rise`.

    >>> no, yes = np.array([False]), np.array([True])
    >>> round(float(bit_ratio(yes, no, yes, 0.75, 0.25)[0]), 6)      # ln 3
    1.098612
    """
    up = np.where(sent, math.log(keep / rise), math.log((1.0 - keep) / (1.0 - rise)))
    return np.asarray(up * (one.astype(np.float64) - zero.astype(np.float64)))


def _log_choice(noise: Binomial, k: Floats) -> Floats:
    """The log mass of Binomial(N, p) at k, up to a constant; −∞ outside 0..N."""
    inside = (k >= 0) & (k <= noise.bits)
    safe = np.where(inside, k, 0.0)
    odds = math.log(noise.probability) - math.log1p(-noise.probability)
    return np.where(inside, safe * odds - gammaln(safe + 1.0) - gammaln(noise.bits - safe + 1.0), -np.inf)


def _log_weight(noise: Bounded, x: Floats) -> Floats:
    """The log density ∝ exp(−exp(1/(1 − (x/R)²))), up to a constant; −∞ outside (−R, R)."""
    inside = 1.0 - (x / noise.limit) ** 2
    safe = np.where(inside > 0.0, np.maximum(inside, 1.0 / 700.0), 1.0)
    return np.where(inside > 0.0, -np.exp(1.0 / safe), -np.inf)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StreamScore:
    """A distinguisher on prefixes 1..steps of independent counters."""

    draws: Laplace | None
    """The law of one draw where it can be recovered and is not Gaussian; None: the linear score."""
    unmix: Floats
    """[steps, steps]: B⁻¹, or Σ⁻¹ for the linear score."""

    def __call__(self, noise: Floats, moved: Floats) -> Floats:
        """Scores of trials: `noise`[trials, steps, counters] against prefixes that `moved`[steps, counters]."""
        if self.draws is None:
            weights = self.unmix @ moved
            return np.asarray(np.einsum("nkc,kc->n", noise - 0.5 * moved, weights, optimize=True))
        recovered = np.einsum("jk,nkc->njc", self.unmix, noise, optimize=True)
        shift = self.unmix @ moved
        touched = np.abs(shift) > 1e-9
        return np.asarray(log_ratio(self.draws, recovered[:, touched], shift[touched]).sum(axis=1))


def stream_score(counter: Any, steps: int) -> StreamScore:
    """The distinguisher for the first `steps` prefixes of a counter.

    >>> tree = LaplaceTree(steps=8, release_final=False, scale=3.0)
    >>> score = stream_score(tree, 7)
    >>> first = np.ones((7, 1))                      # replacing the first user moves every prefix
    >>> round(float(score(np.zeros((1, 7, 1)), first)[0]), 9), round(float(score(9 * first[np.newaxis], first)[0]), 9)
    (-1.0, 1.0)
    """
    rows = noise_map(counter, steps)
    used = np.abs(rows).max(axis=0, initial=0.0) > 0.0
    rows = rows[:, used]
    square = rows.shape[0] == rows.shape[1] and np.linalg.matrix_rank(rows) == steps
    law = _draws(counter)
    if square and law is not None:
        return StreamScore(draws=law, unmix=np.asarray(np.linalg.inv(rows)))
    return StreamScore(
        draws=None, unmix=np.asarray(np.linalg.pinv(own_covariance(counter, steps), rcond=1e-10, hermitian=True))
    )


def _draws(counter: Any) -> Laplace | None:
    """The law of one fresh draw, where it is Laplace noise."""
    if isinstance(counter, LaplaceTree | KaryTree) or (isinstance(counter, AccumulatedNoise) and counter.pure):
        return Laplace(scale=counter.scale, discrete=bool(getattr(counter, "discrete", False)))
    return None
