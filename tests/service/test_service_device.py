"""Devices over HTTP: what they refuse, what they freeze before it leaves, and how they try again."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace

import httpx
import numpy as np
import pytest
from device_tools import LIVED, NOW, FakeShuffler, problem
from token_tools import HandMade

from tacit.documents import canonical
from tacit.errors import InvalidInput, PrivacyBudgetExceeded
from tacit.randomness import SimulationNoise
from tacit.runs.signature import new_keys, sign
from tacit.service.device import WAITING, PinnedKeys, RemoteDevice
from tacit.service.encryption.envelope import open_envelope
from tacit.service.encryption.hpke import inner_info, mixer_info
from tacit.service.encryption.keyring import Keyring
from tacit.service.http_client import FINAL, Backoff, understood
from tacit.study.bundle import Bundle
from tacit.study.device import STATE
from tacit.study.wire import Report

TRUSTS = ("central", "shuffle", "local")


@pytest.fixture
def shuffler_of(tmp_path):
    return lambda trust: FakeShuffler(tmp_path / trust, trust)


def seeded(seed: int = 3) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def reported(device: RemoteDevice) -> RemoteDevice:
    device.refresh()
    device.report(LIVED)
    return device


# sending


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_report_goes_through_in_every_trust_model(shuffler_of, tmp_path, trust):
    shuffler = shuffler_of(trust)
    device = shuffler.device(tmp_path / "device", noise=seeded())
    bundle = device.refresh()
    assert bundle.claim.trust == trust
    assert device.act(0, "low") in ("wait", "act")
    device.report(LIVED)
    assert device.send() == "counted" == device.answer
    (sent,) = shuffler.reports
    plain = bundle.channel.encode(_trajectory(bundle), seeded())
    body = Report.parse(sent).body
    if trust == "shuffle":
        ring = shuffler.rings["learner"]
        opener = ring.secrets(NOW)[ring.active].opener(inner_info(shuffler.digest, 0, ring.active))
        labels = [opener(body[start : start + 50]) for start in range(0, len(body), 50)]
        assert b"".join(sorted(labels, key=lambda one: int.from_bytes(one, "little"))) == plain
        assert b"".join(labels) != plain  # in an order of its own
    else:
        assert body == plain


def _trajectory(bundle):
    from tacit.study.device import trajectory_from

    return trajectory_from(bundle, LIVED)


def test_what_was_answered_is_not_sent_again_and_leaves_the_disk(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    assert device.send() == "counted"
    assert device.send() == "counted"
    device.report(LIVED)
    device.cover()
    assert shuffler.device(tmp_path / "device").send() == "counted"
    assert len(shuffler.envelopes) == 1
    kept = json.loads((tmp_path / "device" / STATE).read_text())
    assert (kept["plain"], kept["report"], kept["envelope"], kept["answer"]) == ("", "", "", "counted")


FAULTS = {
    "overloaded": lambda: problem(429, "overloaded", retry_after="7"),
    "draining": lambda: problem(503, "draining", retry_after="7"),
    "not open": lambda: problem(409, "not-open", retry_after="7"),
    "timeout": lambda: problem(408, "timeout", retry_after="7"),
    "fault over there": lambda: problem(500, "internal", retry_after="7"),
    "a page in between": lambda: httpx.Response(403, text="<html>log in first</html>", headers={"retry-after": "7"}),
    "a page that says yes": lambda: httpx.Response(200, text="<html>welcome</html>"),
    "connection refused": lambda: "lost",
    "no answer": lambda: "slow",
    "answer lost": lambda: "answer lost",
}


def test_the_same_bytes_are_tried_again(shuffler_of):
    shuffler = shuffler_of("central")
    for name, fault in FAULTS.items():
        device = reported(shuffler.device(None, name=name))
        frozen = device.kept.envelope
        shuffler.faults, shuffler.envelopes = [fault() for _ in range(3)], []
        asked = 7.0 if "retry-after" in getattr(shuffler.faults[0], "headers", {}) else 0.0
        assert device.send() == ("again" if name == "answer lost" else "counted")
        assert shuffler.envelopes == [frozen] * 4
        # Retry-After and half of 1, 2, 4 seconds
        assert device._sleep == [asked + 0.5, asked + 1.0, asked + 2.0]


def test_a_final_refusal_is_kept_as_its_word(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    assert FINAL
    for slug in FINAL:
        device = reported(shuffler.device(tmp_path / slug))
        shuffler.faults, shuffler.envelopes = [problem(409, slug)], []
        assert device.send() == slug
        again = shuffler.device(tmp_path / slug)
        assert (again.answer, again.send()) == (slug, slug)
        assert len(shuffler.envelopes) == 1
        assert (again.kept.report, again.kept.envelope) == (b"", b"")


def test_a_stage_that_is_over_drops_the_bytes(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    shuffler.collector.void()
    assert device.send() == "late"
    assert (device.kept.envelope, device.core.sent()) == (b"", b"")
    device.report(LIVED)  # nothing is drawn in its place
    assert device.send() == "late"
    assert len(shuffler.envelopes) == 1


def test_the_next_stage_drops_what_the_last_one_left(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    frozen = device.kept.envelope
    shuffler.collector.void()
    shuffler.study.void()
    shuffler.next_stage()
    assert device.refresh()["stage"] == 1
    assert (device.kept.envelope, device.kept.stage) == (b"", 1)
    device.cover()
    assert device.kept.envelope != frozen
    assert device.send() == "counted"


def test_a_deadline_leaves_the_frozen_bytes_for_the_next_time(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    shuffler.faults = ["lost"] * 3
    assert device.send(within=1.6) == WAITING  # waits 0.5 s and 1 s, and not 2 s: the clock of the test stands still
    assert device._sleep == [0.5, 1.0]
    assert device.answer == ""
    assert device.send() == "counted"
    assert len(set(shuffler.envelopes)) == 1


# frozen before it is sent


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_crash_after_freezing_sends_the_same_bytes(shuffler_of, tmp_path, trust):
    shuffler = shuffler_of(trust)
    device = reported(shuffler.device(tmp_path / "device"))
    frozen = device.kept.envelope
    del device  # nothing was sent
    again = shuffler.device(tmp_path / "device", noise=Forbidden())
    again.report(LIVED)
    assert again.send() == "counted"
    assert shuffler.envelopes == [frozen]


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_crash_between_noise_and_seal_draws_nothing_again(shuffler_of, tmp_path, trust, monkeypatch):
    shuffler = shuffler_of(trust)
    device = shuffler.device(tmp_path / "device", noise=seeded())
    device.refresh()
    with monkeypatch.context() as crash:
        crash.setattr(RemoteDevice, "_sealed", _crash)
        with pytest.raises(KeyboardInterrupt):
            device.report(LIVED)
    drawn = Report.parse(device.core.sent())
    again = shuffler.device(tmp_path / "device", noise=Forbidden())
    again.report({**LIVED, "rewards": [1.0, 0.0]})
    assert again.send() == "counted"
    sent = Report.parse(shuffler.reports[0])
    assert sent.id == drawn.id
    assert trust == "shuffle" or sent.body == drawn.body


def _crash(*_, **__):
    raise KeyboardInterrupt


class Forbidden:
    """Noise that must not be drawn."""

    kind = "secure"

    def random_bytes(self, count):
        raise AssertionError("noise was drawn twice")


def test_nothing_is_sent_that_could_not_be_frozen(shuffler_of, tmp_path, monkeypatch):
    shuffler = shuffler_of("central")
    device = shuffler.device(tmp_path / "device")
    device.refresh()
    with monkeypatch.context() as full:
        full.setattr("os.replace", _disk_full)
        with pytest.raises(InvalidInput, match="cannot write"):
            device.report(LIVED)
        with pytest.raises(InvalidInput, match="must be frozen"):
            device.send()
    assert shuffler.envelopes == []
    device.report(LIVED)
    assert device.send() == "counted"


def _disk_full(*_):
    raise OSError(28, "No space left on device")


def test_a_crash_after_the_answer_is_answered_again(shuffler_of, tmp_path, monkeypatch):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    with monkeypatch.context() as crash:
        crash.setattr("tacit.study.device.keep", _crash)
        with pytest.raises(KeyboardInterrupt):
            device.send()
    assert shuffler.device(tmp_path / "device").send() == "again"
    assert len(set(shuffler.envelopes)) == 1


def test_cover_reports_have_the_length_of_real_ones(shuffler_of):
    for trust in TRUSTS:
        shuffler = shuffler_of(trust)
        real, cover = shuffler.device(None), shuffler.device(None)
        reported(real)
        cover.refresh()
        cover.cover()
        assert len(real.kept.envelope) == len(cover.kept.envelope)


# counted before it leaves


@pytest.mark.parametrize("word", ["full", "late", "twice"])
@pytest.mark.parametrize("trust", TRUSTS)
def test_a_refused_message_is_counted_by_the_device(shuffler_of, tmp_path, trust, word):
    """The attack: refuse what a person sends, and ask again in the next stage; the claim is for one report."""
    shuffler = shuffler_of(trust)
    device = reported(shuffler.device(tmp_path / "device"))
    shuffler.faults = [problem(409, word)]
    assert device.send() == word
    if trust != "shuffle":
        shuffler.collector.void()
    shuffler.study.void()
    shuffler.next_stage()
    again = shuffler.device(tmp_path / "device")
    assert again.refresh()["stage"] == 1
    # The same slot is asked for again: a trusted collector released nothing of the first stage. Messages have left.
    assert again.asks == (trust != "local")
    if trust == "local":
        for send in (lambda: again.report(LIVED), again.cover, again.join):
            with pytest.raises(PrivacyBudgetExceeded, match="at most 1 times"):
                send()
        assert len(shuffler.envelopes) == 1
    else:
        again.report(LIVED)
        assert again.send() == "counted"


def test_two_devices_on_one_directory_send_one_report(shuffler_of, tmp_path):
    for trust in TRUSTS:
        shuffler = shuffler_of(trust)
        one, two = (shuffler.device(tmp_path / trust / "device") for _ in range(2))
        one.refresh()
        two.refresh()
        one.report(LIVED)
        two.report({**LIVED, "rewards": [1.0, 0.0]})
        assert one.kept == two.kept
        assert (one.send(), two.send()) == ("counted", "again" if trust != "shuffle" else "counted")
        assert len(set(shuffler.envelopes)) == 1
        two.cover()
        assert two.send() == two.answer
        assert len(shuffler.envelopes) == 2


def test_an_older_copy_of_a_directory_gets_no_token(shuffler_of, tmp_path):
    """With an issuer nothing leaves a device that was restored from a backup: tokens are asked for once per stage."""
    shuffler = shuffler_of("local")
    issuer = HandMade(tmp_path / "issuer", study=shuffler.digest)
    issuer.open(0)
    asked = []

    def answer(request):
        if request.url.host == "issuer":
            asked.append(request.read())
            known = asked[-1] == asked[0]
            return httpx.Response(201, content=issuer.reply(asked[0])) if known else problem(409, "twice")
        if request.url.path == "/v1/keys/issuer":
            return httpx.Response(200, content=issuer.document)
        if request.url.path == "/v1/reports":
            shuffler.faults = [httpx.Response(201, json={"report": "counted"})]
        return shuffler.answer(request)

    pins = PinnedKeys(learner=shuffler.pins.learner, shuffler=shuffler.pins.shuffler, issuer=issuer.public)
    person = {"name": None, "credential": "secret", "issuer": "http://issuer", "pins": pins}
    person["over"] = httpx.Client(transport=httpx.MockTransport(answer))
    device = shuffler.device(tmp_path / "device", **person)
    device.refresh()
    shutil.copytree(tmp_path / "device", tmp_path / "backup")
    device.report(LIVED)
    assert device.send() == "counted"
    restored = shuffler.device(tmp_path / "backup", **person)
    restored.report(LIVED)
    assert restored.send() == "twice"
    assert (len(asked), len(shuffler.envelopes)) == (2, 1)


# keys


def test_a_rotated_key_of_the_shuffler_is_taken_up_at_once(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    first = device.kept.report
    for _ in range(3):
        shuffler.rotate("shuffler")
    assert device.send() == "counted"  # still in grace
    other = reported(shuffler.device(None, name="bob"))
    ring = shuffler.rings["shuffler"]
    for _ in range(2):
        ring.rotate(NOW, grace=0)
    ring.forget(NOW + 120)
    shuffler.documents["shuffler"] = ring.document(shuffler.signs["shuffler"])
    before = other.kept
    assert other.send() == "counted"  # unknown key: another envelope around the same report
    assert shuffler.envelopes[-2] == before.envelope != shuffler.envelopes[-1]
    assert shuffler.reports == [first, before.report]


def test_an_unknown_key_without_a_new_one_is_waited_out(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    device = reported(shuffler.device(tmp_path / "device"))
    shuffler.faults = [problem(404, "unknown-key"), problem(404, "unknown-key")]
    assert device.send() == "counted"
    assert len(set(shuffler.envelopes)) == 1
    assert len(device._sleep) == 2


def test_serials_do_not_go_back(shuffler_of, tmp_path):
    shuffler = shuffler_of("shuffle")
    old, first = dict(shuffler.documents), json.loads(shuffler.bundle)
    shuffler.rotate("learner")
    shuffler.rotate("shuffler")
    shuffler.study.void()
    shuffler.next_stage()
    device = shuffler.device(tmp_path / "device")
    device.refresh()
    good = (shuffler.bundle, dict(shuffler.documents))
    back = resigned(shuffler, stage=2, previous=device.bundle.digest, keys=first["keys"])
    for bundle, documents in ((good[0], old), (back, good[1])):
        shuffler.bundle, shuffler.documents = bundle, documents
        for one in (device, shuffler.device(tmp_path / "device")):
            before = dict(one.kept.documents)
            with pytest.raises(InvalidInput, match="serial of at least 2"):
                one.refresh()
            assert (one.kept.documents, one.bundle["stage"]) == (before, 1)
    shuffler.bundle, shuffler.documents = good
    device.refresh()


def resigned(shuffler, **changed):
    """The bundle of the stage with other entries (None: without it), signed by the learner."""
    content = {**json.loads(shuffler.bundle), **changed}
    return canonical(sign({name: x for name, x in content.items() if name != "keys" or x}, shuffler.signs["learner"]))


def test_keys_are_believed_only_from_their_own_party(shuffler_of, tmp_path):
    shuffler = shuffler_of("shuffle")
    learner = json.loads(shuffler.bundle)["keys"]["learner"]
    expired = [{**key, "state": "expired"} if key["state"] == "pending" else key for key in learner["keys"]]
    forged = sign(learner, new_keys(tmp_path / "forger")[0])
    device = shuffler.device(tmp_path / "device")
    for keys, words in (
        ({"learner": forged}, "signed"),
        ({"learner": {**learner, "keys": expired}}, "signed"),
        ({"learner": json.loads(shuffler.documents["shuffler"])}, "those of the learner"),
        ({"learner": {}}, "entries"),
        ({"learner": [learner]}, "keys must be those of learner"),
        ({"mixer": learner}, "keys must be those of learner"),
        ({"learner": learner, "mixer": learner}, "the keys of learner for its stage, got 'learner and mixer'"),
        (None, "the keys of learner for its stage, got 'none'; plan the stage with them; one that tacit 0.8 planned"),
    ):
        good, shuffler.bundle = shuffler.bundle, resigned(shuffler, keys=keys)
        with pytest.raises(InvalidInput, match=words):
            device.refresh()
        shuffler.bundle = good
        assert (device.bundle, "learner" in device.kept.documents) == (None, False)
    assert shuffler.envelopes == []
    device.refresh()


def test_a_bundle_of_0_8_that_was_accepted_before_is_not_answered(shuffler_of, monkeypatch):
    shuffler = shuffler_of("shuffle")
    old = shuffler.device(None)
    with monkeypatch.context() as before:
        before.setattr(Bundle, "require_keys", lambda bundle, layers: None)
        shuffler.bundle = resigned(shuffler, keys=None)
        old.refresh()
    with pytest.raises(InvalidInput, match="got 'none'; plan the stage with them"):
        old.report(LIVED)
    assert (old.kept.report, shuffler.envelopes) == (b"", [])


def test_with_a_pinned_mixer_its_own_key_stands_in_the_bundle(shuffler_of, tmp_path):
    """A learner that names a key of its own in the mixer's place is refused, and so is one that names none."""
    shuffler = shuffler_of("shuffle")
    sign_by, pinned = new_keys(tmp_path / "mixer")
    ring = Keyring.new(tmp_path / "ring", party="mixer", study=shuffler.digest)
    device = shuffler.device(None, pins=replace(shuffler.pins, mixer=pinned))
    learner = json.loads(shuffler.bundle)["keys"]["learner"]
    good = shuffler.bundle
    for signer, words in ((shuffler.signs["learner"], "signed by another key"), (None, "got 'learner'")):
        keys = {} if signer is None else {"mixer": json.loads(ring.document(signer))}
        shuffler.bundle = good
        shuffler.bundle = resigned(shuffler, keys={"learner": learner, **keys})
        with pytest.raises(InvalidInput, match=words):
            device.refresh()
    shuffler.bundle = resigned(shuffler, keys={"learner": learner, "mixer": json.loads(ring.document(sign_by))})
    reported(device).send()
    body = Report.parse(shuffler.reports[-1]).body
    outer = ring.secret(ring.active).opener(mixer_info(shuffler.digest, 0, ring.active))
    assert all(outer(body[start : start + 98]) is not None for start in range(0, len(body), 98))


