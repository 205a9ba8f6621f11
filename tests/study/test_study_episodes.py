"""Logs become trajectories by a public mapping; whatever is wrong is counted by reason and never quoted."""

from __future__ import annotations

import json

import log_tools as log
import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput, UnknownName
from tacit.study.episode_log import NOTES, REASONS
from tacit.study.episodes import check_log, data_check, read_episodes, read_people
from tacit.study.mapping import EpisodeMapping


def as_parquet(path, header, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [[row[i] for row in rows] for i in range(len(header))]
    pq.write_table(pa.table(dict(zip(header, columns, strict=True))), path)
    return path


def test_a_log_becomes_trajectories_with_scaled_rewards(tmp_path):
    found = read_episodes(log.write(tmp_path / "log.csv"), log.mapping())
    assert found.trajectories.states.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert found.trajectories.actions.tolist() == [[0, 1, 1], [0, 1, 0]]
    raw = np.array([[-0.777, 1.777, 2.777], [0.333, 0.444, 0.555]])
    np.testing.assert_allclose(found.trajectories.rewards, (raw + 1.0) / 4.0, rtol=1e-15)
    assert found.persons.tolist() == [0, 1]
    assert found.propensities is None
    assert (len(found), found.people) == (2, 2)


def test_rows_may_come_in_any_order_and_episodes_may_begin_anew_with_every_person(tmp_path):
    rows = [[*row[:1], "1", *row[2:]] for row in log.ROWS]
    first = read_episodes(log.write(tmp_path / "a.csv", rows), log.mapping())
    second = read_episodes(log.write(tmp_path / "b.csv", rows[::-1]), log.mapping())
    assert len(first) == len(second) == 2
    np.testing.assert_array_equal(first.trajectories.states, second.trajectories.states[::-1])
    np.testing.assert_array_equal(first.trajectories.rewards, second.trajectories.rewards[::-1])


def test_parquet_gives_what_csv_gives_with_texts_and_with_numbers(tmp_path):
    csv = read_episodes(log.write(tmp_path / "log.csv"), log.mapping())
    texts = as_parquet(tmp_path / "texts.parquet", log.HEADER, log.ROWS)
    typed = [[row[0], row[1], int(row[2]), row[3], row[4], float(row[5])] for row in log.ROWS]
    numbers = as_parquet(tmp_path / "numbers.parquet", log.HEADER, typed)
    for path in (texts, numbers):
        found = read_episodes(path, log.mapping())
        np.testing.assert_array_equal(found.trajectories.rewards, csv.trajectories.rewards)
        np.testing.assert_array_equal(found.trajectories.actions, csv.trajectories.actions)


def test_whole_numbers_of_a_parquet_column_of_floats_are_categories(tmp_path):
    typed = [[1.0, 2, int(row[2]), float(i % 2), row[4], 0.0] for i, row in enumerate(log.ROWS[:3])]
    plain = log.mapping(states=[{"column": "ward", "categories": ["0", "1"]}])
    found = read_episodes(as_parquet(tmp_path / "log.parquet", log.HEADER, typed), plain)
    assert found.trajectories.states.tolist() == [[0, 1, 0]]


def test_states_are_products_of_categories_and_bins(tmp_path):
    parts = [
        {"column": "ward", "categories": {"well": ["QWELL"], "sick": "QSICK"}},
        {"column": "glucose", "edges": [100, 180.5]},
    ]
    known = EpisodeMapping.from_dict(log.mapping(states=parts))
    assert known.state_names == tuple(
        f"{ward}, {bin_}"
        for ward in ("well", "sick")
        for bin_ in ("glucose < 100", "100 ≤ glucose < 180.5", "180.5 ≤ glucose")
    )
    glucose = ["99.9", "100", "180.5", "1e9", "-5", "150"]
    rows = [[*row, value] for row, value in zip(log.ROWS, glucose, strict=True)]
    found = read_episodes(log.write(tmp_path / "log.csv", rows, [*log.HEADER, "glucose"]), known)
    assert found.trajectories.states.tolist() == [[0, 4, 2], [5, 3, 1]]
    assert known.state({"ward": "QSICK", "glucose": 120.0}) == "sick, 100 ≤ glucose < 180.5"
    with pytest.raises(InvalidInput) as refusal:
        known.state({"ward": "QELSE", "glucose": 120.0})
    assert "QELSE" not in str(refusal.value)


@pytest.mark.parametrize(("own", "states"), [("gone", [0, 2, 2]), (None, [0, 0, 0]), ("sick", [0, 1, 1])])
def test_short_episodes_are_absorbed_by_the_public_rule(tmp_path, own, states):
    known = log.mapping(short={"action": "pill", "state": own, "reward": 1.0})
    check, found = check_log(log.write(tmp_path / "log.csv", log.ROWS[:1] + log.ROWS[3:]), known)
    assert found is not None
    assert found.trajectories.states[0].tolist() == states
    assert found.trajectories.actions[0].tolist() == [0, 1, 1]
    np.testing.assert_allclose(found.trajectories.rewards[0, 1:], 0.5)
    assert dict(check.notes) == {"padded": 1}
    assert found.lengths.tolist() == [1, 3]


def test_padding_has_propensity_one_and_long_episodes_are_cut_where_the_mapping_says_so(tmp_path):
    rows, header = log.with_propensity(["0.5"] * 6)
    known = log.mapping(
        columns={"propensity": "propensity"}, short={"action": "pill"}, long="cut", horizon=2, first_step=0
    )
    check, found = check_log(log.write(tmp_path / "log.csv", [*rows[:3], rows[3]], header), known)
    assert found is not None
    assert found.propensities is not None
    assert found.propensities.tolist() == [[0.5, 0.5], [0.5, 1.0]]
    assert dict(check.notes) == {"padded": 1, "cut": 1}


def test_the_first_step_may_be_one_and_the_delimiter_a_semicolon(tmp_path):
    path = tmp_path / "log.csv"
    lines = [log.HEADER, *([*row[:2], str(int(row[2]) + 1), *row[3:]] for row in log.ROWS)]
    path.write_text("\ufeff" + "\r\n".join(";".join(line) for line in lines) + "\r\n\r\n", encoding="utf-8")
    found = read_episodes(path, log.mapping(first_step=1, delimiter=";"))
    assert found.trajectories.states.tolist() == [[0, 1, 0], [1, 1, 0]]


BAD_ROWS = {
    "ragged row": [*log.ROWS[:5], log.ROWS[5][:4]],
    "no person": log.changed(4, "person", " "),
    "no episode": log.changed(4, "episode", ""),
    "bad step": log.changed(5, "step", "2.5"),
    "too long": log.changed(5, "step", "3"),
    "duplicate step": log.changed(5, "step", "1"),
    "unknown state": log.changed(2, "ward", "QELSE"),
    "unknown action": log.changed(2, "drug", "QELSE"),
    "reward is no number": log.changed(2, "points", "Qmuch"),
    "reward out of bounds": log.changed(2, "points", "3.001"),
    "missing step": log.ROWS[:4] + log.ROWS[5:],
    "too short": log.ROWS[:5],
}
MORE_BAD_ROWS = [
    ("bad step", log.changed(5, "step", "-1")),
    ("bad step", log.changed(5, "step", "inf")),
    ("bad step", log.changed(5, "step", "")),
    ("bad step", log.changed(5, "step", "1_0")),
    ("unknown state", log.changed(0, "ward", "")),
    ("unknown state", log.changed(0, "ward", "qwell")),
    ("unknown state", log.changed(0, "ward", "well")),
    ("reward is no number", log.changed(0, "points", "nan")),
    ("reward is no number", log.changed(0, "points", "")),
    ("reward is no number", log.changed(0, "points", "1_0")),
    ("reward out of bounds", log.changed(0, "points", "inf")),
    ("reward out of bounds", log.changed(0, "points", "-1.001")),
    ("missing step", log.ROWS[1:]),
]


@pytest.mark.parametrize(("reason", "rows"), [*BAD_ROWS.items(), *MORE_BAD_ROWS])
def test_a_bad_row_is_counted_by_its_reason_and_never_quoted(tmp_path, reason, rows):
    path = log.write(tmp_path / "log.csv", rows)
    check, found = check_log(path, log.mapping())
    assert found is None
    assert check.bad[reason] == 1
    # A row that cannot be placed leaves its episode short; nothing else is reported twice.
    assert set(check.bad) - {reason} <= {"too short", "missing step"}
    with pytest.raises(InvalidInput, match=reason) as refusal:
        read_episodes(path, log.mapping())
    said = str(refusal.value) + json.dumps(check.to_dict()) + repr(check) + str(check.table()) + check.line
    assert refusal.value.__cause__ is None
    assert not [value for value in log.values_of(path) if value in said]


@pytest.mark.parametrize("bad", ["0", "-0.25", "1.01", "nan", "", "Qlow"])
def test_a_propensity_is_a_number_above_zero_and_at_most_one(tmp_path, bad):
    rows, header = log.with_propensity(["0.5", "0.5", "0.5", bad, "0.5", "0.5"])
    known = log.mapping(columns={"propensity": "propensity"})
    assert dict(data_check(log.write(tmp_path / "log.csv", rows, header), known).bad) == {"bad propensity": 1}


def test_propensities_that_vary_are_noted_and_those_above_one_refused(tmp_path):
    known = log.mapping(columns={"propensity": "propensity"})
    rows, header = log.with_propensity(["0.5", "0.5", "0.5", "0.5", "0.6", "0.5"])
    check = data_check(log.write(tmp_path / "varies.csv", rows, header), known)
    assert (dict(check.bad), dict(check.notes)) == ({}, {"propensity varies": 1})
    # At step 2 in "well" the log has pill with 0.7 and none with 0.4.
    rows, header = log.with_propensity(["0.5", "0.5", "0.7", "0.5", "0.5", "0.4"])
    assert dict(data_check(log.write(tmp_path / "above.csv", rows, header), known).bad) == {"propensities above one": 1}


def test_episodes_over_the_cap_are_counted(tmp_path):
    rows = [["Qanna", str(e), *row[2:]] for e in range(4) for row in log.ROWS[:3]] + log.ROWS[3:]
    check = data_check(log.write(tmp_path / "log.csv", rows), log.mapping(), reports_per_person=3)
    assert (check.ok, dict(check.notes)) == (True, {"people over the cap": 1, "episodes over the cap": 1})
    assert (check.rows, check.episodes, check.people) == (15, 5, 2)


@pytest.mark.parametrize("column", log.HEADER)
def test_a_missing_or_doubled_column_is_named_by_the_mapping(tmp_path, column):
    header = ["Qother" if name == column else name for name in log.HEADER]
    with pytest.raises(InvalidInput, match=f"none called {column}") as refusal:
        data_check(log.write(tmp_path / "log.csv", header=header), log.mapping())
    assert "Qother" not in str(refusal.value)
    rows = [[*row, "Qtwice"] for row in log.ROWS]
    with pytest.raises(InvalidInput, match=f"several called {column}") as refusal:
        data_check(log.write(tmp_path / "twice.csv", rows, [*log.HEADER, column]), log.mapping())
    assert "Qtwice" not in str(refusal.value)


def test_files_that_are_no_log_are_refused(tmp_path):
    text = tmp_path / "log.txt"
    text.write_text("Qsecret", encoding="utf-8")
    broken = tmp_path / "log.parquet"
    broken.write_text("Qsecret", encoding="utf-8")
    empty = tmp_path / "empty.csv"
    empty.touch()
    long = tmp_path / "long.csv"
    long.write_text(",".join(log.HEADER) + "\n" + "Q" * 200_000 + ",1,2,3,4,5\n", encoding="utf-8")
    quoted = tmp_path / "quoted.csv"
    quoted.write_text(",".join(log.HEADER) + '\n"Qan"na,1,2,3,4,5\n', encoding="utf-8")
    for path in (text, broken, empty, long, quoted, log.write(tmp_path / "none.csv", []), tmp_path / "no.csv"):
        with pytest.raises(InvalidInput) as refusal:
            read_episodes(path, log.mapping())
        assert not {"Qsecret", "QQQ", "Qan"} & set(str(refusal.value).replace('"', " ").split())
        assert refusal.value.__cause__ is None


def test_bytes_that_are_no_utf8_are_refused_until_the_encoding_is_declared(tmp_path):
    path = log.write(tmp_path / "log.csv")
    path.write_bytes(path.read_bytes().replace(b"Qanna", b"Q\xe4").replace(b"Qbert", b"Q\xf6"))
    with pytest.raises(InvalidInput, match=r'declare it in the mapping, for example "encoding": "latin-1"'):
        read_episodes(path, log.mapping())
    episodes, ids = read_people(path, log.mapping(encoding="latin-1"))
    assert (episodes.people, ids) == (2, ("Q\xe4", "Q\xf6"))


def test_two_spellings_of_one_name_are_one_person(tmp_path):
    rows = [[["Zo\u00eb", "Zoe\u0308 "][i // 3], *row[1:]] for i, row in enumerate(log.ROWS)]
    assert read_episodes(log.write(tmp_path / "log.csv", rows), log.mapping()).people == 1


def test_a_collector_gets_the_ids_in_the_order_of_the_numbers(tmp_path):
    episodes, ids = read_people(log.write(tmp_path / "log.csv", log.ROWS[3:] + log.ROWS[:3]), log.mapping())
    assert ids == ("Qbert", "Qanna")
    assert episodes.lengths.tolist() == [3, 3]
    with pytest.raises(InvalidInput, match="data check") as refusal:
        read_people(log.write(tmp_path / "bad.csv", log.ROWS[:2]), log.mapping())
    assert "Qanna" not in str(refusal.value)


def test_progress_hears_of_every_row_and_large_logs_grow(tmp_path):
    rows = [["Qanna", str(e), str(h), "QWELL", "QNONE", "0"] for e in range(7000) for h in range(3)]
    heard: list[int] = []
    found = read_episodes(log.write(tmp_path / "log.csv", rows), log.mapping(), progress=heard.append)
    assert heard == [8192, 16384, 21000]
    assert (len(found), found.people) == (7000, 1)


def test_nothing_about_people_is_in_a_repr(tmp_path):
    found = read_episodes(log.write(tmp_path / "log.csv"), log.mapping())
    assert repr(found) == "Episodes(2 of 2 people)"
    assert "array" not in repr(found.trajectory(0))


BAD_MAPPINGS = {
    "no states": {"states": []},
    "states are a text": {"states": "ward"},
    "categories and edges": {"states": [{"column": "ward", "categories": ["a"], "edges": [1]}]},
    "neither": {"states": [{"column": "ward"}]},
    "one category twice": {"states": [{"column": "ward", "categories": ["a", "a"]}]},
    "one text twice": {"states": [{"column": "ward", "categories": {"a": ["x"], "b": ["x"]}}]},
    "falling edges": {"states": [{"column": "ward", "edges": [2, 1]}]},
    "infinite edge": {"states": [{"column": "ward", "edges": [1, float("inf")]}]},
    "text as edge": {"states": [{"column": "ward", "edges": ["x"]}]},
    "too few names": {"states": [{"column": "ward", "edges": [1, 2], "names": ["a", "b"]}]},
    "too many states": {"states": [{"column": c, "edges": list(range(99))} for c in "abc"]},
    "actions by edges": {"actions": {"column": "drug", "edges": [1]}},
    "no bounds": {"reward": {"column": "points"}},
    "empty bounds": {"reward": {"column": "points", "low": 1, "high": 1}},
    "NaN bound": {"reward": {"column": "points", "low": float("nan"), "high": 1}},
    "huge bounds": {"reward": {"column": "points", "low": -1e308, "high": 1e308}},
    "no horizon": {"horizon": 0},
    "huge horizon": {"horizon": 10**9},
    "horizon is half": {"horizon": 2.5},
    "unknown rule": {"short": "pad"},
    "padding without an action": {"short": {"state": "gone"}},
    "padding with an unknown action": {"short": {"action": "pil"}},
    "padding outside of the bounds": {"short": {"action": "pill", "reward": 4}},
    "unknown long": {"long": "drop"},
    "two characters": {"delimiter": ";;"},
    "unknown entry": {"horizn": 3},
    "unknown column role": {"columns": {"patient": "p"}},
    "one column for two": {"columns": {"person": "ward"}},
    "spaces": {"actions": {"column": "drug", "categories": ["a "]}},
}


@pytest.mark.parametrize("change", BAD_MAPPINGS.values(), ids=BAD_MAPPINGS)
def test_a_mapping_that_breaks_a_rule_is_refused(change):
    with pytest.raises(InvalidInput):
        EpisodeMapping.from_dict(log.mapping(**change))


def test_a_misspelt_entry_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'horizon'"):
        EpisodeMapping.from_dict(log.mapping(horizn=3))


def test_a_mapping_survives_its_file(tmp_path):
    plain = log.mapping(
        states=[
            {"column": "ward", "categories": [["b", ["B", "bb"]], ["a", ["A"]]]},
            {"column": "age", "edges": [18, 65], "names": ["young", "grown", "old"]},
        ],
        short={"action": "pill", "state": "gone"},
        columns={"person": "who", "propensity": "p"},
        long="cut",
    )
    known = EpisodeMapping.from_dict(plain)
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps(known.to_dict(), sort_keys=True), encoding="utf-8")
    assert EpisodeMapping.read(path) == known
    assert EpisodeMapping.read(path).state_names[0] == "b, young"
    toml = tmp_path / "mapping.toml"
    toml.write_text(
        'horizon = 3\nstates = [{column = "ward", categories = ["a", "b"]}]\n'
        '[actions]\ncolumn = "drug"\ncategories = ["x", "y"]\n[reward]\nlow = 0\nhigh = 1\n',
        encoding="utf-8",
    )
    assert EpisodeMapping.read(toml).reward == "reward"
    assert EpisodeMapping.read(toml).state_names == ("a", "b")


def test_a_mapping_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "mapping.json"
    for text in ("{", "[]", "3"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInput):
            EpisodeMapping.read(path)
    with pytest.raises(InvalidInput):
        EpisodeMapping.read(tmp_path / "mapping.yaml")


def test_every_reason_and_note_has_its_words_and_the_front_door_opens():
    assert all(words for words in (*REASONS.values(), *NOTES.values()))
    assert tacit.read_episodes is read_episodes
    assert tacit.data_check is data_check
    assert tacit.EpisodeMapping is EpisodeMapping
