"""The cards that are compared with results, and where their claims stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from papers.claims import (
    bai2024adversarial,
    bai2024shuffle,
    bai2025secure,
    central,
    garcelon2021local,
    he2025policy,
    index,
)
from papers.claims.measured import Results, committed
from papers.claims.reading import Card

__all__ = ["CARDS", "read"]

CARDS: Final[Mapping[str, Callable[[Card, Results], None]]] = {
    "bai2024adversarial": bai2024adversarial.claims,
    "bai2024shuffle": bai2024shuffle.claims,
    "bai2025secure": bai2025secure.claims,
    "central": central.claims,
    "garcelon2021local": garcelon2021local.claims,
    "he2025policy": he2025policy.claims,
    "index": index.claims,
}
SKIPPED: Final = ("What tacit implements", "Notation", "Options of", "Committed results", "Constants")
"""Sections that describe the software."""


def read(name: str, root: Path, text: str | None = None) -> Card:
    """A card (or another text in its place), compared with the committed results; see its `errors` and `unclaimed`."""
    shown = text or (root / f"docs/papers/{name}.md").read_text(encoding="utf-8")
    card = Card(shown, skip=[heading for heading in SKIPPED if f"\n## {heading}" in shown])
    CARDS[name](card, partial(committed, root / "results"))
    return card
