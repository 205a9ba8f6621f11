"""An audit on disk and as tables: one JSON file, whose every entry says which version made it of what.

The terminal and the documentation show the same tables, rows of words. `papers.audit.resume` makes the
entries, and goes on where an audit was interrupted or where something has changed since.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from mutants.mutations import Caught
from papers.audit.fingerprints import Made
from papers.fingerprint import BEFORE
from tacit.accounting.certificate import shown_up
from tacit.audit.attack import Finding, Kind, shown_down
from tacit.errors import InvalidInput, require, require_count, require_epsilon, require_real
from tacit.runs.storage import read_json, write_json, writing_to

__all__ = [
    "AUDIT_FILE",
    "AuditRecord",
    "AuditSettings",
    "finding_table",
    "load_audit",
    "mutation_table",
]

AUDIT_FILE: Final = "audit.json"
PARTS: Final = ("rows", "mutations", "originals")
"""What an audit holds: attacked guarantees, planted bugs, and what those were planted in."""


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
        require_epsilon(self.epsilon)
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
    """The rows that are done, who caught which bug, and of everything who made it of what."""

    settings: AuditSettings
    command: str
    rows: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    mutations: dict[str, Caught] = field(default_factory=dict)
    originals: dict[str, Caught] = field(default_factory=dict)
    made: dict[str, dict[str, Made]] = field(default_factory=lambda: {part: {} for part in PARTS})
    """By part and name: version and fingerprint."""

    @property
    def findings(self) -> list[Finding]:
        """All findings, in the order of their rows."""
        return [finding for findings in self.rows.values() for finding in findings]

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that made this audit, the oldest first."""
        found = {made.version for part in PARTS for made in self.made[part].values()}
        return tuple(sorted(found, key=lambda version: [int(n) for n in re.findall(r"\d+", version)]))

    @property
    def before(self) -> int:
        """How many entries were made before there were fingerprints."""
        return sum(made.fingerprint == BEFORE for part in PARTS for made in self.made[part].values())

    def attacks(self) -> Iterator[tuple[str, Finding]]:
        """All findings with the version that made each."""
        for name, findings in self.rows.items():
            for finding in findings:
                yield self.made["rows"][name].version, finding

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain: dict[str, dict[str, Any]] = {
            "rows": {name: {"findings": [one.to_dict() for one in found]} for name, found in self.rows.items()},
            "mutations": {name: caught.to_dict() for name, caught in self.mutations.items()},
            "originals": {name: caught.to_dict() for name, caught in self.originals.items()},
        }
        for part, entries in plain.items():
            for name, entry in entries.items():
                entry |= asdict(self.made[part][name])
        return {"command": self.command, "settings": self.settings.to_dict(), **plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> AuditRecord:
        """The record that `to_dict` wrote."""
        names = {"command", "settings", *PARTS}
        require(set(plain) == names, f"an audit has the entries {', '.join(sorted(names))}", given=sorted(plain))
        try:
            return cls(
                settings=AuditSettings(**plain["settings"]),
                command=plain["command"],
                rows={
                    name: tuple(Finding.from_dict(finding) for finding in entry["findings"])
                    for name, entry in plain["rows"].items()
                },
                mutations={name: _caught(entry) for name, entry in plain["mutations"].items()},
                originals={name: _caught(entry) for name, entry in plain["originals"].items()},
                made={
                    part: {
                        name: Made(version=entry["version"], fingerprint=entry["fingerprint"])
                        for name, entry in plain[part].items()
                    }
                    for part in PARTS
                },
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
    hint = "make one with python -m papers audit --out DIR"
    require(path.is_file(), f"{directory} must hold an {AUDIT_FILE}", "none", hint)
    return AuditRecord.from_dict(read_json(path))


def _caught(plain: Mapping[str, Any]) -> Caught:
    return Caught(name=plain["name"], what=plain["what"], by=tuple(plain["by"]), details=tuple(plain["details"]))


FINDING_HEAD: Final = (
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
MUTATION_HEAD: Final = ("planted bug", "what is wrong", "caught by", "how")


def finding_table(record: AuditRecord, kind: Kind) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows of the findings of one kind; by which version, where several made the audit."""
    found = [(version, finding) for version, finding in record.attacks() if finding.kind == kind]
    return _by_version(record, FINDING_HEAD, [(version, _finding_row(finding)) for version, finding in found])


def mutation_table(record: AuditRecord) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The same of the planted bugs."""
    made = record.made["mutations"]
    rows = [
        (made[name].version, (name, caught.what, ", ".join(caught.by) or "NOBODY", "; ".join(caught.details)))
        for name, caught in record.mutations.items()
    ]
    return _by_version(record, MUTATION_HEAD, rows)


def _by_version(
    record: AuditRecord, head: tuple[str, ...], rows: Sequence[tuple[str, tuple[str, ...]]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    if len(record.versions) < 2:
        return head, [row for _, row in rows]
    return (*head, "by version"), [(*row, version) for version, row in rows]


def _finding_row(finding: Finding) -> tuple[str, ...]:
    return (
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
