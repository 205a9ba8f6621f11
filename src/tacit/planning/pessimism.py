"""Pessimistic planning: the policy that is best by what the released counts support, for data that nobody can extend.

A learner who may try again is optimistic; whoever learns from a log once must not count on what the log does not show.
So rows (h,s,a) are worth their estimate minus its width, rows that are not supported are worth nothing, and no value
is negative:

    Q̲_h(s,a) = max(0, r̂ - b + Σ_s' P̂(s'|s,a) V̲_{h+1}(s')),    unknown rows: 0,    π_h(s) = argmax_a Q̲_h(s,a)

A row is supported if its released visits exceed what noise alone reaches in any of the H S A rows, but for a stated
probability p: Ñ_h(s,a) > √(2 v ln(H S A / p)), by Lemma N1 (sub-gamma radius), one-sided and with scale 0, for noise of
variance v that is Gaussian, discrete or not. So with probability 1 - p nothing rests on rows that nobody visited.

Where several actions have the same Q̲ (mostly 0, where widths exceed estimates), a known row comes before an unknown
one, then the larger estimate r̂ + P̂V counts, then the smaller number. A state without a known row gets the default
action, and is reported as such. Everything is post-processing of what was released; widths and model are those of
`tacit.planning.widths`, with one parameter z.

Where transitions and rewards are declared not to depend on the step, `pooled_steps` adds the steps up before anything
is planned: H times the visits of a row, √H times the noise.

DP-APVI and DP-VAPVI: pessimistic value iteration from released counts [qiao2023offline].

    E_ρ    = 4 √(H ln(4HS²A/p) / ρ)                                        how far the noise reaches, 1 ≤ i ≤ HS²A
    ñ(·)   = argmin_x max_s' |x_s' - n'(s,a,s')|,  x ≥ 0,  |Σ x - n'(s,a)| ≤ E_ρ/2      consistent counts
    P̃      = ñ(s,a,s')/ñ(s,a)  if ñ(s,a) > E_ρ, else 1/S
    DP-APVI    Γ = √2 √(Var_P̃(V) ι/(ñ - E_ρ)) + 16 S H E_ρ ι/ñ             ι = ln(HSA/p); H where ñ ≤ E_ρ
    DP-VAPVI   Γ = √d (φ'Λ̃⁻¹φ ι)^(1/2) + H E_ρ/ñ,   Λ̃ = Σ φφ'/σ̃² + I,   σ̃² = max(1, Var_P̃(V))
    Q      = min(r̂ + P̃V - Γ, H - h + 1)⁺,   π = argmax Q

The paper is for known rewards; here r̂ = R̃/ñ, and a row's reward has the width √(ι/(2ñ)) + E_ρ/ñ. DP-VAPVI is for
linear features φ(s,a); here they are one-hot, d = SA. All of its statistics are then functions of the counts, which
are released once, and one log serves for both halves of the data. The paper hides the constants of DP-VAPVI in O(·):
those above are ours. z multiplies Γ; 1 is as printed. Widths as printed exceed the horizon at usual sizes; where
several actions have the same Q, a known row comes first, then the larger estimate, as in `tacit.planning.pessimism`.

Noise by the paper: variance 2H/ρ in every counter, with ρ + 2 √(ρ ln(1/δ)) = ε (`printed_std`). What that certifies is
the accountant's business.

References: D. Qiao, Y.-X. Wang, Offline Reinforcement Learning with Differential Privacy, NeurIPS 2023
(arXiv 2206.00810).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.errors import require, require_real
from tacit.planning.widths import DEFAULT_Z, confidence_model, first_states
from tacit.released.counts import CountStatistics

UNSUPPORTED = 0.05
"""The probability p with which some row without a visit may count as supported."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PessimisticPlan:
    """A policy with what the model says about it."""

    actions: Ints
    """[H,S]"""
    supported: NDArray[np.bool_]
    """[H,S]: whether the log knows the chosen action there; elsewhere it is the default."""
    noise_units: Floats
    """[H,S]: released visits of the chosen action, of the most visited one where it is the default, over the standard
    deviation of their noise (one visit at least)."""
    threshold: float
    """The noise units from which on a row is supported."""
    value: float
    """The estimate of an episode's rewards under the policy, each in [0, 1]."""
    floor: float
    """The same at its most pessimistic."""


