"""What every command does alike: -h, completion, failures as one line and as JSON, absurd numbers, lost outputs."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import tacit
from tacit.cli import main
from tacit.cli.app import app
from tacit.errors import nearest
from tacit.learners.table import LEARNERS

ROOT = Path(__file__).parents[2]

HUGE = "99999999999999999999999"


def walk(command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from walk(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(walk(typer.main.get_command(app)))
GROUPS = sorted({path[:-1] for path in COMMANDS})
JSON = [path for path, command in COMMANDS.items() if any("--json" in item.opts for item in command.params)]


def named(path) -> str:
    return " ".join(path) or "tacit"


def call(capsys, *words) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


def one_line(err: str) -> bool:
    return err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS], ids=named)
def test_h_helps_everywhere(capsys, path):
    code, out, err = call(capsys, *path, "-h")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {' '.join(['tacit', *path])} ")
    assert call(capsys, *path, "--help") == (0, out, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(capsys, monkeypatch, shell):
    monkeypatch.setenv("_TACIT_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "_TACIT_COMPLETE=complete_" in capsys.readouterr().out


def test_completion_completes(capsys, monkeypatch):
    monkeypatch.setenv("_TACIT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tacit com")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == ["compare"]


@pytest.mark.parametrize("path", JSON, ids=named)
def test_failures_are_json_where_json_is_asked_for(capsys, path):
    plain = call(capsys, *path, "--nonsense")
    assert plain[:2] == (2, "")
    assert one_line(plain[2])
    code, out, err = call(capsys, *path, "--nonsense", "--json")
    assert (code, err) == (2, plain[2])
    message = err.removeprefix("error: ").rstrip("\n")
    assert json.loads(out) == {"error": {"kind": "usage", "message": message, "exit": 2, "anchor": "errors.html#usage"}}


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["run", "--environment", "riverswin", "--episodes", "9"], "unknown-name"),
        (["run", "--environment", "riverswim", "--episodes", "-9"], "invalid-input"),
        (["run", "--environment", "clinic-dose", "--learner", "psrl", "--episodes", "9"], None),
        (["nonsense"], "usage"),
        (["run"], "usage"),
        (["plot", "nowhere"], "invalid-input"),
    ],
)
def test_the_kind_of_a_failure(capsys, words, kind):
    code, out, err = call(capsys, *words, "--json")
    found = json.loads(out)["error"]
    assert (code, found["exit"]) == (2, 2)
    assert kind in (None, found["kind"])
    assert err == f"error: {found['message']}\n"


def test_interruptions_and_failed_seeds_are_json_too(capsys, monkeypatch):
    from tacit.runs import runner
    from tacit.runs.schedule import SeedFailed

    words = ["run", "--environment", "riverswim", "--learner", "uniform", "--episodes", "9", "--json"]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def failed(*_, **__):
        raise SeedFailed("seed 0 failed") from tacit.TacitError("why")

    monkeypatch.setattr(runner, "run_tasks", interrupted)
    code, out, err = call(capsys, *words)
    assert (code, json.loads(out)["error"]["kind"], json.loads(out)["error"]["exit"]) == (130, "interrupted", 130)
    assert err.startswith("interrupted: nothing was kept")
    monkeypatch.setattr(runner, "run_tasks", failed)
    code, out, err = call(capsys, *words)
    assert (code, json.loads(out)["error"]["kind"]) == (1, "seed-failed")
    assert one_line(err)


@pytest.mark.parametrize("where", ["while a command is at work", "before"])
def test_an_interruption_is_json_whatever_was_interrupted(capsys, monkeypatch, where):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    if where == "before":  # loading what a command needs takes a second, in which Ctrl-C used to end in a traceback
        monkeypatch.setattr("tacit.cli.app.command", interrupted)
    else:
        monkeypatch.setattr("tacit.runs.estimate.estimate", interrupted)
    words = ["run", "--environment", "riverswim", "--learner", "uniform", "--episodes", "9", "--dry-run"]
    assert call(capsys, *words) == (130, "", "interrupted: the command did not finish\n")
    code, out, _ = call(capsys, *words, "--json")
    assert (code, json.loads(out)) == (
        130,
        {
            "error": {
                "kind": "interrupted",
                "message": "the command did not finish",
                "exit": 130,
                "anchor": "errors.html#interrupted",
            }
        },
    )  # fmt: skip


# Absurd numbers ------------------------------------------------------------------------------------------------------

LIMITS = ("--cap", "1", "--floor", "1", "--unsigned")
BASES = {
    ("run",): ["--environment", "riverswim", "--learner", "ucbvi", "--trust", "local", "--epsilon", "1", "--delta",
               "0", "--episodes", "9"],
    ("certify",): ["--trust", "local", "--states", "3", "--actions", "2", "--horizon", "4", "--episodes", "9",
                   "--epsilon", "1", "--delta", "0"],
    ("audit",): ["--learner", "ucbvi", "--trust", "local", "--delta", "0"],
    ("compare",): ["runs.toml"],
    ("learn",): ["log.csv", "--mapping", "mapping.json"],
    ("demo",): [],
    ("policy", "act"): ["policy.json", "--step", "0", "--state", "a"],
    ("study", "new"): ["there", "--name", "x", "--states", "a,b", "--actions", "c,d", "--horizon", "3", "--trust",
                       "local", "--epsilon", "1", "--delta", "0", "--stages", "2", "--target", "100"],
    ("study", "demo"): [],
    ("serve", "demo"): [],
    ("serve", "enrol"): ["people.txt"],
    ("device", "report"): ["bundle.json", "trajectory.json", "--state", "device", *LIMITS],
    ("device", "cover"): ["bundle.json", "--state", "device", *LIMITS],
}  # fmt: skip
"""Commands that take whole numbers, with words that are otherwise right."""
TOML = '[defaults]\nenvironment = "riverswim"\nepisodes = 9\nseeds = 1\n[[run]]\nlearner = "uniform"\n'


def whole_numbers(command) -> list[str]:
    return [item.opts[-1] for item in command.params if getattr(item.type_descriptor, "annotation", None) is int]


NUMBERS = [(path, option) for path, command in COMMANDS.items() for option in whole_numbers(command)]


def complete(path, option: str) -> list[str]:
    """Words that leave nothing to complain about but the number; commands without a row get files that are missing."""
    if path in BASES:
        return BASES[path]
    required = [item.opts[-1] for item in COMMANDS[path].params if item.required and item.opts[-1] != option]
    return [word for name in required for word in ([name, "1"] if name.startswith("--") else ["nowhere"])]


def test_the_table_names_commands_with_numbers():
    assert set(BASES) <= {path for path, _ in NUMBERS}


@pytest.mark.parametrize("value", [HUGE, f"-{HUGE}"])
@pytest.mark.parametrize(("path", "option"), NUMBERS, ids=lambda part: named(part) if isinstance(part, tuple) else part)
def test_absurd_numbers_are_refused_in_one_line(capsys, tmp_path, monkeypatch, path, option, value):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.toml").write_text(TOML)
    before = sorted(tmp_path.rglob("*"))
    words = [*path, *complete(path, option), option, value]
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, ""), err
    assert one_line(err)
    assert sorted(tmp_path.rglob("*")) == before


REQUIRED = {("trial", "size"): ["--effect", "0.1", "--trust", "central", "--delta", "1e-6"]}
DESIGNS = [("run",), ("certify",), ("audit",), ("study", "new"), ("study", "demo"), ("trial", "size")]


@pytest.mark.parametrize("value", ["1e308", "1e-320"])
@pytest.mark.parametrize("path", DESIGNS, ids=named)
def test_an_epsilon_that_no_calibration_can_reach_is_refused_in_one_line(capsys, tmp_path, monkeypatch, path, value):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *path, *(REQUIRED.get(path) or BASES[path]), "--epsilon", value)
    assert (code, out) == (2, ""), err
    assert err == f"error: epsilon must be a finite number in [1e-100, 10000], got {float(value)}\n"
    assert list(tmp_path.iterdir()) == []


def test_an_effect_that_no_trial_shows_is_refused_in_one_line(capsys):
    for effect in ("1e-5", "1e-9", "1e-320"):
        code, out, err = call(capsys, "trial", "size", "--trust", "none", "--effect", effect)
        assert (code, out) == (2, "")
        assert err.startswith("error: no trial of 1,000,000,000 users per arm shows this effect")


def test_the_largest_seed_is_a_seed(capsys):
    words = ["run", "--environment", "riverswim", "--learner", "uniform", "--episodes", "2", "--json"]
    code, out, _ = call(capsys, *words, "--first-seed", 2**63 - 1)
    assert (code, json.loads(out)["seed_list"]) == (0, [2**63 - 1])
    assert call(capsys, *words, "--seeds", "2", "--first-seed", 2**63 - 1)[0] == 2


# Files that are not what they should be ------------------------------------------------------------------------------

READERS = [path for path, command in COMMANDS.items() if any(item.opts[-1] in ("directory", "directories", "path",
           "file", "release", "bundle", "log") for item in command.params) and path[0] != "keys"]  # fmt: skip


@pytest.mark.parametrize("kind", ["nothing", "text", "json", "config"])
@pytest.mark.parametrize("path", READERS, ids=named)
def test_files_that_are_something_else(capsys, tmp_path, monkeypatch, path, kind):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "given.json"
    if kind in ("text", "json"):
        place.write_text("some words\n" if kind == "text" else '{"format": "x", "certificate": {}, "config": 1}')
    elif kind == "config":
        place.mkdir()
        (place / "config.json").write_text('{"config": {"environment": "riverswim"}}')
        (place / "privacy.json").write_text("{}")
        (place / "results.parquet").write_bytes(b"PAR1")
    words = list(path)
    for item in COMMANDS[path].params:
        if item.required:
            options = [item.opts[-1]] if item.opts[-1].startswith("--") else []
            number = getattr(item.type_descriptor, "annotation", None) is int
            words += [*options, "1" if number else str(place)]
    code, _, err = call(capsys, *words)
    made = path in (("study", "new"),) and kind == "nothing"
    assert code in ((1, 2) if path == ("verify",) else (2,)), (err, made)
    if code == 2:
        assert one_line(err)


@pytest.mark.parametrize("lost", ["resolved", "config", "command", "label"])
@pytest.mark.parametrize("command", ["plot", "report", "verify", "run"])
def test_a_run_whose_config_lacks_something(capsys, tmp_path, command, lost):
    place = tmp_path / "run"
    words = ["run", "--environment", "riverswim", "--learner", "uniform", "--episodes", "9", "--out", place]
    assert call(capsys, *words)[0] == 0
    config = json.loads((place / "config.json").read_text())
    del config[lost]
    (place / "config.json").write_text(json.dumps(config))
    code, out, err = call(capsys, *(words if command == "run" else [command, place]))
    assert code in (1, 2)
    assert code == 1 and out.startswith("FALSE") if command == "verify" else one_line(err.splitlines(keepends=True)[-1])


# Outputs that are lost -----------------------------------------------------------------------------------------------

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")


@FULL
@pytest.mark.parametrize("path", [*GROUPS, *COMMANDS], ids=named)
def test_a_full_disk_is_one_line(capsys, monkeypatch, path):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main([*path, "-h"])
    assert code == 1
    err = capsys.readouterr().err
    assert one_line(err)
    assert os.strerror(errno.ENOSPC) in err


@FULL
@pytest.mark.parametrize("json_too", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_full_disk_under_a_real_program(json_too):
    words = ["run", "--environment", "riverswim", "--learner", "uniform", "--episodes", "9"]
    words += ["--json"] if json_too else []
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "tacit", *words], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert one_line(done.stderr.decode())


def test_a_reader_that_goes_away_needs_no_word():
    command = [sys.executable, "-m", "tacit", "list", "learners"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def program(*words: str, **given) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "tacit", *words], check=False, **given)


@FULL
def test_a_full_stderr_costs_no_answer(tmp_path):
    (tmp_path / "runs.toml").write_text(TOML)
    assert main(["compare", str(tmp_path / "runs.toml"), "--out", str(tmp_path / "out")]) == 0
    with open("/dev/full", "w") as full:
        words = ["compare", str(tmp_path / "runs.toml"), "--out", str(tmp_path / "out"), "--json"]
        again = program(*words, stdout=subprocess.PIPE, stderr=full)  # which says that there is nothing to do
        wrong = program("nonsense", "--json", stdout=subprocess.PIPE, stderr=full)
    assert (again.returncode, wrong.returncode) == (0, 2)
    assert "runs" in json.loads(again.stdout)
    assert json.loads(wrong.stdout)["error"]["kind"] == "usage"


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_that_was_closed_before_is_no_failure(closed):
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m tacit list learners {closed}>&-', sys.executable], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"ucbvi" in done.stdout) == (closed == 2)


def test_letters_that_stdout_cannot_write_are_written_by_number():
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    asked = ["certify", "--trust", "local", "--states", "3", "--actions", "2", "--horizon", "4", "--episodes", "9",
             "--epsilon", "1", "--delta", "0"]  # fmt: skip
    done = program(*asked, env=ascii_only, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u03b5" in done.stdout
    wrong = program("run", "--environment", "é\udcff", "--episodes", "9", "--json", env=ascii_only, capture_output=True)
    assert wrong.returncode == 2
    assert "'é\udcff'" in json.loads(wrong.stdout)["error"]["message"]


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [("ucb", "ucbvi"), ("ucbv", "ucbvi"), ("psr", "psrl"), ("bucb2", "bucb"), ("dp-gp", "dp-pg"), ("ucvbi", "ucbvi"),
     ("unifrom", "uniform"), ("dpucbvi", "dp-ucbvi"), ("UCBVI", "ucbvi"), ("deep-q-network", None), ("", None),
     ("npg", "dp-npg"), ("rts", "ldp-rts"), ("x", None), ("q", None)],
)  # fmt: skip
def test_the_name_that_was_meant(given, meant):
    assert nearest(given, LEARNERS) == meant


def test_the_suggestion_reaches_the_command_line(capsys):
    code, _, err = call(capsys, "run", "--environment", "riverswim", "--learner", "ucb", "--episodes", "9")
    assert code == 2
    assert re.search("unknown learner 'ucb': did you mean 'ucbvi'", err)


RUN = ["run", "--environment", "riverswim", "--learner", "ucbvi", "--episodes", "9"]
PRIVATE = ["--trust", "central", "--epsilon", "1", "--delta", "1e-6"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ([*RUN, "--epislon", "1"], "No such option: --epislon. Did you mean '--epsilon'?"),
        ([*RUN, "--seed", "1"], "No such option: --seed. Did you mean '--seeds'?"),
        (["--json"], "No such option: --json"),
        ([*RUN, *PRIVATE, "--mechanism", "laplce"], "did you mean 'laplace-tree'?"),
        ([*RUN, "--trust", "centrl"], "did you mean 'central'?"),
        (["run", "--environment", "Blackjack-v1", "--episodes", "9"], "did you mean 'gymnasium:Blackjack-v1'?"),
        (["run", "--environment", "MountainCar-v0,horizon=3", "--episodes", "9"],
         "did you mean 'gymnasium:MountainCar-v0'?"),
        (["run", "--environment", "gymnasium:Blackjak-v1", "--episodes", "9"], "Did you mean: `Blackjack`?"),
        (["run", "--environment", "gymnasium:Blackjack", "--episodes", "9"], "did you mean 'Blackjack-v1'?"),
        ([*RUN, "--sees", "foo"], "unknown features of riverswim 'foo': Known: none\n"),
        (["rnu"], "Did you mean 'run'?"),
    ],
)  # fmt: skip
def test_what_was_probably_meant(capsys, words, meant):
    code, _, err = call(capsys, *words)
    assert code == 2
    assert one_line(err)
    assert meant in err
    assert ("id you mean" in err) == ("id you mean" in meant)


# Comparisons ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('name = "second"\nlearner = "ucb"', "run 2 ('second') of runs.toml: unknown learner 'ucb'"),
        ('name = "second"\nlearner = "ucbvi"\nepisodes = -1', "run 2 ('second') of runs.toml: episodes must be"),
        ('learner = "ucbvi"\nepsilon = 1', "run 'ucbvi' on riverswim: epsilon requires a trust model"),
        ('learnr = "ucbvi"', "run 2 of runs.toml: unknown entry of [[run]] 'learnr'"),
    ],
)
def test_comparisons_name_the_run_that_is_refused(capsys, tmp_path, monkeypatch, second, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.toml").write_text(f"{TOML}[[run]]\n{second}\n")
    code, out, err = call(capsys, "compare", "runs.toml")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "'--environment', for instance --environment riverswim"),
        ("run --environment riverswim", "'--episodes', for instance --episodes 20000"),
        ("compare", "'file', for instance runs.toml (its format: 'tacit compare --schema')"),
        ("learn log.csv", "'--mapping', for instance --mapping mapping.json"),
    ],
)
def test_what_is_missing_comes_with_an_example(capsys, words, said):
    code, _, err = call(capsys, *words.split())
    assert code == 2
    assert one_line(err)
    assert said in err


def test_every_kind_of_error_has_a_section_of_the_error_reference():
    """`anchor` leads to it."""
    from tacit import errors

    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    anchors = set(re.findall(r"^\((.+)\)=$", page, flags=re.MULTILINE))
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.TacitError)]
    kinds = {re.sub(r"(?<!^)(?=[A-Z])", "-", one.__name__).lower() for one in classes}
    texts = [path.read_text("utf-8") for place in ("src/tacit/cli", "papers") for path in (ROOT / place).rglob("*.py")]
    kinds |= {kind for text in texts for kind in re.findall(r'Failed\([^)]*kind="([\w-]+)"', text)}
    assert len(kinds) >= 9
    assert kinds - anchors == set()
    assert all(re.search(rf"`{kind}`", page) for kind in kinds)
