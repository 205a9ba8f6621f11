"""What a shuffler hands to devices byte for byte: the bundle of the stage and the signed keys of shuffler and issuer.

Y1  Served from memory, kept on the disk: the bundle in the collector's database (one that asks nothing, in a file),
    documents of keys in files; a restart serves the same bytes.
Y2  Only what its party signed: with a pinned key, by that key; serials and stages never go back.
    Keys of learner and mixer come inside the bundle of a sealed stage and in no other way: nobody can change them
    while the stage is open.
Y3  Everybody gets the same bytes. Devices get the first question of a stage; later ones are for the collector.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tacit.errors import require
from tacit.runs.storage import write_whole, writing_to
from tacit.service.config import Keys
from tacit.service.encryption.hpke import SecretKey, outer_info
from tacit.service.encryption.keyring import Keyring, believed_keys
from tacit.service.tokens.admission import Admission, TokenAdmission
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector

LAST: Final = "last-bundle.json"
FIRST_QUESTIONS: Final = "SELECT stage, bundle FROM question WHERE number = 0 ORDER BY stage DESC LIMIT 1"
ISSUER: Final = "issuer"


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes as they are handed out, and what names them."""

    data: bytes
    etag: str

    @classmethod
    def of(cls, data: bytes) -> Kept:
        """These bytes under their digest."""
        return cls(data, f'"{hashlib.sha256(data).hexdigest()}"')


class Loaded:
    """A key of the shuffler, ready to open envelopes of one study; loading it takes a third of the time of opening."""

    __slots__ = ("_info", "_open")

    def __init__(self, key: SecretKey, study: bytes) -> None:
        self._info = outer_info(study, key.id)
        self._open = key.opener(self._info)

    def open(self, info: bytes, sealed: bytes) -> bytes | None:
        """What is in an envelope, or None."""
        return self._open(sealed) if info == self._info else None


class Relay:
    """Bundle and documents of one study; safe to use from several threads."""

    def __init__(self, collector: Collector, keys: Keys, ring: Keyring, people: Admission) -> None:
        require(keys.sign is not None, "keys.sign must name the private key that signs the shuffler's keys", "none")
        assert keys.sign is not None  # noqa: S101 - for the types
        self.collector, self._pinned, self._ring, self._people = collector, keys, ring, people
        self._sign = keys.sign
        self._lock = threading.Lock()
        self._serial = -1
        self.bundle: Kept | None = None
        self.documents: dict[str, Kept] = {}
        self.secrets: Mapping[bytes, Loaded] = {}
        if self._file.exists():
            self._accept(self._file.read_bytes())
        self.refresh_bundle()

    # keys

    def refresh_keys(self, now: float) -> None:
        """Look for a rotation of the shuffler's own keys, and let expired ones go."""
        serial, found = self._ring.serial, self._ring.secrets(now)
        if serial != self._serial:
            self.documents["shuffler"] = Kept.of(self._ring.document(self._sign))
            self._serial = serial
        if found.keys() != self.secrets.keys():
            self.secrets = {name: Loaded(key, self.collector.study) for name, key in found.items()}

    @property
    def serial(self) -> int:
        """How often the shuffler's own keys have changed."""
        return self._serial

    def age_hours(self, now: float) -> int:
        """Whole hours since then, by the date of the file."""
        return max(0, int((now - (self._ring.directory / "keyring.json").stat().st_mtime) // 3600))

    def put_keys(self, party: str, data: bytes) -> bool:
        """Take the issuer's document in (Y2); whether it is a new one."""
        hint = "keys of learner and mixer stand in the bundle of their stage; update the learner to tacit 0.9"
        require(party == ISSUER, "keys outside of a bundle must be the issuer's", "another party's", hint)
        with self._lock:
            kept = self.documents.get(party)
            if kept is not None and kept.data == data:
                return False
            self._accept(data)
            with writing_to(self.collector.directory):
                write_whole(self._file, data)
        return True

    def _accept(self, data: bytes) -> None:
        tokens = isinstance(self._people, TokenAdmission)
        require(tokens, 'the keys of an issuer are for people = "issuer"', "other people")
        assert isinstance(self._people, TokenAdmission)  # noqa: S101 - for the types
        self._people.accept(data)
        self.documents[ISSUER] = Kept.of(data)

    def require_keys(self, asked: Bundle) -> None:
        """Refuse a bundle whose keys no device would believe (Y2)."""
        before = {} if self.bundle is None else Bundle.parse(self.bundle.data).keys
        pins = self._pinned
        believed_keys(asked.keys, study=asked.study, learner=pins.learner, mixer=pins.mixer, before=before)

    # bundles

    def refresh_bundle(self) -> None:
        """Find the bundle that devices are to have: that of the last stage (Y1, Y3)."""
        with self.collector.store.reading() as connection:
            row = connection.execute(FIRST_QUESTIONS).fetchone()
        path = self.collector.directory / LAST
        found = None if row is None else (int(row[0]), bytes(row[1]))
        if path.exists():
            data = path.read_bytes()
            stage = int(Bundle.parse(data)["stage"])
            if found is None or stage > found[0]:
                found = (stage, data)
        if found is not None and (self.bundle is None or self.bundle.data != found[1]):
            self.bundle = Kept.of(found[1])

    def put_last(self, data: bytes) -> bool:
        """Take in a bundle that asks nothing: devices follow it and report no more; whether it is a new one."""
        asked = self._believed(data)
        self.collector.seen(asked.head)
        with self._lock:
            path = self.collector.directory / LAST
            if path.exists() and path.read_bytes() == data:
                return False
            status = [(row["stage"], row["state"]) for row in self.collector.status()["stages"]]
            running = [stage for stage, state in status if state in ("open", "closed")]
            require(not running, "a stage must have ended before devices stop reporting", f"stage {running}")
            before = None if self.bundle is None else int(Bundle.parse(self.bundle.data)["stage"])
            require(before is None or asked["stage"] > before, f"a bundle must come after stage {before}", "another")
            with writing_to(path):
                write_whole(path, data)
                os.chmod(path, 0o600)
        self.refresh_bundle()
        return True

    def require_going_on(self) -> None:
        """Refuse a stage of a study that was ended."""
        ended = self.bundle is not None and Bundle.parse(self.bundle.data)["kill"]
        require(not ended, "a study that was ended must not be opened", "a bundle that asks")

    def _believed(self, data: bytes) -> Bundle:
        """A bundle that asks nothing, of this study, signed by the pinned learner if there is one (Y2)."""
        asked = Bundle.parse(data)
        require(asked.channel is None, "this bundle must ask nothing", "one that asks")
        require(asked["study"] == self.collector.design.digest, "a bundle must be of this study", "another study")
        signed = asked.examined(self._pinned.learner)
        forged = asked.content.get("signature") is not None and not signed.valid
        require(not forged, "a bundle must have a signature that fits", signed.words)
        needed = self._pinned.learner is not None
        require(not needed or signed.pinned, "a bundle must be signed by the pinned key", signed.words)
        return asked

    @property
    def _file(self) -> Path:
        return self.collector.directory / "keys-issuer.json"
