"""Planted bugs: what a mutation is, and how a twin of something correct is made. Never use what is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, Trust
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape

__all__ = ["SHAPE", "WATCHMEN", "Mutation", "Watchman", "bug", "claim_of", "configured", "twin"]

Watchman = Literal["accountant", "conformance", "audit"]
WATCHMEN: Final[tuple[Watchman, ...]] = ("accountant", "conformance", "audit")
SHAPE: Final = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A planted bug, or what it was planted in."""

    what: str
    """What is wrong, in a sentence."""
    plant: Callable[[], Any]
    """A privatizer, or a `Leak`."""
    expected: tuple[Watchman, ...]
    """Who must catch it; others may, too."""
    rules: tuple[str, ...] = ()
    """The rules of the conformance suite of which one must fire, if that suite must catch it."""
    secure: bool = False
    """Whether the bug is in the path of noise from the operating system."""


def bug(
    what: str, plant: Callable[[], Any], *expected: Watchman, rules: tuple[str, ...] = (), secure: bool = False
) -> Mutation:
    """A row of the table; with rules, the conformance suite is expected to catch it."""
    watchmen: tuple[Watchman, ...] = ("conformance", *expected) if rules else expected
    return Mutation(what=what, plant=plant, expected=watchmen, rules=rules, secure=secure)


def configured(trust: Trust, mechanism: str, **changes: Any) -> Any:
    """A correct, small privatizer of counts; the shuffled one has so few noise bits that integers would tell."""
    shuffled = trust == "shuffle"
    request: dict[str, Any] = {
        "trust": trust,
        "shape": SHAPE,
        "episodes": 40 if shuffled else 16,
        "epsilon": 3.0 if shuffled else 1.0,
        "delta": 1e-5 if shuffled else 0.0,
        "calibration": None,
        "mechanism": mechanism,
        "users_per_batch": 20 if shuffled else 1,
    }
    return make_privatizer(PrivacyRequest(**(request | changes)))


def claim_of(trust: Trust, epsilon: float, delta: float) -> PrivacyClaim:
    """The customary claim of a trust model."""
    return PrivacyClaim(
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS[trust][0],
    )


def twin(kind: type, original: Any, **changes: Any) -> Any:
    """The same fields in another class."""
    given = {field.name: getattr(original, field.name) for field in fields(original) if field.init}
    return kind(**given | changes)
