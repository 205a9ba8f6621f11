"""Parties that deviate one step at a time: each deviation is detected, harmless by an argument, or a limit.

A row is (party, deviation, kind of world, how it is tried, outcome). Outcomes:

    detected by PARTY: WORDS     what is tried ends in an error, or an answer, that contains these words
    harmless: ARGUMENT           what is tried returns True: the argument's premise holds
    limit: WHAT REMAINS          what is tried returns True: the deviation succeeds; docs/operations/threats.py lists it

Kinds of worlds: shuffle, mix (two layers), local, central: fresh ones with a planned stage; sealed, mixed: shared ones
whose first stage was released, for rows that change nothing.
"""

# ruff: noqa: E501 - a row of the table is one line

from __future__ import annotations

import base64
import json
import os
import runpy
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from deviation_tools import LEAST, LIVED, TARGET, World
from device_tools import problem
from study_world import fast_directory

from tacit.documents import canonical
from tacit.errors import TacitError
from tacit.randomness import SimulationNoise
from tacit.runs.signature import sign
from tacit.service.batches.decryption import open_batch
from tacit.service.device import PinnedKeys
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.token import Refusal, TokenKeys
from tacit.service.tokens.token_issuer import Issuer
from tacit.service.tokens.wallet import Asked, Wallet
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.sealed_batches import LAYER, NO_TOKENS, Manifest
from tacit.study.wire import ReleasePayload, Report, sha256

OTHER = Head(number=2, digest=bytes(32))


class Row(NamedTuple):
    party: str
    deviation: str
    kind: str
    tried: Callable[[World], Any]
    outcome: str


# the learner


def closed_again(w: World, head: Head) -> bytes:
    """The second stage is closed, and its release is asked for with this head."""
    w.learn()
    w.collector.open(w.planned)
    w.fill()
    w.collector.close()
    return w.collector.release(head)


def both(w: World, first: bytes, second: bytes) -> Any:
    """One device is handed two bundles."""
    device = w.device()
    device.accept(first)
    return device.accept(second)


def opened_twice(w: World, second: bytes) -> int:
    w.collector.open(w.planned)
    return w.collector.open(second)


def body_under(w: World, bundle: bytes) -> bytes:
    """What a person of fixed noise and life sends under a bundle."""
    device = w.device(noise=SimulationNoise(np.random.default_rng(7)))
    device.accept(bundle)
    return Report.parse(device.report(LIVED)).body


def other_query(w: World) -> bytes:
    w.planned = w.bundle(query={"kind": "batch", "layer": 1, "failure_prob": None})
    return w.run()


def reported_then(w: World, second: bytes) -> Any:
    """A person reports, and is asked again by another bundle."""
    device = w.device()
    device.accept(w.planned)
    device.report(LIVED)
    device.accept(second)
    return device.report(LIVED)


def gone_back(w: World) -> Any:
    device, first = w.device(), w.bundle(head=OTHER.text)
    device.accept(first)
    return device.accept(w.after(first, head=GENESIS_HEAD.text))


def asked_again(w: World) -> bool:
    first, status = w.run(), w.collector.status()
    return w.collector.release(w.study.head) == first and w.collector.status() == status


def too_few(w: World) -> bytes:
    return w.run(LEAST - 1)


def collected_again(w: World) -> int:
    w.learn()
    return w.collector.open(w.bundle(slot=0, channel=w.design.channels[0]))


def ended(w: World) -> None:
    w.study.kill()
    relay = w.relay()
    relay.put_last(w.study.plan())
    relay.require_going_on()


def opened_late(w: World) -> bool:
    device, sent = w.device(), []
    device.accept(w.planned)
    sent.append(device.report(LIVED))
    early = w.collector.add(sent[0], "ada")
    w.collector.open(w.planned)
    sent.append(device.report(LIVED))
    return early == "not open" and sent[0] == sent[1] and w.collector.add(sent[1], "ada") == "counted"


def given_up(w: World) -> bool:
    w.collector.open(w.planned)
    w.fill()
    w.collector.void("asked to")
    return w.collector.stored() == b"" and all(row["state"] == "void" for row in w.collector.status()["stages"])


def keys_in_bundle(w: World, **documents: bytes) -> Any:
    """A device is served a bundle with these keys."""
    w.planned = w.bundle(keys={who: json.loads(data) for who, data in documents.items()})
    return w.remote().refresh()


