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

    meta       name, value                                   version, study, g, the mark of the pseudonyms' key
    stage_key  stage, public, secret                         the secret is deleted when the stage is over
    issued     person, stage, number, blinded, signature     UNIQUE (person, number), 1 <= number <= g

D1  At most g signatures per person and one per person and stage, whoever writes: the table refuses the rest.
D2  Steps that write come one after the other, of however many processes, and are on the disk when they return.
D3  A person is an HMAC under a key outside of the database; a blinded message is kept as its SHA-256.
D4  Only its owner reads the SQLite file; deleted secrets are overwritten, and the log is emptied after them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, install_hint, require, require_count
from tacit.runs.storage import check_writable, writing_to
from tacit.runs.storage_paths import write_private
from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.blind_rsa import SIZE, PublicKey, SecretKey, blind_sign
from tacit.service.tokens.token import LAST_STAGE, TokenKeys
from tacit.study.contract import usable_key
from tacit.study.intake import Pseudonyms
from tacit.study.store import no_failpoint

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import SQLAlchemyError
except ImportError as error:  # pragma: no cover - the extra is installed wherever this is tested
    raise NotSupported(f"an issuer needs the package sqlalchemy: {install_hint('service')}") from error

DATABASE: Final = "issuer.db"
VERSION: Final = "1"
WAIT_SECONDS: Final = 60
SCHEMA: Final = "issuer"


