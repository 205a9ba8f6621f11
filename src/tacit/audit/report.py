"""A saved audit as one self-contained HTML page; no script, no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from tacit.audit.record import AuditRecord
from tacit.audit.tables import FINDING_HEAD, MUTATION_HEAD, finding_rows, mutation_rows
from tacit.runs.report import STYLE
from tacit.runs.storage import check_writable, write_whole, writing_to

__all__ = ["render_audit_report", "write_audit_report"]

_KINDS = {
    "mechanism": "Mechanisms",
    "privatizer": "Privatizers",
    "messages": "Shuffled messages",
    "learner": "Whole learners",
}


def render_audit_report(record: AuditRecord) -> str:
    """The page, as text."""
    asked = record.settings
    words = (
        f"tacit {html.escape(record.version)}. {asked.trials:,} trials; all rows together are wrong with probability "
        f"at most {asked.false_alarm:g}. Attacked epsilons are lower bounds, rounded down; certified ones are upper "
        "bounds, rounded up."
    )
    sections = ["<h1>Audit</h1>", f'<p class="note">{words}</p>']
    for kind, title in _KINDS.items():
        found = [finding for finding in record.findings if finding.kind == kind]
        if found:
            sections += [f"<h2>{title}</h2>", _table(FINDING_HEAD, finding_rows(found))]
    if record.mutations:
        flagged = [name for name, caught in record.originals.items() if caught.by]
        words = f"{', '.join(flagged)} flagged without a bug" if flagged else "none of them was flagged"
        sections += [
            "<h2>Planted bugs</h2>",
            _table(MUTATION_HEAD, mutation_rows(record)),
            f"<p>Honest originals: {len(record.originals)}; {html.escape(words)}.</p>",
        ]
    sections += ["<h2>Command</h2>", f"<pre>{html.escape(record.command)}</pre>"]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Audit - tacit</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def write_audit_report(record: AuditRecord, path: str | Path) -> Path:
    """Write the page to a file."""
    target = Path(path)
    check_writable(target.parent)
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, render_audit_report(record).encode())
    return target


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(values: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}>{html.escape(value)}</{tag}>" for value in values)

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
