"""The two-point oracle against the linear program, and coverage against brute force over all policies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planning_models import constrained_maximum
from scipy.optimize import linprog

from tacit.planning.coverage import inner, linear_maximum
from tacit.planning.dynamic import occupancy


def random_model(rng, horizon, S, A):
    """A sub-stochastic stage-dependent model: some rows end the episode."""
    P = rng.dirichlet(np.full(S, 0.5), size=(horizon, S, A)) * rng.random((horizon, S, A, 1))
    P[rng.random((horizon, S, A)) < 0.1] = 0.0
    return P, rng.dirichlet(np.ones(S))


def by_linear_program(P, rho, w, u, c):
    """max <w,d> over the flow polytope with <u,d> ≥ c, by HiGHS."""
    H, S, A = w.shape
    rows, right = [], []
    for h in range(H):
        for s in range(S):
            row = np.zeros((H, S, A))
            row[h, s] = 1.0
            if h > 0:
                row[h - 1] -= P[h - 1, :, :, s]
            rows.append(row.ravel())
            right.append(rho[s] if h == 0 else 0.0)
    found = linprog(-w.ravel(), A_ub=[-u.ravel()], b_ub=[-c], A_eq=np.array(rows), b_eq=right, method="highs")
    assert found.status == 0
    return -found.fun


def test_the_oracle_is_the_linear_program():
    rng = np.random.default_rng(0)
    programs = []
    for _ in range(150):
        S, A, H = rng.integers(1, 6), rng.integers(1, 4), rng.integers(1, 6)
        P, rho = random_model(rng, H, S, A)
        w, u = rng.random((H, S, A)), rng.random((H, S, A))
        high, low = linear_maximum(P, rho, u)[0], -linear_maximum(P, rho, -u)[0]
        c = low + (high - low) * rng.random()
        best = constrained_maximum(P, rho, w, u, c)
        assert best.value == pytest.approx(by_linear_program(P, rho, w, u, c), rel=1e-9, abs=1e-9)
        assert best.feasible
        assert inner(u, best.occupancy) >= c - 1e-9
        assert inner(w, best.occupancy) == pytest.approx(best.value, abs=1e-9)
        programs.append(best.programs)
    assert max(programs) <= 12  # a handful of dynamic programs
    assert sum(count > 2 for count in programs) > 30  # and the constraint was active often


def test_no_feasible_policy_is_worth_more():
    rng = np.random.default_rng(1)
    H, S, A = 2, 2, 2
    policies = np.array(list(itertools.product(range(A), repeat=H * S))).reshape(-1, H, S)
    for _ in range(30):
        P, rho = random_model(rng, H, S, A)
        w, u = rng.random((H, S, A)), rng.random((H, S, A))
        d = [occupancy(P, rho, np.eye(A)[policy]) for policy in policies]
        c = float(np.median([inner(u, each) for each in d]))
        allowed = [inner(w, each) for each in d if inner(u, each) >= c]
        assert constrained_maximum(P, rho, w, u, c).value >= max(allowed) - 1e-12


def test_a_constraint_that_nobody_meets_is_said():
    P, rho = np.ones((1, 1, 2, 1)), np.ones(1)
    w, u = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]])
    best = constrained_maximum(P, rho, w, u, 2.0)
    assert not best.feasible
    assert best.occupancy.ravel().tolist() == [0.0, 1.0]  # the one that comes nearest


def test_successors_of_the_last_step_change_nothing():
    """So they need not be collected: the last layer is released as visits only."""
    rng = np.random.default_rng(5)
    P, rho = random_model(rng, 3, 3, 2)
    other = P.copy()
    other[-1] = rng.dirichlet(np.ones(3), size=(3, 2))
    w, u = rng.random((3, 3, 2)), rng.random((3, 3, 2))
    first, second = (constrained_maximum(kernel, rho, w, u, 0.6) for kernel in (P, other))
    assert first.value == second.value
    assert first.occupancy.tobytes() == second.occupancy.tobytes()
