"""Bad command lines and bad calls end in one line or in `TacitError`: no traceback from inside, no hang.

The cases are made from the commands and signatures by `bad_input.py`; all of them run in the slow tests.
"""

from __future__ import annotations

from pathlib import Path

import bad_input
import pytest

KNOWN = ("refused", "accepted")
STATED = {
    "run": ("--workers", "100000"),
    "certify": ("--horizon", "999999999"),
    "learn": ("--reports-per-person", "1000000"),
    "study new": ("--states", "1000000"),
    "trial run": ("--users", "999999999"),
}
"""What used to run without end: a command, its option, a size beyond the stated one."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("honest")
    bad_input.honest_files(found)
    return found


def ended_otherwise(cases, place: Path) -> list[str]:
    return [
        f"{one.kind}: {one.case}: {one.words}" for one in bad_input.run_cases(cases, place) if one.kind not in KNOWN
    ]


def test_there_are_as_many_cases_as_promised():
    assert len(bad_input.bad_lines()) >= 500
    assert len(bad_input.bad_calls()) >= 300


def test_every_command_has_right_words():
    known = {path for path, _ in bad_input.commands()}
    assert known - bad_input.OMITTED == set(bad_input.LINES)


def test_a_traceback_and_a_hang_are_noticed(place):
    def broken() -> tuple[str, str]:
        raise KeyError("inside")

    def endless() -> tuple[str, str]:
        bad_input.resource.setrlimit(bad_input.resource.RLIMIT_CPU, (0, 1))
        while True:
            pass

    assert [bad_input.apart(work, place)[0] for work in (broken, endless)] == ["traceback", "hang"]


@pytest.mark.parametrize("command", STATED)
def test_beyond_stated_sizes_nothing_is_computed(place, command):
    words, (option, value) = bad_input.LINES[tuple(command.split())], STATED[command]
    kept = [word for i, word in enumerate(words) if word != option and (i == 0 or words[i - 1] != option)]
    kind, said = bad_input.apart(lambda: bad_input.line_runner([*command.split(), *kept, option, value]), place)
    assert kind == "refused", said
    assert "at most" in said or "1 to 65535" in said


@pytest.mark.parametrize("words", [["run", *bad_input.LINES["run",], "--out", ""], ["study", "new", ""]])
def test_an_empty_word_is_no_directory(place, words):
    kind, said = bad_input.apart(lambda: bad_input.line_runner(words), place)
    assert (kind, "empty" in said) == ("refused", True)


def test_some_lines(place):
    assert ended_otherwise(bad_input.lines(every=61), place) == []


def test_some_calls(place):
    assert ended_otherwise(bad_input.calls(every=83), place) == []


@pytest.mark.slow
def test_all_lines(place):
    assert ended_otherwise(bad_input.lines(), place) == []


@pytest.mark.slow
def test_all_calls(place):
    assert ended_otherwise(bad_input.calls(), place) == []
