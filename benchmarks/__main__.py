"""Run every `benchmarks/bench_*.py`, print one table, write one JSON file per benchmark to `benchmarks/results`.

    python -m benchmarks                 all but the long ones that these sources have not been measured with
    python -m benchmarks --long          the long ones, too
    python -m benchmarks --again         measure again what was measured with these sources
    python -m benchmarks loop scaling    some of them

A benchmark is a module with `run() -> list of rows`; a row has `name`, `ratio`, `target`, `better` ("higher" or
"lower"; higher if left out) and `detail`. Both sides of a ratio are measured in the same run, best of several, so that
a busy machine slows neither more than the other. A missed target is shown in red and makes the exit code 1. What was
interrupted goes on where it was; a benchmark that fails is named, and the others go on. Files keep the load average.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import platform
import sys
import time
import traceback
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
LONG = ("growth", "off_policy", "sizes", "sweep")
"""Five to twenty minutes each: about as long as all the others three times over."""
OPTIONS = ("--long", "--again")


def main(words: list[str]) -> int:
    """Run the chosen benchmarks, by default those that are not `LONG` and not measured yet; 1 if a target is missed."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    chosen = [word for word in words if word not in OPTIONS]
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; known: {', '.join(known)}; {', '.join(OPTIONS)}", file=sys.stderr)
        return 2
    wanted = chosen or [name for name in known if "--long" in words or name not in LONG]
    failed, console, already = [], Console(), page.measured(RESULTS)
    try:
        for name in wanted:
            if not chosen and "--again" not in words and already.get(name, {}).get("source") == source(name):
                console.print(f"{name}: measured with these sources already")
                continue
            begun = time.monotonic()
            with console.status(f"measuring {name} ..."):
                try:
                    write(name, importlib.import_module(f"benchmarks.bench_{name}").run())
                except Exception:  # the others are measured all the same, and the exit code tells
                    console.print(traceback.format_exc())
                    failed.append(name)
            console.print(f"{name}: {'FAILED after ' if name in failed else ''}{time.monotonic() - begun:.0f} s")
    except KeyboardInterrupt:
        failed.append("interrupted; what is finished is kept, and the same command goes on from there")
    missed = show(console, wanted)
    page.write()
    console.print(f"{RESULTS.relative_to(HERE.parent)}/ and docs/benchmarks.md; {page.age(page.measured(RESULTS))}")
    if failed:
        console.print(f"[bold red]not measured[/]: {', '.join(failed)}")
    return 1 if missed or failed else 0


def show(console: Console, names: list[str]) -> int:
    """Print the committed rows of these benchmarks, those of older versions marked; how many targets they miss."""
    table = Table("benchmark", "ratio", "target", "", "detail", title=f"tacit {tacit.__version__}")
    missed = 0
    for name, content in page.measured(RESULTS).items():
        for row in content["rows"] if name in names else ():
            verdict = met(row)
            missed += verdict is False
            word = {True: "[green]met[/]", False: "[bold red]MISSED[/]", None: ""}[verdict]
            word += " stale" * page.stale(content)
            table.add_row(str(row["name"]), number(row.get("ratio")), goal(row), word, str(row.get("detail", "")))
    console.print(table)
    return missed


def source(name: str) -> str:
    """The digest of the library and of this benchmark; the version alone changes nothing."""
    found = hashlib.sha256()
    files = sorted((HERE.parent / "src" / "tacit").rglob("*.py"))
    for path in [*(path for path in files if path.name != "_version.py"), HERE / f"bench_{name}.py"]:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Write the rows with a description of the machine that names nobody."""
    RESULTS.mkdir(exist_ok=True)
    content = {"benchmark": name, "command": f"python -m benchmarks {name}", "machine": machine()}
    content |= {"source": source(name), "load": [round(load, 1) for load in os.getloadavg()], "rows": rows}
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