def stale_keys(w: World, who: str) -> Any:
    """The keys of a party go back in the next stage."""
    old, device = w.documents(), w.remote()
    w.rings[who].rotate(0.0, grace=600)
    w.planned = w.bundle(keys={one: json.loads(data) for one, data in w.documents().items()})
    device.refresh()
    w.planned = w.after(w.planned, keys={one: json.loads(data) for one, data in old.items()})
    return device.refresh()


def without_keys(w: World) -> Any:
    content = {
        name: value for name, value in Bundle.parse(w.planned).content.items() if name not in ("keys", "signature")
    }
    w.planned = canonical(sign(content, w.sign["learner"]))
    return w.remote().refresh()


def rotated(w: World) -> int:
    w.collector.open(w.planned)
    w.rings["learner"].rotate(0.0, grace=600)
    return w.collector.open(w.bundle(keys={who: json.loads(data) for who, data in w.documents().items()}))


def skipped_number(w: World) -> bool:
    return both(w, w.planned, w.bundle(stage=2, previous="11" * 32))["stage"] == 2


def two_bundles(w: World) -> bool:
    """Both are answered, and both reports count."""
    other = w.bundle(name="for one person only")
    w.collector.open(w.planned)
    return [w.collector.add(w.report(i, data), f"{i}") for i, data in enumerate((w.planned, other))] == ["counted"] * 2


ONE = "a stage must have one bundle for all devices"
PINNED = "must be signed by the pinned key"
# fmt: off
LEARNER = (
    ("an older head", "central", lambda w: closed_again(w, GENESIS_HEAD), "detected by collector: the head must be that of the last release"),
    ("a head of another ledger", "central", lambda w: closed_again(w, OTHER), "detected by collector: this collector is stopped"),
    ("two bundles for one stage, to the collector", "shuffle", lambda w: opened_twice(w, w.bundle(name="x")), f"detected by collector: {ONE}"),
    ("two bundles for one stage, to one device", "shuffle", lambda w: both(w, w.planned, w.bundle(name="x")), f"detected by device: {ONE}"),
    ("keys rotated in the bundle of an open stage", "shuffle", rotated, f"detected by collector: {ONE}"),
    ("keys rotated outside of the bundle", "shuffle", lambda w: w.relay().put_keys("learner", w.document("learner")), "detected by shuffler: keys outside of a bundle must be the issuer's"),
    ("no keys in a sealed stage", "shuffle", without_keys, "detected by device: a bundle must have the keys of learner"),
    ("keys of another party", "shuffle", lambda w: keys_in_bundle(w, learner=w.document("shuffler", "learner")), "detected by device: keys must be those of the learner"),
    ("keys that a stranger signed", "shuffle", lambda w: keys_in_bundle(w, learner=w.document("learner", "stranger")), "detected by device: signed by another key"),
    ("a stale keys document", "shuffle", lambda w: stale_keys(w, "learner"), "detected by device: keys must have a serial of at least"),
    ("a claim that is not the channel's", "shuffle", lambda w: w.device().accept(w.bundle(claim={**w.design.channels[0]["claim"], "epsilon": 99.0})), "detected by device: the claim of a bundle must be that of its channel"),
    ("a larger epsilon in claim and channel, to a device", "local", lambda w: w.device(cap=1.0).accept(w.planned), "detected by device: epsilon must be at most 1, the cap of this device"),
    ("a larger epsilon in claim and channel, to the collector", "shuffle", lambda w: w.collector.open(w.bundle(**w.channel(claim={**w.design.channels[0]["claim"], "epsilon": 99.0}))), "detected by collector: a bundle must ask by the channel of its design"),
    ("less noise in the channel, to a device", "shuffle", lambda w: w.device().accept(w.bundle(**w.channel(probability=[1, 2**20]))), "detected by device: the noise of a stage must keep the claim"),
    ("less noise in the channel, to the collector", "shuffle", lambda w: w.collector.open(w.bundle(**w.channel(probability=[1, 2**20]))), "detected by collector: a bundle must ask by the channel of its design"),
    ("fewer people than a device wants", "local", lambda w: w.device().accept(w.bundle(**w.channel(least=1))), "detected by device: the floor of this device"),
    ("another query than the design's", "shuffle", other_query, "detected by collector: this stage asks for"),
    ("a ledger that went back", "shuffle", gone_back, "detected by device: the ledger of a study must not go back"),
    ("another study, to a device", "shuffle", lambda w: both(w, w.planned, w.after(w.planned, study="11" * 32)), "detected by device: a device takes part in one study"),
    ("another study, to the collector", "shuffle", lambda w: w.collector.open(w.bundle(study="11" * 32)), "detected by collector: a bundle must be of this study"),
    ("a bundle that another key signed", "shuffle", lambda w: w.device().accept(w.bundle(by="stranger")), "detected by device: signed by another key"),
    ("an unsigned bundle", "shuffle", lambda w: w.collector.open(w.bundle(by=None)), f"detected by collector: {PINNED}"),
    ("a bundle with an unknown entry", "shuffle", lambda w: w.device().accept(w.bundle(more=1)), "detected by device: no unknown entries"),
    ("a bundle of another version", "shuffle", lambda w: w.device().accept(w.bundle(version=2)), "detected by device: of version 1"),
    ("a bundle that does not name the one before", "shuffle", lambda w: both(w, w.planned, w.after(w.planned, previous="11" * 32)), "detected by device: a bundle must name the one before it"),
    ("a stage that goes back", "shuffle", lambda w: both(w, w.after(w.planned), w.planned), "detected by device: a stage must not be below stage 1"),
    ("a release asked for twice", "central", asked_again, "harmless: the same bytes are handed over, and nothing is charged"),
    ("a release of fewer than least", "central", too_few, "detected by collector: a stage must have at least 8 reports"),
    ("a stage that was released, collected again", "central", collected_again, "detected by collector: what was released must not be collected again"),
    ("the next stage while one is open", "central", lambda w: opened_twice(w, w.after(w.planned)), "detected by collector: the stage before must have ended"),
    ("a stage after the end of the study", "central", ended, "detected by shuffler: a study that was ended must not be opened"),
    ("a stage that is opened late", "central", opened_late, "harmless: the device sends the same bytes, and they count once"),
    ("a stage given up, to ask its people again (local)", "local", lambda w: reported_then(w, w.after(w.planned)), "detected by device: must report at most 1 times"),
    ("a stage given up, to ask its people again (central)", "central", given_up, "harmless: nothing of the stage that was given up is released"),
    ("a policy for one purpose", "local", lambda w: body_under(w, w.bundle(policies=[[w.design.fallback, [1, 1]]])) == body_under(w, w.planned), "harmless: a report of the same life is the same bytes, whatever the policy"),
    ("other bounds of rewards", "local", lambda w: Bundle.parse(w.bundle(rewards=[0.0, 0.001])).channel == Bundle.parse(w.planned).channel and len(body_under(w, w.bundle(rewards=[0.0, 0.001]))) == len(body_under(w, w.planned)), "harmless: rewards are clipped, and the noise and the length are the same"),
    ("a number of a stage left out, and another chain", "shuffle", skipped_number, "limit: the chain of bundles is followed over stages that a device has seen, not over numbers that are left out"),
    ("different bundles to different devices, through the shuffler", "shuffle", two_bundles, "limit: learner and shuffler can hand different bundles of one stage to devices that never compare notes"),
)
# fmt: on


