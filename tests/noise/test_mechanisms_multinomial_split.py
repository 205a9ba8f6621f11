"""Dealt slots: the law of `held_slots`, user by user. False alarms: one in 10,000, with fixed seeds."""

import numpy as np
import pytest
from scipy import stats

from tacit.data.counts import flow_counts, flow_groups, join_counts
from tacit.environments.registry import make
from tacit.noise import one_slot
from tacit.noise.layout import held_slots
from tacit.noise.one_slot import dealt_slots, shared_slots
from tacit.policies import DeterministicPolicy, uniform_policy

MDP = make("random-mdp:states=3,actions=2,horizon=3,seed=4")
POLICY = uniform_policy(3, 3, 2)
COUNTS = flow_counts(MDP, POLICY, 12, np.random.default_rng(8))
SENDERS = np.array([3, 2, 2, 3, 2])
DRAWS = 3000
FALSE_ALARM = 1e-4


def summary(slots):
    """Every number that the senders hold, one after the other."""
    return np.concatenate([np.asarray(part).ravel() for part in slots])


def drawn(draw, seed):
    generator = np.random.default_rng(seed)
    return np.array([summary(draw(COUNTS, COUNTS.rewards, SENDERS, generator)) for _ in range(DRAWS)])


def with_replacement(counts, rewards, senders, generator):
    """A broken twin: senders of different slots may hold the same card."""
    slots = []
    for h in range(3):
        ones, zeros = rewards[h].ravel(), (counts.visits[h] - rewards[h]).ravel()
        for number, cells in ((2 * h, np.concatenate([ones, zeros])), (2 * h + 1, counts.transitions[h].ravel())):
            if number < len(senders):
                slots.append(generator.multinomial(senders[number], cells / cells.sum()))
    return slots


def least_p(first, second):
    """The least p-value over all products of two numbers, times how many there are: means and covariances alike."""
    moving = np.flatnonzero((np.std(first, axis=0) > 0) | (np.std(second, axis=0) > 0))
    a, b = ((part - first.mean(axis=0))[:, moving] for part in (first, second))
    tests = [stats.ttest_ind(a, b, axis=0).pvalue]
    for shift in range(len(moving)):
        tests.append(stats.ttest_ind(a * np.roll(a, shift, axis=1), b * np.roll(b, shift, axis=1), axis=0).pvalue)
    values = np.nan_to_num(np.concatenate(tests), nan=1.0)
    return float(values.min() * len(values))


def test_dealing_has_the_law_of_sharing_and_a_wrong_law_is_found():
    shared = drawn(held_slots, 1)
    assert least_p(shared, drawn(dealt_slots, 2)) > FALSE_ALARM
    assert least_p(shared, drawn(with_replacement, 3)) < FALSE_ALARM / 100


def test_everybody_sends_one_card_of_the_deck():
    parts = dealt_slots(COUNTS, COUNTS.rewards, SENDERS, np.random.default_rng(0))
    assert [int(part.sum()) for part in parts] == SENDERS.tolist()
    whole = dealt_slots(COUNTS, COUNTS.rewards, np.array([0, 12, 0, 0, 0]), np.random.default_rng(0))
    assert (whole[1] == COUNTS.transitions[0]).all()
    last = dealt_slots(COUNTS, COUNTS.rewards, np.array([0, 0, 0, 0, 12]), np.random.default_rng(0))[4]
    assert (last[0] == COUNTS.rewards[2]).all()
    assert (last.sum(axis=0) == COUNTS.visits[2]).all()


def test_size_decides_who_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(one_slot, "dealt_slots", lambda *_: asked.append("dealt"))
    monkeypatch.setattr(one_slot, "held_slots", lambda *_: asked.append("shared"))
    shared_slots(COUNTS, COUNTS.rewards, SENDERS, np.random.default_rng(0))
    monkeypatch.setattr(one_slot, "CELLS", 54)
    shared_slots(COUNTS, COUNTS.rewards, SENDERS, np.random.default_rng(0))
    monkeypatch.setattr(one_slot, "USERS_PER_ROW", 0)
    shared_slots(COUNTS, COUNTS.rewards, SENDERS, np.random.default_rng(0))
    assert asked == ["shared", "dealt", "shared"]


@pytest.mark.parametrize("world", ["riverswim", "treatment", "hard-tree"])
def test_groups_flow_as_if_each_were_drawn_alone(world):
    mdp = make(world)
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    first = DeterministicPolicy(np.random.default_rng(1).integers(0, A, (H, S)))
    groups = [(first, 300), (uniform_policy(H, S, A), 41), (first, 1)]
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    joined, together = join_counts([flow_counts(mdp, *group, one) for group in groups]), flow_groups(mdp, groups, two)
    for name in ("transitions", "visits", "rewards", "starts", "groups"):
        assert np.array_equal(getattr(joined, name), getattr(together, name))
    assert (joined.users, joined.binary) == (together.users, together.binary)
    assert one.bit_generator.state == two.bit_generator.state
