"""Who may report: holders of tokens, known persons, or anybody; a shuffler asks one of three objects.

    people = "issuer"    "TCT1" ...                               a token of the stage       unlinkable, at most g per person
    people = "known"     "TCK1" length u16, credential            a person on a list         the shuffler knows who reports
    people = "open"      "TCO1" length u16, any name              whoever says so            no limit on made-up people

N1  `admit` never raises on what was sent: it returns the name under which the collector counts the person, or a
    `Refusal`.
N2  A name contains nothing that was sent: the hash of a token's nonce, the number on the list, the hash of a name.
N3  Under tokens every token is its own person: once per stage follows from one token per person and stage, at most g
    in all from the issuer, and "one report per token" from the collector, which counts a person once.
N4  Keys of tokens change only consistently (keys, K2), so that a shuffler relays one document to everybody.
"""  # noqa: E501 - the table has one line per kind

from __future__ import annotations

import hashlib
import struct
import threading
from pathlib import Path
from typing import Final, Protocol

from tacit.errors import UnknownName, require
from tacit.service.tokens.enrolment import Enrolment
from tacit.service.tokens.keys import TokenKeys
from tacit.service.tokens.token import Refusal, verify

KNOWN: Final = b"TCK1"
OPEN: Final = b"TCO1"
HEAD: Final = struct.Struct("<4sH")
LONGEST: Final = 1024
KINDS: Final = ("issuer", "known", "open")


class Admission(Protocol):
    """What a shuffler asks about whoever sends a report."""

    def admit(self, credential: bytes, stage: int) -> str | Refusal:
        """The name under which the sender counts in this stage, or why there is none."""
        ...


class TokenAdmission:
    """Holders of tokens of the issuer: nobody knows who they are."""

    def __init__(self, *, study: bytes, issuer: str | Path, document: bytes | None = None) -> None:
        """`issuer` is the pinned public key; `document` is the last one that was accepted, if there was one."""
        self.study, self.issuer = study, Path(issuer)
        self._lock = threading.Lock()
        self.keys: TokenKeys | None = None
        if document is not None:
            self.accept(document)

    def accept(self, document: bytes) -> TokenKeys:
        """Use the keys of this document from now on, or refuse it and change nothing (N4)."""
        found = TokenKeys.parse(document, study=self.study, pinned=self.issuer)
        with self._lock:
            self.keys = found.after(self.keys)
        return found

    def admit(self, credential: bytes, stage: int) -> str | Refusal:
        """Count a token of this stage under its nonce (N3)."""
        keys = self.keys
        if keys is None:
            return Refusal("no key")
        found = verify(credential, keys, stage)
        return found if isinstance(found, Refusal) else found.person


class EnrolledAdmission:
    """People on an enrolment list: the shuffler can tell who has reported, and when."""

    def __init__(self, enrolment: Enrolment) -> None:
        self.enrolment = enrolment

    def admit(self, credential: bytes, stage: int) -> str | Refusal:
        """Count a known person by the number on the list."""
        found = _inside(credential, KNOWN)
        if found is None:
            return Refusal("malformed")
        person = self.enrolment.person(found)
        return Refusal("foreign") if person is None else f"known:{person}"


class OpenAdmission:
    """Whoever comes, under any name: for demonstrations and tests only, since one person can be many."""

    def admit(self, credential: bytes, stage: int) -> str | Refusal:
        """Count a name by its hash."""
        found = _inside(credential, OPEN)
        return Refusal("malformed") if found is None else f"open:{hashlib.sha256(found).hexdigest()}"


def known_credential(credential: str) -> bytes:
    """What a known person's device sends in the place of a token."""
    return _around(KNOWN, credential.encode())


def open_name(name: str) -> bytes:
    """What a device sends in the place of a token where anybody may report.

    >>> OpenAdmission().admit(open_name("somebody"), stage=0)[:12]
    'open:729d7d6'
    """
    return _around(OPEN, name.encode())


def people_of(
    kind: str, *, study: bytes, issuer: Path | None = None, known: Path | None = None, document: bytes | None = None
) -> TokenAdmission | EnrolledAdmission | OpenAdmission:
    """The people of a configuration: `issuer` (a pinned key) for tokens, `known` (a list) for known persons."""
    if kind not in KINDS:
        raise UnknownName("kind of people", kind, KINDS)
    if kind == "issuer":
        require(issuer is not None, 'people = "issuer" must come with the public key of the issuer', "none")
        assert issuer is not None  # noqa: S101 - for the types
        return TokenAdmission(study=study, issuer=issuer, document=document)
    if kind == "known":
        require(known is not None, 'people = "known" must come with an enrolment list', "none")
        assert known is not None  # noqa: S101 - for the types
        return EnrolledAdmission(Enrolment(known))
    return OpenAdmission()


def _around(word: bytes, inside: bytes) -> bytes:
    require(0 < len(inside) <= LONGEST, f"a credential or name must have 1 to {LONGEST} bytes", "another length")
    return HEAD.pack(word, len(inside)) + inside


def _inside(data: bytes, word: bytes) -> bytes | None:
    """What stands between this word, a length and the end; None if it is anything else."""
    if len(data) <= HEAD.size or len(data) > HEAD.size + LONGEST:
        return None
    found, length = HEAD.unpack_from(data)
    return data[HEAD.size :] if found == word and length == len(data) - HEAD.size else None
