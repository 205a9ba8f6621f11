import pickle

import numpy as np
import pytest
from environment_values import optimal_value, policy_value, random_policy, random_tabular

from tacit.environments import LayeredMDP, TabularMDP, make
from tacit.errors import InvalidInput

FORK = ([[[1.0, 0.0], [0.2, 0.8]]], [[[1.0], [1.0]], [[1.0], [1.0]]])


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("point_start", [True, False])
def test_values_of_random_policies_survive_the_round_trip(homogeneous, point_start):
    generator = np.random.default_rng(11)
    mdp = random_tabular(
        generator,
        states=3,
        actions=2,
        horizon=4,
        homogeneous=homogeneous,
        point_start=point_start,
        tabular=TabularMDP,
    )
    layered = LayeredMDP.from_tabular(mdp)
    back = layered.to_tabular(r=layered.lift(mdp.r))
    assert layered.horizon == back.horizon == (4 if point_start else 5)
    for _ in range(5):
        policy = random_policy(mdp, generator)
        lifted = np.repeat(layered.lift(policy, fill=0.5)[None], back.horizon, axis=0)
        assert policy_value(back, lifted) == pytest.approx(policy_value(mdp, policy), abs=1e-12)
    assert optimal_value(back) == pytest.approx(optimal_value(mdp), abs=1e-12)


@pytest.mark.parametrize("spec", ["riverswim", "hard-tree", "treatment", "random-mdp"])
def test_named_environments_unroll_with_the_same_optimal_value(spec):
    mdp = make(spec)
    layered = LayeredMDP.from_tabular(mdp)
    assert optimal_value(layered.to_tabular(r=layered.lift(mdp.r))) == pytest.approx(optimal_value(mdp), abs=1e-12)


def test_layered_to_tabular_and_back_is_the_same_model():
    layered = LayeredMDP(transitions=FORK)
    again = LayeredMDP.from_tabular(layered.to_tabular(r=np.zeros((4, 2))))
    assert again.num_states == layered.num_states
    for step, twin in zip(layered.transitions, again.transitions, strict=True):
        assert np.array_equal(step, twin)


def test_layers_hold_only_states_that_can_be_reached():
    layered = LayeredMDP.from_tabular(make("riverswim:states=4,horizon=6"))
    assert [len(layer) for layer in layered.layers] == [1, 2, 3, 4, 4, 4, 1]
    assert np.concatenate(layered.layers).tolist() == list(range(layered.num_states))
    assert layered.origin[[0, 1, 2, -1]].tolist() == [[0, 0], [1, 0], [1, 1], [-1, -1]]
    assert layered.state_names[2] == "1:1 from the left"


def test_to_tabular_moves_only_from_layer_to_layer():
    layered = LayeredMDP.from_tabular(make("riverswim"))
    mdp = layered.to_tabular(r=np.zeros((layered.num_states, 2)))
    assert mdp.homogeneous
    layer_of = np.concatenate([np.full(len(layer), h) for h, layer in enumerate(layered.layers)])
    for x, _, y in np.argwhere(mdp.stage_P[0] > 0):
        assert layer_of[y] == layer_of[x] + 1 or x == y == layered.num_states - 1


def test_one_step_and_one_action_are_fine():
    layered = LayeredMDP(transitions=([[[1.0]]],))
    assert (layered.horizon, layered.num_states, layered.num_actions) == (1, 2, 1)
    single = TabularMDP(P=[[[1.0]]], r=[[0.5]], rho=[1.0], horizon=1)
    assert LayeredMDP.from_tabular(single).num_states == 2


def test_layered_models_are_read_only_and_pickle():
    layered = LayeredMDP.from_tabular(make("riverswim"))
    twin = pickle.loads(pickle.dumps(layered))  # noqa: S301 - our own bytes
    assert twin.state_names == layered.state_names
    assert np.array_equal(twin.origin, layered.origin)
    for model in (layered, twin):
        with pytest.raises(ValueError, match="read-only"):
            model.transitions[0][...] = 0.0
    with pytest.raises(AttributeError):
        layered.name = "another"


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        ((), "one array for each step"),
        (([[1.0]],), r"transitions\[0\] must have the shape"),
        (([[[1.0]], [[1.0]]],), r"transitions\[0\] must have the shape \[1, 1, .* got \(2, 1, 1\)"),
        (([[[0.5, 0.5]]], [[[1.0]]]), r"transitions\[1\] must have the shape \[2, 1, .* got \(1, 1, 1\)"),
        (([[[0.5, 0.5]]],), "last layer must hold a single state, got 2"),
        (([[[0.5, 0.4]]], [[[1.0]], [[1.0]]]), r"transitions\[0\]\[x=0, a=0\] must sum to 1, sums to 0.9"),
        (([[[1.5, -0.5]]], [[[1.0]], [[1.0]]]), r"transitions\[0\]\[x=0, a=0\] must .* has -0.5"),
        (([[[np.nan, 1.0]]], [[[1.0]], [[1.0]]]), r"transitions\[0\]\[x=0, a=0\] must .* has nan"),
    ],
)
def test_broken_layers_are_refused_by_row(transitions, message):
    with pytest.raises(InvalidInput, match=message):
        LayeredMDP(transitions=transitions)


def test_lift_refuses_what_it_cannot_place():
    with pytest.raises(InvalidInput, match="made by from_tabular"):
        LayeredMDP(transitions=FORK).lift(np.zeros((2, 2, 2)))
    with pytest.raises(InvalidInput, match="of the TabularMDP this came from"):
        LayeredMDP.from_tabular(make("riverswim")).lift(np.zeros((6, 4, 3)))
