"""What a change costs: one of each kind is added to a copy of the sources, works there, and the files are counted.

The table of docs/architecture.md states these numbers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Changes = Mapping[str, tuple[tuple[str, str], ...] | Path]
"""File below src/tacit -> what is replaced by what in it, or the file that it becomes."""

LEARNER = """    "toy-commit": LearnerRow(
        summary="explore, then commit", asks=Totals, options={"part": ("number",)},
        build=lambda request: __import__("tacit.learners.toy", fromlist=["_"]).make_commit(request),
    ),
    "uniform": LearnerRow("""
FIELD = """    toy_field: str = term("Nothing.", lambda setting: "of a toy", {"type": "string"})
    verifier: str = term("""
ADDITIONS: Mapping[str, Changes] = {
    "noise": {
        "noise/toy.py": HERE.parent / "noise" / "toy_mechanism.py",
        "noise/table.py": (
            ('    "rr": Row(', '    "toy": Row(trust="local", kind=Blurred),\n    "rr": Row('),
            (
                "from tacit.plugins import named\n",
                "from tacit.noise.toy import Blurred\nfrom tacit.plugins import named\n",
            ),
        ),
    },
    "statistic": {
        "release/toy_release.py": HERE / "toy_package" / "toy_release.py",
        "release/registry.py": (
            ('    "central-losses":', '    "central-toy": ToyRelease,\n    "central-losses":'),
            (
                "from tacit.release.totals_release import",
                "from tacit.release.toy_release import ToyRelease\nfrom tacit.release.totals_release import",
            ),
        ),
    },
    "learner": {
        "learners/toy.py": HERE / "toy_package" / "__init__.py",
        "learners/table.py": (
            (
                '    "uniform": LearnerRow(',
                LEARNER,
            ),
        ),
    },
    "environment": {
        "environments/toy.py": ROOT / "docs" / "adding.md",
        "environments/registry.py": (
            ('    "taxi": taxi,\n', '    "taxi": taxi,\n    "toy-doors": toy_doors,\n'),
            (
                "from tacit.environments.taxi import",
                "from tacit.environments.toy import two_doors as toy_doors\nfrom tacit.environments.taxi import",
            ),
        ),
    },
    "option": {
        "runs/config.py": (
            (
                "    because: str | None = field(",
                '    toy_option: int = option("Nothing; a number.", 7)\n    because: str | None = field(',
            ),
        ),
        "runs/runner.py": (
            (
                "    value_users: int | None = None,\n",
                "    toy_option: int = 7,\n    value_users: int | None = None,\n",
            ),
        ),
    },
    "certificate field": {
        "accounting/terms.py": (
            (
                "    verifier: str = term(",
                FIELD,
            ),
        ),
    },
}
MOST = 2
"""Files in src that each of these changes may touch, a new one included."""

SCRIPT = """
import json, tacit
from dataclasses import replace
from fractions import Fraction
import numpy as np
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.data.trajectories import Trajectories
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.registry import CHANNELS, channel_from_dict
from tacit.released.counts import CountShape

run = tacit.run(environment="toy-doors", learner="toy-commit:part=2", episodes=400, seeds=1, trust="local", epsilon=4.0,
                delta=0.0, mechanism="toy", toy_option=3, workers=1)
kind = CHANNELS["central-toy"]
claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
                     neighbours="replace-one", output="other-users-actions")
made = kind(shape=CountShape(horizon=3, num_states=2, num_actions=2, staged=True), claim=claim, target=50, least=40,
            levels=16, unit=65536, variance=round((65536 * 14) ** 2))
lived = Trajectories(np.zeros((50, 4), int), np.zeros((50, 3), int), np.ones((50, 3)))
again = channel_from_dict(json.loads(json.dumps(made.to_dict())))
memory = again.begin_memory()
one = Trajectories(lived.states[:1], lived.actions[:1], lived.rewards[:1])
bodies = [again.encode(type("One", (), dict(states=s, actions=a, rewards=r)), SecureNoise()) for s, a, r in
          zip(lived.states, lived.actions, lived.rewards)]
_, payload = again.release(again.begin_secret(), bodies, TOTALS, SecureNoise())
memory, private = again.read(memory, payload, 50)
_, drawn = again.simulate(again.begin_secret(), lived, TOTALS, SimulationNoise(np.random.default_rng(0)))
print(json.dumps({
    "noise": run.config.mechanism,
    "learner": run.config.learner,
    "environment": run.config.environment,
    "option": run.config.toy_option,
    "certificate field": run.certificate.terms.to_dict()["toy_field"],
    "statistic": again == made and abs(private.statistics - 150.0) < 120.0 and len(drawn) == len(payload),
    "epsilon": epsilon_of(again.events(), 1e-6),
}))
"""


def python_block(path: Path) -> str:
    """The first block of code of a page, without what runs it."""
    block = re.search(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    code = block[1].partition("result = ")[0].replace("tacit.TabularMDP", "TabularMDP")
    return code.replace("import tacit", "from tacit.environments.tabular import TabularMDP")


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with all additions."""
    place = tmp_path_factory.mktemp("copy") / "tacit"
    shutil.copytree(ROOT / "src" / "tacit", place, ignore=shutil.ignore_patterns("__pycache__"))
    for changes in ADDITIONS.values():
        for name, change in changes.items():
            file = place / name
            if isinstance(change, Path):
                assert not file.exists()
                text = python_block(change) if change.suffix == ".md" else change.read_text(encoding="utf-8")
                file.write_text(text, encoding="utf-8")
                continue
            text = file.read_text(encoding="utf-8")
            for before, after in change:
                assert text.count(before) == 1, (name, before)
                text = text.replace(before, after)
            file.write_text(text, encoding="utf-8")
    return place.parent


def test_one_of_each_kind_works_in_a_copy_of_the_sources(changed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(changed)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert 0.5 < found.pop("epsilon") < 1.5
    assert found == {
        "noise": "toy", "learner": "toy-commit:part=2", "environment": "toy-doors", "option": 3,
        "certificate field": "of a toy", "statistic": True,
    }  # fmt: skip
    assert set(found) == set(ADDITIONS)


@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_change_touches_few_files(kind: str) -> None:
    assert len(ADDITIONS[kind]) <= MOST
