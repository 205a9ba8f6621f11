"""Live worlds: discretisers, padding and refusals are exact; a live RiverSwim has the law of the tabular one."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import gymnasium
import live_worlds
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from scipy import stats

import tacit
from tacit.data.simulator_users import Players, count_live
from tacit.environments.baselines import baseline_names, baseline_policy, baseline_table
from tacit.environments.discretise import (
    Bins,
    Function,
    Numbers,
    Product,
    discretiser_from_dict,
    discretiser_of,
    tiles,
)
from tacit.environments.estimated import estimate_model
from tacit.environments.live import LiveWorld, live
from tacit.environments.live_sources import PRESETS
from tacit.environments.registry import list_live, make, make_environment, make_layered
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.planning.dynamic import backward_induction
from tacit.policies import DeterministicPolicy, StochasticPolicy, uniform_policy

FUSE = live(live_worlds.fuse, horizon=4, rewards=(-1.0, 1.0))


def copied(world: LiveWorld) -> LiveWorld:
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(world))  # noqa: S301 - our own bytes


def coins(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Discretisers -------------------------------------------------------------------------------------------


RULES = [
    Numbers(count=4, start=2),
    Product(counts=(3, 2, 4), starts=(0, 5, 1)),
    Bins(edges=((0.0,), (), (-1.0, 0.5, 2.0))),
    tiles(low=[-1.0, 0.0], high=[1.0, 3.0], counts=[3, 5], offset=0.25),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_one_observation_and_many_have_the_same_states_in_range(rule):
    g = coins()
    if isinstance(rule, Numbers):
        rows = g.integers(2, 6, size=(50, 1))
        many = rows[:, 0]
    elif isinstance(rule, Product):
        rows = np.stack([g.integers(0, 3, 50), g.integers(5, 7, 50), g.integers(1, 5, 50)], axis=1)
        many = tuple(rows.T)
    else:
        rows = many = g.normal(scale=2.0, size=(50, len(rule.edges))).astype(np.float32)
    one = [rule.state(row if len(row) > 1 else row[0]) for row in rows]
    assert one == rule.states(many).tolist()
    assert 0 <= min(one) <= max(one) < rule.size
    assert len(set(rule.names())) == rule.size
    assert discretiser_from_dict(rule.to_dict()) == rule
    assert hash(rule) == hash(discretiser_from_dict(rule.to_dict()))


def test_a_product_counts_every_combination_once_the_last_fastest():
    rule = Product(counts=(2, 3))
    assert [rule.state((i, j)) for i in range(2) for j in range(3)] == list(range(6))
    assert rule.names()[4] == "1 1"


def test_bins_are_closed_below_and_everything_beyond_belongs_to_the_outer_ones():
    rule = Bins(edges=((0.0, 1.0),))
    values = [-np.inf, -0.1, 0.0, 0.5, 1.0, np.inf, np.nan]
    assert [rule.state([v]) for v in values] == [0, 0, 1, 1, 2, 2, 2]
    assert rule.states(np.array(values)[:, np.newaxis]).tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert rule.names() == ("x0 < 0", "x0 in [0, 1)", "x0 >= 1")


def test_spaces_of_whole_numbers_need_no_choice_and_others_are_told_what_to_do():
    assert discretiser_of(Discrete(5, start=-1), "x") == Numbers(count=5, start=-1)
    assert discretiser_of(Tuple((Discrete(2), Discrete(3))), "x") == Product(counts=(2, 3))
    assert discretiser_of(MultiDiscrete([2, 3]), "x") == Product(counts=(2, 3))
    assert discretiser_of(MultiBinary(3), "x") == Product(counts=(2, 2, 2))
    with pytest.raises(NotSupported, match=r"observes 2 real numbers.*discretise=tiles.*2 entries"):
        discretiser_of(Box(-1.0, 1.0, (2,)), "x")
    with pytest.raises(NotSupported, match="Function"):
        discretiser_of(Dict({"a": Discrete(2)}), "x")


def test_functions_are_known_by_name_and_must_stay_in_range():
    rule = Function(function="live_worlds:quadrant", count=4)
    assert rule.state(np.array([1.0, -1.0])) == 1
    assert rule.states(np.array([[1.0, 1.0], [-1.0, 1.0]])).tolist() == [3, 2]
    assert discretiser_from_dict(rule.to_dict()) == rule
    with pytest.raises(InvalidInput, match="from 0 to 3"):
        Function(function="live_worlds:too_far", count=4).state(None)
    with pytest.raises(InvalidInput):
        Function(function="live_worlds", count=4)
    for name in ("live_worlds:nothing", "no_such_module:f"):
        with pytest.raises(InvalidInput):
            live(live_worlds.fuse, horizon=4, rewards=(-1.0, 1.0), discretise=Function(function=name, count=4))


@pytest.mark.parametrize(
    "make_rule",
    [
        lambda: Bins(edges=((1.0, 0.0),)),
        lambda: Bins(edges=()),
        lambda: Bins(edges=((np.inf,),)),
        lambda: Product(counts=()),
        lambda: Product(counts=(2, 2), starts=(0,)),
        lambda: Numbers(count=0),
        lambda: tiles(low=[0.0], high=[0.0], counts=[2]),
        lambda: tiles(low=[0.0], high=[1.0, 2.0], counts=[2]),
        lambda: discretiser_from_dict({"kind": "bin", "edges": []}),
        lambda: discretiser_from_dict({"kind": "bins"}),
    ],
)
def test_wrong_discretisers_are_refused(make_rule):
    with pytest.raises(InvalidInput):
        make_rule()


# Playing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [False, True])
def test_ended_episodes_are_padded_by_the_public_rule(vector):
    world = replace(FUSE, vector=vector)
    assert (world.num_states, world.ended, world.num_actions, world.first_action) == (5, 4, 2, 1)
    # Action 2 (number 1) in state 3, action 1 (number 0) below, and number 1 where it has ended.
    policy = DeterministicPolicy(np.tile([0, 0, 0, 1, 1], (4, 1)))
    drawn = Players(world, seed=0).play(policy, 40, coins())
    assert (drawn.states == [3, 1, 4, 4, 4]).all()
    assert (drawn.actions == [1, 0, 1, 1]).all()
    # Rewards 1, -1, then 0 in the environment's unit; bounds [-1, 1].
    assert (drawn.rewards == [1.0, 0.0, 0.5, 0.5]).all()
    assert (drawn.measured.returns == 0.0).all()
    assert (drawn.measured.clipped, drawn.measured.decisions) == (0, 80)


@pytest.mark.parametrize("vector", [False, True])
def test_decisions_may_last_several_steps_and_end_within_one(vector):
    world = live(live_worlds.fuse, horizon=3, rewards=(-1.0, 0.5), repeat=2, vector=vector, options={"first": 3})
    slow = DeterministicPolicy(np.zeros((3, 5), dtype=np.int64))
    drawn = Players(world, seed=0).play(slow, 35, coins())
    # 3 -> 2 -> 1 pays 1 + 0, then 1 -> 0 pays -1 and ends.
    assert (drawn.states == [3, 1, 4, 4]).all()
    assert (drawn.measured.returns == 0.0).all()
    assert np.allclose(drawn.rewards, [1.0, 0.0, 2.0 / 3.0])
    assert drawn.measured.clipped == 35  # the 1 above the bound of 0.5


@pytest.mark.parametrize("vector", [False, True])
def test_long_episodes_are_cut_and_false_declarations_refused(vector):
    world = live(live_worlds.fuse, horizon=2, rewards=(-1.0, 1.0), ends=False, vector=vector)
    slow = DeterministicPolicy(np.zeros((2, 4), dtype=np.int64))
    drawn = Players(world, seed=0).play(slow, 40, coins())
    assert (drawn.states == [3, 2, 1]).all()
    fast = DeterministicPolicy(np.ones((2, 4), dtype=np.int64))
    assert (Players(world, seed=0).play(fast, 40, coins()).states == [3, 1, 0]).all()  # ends with the horizon
    longer = replace(world, horizon=3)
    with pytest.raises(InvalidInput, match="ended before the horizon of 3; say ends=True"):
        Players(longer, seed=0).play(DeterministicPolicy(np.ones((3, 4), dtype=np.int64)), 40, coins())


def test_stochastic_policies_take_possible_actions_only():
    table = np.zeros((4, 5, 2))
    table[:, :, 1] = 1.0 - 1e-10  # within the tolerance of a policy, and yet never the first action's turn
    drawn = Players(FUSE, seed=0).play(StochasticPolicy(table), 200, coins())
    assert (drawn.actions == 1).all()
    table = np.tile([0.3, 0.7], (4, 5, 1))
    share = Players(FUSE, seed=0).play(StochasticPolicy(table), 4000, coins(1)).actions[:, 0].mean()
    assert abs(share - 0.7) < 5 * np.sqrt(0.21 / 4000)  # false alarms below 1e-6


def test_groups_come_one_after_the_other_where_no_place_can_stay_empty():
    """As before there were groups that live together: nobody's coins change."""
    policy = StochasticPolicy(np.tile([0.3, 0.7], (4, 5, 1)))
    players, random = Players(FUSE, seed=0), coins(7)
    wanted = [players.play(policy, count, random) for count in (3, 40, 5)]
    found = Players(FUSE, seed=0).play_groups([(policy, 3), (policy, 40), (policy, 5)], coins(7))
    for one, other in zip(wanted, found, strict=True):
        assert one.actions.tobytes() == other.actions.tobytes()
        assert one.measured.returns.tobytes() == other.measured.returns.tobytes()


