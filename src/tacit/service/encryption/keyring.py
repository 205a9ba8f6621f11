"""The keys that a party opens with: files of its own, their states, and the signed document that tells everybody.

    directory/keyring.json     which keys there are and in which state; replaced as a whole
    directory/<id>.key         one raw secret key each, readable by its owner only

    pending -> active -> expired -> deleted           rotate() moves all of them one step; forget() deletes

K1  Others seal to the one active key. Opened is with pending ones (a document may arrive before its party has read it),
    the active one, and expired ones until the end of their grace; after it nothing opens, deleted or not. But the key
    that the bundle of a sealed stage names opens the batch of that stage until it is deleted: choose a grace that is
    longer than a stage.
K2  Rotation is atomic: a process that stops anywhere leaves the states before or the states after. A new key is on the
    disk before a state names it; a key that no state names is deleted by the next rotation.
K3  `serial` grows with every change. The document is the same bytes until the next one.
K4  Two processes rotate one after the other (a lock of the operating system), so no change is lost.

The public keys document of a party: canonical JSON, signed, relayed byte for byte by whoever hands it on.

    {"format": "tacit-keys", "version": 1, "party": "learner" | "shuffler" | "mixer", "study": hex, "suite": ...,
     "keys": [{"id": hex of 8 bytes, "public": base64, "state": "pending" | "active" | "expired"}], "serial": n,
     "signature": ...}

R1  Refused are: another format, version, party, study or suite; an entry that is missing or unknown; another spelling
    of the same JSON; an id that is not that of its key; a key twice; and any number of active keys but one.
R2  Refused are a signature that does not fit, one by another key than the pinned one, and none at all.
R3  Refused are a serial below one that was seen, and another document of the same serial: old keys do not come back,
    and two readers who compare serials have the same keys.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from tacit.documents import canonical
from tacit.errors import InvalidInput, require, require_count
from tacit.runs.signature import examine, sign
from tacit.runs.storage import check_writable, writing_to
from tacit.service.encryption.hpke import KEY_ID, SUITE, PublicKey, SecretKey
from tacit.system import lock, sync_directory

FORMAT: Final = "tacit-keys"
VERSION: Final = 1
Party = Literal["learner", "shuffler", "mixer"]
PARTIES: Final[tuple[Party, ...]] = ("learner", "shuffler", "mixer")
KeyState = Literal["pending", "active", "expired"]
STATES: Final[tuple[KeyState, ...]] = ("active", "pending", "expired")
ENTRIES: Final = frozenset(("format", "version", "party", "study", "suite", "keys", "serial", "signature"))
KEY_ENTRIES: Final = frozenset(("id", "public", "state"))
LARGEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysDocument:
    """A keys document that was read and believed."""

    party: Party
    study: bytes
    serial: int
    keys: tuple[tuple[PublicKey, KeyState], ...]
    digest: str
    """SHA-256 of its bytes."""

    @property
    def active(self) -> PublicKey:
        """The key to seal to."""
        return next(key for key, state in self.keys if state == "active")

    @classmethod
    def read(
        cls,
        data: bytes,
        *,
        party: Party,
        study: bytes,
        pinned: str | Path | None,
        seen: KeysDocument | None = None,
    ) -> KeysDocument:
        """The document in these bytes, of this party and study; `pinned` is the party's public Ed25519 key.

        `pinned=None` is for readers who have no key from elsewhere, as in rehearsals: the signature must fit all the
        same, but whoever relays the document could have made it. `seen` is the last one that was believed (R3).
        """
        content = _parsed(data)
        require(content["party"] == party, f"keys must be those of the {party}", "another party's")
        require(content["study"] == study.hex(), "keys must be for this study", "another study")
        signed = examine(content, None if pinned is None else Path(pinned))
        require(signed.valid, "keys must be signed by their party", signed.words)
        require(pinned is None or signed.pinned, "keys must be signed by the pinned key", signed.words)
        serial = require_count("the serial of a keys document", content["serial"])
        keys = tuple(_key(plain) for plain in content["keys"])
        require(len({key.id for key, _ in keys}) == len(keys), "a keys document must name a key once", "twice")
        active = sum(state == "active" for _, state in keys)
        require(active == 1, "a keys document must have exactly one active key", active)
        found = cls(party=party, study=study, serial=serial, keys=keys, digest=hashlib.sha256(data).hexdigest())
        if seen is not None:
            require(serial >= seen.serial, f"keys must have a serial of at least {seen.serial}, which was seen", serial)
            same = serial > seen.serial or found.keys == seen.keys
            require(same, "a serial must have one keys document", "another one")
        return found


def believed_keys(
    given: Mapping[str, bytes],
    *,
    study: bytes,
    learner: Path | None,
    mixer: Path | None,
    before: Mapping[str, bytes],
) -> dict[Party, KeysDocument]:
    """The documents in a bundle, each signed by its party's pinned key; `before` are those that were seen last (R3)."""
    pins: dict[Party, Path | None] = {"learner": learner, "mixer": mixer}

    def read(party: Party, data: bytes, seen: KeysDocument | None) -> KeysDocument:
        return KeysDocument.read(data, party=party, study=study, pinned=pins[party], seen=seen)

    parties = [party for party in pins if party in given]
    seen = {party: read(party, before[party], None) for party in parties if party in before}
    return {party: read(party, given[party], seen.get(party)) for party in parties}


