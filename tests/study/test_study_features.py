"""Studies over rows of features: equal to a simulation bit for bit, devices that take one draw, files that verify."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_fakes import REHEARSAL
from study_world import fast_directory

import tacit
from tacit.cli import main
from tacit.data.trajectories import FeatureUsers
from tacit.documents import canonical
from tacit.errors import InvalidInput, NotSupported, TacitError
from tacit.policies import policy_to_dict
from tacit.policies.feature_policy import FeaturePolicy
from tacit.randomness import SimulationNoise, seed_streams
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.record import export_policy
from tacit.study.sealed_batches import Manifest, check_sealed, require_layers, require_opened, require_seals
from tacit.study.study import Study, weighted

SPACE = tacit.Features(age=(18, 90), tired=bool, ward=["a", "b"])
ACTIONS = ("wait", "walk", "stretch")
SIZES: dict[str, Any] = {
    "features": SPACE, "actions": ACTIONS, "epsilon": 2.0, "delta": 1e-6, "stages": 3, "target": 40, "rewards": (0, 5),
}  # fmt: skip


def rows(rng: np.random.Generator, number: int) -> list[dict[str, Any]]:
    return [
        {"age": float(rng.uniform(10, 99)), "tired": bool(rng.random() < 0.5), "ward": str(rng.choice(["a", "b"]))}
        for _ in range(number)
    ]


def lots(number: int) -> Any:
    return np.arange(number) % len(ACTIONS)


def lived(policy: Any, number: int, rng: np.random.Generator) -> tuple[list[dict[str, Any]], Any, Any]:
    """Rows, actions and rewards in the log's units of people who follow a policy, a draw each."""
    people = rows(rng, number)
    x = SPACE.encode(people)
    if policy is None:
        return people, lots(number), 5.0 * rng.random(number)
    draws = np.arange(number) % len(policy.coefficients)
    taken = rng.integers(0, 3, number) if policy.uniform else policy.scores(x, draws).argmax(axis=1)
    return people, taken, 5.0 * rng.random(number)


def simulated(design: StudyDesign, seed: int) -> list[bytes]:
    """The policies of a simulation on the same channels."""
    parts, streams = design.parts(), seed_streams(seed)
    learner, noise = parts.learner, SimulationNoise(streams.noise)
    belief, secret = learner.begin(), parts.channels[0].begin_secret()
    memory, found = parts.channels[0].begin_memory(), []
    for channel in parts.channels:
        belief, plan = learner.plan(belief, streams.learner)
        found += [canonical(plain) for plain, _ in weighted(plan, 1)]
        drawn = plan.query.lots
        people, taken, rewards = lived(None if drawn else plan.policy, plan.users, streams.world)
        x = SPACE.encode(people)
        lot = taken if drawn else np.full(plan.users, -1)
        users = [FeatureUsers(x, taken, rewards / 5.0, lot).one(i) for i in range(plan.users)]
        bodies = [channel.encode(user, noise) for user in users]
        secret, payload = channel.release(secret, bodies, plan.query, noise)
        memory, released = channel.read(memory, payload, len(bodies))
        belief = learner.update(belief, released)
    belief, plan = learner.plan(belief, streams.learner)
    return [*found, canonical(policy_to_dict(learner.policy(belief, plan.policy)))]


def studied(design: StudyDesign, seed: int, place: Path) -> list[bytes]:
    """The same over files: every party starts anew from what is on the disk."""
    streams, found, person = seed_streams(seed), [], 0
    noise = SimulationNoise(streams.noise)
    Study.new(place / "study", design, seed=seed)
    Collector.new(place / "collector", design, noise="simulation")
    while True:
        study, collector = Study(place / "study"), Collector(place / "collector", source=noise)
        data = study.plan()
        bundle = Bundle.parse(data)
        if bundle["query"] is None:
            return [*found, canonical(policy_to_dict(study.policy()))]
        collector.open(data)
        policies = [policy for policy, _ in bundle.arms]
        found += [canonical(policy_to_dict(policy)) for policy in policies]
        together = None
        if not bundle.query.lots:
            together = replace(policies[0], coefficients=np.concatenate([one.coefficients for one in policies]))
        people, taken, rewards = lived(together, bundle["target"], streams.world)
        reports = []
        for i, (row, action, reward) in enumerate(zip(people, taken, rewards, strict=True)):
            device = Device(None, **REHEARSAL, noise=noise)
            device.accept(data)
            device.kept = replace(device.kept, arm=i % len(policies))
            if together is None or not together.uniform:
                assert device.act(0, row) == ACTIONS[action]
            told = {"states": [row], "actions": [ACTIONS[action]], "rewards": [float(reward)]}
            reports.append((device.report(told), f"person {person}"))
            person += 1
        assert set(collector.add_many(reports)) == {"counted"}
        collector.close()
        assert study.take(collector.release(study.head)) == "taken"


