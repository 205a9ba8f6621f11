"""Version 1 of the tables, as they were made before there were services; kept as it was."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

__all__ = ["COLLECTOR", "JOURNAL", "STUDY", "aged"]


JOURNAL = (
    (
        "CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, first "
        "INTEGER, stop INTEGER, refers INTEGER UNIQUE, body TEXT NOT NULL, digest TEXT NOT NULL)"
    ),
    "CREATE INDEX IF NOT EXISTS ranges ON records (first, stop)",
    (
        "CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'the journal is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'the journal is "
        "append-only'); END"
    ),
)

COLLECTOR = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID",
    (
        "CREATE TRIGGER meta_no_update BEFORE UPDATE ON meta WHEN 1 BEGIN SELECT RAISE(ABORT, 'meta is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER meta_no_delete BEFORE DELETE ON meta WHEN 1 BEGIN SELECT RAISE(ABORT, 'meta is "
        "append-only'); END"
    ),
    (
        "CREATE TABLE stage (number INTEGER PRIMARY KEY, slot INTEGER NOT NULL, questions INTEGER NOT NULL, state "
        "TEXT NOT NULL CHECK (state IN ('open', 'closed', 'released', 'void')), n INTEGER, reason TEXT) STRICT"
    ),
    (
        "CREATE TRIGGER stage_begins BEFORE INSERT ON stage WHEN NEW.state <> 'open' OR EXISTS (SELECT 1 FROM "
        "stage WHERE state IN ('open', 'closed')) OR NEW.number <= (SELECT max(number) FROM stage) OR EXISTS "
        "(SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released') BEGIN SELECT RAISE(ABORT, 'one stage "
        "is open at a time, numbers grow, and nothing is collected twice'); END"
    ),
    (
        "CREATE TRIGGER stage_moves BEFORE UPDATE ON stage WHEN NOT (OLD.number = NEW.number AND OLD.slot = "
        "NEW.slot AND OLD.questions = NEW.questions AND ((OLD.state = 'open' AND NEW.state IN ('closed', 'void')) "
        "OR (OLD.state = 'closed' AND NEW.state IN ('released', 'void') AND OLD.n = NEW.n))) BEGIN SELECT "
        "RAISE(ABORT, 'a stage goes from open to closed to released, or to void'); END"
    ),
    ("CREATE TRIGGER stage_stays BEFORE DELETE ON stage WHEN 1 BEGIN SELECT RAISE(ABORT, 'stages are kept'); END"),
    (
        "CREATE TABLE question (stage INTEGER NOT NULL REFERENCES stage, number INTEGER NOT NULL, bundle BLOB NOT "
        "NULL, charge INTEGER, head BLOB, PRIMARY KEY (stage, number)) STRICT"
    ),
    (
        "CREATE TRIGGER question_no_update BEFORE UPDATE ON question WHEN 1 BEGIN SELECT RAISE(ABORT, 'question is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER question_no_delete BEFORE DELETE ON question WHEN 1 BEGIN SELECT RAISE(ABORT, 'question is "
        "append-only'); END"
    ),
    (
        "CREATE TABLE report (seq INTEGER PRIMARY KEY AUTOINCREMENT, stage INTEGER NOT NULL REFERENCES stage, id "
        "BLOB NOT NULL UNIQUE) STRICT"
    ),
    (
        "CREATE TRIGGER report_in_time BEFORE INSERT ON report WHEN (SELECT state FROM stage WHERE number = "
        "NEW.stage) IS NOT 'open' BEGIN SELECT RAISE(ABORT, 'reports are taken while their stage is open'); END"
    ),
    (
        "CREATE TRIGGER report_no_update BEFORE UPDATE ON report WHEN 1 BEGIN SELECT RAISE(ABORT, 'report is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER report_no_delete BEFORE DELETE ON report WHEN 1 BEGIN SELECT RAISE(ABORT, 'report is "
        "append-only'); END"
    ),
    "CREATE TABLE body (seq INTEGER PRIMARY KEY REFERENCES report, bytes BLOB NOT NULL) STRICT",
    (
        "CREATE TRIGGER body_no_update BEFORE UPDATE ON body WHEN 1 BEGIN SELECT RAISE(ABORT, 'bodies are never "
        "changed'); END"
    ),
    (
        "CREATE TRIGGER body_scrubbed BEFORE DELETE ON body WHEN (SELECT state FROM stage JOIN report ON "
        "report.stage = stage.number WHERE report.seq = OLD.seq) NOT IN ('released', 'void') BEGIN SELECT "
        "RAISE(ABORT, 'bodies are kept until their stage has ended'); END"
    ),
    "CREATE TABLE dropped (seq INTEGER PRIMARY KEY REFERENCES report) STRICT",
    (
        "CREATE TRIGGER dropped_before BEFORE INSERT ON dropped WHEN (SELECT state FROM stage JOIN report ON "
        "report.stage = stage.number WHERE report.seq = NEW.seq) IS NOT 'open' BEGIN SELECT RAISE(ABORT, 'which "
        "reports count is fixed when their stage is closed'); END"
    ),
    (
        "CREATE TRIGGER dropped_no_update BEFORE UPDATE ON dropped WHEN 1 BEGIN SELECT RAISE(ABORT, 'dropped is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER dropped_no_delete BEFORE DELETE ON dropped WHEN 1 BEGIN SELECT RAISE(ABORT, 'dropped is "
        "append-only'); END"
    ),
    (
        "CREATE TABLE participation (person BLOB NOT NULL, stage INTEGER NOT NULL REFERENCES stage, report INTEGER "
        "NOT NULL UNIQUE REFERENCES report, PRIMARY KEY (person, stage)) STRICT"
    ),
    (
        "CREATE TRIGGER participation_no_update BEFORE UPDATE ON participation WHEN 1 BEGIN SELECT RAISE(ABORT, "
        "'participation is never changed'); END"
    ),
    (
        "CREATE TRIGGER participation_at_most BEFORE INSERT ON participation WHEN (SELECT count(*) FROM "
        "participation WHERE person = NEW.person) >= (SELECT CAST(value AS INTEGER) FROM meta WHERE name = "
        "'reports') BEGIN SELECT RAISE(ABORT, 'a person has at most so many reports'); END"
    ),
    (
        "CREATE TRIGGER participation_given_back BEFORE DELETE ON participation WHEN (SELECT state FROM stage "
        "WHERE number = OLD.stage) IS NOT 'void' OR EXISTS (SELECT 1 FROM question WHERE stage = OLD.stage AND "
        "charge IS NOT NULL) OR EXISTS (SELECT 1 FROM outbox WHERE stage = OLD.stage) BEGIN SELECT RAISE(ABORT, "
        "'participation is given back by a void stage that nobody paid for, and by nothing else'); END"
    ),
    (
        "CREATE TABLE secret (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL, coins TEXT, "
        "PRIMARY KEY (stage, question)) STRICT"
    ),
    (
        "CREATE TABLE outbox (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL, digest TEXT "
        "NOT NULL, charge INTEGER NOT NULL UNIQUE, head BLOB NOT NULL, PRIMARY KEY (stage, question), FOREIGN KEY "
        "(stage, question) REFERENCES question (stage, number)) STRICT"
    ),
    (
        "CREATE TRIGGER outbox_when_closed BEFORE INSERT ON outbox WHEN (SELECT state FROM stage WHERE number = "
        "NEW.stage) IS NOT 'closed' BEGIN SELECT RAISE(ABORT, 'a stage is released after it was closed'); END"
    ),
    (
        "CREATE TRIGGER outbox_no_update BEFORE UPDATE ON outbox WHEN 1 BEGIN SELECT RAISE(ABORT, 'outbox is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER outbox_no_delete BEFORE DELETE ON outbox WHEN 1 BEGIN SELECT RAISE(ABORT, 'outbox is "
        "append-only'); END"
    ),
    "CREATE TABLE rejected (reason TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT",
)

STUDY = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID",
    (
        "CREATE TRIGGER meta_no_update BEFORE UPDATE ON meta WHEN 1 BEGIN SELECT RAISE(ABORT, 'meta is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER meta_no_delete BEFORE DELETE ON meta WHEN 1 BEGIN SELECT RAISE(ABORT, 'meta is "
        "append-only'); END"
    ),
    (
        "CREATE TABLE stage (number INTEGER PRIMARY KEY, slot INTEGER, questions INTEGER NOT NULL, state TEXT NOT "
        "NULL CHECK (state IN ('open', 'released', 'void', 'served', 'killed')), reason TEXT) STRICT"
    ),
    (
        "CREATE TRIGGER stage_begins BEFORE INSERT ON stage WHEN NEW.state NOT IN ('open', 'served', 'killed') OR "
        "NEW.number IS NOT (SELECT count(*) FROM stage) OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', "
        "'served', 'killed') AND NEW.state <> 'killed') OR EXISTS (SELECT 1 FROM stage WHERE state = 'killed') OR "
        "EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released') BEGIN SELECT RAISE(ABORT, 'one "
        "stage is open at a time, numbers grow, and nothing is asked twice'); END"
    ),
    (
        "CREATE TRIGGER stage_moves BEFORE UPDATE ON stage WHEN NOT (OLD.number = NEW.number AND OLD.slot IS "
        "NEW.slot AND OLD.questions = NEW.questions AND OLD.state = 'open' AND NEW.state IN ('released', 'void')) "
        "BEGIN SELECT RAISE(ABORT, 'a stage goes from open to released or void'); END"
    ),
    ("CREATE TRIGGER stage_stays BEFORE DELETE ON stage WHEN 1 BEGIN SELECT RAISE(ABORT, 'stages are kept'); END"),
    (
        "CREATE TABLE bundle (stage INTEGER NOT NULL REFERENCES stage, question INTEGER NOT NULL, bytes BLOB NOT "
        "NULL, digest TEXT NOT NULL, PRIMARY KEY (stage, question)) STRICT"
    ),
    (
        "CREATE TRIGGER bundle_no_update BEFORE UPDATE ON bundle WHEN 1 BEGIN SELECT RAISE(ABORT, 'bundle is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER bundle_no_delete BEFORE DELETE ON bundle WHEN 1 BEGIN SELECT RAISE(ABORT, 'bundle is "
        "append-only'); END"
    ),
    (
        "CREATE TABLE release (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL, digest TEXT "
        "NOT NULL, charge INTEGER NOT NULL UNIQUE, head BLOB NOT NULL, people INTEGER NOT NULL, noise TEXT NOT "
        "NULL, PRIMARY KEY (stage, question), FOREIGN KEY (stage, question) REFERENCES bundle (stage, question)) "
        "STRICT"
    ),
    (
        "CREATE TRIGGER release_no_update BEFORE UPDATE ON release WHEN 1 BEGIN SELECT RAISE(ABORT, 'release is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER release_no_delete BEFORE DELETE ON release WHEN 1 BEGIN SELECT RAISE(ABORT, 'release is "
        "append-only'); END"
    ),
    (
        "CREATE TABLE quarantine (stage INTEGER NOT NULL, question INTEGER NOT NULL, finding TEXT NOT NULL, "
        "PRIMARY KEY (stage, question)) STRICT"
    ),
    (
        "CREATE TRIGGER quarantine_no_update BEFORE UPDATE ON quarantine WHEN 1 BEGIN SELECT RAISE(ABORT, "
        "'quarantine is append-only'); END"
    ),
    (
        "CREATE TRIGGER quarantine_no_delete BEFORE DELETE ON quarantine WHEN 1 BEGIN SELECT RAISE(ABORT, "
        "'quarantine is append-only'); END"
    ),
    (
        "CREATE TABLE belief (step INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('begin', 'plan', 'ask', "
        "'take', 'void')), stage INTEGER, question INTEGER, belief BLOB NOT NULL, plan BLOB NOT NULL, memory BLOB "
        "NOT NULL, coins TEXT NOT NULL, UNIQUE (kind, stage, question)) STRICT"
    ),
    (
        "CREATE TRIGGER belief_no_update BEFORE UPDATE ON belief WHEN 1 BEGIN SELECT RAISE(ABORT, 'belief is "
        "append-only'); END"
    ),
    (
        "CREATE TRIGGER belief_no_delete BEFORE DELETE ON belief WHEN 1 BEGIN SELECT RAISE(ABORT, 'belief is "
        "append-only'); END"
    ),
)

TABLES = {"collector": COLLECTOR + JOURNAL, "study": STUDY}


def aged(path: Path, kind: str) -> None:
    """The same rows in the tables of version 1, in the place of a database of today."""
    now = path.with_suffix(".now")
    path.rename(now)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("ATTACH ? AS now", (str(now),))
        for statement in TABLES[kind]:
            if statement.startswith("CREATE TABLE"):
                old.execute(statement)
        for (table,) in old.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
            columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})"))
            if table != "sqlite_sequence":
                old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM now.{table}")  # noqa: S608
        old.execute("DELETE FROM main.meta WHERE name = 'sealed'")
        old.execute("UPDATE main.meta SET value = CAST(value AS INTEGER) WHERE name = 'reports'")
        for statement in TABLES[kind]:
            if not statement.startswith("CREATE TABLE"):
                old.execute(statement)
        old.execute("DETACH now")
        old.execute("PRAGMA user_version = 1")
    for left in path.parent.glob(f"{now.name}*"):
        left.unlink()
