"""The device: what it refuses, what it freezes, and what it never says."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from study_fakes import REHEARSAL, FakeDesign, Labels, bundle_of

from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.policies import DeterministicPolicy, policy_to_dict
from tacit.runs.signature import new_keys
from tacit.study.bundle import Bundle
from tacit.study.device import Device
from tacit.study.wire import Report

DESIGN = FakeDesign()
GOOD = {"states": ["s3", "s1", "s2"], "actions": ["wait", "treat"], "rewards": [0.0, 2.0]}
NOTHING = dict.fromkeys(("slot", "query", "channel", "target", "least"))


def refused(device: Device, bundle: bytes, match: str) -> None:
    before = device.kept
    with pytest.raises(InvalidInput, match=match):
        device.accept(bundle)
    assert device.kept == before


def test_a_report_is_frozen_before_it_is_returned(tmp_path):
    device = Device(tmp_path / "device", **REHEARSAL)
    device.accept(bundle_of(DESIGN))
    first = device.report(GOOD)
    assert json.loads((tmp_path / "device" / "device.json").read_text())["plain"] is not None
    assert device.report({**GOOD, "states": ["s5", "s1", "s2"]}) == first
    assert device.cover() == first
    assert Device(tmp_path / "device", **REHEARSAL).report(GOOD) == first
    again = Device(tmp_path / "device", **REHEARSAL)
    again.accept(bundle_of(DESIGN))
    assert again.report(GOOD) == first
    assert Report.parse(first).body[:4] == (3).to_bytes(4, "little")


def test_a_report_that_cannot_be_frozen_is_not_sent(tmp_path, monkeypatch):
    device = Device(tmp_path / "device", **REHEARSAL)
    device.accept(bundle_of(DESIGN))
    with monkeypatch.context() as full:
        full.setattr("os.replace", _disk_full)
        with pytest.raises(InvalidInput, match="cannot write"):
            device.report(GOOD)
    assert Device(tmp_path / "device", **REHEARSAL).kept.plain is None


def _disk_full(*_):
    raise OSError(28, "No space left on device")


def test_a_cover_report_has_the_length_of_a_real_one():
    real, cover = Device(None, **REHEARSAL), Device(None, **REHEARSAL)
    for device in (real, cover):
        device.accept(bundle_of(DESIGN))
    assert len(real.report(GOOD)) == len(cover.cover())


def test_ids_are_random():
    ids = set()
    for _ in range(5):
        device = Device(None, **REHEARSAL)
        device.accept(bundle_of(DESIGN))
        ids.add(Report.parse(device.report(GOOD)).id)
    assert len(ids) == 5


def test_what_is_refused(tmp_path):
    private, public = new_keys(tmp_path / "keys")
    stranger, _ = new_keys(tmp_path / "stranger")
    device = Device(None, key=public, cap=1.0, floor=4)
    refused(device, bundle_of(DESIGN), "pinned key")
    refused(device, bundle_of(DESIGN, key=stranger), "signature that fits")
    changed = canonical({**json.loads(bundle_of(DESIGN, key=private)), "stage": 3})
    refused(device, changed, "signature that fits")
    refused(device, canonical({**json.loads(bundle_of(DESIGN, key=private)), "more": 3}), "unknown")
    refused(Device(None, **{**REHEARSAL, "cap": 0.5}), bundle_of(DESIGN), "cap")
    refused(Device(None, **{**REHEARSAL, "floor": 5}), bundle_of(DESIGN), "floor")
    refused(device, bundle_of(FakeDesign(questions=2), key=private, question=1), "asked once")
    seen = device.accept(bundle_of(DESIGN, key=private, stage=4, head="7:" + "ab" * 32)).digest
    refused(device, bundle_of(DESIGN, key=private, stage=3, head="7:" + "ab" * 32), "below stage 4")
    refused(device, bundle_of(DESIGN, key=private, stage=4, head="7:" + "ab" * 32, name="x"), "one bundle")
    later = {"key": private, "stage": 5, "previous": seen}
    refused(device, bundle_of(DESIGN, **later, head="6:" + "ab" * 32), "go back")
    refused(device, bundle_of(DESIGN, **later, head="7:" + "cd" * 32), "go back")
    refused(device, bundle_of(DESIGN, **{**later, "previous": "11" * 32}, head="8:" + "ab" * 32), "the one before it")
    other = FakeDesign(name="another study")
    refused(device, bundle_of(other, **later, head="8:" + "ab" * 32), "one study")
    device.accept(bundle_of(DESIGN, **later, head="8:" + "cd" * 32))
    assert device.kept.stage == 5


def test_noise_that_does_not_keep_the_claim_is_refused(monkeypatch):
    loud = Labels(1, 1, 1).events()[0][0]
    monkeypatch.setattr(Labels, "events", lambda self: ((loud, 3),))
    device = Device(None, **REHEARSAL)
    refused(device, bundle_of(DESIGN), "keep the claim")
    assert device.bundle is None


@pytest.mark.parametrize("cap", [-1.0, math.nan, "much"])
def test_a_cap_is_an_epsilon(cap):
    with pytest.raises(InvalidInput):
        Device(None, **{**REHEARSAL, "cap": cap})


def test_a_device_follows_its_own_policy_of_the_mixture():
    waits = policy_to_dict(DeterministicPolicy(np.zeros((2, 40), dtype=np.int64)))
    treats = policy_to_dict(DeterministicPolicy(np.ones((2, 40), dtype=np.int64)))
    data = bundle_of(DESIGN, policies=[[waits, [1, 4]], [treats, [3, 4]]])
    drawn = []
    for seed in range(200):
        device = Device(None, **REHEARSAL, rng=np.random.default_rng(seed))
        device.accept(data)
        drawn.append(device.act(0, "s1"))
        assert {device.act(h, s) for h in range(2) for s in range(40)} == {drawn[-1]}
    # Binomial(200, 3/4): 150 ± 6.1, so five deviations
    assert abs(drawn.count("treat") - 150) < 31
    assert Bundle.parse(data).arms[0][1] == 0.25


def test_devices_of_their_own_draw_every_arm():
    waits = policy_to_dict(DeterministicPolicy(np.zeros((2, 40), dtype=np.int64)))
    treats = policy_to_dict(DeterministicPolicy(np.ones((2, 40), dtype=np.int64)))
    data = bundle_of(DESIGN, policies=[[waits, [1, 2]], [treats, [1, 2]]])
    found = set()
    for _ in range(60):
        device = Device(None, **REHEARSAL)
        device.accept(data)
        found.add(device.act(1, 39))
    assert found == {"wait", "treat"}


def test_a_killed_study_falls_back_and_sends_nothing(tmp_path):
    treats = policy_to_dict(DeterministicPolicy(np.ones((2, 40), dtype=np.int64)))
    waits = policy_to_dict(DeterministicPolicy(np.zeros((2, 40), dtype=np.int64)))
    device = Device(tmp_path / "device", **REHEARSAL)
    seen = device.accept(bundle_of(DESIGN, policies=[[treats, [1, 1]]], fallback=waits)).digest
    assert device.act(0, 0) == "treat"
    entries = {"policies": [[treats, [1, 1]]], "fallback": waits, "previous": seen}
    device.accept(bundle_of(DESIGN, stage=1, **NOTHING, kill=True, **entries))
    assert device.act(0, 0) == "wait"
    for send in (lambda: device.report(GOOD), device.cover):
        with pytest.raises(InvalidInput, match="ended"):
            send()


def test_a_stage_that_asks_nothing_is_followed_and_not_answered():
    device = Device(None, **REHEARSAL)
    device.accept(bundle_of(DESIGN, **NOTHING))
    assert device.act(0, "s1") in DESIGN.actions
    with pytest.raises(InvalidInput, match="ask something"):
        device.report(GOOD)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {**GOOD, "states": "s1 s2"},
        {**GOOD, "states": ["s1"]},
        {**GOOD, "states": ["s1"] * 4},
        {**GOOD, "actions": ["wait"]},
        {**GOOD, "actions": ["wait", "operate-on-Zoe"]},
        {**GOOD, "states": ["diagnosis-of-Zoe", "s1", "s1"]},
        {**GOOD, "rewards": [1.0]},
        {**GOOD, "rewards": ["sad-Zoe", 1.0]},
        {**GOOD, "states": [1.5, 2, 3]},
        {**GOOD, "actions": [True, 0]},
    ],
)
def test_what_is_no_trajectory_is_refused_without_a_word_about_it(wrong):
    device = Device(None, **REHEARSAL)
    device.accept(bundle_of(DESIGN))
    with pytest.raises(InvalidInput) as caught:
        device.report(wrong)
    assert "Zoe" not in str(caught.value)
    assert device.kept.plain is None


def test_numbers_are_clipped():
    device = Device(None, **REHEARSAL)
    device.accept(bundle_of(DESIGN))
    body = Report.parse(
        device.report({"states": [10**9, -3], "actions": [7, -1], "rewards": [math.nan, math.inf]})
    ).body
    assert body[:4] == (39).to_bytes(4, "little")


def test_nothing_works_before_a_bundle():
    for call in (
        lambda: Device(None, **REHEARSAL).act(0, 0),
        lambda: Device(None, **REHEARSAL).report(GOOD),
        Device(None, **REHEARSAL).cover,
    ):
        with pytest.raises(InvalidInput, match="accept"):
            call()


@pytest.mark.parametrize(("step", "state"), [(2, 0), (-1, 0), (0, "nowhere"), (0, 40), (0, -1), (0, True), (0.5, 0)])
def test_act_takes_steps_and_states_of_the_study(step, state):
    device = Device(None, **REHEARSAL)
    device.accept(bundle_of(DESIGN))
    with pytest.raises(InvalidInput):
        device.act(step, state)
