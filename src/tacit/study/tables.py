"""The tables of collector and study, with the triggers that keep their promises whoever writes.

collector   stage     open -> closed -> released | void,   open -> void          one stage at a time
study       stage     open -> released | void | served | killed
"""

from __future__ import annotations

from typing import Final


def _refuse(name: str, what: str, when: str, why: str) -> str:
    """A trigger that refuses `what` (as in BEFORE INSERT ON stage) under a condition."""
    return f"CREATE TRIGGER {name} BEFORE {what} WHEN {when} BEGIN SELECT RAISE(ABORT, '{why}'); END"


def _append_only(table: str) -> tuple[str, str]:
    """Triggers that refuse every update and every deletion."""
    return (
        _refuse(f"{table}_no_update", f"UPDATE ON {table}", "1", f"{table} is append-only"),
        _refuse(f"{table}_no_delete", f"DELETE ON {table}", "1", f"{table} is append-only"),
    )


META: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID",
    *_append_only("meta"),
)

LEASE: Final = (
    """CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token INTEGER NOT NULL,
       until INTEGER NOT NULL) STRICT""",
    _refuse(
        "lease_moves",
        "UPDATE ON lease",
        "NOT (NEW.name = OLD.name AND (NEW.token = OLD.token + 1 OR "
        "(NEW.token = OLD.token AND NEW.holder = OLD.holder)))",
        "a lease changes hands only with the next token",
    ),
    _refuse("lease_stays", "DELETE ON lease", "1", "leases are kept: their tokens only grow"),
)
"""Which process does a job; times are whole seconds since 1970."""


def _scrubbed(table: str, what: str) -> tuple[str, str]:
    """Triggers that keep the rows beside a report as they are until its stage has ended."""
    return (
        _refuse(f"{table}_no_update", f"UPDATE ON {table}", "1", f"{what} are never changed"),
        _refuse(
            f"{table}_scrubbed",
            f"DELETE ON {table}",
            "(SELECT state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = OLD.seq) "
            "NOT IN ('released', 'void')",
            f"{what} are kept until their stage has ended",
        ),
    )


COLLECTOR: Final = (
    *META,
    """CREATE TABLE stage (number INTEGER PRIMARY KEY, slot INTEGER NOT NULL, questions INTEGER NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'released', 'void')), n INTEGER, reason TEXT) STRICT""",
    _refuse(
        "stage_begins",
        "INSERT ON stage",
        "NEW.state <> 'open' OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'closed')) "
        "OR NEW.number <= (SELECT max(number) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is collected twice",
    ),
    _refuse(
        "stage_moves",
        "UPDATE ON stage",
        "NOT (OLD.number = NEW.number AND OLD.slot = NEW.slot AND OLD.questions = NEW.questions AND ("
        "(OLD.state = 'open' AND NEW.state IN ('closed', 'void')) OR "
        "(OLD.state = 'closed' AND NEW.state IN ('released', 'void') AND OLD.n IS NEW.n)))",
        "a stage goes from open to closed to released, or to void",
    ),
    _refuse("stage_stays", "DELETE ON stage", "1", "stages are kept"),
    """CREATE TABLE question (stage INTEGER NOT NULL REFERENCES stage, number INTEGER NOT NULL, bundle BLOB NOT NULL,
       charge INTEGER, head BLOB, PRIMARY KEY (stage, number)) STRICT""",
    *_append_only("question"),
    """CREATE TABLE report (seq INTEGER PRIMARY KEY AUTOINCREMENT, stage INTEGER NOT NULL REFERENCES stage,
       id BLOB NOT NULL UNIQUE) STRICT""",
    _refuse(
        "report_in_time",
        "INSERT ON report",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'open'",
        "reports are taken while their stage is open",
    ),
    *_append_only("report"),
    "CREATE TABLE body (seq INTEGER PRIMARY KEY REFERENCES report, bytes BLOB NOT NULL) STRICT",
    *_scrubbed("body", "bodies"),
    "CREATE TABLE dropped (seq INTEGER PRIMARY KEY REFERENCES report) STRICT",
    _refuse(
        "dropped_before",
        "INSERT ON dropped",
        "(SELECT state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = NEW.seq) IS NOT 'open'",
        "which reports count is fixed when their stage is closed",
    ),
    *_append_only("dropped"),
    """CREATE TABLE participation (person BLOB NOT NULL, stage INTEGER NOT NULL REFERENCES stage,
       report INTEGER NOT NULL UNIQUE REFERENCES report, PRIMARY KEY (person, stage)) STRICT""",
    _refuse("participation_no_update", "UPDATE ON participation", "1", "participation is never changed"),
    _refuse(
        "participation_at_most",
        "INSERT ON participation",
        "(SELECT count(*) FROM participation WHERE person = NEW.person) >= "
        "(SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'reports')",
        "a person has at most so many reports",
    ),
    _refuse(
        "participation_given_back",
        "DELETE ON participation",
        "(SELECT state FROM stage WHERE number = OLD.stage) IS NOT 'void' "
        "OR EXISTS (SELECT 1 FROM question WHERE stage = OLD.stage AND charge IS NOT NULL) "
        "OR EXISTS (SELECT 1 FROM outbox WHERE stage = OLD.stage)",
        "participation is given back by a void stage that nobody paid for, and by nothing else",
    ),
    """CREATE TABLE secret (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL, coins TEXT,
       PRIMARY KEY (stage, question)) STRICT""",
    """CREATE TABLE outbox (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL,
       digest TEXT NOT NULL, charge INTEGER NOT NULL UNIQUE, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES question (stage, number)) STRICT""",
    _refuse(
        "outbox_when_closed",
        "INSERT ON outbox",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'closed'",
        "a stage is released after it was closed",
    ),
    *_append_only("outbox"),
    "CREATE TABLE rejected (reason TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT",
    "CREATE TABLE token (seq INTEGER PRIMARY KEY REFERENCES report, bytes BLOB NOT NULL) STRICT",
    *_scrubbed("token", "tokens"),
    "CREATE TABLE window (stage INTEGER PRIMARY KEY REFERENCES stage, ends INTEGER NOT NULL) STRICT",
    _refuse(
        "window_opens",
        "INSERT ON window",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'open'",
        "the end of a window is set while its stage is open",
    ),
    *_append_only("window"),
    *LEASE,
)
"""Bodies and tokens have tables of their own, in the order of arrival: they are scrubbed, and the rest stays."""

