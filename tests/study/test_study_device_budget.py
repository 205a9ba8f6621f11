"""What a device sends over a whole study: never more than the claim's unit and its person's cap, whatever happens."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import study_fakes
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from study_fakes import REHEARSAL, FakeDesign, LocalLabels, bundle_of
from study_world import fast_directory

from tacit.accounting.events import PureEvent
from tacit.cli import main
from tacit.errors import InvalidInput, PrivacyBudgetExceeded, TacitError
from tacit.study.bundle import Bundle
from tacit.study.device import DRAWN, STATE, Device, recall
from tacit.study.wire import Report

KINDS = ("test-local", "test-labels", "test-central")
LIVED = {"states": ["s1", "s2"], "actions": ["wait"], "rewards": [1.0]}


def design(kind: str, reports: int = 1) -> FakeDesign:
    return FakeDesign(kind=kind, reports=reports, states=("s1", "s2"), labels=2, horizon=1)


def bundles(kind: str, reports: int = 1, slots=range(4)) -> list[bytes]:
    """One stage after the other; each asks for its slot."""
    made, previous = [], "00" * 32
    for stage, slot in enumerate(slots):
        made.append(bundle_of(design(kind, reports), stage=stage, slot=slot, previous=previous))
        previous = Bundle.parse(made[-1]).digest
    return made


def sent(device: Device, asked: list[bytes]) -> list[bytes]:
    """What leaves when a device is asked in every one of these stages."""
    found = []
    for bundle in asked:
        device.accept(bundle)
        try:
            found.append(device.report(LIVED))
        except PrivacyBudgetExceeded:
            continue
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reports", [1, 3])
def test_no_more_messages_leave_than_the_unit_has(tmp_path, kind, reports):
    """The attack: four stages ask one person whose claim is for fewer reports."""
    limits = {"cap": float(reports), "floor": 1, "key": None}
    asked = bundles(kind, reports)
    assert len(sent(Device(tmp_path / "device", **limits), asked)) == reports
    device = Device(tmp_path / "device", **limits)
    with pytest.raises(PrivacyBudgetExceeded, match=f"at most {reports} times, got {reports} reports"):
        device.cover()
    assert device.act(0, "s1") in ("wait", "treat")
    assert len(sent(Device(None, **limits), asked)) == reports


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ["full", "late", "twice", "bad-body", "counted"])
def test_a_refused_message_counts_unless_a_trusted_collector_did_not_take_it(kind, answer):
    device = Device(None, **REHEARSAL)
    first, second, *_ = bundles(kind)
    assert sent(device, [first])
    device.end(answer, device.kept.digest)
    assert device.report(LIVED) == b""  # none is made in its place
    back = kind != "test-local" and answer in ("full", "late")
    assert len(sent(device, [second])) == back


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_that_is_asked_for_again_counts_once_where_it_is_paid_at_the_release(kind):
    device = Device(None, **REHEARSAL)
    assert len(sent(device, bundles(kind, slots=(0, 0, 0, 1)))) == (1 if kind == "test-local" else 3)


def test_all_reports_together_stay_within_the_claim(monkeypatch):
    """Each keeps the claim by itself; two of them do not."""
    monkeypatch.setattr(LocalLabels, "events", lambda self: ((PureEvent(epsilon=1.25), 1),))
    device = Device(None, cap=2.0, floor=1, key=None)
    assert len(sent(device, bundles("test-local", 2))) == 1
    with pytest.raises(PrivacyBudgetExceeded, match=r"at most epsilon 2, got 2\.5 with one more"):
        device.report(LIVED)


def test_the_claim_of_a_study_does_not_change():
    device, study = Device(None, **REHEARSAL), design("test-local").digest
    device.accept(bundles("test-local")[0])
    more = bundle_of(design("test-local", 4), stage=1, slot=1, study=study, previous=device.kept.digest)
    with pytest.raises(InvalidInput, match="claim of a study must not change"):
        device.accept(more)


def test_a_cap_that_was_lowered_holds_at_once(tmp_path):
    Device(tmp_path, **REHEARSAL).accept(bundles("test-local")[0])
    with pytest.raises(InvalidInput, match=r"at most 0\.5, the cap"):
        Device(tmp_path, cap=0.5, floor=1, key=None).report(LIVED)
    with pytest.raises(InvalidInput, match="at least 5 people"):
        Device(tmp_path, cap=1.0, floor=5, key=None).report(LIVED)


def test_a_delta_that_a_learner_allows_itself_is_refused(monkeypatch):
    """A claim may say that its delta is large: then an epsilon below the cap says nothing."""
    made = study_fakes.claim_for

    def large(trust: str, reports: int):
        return replace(made(trust, reports), delta=0.9, allow_large_delta=True)

    monkeypatch.setattr(study_fakes, "claim_for", large)
    device = Device(None, **REHEARSAL)
    with pytest.raises(InvalidInput, match=r"delta must be at most 0\.001 for a device, got 0\.9"):
        device.accept(bundles("test-labels")[0])
    assert device.bundle is None


@pytest.mark.parametrize("missing", ["cap", "floor", "key"])
def test_limits_have_no_default(missing):
    given = {name: limit for name, limit in REHEARSAL.items() if name != missing}
    with pytest.raises(InvalidInput, match=f"cap, floor and key, got 'no {missing}'; give the largest epsilon"):
        Device(None, **given)


# the state on the disk


def test_an_older_copy_of_the_state_is_refused(tmp_path):
    device, (first, second, *_) = Device(tmp_path, **REHEARSAL), bundles("test-local", 2)
    device.accept(first)
    older = (tmp_path / STATE).read_bytes()
    one = device.report(LIVED)
    newest = (tmp_path / STATE).read_bytes()
    (tmp_path / STATE).write_bytes(older)
    for use in (lambda: Device(tmp_path, **REHEARSAL), lambda: device.accept(second), device.cover):
        with pytest.raises(InvalidInput, match="all 1 reports that were drawn, got 0; this is an older copy"):
            use()
    (tmp_path / STATE).unlink()
    with pytest.raises(InvalidInput, match="older copy"):
        Device(tmp_path, **REHEARSAL)
    (tmp_path / STATE).write_bytes(newest)
    assert Device(tmp_path, **REHEARSAL).report(LIVED) == one


def test_a_state_that_was_kept_counted_before_a_crash_is_counted_after_it(tmp_path, monkeypatch):
    """Between the two files: the frozen report leaves after the restart, and the file beside it has grown by then."""
    device = Device(tmp_path, **REHEARSAL)
    device.accept(bundles("test-local")[0])
    write = os.write

    def crash(handle, data):
        if set(data) == {ord(".")}:
            raise KeyboardInterrupt
        return write(handle, data)

    with monkeypatch.context() as patched:
        patched.setattr("os.write", crash)
        with pytest.raises(KeyboardInterrupt):
            device.report(LIVED)
    assert (recall(tmp_path).drawn, (tmp_path / DRAWN).stat().st_size) == (1, 0)
    again = Device(tmp_path, **REHEARSAL)
    assert again.report(LIVED) == again.sent() != b""
    assert (tmp_path / DRAWN).stat().st_size == 1


def test_states_of_other_versions_are_refused(tmp_path):
    for text in ('{"version": 1}', '{"report": null, "stage": 0}', "{}"):
        (tmp_path / STATE).write_text(text)
        with pytest.raises(InvalidInput, match="as this version of tacit writes it"):
            Device(tmp_path, **REHEARSAL)


def test_a_state_is_read_as_it_was_written_and_does_not_show_itself(tmp_path):
    device = Device(tmp_path, **REHEARSAL)
    assert sent(device, bundles("test-central", 2, slots=(0, 1)))
    assert recall(tmp_path) == device.kept
    assert "plain" not in repr(device.kept)
    assert len(device.kept.left) == 2


def test_what_a_device_keeps_is_for_its_owner_only(tmp_path, monkeypatch):
    """Also in a directory that was there before, under the widest umask, and at every moment."""
    before, modes, replace = os.umask(0), [], os.replace

    def seen(source, target):
        modes.append(stat.S_IMODE(os.stat(source).st_mode))
        replace(source, target)

    monkeypatch.setattr("os.replace", seen)
    try:
        old, new = tmp_path / "old", tmp_path / "new"
        old.mkdir(mode=0o755)
        asked = bundles("test-central")[0]
        (tmp_path / "bundle.json").write_bytes(asked)
        (tmp_path / "lived.json").write_text(json.dumps(LIVED))
        for place in (old, new):
            words = ["device", "report", "bundle.json", "lived.json", "--state", str(place), "--out", f"{place}.tcr"]
            words = [str(tmp_path / word) if word.endswith(".json") else word for word in words]
            assert main([*words, "--cap", "1", "--floor", "1", "--unsigned"]) == 0
        assert stat.S_IMODE(new.stat().st_mode) == 0o700
        files = [*old.iterdir(), *new.iterdir(), *tmp_path.glob("*.tcr")]
        assert len(files) == 6
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600} == set(modes)
        (old / STATE).chmod(0o644)
        (tmp_path / "old.tcr").chmod(0o644)
        Device(old, **REHEARSAL)
        assert stat.S_IMODE((old / STATE).stat().st_mode) == 0o600
        assert main([*words[:5], str(old), "--out", str(tmp_path / "old.tcr"), "--cap", "1", "--floor", "1",
                     "--unsigned"]) == 0  # fmt: skip
        assert stat.S_IMODE((tmp_path / "old.tcr").stat().st_mode) == 0o600
    finally:
        os.umask(before)


CHILD = """
import sys
import study_fakes
from tacit.study.device import Device
study_fakes.register()
device = Device(sys.argv[1], **study_fakes.REHEARSAL)
print("ready", flush=True)
sys.stdout.write(device.cover().hex())
"""


def test_two_processes_on_one_directory_draw_one_report(tmp_path):
    device = Device(tmp_path, **REHEARSAL)
    device.accept(bundles("test-local")[0])
    folders = [Path(__file__).parents[1] / "reference", Path(__file__).parents[2] / "src"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    with (tmp_path / DRAWN).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = [sys.executable, "-c", CHILD, str(tmp_path)]
        children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
        for child in children:  # both have seen that nothing was drawn
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
    found = [child.communicate(timeout=60)[0] for child in children]
    assert found[0] == found[1] == device.cover().hex() != ""
    assert (device.kept.drawn, (tmp_path / DRAWN).stat().st_size) == (1, 1)


# every history


@cache
def _asked(kind: str, reports: int) -> list[bytes]:
    return bundles(kind, reports, range(8))


@settings(max_examples=150, stateful_step_count=25)
class Histories(RuleBasedStateMachine):
    """A person's directory under two processes that restart, crash, are refused and get older copies of the state."""

    @initialize(kind=st.sampled_from(KINDS), reports=st.integers(1, 2))
    def begin(self, kind, reports):
        self.home = fast_directory()
        self.place = Path(self.home.name) / "device"
        self.kind, self.reports, self.copies = kind, reports, []
        self.asked = _asked(kind, reports)
        self.stage, self.left, self.back = 0, {}, set()
        self.limits = {"cap": float(self.reports), "floor": 1, "key": None}
        self.devices = [Device(self.place, **self.limits) for _ in range(2)]
        for device in self.devices:
            device.accept(self.asked[0])

    def teardown(self):
        if hasattr(self, "home"):
            self.home.cleanup()

    def tried(self, use):
        try:
            return use()
        except (TacitError, KeyboardInterrupt):
            return b""

    @rule(who=st.integers(0, 1))
    def restart(self, who):
        self.tried(lambda: self.devices.__setitem__(who, Device(self.place, **self.limits)))

    @rule(who=st.integers(0, 1), further=st.integers(0, 2))
    def follow(self, who, further):
        self.stage = min(self.stage + further, len(self.asked) - 1)
        self.tried(lambda: self.devices[who].accept(self.asked[self.stage]))

    @rule(who=st.integers(0, 1), cover=st.booleans())
    def report(self, who, cover):
        device = self.devices[who]
        made = self.tried(device.cover if cover else lambda: device.report(LIVED))
        if made:
            self.left.setdefault(Report.parse(made).stage, set()).add(made)

    @rule(who=st.integers(0, 1), edge=st.sampled_from(["os.replace", "os.fsync", "os.write"]))
    def crash_while_reporting(self, who, edge):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(edge, _crash)
            self.report(who, cover=True)

    @rule(who=st.integers(0, 1), answer=st.sampled_from(["counted", "full", "late", "used-up"]))
    def answered(self, who, answer):
        device = self.devices[who]
        if device.sent():
            stage = device.kept.stage
            self.tried(lambda: device.end(answer, device.kept.digest))
            if answer in ("full", "late") and self.kind != "test-local":
                self.back.add(stage)

    @rule(data=st.data())
    def restore(self, data):
        (self.place / STATE).write_bytes(data.draw(st.sampled_from(self.copies)))

    @invariant()
    def within_the_claim(self):
        if not hasattr(self, "left"):
            return
        found = (self.place / STATE).read_bytes()
        self.copies += [] if found in self.copies else [found]
        assert all(len(messages) == 1 for messages in self.left.values())
        counted = [stage for stage in self.left if stage not in self.back]
        assert len(counted) <= self.reports


def _crash(*_, **__):
    raise KeyboardInterrupt


TestHistories = Histories.TestCase


def test_a_copy_of_the_whole_directory_is_the_stated_limit(tmp_path):
    """Nothing on this disk tells the two apart; where there is an issuer, it refuses the second token."""
    device, (first, *_) = Device(tmp_path / "one", **REHEARSAL), bundles("test-local")
    device.accept(first)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert device.cover() != Device(tmp_path / "two", **REHEARSAL).cover()
