"""What a learner's page shows: the return of every stage, the standing against the baseline, the policy by name, and
what changed since the last stage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tacit.study.policy_history import StagePolicy, changes
from tacit.study.stage_summaries import StageSummary
from tacit.study.study import Study
from tacit.study.trial import is_trial, read_trial

STATES: Final = 60
STEPS: Final = 24
CHANGES: Final = 60
"""So much of a policy fits on a page; the rest is counted."""


def trial(study: Study) -> dict[str, Any] | None:
    """The verdict of a study that is a trial, as shares of the declared range; None for every other study."""
    if not is_trial(study.design):
        return None
    found = read_trial(study)
    if found is None:
        return {"arms": list(study.design.actions), "line": None}
    return {"arms": list(found.arms), "line": found.line}


def standing(study: Study) -> dict[str, Any] | None:
    """What the releases prove against what people do already, in the world's unit; None: there is no baseline."""
    design = study.design
    if design.baseline is None:
        return None
    found = study.standing()
    if found is None:
        return {"proven": None}
    low, high = (float(bound) for bound in design.rewards)
    least, largest = design.horizon * low, design.horizon * (high - low)
    proven = {
        "baseline": [least + largest * share for share in found.baseline],
        "gain": None if found.gain is None else [largest * share for share in found.gain],
        "lost": largest * max(0.0, found.lost),
        "budget": largest * found.budget,
        "spent": max(0.0, found.lost) / found.budget,
    }
    return {"proven": proven}


def returns(found: Sequence[StageSummary]) -> list[dict[str, Any]]:
    """The mean return of every release, with an interval that includes the privacy noise."""
    return [
        {
            "stage": reading.stage,
            "question": reading.question,
            "people": reading.people,
            "use": reading.use,
            "why": reading.why,
            **_numbers(reading),
        }
        for reading in found
    ]


def _numbers(reading: StageSummary) -> dict[str, float | None]:
    got = reading.returned
    if got is None or not math.isfinite(got.high):
        return {"mean": None if got is None else got.mean, "low": None, "high": None, "noise": None}
    return {"mean": got.mean, "low": got.low, "high": got.high, "noise": got.noise_std}


def policy_table(found: Sequence[StagePolicy]) -> dict[str, Any] | None:
    """The policy of the last stage by name; cells that changed since the stage before say what they were."""
    if not found:
        return None
    last = found[-1]
    H, S = last.shares.shape[:2]
    before = {} if len(found) < 2 else {(one.step, one.state): one.before for one in changes(found[-2], last)}
    steps = min(H, STEPS)
    rows = [
        {
            "state": state,
            "cells": [{"words": last.words(h, s), "was": before.get((h, state))} for h in range(steps)],
        }
        for s, state in enumerate(last.states[:STATES])
    ]
    return {
        "stage": last.stage,
        "asks": last.asks,
        "killed": last.killed,
        "steps": list(range(steps)),
        "rows": rows,
        "more": (max(0, S - STATES), max(0, H - STEPS)),
    }


def changed(found: Sequence[StagePolicy]) -> dict[str, Any] | None:
    """What is done otherwise than in the stage before."""
    if len(found) < 2:
        return None
    before, after = found[-2:]
    rows = changes(before, after)
    places = after.shares.shape[0] * after.shares.shape[1]
    return {
        "from": before.stage,
        "to": after.stage,
        "count": len(rows),
        "places": places,
        "rows": [{"step": row.step, "state": row.state, "was": row.before, "now": row.after} for row in rows[:CHANGES]],
    }
