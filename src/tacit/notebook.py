"""HTML for notebooks: small tables in the colours of whatever page shows them, light or dark; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

MARK: Final = '<em style="opacity:0.7">(simulation only)</em>'
"""Stands beside every value that takes the true world to compute."""
CELL: Final = "padding:0 1em 0 0;text-align:left"
MAX_ROWS: Final = 20
MAX_COLUMNS: Final = 12


def block(title: str, *parts: str) -> str:
    """A titled block; `parts` are HTML already."""
    inside = "".join(parts)
    return f'<div style="color:inherit;max-width:60em"><strong>{escape(title)}</strong>{inside}</div>'


def facts(rows: Iterable[tuple[str, str, bool]]) -> str:
    """A table of (name, value, whether it exists in simulations only)."""
    body = "".join(
        f'<tr><th style="{CELL}">{escape(name)}{" " + MARK if simulated else ""}</th>'
        f'<td style="{CELL}">{escape(value)}</td></tr>'
        for name, value, simulated in rows
    )
    return _table(body)


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], *, simulated: Iterable[int] = ()) -> str:
    """A table with a head, cut to a size that a page can bear; it says what was cut."""
    marked, columns = set(simulated), head[:MAX_COLUMNS]
    top = "".join(
        f'<th style="{CELL}">{escape(name)}{" " + MARK if i in marked else ""}</th>' for i, name in enumerate(columns)
    )
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{escape(value)}</td>' for value in row[:MAX_COLUMNS]) + "</tr>"
        for row in rows[:MAX_ROWS]
    )
    left = [
        f"{len(whole) - most} more {what}"
        for whole, most, what in ((rows, MAX_ROWS, "rows"), (head, MAX_COLUMNS, "columns"))
        if len(whole) > most
    ]
    more = f'<div style="opacity:0.7">and {escape(", ".join(left))}</div>' if left else ""
    return _table(f"<tr>{top}</tr>{body}") + more


def _table(body: str) -> str:
    return f'<table style="color:inherit;background:transparent;border-collapse:collapse">{body}</table>'
