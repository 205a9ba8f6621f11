"""Valid bands: intervals that contain V* whatever the policies were, from noisy counts (Lemma W4 (valid bands)).

Only the one fixed function V* has to be covered, so the union is over rows, plans and sides. With public weights w_b in
[0,1] and counts that obey the laws of a flow (`flow_projection`), Ñ = Σ_b w_b Ñ_b, n = Σ_s' Ñ(s') = R̃ + M̃, and

    n (r̂ + P̂V* - r - PV*)  =  Σ w (r_j - r)  +  Σ w (V*(s_j) - PV*)  +  <f, noise>,   f = (V* - PV*, 1 - r, -r):

two martingales (Freedman, peeled by 1.3) and one linear functional of the noise, which is sub-gamma with variance
q κ |f|² and scale c √κ |f|. Hence, with t for each noise event and ℓ for each martingale event,

    W_r = √(2.6 max(¼, n̄ max r(1-r)) ℓ) + ℓ/3
    W_P = Rg (√(2.6 max(¼, A) ℓ) + ℓ/3),          A ≥ n Var_P(V*)/Rg²: n̄/4, or from the counts themselves
    W_e = √(2 t q κ (Σ d² + 1)) + c t √(κ (Σ d² + 1)),   d(s') ≥ |V*(s') - PV*|
    U_h(s,a) = min(H-h+1, (R̃ + Σ Ñ⁺U - Σ Ñ⁻L + W_r + W_P + W_e) / n),   L_h(s,a) likewise from below.

By induction V* lies in [L, U] at every step on one event of probability 1 - β. Several weightings g of the same batches
give several bands; their intersection, and that with all earlier bands, is as valid.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel, lean_kernel
from tacit.lazy_jit import interpreted, lazy_jit
from tacit.planning.flow_projection import FlowCounts, project

PEELING_FACTOR: Final = 1.3
"""Variances are peeled by this factor; the same number stands in the roots, as 2 · 1.3."""
MARTINGALES: Final = 5
"""Events of one row and plan: rewards and transitions from both sides, and the variance of V* from above."""
NOISES: Final = 6
"""Events of one row and plan: the sum and the reward from both sides, visits from above, the variance from above."""


class Confidence(NamedTuple):
    """How rare each event is."""

    ell: float
    """ℓ: of one martingale event, its peeling included."""
    t: float
    """t: of one event of the noise."""
    scale: float
    """c: the sub-gamma scale of the noise in one counter; 0 for Gaussian noise, ⅓ for bits."""


class Evidence(NamedTuple):
    """Weighted counts, one entry g for every weighting; L = H rows per pair, or 1 when steps are pooled."""

    moved: Floats
    """[G,L,S,A,S]"""
    rewards: Floats
    """[G,L,S,A]"""
    visits: Floats
    """[G,L,S,A]: n, the same as the sum of `moved` where there are successors."""
    variance: Floats
    """[G]: q = w'Σw, of one counter before projection (times the number of steps where they are pooled)."""
    kept: Floats
    """[L]: κ, what the projection leaves of the functionals of a row."""
    kept_sum: Floats
    """[L]: the same of the number of visits: its variance is q times this."""


class Bands(NamedTuple):
    """What is known of V* and Q*."""

    upper: Floats
    """[H+1,S]"""
    lower: Floats
    """[H+1,S]"""
    q_upper: Floats
    """[H,S,A]"""
    q_lower: Floats
    """[H,S,A]"""


class ValueInterval(NamedTuple):
    """An interval that contains the value of the best policy with probability 1 - beta, in any world of this size."""

    low: float
    high: float
    beta: float


def confidence(beta: float, *, rows: int, plans: int, weightings: int, users: float, scale: float) -> Confidence:
    """Half of beta for the martingales, half for the noise, evenly over rows and first state, plans and weightings.

    >>> round(confidence(0.05, rows=48, plans=10, weightings=1, users=20_000.0, scale=0.0).ell, 2)
    15.13
    """
    events = (rows + 1) * plans * weightings
    levels = max(1, math.ceil(math.log(max(users, PEELING_FACTOR)) / math.log(PEELING_FACTOR)))
    return Confidence(
        ell=math.log(2.0 * MARTINGALES * events * levels / beta),
        t=math.log(2.0 * NOISES * events / beta),
        scale=scale,
    )


