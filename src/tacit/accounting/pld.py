"""Privacy-loss distributions: how private many independent noisy numbers are together, tightly and from above.

A guarantee must hold from P to Q and from Q to P, so a `PLD` keeps the losses of both directions and reports the worse
one. The same class serves for one counter (its exact atoms) and for a composition (a fine grid); `compose` is the only
way from one to the other, and the grid is its private matter.

Up and down: if a counter that gains one is the pair (P, Q), a counter that loses one is `.reversed`. Both may occur in
one release; seen from the other neighbour, every up is a down, and that is what the backward direction adds up.

Symmetric log-concave noise under a shift (`shifted_pld`). Noise with density g is added to x or to x + shift: the pair
is P = g(·), Q = g(· − shift). For a log-concave g the loss ln P/Q falls along the line, so an interval of
outcomes is an interval of losses. Its mass is split between the losses at its two
ends such that P and Q both keep their mass, which dominates the pair (see `privacy_loss`): pessimistic, with an error
of second order in the width of the intervals. Masses are Gauss-Legendre integrals of smooth functions over
narrow intervals, right to about 1e-14, less than what `PrivacyLoss` adds.

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

>>> import numpy as np
>>> rare = PLD.from_log_pmfs(np.log([0.1, 0.9]), np.log([0.2, 0.8]))
>>> round(rare.epsilon(0.0), 6), round(compose([(rare, 50), (rare.reversed, 50)]).epsilon(1e-6), 2)
(0.693147, 17.49)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tacit.accounting.privacy_loss import Floats, PrivacyLoss, convolve
from tacit.errors import require, require_count, require_real

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True, slots=True, eq=False)
class PLD:
    """The privacy loss of a pair (P, Q) in both directions: `forward` from P to Q, `backward` from Q to P."""

    forward: PrivacyLoss
    backward: PrivacyLoss

    @classmethod
    def from_log_pmfs(cls, log_p: Floats, log_q: Floats) -> PLD:
        """The pair of two discrete distributions on the same outcomes; −∞ marks an outcome that cannot happen.

        >>> half = PLD.from_log_pmfs(np.array([np.log(0.5), np.log(0.5)]), np.array([0.0, -np.inf]))
        >>> round(half.delta(5.0), 9), half.epsilon(0.4)
        (0.5, inf)
        """
        log_p, log_q = np.asarray(log_p, float), np.asarray(log_q, float)
        shapes = (log_p.shape, log_q.shape)
        require(shapes[0] == shapes[1] and log_p.ndim == 1, "log_p and log_q must be vectors of one length", shapes)
        both = np.isfinite(log_p) & np.isfinite(log_q)
        require(bool(both.any()), "the two distributions must share an outcome", "none in common")
        p, q = np.exp(log_p), np.exp(log_q)
        infinity = (float(p[~both].sum()), float(q[~both].sum()))
        return cls.from_atoms(log_p[both] - log_q[both], p[both], q[both], infinity=infinity)

    @classmethod
    def from_atoms(cls, loss: Floats, p: Floats, q: Floats, infinity: tuple[float, float] = (0.0, 0.0)) -> PLD:
        """Outcomes of finite loss ln p/q with their masses, and the masses of P and of Q at infinite loss.

        For losses that have a formula: the difference of two large logarithms would lose their digits.
        """
        return cls(PrivacyLoss.of(loss, p, infinity[0]), PrivacyLoss.of(-loss, q, infinity[1]))

    @classmethod
    def from_symmetric_atoms(cls, loss: Floats, p: Floats, infinity: float = 0.0) -> PLD:
        """The same for a pair whose two directions are mirror images, as for every shift of symmetric noise."""
        one_way = PrivacyLoss.of(loss, p, infinity)
        return cls(one_way, one_way)

    @classmethod
    def from_guarantee(cls, epsilon: float, delta: float) -> PLD:
        """The worst pair that is (epsilon, delta)-private; with delta = 0 it is one randomized bit.

        >>> PLD.from_guarantee(0.5, 1e-6).epsilon(1.1e-6) < 0.5
        True
        """
        require_real("epsilon", epsilon, low=0.0)
        require_real("delta", delta, low=0.0, high=1.0)
        likely = (1.0 - delta) / (1.0 + math.exp(-epsilon))
        atoms = np.array([likely, likely * math.exp(-epsilon)])
        return cls.from_symmetric_atoms(np.array([epsilon, -epsilon]), atoms, delta)

    @classmethod
    def unprotected(cls) -> PLD:
        """A pair that one look tells apart: released without noise.

        >>> PLD.unprotected().epsilon(0.1)
        inf
        """
        return cls.from_symmetric_atoms(np.zeros(1), np.zeros(1), 1.0)

    @property
    def reversed(self) -> PLD:
        """The same pair with P and Q exchanged: a counter that goes down instead of up."""
        return PLD(self.backward, self.forward)

    @property
    def _directions(self) -> set[PrivacyLoss]:
        """Both directions, or the one that they share."""
        return {self.forward, self.backward}

    def delta(self, epsilon: float) -> float:
        """δ at this ε in the worse direction, rounded up."""
        require_real("epsilon", epsilon, low=0.0)
        return max(losses.delta(epsilon) for losses in self._directions)

    def epsilon(self, delta: float) -> float:
        """The least ε at this δ in the worse direction, rounded up; infinite if no ε has so small a δ."""
        require_real("delta", delta, low=0.0, high=1.0)
        return max(losses.epsilon(delta) for losses in self._directions)

    def compose(self, other: PLD) -> PLD:
        """Both pairs, independently."""
        return compose([(self, 1), (other, 1)])

    def self_compose(self, count: int) -> PLD:
        """`count` independent copies of this pair."""
        return compose([(self, count)])


def compose(pairs: Iterable[tuple[PLD, int]], *, spacing: float | None = None) -> PLD:
    """Each pair of distributions as often as its count says, all independent of each other.

    Without `spacing` the grid follows the standard deviation of the losses, for about six digits of ε. An adaptive
    sequence, in which a later mechanism may depend on earlier outputs, has the same bound.

    >>> bit = PLD.from_guarantee(0.1, 0.0)
    >>> round(compose([(bit, 3)]).epsilon(0.0), 12), round(compose([(bit, 100)]).epsilon(1e-6), 2)
    (0.3, 4.77)
    """
    if spacing is not None:
        require_real("spacing", spacing, low=0.0, open_low=True)
    forward, backward = Counter[PrivacyLoss](), Counter[PrivacyLoss]()
    for pld, count in pairs:
        forward[pld.forward] += require_count("count", count, least=0)
        backward[pld.backward] += count
    there = convolve(list((+forward).items()), spacing)
    return PLD(there, there if forward == backward else convolve(list((+backward).items()), spacing))


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
