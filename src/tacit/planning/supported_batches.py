"""What batches say about rows over a declared support, compiled: sums over the batches, and who met what.

Both are loops over index lists: released transitions, rows within reach, possible successors. What depends on the
support only is prepared once (`row_plan`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.planning.supported_flow import supported_flow
from tacit.support import Support
from tacit.tiers import tiered

__all__ = ["RowPlan", "batch_visits", "row_plan", "weighted_sums"]


class RowPlan(NamedTuple):
    """What the rows of a support look like, L = H of them per pair, or 1 when steps are pooled."""

    even: Floats
    """[rows within reach]: the share of a batch that meets each row if all pairs within reach are met alike."""
    within: Ints
    """Flat (l,s,a) of the rows within reach."""
    cell_row: Ints
    """The flat (l,s,a) of every released transition."""
    alone: Ints
    """The flat (h,s,a) of every step that has one successor only."""
    move_cells: Floats
    """[L,S,A]: how many cells' noise a transition of the model carries,"""
    visit_cells: Floats
    """a visit,"""
    reward_cells: Floats
    """and a reward."""


@lru_cache(maxsize=16)
def row_plan(support: Support, pooled: bool) -> RowPlan:
    """What depends on the support only."""
    flow = supported_flow(support)
    H, S, A = flow.shape
    # n_b spread evenly over the pairs within reach
    share = support.reach / (support.reach.sum(axis=1, keepdims=True) * A)
    share = share.sum(axis=0, keepdims=True) if pooled else share
    rows = np.repeat(share[:, :, np.newaxis], A, axis=2).reshape(-1)
    within = np.flatnonzero(rows > 0.0)
    each = 0 if pooled else 1
    h, s, a, _ = flow.cell
    cells = flow.kept_rewards * (flow.width > 0.0)
    moves = flow.kept_moves.copy()
    moves[flow.alone] = (flow.width * cells)[flow.alone]

    def total(steps: Floats) -> Floats:
        return steps.sum(axis=0, keepdims=True) if pooled else steps

    found = RowPlan(
        even=rows[within],
        within=within.astype(np.int64),
        cell_row=((each * h * S + s) * A + a).astype(np.int64),
        alone=np.ravel_multi_index(flow.alone, (max(1, H - 1), S, A)).astype(np.int64),
        move_cells=total(moves),
        visit_cells=total(flow.width * cells),
        reward_cells=total(cells * flow.pays),
    )
    for array in found:
        array.flags.writeable = False
    return found


def _sums_work(
    weights: Floats,
    moved: Floats,
    visited: Floats,
    ones: Floats,
    cell_row: Ints,
    cell: Ints,
    alone: Ints,
    sure: Ints,
    counts: Floats,
    visits: Floats,
    rewards: Floats,
) -> int:
    return 2 * int(moved.size) + 4 * int(visited.size)


@tiered(_sums_work)
@kernel
def weighted_sums(
    weights: Floats,
    moved: Floats,
    visited: Floats,
    ones: Floats,
    cell_row: Ints,
    cell: Ints,
    alone: Ints,
    sure: Ints,
    counts: Floats,
    visits: Floats,
    rewards: Floats,
) -> None:
    """Write Ñ = Σ_b w_b Ñ_b of successors, visits [L,S,A] and rewards [L,S,A] under weights [L S A, B].

    moved [B,cells], visited and ones [B,H,S,A]; `cell` and `sure` are the places of transitions and of only successors.
    """
    B, H, S, A = visited.shape
    L = visits.shape[0]
    for c in range(len(cell)):
        total = 0.0
        for b in range(B):
            total += weights[cell_row[c], b] * moved[b, c]
        counts[cell[c]] += total
    each = np.zeros((H, S, A))
    for h in range(H):
        stage = min(h, L - 1)
        for s in range(S):
            for a in range(A):
                row = (stage * S + s) * A + a
                seen, earned = 0.0, 0.0
                for b in range(B):
                    seen += weights[row, b] * visited[b, h, s, a]
                    earned += weights[row, b] * ones[b, h, s, a]
                each[h, s, a] = seen
                visits[stage, s, a] += seen
                rewards[stage, s, a] += earned
    led, flat = np.zeros(len(counts)), each.reshape(-1)
    for i in range(len(alone)):
        led[sure[i]] += flat[alone[i]]
    for c in range(len(counts)):
        counts[c] += led[c]


def _visits_work(
    start: Ints, to: Ints, p: Floats, rho: Floats, users: Floats, policies: Ints, each: Floats, first: Ints, met: Floats
) -> int:
    L, S, A, _ = met.shape
    return int(policies.size * (2 + len(to) // (L * S * A)) + 2 * policies.shape[1] * (len(to) // L + S * A))


@tiered(_visits_work)
@kernel
def batch_visits(
    start: Ints, to: Ints, p: Floats, rho: Floats, users: Floats, policies: Ints, each: Floats, first: Ints, met: Floats
) -> None:
    """Add the visits of users[b] people of every batch in the model to met [L,S,A,B].

    Batch b follows the policies first[b] .. first[b+1] of policies [J,H,S], each[j] people each; all actions alike if
    there are none.
    """
    L, S, A, B = met.shape
    H = policies.shape[1]
    at, following = np.zeros(S), np.zeros(S)
    for b in range(B):
        uniform = first[b] == first[b + 1]
        for j in range(first[b], first[b + 1] + int(uniform)):
            number = users[b] if uniform else each[j]
            for s in range(S):
                at[s] = rho[s] * number
            for h in range(H):
                stage = min(h, L - 1)
                following[:] = 0.0
                for s in range(S):
                    if at[s] > 0.0:
                        if uniform:
                            for a in range(A):
                                met[stage, s, a, b] += at[s] / A
                                row = (stage * S + s) * A + a
                                for c in range(start[row], start[row + 1]):
                                    following[to[c]] += p[c] * at[s] / A
                        else:
                            a = policies[j, h, s]
                            met[stage, s, a, b] += at[s]
                            row = (stage * S + s) * A + a
                            for c in range(start[row], start[row + 1]):
                                following[to[c]] += at[s] * p[c]
                for s in range(S):
                    at[s] = following[s]
