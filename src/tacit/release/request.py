"""The request for a privatizer: query, trust model and claim, and what each kind of query needs besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tacit.accounting.claims import OUTPUTS, Output, PrivacyClaim, PrivacyUnit, Trust
from tacit.errors import InvalidInput, NotSupported, require
from tacit.protocol import Calibration, Query, Totals
from tacit.release.gradient_noise import GradientSpec
from tacit.release.loss_noise import Feedback
from tacit.release.shuffle.labels import PaperVariant

ONE_REPORT: Final = PrivacyUnit(reports=1, per_stage=1)
"""Everybody reports once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """The request for a privatizer; every field is public."""

    trust: Trust
    shape: Any
    """A CountShape for totals and batches, a LayeredShape for losses, a GradientShape for gradients."""
    episodes: int
    epsilon: float | None
    delta: float | None
    """0 is pure differential privacy; there is no default (None only without a trust model)."""
    calibration: Calibration | None
    """None means `tight`."""
    mechanism: str | None
    """A mechanism of the trust model, or a privatizer of another package; None: the best mechanism."""
    users_per_batch: int
    allow_large_delta: bool = False
    honest_fraction: float = 1.0
    """Trust shuffle: the share of a batch's devices whose noise is counted on."""
    unit: PrivacyUnit = ONE_REPORT
    """Whom the claim protects: a person with so many reports, at most one per batch (or, without batches, per user)."""
    asks: type[Query] = Totals
    """The queries that are to be answered."""
    whole: bool = False
    """Totals, local trust: whether the noise is whole numbers, which devices draw exactly: the stages of studies."""
    squares: bool = False
    """Totals: whether the learner needs squares of rewards (LDP-PSRL); only local trust charges for them."""
    variant: PaperVariant = "2025"
    """Single batches: whose printed noise the calibration `paper` means."""
    feedback: Feedback | None = None
    """Losses: of all pairs, or of those that a user met."""
    public_losses: bool = False
    """Losses: whether full-information tables are declared to be nobody's data."""
    known_transitions: bool = False
    """Losses: whether the learner knows the transitions, so that no counts are released."""
    gradient: GradientSpec | None = None
    """Gradients: what they are made of."""

    @property
    def calibrated(self) -> Calibration:
        """The calibration that was asked for, `tight` or `paper`."""
        found: Calibration = self.calibration or "tight"
        require(found in ("tight", "paper"), "calibration must be 'tight' or 'paper'", found)
        return found


def make_claim(request: PrivacyRequest, output: Output | None = None) -> PrivacyClaim:
    """The claim that a request amounts to: its unit, replace-one, the customary output of the trust model."""
    if request.epsilon is None:
        raise InvalidInput(f"trust '{request.trust}' needs an epsilon; for instance epsilon 1")
    if request.delta is None:
        raise InvalidInput(
            f"trust '{request.trust}' needs a delta, which has no default; 0 is pure differential privacy, else well "
            "below 1/K, for instance 1e-6"
        )
    if not request.unit.one and request.calibrated == "paper":
        raise NotSupported("the papers print guarantees for one trajectory; use calibration 'tight' for several")
    if request.unit.per_stage > 1:
        raise NotSupported(
            f"noise is calibrated for at most one report of a person per stage, not for {request.unit.per_stage}; "
            "use one report per batch and person"
        )
    return PrivacyClaim(
        trust=request.trust,
        epsilon=request.epsilon,
        delta=request.delta,
        unit=request.unit,
        neighbours="replace-one",
        output=OUTPUTS[request.trust][0] if output is None else output,
        allow_large_delta=request.allow_large_delta,
    )