@pytest.mark.parametrize(
    ("learner", "trust"),
    [("lin-ts", "shuffle"), ("lin-ts", "central"), ("lin-ucb", "central"), ("auto", "shuffle"), ("auto", "local")],
)
def test_a_study_plans_what_a_simulation_plans(learner: str, trust: str) -> None:
    design = plan_study(learner=learner, trust=trust, **{**SIZES, **({"delta": 0.0} if trust == "local" else {})})
    with fast_directory() as folder:
        place = Path(folder)
        found = studied(design, 5, place)
        assert len(found) > len(design.channels)
        assert found == simulated(design, 5)
        for name in ("study", "collector"):
            assert tacit.verify(place / name).outcome == "true"
        written = export_policy(Study(place / "study"), place / "study" / "policy.json")
        content = json.loads(written.read_text())
        named = FeaturePolicy.from_dict(content["policy"])
        assert named.act({"age": 40, "tired": True, "ward": "a"}) in ACTIONS
        assert named.kill().probabilities({"age": 40, "tired": True, "ward": "a"}).tolist() == [[1 / 3] * 3]
        beside = tacit.verify(written)
        assert (beside.outcome, beside.kind) == ("true", "policy of a study")
        assert beside.why.startswith("its certificate is what its design gives")
        content["policy"]["features"]["norm"] = 9.0
        written.write_text(json.dumps(content))
        assert tacit.verify(written).outcome == "FALSE"


def test_a_device_takes_one_draw_and_keeps_it(tmp_path: Path) -> None:
    design = plan_study(learner="lin-ts", trust="central", **{**SIZES, "target": 4})
    study = Study.new(tmp_path / "study", design, seed=1)
    collector = Collector.new(tmp_path / "collector", design, noise="simulation", seed=2)
    first = study.plan()
    assert Bundle.parse(first)["policies"][0][0]["uniform"] is True
    collector.open(first)
    row = rows(np.random.default_rng(0), 1)[0]
    for i in range(4):
        device = Device(None, **REHEARSAL, rng=np.random.default_rng(i))
        device.accept(first)
        collector.add(device.report({"states": [row], "actions": [device.act(0, row)], "rewards": [2]}), str(i))
    collector.close()
    study.take(collector.release(study.head))
    data = study.plan()
    bundle = Bundle.parse(data)
    assert [weight.denominator for _, weight in bundle.arms] == [32] * 32
    arms, actions = set(), set()
    for seed in range(60):
        device = Device(tmp_path / f"d{seed}", **REHEARSAL, rng=np.random.default_rng(seed))
        device.accept(data)
        arms.add(device.kept.arm)
        chosen = device.act(0, row)
        again = Device(tmp_path / f"d{seed}", **REHEARSAL, rng=np.random.default_rng(99))
        assert (again.kept.arm, again.act(0, row)) == (device.kept.arm, chosen)
        best = bundle.arms[device.kept.arm][0].scores(SPACE.encode(row), np.zeros(1, dtype=int)).argmax()
        assert chosen == ACTIONS[int(best)]
        actions.add(chosen)
    assert len(arms) > 15
    assert len(actions) > 1
    study.kill()
    ended = study.plan()
    device.accept(ended)
    assert {device.act(0, row) for _ in range(60)} == set(ACTIONS)


BAD_ROWS: list[tuple[Any, str]] = [
    ({"age": 40, "tired": True}, "unknown column 'ward'"),
    ({"age": 40, "tired": True, "ward": "secret"}, "category"),
    ({"age": float("nan"), "tired": True, "ward": "a"}, "missing"),
    ({"age": "secret", "tired": True, "ward": "a"}, "numbers"),
    (3, "rows must be"),
]


