"""What can be pointed at a privatizer or a learner: conformance and attacks.

    check_privatizer   every rule of the contract, for every kind of privatizer
    check_learner      every rule of the contract, for every kind of learner
    audit_mechanism    one noise primitive under its worst pair of neighbours
    audit_privatizer   everything that a privatizer releases
    audit_messages     the transcript of a shuffled batch
    audit_learner      a whole learner: white-box on the releases, black-box on the policies

Audits return a `Finding` (or several): claimed, certified and attacked epsilon, confidence and verdict.
"""

from __future__ import annotations

from tacit.audit.attack import Finding
from tacit.audit.conformance import check_privatizer
from tacit.audit.learner_rules import check_learner
from tacit.audit.learners import audit_learner
from tacit.audit.mechanisms import audit_mechanism, audit_messages
from tacit.audit.views import audit_privatizer

__all__ = [
    "Finding",
    "audit_learner",
    "audit_mechanism",
    "audit_messages",
    "audit_privatizer",
    "check_learner",
    "check_privatizer",
]
