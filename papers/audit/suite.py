"""Everything that can be attacked, as a list of rows; run in their order, written down one by one.

    rows           trials of --trials N       what is drawn in a trial
    mechanisms     N                          one release of a few counters, vectorised
    privatizers    N/10                       every release of a few users, through the release kernel
    messages       N/250                      every message of a batch
    learners       N/100                      a whole run of a learner

The false-alarm rate is that of the whole table, which has `PLACES` places: each row gets an equal share, and rows that
join later change nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from papers.audit.release_rows import AS_PRINTED, release_rows
from papers.audit.rows import Row, Subject
from papers.fingerprint import fingerprint_of, privatizer_words
from papers.revisions import learner_revision
from tacit.accounting.claims import Trust
from tacit.audit.attack import Finding
from tacit.audit.learners import attack_learner, learner_target, shown_learner
from tacit.protocol import Constants
from tacit.runs.assemble import Assembled
from tacit.runs.config import parse_learner

__all__ = ["AS_PRINTED", "PLACES", "alarming", "all_rows", "learner_row"]

PLACES: Final = 200
"""Rows among which the false-alarm rate is shared."""

LEARNERS: Final[tuple[tuple[str, Trust, str | None], ...]] = (
    ("ucbvi", "central", None),
    ("ucbvi", "local", "oue"),
    ("ucbvi", "shuffle", None),
    ("psrl", "central", "kary-tree"),
    ("dp-ucbvi", "central", None),
    ("private-ucb-vi", "central", "laplace-tree"),
    ("private-ucb-po", "central", "batched"),
    ("pucb", "central", "laplace-tree"),
    ("ldp-obi", "local", "laplace"),
    ("ldp-psrl", "local", "laplace"),
    ("sdp-pe", "shuffle", None),
    ("sdp-pe-plus", "shuffle", None),
    ("sdp-pe-plus", "central", None),
    ("dp-pg", "central", None),
    ("dp-npg", "central", None),
    ("dp-trpo", "central", None),
    ("dp-ppo", "central", None),
    ("dp-pg:policy=neural,hidden=2", "central", None),
    ("uc-o-reps", "central", None),
    ("uc-o-reps", "local", None),
    ("uob-lbps", "central", None),
    ("uob-lbps", "local", None),
    ("o-reps", "central", None),
    ("o-reps", "local", None),
    ("uob-lbps:transitions=known", "central", None),
    ("uob-lbps:transitions=known", "local", None),
    ("bucb", "central", None),
    ("bucb", "central", "batched"),
    ("bucb", "shuffle", None),
    ("ldp-rts", "local", None),
)
"""Learner, trust model, mechanism."""

VALID: Final[tuple[tuple[str, Trust], ...]] = (("bucb", "central"), ("bucb", "shuffle"))
"""Learner and trust model with bands that provably contain V*."""

SPARSE: Final = "riverswim:states=3,horizon=4"
"""A world that declares its support, with steps enough for two users to part."""


def all_rows(epsilon: float, delta: float) -> dict[str, Row]:
    """Every row of `python -m papers audit` for this claim; what can be pure claims delta = 0.

    >>> rows = all_rows(1.0, 1e-6)
    >>> len(rows) > 50, "mechanism laplace" in rows, "learner sdp-pe shuffle" in rows
    (True, True, True)
    """
    rows = dict(release_rows(epsilon, delta))
    for name, trust, mechanism in LEARNERS:
        pure = trust == "local" or mechanism in ("laplace-tree", "kary-tree")
        words = f"learner {name} {trust}" + ("" if mechanism is None else f" {mechanism}")
        rows[words] = learner_row(name, trust, epsilon, 0.0 if pure else delta, mechanism=mechanism)
    for name, trust in VALID:
        rows[f"learner {name} {trust} valid"] = learner_row(name, trust, epsilon, delta, constants="valid")
    for name, trust in VALID:
        asked: dict[str, Any] = {"settings": {"support": "declared"}, "environment": SPARSE}
        rows[f"learner {name} {trust} support"] = learner_row(name, trust, epsilon, delta, **asked)
    return rows


def learner_row(
    learner: str, trust: str, epsilon: float, delta: float, *, constants: Constants | None = None, **asked: Any
) -> Row:
    """A whole learner; `asked` as in `learner_target`."""
    shown = shown_learner(learner, constants, asked.get("settings"))

    def subject() -> Subject:
        made = learner_target(learner, trust=trust, epsilon=epsilon, delta=delta, constants=constants, **asked)
        if isinstance(made, Assembled):
            return Subject(attacked=made, words=fingerprint_of(made, noise=False))
        name, options = parse_learner(learner)
        return Subject(attacked=made, words=f"{learner_revision(name, options, '')} | {privatizer_words(made)}")

    return Row(kind="learner", subject=subject, attack=partial(attack_learner, shown))


def alarming(findings: tuple[Finding, ...] | list[Finding]) -> Iterator[Finding]:
    """The findings that nobody expects: a refuted certificate, or a refuted claim that no paper printed."""
    for finding in findings:
        expected = finding.calibration == AS_PRINTED or (
            finding.calibration == "paper" and finding.verdict == "claim refuted"
        )
        if finding.verdict != "holds" and not expected:
            yield finding
