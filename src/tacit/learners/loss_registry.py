"""The learners of adversarial losses by name. One literal table; a miss suggests the nearest name.

Written like every learner, `uc-o-reps:eta=5,cb=0.3,ce=0.1`; options are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tacit.errors import UnknownName, require_real
from tacit.learners.loss_contract import LossLearner, LossRequest
from tacit.learners.uc_o_reps import uc_o_reps
from tacit.learners.uob_lbps import uob_lbps
from tacit.learners.uob_reps import uob_reps

__all__ = ["LOSS_LEARNERS", "LossEntry", "make_loss_learner"]

TUNING: Final[Mapping[str, tuple[str, ...]]] = {"eta": ("number",), "cb": ("number",), "ce": ("number",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossEntry:
    """A row of the table."""

    summary: str
    feedback: Literal["full", "bandit"]
    private: bool
    """Whether it runs under central and local trust; the ancestors do not."""
    known: bool
    """Whether it is told the transitions."""
    build: Callable[[str, LossRequest, Callable[[str, str], float]], LossLearner]
    options: Mapping[str, tuple[str, ...]]


LOSS_LEARNERS: Final[Mapping[str, LossEntry]] = {
    "uc-o-reps": LossEntry(
        summary="adversarial losses, full information: (private) UC-O-REPS (Bai et al. 2024)",
        feedback="full",
        private=True,
        known=False,
        build=uc_o_reps,
        options=TUNING,
    ),
    "uob-lbps": LossEntry(
        summary="adversarial losses, bandit feedback: (private) UOB-LBPS (Bai et al. 2024)",
        feedback="bandit",
        private=True,
        known=False,
        build=uob_lbps,
        options={**TUNING, "radius": ("number",)},
    ),
    "o-reps": LossEntry(
        summary="adversarial losses, full information, known transitions: O-REPS (Zimin and Neu 2013), no privacy",
        feedback="full",
        private=False,
        known=True,
        build=uc_o_reps,
        options={"eta": ("number",)},
    ),
    "uob-reps": LossEntry(
        summary="adversarial losses, bandit feedback: UOB-REPS (Jin et al. 2020), no privacy",
        feedback="bandit",
        private=False,
        known=False,
        build=uob_reps,
        options=TUNING,
    ),
}


def make_loss_learner(name: str, request: LossRequest) -> LossLearner:
    """Build the learner of this name."""
    if name not in LOSS_LEARNERS:
        raise UnknownName("learner of adversarial losses", name, LOSS_LEARNERS)
    entry = LOSS_LEARNERS[name]
    for option in request.options:
        if option not in entry.options:
            raise UnknownName(f"option of learner {name}", option, entry.options)

    def read(option: str, text: str) -> float:
        return require_real(f"{name}:{option}", text, low=0.0, high=math.inf, open_low=option == "eta")

    return entry.build(name, request, read)
