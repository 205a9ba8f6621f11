"""Central releases: batches on a public schedule, and the certificate of the trees."""

from __future__ import annotations

import dataclasses
import json
import math

import jsonschema
import numpy as np
import pytest
from contract_calls import shown

from tacit.accounting.certificate import Certificate, certificate_schema
from tacit.accounting.composition import epsilon_of, pure_epsilon_of
from tacit.accounting.events import LaplaceEvent
from tacit.audit.conformance import check_privatizer
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput
from tacit.noise.continual.accumulated import AccumulatedNoise
from tacit.noise.continual.factorization import BufferedToeplitz
from tacit.noise.continual.tree import tree_levels
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.central import geometric_ends
from tacit.release.counts_contract import count_precision
from tacit.release.request import PrivacyRequest
from tacit.release.table import MECHANISMS, make_privatizer
from tacit.released.counts import CountShape
from tacit.released.precision import now_radius, precision_log_term
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
SMALL = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
BATCHED = ["batched", "batched-factorization"]


def make(mechanism, *, shape=SHAPE, episodes=20_000, epsilon=1.0, delta=1e-6, calibration="tight", trust="central"):
    return make_privatizer(
        PrivacyRequest(
            trust=trust,
            shape=shape,
            episodes=episodes,
            epsilon=epsilon,
            delta=delta,
            calibration=calibration,
            mechanism=mechanism,
            users_per_batch=1,
        )
    )


def users(count, shape=SMALL, seed=0):
    rng = np.random.default_rng(seed)
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    return Trajectories(
        rng.integers(0, S, (count, H + 1)), rng.integers(0, A, (count, H)), rng.integers(0, 2, (count, H)).astype(float)
    )


@pytest.mark.parametrize("mechanism", BATCHED)
def test_nothing_is_published_between_two_ends_and_nothing_after_the_last(mechanism):
    privatizer = make(mechanism, shape=SMALL, episodes=100)
    state, noise, seen = privatizer.begin(), SimulationNoise(np.random.default_rng(0)), []
    for i in range(100):
        one = users(1, seed=i)
        before = state.released.transitions.copy()
        state, released = shown(privatizer, state, one, noise)
        if i + 1 in privatizer.ends:
            seen.append(i + 1)
            assert int(released.users[0]) == i + 1
            assert released.variance[0] == privatizer.counter.variance_at(len(seen))
            assert released.variance[1] == 2 * released.variance[0]
        else:
            np.testing.assert_array_equal(released.transitions, before)
            assert int(released.users[0]) == (seen[-1] if seen else 0)
    assert tuple(seen) == privatizer.ends
    assert privatizer.ends[-1] < 100


# Both conform as they are registered (`test_checks_conformance`), with fewer batches than users.
@pytest.mark.parametrize("mechanism", ["batched", pytest.param("batched-factorization", marks=pytest.mark.slow)])
def test_when_every_user_is_a_batch_the_shipped_conformance_suite_passes(mechanism):
    counter = {"batched": AccumulatedNoise, "batched-factorization": BufferedToeplitz}[mechanism]
    plain = make(mechanism, shape=SMALL, episodes=64)
    ends = tuple(range(1, 17))
    every = dataclasses.replace(plain, ends=ends, counter=counter.calibrate(plain.families(), 1.0, 1e-6, len(ends)))
    report = check_privatizer(every, replicates=100)
    assert {"continual", "families", "events", "variance", "independent", "precise"} <= set(report.passed)


def test_users_together_are_one_batch_like_users_one_by_one():
    privatizer = make("batched", shape=SMALL, episodes=100)
    batch = users(privatizer.ends[0])
    one, _ = shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(5)))
    counts = count_trajectories(batch, 2, 2)
    other, _ = shown(privatizer, privatizer.begin(), counts, SimulationNoise(np.random.default_rng(5)))
    np.testing.assert_array_equal(one.released.transitions, other.released.transitions)
    np.testing.assert_array_equal(one.released.rewards, other.released.rewards)
    assert int(other.stream.time[0]) == 1


def test_noise_of_the_counters_at_the_reference_instance():
    # (1, 1e-6), K = 20,000, H = 6: the printed tree, the same tree calibrated exactly, and the tight counters.
    std = {name: make(name).noise_std()["transitions"] for name in MECHANISMS["central"]}
    paper = make(None, calibration="paper").noise_std()["transitions"]
    # Counts are not padded: a prefix below 20,000 is a sum of at most 14 nodes of scale 3H⌈log₂K⌉/ε.
    assert paper == pytest.approx(3 * 6 * 15 * math.sqrt(2 * 14))
    assert std["factorization"] == pytest.approx(83.8, abs=0.1)
    assert paper / std["factorization"] == pytest.approx(17.05, abs=0.01)
    assert std["batched-factorization"] < std["batched"] < std["factorization"] < std["laplace-tree"]
    assert paper / std["batched-factorization"] == pytest.approx(27.95, abs=0.05)
    # With one batch only, the noise is that of a single release: sqrt(22) / mu(1, 1e-6).
    assert make("batched", episodes=2).noise_std()["transitions"] == pytest.approx(math.sqrt(22) / 0.2367, rel=2e-3)


