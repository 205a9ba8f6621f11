"""Asking for a token: what a device sends to the issuer, and what it must remember until it has been answered.

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
from typing import Final

from tacit.errors import InvalidInput, require
from tacit.runs.signature import canonical
from tacit.service.tokens.blind_rsa import SIZE, PublicKey, blind, finalize
from tacit.service.tokens.keys import TokenKeys
from tacit.service.tokens.token import NONCE, Token, message

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
