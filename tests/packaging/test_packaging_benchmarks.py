"""The page of benchmarks is what was measured, misses included."""

from __future__ import annotations

import pytest
from benchmarks.page import CHOSEN, MISSED, PAGE, PICTURE, TABLE, digest, draw, margin, measured, render, table, words
from benchmarks.rows import met
from PIL import Image

MEASURED = {
    "speed": {
        "command": "python -m benchmarks speed",
        "machine": {"tacit": "0", "processor": "one"},
        "rows": [
            {"name": "fast", "ratio": 400.0, "target": 100.0, "detail": "a | b"},
            {"name": "small", "ratio": 0.25, "target": 1.0, "better": "lower"},
            {"name": "slow", "ratio": 50.0, "target": 100.0, "better": "higher", "detail": "alas"},
            {"name": "only told", "ratio": None},
        ],
    }
}


def test_the_page_and_its_figure_are_made_of_the_committed_measurements():
    """Otherwise: `python -m benchmarks.page`."""
    found = measured()
    page = render(found)
    assert PAGE.read_text(encoding="utf-8") == page
    assert TABLE.read_text(encoding="utf-8") == table(found)
    assert [said for _, _, said in CHOSEN if said not in page] == []
    with Image.open(PICTURE) as picture:
        assert picture.text["Source"] == digest(found)


def test_a_missed_target_is_said_and_drawn():
    measured_rows = MEASURED["speed"]["rows"]
    assert [met(row) for row in measured_rows] == [True, True, False, None]
    assert [margin(row) for row in measured_rows] == [4.0, 4.0, 0.5, None]
    assert "marks the 1 missed targets" in render(MEASURED)
    rows = table(MEASURED).splitlines()
    assert "speed,0,one,slow,50,≥ 100,missed,alas" in rows
    assert "speed,0,one,fast,400,≥ 100,met,a | b" in rows
    assert words(MEASURED).startswith("2 of 3 measured targets are met, by a factor of 4 at the median. 1 are missed")
    [axes] = draw(MEASURED).axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in drawn] == pytest.approx([4.0, 4.0, 0.5])
    assert [line.get_color() == MISSED for line in drawn] == [False, False, True]
