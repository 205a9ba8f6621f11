"""The mutation suite: planted privacy bugs, honest originals, and the three watchmen who look at both.

    accountant    the certificate of the stated events against the claim
    conformance   the shipped suite `check_privatizer`, by the rules that fire
    audit         an attack on what is released, on the messages, or on what a loop publishes

A bug that nobody catches is a hole in the watch. The honest originals go through the same watchmen and must not be
flagged. Every statistical rule alarms on a correct configuration with probability at most `false_alarm`, every attack
with ten times that; at the default, all originals together (at most twelve statistical rules and two attacks each, of
those with secure noise eight rules) are flagged by mistake with probability below 0.01 (`TOTAL_FALSE_ALARM`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mutants.curator import CURATED, CURATOR_BUGS, CURATORS
from mutants.deployed import DEPLOYED, DEPLOYED_BUGS
from mutants.device import DEVICE_BUGS, DEVICES
from mutants.loop import LOOP_BUGS, LOOPS, Leak
from mutants.planted import WATCHMEN, Mutation, Watchman
from mutants.release import RELEASE_BUGS, RELEASES
from mutants.shuffle import SHUFFLE_BUGS, SHUFFLERS
from tacit.accounting.composition import epsilon_of
from tacit.audit.attack import attack
from tacit.audit.conformance import NonConformant, check_privatizer
from tacit.audit.mechanisms import audit_messages
from tacit.audit.views import audit_privatizer
from tacit.errors import UnknownName
from tacit.release.staged import Staged

__all__ = ["FALSE_ALARM", "MUTATIONS", "ORIGINALS", "TOTAL_FALSE_ALARM", "Caught", "examine", "total_false_alarm"]

MUTATIONS: Final[Mapping[str, Mutation]] = {
    **DEVICE_BUGS, **DEPLOYED_BUGS, **CURATOR_BUGS, **SHUFFLE_BUGS, **RELEASE_BUGS, **LOOP_BUGS
}  # fmt: skip
"""Bugs by name."""

SECURE: Final = ", secure"
"""How the names of originals end whose noise comes from the operating system."""

ORIGINALS: Final[Mapping[str, Mutation]] = {
    name: Mutation(what="correct", plant=plant, expected=(), secure=secure)
    for secure, honest in (
        (False, {**DEVICES, **CURATORS, **SHUFFLERS, **RELEASES, **LOOPS}),
        (True, {f"{name}{SECURE}": plant for name, plant in {**DEPLOYED, **SHUFFLERS, **CURATED}.items()}),
    )
    for name, plant in honest.items()
}
"""What the bugs were planted in, without the bug."""

FALSE_ALARM: Final = 1e-5
"""Of one statistical rule on one original; attacks alarm ten times as often."""


def total_false_alarm(originals: Collection[str]) -> float:
    """The probability that any is flagged is below this: twelve rules and two attacks each, secure ones eight rules."""
    return FALSE_ALARM * sum(8 if name.endswith(SECURE) else 12 + 2 * 10 for name in originals)


TOTAL_FALSE_ALARM: Final = total_false_alarm(ORIGINALS)
"""Of all originals."""

_ACCOUNTANTS_RULE: Final = "certificate"
"""The rule of the conformance suite that asks the accountant."""


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
    false_alarm: float = FALSE_ALARM,
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
            judged = attack(subject.target, *subject.view.scores(trials, seed), false_alarm=10.0 * false_alarm)
            if judged.verdict != "holds":
                found["audit"] = _proof(judged.attacked, judged.certified)
    else:
        _accounted(subject, mutation, found, watchmen, false_alarm, seed, rules)
        if "audit" in watchmen and not mutation.secure:
            _attacked(subject, found, trials, false_alarm, seed)
    by = tuple(watchman for watchman in WATCHMEN if watchman in found)
    return Caught(name=name, what=mutation.what, by=by, details=tuple(f"{who}: {found[who]}" for who in by))


def _accounted(
    subject: Any,
    mutation: Mutation,
    found: dict[Watchman, str],
    watchmen: Collection[Watchman],
    false_alarm: float,
    seed: int,
    rules: Collection[str] | None,
) -> None:
    """What accountant and conformance suite say."""
    claim = subject.claim
    if "accountant" in watchmen:
        if (really := epsilon_of(subject.events(), claim.delta)) > claim.epsilon:
            found["accountant"] = f"certifies epsilon {really:.3g} where {claim.epsilon:g} is claimed"
        elif _broken(subject, only=(_ACCOUNTANTS_RULE,)):
            found["accountant"] = "the certificate is not what the accountant says"
    if "conformance" in watchmen:
        broken = _broken(subject, seed=seed, false_alarm=false_alarm, only=rules, secure=mutation.secure)
        if others := sorted(broken - {_ACCOUNTANTS_RULE}):
            found["conformance"] = "rules " + ", ".join(others)


def _attacked(subject: Any, found: dict[Watchman, str], trials: int, false_alarm: float, seed: int) -> None:
    claim = subject.claim
    judged = audit_privatizer(subject, trials=trials, false_alarm=10.0 * false_alarm, seed=seed)
    if judged.verdict != "holds":
        found["audit"] = _proof(judged.attacked, judged.certified)
    elif isinstance(subject, Staged) and hasattr(subject.first, "shape"):  # messages are attacked about counts
        told = audit_messages(
            subject.first, epsilon=claim.epsilon, delta=claim.delta, trials=max(100, trials // 4),
            false_alarm=10.0 * false_alarm, seed=seed, name="messages",
        )  # fmt: skip
        if told.verdict != "holds":
            found["audit"] = f"{_proof(told.attacked, told.certified)} ({told.note})"


def _broken(subject: Any, **settings: Any) -> set[str]:
    try:
        check_privatizer(subject, **settings)
    except NonConformant as error:
        return set(error.rules)
    return set()


def _proof(attacked: float, certified: float) -> str:
    return f"proves epsilon {attacked:.3g} where {certified:.3g} is certified"
