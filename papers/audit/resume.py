"""Making an audit: every row, bug and original that is not there yet, or whose fingerprint has changed since.

Saved after each; an interrupted audit goes on, and a later version repeats only what it would find something else of
(`papers.audit.fingerprints`). Settings must be the same: another claim, seed or number of trials is another audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mutants.mutations import MUTATIONS, ORIGINALS, Caught, examine
from mutants.planted import Mutation
from papers.audit.fingerprints import Made, bug_fingerprint, row_fingerprint
from papers.audit.record import AUDIT_FILE, AuditRecord, load_audit
from papers.audit.rows import Row, done_rows
from tacit._version import __version__
from tacit.audit.attack import Finding
from tacit.errors import require
from tacit.runs.storage import check_writable

__all__ = ["run_mutations", "run_rows"]

Progress = Callable[[int], None]
"""Called with the number of entries done."""
PLANTED: Final[Mapping[str, Mapping[str, Mutation]]] = {"mutations": MUTATIONS, "originals": ORIGINALS}
"""What the watchmen look at, by part of the record."""
HONEST: Final = " (honest)"
"""What the names of originals end with where they stand beside the bugs."""


def run_rows(
    rows: Mapping[str, Row],
    record: AuditRecord,
    *,
    places: int = 0,
    out: Path | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
) -> AuditRecord:
    """Run what is not done yet or has changed, each row with an equal share of the false-alarm rate; saved after each.

    The shares are those of at least `places` rows, so that a table with room to grow keeps them. `engine` and `address`
    say where, as in `tacit.run`; `workers` is how many rows a cluster works on at once.
    """
    record = _resumed(record, out)
    asked = record.settings
    share = asked.false_alarm / max(places, len(rows))
    made = record.made["rows"]
    todo = {
        name: (row, asked.trials, share, asked.seed)
        for name, row in rows.items()
        if name not in made or made[name].fingerprint != row_fingerprint(row, asked.trials, asked.seed)
    }
    keep = _keeper(record, out, progress, len(rows) - len(todo))
    for name, (found, fingerprint) in done_rows(_attacked, todo, engine=engine, address=address, workers=workers):
        record.rows[name] = found
        made[name] = Made(version=__version__, fingerprint=fingerprint)
        keep()
    others = {name: found for name, found in record.rows.items() if name not in rows}
    record.rows = {**others, **{name: record.rows[name] for name in rows}}
    return record


def run_mutations(
    record: AuditRecord,
    *,
    out: Path | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
) -> AuditRecord:
    """Let the watchmen look at every planted bug and honest original that is new or has changed; saved after each.

    `engine`, `address` and `workers` as in `run_rows`.
    """
    record = _resumed(record, out)
    seed, found_in = record.settings.seed, {"mutations": record.mutations, "originals": record.originals}
    todo = {}
    for part, planted in PLANTED.items():
        made = record.made[part]
        for name, mutation in planted.items():
            if name not in made or made[name].fingerprint != bug_fingerprint(mutation, seed):
                todo[name + (HONEST if part == "originals" else "")] = (part, name, seed)
    keep = _keeper(record, out, progress, sum(map(len, PLANTED.values())) - len(todo))
    for shown, (found, fingerprint) in done_rows(_examined, todo, engine=engine, address=address, workers=workers):
        part, name, _ = todo[shown]
        found_in[part][name] = found
        record.made[part][name] = Made(version=__version__, fingerprint=fingerprint)
        keep()
    record.mutations = {name: record.mutations[name] for name in MUTATIONS}
    record.originals = {name: record.originals[name] for name in ORIGINALS}
    return record


def _attacked(row: Row, trials: int, share: float, seed: int) -> tuple[tuple[Finding, ...], str]:
    return row.findings(trials, share, seed), row_fingerprint(row, trials, seed)


def _examined(part: str, name: str, seed: int) -> tuple[Caught, str]:
    mutation = PLANTED[part][name]
    return examine(name, mutation, seed=seed), bug_fingerprint(mutation, seed)


def _keeper(record: AuditRecord, out: Path | None, progress: Progress | None, done: int) -> Callable[[], None]:
    """What to do after every entry."""
    if progress is not None:
        progress(done)

    def kept() -> None:
        nonlocal done
        done += 1
        if out is not None:
            record.save(out)
        if progress is not None:
            progress(done)

    return kept


def _resumed(record: AuditRecord, out: Path | None) -> AuditRecord:
    """What is in the directory already, if it is of the same settings."""
    if out is None:
        return record
    check_writable(out)
    if not (out / AUDIT_FILE).exists():
        return record
    there = load_audit(out)
    same = there.settings == record.settings
    require(same, f"{out} holds an audit with other settings", "another", "choose another --out")
    return there
