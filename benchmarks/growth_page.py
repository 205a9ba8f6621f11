"""The page about growth and large worlds, made of the committed results of `growth`, `sizes`, `scaling` and `horizon`.

python -m benchmarks.growth_page          writes docs/growth.md, its figure and its CSV
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.tables import FOLDER, csv_text

from benchmarks.bench_growth import AXES
from benchmarks.cells import SIZES, TRUSTS
from benchmarks.rows import goal, number

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TEMPLATE = Path(__file__).with_suffix(".md")
"""The prose, with a place for every number."""
PAGE, FIGURE, TABLE = ROOT / "docs" / "growth.md", ROOT / "docs" / "growth.png", FOLDER / "growth.csv"

Rows = Sequence[Mapping[str, Any]]


def page(
    growth: Mapping[str, Any], sizes: Mapping[str, Any], scaling: Mapping[str, Any], horizon: Mapping[str, Any]
) -> str:
    """The page, in Markdown."""
    words = {
        **sizes["machine"],
        **_told(sizes["rows"]),
        **_large(sizes["rows"]),
        **_growth(growth["rows"]),
        **_horizon(scaling["rows"], horizon["rows"]),
    }
    return TEMPLATE.read_text("utf-8").format(**words)


def table(growth: Mapping[str, Any], sizes: Mapping[str, Any]) -> str:
    """Every measured exponent and size, as CSV."""
    rows = [(name, row) for name, found in (("growth", growth), ("sizes", sizes)) for row in found["rows"]]
    head = ("benchmark", "what", "measured", "target", "detail")
    return csv_text(
        head,
        ((name, row["name"], number(row["ratio"]), goal(row), row.get("detail", "")) for name, row in rows),
    )


def _told(rows: Rows) -> dict[str, str]:
    off = [row["ratio"] for row in rows if row["name"].endswith("dry run, memory")]
    return {"told_memory": f"within a factor of {max(off):.1f} in all {len(off)} runs below"}


def _large(rows: Rows) -> dict[str, Any]:
    cells = [row["cell"] for row in rows if "cell" in row and row["cell"]["S"] == 50]
    spent = {(c["learner"], c["trust"]): c["assembling"] + c["running"] for c in cells}
    fifty = [
        [name, *(f"{spent[name, trust]:.3g} s" if (name, trust) in spent else "-" for trust in TRUSTS)]
        for name in dict.fromkeys(c["learner"] for c in cells)
    ]
    return {
        "fifty": _table(["learner", *TRUSTS], fifty),
        "met_50": _met(rows, "S=50: CPU seconds"),
        "met_200": _met(rows, "S=200: CPU seconds", "S=200: peak memory, GB"),
    }


def _met(rows: Rows, *ends: str) -> str:
    asked = [row for row in rows if row["name"].endswith(ends) and row["target"] is not None]
    missed = [f"{row['name']} {row['ratio']:.3g}" for row in asked if row["ratio"] > row["target"]]
    return f"met by all {len(asked)}" if not missed else "missed by " + "; ".join(missed)


def _growth(rows: Rows) -> dict[str, Any]:
    flat = max(row["ratio"] for row in rows if row["what"] == "memory in K, MB" and row["ratio"] is not None)
    refused = [f"{row['learner']} under {row['trust']}" for row in rows if row["what"] == "refused"]
    return {"flat": f"{flat:.1f}", "refused": ", ".join(refused)}


def _horizon(scaling: Rows, horizon: Rows) -> dict[str, Any]:
    """Exponents in H, and without the skipping of unchanged states."""
    found = {row["name"]: row for row in (*scaling, *horizon)}
    short, long = found["ucbvi, exponent in H"], found["ucbvi, exponent in H over 16 to 128"]
    return {
        "short": short["ratio"],
        "long": long["ratio"],
        "target": short["target"],
        "short_met": "met" if short["ratio"] <= short["target"] else "missed",
        "long_met": "met" if long["ratio"] <= long["target"] else "missed",
        "all_time_short": found["everything planned: time per user, exponent in H over 4 to 32"]["ratio"],
    }


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)])


def draw(growth: Mapping[str, Any], file: Path) -> None:
    """The figure: a row of panels per trust model."""
    from matplotlib.figure import Figure
    from PIL import Image

    from tacit.runs.figures import GREY, STYLES, WIDTH

    rows = [row for row in growth["rows"] if row["what"].startswith("time in") and min(row["values"], default=0) > 0]
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    figure = Figure(figsize=(WIDTH, 9.5), layout="constrained")
    axes = figure.subplots(len(TRUSTS), len(SIZES), sharey="row", sharex="col")
    for row in rows:
        axis = row["what"][-1]
        panel = axes[list(TRUSTS).index(row["trust"]), SIZES.index(axis)]
        users = row["sizes"] if axis == "K" else [_users(growth, row)] * len(row["sizes"])
        each = [1e6 * value / user for value, user in zip(row["values"], users, strict=True)]
        index = learners.index(row["learner"])
        color, _, marker = STYLES[index % len(STYLES)]
        dash = "-" if index < len(STYLES) else "--"
        panel.loglog(row["sizes"], each, color=color, linestyle=dash, marker=marker, markersize=3.5, linewidth=1.1)
    for i, trust in enumerate(TRUSTS):
        axes[i, 0].set_ylabel(f"{trust}: us per user", color=GREY)
        for j, axis in enumerate(SIZES):
            axes[i, j].tick_params(labelsize=7)
            axes[-1, j].set_xlabel(axis, color=GREY)
            if axis != "K":
                axes[i, j].set_xticks(AXES[axis], [str(size) for size in AXES[axis]])
                axes[i, j].minorticks_off()
    for index, name in enumerate(learners):
        color, _, marker = STYLES[index % len(STYLES)]
        axes[0, 0].plot([], [], color=color, linestyle="-" if index < len(STYLES) else "--", marker=marker, label=name)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6, fontsize=8, frameon=False
    )
    figure.savefig(file, dpi=100, metadata={"Software": None})
    Image.open(file).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(file, optimize=True)


def _users(growth: Mapping[str, Any], row: Mapping[str, Any]) -> int:
    """How many users the runs of a row had in which another size varies."""
    mine = [
        other
        for other in growth["rows"]
        if (other["learner"], other["trust"], other["what"]) == (row["learner"], row["trust"], "time in K")
    ]
    return int(mine[0]["sizes"][0])


def committed() -> tuple[Mapping[str, Any], ...]:
    """The results of `growth`, `sizes`, `scaling` and `horizon`."""
    return tuple(
        json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in ("growth", "sizes", "scaling", "horizon")
    )


def main() -> None:
    """Write page and figure."""
    growth, sizes, *others = committed()
    PAGE.write_text(page(growth, sizes, *others), encoding="utf-8")
    TABLE.write_text(table(growth, sizes), encoding="utf-8")
    draw(growth, FIGURE)
    print(f"{PAGE.relative_to(ROOT)}, {FIGURE.relative_to(ROOT)}: {FIGURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
