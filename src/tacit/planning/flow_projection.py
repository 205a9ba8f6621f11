"""Flow projection: the counts of a batch moved to the nearest ones that people could have walked.

A batch's exact counts obey public linear laws, its noisy ones do not. With N_h(s,a,s') for h < H and, for every step,
R_h(s,a) and M_h(s,a) (visits that earned one and nothing),

    Σ_s' N_h(s,a,s') = R_h(s,a) + M_h(s,a)                         who moved on was there
    Σ_s,a N_h(s,a,t) = Σ_a R_{h+1}(t,a) + M_{h+1}(t,a)             who arrived is there
    Σ_s,a R_1(s,a) + M_1(s,a) = n                                  everybody started

the projection x - A'(AA')⁻¹(Ax - c) is the least-squares repair. It is post-processing, keeps unbiased counts unbiased,
and takes the leverage of a cell off its variance: var = σ² (1 - [A'(AA')⁻¹A]_cc).

AA' is invariant under renaming states and actions, so its inverse splits: deviations over actions, deviations over
states (pairs of two), and one chain of 2H - 1 means. A projection costs O(H S² A), like reading the counts.

The counters of a batch by index: which transitions are released, and which successors a row of the model has.

There is one index, over the declared support; where nothing is declared it is the full one, all counters of all rows.
That one has no lists: kernels are compiled for it as loops over plain arrays, from the same source.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.released.counts import CountShape, CountStatistics
from tacit.support import Support


class FlowCounts(NamedTuple):
    """The counts of one batch: visits with reward one [H,S,A] and with reward zero, and transitions.

    These are [H-1,S,A,S], or over a declared support one number for each that is released.
    """

    moved: Floats
    ones: Floats
    zeros: Floats


class Kept(NamedTuple):
    """How many counters' noise variance a cell of each row [H,S,A] carries after projection."""

    moves: Floats
    visits: Floats
    rewards: Floats


def project(counts: FlowCounts, people: float) -> FlowCounts:
    """The nearest counts that obey the laws of a flow of so many people.

    >>> H, S, A = 3, 2, 2
    >>> noise = np.random.default_rng(0)
    >>> x = FlowCounts(noise.normal(size=(H - 1, S, A, S)), noise.normal(size=(H, S, A)), noise.normal(size=(H, S, A)))
    >>> y = project(x, 10.0)
    >>> here = y.ones + y.zeros
    >>> bool(np.allclose(y.moved.sum(axis=3), here[:-1])), bool(np.allclose(y.moved.sum(axis=(1, 2)), here[1:].sum(2)))
    (True, True)
    """
    H, S, A = counts.ones.shape
    here = counts.ones + counts.zeros
    # Ax - c
    left = counts.moved.sum(axis=3) - here[:-1]
    arrived = counts.moved.sum(axis=(1, 2)) - here[1:].sum(axis=2)
    started = float(here[0].sum()) - people
    along, into, first = _multipliers(left, arrived, started)
    # x - A'λ
    moved = counts.moved - along[..., np.newaxis] - into[:, np.newaxis, np.newaxis, :]
    pull = np.zeros((H, S, A))
    pull[:-1] -= along
    pull[1:] -= into[..., np.newaxis]
    pull[0] += first
    return FlowCounts(moved=moved, ones=counts.ones - pull, zeros=counts.zeros - pull)


