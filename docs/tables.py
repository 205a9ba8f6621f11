"""Raw tables of generated pages, as CSV files that readers download."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "tables"


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""A table as CSV.

    >>> csv_text(("a", "b"), [(1, "x, y")])
    'a,b\n1,"x, y"\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def csv_of(table: str) -> str:
    r"""A Markdown table as CSV.

    >>> csv_of("| a | b |\n|---|---|\n| 1 | 2 |")
    'a,b\n1,2\n'
    """
    head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines())
    return csv_text(head, rows)


def frontier_tables() -> dict[str, str]:
    """The raw tables of the pages about trust models and public structure, from the committed results."""
    from papers.frontier import missed, structure, tested
    from papers.frontier import page as frontier

    results = FOLDER.parents[1] / "results" / "frontier"
    page, fresh = (structure.committed_shares(results / name) for name in ("page", "missed"))
    head = [["K", "environment", "no privacy", *frontier.CHOICE]]
    rows = [
        [f"{users:,}", *(cell.strip() for cell in row.strip().strip("|").split("|"))]
        for users in (20_000, 200_000)
        for row in frontier.share_rows(page, users)
    ]
    return {
        "frontier.csv": csv_text(head[0], rows),
        "frontier-tested.csv": csv_of(tested.summary_table(structure.committed_shares(results / "tested"))),
        "frontier-missed.csv": csv_of(
            missed.summary_table({**page, **structure.committed_shares(results / "valid")}, fresh)
        ),
        "structure.csv": csv_of(structure.summary_table(structure.committed_shares(results / "structure"))),
    }


def case_tables() -> dict[str, str]:
    """The raw tables of the pages about cases and about linear learners, from the committed results."""
    from papers.cases import classics, recommender, recommender_package, titration_budget, titration_measures
    from papers.features.page import bars_table, frontier_table, load, misspecified_table

    def read(name: str, file: str) -> Any:
        return json.loads((FOLDER.parents[1] / "results" / "cases" / name / file).read_text(encoding="utf-8"))

    made = {"classics": classics.table(read("classics", "cells.json")["runs"])}
    for name in ("recommender", "recommender-large"):
        made[name] = recommender.table(read(name, "cells.json")["runs"])
        made[f"{name}-package"] = recommender_package.table(read(name, "package.json"))
    for name in ("titration", "titration-large"):
        cells = [cell for cell in read(name, "cells.json")["runs"] if cell["complete"]]
        made[name] = titration_measures.table(cells, read(name, "measures.json"))
    for name in ("titration-budget", "titration-budget-large"):
        cells = [cell for cell in read(name, "cells.json")["runs"] if cell["complete"]]
        made[name] = titration_budget.table(cells)
    linear = load()
    made["linear-learners"] = frontier_table(linear["frontier"])
    made["linear-sizes"] = bars_table(linear["bars"])
    made["linear-worlds"] = misspecified_table(linear["misspecified"])
    return {f"{name}.csv": csv_of(table) for name, table in made.items()}


if __name__ == "__main__":
    for file, made in (frontier_tables() | case_tables()).items():
        (FOLDER / file).write_text(made, encoding="utf-8")
