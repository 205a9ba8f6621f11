"""The issuer: signs blindly for people on its list, one token per person and stage and at most g in all.

I1  At most g signatures per person, one per stage; counted when they are stored, and handed out only after that.
I2  Idempotent: the same blinded message again gets the same signature, also after a crash at any point and after the
    stage is over; another blinded message for the same stage is refused.
I3  Refused before counted: an unknown credential, a stage without a key or a malformed message costs nobody anything.
I4  A stage's key is made when the stage is opened and deleted when it is over, at the latest when the next one opens;
    its public half stays in the document, which only grows.
I5  A signature is for good: a stage that ends void gives no token back, since an issuer that could be told so would let
    whoever tells it lift the limit g.

What the issuer knows: who asked for a token of which stage (as HMACs), and when, if it keeps logs of its network. What
it cannot know: which token it was (blind_rsa, B1).

The issuer's database: which stages have keys, and what was signed for whom, on SQLite or PostgreSQL.

    meta       name, value                                   study, g, the mark of the pseudonyms' key
    stage_key  stage, public, secret                         the secret is deleted when the stage is over
    issued     person, stage, number, blinded, signature     UNIQUE (person, number), 1 <= number <= g

D1  At most g signatures per person and one per person and stage, whoever writes: the table refuses the rest.
D2  A person is an HMAC under a key outside of the database; a blinded message is kept as its SHA-256.
    How it is kept is said in `tacit.study.store` (T1-T5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.accounting.journal import Connection
from tacit.errors import require, require_count
from tacit.runs.storage_paths import write_private
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.blind_rsa import SIZE, PublicKey, SecretKey, blind_sign
from tacit.service.tokens.token import LAST_STAGE, TokenKeys
from tacit.study.contract import usable_key
from tacit.study.databases import database_at
from tacit.study.intake import Pseudonyms
from tacit.study.store import no_failpoint

KIND: Final = "issuer"
PEOPLE: Final = "pseudonyms.key"
BEGUN: Final = "begun"
"""A file that says that there is a database: without it, a directory whose database was lost would begin anew."""
DENIALS: Final = {
    "malformed": "no blinded message of this stage",
    "foreign": "not on the list",
    "not open": "for a stage that has no key yet",
    "late": "for a stage that is over",
    "twice": "another blinded message than the one that was signed for this person and stage",
    "used up": "one more token than a person of this study has",
}
"""Why a signature is refused, in words."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A reason of `DENIALS`."""

    reason: str

    def __post_init__(self) -> None:
        require(self.reason in DENIALS, "a denial must have one of the listed reasons", "another")


