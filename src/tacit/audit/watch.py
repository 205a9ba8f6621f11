"""Who looks at a configuration: the accountant, the conformance suite and the audit.

    accountant    the certificate of the stated events against the claim
    conformance   the shipped suite `check_privatizer` (for privatizers of counts), by the rules that fire
    audit         an attack on what is released, on the messages, or on what a loop publishes

Conformance rules and attacks alarm on a correct configuration with probability at most `false_alarm` each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tacit.accounting.composition import epsilon_of
from tacit.audit.attack import attack
from tacit.audit.bugs.loop import Leak
from tacit.audit.messages import audit_messages
from tacit.audit.privatizers import audit_privatizer
from tacit.errors import UnknownName
from tacit.privatizers.central import Central
from tacit.privatizers.conformance import NonConformant, check_privatizer
from tacit.privatizers.local import Local
from tacit.privatizers.shuffle.privatizer import Shuffled

__all__ = ["WATCHMEN", "Caught", "Mutation", "Watchman", "examine"]

Watchman = Literal["accountant", "conformance", "audit"]
WATCHMEN: Final[tuple[Watchman, ...]] = ("accountant", "conformance", "audit")

_ACCOUNTANTS_RULE: Final = "certificate"
"""The rule of the conformance suite that asks the accountant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A planted bug."""

    what: str
    """What is wrong, in a sentence."""
    plant: Callable[[], Any]
    """A privatizer, or a `Leak`."""
    expected: tuple[Watchman, ...]
    """Who must catch it; others may, too."""
    rules: tuple[str, ...] = ()
    """The rules of the conformance suite of which one must fire, if that suite must catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What the watchmen said about one configuration."""

    name: str
    what: str
    by: tuple[Watchman, ...]
    details: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"name": self.name, "what": self.what, "by": list(self.by), "details": list(self.details)}


def examine(
    name: str,
    mutation: Mutation,
    *,
    watchmen: Collection[Watchman] = WATCHMEN,
    trials: int = 10_000,
    false_alarm: float = 1e-3,
    seed: int = 0,
    rules: Collection[str] | None = None,
) -> Caught:
    """Let the watchmen look at a configuration; `rules` restricts the conformance suite."""
    for watchman in watchmen:
        if watchman not in WATCHMEN:
            raise UnknownName("watchman", watchman, WATCHMEN)
    subject, found = mutation.plant(), dict[Watchman, str]()
    if isinstance(subject, Leak):
        if "audit" in watchmen:
            judged = attack(subject.target, *subject.view.scores(trials, seed), false_alarm=false_alarm)
            if judged.verdict != "holds":
                found["audit"] = _proof(judged.attacked, judged.certified)
        return _caught(name, mutation, found)
    claim = subject.claim
    if "accountant" in watchmen and (really := epsilon_of(subject.events(), claim.delta)) > claim.epsilon:
        found["accountant"] = f"certifies epsilon {really:.3g} where {claim.epsilon:g} is claimed"
    counting = isinstance(subject, Local | Central | Shuffled)
    if "conformance" in watchmen and counting:
        broken = _broken_rules(subject, false_alarm, seed, rules)
        if _ACCOUNTANTS_RULE in broken and "accountant" in watchmen:
            found.setdefault("accountant", "the certificate is not what the accountant says")
        if others := sorted(broken - {_ACCOUNTANTS_RULE}):
            found["conformance"] = "rules " + ", ".join(others)
    if "audit" in watchmen and counting:
        _attacked(subject, found, trials, false_alarm, seed)
    return _caught(name, mutation, found)


def _attacked(subject: Any, found: dict[Watchman, str], trials: int, false_alarm: float, seed: int) -> None:
    judged = audit_privatizer(subject, trials=trials, false_alarm=false_alarm / 2.0, seed=seed)
    if judged.verdict != "holds":
        found["audit"] = _proof(judged.attacked, judged.certified)
    elif isinstance(subject, Shuffled):
        claim = subject.claim
        told = audit_messages(
            subject.protocol,
            epsilon=claim.epsilon,
            delta=claim.delta,
            trials=max(100, trials // 4),
            false_alarm=false_alarm / 2.0,
            seed=seed,
            name="messages",
        )
        if told.verdict != "holds":
            found["audit"] = f"{_proof(told.attacked, told.certified)} ({told.note})"


def _broken_rules(subject: Any, false_alarm: float, seed: int, rules: Collection[str] | None) -> set[str]:
    try:
        check_privatizer(subject, seed=seed, false_alarm=false_alarm, only=rules)
    except NonConformant as error:
        return set(error.rules)
    return set()


def _proof(attacked: float, certified: float) -> str:
    return f"proves epsilon {attacked:.3g} where {certified:.3g} is certified"


def _caught(name: str, mutation: Mutation, found: Mapping[Watchman, str]) -> Caught:
    by = tuple(watchman for watchman in WATCHMEN if watchman in found)
    return Caught(name=name, what=mutation.what, by=by, details=tuple(f"{who}: {found[who]}" for who in by))
