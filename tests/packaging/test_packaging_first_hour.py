"""The first hour of a newcomer, in a clone and an environment of their own: demo, README, own environment, log, study,
signature, sweep, figure.

The environment has the dependencies of the one that runs the tests and nothing else of it: tacit is what a wheel of the
clone would hold. Where nbconvert is installed, the own environment stands in a notebook that it executes; otherwise the
cells go to an interpreter through its standard input, whose `__main__` no worker can import either.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """#!{python}
import sys
from tacit.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""
CELLS = (
    """
import numpy as np
import gymnasium, tacit

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}
    def step(self, action):
        self.at = min(2, self.at + 1) if action == 1 and self.np_random.random() < 0.8 else 0
        return self.at, float(self.at == 2), False, False, {}
""",
    """
world = tacit.live(Walk, horizon=4, rewards=(0.0, 1.0))
found = tacit.run(environment=world, episodes=60_000, seeds=2, trust="central", epsilon=2.0, delta=1e-6, out="own")
assert found.certificate.holds and found.policy.act(state=0) in (0, 1)
open("walked", "w").write(found.summary())
""",
)
LOG = "person,step,state,action,reward\n" + "".join(
    f"{person},{step},{'sick' if (person + step) % 3 else 'well'},{'treat' if person % 2 else 'wait'},{person % 2}\n"
    for person in range(400)
    for step in range(2)
)
MAPPING = {
    "columns": {"person": "person", "episode": None, "step": "step"},
    "states": [{"column": "state", "categories": {"well": ["well"], "sick": ["sick"]}}],
    "actions": {"column": "action", "categories": {"wait": ["wait"], "treat": ["treat"]}},
    "reward": {"column": "reward", "low": 0, "high": 1},
    "horizon": 2,
}
SWEEP = """
[defaults]
environment = "riverswim"
episodes = 500
trust = "central"
delta = 1e-6
epsilon = [0.5, 1.0]
[[run]]
learner = ["psrl", "ucbvi"]
"""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_first_hour(tmp_path):
    clone, place, env = tmp_path / "clone", tmp_path / "work", tmp_path / "env"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(clone)], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    packages = next(env.glob("lib/*/site-packages"))
    needed = [path for path in sys.path if path.endswith("site-packages")]  # nbconvert may be beside NumPy or not
    (packages / "dependencies.pth").write_text("\n".join(needed) + "\n")
    shutil.copytree(clone / "src" / "tacit", packages / "tacit")
    shutil.copytree(clone / "js" / "tacit-device", packages / "tacit" / "pages" / "device")
    script = env / "bin" / "tacit"
    script.write_text(SCRIPT.format(python=env / "bin" / "python"))
    script.chmod(0o755)
    place.mkdir()
    keep = {name: os.environ[name] for name in ("HOME", "LANG", "TACIT_CACHE_DIR") if name in os.environ}
    environment = {**keep, "PATH": f"{env / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}

    def run(*words: str, text: str | None = None) -> str:
        done = subprocess.run(
            words, cwd=place, env=environment, input=text, capture_output=True, text=True, timeout=900, check=False
        )
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        assert "Traceback" not in done.stdout + done.stderr, words
        return done.stdout

    python = str(env / "bin" / "python")
    assert str(packages) in run(python, "-c", "import tacit; print(tacit.__file__)")

    # The two commands of the README are make's: the demo is what the first one runs, smaller here.
    out = run("tacit", "demo", "--episodes", "2000", "--seeds", "2")
    assert "certificates: tacit-demo/certificates.txt" in out
    run("tacit", "verify", "tacit-demo")
    (five,) = blocks(clone / "README.md", "python")
    assert "true" in run(python, "-", text=five).lower()
    for console in blocks(clone / "README.md", "console"):
        for line in re.findall(r"^\$ (tacit .*)$", console, flags=re.MULTILINE):
            run(*line.split())

    if importlib.util.find_spec("nbconvert") is not None:
        cells = [
            {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None, "id": str(i)}
            for i, text in enumerate(CELLS)
        ]
        book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (place / "own.ipynb").write_text(json.dumps(book))
        run(python, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "own.ipynb")
    else:
        run(python, "-", text="\n".join(CELLS))
    assert "trust central" in (place / "walked").read_text()
    for command in ("verify own", "report own", "plot own", "certificate show own"):  # the class is in no other process
        run("tacit", *command.split())

    (place / "log.csv").write_text(LOG)
    (place / "mapping.json").write_text(json.dumps(MAPPING))
    claim = ("--epsilon", "2", "--delta", "1e-6", "--behaviour", "known", "--fallback", "wait")
    run("tacit", "learn", "log.csv", "--mapping", "mapping.json", *claim, "--out", "learned")
    run("tacit", "verify", "learned")

    run("tacit", "study", "demo", "--out", "study", "--people", "250", "--trust", "central")

    run("tacit", "keys", "new", "keys")
    key = next(path for path in (place / "keys").iterdir() if "public" not in path.name)
    public = next(path for path in (place / "keys").iterdir() if "public" in path.name)
    for signed in ("river", "own"):
        run("tacit", "keys", "sign", signed, "--key", str(key), "--role", "officer")
        run("tacit", "verify", signed, "--require", f"officer={public}")

    (place / "sweep.toml").write_text(SWEEP)
    run("tacit", "compare", "sweep.toml", "--out", "sweep")
    run("tacit", "plot", "sweep", "--out", "sweep.svg")
    assert (place / "sweep.svg").read_text().lstrip().startswith("<?xml")
