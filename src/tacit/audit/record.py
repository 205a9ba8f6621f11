"""An audit on disk: one JSON file that grows row by row, so that an interrupted audit goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tacit._version import __version__
from tacit.audit.attack import Finding
from tacit.audit.mutations import MUTATIONS, ORIGINALS
from tacit.audit.suite import Row
from tacit.audit.watch import Caught, examine
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.runs.storage import check_writable, read_json, write_json, writing_to

__all__ = ["AUDIT_FILE", "AuditRecord", "AuditSettings", "load_audit", "run_mutations", "run_rows"]

AUDIT_FILE: Final = "audit.json"

Progress = Callable[[int], None]
"""Called with the number of rows done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """What decides the numbers of an audit."""

    epsilon: float
    delta: float
    trials: int
    false_alarm: float
    """Of the whole table."""
    seed: int

    def __post_init__(self) -> None:
        require_real("epsilon", self.epsilon, low=0.0, open_low=True)
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
    rows: Mapping[str, Row], record: AuditRecord, *, out: Path | None = None, progress: Progress | None = None
) -> AuditRecord:
    """Run what is not done yet, each row with its share of the false-alarm rate; saved after every row."""
    record = _resumed(record, out)
    asked = record.settings
    share = asked.false_alarm / len(rows)
    for i, (name, row) in enumerate(rows.items()):
        if name not in record.rows:
            record.rows[name] = row(asked.trials, share, asked.seed)
            if out is not None:
                record.save(out)
        if progress is not None:
            progress(i + 1)
    return record


def run_mutations(record: AuditRecord, *, out: Path | None = None, progress: Progress | None = None) -> AuditRecord:
    """Let the watchmen look at every planted bug and at every honest original; saved after each."""
    record = _resumed(record, out)
    todo = [(record.mutations, name, bug) for name, bug in MUTATIONS.items()]
    todo += [(record.originals, name, bug) for name, bug in ORIGINALS.items()]
    for i, (done, name, bug) in enumerate(todo):
        if name not in done:
            done[name] = examine(name, bug, seed=record.settings.seed)
            if out is not None:
                record.save(out)
        if progress is not None:
            progress(i + 1)
    return record


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
