"""Signed documents of the shared vectors of devices: bundles and keys, and which of them a device refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.documents import canonical, digest
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.signature import DOMAIN, examine, sign
from tacit.service.encryption.hpke import SUITE, SecretKey
from tacit.service.encryption.keyring import KeysDocument, believed_keys
from tacit.study.bundle import Bundle
from tacit.study.device import Device

STUDY = hashlib.sha256(b"tacit test vectors: study").hexdigest()
OTHER = hashlib.sha256(b"tacit test vectors: another study").hexdigest()
ZERO = "0" * 64
HEADS = (f"0:{ZERO}", f"1:{'ab' * 32}", f"2:{'cd' * 32}")
CLAIM = {
    "trust": "shuffle",
    "epsilon": 6.0,
    "delta": 1e-3,
    "unit": {"reports": 1, "per_stage": 1},
    "neighbours": "replace-one",
    "output": "shuffled-transcript",
}
CHANNEL = {
    "kind": "shuffle",
    "claim": CLAIM,
    "query": {"asks": "batch", "layer": None, "failure_prob": None},
    "shape": {"horizon": 2, "num_states": 2, "num_actions": 2, "staged": True},
    "messages": "ones",
    "target": 50,
    "least": 45,
    "honest": 45,
    "bits_per_user": 1,
    "block": 24,
    "overflow": [0, 1],
    "probability": [5872456067136727, 36028797018963968],
}
LAPLACE = {
    "kind": "local",
    "encoding": "complement",
    "mechanism": "laplace",
    "query": {"asks": "totals"},
    "shape": CHANNEL["shape"],
    "target": 50,
    "least": 1,
    **{name: {"discrete": True, "scale": [6, 1]} for name in ("outcome", "transition")},
}
LOCAL = {**CLAIM, "trust": "local", "epsilon": 1.0, "delta": 0.0, "output": "every-message"}
OUE = {
    **LAPLACE,
    "claim": LOCAL,
    "mechanism": "oue",
    **{name: {"epsilon": [1, 1], "slots": 3, "feeding": 1} for name in ("outcome", "transition")},
}
LOUD = {**OUE, **{name: {"epsilon": [5, 4], "slots": 3, "feeding": 1} for name in ("outcome", "transition")}}
LINE = {
    "horizon": 2,
    "stages": 1,
    "moves": [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 1, 1]],
    "starts": [1, 0],
    "rewards": [[[1, 0], [0, 1]]],
}
"""From the first state on; (0, 1) and (1, 0) lead one way, and two pairs earn: 2 + 3 + 6 of 24 counters."""
SUPPORTED = {**CHANNEL, "shape": {**CHANNEL["shape"], "support": LINE}, "block": 11}
UNIFORM = {"kind": "stochastic", "table": [[[0.5, 0.5]] * 2] * 2}
CERTAIN = {"kind": "deterministic", "actions": [[0, 1], [1, 0]]}
THREE = {"kind": "deterministic", "actions": [[0, 1, 0], [1, 0, 0]]}
WIDE = {**CHANNEL["shape"], "num_states": 3}
NOTHING: dict[str, Any] = {"query": None, "channel": None, "slot": None, "target": None, "least": None}
TOTALS = {"kind": "totals", "every": 0}
SEES = {"features": ["fine", "ill"], "of": [1, 0, 1]}
SEEN: dict[str, Any] = {"states": ["a", "b", "c"], "sees": SEES, "policies": [[CERTAIN, [1, 1]]]}


class World:
    """Fixed keys, and documents signed with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signers = {who: self._signer(who) for who in ("learner", "shuffler", "mixer", "stranger")}

    def _signer(self, who: str) -> tuple[Path, Path]:
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"tacit test vectors: {who} signs".encode()).digest())
        private, public = self.folder / f"{who}.pem", self.folder / f"{who}.pub.pem"
        pem = form.Encoding.PEM
        private.write_bytes(key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption()))
        public.write_bytes(key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo))
        return private, public

    def signed(self, content: Mapping[str, Any], by: str | None = "learner") -> bytes:
        return canonical(content if by is None else sign(content, self.signers[by][0]))

    def bundle(self, by: str | None = "learner", without: str = "", **changed: Any) -> bytes:
        """A bundle, changed and then signed, whether or not it is a good one."""
        content = {
            "format": "tacit-stage",
            "version": 1,
            "study": STUDY,
            "name": "vectors",
            "states": ["a", "b"],
            "actions": ["x", "y"],
            "horizon": 2,
            "rewards": [0.0, 1.0],
            "claim": CLAIM,
            "stage": 3,
            "slot": 0,
            "question": 0,
            "questions": 1,
            "channel": CHANNEL,
            "query": {"kind": "batch", "layer": None, "failure_prob": None},
            "target": 50,
            "least": 45,
            "policies": [[UNIFORM, [1, 3]], [CERTAIN, [4, 6]]],
            "fallback": UNIFORM,
            "kill": False,
            "head": HEADS[1],
            "previous": ZERO,
            **changed,
        }
        content.pop(without, None)
        return self.signed(content, by)

    def next(self, before: bytes, **changed: Any) -> bytes:
        return self.bundle(**{"stage": 4, "previous": digest(json.loads(before)), "head": HEADS[1], **changed})

    def bundles(self) -> dict[str, dict[str, Any]]:
        """Cases: what was accepted before, what comes now, the person's limits; and what a browser does otherwise."""
        first = self.bundle()
        tampered = first.replace(b'"name":"vectors"', b'"name":"vectorz"')
        local = {"claim": LOCAL, "query": TOTALS, "least": 1}
        laplace = {**LAPLACE, "claim": LOCAL}
        weaker = {**CLAIM, "epsilon": 7.0}
        channel = {**CHANNEL, "claim": weaker}
        quiet = {**CHANNEL, "probability": [1, 2**30]}
        mixed = [[UNIFORM, [1, 2]], [CERTAIN, [1, 3]]]
        return {
            "good": {"bundle": first},
            "same again": {"before": [first], "bundle": first},
            "next stage": {"before": [first], "bundle": self.next(first)},
            "a later stage": {"before": [first], "bundle": self.bundle(stage=9, previous="11" * 32, head=HEADS[2])},
            "kill": {"before": [first], "bundle": self.next(first, kill=True, **NOTHING)},
            "nothing asked": {"bundle": self.bundle(**NOTHING)},
            "local": {"bundle": self.bundle(**local, channel=OUE)},
            "at the cap": {"bundle": first, "cap": 6.0},
            "at the floor": {"bundle": first, "floor": 45},
            "unsigned, nothing pinned": {"bundle": self.bundle(by=None), "pinned": False},
            "signed, nothing pinned": {"bundle": first, "pinned": False},
            "unsigned": {"bundle": self.bundle(by=None)},
            "forged": {"bundle": tampered},
            "forged, nothing pinned": {"bundle": tampered, "pinned": False},
            "another key": {"bundle": self.bundle(by="stranger")},
            "another study": {"before": [first], "bundle": self.next(first, study=OTHER)},
            "the claim changed": {"before": [first], "bundle": self.next(first, claim=weaker, channel=channel)},
            "lower stage": {"before": [first], "bundle": self.bundle(stage=2)},
            "fork": {"before": [first], "bundle": self.bundle(name="fork")},
            "another chain": {"before": [first], "bundle": self.next(first, previous="22" * 32)},
            "ledger went back": {"before": [first], "bundle": self.next(first, head=HEADS[0])},
            "ledger forked": {"before": [first], "bundle": self.next(first, head=f"1:{'cd' * 32}")},
            "unknown entry": {"bundle": self.bundle(extra=1)},
            "missing entry": {"bundle": self.bundle(without="fallback")},
            "another version": {"bundle": self.bundle(version=2)},
            "above the cap": {"bundle": first, "cap": 5.999},
            "below the floor": {"bundle": first, "floor": 46},
            "later question": {"bundle": self.bundle(question=1)},
            "spaces": {"bundle": first.replace(b',"kill"', b', "kill"')},
            "another trust": {"bundle": self.bundle(claim={**CLAIM, "trust": "central", "output": "final-policy"})},
            "another claim": {"bundle": self.bundle(claim={**CLAIM, "epsilon": 5.0})},
            "another target": {"bundle": self.bundle(target=51)},
            "another query": {"bundle": self.bundle(query=TOTALS)},
            "unknown channel": {"bundle": self.bundle(channel={**CHANNEL, "kind": "shuffled"})},
            "unknown entry of a channel": {"bundle": self.bundle(channel={**CHANNEL, "noise": 0})},
            "no noise": {"bundle": self.bundle(channel={**CHANNEL, "bits_per_user": 0})},
            "no double": {"bundle": self.bundle(channel={**CHANNEL, "probability": [1, 3]})},
            "not in lowest terms": {"bundle": self.bundle(channel={**CHANNEL, "probability": [2, 8]})},
            "block too small": {"bundle": self.bundle(channel={**CHANNEL, "block": 23})},
            "delta too large": {"bundle": self.bundle(claim={**CLAIM, "delta": 0.5})},
            "weights": {"bundle": self.bundle(policies=mixed)},
            "policy of another shape": {"bundle": self.bundle(fallback={"kind": "deterministic", "actions": [[0, 1]]})},
            "policy of another action": {
                "bundle": self.bundle(fallback={"kind": "deterministic", "actions": [[0, 2], [0, 0]]})
            },
            "probabilities": {"bundle": self.bundle(fallback={"kind": "stochastic", "table": [[[0.5, 0.6]] * 2] * 2})},
            "kill that asks": {"bundle": self.bundle(kill=True)},
            "names twice": {"bundle": self.bundle(states=["a", "a"])},
            "bounds": {"bundle": self.bundle(rewards=[1.0, 0.0])},
            "head": {"bundle": self.bundle(head="1:ab")},
            "too little noise, locally": {"bundle": self.bundle(**local, channel=LOUD)},
            "too little noise, shuffled": {"bundle": self.bundle(channel=quiet), "browser": "accepted"},
            "laplace": {"bundle": self.bundle(**local, channel=laplace), "browser": "not supported"},
            "features": {"bundle": self.bundle(**SEEN)},
            **self.declared(),
        }  # fmt: skip

    def declared(self) -> dict[str, dict[str, Any]]:
        """Bundles with declarations: good ones, and every way in which one can be wrong."""
        supports = {
            "good": {},
            "for every step": {"stages": 2, "moves": [[h, *move[1:]] for h in (0, 1) for move in LINE["moves"]]},
            "another horizon": {"horizon": 3},
            "too many steps": {"stages": 3},
            "nothing can follow": {"moves": LINE["moves"][:-2]},
            "a move twice": {"moves": [LINE["moves"][0], *LINE["moves"]]},
            "out of order": {"moves": LINE["moves"][::-1]},
            "no such state": {"moves": [*LINE["moves"], [0, 1, 1, 2]]},
            "from the end": {"moves": [*LINE["moves"][:-1], [0, 1, 1, -1]]},
            "no number": {"moves": [*LINE["moves"][:-1], [0, 1, 1, True]]},
            "nowhere to begin": {"starts": [0, 0]},
            "another start": {"starts": [1, 2]},
            "true": {"starts": [True, False]},
            "flat rewards": {"rewards": LINE["rewards"][0]},
            "other rewards": {"rewards": [[[1, 0]]]},
            "unknown entry": {"reach": []},
        }
        seen = {
            "out of range": {"of": [1, 0, 2]},
            "negative": {"of": [1, 0, -1]},
            "of too few states": {"of": [1, 0]},
            "never seen": {"of": [0, 0, 0]},
            "no numbers": {"of": [1, 0, "ill"]},
            "names twice": {"features": ["ill", "ill"]},
            "blank": {"features": ["fine", " "]},
            "unknown": {"more": 1},
        }
        channel, shape = SUPPORTED, SUPPORTED["shape"]
        layer = {**CHANNEL["query"], "layer": 0}
        few = {**OUE, "shape": shape}
        return {
            **{
                f"support: {name}": {
                    "bundle": self.bundle(channel={**channel, "shape": {**shape, "support": {**LINE, **wrong}}})
                }
                for name, wrong in supports.items()
            },
            **{
                f"features: {name}": {"bundle": self.bundle(**{**SEEN, "sees": {**SEES, **w}})}
                for name, w in seen.items()
            },
            "support and features": {"bundle": self.bundle(**SEEN, channel=channel)},
            "support of one layer": {"bundle": self.bundle(channel={**channel, "query": layer, "block": 3})},
            "support of one layer, all counters": {"bundle": self.bundle(channel={**channel, "query": layer})},
            "support, all counters": {"bundle": self.bundle(channel={**channel, "block": 24})},
            "support, locally": {"bundle": self.bundle(claim=LOCAL, query=TOTALS, least=1, channel=few)},
            "features, policy over states": {"bundle": self.bundle(**{**SEEN, "fallback": THREE})},
            "features, channel over states": {"bundle": self.bundle(**SEEN, channel={**channel, "shape": WIDE})},
        }

    def secret(self, number: int) -> SecretKey:
        """A fixed X25519 key."""
        return SecretKey(hashlib.sha256(f"tacit test vectors: key {number}".encode()).digest())

    def listed(self, *states: str, first: int = 0) -> list[dict[str, str]]:
        """Keys in these states, as documents list them."""
        keys = [self.secret(first + number) for number in range(len(states))]
        return [
            {"id": key.id.hex(), "public": base64.b64encode(key.public.raw).decode(), "state": state}
            for key, state in zip(keys, states, strict=True)
        ]

    def document(self, by: str | None = "shuffler", **changed: Any) -> bytes:
        """A document of keys, changed and then signed."""
        content = {
            "format": "tacit-keys",
            "version": 1,
            "party": "shuffler",
            "study": STUDY,
            "suite": SUITE,
            "keys": self.listed("active", "pending", "expired"),
            "serial": 4,
            **changed,
        }
        return self.signed(content, by)

    def keys(self) -> dict[str, dict[str, Any]]:
        """Documents of the shuffler's keys, and which of them are refused."""
        document, listed = self.document, self.listed("active", "pending", "expired")
        two = [{**one, "state": "active"} for one in listed]
        return {
            "good": {"document": document()},
            "same again": {"seen": document(), "document": document()},
            "newer": {"seen": document(), "document": document(serial=5, keys=listed[:1])},
            "older": {"seen": document(), "document": document(serial=3)},
            "other keys of the same serial": {"seen": document(), "document": document(keys=listed[:1])},
            "unsigned": {"document": document(by=None)},
            "another key": {"document": document(by="stranger")},
            "tampered": {"document": document().replace(b'"serial":4', b'"serial":5')},
            "another party": {"document": document(party="learner")},
            "another study": {"document": document(study=OTHER)},
            "another suite": {"document": document(suite="none")},
            "two active": {"document": document(keys=two)},
            "none active": {"document": document(keys=listed[1:])},
            "twice": {"document": document(keys=[*listed, listed[2]])},
            "another id": {"document": document(keys=[{**listed[0], "id": "00" * 8}])},
            "unknown entry": {"document": document(extra=1)},
            "unknown state": {"document": document(keys=[listed[0], {**listed[1], "state": "new"}])},
            "short key": {"document": document(keys=[{**listed[0], "public": "AAAA"}])},
        }

    def named(self) -> dict[str, dict[str, Any]]:
        """Bundles of sealed stages: whose keys are pinned, what was seen before, and which keys are sealed to."""
        learner = json.loads(self.document(by="learner", party="learner", keys=self.listed("active", first=7)))
        mixer = json.loads(self.document(by="mixer", party="mixer", keys=self.listed("active", first=8)))
        newer = json.loads(self.document(by="learner", party="learner", serial=5, keys=self.listed("active", first=9)))
        own = json.loads(self.document(by="learner", party="mixer", keys=self.listed("active", first=7)))
        both, local = {"learner": learner, "mixer": mixer}, {"claim": LOCAL, "query": TOTALS, "least": 1}
        return {
            "learner": {"bundle": self.bundle(keys={"learner": learner})},
            "learner and mixer": {"bundle": self.bundle(keys=both), "mixed": True},
            "the next keys": {"bundle": self.bundle(keys={"learner": newer}), "before": {"learner": learner}},
            "keys went back": {"bundle": self.bundle(keys={"learner": learner}), "before": {"learner": newer}},
            "none, as tacit 0.8 planned it": {"bundle": self.bundle()},
            "no mixer where one is pinned": {"bundle": self.bundle(keys={"learner": learner}), "mixed": True},
            "a mixer where none is pinned": {"bundle": self.bundle(keys=both)},
            "the learner in the mixer's place": {"bundle": self.bundle(keys={**both, "mixer": own}), "mixed": True},
            "another party's": {"bundle": self.bundle(keys={"learner": mixer})},
            "of a stranger": {"bundle": self.bundle(keys={"learner": sign(learner, self.signers["stranger"][0])})},
            "unsigned": {"bundle": self.bundle(keys={"learner": {**learner, "signature": None}})},
            "mixer alone": {"bundle": self.bundle(keys={"mixer": mixer}), "mixed": True},
            "unknown party": {"bundle": self.bundle(keys={"learner": learner, "issuer": mixer})},
            "a list": {"bundle": self.bundle(keys=["learner"])},
            "a list of documents": {"bundle": self.bundle(keys={"learner": [learner]})},
            "empty": {"bundle": self.bundle(keys={})},
            "local": {"bundle": self.bundle(**local, channel=OUE)},
            "local, with keys": {"bundle": self.bundle(**local, channel=OUE, keys={"learner": learner})},
        }

    def vectors(self) -> dict[str, Any]:
        pins = {who: public.read_text() for who, (_, public) in self.signers.items()}
        return {
            "pins": pins,
            "domain": DOMAIN.hex(),
            "signatures": [self._examined(by) for by in (None, "learner", "stranger")],
            "bundles": [self._accepted(name, case) for name, case in self.bundles().items()],
            "keys": [self._read(name, case) for name, case in self.keys().items()],
            "named": [self._named(name, case) for name, case in self.named().items()],
        }

    def _examined(self, by: str | None) -> dict[str, Any]:
        content = {"format": "anything", "number": 1.5, "text": "é"}
        whole = content if by is None else sign(content, self.signers[by][0])
        found = examine(whole, self.signers["learner"][1])
        return {
            "document": canonical(whole).decode(),
            "digest": digest(whole),
            "valid": found.valid,
            "pinned": found.pinned,
            "words": found.words,
        }

    def _named(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        """Which keys a device seals to: raw public keys by party; None: it refuses."""
        before = {party: canonical(document) for party, document in case.get("before", {}).items()}
        mixed = case.get("mixed", False)
        pins = {who: self.signers[who][1] if who != "mixer" or mixed else None for who in ("learner", "mixer")}
        try:
            bundle = Bundle.parse(case["bundle"])
            bundle.require_keys(0 if bundle.claim.trust != "shuffle" else 1 + mixed)
            found = believed_keys(bundle.keys, study=bundle.study, **pins, before=before)
            keys: dict[str, str] | None = {party: document.active.raw.hex() for party, document in found.items()}
        except InvalidInput:
            keys = None
        texts = {party: document.decode() for party, document in before.items()}
        return {"name": name, "bundle": case["bundle"].decode(), "mixed": mixed, "before": texts, "keys": keys}

    def _accepted(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        limits = {"cap": case.get("cap"), "floor": case.get("floor", 1)}
        cap = math.inf if limits["cap"] is None else limits["cap"]
        pinned = case.get("pinned", True)
        device = Device(None, cap=cap, floor=limits["floor"], key=self.signers["learner"][1] if pinned else None)
        for bundle in case.get("before", ()):
            device.accept(bundle)
        try:
            device.accept(case["bundle"])
            refused = False
        except (InvalidInput, NotSupported):
            refused = True
        browser = case.get("browser", "refused" if refused else "accepted")
        before = [one.decode() for one in case.get("before", ())]
        return {
            "name": name,
            "pinned": pinned,
            **limits,
            "before": before,
            "bundle": case["bundle"].decode(),
            "refused": refused,
            "browser": browser,
        }

    def _read(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        pinned, study = self.signers["shuffler"][1], bytes.fromhex(STUDY)
        seen = case.get("seen")
        before = None if seen is None else KeysDocument.read(seen, party="shuffler", study=study, pinned=pinned)
        try:
            found = KeysDocument.read(case["document"], party="shuffler", study=study, pinned=pinned, seen=before)
            active = found.active.raw.hex()
        except InvalidInput:
            active = None
        return {
            "name": name,
            "seen": None if seen is None else seen.decode(),
            "document": case["document"].decode(),
            "active": active,
        }
