"""Callbacks see the rows of the result, all of them, once, in the calling process, and nothing else."""

from __future__ import annotations

import csv
import os
import sys
import types
from dataclasses import fields

import numpy as np
import pytest

import tacit
from tacit.callbacks import Callback, Checkpoint, CsvLogger, TensorBoardLogger
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig

RUN = {"environment": "riverswim", "learner": "psrl", "episodes": 50, "checkpoints": 5}


class Watch(Callback):
    def __init__(self):
        self.calls, self.processes = [], set()

    def on_begin(self, runs):
        self.calls.append(("begin", list(runs)))

    def on_checkpoint(self, point):
        self.processes.add(os.getpid())
        self.calls.append(point)

    def on_end(self, results):
        self.calls.append(("end", results))

    @property
    def points(self):
        return [call for call in self.calls if isinstance(call, Checkpoint)]


@pytest.mark.parametrize("workers", [1, 2])
def test_they_see_the_rows_of_the_result(workers):
    watch = Watch()
    result = tacit.run(**RUN, seeds=[4, 2, 7], workers=workers, callbacks=[watch])
    assert watch.calls[0] == ("begin", [result.label])
    assert watch.calls[-1] == ("end", (result,))
    assert watch.processes == {os.getpid()}
    assert len(watch.points) == result.regret.size
    for seed, row in zip(result.seeds, result.regret, strict=True):
        mine = [point for point in watch.points if point.seed == seed]
        assert [point.episode for point in mine] == result.episodes.tolist()
        assert [point.regret for point in mine] == row.tolist()
    # One seed after the other, however many processes there are.
    order = list(dict.fromkeys(point.seed for point in watch.points))
    assert [point.seed for point in watch.points] == [seed for seed in order for _ in result.episodes]
    if workers == 1:
        assert order == [4, 2, 7]


def test_a_checkpoint_has_nothing_that_a_result_has_not():
    names = {field.name for field in fields(Checkpoint)}
    assert names == {"run", "environment", "learner", "trust", "seed", "episode", "regret", "returns"}


def test_live_worlds_have_returns_instead():
    watch = Watch()
    live = {"environment": "gymnasium:FrozenLake-v1", "learner": "uniform", "episodes": 20, "checkpoints": 3}
    result = tacit.run(**live, workers=1, callbacks=[watch])
    assert [(point.regret, point.returns) for point in watch.points] == [
        (None, total) for total in result.returns[0].total
    ]
    html = result._repr_html_()
    assert "return per user" in html
    assert "nan" not in html


def test_a_function_is_enough_and_changes_nothing():
    seen = []
    with_it = tacit.run(**RUN, seeds=2, workers=1, on_checkpoint=seen.append)
    assert with_it.regret.tobytes() == tacit.run(**RUN, seeds=2, workers=1).regret.tobytes()
    assert [point.regret for point in seen] == with_it.regret.ravel().tolist()


def test_raising_stops_the_run_and_keeps_the_seed(tmp_path):
    class Enough(Exception):
        pass

    def stop(point):
        raise Enough

    with pytest.raises(Enough):
        tacit.run(**RUN, seeds=3, workers=1, out=tmp_path / "run", on_checkpoint=stop)
    assert [file.name for file in (tmp_path / "run" / "seeds").glob("*.parquet")] == ["seed-000000.parquet"]
    seen = []
    tacit.run(**RUN, seeds=3, workers=1, out=tmp_path / "run", on_checkpoint=seen.append)
    assert {point.seed for point in seen} == {1, 2}  # what was there already is not reported again


@pytest.mark.parametrize("wrong", [{"callbacks": [print]}, {"callbacks": Callback()}, {"on_checkpoint": 3}])
def test_what_is_no_callback_is_refused(wrong):
    with pytest.raises(InvalidInput, match=r"callbacks must (derive|be a list)|on_checkpoint must be"):
        tacit.run(**RUN, **wrong)