def _multipliers(left: Floats, arrived: Floats, started: float) -> tuple[Floats, Floats, float]:
    """(AA')⁻¹ applied to the violations: multipliers λ_h(s,a), μ_h(t) and ν.

    (S+2) λ_h(s,a) + Σ_t μ_h(t) + 2 μ_{h-1}(s) - 2ν 1{h=1}  = left_h(s,a)
    (S+2) A μ_h(t) + Σ_s,a λ_h(s,a) + 2 Σ_a λ_{h+1}(t,a)    = arrived_h(t)
    2SA ν - 2 Σ_s,a λ_1(s,a)                                = started
    """
    steps, S, A = left.shape
    if steps == 0:
        return left, arrived, started / (2.0 * S * A)
    over_actions = left.mean(axis=2)
    along = (left - over_actions[..., np.newaxis]) / (S + 2.0)
    # Deviations over states: (S+2) λ_{h+1} + 2 μ_h = l_{h+1} and (S+2) μ_h + 2 λ_{h+1} = a_h / A
    mean_left, mean_arrived = over_actions.mean(axis=1), arrived.mean(axis=1)
    l_tilde = over_actions - mean_left[:, np.newaxis]
    a_tilde = (arrived - mean_arrived[:, np.newaxis]) / A
    det = (S + 2.0) ** 2 - 4.0
    lam, mu = np.zeros((steps, S)), np.zeros((steps, S))
    lam[0] = l_tilde[0] / (S + 2.0)
    mu[-1] = a_tilde[-1] / (S + 2.0)
    lam[1:] = ((S + 2.0) * l_tilde[1:] - 2.0 * a_tilde[:-1]) / det
    mu[:-1] = ((S + 2.0) * a_tilde[:-1] - 2.0 * l_tilde[1:]) / det
    # Means: one chain over all steps
    chain = np.linalg.solve(_chain(steps, S, A), np.concatenate([mean_left, mean_arrived, [started]]))
    lam += chain[:steps, np.newaxis]
    mu += chain[steps : 2 * steps, np.newaxis]
    return along + lam[..., np.newaxis], mu, float(chain[-1])


@lru_cache(maxsize=64)
def _chain(steps: int, S: int, A: int) -> Floats:
    """The equations of the means: unknowns λ_1..λ_steps, μ_1..μ_steps, ν."""
    matrix = np.zeros((2 * steps + 1, 2 * steps + 1))
    for h in range(steps):
        matrix[h, h], matrix[h, steps + h] = S + 2.0, float(S)
        if h > 0:
            matrix[h, steps + h - 1] = 2.0
        matrix[steps + h, steps + h], matrix[steps + h, h] = (S + 2.0) * A, float(S * A)
        if h + 1 < steps:
            matrix[steps + h, h + 1] = 2.0 * A
    matrix[0, -1] = -2.0
    matrix[-1, -1], matrix[-1, 0] = 2.0 * S * A, -2.0 * S * A
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=64)
def kept_variance(horizon: int, num_states: int, num_actions: int) -> tuple[Floats, Floats]:
    """1 - leverage of a transition cell at each step [H-1], and of a reward cell at each step [H].

    >>> moved, rewards = kept_variance(6, 4, 2)
    >>> bool((moved < 1.0).all() and (rewards < 1.0).all())
    True
    """
    H, S, A = horizon, num_states, num_actions
    moved, rewards = np.zeros(H - 1), np.zeros(H)
    for h in range(H):
        if h < H - 1:
            unit = np.zeros((H - 1, S, A, S))
            unit[h, 0, 0, 0] = 1.0
            moved[h] = project(FlowCounts(unit, np.zeros((H, S, A)), np.zeros((H, S, A))), 0.0).moved[h, 0, 0, 0]
        one = np.zeros((H, S, A))
        one[h, 0, 0] = 1.0
        rewards[h] = project(FlowCounts(np.zeros((H - 1, S, A, S)), one, np.zeros((H, S, A))), 0.0).ones[h, 0, 0]
    for array in (moved, rewards):
        array.setflags(write=False)
    return moved, rewards


class _Blocks(NamedTuple):
    """The chain: diagonal blocks of T⁻¹ and those next to them, and what a solution needs."""

    inverse: list[Floats]
    """Of the pivots."""
    off: list[Floats]
    """T between block k and k + 1."""
    diagonal: list[Floats]
    """[k]: T⁻¹ at block k."""
    beside: list[Floats]
    """[k]: T⁻¹ between block k and k + 1."""


