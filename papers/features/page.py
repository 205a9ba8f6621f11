"""The page and the figure of linear learners, from what is committed.

python -m papers.features.page            writes both; a test compares
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURE", "PAGE", "bars_table", "digest", "draw", "frontier_table", "load", "misspecified_table", "render"]

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "results" / "features"
PAGE: Final = ROOT / "docs" / "linear-learners.md"
FIGURE: Final = RESULTS / "frontier.png"
GROUPS: Final = ("bars", "frontier", "misspecified", "published")
COLORS: Final = {"central": "#0072b2", "shuffle": "#009e73", "local": "#d55e00", "table": "#767676"}
Row = Mapping[str, Any]


def load() -> dict[str, list[Row]]:
    """The committed rows of every group; a group that is not there has none."""
    paths = {group: RESULTS / f"{group}.json" for group in GROUPS}
    return {
        group: json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
        for group, path in paths.items()
    }


def digest(found: Mapping[str, list[Row]]) -> str:
    """What the figure was drawn from."""
    return hashlib.sha256(json.dumps(found["frontier"], sort_keys=True).encode()).hexdigest()


def _shown(row: Row) -> str:
    return f"{row['share']:.3f} ({row['low']:.3f}–{row['high']:.3f})"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _kind(cell: Mapping[str, Any]) -> str:
    return f"{'shared' if cell['shared'] else 'own'}, {cell['features']}, {cell['actions']}"


def bars_table(rows: list[Row]) -> str:
    """Every size that was fixed beforehand, beside no privacy."""
    lines, sized = [], lambda cell: (_kind(cell), cell["episodes"])
    exact = {sized(row["cell"]): f"{row['share']:.3f}" for row in rows if row["cell"]["trust"] == "none"}
    for row in rows:
        cell = row["cell"]
        if cell["trust"] == "none":
            continue
        bar = (
            "-"
            if cell["bar"] is None
            else f"≤ {cell['bar']:g}, {'met' if row['share'] <= cell['bar'] else '**missed**'}"
        )
        final = f"{row['final share']:.3f}"
        lines.append(
            (cell["trust"], _kind(cell), f"{cell['episodes']:,}", _shown(row), exact.get(sized(cell), "-"), bar, final)
        )
    head = ("trust", "parameters, d, A", "people", "share of uniform's regret", "no privacy", "bar", "final policy")
    return _table(head, lines)


def misspecified_table(rows: Iterable[Row]) -> str:
    """The linear learner beside the best table, world by world."""
    found: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        cell = row["cell"]
        name = (cell["model"], cell["features"], cell["actions"])
        found.setdefault(name, {})["table" if cell["learner"] == "table" else "linear"] = row
    lines = []
    for (model, d, A), pair in found.items():
        table = "-"
        if "table" in pair:
            size = pair["table"]["learner"].removeprefix("bucb, ").replace(" features in ", "/").removesuffix(" bins")
            table = f"{_shown(pair['table'])} ({size})"
        lines.append((model, f"{d}, {A}", _shown(pair["linear"]), table))
    return _table(("world", "d, A", "lin-ts", "best table (features/bins)"), lines)


def published_table(rows: Iterable[Row]) -> str:
    """What papers print beside ours."""
    lines = []
    for row in rows:
        cell = row["cell"]
        if cell["learner"] != "auto":
            ours = next(
                other
                for other in rows
                if (other["cell"]["trust"], other["cell"]["shared"], other["cell"]["learner"])
                == (cell["trust"], cell["shared"], "auto")
            )
            certified = f"{row['certified epsilon']:.3f}"
            if cell["trust"] == "shuffle":
                certified = f"at most {certified} (one message)"
            lines.append((cell["learner"], cell["trust"], _kind(cell), _shown(row), certified, _shown(ours)))
    head = ("learner", "trust", "parameters, d, A", "as published", "certified ε (claim: 1)", "ours")
    return _table(head, lines)


def frontier_table(rows: Iterable[Row]) -> str:
    """Shares at epsilon .1, 1 and 10, by size."""
    kept = {_place(row): row["share"] for row in rows}
    lines = []
    for d in (5, 10, 20):
        for K in (20_000, 200_000):
            if (d, K, "none", None) not in kept:
                continue
            cells = [
                " / ".join(f"{kept[d, K, name, e]:.2f}" if (d, K, name, e) in kept else "-" for e in (0.1, 1.0, 10.0))
                for name in COLORS
            ]
            lines.append((f"{d}", f"{K:,}", f"{kept[d, K, 'none', None]:.3f}", *cells))
    head = ("d", "people", "no privacy", *(f"{name}, ε = 0.1 / 1 / 10" for name in COLORS))
    return _table(head, lines).replace("| table, ε", "| best table of bins (central), ε")


def _place(row: Row) -> tuple[int, int, str, float | None]:
    cell = row["cell"]
    return cell["features"], cell["episodes"], "table" if cell["learner"] == "table" else cell["trust"], cell["epsilon"]


def _times(rows: Iterable[Row], d: int, K: int) -> str:
    """The best table's regret at epsilon 1, in units of ours."""
    kept = {_place(row): row["share"] for row in rows}
    return f"{kept[d, K, 'table', 1.0] / kept[d, K, 'central', 1.0]:.2g}"


