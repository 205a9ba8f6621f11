"""BUCB that pools the steps until what was released refutes it: for worlds that may or may not depend on the step.

If transitions and rewards do not depend on the step, rows that sum over the steps have a fraction of the noise. Who
does not know it can ask the counts that are released anyway, whose noise has a known covariance: post-processing, no
privacy is spent. With x_h(c) the sum over batches of a cell c of row (s,a) at step h, n_h the row's total, f_h its
share n_h / Σ_k n_k, p̄ = Σ_h x_h / Σ_h n_h, v_h the variance of the noise in one cell and m the cells of a row, it is

    T = Σ_{s,a} Σ_c Σ_h (x_h - n_h p̄)² / (u_h (1 - 2 f_h) + f_h² Σ_k u_k + ¼)
    u_h = v_h (1 - 2p̄ + m p̄²) + n_h p̄(1-p̄)

over the cells of transitions and of rewards (one, zero) in rows whose total is beyond three deviations of its noise. If
the world does not depend on the step every term is at most 1 on average: u_h is the variance of x_h - n_h p, and the
rest is what fitting p takes and adds. Steps are pooled while T ≤ M + REFUSED √V, M the number of terms and V = 2 Σ
m/(m-1) · steps/(steps-1) over them, for residuals add up to zero over the cells of a row and nearly so over its steps;
they are kept apart otherwise. Pooled steps weigh what they saw. The question is asked anew before every batch. A
heuristic, as the practical rule is. Differences that the noise hides are pooled, too: then the pooled model is better.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats
from tacit.learners.bucb import BUCB, BUCBBelief

REFUSED: Final = 4.0
"""How many standard deviations above its mean the statistic must be."""
KNOWN: Final = 3.0
"""Rows count whose total is so many standard deviations of its noise above nothing."""


class TestedBUCB(BUCB):
    """Pooled rows while the released counts do not refute that steps are alike, rows of their own afterwards."""

    __test__ = False  # no test case, whatever its name

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "pooled": False})
        self._together = BUCB(**{**given, "pooled": True, "weighed": True})

    def model(self, belief: BUCBBelief) -> tuple[Any, Floats]:
        """The model in which everything is planned: pooled, or with the steps apart."""
        B = len(belief.users)
        noise = float(self.covariance[:B, :B].sum())
        kept = self.counters.kept  # all rows of a step have the same
        if excess(belief, noise, (kept.moves[:, 0, 0], kept.rewards[:, 0, 0])) <= REFUSED:
            return self._together.model(belief)
        return super().model(belief)


def excess(belief: BUCBBelief, noise: float, kept: tuple[Floats, Floats]) -> float:
    """How many standard deviations T is above its mean under the hypothesis that steps are alike.

    `noise` is the variance of one released counter summed over the batches, `kept` what the projection leaves of it.
    """
    moved, visits = belief.transitions.sum(axis=0)[:-1], belief.visits.sum(axis=0)
    ones = belief.rewards.sum(axis=0)
    outcomes = np.stack([ones, visits - ones], axis=-1)
    parts = (_terms(outcomes, noise * kept[1]), _terms(moved, noise * kept[0][:-1]))
    total, expected, variance = np.sum(parts, axis=0)
    return float(total - expected) / math.sqrt(variance) if variance > 0.0 else 0.0


def _terms(cells: Floats, noise: Floats) -> tuple[float, float, float]:
    """T over these cells [steps, S, A, m] with noise of variance [steps], its mean and variance if steps are alike."""
    steps, m = len(cells), cells.shape[-1]
    if steps < 2 or m < 2:
        return 0.0, 0.0, 0.0
    v = noise.reshape(-1, 1, 1, 1)
    n = cells.sum(axis=-1, keepdims=True)
    row = n.sum(axis=0)
    known = row > max(0.5, KNOWN * math.sqrt(m * float(noise.sum())))
    p = np.clip(cells.sum(axis=0) / np.where(known, row, np.inf), 0.0, 1.0)
    f = np.maximum(n, 0.0) / np.where(known, row, np.inf)
    u = v * (1.0 - 2.0 * p + m * p**2) + np.maximum(n, 0.0) * p * (1.0 - p)
    # Var(x_h - n_h p̄) = u_h (1 - 2 f_h) + f_h² Σ_k u_k
    variance = np.maximum(u * (1.0 - 2.0 * f) + f**2 * u.sum(axis=0), 0.0) + 0.25
    terms = np.where(known, (cells - n * p) ** 2 / variance, 0.0)
    count = float(known.sum()) * steps * m
    return float(terms.sum()), count, 2.0 * count * m / (m - 1) * steps / (steps - 1)