def test_rounded_rewards_are_bits_with_the_scaled_value_as_mean():
    world = FUSE.for_run(rounded=True, baseline=None)
    policy = DeterministicPolicy(np.tile([0, 0, 0, 1, 1], (4, 1)))
    drawn = Players(world, seed=0).play(policy, 2000, coins())
    counts = count_live(world, drawn, coins(1))
    assert counts.binary
    assert counts.rewards[0, 3, 1] == 2000
    assert counts.rewards[1, 1, 0] == 0
    assert abs(counts.rewards[2, 4, 1] - 1000) < 5 * np.sqrt(500)  # false alarms below 1e-6
    exact = count_live(world.for_run(rounded=False, baseline=None), drawn, coins(1))
    assert exact.rewards[2, 4, 1] == 1000.0
    assert not exact.binary


PLAYERS = 12


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_same_seed_gives_the_same_users_bit_for_bit(name):
    world = live(name)
    policy = uniform_policy(world.horizon, world.num_states, world.num_actions)
    first, again = (Players(w, seed=0).play(policy, PLAYERS, coins(3)) for w in (world, copied(world)))
    other = Players(world, seed=0).play(policy, PLAYERS, coins(4))
    for field in ("states", "actions", "rewards"):
        assert getattr(first, field).tobytes() == getattr(again, field).tobytes()
    assert first.actions.tobytes() != other.actions.tobytes()
    assert first.states.max() < world.num_states


