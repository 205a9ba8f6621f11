"""The issuer's document: one RSA key per stage, signed by its Ed25519 key, the same for everybody.

    {"format": "tacit-token-keys", "version": 1, "study": hex, "serial": n, "stages": {"k": base64 of the key}, "signature": ...}

K1  Only a document signed by the pinned key, of this study, in canonical JSON and without an unknown entry is read.
K2  Consistent: a later document keeps every key that was seen, and its serial never falls; equal serials are equal
    documents. An issuer that gave each person a key of their own could tell from the key that verifies a token whose it
    is, so devices take the document from the shuffler, which hands the same bytes to everybody.
K3  No two stages share a key.
"""  # noqa: E501 - the layout is one line

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, require
from tacit.runs.signature import canonical, examine, sign
from tacit.service.tokens.blind_rsa import SIZE, PublicKey

FORMAT: Final = "tacit-token-keys"
VERSION: Final = 1
DIGEST: Final = 32
LARGEST: Final = 2**24
LAST_STAGE: Final = 2**32 - 1
ENTRIES: Final = {"format", "version", "study", "serial", "stages", "signature"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKeys:
    """The public keys of the stages of one study."""

    study: bytes
    serial: int
    """How many stages have a key; it grows with every change."""
    stages: Mapping[int, PublicKey] = field(repr=False)

    def __post_init__(self) -> None:
        require(len(self.study) == DIGEST, f"a study's digest must have {DIGEST} bytes", len(self.study))
        whole = isinstance(self.serial, int) and not isinstance(self.serial, bool) and 0 <= self.serial < 2**63
        require(whole, "a serial must be a whole number", "another")
        distinct = len({key.spki for key in self.stages.values()}) == len(self.stages)
        require(distinct, "every stage must have a key of its own", "two stages with one key")
        fits = all(key.size == SIZE for key in self.stages.values())
        require(fits, f"a token key must have {8 * SIZE} bits", "another length")

    def signed(self, private: str | Path) -> bytes:
        """The document, signed by the issuer's Ed25519 key."""
        stages = {str(stage): base64.b64encode(key.spki).decode() for stage, key in self.stages.items()}
        plain = {"format": FORMAT, "version": VERSION, "study": self.study.hex()}
        return canonical(sign({**plain, "serial": self.serial, "stages": stages}, private))

    @classmethod
    def parse(cls, document: bytes, *, study: bytes, pinned: str | Path) -> TokenKeys:
        """The keys in a document of this study that the pinned key has signed (K1)."""
        content = _content(document)
        signed = examine(content, pinned)
        require(signed.valid and signed.pinned, "the issuer's keys must be signed by the pinned key", signed.words)
        known = content["format"] == FORMAT and content["version"] == VERSION
        require(known, "the issuer's keys must be of a known format and version", "others")
        require(content["study"] == study.hex(), "the issuer's keys must be of this study", "another study")
        stages = content["stages"]
        require(isinstance(stages, dict), "stages must be an object", type(stages).__name__)
        found = {_stage(name): PublicKey(_bytes(value)) for name, value in stages.items()}
        return cls(study=study, serial=content["serial"], stages=found)

    def after(self, seen: TokenKeys | None) -> TokenKeys:
        """These keys, if they are consistent with those that were seen (K2)."""
        if seen is None:
            return self
        require(self.study == seen.study, "the issuer's keys must be of one study", "another study")
        require(self.serial >= seen.serial, f"the issuer's serial must be at least {seen.serial}", self.serial)
        for stage, key in seen.stages.items():
            same = stage in self.stages and self.stages[stage].spki == key.spki
            hint = "an issuer that changes keys can tell people apart; do not take part until its operator explains it"
            require(same, "the key of a stage must stay what it was", f"another one for stage {stage}", hint)
        grown = self.serial > seen.serial or len(self.stages) == len(seen.stages)
        require(grown, "documents of one serial must be the same", "two that differ")
        return self


def _content(document: bytes) -> dict[str, Any]:
    """The JSON object of a document in its one form."""
    require(len(document) <= LARGEST, f"the issuer's keys must have at most {LARGEST} bytes", len(document))
    try:
        content: dict[str, Any] = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("the issuer's keys must be JSON, got other bytes") from error
    require(isinstance(content, dict), "the issuer's keys must be one JSON object", type(content).__name__)
    require(set(content) == ENTRIES, f"the issuer's keys must have the entries {sorted(ENTRIES)}", "others")
    try:
        same = canonical(content) == document
    except ValueError:
        same = False
    require(same, "the issuer's keys must be in canonical form", "another form")
    return content


def _stage(name: str) -> int:
    plain = name.isascii() and name.isdecimal() and len(name) <= len(str(LAST_STAGE)) and str(int(name)) == name
    require(plain and int(name) <= LAST_STAGE, "stages must be named by their numbers", "other names")
    return int(name)


def _bytes(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidInput("a token key must be base64, got something else") from error