def pessimistic_plan(
    counts: CountStatistics,
    *,
    z: float = DEFAULT_Z,
    default: int = 0,
    failure_prob: float = UNSUPPORTED,
    stationary: bool = False,
) -> PessimisticPlan:
    """The policy that is best by lower confidence bounds of stage-wise counts under Gaussian noise, or none.

    >>> from tacit.released.counts import CountShape, empty_counts
    >>> counts = empty_counts(CountShape(horizon=1, num_states=1, num_actions=3, staged=True))
    >>> counts.visits[0, 0, :2], counts.rewards[0, 0, :2] = [1000.0, 1000.0], [200.0, 700.0]
    >>> plan = pessimistic_plan(counts)
    >>> plan.actions.tolist(), round(plan.value, 2), plan.floor < plan.value
    ([[1]], 0.7, True)
    """
    require_real("z", z, low=0.0)
    H, S, A = counts.visits.shape
    require(0 <= default < A, f"the default action must be below {A}", default)
    rho = first_states(counts)
    if stationary:
        counts = pooled_steps(counts)
    model = confidence_model(_supported(counts, failure_prob), rho, z)
    actions: Ints = np.full((H, S), default, dtype=np.int64)
    supported = np.zeros((H, S), dtype=np.bool_)
    low, middle = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        known = model.n[h] > 0.0
        # The last step has no successor: its rows of P̂ are zero, as are those that are unknown.
        below = np.where(known, np.clip(model.lower[h] + model.P[h] @ low, 0.0, H - h), 0.0)
        estimate: Floats = np.where(known, np.minimum(model.r[h] + model.P[h] @ middle, H - h), 0.0)
        for s in range(S):
            supported[h, s] = bool(known[s].any())
            if supported[h, s]:
                ranks = [(below[s, a], known[s, a], estimate[s, a], -a) for a in range(A)]
                actions[h, s] = ranks.index(max(ranks))
        chosen = np.arange(S), actions[h]
        low, middle = below[chosen], estimate[chosen]
    own = np.take_along_axis(counts.visits, actions[..., None], axis=2)[..., 0]
    unit = max(1.0, math.sqrt(float(counts.variance[1])))
    return PessimisticPlan(
        actions=actions,
        supported=supported,
        noise_units=np.round(np.where(supported, own, counts.visits.max(axis=2)) / unit, 3),
        threshold=round(support_floor(counts, failure_prob) / unit, 3),
        value=float(rho @ middle),
        floor=float(rho @ low),
    )


def pooled_steps(counts: CountStatistics) -> CountStatistics:
    """Counts of a stationary world: in every step those of all steps together. Post-processing of what was released.

    First states are read from the first step alone, so before.
    """
    H = len(counts.visits)
    # Ñ(s,a,s') = Σ_{h<H} Ñ_h(s,a,s'), whose noise has variance (H - 1) v; visits and rewards have H steps
    moves = np.broadcast_to(counts.transitions.sum(axis=0), counts.transitions.shape).copy()
    moves[-1] = 0.0
    each = {
        name: np.broadcast_to(getattr(counts, name).sum(axis=0), counts.visits.shape).copy()
        for name in ("visits", "rewards", "squares")
    }
    many = np.array([max(1, H - 1), H, H], dtype=np.float64)
    return counts._replace(transitions=moves, variance=counts.variance * many, **each)


def support_floor(counts: CountStatistics, failure_prob: float = UNSUPPORTED) -> float:
    """The released visits from which on a row is supported."""
    p = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
    # P(noise > √(2 v L)) ≤ e^-L in each of H S A rows; half a visit where there is no noise.
    L = math.log(counts.visits.size / p)
    return max(0.5, math.sqrt(2.0 * float(counts.variance[1]) * L))


def _supported(counts: CountStatistics, failure_prob: float) -> CountStatistics:
    """The counts with zeros in all rows that are not supported."""
    kept = counts.visits > support_floor(counts, failure_prob)
    return counts._replace(
        transitions=np.where(kept[..., None], counts.transitions, 0.0),
        visits=np.where(kept, counts.visits, 0.0),
        rewards=np.where(kept, counts.rewards, 0.0),
        squares=np.where(kept, counts.squares, 0.0),
    )


FAILURE: float = 0.05
"""p: of all bounds together."""
HALVINGS = 60


def printed_rho(epsilon: float, delta: float) -> float:
    """The ρ of zero-concentrated privacy that the paper's conversion needs for (epsilon, delta).

    >>> rho = printed_rho(1.0, 1e-6)
    >>> round(rho + 2 * (rho * math.log(1e6)) ** 0.5, 9)
    1.0
    """
    L = math.log(1.0 / delta)
    return (math.sqrt(L + epsilon) - math.sqrt(L)) ** 2


def printed_std(horizon: int, epsilon: float, delta: float) -> float:
    """√(2H/ρ): the deviation of the paper's noise in a counter."""
    return math.sqrt(2.0 * horizon / printed_rho(epsilon, delta))


def noise_reach(horizon: int, states: int, actions: int, rho: float) -> float:
    """E_ρ."""
    return 4.0 * math.sqrt(horizon * math.log(4.0 * horizon * states**2 * actions / FAILURE) / rho)


