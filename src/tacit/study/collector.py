"""The collector: the party that a claim trusts, with reports, ledger and outbox in one database.

Under central trust it is the curator, under shuffle trust the shuffler, under local trust a letter box. It never talks
to the learner but by bytes: a bundle comes in, a release goes out.

    open(bundle) -> add(report, person) ... -> close() -> release(head)   or   void()

C1  One view: a question of a stage is released once. Asked again, the collector returns the stored bytes.
C2  Paid first: charge, noise, outbox, commit with the release's digest, secret and the scrub of bodies are one
    transaction. Under local trust the charge is on the disk before `open` returns: messages are public once they left.
C3  Never fewer than `least`: a stage with fewer reports ends void. A void stage gives participation back, unless it
    was paid for.
C4  A restored backup is found out before it draws (`tacit.study.collector`): it must hold the heads that a file
    beside the database, the bundle and the learner name; one that does not stops for good.
C5  Real people get noise that nobody can replay: a collector of secure noise refuses every other source.
C6  It believes no number that it can derive: a design whose certificate does not hold is refused.
C7  Sealed stages (`tacit.study.sealed_batches`): it checks lengths only, and releases the manifest of a permuted file.

Heads: places in a collector's ledger that are known outside of its database, and that every copy of it must hold.

    <directory>/last-head       NUMBER:DIGEST of the ledger's last record; below it, a head that was met and is missing

H1  The file names a charge before anything that was charged leaves: it is written after the commit of the database and
    before `open`, `release` and `void` return. After a crash in between, the file is behind and nothing has left;
    the next step, whichever it is, brings the file up first.
H2  A copy of the database that lacks a head (of the file, of a learner, of a bundle) stops for good: the head is
    written into the file and into `meta` of this copy, and every later step of it is refused, after restarts too.
H3  A copy that holds every head of the file goes on: the newest one. A missing file is refused.
H4  Bundles carry the head of the last release, so devices keep it as well and refuse a ledger that goes back or forks.

What remains: a database that is restored together with its file, for a learner that shows an older head
(docs/operations/database.md).

What can be known about a collector: numbers of reports, refusals and charges, nothing about anybody.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.journal import Connection, Receipt
from tacit.accounting.people import PeopleLedger
from tacit.accounting.terms import NOISE_KINDS, NoiseKind
from tacit.arguments import checked
from tacit.documents import canonical, parse_json
from tacit.errors import InvalidInput, require, require_count
from tacit.protocol import Noise
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import Release
from tacit.runs.storage import write_whole, writing_to
from tacit.study import contract as study_parts
from tacit.study.bundle import Bundle, begin_stage, believed, last_stage, require_next_question
from tacit.study.contract import (
    GENESIS_HEAD,
    Design,
    Head,
    certificate_under,
    channels_of,
    left_out,
    packages_of,
    parts_of,
    rung_of,
    usable_key,
)
from tacit.study.databases import database_at
from tacit.study.external_shuffle import BatchFiles
from tacit.study.intake import AGAIN, COUNTED, Intake, Pseudonyms
from tacit.study.sealed_batches import require_layers
from tacit.study.state import decode_state, encode_state
from tacit.study.store import Database, Failpoint, Store, no_failpoint
from tacit.study.wire import ReleasePayload, sha256
from tacit.system import sync_directory

NAME: Final = "last-head"
STOPPED: Final = "stopped"


class UnknownHead(InvalidInput):
    """A head that a ledger does not hold: its database is an older copy, or a fork."""

    def __init__(self, head: Head) -> None:
        self.head = head
        super().__init__(
            f"this collector is stopped: its ledger must hold record {head.number} as it was seen before, got an older "
            "copy of the database; put back the copy that holds it or, if none does, end the study ('tacit study kill')"
        )


class HeadFile:
    """The file beside a collector's database."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME

    def begin(self, connection: Connection) -> None:
        """Write the file of a new collector; the file of an interrupted start is replaced."""
        first = Head.of(PeopleLedger.within(connection).head())
        charged = self.path.exists() and any(head.number > first.number for head in self.read())
        require(
            not charged, f"{self.path.parent} must be a new directory", "one that has charged", "restore its database"
        )
        self._write(first)

    def read(self) -> tuple[Head, ...]:
        """The heads that the database must hold."""
        try:
            found = tuple(Head.from_text(line) for line in self.path.read_text("ascii").splitlines())
        except (OSError, ValueError) as error:
            hint = "copy it from the directory that this collector was served from last"
            raise InvalidInput(
                f"{self.path} must hold the last head of this collector, got no such file; {hint}"
            ) from error
        require(len(found) > 0, f"{self.path} must hold the last head of this collector", "an empty file")
        return found

    def require_held(self, connection: Connection) -> None:
        """Raise `UnknownHead` unless this copy may go on (H2, H3)."""
        known = self.read()  # before the first look at the database: a reader's view must not be older than the file
        met = stopped_by(connection)
        if met is not None:
            raise UnknownHead(met)
        for head in known:
            if not _holds(connection, head):
                raise UnknownHead(head)

    def keep(self, store: Store) -> None:
        """Have the last record in the file (H1)."""
        with store.reading() as connection:
            behind = self.read() != (_last(connection),)
        if behind:
            with store.step("head") as connection:  # the writers' lock: the file never goes back
                self.require_held(connection)
                self.catch_up(connection)

    def catch_up(self, connection: Connection) -> None:
        """The same at the beginning of a step, which has the writers' lock: the one before it may have been cut off."""
        last = _last(connection)
        if self.read() != (last,):
            self._write(last)

    def stop(self, store: Store, head: Head) -> None:
        """Stop this copy for good (H2)."""
        with store.step("stop") as connection:
            known = self.read()
            self._write(*known, *(() if head in known else (head,)))
            connection.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING", (STOPPED, head.text))

    def _write(self, *heads: Head) -> None:
        with writing_to(self.path.parent):
            write_whole(self.path, "".join(f"{head.text}\n" for head in heads).encode())
            os.chmod(self.path, 0o600)
            sync_directory(self.path.parent)


