"""The picture of docs/architecture.md, drawn from the imports of src: python docs/architecture.py writes it.

A package stands to the right of everything that it imports. An arrow goes from a package to one that imports it, and is
left out where a longer way says the same.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tacit"
TARGET = Path(__file__).with_name("architecture.svg")
WIDTH, HEIGHT, GAP_X, GAP_Y = 118, 34, 34, 22
SENSITIVE = ("environments", "data", "statistics")


def packages() -> dict[str, set[str]]:
    """Package -> packages that it imports, anywhere in its files; single modules beside the packages are left out."""
    names = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists() and path.name != "pages")
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for file in (SOURCE / name).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tacit."):
                    other = (node.module or "").split(".")[1]
                    if other in found and other != name:
                        found[name].add(other)
    return found


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """Package -> length of the longest way down."""
    found: dict[str, int] = {}
    while len(found) < len(imports):
        for name, needs in imports.items():
            if name not in found and needs <= set(found):
                found[name] = 1 + max((found[other] for other in needs), default=-1)
    return found


def arrows(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """(from, to): the imports that follow from no others."""

    def below(name: str) -> set[str]:
        return imports[name].union(*(below(other) for other in imports[name]))

    return sorted(
        (other, name)
        for name, needs in imports.items()
        for other in needs
        if not any(other in below(between) for between in needs - {other})
    )


def picture() -> str:
    """The picture as SVG text."""
    imports = packages()
    level = levels(imports)
    rows = {name: [n for n in sorted(level) if level[n] == level[name]].index(name) for name in level}
    most = max(rows.values()) + 1
    tall = {column: sum(1 for n in level if level[n] == column) for column in level.values()}

    def place(name: str) -> tuple[float, float]:
        above = (most - tall[level[name]]) / 2
        return 10 + level[name] * (WIDTH + GAP_X), 10 + (above + rows[name]) * (HEIGHT + GAP_Y)

    wide = 20 + (max(level.values()) + 1) * (WIDTH + GAP_X) - GAP_X
    high = 20 + most * (HEIGHT + GAP_Y) - GAP_Y
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="14">',
        (
            '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#888"/></marker></defs>'
        ),
    ]
    for start, end in arrows(imports):
        (x, y), (u, v) = place(start), place(end)
        lines.append(
            f'<line x1="{x + WIDTH:g}" y1="{y + HEIGHT / 2:g}" x2="{u:g}" y2="{v + HEIGHT / 2:g}" '
            'stroke="#888" marker-end="url(#a)"/>'
        )
    for name in sorted(level):
        x, y = place(name)
        fill = "#f3c9c0" if name in SENSITIVE else "#d5e3f3"
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{fill}" stroke="#555"/>'
            f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle" fill="#222">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