def test_a_comparison_has_callbacks_too(tmp_path):
    shared = {"environment": "riverswim", "episodes": 20, "seeds": (0,), "checkpoints": 3}
    runs = [Run(label=name, config=RunConfig(learner=name, **shared)) for name in ("uniform", "optimal")]
    watch = Watch()
    found = run_comparison(runs, name="x", out=None, command="none", workers=1, callbacks=[watch])
    assert [(point.run, point.regret) for point in watch.points] == [
        (one.label, value) for one in found for value in one.regret[0].tolist()
    ]
    (tmp_path / "x.toml").write_text('[[run]]\nenvironment="riverswim"\nlearner="uniform"\nepisodes=9\nseeds=1\n')
    watch = Watch()
    found = tacit.compare(tmp_path / "x.toml", workers=1, callbacks=[watch])
    assert [point.regret for point in watch.points] == found[0].regret[0].tolist()


def test_the_csv_logger_writes_every_row(tmp_path):
    path = tmp_path / "log.csv"
    result = tacit.run(**RUN, seeds=2, workers=1, callbacks=[CsvLogger(path)])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["regret"]) for row in rows] == result.regret.ravel().tolist()
    assert [int(row["seed"]) for row in rows] == [0] * len(result.episodes) + [1] * len(result.episodes)
    tacit.run(**RUN, seeds=[5], workers=1, callbacks=[CsvLogger(path)])
    with path.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 3 * len(result.episodes)


def test_the_csv_logger_refuses_other_files(tmp_path):
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="must be new or a CSV log"):
        tacit.run(**RUN, callbacks=[CsvLogger(tmp_path / "notes.csv")])
    with pytest.raises(InvalidInput, match="cannot write to"):
        tacit.run(**RUN, callbacks=[CsvLogger(tmp_path / "no" / "log.csv")])
    with pytest.raises(InvalidInput, match="must begin"):
        CsvLogger(tmp_path / "x.csv").on_checkpoint(None)


@pytest.mark.parametrize("home", ["tensorboardX", "torch.utils.tensorboard"])
def test_the_tensorboard_logger_adds_every_point(monkeypatch, home):
    added = []

    class SummaryWriter:
        def __init__(self, directory):
            self.directory = directory

        def add_scalar(self, name, value, global_step):
            added.append((self.directory, name, value, global_step))

        def close(self):
            added.append("closed")

    for name in ("tensorboardX", "torch", "torch.utils", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    made = types.ModuleType(home)
    made.SummaryWriter = SummaryWriter
    for name in [home.rsplit(".", n)[0] for n in range(home.count("."), 0, -1)]:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, home, made)
    result = tacit.run(**RUN, workers=1, callbacks=[TensorBoardLogger("curves")])
    assert added.pop() == "closed"
    assert [(value, step) for _, _, value, step in added] == list(
        zip(result.regret[0].tolist(), result.episodes.tolist(), strict=True)
    )
    assert {(place, name) for place, name, *_ in added} == {
        ("curves", "riverswim/psrl/seed 0/regret (simulation only)")
    }


def test_without_tensorboard_the_extra_is_named(monkeypatch):
    for name in ("tensorboardX", "torch", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NotSupported, match=r"\[tensorboard\]"):
        TensorBoardLogger("curves")


def test_event_files_of_the_real_writer_read_back(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is missing: pip install '.[tensorboard]'")
    from tensorboardX.proto.event_pb2 import Event

    result = tacit.run(**RUN, seeds=[3, 5], workers=1, callbacks=[TensorBoardLogger(tmp_path)])
    [file] = tmp_path.glob("events.out.tfevents.*")
    content, points = file.read_bytes(), {}
    while content:  # length, its checksum, an event, its checksum
        size = int.from_bytes(content[:8], "little")
        event, content = Event.FromString(content[12 : 12 + size]), content[16 + size :]
        for value in event.summary.value:
            points.setdefault(value.tag, []).append((event.step, value.simple_value))
    # TensorBoard makes a path of a name, and a value is a float of 32 bits
    assert set(points) == {f"riverswim/psrl/seed_{seed}/regret__simulation_only_" for seed in (3, 5)}
    for seed, row in zip(result.seeds, result.regret, strict=True):
        told = points[f"riverswim/psrl/seed_{seed}/regret__simulation_only_"]
        assert [step for step, _ in told] == result.episodes.tolist()
        assert [value for _, value in told] == row.astype(np.float32).tolist()