# the shuffler


def another_release(w: World) -> str:
    w.learn()
    return w.study.take(w.forged(noise="simulation"), opened=w.counts)


def charged_before(w: World) -> str:
    charge = ReleasePayload.parse(w.learn()).charge
    w.run()
    return w.study.take(w.forged(charge=charge))


def in_order(w: World) -> bool:
    """A batch that is sorted stands for one that was not permuted."""
    return w.with_batch(b"".join(sorted(w.batch()))) == w.counts


def replaced(w: World) -> bool:
    """All messages of one person are replaced by those of a made-up one; the tokens stay."""
    made_up = Report.parse(w.report(seed=99)).body
    w.plain.pop()
    messages, size = w.batch(), len(w.batch()[0])
    ours = [made_up[start : start + size] for start in range(0, len(made_up), size)]
    return w.with_batch(b"".join([*messages[len(ours) :], *ours])) != w.counts


def without_permutation(w: World) -> bool:
    """What a mixer makes of a sorted batch: the same counts, in an order of its own."""
    orders = []
    for _ in range(2):
        seen: list[bytes] = []
        assert (
            w.with_batch(b"".join(sorted(w.batch())), file=lambda data, seen=seen: seen.append(data) or data)
            == w.counts
        )
        orders.append(seen[0])
    return orders[0] != orders[1]


def old_messages(w: World) -> bool:
    keys = {w.rings["learner"].active: w.rings["learner"].secret(w.rings["learner"].active)}
    manifest, path = Manifest.parse(ReleasePayload.parse(w.released).payload), w.collector.batch_file(0)
    channel = w.design.parts().channels[0]
    return open_batch(path, manifest, channel, keys=keys, study=w.digest, stage=1).foreign == manifest.count


