"""BUCB that pools the steps until what was released refutes it: for worlds that may or may not depend on the step.

If transitions and rewards do not depend on the step, rows that sum over the steps have a fraction of the noise. Who
does not know it can ask the counts that are released anyway, whose noise has a known covariance: post-processing, no
privacy is spent. With x_h(c) the sum over batches of a cell c of row (s,a) at step h, n_h the row's total, v_h the
variance of the noise in one cell, m the cells of a row and p̄ = Σ_h x_h / Σ_h n_h, the statistic is

    T = Σ_{s,a} Σ_c Σ_h (x_h(c) - n_h p̄(c))² / ( v_h (1 - 2p̄ + m p̄²) + n_h p̄(1-p̄) + ¼ )

over the cells of transitions and of rewards (one, zero). If the world does not depend on the step every term is at most
1 on average: x_h and n_h carry the noise of their cells, x_h varies binomially given n_h, and p̄ is fitted. So steps are
pooled while T ≤ M + REFUSED √(2 M), M the number of terms less those that p̄ takes (one per cell), and apart
afterwards; the question is asked anew before every batch. A heuristic as the practical rule is: terms of one row
depend on each other. Small differences that the noise hides are pooled, too: then the pooled model is the better one.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats
from tacit.learners.bucb import BUCB, BUCBBelief

__all__ = ["TestedBUCB", "excess"]

REFUSED: Final = 4.0
"""How many standard deviations above its mean the statistic must be."""


class TestedBUCB(BUCB):
    """Pooled rows while the released counts do not refute that steps are alike, rows of their own afterwards."""

    __test__ = False  # no test case, whatever its name

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "pooled": False})
        self._together = BUCB(**{**given, "pooled": True})

    def model(self, belief: BUCBBelief) -> tuple[Any, Floats]:
        """The model in which everything is planned: pooled, or with the steps apart."""
        B = len(belief.users)
        noise = float(self.covariance[:B, :B].sum())
        if excess(belief, noise, self._kept()) <= REFUSED:
            return self._together.model(belief)
        return super().model(belief)


def excess(belief: BUCBBelief, noise: float, kept: tuple[Floats, Floats]) -> float:
    """How many standard deviations T is above its mean under the hypothesis that steps are alike.

    `noise` is the variance of one released counter summed over the batches, `kept` what the projection leaves of it.
    """
    moved, visits = belief.transitions.sum(axis=0)[:-1], belief.visits.sum(axis=0)
    ones = belief.rewards.sum(axis=0)
    outcomes = np.stack([ones, visits - ones], axis=-1)
    found = [_terms(outcomes, noise * kept[1])]
    if len(moved) > 1:
        found.append(_terms(moved, noise * kept[0][:-1]))
    total, expected = (sum(parts) for parts in zip(*found, strict=True))
    return (total - expected) / math.sqrt(2.0 * expected) if expected > 0.0 else 0.0


def _terms(cells: Floats, noise: Floats) -> tuple[float, float]:
    """T over these cells [steps, S, A, m] with noise of variance [steps], and its mean if steps are alike."""
    steps, m = len(cells), cells.shape[-1]
    if steps < 2:
        return 0.0, 0.0
    n = cells.sum(axis=-1, keepdims=True)
    total = n.sum(axis=0)
    p = np.clip(cells.sum(axis=0) / np.where(total > 0.5, total, np.inf), 0.0, 1.0)
    v = noise.reshape(-1, 1, 1, 1)
    variance = v * (1.0 - 2.0 * p + m * p**2) + np.maximum(n, 0.0) * p * (1.0 - p) + 0.25
    return float(((cells - n * p) ** 2 / variance).sum()), float(cells.size * (steps - 1) / steps)
