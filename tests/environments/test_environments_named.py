import math

import numpy as np
import pytest
from environment_values import constant_policy, optimal_value, optimal_values, policy_value, uniform_policy

from tacit.environments import GYMNASIUM_IDS, make
from tacit.environments.tabular_worlds import hard_tree, random_mdp, riverswim
from tacit.errors import InvalidInput

REALISTIC = ["ev-charging", "recommender", "treatment"]


def ever_reached(mdp):
    here = mdp.rho > 0
    reached = here.copy()
    for h in range(mdp.horizon - 1):
        here = mdp.P[h][here].sum(axis=(0, 1)) > 0
        reached |= here
    return reached


# --- riverswim


def test_riverswim_has_the_values_of_the_design_notes():
    mdp = riverswim()
    assert (mdp.num_states, mdp.num_actions, mdp.horizon, mdp.reward_kind) == (4, 2, 6, "bernoulli")
    assert optimal_value(mdp) == pytest.approx(0.4758, abs=5e-5)
    assert policy_value(mdp, uniform_policy(mdp)) == pytest.approx(0.0316, abs=5e-5)
    # "Nothing learned" over 20,000 episodes costs 8,884.
    regret = 20_000 * (optimal_value(mdp) - policy_value(mdp, uniform_policy(mdp)))
    assert regret == pytest.approx(8884, abs=1)


def test_riverswim_transitions():
    P, r = riverswim().P[0], riverswim().r[0]
    assert P[:, 0].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert P[:, 1].tolist() == [[0.4, 0.6, 0, 0], [0.05, 0.6, 0.35, 0], [0, 0.05, 0.6, 0.35], [0, 0, 0.4, 0.6]]
    assert np.argwhere(r > 0).tolist() == [[0, 0], [3, 1]]
    assert (r[0, 0], r[3, 1]) == (0.005, 1.0)


def test_six_states_with_horizon_six_make_always_left_optimal():
    mdp = riverswim(states=6, horizon=6)
    left, right = (policy_value(mdp, constant_policy(mdp, a)) for a in (0, 1))
    assert left == pytest.approx(optimal_value(mdp), abs=1e-12)
    assert right < left
    # With 4 states the same horizon suffices, so the note is about the length of the chain.
    short = riverswim(states=4, horizon=6)
    assert policy_value(short, constant_policy(short, 0)) < 0.1 * optimal_value(short)


def test_riverswim_of_two_states_has_only_banks():
    assert riverswim(states=2).state_names == ("left bank", "right bank")
    with pytest.raises(InvalidInput, match="states must be a whole number of at least 2"):
        riverswim(states=1)


# --- random-mdp


def test_random_mdp_has_the_size_of_the_paper_and_rewards_in_zero_one():
    mdp = random_mdp()
    assert (mdp.num_states, mdp.num_actions, mdp.horizon, mdp.reward_kind) == (2, 2, 2, "deterministic")
    assert set(random_mdp(states=20, actions=5, horizon=3).r.ravel()) == {0.0, 1.0}
    assert random_mdp(seed=3) == random_mdp(seed=3)
    assert len({random_mdp(seed=seed).fingerprint() for seed in range(20)}) == 20


@pytest.mark.statistical
def test_random_mdp_rows_are_dirichlet_and_rewards_fair():
    # One coordinate of Dirichlet(α, ..., α) over S states is Beta(α, (S-1)α): mean 1/S, variance (1/S)(1-1/S)/(Sα+1).
    # Over 200 MDPs of 400 rows the second moment is known to about 0.5% (4 standard errors, false alarm 1e-4); a
    # concentration of 0.125 instead of 0.1, 25% off, moves it by 6%, far outside.
    S, alpha = 4, 0.1
    rows = np.concatenate([random_mdp(states=S, actions=100, seed=seed).P[0].reshape(-1, S) for seed in range(200)])
    squares = (rows**2).sum(axis=1)
    error = squares.std() / math.sqrt(len(rows))

    def expected(concentration):
        return S * ((1 / S) * (1 - 1 / S) / (S * concentration + 1) + 1 / S**2)

    assert abs(squares.mean() - expected(alpha)) < 4 * error
    assert abs(squares.mean() - expected(1.25 * alpha)) > 8 * error
    rewards = np.concatenate([random_mdp(states=S, actions=100, seed=seed).r[0].ravel() for seed in range(200)])
    fair = 0.5 / math.sqrt(len(rewards))
    assert abs(rewards.mean() - 0.5) < 4 * fair  # false alarm 1e-4; a probability of 0.52 would be 11 errors away


