"""A saved audit as a page of the documentation.

    python -m papers.audit.pages results/audit > docs/audit.md      and the CSV files in docs/tables

A test renders the committed run again and compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final

from docs.tables import FOLDER, csv_text

from mutants.mutations import MUTATIONS, ORIGINALS, total_false_alarm
from papers.audit.coverage import LEARNER_OPTIONS, RUN_OPTIONS, SAME
from papers.audit.picture import words_of
from papers.audit.record import AuditRecord, finding_table, load_audit, mutation_table
from papers.audit.suite import all_rows
from tacit.accounting.certificate import shown_up
from tacit.audit.attack import Kind, shown_down

__all__ = ["missing", "render_page", "tables"]

COMMAND: Final = "python -m papers.audit.pages results/audit > docs/audit.md"


def render_page(record: AuditRecord) -> str:
    """The page, as Markdown: one figure, the refuted rows, everything else as CSV."""
    refuted = [
        (f.name, f.trust, f.calibration, f"{f.claimed:g}", shown_up(f.certified), shown_down(f.attacked))
        for f in record.findings
        if f.verdict != "holds"
    ]
    flagged = [name for name, caught in record.originals.items() if caught.by]
    head = ("refuted", "trust", "calibration", "claimed ε", "certified ε", "attacked ε")
    return _PAGE.format(
        version=_versions(record),
        staleness=_currency(record),
        words=words_of(record),
        command="python -m papers audit --mutations --out results/audit",
        page=COMMAND,
        trials=f"{record.settings.trials:,}",
        false_alarm=f"{_mistaken(record):g}",
        claims=_claims(record),
        rows=len(record.findings),
        refuted=_table(head, refuted) if refuted else "Nothing was refuted.",
        bugs=len(record.mutations),
        caught=sum(bool(bug.by) for bug in record.mutations.values()),
        originals=len(record.originals),
        flagged=f"flagged: {', '.join(flagged)}" if flagged else "none of them was flagged",
        mistaken=f"{total_false_alarm(record.originals):.3g}",
    )


def tables(record: AuditRecord) -> dict[str, str]:
    """Raw tables by the names of their CSV files: every attacked row, every mutant, what each row stands for."""
    kinds: tuple[Kind, ...] = ("mechanism", "privatizer", "messages", "learner")
    parts = {kind: finding_table(record, kind) for kind in kinds}
    heads = [head for head, _ in parts.values()]
    rows = [(kind, *row) for kind, (_, found) in parts.items() for row in found]
    return {
        "audit.csv": csv_text(("kind", *heads[0]), rows),
        "audit-mutants.csv": csv_text(*mutation_table(record)),
        "audit-coverage.csv": csv_text(("what", "attacked by", "why"), _covered()),
    }


def _versions(record: AuditRecord) -> str:
    """Who made the audit; the CSV files say which entry, where several did."""
    *others, last = record.versions
    return f"{', '.join(others)} and {last}; the CSV files say by which" if others else last


def _currency(record: AuditRecord) -> str:
    """What of it a later run would make or repeat, as far as the record knows."""
    entries = sum(map(len, record.made.values()))
    said = "Every entry says what it was made of, and a later run repeats only what has changed."
    if record.before:
        said = (
            f"{entries - record.before} of {entries} entries say what they were made of; the others are older than "
            "that, and a later run repeats them."
        )
    unmade = missing(record)
    return said + (f" **Not made yet:** {', '.join(unmade)}." if unmade else "")


def missing(record: AuditRecord) -> list[str]:
    """Rows, bugs and originals of today that the record of a whole audit does not have."""
    asked = record.settings
    rows = () if asked.delta is None else all_rows(asked.epsilon, asked.delta)
    return [
        *(name for name in rows if name not in record.rows),
        *(f"bug {name}" for name in MUTATIONS if name not in record.mutations),
        *(f"original {name}" for name in ORIGINALS if name not in record.originals),
    ]


def _mistaken(record: AuditRecord) -> float:
    """The probability that any row is wrong, rounded up: rows that were added later bring their own share."""
    return math.ceil(1e4 * sum(1.0 - finding.confidence for finding in record.findings) - 1e-6) / 1e4


def _claims(record: AuditRecord) -> str:
    asked = record.settings
    if asked.delta is None:
        return "those of the planted bugs"
    return f"epsilon {asked.epsilon:g}, delta {asked.delta:g} where it cannot be 0"


def _covered() -> list[tuple[str, ...]]:
    """What has no row of its own name, and what attacks it."""
    same = [(f"{learner} ({trust})", row, "an equal privatizer") for (learner, trust), row in SAME.items()]
    options = [
        (f"{kind} option {name}", ", ".join(found.rows), found.why or "rows with this option")
        for kind, table in (("run", RUN_OPTIONS), ("learner", LEARNER_OPTIONS))
        for name, found in table.items()
        if found.rows
    ]
    return [*same, *options]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


_PAGE: Final = """\
# Audit: empirical privacy attacks on every guarantee

The privacy audit attacks every mechanism, privatizer, message and learner, and compares the epsilon that an attack
proves with the claimed and the certified one. Results are those of `results/audit`, by tacit {version}. {staleness}

```{{figure}} ../results/audit/audit.png
:alt: {words}
:width: 100%

Attacked epsilon as a share of the claim, one point per row, and the detectors that catch each mutant.
```

{refuted}

The refuted rows are published calibrations, whose certificates the accountant refuses, too (see
[guarantees](guarantees.md)), and the integer messages of the shuffle protocol as printed. No default of tacit is among
them. {caught} of {bugs} mutants (seeded privacy bugs) are detected; of {originals} correct originals, {flagged}
(false-alarm probability at most {mistaken}).

Download the raw tables as CSV: {{download}}`attacked rows <tables/audit.csv>`, {{download}}`mutants
<tables/audit-mutants.csv>`, {{download}}`coverage of learners and options <tables/audit-coverage.csv>`.

## Method: lower bounds on epsilon

- Claims: {claims}. {trials} trials of every mechanism, a public share of them elsewhere; the {rows} rows together are
  wrong with probability at most {false_alarm}.
- *Attacked* epsilon is the largest that an attack proves, rounded down; *certified* is the accountant's, rounded up.
  A correct certificate has attacked ≤ certified.
- *By events* counts an event under two neighboring inputs, with Clopper-Pearson bounds. It needs no assumption, and
  cannot see events rarer than one in a million.
- The other attacks bound the size of the noise through the certified trade-off curve. They assume the family of the
  noise (Gaussian, Laplace, bits), not its size.
- *Exact by enumeration* sums two discrete output distributions. *inf* means that no amount of the stated noise
  explains the observations.
- Thresholds are chosen on a fifth of the trials and evaluated on the rest. The replaced user is the worst case: the
  rarest state or the first state, and the largest reward.
- A learner or an option without a row of its own releases what another row attacks; tests compare the privatizers
  field by field.

## Limits of empirical audits

An attack is a lower bound; an attack that finds nothing proves nothing. The audit attacks the samplers of
simulations. The exact samplers of deployments are measured and have tests of their own. Timing, traffic outside the
protocol and a dishonest shuffler or curator are outside every claim of this page; see the
[threat model](operations/threats.md).

    {command}
    {page}
"""


if __name__ == "__main__":
    audit = load_audit(sys.argv[1] if len(sys.argv) > 1 else "results/audit")
    for file, text in tables(audit).items():
        (FOLDER / file).write_text(text, encoding="utf-8")
    sys.stdout.write(render_page(audit))