def entry(key: PublicKey, state: KeyState) -> dict[str, str]:
    """A key as the document lists it."""
    return {"id": key.id.hex(), "public": base64.b64encode(key.raw).decode(), "state": state}


def _parsed(data: bytes) -> dict[str, Any]:
    """The entries, if all of them are there (R1)."""
    require(len(data) <= LARGEST, f"a keys document must have at most {LARGEST} bytes", len(data))
    try:
        content: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("a keys document must be JSON") from error
    known = isinstance(content, dict) and set(content) == ENTRIES
    require(known, "a keys document must be signed and have its entries and no other ones", "others")
    known = content["format"] == FORMAT and content["version"] == VERSION and content["suite"] == SUITE
    require(known, f"keys must be a {FORMAT} of version {VERSION} for {SUITE}", "something else")
    try:
        same = canonical(content) == data
    except (ValueError, TypeError) as error:
        raise InvalidInput("a keys document must be canonical JSON") from error
    require(same, "a keys document must be canonical JSON", "another spelling of it")
    require(isinstance(content["keys"], list), "keys must be a list", "something else")
    return content


def _key(plain: object) -> tuple[PublicKey, KeyState]:
    whole = isinstance(plain, Mapping) and set(plain) == KEY_ENTRIES
    whole = whole and all(isinstance(part, str) for part in plain.values())  # type: ignore[attr-defined]
    require(whole, "a key must have an id, a public part and a state", "something else")
    assert isinstance(plain, Mapping)  # noqa: S101 - for the types
    require(plain["state"] in STATES, f"the state of a key must be one of {', '.join(STATES)}", "another")
    try:
        key = PublicKey(base64.b64decode(plain["public"], validate=True))
    except (ValueError, binascii.Error) as error:
        raise InvalidInput("a public key must be 32 bytes in base64") from error
    require(plain["id"] == key.id.hex(), "the id of a key must follow from it", "another")
    return key, plain["state"]


RING: Final = "keyring.json"
LOCK: Final = "keyring.lock"
RING_FORMAT: Final = "tacit-keyring"
COARSE: Final = 60
"""Ends of grace are whole minutes, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    id: bytes
    state: KeyState
    until: int | None
    """The end of an expired key's grace, in seconds since 1970."""