STUDY: Final = (
    *META,
    """CREATE TABLE stage (number INTEGER PRIMARY KEY, slot INTEGER, questions INTEGER NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'released', 'void', 'served', 'killed')), reason TEXT) STRICT""",
    _refuse(
        "stage_begins",
        "INSERT ON stage",
        "NEW.state NOT IN ('open', 'served', 'killed') OR NEW.number IS NOT (SELECT count(*) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'served', 'killed') AND NEW.state <> 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE state = 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is asked twice",
    ),
    _refuse(
        "stage_moves",
        "UPDATE ON stage",
        "NOT (OLD.number = NEW.number AND OLD.slot IS NEW.slot AND OLD.questions = NEW.questions "
        "AND OLD.state = 'open' AND NEW.state IN ('released', 'void'))",
        "a stage goes from open to released or void",
    ),
    _refuse("stage_stays", "DELETE ON stage", "1", "stages are kept"),
    """CREATE TABLE bundle (stage INTEGER NOT NULL REFERENCES stage, question INTEGER NOT NULL, bytes BLOB NOT NULL,
       digest TEXT NOT NULL, PRIMARY KEY (stage, question)) STRICT""",
    *_append_only("bundle"),
    """CREATE TABLE release (stage INTEGER NOT NULL, question INTEGER NOT NULL, bytes BLOB NOT NULL,
       digest TEXT NOT NULL, charge INTEGER NOT NULL UNIQUE, people INTEGER NOT NULL,
       noise TEXT NOT NULL, opened BLOB, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES bundle (stage, question)) STRICT""",
    *_append_only("release"),
    """CREATE TABLE quarantine (stage INTEGER NOT NULL, question INTEGER NOT NULL, finding TEXT NOT NULL,
       PRIMARY KEY (stage, question)) STRICT""",
    *_append_only("quarantine"),
    """CREATE TABLE belief (step INTEGER PRIMARY KEY,
       kind TEXT NOT NULL CHECK (kind IN ('begin', 'plan', 'ask', 'take', 'void')),
       stage INTEGER, question INTEGER, belief BLOB NOT NULL, plan BLOB NOT NULL, memory BLOB NOT NULL,
       coins TEXT NOT NULL, UNIQUE (kind, stage, question)) STRICT""",
    *_append_only("belief"),
    *LEASE,
)
"""A release that came as a sealed batch is kept with what it was opened to (`opened`)."""
