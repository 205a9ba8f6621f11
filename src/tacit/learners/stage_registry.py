"""The learners that come in stages, by name: each plans batches of its own and never sees running totals.

They run under trust `shuffle` (every batch through the shuffler) and `none` (the same batches, exact).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from tacit.errors import InvalidInput, UnknownName
from tacit.learners.sdp_bucb import SDPBUCB
from tacit.learners.sdp_pe import SDPPE, Variant
from tacit.learners.sdp_pe_plus import SDPPEPlus
from tacit.protocol import Constants, Learner
from tacit.released.batches import BatchNoise, PlannedBatch
from tacit.released.counts import CountShape

__all__ = ["STAGE_LEARNERS", "StageEntry", "StageLearner", "StageRequest", "make_stage_learner"]


class StageLearner(Learner[Any, Any, Any], Protocol):
    """A learner with a schedule: what each of its batches releases is fixed before the first user comes."""

    batches: tuple[PlannedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRequest:
    """What such a learner may know before it starts: public sizes, the user's choices and the noise of batches."""

    shape: CountShape
    episodes: int
    constants: Constants | None
    """None: the learner's own default."""
    z: float | None
    noise: BatchNoise
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEntry:
    """A row of the table."""

    summary: str
    build: Callable[[StageRequest], StageLearner]
    options: Mapping[str, tuple[str, ...]]
    """Option -> values it takes, the default first."""


def _sdp_pe_plus(request: StageRequest) -> StageLearner:
    _practical_only("sdp-pe-plus", request)
    return SDPPEPlus(shape=request.shape, episodes=request.episodes, noise=request.noise, z=request.z)


def _sdp_pe(request: StageRequest) -> StageLearner:
    return SDPPE(
        shape=request.shape,
        episodes=request.episodes,
        noise=request.noise,
        variant=cast("Variant", request.options.get("variant", "2025")),
        constants=request.constants or "practical",
        z=request.z,
    )


def _sdp_bucb(request: StageRequest) -> StageLearner:
    _practical_only("sdp-bucb", request)
    return SDPBUCB(shape=request.shape, episodes=request.episodes, noise=request.noise, z=request.z)


def _practical_only(name: str, request: StageRequest) -> None:
    if request.constants not in (None, "practical"):
        raise InvalidInput(f"no theorem gives constants for {name}; use constants 'practical', or sdp-pe with 'theory'")


STAGE_LEARNERS: Final[Mapping[str, StageEntry]] = {
    "sdp-pe": StageEntry(
        summary="policy elimination over an explicit set, as published (Bai et al. 2024, 2025)",
        build=_sdp_pe,
        options={"variant": ("2025", "2024")},
    ),
    "sdp-pe-plus": StageEntry(
        summary="policy elimination in polynomial time, the shuffle learner to use",
        build=_sdp_pe_plus,
        options={},
    ),
    "sdp-bucb": StageEntry(
        summary="optimism in shuffled batches, with hallucinated visits",
        build=_sdp_bucb,
        options={},
    ),
}


def make_stage_learner(name: str, request: StageRequest) -> StageLearner:
    """Build such a learner by its name; a miss suggests the nearest option."""
    if name not in STAGE_LEARNERS:
        raise UnknownName("learner", name, STAGE_LEARNERS)
    entry = STAGE_LEARNERS[name]
    for option, value in request.options.items():
        if option not in entry.options:
            raise UnknownName(f"option of learner {name}", option, entry.options)
        if value not in entry.options[option]:
            raise InvalidInput(f"{name}:{option} must be one of {', '.join(entry.options[option])}, got {value!r}")
    return entry.build(request)
