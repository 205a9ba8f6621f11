"""The committed measurements as a page of the documentation: one figure, six numbers, every row as CSV.

    python -m benchmarks.page            writes docs/benchmarks.md, its figure and its CSV

`python -m benchmarks` does it, too, when it has measured. A test renders the committed measurements again and compares.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.tables import FOLDER, csv_text

from benchmarks.rows import goal, met, number
from tacit import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE, PICTURE = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks.png"
TABLE = FOLDER / "benchmarks.csv"
MET, MISSED, GREY = "#0072b2", "#d55e00", "#767676"
NARROW, WIDE = 0.5, 1e3
"""What the figure shows of how many times better than its target a row is; beyond, rows stand at the border."""

Measured = dict[str, dict[str, Any]]


def measured(directory: Path = RESULTS) -> Measured:
    """What was measured, by the names of benchmarks."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json")))
    return {content["benchmark"]: content for content in found}


def stale(content: dict[str, Any]) -> bool:
    """Whether this was measured with another version, or before files kept which sources they are of."""
    return "source" not in content or content["machine"]["tacit"] != __version__


def age(found: Measured) -> str:
    """Which files another version was measured for."""
    old = [(content["machine"]["tacit"], name) for name, content in found.items() if stale(content)]
    named = [f"{at} (" + ", ".join(name for made, name in old if made == at) + ")" for at in sorted(dict(old))]
    return f"Stale, measured with earlier sources: {len(old)} of {len(found)} files, {', '.join(named) or 'none'}"


def digest(found: Measured) -> str:
    """SHA-256 of what was measured."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def margin(row: dict[str, Any]) -> float | None:
    """How many times better than its target a row is; None where it has none.

    >>> margin({"ratio": 300.0, "target": 100.0}), margin({"ratio": 0.5, "target": 1.0, "better": "lower"})
    (3.0, 2.0)
    """
    verdict = met(row)
    if verdict is None:
        return None
    ratio, target = float(row["ratio"]), float(row["target"])
    if (row.get("better") or "higher") == "lower":
        return target / ratio if ratio > 0 else float("inf")
    return ratio / target


def words(found: Measured) -> str:
    """What the figure shows, for those who cannot see it."""
    rows = [(name, row) for name, content in found.items() for row in content["rows"] if met(row) is not None]
    kept = [row for _, row in rows if met(row)]
    missed = [row for _, row in rows if not met(row)]
    middle = statistics.median(margin(row) or 0.0 for _, row in rows)
    said = f"{len(kept)} of {len(rows)} measured targets are met, by a factor of {middle:.2g} at the median."
    if missed:
        worst = min(missed, key=lambda row: margin(row) or 0.0)
        said += f" {len(missed)} are missed, the worst by {1 / (margin(worst) or 1.0):.2f} times ({worst['name']})."
    return said


CHOSEN = (
    ("loop", "ucbvi vs rlberry-scool 0.7.3 (staged)", "Episode of UCBVI, against rlberry-scool"),
    ("loop", "memory, K=10^8 vs K=10^5", "Memory at 10^8 episodes, against 10^5"),
    (
        "central",
        "noise std of a transition counter: printed tree against batched-factorization",
        "Noise of the published tree, against `batched-factorization`",
    ),
    ("exact_samplers", "exact gaussian noise, scale 20", "Exact discrete Gaussian draws, against OpenDP"),
    ("study_stage", "stage of 10,000 reports, shuffle, a batch", "Stage of 10,000 shuffled reports, share of 5 CPU s"),
    ("browser", "browser: 3,000 exact noise bits", "3,000 exact noise bits in a browser, share of 20 ms"),
)
"""(benchmark, row, what the page calls it): six figures that a user asks for."""


def render(found: Measured) -> str:
    """The page, as Markdown: one figure, one table, the raw rows as CSV."""
    lines = [
        f"| {said} | {number(row['ratio'])} | {goal(row)} | {row.get('detail', '')} | {_where(found, name)} |"
        for name, wanted, said in CHOSEN
        for row in found.get(name, {"rows": ()})["rows"]
        if row["name"] == wanted
    ]
    missed = sum(met(row) is False for content in found.values() for row in content["rows"])
    return _PAGE.format(
        words=words(found),
        rows="\n".join(lines),
        missed=missed,
        age=age(found),
        processors=", ".join(processors(found)),
    )


def _where(found: Measured, name: str) -> str:
    """The version that a figure was measured with, and its processor if there are several."""
    made = found[name]["machine"]
    version = made["tacit"] + " (stale)" * stale(found[name])
    return version if len(processors(found)) == 1 else f"{version}, {made['processor']}"


def processors(found: Measured) -> list[str]:
    """Those of the figures of the page."""
    return sorted({found[name]["machine"]["processor"] for name, _, _ in CHOSEN if name in found})


def table(found: Measured) -> str:
    """Every measured row, as CSV."""
    verdicts = {True: "met", False: "missed", None: ""}
    return csv_text(
        ("benchmark", "tacit", "stale", "processor", "what", "measured", "target", "verdict", "detail"),
        (
            (
                name,
                content["machine"]["tacit"],
                "stale" * stale(content),
                content["machine"]["processor"],
                row["name"],
                number(row.get("ratio")),
                goal(row),
                verdicts[met(row)],
                row.get("detail", ""),
            )
            for name, content in found.items()
            for row in content["rows"]
        ),
    )


def draw(found: Measured) -> Figure:
    """How many times better than its target every row is, benchmark by benchmark."""
    from matplotlib.figure import Figure

    names = [name for name, content in found.items() if any(met(row) is not None for row in content["rows"])]
    figure = Figure(figsize=(8.0, 0.3 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        for row in found[name]["rows"]:
            times = margin(row)
            if times is None:
                continue
            shown = min(max(times, NARROW), WIDE)
            marker, colour = ("o", MET) if met(row) else ("X", MISSED)
            axes.plot(shown, place, ">" if times > WIDE else marker, color=colour, markersize=6, alpha=0.75)
    axes.axvline(1.0, color=GREY, linewidth=1)
    axes.plot([], [], "o", color=MET, label="met")
    axes.plot([], [], "X", color=MISSED, label="missed")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xscale="log", xlim=(0.9 * NARROW, 1.2 * WIDE), xlabel="times better than the target")
    axes.legend(loc="lower right")
    return figure


def write() -> tuple[Path, ...]:
    """Write page, table and figure of what is committed."""
    found = measured()
    PAGE.write_text(render(found), encoding="utf-8")
    TABLE.write_text(table(found), encoding="utf-8")
    draw(found).savefig(PICTURE, dpi=130, metadata={"Source": digest(found), "Software": None})
    return PAGE, TABLE, PICTURE


_PAGE = """\
# Benchmarks: speed, memory and noise

Speed is measured as a ratio to a peer library or to a budget, both sides in the same run, in CPU seconds, best of
several.

```{{figure}} benchmarks.png
:alt: How many times better than its target each measured row is; the numbers are below.
:width: 100%

Every measured row against its target. Rows to the right of the line meet the target.
```

| what | measured | target | detail | version |
|---|---:|---:|---|---|
{rows}

{words}

Processor of the table: {processors}. {age}.

Download {{download}}`all rows as CSV <tables/benchmarks.csv>`; the column `verdict` marks the {missed} missed targets.
`make bench` repeats the measurements. `benchmarks/README.md` explains each comparison. How time and memory grow with
the size of a model is on the page [scaling](growth.md).

```{{toctree}}
:maxdepth: 1
:hidden:

growth
```
"""


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path.relative_to(ROOT)}\n" for path in write()))
