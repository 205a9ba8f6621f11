"""Write the goldens, or compare with them.

python tests/goldens/make.py --check               every row; lists those that differ and exits 1 if any does
python tests/goldens/make.py --check --only PART   the rows whose name contains PART
python tests/goldens/make.py [--only PART]         write them anew (only in a commit that says why)
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import cases
import llvmlite.binding as llvm
import probe

import tacit

FILE = Path(__file__).parent / "goldens.json"
VERSION, PLACE = "made by version", "made on"

Entry = dict[str, str]


def names() -> list[str]:
    """Every row: runs by their group, then certificates and directories."""
    return [
        *cases.runs(),
        *(f"certify/{n}" for n in cases.certificates()),
        *(f"directory/{n}" for n in cases.directories()),
    ]


def compute(name: str) -> Entry:
    """The hashes of one row, flat: `compiled.seed0.regret`, `certificate`, ..."""
    kind, _, rest = name.partition("/")
    if kind == "certify":
        return probe.probe_certificate(cases.certificates()[rest])
    if kind == "directory":
        return probe.probe_directory(cases.directories()[rest])
    row = cases.runs()[name]
    found = probe.probe_privacy(row)
    for speed in row["speeds"]:
        for seed in row["arguments"]["seeds"]:
            for key, value in probe.probe_run(row, speed, seed).items():
                found[f"{speed}.seed{seed}.{key}"] = value
    return found


def here() -> str:
    """Processor and libraries: what bits may depend on beside the sources."""
    libraries = (f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    python = ".".join(platform.python_version_tuple()[:2])
    return ", ".join([platform.machine(), llvm.get_host_cpu_name(), f"python {python}", *libraries])


def made_on() -> str:
    """Where the committed rows were made."""
    return str(json.loads(FILE.read_text(encoding="utf-8"))[PLACE]) if FILE.is_file() else here()


def load() -> dict[str, Entry]:
    """The committed rows."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))["rows"]) if FILE.is_file() else {}


def differences(name: str, expected: Entry | None) -> list[str]:
    """What of a row differs from the goldens; one line. A row that says it was made elsewhere is not compared."""
    if expected is None:
        return [f"{name}: not in the goldens"]
    if expected.get(PLACE, here()) != here():
        return []
    expected = {key: value for key, value in expected.items() if key not in (VERSION, PLACE)}
    found = compute(name)
    keys = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    return [f"{name}: {', '.join(keys)}"] if keys else []


def write(rows: dict[str, Entry], *, anew: bool) -> None:
    """One line per row, so that a change shows which rows it touched; a head for all, unless some were kept."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in rows.items()]
    made = {VERSION: tacit.__version__, PLACE: here()}
    if not anew and FILE.is_file():
        before = json.loads(FILE.read_text(encoding="utf-8"))
        made = {key: before[key] for key in made}
    head = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in made.items())
    FILE.write_text(f'{{{head}, "rows": {{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write the goldens, or compare with them.")
    parser.add_argument("--check", action="store_true", help="compare, list the rows that differ, exit 1 if any does")
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="show the seconds of each row")
    asked = parser.parse_args(arguments)
    chosen, committed, bad = [name for name in names() if asked.only in name], load(), 0
    rows: dict[str, Entry] = {}
    if asked.check and made_on() != here():
        print(f"these goldens were made on {made_on()}, this is {here()}: last bits may differ for that reason alone")
    started = time.perf_counter()
    for name in chosen:
        before = time.perf_counter()
        try:
            if asked.check:
                lines = differences(name, committed.get(name))
            else:
                own = {VERSION: tacit.__version__, PLACE: here()} if asked.only and made_on() != here() else {}
                rows[name], lines = {**compute(name), **own}, []
        except Exception as error:  # a row that cannot run is a row that differs
            lines = [f"{name}: {type(error).__name__}: {error}"]
        for line in lines:
            print(line, flush=True)
        bad += len(lines)
        if asked.verbose:
            print(f"{time.perf_counter() - before:7.2f} s  {name}", file=sys.stderr, flush=True)
    gone = [name for name in committed if asked.check and asked.only in name and name not in names()]
    for name in gone:
        print(f"{name}: in the goldens, but no case any more")
    if not asked.check:
        kept = {**load(), **rows}  # read anew: another part may have been written meanwhile
        write({name: kept[name] for name in names() if name in kept}, anew=not asked.only)
    spent = time.perf_counter() - started
    print(f"{len(chosen)} rows, {bad + len(gone)} {'differ' if asked.check else 'failed'}, {spent:.0f} s")
    return 1 if bad or gone or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
