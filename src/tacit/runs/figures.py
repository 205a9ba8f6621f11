"""Figures of regret: mean and band over the seeds, one panel per environment, readable without colour.

Lines differ in colour, dash and marker at once and are named where they end. Nothing here keeps state: no pyplot, no
style sheet, so drawing a figure cannot change another.

A line is known by the first part of its label, without its noise ("SDP-PE tight, ε=1" is a line of SDP-PE). Names that
appear in several figures have a colour of their own; other labels take the colours that are left, in order. Lines of
one learner share its colour and differ in dash and marker.

The names of lines, written where the lines end and pushed apart just enough to be read.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from tacit.arrays import Floats
from tacit.errors import InvalidInput, UnknownName, require
from tacit.runs.manifest import write_beside
from tacit.runs.result import Result
from tacit.runs.storage_paths import check_writable, make_directory, resolve_location, writing_to

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LINE_POINTS: Final = 11.0
"""The height of a label."""


def name_lines(ax: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each name beside the end of its line, pushed apart just enough to be read."""
    per_point = ax.get_figure(root=True).dpi / 72.0  # type: ignore[union-attr]
    heights = [float(ax.transData.transform((x, y))[1]) / per_point for x, y, _, _ in ends]
    bottom = float(ax.transAxes.transform((0.0, 0.0))[1]) / per_point
    places = apart(heights, LINE_POINTS, bottom)
    for (x, y, name, color), height, place in zip(ends, heights, places, strict=True):
        moved = place - height
        line = {
            "arrowstyle": "-",
            "color": color,
            "linewidth": 0.6,
            "shrinkA": 0.0,
            "shrinkB": 0.0,
            "relpos": (0.0, 0.5),
        }
        ax.annotate(
            name,
            xy=(x, y),
            xytext=(12.0, moved),
            textcoords="offset points",
            fontsize=8.5,
            color=color,
            va="center",
            annotation_clip=False,
            arrowprops=line,
        )


