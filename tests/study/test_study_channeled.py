"""Channels as a privatizer: simulations run the stages of a study, question by question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from channel_tools import (
    EVERYTHING,
    SHAPE,
    SMALL,
    bits_channel,
    claim_of,
    local_plan,
    people,
    shuffle_basis,
)
from named_learners import make_learner

from tacit.data.counts import count_trajectories
from tacit.environments.registry import make_environment
from tacit.errors import InvalidInput, PrivacyBudgetExceeded, PrivacyViolation
from tacit.learners.contract import CountRequest, StageRequest
from tacit.planning.dynamic import evaluate_stochastic
from tacit.protocol import TOTALS, Totals, copy_state
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.counts_contract import count_precision, sampling_of, sum_precision
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery
from tacit.simulation.simulate import simulate
from tacit.simulation.worlds import world_of
from tacit.study.state import decode_state, encode_state

ENVIRONMENT = make_environment("riverswim")
POOLED = replace(SHAPE, staged=False)


def seeded(seed):
    return SimulationNoise(np.random.default_rng(seed))


def counts_learner(name, basis, *, episodes, users):
    request = CountRequest(
        name=name,
        shape=basis.shape,
        episodes=episodes,
        constants=None,
        z=None,
        users_per_batch=users,
        noisy=True,
        precision=sum_precision(basis),
        counts=count_precision(basis),
        sampling=sampling_of(basis),
        options={},
    )
    return make_learner(request), [StageSize(target=users, least=users // 2, query=TOTALS)] * (episodes // users)


def staged_learner(name, basis, *, episodes):
    learner = make_learner(
        StageRequest(name=name, shape=basis.shape, episodes=episodes, constants=None, z=None, noise=basis, options={})
    )
    return learner, [
        StageSize(target=batch.users, least=basis.least_of(batch.users), query=batch.query) for batch in learner.batches
    ]


def study(name):
    """A learner and the channels of its stages."""
    if name == "bucb":
        basis = shuffle_basis()
        learner, stages = staged_learner(name, basis, episodes=20_000)
    elif name == "ucbvi":
        basis = shuffle_basis(asks=Totals, users=2000, epsilon=4.0, least=Fraction(1, 2))
        learner, stages = counts_learner(name, basis, episodes=40_000, users=2000)
    else:
        basis = local_plan("subset", POOLED, epsilon=8.0, delta=0.0)
        learner, stages = counts_learner(name, basis, episodes=4000, users=400)
    return learner, Staged(channels=basis.channels(stages), basis=basis)


def value_of(policy):
    P, r = np.array(ENVIRONMENT.stage_P), np.array(ENVIRONMENT.stage_r)
    return float(ENVIRONMENT.rho @ evaluate_stochastic(P, r, policy.probabilities(ENVIRONMENT.num_actions))[0])


@pytest.mark.parametrize(("name", "episodes"), [("bucb", 20_000), ("ucbvi", 40_000), ("ldp-obi", 4000)])
def test_a_simulated_study_learns(name, episodes):
    """A fixed seed; a tenth of the way from the uniform policy to the best one, at the very least."""
    learner, privatizer = study(name)
    run = simulate(ENVIRONMENT, learner, privatizer, episodes=episodes, seed=1)
    best, uniform = world_of(ENVIRONMENT, learner.asks).values()
    assert value_of(run.policy) > uniform + 0.1 * (best - uniform)
    assert np.isfinite(run.regret).all()
    certificate = privatizer.certificate()
    assert certificate.holds
    assert certificate.epsilon <= privatizer.claim.epsilon


def test_secure_noise_releases_trajectories_and_refuses_counts():
    channel = bits_channel()
    privatizer = Staged(channels=(channel, channel), basis=shuffle_basis(SMALL))
    batch = people(SMALL, 9, 1)
    state, private = privatizer.release(privatizer.begin(), batch, EVERYTHING, SecureNoise())
    assert private.statistics.users.tolist() == [9]
    assert state.released is private.statistics
    assert "1 releases" in repr(state)
    with pytest.raises(TypeError, match="simulation noise"):
        privatizer.release(state, count_trajectories(batch, 2, 2), EVERYTHING, SecureNoise())


def test_stages_come_in_order_and_end():
    stages = [BatchQuery(layer=0, failure_prob=None), EVERYTHING]
    privatizer = Staged(channels=tuple(bits_channel(query=query) for query in stages), basis=shuffle_basis(SMALL))
    batch, state = people(SMALL, 9, 1), privatizer.begin()
    with pytest.raises(InvalidInput, match="asks for"):
        privatizer.release(state, batch, stages[1], seeded(1))
    with pytest.raises(InvalidInput, match="answers"):
        privatizer.release(state, batch, TOTALS, seeded(1))
    with pytest.raises(PrivacyViolation, match="needs 8"):
        privatizer.release(state, people(SMALL, 7, 1), stages[0], seeded(1))
    for query in stages:
        state, _ = privatizer.release(state, batch, query, seeded(1))
    with pytest.raises(PrivacyBudgetExceeded, match="all 2 stages"):
        privatizer.release(state, batch, EVERYTHING, seeded(1))


def test_a_state_survives_bytes_between_every_two_stages():
    channel = bits_channel(query=TOTALS)
    privatizer = Staged(channels=(channel,) * 4, basis=shuffle_basis(SMALL, asks=Totals))
    plain, stored, one, other = privatizer.begin(), privatizer.begin(), seeded(2), seeded(2)
    for stage in range(4):
        batch = people(SMALL, 10, stage)
        plain, wanted = privatizer.release(plain, batch, TOTALS, one)
        stored, found = privatizer.release(decode_state(encode_state(stored)), batch, TOTALS, other)
        assert encode_state(stored) == encode_state(plain)
        assert all(np.array_equal(a, b) for a, b in zip(found.statistics, wanted.statistics, strict=True))
    assert copy_state(plain).done == 4


@dataclass(frozen=True)
class Asked:
    """A channel of two questions: it counts how often a device encodes."""

    inner: ShuffleRelease
    encoded: list[int]
    questions = 2

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def encode(self, trajectory, noise):
        self.encoded.append(1)
        return self.inner.encode(trajectory, noise)


def test_people_are_encoded_once_however_many_questions_are_asked():
    channel = Asked(bits_channel(), [])
    privatizer = Staged(channels=(channel, channel), basis=shuffle_basis(SMALL))
    batch, state, source = people(SMALL, 9, 1), privatizer.begin(), seeded(3)
    answers = []
    for _ in range(2):
        state, private = privatizer.release(state, batch, EVERYTHING, source)
        answers.append(private.statistics)
        assert len(state.bodies) == (9 if len(answers) == 1 else 0)
    assert len(channel.encoded) == 9
    assert all(np.array_equal(a, b) for a, b in zip(*answers, strict=True))
    privatizer.release(state, batch, EVERYTHING, source)
    assert len(channel.encoded) == 18
    with pytest.raises(InvalidInput, match="asked once"):
        privatizer.release(privatizer.begin(), count_trajectories(batch, 2, 2), EVERYTHING, source)


def test_stages_of_several_kinds_are_refused():
    basis = shuffle_basis(SMALL)
    with pytest.raises(InvalidInput, match="one kind"):
        Staged(channels=(bits_channel(), bits_channel(query=TOTALS)), basis=basis)
    other = replace(bits_channel(), claim=claim_of("shuffle", epsilon=2.0))
    with pytest.raises(InvalidInput, match="one kind"):
        Staged(channels=(bits_channel(), other), basis=basis)
    with pytest.raises(InvalidInput, match="at least one stage"):
        Staged(channels=(), basis=basis).events()


def test_the_certificate_is_that_of_the_worst_stage():
    basis = shuffle_basis(overflow=0.0)
    sizes = [StageSize(target=users, least=basis.least_of(users), query=EVERYTHING) for users in (500, 1000, 2000)]
    privatizer = Staged(channels=basis.channels(sizes), basis=basis)
    costs = [Staged(channels=(channel,), basis=basis).certificate().epsilon for channel in privatizer.channels]
    assert privatizer.certificate().epsilon == max(costs) <= 1.0
    assert privatizer.noise_std()["rewards"] == max(channel.noise_std()["rewards"] for channel in privatizer.channels)
    assert [family.name for family in privatizer.families()] == ["transitions", "outcomes"]
