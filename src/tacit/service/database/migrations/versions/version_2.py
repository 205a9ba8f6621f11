"""Version 2: tokens beside bodies, ends of windows, leases, and what a sealed release was opened to.

The trigger `stage_moves` of a collector now also refuses to forget how many reports a closed stage has.
"""

from __future__ import annotations

from alembic import op

from tacit.errors import require

__all__ = ["upgrade"]

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None

CODE = "USING ERRCODE = 'integrity_constraint_violation'"
ENDED = (
    "(SELECT stage.state FROM stage JOIN report ON report.stage = stage.number WHERE report.seq = OLD.seq) "
    "NOT IN ('released', 'void')"
)
OLD_ENDED = ENDED.replace("SELECT stage.state", "SELECT state")


def upgrade() -> None:
    """Add what is new; rows stay as they are."""
    bind = op.get_bind()
    kind = bind.exec_driver_sql("SELECT value FROM meta WHERE name = 'kind'").scalar()
    require(kind in ("collector", "study"), "a database must be of a collector or a study", "another one")
    both = {"sqlite": (_sqlite_collector, _sqlite_study), "postgresql": (_postgres_collector, _postgres_study)}
    collector, study = both[bind.dialect.name]
    collector() if kind == "collector" else study()


def _sqlite_refuse(name: str, what: str, when: str, why: str) -> None:
    op.execute(f"CREATE TRIGGER {name} BEFORE {what} WHEN {when} BEGIN SELECT RAISE(ABORT, '{why}'); END")


def _sqlite_lease() -> None:
    op.execute(
        "CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token INTEGER NOT NULL, "
        "until INTEGER NOT NULL) STRICT"
    )
    moves = (
        "NOT (NEW.name = OLD.name AND (NEW.token = OLD.token + 1 OR "
        "(NEW.token = OLD.token AND NEW.holder = OLD.holder)))"
    )
    _sqlite_refuse("lease_moves", "UPDATE ON lease", moves, "a lease changes hands only with the next token")
    _sqlite_refuse("lease_stays", "DELETE ON lease", "1", "leases are kept: their tokens only grow")


def _sqlite_collector() -> None:
    op.execute("CREATE TABLE token (seq INTEGER PRIMARY KEY REFERENCES report, bytes BLOB NOT NULL) STRICT")
    _sqlite_refuse("token_no_update", "UPDATE ON token", "1", "tokens are never changed")
    _sqlite_refuse("token_scrubbed", "DELETE ON token", OLD_ENDED, "tokens are kept until their stage has ended")
    op.execute("CREATE TABLE window (stage INTEGER PRIMARY KEY REFERENCES stage, ends INTEGER NOT NULL) STRICT")
    late = "(SELECT state FROM stage WHERE number = NEW.stage) IS NOT 'open'"
    _sqlite_refuse("window_opens", "INSERT ON window", late, "the end of a window is set while its stage is open")
    _sqlite_refuse("window_no_update", "UPDATE ON window", "1", "window is append-only")
    _sqlite_refuse("window_no_delete", "DELETE ON window", "1", "window is append-only")
    op.execute("DROP TRIGGER stage_moves")
    moves = (
        "NOT (OLD.number = NEW.number AND OLD.slot = NEW.slot AND OLD.questions = NEW.questions AND ("
        "(OLD.state = 'open' AND NEW.state IN ('closed', 'void')) OR "
        "(OLD.state = 'closed' AND NEW.state IN ('released', 'void') AND OLD.n IS NEW.n)))"
    )
    _sqlite_refuse("stage_moves", "UPDATE ON stage", moves, "a stage goes from open to closed to released, or to void")
    _sqlite_lease()


def _sqlite_study() -> None:
    op.execute("ALTER TABLE release ADD COLUMN opened BLOB")
    _sqlite_lease()


def _postgres_refuse(table: str, name: str, event: str, when: str, why: str) -> None:
    row = "OLD" if event == "DELETE" else "NEW"
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ "
        f"BEGIN IF {when} THEN RAISE EXCEPTION '{why}' {CODE}; END IF; RETURN {row}; END $$"
    )
    op.execute(f'CREATE TRIGGER {name} BEFORE {event} ON "{table}" FOR EACH ROW EXECUTE FUNCTION {name}()')


def _postgres_kept(table: str) -> None:
    name = f"{table}_no_truncate"
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN RAISE EXCEPTION '{table} is never emptied' {CODE}; END $$"
    )
    op.execute(f'CREATE TRIGGER {name} BEFORE TRUNCATE ON "{table}" FOR EACH STATEMENT EXECUTE FUNCTION {name}()')


def _postgres_lease() -> None:
    op.execute(
        "CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, token BIGINT NOT NULL, until BIGINT NOT NULL)"
    )
    moves = (
        "NOT (NEW.name = OLD.name AND (NEW.token = OLD.token + 1 "
        "OR (NEW.token = OLD.token AND NEW.holder = OLD.holder)))"
    )
    _postgres_refuse("lease", "lease_moves", "UPDATE", moves, "a lease changes hands only with the next token")
    _postgres_refuse("lease", "lease_stays", "DELETE", "true", "leases are kept: their tokens only grow")
    _postgres_kept("lease")


def _postgres_collector() -> None:
    op.execute("CREATE TABLE token (seq BIGINT PRIMARY KEY REFERENCES report, bytes BYTEA NOT NULL)")
    _postgres_refuse("token", "token_no_update", "UPDATE", "true", "tokens are never changed")
    _postgres_refuse("token", "token_scrubbed", "DELETE", ENDED, "tokens are kept until their stage has ended")
    _postgres_kept("token")
    op.execute('CREATE TABLE "window" (stage BIGINT PRIMARY KEY REFERENCES stage, ends BIGINT NOT NULL)')
    late = "(SELECT state FROM stage WHERE number = NEW.stage) IS DISTINCT FROM 'open'"
    _postgres_refuse("window", "window_opens", "INSERT", late, "the end of a window is set while its stage is open")
    _postgres_refuse("window", "window_no_update", "UPDATE", "true", "window is append-only")
    _postgres_refuse("window", "window_no_delete", "DELETE", "true", "window is append-only")
    _postgres_kept("window")
    _postgres_lease()


def _postgres_study() -> None:
    op.execute("ALTER TABLE release ADD COLUMN opened BYTEA")
    _postgres_lease()