@pytest.mark.parametrize("mechanism", BATCHED)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_certificate_is_the_claim(mechanism, epsilon):
    privatizer = make(mechanism, epsilon=epsilon)
    found = privatizer.certificate()
    assert epsilon * 0.999 < found.epsilon <= epsilon
    assert found.epsilon == epsilon_of(privatizer.events(), 1e-6)


@pytest.mark.parametrize("episodes", [2, 100, 1000, 1024, 20_000])
def test_the_printed_tree_is_certified_with_levels_and_replaced_users(episodes):
    # Every user is in ⌈log₂K⌉ nodes; replacing one moves 2H + 2H + 2(H - 1) counters: pure (6H - 2)/(3H) ε.
    privatizer = make(None, episodes=episodes, calibration="paper")
    levels = math.ceil(math.log2(episodes)) if episodes > 2 else 1
    assert tree_levels(episodes) == levels
    assert privatizer.events() == tuple(
        (LaplaceEvent(scale=18.0 * levels, shift=1.0, discrete=False), levels * differing) for differing in (10, 12, 12)
    )
    assert pure_epsilon_of(privatizer.events()) == pytest.approx(34 / 18)
    found = privatizer.certificate()
    assert found.claim.neighbours == "replace-one"
    assert "FALSE" in found.words


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trust", "mechanism", "delta"),
    [
        *[("central", name, 1e-6) for name in MECHANISMS["central"]],
        ("central", "batched", 0.0),
        ("local", "laplace", 0.0),
        ("local", "oue", 0.0),
    ],
)
def test_the_stated_precision_covers_every_number_of_every_release(trust, mechanism, delta):
    # Failure probability 0.2 for all numbers and releases of a run; 30 runs. More than 15 failing runs have probability
    # below 1e-4 if the radius is right. A quarter of the radius fails in most runs: the test has power.
    episodes, failure_prob = 40, 0.2
    privatizer = make(mechanism, shape=SMALL, episodes=episodes, delta=delta, trust=trust)
    precision, L = count_precision(privatizer), precision_log_term(SMALL, episodes, failure_prob)
    kernel, parameters = privatizer.kernel, privatizer.parameters
    worst = np.zeros(30)
    for seed in range(30):
        state, rng, visits, published = privatizer.begin(), np.random.default_rng([7, seed]), np.zeros((2, 2, 2)), 0
        crowd = users(episodes - 1, seed=seed)
        for states, actions, rewards in zip(crowd.states, crowd.actions, crowd.rewards, strict=True):
            kernel(parameters, state, Walked(states, actions, rewards), TOTALS, rng)
            visits[np.arange(2), states[:2], actions] += 1
            if int(state.released.users[0]) > published:
                published = int(state.released.users[0])
                radius = now_radius(precision, state.released.variance, 1, L)
                worst[seed] = max(worst[seed], float(np.abs(state.released.visits - visits).max()) / radius)
    assert (worst > 1.0).sum() <= 15
    assert (worst > 0.25).sum() > 15


def test_schedules_are_checked():
    privatizer = make("batched", shape=SMALL, episodes=100)
    for ends in ((), (0, 5), (5, 5), (9, 3), tuple(range(1, 90))):
        with pytest.raises(InvalidInput):
            dataclasses.replace(privatizer, ends=ends)
    with pytest.raises(InvalidInput, match="tight"):
        make("batched", calibration="paper")
    for episodes in (2, 3, 17, 1000):
        ends = geometric_ends(episodes, first=4, growth=1.3)
        assert ends[-1] < episodes
        assert list(ends) == sorted(set(ends))


@pytest.mark.parametrize("learner", ["sdp-pe", "bucb"])
def test_the_curve_covers_the_batches_of_every_kind_at_every_delta(learner):
    """The batch that costs most at the claim's delta need not do so at another one."""
    parts = assemble(
        RunConfig(
            environment="riverswim",
            learner=learner,
            episodes=20_000,
            seeds=(0,),
            trust="shuffle",
            epsilon=1.0,
            delta=1e-6,
        )
    )
    made, certificate = parts.privatizer, parts.certificate
    kinds = {channel.events() for channel in made.channels}
    for delta, epsilon in certificate.curve:
        assert epsilon == max(epsilon_of(events, delta) for events in kinds)
    assert certificate.others
    assert certificate.epsilon == epsilon_of(made.events(), 1e-6)
    again = Certificate.from_dict(certificate.to_dict())
    assert again == certificate
    assert again.derived() == certificate
    jsonschema.validate(json.loads(json.dumps(certificate.to_dict())), certificate_schema())
