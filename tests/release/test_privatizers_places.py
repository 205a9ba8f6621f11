"""Running totals over a declared support, under every trust model: reductions, exact laws, conformance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.audit.conformance import check_privatizer
from tacit.audit.count_probe import exact_counts
from tacit.data.counts import count_trajectories, flow_counts
from tacit.data.trajectories import Trajectories
from tacit.environments.registry import make
from tacit.noise.layout import hot_cell, slot_bits
from tacit.noise.support_index import places_of, slots_of
from tacit.policies import uniform_policy
from tacit.protocol import TOTALS, Totals
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.request import PrivacyRequest
from tacit.release.table import MECHANISMS, make_privatizer
from tacit.released.counts import CountShape
from tacit.statistics.count_vectors import count_families, dimension_of
from tacit.support import Support

H, S, A = 3, 3, 2
CHAIN = Support(
    moves=[[[1, 1, 0], [1, 0, 0]], [[0, 1, 1], [1, 0, 0]], [[0, 0, 1], [0, 1, 0]]],
    horizon=H,
    starts=[1, 0, 0],
    rewards=[[0, 1], [1, 1], [1, 0]],
)
FULL = Support(moves=np.ones((S, A, S)), horizon=H)
EVERY = [(trust, name) for trust in ("central", "shuffle", "local") for name in MECHANISMS[trust]]
ONE_HOT = ("subset", "oue", "rr")


def totals(trust, mechanism=None, *, staged=True, support=CHAIN, **given):
    private = {"epsilon": None, "delta": None} if trust == "none" else {"epsilon": 1.0, "delta": 1e-6}
    shape = CountShape(horizon=H, num_states=S, num_actions=A, staged=staged, support=support)
    values = {"episodes": 200, "calibration": None, "users_per_batch": 40 if trust == "shuffle" else 1, **private}
    return make_privatizer(
        PrivacyRequest(asks=Totals, trust=trust, shape=shape, mechanism=mechanism, **{**values, **given})
    )


def wanderers(users=40, seed=0):
    """People who do whatever they like, the declaration notwithstanding."""
    coins = np.random.default_rng(seed)
    return Trajectories(
        coins.integers(0, S, (users, H + 1)), coins.integers(0, A, (users, H)), coins.random((users, H)).round()
    )


def released(privatizer, users, seed=1):
    noise = SimulationNoise(np.random.default_rng(seed))
    return privatizer.release(privatizer.begin(), users, TOTALS, noise)[1].statistics


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize(
    ("trust", "mechanism", "squares"),
    [("none", None, False), *((t, m, False) for t, m in EVERY if t != "shuffle" and m != "bounded"),
     ("local", "laplace", True), pytest.param("local", "bounded", False, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_full_support_changes_no_bit(trust, mechanism, squares, staged):
    given = {"staged": staged, "squares": squares}
    one, other = (totals(trust, mechanism, support=support, **given) for support in (None, FULL))
    for users in (wanderers(), count_trajectories(wanderers(), S, A)):
        assert all(np.array_equal(a, b) for a, b in zip(released(one, users), released(other, users), strict=True))


def test_a_full_support_has_the_noise_of_none_in_the_shuffler():
    one, other = (totals("shuffle", support=support) for support in (None, FULL))
    assert one.noise_std() == other.noise_std()  # labels are numbered in another order, so coins differ


@pytest.mark.parametrize("staged", [True, False])
def test_without_noise_a_true_declaration_leaves_the_counts_as_they_are(staged):
    river = make("riverswim:states=3,horizon=3")
    counts = flow_counts(river, uniform_policy(H, S, A), 200, np.random.default_rng(0))
    one, other = (released(totals("none", staged=staged, support=support), counts) for support in (None, river.support))
    for name in ("visits", "rewards", "squares", "users"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    sure = places_of(CountShape(horizon=H, num_states=S, num_actions=A, staged=staged, support=river.support)).sure_cell
    if not staged:  # pooled, a sure row counts the last step, too
        one.transitions.reshape(-1)[sure] = other.transitions.reshape(-1)[sure]
    assert np.array_equal(one.transitions, other.transitions)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_without_noise_people_who_contradict_are_counted_as_encoded(staged, exact):
    crowd = wanderers(60, 3)
    found = released(totals("none", staged=staged), count_trajectories(crowd, S, A) if exact else crowd)
    shape = CountShape(horizon=H, num_states=S, num_actions=A, staged=staged, support=CHAIN)
    for one, other in zip(found[:4], exact_counts(shape, crowd)[:4], strict=True):
        assert np.allclose(one, other, atol=1e-12)


def test_fewer_counters_fewer_slots_less_noise():
    sure = Support(moves=np.eye(S, dtype=bool)[[[1, 0], [2, 0], [2, 1]]], horizon=H)
    shape = CountShape(horizon=H, num_states=S, num_actions=A, staged=True, support=sure)
    assert [family.name for family in count_families(shape, "complement")] == ["rewards and complements"]
    assert slots_of(shape).tolist() == [0, 2, 4]
    some = (
        ("local", "subset"),
        ("local", "rr"),
        ("local", "gaussian"),
        ("central", "kary-tree"),
        ("shuffle", "binomial"),
    )
    for trust, name in some:
        dense = totals(trust, name, support=None)
        small = totals(trust, name, support=sure)
        assert small.noise_std()["rewards"] < dense.noise_std()["rewards"]
        assert small.certificate().epsilon <= 1.0
    assert dimension_of(CountShape(horizon=H, num_states=S, num_actions=A, staged=True, support=CHAIN)) == 6 + 8 + 12


def everybody():
    """Every trajectory of the chain's world, whether or not it can happen."""
    for states in itertools.product(range(S), repeat=H):
        for actions in itertools.product(range(A), repeat=H):
            for ones in ((0, 0, 0), (1, 1, 1), (0, 1, 0)):
                yield np.array([*states, 0]), np.array(actions), np.array(ones)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("mechanism", ONE_HOT)