def apart(heights: Sequence[float], gap: float, bottom: float) -> list[float]:
    """The nearest heights that keep the order and are at least `gap` apart: blocks of names that touch stay centred."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    blocks: list[tuple[float, int]] = []  # centre of a block and how many names it holds
    for i in order:
        centre, count = heights[i], 1
        while blocks and blocks[-1][0] + gap * (blocks[-1][1] + count) / 2.0 > centre:
            other, size = blocks.pop()
            centre, count = (other * size + centre * count) / (size + count), size + count
        blocks.append((max(centre, bottom + gap * (count - 1) / 2.0), count))
    places = [centre + gap * (k - (count - 1) / 2.0) for centre, count in blocks for k in range(count)]
    placed = [0.0] * len(heights)
    for i, place in zip(order, places, strict=True):
        placed[i] = place
    return placed


Style = tuple[str, Any, str]
"""Colour, dash and marker."""

STYLES: Final[tuple[Style, ...]] = (
    ("#0072b2", "-", "o"),
    ("#d55e00", (0, (5, 1.5)), "s"),
    ("#007a5a", (0, (5, 1.5, 1, 1.5)), "^"),
    ("#a0487e", (0, (1.5, 1)), "D"),
    ("#3d3d3d", (0, (8, 2)), "v"),
    ("#4a9fd8", "-", "P"),
    ("#b8860b", (0, (3, 1, 1, 1, 1, 1)), "X"),
    ("#7a7a7a", (0, (2, 2)), "*"),
)
REFERENCE_STYLES: Final[Mapping[str, Style]] = {
    "uniform": ("#6b6b6b", (0, (1, 1.5)), ""),
    "optimal": ("#6b6b6b", (0, (4, 2)), ""),
    "myopic": ("#6b6b6b", (0, (4, 2, 1, 2)), ""),
}
GREY: Final = "#6b6b6b"
WIDTH: Final = 10.0
"""The width of a figure in several columns, in inches; shown as wide as a page, its letters can be read."""

_BLUE, _ORANGE, _GREEN, _PURPLE, _BLACK, _SKY, _GOLD, _GRAY = range(len(STYLES))
NAMED: Final[Mapping[str, int]] = {
    # without privacy
    "UCB-VI": _BLACK, "no privacy": _BLACK, "without privacy": _BLACK, "PE": _GOLD,
    "2024, no privacy": _BLACK, "2025, no privacy": _BLACK,
    # by trust
    "central": _BLUE, "UCBVI-JDP": _BLUE, "DP-UCBVI-JDP": _BLUE,
    "local": _ORANGE, "UCBVI-LDP": _ORANGE, "DP-UCBVI-LDP": _ORANGE,
    "shuffle": _GREEN, "SDP-PE": _GREEN, "SDP-PE plus": _SKY, "SDP-BUCB": _PURPLE,
    # local learners, and LDP-OBI by its noise
    "LDP-OBI": _BLUE, "LDP-PSRL": _ORANGE, "LDP-PSRL beta": _GREEN,
    "LDP-OBI-L": _BLUE, "LDP-OBI-G": _ORANGE, "LDP-OBI-RR": _GREEN, "LDP-OBI-BND": _PURPLE, "LDP-OBI-OUE": _SKY,
    "LDP-OBI-SUB": _GOLD, "LDP-OBI-G10": _GRAY,
    # counters of central trust
    "paper tree": _ORANGE, "Laplace tree": _GOLD, "factorization": _BLUE, "batched": _SKY,
    "batched factorization": _GREEN, "at the paper's epsilon": _PURPLE, "PO": _GRAY,
    # policy gradients
    "DP-PG": _BLUE, "DP-NPG": _ORANGE, "DP-PPO": _GREEN, "DP-TRPO": _PURPLE,
    "network, DP-PG": _BLUE, "network, DP-TRPO": _PURPLE, "table, DP-PG": _GOLD,
}  # fmt: skip
"""Which of the colours belongs to a learner, by the name that its lines have."""
NOISES: Final = (" tight", " printed")


def line_styles(results: Sequence[Result]) -> dict[str, Style]:
    """A style per label; the reference policies keep theirs in every figure."""
    learners = {result.label: result.config.learner for result in results}
    fixed = {label: REFERENCE_STYLES[name] for label, name in learners.items() if name in REFERENCE_STYLES}
    return {**fixed, **_styles(label for label in learners if label not in fixed)}


def style_of(label: str, labels: Sequence[str]) -> Style:
    """The style of one label among all labels of a figure.

    >>> style_of("SDP-PE tight, ε=1", ["UCB-VI", "SDP-PE tight, ε=1"])[0] == style_of("SDP-PE", ["SDP-PE"])[0]
    True
    """
    return _styles(labels)[label]


def _styles(labels: Iterable[str]) -> dict[str, Style]:
    shown = list(dict.fromkeys(labels))
    taken = {NAMED[name] for name in map(_name, shown) if name in NAMED}
    left = [i for i in range(len(STYLES)) if i not in taken] or list(range(len(STYLES)))
    colours: dict[str, int] = {}
    forms: set[tuple[int, int]] = set()
    found: dict[str, Style] = {}
    for label in shown:
        name = _name(label)
        if name not in NAMED:  # labels of nobody's have a colour each
            name = label
            colours.setdefault(name, left[len([n for n in colours if n not in NAMED]) % len(left)])
        colour = colours.setdefault(name, NAMED.get(name, 0))
        # Dash and marker: first those that belong together, beginning with the colour's own, then every other pair.
        count = len(STYLES)
        pairs = (
            ((colour + turn) % count, (colour + turn + shift) % count)
            for shift in range(count)
            for turn in range(count)
        )
        dash, marker = next((pair for pair in pairs if pair not in forms), (colour, colour))
        forms.add((dash, marker))
        found[label] = (STYLES[colour][0], STYLES[dash][1], STYLES[marker][2])
    return found


def _name(label: str) -> str:
    for name in (label, label.rpartition(", ")[0], label.split("; ")[0]):
        if name in NAMED:
            return name
    name = label.split(", ")[0]
    for noise in NOISES:
        name = name.removesuffix(noise)
    return name


__all__ = [
    "GREY",
    "REFERENCE_STYLES",
    "STYLES",
    "WIDTH",
    "Band",
    "LogAxes",
    "Panel",
    "PerEpisode",
    "check_choices",
    "line_styles",
    "log_floor",
    "plot",
    "references",
    "save_figure",
    "series",
    "style_of",
    "values_of",
]

Band = Literal["std", "minmax", "bootstrap", "none"]
"""± one standard deviation, least to greatest, or the 95% bootstrap interval of the mean."""

LogAxes = Literal["none", "x", "y", "xy"]
"""Which axes are logarithmic."""

PerEpisode = bool | Literal["so far"]
"""Cumulative regret, the regret of an episode (averaged between two checkpoints), or R_k/k: that of all so far."""

Panel = Callable[[Result], str]
"""The name of the panel that a result belongs to."""


BAND_WORDS: Final[Mapping[Band, str]] = {
    "std": "band: ± one standard deviation",
    "minmax": "band: least to greatest",
    "bootstrap": "band: 95% bootstrap interval of the mean",
    "none": "no band",
}
SUFFIXES: Final = (".png", ".svg", ".pdf")


def plot(
    results: Sequence[Result],
    path: str | Path | None = None,
    *,
    band: Band = "std",
    per_episode: PerEpisode = False,
    log: LogAxes = "xy",
    title: str | None = None,
    panel: Panel | None = None,
    columns: int | None = None,
    beside: Callable[[Axes], None] | None = None,
    first: int = 1,
) -> Figure:
    """Draw the regret of several runs in one figure (simulation only) and, given a path, save it there.

    Parameters
    ----------
    results
        One line each; runs in the same environment share a panel, and equal labels share a style.
    path
        A file that ends in .png, .svg or .pdf.
    band
        What is shaded around the mean over the seeds.
    per_episode
        Draw the regret of an episode, averaged between two checkpoints, or R_k/k (so far), not the cumulative one.
    log
        Which axes are logarithmic; values that are not positive are drawn at the lower edge then.
    title
        Above the figure.
    panel
        Which panel a result belongs to, by the panel's name; None: one panel per environment.
    columns
        How many panels stand side by side; None: one, two from five panels on, three from nine on. Where panels stand
        side by side, one legend below them names the lines; else each is named where it ends.
    beside
        Draws what else a panel shows.
    first
        The first episode that is shown.
    """
    _require_drawable(results, band, log)
    target = None if path is None else _target(resolve_location(path))
    from matplotlib.figure import Figure

    panels: dict[str, list[Result]] = {}
    for result in results:
        name = result.config.environment_name if panel is None else panel(result)
        panels.setdefault(name, []).append(result)
    styles = line_styles(results)
    columns = min(len(panels), columns or 1 + (len(panels) > 4) + (len(panels) > 8))
    rows = -(-len(panels) // columns)
    size = (8.0, 0.6 + 3.6 * rows) if columns == 1 else (WIDTH, 1.2 + 2.7 * rows)
    figure = Figure(figsize=size, layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    axes = places[: len(panels)]
    for empty in places[len(panels) :]:
        figure.delaxes(empty)
    ends = [
        _panel(ax, name, members, styles, band=band, per_episode=per_episode, log=log, first=first)
        for ax, (name, members) in zip(axes, panels.items(), strict=True)
    ]
    for i, ax in enumerate(axes):
        if i >= len(panels) - columns:
            ax.set_xlabel("episode", color=GREY)
        if i % columns:
            ax.set_ylabel("")
        if beside is not None:
            beside(ax)
    if title:
        figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    caption = _caption(results, band)
    if columns > 1:
        _legend(figure, list(axes), caption)
    else:
        figure.supxlabel(caption, fontsize=8, color=GREY, x=0.01, ha="left")
        figure.draw_without_rendering()  # settles the layout, so that labels can be kept apart
        for ax, named in zip(axes, ends, strict=True):
            name_lines(ax, named)
    if target is not None:
        save_figure(figure, target)
    return figure


def _require_drawable(results: Sequence[Result], band: Band, log: LogAxes) -> None:
    require(len(results) > 0, "a figure needs at least one result", len(results))
    check_choices(band, log)


def _caption(results: Sequence[Result], band: Band) -> str:
    counts = sorted({len(result.seeds) for result in results})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
    what = "returns are" if all(result.returns for result in results) else "regret is"
    return f"mean over {seeds} seed{'' if counts == [1] else 's'}; {BAND_WORDS[band]}; {what} simulation-only"


def check_choices(band: str, log: str) -> None:
    """Raise unless the band and the logarithmic axes are known, before anything long begins."""
    if band not in get_args(Band):
        raise UnknownName("band", band, get_args(Band))
    if log not in get_args(LogAxes):
        raise UnknownName("choice of logarithmic axes", log, get_args(LogAxes))


def series(result: Result, *, band: Band, per_episode: PerEpisode) -> tuple[Floats, Floats, Floats, Floats]:
    """Episode numbers, mean, and lower and upper edge of the band."""
    x, values = values_of(result, per_episode=per_episode)
    mean = values.mean(axis=0)
    if band == "none" or len(values) == 1:
        return x, mean, mean, mean
    if band == "minmax":
        return x, mean, values.min(axis=0), values.max(axis=0)
    if band == "std":
        std = values.std(axis=0, ddof=1)
        return x, mean, mean - std, mean + std
    # Resample seeds, not checkpoints; a generator of its own makes the same figure every time.
    chosen = np.random.default_rng(0).integers(len(values), size=(1000, len(values)))
    low, high = np.quantile(values[chosen].mean(axis=1), [0.025, 0.975], axis=0)
    return x, mean, low, high


def values_of(result: Result, *, per_episode: PerEpisode) -> tuple[Floats, Floats]:
    """Episode numbers, and [seed, checkpoint] what is drawn of every seed."""
    x = result.episodes.astype(np.float64)
    values = result.regret
    if result.returns:
        # A live world has no regret: the return of an episode, averaged between two checkpoints (or so far).
        values, per_episode = np.array([found.total for found in result.returns]), per_episode or True
    if per_episode == "so far":
        values = values / x  # R_k / k
    elif per_episode:
        # (R_k - R_j) / (k - j): the average regret of the episodes since the last checkpoint
        values = np.diff(values, axis=1, prepend=0.0) / np.diff(x, prepend=0.0)
    return x, values


def _panel(
    ax: Axes,
    name: str,
    members: Sequence[Result],
    styles: Mapping[str, tuple[str, Any, str]],
    *,
    band: Band,
    per_episode: PerEpisode,
    log: LogAxes,
    first: int,
) -> list[tuple[float, float, str, str]]:
    """Draw one environment; returns where each line ends, its name and its colour."""
    ends: list[tuple[float, float, str, str]] = []
    last = max(members, key=lambda result: result.config.episodes)
    lines: list[tuple[Result, Floats, Floats, Floats, Floats]] = []
    for result in members:
        x, mean, low, high = _from(first, series(result, band=band, per_episode=per_episode))
        lines.append((result, x, mean, low, high))
    live = any(result.returns for result in members)
    if live:  # returns may be negative, and nothing is to be read off their logarithm
        log = "x" if "x" in log else "none"
    floor = log_floor([line[2] for line in lines]) if "y" in log else -np.inf
    if not any(result.config.learner == "uniform" for result in members):
        for words, style, episodes, values in references(last, per_episode=per_episode):
            x, y = _from(first, (episodes, values))
            y = np.maximum(y, floor)
            color, dash, _ = REFERENCE_STYLES[style]
            ax.plot(x, y, color=color, linewidth=1.0, linestyle=dash, zorder=1, label=words)
            ends.append((float(x[-1]), float(y[-1]), words, color))
    for i, (result, x, mean, low, high) in enumerate(lines):
        color, dash, marker = styles[result.label]
        mean, low, high = (np.maximum(values, floor) for values in (mean, low, high))
        if band != "none":
            ax.fill_between(x, low, high, color=color, alpha=0.16, linewidth=0, zorder=2)
        # Markers stand at equal distances on the paper and are staggered, so that lines on top of each other show.
        every = (0.02 * (i % 6), 0.13)
        ax.plot(
            x, mean, color=color, linestyle=dash, linewidth=1.6, marker=marker, markersize=4, markevery=every, zorder=3,
            label=result.label,
        )  # fmt: skip
        ends.append((float(x[-1]), float(mean[-1]), result.label, color))
    ax.set_title(name, loc="left", fontsize=10, color="#222222")
    names = {False: "cumulative regret", True: "regret per episode", "so far": "regret per episode so far, $R_k/k$"}
    ax.set_ylabel("return per episode" if live else names[per_episode], color=GREY)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", colors=GREY, labelsize=8)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)
    _scale(ax, log, floor, float(min(line[1][0] for line in lines)), float(last.episodes[-1]), free=live)
    return ends


def _from(first: int, line: Sequence[Floats]) -> list[Floats]:
    """A line from the episode `first` on: the first of its arrays are the episodes."""
    return [values[line[0] >= first] for values in line]


def _legend(figure: Figure, axes: Sequence[Axes], caption: str) -> None:
    """One legend for all panels, below them, and the caption above it."""
    named: dict[str, Artist] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        named |= dict(zip((str(label) for label in labels), handles, strict=True))
    widest = max(map(len, named))
    ncols = max(1, min(len(named), int(125 / (widest + 8))))
    legend = figure.legend(
        list(named.values()), list(named), loc="outside lower left", ncols=ncols, frameon=False, fontsize=8.5,
        handlelength=3.2, title=caption, title_fontsize=8, alignment="left",
    )  # fmt: skip
    legend.get_title().set_color(GREY)


def references(result: Result, *, per_episode: PerEpisode) -> list[tuple[str, str, Floats, Floats]]:
    """Name, style, episodes and regret of the policies that learn nothing."""
    x = result.episodes.astype(np.float64)
    if result.returns:
        measured = float(np.mean([found.uniform.mean for found in result.returns]))
        lines = [("uniform policy (measured)", "uniform", x, np.full_like(x, measured))]
        bases = [found.baseline.mean for found in result.returns if found.baseline is not None]
        if bases:
            lines.append(("baseline (measured)", "optimal", x, np.full_like(x, float(np.mean(bases)))))
        return lines
    if not result.losses:
        y = np.full_like(x, result.uniform_regret) if per_episode else result.uniform_regret * x
        return [("uniform policy (expected)", "uniform", x, y)]
    found = []
    for name in ("uniform", "myopic"):
        y = np.mean([getattr(measures, name) for measures in result.losses], axis=0)
        if per_episode == "so far":
            y = y / x
        elif per_episode:
            y = np.diff(y, prepend=0.0) / np.diff(x, prepend=0.0)
        found.append((f"{name} policy", name, x, y))
    return found


def log_floor(means: Sequence[Floats]) -> float:
    """Where a logarithmic axis ends below: under every positive mean, but within seven decades."""
    positive = np.concatenate([mean[mean > 0.0] for mean in means])
    return max(float(positive.min()) / 2.0, float(positive.max()) * 1e-7) if len(positive) else 1e-3


def _scale(ax: Axes, log: LogAxes, floor: float, first: float, last: float, *, free: bool) -> None:
    def thousands(value: float, _: object) -> str:
        return f"{value:,.6g}"

    if "x" in log:
        ax.set_xscale("log")
        ax.set_xlim(first, max(last, 1.01 * first))
    else:
        ax.set_xlim(0.0, last)
        ax.xaxis.set_major_formatter(thousands)
    if "y" in log:
        ax.set_yscale("log")
        ax.set_ylim(bottom=floor)
    else:
        if not free:
            ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        ax.yaxis.set_major_formatter(thousands)


def _target(path: Path) -> Path:
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"a figure's file must end in {', '.join(SUFFIXES)}, got '{path.name}'")
    return path


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all."""
    check_writable(path.parent)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=160)
    with writing_to(path):
        make_directory(path.parent)
        write_beside(path, buffer.getvalue())
