"""Parties of small studies on both databases."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from study_fakes import FakeDesign, bundle_of
from study_world import fast_directory, report_of

from tacit.service.database import close_all
from tacit.study.collector import Collector
from tacit.study.databases import SqliteDatabase
from tacit.study.store import Store

DESIGN = FakeDesign(kind="test-stamped")
COLLECTOR_TABLES = [
    *("meta", "stage", "question", "report", "body", "dropped", "participation", "secret", "outbox", "rejected"),
    *("token", "window", "lease", "records"),
]


@pytest.fixture(autouse=True)
def closed():
    """No test keeps connections to the server."""
    yield
    close_all()


@dataclass(frozen=True)
class World:
    """Directories and databases of parties."""

    folder: Path
    dialect: str
    new: Callable[[str], Any]

    def collector(self, design: FakeDesign = DESIGN, **options: Any) -> Collector:
        """A new one."""
        directory = Path(tempfile.mkdtemp(dir=self.folder)) / "collector"
        return Collector.new(directory, design, database=self.new("collector"), **options)

    def opened(self, design: FakeDesign = DESIGN, **options: Any) -> Collector:
        made = self.collector(design, **options)
        made.open(bundle_of(design))
        return made


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request):
    with fast_directory() as folder:
        place = Path(folder)
        if request.param == "sqlite":
            yield World(place, "sqlite", lambda name: SqliteDatabase(Path(tempfile.mkdtemp(dir=place)) / name))
        else:
            yield World(place, "postgresql", request.getfixturevalue("postgres").new)


def again(collector: Collector, **options: Any) -> Collector:
    """The same collector in another object."""
    return Collector(collector.directory, database=database_of(collector.store), **options)


def database_of(store: Any) -> Any:
    if hasattr(store, "path"):
        return SqliteDatabase(store.path.parent)
    from tacit.service.database import PostgresDatabase

    return PostgresDatabase(type(store.place)(store.place.url, store.schema))


def add(collector: Collector, people: range, stage: int = 0) -> list[str]:
    return [collector.add(report_of(collector.study, stage, i), f"person {i}") for i in people]


def everything(store: Store, tables: list[str] = COLLECTOR_TABLES) -> dict[str, list[Any]]:
    """All rows of a database."""
    with store.reading() as connection:
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)  # noqa: S608
            for name in tables
        }
