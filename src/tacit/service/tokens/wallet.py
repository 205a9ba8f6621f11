"""A device's wallet: one token per stage, asked for blindly and kept until it was sent.

    accept(document) -> request(stage) -> ... the issuer signs ... -> finish(stage, reply) -> token

A1  Frozen before the first send: `request` writes nonce, blinding and blinded message to the disk before it returns
    them, and returns the same bytes ever after, whatever was answered; an issuer signs one blinded message per stage.
A2  One token per stage. A token that verified is kept, and what links it to the request is deleted with the same write.
A3  Keys are consistent (keys, K2): another key for a stage that was seen, or a lower serial, is refused.
A4  Nothing that was kept can be read by others of the machine (mode 0600), and no error contains any of it.

Asking for a token: what a device sends to the issuer, and what it must remember until it has been answered.

    asked = Asked.new(keys, stage)        frozen on the disk (`encode`) before anything is sent
    asked.body                            of `POST /v1/tokens`: {"stage": k, "blinded": base64}
    asked.finish(reply)                   the token, from {"signature": base64}; refused unless it verifies

Q1  Who sends must send the same bytes again until it is answered: an issuer signs one blinded message per stage.
Q2  Whoever reads an encoded `Asked` can link the token to its owner; it is to be deleted once the token is there.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tacit.documents import canonical
from tacit.errors import InvalidInput, require
from tacit.runs.storage import check_writable, read_json
from tacit.runs.storage_paths import write_private
from tacit.service.tokens.blind_rsa import SIZE, PublicKey, blind, finalize
from tacit.service.tokens.token import NONCE, Token, TokenKeys, message

LARGEST_REPLY: Final = 4096
FIELDS: Final = ("study", "nonce", "inverse", "blinded", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for the token of one stage, with the secrets that finish it."""

    study: bytes
    stage: int
    nonce: bytes = field(repr=False)
    inverse: bytes = field(repr=False)
    blinded: bytes = field(repr=False)
    key: bytes = field(repr=False)
    """The public key (SubjectPublicKeyInfo) that it was blinded for."""

    @classmethod
    def new(cls, keys: TokenKeys, stage: int) -> Asked:
        """A fresh request under the key of a stage."""
        require(stage in keys.stages, "the issuer must have a key for the stage", f"none for stage {stage}")
        key, nonce = keys.stages[stage], secrets.token_bytes(NONCE)
        made = blind(key, nonce + message(keys.study, stage))
        inverse = made.inverse.to_bytes(SIZE)
        return cls(study=keys.study, stage=stage, nonce=nonce, inverse=inverse, blinded=made.message, key=key.spki)

    @property
    def body(self) -> bytes:
        """What is sent to the issuer, the same bytes every time (Q1)."""
        return canonical({"stage": self.stage, "blinded": base64.b64encode(self.blinded).decode()})

    def finish(self, reply: bytes) -> bytes:
        """The token, from the reply of the issuer; refused unless it verifies."""
        signed = self.nonce + message(self.study, self.stage)
        signature = finalize(PublicKey(self.key), signed, _signature(reply), int.from_bytes(self.inverse))
        return Token(stage=self.stage, nonce=self.nonce, signature=signature).encode()

    def encode(self) -> bytes:
        """Everything, for the disk of the device (Q2)."""
        parts = {name: base64.b64encode(getattr(self, name)).decode() for name in FIELDS}
        return canonical({"stage": self.stage, **parts})

    @classmethod
    def decode(cls, data: bytes) -> Asked:
        """What `encode` wrote."""
        try:
            found = json.loads(data)
            parts = {name: base64.b64decode(found[name], validate=True) for name in FIELDS}
            return cls(stage=int(found["stage"]), **parts)
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise InvalidInput("a kept request must be as it was written, got other bytes") from error


def _signature(reply: bytes) -> bytes:
    """The blind signature in a reply."""
    require(len(reply) <= LARGEST_REPLY, f"a reply must have at most {LARGEST_REPLY} bytes", len(reply))
    try:
        found = base64.b64decode(json.loads(reply)["signature"], validate=True)
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
        raise InvalidInput("a reply must be JSON with a signature in base64, got something else") from error
    require(len(found) == SIZE, f"a signature must have {SIZE} bytes", len(found))
    return found


STATE: Final = "wallet.json"


class Wallet:
    """The tokens of one person in one study; `directory` None forgets them with the process."""

    def __init__(self, directory: str | Path | None, *, study: bytes, issuer: str | Path) -> None:
        """A wallet that believes documents signed by `issuer`, the pinned public key."""
        self.study, self.issuer = study, Path(issuer)
        self.directory = None if directory is None else Path(directory)
        self.kept: dict[str, Any] = {"study": study.hex(), "document": None, "stages": {}}
        if self.directory is not None:
            check_writable(self.directory)
            if (self.directory / STATE).is_file():
                self.kept = read_json(self.directory / STATE)
                same = self.kept.get("study") == study.hex()
                require(same, "a wallet must be of this study", "another study", "use another directory")
        text = self.kept["document"]
        self.keys = None if text is None else TokenKeys.parse(text.encode(), study=study, pinned=self.issuer)

    def accept(self, document: bytes) -> TokenKeys:
        """Use the keys of this document from now on, or refuse it and change nothing (A3)."""
        keys = TokenKeys.parse(document, study=self.study, pinned=self.issuer).after(self.keys)
        if self.keys is None or keys.serial > self.keys.serial:
            self._keep({**self.kept, "document": document.decode()})
            self.keys = keys
        return keys

    def request(self, stage: int) -> bytes:
        """The body of `POST /v1/tokens` for a stage: the same bytes every time (A1)."""
        require(not self.token(stage), "a token is asked for once", f"one for stage {stage}", "send the kept one")
        asked = self._asked(stage)
        if asked is None:
            require(self.keys is not None, "a wallet must accept the issuer's document before it asks", "none")
            assert self.keys is not None  # noqa: S101 - for the types
            asked = Asked.new(self.keys, stage)
            self._keep_stage(stage, {"asked": asked.encode().decode()})
        return asked.body

    def finish(self, stage: int, reply: bytes) -> bytes:
        """The token, from what the issuer replied; refused, and the request kept, unless it verifies (A2)."""
        if self.token(stage):
            return self.token(stage)
        asked = self._asked(stage)
        require(asked is not None, "a token must be asked for before it is finished", f"none for stage {stage}")
        assert asked is not None  # noqa: S101 - for the types
        token = asked.finish(reply)
        self._keep_stage(stage, {"token": base64.b64encode(token).decode()})
        return token

    def token(self, stage: int) -> bytes:
        """The finished token of a stage, or nothing."""
        entry = self.kept["stages"].get(str(stage), {})
        return base64.b64decode(entry.get("token", ""))

    def forget(self, before: int) -> None:
        """Delete everything about stages before this one: they are over."""
        stages = {name: entry for name, entry in self.kept["stages"].items() if int(name) >= before}
        if stages != self.kept["stages"]:
            self._keep({**self.kept, "stages": stages})

    def _asked(self, stage: int) -> Asked | None:
        """What was asked for a stage, as long as its token is not there."""
        text = self.kept["stages"].get(str(stage), {}).get("asked")
        return None if text is None else Asked.decode(text.encode())

    def _keep_stage(self, stage: int, entry: dict[str, str]) -> None:
        self._keep({**self.kept, "stages": {**self.kept["stages"], str(stage): entry}})

    def _keep(self, after: dict[str, Any]) -> None:
        """Write down, then believe."""
        if self.directory is not None:
            write_private(self.directory / STATE, canonical(after))
        self.kept = after
