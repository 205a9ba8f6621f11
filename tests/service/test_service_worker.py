"""The worker of a learner: every step again, killed at every edge, void stages, quarantine, the end."""

from __future__ import annotations

import shutil

import pytest
from device_tools import design_of
from worker_tools import FakeInternal, People, everything

from tacit.errors import InvalidInput
from tacit.runs.signature import new_keys
from tacit.service.encryption.keyring import Keyring
from tacit.service.worker import Worker
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.record import replayed
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload


class Exit(BaseException):
    """A process that is killed."""


class World:
    """A study, a collector and its people in a directory."""

    def __init__(self, place, trust="central", new=True):
        design = design_of(trust)
        if new:
            Study.new(place / "study", design, seed=3)
            Collector.new(place / "collector", design, noise="simulation", seed=4)
        self.place = place
        self.edges = []
        self.kill_at = None
        self.internal = FakeInternal(Collector(place / "collector"))
        self.again()

    def again(self):
        """Start the process again."""
        self.study = Study(self.place / "study", edge=self.edge)
        self.worker = Worker(self.study, self.internal.peer(), edge=self.edge)
        self.people = People(self.study, 12)

    def edge(self, name):
        self.edges.append(name)
        if self.kill_at is not None and len(self.edges) == self.kill_at:
            raise Exit

    def run(self, steps=60):
        """Until it is finished; people report whenever a stage waits for them."""
        for _ in range(steps):
            try:
                step = self.worker.step()
            except Exit:
                self.kill_at = None
                self.again()
                continue
            if step.outcome == "finished":
                return step
            if step.outcome == "waiting":
                collector = self.internal.collector
                if collector.status()["state"] == "open":
                    self.people.report(collector, self.internal.bundle)
                    collector.close()
            elif step.outcome != "moved":
                return step
        raise AssertionError("never finished")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Directories of a study that has not begun."""
    place = tmp_path_factory.mktemp("fresh")
    for trust in ("central", "local"):
        World(place / trust, trust)
    return place


def copied(fresh, place, trust="central"):
    shutil.copytree(fresh / trust, place)
    return World(place, new=False)


def test_the_loop_runs_a_study_to_its_end(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    assert world.run().word == "served"
    assert [row["state"] for row in world.study.status()["stages"]] == ["released", "released", "served"]
    assert world.worker.step().outcome == "finished"
    assert world.internal.bundle == world.study.plan()
    replayed(world.study)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_at_every_edge_it_comes_to_the_same_end(fresh, tmp_path, every):
    whole = copied(fresh, tmp_path / "whole")
    whole.run()
    expected, edges = everything(whole.study), list(whole.edges)
    named = {name for name in edges if name.split(":")[0] in ("keys", "plan", "bundle", "release", "last", "take")}
    assert {"plan:made", "bundle:handed", "release:fetched", "release:taken", "last:handed"} <= named
    assert {"take:before commit", "take:after commit", "plan:before commit", "plan:after commit"} <= named
    first = sorted({edges.index(name) + 1 for name in edges})
    for number in range(1, len(edges) + 1) if every else first:
        world = copied(fresh, tmp_path / f"killed-{number}")
        world.kill_at = number
        world.run()
        assert world.kill_at is None, number
        assert everything(world.study) == expected, (number, edges[number - 1])
        assert world.internal.collector.status()["state"] == "released"


def test_a_shuffler_that_is_down_is_waited_for(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    world.internal.down = 3
    assert [world.worker.step().outcome for _ in range(5)] == ["unreachable"] * 3 + ["moved", "waiting"]
    assert world.run().word == "served"


def test_the_bundle_is_handed_over_once_per_process(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    for _ in range(5):
        world.worker.step()
    world.again()
    for _ in range(5):
        world.worker.step()
    puts = [asked for asked in world.internal.asked if asked.startswith("PUT")]
    assert puts == ["PUT /v1/stages/0/questions/0"] * 2


@pytest.mark.parametrize("trust", ["central", "local"])
def test_a_void_stage_is_planned_again_for_other_people(fresh, tmp_path, trust):
    world = copied(fresh, tmp_path / "world", trust)
    assert world.worker.step().word == "asked"
    first = world.internal.bundle
    world.people.report(world.internal.collector, first, least=3)
    world.internal.collector.void("too few people")
    step = world.worker.step()
    assert (step.outcome, step.word) == ("moved", "void")
    assert world.study.status()["stages"][0]["reason"] == "too few people"
    world.worker.step()
    assert world.internal.bundle != first
    assert world.run().word == "served"
    assert [row["slot"] for row in world.study.status()["stages"]] == [0, 0, 1, None]
    replayed(world.study)


def test_killed_at_every_edge_of_a_void_stage(fresh, tmp_path):
    def history(place, number):
        world = copied(fresh, place)
        world.worker.step()
        world.internal.collector.void("nobody came")
        world.edges, world.kill_at = [], number
        world.run()
        return world

    whole = history(tmp_path / "whole", None)
    reached = whole.edges.index("bundle:handed") + 1
    assert "void:taken" in whole.edges[:reached]
    for number in sorted({whole.edges.index(name) + 1 for name in whole.edges[:reached]}):
        world = history(tmp_path / f"void-{number}", number)
        assert everything(world.study) == everything(whole.study), whole.edges[number - 1]


def test_an_operator_gives_a_stage_up(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    with pytest.raises(InvalidInput, match="open to be given up"):
        world.worker.give_up("no reason")
    world.worker.step()
    world.worker.give_up("a fault in the questionnaire")
    assert world.internal.collector.status()["stages"][0]["reason"] == "a fault in the questionnaire"
    assert world.study.status()["stages"][0]["state"] == "void"
    assert world.run().word == "served"


def test_giving_up_is_killed_between_the_two_parties(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    world.worker.step()
    world.edges, world.kill_at = [], 1
    with pytest.raises(Exit):
        world.worker.give_up("half way")
    assert world.edges == ["void:shuffler"]
    world.kill_at = None
    world.again()
    assert world.study.status()["stages"][0]["state"] == "open"
    assert world.worker.step().word == "void"
    assert world.run().word == "served"


def test_a_study_that_is_ended_voids_what_is_open_and_tells_everybody(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    world.worker.step()
    world.people.report(world.internal.collector, world.internal.bundle)
    world.study.kill("enough")
    step = world.worker.step()
    assert (step.outcome, step.word) == ("finished", "killed")
    assert world.internal.collector.status()["state"] == "void"
    assert b'"kill":true' in world.internal.bundle
    world.again()
    assert world.worker.step() == step


CONTRADICTS = "flow: what arrives and what leaves differ in 1 of 2 cells"


def test_a_release_that_contradicts_itself_stops_the_loop(fresh, tmp_path, monkeypatch):
    world = copied(fresh, tmp_path / "world")
    with monkeypatch.context() as poison:
        poison.setattr("tacit.study.study.broken_flow", lambda *_: CONTRADICTS)
        step = world.run()
    assert (step.outcome, step.word, step.stage) == ("held", "quarantined", 0)
    before = everything(world.study)
    world.again()
    for _ in range(3):
        assert world.worker.step().outcome == "held"
    assert everything(world.study) == before
    assert world.worker.inspected() == "taken"
    with pytest.raises(InvalidInput, match="quarantined to be inspected"):
        world.worker.inspected()
    assert world.run().word == "served"


def test_a_quarantined_stage_can_be_given_up(fresh, tmp_path, monkeypatch):
    world = copied(fresh, tmp_path / "world")
    with monkeypatch.context() as poison:
        poison.setattr("tacit.study.study.broken_flow", lambda *_: CONTRADICTS)
        world.run()
    world.worker.give_up("poisoned")
    assert world.study.status()["stages"][0]["state"] == "void"
    assert world.internal.collector.status()["state"] == "released"  # it was released, and it is paid
    assert world.run().word == "served"


def test_an_older_copy_of_the_shuffler_is_refused_and_changes_nothing(fresh, tmp_path):
    world = copied(fresh, tmp_path / "world")
    backup = tmp_path / "backup"
    while world.study.head.number == 0:
        step = world.worker.step()
        if step.outcome == "waiting":
            shutil.copytree(world.place / "collector", backup)
            world.people.report(world.internal.collector, world.internal.bundle)
            world.internal.collector.close()
    before = everything(world.study)["belief"]
    world.internal.collector = Collector(backup)
    steps = [world.worker.step() for _ in range(2)]
    assert {step.outcome for step in steps} == {"refused"}
    assert "older copy" in steps[-1].word or "must have ended" in steps[-1].word
    taken = [row for row in everything(world.study)["belief"] if row[0] == "take"]
    assert taken == [row for row in before if row[0] == "take"]


def test_an_older_copy_that_has_lost_the_open_stage_is_refused_by_the_same_process(fresh, tmp_path):
    """The worker has handed the stage over; a shuffler that does not know it any more is not waited for."""
    world = copied(fresh, tmp_path / "w")
    world.worker.step()
    older = tmp_path / "older"
    shutil.copytree(world.place / "collector", older)
    world.people.report(world.internal.collector, world.internal.bundle)
    world.internal.collector.close()
    assert [world.worker.step().word for _ in range(3)] == ["taken", "asked", "open"]
    true = world.internal.collector
    world.internal.collector = Collector(older)
    step = world.worker.step()
    assert step.outcome == "refused"
    assert "older copy" in step.word
    world.internal.collector = true
    assert world.worker.step().outcome == "waiting"


def test_a_forged_release_is_refused(fresh, tmp_path, monkeypatch):
    world = copied(fresh, tmp_path / "world")
    real = Collector.release

    def forged(self, head):
        made = ReleasePayload.parse(real(self, head))
        return ReleasePayload(
            **{**{name: getattr(made, name) for name in made.__dataclass_fields__}, "stage": 5}
        ).encode()

    with monkeypatch.context() as forge:
        forge.setattr(Collector, "release", forged)
        step = world.run()
    assert step.outcome == "refused"
    assert "open stage" in step.word
    assert world.run().word == "served"


# sealed stages


class Keys:
    """A learner's ring that rotates whenever it is told; what it opens is not looked at here."""

    def __init__(self, place, study):
        self.ring = Keyring.new(place / "ring", party="learner", study=study)
        self.sign = new_keys(place / "keys")[0]
        self.asked = 0

    def documents(self):
        self.asked += 1
        return {"learner": self.ring.document(self.sign)}

    def done(self, stage):
        pass