def added_again(w: World) -> bool:
    w.collector.open(w.planned)
    report = w.report()
    return [w.collector.add(report, "ada") for _ in range(2)] == ["counted", "again"]


def moved(w: World) -> str:
    """A report under the name of another person."""
    w.collector.open(w.planned)
    report = w.report()
    w.collector.add(report, "ada")
    return w.collector.add(report, "eve")


def late(w: World) -> str:
    w.run()
    return w.collector.add(w.report(77), "late")


def served(w: World, path: str, data: Any) -> Any:
    """A device that has refreshed gets something else."""
    device = w.remote()
    device.refresh()
    w.served = {path: data(w)}
    return device.refresh()


def stale_shuffler(w: World) -> Any:
    old = w.document("shuffler")
    w.rings["shuffler"].rotate(0.0, grace=600)
    return served(w, "/v1/keys/shuffler", lambda _: old)


def older_bundle(w: World) -> Any:
    old, w.planned = w.planned, w.after(w.planned)
    return served(w, "/v1/bundle", lambda _: old)


def changed_bundle(w: World) -> Any:
    content = {**Bundle.parse(w.planned).content, "name": "x"}
    return served(w, "/v1/bundle", lambda _: canonical(content))


def told(w: World, answer: httpx.Response) -> Any:
    """A device that reports is told this, and asked again in the next stage; the second report is returned."""
    w.served = {"/v1/reports": answer}
    device = w.remote()
    device.refresh()
    device.report(LIVED)
    device.send()
    w.planned = w.after(w.planned, slot=1, channel=w.design.channels[1])
    device.refresh()
    device.report(LIVED)
    return device


def says_counted(w: World) -> bool:
    w.served = {"/v1/reports": httpx.Response(201, json={"report": "counted"})}
    w.collector.open(w.planned)
    device = w.remote()
    device.refresh()
    device.report(LIVED)
    return device.send() == "counted" and w.collector.close() == 0


def says_late(w: World) -> bool:
    return told(w, problem(410, "late")).send() == "late" and len(w.posted) == 2


def dropped(w: World) -> bool:
    """Four of twelve are dropped before the collector sees them."""
    w.run(TARGET - 4)
    return w.study.take(w.released, inspected=True) == "taken"


def no_noise(w: World) -> bool:
    """Another payload of the right length: the learner cannot tell which noise is in it."""
    payload = ReleasePayload.parse(w.run()).payload
    return w.study.take(w.forged(payload=bytes(len(payload))), inspected=True) == "taken"


def restored(w: World, *, with_file: bool) -> Any:
    w.collector.open(w.planned)
    w.fill()
    w.collector.close()
    place, copy = w.place / "collector", w.place / "copy"
    shutil.copytree(place, copy)
    first, kept = w.collector.release(w.study.head), (place / "last-head").read_bytes()
    if not with_file:
        (copy / "last-head").write_bytes(kept)
    return first, Collector(copy, key=w.sign["shuffler"], learner=w.pin["learner"]).release(w.study.head)


def second_draw(w: World) -> bool:
    first, second = restored(w, with_file=True)
    return first != second


def taken_twice(w: World) -> str:
    first, second = restored(w, with_file=True)
    w.study.take(first, inspected=True)
    return w.study.take(second, inspected=True)


def two_documents(w: World) -> bool:
    """Two devices with other keys of the shuffler: what is inside is sealed to the learner all the same."""
    found = []
    for _ in range(2):
        device = w.remote(noise=SimulationNoise(np.random.default_rng(7)))
        device.refresh()
        device.report(LIVED)
        found.append(Report.parse(device.kept.plain).body)
        w.rings["shuffler"].rotate(0.0, grace=600)
    return found[0] == found[1]


def take(w: World, **changes: Any) -> str:
    return w.study.take(w.forged(**changes), opened=w.counts)


def with_files(w: World, **files: bytes) -> bytes:
    w.served = {f"/v1/stages/0/{name}": data for name, data in files.items()}
    return w.opened()


def tokens(w: World, number: int = LEAST, stage: int = 0, issuer: str = "") -> list[bytes]:
    source = w.issuer if not issuer else w.new_issuer(issuer)
    return sorted((source.token(stage) for _ in range(number)), key=lambda token: token[8:])