# The law ------------------------------------------------------------------------------------------------


def flows(mdp, table):
    """Pr(s_h = s, a_h = a, s_{h+1} = s') under a policy."""
    at, found = mdp.rho, []
    for h in range(mdp.horizon):
        q = at[:, np.newaxis, np.newaxis] * table[h][:, :, np.newaxis] * mdp.P[h]
        found.append(q)
        at = q.sum(axis=(0, 1))
    return np.array(found)


def law_differs(counts, mdp, table, level=1e-3):
    """Chi-square tests of every step's transitions and of all rewards, together at this false-alarm rate."""
    level /= mdp.horizon + 1
    q, n = flows(mdp, table), counts.users
    if counts.transitions[q == 0.0].any():
        return True
    for h in range(mdp.horizon):
        expected, seen = n * q[h][q[h] > 0], counts.transitions[h][q[h] > 0]
        rare = expected < 10
        expected = np.append(expected[~rare], expected[rare].sum() or 1.0)
        seen = np.append(seen[~rare], seen[rare].sum() if rare.any() else 1.0)
        statistic = ((seen - expected) ** 2 / expected).sum()
        if statistic > stats.chi2.isf(level, len(expected) - 1):
            return True
    mean, var = (counts.visits * mdp.r).sum(), (counts.visits * mdp.r * (1 - mdp.r)).sum()
    return abs(counts.rewards.sum() - mean) > stats.norm.isf(level / 2) * np.sqrt(var)


