"""Whole studies with declarations and all other options: over files, from logs, and by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from study_fakes import REHEARSAL
from study_world import fast_directory

from tacit.cli import main
from tacit.data.trajectories import Trajectory
from tacit.environments.registry import make
from tacit.errors import InvalidInput
from tacit.policies.named import NamedPolicy
from tacit.randomness import SimulationNoise
from tacit.runs.signature import new_keys
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.episodes import log_reports
from tacit.study.record import export_policy, replayed
from tacit.study.stage_summaries import readings
from tacit.study.study import Study
from tacit.study.verify import verify_policy

STATES, ACTIONS, H = ("up", "mid", "down"), ("drift", "swim"), 3
RIVER = make("riverswim:states=3,horizon=3").support
SEES = {"up": "far", "mid": "far", "down": "near"}
SIZES = {"states": STATES, "actions": ACTIONS, "horizon": H, "stages": 2, "target": 12, "least": 8}
BUDGET = {"epsilon": 8.0, "delta": 1e-3}


def planned(trust="shuffle", learner="bucb", **more):
    return plan_study(**{**SIZES, **BUDGET, "learner": learner, "trust": trust, **more})


def lived(device, rng, support=RIVER):
    """A life within the support, by what the device says."""
    s = int(rng.choice(np.flatnonzero(support.starts)))
    found = {"states": [STATES[s]], "actions": [], "rewards": []}
    for h in range(H):
        action = device.act(h, STATES[s])
        found["actions"].append(action)
        found["rewards"].append(float(rng.integers(2)))
        s = int(rng.choice(np.flatnonzero(support.moves[min(h, len(support.moves) - 1), s, ACTIONS.index(action)])))
        found["states"].append(STATES[s])
    return found


PRODUCTS = [
    ("central", {"support": RIVER}, {"reports_per_person": 2}),
    ("central", {"support": RIVER, "sees": SEES}, {"ladder": (8, 10)}),
    ("shuffle", {"support": RIVER, "sees": SEES}, {"reports_per_person": 2, "ladder": (8, 10)}),
    ("shuffle", {"support": RIVER}, {"honest_fraction": 0.75, "learner": "bucb:share_across_steps=true"}),
]


@pytest.mark.parametrize(("trust", "declared", "more"), PRODUCTS)
def test_returning_people_covers_and_ladders_with_declarations(trust, declared, more, tmp_path):
    """Secure noise, cover reports, somebody who stays away; everything is taken, replayed and verified."""
    design = planned(trust, **declared, **more)
    rng = np.random.default_rng(7)
    with fast_directory() as folder:
        study = Study.new(Path(folder) / "study", design, seed=1)
        collector = Collector.new(Path(folder) / "collector", design)
        for stage in range(2):
            bundle = study.plan()
            collector.open(bundle)
            reports = []
            for number in range(11):
                device = Device(None, **REHEARSAL)
                device.accept(bundle)
                report = device.cover() if number == 3 else device.report(lived(device, rng))
                reports.append((report, f"person {number + (0 if design.unit.reports > 1 else 100 * stage)}"))
            assert len({len(report) for report, _ in reports}) == 1
            assert set(collector.add_many(reports)) == {"counted"}
            assert collector.close() == (10 if design.ladder else 11)
            assert study.take(collector.release(study.head)) == "taken"
        study.plan()
        assert replayed(study) > 4
        collector.verify(study.head)
        assert study.certificate().holds
        read = readings(study)
        assert all(one.returned.noise_std > 0.0 and len(one.flow) == 3 for one in read)
        assert study.status()["declared"] == collector.status()["declared"] == design.declarations
        file = export_policy(study, tmp_path / "policy.json")
        assert verify_policy(file).outcome == "not verified", "nothing in it shows that its noise was secure"
        private, public = new_keys(tmp_path / "keys")
        assert verify_policy(export_policy(study, tmp_path / "signed.json", private), key=public).true
        named = NamedPolicy.from_dict(json.loads(file.read_text())["policy"])
    assert named.states == STATES
    if "sees" in declared:
        assert all(named.act(h, "up") == named.act(h, "mid") for h in range(H))


def test_the_noise_of_a_return_is_that_of_the_counters_that_earn():
    design = planned("central", support=RIVER)
    with fast_directory() as folder:
        study = Study.new(Path(folder) / "study", design, seed=1)
        collector = Collector.new(Path(folder) / "collector", design)
        bundle = study.plan()
        collector.open(bundle)
        device = [Device(None, **REHEARSAL) for _ in range(8)]
        for number, one in enumerate(device):
            one.accept(bundle)
            collector.add(one.cover(), str(number))
        collector.close()
        study.take(collector.release(study.head))
        (read,) = readings(study)
    std = design.parts().channels[0].std
    assert read.returned.noise_std == pytest.approx(std * len(RIVER.released.ones) ** 0.5 / 8)


def test_a_false_declaration_is_quarantined_and_costs_no_privacy():
    """People who do what cannot be are counted by nobody; the certificate does not know who they are."""
    false = {"moves": {"up": ["up"]}, "starts": ["up"]}
    design = planned("central", support=false, target=600, least=500, epsilon=8.0)
    rng = np.random.default_rng(0)
    with fast_directory() as folder:
        study = Study.new(Path(folder) / "study", design, seed=1)
        collector = Collector.new(Path(folder) / "collector", design)
        bundle = study.plan()
        channel, parsed = collector.channels[0], Bundle.parse(bundle)
        collector.open(bundle)
        device = Device(None, **REHEARSAL)
        device.accept(bundle)
        head = device.cover()[: -channel.body_size - 16]
        reports = []
        for number in range(600):
            walk = Trajectory(np.array([0, 1, 2, 2]), rng.integers(0, 2, 3), np.ones(3))
            body = channel.encode(walk, SimulationNoise(rng))
            reports.append((head + number.to_bytes(16, "little") + body, str(number)))
        assert parsed.sees is None
        assert set(collector.add_many(reports)) == {"counted"}
        collector.close()
        assert study.take(collector.release(study.head)) == "quarantined"
        assert "declared support" in study.status()["quarantined"][0][2]
        assert collector.certificate().holds


def test_a_log_is_seen_through_features_and_must_agree_with_the_support(tmp_path):
    design = planned("central", support=RIVER, sees=SEES, rewards=(0.0, 1.0))
    with fast_directory() as folder:
        study = Study.new(Path(folder) / "study", design, seed=1)
        collector = Collector.new(Path(folder) / "collector", design)
        collector.open(study.plan())
        path = tmp_path / "log.csv"
        head = "person,episode,step,state,action,reward\n"
        good = "".join(f"p{i},0,{h},{s},swim,0.5\n" for i in range(8) for h, s in enumerate(("up", "mid", "down")))
        path.write_text(head + good)
        made = list(log_reports(collector, path))
        channel = collector.channels[0]
        decoded = channel.body.decode([report[-channel.body_size :] for report, _ in made])
        assert decoded.states[:, :3].tolist() == [[0, 0, 1]] * 8
        path.write_text(head + good + "".join(f"q,0,{h},{s},drift,0\n" for h, s in enumerate(("down", "up", "up"))))
        with pytest.raises(InvalidInput, match="1 episodes"):
            log_reports(collector, path)


# the command line


def test_the_command_line_declares_by_files(tmp_path, capsys):
    support, sees = tmp_path / "support.json", tmp_path / "sees.json"
    support.write_text(json.dumps({"moves": {"up": {"drift": ["up"]}}, "starts": ["up"]}))
    sees.write_text(json.dumps(SEES))
    common = ["--states", "up,mid,down", "--actions", "drift,swim", "--horizon", 3, "--trust", "central",
              "--epsilon", 2, "--delta", 1e-6, "--stages", 2, "--target", 50, "--learner", "bucb"]  # fmt: skip

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    code, out, err = run("study", "new", tmp_path / "S", *common, "--support", support, "--sees", sees)
    assert (code, err) == (0, "")
    assert "counters can move" in out
    assert "2 features of 3 states (far, near)" in out
    assert "2 features of 3 states" in run("study", "status", tmp_path / "S")[1]
    assert run("collect", "new", tmp_path / "C", "--design", tmp_path / "S" / "design.json")[0] == 0
    assert "counters can move" in run("collect", "status", tmp_path / "C")[1]
    sees.write_text(json.dumps({"up": "far"}))
    code, _, err = run("study", "new", tmp_path / "T", *common, "--sees", sees)
    assert code == 2
    assert "none for mid" in err
    sees.write_text("{")
    assert run("study", "new", tmp_path / "T", *common, "--sees", sees)[0] == 2
    design = tmp_path / "S" / "design.json"
    assert run("study", "new", tmp_path / "T", "--design", design, "--support", support)[0] == 2
    assert not (tmp_path / "T").exists()
