"""Requests for gradients of batches, their parts side by side: what experiments, audits and tests ask for."""

from __future__ import annotations

import math

from tacit.accounting.claims import PrivacyUnit, Trust
from tacit.protocol import Calibration
from tacit.release.gradient_noise import GradientSpec
from tacit.release.request import ONE_REPORT, PrivacyRequest
from tacit.released.gradients import DoseQuery, GradientShape, SoftmaxQuery


def gradient_request(
    *,
    shape: GradientShape,
    trust: Trust,
    epsilon: float | None,
    delta: float | None,
    calibration: Calibration,
    users_per_batch: int,
    clip: float | None,
    tabular: bool,
    baseline: float | None = 0.0,
    epochs: int = 1,
    rate: float = 1.0,
    surrogate: float = math.inf,
    low: float = 0.0,
    high: float = 1.0,
    mechanism: str | None = None,
    allow_large_delta: bool = False,
    unit: PrivacyUnit = ONE_REPORT,
) -> PrivacyRequest:
    """The request for gradients of batches, its parts side by side: a batch is all that a privatizer has to know of."""
    return PrivacyRequest(
        asks=SoftmaxQuery if shape.num_actions > 0 else DoseQuery,
        trust=trust,
        shape=shape,
        episodes=users_per_batch,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,
        mechanism=mechanism,
        users_per_batch=users_per_batch,
        allow_large_delta=allow_large_delta,
        unit=unit,
        gradient=GradientSpec(
            clip=clip,
            tabular=tabular,
            low=low,
            high=high,
            baseline=baseline,
            epochs=epochs,
            rate=rate,
            surrogate=surrogate,
        ),
    )
