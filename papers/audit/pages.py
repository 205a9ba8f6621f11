"""A saved audit as a page of the documentation.

    python -m papers.audit.pages results/audit > docs/audit.md

A test renders the committed run again and compares.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final

from mutants.mutations import MUTATIONS, ORIGINALS, total_false_alarm
from papers.audit.coverage import LEARNER_OPTIONS, RUN_OPTIONS, SAME
from papers.audit.picture import words_of
from papers.audit.record import AuditRecord, finding_table, load_audit, mutation_table
from papers.audit.suite import all_rows
from tacit.audit.attack import Kind, shown_down

__all__ = ["missing", "render_page"]

COMMAND: Final = "python -m papers.audit.pages results/audit > docs/audit.md"


def render_page(record: AuditRecord) -> str:
    """The page, as Markdown."""
    refuted = [f for f in record.findings if f.verdict != "holds"]
    listed = "\n".join(
        f"- **{f.name}** ({f.trust}, {f.calibration}): claimed {f.claimed:g}, certified {f.certified:.4g}, "
        f"attacked {shown_down(f.attacked)}: {f.verdict}"
        for f in refuted
    )
    flagged = [name for name, caught in record.originals.items() if caught.by]
    return _PAGE.format(
        version=_versions(record),
        staleness=_currency(record),
        words=words_of(record),
        command=record.command,
        page=COMMAND,
        trials=f"{record.settings.trials:,}",
        false_alarm=f"{_mistaken(record):g}",
        claims=_claims(record),
        rows=len(record.findings),
        refuted=listed or "Nothing was refuted.",
        coverage=_table(("what", "attacked by", "why"), _covered()),
        mechanisms=_part(record, "mechanism"),
        privatizers=_part(record, "privatizer"),
        messages=_part(record, "messages"),
        learners=_part(record, "learner"),
        bugs=len(record.mutations),
        mutations=_table(*mutation_table(record)),
        originals=", ".join(record.originals),
        flagged=f"flagged: {', '.join(flagged)}" if flagged else "none of them was flagged",
        mistaken=f"{total_false_alarm(record.originals):.3g}",
    )


def _versions(record: AuditRecord) -> str:
    """Who made the audit; the tables say which entry, where several did."""
    *others, last = record.versions
    return f"{', '.join(others)} and {last}; the tables say by which" if others else last


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


def _part(record: AuditRecord, kind: Kind) -> str:
    return _table(*finding_table(record, kind))


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
# Audit: every guarantee, attacked

A claim that nobody attacked is a hope. This page is generated, not written, from the run in `results/audit` by tacit
{version}:

    {command}
    {page}

and compared with that run by a test. {staleness}
Claims: {claims}. {trials} trials of
every mechanism, a public share of them elsewhere; the {rows} rows together are wrong with probability at most
{false_alarm}. Certified epsilons are upper bounds (rounded up), attacked ones lower bounds (rounded down).

```{{figure}} ../results/audit/audit.png
:alt: {words}
:width: 100%

Every row of this page, and every planted bug (`python -m papers.audit.picture results/audit`).
```

## What was refuted

{refuted}

The rows above are printed guarantees that the accountant does not certify either (see [guarantees](guarantees.md)), and
the integer messages of the shuffle protocol as printed. Nothing that tacit offers by default is among them.

## How to read the tables

- **claimed** is the promise, **certified** what the exact accountant finds at the same delta, **attacked** the largest
  epsilon that an attack proves with the stated confidence. A right certificate has attacked ≤ certified.
- **by events alone** needs no assumption: an event is counted in both worlds, with Clopper-Pearson bounds on both
  frequencies. At delta = 1e-6 it cannot see what happens once in a million trials.
- The rest of **attacked** comes through the certified trade-off curve: the errors of the best test bound how large the
  noise can be, and the accountant says what that noise gives. It assumes the family of the noise (Gaussian, Laplace,
  bits, ...), not its size. For Gaussian noise this is the conversion through Gaussian differential privacy. If the
  errors are too small for the certified curve itself, the certificate is refuted without any assumption.
- **exact ε by enumeration** needs no trials: it sums over both output distributions, where they are discrete.
- Thresholds are chosen on a fifth of the trials and counted on the rest. The replaced user is the worst one: always in
  the rarest state with the last action, or always in the first state with the first, and the largest reward.
- **inf** means that no amount of the stated noise explains what was seen.

## Who is attacked where

Every learner under every trust model has rows of its own, or releases what another row attacks; every option of a run
or of a learner that changes a release has rows, too. Tests compare: the privatizers are equal, field by field.

{coverage}


## Mechanisms

Two counters differ, one up, one down; for continual counters the first of eight users is replaced.

{mechanisms}

## Privatizers

The adversary sees what its column says: every released number that depends on users. Of losses these are the counts of
transitions and visits beside the losses, of a batch of gradients the mean reward beside every gradient. Numbers that
must not depend on users (variances, how many users there are) are not attacked but compared, by the rule `fields` of
the conformance suite. `paper` is the noise as printed. Trials release sums of arms; whoever was in a run and is in its
trial is attacked in both, against the certificate of both together, which claims the sum.

{privatizers}

## Shuffled messages

All messages in their order, their sizes, and how many each user sent. A batch of ten users, one layer; the claim is
three times epsilon, so that few noise bits suffice.

{messages}

## Whole learners

White-box adversaries see what the trust model lets out; black-box adversaries see the policies of later users only, and
at these sizes next to nothing in them.

{learners}

## Planted bugs

{bugs} bugs, each planted in something that is otherwise right, and who catches it: the accountant (the certificate
against the claim), the conformance suite (by the rules that fire) or the audit.

{mutations}

The honest originals ({originals}) went through the same three watchmen: {flagged}. At the false-alarm rates of the
watchmen, any of them is flagged by mistake with probability at most {mistaken}. Those called secure draw their noise
from the operating system: it is measured and cannot be replayed, so only the conformance suite looks at it.

## What an audit cannot say

An attack that finds nothing proves nothing: the attacked epsilon is a lower bound, the certificate an upper one, and
the truth lies between. Attacked are the samplers of simulations; the exact samplers of a deployment are measured (the
originals called secure) and have tests of their own. Timing, traffic outside the protocol and a dishonest shuffler or
curator are outside every claim on this page.
"""


if __name__ == "__main__":
    sys.stdout.write(render_page(load_audit(sys.argv[1] if len(sys.argv) > 1 else "results/audit")))
