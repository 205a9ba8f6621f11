"""The prefix tree against brute force over all 512 policies of a small model, also in another model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planning_models import constrained_maximum, evaluate_many
from test_planning_constrained import random_model

from tacit.errors import NotSupported
from tacit.planning.coverage import cover
from tacit.planning.dynamic import occupancy
from tacit.planning.policy_set import cover_by_mixture, every_policy
from tacit.planning.widths import greedy

H, S, A = 3, 3, 2
POLICIES = np.array(list(itertools.product(range(A), repeat=H * S)), dtype=np.int64).reshape(-1, H, S)


def midway(values, share):
    """A threshold between two values, so that rounding decides nothing."""
    ordered = np.sort(values)
    at = int(share * (len(ordered) - 1))
    return float(0.5 * (ordered[at] + ordered[at + 1]))


def test_filter_maximum_and_membership_are_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(15):
        P, rho = random_model(rng, H, S, A)
        Q, sigma = random_model(rng, H, S, A)
        u, w = rng.random((H, S, A)), rng.random((H, S, A))
        values, others = evaluate_many(P, u, rho, POLICIES), evaluate_many(Q, w, sigma, POLICIES)
        everything = every_policy(horizon=H, num_states=S, num_actions=A)
        best, policy = everything.maximize(Q, sigma, w, rng)
        assert best == pytest.approx(others.max(), abs=1e-12)
        assert evaluate_many(Q, w, sigma, policy[None])[0] == pytest.approx(best, abs=1e-12)
        c = midway(values, 0.7)
        kept = everything.keep(P, rho, u, c)
        inside = values >= c
        assert kept.size == inside.sum() < everything.size
        assert [kept.contains(policy) for policy in POLICIES] == inside.tolist()
        # Branch and bound in another model than the one that decided who stays
        best, policy = kept.maximize(Q, sigma, w, rng)
        assert best == pytest.approx(others[inside].max(), abs=1e-12)
        assert kept.contains(policy)
        # Elimination never brings anybody back
        again = kept.keep(Q, sigma, w, midway(others[inside], 0.5))
        assert again.size == (inside & (others >= midway(others[inside], 0.5))).sum()


def test_keeping_everybody_keeps_the_set_full():
    rng = np.random.default_rng(1)
    P, rho = random_model(rng, H, S, A)
    everything = every_policy(horizon=H, num_states=S, num_actions=A)
    assert everything.keep(P, rho, np.zeros((H, S, A)), 0.0) is everything
    assert everything.keep(P, rho, np.zeros((H, S, A)), 0.0, strict=True).size == 0


def test_ties_are_broken_at_random():
    everything = every_policy(horizon=2, num_states=2, num_actions=2)
    P, rho, w = np.zeros((2, 2, 2, 2)), np.array([1.0, 0.0]), np.zeros((2, 2, 2))
    rng = np.random.default_rng(0)
    seen = {everything.maximize(P, rho, w, rng)[1].tobytes() for _ in range(60)}
    assert len(seen) > 8  # of 16; "always the first action" would be one
    coins = np.random.default_rng(0)
    drawn = [int(greedy(P, w, coins.random((2, 2)))[0, 0]) for _ in range(200)]
    assert 60 < sum(drawn) < 140  # five standard deviations around a fair coin


def test_more_policies_than_fit_are_refused_with_the_way_out():
    with pytest.raises(NotSupported, match="sdp-pe-plus"):
        every_policy(horizon=9, num_states=3, num_actions=2)
    assert every_policy(horizon=13, num_states=2, num_actions=2).size == 2**26


def test_implicit_and_explicit_agree_where_they_must():
    """The implicit set holds the mixtures of the explicit one: never less, equal without a constraint."""
    rng = np.random.default_rng(2)
    equal = 0
    for _ in range(30):
        P, rho = random_model(rng, H, S, A)
        u, w = rng.random((H, S, A)), rng.random((H, S, A))
        c = midway(evaluate_many(P, u, rho, POLICIES), 0.9)
        explicit = every_policy(horizon=H, num_states=S, num_actions=A)
        free = constrained_maximum(P, rho, w, u, -1.0).value
        assert free == pytest.approx(explicit.maximize(P, rho, w, rng)[0], abs=1e-12)
        listed, relaxed = explicit.keep(P, rho, u, c).maximize(P, rho, w, rng)[0], constrained_maximum(P, rho, w, u, c)
        assert relaxed.value >= listed - 1e-12
        equal += relaxed.value <= listed * (1 + 1e-9)
    assert 0 < equal < 30


def test_the_covering_mixture_is_certified_over_the_whole_set():
    rng = np.random.default_rng(3)
    for _ in range(5):
        P, rho = random_model(rng, H, S, A)
        u = rng.random((H, S, A))
        active = every_policy(horizon=H, num_states=S, num_actions=A).keep(
            P, rho, u, midway(evaluate_many(P, u, rho, POLICIES), 0.8)
        )
        atoms = []
        for h, s, a in itertools.product(range(H), range(S), range(A)):
            w = np.zeros((H, S, A))
            w[h, s, a] = 1.0
            atoms.append(active.maximize(P, rho, w, rng)[1])
        found = cover_by_mixture(active, P, rho, np.array(atoms), rng, tolerance=0.1)
        members = [policy for policy in POLICIES if active.contains(policy)]
        y = sum(
            weight * occupancy(P, rho, np.eye(A)[policy])
            for weight, policy in zip(found.weights, found.policies, strict=True)
        )
        sups = []
        for policy in members:
            d = occupancy(P, rho, np.eye(A)[policy])
            assert (y[d > 0] > 0).all()
            sups.append((d[y > 0] / y[y > 0]).sum())
        assert max(sups) <= 1.1 * found.reached + 1e-9
        assert found.sup == pytest.approx(max(sups), abs=1e-9)
        assert all(active.contains(policy) for policy in found.policies)
        implicit = cover(P, rho, u, -1.0, tolerance=0.1)
        assert found.reached <= implicit.reached