@pytest.mark.statistical
@pytest.mark.parametrize("vector", [False, True])
def test_a_live_river_has_the_law_of_the_tabular_one(vector):
    """False alarms at a rate of 1e-3 (fixed seed); tables that differ by 3% in P or r are told apart."""
    mdp = make("riverswim")
    world = live(live_worlds.river, horizon=6, rewards=(0.0, 1.0), ends=False, vector=vector)
    assert (world.num_states, world.num_actions) == (mdp.num_states, mdp.num_actions)
    policy = StochasticPolicy(np.tile([0.2, 0.8], (6, 4, 1)))
    counts = count_live(world, Players(world, seed=0).play(policy, 8000, coins(5)), coins(6))
    assert not law_differs(counts, mdp, policy.table)
    from tacit.environments.tabular import TabularMDP

    def other(P, r):
        return TabularMDP(P=P, r=r, rho=mdp.rho, horizon=6)

    moved = 0.97 * mdp.stage_P + 0.03 / 4  # even where a transition was impossible
    slower = 0.9 * mdp.stage_P + 0.1 * np.eye(4)[np.newaxis, :, np.newaxis]
    assert law_differs(counts, other(slower, mdp.stage_r), policy.table)
    assert law_differs(counts, other(moved, mdp.stage_r), policy.table)
    assert law_differs(counts, other(mdp.stage_P, 0.8 * mdp.stage_r), policy.table)


@pytest.mark.statistical
def test_a_vector_environment_of_its_own_has_the_law_of_single_ones():
    """CartPole: mean returns of 4,000 episodes each; false alarms at 1e-6, a difference of 10% is found."""
    world, table = live("CartPole-v1"), dict(live("CartPole-v1").policies)["lean"]
    policy = DeterministicPolicy(np.array(table))
    many, one = (Players(replace(world, vector=v), seed=0).play(policy, 4000, coins(7)) for v in (None, False))
    a, b = many.measured.returns, one.measured.returns
    width = stats.norm.isf(5e-7) * np.sqrt((a.var() + b.var()) / 4000)
    assert abs(a.mean() - b.mean()) < width < 0.1 * b.mean()


def test_an_estimated_model_is_marked_close_and_solvable():
    world = live(live_worlds.river, horizon=6, rewards=(0.0, 1.0), ends=False)
    model = estimate_model(world, 3000, seed=1)
    mdp = make("riverswim")
    assert model.name == "live_worlds:river (estimated from 3,000 episodes)"
    often = np.array([[[True, True]] * 3 + [[False, False]]])  # the right bank is rare under uniform play
    assert np.abs(model.stage_P - mdp.stage_P)[often].max() < 0.05
    _, V, _ = backward_induction(np.array(model.stage_P), np.array(model.stage_r), 6)
    assert abs(float(model.rho @ V[0]) - 0.4758) < 0.15
    ended = estimate_model(FUSE, 50)
    assert ended.stage_P[0, 4, :, 4].tolist() == [1.0, 1.0]
    assert ended.stage_r[0, 4].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("pays", ["nan", "inf", "-inf"])
