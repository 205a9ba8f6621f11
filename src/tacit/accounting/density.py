"""From a density to a privacy-loss distribution, for symmetric log-concave noise under a shift.

Noise with density g is added to x or to x + shift: the pair is P = g(·), Q = g(· − shift). For a log-concave g the loss
ln P/Q falls along the line, so an interval of outcomes is an interval of losses. Its mass is split between the losses
at its two ends such that P and Q both keep their mass, which dominates the pair (see `convolution`): pessimistic, with
an error of second order in the width of the intervals. Masses are Gauss-Legendre integrals of smooth functions over
narrow intervals, right to about 1e-14, less than what `Losses` adds.

Which pattern of shifts is worst. Let f_s be the trade-off function (least type II error at type I error α) of a shift
s. For symmetric log-concave noise with distribution function F the best test is a threshold,

    f_s(α) = F(F⁻¹(1 − α) − s),

so f falls as s grows (monotone), and testing "shift s and then shift t" by chaining is exactly f_(s+t):
(1 − f_t)((1 − f_s)(α)) = (1 − f_(s+t))(α). Now take two counters with shifts s and t. From (P, P) to (Q_s, P) and on to
(Q_s, Q_t): each step is a pair of its own, with trade-off f_s, then f_t, and for any chain of two steps the end points
cannot be told apart better than the chained function allows (group privacy). Hence two counters with shifts s and t are
never worse than one counter with shift s + t, whatever else is released beside them. By induction the concentrated
pattern, all of a user's steps in one cell, is the worst of all partitions, for every horizon and every ε: Lemma S2
(monotone shifts), Lemma S3 (merged shifts), Lemma S5 (pooled counts).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.accounting.losses import Floats
from tacit.accounting.pld import PLD

__all__ = ["integrate", "shifted_pld"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


def shifted_pld(
    density: Callable[[Floats], Floats], loss: Callable[[Floats], Floats], edges: Floats, infinity: float
) -> PLD:
    """The pair g(·), g(· − shift), cut at increasing `edges` that are symmetric about shift/2.

    `infinity` is P's mass below the edges. P's mass above them, where the loss is least, is raised to the last edge.
    """
    width = np.diff(edges)
    x = edges[:-1, None] + 0.5 * width[:, None] * (1.0 + NODES)
    p_nodes = 0.5 * width[:, None] * WEIGHTS * density(x)
    p = p_nodes.sum(axis=1)
    at_edges = loss(edges)
    high, low = at_edges[:-1], at_edges[1:]
    # Share of the upper end: ∫ g (1 − e^(low − ℓ)) / [∫ g (1 − e^(low − high))], without cancellation.
    upper = (p_nodes * np.expm1(low[:, None] - loss(x))).sum(axis=1) / np.expm1(low - high)
    upper = np.clip(upper * (1.0 + 1e-12), 0.0, p)
    masses = np.zeros(edges.size)
    masses[:-1] += upper
    masses[1:] += p - upper
    masses[-1] += max(0.0, 1.0 - float(p.sum()) - infinity)
    return PLD.from_symmetric_atoms(at_edges, masses, infinity)


def integrate(function: Callable[[Floats], Floats], low: float, high: float, *, cells: int = 512) -> float:
    """The integral of a smooth function, by composite Gauss-Legendre.

    >>> round(integrate(np.cos, 0.0, np.pi / 2), 12)
    1.0
    """
    edges = np.linspace(low, high, cells + 1)
    x = edges[:-1, None] + 0.5 * np.diff(edges)[:, None] * (1.0 + NODES)
    return float((function(x) * WEIGHTS).sum() * 0.5 * (high - low) / cells)