def test_a_rotation_while_a_stage_is_open_tells_the_learner_nothing(shuffler_of):
    """One report, a rotation, 99 more: the key that was active first opened exactly the messages of the first device.

    Now every device seals to the key in the bundle, whatever the learner rotates to, and the next key comes with the
    next stage.
    """
    shuffler = shuffler_of("shuffle")
    ring, keys = shuffler.rings["learner"], {}

    def opened_by(key, body, stage):
        opener = key.opener(inner_info(shuffler.digest, stage, key.id))
        return sum(opener(body[start : start + 50]) is not None for start in range(0, len(body), 50))

    for stage in range(2):
        for number in range(100 if stage == 0 else 2):
            assert reported(shuffler.device(None, name=f"person {number}")).send() == "counted"
            keys |= ring.secrets(NOW)
            if number == 0:
                shuffler.rotate("learner")
        bodies = [Report.parse(report).body for report in shuffler.reports]
        shuffler.reports.clear()
        found = {name: {opened_by(key, body, stage) * 50 == len(body) for body in bodies} for name, key in keys.items()}
        assert sorted(map(sorted, found.values())) == [[False]] * (len(found) - 1) + [[True]]
        shuffler.study.void()
        shuffler.next_stage()
    assert len(keys) == 4


def test_keys_that_cannot_be_fetched_now_are_used_as_they_were(shuffler_of, tmp_path, monkeypatch):
    shuffler = shuffler_of("central")
    device = shuffler.device(tmp_path / "device")
    device.refresh()
    answer = shuffler.answer
    monkeypatch.setattr(
        shuffler, "answer", lambda request: problem(503, "draining") if "keys" in request.url.path else answer(request)
    )
    device = shuffler.device(tmp_path / "device")
    device.refresh()
    device.report(LIVED)
    assert device.send() == "counted"


