"""The trust models by name, and how each is configured."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.accounting.claims import Trust
from tacit.errors import InvalidInput, UnknownName
from tacit.privatizers.contract import Calibration, CountPrivatizer
from tacit.privatizers.none import Unprotected
from tacit.released.counts import CountShape

__all__ = ["TRUST_MODELS", "PrivacyRequest", "make_privatizer"]

TRUST_MODELS = ("none", "central", "shuffle", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """What the user asked for; every field is public."""

    trust: Trust
    shape: CountShape
    episodes: int
    epsilon: float | None
    delta: float | None
    calibration: Calibration | None
    mechanism: str | None
    users_per_batch: int
    allow_large_delta: bool


def make_privatizer(request: PrivacyRequest) -> CountPrivatizer:
    """Build the privatizer of a trust model, calibrated to the request."""
    if request.trust not in TRUST_MODELS:
        raise UnknownName("trust model", request.trust, TRUST_MODELS)
    if request.trust == "none":
        if request.epsilon is not None or request.delta is not None:
            raise InvalidInput(
                "trust 'none' protects nobody, so epsilon and delta make no sense with it; "
                "choose --trust central, shuffle or local, or leave them out"
            )
        return Unprotected(shape=request.shape)
    raise InvalidInput(f"trust '{request.trust}' is not built yet")
