"""Tokens: one is raced by a hundred requests; expired, foreign and other ones are refused."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections import Counter
from typing import Any

import study_fakes

from chaos.clients import Reply, Wire, insist
from chaos.oracle import Sent
from chaos.worlds import World, bad, row, world
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.blind_rsa import SecretKey, blind_sign
from tacit.service.tokens.token import TokenKeys
from tacit.service.tokens.wallet import Asked

SCALES = {"ci": 100, "chaos": 100}
TARGET, LEAST = 4, 3


def run(scale: str = "chaos", seed: int = 0) -> list[dict[str, Any]]:
    """All rows of this module."""
    racers = SCALES[scale]
    with world(stages=3, target=TARGET, least=LEAST, labels=racers + 40, parties={"tokens": True}) as it:
        people = list(Enrolment(it.parties.enrolment).enrol(3 * TARGET))
        it.parties.start()
        it.await_stage(0)
        unused, *tokens = [token_of(it, people.pop(), 0) for _ in range(TARGET + 1)]
        words = race(it, tokens[0], racers)
        same = replayed(it, tokens[1], 20)
        for token in tokens[2:]:
            send(it, token)
        it.await_taken(1)
        it.await_stage(1)
        refused = strangers(it, unused, people)
        for _ in range(TARGET):
            send(it, token_of(it, people.pop(), 1))
        it.await_taken(2)
        found = it.audit()
    raced = words["counted"] == 1 and words["twice"] == racers - 1 and sum(words.values()) == racers
    once = same["counted"] == 1 and same["again"] == 19
    return [
        row(
            f"one token raced by {racers} requests",
            "exactly one accepted",
            words["counted"],
            raced and once and not bad(found),
            "different reports: one counted, the others twice; the same report: one counted, the others again",
            raced=dict(words),
            replayed=dict(same),
            findings=bad(found),
        ),
        row(
            "expired, foreign, forged token; token of another stage; none",
            "0 accepted",
            sum(word in ("counted", "again") for word in refused.values()),
            not any(word in ("counted", "again") for word in refused.values()) and not bad(found),
            words=refused,
        ),
    ]


def keys_of(it: World) -> TokenKeys:
    """The issuer's keys as devices get them."""
    with contextlib.closing(it.parties.publicly("shuffler")) as wire:
        found = insist(lambda: wire.ask("GET", "/v1/keys/issuer"), lambda reply: reply.status == 200)
    return TokenKeys.parse(found.body, study=it.parties.study, pinned=it.parties.pins.issuer or "")


def token_of(it: World, credential: str, stage: int) -> bytes:
    """A token from the issuer."""
    asked = Asked.new(keys_of(it), stage)
    headers = {"authorization": f"Bearer {credential}", "content-type": "application/json"}
    with contextlib.closing(it.parties.publicly("issuer")) as wire:
        found = insist(lambda: wire.ask("POST", "/v1/tokens", asked.body, headers), lambda reply: reply.status == 200)
    return asked.finish(found.body)


def forged_token(study: bytes, stage: int) -> bytes:
    """A token that somebody else has signed."""
    key = SecretKey.new()
    asked = Asked.new(TokenKeys(study=study, serial=1, stages={stage: key.public}), stage)
    signature = base64.b64encode(blind_sign(key, asked.blinded)).decode()
    return asked.finish(json.dumps({"signature": signature}).encode())


def made(it: World, token: bytes, stage: int) -> tuple[Sent, bytes]:
    """A new report with a label of its own, under this token."""
    sent, _ = it.person(stage)
    report = it.sender.report(study_fakes.body_of(sent.label), stage, sent.id)
    return sent, it.sender.envelope(report, token)


def send(it: World, token: bytes, stage: int | None = None) -> str:
    """One report under a token."""
    sent, envelope = made(it, token, it.stage if stage is None else stage)
    with contextlib.closing(it.parties.publicly("shuffler")) as wire:
        reply = insist(lambda: wire.ask("POST", "/v1/reports", envelope), lambda found: found.status < 500)
    return it.told(sent, reply)


def race(it: World, token: bytes, racers: int) -> Counter[str]:
    """Different reports under one token, at the same time."""
    return _together(it, [made(it, token, 0) for _ in range(racers)])


def replayed(it: World, token: bytes, times: int) -> Counter[str]:
    """The same report under one token, at the same time."""
    return _together(it, [made(it, token, 0)] * times)


def strangers(it: World, unused: bytes, people: list[str]) -> dict[str, str]:
    """What is said to tokens that are not good in stage 1."""
    ahead = forged_token(it.parties.study, 2)
    mine = token_of(it, people.pop(), 1)
    changed = bytes([*mine[:-1], mine[-1] ^ 1])
    return {
        "expired, in its own stage": send(it, unused, 0),
        "of the stage before": send(it, unused, 1),
        "of this stage, in the stage before": send(it, mine, 0),
        "foreign": send(it, forged_token(it.parties.study, 1), 1),
        "foreign, of a stage to come": send(it, ahead, 1),
        "signature changed": send(it, changed, 1),
        "none": send(it, b"", 1),
        "another kind of credential": send(it, b"TCO1\x01\x00a", 1),
    }


def _together(it: World, jobs: list[tuple[Sent, bytes]]) -> Counter[str]:
    gate, found, lock = threading.Barrier(len(jobs)), Counter[str](), threading.Lock()
    url = it.parties.public("shuffler")

    def one(sent: Sent, envelope: bytes) -> None:
        with contextlib.closing(Wire(url)) as wire:
            wire.ask("GET", "/healthz")  # connected before the race
            gate.wait(60.0)
            reply: Reply = insist(lambda: wire.ask("POST", "/v1/reports", envelope), lambda got: got.status < 500)
        with lock:
            found[it.told(sent, reply)] += 1

    threads = [threading.Thread(target=one, args=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    return found
