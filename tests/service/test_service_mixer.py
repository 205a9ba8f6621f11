"""The mixer: what it mixes, what it refuses, once and the same bytes, over HTTP and as an object."""

from __future__ import annotations

import asyncio
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import sealed_world as world
from study_world import fast_directory
from token_tools import HandMade

from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.runs.signature import new_keys, sign
from tacit.service import mixer as mix_node
from tacit.service.batches.decryption import open_batch
from tacit.service.config import Limits, MixerConfig, read_config
from tacit.service.encryption.hpke import SecretKey
from tacit.service.encryption.keyring import Keyring
from tacit.service.metrics import Log, Meters
from tacit.service.mixer import PART, Jobs, Mixed, Mixer, mixed_by, mixer_routes, party
from tacit.service.web import Drain, application
from tacit.study.collector import Collector
from tacit.study.sealed_batches import Manifest
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report, sha256

LEARNER = SecretKey.new()
SECRET = b"a secret of twenty bytes"


@pytest.fixture
def place():
    with fast_directory() as folder:
        yield Path(folder)


@pytest.fixture
def made(place):
    """A study in two layers whose first stage is released."""
    keys = {name: new_keys(place / "keys" / name) for name in ("shuffler", "mixer")}
    design = world.design()
    ring = Keyring.new(place / "ring", party="mixer", study=bytes.fromhex(design.digest))
    study = Study.new(place / "study", design, seed=3, sealed=2, collector=keys["shuffler"][1])
    collector = Collector.new(
        place / "collector", design, noise="simulation", seed=4, sealed=2, key=keys["shuffler"][0]
    )
    mixer_key = ring.secrets(0.0)[ring.active]
    bundle = study.plan(world.documents(LEARNER, mixer_key))
    collector.open(bundle)
    plain = world.answers(bundle, 0)
    sent = [(world.sealed_report(one, LEARNER, mixer_key), f"person {i}") for i, one in enumerate(plain)]
    assert set(collector.add_many(sent)) == {"counted"}
    collector.close()
    release = collector.release(study.head)
    return SimpleNamespace(
        study=study,
        collector=collector,
        release=release,
        plain=plain,
        keys=keys,
        ring=ring,
        design=design,
        place=place,
        mixer=Mixer(
            place / "mixer", design, ring=ring, key=keys["mixer"][0], shuffler=keys["shuffler"][1], issuer=None
        ),
        batch=collector.batch_file(0),
    )


def bring(made, data=None):
    made.mixer.part(0, 0, made.batch.read_bytes() if data is None else data)


def histogram(made, path, manifest):
    return open_batch(
        path, manifest, world.channel(), keys={LEARNER.id: LEARNER}, study=made.mixer.study, stage=0
    ).histogram


def test_a_mixed_stage_is_taken_as_an_unsealed_one_would_be(made):
    bring(made)
    data = made.mixer.mix(0, made.release)
    found = Mixed.read(data, release=made.release, pinned=made.keys["mixer"][1])
    first = Manifest.parse(ReleasePayload.parse(made.release).payload)
    assert (first.size, found.manifest.size, found.manifest.count) == (98, 50, first.count)
    counted = histogram(made, made.mixer.batch(0), found.manifest)
    assert counted == world.histogram([Report.parse(one).body for one in made.plain])
    assert made.study.take(made.release, opened=counted) == "taken"


def test_asked_again_the_same_bytes_and_another_release_is_refused(made):
    bring(made)
    data = made.mixer.mix(0, made.release)
    kept = made.mixer.batch(0).read_bytes()
    made.mixer.part(0, 0, b"something else")
    again = Mixer(
        made.place / "mixer",
        made.design,
        ring=made.ring,
        key=made.keys["mixer"][0],
        shuffler=made.keys["shuffler"][1],
        issuer=None,
    )
    assert again.mix(0, made.release) == data
    assert again.batch(0).read_bytes() == kept
    other = replace(ReleasePayload.parse(made.release), noise="secure", signature=b"").signed(made.keys["shuffler"][0])
    with pytest.raises(InvalidInput, match="mixed once"):
        again.mix(0, other.encode())


