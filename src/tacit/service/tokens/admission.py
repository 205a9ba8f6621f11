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

The enrolment list: who may take part, as HMAC-ed credentials in one file.

    tacit-credentials 1
    <person: 16 random bytes> <HMAC-SHA256 of the credential>        in hexadecimal, one line per person

L1  A credential is 32 random bytes that its owner alone keeps; the list has its HMAC under a key in a file of its own
    (`<list>.key`), so that whoever copies the list can neither use it nor try credentials against it.
L2  A person keeps the number on the list when a credential is made anew: what was handed out still counts.
L3  Changes are written whole under a lock and are seen by running parties at the next request; a list that cannot be
    read lets nobody in.

Tokens, and known persons, are as distinct as the people on this list: somebody who is on it twice has twice as many.
"""  # noqa: E501 - the table has one line per kind

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tacit.errors import InvalidInput, UnknownName, require, require_count
from tacit.runs.storage import writing_to
from tacit.runs.storage_paths import write_private
from tacit.service.tokens.token import Refusal, TokenKeys, verify
from tacit.system import lock

HEADER: Final = "tacit-credentials 1"
PERSON_BYTES: Final = 16
CREDENTIAL_BYTES: Final = 32
KEY_BYTES: Final = 32
LONGEST_CREDENTIAL: Final = 1024
MAX_PEOPLE: Final = 10**7


class Enrolment:
    """A list of people in a file; made by `new`, read by whoever serves them."""

    def __init__(self, path: str | Path) -> None:
        """The list in this file, which must exist with its key."""
        self.path = Path(path)
        self._key = _key(self.path)
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._people: dict[bytes, str] = {}
        self._people = self._read()
        self._stamp = self._now()

    @classmethod
    def new(cls, path: str | Path) -> Enrolment:
        """An empty list and its key; an existing one is never overwritten."""
        place = Path(path)
        require(not place.exists(), f"{place} must not exist yet", "an enrolment list", "add to it with 'enrol'")
        if not _key_path(place).exists():
            write_private(_key_path(place), secrets.token_bytes(KEY_BYTES))
        write_private(place, f"{HEADER}\n".encode())
        return cls(place)

    def __len__(self) -> int:
        return len(self._current())

    def enrol(self, count: int) -> list[str]:
        """Credentials of so many new people: hand each to one person; they are kept nowhere else (L1)."""
        made = [secrets.token_urlsafe(CREDENTIAL_BYTES) for _ in range(require_count("people", count, 1, MAX_PEOPLE))]
        with self._changing() as people:
            taken = set(people.values())
            for credential in made:
                person = secrets.token_hex(PERSON_BYTES)
                require(person not in taken, "numbers of people must differ", "a repeated one")
                people[self._mark(credential.encode())] = person
        return made

    def renew(self, credential: str) -> str:
        """A new credential in place of one that leaked; its person stays the same (L2)."""
        made = secrets.token_urlsafe(CREDENTIAL_BYTES)
        with self._changing() as people:
            person = people.pop(self._mark(credential.encode()), None)
            require(person is not None, "the credential must be on the list", "another")
            assert person is not None  # noqa: S101 - for the types
            people[self._mark(made.encode())] = person
        return made

    def remove(self, credential: str) -> None:
        """Take a person off the list."""
        with self._changing() as people:
            found = people.pop(self._mark(credential.encode()), None)
            require(found is not None, "the credential must be on the list", "another")

    def person(self, credential: bytes) -> str | None:
        """The number of the person whose credential this is, if there is one; never raises on what was sent."""
        if not 0 < len(credential) <= LONGEST_CREDENTIAL:
            return None
        return self._current().get(self._mark(credential))

    def _mark(self, credential: bytes) -> bytes:
        return hmac.digest(self._key, b"tacit credential 1\n" + credential, "sha256")

    def _now(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _current(self) -> dict[bytes, str]:
        """The list as it stands in the file (L3)."""
        stamp = self._now()
        if stamp is None:
            return {}
        if stamp != self._stamp:
            with self._lock:
                try:
                    self._people = self._read()
                except InvalidInput:
                    return {}
                self._stamp = stamp
        return self._people

    @contextmanager
    def _changing(self) -> Iterator[dict[bytes, str]]:
        """The list, to be changed by one process at a time and written at the end."""
        with writing_to(self.path.parent), _key_path(self.path).open("rb") as file:
            lock(file.fileno())
            people = self._read()
            yield people
            require(len(people) <= MAX_PEOPLE, f"a list must have at most {MAX_PEOPLE} people", len(people))
            # In the order of their marks: where somebody stands says nothing about when they came.
            lines = [f"{person} {mark.hex()}" for mark, person in sorted(people.items())]
            write_private(self.path, ("\n".join([HEADER, *lines]) + "\n").encode())

    def _read(self) -> dict[bytes, str]:
        try:
            text = self.path.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.path} must be a readable enrolment list") from error
        header, *lines = text.splitlines() or [""]
        require(header == HEADER, f"{self.path} must begin with '{HEADER}'", "another line")
        people: dict[bytes, str] = {}
        for line in lines:
            person, _, mark = line.partition(" ")
            try:
                fits = len(bytes.fromhex(person)) == PERSON_BYTES and len(bytes.fromhex(mark)) == KEY_BYTES
            except ValueError:
                fits = False
            require(fits, f"{self.path} must have a number and an HMAC per line", "another line")
            people[bytes.fromhex(mark)] = person
        distinct = len(set(people.values())) == len(lines)
        require(distinct, f"{self.path} must have every person once", "a repeated one")
        return people


def _key_path(path: Path) -> Path:
    require(path.name not in ("", ".."), "an enrolment list must be a file", str(path))
    return path.with_name(path.name + ".key")


def _key(path: Path) -> bytes:
    place = _key_path(path)
    try:
        mode = place.stat().st_mode
        key = place.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{place} must hold the key of the enrolment list: {error.strerror}") from error
    require(mode & 0o077 == 0, f"{place} must be readable by its owner only", oct(mode & 0o777), "chmod 600")
    require(len(key) == KEY_BYTES, f"{place} must hold {KEY_BYTES} bytes", len(key))
    return key


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
