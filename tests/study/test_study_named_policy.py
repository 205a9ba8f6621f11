"""Policies by name: what they answer, what they are worth once killed, and every file that `tacit policy` reads."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.errors import InvalidInput, UnknownName
from tacit.policies import DeterministicPolicy, StochasticPolicy, uniform_policy
from tacit.policies.named import NamedPolicy

TREAT = DeterministicPolicy(np.array([[0, 1], [1, 0]]))
WAIT = DeterministicPolicy(np.zeros((2, 2), dtype=np.int64))
NAMES = {"states": ("well", "sick"), "actions": ("wait", "pill")}


def named(**changes):
    return NamedPolicy(**{"policy": TREAT, "fallback": WAIT, **NAMES, **changes})


def test_a_policy_answers_by_name_and_by_number():
    assert [named().act(h, s) for h in (0, 1) for s in ("well", "sick")] == ["wait", "pill", "pill", "wait"]
    assert named().act(0, 1) == "pill"
    np.testing.assert_array_equal(named().to_numpy(), TREAT.probabilities(2))
    assert named().table() == (("well", "wait", "pill"), ("sick", "pill", "wait"))


def test_a_killed_policy_answers_with_its_fallback_everywhere():
    killed = named().kill()
    assert [killed.act(h, s) for h in (0, 1) for s in (0, 1)] == ["wait"] * 4
    np.testing.assert_array_equal(killed.to_numpy(), WAIT.probabilities(2))
    assert NamedPolicy.from_json(killed.to_json()).act(0, "sick") == "wait"
    with pytest.raises(InvalidInput, match="fallback"):
        named(fallback=None).kill()


def test_lots_have_the_stated_probabilities_and_need_coins():
    """500 draws of probability 0.3: outside of 0.2 to 0.4 with probability below 1e-4 (Hoeffding); fixed seed."""
    table = np.array([[[0.3, 0.7], [1.0, 0.0]]])
    drawn = named(policy=StochasticPolicy(table), fallback=None)
    with pytest.raises(InvalidInput, match="coins"):
        drawn.act(0, "well")
    assert drawn.act(0, "sick") == "wait"
    coins = np.random.default_rng(7)
    share = np.mean([drawn.act(0, "well", coins) == "wait" for _ in range(500)])
    assert 0.2 < share < 0.4
    assert drawn.table() == (("well", "wait 30%, pill 70%"), ("sick", "wait"))


@pytest.mark.parametrize(
    "table", [np.array([[[0.0, 1.0 - 1e-10, 1e-10]]]), np.array([[[1e-10, 1.0 - 2e-10, 0.0]]])], ids=["first", "last"]
)
def test_an_impossible_action_is_never_drawn(table):
    class Highest(np.random.Generator):
        def random(self, *args, **kwargs):
            return np.nextafter(1.0, 0.0)

    policy = NamedPolicy(policy=StochasticPolicy(table), states=("on",), actions=("a", "b", "c"))
    possible = [name for name, p in zip(policy.actions, table[0, 0], strict=True) if p > 0]
    assert policy.act(0, "on", Highest(np.random.PCG64(0))) in possible
    assert policy.act(0, "on", np.random.default_rng(1)) in possible


def test_files_give_the_same_bits_back():
    table = np.random.default_rng(0).dirichlet([1.0, 1.0], size=(2, 2))
    for policy in (named(), named(policy=StochasticPolicy(table)), named(fallback=uniform_policy(2, 2, 2))):
        again = NamedPolicy.from_json(policy.to_json())
        np.testing.assert_array_equal(again.to_numpy(), policy.to_numpy())
        assert again.to_dict() == policy.to_dict()


BAD = {
    "state by another name": lambda: named().act(0, "sik"),
    "state out of range": lambda: named().act(0, 2),
    "negative state": lambda: named().act(0, -1),
    "step out of range": lambda: named().act(2, "sick"),
    "negative step": lambda: named().act(-1, "sick"),
    "half a step": lambda: named().act(0.5, "sick"),
    "too few names": lambda: named(states=("well",)),
    "one name twice": lambda: named(states=("well", "well")),
    "empty name": lambda: named(actions=("", "pill")),
    "too few actions": lambda: named(actions=("wait",)),
    "a fallback of another shape": lambda: named(fallback=uniform_policy(3, 2, 2)),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_what_is_not_there_is_refused(call):
    with pytest.raises(InvalidInput):
        call()


def test_a_misspelt_state_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'sick'"):
        named().act(0, "sik")


BAD_FILES = {
    "no JSON": "{",
    "a list": "[]",
    "another format": json.dumps({"format": "other"}),
    "another version": json.dumps({**named().to_dict(), "format_version": 2}),
    "an entry too many": json.dumps({**named().to_dict(), "note": 1}),
    "an entry too few": json.dumps({k: v for k, v in named().to_dict().items() if k != "killed"}),
    "killed is a text": json.dumps({**named().to_dict(), "killed": "no"}),
    "killed without a fallback": json.dumps({**named().to_dict(), "killed": True, "fallback": None}),
    "another horizon": json.dumps({**named().to_dict(), "horizon": 3}),
    "a ragged table": json.dumps({**named().to_dict(), "policy": {"kind": "deterministic", "actions": [[0], [1, 0]]}}),
    "half an action": json.dumps({**named().to_dict(), "policy": {"kind": "deterministic", "actions": [[0.5, 1]] * 2}}),
    "probabilities above one": json.dumps(
        {**named().to_dict(), "policy": {"kind": "stochastic", "table": [[[1, 1]] * 2] * 2}}
    ),
    "a text as table": json.dumps({**named().to_dict(), "policy": "up"}),
    "names that are a text": json.dumps({**named().to_dict(), "states": "ab"}),
}


@pytest.mark.parametrize("text", BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_breaks_a_rule_is_refused(tmp_path, capsys, text):
    with pytest.raises(InvalidInput):
        NamedPolicy.from_json(text)
    path = tmp_path / "policy.json"
    path.write_text(text, encoding="utf-8")
    assert main(["policy", "show", str(path)]) == 2
    assert capsys.readouterr().out == ""


def test_show_and_act_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "policy.json"
    path.write_text(named().to_json(), encoding="utf-8")
    assert main(["policy", "act", str(path), "--step", "0", "--state", "sick"]) == 0
    assert capsys.readouterr().out == "pill\n"
    assert main(["policy", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "step 1" in shown
    assert "unsigned" in shown
    assert "KILLED" not in shown
    path.write_text(named().kill().to_json(), encoding="utf-8")
    assert main(["policy", "act", str(path), "--step", "0", "--state", "sick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"step": 0, "state": "sick", "action": "wait", "killed": True}
    assert main(["policy", "show", str(path)]) == 0
    assert "KILLED" in capsys.readouterr().out
    assert main(["policy", "show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == [["wait", "wait"], ["wait", "wait"]]
    assert main(["policy", "act", str(path), "--step", "0", "--state", "sik"]) == 2


def test_a_bundle_of_a_run_is_shown_by_the_names_of_its_environment(tmp_path, capsys):
    result = tacit.run(
        environment="riverswim", learner="ucbvi", constants="practical", episodes=200, seeds=1, workers=1
    )
    path = tacit.export_bundle(result, tmp_path / "bundle.json")
    world = tacit.make_environment("riverswim")
    assert main(["policy", "show", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["states"], shown["actions"]) == (list(world.state_names), list(world.action_names))
    policy = result.policy_of(result.seeds[0])
    expected = [[world.action_names[a] for a in row] for row in policy.actions]
    assert shown["table"] == expected
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"deterministic"', '"deterministic" ', 1), encoding="utf-8")
    assert main(["policy", "show", str(path)]) == 0
    content = json.loads(text)
    content["policy"]["actions"][0][0] ^= 1
    path.write_text(json.dumps(content), encoding="utf-8")
    assert main(["policy", "show", str(path)]) == 2


def test_a_signed_policy_says_so_and_a_forged_one_is_refused(tmp_path, capsys):
    from tacit.runs.signature import new_keys, sign

    private, _ = new_keys(tmp_path / "keys")
    path = tmp_path / "policy.json"
    signed = sign(named().to_dict(), private)
    path.write_text(json.dumps(signed), encoding="utf-8")
    assert main(["policy", "show", str(path)]) == 0
    assert "signed by key" in capsys.readouterr().out
    path.write_text(json.dumps({**signed, "actions": ["pill", "wait"]}), encoding="utf-8")
    assert main(["policy", "show", str(path)]) == 2