class Keyring:
    """The keys of one party for one study, in a directory; every method reads what is on the disk."""

    def __init__(self, directory: str | Path) -> None:
        """Open an existing one; a missing one is an error, not a fresh start."""
        self.directory = Path(directory)
        content = self._content()
        self.party: Party = content["party"]
        self.study = bytes.fromhex(content["study"])

    @classmethod
    def new(cls, directory: str | Path, *, party: Party, study: bytes) -> Keyring:
        """Make a ring with an active and a pending key; an existing one is never touched."""
        require(party in PARTIES, f"a party with keys must be one of {', '.join(PARTIES)}", party)
        require(len(study) == 32, "a study's digest must have 32 bytes", len(study))
        place = Path(directory)
        require(not (place / RING).exists(), f"{place} must hold no keys yet", "a ring of keys")
        check_writable(place)
        with writing_to(place):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = object.__new__(cls)
            made.directory, made.party, made.study = place, party, study
            with made._locked():
                require(not (place / RING).exists(), f"{place} must hold no keys yet", "a ring of keys")
                active, pending = made._fresh(), made._fresh()
                made._write(
                    1,
                    [_Row(id=active, state="active", until=None), _Row(id=pending, state="pending", until=None)],
                )
        return cls(place)

    @classmethod
    def own(cls, directory: Path, *, party: Party, study: bytes) -> Keyring:
        """The ring of a party for a study, made where there is none; one for anything else is refused."""
        ring = cls(directory) if (directory / RING).exists() else cls.new(directory, party=party, study=study)
        fits = ring.party == party and ring.study == study
        require(fits, f"{directory} must hold the keys of the {party} for this study", "other keys")
        return ring

    # what is there

    @property
    def serial(self) -> int:
        """How often the ring has changed (K3)."""
        return int(self._content()["serial"])

    @property
    def active(self) -> bytes:
        """The id of the key that others seal to."""
        return next(row.id for row in self._rows() if row.state == "active")

    def states(self) -> dict[bytes, KeyState]:
        """Every key that is not deleted, by its id."""
        return {row.id: row.state for row in self._rows()}

    def secrets(self, now: float) -> Mapping[bytes, SecretKey]:
        """The keys to open with at this time, in seconds since 1970, the active one first (K1)."""
        rows = sorted(self._rows(), key=lambda row: STATES.index(row.state))
        return {row.id: self.secret(row.id) for row in rows if row.until is None or now < row.until}

    def document(self, key: str | Path) -> bytes:
        """The public keys document as canonical JSON, signed with this private Ed25519 key."""
        content = self._content()
        listed = [entry(self.secret(row.id).public, row.state) for row in self._rows(content)]
        document = {
            "format": FORMAT,
            "version": VERSION,
            "party": self.party,
            "study": self.study.hex(),
            "suite": SUITE,
            "keys": sorted(listed, key=lambda one: (STATES.index(one["state"]), one["id"])),
            "serial": content["serial"],
        }
        return canonical(sign(document, key))

    # what changes

    def rotate(self, now: float, *, grace: int) -> bytes:
        """The pending key becomes active, the active one expires in `grace` seconds, a new one is pending."""
        require_count("grace", grace, least=0)
        # Rounded up: a grace is never shorter than promised.
        until = -(-int(now + grace + 1) // COARSE) * COARSE
        with self._locked():
            content = self._content()
            rows = self._rows(content)
            after = [row for row in rows if row.until is None or now < row.until]
            gone = [row for row in rows if row not in after]
            moved = [
                replace(row, state="active")
                if row.state == "pending"
                else replace(row, state="expired", until=until)
                if row.state == "active"
                else row
                for row in after
            ]
            moved.append(_Row(id=self._fresh(), state="pending", until=None))
            self._write(content["serial"] + 1, moved)
            self._delete(gone)
            self._sweep(moved)
        return self.active

    def forget(self, now: float) -> int:
        """Delete the keys whose grace has ended, and say how many they were."""
        with self._locked():
            content = self._content()
            rows = self._rows(content)
            gone = [row for row in rows if row.until is not None and now >= row.until]
            if gone:
                kept = [row for row in rows if row not in gone]
                self._write(content["serial"] + 1, kept)
                self._delete(gone)
                self._sweep(kept)
        return len(gone)

    # files

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with writing_to(self.directory):
            handle = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(handle)
            yield
        finally:
            os.close(handle)

    def _content(self) -> dict[str, Any]:
        path = self.directory / RING
        try:
            content: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{path} must hold the ring of keys of a party: {type(error).__name__}") from error
        known = isinstance(content, dict) and content.get("format") == RING_FORMAT and content.get("version") == 1
        require(known, f"{path} must be a {RING_FORMAT} of version 1", "something else")
        require(content.get("party") in PARTIES, f"a party with keys must be one of {', '.join(PARTIES)}", "another")
        return content

    def _rows(self, content: Mapping[str, Any] | None = None) -> list[_Row]:
        listed = (self._content() if content is None else content)["keys"]
        rows = [_Row(id=bytes.fromhex(one["id"]), state=one["state"], until=one["until"]) for one in listed]
        fits = all(row.state in STATES and (row.until is not None) == (row.state == "expired") for row in rows)
        one = sum(row.state == "active" for row in rows) == 1
        require(fits and one, "a ring must have one active key, and ends of expired ones", "another ring")
        return rows

    def secret(self, name: bytes) -> SecretKey:
        """The key of this id, until it is deleted."""
        path = self.directory / f"{name.hex()}.key"
        try:
            status, raw = path.stat(), path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{path} must hold a key of this ring: {error.strerror}; restore it") from error
        private = status.st_mode & 0o077 == 0
        require(private, f"{path} must be readable by its owner only", "a file that others may read", "chmod 600")
        key = SecretKey(raw)
        require(key.id == name, f"{path} must hold the key that it is named after", "another key")
        return key

    def _fresh(self) -> bytes:
        """A new key on the disk; no state names it yet (K2)."""
        key = SecretKey.new()
        path = self.directory / f"{key.id.hex()}.key"
        with writing_to(self.directory):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(key.raw)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(self.directory)
        return key.id

    def _write(self, serial: int, rows: list[_Row]) -> None:
        """Replace the states as a whole."""
        listed = [{"id": row.id.hex(), "state": row.state, "until": row.until} for row in rows]
        content = {
            "format": RING_FORMAT,
            "version": 1,
            "party": self.party,
            "study": self.study.hex(),
            "serial": serial,
            "keys": listed,
        }
        path, made = self.directory / RING, self.directory / f".tmp-{secrets.token_hex(8)}"
        with writing_to(self.directory):
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(canonical(content))
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)
            sync_directory(self.directory)

    def _delete(self, rows: list[_Row]) -> None:
        for row in rows:
            (self.directory / f"{row.id.hex()}.key").unlink(missing_ok=True)
        sync_directory(self.directory)

    def _sweep(self, rows: list[_Row]) -> None:
        """Delete what a rotation that stopped half way left behind (K2)."""
        named = {f"{row.id.hex()}.key" for row in rows}
        for path in self.directory.iterdir():
            ours = path.suffix == ".key" and len(path.stem) == 2 * KEY_ID and path.name not in named
            if ours or path.name.startswith(".tmp-"):
                path.unlink(missing_ok=True)
