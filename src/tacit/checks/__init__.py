"""Attacks on every guarantee: empirical lower bounds on epsilon, beside what was claimed and what is certified.

    audit_mechanism    one noise primitive under its worst pair of neighbours
    audit_privatizer   everything that a privatizer releases
    audit_messages     the transcript of a shuffled batch
    audit_learner      a whole learner: white-box on the releases, black-box on the policies
    examine            one planted bug, and who catches it

Every one of them returns a `Finding` (or several): claimed, certified and attacked epsilon, confidence and verdict.
"""

from __future__ import annotations

from tacit.checks.attack import Finding
from tacit.checks.learners import audit_learner
from tacit.checks.mechanisms import audit_mechanism
from tacit.checks.messages import audit_messages
from tacit.checks.mutations import examine
from tacit.checks.record import load_audit
from tacit.checks.views import audit_privatizer

__all__ = [
    "Finding",
    "audit_learner",
    "audit_mechanism",
    "audit_messages",
    "audit_privatizer",
    "examine",
    "load_audit",
]
