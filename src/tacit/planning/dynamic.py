"""Dynamic programming on tabular models: optimal values, values of policies, occupancy measures.

Index order is [h, s, a, s'], zero-based. A model may be given with a leading axis of length 1 (time-homogeneous) or H;
`min(h, len - 1)` reads both. Rows may sum to less than one: the missing mass ends the episode.
Cost: O(H S² A) for backward induction, O(H S²) for a deterministic policy.
"""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import inlined, kernel, lean_kernel
from tacit.lazy_jit import lazy_jit


@kernel
def backward_induction(P: Floats, r: Floats, horizon: int) -> tuple[Floats, Floats, Ints]:
    """Optimal Q[h,s,a], V[h,s] (with V[H] = 0) and the greedy policy[h,s] (first action on ties).

    >>> stay_or_move = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]])
    >>> reward = np.array([[[0.0, 0.0], [1.0, 0.0]]])
    >>> Q, V, policy = backward_induction(stay_or_move, reward, 3)
    >>> V[0].tolist(), policy[0].tolist()
    ([2.0, 3.0], [1, 0])
    """
    S, A = r.shape[1], r.shape[2]
    Q = np.zeros((horizon, S, A))
    V = np.zeros((horizon + 1, S))
    policy = np.zeros((horizon, S), dtype=np.int64)
    for h in range(horizon - 1, -1, -1):
        stage = min(h, P.shape[0] - 1)
        stage_r = min(h, r.shape[0] - 1)
        for s in range(S):
            for a in range(A):
                # Q_h(s,a) = r_h(s,a) + Σ_s' P_h(s'|s,a) V_{h+1}(s')
                total = 0.0
                for t in range(S):
                    total += P[stage, s, a, t] * V[h + 1, t]
                Q[h, s, a] = r[stage_r, s, a] + total
                if a == 0 or Q[h, s, a] > V[h, s]:
                    V[h, s] = Q[h, s, a]
                    policy[h, s] = a
    return Q, V, policy


def _solving(P: Floats, r: Floats, horizon: int) -> int:
    return horizon * int(P[0].size)


solve = lazy_jit(_solving)(backward_induction)
"""The same, called from Python."""


@kernel
def linear_values(P: Floats, w: Floats) -> tuple[Floats, Ints]:
    """V[h,s], the most of w[h,s,a] that any policy can still collect, and the first policy[h,s] that does."""
    H, S, A = w.shape
    V = np.zeros((H + 1, S))
    policy = np.zeros((H, S), dtype=np.int64)
    for h in range(H - 1, -1, -1):
        stage = min(h, P.shape[0] - 1)
        for s in range(S):
            for a in range(A):
                Q = w[h, s, a]
                if h < H - 1:
                    for t in range(S):
                        Q += P[stage, s, a, t] * V[h + 1, t]
                if a == 0 or Q > V[h, s]:
                    V[h, s] = Q
                    policy[h, s] = a
    return V, policy


@inlined
@lean_kernel
def evaluate_deterministic(P: Floats, r: Floats, policy: Ints, V: Floats) -> None:
    """Write the values of policy[h,s] into V[h,s]; V has H + 1 rows and its last one is set to zero."""
    horizon, S = policy.shape
    for step in range(horizon):
        h = max(0, horizon - 1 - step)  # visibly not negative: no index below is checked for counting from the end
        stage = h if P.shape[0] > 1 else 0
        stage_r = h if r.shape[0] > 1 else 0
        for s in range(S):
            a = policy[h, s]
            # V_h(s) = r_h(s,π(s)) + Σ_s' P_h(s'|s,π(s)) V_{h+1}(s')
            total = 0.0
            if h == horizon - 1:
                V[horizon, s] = 0.0
            else:
                for t in range(S):
                    total += P[stage, s, a, t] * V[h + 1, t]
            V[h, s] = r[stage_r, s, a] + total


@kernel
def evaluate_stochastic(P: Floats, r: Floats, policy: Floats) -> Floats:
    """V[h,s] of the policy with probabilities policy[h,s,a]."""
    horizon, S, A = policy.shape
    V = np.zeros((horizon + 1, S))
    for h in range(horizon - 1, -1, -1):
        stage = min(h, P.shape[0] - 1)
        stage_r = min(h, r.shape[0] - 1)
        for s in range(S):
            value = 0.0
            for a in range(A):
                if policy[h, s, a] > 0.0:
                    # V_h(s) = Σ_a π(a|s) [ r_h(s,a) + Σ_s' P_h(s'|s,a) V_{h+1}(s') ]
                    total = r[stage_r, s, a]
                    for t in range(S):
                        total += P[stage, s, a, t] * V[h + 1, t]
                    value += policy[h, s, a] * total
            V[h, s] = value
    return V


def _valuing(P: Floats, r: Floats, policy: Floats) -> int:
    return len(policy) * int(P[0].size)


value_of = lazy_jit(_valuing)(evaluate_stochastic)
"""The same, called from Python."""


@kernel
def occupancy(P: Floats, rho: Floats, policy: Floats) -> Floats:
    """d[h,s,a] = V^π(1_{h,s,a}, P): the probability that π visits s and plays a at step h.

    >>> P = np.array([[[[0.5, 0.5]], [[0.0, 1.0]]]])
    >>> occupancy(P, np.array([1.0, 0.0]), np.ones((2, 2, 1)))[1].ravel().tolist()
    [0.5, 0.5]
    """
    horizon, S, A = policy.shape
    d = np.zeros((horizon, S, A))
    at = rho.copy()
    for h in range(horizon):
        stage = min(h, P.shape[0] - 1)
        following = np.zeros(S)
        for s in range(S):
            for a in range(A):
                # d_h(s,a) = Pr(s_h = s) π_h(a|s);  Pr(s_{h+1} = s') = Σ_{s,a} d_h(s,a) P_h(s'|s,a)
                d[h, s, a] = at[s] * policy[h, s, a]
                if d[h, s, a] > 0.0:
                    for t in range(S):
                        following[t] += d[h, s, a] * P[stage, s, a, t]
        at = following
    return d


@inlined
@lean_kernel
def break_ties(Q: Floats, V: Floats, ties: Ints, policy: Ints, generator: np.random.Generator) -> None:
    """Write one of the best actions of each state, all alike, to policy[h,s]; V[h,s] is the best Q, `ties` counts them.

    At random: the first action would mean "left" in RiverSwim, which never explores.

    >>> policy = np.zeros((1, 1), dtype=np.int64)
    >>> Q, V, ties = np.array([[[1.0, 3.0, 3.0]]]), np.array([[3.0]]), np.array([[2]])
    >>> generator = np.random.default_rng(0)
    >>> chosen = set()
    >>> for _ in range(50):
    ...     break_ties(Q, V, ties, policy, generator)
    ...     chosen.add(int(policy[0, 0]))
    >>> sorted(chosen)
    [1, 2]
    """
    H, S, A = Q.shape
    for h in range(H):
        for s in range(S):
            # Without a branch that no processor could predict.
            skip, choice = int(generator.random() * ties[h, s]), 0
            for a in range(A):
                tied = int(Q[h, s, a] == V[h, s])
                choice = a if tied & (skip == 0) else choice
                skip -= tied
            policy[h, s] = choice
