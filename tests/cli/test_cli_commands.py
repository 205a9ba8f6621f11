from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tacit
from tacit.cli import main
from tacit.learners.table import LEARNERS
from tacit.runs import runner, schedule
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

RUN = [
    "run",
    "--environment",
    "random-mdp",
    "--learner",
    "psrl",
    "--episodes",
    "80",
    "--checkpoints",
    "6",
    "--workers",
    "1",
]


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_version_and_help(capsys):
    assert call(capsys, "--version") == (0, f"tacit {tacit.__version__}\n", "")
    code, out, _ = call(capsys)
    assert code == 0
    for command in ("list", "run", "compare", "plot", "report", "demo"):
        assert command in out
        assert call(capsys, command, "--help")[0] == 0


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("environments", "riverswim"),
        ("learners", "ucbvi"),
        ("learners", "uniform"),
        ("mechanisms", "factorization"),
    ],
)
def test_list_names_everything_in_both_forms(capsys, kind, name):
    code, out, _ = call(capsys, "list", kind)
    assert code == 0
    assert name in out
    code, out, _ = call(capsys, "list", kind, "--json")
    assert code == 0
    assert name in [row["name"] for row in json.loads(out)[kind]]


def test_list_says_what_nobody_has_checked(capsys):
    listed = {
        row["name"]: row["summary"] for row in json.loads(call(capsys, "list", "learners", "--json")[1])["learners"]
    }
    text = call(capsys, "list", "learners")[1]
    unchecked = {name: row.unverified for name, row in LEARNERS.items() if row.unverified}
    assert "dp-ucbvi" in unchecked
    assert not {"pucb", "private-ucb-vi", "private-ucb-po"} & set(unchecked)  # proved: docs/lemmas/widths.md
    for name, summary in listed.items():
        assert ("unverified" in summary) == (name in unchecked), name
        assert unchecked.get(name, "") in summary
    assert text.count("unverified") == len(unchecked)
    for name in ("dp-ucbvi", "pucb"):
        parts = assemble(RunConfig(environment="riverswim", learner=name, episodes=10, seeds=(0,)))
        assert parts.unverified == unchecked.get(name)


