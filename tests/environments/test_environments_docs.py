import re
from pathlib import Path

import pytest
from environment_values import constant_policy, optimal_value, policy_value, uniform_policy

from tacit.environments import GYMNASIUM_IDS, TabularMDP, list_environments, make
from tacit.environments.registry import make_environment

NAMES = [info.name for info in list_environments()]
TABULAR = [name for name in NAMES if isinstance(make_environment(name), TabularMDP)]
PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def rows():
    table = re.findall(r"^\| `([a-z-]+)` \|(.+)\|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in table}


def test_the_table_lists_every_environment():
    assert sorted(rows()) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TABULAR])
def test_other_kinds_of_environments_are_listed_with_what_plays_in_them(name):
    kind, learners = rows()[name]
    assert (
        kind
        == {
            "LossWorld": "layered, adversarial losses",
            "DoseBandit": "real-valued doses",
            "FeatureBandit": "rows of features, one decision",
        }[type(make_environment(name)).__name__]
    )
    assert learners


@pytest.mark.parametrize("name", TABULAR)
def test_the_table_is_what_the_code_says(name):
    mdp = make(name)
    constants = [policy_value(mdp, constant_policy(mdp, a)) for a in range(mdp.num_actions)]
    values = (optimal_value(mdp), policy_value(mdp, uniform_policy(mdp)), max(constants))
    ids = {builder: gymnasium_id for gymnasium_id, builder in GYMNASIUM_IDS.items()}
    sizes = [str(mdp.num_states), str(mdp.num_actions), str(mdp.horizon)]
    assert rows()[name] == [*sizes, *(f"{value:.4f}" for value in values), f"`{ids[name]}`"]


def test_the_seeds_of_random_mdp_differ_as_the_page_says():
    for seed, loss in ((0, 0.025), (3, 1.0)):
        mdp = make(f"random-mdp:seed={seed}")
        assert optimal_value(mdp) - policy_value(mdp, uniform_policy(mdp)) == pytest.approx(loss, abs=5e-3)