VALID = "every report must have a valid token of its own"
# fmt: off
SHUFFLER = (
    ("an unsigned release", "sealed", lambda w: take(w, by=None), f"detected by learner: {PINNED}"),
    ("a release that another key signed", "sealed", lambda w: take(w, by="stranger"), "detected by learner: signed by another key"),
    ("a release of another study", "sealed", lambda w: take(w, study=bytes(32)), "detected by learner: a release must be of this study"),
    ("a release of another stage", "sealed", lambda w: take(w, stage=1), "detected by learner: a release must be of the open stage"),
    ("a second release of a stage", "shuffle", another_release, "detected by learner: a question has one release"),
    ("a release of fewer than least", "sealed", lambda w: take(w, people=LEAST - 1), "detected by learner: a release must be of 8 to 12 people"),
    ("a release of more than were asked", "sealed", lambda w: take(w, people=TARGET + 1), "detected by learner: a release must be of 8 to 12 people"),
    ("a release that an earlier charge pays", "central", charged_before, "detected by learner: a release must be charged after record"),
    ("a batch that is cut", "sealed", lambda w: with_files(w, batch=b"".join(w.batch()[1:])), "detected by learner: bytes that were released"),
    ("a batch that is doubled", "sealed", lambda w: with_files(w, batch=b"".join(w.batch() * 2)), "detected by learner: bytes that were released"),
    ("a message copied over another, with a manifest", "sealed", lambda w: w.with_batch(b"".join([w.batch()[0], w.batch()[0], *w.batch()[2:]])), "detected by learner: twice"),
    ("messages replaced, without a manifest", "sealed", lambda w: with_files(w, batch=os.urandom(len(b"".join(w.batch())))), "detected by learner: the file that its release names"),
    ("a manifest of fewer messages", "sealed", lambda w: w.opened(w.forged(manifest={"count": 1})), "detected by learner: reports must have"),
    ("messages replaced, with a manifest", "sealed", replaced, "limit: no message is bound to its token, so a shuffler can replace people's messages by its own"),
    ("a permutation that is not applied", "sealed", in_order, "limit: the order of a batch is trusted, unless a mixer permutes again"),
    ("a permutation that is not applied, before a mixer", "mixed", without_permutation, "harmless: the mixer's order is drawn anew, and the counts are the same"),
    ("messages of an earlier stage, again", "sealed", old_messages, "harmless: stage and study are bound into every seal, and none of them opens"),
    ("tokens of another stage", "sealed", lambda w: w.with_tokens(tokens(w, stage=1)), f"detected by learner: {VALID}, got 'one that is of a later stage"),
    ("one token for all", "sealed", lambda w: w.with_tokens(tokens(w, 1) * LEAST), f"detected by learner: {VALID}, got 'one that is not in ascending order"),
    ("tokens of another issuer", "sealed", lambda w: w.with_tokens(tokens(w, issuer="other")), f"detected by learner: {VALID}, got 'one that is not signed"),
    ("fewer tokens than reports", "sealed", lambda w: w.with_tokens(tokens(w, LEAST - 1)), "detected by learner: bytes that were released"),
    ("a manifest without tokens", "sealed", lambda w: w.opened(w.forged(manifest={"tokens": NO_TOKENS})), "detected by learner: tokens must be the file that their release names"),
    ("a report counted twice", "local", added_again, "harmless: the same report again counts once"),
    ("a report under the name of another person", "local", moved, "detected by collector: id taken"),
    ("a late report counted", "local", late, "detected by collector: late"),
    ("reports dropped", "central", dropped, "limit: reports that a shuffler drops are missed only below least"),
    ("an answer that lies: counted, and dropped", "shuffle", says_counted, "limit: a device cannot see whether its report counts; it sends no other"),
    ("an answer that lies: late, and counted (local)", "local", lambda w: told(w, problem(410, "late")), "detected by device: must report at most 1 times"),
    ("an answer that lies: late, and counted (shuffle)", "shuffle", says_late, "limit: without tokens, a shuffler that counts what it calls late gets a report too many of a person"),
    ("a stale keys document", "shuffle", stale_shuffler, "detected by device: keys must have a serial of at least"),
    ("keys of another party", "shuffle", lambda w: served(w, "/v1/keys/shuffler", lambda w: w.document("learner", "shuffler")), "detected by device: keys must be those of the shuffler"),
    ("keys that a stranger signed", "shuffle", lambda w: served(w, "/v1/keys/shuffler", lambda w: w.document("shuffler", "stranger")), "detected by device: signed by another key"),
    ("other keys for other devices", "shuffle", two_documents, "harmless: the shuffler knows the sender anyway, and what it hands on is sealed to the learner"),
    ("an older bundle to a device", "shuffle", older_bundle, "detected by device: a stage must not be below stage 1"),
    ("a changed bundle to a device", "shuffle", changed_bundle, "detected by device: a bundle must have a signature that fits"),
    ("less noise than the channel says", "central", no_noise, "limit: under central trust the curator's noise is trusted"),
    ("an older copy of its database", "central", lambda w: restored(w, with_file=False), "detected by collector: this collector is stopped"),
    ("an older copy of database and head file, to a colluding learner", "central", second_draw, "limit: a database that is restored with its head file draws again for a learner that shows the older head"),
    ("the same, to an honest learner", "central", taken_twice, "detected by learner: a question has one release"),
)
# fmt: on