def widen_nothing(horizon: int, num_states: int, num_actions: int) -> Bands:
    """The bands before anybody came: between nothing and one reward for every step that is left."""
    H, S, A = horizon, num_states, num_actions
    left = np.arange(H, -1, -1, dtype=np.float64)
    return Bands(
        upper=np.repeat(left[:, np.newaxis], S, axis=1),
        lower=np.zeros((H + 1, S)),
        q_upper=np.broadcast_to(left[:H, np.newaxis, np.newaxis], (H, S, A)).copy(),
        q_lower=np.zeros((H, S, A)),
    )


@lru_cache(maxsize=64)
def kept_block(horizon: int, num_states: int, num_actions: int, pooled: bool) -> tuple[Floats, Floats]:
    """κ and κ₁ of each step [L]: what the projection leaves of f = (d, 1-r, -r) on a row's cells, and of its visits.

    A projector is the same for all rows of a step. On a row's successors it is aI + bJ with b ≤ 0, c between them and
    the rewards, and e on a reward: f'Πf = a|d|² + b(Σd)² + 2c(1-2r)Σd + ... ≤ a|d|² + c²/|b| + e. Pooled rows: 1.

    >>> row, visits = kept_block(6, 4, 2, False)
    >>> bool((row[:-1] < 0.94).all()), float(row[-1]), bool((visits < 2.0).all())
    (True, 1.0, True)
    """
    H, S, A = horizon, num_states, num_actions
    if pooled and H > 1:
        return np.ones(1), np.full(1, 2.0)
    kept, visits = np.ones(H), np.full(H, 2.0)
    for h in range(H):
        unit = FlowCounts(np.zeros((H - 1, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A)))
        unit.ones[h, 0, 0] = 1.0
        after = project(unit, 0.0)
        e = float(after.ones[h, 0, 0])
        visits[h] = 2.0 * (e + float(after.zeros[h, 0, 0]))
        if h < H - 1 and S > 1:
            c, b = float(after.moved[h, 0, 0, 0]), 0.0
            unit = FlowCounts(np.zeros((H - 1, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A)))
            unit.moved[h, 0, 0, 0] = 1.0
            row = project(unit, 0.0).moved[h, 0, 0]
            b = float(row[1])
            if b < 0.0:
                kept[h] = min(1.0, max(float(row[0]) - b, e - c * c / b) * (1.0 + 1e-12))
    return kept, visits


@lean_kernel
def _martingale(variance: float, ell: float) -> float:
    """√(2.6 max(¼, v) ℓ) + ℓ/3: how far a martingale of steps up to 1 gets whose variance is v."""
    return math.sqrt(2.0 * 1.3 * max(0.25, variance) * ell) + ell / 3.0


@lean_kernel
def _noise(squares: float, t: float, scale: float, q: float, kept: float) -> float:
    """√(2 t q κ |f|²) + c t √(κ |f|²): how far a functional f of the noise gets."""
    return math.sqrt(2.0 * t * q * kept * squares) + scale * t * math.sqrt(kept * squares)


@lean_kernel
def _row(
    moved: Floats, reward: float, n: float, q: float, kept: float, kept_sum: float, U: Floats, L: Floats,
    ell: float, t: float, scale: float, out: Floats,
) -> None:  # fmt: skip
    """Write to `out`: upper and lower sums of r + PV*, and their sampling and noise widths, all times n."""
    S = U.shape[0]
    above, below = 0.0, 0.0
    top, bottom = U[0], L[0]
    for s in range(S):
        above += moved[s] * (U[s] if moved[s] > 0.0 else L[s])
        below += moved[s] * (L[s] if moved[s] > 0.0 else U[s])
        top, bottom = max(top, U[s]), min(bottom, L[s])
    seen = n + math.sqrt(2.0 * t * q * kept_sum) + scale * t * math.sqrt(kept_sum)
    # Rewards: r in an interval that its own width makes
    low, high, wr = 0.0, 1.0, 0.0
    alone = _noise(1.0, t, scale, q, kept)
    for _ in range(3):
        most = 0.25 if low <= 0.5 <= high else max(low * (1.0 - low), high * (1.0 - high))
        wr = _martingale(seen * most, ell)
        low = max(low, (reward - wr - alone) / n)
        high = min(high, (reward + wr + alone) / n)
        if low > high:
            low, high = 0.0, 1.0
    # Transitions: PV* in an interval that its own width makes, and with it |V* - PV*|
    span = top - bottom
    wp, we = 0.0, alone
    if span > 0.0:
        cl, cu = bottom, top
        for _ in range(3):
            squares, fourth, observed = 0.0, 0.0, 0.0
            for s in range(S):
                d = max(U[s] - cl, cu - L[s], 0.0)
                squares += d * d
                fourth += d * d * d * d
                if moved[s] > 0.0:
                    observed += moved[s] * d * d
            # A = n Var/Rg²: at most n̄/4, and √A ≤ √(.65ℓ) + √(.65ℓ + ℓ/3 + Q/Rg²)
            Q = (observed + _noise(fourth, t, scale, q, kept)) / (span * span)
            root = math.sqrt(0.65 * ell) + math.sqrt(0.65 * ell + ell / 3.0 + Q)
            wp = span * _martingale(min(0.25 * seen, root * root), ell)
            only = wp + _noise(squares, t, scale, q, kept)
            we = _noise(squares + 1.0, t, scale, q, kept)
            cl = max(cl, (below - only) / n)
            cu = min(cu, (above + only) / n)
            if cl > cu:
                cl, cu = bottom, top
    out[0], out[1], out[2], out[3] = above + reward, below + reward, wr + wp, we


