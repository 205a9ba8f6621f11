import gymnasium
import numpy as np
import pytest
from environment_values import optimal_value
from gymnasium.spaces import Box, Discrete

from tacit.environments import TabularMDP
from tacit.errors import InvalidInput, NotSupported


class TableEnv(gymnasium.Env):
    """The least that from_gymnasium accepts."""

    def __init__(self, table, *, first=None, actions=None):
        self.P = table
        self.observation_space = Discrete(len(table))
        self.action_space = actions or Discrete(len(table[0]))
        if first is not None:
            self.initial_state_distrib = np.array(first, dtype=float)


def original_optimal_value(env, horizon):
    """Backward induction on the environment's own table, in its own unit: an ended episode is worth nothing more."""
    table, first = env.unwrapped.P, env.unwrapped.initial_state_distrib
    V = dict.fromkeys(table, 0.0)
    for _ in range(horizon):
        V = {
            s: max(
                sum(p * (reward + (0.0 if ended else V[s_next])) for p, s_next, reward, ended in outcomes)
                for outcomes in table[s].values()
            )
            for s in table
        }
    return sum(first[s] * V[s] for s in table)


@pytest.mark.parametrize(
    ("env_id", "options", "horizon", "states", "scale", "offset"),
    [
        ("FrozenLake-v1", {}, 30, 16, 1 / 3, 0.0),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, 20, 64, 1.0, 0.0),
        ("CliffWalking-v1", {}, 20, 48, 100.0, -100.0),
        ("CliffWalking-v1", {"is_slippery": True}, 15, 48, None, None),
        ("Taxi-v4", {}, 12, 500, 30.0, -10.0),
    ],
)
def test_values_agree_with_the_original_in_its_own_unit(env_id, options, horizon, states, scale, offset):
    env = gymnasium.make(env_id, **options)
    mdp = TabularMDP.from_gymnasium(env, horizon=horizon)
    expected = original_optimal_value(env, horizon)
    assert mdp.original_value(fast_optimal_value(mdp)) == pytest.approx(expected, abs=1e-9)
    assert mdp.num_states == states
    assert mdp.homogeneous
    assert mdp.name == env_id
    assert mdp.r.min() == 0.0
    assert mdp.r.max() == pytest.approx(1.0)
    if scale is not None:
        assert (mdp.reward_scale, mdp.reward_offset) == (pytest.approx(scale), pytest.approx(offset))
    assert np.allclose(mdp.rho, env.unwrapped.initial_state_distrib)


def fast_optimal_value(mdp):
    V = np.zeros(mdp.num_states)
    for h in reversed(range(mdp.horizon)):
        V = (mdp.r[h] + mdp.P[h] @ V).max(axis=1)
    return float(mdp.rho @ V)


def test_ended_states_absorb_with_zero_original_reward():
    mdp = TabularMDP.from_gymnasium(gymnasium.make("CliffWalking-v1"), horizon=5)
    goal = 47
    assert np.array_equal(mdp.P[0, goal], np.tile(np.eye(48)[goal], (4, 1)))
    assert np.allclose(mdp.reward_scale * mdp.r[0, goal] + mdp.reward_offset, 0.0)


def test_a_reward_that_depends_on_the_next_state_becomes_its_mean():
    table = {0: {0: [(0.25, 0, 4.0, False), (0.75, 1, 0.0, False)]}, 1: {0: [(1.0, 1, -1.0, False)]}}
    mdp = TabularMDP.from_gymnasium(TableEnv(table, first=[1, 0]), horizon=2)
    assert (mdp.reward_scale * mdp.r[0, :, 0] + mdp.reward_offset).tolist() == pytest.approx([1.0, -1.0])


def test_duplicate_outcomes_add_up():
    table = {0: {0: [(0.5, 1, 1.0, False), (0.5, 1, 1.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}
    mdp = TabularMDP.from_gymnasium(TableEnv(table, first=[1, 0]), horizon=2)
    assert mdp.P[0, 0, 0].tolist() == [0.0, 1.0]


def test_a_state_entered_alive_and_dead_gets_an_extra_ending():
    # State 1 may be passed through alive (action 0) or end the episode (action 1), so it cannot absorb itself.
    table = {
        0: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 1, 5.0, True)]},
        1: {0: [(1.0, 0, 1.0, False)], 1: [(1.0, 0, 2.0, False)]},
    }
    env = TableEnv(table, first=[1, 0])
    mdp = TabularMDP.from_gymnasium(env, horizon=5)
    assert mdp.num_states == 3
    assert mdp.state_names[-1] == "ended"
    assert mdp.P[0, 0, 1].tolist() == [0.0, 0.0, 1.0]
    assert mdp.original_value(optimal_value(mdp)) == pytest.approx(original_optimal_value(env, 5))


def test_equal_rewards_keep_a_usable_scale():
    table = {0: {0: [(1.0, 0, 3.0, False)]}}
    mdp = TabularMDP.from_gymnasium(TableEnv(table, first=[1]), horizon=4)
    assert mdp.original_value(optimal_value(mdp)) == pytest.approx(12.0)


def test_the_first_state_can_be_given():
    table = {0: {0: [(1.0, 0, 3.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
    with pytest.raises(InvalidInput, match="pass the distribution of its first state as rho="):
        TabularMDP.from_gymnasium(TableEnv(table), horizon=4)
    mdp = TabularMDP.from_gymnasium(TableEnv(table), horizon=4, rho=[0.5, 0.5], reward_kind="bernoulli")
    assert mdp.rho.tolist() == [0.5, 0.5]
    assert mdp.reward_kind == "bernoulli"
    with pytest.raises(InvalidInput, match="one entry for each of the 2 states"):
        TabularMDP.from_gymnasium(TableEnv(table), horizon=4, rho=[1.0])


def test_environments_without_a_table_are_refused():
    env = TableEnv({0: {0: [(1.0, 0, 0.0, False)]}}, first=[1])
    env.P = None
    with pytest.raises(NotSupported, match="TableEnv has none"):
        TabularMDP.from_gymnasium(env, horizon=3)
    with pytest.raises(NotSupported, match="Discrete"):
        TabularMDP.from_gymnasium(TableEnv({0: {0: []}}, actions=Box(0, 1)), horizon=3)
    for nothing in (None, TableEnv, 3):
        with pytest.raises(InvalidInput, match="an environment or an id such as 'FrozenLake-v1'"):
            TabularMDP.from_gymnasium(nothing, horizon=3)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({0: {0: [(1.0, 5, 0.0, False)]}}, r"P\[0\]\[0\] must list"),
        ({0: {0: []}}, r"P\[0\]\[0\] must list"),
        ({0: {0: [(1.0, 0)]}}, r"P\[0\]\[0\] must list"),
        ({0: {0: [(0.9, 0, 0.0, False)]}}, r"P\[s=0, a=0\] must sum to 1, sums to 0.9"),
        ({0: {0: [(1.0, 0, float("nan"), False)]}}, "rewards of the environment must be finite"),
    ],
)
def test_broken_tables_are_refused_by_row(table, message):
    with pytest.raises(InvalidInput, match=message):
        TabularMDP.from_gymnasium(TableEnv(table, first=[1]), horizon=3)
