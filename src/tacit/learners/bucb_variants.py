"""Which BUCB a request amounts to: practical (steps pooled, apart or tested), over a declared support, or valid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tacit.errors import InvalidInput, NotSupported
from tacit.learners.batch_bands import Without
from tacit.learners.bucb import BUCB
from tacit.learners.bucb_valid import ValidBUCB
from tacit.learners.contract import StageRequest
from tacit.learners.tested_bucb import TestedBUCB


def make_bucb(request: StageRequest) -> BUCB:
    """The learner that a request amounts to."""
    start = request.started("bucb")
    common: dict[str, Any] = {
        "shape": request.shape,
        "episodes": request.episodes,
        "noise": request.noise,
        "z": request.z,
        "pooled": request.options.get("pooled", "false") in ("true", "weighed"),
        "weighed": request.options.get("pooled") == "weighed",
        "sizes": request.sizes,
    }
    tested = request.options.get("pooled") == "tested"
    if tested and (request.constants == "valid" or request.shape.support is not None or request.budget is not None):
        raise NotSupported(
            "bucb:pooled=tested asks the counts by the practical rule, over all counters and without a loss budget; "
            "use pooled=true or pooled=false with valid bands, a declared support or a budget"
        )
    if request.constants == "valid":
        if request.shape.support is not None:
            raise NotSupported("valid bands know no declared support; leave it out, or use constants 'practical'")
        if start is not None:
            raise NotSupported(
                "bucb starts from a baseline, and keeps to a loss budget, by the practical rule only; use constants "
                "'practical'"
            )
        return ValidBUCB(without=cast("Without", request.options.get("without", "nothing")), **common)
    if "without" in request.options:
        raise InvalidInput("bucb:without leaves a part of valid bands out; use constants 'valid' with it")
    request.practical_only("bucb")
    if start is not None and request.shape.support is not None:
        raise NotSupported(
            "bucb starts from a baseline, and keeps to a loss budget, on all counters only; leave the declared support "
            "out"
        )
    return (TestedBUCB if tested else BUCB)(start=start, **common)


def make_sdp_bucb(request: StageRequest) -> BUCB:
    """`sdp-bucb`, the name that bucb had under shuffle trust: bucb by the practical rule with steps apart."""
    return make_bucb(replace(request, name="bucb"))
