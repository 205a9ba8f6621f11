"""Shared test vectors of sealing, for devices in other languages: fixed keys, sealed bytes, what they must open to.

python tests/vectors/make_sealing.py        writes sealing.json beside this file

Sealing draws an ephemeral key, so sealed bytes differ from run to run; what they open to does not. The committed file
is the reference: it is made once, and again only when the wire format changes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tacit.service.encryption.envelope import envelope_size, seal_envelope
from tacit.service.encryption.hpke import SUITE, SecretKey, inner_info, mixer_info, outer_info

PATH = Path(__file__).with_name("sealing.json")
STUDY = hashlib.sha256(b"tacit test vectors: study").digest()
PARTIES = ("shuffler", "learner", "mixer")
STAGES = (0, 7, 2**32 - 1)
LABELS = {"u16": [0, 1, 255, 256, 65535], "u32": [0, 65536, 2**32 - 1]}


def secret(party: str) -> SecretKey:
    """A fixed key that protects nobody."""
    return SecretKey(hashlib.sha256(f"tacit test vectors: {party}".encode()).digest())


def made() -> dict:
    keys = {party: secret(party) for party in PARTIES}
    shuffler, learner, mixer = (keys[party] for party in PARTIES)
    messages = []
    for kind, labels in LABELS.items():
        for stage in STAGES:
            for label in labels:
                plain = label.to_bytes(2 if kind == "u16" else 4, "little")
                inner = learner.public.seal(inner_info(STUDY, stage, learner.id), plain)
                outer = mixer.public.seal(mixer_info(STUDY, stage, mixer.id), inner)
                messages.append(
                    {"kind": kind, "stage": stage, "label": label, "inner": inner.hex(), "outer": outer.hex()}
                )
    envelopes = []
    for token, report in ((b"", b""), (b"token", b"report"), (bytes(range(256)), bytes(1000))):
        sealed = seal_envelope(report, token, study=STUDY, key=shuffler.public)
        assert len(sealed) == envelope_size(len(token), len(report))
        envelopes.append({"token": token.hex(), "report": report.hex(), "envelope": sealed.hex()})
    return {
        "format": "tacit-vectors-sealing",
        "version": 1,
        "suite": SUITE,
        "study": STUDY.hex(),
        "keys": {
            party: {"secret": key.raw.hex(), "public": key.public.raw.hex(), "id": key.id.hex()}
            for party, key in keys.items()
        },
        "info": {
            "outer": outer_info(STUDY, shuffler.id).hex(),
            "inner": {str(stage): inner_info(STUDY, stage, learner.id).hex() for stage in STAGES},
            "mixer": {str(stage): mixer_info(STUDY, stage, mixer.id).hex() for stage in STAGES},
        },
        "messages": messages,
        "envelopes": envelopes,
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(made(), indent=1) + "\n", encoding="utf-8")
