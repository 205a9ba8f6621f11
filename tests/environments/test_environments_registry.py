import pytest

from tacit.environments import GYMNASIUM_IDS, list_environments, make
from tacit.environments.hard_tree import hard_tree
from tacit.environments.riverswim import riverswim
from tacit.errors import InvalidInput, UnknownName


def test_parameters_take_the_types_of_the_signature():
    assert make("riverswim") == riverswim()
    assert make("riverswim:states=5,horizon=9") == riverswim(states=5, horizon=9)
    assert make(" riverswim : horizon = 9 , states = 5 ") == riverswim(states=5, horizon=9)
    assert make("hard-tree:gap=0.125,good_leaf=3") == hard_tree(gap=0.125, good_leaf=3)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("riverswin", "unknown environment 'riverswin': did you mean 'riverswim'"),
        ("", "unknown environment ''"),
        ("riverswim:stats=4", "unknown parameter of riverswim 'stats': did you mean 'states'"),
        ("treatment:dose=4", "unknown parameter of treatment 'dose'"),
    ],
)
def test_unknown_names_suggest_the_nearest(spec, message):
    with pytest.raises(UnknownName, match=message):
        make(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("riverswim:states=four", "states of riverswim must be a whole number, got 'four'"),
        ("riverswim:states=4.5", "states of riverswim must be a whole number, got '4.5'"),
        ("riverswim:states=", "states of riverswim must be a whole number, got ''"),
        ("riverswim:states", "must be written name=value, got 'states'"),
        ("riverswim:states=4,", "must be written name=value, got ''"),
        ("riverswim:", "after the colon"),
        ("riverswim:states=4,states=5", "given once, got states twice"),
        ("riverswim:states=-1", "states must be a whole number of at least 2, got -1"),
        ("hard-tree:gap=nan", "gap must be a finite number"),
        ("hard-tree:gap=big", "gap of hard-tree must be a number, got 'big'"),
        ("riverswim:states=10000000", "must fit into memory"),
        (7, "must be named like"),
    ],
)
def test_bad_values_are_refused(spec, message):
    with pytest.raises(InvalidInput, match=message):
        make(spec)


def test_the_list_says_what_there_is_to_choose():
    listed = {info.name: info for info in list_environments()}
    assert list(listed) == sorted(listed)
    assert set(listed) == set(GYMNASIUM_IDS.values())
    for name, info in listed.items():
        assert info.summary.endswith(".")
        assert "\n" not in info.summary
        spelled = ",".join(f"{key}={value}" for key, value in info.parameters.items())
        assert make(f"{name}:{spelled}") == make(name)
        assert make(name).name == name
    assert dict(listed["random-mdp"].parameters) == {"states": 2, "actions": 2, "horizon": 2, "seed": 0}
