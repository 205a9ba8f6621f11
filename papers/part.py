"""A comparison that is not finished, with the seeds that are there: for results that are committed before the last one.

    python -m papers.part FROM TO

copies every run of the comparison in FROM that has at least two finished seeds to TO, as a finished run of these seeds;
`thinning`, measures and figures take TO like any other. Which seeds are there must not follow from what they found: run
them in the order of the design. `cells.json` then says "8 of 20", and pages say it too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from tacit.errors import InvalidInput
from tacit.runs.comparison import INDEX
from tacit.runs.storage import CONFIG, RunDirectory, read_json, write_json

__all__ = ["PLANNED", "finished_part", "main"]

PLANNED: Final = "planned seeds"
"""The entry of config.json that says how many seeds the design has."""
FEWEST: Final = 2
"""An interval over seeds needs so many."""


def finished_part(source: Path, target: Path) -> dict[str, str]:
    """Copy what is there; returns "seeds of planned seeds" by label."""
    if not (source / INDEX).is_file():
        raise InvalidInput(f"{source} must be the directory of a comparison: it has no {INDEX}")
    if target.exists():
        raise InvalidInput(f"{target} must be a new directory")
    target.mkdir(parents=True)
    shutil.copyfile(source / INDEX, target / INDEX)
    found: dict[str, str] = {}
    for place in read_json(source / INDEX)["runs"]:
        directory, copy = RunDirectory(source / place), RunDirectory(target / place)
        if not directory.begun:
            continue
        header = directory.header()
        seeds = header["config"]["seeds"]
        done = list(seeds) if directory.finished else directory.finished_seeds(seeds)
        found[str(header["label"])] = f"{len(done)} of {len(seeds)}"
        if directory.finished:
            shutil.copytree(directory.path, copy.path)
        elif len(done) >= FEWEST:
            # Only what is finished now: another process may be writing the next seed.
            names = {f"seed-{seed:06d}" for seed in done}
            shutil.copytree(
                directory.path,
                copy.path,
                ignore=lambda _, files, keep=names: [
                    file for file in files if file.startswith((".", "seed-")) and Path(file).stem not in keep
                ],
            )
            write_json(
                copy.path / CONFIG, {**header, PLANNED: len(seeds), "config": {**header["config"], "seeds": done}}
            )
            copy.finish(done)
    return found


def main(arguments: list[str]) -> int:
    """Copy one comparison; both places are named."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m papers.part COMPARISON TARGET\n")
        return 2
    for label, seeds in finished_part(Path(arguments[0]), Path(arguments[1])).items():
        sys.stdout.write(f"{label}: {seeds} seeds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