def test_every_message_has_the_exact_mean_whatever_a_person_does(mechanism, staged):
    # The law of one slot's bits is known: the true category is one with probability keep, all others with rise. What
    # the server reads is linear in them, so its mean is what it reads of their means.
    privatizer = totals("local", mechanism, staged=staged, delta=0.0)
    shape, slots = privatizer.shape, slots_of(privatizer.shape)
    for states, actions, ones in itertools.islice(everybody(), 0, None, 7):
        user = Trajectories(states[np.newaxis], actions[np.newaxis], ones[np.newaxis].astype(float))
        messages = []
        for slot in map(int, slots):
            own = privatizer.transition if slot % 2 else privatizer.outcome
            keep, rise = (1.0 - own.flip, own.flip) if mechanism == "rr" else (own.keep, own.rise)
            hot, bits = hot_cell(shape, slot, states, actions, ones), slot_bits(shape, slot)
            assert 0 <= hot < bits
            mean = np.full(bits, rise)
            mean[hot] = keep
            messages.append(mean)
        if mechanism == "rr":
            read = privatizer.wire.debiased(np.concatenate(messages), 1)
        else:
            read = privatizer.wire.debiased(messages, [1] * len(slots)) / len(slots)
        found = privatizer.totals(privatizer.begin().released, read, 1)
        truth = exact_counts(shape, user)
        for name in ("transitions", "visits", "rewards"):
            assert np.allclose(getattr(found, name), getattr(truth, name), atol=1e-9)


def test_a_subset_costs_epsilon_over_all_messages_and_all_people():
    privatizer = totals("local", "subset", delta=0.0)
    shape, worst = privatizer.shape, 0.0
    for slot in map(int, slots_of(shape)):
        own = privatizer.transition if slot % 2 else privatizer.outcome
        d = slot_bits(shape, slot)
        assert own.cells == d
        categories = {hot_cell(shape, slot, *user) for user in everybody()}
        assert categories <= set(range(d))
        laws = []
        for hot in categories:
            with_it, without = math.comb(d - 1, own.size - 1), math.comb(d - 1, own.size)
            law = {
                some: own.keep / with_it if hot in some else (1.0 - own.keep) / without
                for some in itertools.combinations(range(d), own.size)
            }
            assert sum(law.values()) == pytest.approx(1.0)
            laws.append(law)
        worst = max(
            worst, *(math.log(one[some] / other[some]) for one, other in itertools.product(laws, laws) for some in one)
        )
    assert worst == pytest.approx(1.0, rel=1e-12)  # all of epsilon, and no more


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("mechanism", ONE_HOT)
def test_devices_with_secure_noise_send_the_categories_of_the_support(mechanism, staged):
    privatizer = totals("local", mechanism, staged=staged, delta=0.0, epsilon=60.0 * H)  # nearly no noise
    crowd = wanderers(6, 5)
    for states, actions, rewards in zip(crowd.states, crowd.actions, crowd.rewards, strict=True):
        message = privatizer.wire.total([privatizer.wire.encode((states, actions, rewards), SecureNoise())])
        assert message.shape == (privatizer.dimension,)
        one = Trajectories(states[np.newaxis], actions[np.newaxis], rewards[np.newaxis])
        noise = SimulationNoise(np.random.default_rng(0))
        kernel = privatizer.release(privatizer.begin(), one, TOTALS, noise)[0].message
        if mechanism == "rr":
            assert np.allclose(message, kernel[: privatizer.dimension], atol=1e-6)


QUICK = ("claim", "certificate", "families", "replay", "state", "silence", "fields")


@pytest.mark.parametrize(
    ("trust", "mechanism", "staged"),
    [("local", "subset", True), ("local", "rr", False), ("central", "kary-tree", True), ("shuffle", "binomial", False)],
)
def test_totals_over_a_support_conform(trust, mechanism, staged):
    delta = 1e-6 if trust == "shuffle" else 0.0
    privatizer = totals(trust, mechanism, staged=staged, delta=delta, episodes=40 if trust == "shuffle" else 9)
    assert check_privatizer(privatizer, only=QUICK).passed == QUICK


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize(("trust", "mechanism"), EVERY)
def test_totals_over_a_support_conform_to_every_rule(trust, mechanism, staged, reports):
    from tacit.accounting.claims import PrivacyUnit

    unit = PrivacyUnit(reports=reports, per_stage=1)
    privatizer = totals(trust, mechanism, staged=staged, unit=unit, episodes=80 if trust == "shuffle" else 9)
    assert {"families", "exposed", "unbiased", "variance"} <= set(check_privatizer(privatizer).passed)
