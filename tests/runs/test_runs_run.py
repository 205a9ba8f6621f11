from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.cli import main
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.runs import schedule
from tacit.runs.progress import progress_bar
from tacit.runs.runner import RunSpec, run_cells
from tacit.runs.schedule import SeedFailed, Task, run_tasks
from tacit.runs.storage import COLUMNS, write_whole

SMALL = {"environment": "random-mdp", "learner": "psrl", "episodes": 300, "checkpoints": 12}


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(file.relative_to(directory)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "kept"
    return tacit.run(**SMALL, seeds=[2, 0, 7], workers=1, out=out), out


def test_the_same_seeds_give_the_same_rows_for_any_number_of_workers(kept, tmp_path):
    """From a prompt, too: workers must not need a script, let alone one with a guard."""
    _, out = kept
    script = f"import tacit\ntacit.run(**{SMALL}, seeds=[2, 0, 7], workers=2, out={str(tmp_path / 'two')!r})\n"
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "two" / "results.parquet").read_bytes() == (out / "results.parquet").read_bytes()


def test_a_seed_does_not_depend_on_the_seeds_beside_it(kept):
    result, _ = kept
    alone = tacit.run(**SMALL, seeds=[7], workers=1)
    np.testing.assert_array_equal(alone.regret[0], result.regret[2])
    assert not np.array_equal(result.regret[0], result.regret[1])


def test_a_result_is_what_the_loop_gave(kept):
    result, _ = kept
    parts = tacit.runs.assemble.assemble(result.config)
    one = tacit.simulate(parts.mdp, parts.learner, parts.privatizer, episodes=300, seed=0, checkpoints=result.episodes)
    np.testing.assert_array_equal(result.regret[1], one.regret)
    assert result.episodes[-1] == 300
    assert (np.diff(result.regret, axis=1) >= -1e-12).all()


def test_a_saved_result_reads_back_equal_in_every_part(kept, tmp_path):
    result, out = kept
    again = tacit.load(out)
    for one, other in [(result, again), (again, tacit.load(again.save(tmp_path / "copy")))]:
        assert one.to_json() == other.to_json()
        np.testing.assert_array_equal(one.regret, other.regret)
        assert (one.config, one.resolved, one.claim, one.certificate) == (
            other.config, other.resolved, other.claim, other.certificate,
        )  # fmt: skip


def test_the_rows_are_long_and_carry_what_they_belong_to(kept):
    result, out = kept
    table = pq.read_table(out / "results.parquet")
    assert table.column_names == list(COLUMNS)
    assert {"experiment", "environment", "learner", "trust", "epsilon", "delta", "calibration", "constants"} <= set(
        COLUMNS
    )
    assert len(table) == result.regret.size
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["environment"], first["learner"], first["trust"]) == ("random-mdp", "psrl", "none")
    assert first["epsilon"] == float("inf")
    assert (first["seed"], first["episode"]) == (2, 1)
    np.testing.assert_array_equal(table["regret"].to_numpy().reshape(result.regret.shape), result.regret)


def test_configuration_version_command_claim_and_certificate_stand_beside_the_rows(kept):
    result, out = kept
    header = json.loads((out / "config.json").read_text())
    assert header["version"] == tacit.__version__
    assert header["command"] == result.config.command()
    assert header["config"]["seeds"] == [2, 0, 7]
    assert header["resolved"]["fingerprint"] == tacit.make_environment("random-mdp").fingerprint()
    privacy = json.loads((out / "privacy.json").read_text())
    assert privacy["claim"]["epsilon"] == "inf"
    assert privacy["certificate"]["method"] == "no protection"


def test_a_finished_directory_says_so_and_nothing_happens(kept, caplog):
    _, out = kept
    before = contents(out)
    again = tacit.run(**SMALL, seeds=[2, 0, 7], workers=1, out=out)
    assert "finished: nothing to do" in caplog.text
    assert contents(out) == before
    assert again.seeds == (2, 0, 7)


def test_a_directory_of_another_run_is_refused_and_left_alone(kept, tmp_path):
    _, out = kept
    before = contents(out)
    with pytest.raises(InvalidInput, match="episodes is 300 there, 301 here"):
        tacit.run(**{**SMALL, "episodes": 301}, seeds=[2, 0, 7], workers=1, out=out)
    with pytest.raises(InvalidInput, match="holds another run: seeds"):
        tacit.run(**SMALL, seeds=[2, 0], workers=1, out=out)
    assert contents(out) == before
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="has other files"):
        tacit.run(**SMALL, seeds=1, workers=1, out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_an_unfinished_run_of_another_version_is_refused(tmp_path):
    _interrupt_after(tmp_path / "run", seeds=3, keep=1)
    header = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**header, "version": "0.0.9"}))
    with pytest.raises(InvalidInput, match=r"begun with tacit 0\.0\.9"):
        tacit.run(**SMALL, seeds=3, workers=1, out=tmp_path / "run")


