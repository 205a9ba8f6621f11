"""An audit on disk and as tables: one JSON file that grows row by row, so that an interrupted audit goes on.

The terminal, the HTML page and the documentation show the same tables, rows of words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tacit._version import __version__
from tacit.accounting.certificate import shown_up
from tacit.checks.attack import Finding
from tacit.checks.mutations import MUTATIONS, ORIGINALS, Caught, examine
from tacit.checks.rows import done_rows
from tacit.checks.suite import Row
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.runs.storage import check_writable, read_json, write_json, writing_to

__all__ = [
    "AUDIT_FILE",
    "FINDING_HEAD",
    "MUTATION_HEAD",
    "AuditRecord",
    "AuditSettings",
    "finding_rows",
    "load_audit",
    "mutation_rows",
    "run_mutations",
    "run_rows",
    "shown_down",
]

AUDIT_FILE: Final = "audit.json"
HONEST: Final = " (honest)"
"""What the names of originals end with where they stand beside the bugs."""

Progress = Callable[[int], None]
"""Called with the number of rows done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """What decides the numbers of an audit."""

    epsilon: float
    delta: float | None
    """Claimed by whatever cannot be pure; None where only bugs are planted, which bring their own claims."""
    trials: int
    false_alarm: float
    """Of the whole table."""
    seed: int

    def __post_init__(self) -> None:
        require_real("epsilon", self.epsilon, low=0.0, open_low=True)
        if self.delta is not None:
            require_real("delta", self.delta, low=0.0, high=1.0)
        require_count("trials", self.trials, least=1000)
        require_real("false-alarm rate", self.false_alarm, low=0.0, high=0.5, open_low=True)
        require_count("seed", self.seed, least=0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(slots=True, kw_only=True)
class AuditRecord:
    """The rows that are done, and who caught which bug."""

    settings: AuditSettings
    command: str
    version: str = __version__
    rows: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    mutations: dict[str, Caught] = field(default_factory=dict)
    originals: dict[str, Caught] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """All findings, in the order of their rows."""
        return [finding for findings in self.rows.values() for finding in findings]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "version": self.version,
            "command": self.command,
            "settings": self.settings.to_dict(),
            "rows": {name: [finding.to_dict() for finding in found] for name, found in self.rows.items()},
            "mutations": {name: caught.to_dict() for name, caught in self.mutations.items()},
            "originals": {name: caught.to_dict() for name, caught in self.originals.items()},
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> AuditRecord:
        """The record that `to_dict` wrote."""
        names = {"version", "command", "settings", "rows", "mutations", "originals"}
        require(set(plain) == names, f"an audit has the entries {', '.join(sorted(names))}", given=sorted(plain))
        try:
            return cls(
                settings=AuditSettings(**plain["settings"]),
                command=plain["command"],
                version=plain["version"],
                rows={
                    name: tuple(Finding.from_dict(finding) for finding in found)
                    for name, found in plain["rows"].items()
                },
                mutations={name: _caught(entry) for name, entry in plain["mutations"].items()},
                originals={name: _caught(entry) for name, entry in plain["originals"].items()},
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"an audit must be what tacit wrote, got {error}") from error

    def save(self, directory: Path) -> Path:
        """Write DIR/audit.json, whole or not at all."""
        target = directory / AUDIT_FILE
        with writing_to(target):
            directory.mkdir(parents=True, exist_ok=True)
            write_json(target, self.to_dict())
        return target


def load_audit(directory: str | Path) -> AuditRecord:
    """The audit in a directory."""
    path = Path(directory) / AUDIT_FILE
    require(path.is_file(), f"{directory} must hold an {AUDIT_FILE}", "none", "make one with tacit audit --out DIR")
    return AuditRecord.from_dict(read_json(path))


def run_rows(
    rows: Mapping[str, Row],
    record: AuditRecord,
    *,
    out: Path | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
) -> AuditRecord:
    """Run what is not done yet, each row with its share of the false-alarm rate; saved after every row.

    `engine` and `address` say where, as in `tacit.run`; `workers` is how many rows a cluster works on at once.
    """
    record = _resumed(record, out)
    asked = record.settings
    share = asked.false_alarm / len(rows)
    todo = {name: (row, asked.trials, share, asked.seed) for name, row in rows.items() if name not in record.rows}
    kept = _keeper(record, out, progress, len(rows) - len(todo))
    for name, found in done_rows(_attacked, todo, engine=engine, address=address, workers=workers):
        record.rows[name] = found
        kept()
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
    """Let the watchmen look at every planted bug and at every honest original; saved after each.

    `engine`, `address` and `workers` as in `run_rows`.
    """
    record, seed = _resumed(record, out), record.settings.seed
    bugs = {name: (True, name, seed) for name in MUTATIONS if name not in record.mutations}
    honest = {f"{name}{HONEST}": (False, name, seed) for name in ORIGINALS if name not in record.originals}
    todo = {**bugs, **honest}
    kept = _keeper(record, out, progress, len(MUTATIONS) + len(ORIGINALS) - len(todo))
    for shown, found in done_rows(_examined, todo, engine=engine, address=address, workers=workers):
        (record.originals if shown.endswith(HONEST) else record.mutations)[found.name] = found
        kept()
    record.mutations = {name: record.mutations[name] for name in MUTATIONS}
    record.originals = {name: record.originals[name] for name in ORIGINALS}
    return record


def _attacked(row: Row, trials: int, share: float, seed: int) -> tuple[Finding, ...]:
    return row(trials, share, seed)


def _examined(planted: bool, name: str, seed: int) -> Caught:
    return examine(name, (MUTATIONS if planted else ORIGINALS)[name], seed=seed)


def _keeper(record: AuditRecord, out: Path | None, progress: Progress | None, done: int) -> Callable[[], None]:
    """What to do after every row."""
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
    """What is in the directory already, if it is of the same settings and version."""
    if out is None:
        return record
    check_writable(out)
    if not (out / AUDIT_FILE).exists():
        return record
    there = load_audit(out)
    same = there.settings == record.settings and there.version == record.version
    require(same, f"{out} holds an audit with other settings or of another version", "another", "choose another --out")
    return there


def _caught(plain: Mapping[str, Any]) -> Caught:
    return Caught(name=plain["name"], what=plain["what"], by=tuple(plain["by"]), details=tuple(plain["details"]))


FINDING_HEAD = (
    "what",
    "trust",
    "calibration",
    "the adversary sees",
    "δ",
    "claimed ε",
    "certified ε",
    "attacked ε",
    "of it by events alone",
    "exact ε by enumeration",
    "trials",
    "verdict",
)
MUTATION_HEAD = ("planted bug", "what is wrong", "caught by", "how")


def shown_down(epsilon: float) -> str:
    """A lower bound to three digits, rounded down: what is printed must not prove more than what was found.

    >>> shown_down(0.98769), shown_down(0.0), shown_down(math.inf)
    ('0.987', '0', 'inf')
    """
    if epsilon == 0.0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    scale = 10.0 ** (2 - math.floor(math.log10(epsilon)))
    return f"{math.floor(epsilon * scale) / scale:.3g}"


def finding_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """One row per finding."""
    return [
        (
            finding.name,
            finding.trust,
            finding.calibration,
            finding.view + (f" ({finding.note})" if finding.note else ""),
            f"{finding.delta:g}",
            f"{finding.claimed:g}",
            shown_up(finding.certified),
            shown_down(finding.attacked),
            shown_down(finding.by_events),
            "-" if finding.exact is None else f"{finding.exact:.4g}",
            f"{finding.trials:,}",
            finding.verdict,
        )
        for finding in findings
    ]


def mutation_rows(record: AuditRecord) -> list[tuple[str, ...]]:
    """One row per planted bug."""
    return [
        (caught.name, caught.what, ", ".join(caught.by) or "NOBODY", "; ".join(caught.details))
        for caught in record.mutations.values()
    ]
