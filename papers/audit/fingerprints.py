"""Fingerprints of an audit: what a row attacked, by which rules and settings, so that only what changed is redone.

    privatizer r1 | totals, central, tight r1: factorization r1 | 8a1f0c2b9d3e | 100,000 trials, seed 0

The rules of the attack, the revisions of what is attacked (`papers.revisions`), a digest of every setting of the
object that is attacked (shape, claim, calibrated noise, schedule), and the settings of the audit. Two equal
fingerprints give equal findings, whichever version made them, except where noise comes from the operating system.
A change of code that changes findings adds a line to a book: to that of the part, or to `ATTACKS` here; goldens guard
the former, a pinned sample of findings (`tests/audit/test_checks_staleness.py`) the latter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, Final

from mutants.loop import Leak
from mutants.planted import Mutation
from papers.audit.rows import Row
from papers.revisions import Changes, revision_of
from tacit.runs.assemble import Assembled

__all__ = ["ATTACKS", "Made", "bug_fingerprint", "digest_of", "row_fingerprint"]

ATTACKS: Final[Mapping[str, Changes]] = {
    "mechanism": (),
    "privatizer": (),
    "messages": (),
    "learner": (),
    "watchmen": (),
}
"""What has changed the findings of rows of each kind, or what the watchmen say of planted bugs, since 0.6.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Which version made an entry of an audit, and the fingerprint of what it was made of."""

    version: str
    fingerprint: str


def digest_of(attacked: Any) -> str:
    """Twelve hexadecimal digits of everything public about what is attacked."""
    public = attacked
    if isinstance(attacked, Assembled):
        public = (attacked.config.to_dict(), attacked.privatizer)
    elif isinstance(attacked, Leak):
        public = attacked.target
    return hashlib.sha256(_said(public).encode()).hexdigest()[:12]


def _said(value: Any) -> str:
    """A value in words: fields that have their default are left out, so that a new option changes no old fingerprint.

    Numbers to six digits: a calibration ends within a tolerance, not at the same bit on every machine.

    >>> from tacit.noise.laplace import Laplace
    >>> _said((Laplace(scale=2 / 3, discrete=True), {"users": 4}))
    "(Laplace(scale=0.666667, discrete=True), {'users': 4})"
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_said(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(_said, value)) + ")"
    if not is_dataclass(value):
        return repr(value)
    told = [
        f"{one.name}={_said(getattr(value, one.name))}" for one in fields(value) if one.repr and _chosen(value, one)
    ]
    return f"{type(value).__name__}({', '.join(told)})"


def _chosen(value: Any, one: Field[Any]) -> bool:
    """Whether a field has another value than its default."""
    default = one.default_factory() if one.default_factory is not MISSING else one.default
    return default is MISSING or repr(getattr(value, one.name)) != repr(default)


def row_fingerprint(row: Row, trials: int, seed: int) -> str:
    """The fingerprint of a row today, in an audit of so many trials."""
    subject, settings = row.subject(), f"{row.trials(trials):,} trials, seed {seed}"
    return " | ".join([revision_of(ATTACKS, row.kind), subject.words, digest_of(subject.attacked), settings])


def bug_fingerprint(mutation: Mutation, seed: int) -> str:
    """The same of a planted bug or of an honest original."""
    subject = mutation.plant()
    words = f"{type(subject).__name__}, {'secure' if mutation.secure else 'seeded'} noise"
    return " | ".join([revision_of(ATTACKS, "watchmen"), words, digest_of(subject), f"seed {seed}"])