class SparseFlow:
    """The projection over a declared support: the same laws, over the counters that can move.

    With N_h(s,a,s') for rows of several successors, and R_h(s,a), M_h(s,a) (visits that earned one and nothing) for
    pairs within reach,

        Σ_s' N_h(s,a,s') = (R + M)_h(s,a)                                       multiplier λ: rows of several successors
        Σ N_h(·,·,t) + Σ_{(s,a) leads to t alone} (R + M)_h = Σ_a (R + M)_{h+1}(t,a)       μ_h(t): states within reach
        Σ_s,a (R + M)_1 = n                                                     ν

    the projection is x - A'(AA')⁻¹(Ax - c). In AA' the λ are diagonal, d = successors + cells of the pair: they are
    eliminated, and what is left couples ν, μ_1, μ_2, ... in a chain, a block tridiagonal matrix T, one block per step:

        T = AA'_μμ - Σ_rows u u' / d          u: what a row's λ shares with the μ of its own step and of the next one

    A cell c with the entry α in its λ and v in the μ has the leverage α²/d + (v - αu/d)' T⁻¹ (v - αu/d), and of T⁻¹
    only the blocks next to the diagonal are needed. Cost: O(H S³) once, O(cells + H S²) per projection.

    >>> line = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> flow = SparseFlow(line)
    >>> noise = np.random.default_rng(0)
    >>> ones, zeros = (noise.normal(size=(3, 3, 1)) * (flow.width > 0) for _ in range(2))
    >>> found = flow.project(FlowCounts(noise.normal(size=6), ones, zeros), 10.0)
    >>> [round(float((found.ones + found.zeros)[h].sum()), 9) for h in (0, 2)]
    [10.0, 10.0]
    """

    def __init__(self, support: Support) -> None:
        self.support = support
        H, S, A = support.horizon, support.num_states, support.num_actions
        cells = support.released
        self.shape = (H, S, A)
        self.cell = np.unravel_index(cells.moves, (max(1, H - 1), S, A, S))
        """(h, s, a, s') of every released transition."""
        self.width = np.zeros((H, S, A))
        """How many outcome cells a pair has."""
        self.width.reshape(-1)[cells.zeros] = 1.0
        self.width.reshape(-1)[cells.ones] += 1.0
        self.pays = np.zeros((H, S, A), dtype=bool)
        self.pays.reshape(-1)[cells.ones] = True
        rows = cells.moves // S
        self.rows, self.row_of, counts = np.unique(rows, return_inverse=True, return_counts=True)
        """Flat (h,s,a) of the rows with several successors, and the row of every released transition."""
        self.row = np.unravel_index(self.rows, (max(1, H - 1), S, A))
        self.d = counts + self.width[self.row]
        self.alone = np.nonzero(cells.single >= 0)
        self.leads = cells.single[self.alone]
        # Block 0 is ν; block k has the states that can be reached at step k.
        self.sizes = [1, *(int(support.reach[k].sum()) for k in range(1, H))]
        self.place = np.full((H, S), -1, dtype=np.int64)
        self.place[0] = 0
        for k in range(1, H):
            self.place[k, support.reach[k]] = np.arange(self.sizes[k])
        self._index()
        self.blocks = self._chain()
        self.kept_moves, self.kept_rewards = self._kept()
        visits, moves = self.width * self.kept_rewards, self.kept_moves.copy()
        moves[self.alone] = visits[self.alone]
        self.kept = Kept(moves, visits, self.kept_rewards * self.pays)

    def _index(self) -> None:
        """Flat places, prepared once: of multipliers μ (all blocks side by side) and of pairs (h,s,a)."""
        H, S, A = self.shape
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._splits = starts[1:-1]
        self._total = int(starts[-1])
        self._within = np.flatnonzero(self.support.reach[1:]) + S
        """Flat (h,s) within reach, from the second step on: block by block."""
        self._row_own = starts[self.row[0]] + self.place[self.row[0], self.row[1]]
        self._row_share = self._own()
        self._ahead = starts[self.cell[0] + 1] + self.place[self.cell[0] + 1, self.cell[3]]
        self._flat_alone = np.ravel_multi_index(self.alone, (max(1, H - 1), S, A))
        self._alone_ahead = starts[self.alone[0] + 1] + self.place[self.alone[0] + 1, self.leads]
        self._known = self.width > 0.0

    def project(self, counts: FlowCounts, people: float) -> FlowCounts:
        """The nearest counts that obey the laws of a flow of so many people."""
        H, S, A = self.shape
        here = counts.ones + counts.zeros
        flat = here.reshape(-1)
        # Ax - c
        left = np.bincount(self.row_of, counts.moved, len(self.rows)) - flat[self.rows]
        right = np.zeros(self._total)
        right[0] = float(here[0].sum()) - people
        right[1:] = -here.sum(axis=2).reshape(-1)[self._within]
        right += np.bincount(self._ahead, counts.moved, self._total)
        right += np.bincount(self._alone_ahead, flat[self._flat_alone], self._total)
        # The right side after elimination of the λ: minus Σ u · left/d
        scaled = left / self.d
        right -= np.bincount(self._row_own, self._row_share * scaled, self._total)
        right -= np.bincount(self._ahead, scaled[self.row_of], self._total)
        mu = np.concatenate(self._solve(np.split(right, self._splits)))
        # λ = (left - u'μ) / d
        ahead = mu[self._ahead]
        shared = np.bincount(self.row_of, ahead, len(self.rows)) + self._row_share * mu[self._row_own]
        lam = (left - shared) / self.d
        moved = counts.moved - lam[self.row_of] - ahead
        pull = np.zeros((H, S, A))
        pull.reshape(-1)[self.rows] -= lam
        pull.reshape(-1)[self._flat_alone] += mu[self._alone_ahead]
        pull[0] += mu[0]
        pull.reshape(-1, A)[self._within] -= mu[1:, np.newaxis]
        pull *= self._known
        return FlowCounts(moved=moved, ones=counts.ones - pull * self.pays, zeros=counts.zeros - pull)

    def _own(self) -> Floats:
        """What a row's λ shares with its own step: its outcome cells, against ν with the other sign."""
        return np.where(self.row[0] == 0, -1.0, 1.0) * self.width[self.row]

    def _rows_at(self, h: int) -> tuple[Ints, Floats, Floats]:
        """The rows of a step, their u in the own block [rows, size h] and in the next one [rows, size h + 1]."""
        which = np.flatnonzero(self.row[0] == h)
        own, ahead = np.zeros((len(which), self.sizes[h])), np.zeros((len(which), self.sizes[h + 1]))
        own[np.arange(len(which)), self.place[h, self.row[1][which]]] = self._own()[which]
        mine = np.flatnonzero(self.cell[0] == h)
        ahead[self.row_of[mine] - (which[0] if len(which) else 0), self.place[h + 1, self.cell[3][mine]]] = 1.0
        return which, own, ahead

    def _chain(self) -> _Blocks:
        H = self.shape[0]
        blocks = [np.zeros((size, size)) for size in self.sizes]
        off = [np.zeros((self.sizes[k], self.sizes[k + 1])) for k in range(H - 1)]
        blocks[0][0, 0] = self.width[0].sum()
        for k in range(1, H):
            blocks[k] += np.diag(self.width[k].sum(axis=1)[self.support.reach[k]])
        for h in range(H - 1):
            mine = self.cell[0] == h
            into = np.bincount(self.place[h + 1, self.cell[3][mine]], minlength=self.sizes[h + 1]).astype(np.float64)
            now = self.alone[0] == h
            s, a, t = self.alone[1][now], self.alone[2][now], self.place[h + 1, self.leads[now]]
            weight = self.width[h, s, a]
            into += np.bincount(t, weight, self.sizes[h + 1])
            blocks[h + 1] += np.diag(into)
            np.add.at(off[h], (self.place[h, s], t), weight if h == 0 else -weight)
            which, own, ahead = self._rows_at(h)
            scale = 1.0 / self.d[which][:, np.newaxis]
            blocks[h] -= own.T @ (own * scale)
            blocks[h + 1] -= ahead.T @ (ahead * scale)
            off[h] -= own.T @ (ahead * scale)
        inverse: list[Floats] = []
        for k in range(H):
            pivot = blocks[k] - (off[k - 1].T @ inverse[k - 1] @ off[k - 1] if k else 0.0)
            inverse.append(np.asarray(np.linalg.inv(pivot), dtype=np.float64))
        diagonal, beside = [inverse[-1]], list[Floats]()
        for k in range(H - 2, -1, -1):
            step = inverse[k] @ off[k]
            beside.insert(0, -step @ diagonal[0])
            diagonal.insert(0, inverse[k] + step @ diagonal[0] @ step.T)
        return _Blocks(inverse=inverse, off=off, diagonal=diagonal, beside=beside)

    def _solve(self, right: list[Floats]) -> list[Floats]:
        """T μ = right, block by block."""
        inverse, off = self.blocks.inverse, self.blocks.off
        y = [right[0]]
        for k in range(1, len(right)):
            y.append(right[k] - off[k - 1].T @ (inverse[k - 1] @ y[k - 1]))
        mu = [inverse[-1] @ y[-1]]
        for k in range(len(right) - 2, -1, -1):
            mu.insert(0, inverse[k] @ (y[k] - off[k] @ mu[0]))
        return mu

    def _joint(self, h: int) -> Floats:
        """T⁻¹ over the blocks of step h and of the next one."""
        diagonal, beside = self.blocks.diagonal, self.blocks.beside
        return np.block([[diagonal[h], beside[h]], [beside[h].T, diagonal[h + 1]]])

    def _kept(self) -> tuple[Floats, Floats]:
        """1 - leverage [H,S,A] of a transition cell, on average over the row, and of an outcome cell."""
        H, S, A = self.shape
        moves, outcomes = np.zeros((H, S, A)), np.zeros((H, S, A))
        sign = np.where(np.arange(H) == 0, 1.0, -1.0)
        for h in range(H):
            pairs = np.nonzero(self.width[h] > 0.0)
            if h == H - 1:
                at = self.place[h, pairs[0]]
                outcomes[h][pairs] = 1.0 - self.blocks.diagonal[h][at, at]
                continue
            joint, size = self._joint(h), self.sizes[h]
            which, own, ahead = self._rows_at(h)
            u = np.concatenate([own, ahead], axis=1) / self.d[which][:, np.newaxis]
            row = np.full((S, A), -1, dtype=np.int64)
            row[self.row[1][which], self.row[2][which]] = np.arange(len(which))
            single = self.support.released.single[h]
            # Outcomes: α = -1 in the λ of a row of several successors, else +1 at the only successor
            v = np.zeros((len(pairs[0]), joint.shape[0]))
            several = row[pairs] >= 0
            v[several] += u[row[pairs][several]]
            v[np.flatnonzero(~several), size + self.place[h + 1, single[pairs][~several]]] += 1.0
            v[np.arange(len(v)), self.place[h, pairs[0]]] += sign[h]
            alpha = np.where(several, 1.0 / self.d[which][np.maximum(row[pairs], 0)] if len(which) else 0.0, 0.0)
            outcomes[h][pairs] = 1.0 - alpha - np.einsum("ij,jk,ik->i", v, joint, v, optimize=True)
            # Transitions: α = +1, v = e_t
            mine = np.flatnonzero(self.cell[0] == h)
            if len(mine):
                of = self.row_of[mine] - which[0]
                v = -u[of]
                v[np.arange(len(mine)), size + self.place[h + 1, self.cell[3][mine]]] += 1.0
                left = 1.0 - 1.0 / self.d[which][of] - np.einsum("ij,jk,ik->i", v, joint, v, optimize=True)
                mean = np.bincount(of, left, len(which)) / np.bincount(of, minlength=len(which))
                moves[h, self.row[1][which], self.row[2][which]] = mean
        return np.maximum(moves, 0.0), np.maximum(outcomes, 0.0) * (self.width > 0.0)


