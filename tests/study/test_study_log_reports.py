"""Logs for collectors: under central trust an episode becomes a report; elsewhere, or if anything is wrong, nothing."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from tacit.cli import main
from tacit.errors import InvalidInput, PrivacyViolation
from tacit.policies import uniform_policy
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.episodes import design_mapping, log_reports
from tacit.study.record import export_policy
from tacit.study.study import Study
from tacit.study.wire import Report

LEARNERS = {"central": "ucbvi", "shuffle": "bucb", "local": "ucbvi"}
STATES, ACTIONS, H, PEOPLE = ("Qwell", "Qsick"), ("Qwait", "Qpill"), 3, 20


def design_of(trust="central"):
    return plan_study(
        states=STATES, actions=ACTIONS, horizon=H, learner=LEARNERS[trust], trust=trust, epsilon=1.0, delta=1e-5,
        stages=2, target=PEOPLE if trust == "central" else 600, rewards=(-1.0, 3.0),
    )  # fmt: skip


def write_log(path, policy, *, people=PEOPLE, rows=None, seed=0):
    """People who follow a policy; rewards are tokens with digits that no message has."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "episode", "step", "state", "action", "reward"])
        if rows is not None:
            writer.writerows(rows)
            return path
        table = policy.probabilities(len(ACTIONS))
        for i in range(people):
            for h in range(H):
                s = int(rng.integers(2))
                a = int(rng.choice(2, p=table[h, s]))
                writer.writerow([f"Qperson{i}", 0, h, STATES[s], ACTIONS[a], "0.7373"])
    return path


@pytest.fixture
def parties(tmp_path):
    design = design_of()
    study = Study.new(tmp_path / "study", design, seed=1)
    collector = Collector.new(tmp_path / "collector", design)
    bundle = study.plan()
    collector.open(bundle)
    return study, collector, Bundle.parse(bundle)