class Issuer:
    """An issuer in a directory; safe to use from several threads and processes."""

    def __init__(
        self,
        directory: str | Path,
        *,
        people: Enrolment,
        key: str | Path,
        database: str | None = None,
        edge: Callable[[str], None] = no_failpoint,
    ) -> None:
        """Open an existing one; `key` is the Ed25519 key that signs its document, `people` its list."""
        self.directory = Path(directory)
        signing = usable_key(key)
        assert signing is not None  # noqa: S101 - a key was given
        self.people, self.key, self.edge = people, signing, edge
        place = database_at(self.directory, database)
        hint = "restore its database, or begin a new one"
        require(place.exists(KIND), f"{self.directory} must hold an issuer", "no tables of one", hint)
        self.store = place.open(KIND, edge=edge)
        with self.store.reading() as connection:
            meta = dict(connection.execute("SELECT name, value FROM meta"))
        self.study, self.reports = bytes.fromhex(meta["study"]), int(meta["reports"])
        self.pseudonyms = Pseudonyms.load(self.directory / PEOPLE)
        known = self.pseudonyms.mark == meta["people"]
        require(known, f"{PEOPLE} must be the key that this issuer began with", "another key", "restore it")
        if not (self.directory / BEGUN).exists():
            write_private(self.directory / BEGUN, meta["study"].encode() + b"\n")
        self._secrets: dict[int, SecretKey] = {}
        self._document = (-1, b"")

    @classmethod
    def new(
        cls,
        directory: str | Path,
        *,
        study: bytes,
        reports: int,
        people: Enrolment,
        key: str | Path,
        database: str | None = None,
        edge: Callable[[str], None] = no_failpoint,
    ) -> Issuer:
        """Begin to issue for a study in which a person reports at most `reports` (g) times."""
        require(len(study) == 32, "a study's digest must have 32 bytes", len(study))
        limit = require_count("reports", reports)
        usable_key(key)
        place = Path(directory)
        begun = cls.begun(place, database)
        require(not begun, "an issuer must begin in a new directory and database", "an issuer in it")
        pseudonyms = Pseudonyms.new(place / PEOPLE)
        meta = {"study": study.hex(), "reports": str(limit), "people": pseudonyms.mark}

        def first(connection: Connection) -> None:
            connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))

        database_at(place, database).create(KIND, edge=edge, first=first)
        return cls(place, people=people, key=key, database=database, edge=edge)

    @staticmethod
    def begun(directory: str | Path, database: str | None = None) -> bool:
        """Whether an issuer was begun here, also if its database was lost since: then everybody would have g again."""
        place = Path(directory)
        return (place / BEGUN).exists() or database_at(place, database).exists(KIND)

    # stages

    def open_stage(self, stage: int) -> bool:
        """Make the key of a stage and delete those before it (I4); whether it is new. Asked again, nothing changes."""
        number = require_count("stage", stage, least=0)
        require(number <= LAST_STAGE, f"a stage must be at most {LAST_STAGE}", number)
        made = SecretKey.new()
        with self.store.step("open", scrubs=True) as connection:
            row = connection.execute("SELECT secret FROM stage_key WHERE stage = ?", (number,)).fetchone()
            if row is not None:
                require(row[0] is not None, "a stage that is over must not be opened again", f"stage {number}")
                return False
            last = connection.execute("SELECT max(stage) FROM stage_key").fetchone()[0]
            require(last is None or number > last, f"a stage must come after stage {last}", number)
            connection.execute("UPDATE stage_key SET secret = NULL")
            connection.execute("INSERT INTO stage_key VALUES (?, ?, ?)", (number, made.public.spki, made.pkcs8))
        self._secrets.clear()
        return True

    def end_stage(self, stage: int) -> None:
        """Delete the secret key of a stage: nobody gets a token of it any more."""
        with self.store.step("end", scrubs=True) as connection:
            there = connection.execute("SELECT 1 FROM stage_key WHERE stage = ?", (stage,)).fetchone()
            require(there is not None, "a stage must have been opened before it is over", f"stage {stage}")
            connection.execute("UPDATE stage_key SET secret = NULL WHERE stage = ?", (stage,))
        self._secrets.pop(stage, None)

    def document(self) -> bytes:
        """The signed keys of all stages; the same bytes until a stage is opened."""
        with self.store.reading() as connection:
            rows = connection.execute("SELECT stage, public FROM stage_key").fetchall()
        serial, made = self._document
        if serial != len(rows):
            stages = {stage: PublicKey(bytes(public)) for stage, public in rows}
            made = TokenKeys(study=self.study, serial=len(rows), stages=stages).signed(self.key)
            self._document = len(rows), made
        return made

    # tokens

    def issue(self, credential: bytes, stage: int, blinded: bytes) -> bytes | Denied:
        """The blind signature for a person and a stage, or why there is none (I1, I2, I3)."""
        person = self.people.person(credential)
        if person is None:
            return Denied("foreign")
        if not 0 <= stage <= LAST_STAGE:
            return Denied("malformed")
        name, digest = self.pseudonyms.of(person), hashlib.sha256(blinded).digest()
        with self.store.reading() as connection:
            found = self._found(connection, name, stage, digest)
        if isinstance(found, Denied | bytes):
            return found
        key = self._secret(stage, found)
        if len(blinded) != SIZE or int.from_bytes(blinded) >= key.public.n:
            return Denied("malformed")
        # The signature is a function of key and message: whoever computes it twice has computed the same.
        signature = blind_sign(key, blinded)
        self.edge("issue:signed")
        with self.store.step("issue") as connection:
            again = self._found(connection, name, stage, digest)
            if isinstance(again, Denied | bytes):
                return again
            values = (name, stage, 1 + _count(connection, name), digest, signature)
            connection.execute("INSERT INTO issued VALUES (?, ?, ?, ?, ?)", values)
        return signature

    def status(self) -> dict[str, Any]:
        """Numbers only: stages, whether they have a secret key, and how many tokens were signed."""
        with self.store.reading() as connection:
            tokens = dict(connection.execute("SELECT stage, count(*) FROM issued GROUP BY stage"))
            rows = connection.execute("SELECT stage, secret IS NOT NULL FROM stage_key ORDER BY stage").fetchall()
        stages = [{"stage": stage, "open": bool(there), "tokens": tokens.get(stage, 0)} for stage, there in rows]
        return {"study": self.study.hex(), "reports": self.reports, "people": len(self.people), "stages": stages}

    def _found(self, connection: Connection, name: bytes, stage: int, digest: bytes) -> bytes | Denied | _Open:
        """What was signed already, why nothing can be, or the key of the stage."""
        signed = "SELECT blinded, signature FROM issued WHERE person = ? AND stage = ?"
        there = connection.execute(signed, (name, stage)).fetchone()
        if there is not None:
            return bytes(there[1]) if bytes(there[0]) == digest else Denied("twice")
        key = connection.execute("SELECT secret FROM stage_key WHERE stage = ?", (stage,)).fetchone()
        if key is None:
            return Denied("not open")
        if key[0] is None:
            return Denied("late")
        return Denied("used up") if _count(connection, name) >= self.reports else _Open(bytes(key[0]))

    def _secret(self, stage: int, found: _Open) -> SecretKey:
        key = self._secrets.get(stage)
        if key is None or key.pkcs8 != found.pkcs8:
            key = self._secrets[stage] = SecretKey(found.pkcs8)
        return key


@dataclass(frozen=True, slots=True, repr=False)
class _Open:
    """The secret key of an open stage."""

    pkcs8: bytes


def _count(connection: Connection, name: bytes) -> int:
    return int(connection.execute("SELECT count(*) FROM issued WHERE person = ?", (name,)).fetchone()[0])
