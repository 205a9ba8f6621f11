"""The tables of an audit, as rows of words: the terminal, the HTML page and the documentation show the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.accounting.certificate import shown_up
from tacit.audit.attack import Finding
from tacit.audit.record import AuditRecord

__all__ = ["FINDING_HEAD", "MUTATION_HEAD", "finding_rows", "mutation_rows", "shown_down"]

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