class Successors(NamedTuple):
    """The states that can follow a row i: to[at[i] : at[i+1]], or all of them where both are None."""

    at: Ints | None
    """[rows + 1]"""
    to: Ints | None


def successors_of(cells: Ints, rows: int, num_states: int) -> Successors:
    """The successors that sorted cells, row * S + state, name.

    >>> [part.tolist() for part in successors_of(np.array([0, 2, 4]), 2, 3)]
    [[0, 2, 3], [0, 2, 1]]
    """
    return Successors(np.searchsorted(cells, np.arange(rows + 1) * num_states), cells % num_states)


class Counters:
    """The index of one shape: what is released of a batch, and the rows of a model, H per pair or 1 where pooled."""

    def __init__(self, shape: CountShape, *, pooled: bool) -> None:
        H, S, A = shape.horizon, shape.num_states, shape.num_actions
        pairs, support = S * A, shape.support
        self.full = support is None
        """Whether nothing is declared, and every counter is released."""
        reach = np.ones((H, S), dtype=bool) if support is None else support.reach
        self.starts = np.flatnonzero(reach[0])
        self.even = np.repeat((reach * (S / reach.sum(axis=1, keepdims=True)))[..., np.newaxis], A, axis=2)
        """[H,S,A]: times n / SA, the visits of n people who meet all pairs within reach alike."""
        self._flow = None if support is None else _sparse_flow(support)
        self.single: Ints | None = None
        """[H S A]: the only successor of a row without counters of transitions; -1 elsewhere; None: there are none."""
        self.shape: tuple[int, ...] = (H, S, A, S)
        """Of the released transitions of a batch."""
        self.cells = self.rows = Successors(None, None)
        """By step: which transitions are released. By row of the model: what can follow."""
        if self._flow is None:
            self.kept = _full_kept(H, S, A)
            return
        self.kept = self._flow.kept
        moves = shape.cells.moves
        self.shape = moves.shape
        self.cells = successors_of(moves, H * pairs, S)
        self.single = shape.cells.single.ravel()
        led = np.concatenate([moves, shape.cells.sure[1]])
        self.rows = successors_of(np.unique(led % (pairs * S) if pooled else led), (1 if pooled else H) * pairs, S)

    def taken(self, batch: CountStatistics) -> FlowCounts:
        """The released counts of a batch; transitions have `shape`."""
        moved = batch.transitions
        if self._flow is not None:
            moved = moved.reshape(-1)[self._flow.support.released.moves]
        return FlowCounts(moved, batch.rewards, batch.visits - batch.rewards)

    def by_row(self, transitions: Floats) -> Floats:
        """Released transitions of batches as kernels take them: [B,1,cells], or [B,rows,S] of all counters."""
        last = self.shape[-1]
        return transitions.reshape(len(transitions), math.prod(self.shape[:-1]), last)

    def project(self, counts: FlowCounts, people: float) -> FlowCounts:
        """The nearest counts that a flow of so many people can have."""
        if self._flow is not None:
            return self._flow.project(counts, people)
        found = project(counts._replace(moved=counts.moved[:-1]), people)
        return found._replace(moved=np.concatenate([found.moved, np.zeros_like(counts.moved[:1])]))


@lru_cache(maxsize=16)
def counters_of(shape: CountShape, pooled: bool) -> Counters:
    """The index of a shape, prepared once."""
    return Counters(shape, pooled=pooled)


@lru_cache(maxsize=16)
def _sparse_flow(support: Support) -> SparseFlow:
    return SparseFlow(support)


@lru_cache(maxsize=16)
def _full_kept(horizon: int, num_states: int, num_actions: int) -> Kept:
    """What the projection of all counters leaves of the variance in each row."""
    moves, rewards = kept_variance(horizon, num_states, num_actions)
    every = np.ones((1, num_states, num_actions))
    cells: Floats = rewards[:, np.newaxis, np.newaxis] * every
    return Kept(np.append(moves, 0.0)[:, np.newaxis, np.newaxis] * every, 2.0 * cells, cells)
