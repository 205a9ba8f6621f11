"""Coverage of the proved widths: Q̃ ≥ Q* in closed loops under every kind of noise, and shrunk widths are caught.

Lemma W2 (private UCB-VI is optimistic), Lemma W3 (PUCB is optimistic): at most `failure_prob` of the runs may have any
release at which any Q̃ is below Q*. Lemma W5 (private UCB-PO is optimistic): the same for r + P Ṽ.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from contract_calls import shown, told
from learner_tools import shape_of, small_mdp

from tacit.data.counts import flow_counts
from tacit.learners.fixed_bonus import PUCB, PrivateUCBVI
from tacit.learners.private_po import PrivateUCBPO
from tacit.planning.dynamic import backward_induction
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import count_precision
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer

KINDS = {"pucb": PUCB, "vi": PrivateUCBVI}
WORLDS = (small_mdp(1, states=2, actions=2, horizon=2), small_mdp(3, states=3, actions=2, horizon=3))
TRUSTS = {
    "none": {"episodes": 6000, "epsilon": None, "delta": None, "mechanism": None},
    "central": {"episodes": 600_000, "epsilon": 1.0, "delta": 1e-6, "mechanism": "factorization"},
    "local": {"episodes": 6_000_000, "epsilon": 2.0, "delta": 0.0, "mechanism": "laplace"},
}
RUNS, RELEASES, FAILURE_PROB = 100, 6, 0.05
SHRUNK = {
    ("none", "pucb"): 0.15, ("none", "vi"): 0.2,
    ("central", "pucb"): 0.05, ("central", "vi"): 0.15,
    ("local", "pucb"): 0.03, ("local", "vi"): 0.2,
}  # fmt: skip
"""What the widths are multiplied by to see that misses would be noticed; PUCB takes the largest radius everywhere."""


@cache
def privatizer_of(world, trust):
    asked = TRUSTS[trust]
    shape = shape_of(WORLDS[world], staged=True)
    users = asked["episodes"] // RELEASES
    return make_privatizer(PrivacyRequest(trust=trust, shape=shape, calibration=None, users_per_batch=users, **asked))


def values(learner, belief, factor):
    """Q̃ with all widths multiplied by the factor."""
    return learner.plan(belief._replace(bonus=belief.bonus * factor), np.random.default_rng(0))[0].Q


def misses(world, trust, kind, factors, seed):
    """For each factor whether any Q̃ of one closed loop fell below Q*, and the share of rows below the ceiling."""
    mdp, privatizer, K = WORLDS[world], privatizer_of(world, trust), TRUSTS[trust]["episodes"]
    best, _, _ = backward_induction(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)
    learner = KINDS[kind](
        shape=shape_of(mdp, staged=True), episodes=K, precision=count_precision(privatizer), failure_prob=FAILURE_PROB
    )
    coins, noise = np.random.default_rng([seed, 0]), SimulationNoise(np.random.default_rng([seed, 1]))
    belief, state = learner.begin(), privatizer.begin()
    missed = np.zeros(len(factors), dtype=bool)
    for _ in range(RELEASES):
        belief, plan = learner.plan(belief, coins)
        state, released = shown(privatizer, state, flow_counts(mdp, plan.policy, K // RELEASES, coins), noise)
        belief = told(learner, belief, released)
        missed |= [(values(learner, belief, factor) < best - 1e-9).any() for factor in factors]
    ceiling = np.arange(mdp.horizon, 0, -1)[:, None, None]
    return missed, (values(learner, belief, 1.0) < ceiling).mean()


@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trust", TRUSTS)
def test_optimistic_values_cover_the_optimum_and_shrunk_widths_do_not(trust, kind):
    # 200 runs. The lemmas allow 5% of them to miss (more than 23 with probability < 1e-4). They are not that tight: of
    # 12 x 1,000 runs none missed, with 0.7 of the widths 2 and with 0.6 of them 12, all without noise; so none is
    # asserted, on fixed seeds, with false alarms below 1e-3 by extrapolation. Power: the shrunk widths, which missed in
    # at least 76% of 1,000 runs, must miss in half of these; and most rows must be below the ceiling, which covers all.
    found = [misses(world, trust, kind, (1.0, SHRUNK[trust, kind]), seed) for world in (0, 1) for seed in range(RUNS)]
    covered, shrunk = np.sum([missed for missed, _ in found], axis=0)
    assert covered == 0
    assert shrunk >= RUNS
    assert np.mean([below for _, below in found]) > 0.5


def evaluated(mdp, belief, factor):
    """How far the values Q̃ of the current policy are above r + P Ṽ at least, all widths multiplied by the factor."""
    H, least, V = mdp.horizon, np.inf, np.zeros(mdp.num_states)
    for h in range(H - 1, -1, -1):
        guess = belief.r_tilde[h] + (belief.P_tilde[h] @ V if h < H - 1 else 0.0) + factor * belief.bonus[h]
        Q = np.clip(guess, 0.0, H - h)
        least = min(least, (Q - mdp.stage_r[h] - mdp.stage_P[h] @ V).min())
        V = (belief.pi[h] * Q).sum(axis=1)
    return least


@pytest.mark.statistical
@pytest.mark.parametrize(("trust", "factor"), [("none", 0.2), ("central", 0.15), ("local", 0.2)])
def test_the_policy_at_hand_is_evaluated_optimistically_and_shrunk_widths_are_caught(trust, factor):
    # 100 runs; the lemma allows 5% of them to miss (more than 15 with probability < 1e-4). It is looser than that (a
    # union over all value functions): none is asserted, on fixed seeds. Power: shrunk widths miss in half of the runs.
    covered, shrunk, K = 0, 0, TRUSTS[trust]["episodes"]
    for world, mdp in enumerate(WORLDS):
        privatizer = privatizer_of(world, trust)
        shape, precision = shape_of(mdp, staged=True), count_precision(privatizer)
        learner = PrivateUCBPO(
            shape=shape, episodes=K, precision=precision, failure_prob=FAILURE_PROB, users_per_batch=K // RELEASES
        )
        for seed in range(RUNS // 2):
            coins, noise = np.random.default_rng([seed, 2]), SimulationNoise(np.random.default_rng([seed, 3]))
            belief, state, least = learner.begin(), privatizer.begin(), np.full(2, np.inf)
            for _ in range(RELEASES):
                belief, plan = learner.plan(belief, coins)
                state, released = shown(privatizer, state, flow_counts(mdp, plan.policy, K // RELEASES, coins), noise)
                before = belief.pi
                belief = told(learner, belief, released)
                asked = belief._replace(pi=before)
                least = np.minimum(least, [evaluated(mdp, asked, 1.0), evaluated(mdp, asked, factor)])
            covered, shrunk = covered + (least[0] < -1e-9), shrunk + (least[1] < -1e-9)
    assert covered == 0
    assert shrunk >= RUNS // 2
