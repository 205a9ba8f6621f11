"""The public keys document of a party: canonical JSON, signed, relayed byte for byte by whoever hands it on.

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
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tacit.errors import InvalidInput, require, require_count
from tacit.runs.signature import canonical, examine
from tacit.service.encryption.hpke import SUITE, PublicKey

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
