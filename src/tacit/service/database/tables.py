"""The tables of collector and study in PostgreSQL: those of `tacit.study.tables`, with triggers in PL/pgSQL.

Names, columns and refusals are the same. What differs: numbers are 8 bytes wide, texts of `meta` are texts, the journal
is made with the rest and counted by a trigger of its own (`written`), and a trigger refuses TRUNCATE, which no trigger
of rows would see. Functions keep the schema that they were made in, whoever calls them.
"""

from __future__ import annotations

from typing import Final

STATE_OF: Final = (
    "(SELECT stage.state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = {row}.seq)"
)


def _refuse(table: str, name: str, event: str, when: str, why: str) -> tuple[str, str]:
    """A trigger that refuses INSERT, UPDATE or DELETE of a row under a condition."""
    row = "OLD" if event == "DELETE" else "NEW"
    return (
        f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
            BEGIN
                IF {when} THEN
                    RAISE EXCEPTION '{why}' USING ERRCODE = 'integrity_constraint_violation';
                END IF;
                RETURN {row};
            END $$""",
        f'CREATE TRIGGER {name} BEFORE {event} ON "{table}" FOR EACH ROW EXECUTE FUNCTION {name}()',
    )


def _kept(table: str) -> tuple[str, str]:
    """A trigger that refuses to empty a table at once."""
    name = f"{table}_no_truncate"
    return (
        f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                RAISE EXCEPTION '{table} is never emptied' USING ERRCODE = 'integrity_constraint_violation';
            END $$""",
        f'CREATE TRIGGER {name} BEFORE TRUNCATE ON "{table}" FOR EACH STATEMENT EXECUTE FUNCTION {name}()',
    )


def _append_only(table: str) -> tuple[str, ...]:
    """Triggers that refuse every update and every deletion."""
    why = f"{table} is append-only"
    return (
        *_refuse(table, f"{table}_no_update", "UPDATE", "true", why),
        *_refuse(table, f"{table}_no_delete", "DELETE", "true", why),
        *_kept(table),
    )


def _scrubbed(table: str, what: str) -> tuple[str, ...]:
    """Triggers that keep the rows beside a report as they are until its stage has ended."""
    early = f"{STATE_OF.format(row='OLD')} NOT IN ('released', 'void')"
    return (
        *_refuse(table, f"{table}_no_update", "UPDATE", "true", f"{what} are never changed"),
        *_refuse(table, f"{table}_scrubbed", "DELETE", early, f"{what} are kept until their stage has ended"),
        *_kept(table),
    )


META: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT)",
    *_append_only("meta"),
)

LEASE: Final = (
    "CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token BIGINT NOT NULL, until BIGINT NOT NULL)",
    *_refuse(
        "lease",
        "lease_moves",
        "UPDATE",
        "NOT (NEW.name = OLD.name AND (NEW.token = OLD.token + 1 "
        "OR (NEW.token = OLD.token AND NEW.holder = OLD.holder)))",
        "a lease changes hands only with the next token",
    ),
    *_refuse("lease", "lease_stays", "DELETE", "true", "leases are kept: their tokens only grow"),
    *_kept("lease"),
)