def _bands_work(evidence: Evidence, sure: Confidence, bands: Bands, sampling: Floats, noise: Floats) -> int:
    return 40 * int(evidence.moved.size) * (1 if evidence.moved.shape[1] > 1 else len(bands.q_upper))


@lazy_jit(_bands_work)
@kernel
def write_bands(evidence: Evidence, sure: Confidence, bands: Bands, sampling: Floats, noise: Floats) -> None:
    """Tighten the bands by what was released; widths of the best weighting go to sampling and noise [H,S,A], over n."""
    H, S, A = bands.q_upper.shape
    G, L = evidence.visits.shape[0], evidence.visits.shape[1]
    out = np.zeros(4)
    for h in range(H - 1, -1, -1):
        stage = min(h, L - 1)
        U, V = bands.upper[h + 1], bands.lower[h + 1]
        for s in range(S):
            for a in range(A):
                least = np.inf
                for g in range(G):
                    n = evidence.visits[g, stage, s, a]
                    if n <= 0.5:
                        continue
                    _row(
                        evidence.moved[g, stage, s, a], evidence.rewards[g, stage, s, a], n, evidence.variance[g],
                        evidence.kept[stage], evidence.kept_sum[stage], U, V, sure.ell, sure.t, sure.scale, out,
                    )  # fmt: skip
                    both = out[2] + out[3]
                    bands.q_upper[h, s, a] = min(bands.q_upper[h, s, a], (out[0] + both) / n)
                    bands.q_lower[h, s, a] = max(bands.q_lower[h, s, a], (out[1] - both) / n)
                    if both / n < least:
                        least = both / n
                        sampling[h, s, a], noise[h, s, a] = out[2] / n, out[3] / n
                if least == np.inf:
                    sampling[h, s, a], noise[h, s, a] = 0.0, float(H - h)
            bands.upper[h, s] = min(bands.upper[h, s], bands.q_upper[h, s].max())
            bands.lower[h, s] = max(bands.lower[h, s], bands.q_lower[h, s].max())


def start_interval(
    first: Floats, people: float, variance: float, cells: int, sure: Confidence, bands: Bands
) -> tuple[float, float]:
    """The interval of V*(ρ) from weighted counts of first states, of so many weighted people, and bands.

    Each count is the sum of so many cells, each with noise of this variance. The counts are moved to their known sum,
    so the noise acts on V* minus its mean over the states only.
    """
    upper, lower = bands.upper[0], bands.lower[0]
    if people <= 0.0:
        return float(lower.min()), float(upper.max())
    S = len(first)
    counts = first + (people - first.sum()) / S
    span = float(upper.max() - lower.min())
    # |V* - mean V*| at every state
    d = np.maximum(upper - lower.mean(), upper.mean() - lower)
    squares = float((d * d).sum())
    sampling, noise = interpreted(_martingale), interpreted(_noise)
    width = span * sampling(people / 4.0, sure.ell) + noise(cells * squares, sure.t, sure.scale, variance, 1.0)
    above = float(np.where(counts > 0.0, counts * upper, counts * lower).sum() + width) / people
    below = float(np.where(counts > 0.0, counts * lower, counts * upper).sum() - width) / people
    return max(below, float(lower.min())), min(above, float(upper.max()))


def cautious_plan(bands: Bands, otherwise: Ints) -> Ints:
    """The policy[h,s] that is greedy for the lower bounds; where several tie, `otherwise` if it is one of them.

    An action whose upper bound lies below another's lower bound is never chosen.
    """
    best = bands.q_lower.max(axis=2, keepdims=True)
    tied = bands.q_lower >= best - 1e-12
    first = np.argmax(tied, axis=2)
    fits = np.take_along_axis(tied, otherwise[..., np.newaxis], axis=2)[..., 0]
    return np.where(fits, otherwise, first)