def test_what_does_not_fit_is_refused_and_leaves_nothing(made):
    given, sign_by = ReleasePayload.parse(made.release), made.keys["shuffler"][0]
    manifest = Manifest.parse(given.payload)

    def changed(key=sign_by, **changes):
        return replace(given, signature=b"", **changes).signed(key).encode()

    refused = {
        "unsigned": changed(key=None),
        "another key": changed(key=made.keys["mixer"][0]),
        "another study": changed(study=bytes(32)),
        "another stage": changed(stage=1),
        "too few people": changed(people=given.people - 1),
        "no manifest": changed(payload=b"something"),
        "count": changed(payload=replace(manifest, count=manifest.count - 1).encode()),
        "size": changed(payload=replace(manifest, size=50).encode()),
        "digest": changed(payload=replace(manifest, digest=bytes(32)).encode()),
        "forged": made.release[:-1] + bytes([made.release[-1] ^ 1]),
    }
    for wrong in refused.values():
        bring(made)
        with pytest.raises(InvalidInput):
            made.mixer.mix(0, wrong)
        assert made.mixer.mixed(0) == b""
        with pytest.raises(InvalidInput, match="must be mixed"):
            made.mixer.batch(0)
    with pytest.raises(InvalidInput):
        made.mixer.mix(0, b"")
    data = made.batch.read_bytes()
    copied = data[:98] + data[:98] + data[196:]
    forged = changed(payload=replace(manifest, digest=sha256(copied)).encode())
    bring(made, copied)
    with pytest.raises(InvalidInput, match="twice"):
        made.mixer.mix(0, forged)
    with pytest.raises(InvalidInput, match="must be here before"):
        made.mixer.mix(0, made.release)  # what was refused was deleted
    bring(made)
    assert made.mixer.mix(0, made.release)
    assert {path.name for path in (made.place / "mixer" / "0").iterdir()} == {"mixed", "mixed.json"}


def test_a_batch_whose_key_is_gone_is_refused_and_not_counted_as_nothing(made):
    bring(made)
    made.ring.rotate(0.0, grace=0)
    with pytest.raises(InvalidInput, match="sealed to a key of this mixer, got 'none of them'; the grace of a key"):
        made.mixer.mix(0, made.release)
    assert list((made.place / "mixer" / "0").iterdir()) == []


