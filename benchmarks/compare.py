"""Not slower than another version: the same jobs with two source trees, one after the other in turn.

    python -m benchmarks.compare --base COMMIT [--rounds 5] [--only NAME] [--limit 1.05]

Every round starts one process per tree and job, base and candidate in turn, so that a busy machine slows both. A
process does its job once unmeasured (compilation, calibration, caches) and then measures CPU seconds of repeats; of all
rounds the least counts. `prompt` jobs measure a whole process instead, imports included. Each tree has a cache of
kernels of its own, and a process imports `tacit` of its tree and nothing else, so that older versions can be compared.
The exit code is 1 if a job takes more than `limit` times as long as with the base, or cannot be done with either.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PRIVATE: Final = {"epsilon": 1.0, "delta": 1e-6}
TRUSTS: Final[Mapping[str, dict[str, Any]]] = {
    "none": {},
    "central": {"trust": "central", **PRIVATE},
    "shuffle": {"trust": "shuffle", **PRIVATE},
    "local": {"trust": "local", "epsilon": 1.0, "delta": 0.0},
}
RUN: Final = {"environment": "riverswim", "episodes": 200_000, "seeds": 1}
LOOPS: Final[Mapping[str, dict[str, Any]]] = {
    f"loop {learner}, {trust}": {**RUN, **more, "learner": learner, **TRUSTS[trust]}
    for learner, trust, more in (
        ("ucbvi", "none", {}),
        ("ucbvi", "central", {}),
        ("psrl", "none", {"episodes": 50_000}),
        ("ldp-obi", "local", {}),
        ("ldp-psrl", "local", {"episodes": 50_000}),
        ("dp-ucbvi", "central", {"episodes": 50_000}),
        ("bucb", "shuffle", {}),
        ("ldp-rts", "local", {}),
        ("dp-pg:policy=gaussian", "central", {"environment": "dose-bandit", "episodes": 50_000}),
    )
}
PROMPTS: Final[Mapping[str, str]] = {
    "prompt tacit --help": "from tacit.cli import main; main(['--help'])",
    "prompt import tacit; tacit.run": "import tacit; tacit.run",
    "prompt run, central": "import tacit; tacit.run(environment='riverswim', learner='ucbvi', episodes=20_000, seeds=2,"
    " trust='central', epsilon=1.0, delta=1e-6, workers=1)",
    "prompt run, shuffle": "import tacit; tacit.run(environment='riverswim', learner='bucb', episodes=20_000, seeds=2,"
    " trust='shuffle', epsilon=1.0, delta=1e-6, workers=1)",
}
SHORT: Final = 0.5
"""Repeats go on until so many CPU seconds have gone by."""


REPEATED: Final = """\
import json, sys, time
import tacit

arguments, short = json.loads(sys.argv[1])
tacit.run(**arguments, workers=1)
found, begun = [], time.process_time()
while len(found) < 2 or time.process_time() - begun < short:
    start = time.process_time()
    tacit.run(**arguments, workers=1)
    found.append(time.process_time() - start)
print(min(found))
"""
"""CPU seconds of one run, the least of several, after one that is not measured."""


def measured(tree: Path, job: str, cache: Path) -> float | None:
    """CPU seconds of this job with the sources of this tree, in a process of its own; None if it cannot be done."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "TACIT_CACHE_DIR": str(cache)}
    words = [PROMPTS[job]] if job in PROMPTS else [REPEATED, json.dumps([LOOPS[job], SHORT])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", *words], env=environment, capture_output=True, text=True, cwd=cache)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(f"{job} with {tree}: {done.stderr.strip()}", file=sys.stderr, flush=True)
        return None
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return whole if job in PROMPTS else float(done.stdout.split()[-1])


def compare(base: Path, cache: Path, jobs: list[str], rounds: int) -> list[dict[str, Any]]:
    """The least seconds with either tree for each job, in alternation."""
    rows = []
    for name in ("base", "candidate"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    for job in jobs:
        found: dict[str, list[float]] = {"base": [], "candidate": []}
        for number in range(rounds + (job in PROMPTS)):  # the first round of a whole process fills the caches
            for name, tree in (("base", base), ("candidate", ROOT)):
                seconds = measured(tree, job, cache / name)
                if seconds is not None and (number or job not in PROMPTS):
                    found[name].append(seconds)
        least = {name: min(values, default=None) for name, values in found.items()}
        both = least["base"] is not None and least["candidate"] is not None
        rows.append({"name": job, **least, "ratio": least["candidate"] / least["base"] if both else None})
        shown = f"{rows[-1]['ratio']:.3f}" if both else "cannot be compared"
        print(f"{job}: {shown}  ({least['base']} s, {least['candidate']} s)", flush=True)
    return rows


def verdict(rows: list[dict[str, Any]], limit: float) -> int:
    """The exit code: 0 only if every job was measured with both trees and none is slower than allowed."""
    slower = [row["name"] for row in rows if row["ratio"] is not None and row["ratio"] > limit]
    failed = [row["name"] for row in rows if row["ratio"] is None]
    print(f"slower than {limit} times the base: {', '.join(slower) or 'none'}")
    print(f"not compared: {', '.join(failed) or 'none'}")
    return 1 if slower or failed or not rows else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare the speed of two versions in alternation.")
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="how often every job is measured with either version")
    parser.add_argument("--only", default="", help="the jobs whose name contains this")
    parser.add_argument("--limit", type=float, default=1.05, help="the largest ratio that passes")
    parser.add_argument("--out", type=Path, help="a file for the rows, as JSON")
    asked = parser.parse_args()
    jobs = [name for name in (*LOOPS, *PROMPTS) if asked.only in name]
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "base"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", base, asked.base], check=True)
        try:
            rows = compare(base, Path(place) / "cache", jobs, asked.rounds)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", base], check=True)
    if asked.out:
        kept = {"base": asked.base, "rounds": asked.rounds, "limit": asked.limit, "rows": rows}
        asked.out.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return verdict(rows, asked.limit)


if __name__ == "__main__":
    raise SystemExit(main())
