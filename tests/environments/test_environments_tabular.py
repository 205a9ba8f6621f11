import copy
import pickle

import numpy as np
import pytest

from tacit.environments import TabularMDP
from tacit.errors import InvalidInput

H, S, A = 3, 2, 2


def arrays():
    generator = np.random.default_rng(0)
    P = generator.dirichlet(np.ones(S), size=(S, A))
    return {"P": P, "r": generator.random((S, A)), "rho": np.array([0.25, 0.75]), "horizon": H}


def staged(**changes):
    given = arrays()
    given |= {"P": np.repeat(given["P"][None], H, axis=0), "r": np.repeat(given["r"][None], H, axis=0)}
    return given | changes


def with_entry(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def test_homogeneous_models_are_views_and_not_copies():
    mdp = TabularMDP(**arrays())
    assert mdp.homogeneous
    assert (mdp.stage_P.shape, mdp.stage_r.shape) == ((1, S, A, S), (1, S, A))
    assert (mdp.P.shape, mdp.r.shape, mdp.rho.shape) == ((H, S, A, S), (H, S, A), (S,))
    assert np.shares_memory(mdp.P, mdp.stage_P)
    assert np.shares_memory(mdp.r, mdp.stage_r)
    assert mdp.P.strides[0] == 0
    assert np.shares_memory(mdp.P[0], mdp.P[H - 1])


def test_time_dependent_models_show_each_step():
    given = staged()
    given["P"][1, 0, 0] = [1.0, 0.0]
    mdp = TabularMDP(**given)
    assert not mdp.homogeneous
    assert np.array_equal(mdp.P, given["P"])
    assert np.array_equal(mdp.r, given["r"])
    assert np.shares_memory(mdp.P, mdp.stage_P)


def test_one_time_dependent_array_makes_both_time_dependent():
    given = arrays()
    r = np.stack([given["r"], np.zeros((S, A)), given["r"]])
    mdp = TabularMDP(**(given | {"r": r}))
    assert not mdp.homogeneous
    assert mdp.stage_P.shape == (H, S, A, S)
    assert mdp.stage_P.flags.c_contiguous
    assert np.array_equal(mdp.P[2], given["P"])
    assert np.array_equal(mdp.r, r)


def test_nothing_can_be_written():
    given = arrays()
    mdp = TabularMDP(**given)
    for array in (mdp.P, mdp.r, mdp.rho, mdp.stage_P, mdp.stage_r):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    with pytest.raises(AttributeError, match="never changes"):
        mdp.horizon = 7
    with pytest.raises(AttributeError, match="never changes"):
        del mdp.rho
    given["P"][...] = 0.0  # the caller's own array is not the model's
    assert mdp.P.sum() == pytest.approx(H * S * A)


def test_equality_is_by_contents():
    mdp = TabularMDP(**arrays())
    same = TabularMDP(**arrays(), name="another label", state_names=["x", "y"], action_names=["u", "v"])
    assert mdp == same
    assert hash(mdp) == hash(same)
    assert mdp.fingerprint() == same.fingerprint()
    assert len(mdp.fingerprint()) == 64
    assert mdp != "an MDP"


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": H + 1},
        {"reward_kind": "deterministic"},
        {"reward_scale": 2.0},
        {"reward_offset": -1.0},
        {"rho": [0.75, 0.25]},
        {"r": np.zeros((S, A))},
        {"P": np.full((S, A, S), 0.5)},
    ],
)
def test_anything_that_matters_changes_the_fingerprint(change):
    assert TabularMDP(**arrays()) != TabularMDP(**(arrays() | change))


def test_fingerprint_is_fixed_across_runs():
    # A stored result must find its model again: this value may never change.
    mdp = TabularMDP(P=[[[0.5, 0.5]], [[0.0, 1.0]]], r=[[0.0], [1.0]], rho=[1.0, -0.0], horizon=2)
    assert mdp.fingerprint() == "3ef9b09ab6b677a37cf3ff35206de64edefbbef5c38dfa78e042f6b6cb4f536d"


