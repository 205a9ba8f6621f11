"""A saved audit as a figure: what attacks prove of every claim, and who catches planted bugs.

    python -m papers.audit.picture results/audit            draws results/audit/audit.png

The file names the record that it was drawn from by its digest, and a test compares.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from papers.audit.record import AUDIT_FILE, AuditRecord, load_audit
from tacit.audit.attack import Finding, shown_down

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["audit_digest", "draw_audit", "save_picture", "words_of"]

PICTURE_FILE: Final = "audit.png"
TOP: Final = 3.0
"""Where attacks stand that prove more than so much, or every epsilon."""
KINDS: Final = {"mechanism": "mechanisms", "privatizer": "privatizers", "messages": "messages", "learner": "learners"}
WATCHMEN: Final = ("accountant", "conformance", "audit")
HOLDS, REFUTED, GREY = "#0072b2", "#d55e00", "#767676"


def share(finding: Finding) -> float:
    """The attacked epsilon over the claimed one."""
    return finding.attacked / finding.claimed


def words_of(record: AuditRecord) -> str:
    """What the figure shows, for those who cannot see it."""
    found = record.findings
    kept = [share(finding) for finding in found if finding.verdict == "holds"]
    refuted = [finding for finding in found if finding.verdict != "holds"]
    largest = f"{shown_down(max(kept))} of the claimed epsilon" if kept else "nothing"
    caught = sum(bool(bug.by) for bug in record.mutations.values())
    flagged = sum(bool(original.by) for original in record.originals.values())
    named = ", ".join(f"{finding.name} ({finding.calibration})" for finding in refuted) or "none"
    return (
        f"Of {len(found)} attacked guarantees {len(kept)} hold: attacks prove at most {largest}. Refuted: {named}. "
        f"{caught} of {len(record.mutations)} planted bugs are caught, and {flagged} of {len(record.originals)} honest "
        "originals are flagged."
    )


def draw_audit(record: AuditRecord) -> Figure:
    """Attacked over claimed epsilons, kind by kind, beside the number of planted bugs that each watchman catches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    attacks, bugs = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    _attacks(attacks, record.findings)
    _bugs(bugs, record)
    return figure


def _attacks(axes: Axes, findings: list[Finding]) -> None:
    start, ticks = 0, []
    for kind, name in KINDS.items():
        rows = sorted((finding for finding in findings if finding.kind == kind), key=share)
        if not rows:
            continue
        for place, finding in enumerate(rows, start):
            value, right = share(finding), finding.verdict == "holds"
            marker = ("o" if right else "X") if value <= TOP else "^"
            axes.plot(place, min(value, TOP), marker, color=HOLDS if right else REFUTED, markersize=5, zorder=3)
            if value > TOP:
                beyond = f"{value:.3g}" if math.isfinite(value) else "every ε"
                axes.annotate(beyond, (place, TOP), (-5, -3), textcoords="offset points", fontsize=8, ha="right")
        ticks.append((start + (len(rows) - 1) / 2, name))
        start += len(rows) + 4
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.annotate("claimed", (-1, 1.0), (0, 3), textcoords="offset points", fontsize=8, color=GREY)
    axes.plot([], [], "o", color=HOLDS, markersize=5, label="holds")
    axes.plot([], [], "X", color=REFUTED, markersize=5, label="refuted")
    axes.set_xticks([place for place, _ in ticks], [name for _, name in ticks])
    axes.set(ylim=(-0.1, TOP + 0.15), ylabel="attacked ε / claimed ε", title="What attacks prove of every claim")
    axes.legend(loc="upper left", fontsize=8)


def _bugs(axes: Axes, record: AuditRecord) -> None:
    counts = Counter(watchman for bug in record.mutations.values() for watchman in bug.by)
    values = [counts[name] for name in WATCHMEN]
    axes.barh(WATCHMEN, values, color=HOLDS, height=0.6)
    for place, value in enumerate(values):
        axes.annotate(str(value), (value, place), (3, 0), textcoords="offset points", va="center", fontsize=9)
    caught = sum(bool(bug.by) for bug in record.mutations.values())
    axes.axvline(len(record.mutations), color=GREY, linewidth=1)
    axes.set(xlim=(0, 1.15 * max(1, len(record.mutations))), xlabel="planted bugs caught")
    axes.set_title(f"{caught} of {len(record.mutations)} bugs are caught")


def audit_digest(directory: str | Path) -> str:
    """SHA-256 of a saved audit."""
    return hashlib.sha256((Path(directory) / AUDIT_FILE).read_bytes()).hexdigest()


def save_picture(directory: str | Path) -> Path:
    """Draw the audit of a directory into it."""
    target = Path(directory) / PICTURE_FILE
    metadata = {"Source": audit_digest(directory), "Software": None}
    draw_audit(load_audit(directory)).savefig(target, dpi=130, metadata=metadata)
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{save_picture(sys.argv[1] if len(sys.argv) > 1 else 'results/audit')}\n")
