"""Write the goldens, or compare with them, on whatever machine this is.

python tests/goldens/make.py                       compare every row; exit 1 if one differs
python tests/goldens/make.py --quick               compare the quick part
python tests/goldens/make.py --only PART           the rows whose name contains PART
python tests/goldens/make.py --base COMMIT         compare with what the sources of COMMIT make here
python tests/goldens/make.py --write [--only PART] write rows anew (only in a commit that says why)

The first goldens (`runs`, `certificates`, `directories` of `cases.py`) are flat hashes of their parts; every other row
is a hash of everything and the values that can be read of it. Rows are compared exactly. Those of `by-cpu.txt`, whose
last bits are known to depend on the processor (exp and FFT of the accountant, products of matrices), are compared by
their values on another machine than that on which they were made: to 1e-9, or as the file says. Bounded noise has
1e-3: at small deltas its accountant is ill-conditioned. Where a last bit sends a run another way ("privacy"), noise,
events and certificate are compared there, and the run itself only by `--base`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cases
import subjects
import values

FILE = Path(__file__).parent / "goldens.json"
ROOT = Path(__file__).parents[2]
VERSION, PLACE, PRIVACY = "made by version", "made on", "privacy"
TOLERANCE = 1e-9
BY_CPU = {
    name: tolerance
    for tolerance, name in (line.split("\t") for line in (FILE.parent / "by-cpu.txt").read_text().splitlines())
}
"""Row whose last bits depend on the processor -> how far its values may be apart, or what of it is compared."""

Entry = dict[str, Any]


def names() -> list[str]:
    """Every row: the first goldens, then all others."""
    return [
        *cases.runs(),
        *(f"certify/{n}" for n in cases.certificates()),
        *(f"directory/{n}" for n in cases.directories()),
        *cases.covered(),
    ]


def compute(name: str, *, quick: bool = False) -> Entry:
    """The golden of one row; quick: of a run of the first goldens only the first seed, interpreted."""
    covered = cases.covered()
    if name in covered:
        subject, arguments = covered[name]
        return values.golden(subjects.SUBJECTS[subject](**arguments))
    parts = _first(name, quick=quick)
    hashes: Entry = {key: found for key, (found, _) in parts.items()}
    if name in BY_CPU:
        hashes["values"] = {key: values.golden(part)["values"] for key, (_, part) in parts.items()}
    return hashes


def _first(name: str, *, quick: bool) -> subjects.Hashes:
    """The parts of one of the first goldens."""
    kind, _, rest = name.partition("/")
    if kind == "certify":
        return subjects.probe_certificate(cases.certificates()[rest])
    if kind == "directory":
        return subjects.probe_directory(cases.directories()[rest])
    row = cases.runs()[name]
    found = subjects.probe_privacy(row)
    for speed in [speed for speed in row["speeds"] if not quick or speed == "interpreted"]:
        for seed in row["arguments"]["seeds"][: 1 if quick else None]:
            more = subjects.probe_run(row, speed, seed)
            found |= {f"{speed}.seed{seed}.{key}": part for key, part in more.items()}
    return found


def load() -> dict[str, Entry]:
    """The committed rows."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))["rows"]) if FILE.is_file() else {}


@cache
def made_on() -> str:
    """Where the committed rows were made, unless a row says otherwise."""
    return str(json.loads(FILE.read_text(encoding="utf-8"))[PLACE]) if FILE.is_file() else here()


def place(entry: Entry) -> str:
    """Where a committed row was made."""
    return str(entry.get(PLACE, made_on()))


def differs(name: str, expected: Entry | None, found: Entry, *, quick: bool = False) -> str | None:
    """What of a row differs first: its name, the place and both values; None: nothing."""
    if expected is None:
        return f"{name}: not in the goldens"
    elsewhere = name in BY_CPU and place(expected) != here()
    privacy = elsewhere and BY_CPU[name] == PRIVACY
    tolerance = 0.0 if not elsewhere else TOLERANCE if privacy else float(BY_CPU[name])
    if "hash" in expected:
        if expected["hash"] == found.get("hash"):
            return None
        line = values.difference(expected["values"], found.get("values"), tolerance=tolerance)
        if line is None and elsewhere:
            return None
        return f"{name}: {line or 'a number of an array whose first ones and sum agree'}"
    parts = {key: value for key, value in expected.items() if key in found or not quick}
    known, got = expected.get("values", {}), found.get("values", {})
    for key in [key for key in {**parts, **found} if key not in ("values", VERSION, PLACE)]:
        line = values.difference(parts.get(key), found.get(key), path=key)
        if privacy and ".seed" in key and key in parts and key in found:
            continue
        if line and elsewhere and key in known and key in got:
            line = values.difference(known[key], got[key], tolerance=tolerance, path=key)
        if line:
            return f"{name}: {line}"
    return None