# the mixer


def document(w: World, by: str | None = "mixer", **changes: Any) -> bytes:
    """What the learner makes of a mixer that signs another document."""

    def lie(data: bytes) -> bytes:
        plain = {name: value for name, value in {**json.loads(data), **changes}.items() if name != "signature"}
        return canonical(plain if by is None else sign(plain, w.sign[by]))

    w.served = {}
    return w.opened(document=lie)


def mixed_to(w: World, change: Callable[[list[bytes]], list[bytes]], **more: Any) -> bytes:
    """What the learner makes of a mixer that hands out, and signs, another file."""
    w.served, size = {}, len(w.batch()[0]) - LAYER
    kept: dict[str, bytes] = {}

    def file(data: bytes) -> bytes:
        return kept["file"]

    def lie(data: bytes) -> bytes:
        mixed = next(
            path for path in sorted(w.place.glob("mixer */0/mixed"), key=lambda path: path.stat().st_mtime_ns)[::-1]
        )
        content = mixed.read_bytes()
        kept["file"] = b"".join(change([content[start : start + size] for start in range(0, len(content), size)]))
        plain = {name: value for name, value in json.loads(data).items() if name != "signature"}
        return canonical(sign({**plain, "file": sha256(kept["file"]).hex()}, w.sign["mixer"]))

    return w.opened(document=lie, file=file, **more)


def foreign(w: World) -> str:
    seen: list[Any] = []
    mixed_to(w, lambda messages: [os.urandom(len(messages[0])), *messages[1:]], counted=seen.append)
    return f"{seen[0].foreign} foreign"


def mixer_file(w: World, change: Callable[[bytes], bytes]) -> bytes:
    w.served = {}
    return w.opened(file=change)


def lost_key(w: World) -> bytes:
    w.run()
    w.rings["mixer"].rotate(0.0, grace=0)
    return w.opened()


def own_messages(w: World) -> bool:
    """A mixer seals a label of its own to the learner's public key."""
    honest, w.layers = w.counts, 1
    made_up = Report.parse(w.report(seed=99)).body
    w.plain.pop()
    w.layers = 2
    size = len(w.batch()[0]) - LAYER
    ours = [made_up[start : start + size] for start in range(0, len(made_up), size)]
    return mixed_to(w, lambda messages: [*messages[len(ours) :], *ours]) != honest


# fmt: off
MIXER = (
    ("an unsigned document", "mixed", lambda w: document(w, by=None), "detected by learner: a mixed document must have its entries"),
    ("a document that another key signed", "mixed", lambda w: document(w, by="stranger"), "detected by learner: signed by another key"),
    ("a document of another release", "mixed", lambda w: document(w, release="11" * 32), "detected by learner: about the release that it was asked for"),
    ("a document of fewer messages", "mixed", lambda w: document(w, count=1), "detected by learner: about the release that it was asked for"),
    ("a document of another version", "mixed", lambda w: document(w, version=2), "detected by learner: about the release that it was asked for"),
    ("a document with an unknown entry", "mixed", lambda w: document(w, more=1), "detected by learner: its entries and no other ones"),
    ("a document of another study", "mixed", lambda w: document(w, study="11" * 32), "detected by learner: about the release that it was asked for"),
    ("another file than the document names", "mixed", lambda w: mixer_file(w, lambda data: data[::-1]), "detected by learner: the file that its release names"),
    ("a file that is cut", "mixed", lambda w: mixed_to(w, lambda messages: messages[1:]), "detected by learner: a batch must have"),
    ("a file that is doubled", "mixed", lambda w: mixed_to(w, lambda messages: messages * 2), "detected by learner: a batch must have"),
    ("a message copied over another", "mixed", lambda w: mixed_to(w, lambda messages: [messages[0], *messages[:-1]]), "detected by learner: twice"),
    ("a message replaced by noise", "mixed", foreign, "detected by learner: 1 foreign"),
    ("messages replaced by its own", "mixed", own_messages, "limit: a mixer can replace messages by its own, since any party can encrypt to the learner; it reads none"),
    ("a permutation that is not applied", "mixed", lambda w: mixed_to(w, sorted) == w.counts, "limit: the mixer's order is trusted; without it, the shuffler's order still stands between people and learner"),
    ("keys of another party", "mix", lambda w: keys_in_bundle(w, learner=w.document("learner"), mixer=w.document("shuffler", "mixer")), "detected by device: keys must be those of the mixer"),
    ("a stale keys document", "mix", lambda w: stale_keys(w, "mixer"), "detected by device: keys must have a serial of at least"),
    ("keys rotated outside of the bundle", "mix", lambda w: w.relay().put_keys("mixer", w.document("mixer")), "detected by shuffler: keys outside of a bundle must be the issuer's"),
    ("a key dropped before its stage is mixed", "mix", lost_key, "detected by mixer: messages must be sealed to a key of this mixer"),
    ("no answer", "mixed", lambda w: document(w) and w.opened(document=lambda data: httpx.Response(503)), "detected by learner: a mixer must answer, got status 503"),
)
# fmt: on


