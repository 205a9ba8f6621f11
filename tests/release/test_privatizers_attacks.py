"""Two attacks that recover exact counts from the public reference code of private UCB-VI, and what they find here.

That code draws one noise per episode and adds it to every cell (its local learner), and draws fresh noise for the same
exact counts at every call (its central learner). So a difference of two cells is exact in the first case, and the mean
over calls is exact in the second. An attack that names the exact count with probability p in both of two neighbouring
worlds needs p ≤ e^ε (1 - p) + δ, that is p ≤ 0.7311 at ε = 1: this is the line that no release may cross.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from contract_calls import shown

from tacit.data.trajectories import Trajectories, Walked
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.request import PrivacyRequest
from tacit.release.table import MECHANISMS, make_privatizer
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=3, num_states=4, num_actions=2, staged=True)
EPSILON = 1.0
LINE = math.exp(EPSILON) / (1.0 + math.exp(EPSILON)) + 1e-6
CALLS = 256
PRIVATE = [(trust, name) for trust in ("central", "shuffle", "local") for name in MECHANISMS[trust]]


def privatizer_of(trust, mechanism, *, episodes=CALLS + 1):
    return make_privatizer(
        PrivacyRequest(
            trust=trust,
            shape=SHAPE,
            episodes=episodes,
            epsilon=EPSILON,
            delta=1e-6,
            calibration="tight",
            mechanism=mechanism,
            users_per_batch=64 if trust == "shuffle" else 1,
        )
    )


def users(count, seed):
    """Users who avoid state 3: its cells are known to be empty, which is what an attacker starts from."""
    rng = np.random.default_rng(seed)
    H = SHAPE.horizon
    return Trajectories(
        rng.integers(0, 3, (count, H + 1)), rng.integers(0, 2, (count, H)), rng.integers(0, 2, (count, H)).astype(float)
    )


def exact_transitions(batch):
    counts = np.zeros((SHAPE.horizon, 4, 2, 4))
    for states, actions in zip(batch.states, batch.actions, strict=True):
        for h in range(SHAPE.horizon - 1):
            counts[h, states[h], actions[h], states[h + 1]] += 1
    return counts[: SHAPE.horizon - 1]


def recovered(estimates, truth):
    """The share of cells whose exact count the attack names."""
    return float(np.mean(np.abs(estimates - truth) < 0.5))


def difference_of_cells(released):
    """N(s,a,s') = Ñ(s,a,s') - Ñ(3,0,s'), since nobody was in state 3."""
    return released - released[:, 3:4, 0:1, :]


def shared_noise_twin(exact, rng):
    """The bug: one draw per successor, added to every cell."""
    return exact + rng.laplace(0.0, 10.0, (1, 1, 1, exact.shape[-1]))


def redrawn_noise_twin(exact, rng):
    """The bug: at every call fresh noise on the same exact counts (as many terms as a tree would have)."""
    terms = int(math.log2(CALLS))
    return exact + rng.laplace(0.0, 1.0 / EPSILON, (terms, *exact.shape)).sum(axis=0)


def target_cells(values):
    """Cells other than the attacker's own reference."""
    return values[:, :3]


@pytest.mark.statistical
@pytest.mark.parametrize(("trust", "mechanism"), PRIVATE)
def test_a_difference_of_cells_recovers_nothing(trust, mechanism):
    # 40 releases of 48 cells. Shares found are below 0.1; with them a false alarm at 0.73 is 20 standard errors away.
    privatizer = privatizer_of(trust, mechanism)
    shares = []
    for seed in range(40):
        batch = users(64, seed)
        noise = SimulationNoise(np.random.default_rng([1, seed]))
        _, released = shown(privatizer, privatizer.begin(), batch, noise)
        covered = Trajectories(
            *(part[: int(released.users[0])] for part in (batch.states, batch.actions, batch.rewards))
        )
        estimates = difference_of_cells(released.transitions[: SHAPE.horizon - 1])
        shares.append(recovered(target_cells(estimates), target_cells(exact_transitions(covered))))
    assert np.mean(shares) < LINE


def test_a_difference_of_cells_recovers_everything_from_the_broken_twin():
    rng = np.random.default_rng(0)
    for seed in range(40):
        exact = exact_transitions(users(64, seed))
        estimates = difference_of_cells(shared_noise_twin(exact, rng))
        assert recovered(target_cells(estimates), target_cells(exact)) == 1.0 > LINE


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS["central"])
def test_averaging_over_calls_recovers_nothing(mechanism):
    # The first user walks once; the others sit in state 0, action 0. All other cells keep their counts over 256 calls.
    privatizer = privatizer_of("central", mechanism)
    kernel, parameters = privatizer.kernel, privatizer.parameters
    sitting = Walked(np.zeros(SHAPE.horizon + 1, np.int64), np.zeros(SHAPE.horizon, np.int64), np.zeros(3))
    shares = []
    for seed in range(20):
        victim, rng, state = users(1, seed), np.random.default_rng([2, seed]), privatizer.begin()
        total, calls = np.zeros((SHAPE.horizon - 1, 4, 2, 4)), 0
        for call in range(CALLS):
            walked = Walked(victim.states[0], victim.actions[0], victim.rewards[0]) if call == 0 else sitting
            kernel(parameters, state, walked, TOTALS, rng)
            if int(state.released.users[0]) > 0:
                total += state.released.transitions[: SHAPE.horizon - 1]
                calls += 1
        unchanged = np.ones((SHAPE.horizon - 1, 4, 2, 4), dtype=bool)
        unchanged[:, 0, 0, 0] = False
        shares.append(recovered((total / calls)[unchanged], exact_transitions(victim)[unchanged]))
    assert np.mean(shares) < LINE


@pytest.mark.statistical
def test_averaging_over_calls_recovers_the_counts_of_the_broken_twin():
    # Noise of deviation 4 over 256 calls: 0.25, so that 95% of the counts are named; a share of 0.9 is 5 errors below.
    rng = np.random.default_rng(3)
    shares = []
    for seed in range(20):
        exact = exact_transitions(users(1, seed))
        mean = np.mean([redrawn_noise_twin(exact, rng) for _ in range(CALLS)], axis=0)
        shares.append(recovered(mean, exact))
    assert np.mean(shares) > 0.9 > LINE
