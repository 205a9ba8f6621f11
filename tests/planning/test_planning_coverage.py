"""Frank-Wolfe coverage: its certificate against brute force, reachable coordinates, and where it must not fail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planning_models import greatest_visit_probabilities
from test_planning_constrained import random_model

from tacit.planning.coverage import cover, inner, linear_maximum, policy_of
from tacit.planning.dynamic import occupancy

TOLERANCE = 0.02


def test_coverage_certified_by_brute_force_over_all_policies():
    rng = np.random.default_rng(0)
    H, S, A = 3, 2, 2
    policies = np.array(list(itertools.product(range(A), repeat=H * S))).reshape(-1, H, S)
    for _ in range(25):
        P, rho = random_model(rng, H, S, A)
        u = rng.random((H, S, A))
        c = 0.8 * linear_maximum(P, rho, u)[0]
        found = cover(P, rho, u, c, tolerance=TOLERANCE)
        assert inner(u, found.occupancy) >= c - 1e-9  # it lies in the set that it covers
        # n is the number of coordinates that some policy reaches, by an independent computation
        reachable = greatest_visit_probabilities(P, rho, H)
        assert found.reached == A * int((reachable > 0.0).sum())
        assert found.within(TOLERANCE)
        assert found.reached <= H * S * A
        y = found.occupancy
        sups = []
        for policy in policies:
            d = occupancy(P, rho, np.eye(A)[policy])
            if inner(u, d) >= c:
                sups.append(float((d[y > 0] / y[y > 0]).sum()))
                assert (y[d > 0] > 0).all()
        assert max(sups) <= (1 + TOLERANCE) * found.reached + 1e-9


def test_the_policy_of_an_occupancy_has_this_occupancy():
    rng = np.random.default_rng(2)
    P, rho = random_model(rng, 4, 3, 2)
    y = cover(P, rho, np.zeros((4, 3, 2)), 0.0, tolerance=0.05).occupancy
    np.testing.assert_allclose(occupancy(P, rho, policy_of(y)), y, atol=1e-12)


def test_layers_that_cannot_be_reached_are_zero_over_zero():
    P = np.zeros((2, 2, 2, 2))  # every row is unknown: the episode ends after the first step
    found = cover(P, np.array([1.0, 0.0]), np.zeros((2, 2, 2)), 0.0, tolerance=0.01)
    assert found.reached == 2
    assert found.sup == pytest.approx(2.0)
    np.testing.assert_allclose(policy_of(found.occupancy).sum(axis=2), 1.0)


def test_a_worse_tolerance_is_reached_sooner():
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(6, 0.3), size=(6, 6, 3))
    rho, u = np.eye(6)[0], np.zeros((6, 6, 3))
    strict, loose = (cover(P, rho, u, 0.0, tolerance=tolerance) for tolerance in (0.01, 0.5))
    assert loose.iterations < strict.iterations
    assert strict.sup < loose.sup
