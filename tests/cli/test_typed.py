"""`tacit.run` is typed: type checkers refuse misspelt options and values; its signature is that of `RunConfig`."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from dataclasses import MISSING
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.policies import DeterministicPolicy, StochasticPolicy
from tacit.runs.config import run_options

ROOT = Path(__file__).parents[2]


def test_the_type_checker_reads_right_and_wrong_calls():
    """`make lint` checks them: under `strict` a `type: ignore` that hides nothing is an error."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert options["strict"]
    assert "tests/typed_calls.py" in options["files"]
    assert not any(row.get("warn_unused_ignores") is False for row in options["overrides"])


@pytest.mark.slow  # half a minute where its cache is cold
def test_a_call_that_is_right_and_called_wrong_is_an_error(tmp_path):
    file = tmp_path / "calls.py"
    text = (ROOT / "tests" / "typed_calls.py").read_text(encoding="utf-8")
    file.write_text(text.replace("epsilom=3", "epsilon=3"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(errors) == 1, done.stdout
    assert "unused-ignore" in errors[0] or "Unused" in errors[0]


def test_run_has_the_options_of_its_configuration():
    parameters = inspect.signature(tacit.run).parameters
    options = run_options()
    assert [*parameters][: len(options)] == [item.name for item in options]
    for item in options:
        default = inspect.Parameter.empty if item.default is MISSING else item.default
        assert parameters[item.name].default == (1 if item.name == "seeds" else default), item.name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"environment": "riverswim", "episodes": 10, "epsilom": 3}, "did you mean 'epsilon'"),
        ({"environment": "riverswim"}, "episodes=20_000"),
        ({"episodes": 10}, "environment='riverswim'"),
    ],
)
def test_wrong_keywords_get_a_suggestion(options, words):
    with pytest.raises(TypeError, match=words):
        tacit.run(**options)


def test_plans_of_studies_suggest_too():
    from tacit.study import plan_study

    with pytest.raises(TypeError, match="did you mean 'horizon'"):
        plan_study(horizn=3)


def test_policies_act_by_number():
    fixed = DeterministicPolicy(np.array([[0, 1], [1, 0]]))
    assert [fixed.act(s, h) for h in (0, 1) for s in (0, 1)] == [0, 1, 1, 0]
    coins = np.random.default_rng(0)
    drawn = [StochasticPolicy(np.array([[[0.25, 0.0, 0.75]]])).act(0, 0, coins) for _ in range(400)]
    assert set(drawn) == {0, 2}
    assert 240 < sum(a == 2 for a in drawn) < 345  # mean 300, standard deviation 8.7: false alarm below 1e-6
    for state, step in ((2, 0), (0, 2), (-1, 0), ("a", 0)):
        with pytest.raises(InvalidInput):
            fixed.act(state, step)


def test_there_is_one_class_called_device():
    from tacit.study import Device

    assert Device.__module__ == "tacit.study.device"
    with pytest.warns(DeprecationWarning, match="RemoteDevice"):
        assert tacit.Device is tacit.RemoteDevice
    assert tacit.RemoteDevice.__name__ == "RemoteDevice"


def test_public_modules_offer_what_they_list():
    import tacit.extend
    import tacit.study

    for module in (tacit.extend, tacit.study):
        assert len(module.__all__) == len(set(module.__all__))
        assert all(getattr(module, name) is not None for name in module.__all__)


def test_learners_are_listed():
    found = {row.name: row for row in tacit.list_learners()}
    assert {"auto", "bucb", "ucbvi"} <= set(found)
    assert found["ucbvi"].options["bonus"][0] == "hoeffding"
