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
        "statistics/toy.py": HERE / "toy_package" / "toy_statistic.py",
        "statistics/table.py": (
            ('    "moments": MomentVector,', '    "nights": Nights,\n    "moments": MomentVector,'),
            (
                "from tacit.statistics.vectors import",
                "from tacit.statistics.toy import Nights\nfrom tacit.statistics.vectors import",
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
                "from tacit.environments.treatment import",
                "from tacit.environments.toy import two_doors as toy_doors\nfrom tacit.environments.treatment import",
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
import numpy as np
from tacit.accounting.claims import OUTPUTS
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.registry import channel_from_dict
from tacit.release.request import PrivacyRequest
from tacit.release.staged import Staged
from tacit.release.contract import StageSize
from tacit.release.table import make_privatizer
from tacit.statistics.toy import RoomQuery, RoomShape, Sleepers

run = tacit.run(environment="toy-doors", learner="toy-commit:part=2", episodes=400, seeds=1, trust="local", epsilon=4.0,
                delta=0.0, mechanism="toy", toy_option=3, workers=1)
people, certified, errors = 2000, {}, {}
lived, asked = Sleepers(np.tile([4, 2, 0], (people, 1))), RoomQuery()
for trust in ("none", "central", "shuffle", "local"):
    private = trust != "none"
    basis = make_privatizer(PrivacyRequest(
        trust=trust, shape=RoomShape(rooms=3), episodes=people, epsilon=4.0 if private else None,
        delta={"none": None, "local": 0.0}.get(trust, 1e-6), calibration=None, mechanism=None, users_per_batch=1,
        asks=RoomQuery)).basis
    release = basis.release_of(StageSize(target=people, least=people, query=asked))
    if private:
        release = channel_from_dict(json.loads(json.dumps(release.to_dict())))
    staged = Staged(channels=(release,), basis=basis)
    told = []
    for noise in (SimulationNoise(np.random.default_rng(0)), SecureNoise()):
        if private or isinstance(noise, SimulationNoise):
            after, private_sums = staged.release(staged.begin(), lived, asked, noise)
            told.append(np.abs(private_sums.statistics.nights - lived.nights.sum(axis=0)).max())
    std = release.noise_std()["nights"] if private else 0.0
    errors[trust] = bool(max(told) <= 6.0 * std)
    certified[trust] = staged.certificate().epsilon if private else None
print(json.dumps({
    "noise": run.config.mechanism,
    "learner": run.config.learner,
    "environment": run.config.environment,
    "option": run.config.toy_option,
    "certificate field": run.certificate.terms.to_dict()["toy_field"],
    "statistic": errors,
    "epsilon": certified,
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
    certified = found.pop("epsilon")
    assert certified.pop("none") is None
    assert all(1.0 < epsilon <= 4.0 + 1e-9 for epsilon in certified.values()), certified
    assert found == {
        "noise": "toy", "learner": "toy-commit:part=2", "environment": "toy-doors", "option": 3,
        "certificate field": "of a toy", "statistic": dict.fromkeys(("none", "central", "shuffle", "local"), True),
    }  # fmt: skip
    assert set(found) == set(ADDITIONS)


@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_change_touches_few_files(kind: str) -> None:
    assert len(ADDITIONS[kind]) <= MOST
