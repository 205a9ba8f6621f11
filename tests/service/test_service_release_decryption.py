"""Sealed releases on the learner's side: what is fetched, checked, opened, refused and deleted."""

from __future__ import annotations

import hashlib
import json
import shutil

import httpx
import numpy as np
import pytest
from device_tools import LIVED, NOW, design_of
from study_fakes import REHEARSAL
from token_tools import HandMade
from worker_tools import BEARER

from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.randomness import SimulationNoise
from tacit.runs.signature import new_keys
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.keyring import Keyring
from tacit.service.http_client import Peer, PeerRefused, Unreachable
from tacit.service.worker import BatchOpener
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.device import Device
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report


class World:
    """One sealed stage with tokens, released; its files are served from memory and can be changed."""

    def __init__(self, place):
        design = design_of("shuffle")
        self.place, self.study_digest = place, bytes.fromhex(design.digest)
        self.sign = new_keys(place / "keys")[0]
        self.ring = Keyring.new(place / "ring", party="learner", study=self.study_digest)
        self.issuer = HandMade(place / "issuer", study=self.study_digest)
        self.issuer.open(0)
        self.study = Study.new(place / "study", design, seed=1, sealed=1)
        collector = Collector.new(place / "collector", design, sealed=1)
        self.bundle = Bundle.parse(self.study.plan({"learner": self.ring.document(self.sign)}))
        collector.open(self.study.plan())
        key = self.ring.secrets(NOW)[self.ring.active].public
        bodies, sent = [], []
        for number in range(8):
            device = Device(None, **REHEARSAL, noise=SimulationNoise(np.random.default_rng([3, number])))
            device.accept(self.study.plan())
            plain = Report.parse(device.report(LIVED))
            bodies.append(plain.body)
            body = seal_body(self.bundle.channel, plain.body, study=plain.study, stage=0, learner=key)
            sealed = Report(study=plain.study, stage=0, id=plain.id, body=body).encode()
            sent.append((sealed, f"person {number}", self.issuer.token(0)))
        assert set(collector.add_many(sent)) == {"counted"}
        collector.close()
        self.release = collector.release(self.study.head)
        channel = self.bundle.channel
        self.expected = channel.release(channel.begin_secret(), bodies, self.bundle.query, None)[1]
        self.files = {
            "/v1/stages/0/batch": collector.batch_file(0).read_bytes(),
            "/v1/stages/0/tokens": collector.tokens_file(0).read_bytes(),
        }
        self.ranges = []

    def answer(self, request):
        data = self.files[request.url.path]
        wanted = request.headers.get("range")
        self.ranges.append(wanted)
        start = 0 if wanted is None else int(wanted.removeprefix("bytes=").removesuffix("-"))
        return httpx.Response(200 if wanted is None else 206, content=data[start:])

    def opener(self, place, **options):
        peer = Peer("http://shuffler", BEARER, over=httpx.Client(transport=httpx.MockTransport(self.answer)))
        told = {"ring": self.ring, "sign": self.sign, "clock": lambda: NOW, "issued": lambda: self.issuer.keys}
        return BatchOpener(place, peer, **{**told, **options})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return World(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def world(made, monkeypatch):
    monkeypatch.setattr(made, "files", dict(made.files))
    monkeypatch.setattr(made, "ranges", [])
    return made


def test_a_batch_is_opened_to_what_an_unsealed_stage_would_have_released(world, tmp_path):
    seen = []
    opener = world.opener(tmp_path / "files", counted=seen.append)
    release = ReleasePayload.parse(world.release)
    assert opener.opened(release, world.bundle) == world.expected
    assert (len(seen), seen[0].foreign) == (1, 0)
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == ["stage-0.batch"]  # no token is kept
    assert opener.opened(release, world.bundle) == world.expected
    opener.done(0)
    assert list((tmp_path / "files").iterdir()) == []


def test_a_download_goes_on_where_it_stopped(world, tmp_path):
    place = tmp_path / "files"
    place.mkdir()
    (place / "stage-0.batch").write_bytes(world.files["/v1/stages/0/batch"][:1000])
    opener = world.opener(place)
    assert opener.opened(ReleasePayload.parse(world.release), world.bundle) == world.expected
    assert world.ranges == [None, "bytes=1000-"]


def changed(data, place=-1):
    return data[:place] + bytes([data[place] ^ 1]) + (data[place:][1:] if place != -1 else b"")


def test_another_file_is_refused_and_deleted(world, tmp_path):
    batch, tokens = "/v1/stages/0/batch", "/v1/stages/0/tokens"
    good = dict(world.files)
    size = len(world.files[tokens]) // 8
    other = HandMade(world.place / "other", study=world.study_digest)
    other.open(0)
    for path, data, words in (
        (batch, changed(good[batch]), "the file that its release names"),
        (batch, good[batch][50:] + good[batch][:50], "the file that its release names"),
        (batch, good[batch][:-50], "bytes that were released"),
        (batch, good[batch] + bytes(50), "bytes that were released"),
        (tokens, changed(good[tokens]), "the file that their release names"),
        (tokens, good[tokens][:-size], "bytes that were released"),
        (tokens, b"".join(sorted(other.token(0) for _ in range(8))), "the file that their release names"),
    ):
        world.files = {**good, path: data}
        opener = world.opener(tmp_path / "files")
        with pytest.raises(InvalidInput, match=words):
            opener.opened(ReleasePayload.parse(world.release), world.bundle)
        opener.done(0)
    world.files = good
    assert world.opener(tmp_path / "files").opened(ReleasePayload.parse(world.release), world.bundle) == world.expected


def test_tokens_of_another_issuer_are_refused(world, tmp_path):
    other = HandMade(tmp_path / "other", study=world.study_digest)
    other.open(0)
    opener = world.opener(tmp_path / "files", issued=lambda: other.keys)
    with pytest.raises(InvalidInput, match="valid token of its own"):
        opener.opened(ReleasePayload.parse(world.release), world.bundle)
    with pytest.raises(InvalidInput, match="without tokens must have none"):
        world.opener(tmp_path / "more", issued=None).opened(ReleasePayload.parse(world.release), world.bundle)


def test_a_forged_manifest_is_refused_by_the_number_of_people(world, tmp_path):
    release = ReleasePayload.parse(world.release)
    parts = {name: getattr(release, name) for name in release.__dataclass_fields__}
    with pytest.raises(InvalidInput, match="reports must have"):
        world.opener(tmp_path / "files").opened(
            ReleasePayload(**{**parts, "people": 9, "signature": b""}), world.bundle
        )


def test_a_batch_is_opened_with_the_key_that_its_bundle_names(world, tmp_path):
    """After rotations and after the end of its grace, until it is deleted; and with no other key."""
    shutil.copytree(world.place / "ring", tmp_path / "ring")
    ring, seen = Keyring(tmp_path / "ring"), []
    named = ring.active
    opener = world.opener(tmp_path / "files", ring=ring, counted=seen.append)
    ring.rotate(NOW, grace=0)
    assert named not in ring.secrets(NOW + 120)
    assert opener.opened(ReleasePayload.parse(world.release), world.bundle) == world.expected
    other = Bundle.parse(
        canonical({**world.bundle.content, "keys": {"learner": json.loads(ring.document(world.sign))}})
    )
    opener.opened(ReleasePayload.parse(world.release), other)
    assert [one.foreign == 0 for one in seen] == [True, False]
    old = {name: part for name, part in world.bundle.content.items() if name != "keys"}
    assert opener.opened(
        ReleasePayload.parse(world.release), Bundle.parse(canonical(old))
    )  # tacit 0.8 opened that stage
    ring.forget(NOW + 120)
    with pytest.raises(InvalidInput, match="restore it"):
        opener.opened(ReleasePayload.parse(world.release), world.bundle)


def test_documents_follow_the_ring(world, tmp_path):
    ring = Keyring.new(tmp_path / "ring", party="learner", study=world.study_digest)
    opener = world.opener(tmp_path / "files", ring=ring)
    first = opener.documents()["learner"]
    assert opener.documents()["learner"] == first
    ring.rotate(NOW, grace=60)
    assert hashlib.sha256(opener.documents()["learner"]).digest() != hashlib.sha256(first).digest()


def test_a_peer_that_does_not_answer_is_told_from_one_that_refuses(world, tmp_path):
    def peer(answer):
        return Peer("http://shuffler", BEARER, over=httpx.Client(transport=httpx.MockTransport(answer)))

    def lost(request):
        raise httpx.ReadError("cut off")

    refusal = b'{"type": "urn:tacit:problem:refused", "detail": "an older copy"}'
    for answer, kind in (
        (lost, Unreachable),
        (lambda _: httpx.Response(503, content=b'{"type": "urn:tacit:problem:draining"}'), Unreachable),
        (lambda _: httpx.Response(404, content=b"<html>"), Unreachable),
        (lambda _: httpx.Response(409, content=refusal), PeerRefused),
    ):
        for call in (
            lambda: peer(answer).post("/v1/x"),  # noqa: B023
            lambda: peer(answer).fetch("/v1/x", tmp_path / "file", 10),  # noqa: B023
        ):
            with pytest.raises(kind):
                call()
    with pytest.raises(Unreachable, match="not JSON"):
        peer(lambda _: httpx.Response(200, content=b"no")).json("/v1/status")
