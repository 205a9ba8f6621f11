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
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats

__all__ = ["FlowCounts", "kept_variance", "project"]


class FlowCounts(NamedTuple):
    """The counts of one batch: transitions [H-1,S,A,S], visits with reward one [H,S,A] and with reward zero."""

    moved: Floats
    ones: Floats
    zeros: Floats


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
