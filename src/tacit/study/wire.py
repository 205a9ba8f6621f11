"""Bytes that cross between the parties: reports of devices and releases of collectors; whole numbers only.

    report    "TCR1" study[32] stage u32 id[16] body                                            little endian
    release   "TCL1" study[32] stage u32 question u32 n u32 noise u8 charge u64 head[32] size u32 payload signed u8 [key[32] signature[64]]

W1  The length is checked exactly: what is cut off, longer or has another first word is refused.
W2  A report says nothing about who sends it: its id is random, and the person is known to the collector from elsewhere.
W3  A release is covered by one Ed25519 signature in all its bytes; one without is called "unsigned".
W4  `charge` and `head` are the place in the collector's ledger at which the release was paid for, before it was drawn.
    The commit that follows there holds the digest of the release: `ReleasePayload.head` is its place, derived and not sent.
"""  # noqa: E501 - the layout is one line

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.accounting.people import committed_at
from tacit.accounting.terms import NOISE_KINDS, NoiseKind
from tacit.errors import InvalidInput, require
from tacit.runs.signature import ALGORITHM, Signed, examine, sign
from tacit.study.contract import DIGEST, Head

REPORT: Final = b"TCR1"
RELEASE: Final = b"TCL1"
ID: Final = 16
LARGEST: Final = 2**32 - 1
REPORT_HEAD: Final = struct.Struct("<4s32sI16s")
RELEASE_HEAD: Final = struct.Struct("<4s32sIIIBQ32sI")
KEY, SIGNATURE = 32, 64
NOISES: Final[tuple[NoiseKind, ...]] = ("simulation", "secure")
"""Numbers of the sources of noise on the wire; a number that is not in here is refused."""


def sha256(data: bytes) -> bytes:
    """The digest by which bytes are named."""
    return hashlib.sha256(data).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One person's report of one stage.

    >>> report = Report(study=bytes(32), stage=3, id=bytes(16), body=b"abc")
    >>> Report.parse(report.encode()) == report
    True
    """

    study: bytes
    stage: int
    id: bytes
    body: bytes

    def __post_init__(self) -> None:
        require(len(self.study) == DIGEST, f"a study's digest must have {DIGEST} bytes", len(self.study))
        require(len(self.id) == ID, f"the id of a report must have {ID} bytes", len(self.id))
        _require_number("stage", self.stage)

    def encode(self) -> bytes:
        """The report as bytes."""
        return REPORT_HEAD.pack(REPORT, self.study, self.stage, self.id) + self.body

    @classmethod
    def parse(cls, data: bytes) -> Report:
        """The report in these bytes; its body is for the channel to check."""
        whole = len(data) >= REPORT_HEAD.size and data.startswith(REPORT)
        require(whole, "a report must begin with TCR1 and have a whole header", "other bytes")
        _, study, stage, name = REPORT_HEAD.unpack_from(data)
        return cls(study=study, stage=stage, id=name, body=data[REPORT_HEAD.size :])

    def __repr__(self) -> str:
        return f"Report(stage {self.stage})"  # never its contents


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePayload:
    """What leaves a collector for one question of one stage."""

    study: bytes
    stage: int
    question: int
    people: int
    noise: NoiseKind
    charge: Head
    """Where the charge stands in the ledger (W4)."""
    payload: bytes
    signature: bytes = b""
    """The raw public key and the signature, or nothing."""

    def __post_init__(self) -> None:
        require(len(self.study) == DIGEST, f"a study's digest must have {DIGEST} bytes", len(self.study))
        for name in ("stage", "question", "people"):
            _require_number(name, getattr(self, name))
        _require_number("length of a payload", len(self.payload))
        require(self.noise in NOISE_KINDS, f"noise must be one of {', '.join(NOISE_KINDS)}", self.noise)
        require(len(self.signature) in (0, KEY + SIGNATURE), "a signature has a key and a value", len(self.signature))

    def encode(self) -> bytes:
        """The release as bytes."""
        signed = bytes([len(self.signature) > 0]) + self.signature
        return self._covered() + signed

    @classmethod
    def parse(cls, data: bytes) -> ReleasePayload:
        """The release in these bytes (W1); whether to believe it is for `examined`."""
        whole = len(data) > RELEASE_HEAD.size and data.startswith(RELEASE)
        require(whole, "a release must begin with TCL1 and have a whole header", "other bytes")
        _, study, stage, question, people, noise, charge, head, size = RELEASE_HEAD.unpack_from(data)
        end = RELEASE_HEAD.size + size
        require(len(data) > end, "a release must be as long as it says", "fewer bytes")
        flag, signature = data[end], data[end + 1 :]
        require(flag in (0, 1), "a release must say whether it is signed", "neither")
        require(len(signature) == flag * (KEY + SIGNATURE), "a release must be as long as it says", "another length")
        require(noise < len(NOISES), "the noise of a release must be simulation or secure", "neither")
        return cls(
            study=study,
            stage=stage,
            question=question,
            people=people,
            noise=NOISES[noise],
            charge=Head(number=charge, digest=head),
            payload=data[RELEASE_HEAD.size : end],
            signature=signature,
        )

    @property
    def head(self) -> Head:
        """The place of its commit: the head of a learner that has taken it (W4)."""
        return Head.of(committed_at(self.charge.receipt, sha256(self.encode()).hex()))

    def signed(self, key: Path | None) -> ReleasePayload:
        """The same release with the signature of this private key; without a key it stays unsigned."""
        if key is None:
            return self
        found = sign(self._named(), key)["signature"]
        raw = base64.b64decode(found["key"]) + base64.b64decode(found["value"])
        return ReleasePayload(**{**self._fields(), "signature": raw})

    def examined(self, pinned: Path | None) -> Signed:
        """What the signature is worth to a reader who has pinned this public key, or none."""
        content = self._named()
        if self.signature:
            key, value = self.signature[:KEY], self.signature[KEY:]
            parts = {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}
            content["signature"] = {"algorithm": ALGORITHM, **parts}
        return examine(content, pinned)

    def _covered(self) -> bytes:
        """Everything but the signature (W3)."""
        head = RELEASE_HEAD.pack(
            RELEASE,
            self.study,
            self.stage,
            self.question,
            self.people,
            NOISES.index(self.noise),
            self.charge.number,
            self.charge.digest,
            len(self.payload),
        )
        return head + self.payload

    def _named(self) -> dict[str, Any]:
        return {"format": "tacit-release", "sha256": sha256(self._covered()).hex()}

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __repr__(self) -> str:
        return f"Release(stage {self.stage}, question {self.question}, {len(self.payload)} bytes)"


def _require_number(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise InvalidInput(f"{name} must be a whole number in [0, {LARGEST}], got {value!r}")
