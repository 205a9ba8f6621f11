"""The shuffler's two applications: what is counted, what is refused and how, and what the learner asks of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time

import pytest
import sealed_world
from shuffler_world import BEARER, Place, slug, talking
from study_fakes import MARK, FakeDesign, bundle_of
from token_tools import HandMade

from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.runs.signature import new_keys, sign
from tacit.service.encryption.keyring import Keyring
from tacit.service.tokens.admission import open_name
from tacit.service.tokens.token import LENGTH
from tacit.study.collector import Collector
from tacit.study.contract import Head
from tacit.study.design import plan_study
from tacit.study.sealed_batches import Manifest
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload


def play(place, scene, **more):
    async def whole():
        async with talking(place, **more) as talk:
            return await scene(talk)

    return asyncio.run(whole())


def test_a_stage_from_bundle_to_release(tmp_path):
    """201 for a report, 200 for the same again, closed at its target, one release whoever asks how often."""

    async def scene(talk):
        assert slug(await talk.devices.get("/v1/bundle")) == "not-found"
        assert (await talk.open()).status_code == 201
        assert (await talk.open()).status_code == 200
        got = await talk.devices.get("/v1/bundle")
        assert got.content == talk.place.bundle()
        again = await talk.devices.get("/v1/bundle", headers={"if-none-match": got.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        envelope = talk.place.envelope(talk.place.report(0), "person 0")
        assert (await talk.devices.post("/v1/reports", content=envelope)).status_code == 201
        assert (await talk.devices.post("/v1/reports", content=envelope)).status_code == 200
        for label in range(1, 6):
            assert (await talk.send(label)).json() == {"report": "counted"}
        await talk.made.windows.once()
        assert await talk.state() == "closed"
        releases = await asyncio.gather(*(talk.release() for _ in range(8)))
        assert len({found.content for found in releases}) == 1
        found = ReleasePayload.parse(releases[0].content)
        assert (found.people, found.stage) == (6, 0)
        assert found.examined(talk.place.public).pinned
        assert await talk.state() == "released"
        assert (await talk.devices.post("/v1/reports", content=envelope)).status_code == 200
        return found

    first = play(Place(tmp_path), scene)
    assert first.payload[:48] == b"".join((1).to_bytes(8, "little") for _ in range(6))


def test_every_refusal_of_a_report(tmp_path):
    place = Place(tmp_path, FakeDesign(target=3, least=2, reports=1), limits="body = 2000")

    async def scene(talk):
        seen = {}

        async def post(content, **headers):
            response = await talk.devices.post("/v1/reports", content=content, headers=headers)
            seen[slug(response)] = response
            return response

        await post(b"no envelope")
        await post(place.envelope(place.report(0), "a", study=bytes(32)))
        envelope = place.envelope(place.report(0), "a")
        await post(envelope[:36] + bytes(8) + envelope[44:])
        await post(place.envelope(place.report(0), b"TCX1 no credential"))
        await post(place.envelope(place.report(0), "a"))
        assert int(seen["not-open"].headers["retry-after"]) > 0
        await talk.open()
        await post(place.envelope(place.report(0, body=b"another body"), "a"))
        taken = bytes(range(16))
        assert (await talk.send(0, "a", name=taken)).status_code == 201
        await post(place.envelope(place.report(1, name=taken), "b"))
        await post(place.envelope(place.report(1), "a"))
        await post(b"x" * 2001)
        for label in (1, 2):
            assert (await talk.send(label)).status_code == 201
        before_the_timer_looks = await talk.send(3)
        assert slug(before_the_timer_looks) in ("full", "late")
        seen[slug(before_the_timer_looks)] = before_the_timer_looks
        await talk.made.windows.once()
        await post(place.envelope(place.report(4), "d"))
        await talk.release()
        release = ReleasePayload.parse((await talk.release()).content)
        await talk.open(1, 1, head=release.head.text)
        await post(place.envelope(place.report(5, stage=1), "a"))
        talk.made.drain.ask()
        await post(envelope)
        return {name: response.status_code for name, response in seen.items()}

    found = play(place, scene)
    expected = {
        "malformed": 400,
        "unknown-study": 404,
        "unknown-key": 404,
        "token": 403,
        "not-open": 409,
        "bad-body": 422,
        "id-taken": 409,
        "twice": 409,
        "too-large": 413,
        "late": 410,
        "used-up": 403,
        "draining": 503,
    }
    assert expected.items() <= found.items()
    assert set(found) - set(expected) <= {"full"}


def test_a_full_stage_says_so(tmp_path):
    """Nobody looks at the window here, so the stage stays open with all the reports that it wants."""

    async def scene(talk):
        await talk.open()
        await talk.made.windows.stop()
        for label in range(6):
            await talk.send(label)
        return slug(await talk.send(6))

    assert play(Place(tmp_path), scene) == "full"


def test_nothing_is_asked_of_the_internal_address_without_the_secret(tmp_path):
    async def scene(talk):
        for method, path in (
            ("PUT", "/v1/stages/0/questions/0"),
            ("PUT", "/v1/keys/learner"),
            ("POST", "/v1/stages/0/close"),
            ("POST", "/v1/stages/0/questions/0/release"),
            ("GET", "/v1/stages/0/batch"),
            ("GET", "/v1/stages/0/tokens"),
            ("POST", "/v1/stages/0/void"),
            ("GET", "/v1/status"),
            ("GET", "/metrics"),
            ("POST", "/v1/drain"),
            ("GET", "/nowhere"),
        ):
            for secret in (None, "Bearer", f"Bearer {BEARER}x", f"Basic {BEARER}", "Bearer "):
                headers = {} if secret is None else {"authorization": secret}
                response = await talk.stranger.request(method, path, headers=headers)
                assert (response.status_code, slug(response)) == (401, "unauthorized")
                assert response.headers["www-authenticate"] == "Bearer"
        assert (await talk.stranger.get("/healthz")).status_code == 200
        assert not talk.made.drain.draining
        for path in ("/v1/status", "/metrics"):
            assert (await talk.devices.get(path)).status_code == 404
            assert (await talk.learner.get(path)).status_code == 200
        assert slug(await talk.learner.post("/v1/status")) == "method"
        assert slug(await talk.learner.get("/nowhere")) == "not-found"

    play(Place(tmp_path), scene)


def test_what_the_state_does_not_allow_is_refused_in_words(tmp_path):
    async def scene(talk):
        assert slug(await talk.release()) == "refused"
        assert slug(await talk.learner.post("/v1/stages/0/close")) == "refused"
        assert slug(await talk.learner.post("/v1/stages/0/void")) == "refused"
        assert slug(await talk.learner.get("/v1/stages/0/batch")) == "refused"
        assert slug(await talk.learner.get(f"/v1/stages/{2**40}/batch")) == "not-found"
        other = await talk.learner.put("/v1/stages/3/questions/0", content=talk.place.bundle())
        assert slug(other) == "refused"
        assert "address" in other.json()["detail"]
        assert slug(await talk.learner.put("/v1/stages/0/questions/0", content=b"{}")) == "refused"
        await talk.open()
        await talk.send(1)
        few = await talk.learner.post("/v1/stages/0/close")
        assert "at least 4" in few.json()["detail"]
        assert slug(await talk.release()) == "refused"
        assert (await talk.learner.post("/v1/stages/0/void", content=b"ended")).status_code == 200
        assert (await talk.learner.post("/v1/stages/0/void", content=b"ended")).status_code == 200
        assert slug(await talk.learner.post("/v1/stages/0/void", content=b"\xff")) == "malformed"
        assert await talk.state() == "void"
        other_key, _ = new_keys(talk.place.directory / "keys" / "other")
        forged = bundle_of(talk.place.design, stage=1, key=other_key)
        assert slug(await talk.learner.put("/v1/stages/1/questions/0", content=forged)) == "refused"

    play(Place(tmp_path), scene)


def test_a_head_of_another_ledger_is_refused_before_anything_is_drawn(tmp_path):
    async def scene(talk):
        await talk.open()
        for label in range(6):
            await talk.send(label)
        await talk.made.windows.once()
        assert slug(await talk.release(head="no head")) == "refused"
        assert (await talk.devices.get("/healthz")).status_code == 200
        reply = await talk.release(head=Head(number=3, digest=bytes(range(32))).text)
        assert slug(reply) == "refused"
        assert "put back the copy that holds it" in reply.json()["detail"]
        await stopped(talk)

    async def stopped(talk):
        assert await talk.state() == "closed"
        assert slug(await talk.release()) == "refused"
        assert (await talk.devices.get("/healthz")).status_code == 503
        assert slug(await talk.send(6)) == "unavailable"

    place = Place(tmp_path)
    play(place, scene)
    play(place, stopped)  # after a restart, too


def test_the_last_bundle_is_relayed_and_ends_the_study(tmp_path):
    place = Place(tmp_path)
    silent = {"slot": None, "query": None, "channel": None, "target": None, "least": None}
    last = place.bundle(1, **silent, kill=True)

    async def scene(talk):
        await talk.open()
        put = f"/v1/stages/{1}/questions/0"
        assert slug(await talk.learner.put(put, content=last)) == "refused"
        await talk.learner.post("/v1/stages/0/void")
        assert (await talk.learner.put(put, content=last)).status_code == 201
        assert (await talk.learner.put(put, content=last)).status_code == 200
        assert (await talk.devices.get("/v1/bundle")).content == last
        assert slug(await talk.learner.put("/v1/stages/2/questions/0", content=place.bundle(2))) == "refused"

    async def after(talk):
        assert (await talk.devices.get("/v1/bundle")).content == last

    play(place, scene)
    play(place, after)


def test_keys_of_a_sealed_stage_stand_in_its_bundle_and_never_go_back(tmp_path):
    """Nobody changes them between open and close: not by themselves, not by another bundle, not over a restart."""
    design = sealed_world.design()
    place = Place(tmp_path, design, config="sealed = true")
    study = Study.new(tmp_path / "study", design, key=place.learner, seed=0, sealed=1)
    ring = Keyring.new(tmp_path / "ring", party="learner", study=place.study)
    first = ring.document(place.learner)
    bundle = study.plan({"learner": first})
    ring.rotate(time.time(), grace=60)
    second = ring.document(place.learner)
    plain = {name: value for name, value in json.loads(bundle).items() if name != "signature"}

    def signed(**changed):
        content = {name: value for name, value in {**plain, **changed}.items() if name != "keys" or value}
        return canonical(sign(content, place.learner))

    forged = {"learner": sign(json.loads(first), new_keys(tmp_path / "forger")[0])}
    other = signed(keys={"learner": json.loads(second)})

    async def put(talk, content, stage=0):
        return await talk.learner.put(f"/v1/stages/{stage}/questions/0", content=content)

    async def scene(talk):
        assert (await talk.devices.get("/v1/keys/shuffler")).status_code == 200
        for wrong in (signed(keys=forged), signed(keys=None)):
            assert slug(await put(talk, wrong)) == "refused"
        assert "one that tacit 0.8 planned has none: give it up" in (await put(talk, signed(keys=None))).text
        assert (await put(talk, bundle)).status_code == 201
        await after(talk)

    async def after(talk):
        for party in ("learner", "mixer", "shuffler", "issuer", "nobody"):
            assert slug(await talk.learner.put(f"/v1/keys/{party}", content=second)) == "refused"
        assert slug(await talk.devices.get("/v1/keys/learner")) == "not-found"
        assert slug(await put(talk, other)) == "refused"
        assert (await put(talk, bundle)).status_code == 200
        assert (await talk.devices.get("/v1/bundle")).content == bundle

    async def last(talk):
        await talk.learner.post("/v1/stages/0/void")
        assert (await put(talk, signed(stage=1, keys={"learner": json.loads(second)}), 1)).status_code == 201
        await talk.learner.post("/v1/stages/1/void")
        assert slug(await put(talk, signed(stage=2, keys={"learner": json.loads(first)}), 2)) == "refused"

    for one in (scene, after, last):
        play(place, one)


def test_keys_rotate_while_envelopes_arrive(tmp_path):
    """An envelope to the key that was active, and one to the key that is: both count, before the timer has looked."""
    place = Place(tmp_path)

    async def scene(talk):
        await talk.open()
        await talk.made.windows.stop()
        before = place.envelope(place.report(0), "a")
        document = (await talk.devices.get("/v1/keys/shuffler")).content
        Keyring(tmp_path / "collector" / "sealing").rotate(time.time(), grace=3600)
        after = place.envelope(place.report(1), "b")
        assert before[36:44] != after[36:44]
        for envelope in (before, after):
            assert (await talk.devices.post("/v1/reports", content=envelope)).status_code == 201
        await talk.made.windows.once()
        assert (await talk.devices.get("/v1/keys/shuffler")).content != document
        again = [(await talk.devices.post("/v1/reports", content=one)).status_code for one in (before, after)]
        assert again == [200, 200]

    play(place, scene)


class Clocks:
    """Two clocks that stand still until they are set."""

    def __init__(self):
        self.wall, self.monotonic = 1_800_000_000.0, 1000.0

    @property
    def both(self):
        return {"wall": lambda: self.wall, "monotonic": lambda: self.monotonic}


def test_too_few_at_the_end_of_the_window_over_restarts(tmp_path):
    """least - 1 reports: nothing is released, the stage is void, and no byte of a body is left in the files."""
    place, clocks = Place(tmp_path, config="window_seconds = 100"), Clocks()

    async def first(talk):
        await talk.open()
        for label in range(3):
            assert (await talk.send(label)).status_code == 201
        assert await talk.state() == "open"
        return (await talk.learner.get("/v1/status")).json()["ends"]

    async def later(talk):
        await talk.made.windows.once()
        return await talk.state()

    ends = play(place, first, **clocks.both)
    assert clocks.wall + 100 <= ends <= clocks.wall + 102
    files = [place.database, place.database.with_name("collector.db-wal")]
    assert any(MARK in path.read_bytes() for path in files if path.exists())
    clocks.wall = ends - 1.0
    assert play(place, later, **clocks.both) == "open"
    clocks.wall = float(ends)
    assert play(place, later, **clocks.both) == "void"
    for path in (path for path in place.database.parent.iterdir() if path.is_file()):
        assert MARK not in path.read_bytes()
    assert slug(play(place, lambda talk: talk.release(), **clocks.both)) == "refused"
    clocks.wall -= 1000.0
    assert play(place, later, **clocks.both) == "void"


def test_enough_at_the_end_of_the_window_close_it(tmp_path):
    place, clocks = Place(tmp_path, config="window_seconds = 100"), Clocks()

    async def scene(talk):
        await talk.open()
        for label in range(4):
            await talk.send(label)
        await talk.made.windows.once()
        assert await talk.state() == "open"
        clocks.wall += 102.0
        await talk.made.windows.once()
        assert await talk.state() == "closed"
        assert slug(await talk.send(5)) == "late"
        assert (await talk.release()).status_code == 200

    play(place, scene, **clocks.both)


def test_a_clock_that_jumps_back_extends_no_window(tmp_path):
    place, clocks = Place(tmp_path, config="window_seconds = 100"), Clocks()

    async def scene(talk):
        await talk.open()
        await talk.made.windows.once()
        clocks.wall -= 10_000.0
        clocks.monotonic += 99.0
        await talk.made.windows.once()
        assert await talk.state() == "open"
        clocks.monotonic += 2.0
        await talk.made.windows.once()
        assert await talk.state() == "void"

    play(place, scene, **clocks.both)


def test_a_clock_that_was_set_back_before_a_restart_gives_one_window_at_most(tmp_path):
    place, clocks = Place(tmp_path, config="window_seconds = 100"), Clocks()
    play(place, lambda talk: talk.open(), **clocks.both)
    clocks.wall -= 10_000.0

    async def scene(talk):
        clocks.monotonic += 99.0
        await talk.made.windows.once()
        assert await talk.state() == "open"
        clocks.monotonic += 1.0
        await talk.made.windows.once()
        assert await talk.state() == "void"

    play(place, scene, **clocks.both)


def test_nothing_that_somebody_sent_is_in_logs_or_metrics(tmp_path):
    """Canaries in every part of a request that a device can choose."""
    place = Place(tmp_path)
    canaries = ["canary-agent", "canary-name", "canary-path", "canary-query", "canary-body", "203.0.113.77"]

    async def scene(talk):
        headers = {"user-agent": "canary-agent", "x-forwarded-for": "203.0.113.77", "cookie": "canary-body"}
        await talk.open()
        name = b"canary-id-16-byt"
        report = place.report(1, name=name)
        for content in (place.envelope(report, "canary-name"), b"canary-body" * 10):
            await talk.devices.post("/v1/reports?canary-query=1", content=content, headers=headers)
        for path in ("/canary-path", "/v1/keys/canary-path", "/v1/bundle/canary-path"):
            await talk.devices.get(path, headers=headers)
        await talk.learner.get("/v1/stages/7/batch", headers=headers)
        metrics = (await talk.learner.get("/metrics")).text
        talk.made.log.flush()
        written = metrics + talk.log.getvalue()
        assert 'outcome="counted"} 1.0' in metrics
        assert '"reason": "malformed"' in written
        for canary in [*canaries, name.decode(), name.hex(), "canary"]:
            assert canary not in written
        assert "_created" not in metrics
        return written

    assert MARK.decode() not in play(place, scene)


@pytest.mark.parametrize("number_of", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_mutated_envelopes_are_refused_and_nothing_else(tmp_path, number_of):
    """Of four kinds: bytes changed outside and inside of the seal, cut, and longer."""
    place = Place(tmp_path)
    coins = random.Random(17)  # noqa: S311 - which bytes change

    def mutants():
        sealed = [place.envelope(place.report(label), f"m {label}") for label in range(8)]
        for number in range(number_of):
            kind = number % 4
            if kind == 0:
                data = bytearray(coins.choice(sealed))
                data[coins.randrange(len(data))] ^= 1 << coins.randrange(8)
                yield bytes(data)
            elif kind == 1:
                data = coins.choice(sealed)
                yield data[: coins.randrange(len(data))]
            elif kind == 2:
                yield coins.choice(sealed) + coins.randbytes(coins.randrange(1, 9))
            else:
                report = bytearray(place.report(1))
                for _ in range(coins.randrange(1, 4)):
                    report[coins.randrange(len(report))] ^= 1 << coins.randrange(8)
                token = open_name("m") if coins.random() < 0.5 else coins.randbytes(coins.randrange(40))
                yield place.envelope(bytes(report), token)

    async def scene(talk):
        await talk.open()
        await talk.made.windows.stop()
        found = [await talk.devices.post("/v1/reports", content=data) for data in mutants()]
        assert all(response.status_code in (200, 201) or slug(response) for response in found)
        statuses = {response.status_code for response in found}
        assert max(statuses) < 500
        assert {400, 404} <= statuses
        return (await talk.learner.get("/v1/status")).json()["stages"][0]["reports"]

    assert play(place, scene) <= 6


def test_a_collector_keeps_to_what_it_began_with(tmp_path):
    place = Place(tmp_path)
    play(place, lambda talk: talk.state())
    text = place.file.read_text()
    for before, after, words in (
        ("sealed = false", "sealed = false\nrehearsal = true", "rehearsal"),
        ("sealed = false", "sealed = true", "sealed in 0 layers"),
    ):
        place.file.write_text(text.replace(before, after))
        with pytest.raises(InvalidInput, match=words):
            play(place, lambda talk: talk.state())


def test_a_collector_of_unsealed_shuffled_stages_is_not_served(tmp_path):
    """A directory that files began unsealed: its shuffler would read every report with its sender."""
    design = plan_study(
        states=2, actions=2, horizon=2, stages=1, target=12, least=12, epsilon=2.0, delta=1e-3, trust="shuffle",
        learner="bucb",
    )  # fmt: skip
    place = Place(tmp_path, design)
    Collector.new(place.directory / "collector", design, key=place.sign, learner=place.learner_public)
    with pytest.raises(InvalidInput, match="must be sealed to the learner"):
        play(place, lambda talk: talk.state())


def test_only_a_rehearsal_takes_bundles_that_nothing_signs(tmp_path):
    place = Place(tmp_path)
    text = place.file.read_text()
    place.file.write_text(text.replace('learner = "keys/learner/public.pem"', ""))
    with pytest.raises(InvalidInput, match=r"keys\.learner must name"):
        play(place, lambda talk: talk.state())


def test_a_sealed_stage_with_tokens_is_handed_over_as_files(tmp_path):
    """Batch and tokens are what the release says, in parts if asked; a token counts once, of its stage only."""
    design = sealed_world.design()
    place = Place(tmp_path, design, config='people = "issuer"\nsealed = true')
    issuer = HandMade(tmp_path / "issuer", study=place.study)
    issuer.open(0)
    place.file.write_text(place.file.read_text().replace("keys/learner/public.pem", "issuer/public.pem", 2))
    text = place.file.read_text().replace('learner = "issuer/public.pem"', 'learner = "keys/learner/public.pem"')
    place.file.write_text(text)
    study = Study.new(tmp_path / "study", design, key=place.learner, seed=0, sealed=1)
    ring = Keyring.new(tmp_path / "ring", party="learner", study=place.study)
    bundle, learner = study.plan({"learner": ring.document(place.learner)}), ring.secret(ring.active)
    reports = [sealed_world.sealed_report(one, learner) for one in sealed_world.answers(bundle, seed=3)]

    async def scene(talk):
        async def send(report, token):
            return await talk.devices.post("/v1/reports", content=place.envelope(report, token))

        await talk.learner.put("/v1/stages/0/questions/0", content=bundle)
        first = issuer.token(0)
        assert slug(await send(reports[0], first)) == "not-open"  # the issuer's keys have not arrived
        assert (await talk.learner.put("/v1/keys/issuer", content=issuer.document)).status_code == 201
        assert slug(await send(reports[0], first[:-1] + bytes([first[-1] ^ 1]))) == "token"
        assert slug(await send(reports[0], open_name("somebody"))) == "token"
        issuer.open(1)
        assert slug(await send(reports[0], issuer.token(1))) == "token"
        raced = await asyncio.gather(*(send(report, first) for report in reports))
        assert sorted(one.status_code for one in raced) == [201] + [409] * 7
        assert {slug(one) for one in raced if one.status_code == 409} == {"twice"}
        place_of_first = [one.status_code for one in raced].index(201)
        tokens = [first]
        for number, report in enumerate(reports):
            if number != place_of_first:
                tokens.append(issuer.token(0))
                assert (await send(report, tokens[-1])).status_code == 201
        await talk.made.windows.once()
        release = ReleasePayload.parse((await talk.release()).content)
        manifest = Manifest.parse(release.payload)
        batch = await talk.learner.get("/v1/stages/0/batch")
        assert hashlib.sha256(batch.content).digest() == manifest.digest
        assert len(batch.content) == manifest.count * manifest.size
        part = await talk.learner.get("/v1/stages/0/batch", headers={"range": "bytes=100-"})
        assert (part.status_code, part.content) == (206, batch.content[100:])
        beyond = await talk.learner.get("/v1/stages/0/batch", headers={"range": f"bytes={2**40}-"})
        assert (beyond.status_code, slug(beyond)) == (416, "range")
        kept = (await talk.learner.get("/v1/stages/0/tokens")).content
        assert hashlib.sha256(kept).digest() == manifest.tokens
        assert sorted(tokens) == [kept[start : start + LENGTH] for start in range(0, len(kept), LENGTH)]
        assert (await talk.devices.get("/v1/stages/0/batch")).status_code == 404

    play(place, scene)
