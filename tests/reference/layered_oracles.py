"""The problems of adversarial MDPs, written down as they stand in the paper and handed to general solvers.

CVXPY with Clarabel for the two flows (parametrised, so that a sequence of problems is compiled once), HiGHS for upper
occupancy bounds. CVXPY is imported when a problem is built, because that alone takes seconds.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from scipy.optimize import linprog


def structure(geometry):
    """(pair of each triple, source state, target state) as arrays [triples]."""
    fans = np.diff(geometry.edges)
    pair = np.repeat(np.arange(len(fans)), fans)
    source = pair // geometry.actions
    layer = np.searchsorted(geometry.layers, source, side="right") - 1
    target = geometry.layers[layer + 1] + np.arange(len(pair)) - geometry.edges[pair]
    return pair, source, target


def incidence(rows, count, values=None):
    """Sparse [count, triples] with an entry for each triple in its row."""
    values = np.ones(len(rows)) if values is None else values
    return sparse.csr_matrix((values, (rows, np.arange(len(rows)))), shape=(count, len(rows)))


class EntropyProgram:
    """min <c,q> + Σ q ln q, parametrised by c, lo and hi."""

    def __init__(self, geometry):
        import cvxpy as cp

        pair, source, target = structure(geometry)
        X, W = int(geometry.layers[-1]), len(pair)
        into, out = incidence(target, X), incidence(source, X)
        flow_of_pair = incidence(pair, len(geometry.edges) - 1)
        spread = incidence(pair, len(geometry.edges) - 1).T  # back to triples
        self.pair = pair
        self.c, self.lo, self.hi = cp.Parameter(W), cp.Parameter(W, nonneg=True), cp.Parameter(W, nonneg=True)
        self.q = cp.Variable(W)
        Q = spread @ (flow_of_pair @ self.q)
        inner = np.arange(1, X - 1)
        constraints = [
            out[[0]] @ self.q == 1,
            cp.multiply(self.lo, Q) <= self.q,
            self.q <= cp.multiply(self.hi, Q),
        ]
        if len(inner):
            constraints.append(into[inner] @ self.q == out[inner] @ self.q)
        self.problem = cp.Problem(cp.Minimize(self.c @ self.q - cp.sum(cp.entr(self.q))), constraints)
        assert self.problem.is_dcp(dpp=True)

    def solve(self, costs, lo, hi):
        """The least cost."""
        self.c.value, self.lo.value, self.hi.value = costs[self.pair], lo, hi
        if np.isnan(run(self.problem)):
            return np.nan
        q = np.maximum(self.q.value, 1e-300)  # Clarabel's flows may be -1e-9, whose entropy is none
        return self.c.value @ q + q @ np.log(q)


class BarrierProgram:
    """min <c,q> + Σ q/q_k - ln q in the variable r = q/q_k, rows scaled by q_k: in q itself Clarabel often gives up."""

    def __init__(self, geometry):
        import cvxpy as cp

        self.pair, self.source, self.target = structure(geometry)
        X, W = int(geometry.layers[-1]), len(self.pair)
        firsts, lasts = geometry.edges[self.pair], geometry.edges[self.pair + 1]
        self.i = np.concatenate([np.full(b - a, i) for i, (a, b) in enumerate(zip(firsts, lasts, strict=True))])
        self.j = np.concatenate([np.arange(a, b) for a, b in zip(firsts, lasts, strict=True)])
        pick = incidence(self.j, W).T  # [entries, triples]: r_j of each (i, j)
        add = incidence(self.i, W)
        self.b = cp.Parameter(W)
        self.low, self.high = cp.Parameter(len(self.i), nonneg=True), cp.Parameter(len(self.i), nonneg=True)
        self.into, self.out = cp.Parameter(W, nonneg=True), cp.Parameter(W, nonneg=True)
        self.r = cp.Variable(W)
        inner = np.arange(1, X - 1)
        arrive, leave = incidence(self.target, X), incidence(self.source, X)
        constraints = [
            leave[[0]] @ cp.multiply(self.out, self.r) == 1,
            add @ cp.multiply(self.low, pick @ self.r) <= self.r,
            self.r <= add @ cp.multiply(self.high, pick @ self.r),
        ]
        if len(inner):
            constraints.append(
                arrive[inner] @ cp.multiply(self.into, self.r) == leave[inner] @ cp.multiply(self.out, self.r)
            )
        self.problem = cp.Problem(cp.Minimize(self.b @ self.r - cp.sum(cp.log(self.r))), constraints)
        assert self.problem.is_dcp(dpp=True)

    def solve(self, costs, previous, lo, hi):
        """The least cost Σ (c + 1/q_k) q - ln q."""
        self.b.value = costs[self.pair] * previous + 1
        self.low.value = lo[self.i] * previous[self.j] / previous[self.i]
        self.high.value = hi[self.i] * previous[self.j] / previous[self.i]
        weight = np.bincount(self.source, previous, minlength=self.target.max() + 1)
        weight[0], weight[-1] = 1.0, 1.0
        self.into.value, self.out.value = previous / weight[self.target], previous / weight[self.source]
        return run(self.problem) - np.log(previous).sum()


def run(problem):
    """Solve; NaN unless Clarabel says it is optimal."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver="CLARABEL")
        except cp.error.SolverError:
            return np.nan
    return float(problem.value) if problem.status == "optimal" else np.nan


def upper_programs(geometry, policy, lo, hi):
    """One linear programme (as arguments for linprog) for each state but the last: the largest q(x) for this policy."""
    pair, source, target = structure(geometry)
    X, W = int(geometry.layers[-1]), len(pair)
    pairs = len(policy)
    per_pair = incidence(pair, pairs)
    out, into = incidence(source, X), incidence(target, X)
    # q(x,a) = π(a|x) q(x), and q is a flow that starts with 1
    split = per_pair - sparse.diags(policy) @ sparse.kron(sparse.eye(X - 1), np.ones((geometry.actions, 1))) @ out[:-1]
    balance = out[1:-1] - into[1:-1]
    equal = sparse.vstack([out[[0]], balance, split]).tocsr()
    spread = per_pair.T @ per_pair
    bounds = sparse.vstack([sparse.diags(lo) @ spread - sparse.eye(W), sparse.eye(W) - sparse.diags(hi) @ spread])
    right = np.concatenate([[1.0], np.zeros(equal.shape[0] - 1)])
    return [
        {
            "c": -np.asarray(out[[x]].todense()).ravel(), "A_ub": bounds, "b_ub": np.zeros(2 * W),
            "A_eq": equal, "b_eq": right, "method": "highs",
            "options": {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        }
        for x in range(X - 1)
    ]  # fmt: skip


def upper_by_linear_programs(geometry, policy, lo, hi):
    """u(x,a) of every pair."""
    most = [-linprog(**program).fun for program in upper_programs(geometry, policy, lo, hi)]
    return np.repeat(most, geometry.actions) * policy