# what is refused


def test_the_refusals_of_the_core_hold_over_the_network(shuffler_of, tmp_path):
    shuffler = shuffler_of("central")
    stranger = new_keys(tmp_path / "stranger")[1]
    for options, words in (
        ({"cap": 0.1}, "the cap of this device"),
        ({"floor": 1000}, "the floor of this device"),
        ({"pins": PinnedKeys(learner=stranger, shuffler=shuffler.pins.shuffler)}, "signature that fits"),
    ):
        with pytest.raises(InvalidInput, match=words):
            shuffler.device(None, **options).refresh()
    device = shuffler.device(tmp_path / "device")
    device.refresh()
    good = shuffler.bundle
    forked = canonical(sign({**json.loads(good), "target": 12, "name": "another"}, shuffler.signs["learner"]))
    unknown = canonical(sign({**json.loads(good), "extension": 1}, shuffler.signs["learner"]))
    for bundle, words in ((forked, "one bundle for all devices"), (unknown, "unknown entries"), (b"no", "JSON")):
        shuffler.bundle = bundle
        with pytest.raises(InvalidInput, match=words):
            device.refresh()
    shuffler.bundle = good
    device.refresh()


def test_a_device_without_an_answer_says_so(shuffler_of):
    shuffler = shuffler_of("central")
    silent = httpx.Client(transport=httpx.MockTransport(_silent))
    with pytest.raises(InvalidInput, match="no answer"):
        shuffler.device(None, over=silent).refresh()
    early = httpx.Client(transport=httpx.MockTransport(lambda _: problem(404, "not-found")))
    with pytest.raises(InvalidInput, match=r"status 404 \(not-found\)"):
        shuffler.device(None, over=early).refresh()


