"""Counters, labels and sensitivities of a shuffled release, by brute force on small worlds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput
from tacit.statistics.count_spec import ReleaseSpec

SMALL = {"num_states": 2, "num_actions": 2, "horizon": 2}
REFERENCE = {"num_states": 4, "num_actions": 2, "horizon": 6}
SPECS = {
    "fine": ReleaseSpec.fine(**SMALL),
    "as printed": ReleaseSpec.fine(**SMALL, last_transition=True),
    "one-hot": ReleaseSpec.one_hot(**SMALL),
    "crude": ReleaseSpec.crude(**SMALL, layer=0),
    "crude with visits": ReleaseSpec.crude(**SMALL, layer=0, visits=True),
    "transitions, last visits, rewards": ReleaseSpec(
        **SMALL, transitions=(0,), visits=(1,), rewards=(0, 1), outcomes=()
    ),
}


def every_trajectory():
    cells = [range(2)] * 7
    for *states, a0, a1, r0, r1 in itertools.product(*cells):
        yield np.array(states), np.array([a0, a1]), np.array([r0, r1])


def random_batch(users, seed, *, num_states, num_actions, horizon):
    rng = np.random.default_rng(seed)
    return Trajectories(
        rng.integers(0, num_states, (users, horizon + 1)),
        rng.integers(0, num_actions, (users, horizon)),
        rng.integers(0, 2, (users, horizon)).astype(float),
    )


@pytest.mark.parametrize("name", SPECS)
def test_families_are_the_worst_replacement_found_by_enumeration(name):
    """All pairs of one-user contributions: how many counters go up, how many down, by how much, in each family."""
    spec = SPECS[name]
    vectors = np.unique(
        [np.bincount(spec.labels(*user), minlength=spec.num_counters) for user in every_trajectory()], axis=0
    )
    change = vectors[:, None] - vectors[None]
    assert np.abs(change).max() == 1
    start = 0
    for family in spec.families():
        layers = len(getattr(spec, family.name))
        cells = {"transitions": 8, "visits": 4, "rewards": 4, "outcomes": 8}[family.name]
        part = change[..., start : start + layers * cells]
        assert (family.up, family.down) == ((part == 1).sum(-1).max(), (part == -1).sum(-1).max())
        start += layers * cells
    assert start == spec.num_counters
    # One pair attains every maximum at once, so the total is exact too.
    assert spec.differing == np.abs(change).sum(-1).max()
    assert vectors.sum(axis=1).max() == spec.slots


def test_the_numbers_of_differing_counters_of_the_design():
    assert ReleaseSpec.fine(**REFERENCE, last_transition=True).differing == 36
    assert ReleaseSpec.fine(**REFERENCE).differing == 34
    assert ReleaseSpec.one_hot(**REFERENCE).differing == 22
    assert ReleaseSpec.crude(**REFERENCE, layer=5, visits=True).differing == 4
    assert ReleaseSpec.crude(**REFERENCE, layer=0).differing == 2
    assert ReleaseSpec.one_hot(**REFERENCE).num_counters == 160 + 96
    assert ReleaseSpec.fine(**REFERENCE, last_transition=True).num_counters == 192 + 48 + 48


@pytest.mark.parametrize("name", SPECS)
def test_labels_counted_over_users_are_the_exact_counters(name):
    spec = SPECS[name]
    batch = random_batch(200, 3, **SMALL)
    counted = np.zeros(spec.num_counters)
    for states, actions, rewards in zip(batch.states, batch.actions, batch.rewards.astype(int), strict=True):
        counted += np.bincount(spec.labels(states, actions, rewards), minlength=spec.num_counters)
    exact = count_trajectories(batch, 2, 2)
    np.testing.assert_array_equal(
        counted, spec.counters(exact.transitions, exact.visits, exact.rewards.astype(np.int64))
    )


@pytest.mark.parametrize("name", SPECS)
def test_arrays_restore_every_statistic_that_follows(name):
    spec = SPECS[name]
    exact = count_trajectories(random_batch(50, 4, **SMALL), 2, 2)
    vector = spec.counters(exact.transitions, exact.visits, exact.rewards.astype(np.int64))
    back = spec.arrays(vector.astype(float))
    knows_visits = set(spec.visits) | set(spec.outcomes) | set(spec.transitions)
    for h in range(2):
        np.testing.assert_array_equal(back.transitions[h], exact.transitions[h] * (h in spec.transitions))
        np.testing.assert_array_equal(back.visits[h], exact.visits[h] * (h in knows_visits))
        np.testing.assert_array_equal(back.rewards[h], exact.rewards[h] * (h in spec.rewards + spec.outcomes))


def test_noise_terms_count_the_counters_behind_an_entry():
    assert SPECS["fine"].noisy_terms() == {"transitions": 1, "visits": 1, "rewards": 1}
    assert ReleaseSpec.one_hot(**REFERENCE).noisy_terms() == {"transitions": 1, "visits": 2, "rewards": 1}
    assert ReleaseSpec.crude(**REFERENCE, layer=1).noisy_terms() == {"transitions": 1, "visits": 4}
    assert ReleaseSpec.crude(**REFERENCE, layer=1, visits=True).noisy_terms() == {"transitions": 1, "visits": 1}


def test_a_horizon_of_one_has_no_transitions():
    spec = ReleaseSpec.fine(num_states=3, num_actions=2, horizon=1)
    assert spec.transitions == ()
    assert spec.differing == 4
    assert spec.labels(np.array([2]), np.array([1]), np.array([1])).tolist() == [5, 6 + 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": (1, 0)}, "layers of transitions must be a tuple that increases"),
        ({"visits": (0, 2)}, "within 0..1"),
        ({"rewards": [0, 1]}, "must be a tuple"),
        ({"transitions": (), "visits": (), "rewards": ()}, "at least one family"),
        ({"outcomes": (0,)}, "must not overlap"),
        ({"horizon": 0}, "horizon"),
        ({"num_states": True}, "num_states"),
    ],
)
def test_bad_descriptions_are_refused(change, message):
    fields = {**SMALL, "transitions": (0,), "visits": (0, 1), "rewards": (0, 1), "outcomes": ()}
    with pytest.raises(InvalidInput, match=message):
        ReleaseSpec(**{**fields, **change})