def test_copies_survive_pickling_read_only():
    mdp = TabularMDP(**arrays(), name="pickled", reward_scale=3.0, state_names=["x", "y"])
    for twin in (pickle.loads(pickle.dumps(mdp)), copy.deepcopy(mdp)):  # noqa: S301 - our own bytes
        assert twin == mdp
        assert (twin.name, twin.state_names, twin.reward_scale) == ("pickled", ("x", "y"), 3.0)
        assert not twin.stage_P.flags.writeable


def test_names_default_to_numbers():
    mdp = TabularMDP(**arrays())
    assert mdp.state_names == ("0", "1")
    assert mdp.action_names == ("0", "1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"P": with_entry(staged()["P"], (2, 1, 0), [0.4, 0.5])}, r"P\[h=2, s=1, a=0\] must sum to 1, sums to 0.9"),
        ({"P": with_entry(arrays()["P"], (1, 0), [0.4, 0.7])}, r"P\[s=1, a=0\] must sum to 1, sums to 1.1"),
        (
            {"P": with_entry(staged()["P"], (1, 0, 1), [1.5, -0.5])},
            r"P\[h=1, s=0, a=1\] must .* has -0.5 at next state 1",
        ),
        ({"P": with_entry(staged()["P"], (0, 1, 1, 0), np.nan)}, r"P\[h=0, s=1, a=1\] must .* has nan at next state 0"),
        ({"P": with_entry(staged()["P"], (0, 1, 1, 0), np.inf)}, r"P\[h=0, s=1, a=1\] must .* has inf"),
        ({"P": np.ones((S, A))}, r"P must have the axes \[S, A, S'\] or \[H, S, A, S'\], got \(2, 2\)"),
        ({"P": np.ones((S, A, S + 1))}, "state axis of P must agree"),
        ({"P": np.ones((H + 1, S, A, S))}, "step axis of P must have length horizon = 3, got 4"),
        ({"P": arrays()["P"] + 0j}, "P must be a rectangular array of real numbers, got 'complex ones'"),
        ({"P": [[["a"]]]}, "P must be a rectangular array of real numbers"),
        ({"P": [[[1.0], [0.5, 0.5]]]}, "P must be a rectangular array of real numbers"),
        ({"P": np.ones((0, A, 0))}, "at least one state and one action"),
        ({"r": np.zeros((A + 1, S))}, "r must have the S, A = 2, 2 of P"),
        ({"r": np.zeros(S)}, r"r must have the axes \[S, A\] or \[H, S, A\]"),
        ({"r": with_entry(staged()["r"], (2, 0, 1), 1.25)}, r"r\[h=2, s=0, a=1\] must lie in \[0, 1\], is 1.25"),
        ({"r": with_entry(arrays()["r"], (0, 1), -0.1)}, r"r\[s=0, a=1\] must lie in \[0, 1\], is -0.1"),
        ({"r": with_entry(arrays()["r"], (0, 1), np.nan)}, r"r\[s=0, a=1\] must lie in \[0, 1\], is nan"),
        ({"rho": [0.5, 0.4]}, "rho must sum to 1, sums to 0.9"),
        ({"rho": [1.5, -0.5]}, r"rho\[s=1\] must be a finite probability that is not negative, is -0.5"),
        ({"rho": [np.nan, 1.0]}, r"rho\[s=0\] must be a finite probability"),
        ({"rho": [1.0]}, "rho must have one entry for each of the 2 states"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number"),
        ({"reward_kind": "gaussian"}, "reward_kind must be one of bernoulli, deterministic, got 'gaussian'"),
        ({"reward_scale": 0.0}, "reward_scale must be a finite number"),
        ({"reward_offset": np.nan}, "reward_offset must be a finite number"),
        ({"state_names": ["x"]}, "state_names must be 2 different names"),
        ({"action_names": ["x", "x"]}, "action_names must be 2 different names"),
    ],
)
def test_bad_input_is_refused_by_name(changes, message):
    with pytest.raises(InvalidInput, match=message):
        TabularMDP(**(arrays() | changes))


def test_rows_may_miss_one_by_rounding_only():
    given = arrays()
    P = given["P"].copy()
    P[0, 0, 0] += 1e-12
    TabularMDP(**(given | {"P": P}))
    P[0, 0, 0] += 1e-6
    with pytest.raises(InvalidInput, match="must sum to 1"):
        TabularMDP(**(given | {"P": P}))
