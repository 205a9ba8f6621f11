"""Cards are what their templates give from the committed results; verdicts name what they are about."""

from __future__ import annotations

import csv
import re
from functools import partial
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from papers import committed as committed_results
from papers.cards import CARDS, END, HOLE, body, downloads, fill, template
from papers.committed import bootstrap, committed, pm
from papers.statements import STATEMENTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("card", CARDS)
def test_a_committed_card_is_what_its_template_gives(card):
    shown = (ROOT / f"docs/papers/{card}.md").read_text(encoding="utf-8")
    assert shown.partition(END)[0].rstrip() == body(card, ROOT / "results").rstrip()
    for name, text in downloads(card, ROOT / "results").items():
        assert (ROOT / "docs" / "tables" / name).read_text(encoding="utf-8") == text
        assert len(text.splitlines()) > 2
        assert len({len(row) for row in csv.reader(text.splitlines())}) == 1, name


@pytest.mark.parametrize("card", CARDS)
def test_no_interval_is_typed(card):
    assert len(HOLE.findall(template(card))) > (0 if card == "garcelon2021local" else 3)
    typed = HOLE.sub("", template(card)).replace("± one standard error", "")
    assert "±" not in typed


def test_a_card_follows_its_results(monkeypatch):
    import papers.bai2025secure.card as card

    whole = template("bai2025secure")
    before = fill(whole, card.names(partial(committed, ROOT / "results")))
    mean = committed_results.Committed.mean
    monkeypatch.setattr(committed_results.Committed, "mean", lambda *given: 1.1 * mean(*given))
    after = fill(whole, card.names(partial(committed, ROOT / "results")))
    changed = [line for line, other in zip(before.splitlines(), after.splitlines(), strict=True) if line != other]
    assert len(changed) >= 16  # every row of the table


def test_a_standard_error_has_its_size():
    # Slope of ln(mean) between two points whose means have a relative error of 1%: √2 · 1% / ln 10 = 0.0061.
    rng = np.random.default_rng(0)
    x = np.log([1e3, 1e4])
    samples = [rng.normal(mean, 0.1 * mean, 100) for mean in (1.0, 10.0)]
    shown = bootstrap(lambda a, b: float(np.polyfit(x, np.log([a.mean(), b.mean()]), 1)[0]), *samples)
    value, error = map(float, shown.split(" ± "))
    assert abs(value - 1.0) < 0.03
    assert 0.004 < error < 0.008
    assert pm(1.0, float("nan")) == "1"


def cells_of(line):
    """The cells of a row of a Markdown table; a bar in code or behind a backslash divides nothing."""
    return re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line.strip()))[1:-1]


def crooked(text):
    """Rows that have more or fewer cells than the head of their table."""
    lines, found = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M).splitlines(), []
    for i, line in enumerate(lines):
        if re.fullmatch(r"\|[\s:|-]+\|", line) and i and lines[i - 1].startswith("|"):
            rows = takewhile(lambda row: row.startswith("|"), lines[i + 1 :])
            found += [row for row in (lines[i - 1], *rows) if len(cells_of(row)) != len(cells_of(line))]
    return found


def test_no_page_has_a_row_that_is_wider_than_its_table():
    # What stands beyond the last column of the head is not shown.
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(pages) > 50
    assert {page.name: rows for page in pages if (rows := crooked(page.read_text(encoding="utf-8")))} == {}
    assert crooked("| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| `x|y` | 2 |\n") == ["| 1 | 2 | 3 |"]


def test_every_refuted_statement_says_under_what_and_by_what():
    refuted = [one for one in STATEMENTS if one.status == "refuted"]
    assert len(refuted) > 5
    assert [one.name for one in STATEMENTS if re.search(r"\bfalse\b", one.why) and not one.under] == []
    for one in refuted:
        assert one.under, one.name
        assert one.experiment or one.test, one.name
        assert one.test is None or (ROOT / one.test).is_file(), one.test
