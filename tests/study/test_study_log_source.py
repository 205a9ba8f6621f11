"""One reader for files, frames, tables, arrays and episodes: a log gives the same trajectories from all of them."""

from __future__ import annotations

import csv
import datetime
import types

import log_tools as log
import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput, NotSupported
from tacit.study.episodes import check_log, read_episodes
from tacit.study.mapping import EpisodeMapping

TYPED = {
    "person": [row[0] for row in log.ROWS],
    "episode": [row[1] for row in log.ROWS],
    "step": [int(row[2]) for row in log.ROWS],
    "ward": [row[3] for row in log.ROWS],
    "drug": [row[4] for row in log.ROWS],
    "points": [float(row[5]) for row in log.ROWS],
}


def frames():
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    kinds = [("person", "U9"), ("episode", "U9"), ("step", "i4"), ("ward", "U9"), ("drug", "U9"), ("points", "f8")]
    rows = [tuple(TYPED[name][i] for name in TYPED) for i in range(len(log.ROWS))]
    table = pa.table(TYPED)
    return {
        "pandas": pd.DataFrame(TYPED),
        "pandas, categories": pd.DataFrame(TYPED).astype({"ward": "category", "drug": "category", "person": object}),
        "polars": pl.DataFrame(TYPED),
        "polars, categories": pl.DataFrame(TYPED).with_columns(pl.col("ward").cast(pl.Categorical)),
        "arrow": table,
        "arrow batch": table.to_batches()[0],
        "arrays": {name: np.array(values) for name, values in TYPED.items()},
        "structured array": np.array(rows, dtype=kinds),
        "rows": [{name: TYPED[name][i] for name in TYPED} for i in range(len(log.ROWS))],
        "a generator of lists of rows": (
            [{name: TYPED[name][i] for name in TYPED} for i in range(k, k + 3)] for k in (0, 3)
        ),
        "episodes": [
            {"person": TYPED["person"][k], "states": TYPED["ward"][k : k + 3], "actions": TYPED["drug"][k : k + 3],
             "rewards": TYPED["points"][k : k + 3]}
            for k in (0, 3)
        ],
    }  # fmt: skip


@pytest.mark.parametrize("kind", frames())
def test_every_kind_of_source_gives_what_csv_gives(tmp_path, kind):
    csv_log = read_episodes(log.write(tmp_path / "log.csv"), log.mapping())
    found = read_episodes(frames()[kind], log.mapping())
    np.testing.assert_array_equal(found.trajectories.states, csv_log.trajectories.states)
    np.testing.assert_array_equal(found.trajectories.actions, csv_log.trajectories.actions)
    np.testing.assert_array_equal(found.trajectories.rewards, csv_log.trajectories.rewards)
    assert found.persons.tolist() == [0, 1]


def test_minari_episodes_are_read_and_a_dataset_that_is_not_here_is_refused(monkeypatch):
    from minari.dataset.episode_data import EpisodeData

    episodes = [
        EpisodeData(id=i, observations=np.array([[0.2 + i], [0.8], [0.1], [0.9]]), actions=np.array([0, 1, 1]),
                    rewards=np.array([0.0, 1.0, 0.5]), terminations=np.zeros(3), truncations=np.ones(3), infos={})
        for i in range(2)
    ]  # fmt: skip
    dataset = types.SimpleNamespace(iterate_episodes=lambda: iter(episodes))
    known = {
        "states": [{"column": "position", "edges": [0.5]}], "actions": {"column": "push", "categories": [0, 1]},
        "reward": {"column": "reward", "low": 0, "high": 1}, "horizon": 3,
    }  # fmt: skip
    found = read_episodes(dataset, known)
    assert (found.people, found.trajectories.states.tolist()) == (2, [[0, 1, 0], [1, 1, 0]])
    monkeypatch.setenv("MINARI_DATASETS_PATH", "/nonexistent")
    with pytest.raises(InvalidInput, match="must be on this machine"):
        read_episodes("minari:none/none-v0", known)
    real = __import__
    monkeypatch.setattr(
        "builtins.__import__", lambda name, *a, **k: real("Qnone" if name == "minari" else name, *a, **k)
    )
    with pytest.raises(NotSupported, match="pip install minari"):
        read_episodes("minari:none/none-v0", known)


def test_what_is_no_log_is_refused_without_its_values():
    for source in (3, np.ones((2, 2)), [7], [{"Qa": 1}], {"person": ["Qx"]}, {**TYPED, "points": ["Qx"]}, []):
        with pytest.raises(InvalidInput) as refusal:
            read_episodes(source, log.mapping())
        assert "Qx" not in str(refusal.value)