@pytest.mark.parametrize("place", ["file/run", "/proc/tacit-run", "/dev/null/run"])
def test_an_unwritable_directory_is_refused_and_nothing_is_written(place, tmp_path):
    (tmp_path / "file").write_text("a file, not a directory")
    with pytest.raises(InvalidInput, match="cannot write to"):
        tacit.run(**SMALL, seeds=1, workers=1, out=tmp_path / place)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_bad_input_leaves_no_directory_behind(tmp_path):
    for wrong in ({"learner": "ucbv"}, {"epsilon": 1.0}, {"environment": "riverswim:states=1"}, {"episodes": 0}):
        with pytest.raises(InvalidInput):
            tacit.run(**{**SMALL, **wrong}, seeds=1, workers=1, out=tmp_path / "run")
    good = RunSpec(label="good", config=tacit.RunConfig(**SMALL, seeds=(0,)), directory=tmp_path / "good")
    bad = RunSpec(label="bad", config=tacit.RunConfig(**{**SMALL, "learner": "ucbv"}, seeds=(0,)), directory=None)
    with pytest.raises(InvalidInput):
        run_cells([good, bad], experiment="both")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_seed_is_named_and_the_finished_ones_are_kept(tmp_path, monkeypatch):
    _interrupt_after(tmp_path / "run", seeds=4, keep=2, error=ZeroDivisionError("no"))
    before = contents(tmp_path / "run")
    assert [name for name in before if name.endswith(("0.parquet", "1.parquet"))] != []
    with pytest.raises(InvalidInput, match=r"not finished \(2 of 4 seeds\); run its command again to resume"):
        tacit.load(tmp_path / "run")
    simulated = _count_simulations(monkeypatch)
    tacit.run(**SMALL, seeds=4, workers=1, out=tmp_path / "run")
    assert simulated == [2, 3]
    after = contents(tmp_path / "run")
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("kind", "words"),
    [("RaisesInWorker", "seed [01] of psrl.*the moon is full"), ("DiesInWorker", "worker process died")],
)
def test_a_failure_in_a_worker_is_named(kind, words, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import failing_configs

    broken = getattr(failing_configs, kind)(**SMALL, seeds=(0, 1))
    tasks = [Task(config=broken, seed=seed) for seed in broken.seeds]
    with pytest.raises(SeedFailed, match=words):
        run_tasks(tasks, workers=2, finished=lambda task, run: None, advanced=lambda done: None)


def test_long_work_without_a_number_of_workers_moves_to_processes(monkeypatch):
    handed: list[int] = []

    def processes(tasks, sent, workers, finished, advanced):
        handed.extend(task.seed for task in tasks)
        schedule._run_here(tasks, finished, advanced)

    monkeypatch.setattr(schedule, "_run_on_processes", processes)
    monkeypatch.setattr(schedule, "default_workers", lambda tasks: 2)
    config = tacit.RunConfig(**SMALL, seeds=(2, 0, 7))
    tasks = [Task(config=config, seed=seed) for seed in config.seeds]
    for seconds, moved in [(math.inf, []), (-1.0, [2, 0, 7])]:
        monkeypatch.setattr(schedule, "TRIAL_SECONDS", seconds)
        done, total = [], []
        handed.clear()
        run_tasks(tasks, workers=None, finished=lambda t, r: done.append(t.seed), advanced=total.append)  # noqa: B023
        assert (handed, done, total[-1]) == (moved, [2, 0, 7], 900)


def test_the_bar_is_drawn_for_whoever_watches_and_for_nobody_else(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, show, drawn in [(Screen(), True, True), (Screen(), False, False), (io.StringIO(), True, False)]:
        monkeypatch.setattr(sys, "stderr", screen)
        with progress_bar(50, "two seeds", show=show) as advanced:
            advanced(50)
        assert ("two seeds" in screen.getvalue()) is drawn
        assert bool(screen.getvalue()) is drawn


def test_a_model_that_was_handed_over_is_kept_with_the_run(tmp_path):
    mdp = TabularMDP(
        P=[[[0.5, 0.5], [0.1, 0.9]], [[0.5, 0.5], [0.3, 0.7]]], r=[[0.0, 0.2], [1.0, 0.4]], rho=[1.0, 0.0], horizon=2,
        name="mine", reward_kind="deterministic", state_names=["here", "there"],
    )  # fmt: skip
    result = tacit.run(environment=mdp, learner="psrl", episodes=50, seeds=2, workers=1, out=tmp_path / "run")
    again = tacit.load(tmp_path / "run")
    assert again.config.environment == mdp
    assert again.config.environment.state_names == ("here", "there")
    assert again.to_json()["environment"] == "mine"
    np.testing.assert_array_equal(again.regret, result.regret)


def test_a_private_run_keeps_its_claim_and_certificate(tmp_path):
    asked = {"environment": "random-mdp", "learner": "ucbvi", "episodes": 400, "trust": "shuffle", "batch": 100}
    result = tacit.run(**asked, epsilon=1.0, delta=1e-6, seeds=2, workers=1, out=tmp_path / "run")
    assert result.resolved.constants == "practical"
    assert result.certificate.holds
    assert 0.0 < result.certificate.epsilon <= 1.0
    row = pq.read_table(tmp_path / "run" / "results.parquet").slice(0, 1).to_pylist()[0]
    assert (row["trust"], row["epsilon"], row["delta"], row["calibration"]) == ("shuffle", 1.0, 1e-6, "tight")
    again = tacit.load(tmp_path / "run")
    assert again.certificate == result.certificate
    assert json.loads(json.dumps(again.to_json(), allow_nan=False))["certificate"]["epsilon"] <= 1.0


def test_references_cost_what_they_must():
    uniform = tacit.run(environment="riverswim", learner="uniform", episodes=20_000, workers=1)
    optimal = tacit.run(environment="riverswim", learner="optimal", episodes=20_000, workers=1)
    assert round(float(uniform.regret[0, -1])) == 8884  # K (V* - V of the uniform policy): "nothing learned"
    assert uniform.relative_regret == pytest.approx(1.0, abs=1e-9)
    assert optimal.regret[0, -1] == pytest.approx(0.0, abs=1e-9)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "file"
    write_whole(target, b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk on fire")))
    with pytest.raises(OSError, match="disk on fire"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


# Killing ------------------------------------------------------------------------------------------

LONG = ["--environment", "random-mdp", "--learner", "psrl", "--episodes", "20000", "--checkpoints", "5"]
ENDED = """
import multiprocessing, os, signal, sys
from tacit.cli import main
from tacit.runs.storage import RunDirectory

write, left = RunDirectory.write_seed, [int(sys.argv[2])]

def ended(self, *given):
    files = write(self, *given)
    left[0] -= 1
    if left[0] == 0:
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        getattr(os, sys.argv[1])(0 if sys.argv[1] == "killpg" else os.getpid(), signal.Signals[sys.argv[3]])
    return files

RunDirectory.write_seed = ended
sys.exit(main(sys.argv[4:]))
"""
"""The command line, which a signal ends as soon as so many seeds are kept: in the middle, on any machine."""


def ended(how: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ENDED, *how, "run", *LONG, *arguments],
        capture_output=True, text=True, check=False, timeout=600, start_new_session=True,
        # A shell starts background jobs with SIGINT ignored, and children inherit that; at a terminal it is not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def test_a_killed_run_resumes_and_redoes_no_finished_seed(tmp_path, capsys):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    done = ended(["kill", "2", "SIGKILL"], "--seeds", "5", "--workers", "2", "--out", str(killed))
    assert done.returncode == -signal.SIGKILL, done.stderr
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 2
    _wait_for(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() and _alive(pid) for pid in workers))
    before = contents(killed)
    finished = [name for name in before if name.endswith(".parquet")]
    assert len(finished) == 2
    assert "results.parquet" not in before
    assert main(["run", *LONG, "--seeds", "5", "--workers", "1", "--out", str(killed)]) == 0
    assert "2 of 5 seeds are there already" in capsys.readouterr().err
    after = contents(killed)
    assert {name: after[name] for name in before} == before
    assert main(["run", *LONG, "--seeds", "5", "--workers", "1", "--out", str(whole)]) == 0
    assert after["results.parquet"][0] == (whole / "results.parquet").read_bytes()


def test_an_interrupted_run_says_how_to_resume(tmp_path):
    out = tmp_path / "run"
    done = ended(["killpg", "1", "SIGINT"], "--seeds", "5", "--workers", "2", "--out", str(out))  # to everybody
    assert done.returncode == 130, done.stderr
    assert done.stderr == f"interrupted: finished seeds are kept in {out}; the same command resumes\n"
    assert len(done.stdout.split()) == 2, "nothing but the workers"


@pytest.mark.parametrize("kept", [set(), {"privacy.json"}, {"seeds"}, {"privacy.json", "seeds"}])
def test_a_run_that_was_killed_before_it_had_begun_begins_again(kept, tmp_path):
    out = tmp_path / "run"
    tacit.run(**SMALL, seeds=2, workers=1, out=out)
    rows = (out / "results.parquet").read_bytes()
    for file in [file for file in out.rglob("*") if file.is_file() and file.name not in kept]:
        file.unlink()
    if "seeds" not in kept:
        (out / "seeds").rmdir()
    tacit.run(**SMALL, seeds=2, workers=1, out=out)
    assert (out / "results.parquet").read_bytes() == rows


def test_a_run_that_was_copied_without_its_empty_directory_goes_on(tmp_path):
    """Version control keeps no empty directories: a run that had begun, and had no seed yet, has lost one there."""
    out = tmp_path / "run"
    tacit.run(**SMALL, seeds=2, workers=1, out=out)
    rows = (out / "results.parquet").read_bytes()
    shutil.rmtree(out / "seeds")
    for file in [file for file in out.iterdir() if file.name not in ("config.json", "privacy.json")]:
        file.unlink()
    tacit.run(**SMALL, seeds=2, workers=1, out=out)
    assert (out / "results.parquet").read_bytes() == rows


@pytest.mark.parametrize(
    ("name", "content"), [("notes.txt", "mine"), ("privacy.json", "{}"), ("seeds/seed-000000.parquet", "rows")]
)
def test_a_directory_with_files_of_somebody_else_is_left_alone(name, content, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidInput, match="but it has other files"):
        tacit.run(**SMALL, workers=1, out=tmp_path)
    assert (tmp_path / name).read_text() == content


def _wait_for(condition, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.005)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _interrupt_after(out: Path, *, seeds: int, keep: int, error: Exception | None = None) -> None:
    """Run the small configuration so that only the first seeds finish."""
    original = schedule.simulate

    def failing(*args, seed, episodes, **kwargs):
        if episodes > 1 and seed >= keep:
            raise error or ZeroDivisionError("interrupted")
        return original(*args, seed=seed, episodes=episodes, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "simulate", failing)
        with pytest.raises(SeedFailed, match=f"seed {keep} of psrl on random-mdp failed: ZeroDivisionError"):
            tacit.run(**SMALL, seeds=seeds, workers=1, out=out)


def _count_simulations(monkeypatch) -> list[int]:
    seen: list[int] = []
    original = schedule.simulate

    def counting(*args, seed, episodes, **kwargs):
        if episodes > 1:
            seen.append(seed)
        return original(*args, seed=seed, episodes=episodes, **kwargs)

    monkeypatch.setattr(schedule, "simulate", counting)
    return seen


def test_a_run_that_learned_hardly_anything_says_what_to_try():
    options = {"environment": "riverswim", "learner": "ucbvi", "episodes": 200, "seeds": 2, "workers": 1}
    private = {"trust": "central", "epsilon": 0.05, "delta": 1e-6}
    found = tacit.run(**options, **private)
    assert found.relative_regret > 0.9
    assert "hardly better than the uniform policy" in found.advice
    assert "learner 'auto'" in found.advice
    assert "shares the steps" in found.advice
    assert f"advice: {found.advice}" in found.summary()
    assert found.to_json()["advice"] == found.advice
    more = int(re.search(r"with about ([\d,]+) users", found.advice)[1].replace(",", ""))
    better = tacit.run(**{**options, "learner": "auto", "episodes": more}, **private)
    assert better.relative_regret < 0.5
    again = tacit.run(**{**options, "learner": "auto"}, **{**private, "epsilon": 0.02})  # it shares the steps already
    assert "try about" in again.advice
    assert "shares" not in again.advice
    assert "auto" not in again.advice
    assert tacit.run(**options).advice is None
    assert found.unused is not None
    assert f"not used: {found.unused}" in found.summary()
    for learner, said in (("ucbvi", True), ("ucbvi:time_homogeneous=true", False), ("auto", False), ("uniform", False)):
        short = tacit.run(environment="riverswim", learner=learner, episodes=20, workers=1)
        assert (short.unused is not None) == said, learner
    assert tacit.run(**{**options, "learner": "uniform"}).advice is None