def _silent(request):
    raise httpx.ConnectTimeout("nobody there")


def test_a_reply_that_is_too_long_is_no_answer(shuffler_of):
    shuffler = shuffler_of("central")
    shuffler.documents["shuffler"] = b" " * 2**17
    with pytest.raises(InvalidInput, match="no answer"):
        shuffler.device(None).refresh()


def test_a_bundle_that_did_not_change_is_not_sent_again(shuffler_of, tmp_path, monkeypatch):
    shuffler = shuffler_of("central")
    tags, own = [], f'"{hashlib.sha256(shuffler.bundle).hexdigest()}"'

    def answer(request):
        if request.url.path != "/v1/bundle":
            return shuffler.answer(request)
        tags.append(request.headers.get("if-none-match"))
        # A tag that the server chose would be a cookie: it is never sent back.
        return httpx.Response(304 if tags[-1] == own else 200, content=shuffler.bundle, headers={"etag": '"victim-42"'})

    device = shuffler.device(tmp_path / "device", over=httpx.Client(transport=httpx.MockTransport(answer)))
    first = device.refresh()
    assert device.refresh() is not None
    assert device.refresh().digest == first.digest
    assert tags == [None, own, own]


def test_a_stage_that_asks_nothing_gets_no_report(shuffler_of):
    shuffler = shuffler_of("central")
    shuffler.study.kill()
    shuffler.bundle = shuffler.study.plan()
    device = shuffler.device(None)
    device.refresh()
    assert not device.asks
    with pytest.raises(InvalidInput, match="must not be answered"):
        device.report(LIVED)
    with pytest.raises(InvalidInput, match="must be frozen"):
        device.send()