def test_a_mixer_that_stops_before_its_document_has_mixed_nothing(made, monkeypatch):
    bring(made)
    real, calls = mix_node.sync_directory, []

    def stopping(folder):
        calls.append(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(mix_node, "sync_directory", stopping)
    with pytest.raises(KeyboardInterrupt):
        made.mixer.mix(0, made.release)
    assert calls
    assert made.mixer.mixed(0) == b""
    with pytest.raises(InvalidInput, match="must be mixed"):
        made.mixer.batch(0)
    monkeypatch.setattr(mix_node, "sync_directory", real)
    data = made.mixer.mix(0, made.release)
    assert sha256(made.mixer.batch(0).read_bytes()).hex() == json.loads(data)["file"]
    assert {path.name for path in (made.place / "mixer" / "0").iterdir()} == {"mixed", "mixed.json"}


def test_documents_of_other_releases_or_hands_are_refused(made):
    bring(made)
    data = made.mixer.mix(0, made.release)
    pinned = made.keys["mixer"][1]
    content = json.loads(data)
    plain = {name: value for name, value in content.items() if name != "signature"}
    other = replace(ReleasePayload.parse(made.release), noise="secure", signature=b"").encode()
    with pytest.raises(InvalidInput, match="about the release"):
        Mixed.read(data, release=other, pinned=pinned)
    forged = {
        "unsigned": canonical(plain),
        "shuffler's": canonical(sign(plain, made.keys["shuffler"][0])),
        "changed": canonical({**content, "file": "00" * 32}),
        "count": canonical(sign({**plain, "count": 1}, made.keys["mixer"][0])),
        "size": canonical(sign({**plain, "size": 98}, made.keys["mixer"][0])),
        "digest": canonical(sign({**plain, "file": "zz"}, made.keys["mixer"][0])),
        "number": canonical(sign({**plain, "file": 7}, made.keys["mixer"][0])),
        "entry": canonical(sign({**plain, "more": 1}, made.keys["mixer"][0])),
        "spelling": json.dumps(content).encode(),
        "no JSON": b"{",
        "list": b"[]",
    }
    for wrong in forged.values():
        with pytest.raises(InvalidInput):
            Mixed.read(wrong, release=made.release, pinned=pinned)


def test_parts_make_a_file_in_any_order_and_have_bounds(made, monkeypatch):
    monkeypatch.setattr(mix_node, "PART", 1000)
    data = made.batch.read_bytes()
    parts = [data[start : start + 1000] for start in range(0, len(data), 1000)]
    for number in reversed(range(len(parts))):
        made.mixer.part(0, number, parts[number])
        made.mixer.part(0, number, parts[number])
    assert made.mixer.mix(0, made.release)
    for number, wrong in ((2**16, b"x"), (-1, b"x"), (0, b""), (0, bytes(1001))):
        with pytest.raises(InvalidInput):
            made.mixer.part(1, number, wrong)
    assert PART == 8 * 2**20


# tokens: a shuffler and a learner that work together against one person


class Colluders:
    """They know every body of the stage but the victim's, and which tokens they have."""

    def __init__(self, place):
        self.place, self.design = place, world.design()
        self.keys = {name: new_keys(place / "keys" / name) for name in ("shuffler", "mixer")}
        study = bytes.fromhex(self.design.digest)
        self.ring = Keyring.new(place / "ring", party="mixer", study=study)
        self.issuer = HandMade(place / "issuer", study=study)
        for stage in (0, 1):
            self.issuer.open(stage)
        self.mixer_key = self.ring.secret(self.ring.active)
        self.study = Study.new(place / "study", self.design, seed=3, sealed=2, collector=self.keys["shuffler"][1])
        self.bundle = self.study.plan(world.documents(LEARNER, self.mixer_key))
        self.victim, *self.known = (Report.parse(one).body for one in world.answers(self.bundle, 0))

        collector = Collector.new(place / "collector", self.design, noise="simulation", sealed=2)
        collector.open(self.bundle)
        for number, body in enumerate([self.victim, *self.known]):
            plain = Report(study=self.study.study, stage=0, id=os.urandom(16), body=body).encode()
            assert collector.add(world.sealed_report(plain, LEARNER, self.mixer_key), f"person {number}") == "counted"
        collector.close()
        self.release = ReleasePayload.parse(collector.release(self.study.head))
        self.batch = collector.batch_file(0).read_bytes()

    def stage(self, tokens):
        """The stage with the victim's report and made-up ones; (release, files that are brought to the mixer)."""
        file = b"".join(sorted(tokens))
        payload = replace(Manifest.parse(self.release.payload), tokens=sha256(file)).encode()
        release = replace(self.release, payload=payload, signature=b"").signed(self.keys["shuffler"][0]).encode()
        return release, {"batch": self.batch, "tokens": file, "issuer": self.issuer.document}

    def victims_labels(self, release, files, issuer):
        """What is left of the opened batch when all known bodies are taken away: the victim's report, exactly."""
        options = {"key": self.keys["mixer"][0], "shuffler": self.keys["shuffler"][1], "issuer": issuer}
        mixer = Mixer(self.place / os.urandom(4).hex(), self.design, ring=self.ring, **options)
        for name, data in files.items():
            if data:
                mixer.part(0, 0, data, name)
        try:
            document = mixer.mix(0, release)
        except InvalidInput as error:
            assert {path.name for path in (mixer.directory / "0").iterdir()} == set()
            return str(error)
        found = Mixed.read(document, release=release, pinned=self.keys["mixer"][1]).manifest
        opened = histogram(SimpleNamespace(mixer=mixer), mixer.batch(0), found)
        return np.frombuffer(opened, "<i8") - np.frombuffer(world.histogram(self.known), "<i8")


@pytest.fixture
def two(place):
    return Colluders(place)


def test_made_up_reports_are_refused_by_a_mixer_that_verifies_tokens(two):
    """Seven made-up reports around one person's: the two read it exactly, unless the mixer wants eight people."""
    exact = np.frombuffer(world.histogram([two.victim]), "<i8")
    pinned, stranger = two.issuer.public, HandMade(two.place / "stranger", study=two.study.study)
    stranger.open(0)
    without = two.stage([])
    assert (two.victims_labels(*without, issuer=None) == exact).all()  # as with every mixer before
    assert "If learner and shuffler collude, nothing is protected" in two.study.certificate().collusion
    assert "must be here" in two.victims_labels(*without, pinned)
    mine = two.issuer.token(0)
    for tokens, words in (
        ([mine, *(stranger.token(0) for _ in range(7))], "not signed for this study"),
        ([mine, *(two.issuer.token(1) for _ in range(7))], "of a later stage"),
        ([mine], "fewer or more than people"),
        ([mine, *(os.urandom(len(mine)) for _ in range(7))], "no token"),
    ):
        release, files = two.stage(tokens)
        assert words in two.victims_labels(release, files, pinned)
        assert "pin the issuer" in two.victims_labels(release, files, None)
    release, files = two.stage([mine] * 8)
    assert "twice the same" in two.victims_labels(release, files, pinned)
    release, files = two.stage([two.issuer.token(0) for _ in range(8)])
    for changed, words in (
        ({"tokens": files["tokens"][::-1]}, "the file that their release names"),
        ({"tokens": b""}, "must be here"),
        ({"issuer": b""}, "must be here"),
        ({"issuer": stranger.document}, "signed by the pinned key"),
    ):
        assert words in two.victims_labels(release, {**files, **changed}, pinned)


def test_a_shuffler_that_replaces_the_reports_of_real_people_is_not_found_out(two):
    """A limit, as docs/operations/threats.md says: no message is bound to a token, and two colluders are enough."""
    release, files = two.stage([two.issuer.token(0) for _ in range(8)])
    found = two.victims_labels(release, files, two.issuer.public)
    assert (found == np.frombuffer(world.histogram([two.victim]), "<i8")).all()
    assert "If learner and shuffler collude, nothing is protected" in two.study.certificate().collusion


# HTTP


class Bridge(httpx.BaseTransport):
    """An application without a network between it and its client."""

    def __init__(self, app):
        self.inside, self.runner = httpx.ASGITransport(app), asyncio.Runner()

    def handle_request(self, request):
        return self.runner.run(self.answer(request.method, request.url, request.headers, request.read()))

    async def answer(self, method, url, headers, content):
        found = await self.inside.handle_async_request(httpx.Request(method, url, headers=headers, content=content))
        return httpx.Response(found.status_code, headers=found.headers, content=await found.aread())

    def close(self):
        self.runner.close()


def client_of(app, secret=b""):
    headers = {"authorization": f"Bearer {secret.decode()}"} if secret else {}
    return httpx.Client(transport=Bridge(app), base_url="http://mixer", headers=headers)


@pytest.fixture
def client(made):
    log = Log("mixer", stream=io.StringIO())
    app = application(
        mixer_routes(made.mixer, Jobs(made.mixer, log)),
        limits=Limits(),
        meters=Meters("mixer"),
        log=log,
        drain=Drain(),
        bearer=SECRET,
    )
    with client_of(app, SECRET) as found:
        yield found


def test_a_learner_has_a_batch_mixed_over_http(made, client):
    wanted = {"stage": 0, "pinned": made.keys["mixer"][1], "seconds": 60.0}
    found = mixed_by(client, made.release, {"batch": made.batch}, made.place / "mixed", **wanted)
    counted = histogram(made, made.place / "mixed", found.manifest)
    assert counted == world.histogram([Report.parse(one).body for one in made.plain])
    again = mixed_by(client, made.release, {"batch": made.batch}, made.place / "again", **wanted)
    assert again == found
    assert (made.place / "again").read_bytes() == (made.place / "mixed").read_bytes()
    piece = client.get("/v1/stages/0/batch", headers={"range": "bytes=50-99"})
    assert (piece.status_code, piece.content) == (206, (made.place / "mixed").read_bytes()[50:100])
    document = client.get("/v1/keys").content
    assert json.loads(document)["party"] == "mixer"


def test_refusals_over_http_are_problems(made, client):
    assert client.post("/v1/stages/x/mix", content=made.release).status_code == 404
    assert client.get("/v1/stages/0/batch").status_code == 409
    assert client.get("/v1/keys", headers={"authorization": "Bearer no"}).status_code == 401
    canary = os.urandom(16).hex()
    client.put("/v1/stages/0/batch/0", content=canary.encode())
    assert client.put("/v1/stages/0/elsewhere/0", content=b"x").status_code == 409
    answers = []
    for _ in range(2000):
        answers.append(client.post("/v1/stages/0/mix", content=made.release))
        if answers[-1].status_code != 202:
            break
    assert answers[-1].status_code == 409
    assert answers[-1].headers["content-type"] == "application/problem+json"
    assert canary not in answers[-1].text
    with pytest.raises(InvalidInput, match="status 409"):
        mixed_by(client, b"no release", {"batch": made.batch}, made.place / "no", stage=1, pinned=None, seconds=60.0)


def test_the_process_of_a_mixer_is_made_from_its_configuration(made):
    (made.place / "design.json").write_text(json.dumps(made.design.to_dict()))
    secret = made.place / "bearer"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    path = made.place / "mixer.toml"
    path.write_text(
        """
        directory = "served"
        design = "design.json"
        bearer = { file = "bearer" }
        [keys]
        sign = "keys/mixer/private.pem"
        sealing = "served-keys"
        shuffler = "keys/shuffler/public.pem"
        """
    )
    found = party(read_config(path, MixerConfig))
    assert [listener.name for listener in found.listeners] == ["internal"]
    with client_of(found.listeners[0].app) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/keys").status_code == 401
    path.write_text('directory = "served"\ndesign = "design.json"\nbearer = { file = "bearer" }\n')
    with pytest.raises(InvalidInput, match=r"keys\.sign"):
        party(read_config(path, MixerConfig))