@pytest.mark.parametrize(("row", "message"), BAD_ROWS)
def test_a_row_that_is_none_is_refused_without_a_word_about_it(row: Any, message: str, tmp_path: Path) -> None:
    design = plan_study(learner="lin-ts", trust="shuffle", **SIZES)
    device = Device(None, **REHEARSAL)
    device.accept(Study.new(tmp_path / "study", design, seed=1).plan())
    for call in (
        lambda: device.act(0, row),
        lambda: device.report({"states": [row], "actions": ["wait"], "rewards": [1]}),
    ):
        with pytest.raises(InvalidInput, match=message) as caught:
            call()
        assert "secret" not in str(caught.value)
    assert device.sent() == b""
    good = {"age": 1e300, "tired": True, "ward": "a"}
    report = device.report({"states": [good], "actions": [1], "rewards": [float("nan")]})
    assert len(report) == len(cover_of(design, tmp_path))


def cover_of(design: StudyDesign, place: Path) -> bytes:
    device = Device(None, **REHEARSAL)
    device.accept(Study.new(place / "other", design, seed=1).plan())
    return device.cover()


def test_messages_of_rows_are_sealed_to_the_learner() -> None:
    """The quick sibling of the services with rows: a served shuffler must not read what a device says of its row."""
    channels = plan_study(learner="lin-ts", trust="shuffle", **SIZES).parts().channels
    assert require_layers(channels, 1) == 1
    with pytest.raises(InvalidInput, match="sealed = false"):
        require_seals(channels, False)
    device, size = np.frombuffer(channels[0].encode(None, SimulationNoise(np.random.default_rng(0))), "<u2").size, 50
    check_sealed(channels[0], bytes(device * size), 1)
    opened = np.ones(channels[0].num_counters, dtype="<i8").tobytes()
    manifest = Manifest(digest=bytes(32), count=40 * device, size=size, tokens=bytes(32))
    assert require_opened(channels[0], opened, manifest) == opened


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"states": 3}, "in place of"),
    ({"horizon": 2}, "in place of"),
    ({"learner": "bucb"}, "does not learn from rows"),
    ({"actions": ("wait",)}, "two actions"),
    ({"features": {"age": (1, 2)}}, "features must be"),
    ({"loss_budget": 0.1, "baseline": "uniform"}, "baseline"),
    ({"delta": 0.0}, "never pure"),
    ({"target": 1}, "at least 2"),
    ({"features": None, "states": 2, "horizon": 1}, "learns from rows"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED)
def test_designs_that_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises((TacitError, NotSupported), match=message):
        plan_study(**{"learner": "lin-ts", "trust": "central", **SIZES, **changed})


def test_a_bundle_with_another_declaration_is_refused(tmp_path: Path) -> None:
    design = plan_study(learner="lin-ts", trust="central", **SIZES)
    assert StudyDesign.from_dict(json.loads(json.dumps(design.to_dict()))) == design
    data = Study.new(tmp_path / "study", design, seed=1).plan()
    collector = Collector.new(tmp_path / "collector", design, noise="simulation")
    changed = json.loads(data)
    changed["features"] = tacit.Features(age=(18, 91), tired=bool, ward=["a", "b"]).to_dict()
    with pytest.raises(InvalidInput, match="features of its design"):
        collector.open(canonical(changed))
    less = json.loads(data)
    del less["features"]
    with pytest.raises(InvalidInput, match=r"features|feature of its bundle"):
        Bundle.parse(canonical(less))
    short = json.loads(data)
    short["policies"][0][0]["coefficients"] = [[[0.0]] * 3]
    with pytest.raises(InvalidInput, match="coefficient for every action"):
        Bundle.parse(canonical(short))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path
    (place / "features.json").write_text(json.dumps({"age": [18, 90], "tired": "bool", "ward": ["a", "b"]}))
    args = ["--features", str(place / "features.json"), "--actions", "wait,walk,stretch", "--trust", "central",
            "--epsilon", "2", "--delta", "1e-6", "--stages", "3", "--target", "40", "--rewards", "0,5"]  # fmt: skip
    assert main(["study", "new", str(place / "S"), *args]) == 0
    assert "lin-" in capsys.readouterr().out
    assert main(["study", "plan", str(place / "S"), "--out", str(place / "b.json")]) == 0
    told = {"states": [{"age": 40, "tired": True, "ward": "b"}], "actions": ["walk"], "rewards": [3]}
    (place / "t.json").write_text(json.dumps(told))
    limits = ["--state", str(place / "D"), "--cap", "2", "--floor", "2", "--unsigned"]
    assert main(["device", "report", str(place / "b.json"), str(place / "t.json"), *limits]) == 0
    assert main(["study", "new", str(place / "T"), *args, "--horizon", "2"]) == 2
