"""From a log as people have it to a verified policy with three commands, and no cleaning but the mapping's rules."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import pytest

from tacit.cli import main
from tacit.policies.named import NamedPolicy

EPISODES, PEOPLE, H = 5_000, 3_600, 4
MAPPING = {
    "columns": {"person": "Patient ID", "episode": "visit no", "step": "seen at"},
    "states": [
        {"column": "temp.", "edges": [37.5], "names": ["normal", "fever"], "missing": "not measured"},
        {"column": "ward", "categories": {"A": ["A", "ward a"], "B": ["B"]}},
    ],
    "actions": {"column": "given", "categories": {"wait": ["wait", "none"], "pill": ["pill", "PILL"]}},
    "reward": {"column": "score", "low": 0, "high": 10},
    "horizon": H,
    "steps": "order",
    "short": {"action": "wait", "state": "gone"},
    "long": "cut",
    "missing": ["NA", "n/a", "-"],
    "drop": ["duplicate step", "reward is no number", "unknown action", "reward out of bounds"],
}
"""Everything that is declared; the two dialects add what their files are like."""
DIALECTS = {
    "commas, UTF-8": (",", "utf-8", "."),
    "semicolons and decimal commas": (";", "utf-8", ","),
    "UTF-16 with tabs": ("\t", "utf-16", "."),
}


def messy(path, delimiter, encoding, decimal):
    """Fever is helped by the pill, a normal temperature by waiting; one row in 50 has something wrong with it."""
    rng = np.random.default_rng(38)
    number = lambda value: f"{value:.1f}".replace(".", decimal)  # noqa: E731
    lines = [["clinic", "Patient ID", "visit no", "seen at", "temp.", "ward", "given", "score"]]
    who = np.concatenate([rng.permutation(PEOPLE), rng.integers(PEOPLE, size=EPISODES - PEOPLE)])  # people return
    for episode, person in enumerate(who):
        start = datetime(2025, 1, 1) + timedelta(minutes=int(rng.integers(500_000)))
        for h in range(int(rng.integers(2, H + 2))):  # too short, and one too long
            temp, ward, pill = rng.normal(37.5, 1.0), "AB"[rng.integers(2)], bool(rng.integers(2))
            score = float(rng.random() < (0.8 if pill == (temp >= 37.5) else 0.3)) * 10.0
            measured = number(temp) if rng.random() > 0.05 else str(rng.choice(["", "NA", "n/a"]))
            at = (start + timedelta(hours=6 * h)).isoformat(sep=" ", timespec="minutes")
            ward = "ward a" if ward == "A" and rng.random() < 0.3 else ward
            given = str(rng.choice(["pill", "PILL"])) if pill else str(rng.choice(["wait", "none"]))
            row = ["north", f"P-{person:05d} ", f"{episode}", at, measured, ward, given, number(score)]
            kind = rng.random()
            if kind < 0.005:
                row[7] = "unknown"
            elif kind < 0.01:
                row[6] = "other"
            elif kind < 0.012:
                row[7] = number(99.0)
            lines.append(row)
            if 0.012 < kind < 0.02:
                lines.append(list(row))  # written twice
    body = lines[1:]
    order = rng.permutation(len(body))  # rows in any order
    text = "\n".join(delimiter.join(row) for row in [lines[0], *(body[i] for i in order)])
    path.write_bytes((text + "\n").encode(encoding))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_three_commands_from_a_messy_file_to_a_verified_policy(tmp_path, capsys, dialect):
    """The pill is 0.5 of the range better or worse, told apart by 10 deviations: noise changes no answer."""
    delimiter, encoding, decimal = DIALECTS[dialect]
    log, mapping, out = tmp_path / "export.csv", tmp_path / "mapping.json", tmp_path / "learned"
    messy(log, delimiter, encoding, decimal)
    mapping.write_text(json.dumps({**MAPPING, **({"decimal": ","} if decimal == "," else {})}), encoding="utf-8")
    shared = ["learn", str(log), "--mapping", str(mapping)]
    assert main([*shared, "--check-only", "--json"]) == 0
    check = json.loads(capsys.readouterr().out)
    assert (check["ok"], check["people"]) == (True, PEOPLE)
    assert 100 < check["notes"]["dropped episodes"] < 500
    assert check["notes"]["padded"] > 1_000
    assert check["notes"]["cut"] > 1_000
    claim = ["--epsilon", "2", "--delta", "1e-6", "--behaviour", "known", "--fallback", "wait", "--stationary"]
    assert main([*shared, *claim, "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["verify", str(out)]) == 0
    assert capsys.readouterr().out.startswith("true: ")
    policy = NamedPolicy.from_json((out / "policy.json").read_text(encoding="utf-8"))
    assert policy.states == (
        "normal, A", "normal, B", "fever, A", "fever, B", "not measured, A", "not measured, B", "gone"
    )  # fmt: skip
    answers = {state: policy.act(0, state) for state in policy.states}
    assert [answers[f"{temp}, {ward}"] for temp in ("normal", "fever") for ward in "AB"] == ["wait"] * 2 + ["pill"] * 2
    assert policy.support is not None
    assert policy.support.learned[0, :4].all()