JOURNAL: Final = (
    """CREATE TABLE records (number BIGINT PRIMARY KEY, kind TEXT NOT NULL, first BIGINT, stop BIGINT,
       refers BIGINT UNIQUE, body TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE INDEX ranges ON records (first, stop)",
    *_append_only("records"),
    "CREATE TABLE written (name TEXT PRIMARY KEY, seq BIGINT NOT NULL)",
    *_refuse("written", "written_grows", "UPDATE", "NOT (NEW.seq > OLD.seq AND NEW.name = OLD.name)", "counts grow"),
    *_refuse("written", "written_stays", "DELETE", "true", "counts are kept"),
    *_kept("written"),
    """CREATE FUNCTION records_counted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
       BEGIN
           INSERT INTO written VALUES ('records', NEW.number)
           ON CONFLICT (name) DO UPDATE SET seq = greatest(written.seq, NEW.number);
           RETURN NULL;
       END $$""",
    "CREATE TRIGGER records_counted AFTER INSERT ON records FOR EACH ROW EXECUTE FUNCTION records_counted()",
)

COLLECTOR_TABLES: Final = (
    """CREATE TABLE stage (number BIGINT PRIMARY KEY, slot BIGINT NOT NULL, questions BIGINT NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'released', 'void')), n BIGINT, reason TEXT)""",
    *_refuse(
        "stage",
        "stage_begins",
        "INSERT",
        "NEW.state <> 'open' OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'closed')) "
        "OR NEW.number <= (SELECT max(number) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is collected twice",
    ),
    *_refuse(
        "stage",
        "stage_moves",
        "UPDATE",
        "NOT (OLD.number = NEW.number AND OLD.slot = NEW.slot AND OLD.questions = NEW.questions AND ("
        "(OLD.state = 'open' AND NEW.state IN ('closed', 'void')) OR "
        "(OLD.state = 'closed' AND NEW.state IN ('released', 'void') AND OLD.n IS NOT DISTINCT FROM NEW.n)))",
        "a stage goes from open to closed to released, or to void",
    ),
    *_refuse("stage", "stage_stays", "DELETE", "true", "stages are kept"),
    *_kept("stage"),
    """CREATE TABLE question (stage BIGINT NOT NULL REFERENCES stage, number BIGINT NOT NULL, bundle BYTEA NOT NULL,
       charge BIGINT, head BYTEA, PRIMARY KEY (stage, number))""",
    *_append_only("question"),
    """CREATE TABLE report (seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
       stage BIGINT NOT NULL REFERENCES stage, id BYTEA NOT NULL UNIQUE)""",
    *_refuse(
        "report",
        "report_in_time",
        "INSERT",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'open'",
        "reports are taken while their stage is open",
    ),
    *_append_only("report"),
    "CREATE INDEX report_of_stage ON report (stage)",
    "CREATE TABLE body (seq BIGINT PRIMARY KEY REFERENCES report, bytes BYTEA NOT NULL)",
    *_scrubbed("body", "bodies"),
    "CREATE TABLE dropped (seq BIGINT PRIMARY KEY REFERENCES report)",
    *_refuse(
        "dropped",
        "dropped_before",
        "INSERT",
        f"{STATE_OF.format(row='NEW')} IS DISTINCT FROM 'open'",
        "which reports count is fixed when their stage is closed",
    ),
    *_append_only("dropped"),
    """CREATE TABLE participation (person BYTEA NOT NULL, stage BIGINT NOT NULL REFERENCES stage,
       report BIGINT NOT NULL UNIQUE REFERENCES report, PRIMARY KEY (person, stage))""",
    *_refuse("participation", "participation_no_update", "UPDATE", "true", "participation is never changed"),
    *_refuse(
        "participation",
        "participation_at_most",
        "INSERT",
        "(SELECT count(*) FROM participation WHERE person = NEW.person) >= "
        "(SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'reports')",
        "a person has at most so many reports",
    ),
    """CREATE TABLE secret (stage BIGINT NOT NULL, question BIGINT NOT NULL, bytes BYTEA NOT NULL, coins TEXT,
       PRIMARY KEY (stage, question))""",
    """CREATE TABLE outbox (stage BIGINT NOT NULL, question BIGINT NOT NULL, bytes BYTEA NOT NULL,
       digest TEXT NOT NULL, charge BIGINT NOT NULL UNIQUE, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES question (stage, number))""",
    *_refuse(
        "outbox",
        "outbox_when_closed",
        "INSERT",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'closed'",
        "a stage is released after it was closed",
    ),
    *_append_only("outbox"),
    *_refuse(
        "participation",
        "participation_given_back",
        "DELETE",
        "(SELECT state FROM stage WHERE number = OLD.stage) IS DISTINCT FROM 'void' "
        "OR EXISTS (SELECT 1 FROM question WHERE stage = OLD.stage AND charge IS NOT NULL) "
        "OR EXISTS (SELECT 1 FROM outbox WHERE stage = OLD.stage)",
        "participation is given back by a void stage that nobody paid for, and by nothing else",
    ),
    *_kept("participation"),
    "CREATE TABLE rejected (reason TEXT PRIMARY KEY, count BIGINT NOT NULL)",
    "CREATE TABLE token (seq BIGINT PRIMARY KEY REFERENCES report, bytes BYTEA NOT NULL)",
    *_scrubbed("token", "tokens"),
    'CREATE TABLE "window" (stage BIGINT PRIMARY KEY REFERENCES stage, ends BIGINT NOT NULL)',
    *_refuse(
        "window",
        "window_opens",
        "INSERT",
        "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'open'",
        "the end of a window is set while its stage is open",
    ),
    *_append_only("window"),
)

COLLECTOR: Final = (*META, *JOURNAL, *COLLECTOR_TABLES, *LEASE)

STUDY: Final = (
    *META,
    """CREATE TABLE stage (number BIGINT PRIMARY KEY, slot BIGINT, questions BIGINT NOT NULL,
       state TEXT NOT NULL CHECK (state IN ('open', 'released', 'void', 'served', 'killed')), reason TEXT)""",
    *_refuse(
        "stage",
        "stage_begins",
        "INSERT",
        "NEW.state NOT IN ('open', 'served', 'killed') "
        "OR NEW.number IS DISTINCT FROM (SELECT count(*) FROM stage) "
        "OR EXISTS (SELECT 1 FROM stage WHERE state IN ('open', 'served', 'killed') AND NEW.state <> 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE state = 'killed') "
        "OR EXISTS (SELECT 1 FROM stage WHERE slot = NEW.slot AND state = 'released')",
        "one stage is open at a time, numbers grow, and nothing is asked twice",
    ),
    *_refuse(
        "stage",
        "stage_moves",
        "UPDATE",
        "NOT (OLD.number = NEW.number AND OLD.slot IS NOT DISTINCT FROM NEW.slot AND OLD.questions = NEW.questions "
        "AND OLD.state = 'open' AND NEW.state IN ('released', 'void'))",
        "a stage goes from open to released or void",
    ),
    *_refuse("stage", "stage_stays", "DELETE", "true", "stages are kept"),
    *_kept("stage"),
    """CREATE TABLE bundle (stage BIGINT NOT NULL REFERENCES stage, question BIGINT NOT NULL, bytes BYTEA NOT NULL,
       digest TEXT NOT NULL, PRIMARY KEY (stage, question))""",
    *_append_only("bundle"),
    """CREATE TABLE release (stage BIGINT NOT NULL, question BIGINT NOT NULL, bytes BYTEA NOT NULL,
       digest TEXT NOT NULL, charge BIGINT NOT NULL UNIQUE, people BIGINT NOT NULL,
       noise TEXT NOT NULL, opened BYTEA, PRIMARY KEY (stage, question),
       FOREIGN KEY (stage, question) REFERENCES bundle (stage, question))""",
    *_append_only("release"),
    """CREATE TABLE quarantine (stage BIGINT NOT NULL, question BIGINT NOT NULL, finding TEXT NOT NULL,
       PRIMARY KEY (stage, question))""",
    *_append_only("quarantine"),
    """CREATE TABLE belief (step BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
       kind TEXT NOT NULL CHECK (kind IN ('begin', 'plan', 'ask', 'take', 'void')),
       stage BIGINT, question BIGINT, belief BYTEA NOT NULL, plan BYTEA NOT NULL, memory BYTEA NOT NULL,
       coins TEXT NOT NULL, UNIQUE (kind, stage, question))""",
    *_append_only("belief"),
    *LEASE,
)
