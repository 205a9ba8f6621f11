"""The page about growth and large worlds, made of the committed results of `growth`, `sizes`, `scaling` and `horizon`.

python -m benchmarks.growth_page          writes docs/growth.md and docs/growth.png
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_growth import AXES
from benchmarks.bench_scaling import BASE
from benchmarks.cells import SIZES, TRUSTS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TEMPLATE = Path(__file__).with_suffix(".md")
"""The prose, with a place for every number."""
PAGE, FIGURE = ROOT / "docs" / "growth.md", ROOT / "docs" / "growth.png"

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
        **_horizon(scaling["rows"]),
        **_ablation(horizon["rows"]),
    }
    return TEMPLATE.read_text("utf-8").format(**words)


def _told(rows: Rows) -> dict[str, str]:
    off = [row["ratio"] for row in rows if row["name"].endswith("dry run, memory")]
    return {"told_memory": f"within a factor of {max(off):.1f} in all {len(off)} runs below"}


def _large(rows: Rows) -> dict[str, Any]:
    cells = [row["cell"] for row in rows if "cell" in row]
    spent = {(c["learner"], c["trust"], c["S"]): c["assembling"] + c["running"] for c in cells}
    peaks = {(c["learner"], c["trust"]): c["peak"] / 1e9 for c in cells if c["S"] == 200}
    learners = list(dict.fromkeys(c["learner"] for c in cells))
    fifty = [
        [name, *(f"{spent[name, trust, 50]:.3g} s" if (name, trust, 50) in spent else "-" for trust in TRUSTS)]
        for name in learners
    ]
    large = [
        [name, trust, f"{spent[name, trust, 200]:.3g} s", f"{peaks[name, trust]:.2f} GB"]
        for name, trust in peaks
    ]  # fmt: skip
    return {
        "fifty": _table(["learner", *TRUSTS], fifty),
        "two_hundred": _table(["learner", "trust", "time", "peak memory"], large),
        "met_50": _met(rows, "S=50: CPU seconds"),
        "met_200": _met(rows, "S=200: CPU seconds", "S=200: peak memory, GB"),
        "obi": f"{10 * spent['ldp-obi', 'local', 50]:.0f}",
        "plans": _rare_plans(100_000),
    }


def _met(rows: Rows, *ends: str) -> str:
    asked = [row for row in rows if row["name"].endswith(ends) and row["target"] is not None]
    missed = [f"{row['name']} {row['ratio']:.3g}" for row in asked if row["ratio"] > row["target"]]
    return f"met by all {len(asked)}" if not missed else "missed: " + "; ".join(missed)


def _growth(rows: Rows) -> dict[str, Any]:
    found = {(row["learner"], row["trust"], row["what"]): row for row in rows}
    pairs = list(dict.fromkeys((row["learner"], row["trust"]) for row in rows if row["what"] != "refused"))
    lines = []
    for name, trust in pairs:
        time, memory = found[name, trust, "time in S"], found[name, trust, "memory in S"]
        users = 1000 if found[name, trust, "time in K"]["sizes"][0] == 1000 else 8000
        lines.append(
            [
                name,
                trust,
                *(_number(found[name, trust, f"time in {axis}"]["ratio"]) for axis in SIZES),
                _three(1e6 * time["values"][-1] / users),
                *(_number(found[name, trust, f"memory in {axis}"]["ratio"]) for axis in ("S", "A", "H")),
                f"{memory['values'][-1] / 1e6:.3g}" if memory["values"] else "-",
            ]
        )
    flat = max(row["ratio"] for row in rows if row["what"] == "memory in K, MB" and row["ratio"] is not None)
    refused = [f"{row['learner']} under {row['trust']}" for row in rows if row["what"] == "refused"]
    head = ["learner", "trust", *(f"time: {axis}" for axis in SIZES), "us", "memory: S", "A", "H", "MB"]
    return {"table": _table(head, lines), "flat": f"{flat:.1f}", "refused": ", ".join(refused)}


def _horizon(rows: Rows) -> dict[str, Any]:
    found = {row["name"]: row for row in rows}
    short, long = found["ucbvi, exponent in H"], found["ucbvi, exponent in H over 16 to 128"]
    start = "ucbvi, share of states computed, H="
    shares = [(name.removeprefix(start), row["ratio"]) for name, row in found.items() if name.startswith(start)]
    by_size = dict(shares)
    table = _table(["H", *(size for size, _ in shares)], [["computed", *(f"{share:.0%}" for _, share in shares)]])
    return {
        "short": short["ratio"],
        "long": long["ratio"],
        "target": short["target"],
        "short_met": "met" if short["ratio"] <= short["target"] else "missed",
        "long_met": "met" if long["ratio"] <= long["target"] else "missed",
        "more_short": by_size["32"] / by_size["4"],
        "more_long": by_size["128"] / by_size["16"],
        "per_state": long["detail"].rpartition(" ")[2],
        "shares": table,
    }


def _ablation(rows: Rows) -> dict[str, Any]:
    """Exponents in H with and without the skipping, and how many rows have data."""
    found = {row["name"]: row for row in rows}
    whos, spans = ("ucbvi", "everything planned"), ("4 to 32", "16 to 128")
    lines = []
    for what in ("time per user", "row evaluations", "time per row evaluation"):
        cells = [found[f"{who}: {what}, exponent in H over {span}"]["ratio"] for span in spans for who in whos]
        lines.append([what, *(f"{value:.2f}" for value in cells)])
    full = found["everything planned: row evaluations, exponent in H over 4 to 32"]
    counts = dict(zip(full["sizes"], full["values"], strict=True))
    size = BASE["states"] * BASE["actions"]
    return {
        "ablation": _table(["exponent of", *(f"{who}, {span}" for span in spans for who in whos)], lines),
        "time_short": found["ucbvi: time per user, exponent in H over 4 to 32"]["ratio"],
        "all_time_short": found["everything planned: time per user, exponent in H over 4 to 32"]["ratio"],
        "all_rows_short": full["ratio"],
        "filled_short": counts[4] / (4 * size),
        "filled_long": counts[32] / (32 * size),
    }


def _three(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


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
    growth, *others = committed()
    PAGE.write_text(page(growth, *others), encoding="utf-8")
    draw(growth, FIGURE)
    print(f"{PAGE.relative_to(ROOT)}, {FIGURE.relative_to(ROOT)}: {FIGURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()


def _rare_plans(episodes: int) -> int:
    """How many policies a learner that plans rarely makes in a run of so many."""
    from tacit.learners.geometric_replanning import LAG

    plans, done = 0, 0
    while done < episodes:
        done += min(max(1, done // LAG), episodes - done)
        plans += 1
    return plans
