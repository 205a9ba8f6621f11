"""Bad command lines and bad calls end in one line or in `TacitError`: no traceback from inside, no hang.

The cases are made from the commands and signatures by `bad_input.py`; all of them run in the slow tests.
"""

from __future__ import annotations

import json
from pathlib import Path

import bad_input
import pytest

import tacit
from tacit import load_bundle
from tacit.errors import InvalidInput

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
    """How cases end that should be refused, or accepted where the argument is of a type that the signature names."""
    wrong = bad_input.wrong_types()
    return [
        f"{one.kind}: {one.case}: {one.words}"
        for one in bad_input.run_cases(cases, place)
        if one.kind not in KNOWN or (one.kind == "accepted" and one.case in wrong)
    ]


def test_what_was_taken_silently_is_among_the_calls_and_refused(place):
    named = [case for case in bad_input.calls() if case[0] in bad_input.ONCE]
    assert len(named) == len(bad_input.ONCE)
    assert ended_otherwise(named, place) == []
    assert len(bad_input.wrong_types()) > 900


def test_there_are_as_many_cases_as_promised():
    assert len(bad_input.bad_lines()) >= 500
    assert len(bad_input.bad_calls()) >= 300


def test_right_words_are_of_commands_that_exist():
    known = {path for path, _ in bad_input.commands()}
    assert set(bad_input.LINES) | bad_input.OMITTED <= known
    assert len(set(bad_input.LINES)) > 0.8 * len(known)


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
    assert ended_otherwise(bad_input.lines(every=151), place) == []


def test_some_calls(place):
    assert ended_otherwise(bad_input.calls(every=211), place) == []


@pytest.mark.slow
def test_all_lines(place):
    assert ended_otherwise(bad_input.lines(), place) == []


@pytest.mark.slow
def test_all_calls(place):
    assert ended_otherwise(bad_input.calls(), place) == []


READERS = {
    "run/config.json": [["report", "run"], ["plot", "run", "--out", "f.png"], ["verify", "run"],
                        ["run", *bad_input.LINES["run",], "--out", "run"]],
    "run/privacy.json": [["report", "run"], ["verify", "run"]],
    "run/digests.json": [["verify", "run"]],
    "learned/learned.json": [["verify", "learned"], ["verify", "learned/learned.json"]],
    "learned/policy.json": [["policy", "show", "learned/policy.json"], ["verify", "learned/policy.json"]],
    "learned/certificate.json": [["verify", "learned/certificate.json"]],
    "exported-bundle.json": [["verify", "exported-bundle.json"]],
    "bundle.json": [["collect", "open", "collector", "bundle.json"]],
    "study/design.json": [["verify", "study"], ["collect", "new", "fresh", "--design", "study/design.json"]],
    "mapping.json": [["learn", "log.csv", "--mapping", "mapping.json", "--check-only"]],
    "trajectory.json": [["device", "report", *bad_input.LINES["device", "report"]]],
}  # fmt: skip
"""Files and the commands that read them."""
OTHERS = (5, [1], None, {}, "x", True)
"""What stands where something else belongs."""


def with_other_parts(place: Path, file: str, values: tuple[object, ...]) -> tuple[str, str]:
    """How commands end when each entry of a file is replaced by each of these values, and then the whole file."""

    def work() -> tuple[str, str]:
        path = Path(file)
        content = json.loads(path.read_bytes())
        for other in [{**content, name: value} for name in content for value in values] + list(values):
            path.write_text(json.dumps(other))
            for words in READERS[file]:
                kind, said = bad_input.line_runner(words)
                if kind == "traceback" or (words[0] == "verify" and kind == "accepted"):
                    return kind, f"{words} {json.dumps(other)[:300]} {said}"
        return "refused", ""

    return bad_input.apart(work, place)


@pytest.mark.parametrize("file", ["learned/learned.json", "study/design.json", "mapping.json"])
def test_a_number_in_place_of_a_part_is_no_traceback(place, file):
    kind, said = with_other_parts(place, file, OTHERS[:1])
    assert kind == "refused", said


@pytest.mark.slow
@pytest.mark.parametrize("file", READERS)
def test_parts_of_another_type_are_no_traceback(place, file):
    for value in OTHERS:
        kind, said = with_other_parts(place, file, (value,))
        assert kind == "refused", said


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("privacy.json", "results.parquet", "policies.json")]


@pytest.mark.parametrize("lost", ["returns.json", *SLOW])
def test_a_file_that_is_lost_is_no_traceback(place, lost):
    def work() -> tuple[str, str]:
        Path("run", lost).unlink(missing_ok=True)
        Path("run", "returns.json").write_text("[") if lost == "returns.json" else None
        found = [bad_input.line_runner(words) for words in READERS["run/config.json"][:3]]
        kinds = [kind for kind, _ in found]
        return ("traceback" if "traceback" in kinds else kinds[-1]), str(found)

    kind, said = bad_input.apart(work, place)
    assert kind == "refused", said


def test_a_bundle_of_another_format_is_refused(place):
    content = json.loads((place / "exported-bundle.json").read_text())
    for version in (1, 4, "3", None):
        other = place / "other-bundle.json"
        other.write_text(json.dumps({**content, "format_version": version}))
        with pytest.raises(InvalidInput):
            load_bundle(other, unsigned=True)
        other.unlink()


@pytest.mark.parametrize("call", [tacit.run, tacit.compare])
@pytest.mark.parametrize("given", ["yes", 1, None])
def test_progress_is_true_or_false(call, given):
    with pytest.raises(InvalidInput, match="progress must be True or False"):
        call(environment="riverswim", learner="psrl", episodes=20, workers=1, progress=given)