# the issuer


def wallet(w: World, *documents: bytes) -> Wallet:
    made = Wallet(None, study=w.digest, issuer=w.issuer.public)
    for data in documents:
        made.accept(data)
    return made


def keys(w: World, private: Path | None = None, **changes: Any) -> bytes:
    """The issuer's document with other keys."""
    content = {"study": w.digest, "serial": 2, "stages": w.issuer.keys.stages, **changes}
    return TokenKeys(**content).signed(private or w.issuer.private)


def resigned(w: World, **changes: Any) -> bytes:
    """The issuer's document with other entries."""
    plain = {name: value for name, value in json.loads(w.issuer.document).items() if name != "signature"}
    return canonical(sign({**plain, **changes}, w.issuer.private))


def swapped(w: World) -> dict[int, Any]:
    stages, other = dict(w.issuer.keys.stages), w.new_issuer("other").keys.stages
    return {**stages, 0: other[0]}


def admitted(w: World, token: bytes, stage: int = 0) -> str:
    found = w.holders(w.issuer.document).admit(token, stage)
    return found.words if isinstance(found, Refusal) else found


def forgetful(w: World) -> bool:
    """An issuer restored from a backup signs a second message of one person and stage."""
    people = Enrolment.new(w.place / "people")
    secret = people.enrol(1)[0].encode()
    more = {"people": people, "key": w.issuer.private}
    issuer = Issuer.new(w.place / "office", study=w.digest, reports=1, **more)
    issuer.open_stage(0)
    shutil.copytree(w.place / "office", w.place / "older")
    found = []
    for name in ("office", "older"):
        issuer = Issuer(w.place / name, **more)
        asked = Asked.new(TokenKeys.parse(issuer.document(), study=w.digest, pinned=w.issuer.public), 0)
        found.append(issuer.issue(secret, 0, base64.b64decode(json.loads(asked.body)["blinded"])))
    return all(isinstance(one, bytes) for one in found) and found[0] != found[1]


def refused_person(w: World) -> bool:
    """A device without a token sends nothing."""
    w.served = {"/v1/keys/issuer": w.issuer.document, "/v1/tokens": problem(401, "unauthorized")}
    pins = PinnedKeys(learner=w.pin["learner"], shuffler=w.pin["shuffler"], issuer=w.issuer.public)
    device = w.remote(name=None, credential="secret", issuer="http://issuer", pins=pins)
    device.refresh()
    device.report(LIVED)
    return device.send() == "unauthorized" and len(w.posted) == 1


def finished(w: World, reply: bytes) -> bytes:
    made = wallet(w, w.issuer.document)
    made.request(0)
    return made.finish(0, reply)


