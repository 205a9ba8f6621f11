"""Taking reports in: who may report how often, what is counted once, and why the rest is refused.

I1  A person has at most one report per stage and at most `reports` in the whole study; a report counts at most once.
I2  Idempotent: the same bytes again are "again" and change nothing, also after the stage has ended.
I3  Nothing that could be turned back into a body outlives it: ids are random and kept, digests of reports are not made
    (a body has so few possible values that its digest would give it away).
I4  Refusals are counted by reason, and no reason contains anything that a person sent.
"""

from __future__ import annotations

import hmac
import os
import secrets
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.accounting.journal import Connection
from tacit.errors import InvalidInput, require
from tacit.release.contract import Release
from tacit.runs.storage import writing_to
from tacit.study.sealed_batches import check_sealed
from tacit.study.wire import Report

COUNTED, AGAIN = "counted", "again"
REASONS: Final = {
    "malformed": "no report of this version",
    "another study": "made for another study",
    "not open": "for a stage that is not open yet, or never was",
    "late": "for a stage that is over",
    "bad body": "not what a device of this stage sends",
    "id taken": "the id of another report",
    "twice": "the second report of one person in one stage",
    "used up": "one more report than a person of this study has",
    "full": "beyond the target of the stage",
}
"""Why a report is refused, in words."""
KEY_BYTES: Final = 32
LONGEST_NAME: Final = 1024
AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Persons under another name: HMAC-SHA256 with a key that never leaves the collector."""

    key: bytes

    @classmethod
    def new(cls, path: Path) -> Pseudonyms:
        """Make a key in a file that only its owner reads; the key of an interrupted start is used again."""
        with writing_to(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(secrets.token_bytes(KEY_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
        return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> Pseudonyms:
        """The key in a file."""
        try:
            key = path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{path} must hold the key of the pseudonyms: {error.strerror}") from error
        require(len(key) == KEY_BYTES, f"{path} must hold a key of {KEY_BYTES} bytes", len(key))
        return cls(key)

    def of(self, person: str) -> bytes:
        """The pseudonym of a person: the same spelling always gives the same one.

        >>> Pseudonyms(bytes(32)).of("Zoë") == Pseudonyms(bytes(32)).of("Zoe\u0308 ")
        True
        """
        require(isinstance(person, str), "a person must be named by a text", type(person).__name__)
        name = unicodedata.normalize("NFC", person).strip()
        require(0 < len(name) <= LONGEST_NAME, f"a person's name must have 1 to {LONGEST_NAME} characters", "another")
        # Names of files may hold bytes that are no UTF-8; they are names all the same.
        return hmac.digest(self.key, b"tacit person 1\n" + name.encode(errors="surrogatepass"), "sha256")

    @property
    def mark(self) -> str:
        """What tells this key from another one without telling it: under another key everybody would be new."""
        return hmac.digest(self.key, b"tacit people 1\n", "sha256").hex()


class Intake:
    """The intake of one transaction; made for one connection and used while its lock is held.

    What is known about many reports is asked for at once (`expect`), and what was counted is written at once
    (`finish`): a server is as far away for a thousand reports as for one.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        study: bytes,
        limit: int,
        channels: Any,
        layers: int = 0,
        begun: dict[int, int] | None = None,
    ) -> None:
        """`begun` remembers, from one transaction to the next, the number of the first report of a stage."""
        self.connection = connection
        self.study = study
        self.limit = limit
        self.layers = layers
        self.refused: Counter[str] = Counter()
        row = connection.execute("SELECT number, slot FROM stage WHERE state = 'open'").fetchone()
        self.stage: int | None = None if row is None else row[0]
        self.channel: Release | None = None if row is None else channels[row[1]]
        self.last = connection.execute("SELECT coalesce(max(number), -1) FROM stage").fetchone()[0]
        self.begun = {} if begun is None else begun
        self.counted, self.exact = self._at_most(), False
        self._reports: dict[bytes, tuple[int, bytes | None, bytes | None] | None] = {}
        self._stages: dict[bytes, list[int]] = {}
        self._new: list[tuple[Report, bytes, bytes | None]] = []

    def expect(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Look up ids and people of the reports (data, person, ...) that will be taken."""
        ids = []
        for data in (row[0] for row in rows):
            with suppress(InvalidInput):
                ids.append(Report.parse(data).id)
        for some in _chunks(ids):
            self._reports.update(dict.fromkeys(some))
            found = self.connection.execute(
                f"""SELECT report.id, report.stage, participation.person, body.bytes FROM report
                    LEFT JOIN participation ON participation.report = report.seq LEFT JOIN body ON body.seq = report.seq
                    WHERE report.id IN ({_marks(some)})""",  # noqa: S608 - question marks
                some,
            )
            self._reports.update({row[0]: row[1:] for row in found.fetchall()})
        for some in _chunks([row[1] for row in rows]):
            self._stages.update({person: [] for person in some})
            found = self.connection.execute(
                f"SELECT person, stage FROM participation WHERE person IN ({_marks(some)})",  # noqa: S608
                some,
            )
            for person, stage in found.fetchall():
                self._stages[person].append(stage)

    def take(self, data: bytes, person: bytes, token: bytes | None = None) -> str:
        """Count one report that was expected of this pseudonym, or say why not.

        A token is kept beside the body while the body is.
        """
        found = self._take(data, person, token)
        if found not in (COUNTED, AGAIN):
            self.refused[found] += 1
        return found

    def finish(self) -> None:
        """Write down what was counted, and the refusals (I4)."""
        if self._new:
            last = self.connection.execute("SELECT coalesce(max(seq), 0) FROM report").fetchone()[0]
            new = [(last + 1 + i, *row) for i, row in enumerate(self._new)]
            reports = [(seq, report.stage, report.id) for seq, report, _, _ in new]
            people = [(person, report.stage, seq) for seq, report, person, _ in new]
            tokens = [(seq, token) for seq, _, _, token in new if token is not None]
            many = self.connection.executemany
            many("INSERT INTO report (seq, stage, id) VALUES (?, ?, ?)", reports)
            many("INSERT INTO body VALUES (?, ?)", [(seq, report.body) for seq, report, _, _ in new])
            many("INSERT INTO token VALUES (?, ?)", tokens)
            many("INSERT INTO participation VALUES (?, ?, ?)", people)
            self._new = []
        self.connection.executemany(
            """INSERT INTO rejected VALUES (?, ?)
               ON CONFLICT (reason) DO UPDATE SET count = rejected.count + excluded.count""",
            sorted(self.refused.items()),
        )

    def _take(self, data: bytes, person: bytes, token: bytes | None) -> str:
        try:
            report = Report.parse(data)
        except InvalidInput:
            return "malformed"
        if report.study != self.study:
            return "another study"
        known = self._known(report, person)
        if known is not None:
            return known
        if report.stage != self.stage or self.channel is None:
            return "late" if report.stage <= self.last else "not open"
        try:
            self._check(report.body)
        except InvalidInput:
            return "bad body"
        reason = self._barred(person)
        if reason is not None:
            return reason
        if self._full(self.channel.target):
            return "full"
        self._insert(report, person, token)
        return COUNTED

    def _at_most(self) -> int:
        """No fewer than the open stage has reports, without counting them: numbers grow, and may have gaps.

        count <= last number - first number of the stage + 1
        """
        if self.stage is None:
            return 0
        if self.stage not in self.begun:
            row = self.connection.execute(
                "SELECT seq FROM report WHERE stage = ? ORDER BY seq LIMIT 1", (self.stage,)
            ).fetchone()
            if row is None:
                return 0
            self.begun[self.stage] = row[0]
        last = self.connection.execute("SELECT max(seq) FROM report").fetchone()[0]
        return int(last) - self.begun[self.stage] + 1

    def _full(self, target: int) -> bool:
        """Whether the open stage has all its reports; they are counted only where the bound does not say."""
        if self.counted >= target and not self.exact:
            row = self.connection.execute("SELECT count(*) FROM report WHERE stage = ?", (self.stage,)).fetchone()
            self.counted, self.exact = int(row[0]) + len(self._new), True
        return self.counted >= target

    def _check(self, body: bytes) -> None:
        """Raise unless a device could have sent this; of a sealed body only the length can be known."""
        assert self.channel is not None  # noqa: S101 - for the types
        if self.layers:
            check_sealed(self.channel, body, self.layers)
        else:
            self.channel.check(body)

    def _known(self, report: Report, person: bytes) -> str | None:
        """What to say to a report whose id is known (I2)."""
        row = self._reports[report.id]
        if row is None:
            return None
        stage, owner, body = row
        # A void stage has given participation back, and bodies are scrubbed: then the id decides.
        same = stage == report.stage and owner in (None, person) and body in (None, report.body)
        return AGAIN if same else "id taken"

    def _barred(self, person: bytes) -> str | None:
        """Whether this person has reported in this stage, or often enough (I1)."""
        stages = self._stages[person]
        if self.stage in stages:
            return "twice"
        return "used up" if len(stages) >= self.limit else None

    def _insert(self, report: Report, person: bytes, token: bytes | None) -> None:
        self._new.append((report, person, token))
        self._reports[report.id] = (report.stage, person, report.body)
        self._stages[person].append(report.stage)
        self.counted += 1


def _chunks(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The different ones, as many at a time as a statement may hold."""
    different = list(dict.fromkeys(values))
    for start in range(0, len(different), AT_ONCE):
        yield different[start : start + AT_ONCE]


def _marks(values: Sequence[bytes]) -> str:
    return ", ".join("?" * len(values))