# --- hard-tree


@pytest.mark.parametrize(
    ("states", "actions", "depth", "leaves"), [(15, 3, 3, 9), (9, 2, 3, 4), (3, 2, 1, 1), (6, 3, 2, 3)]
)
@pytest.mark.parametrize("gap", [0.02, 0.25, 0.5])
def test_hard_tree_satisfies_equation_seven(states, actions, depth, leaves, gap):
    # V^π = (H − d)(1/2 + Δ P(hidden pair)); 15 states and 3 actions are the example of Figure 3.
    H = 9
    mdp = hard_tree(states=states, actions=actions, horizon=H, gap=gap)
    assert mdp.homogeneous
    assert optimal_value(mdp) == pytest.approx((H - depth) * (0.5 + gap))
    uniform = policy_value(mdp, uniform_policy(mdp))
    assert uniform == pytest.approx((H - depth) * (0.5 + gap / (leaves * actions)))
    if leaves > 1:  # no constant action finds the default pair
        for a in range(actions):
            assert policy_value(mdp, constant_policy(mdp, a)) == pytest.approx((H - depth) / 2)


def test_hard_tree_hides_exactly_one_pair():
    mdp = hard_tree(good_leaf=5, good_action=2, gap=0.1)
    plus = mdp.state_names.index("+")
    chances = {(mdp.state_names[s], a): mdp.P[0, s, a, plus] for s in range(mdp.num_states - 2) for a in range(3)}
    assert {pair for pair, chance in chances.items() if chance not in (0.0, 0.5)} == {("leaf 5", 2)}
    assert chances["leaf 5", 2] == pytest.approx(0.6)
    assert sum(name.startswith("leaf") for name in mdp.state_names) == 9
    assert mdp.r[0].sum(axis=1).nonzero()[0].tolist() == [plus]


@pytest.mark.parametrize("states", [4, 5, 7, 8, 11, 12, 20])
def test_equation_seven_holds_for_imperfect_trees_too(states):
    # Leaves at two depths must not pay differently: with a tiny gap the hidden pair alone still decides.
    H, gap, actions = 12, 1e-3, 3
    nodes = states - 2
    leaves = sum(actions * node + 1 >= nodes for node in range(nodes))
    depth, deepest = 0, nodes - 1
    while deepest > 0:
        deepest, depth = (deepest - 1) // actions, depth + 1
    for leaf in range(leaves):
        mdp = hard_tree(states=states, actions=actions, horizon=H, gap=gap, good_leaf=leaf)
        assert optimal_value(mdp) == pytest.approx((H - depth - 1) * (0.5 + gap), rel=1e-12)
        assert ever_reached(mdp).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 6}, r"horizon must be at least 2 log_A\(S - 2\) \+ 2 = 7"),
        ({"states": 2}, "states must be a whole number of at least 3"),
        ({"actions": 1}, "actions must be a whole number of at least 2"),
        ({"gap": 0.0}, "gap must be"),
        ({"gap": 0.6}, "gap must be"),
        ({"gap": math.nan}, "gap must be"),
        ({"good_leaf": 9}, "good_leaf must be below 9"),
        ({"good_action": 3}, "good_action must be below 3"),
    ],
)
def test_hard_tree_refuses_what_theorem_two_excludes(changes, message):
    with pytest.raises(InvalidInput, match=message):
        hard_tree(**changes)


# --- the realistic three


@pytest.mark.parametrize("name", REALISTIC)
def test_realistic_environments_are_worth_learning(name):
    mdp = make(name)
    best = optimal_value(mdp)
    others = [policy_value(mdp, uniform_policy(mdp))]
    others += [policy_value(mdp, constant_policy(mdp, a)) for a in range(mdp.num_actions)]
    # At least 10% of the reward of the best fixed policy is to be won by looking at the state.
    assert best > 1.1 * max(others)