def test_a_log_is_collected_released_taken_and_its_policy_shown(parties, tmp_path, capsys):
    study, collector, bundle = parties
    path = write_log(tmp_path / "log.csv", bundle.arms[0][0])
    assert set(collector.add_many(log_reports(collector, path))) == {"counted"}
    assert collector.close() == PEOPLE
    study.take(collector.release(study.head))
    exported = export_policy(study, tmp_path / "policy.json")
    assert main(["policy", "show", str(exported), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (tuple(shown["states"]), tuple(shown["actions"]), shown["horizon"]) == (STATES, ACTIONS, H)
    assert main(["policy", "act", str(exported), "--step", "0", "--state", "Qsick"]) == 0
    assert capsys.readouterr().out.strip() in ACTIONS


def test_reports_are_those_of_the_episodes(parties, tmp_path):
    _, collector, bundle = parties
    path = write_log(tmp_path / "log.csv", bundle.arms[0][0])
    made = list(log_reports(collector, path))
    assert [person for _, person in made] == [f"Qperson{i}" for i in range(PEOPLE)]
    channel = collector.channels[0]
    decoded = channel.body.decode([Report.parse(data).body for data, _ in made])
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [STATES[s] for s in decoded.states[:, :H].ravel()] == [row["state"] for row in rows]
    assert [ACTIONS[a] for a in decoded.actions.ravel()] == [row["action"] for row in rows]
    assert np.abs(decoded.levels / channel.levels - (0.7373 + 1.0) / 4.0).max() < 1.0 / channel.levels
    assert len({Report.parse(data).id for data, _ in made}) == PEOPLE


def test_the_command_adds_a_log_once_however_often_it_is_asked(parties, tmp_path, capsys):
    _, collector, bundle = parties
    path = write_log(tmp_path / "log.csv", bundle.arms[0][0])
    command = ["collect", "add", str(tmp_path / "collector"), str(path), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == {"counted": PEOPLE, "again": 0, "refused": {}}
    assert main(command) == 2
    assert json.loads(capsys.readouterr().out)["refused"] == {"twice": PEOPLE}
    assert collector.status()["stages"][0]["reports"] == PEOPLE


def test_a_person_with_two_episodes_is_counted_once(parties, tmp_path):
    _, collector, bundle = parties
    path = write_log(tmp_path / "log.csv", bundle.arms[0][0], people=2)
    text = path.read_text(encoding="utf-8").replace("Qperson1,0", "Qperson0,1")
    path.write_text(text, encoding="utf-8")
    assert sorted(collector.add_many(log_reports(collector, path))) == ["counted", "twice"]


@pytest.mark.parametrize("trust", ["shuffle", "local"])
def test_collectors_who_must_not_see_trajectories_refuse_logs(tmp_path, capsys, trust):
    design = design_of(trust)
    study, collector = Study.new(tmp_path / "study", design, seed=1), Collector.new(tmp_path / "collector", design)
    collector.open(study.plan())
    path = write_log(tmp_path / "log.csv", uniform_policy(H, 2, 2))
    with pytest.raises(PrivacyViolation, match=f"under {trust} trust"):
        log_reports(collector, path)
    assert main(["collect", "add", str(tmp_path / "collector"), str(path)]) == 2
    shown = capsys.readouterr()
    assert "tacit device report" in shown.err
    assert "Q" not in shown.out + shown.err
    assert collector.status()["stages"][0]["reports"] == 0


def good_rows(bundle):
    table = bundle.arms[0][0].probabilities(2)
    return [["Qanna", "0", str(h), "Qwell", ACTIONS[int(table[h, 0].argmax())], "0.7373"] for h in range(H)]


def changed(bundle, column, value):
    rows = good_rows(bundle)
    rows[1][column] = value
    return rows


BAD = {
    "unknown state": lambda bundle: changed(bundle, 3, "Qelse"),
    "unknown action": lambda bundle: changed(bundle, 4, "Qelse"),
    "out of bounds": lambda bundle: changed(bundle, 5, "3.7373"),
    "too short": lambda bundle: good_rows(bundle)[:2],
    "no person": lambda bundle: changed(bundle, 0, ""),
    "a name that is too long": lambda bundle: [["Q" * 2000, *row[1:]] for row in good_rows(bundle)],
    "a name that is no text": lambda bundle: [["Q\x07", *row[1:]] for row in good_rows(bundle)],
    "no rows": lambda bundle: [],
}


@pytest.mark.parametrize("rows", BAD.values(), ids=BAD)
def test_a_bad_log_adds_nothing_and_is_not_quoted(parties, tmp_path, capsys, rows):
    _, collector, bundle = parties
    fine = write_log(tmp_path / "fine.csv", bundle.arms[0][0], rows=good_rows(bundle))
    bad = write_log(tmp_path / "bad.csv", None, rows=rows(bundle)) if rows(bundle) else tmp_path / "bad.csv"
    bad.touch()
    assert main(["collect", "add", str(tmp_path / "collector"), str(fine), str(bad)]) == 2
    shown = capsys.readouterr()
    assert not [word for word in ("Q", "7373") if word in shown.out + shown.err]
    assert collector.status()["stages"][0]["reports"] == 0


def test_actions_that_nobody_was_told_to_take_are_refused(parties, tmp_path):
    _, collector, bundle = parties
    table = np.max([policy.probabilities(2) for policy, _ in bundle.arms], axis=0)
    h, s, a = np.argwhere(table == 0.0)[0]
    told = table.argmax(axis=2)
    rows = [["Qanna", "0", str(k), STATES[s], ACTIONS[a if k == h else told[k, s]], "0"] for k in range(H)]
    with pytest.raises(InvalidInput, match="none of them takes"):
        log_reports(collector, write_log(tmp_path / "log.csv", None, rows=rows))


def test_a_mapping_must_speak_of_the_designs_world(parties, tmp_path, capsys):
    _, collector, bundle = parties
    path = write_log(tmp_path / "log.csv", bundle.arms[0][0])
    plain = design_mapping(collector.design).to_dict()
    changes = {
        "states": [{"column": "state", "categories": ["Qsick", "Qwell"]}],
        "actions": {"column": "action", "categories": ["Qpill", "Qwait"]},
        "horizon": 2,
        "reward": {"column": "reward", "low": 0, "high": 3},
    }
    for name, change in changes.items():
        with pytest.raises(InvalidInput, match=r"mapping|bounds"):
            log_reports(collector, path, {**plain, name: change})
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps(plain), encoding="utf-8")
    args = ["collect", "add", str(tmp_path / "collector"), str(path)]
    assert main([*args, "--person", "anna"]) == 2
    assert main([*args, "--mapping", str(mapping)]) == 0
    capsys.readouterr()


def test_a_stage_must_be_open(tmp_path):
    collector = Collector.new(tmp_path / "collector", design_of())
    with pytest.raises(InvalidInput, match="stage must be open"):
        log_reports(collector, write_log(tmp_path / "log.csv", uniform_policy(H, 2, 2)))
