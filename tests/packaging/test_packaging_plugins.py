"""Another package is installed beside tacit, and what it adds is usable by name everywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = {
    "toy_tacit/__init__.py": HERE / "toy_package" / "__init__.py",
    "toy_tacit/mechanism.py": HERE.parent / "noise" / "toy_mechanism.py",
}
ENTRY_POINTS = """
[tacit.environments]
toy-doors = toy_tacit:toy_doors

[tacit.learners]
toy-commit = toy_tacit:commit

[tacit.mechanisms]
toy = toy_tacit.mechanism:Blurred

[tacit.privatizers]
toy-cautious = toy_tacit:curator
"""


def wheel(directory: Path) -> Path:
    """The package as a wheel, so that the ordinary installer installs it without building anything."""
    info = "toy_tacit-1.0.dist-info"
    files = {name: path.read_bytes() for name, path in SOURCES.items()}
    files[f"{info}/METADATA"] = b"Metadata-Version: 2.1\nName: toy-tacit\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()

    def digest(content: bytes) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")

    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = directory / "toy_tacit-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the package is installed."""
    place = tmp_path_factory.mktemp("site")
    built = wheel(tmp_path_factory.mktemp("wheel"))
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(built)], check=True)
    return place


def tacit(site: Path | None, *arguments: str, code: int = 0) -> str:
    """What the command line prints, with or without the package on the path."""
    return python(site, "-m", "tacit", *arguments, code=code)


def python(site: Path | None, *arguments: str, code: int = 0) -> str:
    """What a program prints, with or without the package on the path."""
    ahead = [str(HERE.parents[1] / "src"), *([] if site is None else [str(site)])]
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(ahead)},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


RUN = (
    "run", "--environment", "toy-doors:horizon=2", "--learner", "toy-commit:part=2", "--episodes", "400",
    "--trust", "local", "--epsilon", "4", "--delta", "0", "--mechanism", "toy", "--json",
)  # fmt: skip


def test_what_a_package_adds_runs_by_name(site):
    found = json.loads(tacit(site, *RUN))
    assert (found["environment"], found["learner"]) == ("toy-doors:horizon=2", "toy-commit:part=2")
    assert found["mechanism"] == "toy"
    assert found["certificate"]["epsilon"] <= 4.0
    assert found["certificate"]["unchecked"] == ["toy-tacit 1.0"]
    assert found["regret"]["mean"] > 0.0
    assert "unknown learner 'toy-commit'" in tacit(None, *RUN, code=2)


ADDED = {"environments": "toy-doors", "learners": "toy-commit", "mechanisms": "toy", "privatizers": "toy-cautious"}
LIST = "import sys\nfrom tacit.cli import main\nsys.exit(sum(main(['list', kind, '--json']) for kind in sys.argv[1:]))"


def test_what_a_package_adds_is_listed(site):
    """In one process: four lists, four times the start of a program."""
    shown = python(site, "-c", LIST, *ADDED)
    lists, place = {}, 0
    while place < len(shown.rstrip()):
        found, end = json.JSONDecoder().raw_decode(shown[place:])
        lists |= found
        place += end + 1
    assert set(lists) == set(ADDED)
    for kind, name in ADDED.items():
        rows = lists[kind]
        assert name in {row.get("name") for row in rows} | {one for row in rows for one in row.get("mechanisms", ())}


def test_a_privatizer_of_a_package_releases_and_is_certified(site):
    privacy = ("--trust", "central", "--epsilon", "1", "--delta", "1e-6", "--mechanism", "toy-cautious", "--json")
    found = json.loads(tacit(site, *RUN[: RUN.index("--trust")], *privacy))
    assert found["mechanism"] == "toy-cautious"
    assert 0.4 < found["certificate"]["epsilon"] <= 0.5
    assert "unchecked" not in found["certificate"]  # it is put together from classes of tacit, which certify it


def test_what_a_package_adds_is_compared_and_refuses_as_the_others_do(site, tmp_path):
    file = tmp_path / "toys.toml"
    file.write_text(
        'name = "toys"\n[defaults]\nenvironment = "toy-doors"\nepisodes = 300\nseeds = 1\n'
        '[[run]]\nlearner = "toy-commit"\n[[run]]\nlearner = "psrl"\n'
    )
    found = json.loads(tacit(site, "compare", str(file), "--out", str(tmp_path / "out"), "--json"))
    assert [result["learner"] for result in found["runs"]] == ["toy-commit", "psrl"]
    wrong = [word.replace("part=2", "port=2") for word in RUN]
    assert "did you mean 'part'" in tacit(site, *wrong, code=2)
