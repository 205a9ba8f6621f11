"""Simulation only: policies of `cases/recommender` in the package RecSim itself, beside ranking by interest.

    python -m papers.cases.recommender_package DIRECTORY results/cases/recommender "shuffle, ε=1"

reads the final policy of the first seed of the named runs in DIRECTORY (of all finished ones if none is named), lets
400 people of the package itself (`pip install '.[recsim]'`) follow it, and as many rank by interest alone, and
writes `package.json`. Beside them stand as many people of the compiled twin as measured the run. Intervals are 95%,
normal, over the visits.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from papers.cases.recommender import BASELINE, EVALUATION
from papers.worlds import WATCHING_ID
from tacit.arrays import Floats
from tacit.data.simulator_users import Players
from tacit.environments.baselines import baseline_policy
from tacit.environments.live import LiveWorld, live
from tacit.errors import InvalidInput
from tacit.policies import Policy, tabular
from tacit.runs.archive import read_result
from tacit.runs.comparison import INDEX
from tacit.runs.storage import RunDirectory, read_json, write_json

__all__ = ["VISITS", "difference", "main", "table", "visits_of"]

VISITS: Final = 400
"""In the package, for every policy."""
SEED: Final = 240
"""Used for nothing else."""
Z95: Final = 1.96
HEAD: Final = """\
| policy | minutes per visit in the package | minus interest alone | in the compiled twin | minus interest alone |
|---|---|---|---|---|"""


def package_world() -> LiveWorld:
    """The same decisions and states in the package."""
    rule = live(WATCHING_ID).discretiser
    return live("papers.watching.package:make", horizon=12, rewards=(0.0, 40.0), discretise=rule)


def visits_of(world: LiveWorld, policy: Policy, visits: int, seed: int = SEED) -> Floats:
    """The minutes of so many fresh visits."""
    coins = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    return Players(world, seed=seed).play(policy, visits, coins).measured.returns


def difference(found: Floats, other: Floats) -> dict[str, float]:
    """The difference of two means, with the interval x̄ - ȳ ± 1.96 √(s²/n + t²/m).

    >>> difference(np.array([1.0, 3.0]), np.array([1.0, 1.0]))["mean"]
    1.0
    """
    mean = float(found.mean() - other.mean())
    half = Z95 * float(np.sqrt(found.var(ddof=1) / len(found) + other.var(ddof=1) / len(other)))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def measure(policies: Mapping[str, Policy], *, visits: int = VISITS) -> dict[str, Any]:
    """Every policy and the baseline, in the package and in its twin."""
    worlds = {"package": (package_world(), visits), "twin": (live(WATCHING_ID), EVALUATION)}
    rule = baseline_policy(worlds["twin"][0], BASELINE)
    found: dict[str, Any] = {"visits": visits, "policies": {}}
    for place, (world, count) in worlds.items():
        base = visits_of(world, rule, count)
        found["policies"].setdefault(BASELINE, {})[place] = {"minutes": float(base.mean())}
        for name, policy in policies.items():
            mine = visits_of(world, policy, count)
            cell = {"minutes": float(mine.mean()), "difference": difference(mine, base)}
            found["policies"].setdefault(name, {})[place] = cell
    return found


def table(measured: Mapping[str, Any]) -> str:
    """The page's table, as Markdown, from `package.json`."""
    lines = [HEAD]
    for name, cell in measured["policies"].items():
        shown = []
        for place in ("package", "twin"):
            found = cell[place].get("difference")
            words = "-" if found is None else f"{found['mean']:+.1f} [{found['low']:+.1f}, {found['high']:+.1f}]"
            shown += [f"{cell[place]['minutes']:.1f}", words]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main(source: Path, target: Path, *labels: str) -> None:
    """Measure the policy of the first seed of every finished run, or of those that are named."""
    if not (source / INDEX).is_file():
        raise InvalidInput(f"{source} must be the directory of a comparison: it has no {INDEX}")
    policies = {}
    for place in read_json(source / INDEX)["runs"]:
        directory = RunDirectory(source / place)
        if directory.finished and (not labels or directory.header()["label"] in labels):
            result = read_result(source / place)
            policies[str(directory.header()["label"])] = tabular(result.policy_of(result.seeds[0]))
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / "package.json", measure(policies))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
