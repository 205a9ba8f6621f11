"""The world of titration: what its decisions do, and that its single and its vector environment are one world."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from papers.glucose.titration import ACTIONS, FACTORS, TEXTBOOK, YESTERDAY, TitrationVectorEnv, Ward
from papers.worlds import TITRATION_ID
from tacit import live
from tacit.data.simulator_users import Players
from tacit.environments.baselines import baseline_policy
from tacit.environments.live_sources import PRESETS
from tacit.policies import DeterministicPolicy, uniform_policy


def coins(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_the_world_has_five_doses_and_three_yesterdays_for_seven_days():
    world = live(TITRATION_ID)
    assert (world.num_states, world.num_actions, world.horizon, world.ends) == (15, 3, 7, False)
    assert (len(FACTORS), len(YESTERDAY), len(ACTIONS)) == (5, 3, 3)
    assert PRESETS[TITRATION_ID].policies["textbook"] == TEXTBOOK
    rule = baseline_policy(world, "textbook").probabilities(3).argmax(axis=2)
    for s in range(15):
        wanted = {"low": "lower", "fine": "keep", "high": "raise"}[YESTERDAY[s % 3]]
        assert [ACTIONS[a] for a in rule[:, s]] == [wanted] * 7


def test_decisions_move_the_dose_by_one_and_stop_at_the_ends():
    ward, random = Ward(), coins(1)
    states = ward.admit(48, random)
    before = states // 3
    assert set(before.tolist()) == set(range(5))
    actions = np.arange(48) % 3
    after = ward.decide(actions, random) // 3
    assert after.tolist() == np.clip(before + actions - 1, 0, 4).tolist()


def test_rewards_and_yesterday_follow_from_what_the_sensor_showed():
    ward, random = Ward(), coins(2)
    states = ward.admit(160, random)
    low, high, risk = ward.measures[:, 0], ward.measures[:, 1], ward.measures[:, 2]
    assert (states % 3 == np.where(low > 0.04, 0, np.where(high > 0.25, 2, 1))).all()
    assert set((states % 3).tolist()) == {0, 1, 2}
    assert ward.rewards == pytest.approx(np.maximum(0.0, 1.0 - 4.0 * risk))
    assert set(ward.aside) == {"below 70", "below 54", "above 180"}


def test_physiology_goes_on_overnight():
    ward, random = Ward(), coins(3)
    ward.admit(16, random)
    evening = ward.people.lanes.copy()
    ward.decide(np.ones(16, dtype=np.int64), random)
    again = Ward()
    again.admit(16, coins(3))
    assert again.people.lanes.tobytes() == evening.tobytes()
    assert np.abs(ward.people.lanes - evening).max() > 0.0
    fresh = Ward()
    fresh.admit(16, coins(4))
    assert (evening[:, : 13 * 16] != fresh.people.lanes[:, : 13 * 16]).any()


def test_places_that_nobody_wants_stay_empty_and_change_nothing():
    few, full = TitrationVectorEnv(40), TitrationVectorEnv(20)
    few.wanted = 20
    one, two = few.reset(seed=5)[0], full.reset(seed=5)[0]
    assert one[:20].tolist() == two.tolist()
    assert one[20:].tolist() == [0] * 20
    actions = np.full(40, 2)
    after, rewards, ended, cut, _ = few.step(actions)
    same = full.step(actions[:20])
    assert after[:20].tolist() == same[0].tolist()
    assert rewards[:20].tobytes() == same[1].tobytes()
    assert not ended.any()
    assert not cut.any()


def test_one_person_and_many_live_in_the_same_world():
    single, many = gymnasium.make(TITRATION_ID), gymnasium.make_vec(TITRATION_ID, num_envs=1)
    assert single.reset(seed=7)[0] == many.reset(seed=7)[0][0]
    for action in (2, 1, 0):
        one, other = single.step(action), many.step(np.array([action]))
        assert one[0] == other[0][0]
        assert one[1] == other[1][0]


def test_small_groups_live_together_and_each_follows_its_own_policy():
    world = live(TITRATION_ID)
    always = [DeterministicPolicy(np.full((7, 15), action)) for action in range(3)]
    groups = [(always[0], 3), (always[2], 255), (always[1], 4), (uniform_policy(7, 15, 3), 30)]
    found = Players(world, seed=0).play_groups(groups, coins(10))
    assert [len(part.actions) for part in found] == [len(part.measured.returns) for part in found] == [3, 255, 4, 30]
    for part, action in zip(found[:3], (0, 2, 1), strict=True):
        assert (part.actions == action).all()
        doses = part.states // 3
        assert (doses[:, 1:] == np.clip(doses[:, :-1] + action - 1, 0, 4)).all()
        assert part.measured.returns == pytest.approx(part.rewards.sum(axis=1))
    assert set(found[3].actions.ravel().tolist()) == {0, 1, 2}


def test_people_in_groups_live_as_they_would_without():
    world, rule = live(TITRATION_ID), baseline_policy(live(TITRATION_ID), "textbook")
    whole = Players(world, seed=0).play(rule, 60, coins(11))
    parts = Players(world, seed=0).play_groups([(rule, 10), (rule, 1), (rule, 49)], coins(11))
    assert np.concatenate([part.states for part in parts]).tolist() == whole.states.tolist()
    assert np.concatenate([part.rewards for part in parts]).tobytes() == whole.rewards.tobytes()


@pytest.mark.slow
def test_the_textbook_rule_is_better_than_chance_and_people_do_not_go_very_low():
    world = live(TITRATION_ID)
    rule = Players(world, seed=0).play(baseline_policy(world, "textbook"), 2_000, coins(8)).measured.returns
    chance = Players(world, seed=0).play(uniform_policy(7, 15, 3), 2_000, coins(8)).measured.returns
    assert rule.mean() > chance.mean() + 0.3
    ward, random = Ward(), coins(9)
    ward.admit(320, random)
    for _ in range(3):
        ward.decide(np.full(320, 2), random)
    assert ward.aside["below 54"].mean() < 0.02