def stopped_by(connection: Connection) -> Head | None:
    """The head that stopped this copy, if one did."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (STOPPED,)).fetchone()
    return None if row is None else Head.from_text(row[0])


def require_seen(connection: Connection, head: Head) -> None:
    """Raise `UnknownHead` unless the commit that the learner has seen last is in this ledger."""
    if head != GENESIS_HEAD and not _holds(connection, head, "AND kind = 'commit'"):
        raise UnknownHead(head)


def require_latest(connection: Connection, head: Head) -> None:
    """Before anything is asked or drawn, the learner must have seen all that was released."""
    row = connection.execute(
        "SELECT number, digest FROM records WHERE kind = 'commit' ORDER BY number DESC LIMIT 1"
    ).fetchone()
    last = GENESIS_HEAD if row is None else Head(number=row[0], digest=bytes.fromhex(row[1]))
    hint = "hand over what 'tacit study status' of the learner prints as head"
    require(head == last, "the head must be that of the last release", f"head {head.number}", hint)


def _last(connection: Connection) -> Head:
    number, digest = connection.execute("SELECT number, digest FROM records ORDER BY number DESC LIMIT 1").fetchone()
    return Head(number=number, digest=bytes.fromhex(digest))


def _holds(connection: Connection, head: Head, more: str = "") -> bool:
    row = connection.execute(
        f"SELECT 1 FROM records WHERE number = ? AND digest = ? {more}",  # noqa: S608 - one of two constants
        (head.number, head.digest.hex()),
    )
    return row.fetchone() is not None


def status_of(connection: Connection, design: Design, channels: Sequence[Release], noise: str) -> dict[str, Any]:
    """The stages, what was refused and what was spent."""
    rows = connection.execute("SELECT number, slot, state, n, reason FROM stage ORDER BY number").fetchall()
    counts = dict(connection.execute("SELECT stage, count(*) FROM report GROUP BY stage").fetchall())
    refused = dict(connection.execute("SELECT reason, count FROM rejected ORDER BY reason").fetchall())
    people = connection.execute("SELECT count(DISTINCT person) FROM participation").fetchone()[0]
    ledger = PeopleLedger.within(connection)
    spent, met = ledger.spent(), stopped_by(connection)
    stages = [
        {
            "stage": number,
            "slot": slot,
            "state": state,
            "reports": counts.get(number, 0) if n is None else n,
            "least": channels[slot].least,
            "target": channels[slot].target,
            "reason": reason,
        }
        for number, slot, state, n, reason in rows
    ]
    return {
        "study": design.digest,
        "name": design.name,
        "trust": design.trust,
        "declared": design.declarations,
        "noise": noise,
        "state": stages[-1]["state"] if stages else "new",
        "stages": stages,
        "people": people,
        "refused": refused,
        "ledger": Head.of(ledger.head()).text,
        "stopped": None if met is None else met.text,
        "spent": {"epsilon": spent.epsilon, "delta": spent.delta, "reserved": spent.reserved},
        "budget": {"epsilon": design.epsilon, "delta": design.delta},
    }


def require_outbox(connection: Connection, study: bytes) -> None:
    """Raise unless every release is as it was written, was paid for and committed, and no commit lacks its release."""
    committed = {draw.number: draw.release for draw in PeopleLedger.within(connection).entries() if draw.release}
    rows = connection.execute("SELECT stage, question, bytes, digest, charge FROM outbox").fetchall()
    for stage, question, data, digest, charge in rows:
        release = ReleasePayload.parse(data)
        same = sha256(data).hex() == digest == committed.get(charge) and release.charge.number == charge
        same = same and (release.stage, release.question, release.study) == (stage, question, study)
        require(same, "releases must be as they were written and committed", f"another one of stage {stage}")
    require(len(rows) == len(committed), "every commit must have its release", f"{len(rows)} of {len(committed)}")


PEOPLE: Final = "people.key"
REPORTS_PER_TRANSACTION: Final = 1000
"""How many reports one transaction takes in."""


class Collector:
    """A collector in a directory: takes reports, keeps the ledger, releases. `Collector.new` begins one.

    Every method is one transaction.

    Parameters
    ----------
    directory, database
        Where it is kept; the database is a file in the directory unless another one is named (postgresql://...).
    key, learner
        The private key that signs releases, and the pinned public key of bundles.
    source
        The noise; that of the operating system unless the collector began as a rehearsal.
    edge
        Where a test lets it fail.
    """

    @checked
    def __init__(
        self,
        directory: str | Path,
        *,
        key: str | Path | None = None,
        learner: str | Path | None = None,
        source: Noise | None = None,
        edge: Failpoint = no_failpoint,
        database: str | Database | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.store = database_at(self.directory, database).open("collector", edge=edge)
        self.key = usable_key(key)
        self.learner = None if learner is None else Path(learner)
        self.heads = HeadFile(self.directory)
        with self.store.reading() as connection:
            meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
            self.stopped = stopped_by(connection) is not None
            """Whether this copy is known to have stopped for good (C4)."""
        self.design: Design = study_parts.stored_design(meta)
        self.claim = PrivacyClaim.from_dict(parse_json(meta["claim"], "the claim of a collector"))
        self.noise: NoiseKind = meta["noise"]
        allowed = source is None or self.noise == "simulation" or isinstance(source, SecureNoise)
        require(allowed, "a collector of real people must draw secure noise", "simulation noise")
        self._source, self._seed = source, meta["seed"]
        self.pseudonyms = Pseudonyms.load(self.directory / PEOPLE)
        known = self.pseudonyms.mark == meta["people"]
        require(known, f"{PEOPLE} must be the key that this collector began with", "another key", "restore it")
        self.channels: tuple[Release, ...] = channels_of(self.design)
        self.study = bytes.fromhex(self.design.digest)
        self._begun: dict[int, int] = {}
        self.layers = require_layers(self.channels, int(meta.get("sealed", 0)))
        """How many layers messages are sealed in; 0: they are not."""
        self.batches = BatchFiles(self.directory, self.store)
        if self.layers:
            self.batches.sweep()

    @classmethod
    def new(
        cls,
        directory: str | Path,
        design: Design,
        *,
        noise: NoiseKind = "secure",
        key: str | Path | None = None,
        learner: str | Path | None = None,
        seed: int | None = None,
        source: Noise | None = None,
        sealed: int = 0,
        edge: Failpoint = no_failpoint,
        database: str | Database | None = None,
    ) -> Self:
        """Begin to collect for a design whose certificate holds (C6): the whole schedule is reserved at once.

        `noise="simulation"` is for rehearsals, and only there a `seed` makes sense. `sealed` is how many layers every
        message is sealed in (C7): 1 (or True) to the learner, 2 with a mixer between.
        """
        require(noise in NOISE_KINDS, f"noise must be one of {', '.join(NOISE_KINDS)}", noise)
        require(seed is None or noise == "simulation", "only simulation noise has a seed", noise)
        usable_key(key)
        parts = parts_of(design)
        layers = require_layers(parts.channels, sealed)
        place = Path(directory)
        where = database_at(place, database)
        require(not where.exists("collector"), f"{place} must be a new directory", "a collector in it")
        pseudonyms = Pseudonyms.new(place / PEOPLE)
        entropy = np.random.SeedSequence(seed).entropy if noise == "simulation" else None

        def first(connection: Connection) -> None:
            rows = {
                "design": canonical(design.to_dict()).decode(),
                "claim": canonical(parts.claim.to_dict()).decode(),
                "noise": noise,
                "people": pseudonyms.mark,
                "reports": str(int(design.unit.reports)),
                "seed": None if entropy is None else str(entropy),
                "sealed": str(layers),
            }
            connection.executemany("INSERT INTO meta VALUES (?, ?)", list(rows.items()))
            ledger = PeopleLedger.within(connection)
            ledger.begin(writer="collector", budget=parts.claim, study=design.digest, noise=noise)
            ledger.reserve(
                schedule=[channel.events() for channel in parts.channels],
                exposure=parts.events,
                questions=[channel.questions for channel in parts.channels],
            )
            HeadFile(place).begin(connection)

        where.create("collector", edge=edge, first=first)
        return cls(place, key=key, learner=learner, source=source, edge=edge, database=where)

    # open -> add -> close

    def open(self, bundle: bytes, *, ends: int | None = None) -> int:
        """Open the stage of a bundle, or take its next question in; the same bytes again change nothing.

        `ends`, in whole seconds since 1970, is kept as the end of a new stage's window.
        """
        asked = believed(bundle, self.design, self.claim, self.learner)
        stage, question, slot = asked["stage"], asked["question"], asked["slot"]
        channel = self.channels[slot]
        with self._step("open", charges=True) as connection:
            there = connection.execute(
                "SELECT bundle FROM question WHERE stage = ? AND number = ?", (stage, question)
            ).fetchone()
            if there is not None:
                require(there[0] == bundle, "a stage must have one bundle for all devices", "another one")
                return int(stage)
            asked.require_keys(self.layers)  # one set for everybody: which key opens a message tells nothing
            require_seen(connection, asked.head)
            require_latest(connection, asked.head)
            if question == 0:
                begin_stage(connection, asked)
                if ends is not None:
                    end = require_count("ends", ends, least=0)
                    connection.execute('INSERT INTO "window" VALUES (?, ?)', (stage, end))
            else:
                require_next_question(connection, asked)
            receipt = None
            if channel.CHARGED_AT == "open":
                receipt = self._draw(connection, slot, question)
                self.store.edge("open:drawn")
            paid = (None, None) if receipt is None else (receipt.number, bytes.fromhex(receipt.digest))
            connection.execute("INSERT INTO question VALUES (?, ?, ?, ?, ?)", (stage, question, bundle, *paid))
        if self.layers:
            self.batches.sweep()
        return int(stage)

    def add(self, report: bytes, person: str) -> str:
        """Take one report in; "counted", "again" or the reason of a refusal (see `REASONS`)."""
        (found,) = self.add_many([(report, person)])
        return found

    def add_many(
        self,
        reports: Iterable[tuple[bytes, str] | tuple[bytes, str, bytes]],
        progress: Callable[[int], None] | None = None,
    ) -> tuple[str, ...]:
        """Take reports in, many to a transaction; an answer is given when the report is on the disk.

        A report comes with its person and, where tokens are collected, with its token.
        """
        answers: list[str] = []
        source = iter(reports)
        while some := [
            (row[0], self.pseudonyms.of(row[1]), *row[2:]) for row in islice(source, REPORTS_PER_TRANSACTION)
        ]:
            with self._step("add") as connection:
                intake = self._intake(connection)
                intake.expect(some)
                found = [intake.take(*row) for row in some]
                intake.finish()
            answers.extend(found)
            if progress is not None:
                progress(len(answers))
        return tuple(answers)

    def close(self) -> int:
        """Fix which reports count, and say how many they are; later ones are late.

        Where the design has a ladder of sizes, so many count as its highest rung that was reached, chosen by exact
        lots; the others are dropped, and their people have reported all the same.
        """
        with self._step("close") as connection:
            stage = self._stage(connection, "open")[0]
            rows = connection.execute("SELECT seq FROM report WHERE stage = ? ORDER BY seq", (stage,)).fetchall()
            n = rung_of(self.design.ladder, len(rows))
            if n < len(rows):
                out = left_out(len(rows), n, self._lots(stage))
                connection.executemany("INSERT INTO dropped VALUES (?)", [rows[place] for place in out])
            connection.execute("UPDATE stage SET state = 'closed', n = ? WHERE number = ?", (n, stage))
        return n

    # closed -> released | void

    def release(self, head: Head) -> bytes:
        """Release the last question that was asked (C1, C2); `head` is the last place that the learner saw (C4)."""
        with self._step("release", charges=True, scrubs=True) as connection:
            row = connection.execute(
                """SELECT question.stage, question.number, bundle, question.charge, question.head, outbox.bytes
                   FROM question LEFT JOIN outbox ON outbox.stage = question.stage AND outbox.question = question.number
                   ORDER BY question.stage DESC, question.number DESC LIMIT 1"""
            ).fetchone()
            require(row is not None, "a stage must be open and closed before it is released", "no stage")
            stage, question, bundle, charge, digest, stored = row
            require_seen(connection, head)
            if stored is not None:
                return bytes(stored)
            require_latest(connection, head)
            number, slot, questions, n = self._stage(connection, "closed")
            require(number == stage, "the last stage must be the closed one", "another")
            if self.layers:
                self.batches.remove_unnamed(connection)
            paid = None if charge is None else Head(number=charge, digest=digest)
            return self._released(connection, Bundle.parse(bundle), slot, question, questions, n, paid)

    def void(self, reason: str = "given up") -> None:
        """Give the stage up: nothing is released, bodies are scrubbed, participation is given back unless paid (C3)."""
        require(isinstance(reason, str) and 0 < len(reason) <= 200, "a reason must have 1 to 200 characters", "another")
        with self._step("void", charges=True, scrubs=True) as connection:
            stage, slot, _, _ = self._stage(connection, "open", "closed")
            paid = connection.execute(
                """SELECT EXISTS (SELECT 1 FROM question WHERE stage = ? AND charge IS NOT NULL)
                   OR EXISTS (SELECT 1 FROM outbox WHERE stage = ?)""",
                (stage, stage),
            ).fetchone()[0]
            connection.execute("UPDATE stage SET state = 'void', reason = ? WHERE number = ?", (reason, stage))
            self._scrub(connection, stage)
            if not paid:
                connection.execute("DELETE FROM participation WHERE stage = ?", (stage,))
            ledger = PeopleLedger.within(connection)
            ledger.void(stage=slot, reason=reason, nonce=self._nonce(ledger))

    # what can be known

    def stored(self, stage: int | None = None, question: int = 0) -> bytes:
        """What was released for the last question, or for the one that is named, if it was."""
        self.heads.keep(self.store)
        one = "" if stage is None else "WHERE question.stage = ? AND question.number = ?"
        with self.store.reading() as connection:
            row = connection.execute(
                f"""SELECT outbox.bytes FROM question
                   LEFT JOIN outbox ON outbox.stage = question.stage AND outbox.question = question.number
                   {one} ORDER BY question.stage DESC, question.number DESC LIMIT 1""",  # noqa: S608 - a constant
                () if stage is None else (stage, question),
            ).fetchone()
        return b"" if row is None or row[0] is None else bytes(row[0])

    def window(self) -> int | None:
        """The end of the window of the last stage, in seconds since 1970, if it has one."""
        with self.store.reading() as connection:
            row = connection.execute(
                'SELECT ends FROM stage LEFT JOIN "window" ON stage = number ORDER BY number DESC LIMIT 1'
            ).fetchone()
        return None if row is None else row[0]

    def batch_file(self, stage: int) -> Path:
        """The permuted messages of a sealed stage that was released (C7): until the learner has taken the release."""
        self._require_sealed()
        self.heads.keep(self.store)
        return self.batches.path(stage)

    def tokens_file(self, stage: int) -> Path:
        """The tokens of the reports of a sealed stage that was released, sorted; empty where there are none."""
        self._require_sealed()
        self.heads.keep(self.store)
        return self.batches.tokens(stage)

    def seen(self, head: Head) -> None:
        """The learner has taken everything up to this head: batches up to it are deleted."""
        with self._step("seen") as connection:
            require_seen(connection, head)
        if self.layers:
            self.batches.sweep(head)

    def status(self) -> dict[str, Any]:
        """The stages and what was refused: numbers, nothing about anybody."""
        with self.store.reading() as connection:
            return status_of(connection, self.design, self.channels, self.noise)

    def certificate(self) -> Certificate:
        """What the accountant finds for this design, derived anew, with the noise of this collector."""
        return certificate_under(parts_of(self.design).certificate, self.noise)

    def realised(self) -> list[dict[str, Any]]:
        """What one report cost in every stage that was released, at the number of people who came."""
        done = [stage for stage in self.status()["stages"] if stage["state"] == "released"]
        return [
            {
                "stage": stage["stage"],
                "reports": stage["reports"],
                "epsilon": epsilon_of(self.channels[stage["slot"]].events_at(stage["reports"]), self.design.delta),
                "delta": self.design.delta,
            }
            for stage in done
        ]

    def verify(self, head: Head | None = None) -> None:
        """Raise unless ledger and outbox are as they were written, belong together and contain the heads."""
        with self.store.reading() as connection:
            self.heads.require_held(connection)
            PeopleLedger.within(connection).verify(None if head in (None, GENESIS_HEAD) else head.receipt)
            require_outbox(connection, self.study)

    # inside of transactions

    @contextmanager
    def _step(self, name: str, *, charges: bool = False, scrubs: bool = False) -> Iterator[Connection]:
        """One step of a copy that may go on; what it charged is in the file before it returns (C4)."""
        try:
            with self.store.step(name, scrubs=scrubs) as connection:
                self.heads.require_held(connection)
                self.heads.catch_up(connection)
                yield connection
            if charges:
                self.heads.keep(self.store)
        except UnknownHead as unknown:
            if not self.stopped:
                self.heads.stop(self.store, unknown.head)
                self.stopped = True
            raise

    def _draw(self, connection: Connection, slot: int, question: int) -> Receipt:
        """Charge one question."""
        ledger, events = PeopleLedger.within(connection), self.channels[slot].events()
        return ledger.draw(stage=slot, question=question, events=events, noise=self.noise, nonce=self._nonce(ledger))

    def _nonce(self, ledger: PeopleLedger) -> str:
        """What tells this record from that of another copy; a rehearsal draws the same one again."""
        if self.noise == "secure":
            return secrets.token_hex(16)
        return np.random.default_rng([int(self._seed), ledger.head().number]).bytes(16).hex()

    def _released(
        self,
        connection: Connection,
        asked: Bundle,
        slot: int,
        question: int,
        questions: int,
        n: int,
        paid: Head | None,
    ) -> bytes:
        """Charge, draw, store, commit, scrub (C2)."""
        channel, stage = self.channels[slot], int(asked["stage"])
        self._require_enough(channel, n)
        ledger = PeopleLedger.within(connection)
        if paid is None:
            require(channel.CHARGED_AT == "release", "a stage of this channel must be paid when it opens", "unpaid")
            receipt = self._draw(connection, slot, question)
        else:
            receipt = paid.receipt
        self.store.edge("release:drawn")
        after, payload, noise = self._payload(connection, channel, asked, n)
        made = ReleasePayload(
            study=self.study,
            stage=stage,
            question=question,
            people=n,
            noise=self.noise,
            charge=Head.of(receipt),
            payload=payload,
        )
        data = made.signed(self.key).encode()
        self.store.edge("release:made")
        digest = sha256(data).hex()
        connection.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", (stage, question, data, digest, receipt.number))
        self.store.edge("release:stored")
        ledger.commit(receipt, digest)
        coins = json.dumps(noise.generator.bit_generator.state) if isinstance(noise, SimulationNoise) else None
        connection.execute("DELETE FROM secret")
        connection.execute("INSERT INTO secret VALUES (?, ?, ?, ?)", (stage, question, encode_state(after), coins))
        self.store.edge("release:committed")
        if question == questions - 1:
            connection.execute("UPDATE stage SET state = 'released' WHERE number = ?", (stage,))
            self._scrub(connection, stage)
        return data

    def _payload(self, connection: Connection, channel: Release, asked: Bundle, n: int) -> tuple[Any, bytes, Noise]:
        """What the channel releases of all bodies, or the manifest of the file that they were permuted into (C7)."""
        stage = int(asked["stage"])
        secret, noise = self._secret(connection), self._noise(connection)
        if self.layers:
            require(asked.query == channel.query, f"this stage asks for {channel.query}", "something else")
            return secret, self.batches.write(connection, stage, channel, n, self.layers).encode(), noise
        rows = connection.execute(
            """SELECT bytes FROM body JOIN report USING (seq)
               WHERE stage = ? AND seq NOT IN (SELECT seq FROM dropped) ORDER BY seq""",
            (stage,),
        ).fetchall()
        require(len(rows) == n, "all bodies of a closed stage must be there", "fewer of them")
        after, payload = channel.release(secret, [row[0] for row in rows], asked.query, noise)
        return after, payload, noise

    def _require_sealed(self) -> None:
        require(self.layers > 0, "only sealed stages have batches", "a collector that reads its reports")

    def _require_enough(self, channel: Release, n: int) -> None:
        """Refuse a stage whose noise would be below the certified one (C3)."""
        hint = "end it with 'void': nothing is released, and persons who were not charged may report again"
        require(n >= channel.least, f"a stage must have at least {channel.least} reports", n, hint)

    def _scrub(self, connection: Connection, stage: int) -> None:
        """Erase bodies and tokens of a stage that has ended, and after the last one what was kept between stages."""
        connection.execute("DELETE FROM body WHERE seq IN (SELECT seq FROM report WHERE stage = ?)", (stage,))
        connection.execute("DELETE FROM token WHERE seq IN (SELECT seq FROM report WHERE stage = ?)", (stage,))
        done = connection.execute("SELECT count(*) FROM stage WHERE state = 'released'").fetchone()[0]
        if done == len(self.channels):
            connection.execute("DELETE FROM secret")

    def _intake(self, connection: Connection) -> Intake:
        limit = int(self.design.unit.reports)
        return Intake(
            connection,
            study=self.study,
            limit=limit,
            channels=self.channels,
            layers=self.layers,
            begun=self._begun,
        )

    def _stage(self, connection: Connection, *states: str) -> tuple[int, int, int, Any]:
        """(number, slot, questions, n) of the last stage, if it is in one of these states."""
        return last_stage(connection, *states)

    def _secret(self, connection: Connection) -> Any:
        row = connection.execute("SELECT bytes FROM secret").fetchone()
        first = self.channels[0]
        return first.begin_secret() if row is None else decode_state(row[0], packages_of(first))

    def _lots(self, stage: int) -> Noise:
        """What decides which reports of a stage are dropped."""
        if self._source is not None:
            return self._source
        return (
            SecureNoise()
            if self.noise == "secure"
            else SimulationNoise(np.random.default_rng([int(self._seed), stage]))
        )

    def _noise(self, connection: Connection) -> Noise:
        """Secure noise, or where the last release left the simulated one."""
        if self._source is not None:
            return self._source
        if self.noise == "secure":
            return SecureNoise()
        generator = np.random.Generator(np.random.PCG64(int(self._seed)))
        row = connection.execute("SELECT coins FROM secret").fetchone()
        if row is not None:
            generator.bit_generator.state = json.loads(row[0])
        return SimulationNoise(generator)


def summary(answers: Iterable[str]) -> dict[str, Any]:
    """How many reports were counted, were there already, and were refused for which reason.

    >>> summary(["counted", "again", "late"])
    {'counted': 1, 'again': 1, 'refused': {'late': 1}}
    """
    found = Counter(answers)
    refused = {reason: count for reason, count in sorted(found.items()) if reason not in (COUNTED, AGAIN)}
    return {"counted": found[COUNTED], "again": found[AGAIN], "refused": refused}