ENCODINGS = {
    "utf-8": {},
    "utf-8-sig": {},
    "utf-16": {},
    "utf-16-le": {},
    "utf-16-be": {},
    "cp1252": {"encoding": "cp1252"},
}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_delimiter_and_encoding_are_found(tmp_path, delimiter, encoding):
    path = tmp_path / "log.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(
            [log.HEADER, *([*row[:3], "k\xfchl", *row[4:]] for row in log.ROWS)]
        )
    known = log.mapping(states=[{"column": "ward", "categories": ["k\xfchl"]}], **ENCODINGS[encoding])
    assert read_episodes(path, known).people == 2


def test_a_decimal_comma_is_named_and_read_where_it_is_declared(tmp_path):
    path = tmp_path / "log.csv"
    lines = [log.HEADER, *([*row[:5], row[5].replace(".", ",")] for row in log.ROWS)]
    path.write_text("\n".join(";".join(line) for line in lines), encoding="utf-8")
    check, found = check_log(path, log.mapping())
    assert found is None
    assert dict(check.bad) == {"reward is no number": 6}
    assert check.line.endswith('declare "decimal": "," in the mapping')
    right = read_episodes(path, log.mapping(decimal=","))
    wanted = read_episodes(log.write(tmp_path / "plain.csv"), log.mapping())
    np.testing.assert_array_equal(right.trajectories.rewards, wanted.trajectories.rewards)
    with pytest.raises(InvalidInput, match="reward is no number: 6"):  # a point separates thousands there
        read_episodes(tmp_path / "plain.csv", log.mapping(decimal=","))


STAMPS = {
    "order": ["2024-03-01 08:00", "2024-03-01T20:00:00+00:00", "2024-03-03"],
    "%d.%m.%Y %H:%M": ["31.01.2024 08:00", "01.02.2024 07:00", "02.02.2024 00:00"],
}


@pytest.mark.parametrize("form", STAMPS)
def test_time_stamps_are_steps_in_their_order(tmp_path, form):
    rows = [[*row[:2], STAMPS[form][int(row[2])], *row[3:]] for row in log.ROWS]
    shuffled = [rows[i] for i in (2, 4, 0, 5, 1, 3)]
    found = read_episodes(log.write(tmp_path / "log.csv", shuffled), log.mapping(steps=form))
    plain = read_episodes(log.write(tmp_path / "plain.csv"), log.mapping())
    np.testing.assert_array_equal(found.trajectories.states, plain.trajectories.states)
    bad, _ = check_log(
        log.write(tmp_path / "bad.csv", [[*r[:2], "Qnever", *r[3:]] for r in rows]), log.mapping(steps=form)
    )
    assert bad.bad["bad step"] == 6
    twice, _ = check_log(log.write(tmp_path / "twice.csv", [*rows, rows[0]]), log.mapping(steps=form))
    assert dict(twice.bad) == {"duplicate step": 1}


def test_typed_time_stamps_are_steps_in_their_order():
    day = datetime.datetime(2024, 3, 1)
    times = [day + datetime.timedelta(hours=7 * (step + 1) ** 2) for step in TYPED["step"]]
    found = read_episodes({**TYPED, "step": times}, log.mapping(steps="order"))
    assert found.trajectories.states.tolist() == [[0, 1, 0], [1, 1, 0]]


def test_missing_values_have_a_declared_category_also_among_numbers(tmp_path):
    parts = [
        {"column": "ward", "categories": [["well", ["QWELL"]], ["sick", ["QSICK"]]], "missing": "sick"},
        {"column": "sugar", "edges": [100], "missing": "not measured"},
    ]
    known = EpisodeMapping.from_dict(log.mapping(states=parts, missing=["n/a"]))
    assert known.state_names[:3] == ("well, sugar < 100", "well, 100 ≤ sugar", "well, not measured")
    assert EpisodeMapping.from_dict(known.to_dict()) == known
    assert known.state({"ward": None, "sugar": "n/a"}) == "sick, not measured"
    sugar = ["", "n/a", "99", "100", "", "Qhigh"]
    rows = [[*row, value] for row, value in zip(log.ROWS, sugar, strict=True)]
    rows[0][3] = "n/a"
    check, found = check_log(log.write(tmp_path / "log.csv", rows[:3], [*log.HEADER, "sugar"]), known)
    assert found is not None
    assert [known.state_names[i] for i in found.trajectories.states[0]] == [
        "sick, not measured", "sick, not measured", "well, sugar < 100"
    ]  # fmt: skip
    frame = {**TYPED, "sugar": np.array([np.nan, np.nan, 99.0, 100.0, np.nan, 7.0]), "ward": [None, *TYPED["ward"][1:]]}
    assert read_episodes(frame, known).trajectories.states[0].tolist() == found.trajectories.states[0].tolist()
    check, _ = check_log(log.write(tmp_path / "log.csv", rows, [*log.HEADER, "sugar"]), known)
    assert dict(check.bad) == {"unknown state": 1}