class Issued:
    """The tables of one issuer."""

    def __init__(self, engine: sa.Engine) -> None:
        """Tables that exist; use `create` or `open`."""
        self.engine = engine
        self.meta: dict[str, str] = {}

    @classmethod
    def create(cls, directory: Path, url: str | None, *, meta: Mapping[str, str], reports: int) -> None:
        """Make the tables; existing ones are never touched."""
        check_writable(directory)
        with writing_to(directory):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if url is None and not (directory / DATABASE).exists():
                os.close(os.open(directory / DATABASE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        made = cls(_engine(directory, url))
        try:
            with made.step() as connection:
                if made.engine.dialect.name == "postgresql":
                    schema = connection.execute(sa.text("SHOW search_path")).scalar_one()
                    connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
                TABLES.create_all(connection, checkfirst=False)
                # The limit stands in the table itself (D1).
                _issued_table(reports).create(connection)
                connection.execute(META.insert(), [{"name": name, "value": value} for name, value in meta.items()])
                connection.execute(META.insert(), {"name": "version", "value": VERSION})
        finally:
            made.engine.dispose()

    @classmethod
    def exists(cls, directory: Path, url: str | None) -> bool:
        """Whether there are tables of an issuer."""
        if url is None and not (directory / DATABASE).is_file():
            return False
        found = cls(_engine(directory, url))
        try:
            with found.reading() as connection:
                return bool(sa.inspect(connection).has_table("meta"))
        finally:
            found.engine.dispose()

    @classmethod
    def open(cls, directory: Path, url: str | None) -> Issued:
        """The tables of an existing issuer."""
        there = cls.exists(directory, url)
        require(
            there, f"{directory} must hold an issuer", "no tables of one", "restore its database, or begin a new one"
        )
        found = cls(_engine(directory, url))
        with found.closed_if_refused():
            with found.reading() as connection:
                found.meta = {row.name: row.value for row in connection.execute(sa.select(META))}
            version = found.meta.get("version")
            require(version == VERSION, f"the issuer's database must have version {VERSION}", version)
        return found

    @contextmanager
    def closed_if_refused(self) -> Iterator[None]:
        """Leave no connection behind where the block raises."""
        try:
            yield
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def step(self, *, scrubs: bool = False) -> Iterator[sa.Connection]:
        """One transaction that writes, after every other (D2)."""
        try:
            with self.engine.connect() as connection:
                with connection.begin():
                    if self.engine.dialect.name == "postgresql":
                        connection.execute(sa.text("SELECT pg_advisory_xact_lock(7305243)"))
                    yield connection
                if scrubs and self.engine.dialect.name == "sqlite":
                    connection.execution_options(plain=True).exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        except SQLAlchemyError as error:
            raise InvalidInput(f"the issuer's database cannot be used: {type(error).__name__}") from error

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A view without the writers' lock."""
        try:
            with self.engine.connect().execution_options(plain=True) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise InvalidInput(f"the issuer's database cannot be used: {type(error).__name__}") from error


TABLES: Final = sa.MetaData()
META: Final = sa.Table(
    "meta", TABLES, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)
STAGE_KEY: Final = sa.Table(
    "stage_key",
    TABLES,
    sa.Column("stage", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("public", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("secret", sa.LargeBinary),
)


def _issued_table(reports: int | None = None) -> sa.Table:
    limit = "number >= 1" if reports is None else f"number >= 1 AND number <= {int(reports)}"
    return sa.Table(
        "issued",
        sa.MetaData(),
        sa.Column("person", sa.LargeBinary, primary_key=True),
        sa.Column("stage", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("blinded", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("person", "number"),
        sa.CheckConstraint(limit),
    )


ISSUED: Final = _issued_table()


def _postgres(url: str) -> sa.Engine:
    """An engine of one schema: postgresql://user@host:port/database?schema=name, "issuer" unless it is named."""
    from tacit.service.database import Where

    place = Where.of(url)
    options = {"options": f"-csearch_path={place.schema or SCHEMA}", "connect_timeout": WAIT_SECONDS}
    return sa.create_engine(place.url, pool_pre_ping=True, hide_parameters=True, connect_args=options)


def _engine(directory: Path, url: str | None) -> sa.Engine:
    """An engine whose transactions are durable, and exclusive on SQLite."""
    if url is not None:
        return _postgres(url)
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(directory / DATABASE)),
        connect_args={"timeout": WAIT_SECONDS},
        hide_parameters=True,
    )

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where this module says
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        reads = connection.get_execution_options().get("plain", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


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
        self.issued = Issued.open(self.directory, database)
        meta = self.issued.meta
        self.study, self.reports = bytes.fromhex(meta["study"]), int(meta["reports"])
        with self.issued.closed_if_refused():
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
        meta = {"kind": "issuer", "study": study.hex(), "reports": str(limit), "people": pseudonyms.mark}
        Issued.create(place, database, meta=meta, reports=limit)
        return cls(place, people=people, key=key, database=database, edge=edge)

    @staticmethod
    def begun(directory: str | Path, database: str | None = None) -> bool:
        """Whether an issuer was begun here, also if its database was lost since: then everybody would have g again."""
        place = Path(directory)
        return (place / BEGUN).exists() or Issued.exists(place, database)

    def close(self) -> None:
        """Give the connections back."""
        self.issued.engine.dispose()

    # stages

    def open_stage(self, stage: int) -> bool:
        """Make the key of a stage and delete those before it (I4); whether it is new. Asked again, nothing changes."""
        number = require_count("stage", stage, least=0)
        require(number <= LAST_STAGE, f"a stage must be at most {LAST_STAGE}", number)
        made = SecretKey.new()
        with self.issued.step(scrubs=True) as connection:
            row = connection.execute(sa.select(STAGE_KEY.c.secret).where(STAGE_KEY.c.stage == number)).first()
            if row is not None:
                require(row.secret is not None, "a stage that is over must not be opened again", f"stage {number}")
                return False
            last = connection.execute(sa.select(sa.func.max(STAGE_KEY.c.stage))).scalar()
            require(last is None or number > last, f"a stage must come after stage {last}", number)
            connection.execute(sa.update(STAGE_KEY).values(secret=None))
            values = {"stage": number, "public": made.public.spki, "secret": made.pkcs8}
            connection.execute(STAGE_KEY.insert(), values)
            self.edge("open:before commit")
        self.edge("open:after commit")
        self._secrets.clear()
        return True

    def end_stage(self, stage: int) -> None:
        """Delete the secret key of a stage: nobody gets a token of it any more."""
        with self.issued.step(scrubs=True) as connection:
            there = connection.execute(sa.select(STAGE_KEY.c.stage).where(STAGE_KEY.c.stage == stage)).first()
            require(there is not None, "a stage must have been opened before it is over", f"stage {stage}")
            connection.execute(sa.update(STAGE_KEY).where(STAGE_KEY.c.stage == stage).values(secret=None))
        self._secrets.pop(stage, None)

    def document(self) -> bytes:
        """The signed keys of all stages; the same bytes until a stage is opened."""
        with self.issued.reading() as connection:
            rows = connection.execute(sa.select(STAGE_KEY.c.stage, STAGE_KEY.c.public)).all()
        serial, made = self._document
        if serial != len(rows):
            stages = {int(row.stage): PublicKey(bytes(row.public)) for row in rows}
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
        with self.issued.reading() as connection:
            found = self._found(connection, name, stage, digest)
        if isinstance(found, Denied | bytes):
            return found
        key = self._secret(stage, found)
        if len(blinded) != SIZE or int.from_bytes(blinded) >= key.public.n:
            return Denied("malformed")
        # The signature is a function of key and message: whoever computes it twice has computed the same.
        signature = blind_sign(key, blinded)
        self.edge("issue:signed")
        with self.issued.step() as connection:
            again = self._found(connection, name, stage, digest)
            if isinstance(again, Denied | bytes):
                return again
            number = 1 + self._count(connection, name)
            values = {"person": name, "stage": stage, "number": number, "blinded": digest, "signature": signature}
            connection.execute(ISSUED.insert(), values)
            self.edge("issue:before commit")
        self.edge("issue:after commit")
        return signature

    def status(self) -> dict[str, Any]:
        """Numbers only: stages, whether they have a secret key, and how many tokens were signed."""
        counted = sa.select(ISSUED.c.stage, sa.func.count().label("tokens")).group_by(ISSUED.c.stage)
        with self.issued.reading() as connection:
            rows = connection.execute(
                sa.select(STAGE_KEY.c.stage, STAGE_KEY.c.secret.is_not(None).label("open")).order_by(STAGE_KEY.c.stage)
            ).all()
            tokens = {int(row.stage): int(row.tokens) for row in connection.execute(counted)}
        stages = [
            {"stage": int(row.stage), "open": bool(row.open), "tokens": tokens.get(int(row.stage), 0)} for row in rows
        ]
        return {"study": self.study.hex(), "reports": self.reports, "people": len(self.people), "stages": stages}

    def _found(self, connection: sa.Connection, name: bytes, stage: int, digest: bytes) -> bytes | Denied | _Open:
        """What was signed already, why nothing can be, or the key of the stage."""
        there = connection.execute(
            sa.select(ISSUED.c.blinded, ISSUED.c.signature).where(ISSUED.c.person == name, ISSUED.c.stage == stage)
        ).first()
        if there is not None:
            return bytes(there.signature) if bytes(there.blinded) == digest else Denied("twice")
        key = connection.execute(sa.select(STAGE_KEY.c.secret).where(STAGE_KEY.c.stage == stage)).first()
        if key is None:
            return Denied("not open")
        if key.secret is None:
            return Denied("late")
        return Denied("used up") if self._count(connection, name) >= self.reports else _Open(bytes(key.secret))

    def _count(self, connection: sa.Connection, name: bytes) -> int:
        found = connection.execute(sa.select(sa.func.count()).select_from(ISSUED).where(ISSUED.c.person == name))
        return int(found.scalar_one())

    def _secret(self, stage: int, found: _Open) -> SecretKey:
        key = self._secrets.get(stage)
        if key is None or key.pkcs8 != found.pkcs8:
            key = self._secrets[stage] = SecretKey(found.pkcs8)
        return key


@dataclass(frozen=True, slots=True, repr=False)
class _Open:
    """The secret key of an open stage."""

    pkcs8: bytes
