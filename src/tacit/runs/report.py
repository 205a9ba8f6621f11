"""One self-contained HTML page per result: figures, tables, commands, claims, certificates; no script, no network."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tacit.runs.comparison import Comparison
from tacit.runs.figures import plot
from tacit.runs.result import Result
from tacit.runs.returns_report import RETURN_HEAD, return_cells
from tacit.runs.storage import check_writable, write_whole, writing_to

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["render_report", "write_report"]

SIMULATION_ONLY: Final = "Regret compares with the true optimum and is known in simulations only."
LIVE_ONLY: Final = "A live world has no table and no known optimum: returns are measured, in simulations only."
STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p.note { color: #666; margin-top: 0 } img { max-width: 100%; height: auto; display: block; margin: 1rem 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; border-bottom: 1px solid #e2e2e2; vertical-align: top }
th { color: #666; font-weight: 600 } td.number, th.number { text-align: right }
pre { background: #f6f6f4; padding: .7rem .9rem; overflow-x: auto; font-size: 13px }
details { margin: .4rem 0 } summary { cursor: pointer }
"""


def render_report(found: Result | Comparison) -> str:
    """The page, as text."""
    results = [found] if isinstance(found, Result) else list(found)
    name = found.label if isinstance(found, Result) else found.name
    scale = "" if isinstance(found, Result) or found.scale is None else f", scale {found.scale}"
    sections = [
        f"<h1>{html.escape(name)}</h1>",
        f'<p class="note">tacit {html.escape(found.version)}{html.escape(scale)}. {_notes(results)}</p>',
        *_regret(results),
        *_returns(results),
        "<h2>Privacy</h2>",
        _privacy(results),
        "<h2>Commands</h2>",
        _commands(found, results),
        "<h2>Configurations</h2>",
        _configurations(results),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(name)} - tacit</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def write_report(found: Result | Comparison, path: str | Path) -> Path:
    """Write the page to a file."""
    target = Path(path)
    check_writable(target.parent)
    page = render_report(found)
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, page.encode())
    return target


def _notes(results: Sequence[Result]) -> str:
    live = {bool(result.returns) for result in results}
    return " ".join([*([SIMULATION_ONLY] if False in live else []), *([LIVE_ONLY] if True in live else [])])


def _regret(results: Sequence[Result]) -> list[str]:
    """Figures and table of the runs that have regret."""
    mine = [result for result in results if not result.returns]
    if not mine:
        return []
    return [
        "<h2>Regret</h2>",
        _image(plot(mine), "Cumulative regret"),
        _image(plot(mine, per_episode=True), "Regret per episode"),
        _regret_table(mine),
        *_against(mine),
    ]


def _returns(results: Sequence[Result]) -> list[str]:
    """Figure and table of the runs in live worlds."""
    mine = [result for result in results if result.returns]
    if not mine:
        return []
    rows = [(result.config.environment_name, result.label, *return_cells(result)) for result in mine]
    table = _table(("environment", "run", *RETURN_HEAD), rows, numeric=range(2, 6))
    return ["<h2>Returns</h2>", _image(plot(mine), "Return per episode"), table, *_against(mine)]


def _against(results: Sequence[Result]) -> list[str]:
    lines = [(result.label, line) for result in results if result.against for line in result.against.lines]
    return [f"<p><b>{html.escape(label)}</b>: {html.escape(line)}</p>" for label, line in lines]


def _image(figure: Figure, words: str) -> str:
    """The figure as an embedded SVG; the same results give the same bytes."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "tacit"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{html.escape(words)}" src="data:image/svg+xml;base64,{encoded}">'


def _regret_table(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        spread, relative = result.spread(), result.relative_regret
        rows.append(
            (
                result.config.environment_name,
                result.label,
                f"{result.config.episodes:,}",
                f"{len(result.seeds)}",
                f"{spread.mean:,.1f} ± {spread.std:,.1f}",
                f"{spread.min:,.1f} to {spread.max:,.1f}",
                "-" if relative is None else f"{relative:.3f}",
                f"{result.seconds_per_episode * 1e6:.3g}",
            )
        )
    head = ("environment", "run", "episodes", "seeds", "regret, mean ± std", "least to greatest", "share of uniform's")
    return _table((*head, "µs per episode"), rows, numeric=range(2, 8))


def _privacy(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        claim, found = result.claim, result.certificate
        certified = f"{found.epsilon:.4g} at delta {found.delta:g}" if claim.trust != "none" else "nothing"
        promised = f"epsilon {claim.epsilon:g}, delta {claim.delta:g}" if claim.trust != "none" else "nothing"
        rows.append((result.label, claim.trust, claim.notion, promised, certified, found.method))
    table = _table(("run", "trust", "notion", "claimed", "certified epsilon", "method"), rows)
    words: dict[str, list[str]] = {}
    for result in results:
        words.setdefault(result.privacy_words, []).append(result.label)
    sentences = "".join(
        f"<p><b>{html.escape(', '.join(dict.fromkeys(labels)))}</b>: {html.escape(text)}</p>"
        for text, labels in words.items()
    )
    tables: dict[str, list[str]] = {}
    for result in results:
        tables.setdefault(result.certificate.render(), []).append(result.label)
    details = "".join(
        f"<details><summary>certificate: {html.escape(', '.join(dict.fromkeys(labels)))}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
        for text, labels in tables.items()
    )
    return table + sentences + details + _batches(results)


def _batches(results: Sequence[Result]) -> str:
    """What every kind of batch promises and costs, for the runs that come in batches of their own."""
    parts = []
    head = ("users", "statistic", "batches", "certified epsilon", "noise std", "messages per user", "bytes per user")
    for result in results:
        rows = [
            (
                f"{batch.users:,}",
                batch.statistic,
                f"{batch.batches}",
                f"{batch.epsilon:.4g}",
                f"{batch.std:.4g}",
                f"{batch.messages_per_user:,}",
                f"{batch.bytes_per_user:,}",
            )
            for batch in result.batches
        ]
        if rows:
            summary = html.escape(f"batches: {result.label}")
            parts.append(f"<details><summary>{summary}</summary>{_table(head, rows)}</details>")
    return "".join(parts)


def _commands(found: Result | Comparison, results: Sequence[Result]) -> str:
    lines = dict.fromkeys([found.command, *(result.config.command() for result in results)])
    return "<pre>" + html.escape("\n".join(lines)) + "</pre>"


def _configurations(results: Sequence[Result]) -> str:
    parts = []
    for result in results:
        asked = {**result.config.to_dict(), "seeds": _seeds(result.seeds)}
        resolved = {name: getattr(result.resolved, name) for name in result.resolved.__dataclass_fields__}
        rows = [(name, str(value)) for name, value in {**asked, **resolved}.items() if value is not None]
        title = f"{result.config.environment_name}: {result.label}"
        table = _table(("entry", "value"), rows)
        parts.append(f"<details><summary>{html.escape(title)}</summary>{table}</details>")
    return "".join(parts)


def _seeds(seeds: Sequence[int]) -> str:
    together = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} to {seeds[-1]}" if together and len(seeds) > 1 else ", ".join(map(str, seeds))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int] = ()) -> str:
    right = set(numeric)

    def cells(values: Sequence[str], tag: str) -> str:
        kinds = [' class="number"' if i in right else "" for i in range(len(values))]
        return "".join(f"<{tag}{kind}>{html.escape(value)}</{tag}>" for kind, value in zip(kinds, values, strict=True))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
