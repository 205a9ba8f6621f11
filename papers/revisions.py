"""The registry of algorithm revisions: what has ever changed the numbers of a run, and why; one literal table per part.

A revision is one more than the number of changes that are listed. Whoever changes a number that the same configuration
and seed give (another noise, another draw, another constant) adds a line here; then every committed result that used
the part is known to be stale (`papers.staleness`). Refactorings that leave the goldens as they are add nothing.
The book begins with version 0.4.0; what changed before is told by the changelog and by `results/README.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tacit.learners.table import LEARNERS as LEARNER_ROWS
from tacit.noise.table import MECHANISMS as NOISES
from tacit.protocol import Query, Totals
from tacit.release.table import PRIVATIZERS as FACTORIES
from tacit.released.batches import BatchQuery
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.released.weighted_returns import WeightQuery

__all__ = [
    "ANSWERS", "LEARNERS", "MECHANISMS", "PRIVATIZERS", "RULES", "SUPPORTED", "WITH_MECHANISM", "WORLDS",
    "learner_revision", "revision_of", "world_revision",
]  # fmt: skip

Changes = tuple[str, ...]

LEARNERS: Final[dict[str, Changes]] = dict.fromkeys(LEARNER_ROWS, ())
"""Every registered learner; a change of its numbers is entered as `LEARNERS["name"] = ("version: what and why",)`."""

SAMPLED: Final = "0.5.0: counts of users who send one slot are weighed; they were taken for noisier ones"
WITH_MECHANISM: Final[Mapping[tuple[str, str], Changes]] = {
    (learner, mechanism): (SAMPLED,)
    for learner in ("dp-ucbvi", "private-ucb-po", "ldp-psrl:prior=noise-aware")
    for mechanism in ("subset", "oue")
}
"""Changes of a learner, or of one with an option, that concern its runs with one mechanism; its other goldens stay."""

EQ5: Final = "0.9.0: argmax of the uncapped Q, and transition widths at the last step, as Eq. 5 has them"
WITH_OPTION: Final[Mapping[str, Changes]] = {
    "ldp-obi:constants=theory": (EQ5,),
    "ldp-obi:constants=printed": (EQ5,),
}
"""Changes of a learner with an option (or constants), whatever the mechanism; its other goldens stay."""

MECHANISMS: Final[dict[str, Changes]] = dict.fromkeys(NOISES, ())

ANSWERS: Final[Mapping[type[Query], str]] = {
    Totals: "totals",
    BatchQuery: "batches",
    LossQuery: "losses",
    SoftmaxQuery: "gradients",
    DoseQuery: "gradients",
    ReturnQuery: "returns",
    MomentQuery: "moments",
    WeightQuery: "weighted returns",
}
"""What a privatizer answers, in a word."""


def _privatizers() -> Iterator[str]:
    """The name of every kind of privatizer: what it answers, the trust model and the calibration."""
    for asked, trust in FACTORIES:
        calibrations = ("",) if trust == "none" else (", tight", ", paper")
        yield from (f"{ANSWERS[asked]}, {trust}{calibration}" for calibration in calibrations)


TREES: Final = "0.4.0: the trees of counts are no longer padded, as printed"
PRIVATIZERS: Final[dict[str, Changes]] = dict.fromkeys(_privatizers(), ()) | {
    "totals, central, paper": (TREES,),
    "losses, central, paper": (TREES,),
}

DEALT: Final = "0.6.0: simulated people are dealt their places in small worlds too"
SUPPORTED: Final[Mapping[str, Changes]] = {"subset": (DEALT,), "oue": (DEALT,)}
"""Changes of a mechanism that concern runs over a declared support; its other goldens stay."""

EIGHTH: Final = "0.7.0: one policy in eight is optimistic for the bands; one in four was"
RULES: Final[Mapping[str, Changes]] = {"practical": (), "theory": (), "printed": (), "valid": (EIGHTH,), "none": ()}
"""The constants of confidence widths; the practical rule is one for all learners (`tacit.planning.widths`)."""

WORLDS: Final[Mapping[str, Changes]] = {
    "tacit/Titration-v0": (
        "0.6.0: single precision, exact insulin, steps of Kutta; glucose within 0.01 mg/dL of what it was",
        "0.6.0: stomach and gut in steps of half a minute; glucose within 0.01 mg/dL of what it was",
    ),
}
"""Simulated worlds by Gymnasium id; those whose numbers never changed are not listed, and no fingerprint names them."""


def learner_revision(name: str, options: Mapping[str, str], mechanism: str) -> str:
    """The revision of a learner with these options in a run with this mechanism, written behind its name.

    >>> learner_revision("dp-ucbvi", {}, "factorization"), learner_revision("dp-ucbvi", {}, "subset")
    ('dp-ucbvi r1', 'dp-ucbvi r2')
    >>> learner_revision("ldp-psrl", {"prior": "noise-aware"}, "subset")
    'ldp-psrl r2'
    >>> learner_revision("ldp-obi", {"constants": "theory"}, "laplace")
    'ldp-obi r2'
    """
    names = (name, *(f"{name}:{key}={value}" for key, value in options.items()))
    tables = (WITH_OPTION.get(known, ()) + WITH_MECHANISM.get((known, mechanism), ()) for known in names)
    own = tuple(change for changes in tables for change in changes)
    return revision_of({**LEARNERS, name: LEARNERS[name] + own} if own else LEARNERS, name)


def world_revision(source: str) -> tuple[str, ...]:
    """The revision of a simulated world, written behind its id; nothing for worlds whose numbers never changed.

    >>> world_revision("papers.worlds:tacit/Titration-v0"), world_revision("CartPole-v1")
    (('tacit/Titration-v0 r3',), ())
    """
    name = source.rpartition(":")[2]
    return (revision_of(WORLDS, name),) if name in WORLDS else ()


def revision_of(table: Mapping[str, Changes], name: str) -> str:
    """The revision of a part, written behind its name; what other packages add has none here.

    >>> revision_of(LEARNERS, "ucbvi"), revision_of(PRIVATIZERS, "totals, central, paper")
    ('ucbvi r1', 'totals, central, paper r2')
    >>> revision_of(LEARNERS, "a learner of another package")
    'a learner of another package (unregistered)'
    """
    if name not in table:
        return f"{name} (unregistered)"
    return f"{name} r{1 + len(table[name])}"
