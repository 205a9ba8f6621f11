"""The best known distinguisher on the whole output of a continual counter: every prefix it ever publishes, at once.

The noise of the prefixes is V = B z with independent draws z (B is read off the counter's own kernel). One replaced
user moves the prefixes by a known path. If B is square, z = B⁻¹ V comes back exactly, and the likelihood ratio is that
of independent draws; otherwise the best linear score is used, which is exact for Gaussian noise:

    score = aᵀ Σ⁻¹ (V − a/2),        a = the moved prefixes, Σ = B Bᵀ Var z
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.exposure import noise_map, own_covariance
from tacit.noise.continual.accumulated import AccumulatedNoise
from tacit.noise.continual.kary_tree import KaryTree
from tacit.noise.continual.tree import LaplaceTree
from tacit.noise.laplace import Laplace

Floats = NDArray[np.float64]


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
        return np.asarray(self.draws.log_ratio(recovered[:, touched], shift[touched]).sum(axis=1))


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