# fmt: off
ISSUER = (
    ("another key for one person, later", "shuffle", lambda w: wallet(w, w.issuer.document, keys(w, serial=3, stages=swapped(w))), "detected by device: the key of a stage must stay what it was"),
    ("another key for the shuffler, later", "shuffle", lambda w: w.holders(w.issuer.document).accept(keys(w, serial=3, stages=swapped(w))), "detected by shuffler: the key of a stage must stay what it was"),
    ("a key per person, at the first look", "shuffle", lambda w: wallet(w, keys(w, stages=swapped(w))).keys.stages[0].spki != wallet(w, w.issuer.document).keys.stages[0].spki, "limit: issuer and shuffler can hand a key of their own to devices that see the issuer's keys for the first time"),
    ("one key for two stages", "shuffle", lambda w: wallet(w, resigned(w, stages=dict.fromkeys("01", json.loads(w.issuer.document)["stages"]["0"]))), "detected by device: every stage must have a key of its own"),
    ("a stale document", "shuffle", lambda w: wallet(w, w.issuer.document, keys(w, serial=1)), "detected by device: the issuer's serial must be at least 2"),
    ("a stage left out", "shuffle", lambda w: wallet(w, w.issuer.document, keys(w, serial=3, stages={0: w.issuer.keys.stages[0]})), "detected by device: the key of a stage must stay what it was"),
    ("two documents of one serial", "shuffle", lambda w: wallet(w, w.issuer.document, keys(w, stages={**w.issuer.keys.stages, 2: w.new_issuer("other").keys.stages[0]})), "detected by device: documents of one serial must be the same"),
    ("a document of another study", "shuffle", lambda w: wallet(w, keys(w, study=bytes(32))), "detected by device: the issuer's keys must be of this study"),
    ("a document that another key signed", "shuffle", lambda w: wallet(w, keys(w, private=w.sign["stranger"])), "detected by device: the issuer's keys must be signed by the pinned key"),
    ("a document with an unknown entry", "shuffle", lambda w: wallet(w, resigned(w, more=1)), "detected by device: the issuer's keys must have the entries"),
    ("a document of another version", "shuffle", lambda w: wallet(w, resigned(w, version=2)), "detected by device: of a known format and version"),
    ("a signature by the key of another stage", "shuffle", lambda w: finished(w, w.issuer.reply(Asked.new(w.issuer.keys, 1).body)), "detected by device: a blind signature must verify once it is finalized"),
    ("a signature for another person's message", "shuffle", lambda w: finished(w, w.issuer.reply(Asked.new(w.issuer.keys, 0).body)), "detected by device: a blind signature must verify once it is finalized"),
    ("a token of another stage", "shuffle", lambda w: admitted(w, w.issuer.token(1)), "detected by shuffler: of a later stage than this one"),
    ("a token of an earlier stage", "shuffle", lambda w: admitted(w, w.issuer.token(0), 1), "detected by shuffler: of a stage before this one"),
    ("a token under another key than it published", "shuffle", lambda w: admitted(w, w.new_issuer("other").token(0)), "detected by shuffler: not signed for this study"),
    ("tokens for people that it makes up", "shuffle", lambda w: len({admitted(w, w.issuer.token(0)) for _ in range(3)}) == 3 and all(admitted(w, w.issuer.token(0)).startswith("token:") for _ in range(3)), "limit: an issuer can make up people; its list is trusted"),
    ("a second token from a restored backup", "shuffle", forgetful, "limit: an issuer that is restored from a backup signs again for people that it has forgotten"),
    ("no token for one person", "shuffle", refused_person, "limit: an issuer can keep a person out; nothing of that person is sent to the shuffler"),
)
# fmt: on

PARTIES = {"learner": LEARNER, "shuffler": SHUFFLER, "mixer": MIXER, "issuer": ISSUER}
ROWS = [Row(party, *row) for party, rows in PARTIES.items() for row in rows]
FRESH = {"shuffle": ("shuffle", 1), "mix": ("shuffle", 2), "local": ("local",), "central": ("central",)}


@pytest.fixture(scope="module")
def shared():
    with fast_directory() as folder:
        made = {name: World(Path(folder) / name, "shuffle", layers) for name, layers in (("sealed", 1), ("mixed", 2))}
        for world in made.values():
            world.run()
            assert world.opened() == world.counts  # what honest parties do is taken
        yield made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.party}: {row.deviation}")
def test_every_deviation_has_its_outcome(row, shared):
    verdict, _, words = row.outcome.partition(": ")
    with fast_directory() as folder:
        world = shared[row.kind] if row.kind in shared else World(Path(folder), *FRESH[row.kind])
        world.served = {}
        if not verdict.startswith("detected by "):
            assert verdict in ("harmless", "limit")
            assert row.tried(world) is True
            return
        try:
            found = row.tried(world)
        except TacitError as error:
            found = str(error)
        assert isinstance(found, str)
        assert words in found


def test_there_are_forty_deviations_and_six_of_every_party():
    assert len(ROWS) >= 40
    assert len({(row.party, row.deviation) for row in ROWS}) == len(ROWS)
    assert min(Counter(row.party for row in ROWS).values()) >= 6


def test_the_page_lists_these_limits_and_no_others():
    page = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "operations" / "threats.py"))
    found = {
        party: [row[3].removeprefix("limit: ") for row in rows if row[3].startswith("limit: ")]
        for party, rows in PARTIES.items()
    }
    assert {party: list(limits) for party, limits in page["DEVIATIONS"].items()} == found
