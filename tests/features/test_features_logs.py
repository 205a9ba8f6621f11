"""`tacit learn` from logs of features: CSV and Parquet, a policy that acts on a row, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import tacit
from tacit.accounting.ledger import Ledger
from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.study.feature_mapping import FeatureMapping, read_feature_log

MAPPING: dict[str, Any] = {
    "features": {"age": [18, 90], "tired": "bool", "ward": ["a", "b"], "shift": {"categories": [1, 2]}},
    "actions": {"column": "given", "categories": {"wait": ["W", "wait"], "walk": ["walk"]}},
    "reward": {"column": "points", "low": 0, "high": 10},
    "columns": {"person": "who"},
}
PRIVACY = ["--epsilon", "1", "--delta", "1e-6", "--behaviour", "known"]


def frame(n: int = 3000) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    tired, walk = rng.random(n) < 0.5, rng.random(n) < 0.5
    return pandas.DataFrame({
        "who": [f"p{i}" for i in range(n)], "age": rng.uniform(18, 90, n).round(1), "tired": tired,
        "ward": rng.choice(["a", "b"], n), "shift": rng.integers(1, 3, n), "given": np.where(walk, "walk", "W"),
        "points": 10.0 * (rng.random(n) < np.where(walk != tired, 0.9, 0.2)),
    })  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "map.json").write_text(json.dumps(MAPPING))
    frame().to_csv(tmp_path / "log.csv", index=False)
    return tmp_path


def test_csv_and_parquet_are_read_alike(place: Path) -> None:
    frame().to_parquet(place / "log.parquet")
    mapping = FeatureMapping.read(place / "map.json")
    assert mapping is not None
    one, other = (read_feature_log(place / f"log.{kind}", mapping) for kind in ("csv", "parquet"))
    for name in ("x", "actions", "rewards", "persons"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    space = tacit.Features(age=(18, 90), tired=bool, ward=["a", "b"], shift=[1, 2])
    assert mapping.features == space
    np.testing.assert_array_equal(one.x, space.encode(frame()))
    np.testing.assert_array_equal(one.actions, (frame()["given"] == "walk").astype(int))


def test_a_policy_is_learned_verified_and_acts_on_a_row(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = place / "out"
    args = ["learn", str(place / "log.csv"), "--mapping", str(place / "map.json"), *PRIVACY, "--fallback", "wait"]
    assert main([*args, "--check-only"]) == 0
    assert main([*args, "--dry-run"]) == 0
    capsys.readouterr()
    assert main([*args, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["holds"]
    capsys.readouterr()
    assert main([*args, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["release"] is True
    assert not out.exists()
    assert main([*args, "--out", str(out)]) == 0
    assert "tired" in capsys.readouterr().out
    assert main(["verify", str(out)]) == 0
    assert [entry.users for entry in Ledger.load(place / "log.ledger.db").entries()] == [range(3000)]
    for tired, best in ((True, "wait"), (False, "walk")):
        row = {"age": 40, "tired": tired, "ward": "a", "shift": 2}
        capsys.readouterr()
        assert main(["policy", "act", str(out / "policy.json"), "--row", json.dumps(row)]) == 0
        assert capsys.readouterr().out.strip() == best
    (place / "row.json").write_text(json.dumps(row))
    assert main(["policy", "act", str(out / "learned.json"), "--row", str(place / "row.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"action": "walk", "killed": False}
    assert main(["policy", "show", str(out / "policy.json")]) == 0
    assert "shift=2" in capsys.readouterr().out
    assert main(["policy", "act", str(out / "policy.json"), "--state", "tired"]) == 2
    assert main(["policy", "act", str(out / "policy.json"), "--row", '{"age": 4}']) == 2
    # The same people again: the budget of the ledger is spent.
    assert main([*args, "--out", str(place / "again")]) == 2
    assert not (place / "again").exists()
    again = tacit.LinearBandit.load(out)
    assert again.predict({"age": 40, "tired": False, "ward": "a", "shift": 2}).tolist() == ["walk"]
    policy = json.loads((out / "policy.json").read_text())
    policy["policy"]["coefficients"][0][0][0] += 0.5
    (out / "policy.json").write_text(json.dumps(policy))
    assert main(["verify", str(out)]) == 1
    assert main(["policy", "act", str(out / "policy.json"), "--row", json.dumps(row)]) == 2


BAD: list[tuple[str, str, Any]] = [
    ("age", "secret", "numbers"), ("age", "", "no missing values"), ("tired", "secret", "true or false"),
    ("ward", "secret", "category"), ("given", "secret", "action"), ("points", "10.5", "bounds"),
    ("points", "secret", "bounds"), ("who", "", "name a person"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "message"), BAD)
def test_a_bad_row_refuses_the_log_and_is_not_quoted(
    place: Path, capsys: pytest.CaptureFixture[str], column: str, value: str, message: str
) -> None:
    rows = frame(20).astype(str)
    rows.loc[3, column] = value
    rows.to_csv(place / "log.csv", index=False)
    args = ["learn", str(place / "log.csv"), "--mapping", str(place / "map.json"), *PRIVACY]
    assert main([*args, "--out", str(place / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "secret" not in said
    assert sorted(path.name for path in place.iterdir()) == ["log.csv", "map.json"]


def test_mappings_that_are_refused() -> None:
    bad: list[tuple[str, Any]] = [
        ("features", {"age": [90, 18]}), ("features", {"age": "number"}), ("features", {}), ("states", []),
        ("actions", {"column": "given", "edges": [1]}), ("reward", {"low": 0}), ("columns", {"step": "s"}),
        ("decimal", ";"), ("columns", {"person": "age"}),
    ]  # fmt: skip
    for name, value in bad:
        with pytest.raises(InvalidInput):
            FeatureMapping.from_dict({**MAPPING, name: value})
