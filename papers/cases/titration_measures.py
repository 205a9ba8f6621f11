"""Simulation only: final policies of `cases/titration` beside the textbook rule, on the same fresh people.

    python -m papers.cases.titration_measures DIRECTORY results/cases/titration [SEEDS]

reads the final policies of every finished run in DIRECTORY and writes `measures.json`; with SEEDS those of the first so
many seeds of every run only. Coins decide patients, doses,
meals and sensors, and never depend on what is decided, so with one seed every policy meets the same weeks; differences
are those of the decisions alone. Intervals are Student's over the seeds of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from papers.glucose.titration import TEXTBOOK, Ward
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require
from tacit.policies import Policy, tabular
from tacit.runs.archive import read_result
from tacit.runs.comparison import INDEX
from tacit.runs.returns_report import Interval, interval_over
from tacit.runs.storage import RunDirectory, read_json, write_json

__all__ = ["WEEKS", "main", "measure", "table", "weeks_of"]

WEEKS: Final = 4_000
"""Fresh people per seed and policy."""
WIDTH: Final = 250
DAYS: Final = 7
STREAM: Final = 5
"""Coins that no run uses."""
HEAD: Final = """\
| run | seeds | certified ε | return per week during the run | minus the rule's | final policy minus the rule \
| final policy minus the rule, same weeks | below 70 mg/dL, final minus rule |
|---|---|---|---|---|---|---|---|"""


def weeks_of(actions: Ints, *, weeks: int, seed: int) -> tuple[Floats, Floats]:
    """Return and share of time with true glucose below 70 mg/dL of every week under the actions [H, S]."""
    coins = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(STREAM,))))
    returns, below = np.zeros(weeks), np.zeros(weeks)
    ward = Ward()
    for first in range(0, weeks, WIDTH):
        part = slice(first, min(first + WIDTH, weeks))
        states = ward.admit(part.stop - part.start, coins)
        for day in range(DAYS):
            states = ward.decide(actions[day, states], coins)
            returns[part] += ward.rewards
            below[part] += ward.aside["below 70"] / DAYS
    return returns, below


@cache
def _rule(weeks: int, seed: int) -> tuple[float, float]:
    """Mean return and share below 70 mg/dL under the textbook rule; runs with the same seed share these weeks."""
    returns, below = weeks_of(np.tile(np.array(TEXTBOOK, dtype=np.int64), (DAYS, 1)), weeks=weeks, seed=seed)
    return float(returns.mean()), float(below.mean())


def measure(policies: Mapping[int, Policy], *, weeks: int = WEEKS) -> dict[str, Any]:
    """Final policies by seed, beside the rule on the same people."""
    rows: dict[str, list[float]] = {"final": [], "rule": [], "below_final": [], "below_rule": []}
    for seed, policy in policies.items():
        actions = policy.probabilities(3)
        require(bool((actions.max(axis=2) == 1.0).all()), "final policies must be deterministic", "others")
        returns, below = weeks_of(np.asarray(actions.argmax(axis=2), dtype=np.int64), weeks=weeks, seed=seed)
        means = {"final": (float(returns.mean()), float(below.mean())), "rule": _rule(weeks, seed)}
        for name, (mean, share) in means.items():
            rows[name].append(mean)
            rows[f"below_{name}"].append(share)
    gained, lower = np.subtract(rows["final"], rows["rule"]), np.subtract(rows["below_final"], rows["below_rule"])
    return {
        "seeds": list(policies),
        "weeks": weeks,
        **rows,
        "difference": _plain(interval_over(gained)),
        "below_difference": _plain(interval_over(lower)),
    }


def table(cells: Sequence[Mapping[str, Any]], measures: Mapping[str, Mapping[str, Any]]) -> str:
    """The page's table, as Markdown, from `cells.json` and `measures.json`."""
    lines = [HEAD]
    for cell in cells:
        found = measures[cell["run"]]
        during, against = cell["returns"]["during"], cell["against"]
        epsilon = cell.get("certified epsilon")
        certified = "-" if epsilon is None else f"{epsilon:.3g}"
        lines.append(
            f"| {cell['run']} | {len(cell['returns']['per_seed'])} | {certified} | {during['mean']:.3f} "
            f"| {_words(against['during'])} | {_words(against['final'])} | {_words(found['difference'])} "
            f"| {_below(found)} |"
        )
    return "\n".join(lines)


def _below(found: Mapping[str, Any]) -> str:
    """0.90% - 1.50% = -0.60% [-0.65%, -0.55%]: time below 70 mg/dL of the final policy and of the rule."""
    mine, rules, apart = np.mean(found["below_final"]), np.mean(found["below_rule"]), found["below_difference"]
    difference = f"{mine:.2%} - {rules:.2%} = {apart['mean']:+.2%}"
    return difference if apart["low"] is None else f"{difference} [{apart['low']:+.2%}, {apart['high']:+.2%}]"


def _words(interval: Mapping[str, float | None]) -> str:
    if interval["low"] is None:
        return f"{interval['mean']:+.3f}"
    return f"{interval['mean']:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"


def _plain(interval: Interval) -> dict[str, float | None]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def main(source: Path, target: Path, seeds: int | None = None) -> None:
    """Measure every finished run, or its first seeds."""
    if not (source / INDEX).is_file():
        raise InvalidInput(f"{source} must be the directory of a comparison: it has no {INDEX}")
    found: dict[str, Any] = {}
    for place in read_json(source / INDEX)["runs"]:
        directory = RunDirectory(source / place)
        if directory.finished:
            result = read_result(source / place)
            policies = {seed: tabular(result.policy_of(seed)) for seed in result.seeds[:seeds]}
            found[str(directory.header()["label"])] = measure(policies)
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / "measures.json", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