def quick_names() -> list[str]:
    """All but `SLOW` and most of the first runs: of those, one row of each learner or mechanism in each group."""
    found: dict[tuple[str, str], str] = {}
    for name, row in cases.runs().items():
        arguments = row["arguments"]
        by_mechanism = row["group"] == "mechanisms"
        shown = arguments.get("mechanism", "") if by_mechanism else arguments["learner"].partition(":")[0]
        if "interpreted" in row["speeds"]:
            found.setdefault((row["group"], shown), name)
    left = (*cases.runs(), *cases.SLOW)
    return [*found.values(), *(name for name in names() if name not in left)]


def write(rows: dict[str, Entry]) -> None:
    """One line per row, so that a change shows which rows it touched."""
    made = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in rows.items()]
    head = {VERSION: made.get(VERSION, _version()), PLACE: made.get(PLACE, here())}
    shown = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    FILE.write_text(f'{{{shown}, "rows": {{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


@cache
def here() -> str:
    """Processor and libraries, for reports: what last bits may depend on beside the sources."""
    import llvmlite.binding as llvm

    libraries = (f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    python = ".".join(platform.python_version_tuple()[:2])
    # With NPY_DISABLE_CPU_FEATURES and OPENBLAS_CORETYPE beside it this stands in for an older processor.
    cpu = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    return ", ".join([platform.machine(), cpu, f"python {python}", *libraries])


def _version() -> str:
    import tacit

    return str(tacit.__version__)


@contextlib.contextmanager
def base_tree(commit: str) -> Iterator[Path]:
    """The sources of a commit, in a work tree of their own for as long as it takes."""
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "base"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def of_base(commit: str, chosen: list[str], *, quick: bool) -> dict[str, Entry | str]:
    """These rows as the sources of a commit make them here; a text says why one cannot be made.

    The table of rows is today's; what knows the sources is the commit's own `subjects.py` where it has one.
    """
    with base_tree(commit) as tree, tempfile.TemporaryDirectory() as place:
        asked, out = Path(place) / "asked.json", Path(place) / "made.json"
        asked.write_text(json.dumps(chosen))
        own = tree / "tests" / "goldens" / "subjects.py"
        tests, knows = ([str(own.parent)], own) if own.is_file() else ([], FILE.parent / own.name)
        # Today's table first, but for the one file that knows where things live.
        code = (
            "import importlib.util, sys\n"
            f"sys.path[:0] = [{str(FILE.parent)!r}, *{tests!r}]\n"
            f"spec = importlib.util.spec_from_file_location('subjects', {str(knows)!r})\n"
            "module = sys.modules['subjects'] = importlib.util.module_from_spec(spec)\n"
            "spec.loader.exec_module(module)\n"
            f"import make\nmake.dump({str(asked)!r}, {str(out)!r}, quick={quick})\n"
        )
        path = os.pathsep.join([str(tree / "src"), str(tree)])
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
        return dict(json.loads(out.read_text()))


def dump(asked: str, out: str, *, quick: bool) -> None:
    """Make the rows named in one file and write them to another; what cannot be made says why."""
    made: dict[str, Entry | str] = {}
    for name in json.loads(Path(asked).read_text()):
        try:
            made[name] = {**compute(name, quick=quick), PLACE: here()}
        except Exception as error:
            made[name] = f"{type(error).__name__}: {error}"
    Path(out).write_text(json.dumps(made))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write the goldens, or compare with them.")
    parser.add_argument("--write", action="store_true", help="write the rows anew")
    parser.add_argument("--base", default="", help="compare with what the sources of this commit make here")
    parser.add_argument("--quick", action="store_true", help="the quick part")
    parser.add_argument("--only", default="", help="the rows whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="show the seconds of each row")
    asked = parser.parse_args(arguments)
    chosen = [name for name in (quick_names() if asked.quick else names()) if asked.only in name]
    committed: dict[str, Any] = of_base(asked.base, chosen, quick=asked.quick) if asked.base else load()
    started, bad, rows = time.perf_counter(), 0, {}
    own = {VERSION: _version(), PLACE: here()} if made_on() != here() else {}
    for name in chosen:
        before, line = time.perf_counter(), None
        expected = committed.get(name)
        try:
            rows[name] = compute(name, quick=asked.quick and not asked.write)
            if isinstance(expected, str):
                line = f"{name}: {asked.base} cannot make it: {expected}"
            elif not asked.write:
                line = differs(name, expected, rows[name], quick=asked.quick)
        except Exception as error:  # a row that cannot run is a row that differs
            line = f"{name}: {type(error).__name__}: {error}"
        if line:
            print(line, flush=True)
        bad += line is not None
        if asked.verbose:
            print(f"{time.perf_counter() - before:7.2f} s  {name}", file=sys.stderr, flush=True)
    gone = [name for name in committed if not asked.base and asked.only in name and name not in names()]
    for name in gone:
        print(f"{name}: in the goldens, but no case any more")
    if asked.write and not bad:
        kept = {
            **load(),
            **{name: {**row, **own} for name, row in rows.items()},
        }  # read anew: another part may have been written meanwhile
        write({name: kept[name] for name in names() if name in kept})
    spent = time.perf_counter() - started
    print(f"{len(chosen)} rows on {here()}: {bad + len(gone)} {'failed' if asked.write else 'differ'}, {spent:.0f} s")
    return 1 if bad or gone or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
