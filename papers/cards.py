"""Cards of the papers: Markdown templates filled from committed results; no number that was measured is typed.

    python -m papers.cards            fills every card
    python -m papers.cards --check    says which cards are not what their template gives

A template stands beside its experiments (`papers/<paper>/card.md`), with the names that it may use (`card.py`). A hole
is an expression of these names in double braces. A line `<!-- page NAME -->` begins another page of the documentation;
`<!-- csv NAME: words -->` before a table makes it a file that readers download. The block of generated staleness at the
end belongs to `papers.index`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from docs.tables import csv_of

from papers.committed import Results, committed

__all__ = ["CARDS", "END", "body", "downloads", "fill", "main", "names", "template"]

HERE: Final = Path(__file__).parent
CARDS: Final[Mapping[str, str]] = {
    "bai2024adversarial": "bai2024adversarial",
    "bai2024shuffle": "bai2024shuffle",
    "bai2025secure": "bai2025secure",
    "central": "frontier",
    "garcelon2021local": "garcelon2021local",
    "garcelon2021local-experiments": "garcelon2021local",
    "garcelon2021local-theorems": "garcelon2021local",
    "he2025policy": "he2025policy",
}
"""Card -> the package in which its template stands."""
END: Final = "\n## State of the committed results\n"
HOLE: Final = re.compile(r"\{\{(.+?)\}\}", re.S)
PAGE: Final = re.compile(r"^<!-- page ([\w-]+) -->\n", re.M)
TABLE: Final = re.compile(r"^<!-- csv ([\w-]+): (.+?) -->\n((?:\|.*(?:\n|$))+)", re.M)


def fill(template: str, known: Mapping[str, Any]) -> str:
    """A template with every hole replaced by its value.

    >>> fill("{{a}} of {{a + 1}}", {"a": 1})
    '1 of 2'
    """
    return HOLE.sub(lambda hole: str(eval(hole[1].strip(), dict(known))), template)  # noqa: S307 - our own files


@cache
def names(package: str, results: Path) -> Mapping[str, Any]:
    """What the holes of the cards of a package may name."""
    found: Callable[[Results], Mapping[str, Any]] = import_module(f"papers.{package}.card").names
    return found(partial(committed, results))


def template(card: str) -> str:
    """The part of the template that makes this card."""
    first, *others = PAGE.split((HERE / CARDS[card] / "card.md").read_text(encoding="utf-8"))
    return dict(zip(others[::2], others[1::2], strict=True)).get(card, first)


def _filled(card: str, results: Path) -> str:
    return fill(template(card), names(CARDS[card], results))


def body(card: str, results: Path) -> str:
    """The card as its template gives it, without the generated block."""
    return TABLE.sub(r"Download {download}`\2 as CSV <../tables/\1.csv>`.\n", _filled(card, results))


def downloads(card: str, results: Path) -> dict[str, str]:
    """The tables of a card that readers download, by the names of their files."""
    return {f"{name}.csv": csv_of(table.rstrip()) for name, _, table in TABLE.findall(_filled(card, results))}


def main(arguments: list[str]) -> int:
    """Write the cards, or say which are not as filled."""
    wrong = []
    for card in CARDS:
        path = Path("docs/papers") / f"{card}.md"
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        filled = body(card, Path("results")).rstrip() + "\n" + "".join(before.partition(END)[1:])
        files = {Path("docs/tables") / name: text for name, text in downloads(card, Path("results")).items()}
        for place, text in {path: filled, **files}.items():
            if not place.is_file() or place.read_text(encoding="utf-8") != text:
                wrong.append(place)
                if "--check" not in arguments:
                    place.write_text(text, encoding="utf-8")
    for path in wrong:
        sys.stdout.write(f"{'not as filled' if '--check' in arguments else 'written'}: {path}\n")
    return 1 if wrong and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