def test_json_is_one_object_that_agrees_with_python(capsys):
    code, out, err = call(capsys, *RUN, "--seeds", "3", "--first-seed", "5", "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    result = tacit.run(environment="random-mdp", learner="psrl", episodes=80, seeds=[5, 6, 7], checkpoints=6, workers=1)
    assert (found["environment"], found["learner"], found["episodes"]) == ("random-mdp", "psrl", 80)
    assert (found["seeds"], found["seed_list"]) == (3, [5, 6, 7])
    assert (found["constants"], found["z"], found["version"]) == ("none", None, tacit.__version__)
    assert found["claim"]["epsilon"] == "inf"
    assert {"epsilon", "delta", "method"} <= set(found["certificate"])
    final = result.regret[:, -1]
    assert found["regret"]["per_seed"] == final.tolist()
    assert found["regret"]["mean"] == pytest.approx(final.mean())
    assert found["regret"]["std"] == pytest.approx(final.std(ddof=1))
    assert (found["regret"]["min"], found["regret"]["max"]) == (final.min(), final.max())
    assert [row["episode"] for row in found["checkpoints"]] == result.episodes.tolist()
    assert {key: found["regret"][key] for key in ("mean", "std", "min", "max")} == {
        key: found["checkpoints"][-1][key] for key in ("mean", "std", "min", "max")
    }
    assert found["seconds_per_episode"] > 0


def test_json_of_one_seed_is_valid_too(capsys):
    _, out, _ = call(capsys, *RUN, "--json")
    assert json.loads(out)["regret"]["std"] == 0.0


def test_constants_and_z_are_recorded(capsys):
    words = ["run", "--environment", "random-mdp", "--learner", "ucbvi", "--episodes", "20", "--workers", "1", "--json"]
    assert json.loads(call(capsys, *words)[1])["constants"] == "practical"
    found = json.loads(call(capsys, *words, "--constants", "practical", "--z", "0.5")[1])
    assert (found["constants"], found["z"]) == ("practical", 0.5)


def test_every_run_prints_who_is_protected(capsys, tmp_path):
    _, out, _ = call(capsys, *RUN)
    assert "Nothing is protected" in out
    assert "simulation only" in out
    private = ["--learner", "ucbvi", "--trust", "local", "--epsilon", "2", "--delta", "0", "--out", tmp_path / "run"]
    code, out, err = call(capsys, *RUN, *private)
    assert code == 0, err
    assert "LDP" in out
    assert "certifies epsilon 2 at delta 0" in out


def test_a_private_run_carries_claim_and_certificate_as_json(capsys):
    words = ["--learner", "ucbvi", "--trust", "central", "--epsilon", "1", "--delta", "1e-6", "--json"]
    code, out, _ = call(capsys, *RUN, *words)
    found = json.loads(out)
    assert code == 0
    assert (found["claim"]["trust"], found["claim"]["epsilon"], found["claim"]["delta"]) == ("central", 1.0, 1e-6)
    assert 0.9 < found["certificate"]["epsilon"] <= 1.0
    assert found["calibration"] == "tight"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--environment", "riverswin"], "unknown environment 'riverswin': did you mean 'riverswim'?"),
        (["--learner", "ucbv"], "did you mean 'ucbvi'?"),
        (["--episodes", "-5"], "episodes must be a whole number of at least 1, got -5"),
        (["--episodes", "many"], "--episodes"),
        (["--seeds", "0"], "seeds must be a whole number of at least 1"),
        (["--first-seed", "-1"], "first seed must be a whole number of at least 0"),
        (["--workers", "0"], "workers must be a whole number of at least 1"),
        (["--z", "nan", "--learner", "ucbvi", "--constants", "practical"], "z must be a finite number"),
        (["--epsilon", "1"], "epsilon requires a trust model other than 'none'"),
        (["--trust", "central"], "needs an epsilon"),
        (["--trust", "central", "--epsilon", "nan"], "epsilon must be a finite number"),
        (["--trust", "central", "--epsilon", "-1"], "epsilon must be a finite number"),
        (["--trust", "local", "--epsilon", "1", "--delta", "0.01"], "delta must lie in [0, 0.001]"),
        (["--trust", "shufle", "--epsilon", "1"], "did you mean 'shuffle'?"),
        (["--constants", "theory"], "remove constants and z"),
        (["--calibration", "loose"], "unknown calibration"),
        (["--nonsense"], "No such option"),
        (["--out", "/dev/null/run"], "cannot write to /dev/null/run"),
    ],
)
def test_bad_input_is_one_line_exit_code_2_and_nothing_written(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    place = [] if "--out" in words else ["--out", "run"]
    code, out, err = call(capsys, *RUN, *place, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [["lst"], ["list", "lerners"], ["run"], ["reproduce", "x", "--scale", "paper"], ["load"], ["plot"],
     ["plot", "nowhere"], ["report", "nowhere"],
     ["compare", "none.toml"], ["plot", "nowhere", "--band", "sdt"]],
)  # fmt: skip
def test_other_commands_refuse_in_the_same_way(capsys, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_reproduce_says_where_it_went(capsys):
    code, out, err = call(capsys, "reproduce", "bai2025secure/fig4", "--check", "--every", "--scale=paper")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "python -m papers reproduce NAME" in err


def test_a_finished_directory_says_so(capsys, tmp_path):
    words = [*RUN, "--seeds", "2", "--out", tmp_path / "run"]
    code, first, err = call(capsys, *words)
    assert (code, err) == (0, "")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    code, second, err = call(capsys, *words)
    assert (code, second) == (0, first)
    assert "holds this run already, finished: nothing to do" in err
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before
    code, _, err = call(capsys, *words, "--episodes", "81")
    assert code == 2
    assert "episodes is 80 there, 81 here" in err
    header = json.loads((tmp_path / "run" / "config.json").read_text())
    assert header["command"].startswith("tacit run --environment random-mdp --learner psrl --episodes 80")


def test_a_failed_seed_is_loud(capsys, monkeypatch):
    def broken(*args, seed, **kwargs):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(schedule, "simulate", broken)
    code, out, err = call(capsys, *RUN, "--seeds", "2", "--first-seed", "3")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("error: seed 3 of psrl on random-mdp failed: ZeroDivisionError: no")
    assert "Traceback" in err, "a defect must show where it is"


def test_an_interruption_has_its_own_exit_code(capsys, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_tasks", interrupted)
    code, out, err = call(capsys, *RUN, "--out", tmp_path / "run")
    assert (code, out) == (130, "")
    assert err == f"interrupted: finished seeds are kept in {tmp_path / 'run'}; the same command resumes\n"


FILE = """
[defaults]
environment = "random-mdp"
episodes = 40
seeds = 2
[[run]]
learner = "psrl"
[[run]]
learner = "uniform"
"""


def test_compare_plot_and_report(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text(FILE)
    code, out, err = call(capsys, "compare", "two.toml", "--workers", "1", "--out", "both")
    assert (code, err) == (0, "")
    assert "psrl" in out
    assert "uniform" in out
    assert "Nothing is protected" in out
    assert f"figure: {'both/regret.png'}" in out
    assert (tmp_path / "both" / "regret.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = call(capsys, "compare", "two.toml", "--workers", "1", "--out", "both", "--json")
    assert code == 0
    assert "nothing to do" in err
    found = json.loads(out)
    assert [run["learner"] for run in found["runs"]] == ["psrl", "uniform"]
    code, out, _ = call(capsys, "plot", "both", "both/random-mdp/psrl", "--out", "f.svg", "--per-episode", "--log", "x")
    assert code == 0
    assert (tmp_path / "f.svg").is_file()
    code, out, _ = call(capsys, "report", "both")
    assert code == 0
    assert "both/report.html" in out
    assert "<svg" not in (tmp_path / "both" / "report.html").read_text(), "figures are embedded as data"
    (tmp_path / "two.toml").write_text(FILE.replace("seeds", "seed"))
    code, _, err = call(capsys, "compare", "two.toml", "--out", "new")
    assert code == 2
    assert "did you mean 'seeds'?" in err
    assert not (tmp_path / "new").exists()


def test_the_demo_compares_every_trust_model(capsys, tmp_path):
    words = ["demo", "--episodes", "2000", "--seeds", "2", "--workers", "1", "--out", tmp_path / "demo"]
    code, out, _ = call(capsys, *words)
    assert code == 0
    for needed in ("not private", "central", "shuffle", "local", "uniform policy", "±", "share of uniform's"):
        assert needed in out
    for notion in ("JDP", "SDP", "LDP"):
        assert notion in out
    place = tmp_path / "demo"
    assert out.rstrip().endswith(f"figure: {place / 'regret.png'}\ncertificates: {place / 'certificates.txt'}")
    sentences = out[out.index("not private: ") :].splitlines()
    assert len(sentences) == 5 + 2
    assert all(line.endswith(".") and len(line.split()) < 30 for line in sentences[:5])
    texts = (place / "certificates.txt").read_text(encoding="utf-8")
    assert texts.count("SIMULATION, not a release") == 3
    assert "tacit verify" in texts
    assert call(capsys, "verify", place)[0] == 0
    assert (tmp_path / "demo" / "regret.png").is_file()


def test_help_takes_the_width_of_the_terminal():
    lines = {}
    for width in ("70", "130"):
        done = subprocess.run(
            [sys.executable, "-m", "tacit", "run", "-h"],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": width},
        )
        lines[width] = max(len(line) for line in done.stdout.splitlines())
    assert 100 < lines["130"] <= 130
    assert lines["70"] <= 70


def test_a_dry_run_loads_what_it_needs_and_no_loop():
    script = (
        "import sys; from tacit.cli import main; main(sys.argv[1:]); "
        "sys.exit('tacit.runs.runner' in sys.modules or 'pyarrow' in sys.modules)"
    )
    words = ["run", "--environment", "riverswim", "--episodes", "2000", "--dry-run"]
    assert subprocess.run([sys.executable, "-c", script, *words], stdout=subprocess.DEVNULL).returncode == 0


def test_python_dash_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "tacit", "list", "learnrs"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'learners'?" in done.stderr
