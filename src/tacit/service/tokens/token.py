r"""Tokens of one use: what a device shows instead of a name, checked by the shuffler and once more by the learner.

    token     "TCT1" stage u32 nonce[32] signature[256]                  little endian, 296 bytes
    signed    nonce[32] || "tacit/1 token\n" || study[32] || stage u32    the nonce is the random prefix of RFC 9474

T1  One length; a token that is cut off, longer, of another stage, study or issuer is refused with one of `REASONS`.
T2  A token says nothing about its owner: nonce and signature are independent of what the issuer saw (blind_rsa, B1).
T3  A stage has its own key and is signed along: a token of one stage is none in another.
T4  `verify_tokens` reads a sorted file from its beginning to its end once, in bounded memory: every token valid, all
    nonces different, and as many as there are people.

The issuer's document: one RSA key per stage, signed by its Ed25519 key, the same for everybody.

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
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from tacit.documents import canonical
from tacit.errors import InvalidInput, require
from tacit.runs.signature import examine, sign
from tacit.service.tokens.blind_rsa import PREFIX, SIZE, PublicKey

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


MAGIC: Final = b"TCT1"
NONCE: Final = PREFIX
LAYOUT: Final = struct.Struct(f"<4sI{NONCE}s{SIZE}s")
LENGTH: Final = LAYOUT.size
"""Bytes of a token."""
TOKENS_PER_READ: Final = 1024
"""Tokens that are read at once."""
REASONS: Final = {
    "malformed": "no token or credential of this kind",
    "expired": "of a stage before this one",
    "other stage": "of a later stage than this one",
    "no key": "of a stage whose key has not arrived here",
    "foreign": "not signed for this study, or not on the list",
    "order": "not in ascending order of nonces: out of order, or twice the same",
    "count": "fewer or more than people who reported",
}
"""Why tokens and credentials are refused, in words; none contains anything that a person sent."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason of `REASONS`.

    >>> Refusal("expired").words
    'of a stage before this one'
    """

    reason: str

    def __post_init__(self) -> None:
        require(self.reason in REASONS, "a refusal must have one of the listed reasons", "another")

    @property
    def words(self) -> str:
        """The reason in words."""
        return REASONS[self.reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, not yet believed.

    >>> token = Token(stage=3, nonce=bytes(32), signature=bytes(256))
    >>> Token.parse(token.encode()) == token
    True
    """

    stage: int
    nonce: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def __post_init__(self) -> None:
        require(0 <= self.stage <= LAST_STAGE, f"a stage must be in [0, {LAST_STAGE}]", self.stage)
        require(len(self.nonce) == NONCE, f"a nonce must have {NONCE} bytes", len(self.nonce))
        require(len(self.signature) == SIZE, f"a signature must have {SIZE} bytes", len(self.signature))

    def encode(self) -> bytes:
        """The token as bytes."""
        return LAYOUT.pack(MAGIC, self.stage, self.nonce, self.signature)

    @classmethod
    def parse(cls, data: bytes) -> Token:
        """The token in these bytes (T1)."""
        whole = len(data) == LENGTH and data.startswith(MAGIC)
        require(whole, f"a token must begin with TCT1 and have {LENGTH} bytes", "other bytes")
        _, stage, nonce, signature = LAYOUT.unpack(data)
        return cls(stage=stage, nonce=nonce, signature=signature)

    @property
    def person(self) -> str:
        """The name under which a collector counts it once."""
        return "token:" + hashlib.sha256(b"tacit/1 token person\n" + self.nonce).hexdigest()


def message(study: bytes, stage: int) -> bytes:
    """What is signed after the nonce (T3)."""
    require(len(study) == DIGEST, f"a study's digest must have {DIGEST} bytes", len(study))
    return b"tacit/1 token\n" + study + struct.pack("<I", stage)


def verify(data: bytes, keys: TokenKeys, stage: int) -> Token | Refusal:
    """The token in these bytes if it is one of this stage, or why not; never raises on what was sent."""
    try:
        token = Token.parse(data)
    except InvalidInput:
        return Refusal("malformed")
    if token.stage != stage:
        return Refusal("expired" if token.stage < stage else "other stage")
    key = keys.stages.get(stage)
    if key is None:
        return Refusal("no key")
    if not key.verifies(token.nonce + message(keys.study, stage), token.signature):
        return Refusal("foreign")
    return token


def verify_tokens(file: BinaryIO, keys: TokenKeys, stage: int, people: int) -> Refusal | None:
    """None if a sorted file holds exactly `people` different valid tokens of a stage, or why not (T4)."""
    last, count = b"", 0
    while some := file.read(LENGTH * TOKENS_PER_READ):
        for start in range(0, len(some), LENGTH):
            found = verify(some[start : start + LENGTH], keys, stage)
            if isinstance(found, Refusal):
                return found
            if found.nonce <= last:
                return Refusal("order")
            last, count = found.nonce, count + 1
            if count > people:
                return Refusal("count")
    return None if count == people else Refusal("count")


def require_tokens(path: Path, digest: bytes, keys: TokenKeys, *, stage: int, people: int) -> None:
    """Raise unless a file has the digest that a manifest names, and one valid token of the stage for every person."""
    with path.open("rb") as file:
        same = hashlib.file_digest(file, "sha256").digest() == digest
        require(same, "tokens must be the file that their release names", "another file")
        file.seek(0)
        refusal = verify_tokens(file, keys, stage, people)
    words = "" if refusal is None else refusal.words
    require(refusal is None, "every report must have a valid token of its own", f"one that is {words}")