def sealed_world(place):
    """A sealed study that has not begun."""
    world, design = object.__new__(World), design_of("shuffle")
    world.place, world.edges, world.kill_at = place, [], None
    Study.new(place / "study", design, seed=3, sealed=1)
    world.internal = FakeInternal(Collector.new(place / "collector", design, noise="simulation", seed=4, sealed=1))
    world.again()
    world.worker.sealed = Keys(place, world.study.study)
    return world


def test_a_rotation_takes_effect_with_the_next_stage(tmp_path):
    """Whatever is rotated and restarted while a stage is open, its bundle stays; keys travel in bundles only."""
    world = sealed_world(tmp_path)
    keys, first = world.worker.sealed, world.worker.sealed.documents()
    assert world.worker.step().word == "asked"
    before = world.internal.bundle
    assert Bundle.parse(before).keys == first
    for _ in range(3):
        keys.ring.rotate(1e9, grace=60)
        world.again()
        world.worker.sealed = keys
        assert [world.worker.step().word for _ in range(2)] == ["open", "open"]
    assert (world.internal.bundle, keys.asked) == (before, 2)  # nobody is asked for keys while a stage is open
    world.internal.collector.void("another one")
    assert [world.worker.step().word for _ in range(2)] == ["void", "asked"]
    assert Bundle.parse(world.internal.bundle).keys == keys.documents() != first
    assert not [asked for asked in world.internal.asked if "keys" in asked]


def test_a_stage_that_0_8_planned_without_keys_is_planned_again(tmp_path, monkeypatch):
    world = sealed_world(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(Bundle, "require_keys", lambda bundle, layers: None)
        assert Bundle.parse(world.study.plan()).keys == {}
    steps = [world.worker.step() for _ in range(3)]
    assert [(step.word, step.stage) for step in steps] == [("void", 0), ("asked", 1), ("open", 1)]
    assert Bundle.parse(world.internal.bundle).keys == world.worker.sealed.documents()
    with pytest.raises(InvalidInput, match="must have the keys of learner for its stage, got 'none'; plan the stage"):
        Study.new(tmp_path / "other", design_of("shuffle"), sealed=1).plan()


def test_a_sealed_study_is_ended_without_its_keys(tmp_path):
    """A mixer that is down, say, does not keep a study from being ended."""
    world = sealed_world(tmp_path)
    world.worker.sealed.documents = None
    world.study.kill()
    assert world.worker.step().word == "killed"
