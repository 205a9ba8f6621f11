"""Regret: exact, from the realised first state, zero for the optimum and 8,884 for the uniform policy on RiverSwim."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import slow_planning as slow
from contract_calls import shown, told

from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.tabular_worlds import riverswim
from tacit.learners.fixed import FixedPolicy
from tacit.learners.ucbvi import UCBVI
from tacit.planning.dynamic import backward_induction
from tacit.policies import DeterministicPolicy, uniform_policy
from tacit.protocol import Totals
from tacit.randomness import SimulationNoise, seed_streams
from tacit.release.counts_contract import CountsState
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape, empty_counts
from tacit.simulation.simulate import simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "learners"))
from learner_tools import shape_of, small_mdp

RIVER = riverswim()
SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)


def reference(name, policy, mdp=RIVER, shape=SHAPE, episodes=20_000, seed=0):
    learner = FixedPolicy(name=name, policy=policy, shape=shape)
    return simulate(mdp, learner, Unprotected(shape=shape), episodes=episodes, seed=seed)


def test_the_optimum_has_no_regret():
    _, _, best = backward_induction(np.array(RIVER.stage_P), np.array(RIVER.stage_r), 6)
    run = reference("optimal", DeterministicPolicy(best))
    assert np.abs(run.regret).max() < 1e-9
    assert run.policy_changes == 1


def test_the_uniform_policy_costs_8884_on_riverswim():
    run = reference("uniform", uniform_policy(6, 4, 2))
    assert abs(run.regret[-1] - 8884) < 1.0
    np.testing.assert_allclose(run.regret, run.regret[-1] * run.episodes / 20_000, rtol=1e-12)
    assert run.policy_changes == 1


@pytest.mark.parametrize("speed", ["compiled", "interpreted"])
@pytest.mark.parametrize("staged", [True, False])
def test_regret_is_the_sum_of_exact_gaps_at_the_realised_first_states(speed, staged):
    # An episode-by-episode recomputation: same streams, slow evaluation, no cache of gaps.
    mdp, K = small_mdp(8), 40
    shape = shape_of(mdp, staged=staged)
    learner, privatizer = UCBVI(shape=shape, episodes=K, constants="practical"), Unprotected(shape=shape)
    run = simulate(mdp, learner, privatizer, episodes=K, seed=2, speed=speed, checkpoints=range(1, K + 1))
    streams, world = seed_streams(2), prepare_world(mdp)
    _, best = slow.optimal_values(mdp.P, mdp.r, mdp.horizon)
    belief, state, noise = learner.begin(), privatizer.begin(), SimulationNoise(streams.noise)
    total, expected, firsts = 0.0, [], set()
    for _ in range(K):
        belief, plan = learner.plan(belief, streams.learner)
        user = roll_out(world, plan.policy, 1, streams.world)
        first = int(user.states[0, 0])
        firsts.add(first)
        total += best[0, first] - slow.policy_values(mdp.P, mdp.r, plan.policy.probabilities(2))[0, first]
        expected.append(total)
        state, released = shown(privatizer, state, user, noise)
        belief = told(learner, belief, released)
    np.testing.assert_allclose(run.regret, expected, rtol=0, atol=1e-10)
    assert len(firsts) == 3


def test_batches_cost_what_their_first_states_cost():
    mdp, K = small_mdp(9), 1000
    shape = shape_of(mdp, staged=True)
    learner = UCBVI(shape=shape, episodes=K, constants="practical", users_per_batch=128)
    seen = []
    run = simulate(
        mdp, learner, Unprotected(shape=shape), episodes=K, seed=0, checkpoints=range(1, K + 1), progress=seen.append
    )
    # Eight plans, the last one for the 104 users that are left; within a batch the regret grows evenly.
    assert seen == [*range(128, 1000, 128), 1000]
    slopes = np.diff(np.append(0.0, run.regret))
    assert run.regret[-1] > 0.0
    for start, stop in zip([0, *seen], seen, strict=False):
        np.testing.assert_allclose(slopes[start:stop], slopes[start], rtol=1e-9, atol=1e-12)


def test_the_reference_policies_ask_nobody_to_report():
    class Witness:
        """A privatizer that must not be used."""

        name, shape, answers, kernel = "witness", SHAPE, Totals, None

        def begin(self):
            return CountsState(empty_counts(SHAPE))

        def release(self, state, users, query, noise):
            raise AssertionError("a fixed policy learns from nobody")

    learner = FixedPolicy(name="uniform", policy=uniform_policy(6, 4, 2), shape=SHAPE)
    run = simulate(RIVER, learner, Witness(), episodes=100, seed=0)
    assert run.regret[-1] > 0.0
