"""Run every `benchmarks/bench_*.py`, print one table, write one JSON file per benchmark to `benchmarks/results`.

    python -m benchmarks                 all of them
    python -m benchmarks loop scaling    some of them

A benchmark is a module with `run() -> list of rows`; a row has `name`, `ratio`, `target`, `better` ("higher" or
"lower"; higher if left out) and `detail`. Both sides of a ratio are measured in the same run, best of several, so that
a busy machine slows neither more than the other. A missed target is shown in red and makes the exit code 1.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
from rich.console import Console
from rich.table import Table

import tacit
from benchmarks import page
from benchmarks.rows import goal, met, number

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def main(chosen: list[str]) -> int:
    """Run the chosen benchmarks (all by default); the number of missed targets decides the exit code."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    console = Console()
    table = Table("benchmark", "ratio", "target", "", "detail", title=f"tacit {tacit.__version__}")
    missed = 0
    for name in chosen or known:
        with console.status(f"measuring {name} ..."):
            rows = importlib.import_module(f"benchmarks.bench_{name}").run()
        write(name, rows)
        for row in rows:
            verdict = met(row)
            missed += verdict is False
            word = {True: "[green]met[/]", False: "[bold red]MISSED[/]", None: ""}[verdict]
            table.add_row(str(row["name"]), number(row.get("ratio")), goal(row), word, str(row.get("detail", "")))
    console.print(table)
    page.write()
    console.print(f"written to {RESULTS.relative_to(HERE.parent)}/ and docs/benchmarks.md")
    return 1 if missed else 0


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows with a description of the machine that names nobody."""
    RESULTS.mkdir(exist_ok=True)
    content = {"benchmark": name, "command": f"python -m benchmarks {name}", "machine": machine(), "rows": rows}
    text = json.dumps(content, indent=2, default=float, ensure_ascii=False)
    temporary = RESULTS / f".{name}.json"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(RESULTS / f"{name}.json")


def machine() -> dict[str, str]:
    """Processor and versions; no host name, no path."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = f"{names[0]} ({len(names)} threads)" if names else model
    return {
        "processor": model,
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
        "tacit": tacit.__version__,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
