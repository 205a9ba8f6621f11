"""The page of guarantees: what the papers claim, what the exact accountant certifies, what least noise would do.

    python -m papers.guarantees > docs/guarantees.md

Everything in the tables is computed here; a test regenerates the page and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Final

from docs.tables import FOLDER, csv_text

from papers.bai2024adversarial.verdicts import adversarial_verdicts
from papers.bai2025secure.verdicts import gradient_verdicts, shuffle_verdicts
from papers.garcelon2021local.verdicts import bounded_epsilon, local_verdicts, printed_least_delta
from papers.he2025policy.hidden_actions import hidden_action_delta
from papers.verdict import (
    ACTIONS,
    DELTA,
    EPSILON,
    HORIZON,
    LOCAL_DELTA,
    LOSSES,
    ROUNDS,
    STATES,
    Verdict,
    listed,
)
from tacit._version import __version__

__all__ = ["render_guarantees", "render_rows", "verdicts"]

CONSTANTS: Final = (1.0, 2.0, 2.95)
"""Values of the constant C of Prop. 14 of [garcelon2021local], which it leaves open."""
COMMAND: Final = "python -m papers.guarantees > docs/guarantees.md"


@cache
def verdicts() -> tuple[Verdict, ...]:
    """All rows, in order.

    >>> [verdict.row for verdict in verdicts()] == list(range(1, 19))
    True
    """
    return (*shuffle_verdicts(), *gradient_verdicts(), *adversarial_verdicts(), *local_verdicts())


def render_guarantees() -> str:
    """The page, as Markdown."""
    rows = verdicts()
    head = ("#", "source", "mechanism", "claimed", "really certified", "true?", "sound formula", "paper std")
    claims = _table(
        (*head, "tight std at the claimed guarantee"),
        [
            (
                str(v.row),
                f"`{v.source}`".replace(", ", "`, `"),
                v.mechanism,
                v.claim,
                v.certified,
                _verdict(v),
                v.sound,
                v.paper_std,
                v.tight_std,
            )
            for v in rows
        ],
    )
    false = [str(v.row) for v in rows if v.decided and not v.true]
    return _PAGE.format(
        command=COMMAND,
        version=__version__,
        claims=claims,
        false=", ".join(false[:-1]) + f" and {false[-1]}",
        H=HORIZON,
        S=STATES,
        A=ACTIONS,
        epsilon=f"{EPSILON:g}",
        delta=f"{DELTA:g}",
        local_delta=f"{LOCAL_DELTA:g}",
        hidden=", ".join(f"{hidden_action_delta(A):.1e} (A = {A})" for A in (2, 3, 4, 5)),
        least=f"{printed_least_delta(STATES * ACTIONS):.3f}",
        figure=f"{printed_least_delta(4):.3f}",
        several=listed([bounded_epsilon(C) for C in CONSTANTS], certifies=True),
        constants=" / ".join(f"{C:g}" for C in CONSTANTS),
        losses=LOSSES,
        rounds=ROUNDS,
    )


def render_rows() -> str:
    """What each row is about, as CSV."""
    head = ("row", "what differs between two neighbors", "definition", "neighbors", "unit", "command")
    return csv_text(
        head, [(str(v.row), v.accounted, v.definition, "replace-one", v.unit, v.command or "") for v in verdicts()]
    )


def _verdict(verdict: Verdict) -> str:
    false = f"**FALSE** under {verdict.definition}"
    word = verdict.undecided or ("true" if verdict.true else false)
    return f"{word}; {verdict.remark}" if verdict.remark else word


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


_PAGE: Final = """\
# What the papers claim, and what is true

Computed by tacit {version}; generated, not written, by

    {command}

and compared with the code by a test. Reference instance: H = {H}, epsilon = {epsilon}; shuffling: {S} states, {A}
actions, delta = {delta}; adversarial losses: K = {rounds}, X'A = {losses}, delta = {delta} where one is needed; policy
gradient and local: delta = {local_delta}. A standard deviation is that of the noise in one released number, of one
prefix sum for trees. Certified epsilons are rounded up.

Rows {false} are false as printed, each under the definition that it names; row 5 is false for
large epsilon, row 7 is not proved, row 16 claims nothing at these sizes. `paper` calibrations exist in tacit to repeat
the papers' experiments, and always carry the certificate of what they really give.

{claims}

In every row one person's contribution is replaced by any other (replace-one). Download {{download}}`what differs
between two neighbors, definition, unit and command of each row as CSV <tables/guarantees.csv>`.

## How to read the certified epsilons

- **true?** follows from the numbers: the certified epsilon at the claimed delta against the claimed one. Pure and
  Gaussian numbers are exact, PLD numbers are upper bounds that agree with an independent accountant's upper and lower
  bounds to 1e-4. Row 3 is a lower bound on delta; row 7 has no finite sensitivity.
- **Row 6** has two answers. If the adversary knows the action of the replaced user, the claim is false. Under the
  paper's own Definition 2 the mechanism draws the action and does not output it: the proof is still wrong, but the
  statement is true at (1, 1e-5). Delta at epsilon 1 is at most {hidden}, by
  joint convexity, maximised numerically over policies (`python -m papers.he2025policy.hidden_actions`).
- **Rows 8 and 9** are about the released counters, as Lemma 5.1 is. Under JDP the adversary sees only actions, which
  follow from the counters: for that no violation is known, and the proof is gone.
- **Row 16** is not refuted. Prop. 14 asks for delta_0 of at least exp(-SA / ln(SA)^8), which is {least} here and
  {figure} in the paper's figures (S = A = 2), so its delta' is above 1 in both; the theorem behind it also asks for
  at most 1/2. It leaves C open: the same noise certifies epsilon {several} with C = {constants}. The printed delta' is
  not inverted for the calibration `paper`, which puts the whole delta into every radius, as in the figures.
- **paper std** is printed after the least repair that lets the mechanism run: rows 1, 2 and 4 send every bit as its own
  message (row 3 is what happens otherwise), trees put user k at leaf k-1.
- **tight std** names the least noise that tacit certifies for the same claim, and better encodings where there are any.
- Another accountant, on a coarser grid, gives all rows to 0.2%; where rows 3, 5 and 16 differ by more, a test proves
  the value of this page.
"""


if __name__ == "__main__":
    (FOLDER / "guarantees.csv").write_text(render_rows(), encoding="utf-8")
    sys.stdout.write(render_guarantees())
