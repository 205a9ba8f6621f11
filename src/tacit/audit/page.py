"""The page of the audit in the documentation, generated from a committed run.

    python -m tacit.audit.page results/audit > docs/audit.md

A test renders the committed run again and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from tacit.audit.attack import Kind
from tacit.audit.record import AuditRecord, load_audit
from tacit.audit.tables import FINDING_HEAD, MUTATION_HEAD, finding_rows, mutation_rows, shown_down

__all__ = ["render_page"]

COMMAND: Final = "python -m tacit.audit.page results/audit > docs/audit.md"


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
        version=record.version,
        command=record.command,
        page=COMMAND,
        trials=f"{record.settings.trials:,}",
        false_alarm=f"{record.settings.false_alarm:g}",
        epsilon=f"{record.settings.epsilon:g}",
        delta=f"{record.settings.delta:g}",
        rows=len(record.findings),
        refuted=listed or "Nothing was refuted.",
        mechanisms=_part(record, "mechanism"),
        privatizers=_part(record, "privatizer"),
        messages=_part(record, "messages"),
        learners=_part(record, "learner"),
        bugs=len(record.mutations),
        mutations=_table(MUTATION_HEAD, mutation_rows(record)),
        originals=", ".join(record.originals),
        flagged=f"flagged: {', '.join(flagged)}" if flagged else "none of them was flagged",
    )


def _part(record: AuditRecord, kind: Kind) -> str:
    return _table(FINDING_HEAD, finding_rows([f for f in record.findings if f.kind == kind]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


_PAGE: Final = """\
# Audit: every guarantee, attacked

A claim that nobody attacked is a hope. This page is generated, not written, from the run in `results/audit` by tacit
{version}:

    {command}
    {page}

and compared with that run by a test. Claims: epsilon {epsilon}, delta {delta} where it cannot be 0. {trials} trials of
every mechanism, a public share of them elsewhere; the {rows} rows together are wrong with probability at most
{false_alarm}. Certified epsilons are upper bounds (rounded up), attacked ones lower bounds (rounded down).

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

## Mechanisms

Two counters differ, one up, one down; for continual counters the first of eight users is replaced.

{mechanisms}

## Privatizers

The adversary sees what its column says. That is everything that is released, with one exception: of a batch of
gradients the noisy gradient is attacked, not the noisy mean reward that is released beside it for a baseline. `paper`
is the noise as printed.

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

The honest originals ({originals}) went through the same three watchmen: {flagged}.

## What an audit cannot say

An attack that finds nothing proves nothing: the attacked epsilon is a lower bound, the certificate an upper one, and
the truth lies between. Audited are the samplers of simulations; a deployment's exact samplers have tests of their own.
Timing, traffic outside the protocol and a dishonest shuffler or curator are outside every claim on this page.
"""


if __name__ == "__main__":
    sys.stdout.write(render_page(load_audit(sys.argv[1] if len(sys.argv) > 1 else "results/audit")))
