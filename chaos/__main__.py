"""Run every `chaos/row_*.py`, print one table, write one JSON file per module to `chaos/results`.

    python -m chaos                    all of them
    python -m chaos kills tokens       some of them
    python -m chaos --scale ci kills   small, as the tests run them; writes nothing
    python -m chaos --stale            marks the results of other versions as stale

A module has `run(scale) -> list of rows`; a row has `name`, `bar`, `measured`, `met`, `detail` and `counts`. Everything
runs on loopback, in a directory of its own that is deleted, and is bounded in number and time. A bar that is not met is
shown in red and makes the exit code 1. A result names the version and the commit that it was measured with; one of
another version is marked `"stale": true` until it is measured again, which a test demands.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import tacit

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SCALES = ("chaos", "ci")


def main(words: list[str]) -> int:
    """Run the chosen modules (all by default); a bar that is not met decides the exit code."""
    if words == ["--stale"]:
        mark_stale()
        return 0
    scale = "chaos"
    if "--scale" in words:
        place = words.index("--scale")
        scale = words[place + 1] if place + 1 < len(words) else ""
        words = words[:place] + words[place + 2 :]
    known = sorted(path.stem.removeprefix("row_") for path in HERE.glob("row_*.py"))
    unknown = sorted(set(words) - set(known))
    if unknown or scale not in SCALES:
        said = f"unknown row {unknown[0]!r}; known: {', '.join(known)}" if unknown else f"scale: {', '.join(SCALES)}"
        print(said, file=sys.stderr)
        return 2
    console = Console()
    table = Table("row", "bar", "measured", "", "detail", title=f"tacit {tacit.__version__}, {scale}")
    missed = 0
    for name in words or known:
        begun = time.monotonic()
        with console.status(f"running {name} ..."):
            rows = importlib.import_module(f"chaos.row_{name}").run(scale)
        if scale == "chaos":
            write(name, rows, time.monotonic() - begun)
        for one in rows:
            missed += not one["met"]
            word = "[green]met[/]" if one["met"] else "[bold red]MISSED[/]"
            table.add_row(str(one["name"]), str(one["bar"]), str(one["measured"]), word, str(one["detail"]))
    console.print(table)
    return 1 if missed else 0


def write(name: str, rows: list[dict[str, Any]], seconds: float) -> None:
    """Write the rows with a description of the machine that names nobody."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "row": name,
        "command": f"python -m chaos {name}",
        "version": tacit.__version__,
        "commit": commit(),
        "seconds": round(seconds),
        "machine": machine(),
        "rows": rows,
    }
    _put(RESULTS / f"{name}.json", content)


def _put(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(content, indent=2, default=float, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def commit() -> str | None:
    """The commit of the work tree that is measured, with a plus sign where it was changed; None outside of one."""
    found = []
    for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "src", "chaos/*.py")):
        made = subprocess.run(["git", "-C", str(HERE.parent), *words], capture_output=True, text=True, check=False)
        if made.returncode:
            return None
        found.append(made.stdout.strip())
    return found[0] + "+" * bool(found[1])


def unmarked() -> list[Path]:
    """Results of other versions that do not say so."""
    found = {path: json.loads(path.read_bytes()) for path in sorted(RESULTS.glob("*.json"))}
    return [path for path, one in found.items() if one["version"] != tacit.__version__ and one.get("stale") is not True]


def mark_stale() -> None:
    """Mark the results of other versions."""
    for path in unmarked():
        _put(path, {"stale": True, **json.loads(path.read_bytes())})


def machine() -> dict[str, Any]:
    """Processor, load and versions; no host name, no path."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = f"{names[0]} ({len(names)} threads)" if names else model
    versions = {"python": platform.python_version(), "tacit": tacit.__version__}
    return {"processor": model, "system": platform.system(), "load": round(os.getloadavg()[0], 1), **versions}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
