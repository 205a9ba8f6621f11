"""Figures of committed results, drawn again from their committed rows: no number changes, and nothing is run.

    python -m papers.redraw garcelon2021local/fig1 bai2025secure/fig4
    python -m papers.redraw                            every result that can be drawn from its rows

Rows hold regret at 40 checkpoints, or in a live world the sum of all returns; how uniform play and the baseline fared
there stands in `cells.json`. A figure that shows other numbers (fitted powers, errors of gradients, losses of
adversaries) writes them beside itself and is painted from that file. What needs more than is committed is drawn where
its experiment is run; it is named and left alone.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from papers.catalogue import experiment_named, title_of
from papers.panels import Painted
from papers.staleness import PLACES, committed
from papers.thinning import environment_of, named_today
from tacit.arrays import Floats
from tacit.errors import InvalidInput
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run
from tacit.runs.result import Result, resolve
from tacit.runs.storage_paths import read_json
from tacit.simulation.judges.live import Estimate, ReturnMeasures

__all__ = ["committed_results", "live_returns", "main", "redraw"]


def committed_results(name: str, results: Path) -> tuple[Result, ...]:
    """The committed runs of an experiment, at their committed checkpoints, in the experiment's order."""
    place = results / PLACES.get(name, name)
    kept = [cell for cell in read_json(place / "cells.json")["runs"] if cell["complete"]]
    cells = {(cell["run"], environment_of(cell)): cell for cell in kept}
    rows = _rows(place / "results.parquet")
    found = []
    for run in experiment_named(name).runs("paper"):
        key = run.label, run.config.environment_name
        if key in cells:
            found.append(_result(name, run, cells[key], rows[key]))
    if not found:
        raise InvalidInput(f"{place} holds no run of {name} as it is today; run the experiment")
    return tuple(found)


def _rows(path: Path) -> dict[tuple[str, str], dict[int, list[tuple[int, float]]]]:
    """(run, environment) -> seed -> its checkpoints and its regret there."""
    import pyarrow.parquet as pq

    found: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] = {}
    for row in pq.ParquetFile(path).read().to_pylist():
        seeds = found.setdefault((row["run"], named_today(row["environment"])), {})
        seeds.setdefault(row["seed"], []).append((row["episode"], row["regret"]))
    return found


def _result(name: str, run: Run, cell: dict[str, Any], rows: dict[int, list[tuple[int, float]]]) -> Result:
    config = replace(run.config, seeds=tuple(rows))
    parts = assemble(config)
    live = "returns" in cell
    if config.adversary is not None or (math.isnan(parts.values[0]) and not live):
        raise InvalidInput("its rows do not hold what its figures show; they are drawn when it is run")
    table = np.array([list(points) for points in rows.values()])  # [seed, checkpoint, (episode, regret)]
    return Result(
        config=config,
        resolved=resolve(parts, config),
        seeds=config.seeds,
        episodes=table[0, :, 0].astype(np.int64),
        regret=np.full_like(table[:, :, 1], np.nan) if live else table[:, :, 1],
        seconds=(float(cell["seconds"]) / len(rows),) * len(rows),
        policy_changes=(0,) * len(rows),
        claim=parts.claim,
        certificate=parts.certificate,
        batches=(),
        objectives=(),
        losses=(),
        policies=(None,) * len(rows),
        returns=live_returns(cell, table[:, :, 1]) if live else (),
        experiment=name,
        label=run.label,
        version=str(cell["version"]),
        command=str(cell["command"]),
    )


def live_returns(cell: dict[str, Any], totals: Floats) -> tuple[ReturnMeasures, ...]:
    """What is committed of a run in a live world, seed by seed; sums of squares and single intervals are not."""
    found, against = cell["returns"], cell["against"]

    def estimate(mean: float) -> Estimate:
        return Estimate(mean=mean, low=math.nan, high=math.nan, episodes=found["evaluation"])

    return tuple(
        ReturnMeasures(
            total=tuple(map(float, row)),
            squares=(),
            final=estimate(final),
            uniform=estimate(found["uniform"]["mean"]),
            baseline=None if against is None else estimate(against["value"]),
            clipped=found["clipped"],
            length=found["length"],
        )
        for row, final in zip(totals, found["final_per_seed"], strict=True)
    )


def redraw(name: str, results: Path = Path("results")) -> tuple[Path, ...]:
    """Draw every figure of a committed result again; returns the files."""
    targets = []
    for spec in experiment_named(name).figures:
        target = results / PLACES.get(name, name) / f"{spec.name}.png"
        numbers, title = target.with_suffix(".json"), title_of(name, "paper")
        if isinstance(spec, Painted) and numbers.is_file():
            spec.paint(read_json(numbers), target, title=title)
        else:
            spec.draw(committed_results(name, results), target, title=title)
        targets.append(target)
    return tuple(targets)


def main(arguments: list[str]) -> int:
    """Draw the named results again, or all."""
    for name in arguments or committed(Path("results")):
        try:
            for path in redraw(name):
                sys.stdout.write(f"drawn: {path}\n")
        except InvalidInput as error:
            sys.stdout.write(f"left alone: {name} ({error})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
