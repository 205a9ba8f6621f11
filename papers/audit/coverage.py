"""Who is attacked where: every learner under every trust model, and every option of a run or of a learner.

A learner without rows of its own releases what another row attacks: its privatizer is equal to that one's, field by
field. An option names the rows that attack what it changes, or says why nothing that is released depends on it. Tests
compare the privatizers and fail where a learner, an option or a query of the tables is missing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tacit.accounting.claims import Trust

__all__ = ["LEARNER_OPTIONS", "RUN_OPTIONS", "SAME", "Covered"]


class Covered(NamedTuple):
    """Why an option needs no more rows."""

    why: str
    rows: tuple[str, ...] = ()
    """What attacks it; none where no release depends on it."""


SUBSETS: Final = "privatizer local subset tight"
STREAM: Final = "privatizer central factorization tight"
BATCHES: Final = "learner ucbvi shuffle"
SAME: Final[Mapping[tuple[str, Trust], str]] = {
    ("ldp-obi", "central"): STREAM,
    ("ldp-obi", "shuffle"): BATCHES,
    ("dp-ucbvi", "shuffle"): BATCHES,
    ("dp-ucbvi", "local"): SUBSETS,
    ("private-ucb-vi", "shuffle"): BATCHES,
    ("private-ucb-vi", "local"): SUBSETS,
    ("private-ucb-po", "shuffle"): BATCHES,
    ("private-ucb-po", "local"): SUBSETS,
    ("pucb", "shuffle"): BATCHES,
    ("pucb", "local"): SUBSETS,
    ("psrl", "shuffle"): BATCHES,
    ("psrl", "local"): SUBSETS,
    ("bucb", "central"): "learner bucb central",
    ("bucb", "shuffle"): "learner bucb shuffle",
    ("rlsvi", "central"): "learner bucb central",
    ("rlsvi", "shuffle"): "learner bucb shuffle",
    ("uob-reps:transitions=known", "central"): "learner uob-lbps:transitions=known central",
    ("uob-reps:transitions=known", "local"): "learner uob-lbps:transitions=known local",
    ("uc-o-reps:transitions=known", "central"): "learner o-reps central",
    ("uc-o-reps:transitions=known", "local"): "learner o-reps local",
}
"""Learners without rows of their own: the row that attacks an equal privatizer."""

TWICE: Final = (
    *(f"privatizer local {name} two reports" for name in ("subset", "laplace", "rr", "bandit losses")),
    *(f"privatizer central {name} two reports" for name in ("factorization", "kary-tree", "bandit losses")),
    *("privatizer shuffle binomial two reports", "privatizer gradient two reports tight"),
)
DECLARED: Final = (
    *(f"privatizer local {name} declared support" for name in ("subset", "laplace", "rr")),
    *(f"privatizer central {name} declared support" for name in ("factorization", "kary-tree")),
    *("privatizer shuffle binomial declared support", "learner bucb central support", "learner bucb shuffle support"),
)
BUDGETED: Final = ("learner bucb central", "learner bucb shuffle", "learner ldp-rts local")
PUBLIC: Final = "public, and fixed before the first user comes"
AFTER: Final = "post-processing of what is released"

RUN_OPTIONS: Final[Mapping[str, Covered]] = {
    "environment": Covered("only its sizes and its declared support decide a release"),
    "learner": Covered("rows of learners, or of an equal privatizer"),
    "episodes": Covered(PUBLIC),
    "seeds": Covered(PUBLIC),
    "constants": Covered(AFTER, ("learner bucb central valid", "learner bucb shuffle valid")),
    "z": Covered(AFTER),
    "trust": Covered("rows of every trust model"),
    "epsilon": Covered("the claim"),
    "delta": Covered("the claim"),
    "calibration": Covered("rows of both calibrations", ("privatizer local laplace paper",)),
    "mechanism": Covered("a row for every mechanism of the table", (STREAM, SUBSETS)),
    "batch": Covered(PUBLIC),
    "checkpoints": Covered("when the simulator measures"),
    "allow_large_delta": Covered("the claim"),
    "adversary": Covered("who chooses losses; users bring them, and they are attacked", ("learner uc-o-reps central",)),
    "estimator": Covered(AFTER),
    "honest_fraction": Covered(
        "the noise of the others is known: what is left is a batch of the honest alone, with equal events",
        ("privatizer shuffle binomial tight",),
    ),
    "public_losses": Covered("", ("privatizer central public losses tight", "privatizer local public losses tight")),
    "reports_per_person": Covered("", TWICE),
    "baseline": Covered(PUBLIC, BUDGETED),
    "loss_budget": Covered("decides who follows which policy, from releases: equal noise and events", BUDGETED),
    "stage_loss_budget": Covered("the same for a stage", BUDGETED),
    "support": Covered("", DECLARED),
    "sees": Covered(
        "features are the states of the release: equal to that of a world of their number",
        ("learner bucb central", "learner bucb shuffle", STREAM, SUBSETS),
    ),
    "value_users": Covered("", ("trial central one arm", "trial shuffle one arm", "trial local one arm")),
    "start": Covered(
        "the release of the log is the one of running totals; the run has less epsilon",
        ("privatizer central batched tight", "learner bucb central"),
    ),
    "because": Covered("words"),
    "by_size": Covered("words"),
    "stated": Covered("what a file says of its world: no option of a new run"),
}
"""Every option of a run."""

GRADIENTS: Final = "learner dp-pg central"
LEARNER_OPTIONS: Final[Mapping[str, Covered]] = {
    **dict.fromkeys(
        ("replan", "bonus", "alpha", "failure_prob", "schedule", "rows", "prior", "sampling"), Covered(AFTER)
    ),
    **dict.fromkeys(("C", "C1", "growth", "first", "forget", "share_across_steps", "start", "explore"), Covered(AFTER)),
    **dict.fromkeys(("step", "barrier", "damping", "kl", "hidden", "features", "eta", "cb", "ce"), Covered(AFTER)),
    "time_homogeneous": Covered(
        "",
        (
            "privatizer local subset pooled",
            "privatizer central factorization pooled",
            "privatizer shuffle binomial pooled",
        ),
    ),
    "rewards": Covered("squares of rewards", ("learner ldp-psrl local laplace", "privatizer local laplace squares")),
    "variant": Covered("printed noise", ("privatizer shuffle batch paper 2024", "privatizer shuffle batch paper 2025")),
    "policy": Covered(
        "",
        (
            *(GRADIENTS, "learner dp-pg:policy=neural,hidden=2 central"),
            *("privatizer gradient linear tight", "privatizer gradient doses tight"),
        ),
    ),
    "clip": Covered("", ("privatizer gradient clipped tight",)),
    "baseline": Covered("", ("privatizer gradient released baseline tight",)),
    "epochs": Covered("", ("privatizer gradient two epochs tight", "learner dp-ppo central")),
    "radius": Covered("a bound of losses, or of ratios within the clipped gradient", ("learner dp-ppo central",)),
    "rate": Covered("", ("privatizer gradient Poisson sample tight",)),
    "transitions": Covered(
        "",
        tuple(
            f"privatizer {trust} {feedback} losses, known transitions tight"
            for trust in ("local", "central")
            for feedback in ("full", "bandit")
        ),
    ),
}
"""Every option of a learner."""
