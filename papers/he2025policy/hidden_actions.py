"""Theorem 4 of [he2025policy] under the paper's own Definition 2: the action is drawn by the mechanism and not output.

One user moves the batch gradient by R_a (1_a - π) / m, a ~ π, in the block of their state, with |R_a| <= R_max. So what
is released under a user is a mixture of Gaussians over a. The printed noise is σ = √(8 ln(1.25/δ)) R_max G / (m ε) with
G = √(1 - 1/A): a bound of the root mean square of ‖1_a - π‖, whose supremum is √2. So the proof is wrong, and with a
*known* action so is the statement (row 6 of the guarantees). With a hidden one, the hockey-stick divergence is jointly
convex: for every coupling γ of the actions a ~ π of one user and b ~ π' of the other,

    δ(ε) <= Σ_ab γ(a,b) δ_Gauss(ε, D_ab / σ),   D_ab = the largest distance of the two contributions over all rewards.

The least such bound is a linear program; it is maximised over policies. Users in different states move different
blocks, D_ab² = ‖1_a - π‖² + ‖1_b - π'‖²; for these the independent coupling is enough.

    python -m papers.he2025policy.hidden_actions

The maximum is searched on two-level policies and random ones, not proved; the margins are factors of 100 and more.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Final

import numpy as np
from scipy.optimize import linprog
from scipy.stats import norm

from tacit.arrays import Floats

__all__ = ["hidden_action_delta", "other_state_delta", "policies", "same_action_delta", "same_state_delta"]

EPSILON: Final = 1.0
DELTA: Final = 1e-5


def gaussian_delta(distance: Floats, epsilon: float = EPSILON) -> Floats:
    """δ(ε) of two Gaussians of deviation one at these distances: Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    mu = np.maximum(distance, 1e-12)
    return np.asarray(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def printed_sigma(actions: int, epsilon: float = EPSILON, delta: float = DELTA) -> float:
    """The printed σ in units of R_max / m: √(8 ln(1.25/δ)) √(1 - 1/A) / ε."""
    return math.sqrt(8.0 * math.log(1.25 / delta) * (1.0 - 1.0 / actions)) / epsilon


def policies(actions: int, grid: int = 40, random: int = 100) -> list[Floats]:
    """Policies with two levels of probability, and random ones."""
    rng = np.random.default_rng(0)
    found = [
        np.r_[np.full(k, p / k), np.full(actions - k, (1.0 - p) / (actions - k))]
        for k in range(1, actions)
        for p in np.linspace(1e-4, 1.0 - 1e-4, grid)
    ]
    return found + list(rng.dirichlet(np.full(actions, 0.5), random))


def same_action_delta(policy: Floats) -> float:
    """The bound with both users drawing the same action: Σ_a π(a) δ(2 ‖1_a - π‖ / σ)."""
    scores = np.linalg.norm(np.eye(len(policy)) - policy, axis=1)
    return float(policy @ gaussian_delta(2.0 * scores / printed_sigma(len(policy))))


def same_state_delta(policy: Floats) -> float:
    """The bound with the best coupling, two users in one state, whatever their rewards."""
    A = len(policy)
    scores = np.eye(A) - policy
    # Rewards R_a, R'_b in [-1, 1]: ‖R_a v_a - R'_b v_b‖ is convex in both, so it is largest at signs.
    apart = [np.linalg.norm(scores[:, None] + sign * scores[None], axis=-1) for sign in (1.0, -1.0)]
    cost = gaussian_delta(np.maximum(*apart) / printed_sigma(A))
    marginals = np.vstack([np.kron(np.eye(A), np.ones(A)), np.kron(np.ones(A), np.eye(A))])
    # Costs of 1e-6 are scaled up, for the solver's tolerances; one of the marginals follows from the others.
    found = linprog(1e6 * cost.ravel(), A_eq=marginals[:-1], b_eq=np.r_[policy, policy[:-1]], method="highs")
    return float(found.fun) * 1e-6


def other_state_delta(one: Floats, other: Floats) -> float:
    """The bound with independent actions, two users in two states."""
    squares = [1.0 - 2.0 * policy + policy @ policy for policy in (one, other)]
    cost = gaussian_delta(np.sqrt(squares[0][:, None] + squares[1][None]) / printed_sigma(len(one)))
    return float(one @ cost @ other)


@cache
def hidden_action_delta(actions: int, grid: int = 40) -> float:
    """The largest bound on δ at ε = 1 over all policies, for the noise that is printed for δ = 1e-5.

    >>> hidden_action_delta(2) < 1e-7
    True
    """
    tried = policies(actions, grid)
    thinned = tried[:: max(1, len(tried) // 60)]
    return max(
        max(same_state_delta(policy) for policy in tried),
        max(other_state_delta(one, other) for one in thinned for other in thinned),
    )


if __name__ == "__main__":
    for number in (2, 3, 4, 5, 10):
        alike = max(same_action_delta(policy) for policy in policies(number))
        sys.stdout.write(
            f"A = {number}: delta at epsilon 1 at most {hidden_action_delta(number):.2g} with hidden actions "
            f"(coupled action by action {alike:.2g}; claimed {DELTA:g})\n"
        )
