r"""Tokens of one use: what a device shows instead of a name, checked by the shuffler and once more by the learner.

    token     "TCT1" stage u32 nonce[32] signature[256]                  little endian, 296 bytes
    signed    nonce[32] || "tacit/1 token\n" || study[32] || stage u32    the nonce is the random prefix of RFC 9474

T1  One length; a token that is cut off, longer, of another stage, study or issuer is refused with one of `REASONS`.
T2  A token says nothing about its owner: nonce and signature are independent of what the issuer saw (blind_rsa, B1).
T3  A stage has its own key and is signed along: a token of one stage is none in another.
T4  `verify_tokens` reads a sorted file from its beginning to its end once, in bounded memory: every token valid, all
    nonces different, and as many as there are people.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from tacit.errors import InvalidInput, require
from tacit.service.tokens.blind_rsa import PREFIX, SIZE
from tacit.service.tokens.keys import DIGEST, LAST_STAGE, TokenKeys

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
