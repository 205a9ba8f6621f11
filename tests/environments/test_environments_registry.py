import pytest

from tacit.environments import GYMNASIUM_IDS, TabularMDP, list_environments, make
from tacit.environments.bandits import DoseBandit, FeatureBandit
from tacit.environments.layered import LossWorld
from tacit.environments.registry import ENVIRONMENTS, make_environment
from tacit.environments.tabular_worlds import hard_tree, riverswim
from tacit.errors import InvalidInput, UnknownName
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig


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
        ("riverswim:states=10000000", "must fit into (memory|90% of the available memory)"),
        (7, "must be named like"),
    ],
)
def test_bad_values_are_refused(spec, message):
    with pytest.raises(InvalidInput, match=message):
        make(spec)


def test_the_list_says_what_there_is_to_choose():
    listed = {info.name: info for info in list_environments()}
    assert list(listed) == sorted(listed)
    tabular = {name for name in listed if isinstance(make_environment(name), TabularMDP)}
    assert tabular == {*GYMNASIUM_IDS.values(), "taxi"}  # which is Gymnasium's own Taxi-v4
    for name, info in listed.items():
        assert info.summary.endswith(".")
        assert "\n" not in info.summary
        spelled = ",".join(f"{key}={value}" for key, value in info.parameters.items())
        first, again = make_environment(f"{name}:{spelled}"), make_environment(name)
        found = [getattr(one, "mdp", one) for one in (first, again)]
        assert found[0].fingerprint() == found[1].fingerprint()
        assert found[0].name == name
    assert dict(listed["random-mdp"].parameters) == {
        "states": 2, "actions": 2, "horizon": 2, "seed": 0, "drift": 0.0,
    }  # fmt: skip


def test_only_tables_are_made_as_tables():
    for name in ("layered", "dose-bandit"):
        with pytest.raises(InvalidInput, match="must be a table"):
            make(name)


def test_what_run_accepts_is_what_the_list_prints():
    """Every listed name builds a world for some learner, and no other name does."""
    plays = {
        TabularMDP: {"learner": "uniform"},
        DoseBandit: {"learner": "dp-pg:policy=gaussian"},
        FeatureBandit: {"learner": "lin-greedy"},
        LossWorld: {"learner": "uc-o-reps", "adversary": "iid"},
    }
    for info in list_environments():
        asked = plays[type(make_environment(info.name))]
        assert assemble(RunConfig(environment=info.name, episodes=50, seeds=(0,), **asked)).world.name == info.name
    assert list(ENVIRONMENTS) == [info.name for info in list_environments()]
    for asked in plays.values():
        with pytest.raises(UnknownName, match="did you mean 'dose-bandit'"):
            assemble(RunConfig(environment="doze-bandit", episodes=50, seeds=(0,), **asked))
