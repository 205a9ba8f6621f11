"""From the prompt to the answer: CPU seconds of whole processes, imports included, best of several.

    help, list, import       what commands and scripts begin with
    README run               RiverSwim, 20,000 people, two seeds, central and shuffle; kernels and answers kept on disk
    dry run                  the same, asked beforehand; of the largest world of `sizes`, too
    new epsilon              the accountant's work for the default learner, after its import: nothing is kept on disk
    first run                `ucbvi` and `dp-ucbvi` without any compiled kernel

Processes but the first find the caches that the one before has left.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
ROUNDS = 5
PEOPLE = 20_000
LARGE = 200
CENTRAL: Final = "trust='central', epsilon=1.0, delta=1e-6"
SHUFFLE: Final = "trust='shuffle', epsilon=1.0, delta=1e-6"
EPSILONS = (0.5, 1.0, 2.0, 7.0)
COLD = (("ucbvi", ""), ("dp-ucbvi", CENTRAL))
NEW: Final = """\
import time, tacit
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
config = RunConfig(environment='riverswim', learner='auto', episodes={people}, seeds=(0,), trust='shuffle',
                   epsilon={epsilon}, delta=1e-6)
begun = time.process_time()
assemble(config)
print(time.process_time() - begun)
"""


def run() -> list[dict[str, Any]]:
    """Rows {name, ratio, target, better, detail}; a ratio is CPU seconds."""
    readme = f"import tacit; tacit.run(environment='riverswim', episodes={PEOPLE}, seeds=2, workers=1, "
    claim = ["--epsilon", "1", "--delta", "1e-6", "--dry-run", "--trust"]
    dry = ["run", "--environment", "riverswim", "--episodes", f"{PEOPLE}", *claim]
    large = [
        "run",
        "--environment",
        f"random-mdp:states={LARGE},actions=4,horizon=20",
        "--episodes",
        f"{PEOPLE}",
        *claim,
    ]
    jobs: tuple[tuple[str, float | None, str], ...] = (
        ("tacit --help", 0.3, _command("--help")),
        ("tacit list learners", 0.6, _command("list", "learners")),
        ("import tacit; tacit.run", 0.6, "import tacit; tacit.run"),
        ("README run, central, warm", 1.0, f"{readme}learner='ucbvi', {CENTRAL})"),
        ("README run, shuffle, warm", 1.2, f"{readme}learner='bucb', {SHUFFLE})"),
        ("dry run, central", 1.0, _command(*dry, "central")),
        ("dry run, shuffle", 1.0, _command(*dry, "shuffle")),
        (f"dry run, {LARGE} states", 1.0, _command(*large, "central")),
    )
    rows = [_warm(*job) for job in jobs]
    for epsilon in EPSILONS:
        code = NEW.format(people=PEOPLE, epsilon=epsilon)
        with tempfile.TemporaryDirectory() as cache:
            spent = [seconds(code, cache)[1] for _ in range(2)]
        rows.append(_row(f"new epsilon {epsilon:g}", spent[0], 0.05, f"and {spent[1]:.3f} s in the next process"))
    for learner, private in COLD:
        with tempfile.TemporaryDirectory() as cache:
            spent = [seconds(f"{readme}learner='{learner}', {private})", cache)[0] for _ in range(2)]
        rows.append(_row(f"first run, {learner}", spent[0], 3.0, f"cold kernels; {spent[1]:.2f} s the second time"))
    return rows


def seconds(code: str, cache: str) -> tuple[float, float]:
    """CPU seconds of a process with this cache, and the last number that it printed (0 where there is none)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TACIT_CACHE_DIR": cache}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=cache)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{code}: {done.stderr.strip()}")
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last = done.stdout.split()[-1] if code.endswith("begun)\n") else "0"
    return whole, float(last)


def _warm(name: str, target: float | None, code: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        first, *others = [seconds(code, cache)[0] for _ in range(1 + ROUNDS)]
    return _row(name, min(others), target, f"{first:.2f} s with empty caches")


def _command(*words: str) -> str:
    """What the console script does, and its exit code."""
    return f"import sys; from tacit.cli import main; sys.exit(main({list(words)!r}))"


def _row(name: str, found: float, target: float | None, detail: str) -> dict[str, Any]:
    return {"name": f"{name}: CPU seconds", "ratio": found, "target": target, "better": "lower", "detail": detail}