def consistent_rows(moved: Floats, visits: Floats, reach: float) -> Floats:
    """The counts [...,S] that are nearest to `moved` in the largest difference, not negative, with sums near `visits`.

    >>> [consistent_rows(np.array([row]), np.array([10.0]), 2.0).sum().item() for row in ([6.0, -2.0], [6.0, 4.0])]
    [9.0, 10.0]
    """
    low, high = np.maximum(visits - reach / 2.0, 0.0), np.maximum(visits + reach / 2.0, 0.0)
    # With all differences at most t, sums reach from Σ (x - t)⁺ to Σ (x + t), t at least what makes x + t ≥ 0
    t0 = np.maximum(0.0, -moved.min(axis=-1))
    t1 = t0 + np.abs(moved).sum(axis=-1) + high
    for _ in range(HALVINGS):
        t = (t0 + t1) / 2.0
        fits = (np.maximum(moved - t[..., None], 0.0).sum(-1) <= high) & ((moved + t[..., None]).sum(-1) >= low)
        t1, t0 = np.where(fits, t, t1), np.where(fits, t0, t)
    least, most = np.maximum(moved - t1[..., None], 0.0), moved + t1[..., None]
    # Between both ends: as near to what was released as the sum allows
    middle = np.clip(np.maximum(moved, 0.0), least, most)
    total = np.clip(middle.sum(-1), low, high)
    down = (middle.sum(-1) - total)[..., None]
    room = np.where(down >= 0.0, middle - least, most - middle)
    share = np.abs(down) / np.maximum(room.sum(-1, keepdims=True), 1e-12)
    return np.asarray(middle - np.sign(down) * np.minimum(share, 1.0) * room)


def private_value_iteration(
    counts: CountStatistics, *, rho: float, variance_aware: bool, z: float = 1.0, default: int = 0
) -> PessimisticPlan:
    """The policy of DP-APVI, or of DP-VAPVI with one-hot features, from stage-wise counts.

    >>> from tacit.released.counts import CountShape, empty_counts
    >>> counts = empty_counts(CountShape(horizon=1, num_states=1, num_actions=2, staged=True))
    >>> counts.visits[0, 0], counts.rewards[0, 0] = [1e6, 1e6], [2e5, 7e5]
    >>> private_value_iteration(counts, rho=1.0, variance_aware=False).actions.tolist()
    [[1]]
    """
    H, S, A = counts.visits.shape
    require(rho > 0.0, "rho must be positive", rho)
    reach, iota = noise_reach(H, S, A, rho), math.log(H * S * A / FAILURE)
    moved = consistent_rows(counts.transitions, counts.visits, reach)
    n: Floats = moved.sum(axis=3)
    n[-1] = np.maximum(counts.visits[-1], 0.0)  # the last step has no successors
    known = n > reach
    base = np.where(known, n, 1.0)
    P = np.where(known[..., None], moved / base[..., None], 1.0 / S)
    r = np.where(known, np.clip(counts.rewards / base, 0.0, 1.0), 0.0)
    reward_width = np.sqrt(iota / (2.0 * base)) + reach / base
    V, middle = np.zeros(S), np.zeros(S)
    actions: Ints = np.full((H, S), default, dtype=np.int64)
    supported = np.zeros((H, S), dtype=np.bool_)
    for h in range(H - 1, -1, -1):
        ahead = P[h] @ V if h < H - 1 else np.zeros((S, A))
        spread = np.maximum(P[h] @ V**2 - ahead**2, 0.0) if h < H - 1 else np.zeros((S, A))
        if variance_aware:
            weight = np.maximum(1.0, spread)
            width = math.sqrt(S * A) * np.sqrt(iota * weight / (base[h] + weight)) + H * reach / base[h]
        else:
            width = np.sqrt(2.0 * spread * iota / np.maximum(base[h] - reach, 1e-9))
            width = width + 16.0 * S * H * reach * iota / base[h]
        gap = np.where(known[h], z * (width + reward_width[h]), float(H))
        Q = np.clip(r[h] + ahead - gap, 0.0, H - h)
        estimate = np.where(known[h], np.clip(r[h] + (P[h] @ middle if h < H - 1 else 0.0), 0.0, H - h), 0.0)
        supported[h] = known[h].any(axis=1)
        for s in np.flatnonzero(supported[h]):
            ranks = [(Q[s, a], known[h, s, a], estimate[s, a], -a) for a in range(A)]
            actions[h, s] = ranks.index(max(ranks))
        chosen = np.arange(S), actions[h]
        V, middle = Q[chosen], estimate[chosen]
    rho_1 = first_states(counts)
    unit = max(1.0, math.sqrt(float(counts.variance[1])))
    own = np.take_along_axis(counts.visits, actions[..., None], axis=2)[..., 0]
    return PessimisticPlan(
        actions=actions,
        supported=supported,
        noise_units=np.round(np.where(supported, own, counts.visits.max(axis=2)) / unit, 3),
        threshold=round(reach / unit, 3),
        value=float(rho_1 @ middle),
        floor=float(rho_1 @ V),
    )
