"""What is published: sdist and wheel are the same bytes when built again, and the wheel works without the repository.

The packages that tacit needs come from the environment that runs the tests; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DEVICE = "tacit/pages/device/"
EPOCH = "1700000000"
REQUIRED = """
import importlib.metadata as metadata
from packaging.requirements import Requirement
for line in metadata.requires("tacit-rl"):
    need = Requirement(line)
    if need.marker is None or need.marker.evaluate({"extra": ""}):
        assert need.specifier.contains(metadata.version(need.name), prereleases=True), line
"""


def test_metadata_states_what_is_tested():
    project, targets = PROJECT["project"], PROJECT["tool"]["hatch"]["build"]["targets"]
    named = {line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    (tested,) = re.findall(
        r"^ +python: \[(.*)\]$", (ROOT / ".github/workflows/test.yml").read_text(), flags=re.MULTILINE
    )
    assert named == set(re.findall(r"3\.\d+", tested)) == {"3.11", "3.12", "3.13"}
    for name in project["license-files"]:
        assert (ROOT / name).is_file(), name
    # Only src and the device of the browser are packed, and src holds no tests.
    source = "js/tacit-device"
    assert targets["wheel"]["sources"] == {"src/tacit": "tacit", source: DEVICE.rstrip("/")}
    assert set(targets["wheel"]["only-include"]) == set(targets["wheel"]["sources"])
    assert targets["wheel"]["exclude"] == [f"{source}/test"]
    assert {"src", source} <= set(targets["sdist"]["only-include"])
    assert (ROOT / source / "package.json").is_file()
    assert not [path for path in (ROOT / "src").rglob("*.py") if path.name.startswith(("test_", "conftest"))]


def built(clone: Path, place: Path) -> dict[str, bytes]:
    """Build the sdist and, out of it, the wheel; their bytes by file name."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place), str(clone)],
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.slow
def test_the_wheel_is_reproducible_and_works_elsewhere(tmp_path):
    for tool in ("build", "hatchling"):
        pytest.importorskip(tool)
    # Two clones: neither their paths nor the times of their files may enter.
    first, second = tmp_path / "first", tmp_path / "elsewhere" / "second"
    for clone in (first, second):
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)], check=True)
    for path in (second / "src").rglob("*.py"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    made = built(first, tmp_path / "dist")
    assert built(second, tmp_path / "again") == made
    wheel, sdist = (next(tmp_path.glob(f"dist/*{kind}")) for kind in (".whl", ".tar.gz"))

    with zipfile.ZipFile(wheel) as packed:
        held = packed.namelist()
        meta = Parser().parsestr(packed.read(next(n for n in held if n.endswith(".dist-info/METADATA"))).decode())
    tops = {name.split("/")[0] for name in held}
    assert tops == {"tacit", sdist.name.removesuffix(".tar.gz") + ".dist-info"}
    assert not [name for name in held if re.search(r"(^|/)(tests?|papers|benchmarks)/|(^|/)test_", name)]
    device = ROOT / "js" / "tacit-device"
    shipped = subprocess.run(["git", "ls-files"], cwd=device, check=True, capture_output=True, text=True).stdout.split()
    assert {name.removeprefix(DEVICE) for name in held if name.startswith(DEVICE)} == {
        name for name in shipped if not name.startswith("test/")
    }
    assert meta["Name"] == "tacit-rl"
    assert meta.get_all("License-File") == PROJECT["project"]["license-files"]
    assert all(
        any(name.endswith(f".dist-info/licenses/{file}") for name in held) for file in meta.get_all("License-File")
    )
    assert meta.get_all("Classifier") == PROJECT["project"]["classifiers"]
    assert meta.get_payload() == (first / "README.md").read_text("utf-8")
    with tarfile.open(sdist) as source:
        entries = {name.split("/")[1] for name in source.getnames() if "/" in name}
    assert not entries & {"tests", "papers", "benchmarks", "results", ".ci", ".github"}
    if importlib.util.find_spec("twine") is not None:
        words = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
        subprocess.run(words, check=True, capture_output=True)

    env, place = tmp_path / "env", tmp_path / "work"
    place.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
    packages = next(env.glob("lib/*/site-packages"))
    python = str(env / "bin" / "python")
    keep = {name: os.environ[name] for name in ("HOME", "LANG", "TACIT_CACHE_DIR") if name in os.environ}

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=place, env={**keep, "PATH": str(env / "bin")}, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", str(wheel))
    needed = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(needed) + "\n")
    assert str(packages) in run(python, "-c", "import tacit; print(tacit.__file__)")
    run(python, "-c", REQUIRED)
    assert "Usage" in run("tacit", "--help")
    claim = ("--trust", "shuffle", "--epsilon", "1", "--delta", "1e-6")
    out = run(
        "tacit", "run", "--environment", "riverswim", "--episodes", "2000", "--seeds", "2", *claim, "--out", "river"
    )
    assert "certif" in out
    run("tacit", "verify", "river")
    run("tacit", "demo", "--episodes", "1000", "--seeds", "1")
    assert (place / "tacit-demo" / "certificates.txt").is_file()