def test_a_reward_that_is_no_number_counts_as_clipped(pays, tmp_path):
    worth = {"nan": -1.0, "inf": 1.0, "-inf": -1.0}[pays]  # what is no number is the lower bound
    options = {"horizon": 4, "rewards": (-1.0, 1.0), "evaluation": 50}
    odd = live("live_worlds:Odd", options={"pays": pays}, **options)
    fixed = live("live_worlds:Odd", options={"pays": str(worth)}, **options)
    policy = uniform_policy(4, 5, 2)
    found, wanted = (Players(world, seed=0).play(policy, 40, coins()) for world in (odd, fixed))
    assert found.rewards.tolist() == wanted.rewards.tolist()
    assert found.measured.returns.tolist() == wanted.measured.returns.tolist()
    assert found.measured.clipped >= 40 > wanted.measured.clipped == 0
    made = tacit.run(environment=odd, learner="psrl", episodes=20, workers=1, out=tmp_path / "run")
    assert made.returns[0].clipped > 0.2
    assert "lay outside the declared bounds" in made.summary()
    assert np.isfinite(estimate_model(odd, 20).stage_r).all()


@pytest.mark.parametrize("shown", [5, -3])
@pytest.mark.parametrize("vector", [None, True])
def test_an_observation_outside_of_its_space_is_refused(shown, vector):
    world = live("live_worlds:Odd", horizon=4, rewards=(-1, 1), vector=vector, options={"pays": "0", "shown": shown})
    with pytest.raises(InvalidInput, match=r"observations? must"):
        Players(world, seed=0).play(uniform_policy(4, 5, 2), 40, coins())
    with pytest.raises(InvalidInput, match=r"from 0 to 2, got 3"):
        Product(counts=(4, 3)).state((1, 3))


# Descriptions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_build_describe_themselves_and_come_back(name):
    world = live(name)
    assert make_environment(f"gymnasium:{name}") == world
    again = LiveWorld.from_dict(world.to_dict())
    assert again == world
    assert hash(again) == hash(world)
    assert again.fingerprint() == world.fingerprint() != replace(world, horizon=world.horizon + 1).fingerprint()
    assert len(world.state_names) == len(set(world.state_names)) == world.num_states
    assert (world.state_names[-1] == "ended") is world.ends
    for policy in dict(world.policies):
        assert baseline_policy(world, policy).actions.shape == (world.horizon, world.num_states)
    assert f"gymnasium:{name}" in [info.name for info in list_live()]


def test_named_policies_do_what_their_names_say():
    for name, policy, low, high in (("Blackjack-v1", "dealer", -0.2, 0.0), ("CliffWalking-v1", "far", -17.0, -17.0)):
        world = live(name)
        drawn = Players(world, seed=0).play(baseline_policy(world, policy), 1500, coins())
        assert low <= drawn.measured.returns.mean() <= high


def test_environments_that_were_made_are_made_again_from_their_id():
    world = live(gymnasium.make("FrozenLake-v1", is_slippery=False), horizon=5, rewards=(0.0, 1.0))
    assert dict(world.options)["is_slippery"] is False
    assert world == LiveWorld.from_dict(world.to_dict())
    assert not world.make().unwrapped.spec.kwargs["is_slippery"]
    with pytest.raises(NotSupported, match="not made from an id"):
        live(live_worlds.fuse(), horizon=4, rewards=(-1.0, 1.0))
    wrapped = gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: 2 * r)
    with pytest.raises(NotSupported, match="wrappers"):
        live(wrapped, horizon=5, rewards=(0.0, 2.0))


def test_a_time_limit_of_its_own_is_kept_with_an_environment():
    short = live(gymnasium.make("CartPole-v1", max_episode_steps=3))
    assert dict(short.options) == {"max_episode_steps": 3}
    assert LiveWorld.from_dict(short.to_dict()) == short
    policy = DeterministicPolicy(np.zeros((short.horizon, short.num_states), dtype=np.int64))
    for users in (1, 40):  # a single environment, and the vector environment of its own
        assert (Players(short, seed=0).play(policy, users, coins()).measured.returns == 3.0).all()
    assert live(gymnasium.make("CartPole-v1")) == live("CartPole-v1")