def test_rows_of_a_bandit_need_neither_episode_nor_step():
    known = log.mapping(columns={"episode": None, "step": None}, horizon=1)
    found = read_episodes({name: TYPED[name] for name in ("person", "ward", "drug", "points")}, known)
    assert (len(found), found.people, found.persons.tolist()) == (6, 2, [0, 0, 0, 1, 1, 1])
    once = read_episodes(TYPED, log.mapping(columns={"episode": None}))
    assert (len(once), once.people) == (2, 2)
    with pytest.raises(InvalidInput, match="horizon 1"):
        EpisodeMapping.from_dict(log.mapping(columns={"step": None}))


def test_findings_name_column_and_row_and_what_dropping_costs(tmp_path):
    rows = [["Qcarl", "Q9", *row[2:]] for row in log.ROWS[:3]] + log.ROWS
    rows[1] = [*rows[1][:3], "QELSE", *rows[1][4:]]
    rows[6] = [*rows[6][:5], "Qmuch"]
    check, found = check_log(log.write(tmp_path / "log.csv", rows), log.mapping())
    assert found is None
    where = {one.reason: one for one in check.where}
    assert (where["unknown state"].column, where["unknown state"].rows) == ("ward", (2,))
    assert (where["reward is no number"].column, where["reward is no number"].rows) == ("points", (7,))
    assert (where["unknown state"].episodes, where["unknown state"].people) == (1, 1)
    with pytest.raises(InvalidInput) as refusal:
        read_episodes(tmp_path / "log.csv", log.mapping())
    assert "points" not in str(refusal.value)


def test_declared_reasons_drop_whole_episodes_and_never_a_person(tmp_path):
    rows = [["Qcarl", "Q9", *row[2:]] for row in log.ROWS[:3]] + log.ROWS
    rows[1] = [*rows[1][:3], "QELSE", *rows[1][4:]]
    path = log.write(tmp_path / "log.csv", rows)
    check, found = check_log(path, log.mapping(drop=["unknown state"]))
    assert found is not None
    assert (len(found), found.people, found.persons.tolist()) == (2, 3, [1, 2])
    assert dict(check.notes) == {"dropped rows": 1, "dropped episodes": 1}
    learned = tacit.learn(path, log.mapping(drop=["unknown state"]), epsilon=1.0, delta=1e-6, behaviour="known")
    assert learned.request.people == 3
    short = log.write(tmp_path / "short.csv", [*log.ROWS, *rows[:2]])
    found = read_episodes(short, log.mapping(drop=["unknown state", "too short"]))
    assert (len(found), found.people) == (2, 3)


def test_a_row_that_is_written_twice_counts_once_where_declared_and_two_stories_drop_the_episode(tmp_path):
    known = log.mapping(drop=["duplicate step"])
    same = read_episodes(log.write(tmp_path / "log.csv", [*log.ROWS, log.ROWS[1]]), known)
    assert (len(same), same.lengths.tolist()) == (2, [3, 3])
    other = [*log.ROWS, [*log.ROWS[1][:5], "0.1"]]
    assert len(read_episodes(log.write(tmp_path / "log.csv", other), known)) == 1
    with pytest.raises(InvalidInput, match="duplicate step: 1"):
        read_episodes(log.write(tmp_path / "log.csv", [*log.ROWS, log.ROWS[1]]), log.mapping())


@pytest.mark.parametrize(
    "entry",
    [{"drop": ["propensities above one"]}, {"drop": "too short"}, {"steps": "time"}, {"decimal": ";"},
     {"encoding": "latin-99"}, {"missing": [" "]}],
)  # fmt: skip
def test_entries_about_the_format_are_checked(entry):
    with pytest.raises(InvalidInput):
        EpisodeMapping.from_dict(log.mapping(**entry))
