"""Claims, events, composition, calibration, ledger: it sees descriptions, never data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.accounting.calibrate import calibrate, events_of
from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import basic, delta_of, epsilon_of, method_of, parallel
from tacit.accounting.events import (
    ApproximationEvent,
    BinomialEvent,
    BoundedEvent,
    Event,
    Events,
    GaussianEvent,
    LaplaceEvent,
    LatticeEvent,
    PureEvent,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from tacit.accounting.families import Family
from tacit.accounting.ledger import Ledger, Receipt
from tacit.accounting.people import PeopleLedger
from tacit.accounting.units import largest_report_epsilon, worst_exposure
from tacit.renamed import old_names

__all__ = [
    "ApproximationEvent",
    "BinomialEvent",
    "BoundedEvent",
    "Certificate",
    "CertifiedFamily",
    "Event",
    "Events",
    "Family",
    "GaussianEvent",
    "LaplaceEvent",
    "LatticeEvent",
    "Ledger",
    "PeopleLedger",
    "PrivacyClaim",
    "PrivacyUnit",
    "PureEvent",
    "Receipt",
    "SampledGaussianEvent",
    "UnprotectedEvent",
    "basic",
    "calibrate",
    "certify",
    "delta_of",
    "epsilon_of",
    "events_of",
    "largest_report_epsilon",
    "method_of",
    "no_privacy",
    "parallel",
    "worst_exposure",
]


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__, Slack="ApproximationEvent")
