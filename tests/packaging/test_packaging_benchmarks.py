"""The page of benchmarks is what was measured, misses included."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks import __main__ as command
from benchmarks.page import (
    CHOSEN,
    MISSED,
    PAGE,
    PICTURE,
    TABLE,
    age,
    digest,
    draw,
    margin,
    measured,
    render,
    table,
    words,
)
from benchmarks.rows import met
from PIL import Image

from tacit import __version__

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
    assert "speed,0,stale,one,slow,50,≥ 100,missed,alas" in rows
    assert "speed,0,stale,one,fast,400,≥ 100,met,a | b" in rows
    assert words(MEASURED).startswith("2 of 3 measured targets are met, by a factor of 4 at the median. 1 are missed")
    [axes] = draw(MEASURED).axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in drawn] == pytest.approx([4.0, 4.0, 0.5])
    assert [line.get_color() == MISSED for line in drawn] == [False, False, True]


def test_a_file_of_an_older_version_or_of_unknown_sources_is_named():
    found = {
        "old": {"machine": {"tacit": "0.1", "processor": "one"}, "source": "ab", "rows": []},
        "unknown": {"machine": {"tacit": __version__, "processor": "one"}, "rows": []},
        "new": {"machine": {"tacit": __version__, "processor": "one"}, "source": "ab", "rows": []},
    }
    assert age(found).endswith(f"2 of 3 files, 0.1 (old), {__version__} (unknown)")
    assert "none" in age({"new": found["new"]})
    loop = [{"name": wanted, "ratio": 2.0} for name, wanted, _ in CHOSEN if name == "loop"]
    for content, shown in ((found["old"], "0.1 (stale)"), (found["new"], f"{__version__}")):
        one = {"name": "with a target", "ratio": 2.0, "target": 1.0}
        page = render({"loop": {**content, "rows": [*loop, one]}})
        assert page.count(f"| {shown} |") == len(loop)
        assert age({"loop": content}) in page
        assert "Processor of the table: one." in page
    two = {
        "loop": {**found["new"], "rows": loop},
        "browser": {"machine": {"tacit": "0", "processor": "two"}, "rows": []},
    }
    assert f"| {__version__}, one |" in render({**two, "a": {**found["old"], "rows": [one]}})


@pytest.fixture
def ran(monkeypatch, tmp_path) -> list[str]:
    """`python -m benchmarks` over three benchmarks of which one fails; which of them ran."""
    done: list[str] = []
    for name in ("good", "bad", "later", "growth"):
        (tmp_path / f"bench_{name}.py").write_text("")

    def run(name: str) -> list[dict[str, Any]]:
        done.append(name)
        if name == "bad":
            raise ValueError("a traceback")
        return [{"name": f"row of {name}", "ratio": 2.0, "target": 1.0}]

    def imported(module: str) -> SimpleNamespace:
        return SimpleNamespace(run=lambda: run(module.removeprefix("benchmarks.bench_")))

    monkeypatch.setattr(command, "HERE", tmp_path)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(command.page, "write", lambda: None)
    monkeypatch.setattr(command.importlib, "import_module", imported)
    return done


def test_a_benchmark_that_fails_is_named_and_the_others_are_measured(ran, capsys):
    assert command.main([]) == 1
    assert ran == ["bad", "good", "later"]
    said = capsys.readouterr().out
    assert "not measured: bad" in said
    assert "row of later" in said
    assert json.loads((command.RESULTS / "later.json").read_text())["source"] == command.source("later")


def test_benchmarks_go_on_where_they_were_interrupted(ran, capsys, monkeypatch):
    write = command.write
    monkeypatch.setattr(command, "write", lambda name, rows: stop() if name == "later" else write(name, rows))

    def stop() -> None:
        raise KeyboardInterrupt

    assert command.main([]) == 1
    assert "goes on from there" in capsys.readouterr().out
    monkeypatch.setattr(command, "write", write)
    ran.clear()
    assert command.main([]) == 1
    assert ran == ["bad", "later"]
    assert command.main(["good"]) == 0
    assert command.main(["--long", "--again"]) == 1
    assert ran == ["bad", "later", "good", "bad", "good", "growth", "later"]
    assert command.main(["goood"]) == 2


def test_other_sources_are_measured_afresh(ran):
    command.main(["good"])
    (command.HERE / "bench_good.py").write_text("# changed")
    ran.clear()
    command.main([])
    assert "good" in ran