def test_what_must_be_given(shuffler_of):
    shuffler = shuffler_of("central")
    for options in (
        {"name": None},
        {"credential": "secret"},
        {"issuer": "http://issuer"},
        {"name": None, "credential": "secret", "issuer": "http://issuer"},
        {"name": ""},
        {"name": "x" * 2000},
        {"cap": -1.0},
    ):
        with pytest.raises(InvalidInput):
            shuffler.device(None, **options)
    with pytest.raises(InvalidInput, match="accept a bundle"):
        shuffler.device(None).report(LIVED)


def test_credentials_and_names_stand_in_the_place_of_a_token(shuffler_of):
    shuffler = shuffler_of("central")
    for options, badge in (
        ({"name": "ada"}, b"TCO1\x03\x00ada"),
        ({"name": None, "credential": "s3cret"}, b"TCK1\x06\x00s3cret"),
    ):
        device = reported(shuffler.device(None, **options))
        opened = open_envelope(
            device.kept.envelope, study=shuffler.digest, keys=shuffler.rings["shuffler"].secrets(NOW)
        )
        assert opened.token == badge


def test_waiting_doubles_up_to_its_end():
    backoff = Backoff(first=0.5, most=60.0)
    seconds = [backoff.seconds(k, after=0.0, lot=0.999999) for k in range(12)]
    assert seconds == sorted(seconds)
    assert seconds[-1] < 60.0
    assert backoff.seconds(200, after=3.0, lot=0.0) == 3.0
    assert understood(None).next == "wait"
