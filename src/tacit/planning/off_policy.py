"""Off-policy values from what was released: points and intervals with sampling, noise and clipping in them.

All values are rewards per step in [0, 1]; z is the normal quantile of the interval. Sums of squares carry noise, too:
one standard deviation of it is added to every variance, so that a variance that noise made small costs no coverage.

    ips      V = T Σ u (s + 1/2) / n
    snips    V = 1/2 + Σ u s / Σ u, its interval by Fieller's theorem
    dr       V = center + reach Σ z / n
    dm       V = Σ d^π (h,s,a) r̂ / H in the model of released counts, its variance by the delta method

Where weights may be cut at the cap, E min(w, T) = 1 - m tells how much mass m is missing, and the interval is widened
by what m can hold. Where actions of a policy are in no supported row, the direct method counts them from 0 to 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from tacit.arrays import Floats
from tacit.planning.pessimism import support_floor
from tacit.released.counts import CountStatistics


class Interval(NamedTuple):
    """A value per step with its interval, both within [0, 1]."""

    value: float
    low: float
    high: float

    def cut(self) -> Interval:
        """Within [0, 1]."""
        return Interval(*(min(1.0, max(0.0, number)) for number in self))


def normal_quantile(confidence: float) -> float:
    """Z with P(|N(0, 1)| ≤ z) = confidence."""
    return float(norm.ppf(0.5 + confidence / 2.0))


def missing_mass(sums: Floats, variance: Floats, people: int, cap: float, z: float) -> float:
    """An upper bound of m = 1 - E min(w, T): what was cut."""
    mean = cap * sums[1] / people
    spread = cap**2 * (max(0.0, sums[2] / people - (sums[1] / people) ** 2) / people + variance[1] / people**2)
    return float(min(1.0, max(0.0, 1.0 - mean + z * math.sqrt(spread))))


def ips_value(sums: Floats, variance: Floats, people: int, cap: float, z: float, missing: float) -> Interval:
    """Inverse propensity scores: the mean of w r."""
    A, B, C, D, E, _ = sums
    value = cap * (A + B / 2.0) / people
    # Var = E (w r)² - V²,  w² r² = T² u² (s + 1/2)²
    doubt = math.sqrt(variance[4] + variance[3] + variance[2] / 16.0)
    square = cap**2 * max(0.0, E + D + C / 4.0 + doubt) / people
    noise = cap**2 * (variance[0] + variance[1] / 4.0) / people**2
    half = z * math.sqrt(max(0.0, square - value**2) / people + noise)
    return Interval(value, value - half, value + half + missing).cut()


def snips_value(sums: Floats, variance: Floats, people: int, cap: float, z: float, missing: float) -> Interval:
    """Self-normalised: the ratio Σ w r / Σ w, whose interval holds for every size of the denominator."""
    A, B, C, D, E, _ = sums
    if B <= 0.0:
        return Interval(0.5, 0.0, 1.0)
    # (A - ρB)² ≤ z² (E - 2ρD + ρ²C + v_A + ρ²v_B): a quadratic inequality in ρ = V - 1/2
    a = B**2 - z**2 * (C + variance[1])
    b, c = A * B - z**2 * D, A**2 - z**2 * (E + variance[0])
    ratio = min(0.5, max(-0.5, A / B))
    c -= z**2 * math.sqrt(variance[4] + 4.0 * ratio**2 * variance[3] + ratio**4 * variance[2])
    root = b * b - a * c
    if a <= 0.0 or root < 0.0:
        return Interval(0.5 + ratio, 0.0, 1.0)
    low, high = (0.5 + (b + sign * math.sqrt(root)) / a for sign in (-1.0, 1.0))
    # V = (1 - m) V_cut + m V_missing,  V_missing in [0, 1]
    # Where noise made the variance at the point negative, the inequality leaves the point out: it is taken in
    low, high = min(low, 0.5 + ratio), max(high, 0.5 + ratio)
    return Interval(0.5 + ratio, low * (1.0 - missing), high + missing * (1.0 - high)).cut()


def residual_value(sums: Floats, variance: Floats, people: int, center: float, reach: float, z: float) -> Interval:
    """Doubly robust: the mean of everybody's center + reach z."""
    mean = sums[0] / people
    square = (sums[1] + math.sqrt(variance[1])) / people
    spread = max(0.0, square - mean**2) / people + variance[0] / people**2
    value, half = center + reach * mean, reach * z * math.sqrt(spread)
    return Interval(value, value - half, value + half).cut()


