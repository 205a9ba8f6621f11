"""The mixture of active policies that covers all active policies best: [bai2025secure] Eq. 3 over an explicit set.

    min over mixtures D of φ   sup over μ in φ   Σ V^μ(1_{h,s,a}) / V^D(1_{h,s,a})

Printed as a minimum over single policies, it needs mixtures for its value to be the number n of reachable coordinates
(at most H·S·A), with 0/0 = 0. Start from given atoms (the policies that visit one coordinate most), reweight them by
the multiplicative rule that climbs Σ log y, and add the policy that violates the certificate most until
sup ≤ (1 + tol) n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel
from tacit.planning.dynamic import occupancy
from tacit.planning.policy_set import PolicySet

__all__ = ["Mixture", "cover_by_mixture"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 40
SWEEPS = 100


class Mixture(NamedTuple):
    """Policies with weights, and the certificate of their coverage."""

    policies: Ints
    """[I, H, S]"""
    weights: Floats
    """[I]"""
    sup: float
    reached: int


def cover_by_mixture(
    active: PolicySet, P: Floats, rho: Floats, atoms: Ints, coins: np.random.Generator, *, tolerance: float
) -> Mixture:
    """Weights for the atoms, and further atoms from the active set where these leave something uncovered."""
    atoms = np.unique(atoms, axis=0)
    A = active.num_actions
    visits = np.array([occupancy(P, rho, np.eye(A)[policy]) for policy in atoms])
    weights = np.full(len(atoms), 1.0 / len(atoms))
    sup, reached = np.inf, 0
    for _ in range(ROUNDS):
        reweight(visits.reshape(len(visits), -1), weights, SWEEPS)
        y = np.tensordot(weights, visits, axes=1)
        reached = int((y > 0.0).sum())
        w = np.where(y > 0.0, 1.0 / np.where(y > 0.0, y, 1.0), 0.0)
        sup, worst = active.maximize(P, rho, w, coins)
        if sup <= (1.0 + tolerance) * reached:
            break
        atoms = np.concatenate([atoms, worst[None]])
        visits = np.concatenate([visits, occupancy(P, rho, np.eye(A)[worst])[None]])
        weights = np.append(weights * (1.0 - 1.0 / reached), 1.0 / reached)
    return Mixture(policies=atoms, weights=weights / weights.sum(), sup=float(sup), reached=reached)


@kernel
def reweight(visits: Floats, weights: Floats, sweeps: int) -> None:
    """weights_i ← weights_i <1/y, d_i> / n: each sweep raises Σ log y."""
    count, cells = visits.shape
    y = np.zeros(cells)
    for _ in range(sweeps):
        reached = 0
        for c in range(cells):
            y[c] = 0.0
            for i in range(count):
                y[c] += weights[i] * visits[i, c]
            reached += int(y[c] > 0.0)
        total = 0.0
        for i in range(count):
            score = 0.0
            for c in range(cells):
                if y[c] > 0.0:
                    score += visits[i, c] / y[c]
            weights[i] *= score / max(reached, 1)
            total += weights[i]
        for i in range(count):
            weights[i] /= total
