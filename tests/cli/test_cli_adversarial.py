"""Adversarial losses from the command line: run, list, certify, and what is refused with exit code 2."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tacit.cli import main

WORLD = "layered:layers=3,states=2,actions=2"
RUN = ["run", "--environment", WORLD, "--episodes", "60", "--workers", "1", "--checkpoints", "5"]


def call(capsys, *words: str) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_private_run_says_what_stands_beside_its_regret(capsys) -> None:
    words = [
        *RUN,
        "--adversary",
        "switching",
        "--learner",
        "uc-o-reps",
        "--trust",
        "central",
        "--epsilon",
        "1",
        "--delta",
        "0",
    ]
    code, out, _ = call(capsys, *words)
    assert code == 0
    for part in (
        "uniform policy",
        "myopic policy",
        "effective support C_M",
        "0 unconverged",
        "simulation only",
        "eta 3",
    ):
        assert part in out
    code, out, _ = call(capsys, *words, "--seeds", "2", "--json")
    found = json.loads(out)
    assert (found["environment"], found["adversary"], found["learner"]) == (WORLD, "switching", "uc-o-reps")
    assert found["losses"]["simulation_only"] is True
    assert found["losses"]["unconverged"] == 0
    assert len(found["losses"]["uniform"]) == len(found["losses"]["myopic"]) == len(found["checkpoints"])
    assert found["resolved"]["settings"]["effective_support"] == found["losses"]["effective_support"] > 0.0
    assert found["certificate"]["epsilon"] == pytest.approx(1.0)


def test_bandits_choose_an_estimator_and_tables_can_be_public(capsys) -> None:
    bandit = [
        *RUN,
        "--adversary",
        "iid",
        "--learner",
        "uob-lbps",
        "--trust",
        "local",
        "--epsilon",
        "5",
        "--delta",
        "0",
        "--json",
    ]
    for estimator in ("centred", "as-written"):
        found = json.loads(call(capsys, *bandit, "--estimator", estimator)[1])
        assert found["resolved"]["settings"]["estimator"] == estimator
    assert json.loads(call(capsys, *bandit)[1])["resolved"]["settings"]["estimator"] == "centred"
    full = [
        *RUN,
        "--adversary",
        "iid",
        "--learner",
        "uc-o-reps",
        "--trust",
        "central",
        "--epsilon",
        "5",
        "--delta",
        "0",
        "--json",
    ]
    stated = [json.loads(call(capsys, *full, *more)[1]) for more in ([], ["--public-losses"])]
    families = [[family["name"] for family in found["certificate"]["families"]] for found in stated]
    assert families == [["transitions", "losses"], ["transitions"]]


def test_losses_of_your_own_come_from_a_file(capsys, tmp_path) -> None:
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).random((60, 5, 2)))
    mine = f"table:path={tmp_path / 'mine.npy'}"
    code, out, _ = call(capsys, *RUN, "--adversary", mine, "--learner", "uc-o-reps", "--json")
    assert (code, json.loads(out)["adversary"]) == (0, mine)
    np.save(tmp_path / "bad.npy", np.full((60, 5, 2), -1.0))
    code, _, err = call(capsys, *RUN, "--adversary", f"table:path={tmp_path / 'bad.npy'}", "--learner", "uc-o-reps")
    assert code == 2
    assert "lie in [0, 1]" in err


def test_lists(capsys) -> None:
    named = {row["name"]: row for row in json.loads(call(capsys, "list", "adversaries", "--json")[1])["adversaries"]}
    assert {"iid", "sinusoidal", "switching", "drift", "worst-of-two", "table"} <= set(named)
    worlds = [row["name"] for row in json.loads(call(capsys, "list", "environments", "--json")[1])["environments"]]
    assert {"layered", "layered-trap", "layered-support"} <= set(worlds)
    learners = [row["name"] for row in json.loads(call(capsys, "list", "learners", "--json")[1])["learners"]]
    assert {"uc-o-reps", "uob-lbps", "o-reps", "uob-reps"} <= set(learners)
    code, out, _ = call(capsys, "list", "adversaries")
    assert code == 0
    assert "segments=10" in out


FULL, BANDIT = ["--adversary", "iid", "--learner", "uc-o-reps"], ["--adversary", "iid", "--learner", "uob-lbps"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learner", "uc-o-reps"], "name one, for instance adversary 'switching'"),
        (["--learner", "ucbvi", "--adversary", "iid"], "an adversary belongs to the learners uc-o-reps"),
        (["--learner", "uniform", "--adversary", "iid"], "shown beside every such run"),
        (["--learner", "ucbvi"], "a layered world has no rewards"),
        (["--learner", "dp-pg"], "a layered world has no rewards"),
        (["--learner", "ucbvi", "--estimator", "centred"], "belongs to learners of adversarial losses"),
        (["--learner", "ucbvi", "--public-losses"], "belong to learners of adversarial losses"),
        ([*FULL, "--adversary", "swiching"], "did you mean 'switching'"),
        ([*FULL, "--estimator", "centred"], "only uob-lbps has a choice of estimators"),
        ([*BANDIT, "--estimator", "centered"], "did you mean 'centred'"),
        (
            [*BANDIT, "--public-losses", "--trust", "local", "--epsilon", "1", "--delta", "0"],
            "only full-information tables",
        ),
        ([*FULL, "--public-losses"], "requires a trust model"),
        ([*FULL, "--epsilon", "1"], "epsilon requires a trust model other than 'none'"),
        ([*FULL, "--trust", "central"], "needs an epsilon"),
        ([*FULL, "--trust", "shuffle", "--epsilon", "1", "--delta", "1e-6"], "central or local, not shuffle"),
        (
            [*FULL, "--trust", "central", "--epsilon", "1", "--delta", "0", "--mechanism", "kary-tree"],
            "leave kary-tree out",
        ),
        ([*FULL, "--batch", "10"], "come one by one"),
        (
            ["--adversary", "iid", "--learner", "uob-reps", "--trust", "central", "--epsilon", "1", "--delta", "0"],
            "use uob-lbps, or uob-reps:transitions=known",
        ),
        (["--adversary", "iid", "--learner", "uc-o-reps:zeta=3"], "option of learner uc-o-reps"),
        ([*FULL, "--constants", "theory", "--z", "2"], "theory constants leave nothing to choose"),
        ([*FULL, "--constants", "none"], "'theory' or 'practical'"),
    ],
)
def test_wrong_combinations_end_with_code_2(capsys, words, message) -> None:
    code, out, err = call(capsys, *RUN, *words)
    assert (code, out) == (2, "")
    assert message in err


CERTIFY = [
    "certify",
    "--states",
    "3",
    "--actions",
    "2",
    "--horizon",
    "4",
    "--episodes",
    "10000",
    "--epsilon",
    "1",
    "--delta",
    "0",
]


@pytest.mark.parametrize(
    ("trust", "feedback", "printed"),
    [
        ("central", "full", 4 / 3 + 20 / 12),
        ("central", "bandit", 2.0),
        ("local", "full", 3.0),
        ("local", "bandit", 2.0),
    ],
)
def test_certificates_of_losses(capsys, trust, feedback, printed) -> None:
    code, out, _ = call(capsys, *CERTIFY, "--trust", trust, "--feedback", feedback, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["tight"]["holds"] is True
    assert found["paper"]["certificate"]["epsilon"] == pytest.approx(printed)
    assert found["paper"]["holds"] is False
    assert found["configuration"]["pairs"] == 20
    code, out, _ = call(capsys, *CERTIFY, "--trust", trust, "--feedback", feedback)
    assert code == 0
    assert "FALSE" in out


def test_public_losses_halve_what_is_certified(capsys) -> None:
    words = [*CERTIFY, "--trust", "central", "--delta", "1e-6", "--feedback", "full", "--json"]
    stated = [json.loads(call(capsys, *words, *more)[1]) for more in ([], ["--public-losses"])]
    assert stated[1]["noise_std"]["losses"] == 0.0
    assert stated[1]["noise_std"]["transitions"] < stated[0]["noise_std"]["transitions"]
    assert call(capsys, *CERTIFY, "--trust", "central", "--public-losses")[0] == 2
    assert call(capsys, *CERTIFY, "--trust", "local", "--feedback", "ful")[0] == 2
    assert call(capsys, *CERTIFY, "--trust", "shuffle", "--delta", "1e-6", "--feedback", "full")[0] == 2
