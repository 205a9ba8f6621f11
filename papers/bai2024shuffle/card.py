"""What the card of [bai2024shuffle] names in its holes."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from papers.bai2024shuffle.experiments import CHANGES, SCAN
from papers.bai2024shuffle.growth import growth_of
from papers.committed import DRAWS, Committed, Results, pm, row
from papers.sizes import AXES

__all__ = ["VERSIONS", "lost_with_theory", "names"]

VERSIONS: Final = ("2024", "2025")
NOISES: Final = ("no privacy", "tight, ε=1")


def names(results: Results) -> Mapping[str, Any]:
    """Results and tables."""
    table1, powers = results("bai2024shuffle/table1"), results("bai2024shuffle/powers")
    scan, ablations, river = (results(f"bai2024shuffle/{name}") for name in ("constants", "ablations", "riverswim"))
    elimination = results("bai2024shuffle/elimination").json("elimination.json")
    first = {(one["environment"], one["version"], one["noise"]): f"{one['users']:.1e}" for one in elimination["first"]}
    noises = ("no privacy", "tight, ε=1", "printed, ε=1", "tight, ε=0.1")
    half = [side["of_uniform"] for side in elimination["sides"] if "half" in side["run"]]
    shares = [
        scan.share(f"C={C:g}, C1={C1:g}, {version}, tight, ε=1")
        for C in SCAN["paper"] for C1 in (6, 0.01) for version in VERSIONS
    ]  # fmt: skip
    return {
        "table1": table1, "ablations": ablations, "river": river, "scan": scan, "elimination": elimination,
        "growth": _growth(table1),
        "lost": {version: _lost(table1, version) for version in VERSIONS},
        "lost_with_theory": {version: lost_with_theory(table1, version) for version in VERSIONS},
        "powers": _powers(powers),
        "first": first,
        "first_table": "\n".join(
            row(f"{words}, {version}", *(first[world, version, noise] for noise in noises))
            for world, words in (("random-mdp:seed=3", "S = A = H = 2"), ("riverswim", "RiverSwim"))
            for version in VERSIONS
        ),
        "half": f"{min(half):.2f} to {max(half):.2f}",
        "private_scan": f"{min(shares):.2f} to {max(shares):.2f}",
        "scan_table": "\n".join(
            row(version, *(scan.of_uniform(f"C={C:g}, C1=0.01, {version}, no privacy") for C in SCAN["paper"]))
            for version in VERSIONS
        ),
        "ablation_table": "\n".join(
            row(change, *(ablations.of_uniform(f"{change}, {v}, {noise}") for v in VERSIONS for noise in NOISES))
            for change in CHANGES
        ),
        "river_table": "\n".join(
            row(line, *(river.of_uniform(f"{line}, K={K}") for K in ("20,000", "200,000")))
            for line in ("PE", "SDP-PE tight, ε=1", "SDP-PE printed, ε=1")
        ),
    }  # fmt: skip


def _growth(table: Committed) -> dict[str, dict[str, str]]:
    """Version -> the fitted numbers of Table I with printed constants, errors by drawing seeds again."""

    def told(rng: np.random.Generator | None) -> dict[str, dict[str, float]]:
        runs = []
        for run, environment in table.cells:
            if not run.endswith(", theory"):
                continue
            at, regret = table.curve(run, environment)
            again = regret if rng is None else regret[rng.integers(len(regret), size=len(regret))]
            epsilon = float(run.partition(", ")[0].removeprefix("ε=")) if run.startswith("ε") else None
            uniform = table.uniform(run, environment) / table.cell(run, environment)["episodes"]
            config = SimpleNamespace(epsilon=epsilon)
            runs.append(SimpleNamespace(label=run, config=config, episodes=at, regret=again, uniform_regret=uniform))
        found = {}
        for one in growth_of(runs):  # type: ignore[arg-type]  # what it reads of results
            numbers = {"K": one["exponent"]}
            for line in one["private"]:
                numbers[f"cost in K, {line['epsilon']:g}"] = line["cost_exponent_in_K"]
                numbers[f"cost, {line['epsilon']:g}"] = line["cost_at_the_end"] / 1e6
            numbers["4 to 1"], numbers["1 to 0.25"] = one["from_epsilon_to_epsilon"]
            found[one["version"]] = {name: np.nan if value is None else value for name, value in numbers.items()}
        return found

    rng, exact = np.random.default_rng(0), told(None)
    drawn = [told(rng) for _ in range(DRAWS // 4)]
    return {
        version: {
            name: "-" if np.isnan(value) else pm(value, float(np.nanstd([one[version][name] for one in drawn])))
            for name, value in numbers.items()
        }
        for version, numbers in exact.items()
    }


def _powers(result: Committed) -> str:
    """The table of fitted powers, those of the paper in brackets."""
    printed = {line["line"]: line["printed"] for line in result.json("powers.json")["lines"]}
    rows = []
    for version in VERSIONS:
        free, private = f"{version}, no privacy", f"{version}, tight, ε=1"
        for words, line, less in (("no privacy", free, None), ("cost", private, free)):
            cells = [
                f"{result.power(line, axis, less=less)} ({printed[f'{version}, {words}'][axis]:g})" for axis in AXES
            ]
            rows.append(row(f"{version}, {words.replace('cost', 'cost of privacy')}", *cells))
    return "\n".join(rows)


def _lost(table: Committed, version: str) -> str:
    """How many of the practical runs still had regret at their end, of how many."""
    lost, runs = 0, 0
    for run, environment in table.cells:
        if f", {version}, practical" in run:
            ends = table.curve(run, environment)[1]
            lost, runs = lost + int((ends[:, -1] > ends[:, -2]).sum()), runs + len(ends)
    return f"{lost} of {runs}"


def lost_with_theory(table: Committed, version: str) -> str:
    """How many runs with the widths of the theorem ended with a wrong policy alone, of how many.

    A wrong policy alone costs the gap in every episode; while several are left, it is less.
    """
    lost, runs = 0, 0
    for run, environment in table.cells:
        if f", {version}, theory" in run:
            at, regret = table.curve(run, environment)
            gap = float(environment.rpartition("gap=")[2])
            lost += int(((regret[:, -1] - regret[:, -2]) / (at[-1] - at[-2]) > 0.9 * gap).sum())
            runs += len(regret)
    return f"{lost} of {runs}"
