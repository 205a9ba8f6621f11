"""An issuer without a network: keys of a few stages, a document, and tokens made by hand."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path

from tacit.runs.signature import new_keys
from tacit.service.tokens.blind_rsa import SecretKey, blind_sign
from tacit.service.tokens.token import TokenKeys
from tacit.service.tokens.wallet import Asked

STUDY = bytes(range(32))


@dataclass
class HandMade:
    """Secret keys of stages and the issuer's Ed25519 key, in a directory."""

    place: Path
    study: bytes = STUDY
    secrets: dict[int, SecretKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.private, self.public = new_keys(self.place)

    def open(self, stage: int, key: SecretKey | None = None) -> None:
        self.secrets[stage] = key or SecretKey.new()

    @property
    def keys(self) -> TokenKeys:
        stages = {stage: key.public for stage, key in self.secrets.items()}
        return TokenKeys(study=self.study, serial=len(stages), stages=stages)

    @property
    def document(self) -> bytes:
        return self.keys.signed(self.private)

    def reply(self, body: bytes) -> bytes:
        asked = json.loads(body)
        signature = blind_sign(self.secrets[asked["stage"]], base64.b64decode(asked["blinded"]))
        return json.dumps({"signature": base64.b64encode(signature).decode()}).encode()

    def token(self, stage: int) -> bytes:
        asked = Asked.new(self.keys, stage)
        return asked.finish(self.reply(asked.body))
