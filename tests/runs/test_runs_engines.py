"""Runs on a Ray cluster: the same rows as here, whatever is lost on the way."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from papers.__main__ import main as papers
from tacit.cli import main
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.executors import RETRIES, TaskFailed, parallel_map
from tacit.runs.schedule import SeedFailed, Task, run_tasks

# Ray leaves files and sockets of its own to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

SMALL = {"environment": "random-mdp", "learner": "psrl", "episodes": 300, "checkpoints": 12}
ASKED = ["run", "--environment", "random-mdp", "--learner", "psrl", "--episodes", "300", "--checkpoints", "12"]


def rows(directory: Path) -> bytes:
    return (directory / "results.parquet").read_bytes()


def doubled(item: int, progress) -> int:
    progress(item)
    return 2 * item


# Refusals, without a cluster ----------------------------------------------------------------------


def test_without_ray_the_engine_is_refused_before_anything_is_written(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)  # what an import that fails looks like
    with pytest.raises(NotSupported, match=r"pip install '(\.|tacit-rl)\[ray\]'"):
        tacit.run(**SMALL, engine="ray", out=tmp_path / "run")
    for command in (
        [*ASKED, "--engine", "ray", "--out", str(tmp_path / "run")],
        ["reproduce", "foundation/baselines", "--engine", "ray", "--out", str(tmp_path / "run")],
        ["audit", "--engine", "ray", "--out", str(tmp_path / "run")],
    ):
        assert (main if command[0] == "run" else papers)(command) == 2
        assert "error: the engine ray needs the package ray" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_engines_and_addresses_that_make_no_sense_are_refused(tmp_path, capsys):
    with pytest.raises(UnknownName, match="did you mean 'ray'"):
        tacit.run(**SMALL, engine="rya", out=tmp_path / "run")
    with pytest.raises(InvalidInput, match="an address belongs to the engine 'ray'"):
        tacit.run(**SMALL, address="127.0.0.1:6379", out=tmp_path / "run")
    for address in ("nowhere", "ray://head:10001", ":6379", "head:port"):
        with pytest.raises(InvalidInput, match="must be HOST:PORT or 'auto'"):
            tacit.run(**SMALL, engine="ray", address=address, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert main([*ASKED, "--engine", "ray", "--address", "127.0.0.1:1"]) == 2
    assert "error: no Ray cluster answers at 127.0.0.1:1: Connection refused" in capsys.readouterr().err
    assert papers(["audit", "--workers", "2"]) == 2
    assert "workers belong to engine 'ray'" in capsys.readouterr().err


def test_a_recorded_command_may_name_its_engine(tmp_path):
    assert main([*ASKED, "--engine", "local", "--out", str(tmp_path / "run")]) == 0
    content = {**tacit.load(tmp_path / "run").certificate.to_dict(), "command": "tacit run --environment riverswim "
               "--learner ucbvi --episodes 10 --engine ray --address auto"}  # fmt: skip
    (tmp_path / "certificate.json").write_text(json.dumps(content))
    assert tacit.verify(tmp_path / "certificate.json").kind == "certificate"
    assert tacit.verify(tmp_path / "run").true


# One cluster, started and stopped -----------------------------------------------------------------


def test_a_run_begun_here_and_finished_on_ray_is_the_same_run(tmp_path, capsys):
    """A cluster is started and stopped; the first seed, finished here, is not run again."""
    import ray

    whole = tacit.run(**SMALL, seeds=3, workers=1, out=tmp_path / "whole")
    begun = tmp_path / "begun"
    tacit.run(**SMALL, seeds=3, workers=1, out=begun)
    for lost in ("results.parquet", "seeds/seed-000001.parquet", "seeds/seed-000002.parquet"):
        (begun / lost).unlink()
    kept = (begun / "seeds" / "seed-000000.json").stat().st_mtime_ns
    assert main([*ASKED, "--seeds", "3", "--engine", "ray", "--workers", "1", "--out", str(begun), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "1 of 3 seeds are there already" in err
    assert json.loads(out)["regret"]["per_seed"] == whole.regret[:, -1].tolist()
    assert rows(begun) == rows(tmp_path / "whole")
    assert (begun / "seeds" / "seed-000000.json").stat().st_mtime_ns == kept
    assert not ray.is_initialized()


# One cluster for several tests --------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    import ray

    here = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(here)
        patch.setenv("PYTHONPATH", here, prepend=os.pathsep)  # of the workers, who inherit it
        patch.setenv("TACIT_TEST_DRIVER", str(os.getpid()))
        patch.setenv("TACIT_TEST_ATTEMPTS", str(tmp_path_factory.mktemp("attempts")))
        context = ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        try:
            yield context.address_info["gcs_address"]
        finally:
            ray.shutdown()


KINDS = {
    "counts": {"environment": "riverswim", "learner": "ucbvi", "trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "batches": {"environment": "riverswim", "learner": "bucb", "trust": "shuffle", "epsilon": 1.0, "delta": 1e-6},
    "losses": {"environment": "layered", "learner": "uc-o-reps", "adversary": "iid"},
    "gradients": {"environment": "riverswim", "learner": "dp-npg", "trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "live": {"environment": "gymnasium:CliffWalking-v1", "learner": "ucbvi"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_gives_the_same_rows_on_ray(kind, cluster, tmp_path):
    asked = {**KINDS[kind], "episodes": 4000, "seeds": 2}
    here = tacit.run(**asked, workers=1, out=tmp_path / "here")
    there = tacit.run(**asked, engine="ray", address=cluster, out=tmp_path / "there")
    assert rows(tmp_path / "here") == rows(tmp_path / "there")
    assert (tmp_path / "here" / "policies.json").read_bytes() == (tmp_path / "there" / "policies.json").read_bytes()
    np.testing.assert_array_equal(here.regret, there.regret)


@pytest.mark.slow
def test_a_comparison_on_ray_is_the_same_comparison_and_leaves_a_cluster_that_runs_alone(cluster, tmp_path):
    import ray

    (tmp_path / "two.toml").write_text(
        'name = "two"\n[defaults]\nenvironment = "random-mdp"\nepisodes = 300\nseeds = 2\n'
        '[[run]]\nlearner = "psrl"\n[[run]]\nlearner = "ucbvi"\n'
    )
    here = tacit.compare(tmp_path / "two.toml", workers=1, out=tmp_path / "here")
    there = tacit.compare(tmp_path / "two.toml", engine="ray", workers=2, out=tmp_path / "there")
    assert [one.regret.tolist() for one in here] == [one.regret.tolist() for one in there]
    assert ray.is_initialized()
    with pytest.raises(InvalidInput, match="is connected to the Ray cluster at"):
        tacit.run(**SMALL, engine="ray", address="127.0.0.1:1")


@pytest.mark.slow
def test_outcomes_come_once_each_and_the_first_failure_is_named(cluster):
    items = list(range(40))
    assert sorted(parallel_map(doubled, items)) == [(item, 2 * item) for item in items]

    def broken(item, progress):
        if item == 7:
            raise ValueError("seven")
        return item

    found = parallel_map(broken, items)
    with pytest.raises(TaskFailed, match="ValueError: seven") as failed:
        list(found)
    assert failed.value.item == 7
    assert isinstance(failed.value.__cause__, ValueError)


@pytest.mark.slow
def test_progress_is_shown_while_a_seed_is_under_way(cluster):
    config = tacit.RunConfig(environment="random-mdp", learner="psrl", episodes=1_500_000, seeds=(0,))
    seen: list[int] = []
    run_tasks(
        [Task(config=config, seed=0)], workers=1, engine="ray", finished=lambda task, run: None, advanced=seen.append
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1_500_000
    assert any(0 < done < 1_500_000 for done in seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words", "attempts"),
    [
        ("RaisesOnCluster", "seed 5 of the third on random-mdp failed: ArithmeticError: the moon is full", 1),
        ("DiesOnCluster", f"seed 5 of the third on random-mdp failed: its worker was lost {RETRIES + 1} times", 4),
    ],
)
def test_a_cell_that_cannot_be_run_is_named_and_retried_only_where_its_worker_is_lost(kind, words, attempts, cluster):
    import failing_on_cluster

    place = Path(os.environ["TACIT_TEST_ATTEMPTS"])
    for old in place.iterdir():
        old.unlink()
    broken = getattr(failing_on_cluster, kind)(**SMALL, seeds=(5,))
    task = Task(config=broken, seed=5, label="the third")
    with pytest.raises(SeedFailed, match=words):
        run_tasks([task], workers=1, engine="ray", finished=lambda task, run: None, advanced=lambda done: None)
    assert len(list(place.iterdir())) == attempts


@pytest.mark.slow
def test_an_audit_on_ray_is_the_same_audit(cluster, tmp_path):
    only = {"mechanism laplace", "privatizer local oue tight", "messages ones"}
    from papers.audit import suite

    every = suite.all_rows(1.0, 1e-6)
    from papers.audit.record import AuditRecord, AuditSettings
    from papers.audit.resume import run_rows

    settings = AuditSettings(epsilon=1.0, delta=1e-6, trials=1000, false_alarm=0.01, seed=0)
    few = {name: row for name, row in every.items() if name in only}
    assert len(few) == 3
    here = run_rows(few, AuditRecord(settings=settings, command="tacit"))
    there = run_rows(few, AuditRecord(settings=settings, command="tacit"), out=tmp_path, engine="ray", workers=2)
    assert here.to_dict() == there.to_dict()
    assert list(there.rows) == list(few)