@pytest.mark.parametrize("name", REALISTIC)
def test_realistic_environments_are_recognisable(name):
    mdp = make(name)
    assert 10 <= mdp.num_states <= 60
    assert 6 <= mdp.horizon <= 12
    assert not any(label.isdigit() for label in (*mdp.state_names, *mdp.action_names))


@pytest.mark.parametrize("name", sorted(set(GYMNASIUM_IDS.values()) - {"taxi"}))
def test_every_state_can_be_reached(name):
    assert ever_reached(make(name)).all()


def test_404_of_the_500_numbers_of_taxi_are_states_of_a_ride():
    """The others have the passenger at the destination already, where no ride begins and none leads but a delivery."""
    assert ever_reached(make("taxi:horizon=40")).sum() == 404


def test_every_action_of_a_realistic_environment_is_best_somewhere():
    for name in REALISTIC:
        mdp = make(name)
        V = optimal_values(mdp)
        useful = set()
        for h in range(mdp.horizon):
            Q = mdp.r[h] + mdp.P[h] @ V[h + 1]
            gaps = np.sort(Q, axis=1)
            clear = gaps[:, -1] - gaps[:, -2] > 1e-6
            useful |= set(Q.argmax(axis=1)[clear].tolist())
        assert useful == set(range(mdp.num_actions)), name


def test_treatment_states_move_as_documented():
    mdp = make("treatment")
    s, a = mdp.state_names.index("mild, serious"), mdp.action_names.index("low dose")
    row = dict(zip(mdp.state_names, mdp.P[0, s, a], strict=True))
    assert row["stopped"] == pytest.approx(0.20)
    assert row["remission, tolerable"] == pytest.approx(0.8 * 0.30 * 0.20)
    assert row["moderate, serious"] == pytest.approx(0.8 * 0.12 * 0.80)
    assert mdp.r[0, s, a] == pytest.approx(0.75 * 0.45)
    assert mdp.rho[mdp.state_names.index("severe, none")] == pytest.approx(0.4)


def test_ev_charging_pays_euros():
    mdp = make("ev-charging")
    euros = mdp.reward_scale * mdp.r[0] + mdp.reward_offset

    def paid(state, action):
        return euros[mdp.state_names.index(state), mdp.action_names.index(action)]

    assert paid("5/5, day, called", "deliver") == pytest.approx(14.0)
    assert paid("1/5, day, called", "deliver") == pytest.approx(-7.0)
    assert paid("5/5, day, free", "deliver") == pytest.approx(-2.0)
    assert paid("3/5, day, called", "wait") == pytest.approx(-5.0)
    assert paid("1/5, peak, called", "fast charge") == pytest.approx(-5.0 - 24 * 0.45 * 1.15)
    assert paid("4/5, night, free", "fast charge") == pytest.approx(-12 * 0.12 * 1.15)
    assert paid("5/5, night, free", "fast charge") == pytest.approx(0.0)
    row = dict(zip(mdp.state_names, mdp.P[0, mdp.state_names.index("4/5, peak, called"), 3], strict=True))
    assert row["2/5, day, called"] == pytest.approx(0.7 * 0.40 * 0.50)
    assert row["1/5, peak, free"] == pytest.approx(0.3 * 0.60 * 0.60)


def test_recommender_moves_as_documented():
    mdp = make("recommender")
    s, a = mdp.state_names.index("engaged, tired"), mdp.action_names.index("invitation")
    row = dict(zip(mdp.state_names, mdp.P[0, s, a], strict=True))
    assert row["gone"] == pytest.approx(0.05)
    assert row["subscriber, weary"] == pytest.approx(0.95 * 0.60 * 0.7 * 0.80)
    assert mdp.r[0, mdp.state_names.index("subscriber, tired"), 1] == pytest.approx(0.65 * 0.7 + 0.30)
    fallen = mdp.P[0, mdp.state_names.index("subscriber, weary"), 2, mdp.state_names.index("engaged, weary")]
    assert fallen == pytest.approx(0.75 * 0.3 * 0.4)
