"""The registry of algorithm revisions: what has ever changed the numbers of a run, and why; one literal table per part.

A revision is one more than the number of changes that are listed. Whoever changes a number that the same configuration
and seed give (another noise, another draw, another constant) adds a line here; then every committed result that used
the part is known to be stale (`tacit.papers.currency`). Refactorings that leave the goldens as they are add nothing.
The book begins with version 0.4.0; what changed before is told by the changelog and by `results/README.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["LEARNERS", "MECHANISMS", "PRIVATIZERS", "RULES", "revision_of"]

Changes = tuple[str, ...]

LEARNERS: Final[Mapping[str, Changes]] = {
    "ucbvi": (),
    "ldp-obi": (),
    "dp-ucbvi": (),
    "private-ucb-vi": (),
    "private-ucb-po": (),
    "pucb": (),
    "ldp-psrl": (),
    "ldp-rts": (),
    "psrl": (),
    "sdp-pe": (),
    "sdp-pe-plus": (),
    "sdp-bucb": (),
    "bucb": (),
    "dp-pg": (),
    "dp-npg": (),
    "dp-trpo": (),
    "dp-ppo": (),
    "uc-o-reps": (),
    "uob-lbps": (),
    "o-reps": (),
    "uob-reps": (),
    "uniform": (),
    "optimal": (),
}

MECHANISMS: Final[Mapping[str, Changes]] = {
    "factorization": (),
    "kary-tree": (),
    "gaussian-tree": (),
    "laplace-tree": (),
    "batched": (),
    "batched-factorization": (),
    "binomial": (),
    "subset": (),
    "oue": (),
    "laplace": (),
    "gaussian": (),
    "rr": (),
    "bounded": (),
}

PRIVATIZERS: Final[Mapping[str, Changes]] = {
    "totals, none": (),
    "totals, central, tight": (),
    "totals, central, paper": ("0.4.0: the trees of counts are no longer padded, as printed",),
    "totals, shuffle, tight": (),
    "totals, shuffle, paper": (),
    "totals, local, tight": (),
    "totals, local, paper": (),
    "batches, none": (),
    "batches, central, tight": (),
    "batches, central, paper": (),
    "batches, shuffle, tight": (),
    "batches, shuffle, paper": (),
    "losses, none": (),
    "losses, central, tight": (),
    "losses, central, paper": ("0.4.0: the trees of counts are no longer padded, as printed",),
    "losses, local, tight": (),
    "losses, local, paper": (),
    "gradients, none": (),
    "gradients, central, tight": (),
    "gradients, central, paper": (),
    "returns, none": (),
    "returns, local, tight": (),
    "returns, local, paper": (),
}

RULES: Final[Mapping[str, Changes]] = {"practical": (), "theory": (), "printed": (), "valid": (), "none": ()}
"""The constants of confidence widths; the practical rule is one for all learners (`tacit.planning.widths`)."""


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