def test_a_package_of_somebody_else_registers_its_own_ids(tmp_path, monkeypatch):
    (tmp_path / "toy_live.py").write_text(
        "import gymnasium\ngymnasium.register(id='toy/Fuse-v0', entry_point='live_worlds:Fuse')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    world = make_environment("gymnasium:toy_live:toy/Fuse-v0,horizon=4,low=-1,high=1")
    assert isinstance(world, LiveWorld)
    assert world.num_states == 5
    policy = DeterministicPolicy(np.ones((4, 5), dtype=np.int64))
    for users in (3, 40):  # one by one, and as many as a vector environment would take
        assert (Players(world, seed=0).play(policy, users, coins()).states == [3, 1, 4, 4, 4]).all()


@pytest.mark.parametrize(
    ("make_world", "error", "words"),
    [
        (lambda: live("Taxi-v4"), InvalidInput, "horizon=20"),
        (lambda: live("Taxi-v4", horizon=5), InvalidInput, "public bounds"),
        (lambda: live("Taxi-v4", horizon=5, rewards=(1.0, 2.0)), InvalidInput, "must contain 0"),
        (lambda: live("Taxi-v4", horizon=5, rewards=(2.0, -2.0)), InvalidInput, "below the upper"),
        (lambda: live("Acrobot-v1", horizon=5, rewards=(-1.0, 0.0)), NotSupported, "6 real numbers"),
        (lambda: live("Pendulum-v1", horizon=5, rewards=(-1.0, 0.0)), NotSupported, "finitely many"),
        (lambda: live("CartPole-v1", repeat=2), InvalidInput, "public bounds"),
        (lambda: live("Blackjak-v1", horizon=5, rewards=(-1.0, 0.0)), InvalidInput, "Gymnasium id"),
        (lambda: live("Blackjak-v1"), InvalidInput, "Did you mean: `Blackjack`"),  # before anybody asks for a horizon
        (lambda: live("Blackjack"), UnknownName, "did you mean 'Blackjack-v1'"),
        (lambda: live("FrozenLake-v1", options={"map_name": "9x9"}), InvalidInput, "KeyError: '9x9'"),
        (lambda: live("Blackjack-v1", horizon=10**12), InvalidInput, "must fit into 90% of the available memory"),
        (lambda: live(live_worlds.broken_maker, horizon=2, rewards=(0, 1)), InvalidInput, "raised OSError: no valve"),
        (lambda: live("Blackjack-v1", horizon=0), InvalidInput, "horizon"),
        (lambda: live("Blackjack-v1", evaluation=1), InvalidInput, "evaluation"),
        (lambda: live("Blackjack-v1", options={"x": object()}), InvalidInput, "option x"),
        (lambda: live(lambda: None, horizon=2, rewards=(0, 1)), InvalidInput, "nameless"),
        (lambda: live(live_worlds.no_environment, horizon=2, rewards=(0, 1)), InvalidInput, "gymnasium.Env"),
        (lambda: live(3, horizon=2, rewards=(0, 1)), InvalidInput, "an id, an environment or a function"),
        (lambda: make_environment("gymnasium:"), InvalidInput, "gymnasium:Blackjack-v1"),
        (lambda: make_environment("gymnasium:Blackjack-v1,horizon"), InvalidInput, "name=value"),
        (lambda: make_environment("gymnasium:Blackjack-v1,low=-1"), InvalidInput, "belong together"),
        *(
            (lambda text=text: make_environment(f"gymnasium:Blackjack-v1,horizon={text}"), InvalidInput, "whole number")
            for text in ("x", "--5", "²")
        ),
        (lambda: make_environment("gymnasium:Blackjack-v1,hoizon=3"), UnknownName, "horizon"),
        (
            lambda: make_environment("gymnasium:Acrobot-v1,horizon=3,low=-1,high=0,discretise=a:b"),
            InvalidInput,
            "count",
        ),
        (lambda: make("gymnasium:Blackjack-v1"), InvalidInput, "table"),
        (lambda: make_layered("gymnasium:Blackjack-v1"), InvalidInput, "no table"),
        (lambda: LiveWorld.from_dict({"source": "Blackjack-v1"}), InvalidInput, "entries"),
    ],
)
def test_refusals_say_what_to_do(make_world, error, words):
    with pytest.raises(error, match=words):
        make_world()


# Baselines, and ids -------------------------------------------------------------------------------------


def test_baselines_are_names_tables_or_policies_that_fit(tmp_path):
    mdp = make("treatment")
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    careful = baseline_policy(mdp, "careful")
    assert {mdp.action_names[a] for a in careful.actions[0]} == {"pause", "low dose"}
    assert baseline_policy(mdp, baseline_table(careful)).actions.tolist() == careful.actions.tolist()
    assert baseline_policy(mdp, baseline_table(np.zeros(S, dtype=int))).actions.shape == (H, S)
    assert baseline_policy(mdp, "uniform").table.shape == (H, S, A)
    assert "always pause" in baseline_names(mdp)
    from tacit.policies.named import NamedPolicy

    path = tmp_path / "care.json"
    path.write_text(NamedPolicy(policy=careful, states=mdp.state_names, actions=mdp.action_names).to_json())
    kept = baseline_policy(mdp, baseline_table(str(path)))
    assert np.array_equal(kept.probabilities(A), careful.probabilities(A))
    for world in (mdp, FUSE):
        told = baseline_policy(world, baseline_table("live_worlds:last_action"))
        assert (told.actions == world.num_actions - 1).all()
        assert told.actions.shape == (world.horizon, world.num_states)
    for wrong in ("live_worlds:no_baseline", "live_worlds:nothing", "nowhere:last_action"):
        with pytest.raises(InvalidInput):
            baseline_policy(mdp, wrong)
    with pytest.raises(
        InvalidInput, match=r"live_worlds:broken_baseline must return .* raised ArithmeticError: no dose"
    ):
        baseline_policy(mdp, "live_worlds:broken_baseline")
    for wrong in (np.zeros(S + 1, dtype=int), np.full(S, A), np.full((H, S, A), 0.5), np.full(S, -1)):
        with pytest.raises(InvalidInput):
            baseline_policy(mdp, baseline_table(wrong))
    for wrong in ("", [[1, 2], [3]], [0.5, 0.5], object(), "nowhere.json"):
        with pytest.raises(InvalidInput):
            baseline_table(wrong)
    with pytest.raises(UnknownName, match="did you mean 'careful'"):
        baseline_policy(mdp, "carefull")
    with pytest.raises(NotSupported):
        baseline_policy(make_environment("dose-bandit"), "uniform")


def test_gymnasium_finds_the_ids_in_a_process_that_never_imported_tacit():
    script = "import gymnasium; print(gymnasium.make('tacit:tacit/RiverSwim-v0').observation_space)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "Discrete(4)"


@pytest.mark.parametrize("imports", ["tacit, gymnasium", "gymnasium, tacit"])
def test_importing_tacit_is_enough_before_gymnasium_or_after(imports):
    script = f"import {imports}; print(gymnasium.make('tacit/RiverSwim-v0').observation_space)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "Discrete(4)"


def test_importing_tacit_loads_no_gymnasium_and_waits_for_it_once():
    script = (
        "import sys, tacit; from tacit.gymnasium_ids import _WhenLoaded, register_when_loaded; register_when_loaded()\n"
        "waiting = lambda: sum(isinstance(finder, _WhenLoaded) for finder in sys.meta_path)\n"
        "print('gymnasium' in sys.modules, waiting()); import gymnasium; print(waiting())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "1", "0"]