def draw(found: Mapping[str, list[Row]]) -> Figure:
    """Shares against the epsilon of the claim, a panel per size."""
    from matplotlib.figure import Figure

    kept = {_place(row): row for row in found["frontier"]}
    figure = Figure(figsize=(9.0, 5.2), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, (K, d) in zip(panels.ravel(), ((K, d) for K in (20_000, 200_000) for d in (5, 10, 20)), strict=True):
        for name, color in COLORS.items():
            mine = sorted(
                ((place[3], row) for place, row in kept.items() if place[:3] == (d, K, name)),
                key=lambda p: float(p[0] or 0.0),
            )
            if mine:
                x, shares = [p[0] for p in mine], [p[1]["share"] for p in mine]
                label = "best table of bins, central" if name == "table" else f"linear, {name}"
                axes.plot(x, shares, "o-", color=color, label=label, markersize=3)
                axes.fill_between(x, [p[1]["low"] for p in mine], [p[1]["high"] for p in mine], color=color, alpha=0.15)
        if (d, K, "none", None) in kept:
            axes.axhline(kept[d, K, "none", None]["share"], color="black", linestyle=":", label="linear, no privacy")
        axes.set_title(f"d = {d}, {K:,} people", fontsize=9)
        axes.set_xscale("log")
        axes.set_ylim(0.0, 1.05)
        axes.grid(alpha=0.3)
    for axes in panels[1]:
        axes.set_xlabel("epsilon (certified: at most that)")
    for axes in panels[:, 0]:
        axes.set_ylabel("share of uniform's regret")
    panels[0, 0].legend(fontsize=6.5)
    return figure


def _ranges(rows: Iterable[Row]) -> dict[str, str]:
    """The least and the greatest share of the linear learner and of tables, in worlds of both kinds."""
    found: dict[str, list[float]] = {}
    for row in rows:
        model, table = row["cell"]["model"], row["cell"]["learner"] == "table"
        if model != "xor-product":
            name = ("xor_table" if table else "xor_linear") if model == "xor" else "binned" if table else "linear"
            found.setdefault(name, []).append(row["share"])
    return {
        name: f"{max(shares):.2f}" if name == "xor_table" else f"{min(shares):.2f} to {max(shares):.2f}"
        for name, shares in found.items()
    }


def render(found: Mapping[str, list[Row]]) -> str:
    """The page."""
    return (
        (Path(__file__).parent / "page.md")
        .read_text(encoding="utf-8")
        .format(
            **_ranges(found["misspecified"]),
            published=published_table(found["published"]),
            seeds=len(found["frontier"][0]["seeds"]) if found["frontier"] else 0,
            least=_times(found["frontier"], 20, 20_000),
            most=_times(found["frontier"], 5, 200_000),
        )
    )


def main() -> int:
    """Write the page and the figure."""
    found = load()
    PAGE.write_text(render(found), encoding="utf-8")
    draw(found).savefig(FIGURE, dpi=120, metadata={"Source": digest(found), "Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
