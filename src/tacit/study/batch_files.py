"""The files of sealed batches beside a collector's database: made inside of a release, served when it is committed.

    <directory>/batches/<sha256>.batch      the messages of a stage in uniformly random order, nothing else
    <directory>/batches/<sha256>.tokens     the tokens of its reports, sorted, where there are tokens

F1  A file is complete and on the disk, under the name of its digest, before the transaction of its release commits.
F2  A file is served if the outbox holds a release whose manifest names it; one that no release names is deleted, by the
    next release and at the next start. Both happen under the writers' lock, so nothing is deleted while it is made.
F3  A file is kept until the learner shows that it has taken the release: by the head of the next stage's bundle, or by
    `Collector.seen`. Until then it is served again as often as it is asked for, always the same bytes.
F4  Messages of a batch have no id, no person, no time and no order of arrival.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tacit.accounting.database import Connection
from tacit.errors import InvalidInput, require
from tacit.release.contract import Release
from tacit.runs.storage import writing_to
from tacit.study.contract import Head
from tacit.study.external_shuffle import MEMORY, TEMPORARY, write_permuted
from tacit.study.sealed_batches import Manifest, check_sealed, message_size
from tacit.study.store import Store
from tacit.study.wire import ReleasePayload
from tacit.system import sync_directory

FOLDER: Final = "batches"
MESSAGES, TOKENS = ".batch", ".tokens"
BODIES_PER_FETCH: Final = 500
"""How many bodies are fetched from the database at once."""
COUNTED: Final = "stage = ? AND report.seq NOT IN (SELECT seq FROM dropped)"


class BatchFiles:
    """The batches of one collector; used inside of its transactions."""

    def __init__(self, directory: Path, store: Store, *, memory: int = MEMORY) -> None:
        self.folder = directory / FOLDER
        self.store = store
        self.memory = memory

    def write(self, connection: Connection, stage: int, channel: Release, people: int, layers: int) -> Manifest:
        """Make the files of a closed stage and say what they are (F1)."""
        with writing_to(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
        size = message_size(channel, layers)
        tables = f"FROM body JOIN report ON report.seq = body.seq WHERE {COUNTED}"
        number, total = connection.execute(f"SELECT count(*), sum(length(bytes)) {tables}", (stage,)).fetchone()
        require(number == people, "all bodies of a closed stage must be there", "fewer of them")
        made = self._temporary()
        bodies = _bodies(connection, stage, channel, layers)
        written = write_permuted(bodies, made, size=size, total=int(total), memory=self.memory)
        self.store.edge("release:batch written")
        self._name(made, written.digest, MESSAGES)
        tokens = self._tokens(connection, stage, people)
        self.store.edge("release:batch named")
        manifest = Manifest(digest=written.digest, count=written.count, size=size, tokens=tokens)
        manifest.require_fits(channel, people, layers)
        return manifest

    def path(self, stage: int) -> Path:
        """The file of messages that the release of a stage names (F2)."""
        manifest = self._manifest(stage)
        path = self.folder / f"{manifest.digest.hex()}{MESSAGES}"
        there = path.is_file() and path.stat().st_size == manifest.count * manifest.size
        require(there, "the batch of a stage is kept until the learner has taken its release", "none any more")
        return path

    def tokens(self, stage: int) -> Path:
        """The file of tokens that the release of a stage names (F2)."""
        manifest = self._manifest(stage)
        path = self.folder / f"{manifest.tokens.hex()}{TOKENS}"
        require(path.is_file(), "the tokens of a stage are kept until the learner has taken its release", "none")
        return path

    def sweep(self, seen: Head | None = None) -> None:
        """Delete what nobody asks for any more, if there is something."""
        with self.store.reading() as connection:
            found = self._unnamed(connection, seen)
        if found:
            with self.store.step("sweep") as connection:
                self.remove_unnamed(connection, seen)

    def remove_unnamed(self, connection: Connection, seen: Head | None = None) -> None:
        """The same inside of a step, which has the writers' lock: nothing is being made meanwhile."""
        for path in self._unnamed(connection, seen):
            path.unlink(missing_ok=True)

    def _manifest(self, stage: int) -> Manifest:
        with self.store.reading() as connection:
            row = connection.execute("SELECT bytes FROM outbox WHERE stage = ?", (stage,)).fetchone()
        require(row is not None, "a stage must be released to have a batch", "none")
        return Manifest.parse(ReleasePayload.parse(bytes(row[0])).payload)

    def _unnamed(self, connection: Connection, seen: Head | None = None) -> list[Path]:
        """The files that no release names, and those of releases that the learner has taken (F2, F3)."""
        if not self.folder.is_dir():
            return []
        row = connection.execute("SELECT bundle FROM question ORDER BY stage DESC, number DESC LIMIT 1").fetchone()
        taken = 0 if row is None else Head.from_text(json.loads(row[0])["head"]).number
        taken = taken if seen is None else max(taken, seen.number)
        kept: set[str] = set()
        for (data,) in connection.execute("SELECT bytes FROM outbox WHERE charge > ?", (taken,)).fetchall():
            manifest = Manifest.parse(ReleasePayload.parse(bytes(data)).payload)
            kept |= {f"{manifest.digest.hex()}{MESSAGES}", f"{manifest.tokens.hex()}{TOKENS}"}
        return [path for path in sorted(self.folder.iterdir()) if path.name not in kept]

    def _tokens(self, connection: Connection, stage: int, people: int) -> bytes:
        """Write the tokens of the reports that count, sorted, and say their digest."""
        tables = f"FROM token JOIN report ON report.seq = token.seq WHERE {COUNTED}"
        number = connection.execute(f"SELECT count(*) {tables}", (stage,)).fetchone()[0]
        require(number in (0, people), "either every report of a stage has a token or none has", "some have")
        made, digest, sizes = self._temporary(), hashlib.sha256(), set()
        with (
            writing_to(self.folder),
            os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        ):
            for (token,) in connection.execute(f"SELECT bytes {tables} ORDER BY bytes", (stage,)):
                file.write(token)
                digest.update(token)
                sizes.add(len(token))
            file.flush()
            os.fsync(file.fileno())
        if len(sizes) > 1:
            raise InvalidInput("tokens of a stage must have one length, got several")
        self._name(made, digest.digest(), TOKENS)
        return digest.digest()

    def _temporary(self) -> Path:
        return self.folder / f"{TEMPORARY}{secrets.token_hex(8)}"

    def _name(self, made: Path, digest: bytes, suffix: str) -> None:
        with writing_to(self.folder):
            made.replace(self.folder / f"{digest.hex()}{suffix}")
            sync_directory(self.folder)


def _bodies(connection: Connection, stage: int, channel: Release, layers: int) -> Iterator[bytes]:
    """The bodies that count, some at a time; their lengths are checked again."""
    last = -1
    query = f"""SELECT report.seq, bytes FROM body JOIN report ON report.seq = body.seq
                WHERE {COUNTED} AND report.seq > ? ORDER BY report.seq LIMIT {BODIES_PER_FETCH}"""  # noqa: S608
    while rows := connection.execute(query, (stage, last)).fetchall():
        for _, body in rows:
            check_sealed(channel, body, layers)
            yield bytes(body)
        last = rows[-1][0]
