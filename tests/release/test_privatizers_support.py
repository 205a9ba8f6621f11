"""A declared support: counters that cannot move are not released, and privacy never depends on its being true."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tacit.audit.conformance import check_privatizer
from tacit.data.counts import count_trajectories, flow_counts
from tacit.data.trajectories import Trajectories
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported
from tacit.policies import uniform_policy
from tacit.protocol import Totals
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import batch_spec
from tacit.release.request import PrivacyRequest
from tacit.release.table import OVER_SUPPORT, PRIVATIZERS, make_privatizer
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape
from tacit.support import Support

EVERYTHING = BatchQuery(layer=None, failure_prob=None)
CHAIN = Support(
    moves=[[[1, 1, 0], [1, 0, 0]], [[0, 1, 1], [1, 0, 0]], [[0, 0, 1], [0, 1, 0]]],
    horizon=3,
    starts=[1, 0, 0],
    rewards=[[0, 1], [1, 1], [1, 0]],
)
SHAPE = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=CHAIN)


def request(trust, **given):
    private = {"epsilon": 1.0, "delta": 1e-6} if trust != "none" else {"epsilon": None, "delta": None}
    values = {"asks": BatchQuery, "shape": SHAPE, "episodes": 200, "calibration": None, "mechanism": None}
    return PrivacyRequest(trust=trust, **{"users_per_batch": 1, **values, **private, **given})


def planned(trust, users=60):
    return make_privatizer(request(trust)).planned([PlannedBatch(users=users, query=EVERYTHING)])


def wanderers(users, seed=0):
    """People who do whatever they like, the declaration notwithstanding."""
    coins = np.random.default_rng(seed)
    return Trajectories(
        coins.integers(0, 3, (users, 4)), coins.integers(0, 2, (users, 3)), coins.random((users, 3)).round()
    )


def test_only_what_can_move_and_does_not_follow_is_released():
    cells = CHAIN.released
    assert CHAIN.reach.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    # Rows of several successors: (0, 0) at steps 0 and 1, (1, 0) at step 1; (0,1), (1,1) and all of state 2 have one.
    assert np.stack(np.unravel_index(cells.moves, (2, 3, 2, 3)), axis=1).tolist() == [
        [0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 1], [1, 1, 0, 1], [1, 1, 0, 2],
    ]  # fmt: skip
    assert cells.single.tolist() == [[[-1, 0], [-1, -1], [-1, -1]], [[-1, 0], [-1, 0], [-1, -1]], [[-1, -1]] * 3]
    assert len(cells.zeros) == 2 * (1 + 2 + 3)
    assert len(cells.ones) == 1 + 3 + 4
    assert batch_spec(SHAPE, "tight", None).num_counters == 6 + 8 + 12
    assert batch_spec(SHAPE, "tight", None).differing == 2 * 2 + 2 * 3


@pytest.mark.parametrize("seed", range(3))
def test_labels_and_counters_are_one_encoding_also_of_people_who_contradict(seed):
    spec, crowd = batch_spec(SHAPE, "tight", None), wanderers(40, seed)
    summed = np.zeros(spec.num_counters)
    for states, actions, rewards in zip(crowd.states, crowd.actions, crowd.rewards, strict=True):
        labels = spec.labels(states, actions, rewards.astype(np.int64))
        assert len(labels) == len(set(labels.tolist())) <= spec.slots
        summed[labels] += 1
    counts = count_trajectories(crowd, 3, 2)
    assert np.array_equal(summed, spec.counters(counts.transitions, counts.visits, counts.rewards.astype(np.int64)))


def test_nobody_moves_more_than_stated_whatever_they_do():
    spec, crowd = batch_spec(SHAPE, "tight", None), wanderers(120, 4)
    found = []
    for states, actions, rewards in zip(crowd.states, crowd.actions, crowd.rewards, strict=True):
        vector = np.zeros(spec.num_counters)
        vector[spec.labels(states, actions, rewards.astype(np.int64))] = 1.0
        found.append(vector)
    ups = max(int((a > b).sum()) for a in found for b in found)
    assert ups <= sum(family.up for family in spec.families())
    assert ups >= sum(family.up for family in spec.families()) - 1  # the statement is not idle


def test_people_of_a_true_declaration_are_counted_as_without_one():
    river = make("riverswim:states=3,horizon=3")
    counts = flow_counts(river, uniform_policy(3, 3, 2), 200, np.random.default_rng(0))
    spec = batch_spec(
        CountShape(
            horizon=river.horizon,
            num_states=river.num_states,
            num_actions=river.num_actions,
            staged=True,
            support=river.support,
        ),
        "tight",
        None,
    )
    found = spec.arrays(spec.counters(counts.transitions, counts.visits, counts.rewards).astype(float))
    assert np.array_equal(found.visits, counts.visits)
    assert np.array_equal(found.rewards, counts.rewards)
    kept = river.support.released.moves
    assert np.array_equal(found.transitions.ravel()[kept], counts.transitions.ravel()[kept])
    single = river.support.released.single
    h, s, a = np.nonzero(single >= 0)
    assert np.array_equal(counts.transitions[h, s, a, single[h, s, a]], counts.visits[h, s, a])


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_a_release_is_zero_where_nothing_can_be_and_costs_at_most_the_claim(trust):
    privatizer = planned(trust)
    counts = count_trajectories(wanderers(60), 3, 2)
    released = privatizer.release(privatizer.begin(), counts, EVERYTHING, SimulationNoise(np.random.default_rng(1)))
    statistics = released[1].statistics
    off = np.ones(3 * 3 * 2 * 3, dtype=bool)
    off[CHAIN.released.moves] = False
    single = CHAIN.released.single
    h, s, a = np.nonzero(single >= 0)
    assert np.array_equal(statistics.transitions[h, s, a, single[h, s, a]], statistics.visits[h, s, a])
    statistics.transitions[h, s, a, single[h, s, a]] = 0.0
    assert not statistics.transitions.ravel()[off].any()
    assert not statistics.visits[0, 1:].any()
    assert not statistics.rewards[:, 0, 0].any()
    assert statistics.transitions.ravel()[~off].all()
    certificate = privatizer.certificate()
    assert certificate.epsilon <= 1.0
    assert certificate.delta == 1e-6
    dense = make_privatizer(request(trust, shape=CountShape(horizon=3, num_states=3, num_actions=2, staged=True)))
    assert privatizer.batch_std(60, EVERYTHING) <= dense.batch_std(60, EVERYTHING)


def test_a_world_whose_every_move_is_known_needs_less_noise():
    sure = Support(moves=np.eye(3, dtype=bool)[[[1, 0], [2, 0], [2, 1]]], horizon=3)
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=sure)
    assert batch_spec(shape, "tight", None).differing == 2 * 3  # 4H - 2 = 10 without
    with_it = make_privatizer(request("central", shape=shape)).batch_std(60, EVERYTHING)
    without = make_privatizer(request("central", shape=CountShape(horizon=3, num_states=3, num_actions=2, staged=True)))
    assert with_it < 0.8 * without.batch_std(60, EVERYTHING)  # √(6/10) = 0.77


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_supported_releases_conform(trust):
    rules = ("claim", "certificate", "families", "replay")
    assert check_privatizer(planned(trust, users=20), only=rules).passed == rules


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_supported_releases_conform_to_every_rule(trust):
    assert {"families", "silence", "exposed", "shift"} <= set(check_privatizer(planned(trust, users=20)).passed)


@pytest.mark.parametrize(("asks", "trust"), [key for key in PRIVATIZERS if key[0] in (Totals, BatchQuery)])
def test_a_declaration_is_used_or_refused(asks, trust):
    given = request(trust, asks=asks, users_per_batch=20)
    assert asks in OVER_SUPPORT
    assert make_privatizer(given).shape.support == CHAIN


@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_printed_noise_has_no_support(trust):
    with pytest.raises(NotSupported, match="'tight'"):
        make_privatizer(request(trust, asks=Totals, calibration="paper", users_per_batch=20))


def test_printed_encodings_have_no_support():
    plain = CountShape(horizon=3, num_states=3, num_actions=2, staged=True)
    for trust in ("central", "local"):
        made = make_privatizer(request(trust, asks=Totals, shape=plain, calibration="paper", delta=0.0))
        with pytest.raises(NotSupported, match="leave the declared support out"):
            replace(made, shape=SHAPE)


def test_single_layers_have_counters_for_what_can_happen_there():
    crowd = wanderers(50, 7)
    counts = count_trajectories(crowd, 3, 2)
    for layer, counters in enumerate((3, 6, 6)):  # (0,0) leads to two states, (0,1) to one; and so on
        spec = batch_spec(SHAPE, "tight", layer)
        assert spec.num_counters == counters
        assert spec.differing == 2
        summed = np.zeros(counters)
        for states, actions, rewards in zip(crowd.states, crowd.actions, crowd.rewards, strict=True):
            summed[spec.labels(states, actions, rewards.astype(np.int64))] += 1
        assert np.array_equal(summed, spec.counters(counts.transitions, counts.visits, counts.rewards.astype(np.int64)))
        found = spec.arrays(summed)
        assert np.array_equal(found.visits[layer], found.visits[layer] * CHAIN.reach[layer][:, np.newaxis])
        if layer < 2:
            led = CHAIN.moves[0] & CHAIN.reach[layer][:, np.newaxis, np.newaxis]
            assert np.array_equal(found.transitions[layer], counts.transitions[layer] * led)


def test_an_author_cannot_exclude_what_the_world_does():
    river = make("riverswim:states=3,horizon=3")
    wrong = river.support.moves.copy()
    wrong[0, 1, 1, 2] = False
    for support in (
        Support(moves=wrong[0], horizon=3),
        Support(moves=river.support.moves[0], horizon=3, starts=[0, 1, 0]),
        Support(moves=river.support.moves[0], horizon=3, rewards=np.zeros((3, 2))),
    ):
        with pytest.raises(InvalidInput, match="declared support excludes"):
            TabularMDP(P=river.stage_P[0], r=river.stage_r[0], rho=river.rho, horizon=3, support=support)
    with pytest.raises(InvalidInput, match="horizon 3"):
        TabularMDP(P=river.stage_P[0], r=river.stage_r[0], rho=river.rho, horizon=3,
                   support=Support(moves=river.support.moves[0], horizon=4))  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"moves": [[[0, 0]], [[1, 0]]]}, "at least one next state"),
        ({"moves": [[[0.5, 1]], [[1, 0]]]}, "true or false"),
        ({"moves": [[[1, 1, 1]], [[1, 0, 1]]]}, "must agree"),
        ({"moves": np.ones((4, 2, 1, 2))}, "step axis"),
        ({"moves": np.ones((2, 1, 2)), "starts": [0, 0]}, "begin somewhere"),
        ({"moves": np.ones((2, 1, 2)), "starts": [1, 0, 0]}, "one entry"),
        ({"moves": np.ones((2, 1, 2)), "rewards": [[1, 1]]}, "S, A = 2, 1"),
    ],
)
def test_impossible_declarations_are_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        Support(horizon=3, **given)


def test_supports_travel_and_compare():
    assert pickle.loads(pickle.dumps(CHAIN)) == CHAIN == Support.from_dict(CHAIN.to_dict())  # noqa: S301 - our own bytes
    assert hash(CHAIN) == hash(Support.from_dict(CHAIN.to_dict()))
    assert CHAIN != Support(moves=CHAIN.moves, horizon=3, starts=[1, 1, 0], rewards=CHAIN.rewards)
    with pytest.raises(AttributeError, match="never changes"):
        CHAIN.horizon = 4
    seen = CHAIN.seen_through([0, 0, 1])
    assert seen.moves[0].astype(int).tolist() == [[[1, 1], [1, 0]], [[0, 1], [1, 0]]]
    assert seen.starts.tolist() == [True, False]
    assert seen.rewards[0].tolist() == [[True, True], [True, False]]
