import re
from pathlib import Path

import pytest
from environment_values import constant_policy, optimal_value, policy_value, uniform_policy

from tacit.environments import GYMNASIUM_IDS, list_environments, make

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def rows():
    table = re.findall(r"^\| `([a-z-]+)` \|(.+)\|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in table}


def test_the_table_lists_every_environment():
    assert sorted(rows()) == [info.name for info in list_environments()]


@pytest.mark.parametrize("name", [info.name for info in list_environments()])
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
