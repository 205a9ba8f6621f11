"""Models of rows that have weights and variances of their own: what `bucb` plans in.

Every row (h,s,a) of the model is estimated from the batches that have something to say about it: with w_b(h,s,a) in
[0,1], Ñ = Σ_b w_b Ñ_b has noise of variance v = w'Σw per cell. Widths are those of `practical_width`, row by row.
Pooled models have one row (s,a) for all steps; their arrays have a leading axis of length 1, and `min(h, len - 1)`
reads both. A row has the possible successors of the index (`planning.flow_projection`) and no others:

1. its width sums its noise over these;
2. a row with one successor and no counters of its own is known to lead there: its counts are its visits;
3. an unknown row of a declared support leads to its successors: an optimist takes half a reward and the mean of their
   values, a pessimist no reward and the least of their values. Where nothing is declared it is worth half of what
   remains to an optimist, nothing to a pessimist, and the episode ends there.

Mixtures may keep to valid bands: one policy in eight is then greedy for the upper bounds U of Q*, the first for U
itself and later ones with the visits that those before them will make; the others follow the practical rule among the
actions that are not excluded, U(s,a) ≥ L(s). Where actions tie the practical rule decides.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import folded_kernel, kernel, lean_kernel
from tacit.lazy_jit import lazy_jit
from tacit.planning.flow_projection import Counters, Kept
from tacit.planning.valid_bands import Bands
from tacit.planning.widths import ROW_FLOOR, _one_of_the_best, practical_width

UNKNOWN_SHARE: Final = 0.5
"""What an unknown row is worth to an optimist, as a share of all that remains."""
EVERY: Final = 8
"""One of so many policies of a mixture in bands is optimistic for them, the others for the practical rule."""


class Rows(NamedTuple):
    """The model: L = H rows per pair when steps are kept apart, 1 when they are pooled."""

    at: Ints | None
    """The successors of row i = (l · S + s) · A + a are to[at[i] : at[i+1]]; None: all states."""
    to: Ints | None
    p: Floats
    """Their probabilities, [1,places] or [rows,S]; zero at the end, and in unknown rows where nothing is declared."""
    r: Floats
    """[L,S,A]"""
    n: Floats
    """[L,S,A]: counts that the transitions rest on; 0 where the row is unknown."""
    count_variance: Floats
    """[L,S,A]: noise variance of one cell of the transitions; 0 where the successor is known."""
    reward_variance: Floats
    """[L,S,A]: the same of the sum of rewards."""

    @property
    def P(self) -> Floats:
        """The transitions as an array [L,S,A,S]."""
        L, S, A = self.r.shape
        if self.at is None:
            return self.p.reshape(L, S, A, S)
        found = np.zeros((L * S * A, S))
        found[np.repeat(np.arange(len(found)), np.diff(self.at)), self.to] = self.p[0]
        return found.reshape(L, S, A, S)


class ProvedBands(NamedTuple):
    """Bands of V* and Q*, and the parts of their widths that more people make smaller."""

    bands: Bands
    sampling: Floats
    """[H,S,A]: like a root."""
    noise: Floats
    """[H,S,A]: in proportion."""


def blank_rows(counters: Counters, rows: int) -> Rows:
    """A model to be written, with so many rows per pair."""
    _, S, A = counters.even.shape
    at, to = counters.rows
    places = (rows * S * A, S) if to is None else (1, len(to))
    return Rows(at, to, np.zeros(places), *(np.zeros((rows, S, A)) for _ in range(4)))


# `at` and `to` are None where every state can follow every row: the compiler then sees plain arrays.


@folded_kernel
def _follow(at: Ints | None, row: int, states: int) -> int:
    """How many states can follow a row."""
    if at is None:
        return states
    return int(at[row + 1] - at[row])


@folded_kernel
def _spread(at: Ints | None, p: Floats, row: int, share: float) -> None:
    """The same share for every successor of a row."""
    if at is None:
        for t in range(p.shape[1]):
            p[row, t] = share
    else:
        for c in range(at[row], at[row + 1]):
            p[0, c] = share


@folded_kernel
def _shares(at: Ints | None, to: Ints | None, p: Floats, row: int, counts: Floats, n: float, floor: float) -> None:
    """Counts above the floor as shares of n."""
    if at is None or to is None:
        for t in range(p.shape[1]):
            p[row, t] = counts[t] / n if counts[t] > floor else 0.0
    else:
        for c in range(at[row], at[row + 1]):
            p[0, c] = counts[to[c]] / n if counts[to[c]] > floor else 0.0


@folded_kernel
def _move(at: Ints | None, to: Ints | None, p: Floats, row: int, people: float, following: Floats) -> None:
    """Add where so many people of a row go."""
    if at is None or to is None:
        for t in range(len(following)):
            following[t] += people * p[row, t]
    else:
        for c in range(at[row], at[row + 1]):
            following[to[c]] += people * p[0, c]


@folded_kernel
def _mean(at: Ints | None, to: Ints | None, p: Floats, row: int, V: Floats) -> float:
    """The mean of V under a row."""
    mean = 0.0
    if at is None or to is None:
        for t in range(len(V)):
            mean += p[row, t] * V[t]
    else:
        for c in range(at[row], at[row + 1]):
            mean += p[0, c] * V[to[c]]
    return mean


@folded_kernel
def _ahead(at: Ints | None, to: Ints | None, p: Floats, row: int, V: Floats) -> tuple[float, float, float]:
    """The mean and the variance of V under a row, and Σ (V - mean)² over its possible successors."""
    mean, squares, spread = _mean(at, to, p, row, V), 0.0, 0.0
    if at is None or to is None:
        for t in range(len(V)):
            gap = V[t] - mean
            squares += p[row, t] * gap * gap
            spread += gap * gap
    else:
        for c in range(at[row], at[row + 1]):
            gap = V[to[c]] - mean
            squares += p[0, c] * gap * gap
            spread += gap * gap
    return mean, squares, spread


@folded_kernel
def _least(at: Ints | None, to: Ints | None, row: int, V: Floats) -> float:
    """The least V over the declared successors of a row; 0 at the end of an episode."""
    least = 0.0
    if at is not None and to is not None:
        for c in range(at[row], at[row + 1]):
            least = V[to[c]] if c == at[row] else min(least, V[to[c]])
    return max(0.0, least)


def _rows_work(
    at: Ints | None, to: Ints | None, single: Ints | None, moved: Floats, visits: Floats, rewards: Floats,
    weights: Floats, variance: Floats, kept: Kept, model: Rows,
) -> int:  # fmt: skip
    return 2 * int(moved.size) + 4 * int(visits.size)


@lazy_jit(_rows_work)
@kernel
def weighted_rows(
    at: Ints | None, to: Ints | None, single: Ints | None, moved: Floats, visits: Floats, rewards: Floats,
    weights: Floats, variance: Floats, kept: Kept, model: Rows,
) -> None:  # fmt: skip
    """Write the model of batches, moved, visits and rewards [B,H,S,A], under weights [W,S,A,B].

    moved is [B,H S A,S], or [B,1,cells] where row (h · S + s) · A + a has the successors to[at[row] : at[row+1]].
    variance [W,S,A] is w'Σw before projection. W is H, or 1 where all steps of a pooled row weigh the same.
    """
    B, H, S, A = visits.shape
    L, last_weight = model.r.shape[0], weights.shape[0] - 1
    row = np.zeros(S)
    for stage in range(L):
        first, stop = (stage, stage + 1) if L == H else (0, H)
        for s in range(S):
            for a in range(A):
                for t in range(S):
                    row[t] = 0.0
                seen, reward, v = 0.0, 0.0, 0.0
                for h in range(first, stop):
                    v = max(v, variance[min(h, last_weight), s, a])
                # Σ_h v_h kept_h, as the largest v_h times a sum of shares
                moves, met, paid, sure = 0.0, 0.0, 0.0, True
                for h in range(first, stop):
                    share = variance[min(h, last_weight), s, a] / v if v > 0.0 else 1.0
                    moves += share * kept.moves[h, s, a]
                    met += share * kept.visits[h, s, a]
                    paid += share * kept.rewards[h, s, a]
                    step = (h * S + s) * A + a
                    sure = sure and (h == H - 1 or _follow(at, step, S) == 0)
                    for b in range(B):
                        w = weights[min(h, last_weight), s, a, b]
                        seen += w * visits[b, h, s, a]
                        reward += w * rewards[b, h, s, a]
                        if h < H - 1:
                            if at is None or to is None:
                                for t in range(S):
                                    row[t] += w * moved[b, step, t]
                            else:
                                for c in range(at[step], at[step + 1]):
                                    row[to[c]] += w * moved[b, 0, c]
                            if single is not None and single[step] >= 0:
                                row[single[step]] += w * visits[b, h, s, a]
                place = (stage * S + s) * A + a
                successors = _follow(model.at, place, S)
                # Where nothing but the end or a single state follows, a row rests on its visits
                sure = sure and (successors <= 1 or (stop == H and first == H - 1))
                root = math.sqrt(v * met if sure else v * moves)  # of the noise that decides
                floor = max(0.5, 0.5 * root)
                n = seen
                if not sure:
                    n = 0.0
                    for t in range(S):
                        if row[t] > floor:
                            n += row[t]
                model.count_variance[stage, s, a] = 0.0 if sure else v * moves
                model.reward_variance[stage, s, a] = v * paid
                model.n[stage, s, a], model.r[stage, s, a] = 0.0, 0.0
                if n > max(0.5, ROW_FLOOR * root):
                    model.n[stage, s, a] = n
                    model.r[stage, s, a] = min(1.0, max(0.0, reward / (seen if seen > floor else n)))
                    if sure:
                        _spread(model.at, model.p, place, 1.0 if successors == 1 else 0.0)
                    else:
                        _shares(model.at, model.to, model.p, place, row, n, floor)
                else:
                    _spread(model.at, model.p, place, 0.0 if model.at is None else 1.0 / max(1, successors))


@kernel
def _first_by_both(first: Floats, second: Floats, coin: float) -> int:
    """The action with the largest `first`, of those the one with the largest `second`, of those one by the coin."""
    top = first.max() - 1e-12
    best = -np.inf
    for a in range(len(first)):
        if first[a] >= top:
            best = max(best, second[a])
    ties = 0
    for a in range(len(first)):
        ties += int(first[a] >= top and second[a] >= best)
    chosen, wanted = 0, min(ties - 1, int(coin * ties))
    for a in range(len(first)):
        if first[a] >= top and second[a] >= best:
            if wanted == 0:
                chosen = a
            wanted -= 1
    return chosen


@lean_kernel
def _proved(
    proved: ProvedBands, j: int, h: int, s: int, a: int, n: float, more: float, promise: float, value: float
) -> float:
    """What the bands say of an action to policy j: its upper bound, or whether it is excluded."""
    bands = proved.bands
    if j % EVERY != 0:
        return 0.0 if bands.q_upper[h, s, a] >= bands.lower[h, s] else -1.0
    if n <= 0.0:
        return float(min(bands.q_upper[h, s, a], promise))
    if j == 0:
        return float(bands.q_upper[h, s, a])
    left = n / (n + more)
    width = proved.sampling[h, s, a] * math.sqrt(left) + proved.noise[h, s, a] * left
    return float(max(bands.q_lower[h, s, a], min(bands.q_upper[h, s, a], value + width)))


def _optimists_work(
    model: Rows, proved: ProvedBands | None, rho: Floats, z: float, visits: float, enough: float, coins: Floats,
    policies: Ints,
) -> int:  # fmt: skip
    each = 4 if proved is None else 6
    return each * int(policies.size * model.r.shape[2]) * (1 + model.p.size // max(1, model.r.size))


@lazy_jit(_optimists_work)
@kernel
def optimists(
    model: Rows, proved: ProvedBands | None, rho: Floats, z: float, visits: float, enough: float, coins: Floats,
    policies: Ints,
) -> None:  # fmt: skip
    """Write policies[j,h,s]: optimistic ones, each planned with the visits that those before it will make.

    The promise of an unknown row holds until `enough` users are on their way; then it is less, in proportion.
    """
    J, H, S = policies.shape
    L, A = model.r.shape[0], model.r.shape[2]
    at, to, p = model.at, model.to, model.p
    fake = np.zeros((L, S, A))
    V, U = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    Q, first = np.zeros(A), np.zeros(A)
    here, following = np.zeros(S), np.zeros(S)
    for j in range(J):
        for h in range(H - 1, -1, -1):
            stage, remaining = min(h, L - 1), H - h
            for s in range(S):
                best, ties = -np.inf, 0
                for a in range(A):
                    n, more, row = model.n[stage, s, a], fake[stage, s, a], (stage * S + s) * A + a
                    whole = at is None
                    fade = 1.0
                    mean, squares, spread = 0.0, 0.0, 0.0
                    if h < H - 1 and (n > 0.0 or not whole):
                        mean, squares, spread = _ahead(at, to, p, row, V[h + 1])
                    if n <= 0.0:
                        fade = min(1.0, enough / max(more, 1e-9))
                        Q[a] = UNKNOWN_SHARE * (remaining if whole else 1) * fade + mean
                    else:
                        b = practical_width(
                            z, remaining, n + more, model.r[stage, s, a], squares, spread,
                            model.count_variance[stage, s, a], model.reward_variance[stage, s, a],
                        )  # fmt: skip
                        Q[a] = min(float(remaining), model.r[stage, s, a] + mean + b)
                    if proved is not None:
                        value = model.r[stage, s, a]
                        if n > 0.0 and j % EVERY == 0 and h < H - 1:
                            value += _mean(at, to, p, row, U[h + 1])
                        first[a] = _proved(proved, j, h, s, a, n, more, remaining * fade, value)
                    ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                    best = max(best, Q[a])
                V[h, s] = best
                if proved is not None:
                    U[h, s] = first.max()
                    policies[j, h, s] = _first_by_both(first, Q, coins[j, h, s])
                else:
                    policies[j, h, s] = _one_of_the_best(Q, best, ties, coins[j, h, s])
        for s in range(S):
            here[s] = rho[s]
        for h in range(H):
            stage = min(h, L - 1)
            for s in range(S):
                following[s] = 0.0
            for s in range(S):
                if here[s] > 0.0:
                    a = policies[j, h, s]
                    fake[stage, s, a] += visits * here[s]
                    _move(at, to, p, (stage * S + s) * A + a, here[s], following)
            for s in range(S):
                here[s] = following[s]


def _pessimist_work(model: Rows, horizon: int, z: float, coins: Floats) -> int:
    return 6 * horizon * int((model.p.size + model.r.size) // model.r.shape[0])


@lazy_jit(_pessimist_work)
@kernel
def pessimist(model: Rows, horizon: int, z: float, coins: Floats) -> Ints:
    """The policy[h,s] that is greedy for lower bounds; unknown rows earn nothing."""
    H, (L, S, A) = horizon, model.r.shape
    at, to, p = model.at, model.to, model.p
    policy = np.zeros((H, S), dtype=np.int64)
    V, W = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    Q = np.zeros(A)
    for h in range(H - 1, -1, -1):
        stage, remaining = min(h, L - 1), H - h
        for s in range(S):
            best, ties = -np.inf, 0
            for a in range(A):
                n, row = model.n[stage, s, a], (stage * S + s) * A + a
                Q[a] = 0.0
                if n > 0.0 or at is not None:
                    mean, squares, spread = 0.0, 0.0, 0.0
                    if h < H - 1:
                        mean, squares, spread = _ahead(at, to, p, row, W[h + 1])
                    if n <= 0.0:
                        Q[a] = _least(at, to, row, V[h + 1])
                    else:
                        low = _mean(at, to, p, row, V[h + 1]) if h < H - 1 else 0.0
                        b = practical_width(
                            z, remaining, n, model.r[stage, s, a], squares, spread,
                            model.count_variance[stage, s, a], model.reward_variance[stage, s, a],
                        )  # fmt: skip
                        Q[a] = model.r[stage, s, a] - min(b, float(remaining)) + low
                    W[h, s] = max(W[h, s], min(float(remaining), model.r[stage, s, a] + mean))
                ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                best = max(best, Q[a])
            V[h, s] = best
            policy[h, s] = _one_of_the_best(Q, best, ties, coins[h, s])
    return policy


def _mixture_work(model: Rows, rho: Floats, policies: Ints, users: Floats, found: Floats) -> int:
    return int(policies.size) * (1 + model.p.size // max(1, model.r.size))


@lazy_jit(_mixture_work)
@kernel
def mixture_visits(model: Rows, rho: Floats, policies: Ints, users: Floats, found: Floats) -> None:
    """Add the visits that users[j] of each policy[j,h,s] make in the model to found[L,S,A], step by step if L = H."""
    J, H, S = policies.shape
    L, A, last_found = model.r.shape[0], model.r.shape[2], found.shape[0] - 1
    here, following = np.zeros(S), np.zeros(S)
    for j in range(J):
        for s in range(S):
            here[s] = rho[s] * users[j]
        for h in range(H):
            stage = min(h, L - 1)
            for s in range(S):
                following[s] = 0.0
            for s in range(S):
                if here[s] > 0.0:
                    a = policies[j, h, s]
                    found[min(h, last_found), s, a] += here[s]
                    _move(model.at, model.to, model.p, (stage * S + s) * A + a, here[s], following)
            for s in range(S):
                here[s] = following[s]


def _policy_work(model: Rows, rho: Floats, users: float, shares: Floats, total: float, found: Floats) -> int:
    return int(shares.size) * (1 + model.p.size // max(1, model.r.size))


@lazy_jit(_policy_work)
@kernel
def policy_visits(model: Rows, rho: Floats, users: float, shares: Floats, total: float, found: Floats) -> None:
    """The same for users who take the actions by shares[h,s,a] of a total."""
    H, S, A = shares.shape
    L, last_found = model.r.shape[0], found.shape[0] - 1
    here, following = np.zeros(S), np.zeros(S)
    for s in range(S):
        here[s] = rho[s] * users
    for h in range(H):
        stage = min(h, L - 1)
        for s in range(S):
            following[s] = 0.0
        for s in range(S):
            for a in range(A):
                each = here[s] * shares[h, s, a] / total
                found[min(h, last_found), s, a] += each
                _move(model.at, model.to, model.p, (stage * S + s) * A + a, each, following)
        for s in range(S):
            here[s] = following[s]


def row_weights(visits: Floats, covariance: Floats, *, together: bool = False) -> tuple[Floats, Floats]:
    """Weights [L,S,A,B] of the batches in every row for expected visits m [L,S,A,B], and the variance w'Σw [L,S,A].

    w = (Σ + diag(m/4))⁻¹ m, scaled to a largest one of 1: a batch counts for what it has seen against its noise. Rows
    `together` are steps of one pooled row, whose noises are independent: the same formula, one scale for all of them.
    Rows without visits weigh nothing.
    """
    B = visits.shape[-1]
    within = (visits > 0.0).any(axis=-1)
    m, weights, variance = visits[within], np.zeros(visits.shape), np.zeros(within.shape)
    raw = np.linalg.solve(covariance + np.eye(B) * (m[..., np.newaxis] / 4.0), m[..., np.newaxis])[..., 0]
    weights[within] = np.maximum(raw, 0.0)
    weights /= np.maximum(weights.max(axis=(0, -1) if together else -1, keepdims=True), 1e-300)
    variance[within] = np.einsum("rb,bc,rc->r", weights[within], covariance, weights[within])
    return weights, variance