class Model(NamedTuple):
    """What released counts say, for every step: signed estimates where a row is supported, nothing elsewhere."""

    P: Floats
    """[H,S,A,S]; zero after the last step."""
    r: Floats
    """[H,S,A]"""
    visits: Floats
    """[H,S,A]; 0 where a row is not supported."""
    first: Floats
    """[S]: shares of first states."""
    people: float
    variance: Floats
    """[transitions, visits, rewards]: of the noise."""


def model_of(counts: CountStatistics) -> Model:
    """The model of stage-wise counts."""
    known = counts.visits > support_floor(counts)
    visits = np.where(known, counts.visits, 0.0)
    divisor = np.where(known, counts.visits, 1.0)
    r = np.where(known, np.clip(counts.rewards / divisor, 0.0, 1.0), 0.0)
    moved = counts.transitions.sum(axis=3, keepdims=True)
    fine = known[..., None] & (moved > 0.5 * divisor[..., None])
    P = np.where(fine, counts.transitions / np.where(fine, moved, 1.0), 0.0)
    first = counts.visits[0].sum(axis=1)
    people = max(1.0, float(first.sum()))
    return Model(P=P, r=r, visits=visits, first=first / people, people=people, variance=counts.variance)


def backward(model: Model, policy: Floats, unknown: float) -> tuple[Floats, Floats]:
    """V[H+1,S] and Q[H,S,A] of a policy; a row that is not supported earns `unknown` per step from there on."""
    H, S, A = model.r.shape
    V, Q = np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in range(H - 1, -1, -1):
        Q[h] = np.where(model.visits[h] > 0.0, model.r[h] + model.P[h] @ V[h + 1], unknown * (H - h))
        Q[h] = np.clip(Q[h], 0.0, H - h)
        V[h] = (policy[h] * Q[h]).sum(axis=1)
    return V, Q


def visited(model: Model, policy: Floats) -> Floats:
    """d[H,S,A]: how often the policy is in each row of the model; what leaves supported rows is lost."""
    d = np.zeros_like(model.r)
    now = np.maximum(model.first, 0.0)
    for h in range(len(d)):
        d[h] = now[:, None] * policy[h]
        now = np.maximum(np.einsum("sa,sat->t", d[h], model.P[h]), 0.0)
    return d


def direct_value(model: Model, policy: Floats, z: float) -> Interval:
    """The value in the model; rows without support count from 0 to 1 per step."""
    H, _, A = model.r.shape
    values = {unknown: backward(model, policy, unknown)[0] for unknown in (0.0, 0.5, 1.0)}
    mid, low, high = (float(model.first @ values[unknown][0]) / H for unknown in (0.5, 0.0, 1.0))
    V, d = values[0.5], visited(model, policy)
    moves, _, rewards = model.variance
    N = np.where(model.visits > 0.0, model.visits, np.inf)
    r = model.r
    ahead = np.einsum("hsat,ht->hsa", model.P, V[1:])
    apart = (V[1:, None, None, :] - ahead[..., None]) ** 2
    # sampling of rewards and successors;  noise of r̂ = R/(R + C): ((1 - r) z_R - r z_C)/N;  noise of P̂ V
    row = (r * (1.0 - r) + np.einsum("hsat,hsat->hsa", np.maximum(model.P, 0.0), apart)) / N
    row += rewards * ((1.0 - r) ** 2 + r**2) / N**2 + moves * apart.sum(axis=3) / N**2
    spread = float((d**2 * row).sum())
    start = (V[0] - float(model.first @ V[0])) ** 2
    spread += float(np.maximum(model.first, 0.0) @ start) / model.people
    spread += float(start.sum()) * A * 2.0 * rewards / model.people**2
    half = z * math.sqrt(spread) / H
    return Interval(mid, low - half, high + half).cut()


def propensity_variance(model: Model, policy: Floats, propensities: Floats) -> float:
    """What estimated propensities add to the variance of a weighted value, by the delta method."""
    Q = backward(model, policy, 0.5)[1]
    N = np.where(model.visits > 0.0, model.visits, 0.0).sum(axis=2, keepdims=True)
    each = 2.0 * model.variance[2]
    p = propensities
    # p̂ = N_a/N: sampling p (1 - p)/N, noise v ((1 - 2p) + A p²)/N²
    sampling, noise = p * (1.0 - p), np.maximum(0.0, 1.0 - 2.0 * p) + p.shape[2] * p**2
    M = np.maximum(N, 1.0)
    spread = np.where(N > 0.0, sampling / M + each * noise / M**2, 0.25)
    pull = visited(model, policy) * Q / p
    return float((pull**2 * spread).sum()) / len(Q) ** 2
