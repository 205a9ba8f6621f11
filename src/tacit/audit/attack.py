"""From the scores of an attack to a `Finding`: what was claimed, what is certified, what the attack proves.

A score is any number computed from what the adversary sees; the larger, the more it looks like the second of two
neighbouring worlds. The first fifth of the trials chooses the thresholds (and, for scores that are learned, the score);
the rest, which had no part in that, is counted.

    verdict              what it means
    holds                the attack proves no more than was claimed
    claim refuted        it proves more than was claimed, and no more than is certified: the certificate says so itself
    CERTIFICATE REFUTED  it proves more than the accountant certifies: there is a bug

A configuration whose certificate is right is called refuted with probability at most `false_alarm`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.arrays import Floats
from tacit.audit.bounds import Errors, curve_epsilon, event_epsilon, noise_factor
from tacit.errors import require, require_count, require_real

SHARES: Final[Mapping[str, int]] = {"mechanism": 1, "privatizer": 10, "messages": 250, "learner": 100}
"""One trial of each kind for so many trials that are asked for: what is drawn in one differs in size."""
MIN_TRIALS: Final[Mapping[str, int]] = {"mechanism": 10, "privatizer": 200, "messages": 2000, "learner": 200}

Kind = Literal["mechanism", "privatizer", "messages", "learner"]
Verdict = Literal["holds", "claim refuted", "CERTIFICATE REFUTED"]

HELD_OUT: Final = 5
"""One trial in so many chooses the attack."""
_CANDIDATES: Final = 200
_FAR: Final = 1e12
"""Infinite likelihood ratios are cut here, so that they can be sorted."""
_DIGITS: Final = 9
"""Scores are rounded: the last digits of floating-point noise give the exact value away (a bug of its own, which the
mutation suite plants; tacit releases integers in deployments), and would drown everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is attacked, and what is said about it."""

    kind: Kind
    name: str
    trust: str
    calibration: str
    view: str
    """What the adversary looks at."""
    claimed: float
    delta: float
    events: Events
    """Everything that one user is exposed to, as the accountant was told."""

    @property
    def certified(self) -> float:
        """The accountant's epsilon at this delta."""
        return epsilon_of(self.events, self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One row of an audit."""

    kind: Kind
    name: str
    trust: str
    calibration: str
    view: str
    claimed: float
    certified: float
    delta: float
    by_events: float
    """The bound that assumes nothing."""
    by_curve: float
    """The bound through the certified trade-off curve, which assumes the family of the noise, not its size."""
    noise_factor: float
    """At most so many times the stated noise; below 1 the certificate is refuted."""
    exact: float | None
    """Epsilon by enumeration, where the output is discrete and small enough."""
    confidence: float
    trials: int
    """In each of the two worlds."""
    note: str = ""

    @property
    def attacked(self) -> float:
        """The epsilon that the trials prove; enumeration stands beside it."""
        return max(self.by_events, self.by_curve)

    @property
    def verdict(self) -> Verdict:
        """In words."""
        exact = 0.0 if self.exact is None else self.exact
        # Enumeration and accountant both round: they may differ in the sixth digit.
        if self.noise_factor < 1.0 or self.by_events > self.certified or exact > self.certified * (1.0 + 1e-6):
            return "CERTIFICATE REFUTED"
        return "holds" if max(self.attacked, exact) <= self.claimed * (1.0 + 1e-6) else "claim refuted"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; infinity is written "inf"."""
        plain = {name: "inf" if value == math.inf else value for name, value in asdict(self).items()}
        attacked: float | str = "inf" if self.attacked == math.inf else self.attacked
        return {**plain, "attacked": attacked, "verdict": self.verdict}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """The finding that `to_dict` wrote; its verdict must follow from its numbers."""
        names = {field.name for field in fields(cls)}
        require(
            set(plain) == names | {"attacked", "verdict"},
            f"a finding has the entries {', '.join(sorted(names))}",
            given=sorted(plain),
        )
        values: dict[str, Any] = {name: math.inf if plain[name] == "inf" else plain[name] for name in names}
        found = cls(**values)
        require(found.verdict == plain["verdict"], "a verdict must follow from its numbers", given=plain["verdict"])
        return found


def attack(
    target: Target,
    first: Floats,
    second: Floats,
    *,
    false_alarm: float,
    exact: float | None = None,
    note: str = "",
) -> Finding:
    """Judge a target by the scores of trials in its two worlds; the first fifth chooses the thresholds.

    >>> from tacit.accounting.events import GaussianEvent
    >>> target = Target(kind="mechanism", name="gaussian", trust="central", calibration="tight", view="one number",
    ...                 claimed=5.0, delta=1e-5, events=((GaussianEvent(sigma=1.0, shift=1.0), 1),))
    >>> noise = np.random.default_rng(0).normal(size=(2, 100_000))
    >>> honest = attack(target, noise[0], noise[1] + 1.0, false_alarm=0.01)
    >>> honest.verdict, round(honest.by_events, 1), round(honest.by_curve / honest.certified, 2)
    ('holds', 2.5, 0.97)
    >>> attack(target, noise[0] / 2, noise[1] / 2 + 1.0, false_alarm=0.01).verdict
    'CERTIFICATE REFUTED'
    """
    require_real("false_alarm", false_alarm, low=0.0, high=0.5, open_low=True)
    trials = require_count("trials", min(len(first), len(second)), least=10)
    seen = tuple(_sortable(scores) for scores in (first, second))
    fit = (seen[0][held_out(first)], seen[1][held_out(second)])
    test = (seen[0][~held_out(first)], seen[1][~held_out(second)])
    each, certified = false_alarm / 3.0, target.certified  # three bounds share it
    tail = _surest(fit, target.delta, each)
    by_events = event_epsilon(_errors(*test, tail), target.delta, each)
    # The curve is tested twice: where the worlds are told apart best on the whole, and where they are most surely.
    middle = _best(fit, lambda errors: -_total(errors))
    factor = min(noise_factor(_errors(*test, rule), target.events, each) for rule in {middle, tail})
    return Finding(
        kind=target.kind,
        name=target.name,
        trust=target.trust,
        calibration=target.calibration,
        view=target.view,
        claimed=target.claimed,
        certified=certified,
        delta=target.delta,
        by_events=by_events,
        by_curve=curve_epsilon(factor, target.events, target.delta),
        noise_factor=factor,
        exact=exact,
        confidence=1.0 - false_alarm,
        trials=trials,
        note=note,
    )


def told_apart(first: Floats, second: Floats, delta: float, false_alarm: float) -> float:
    """The epsilon that the scores of two worlds prove by events alone; the first fifth chooses the event."""
    seen = tuple(_sortable(scores) for scores in (first, second))
    rule = _surest((seen[0][held_out(first)], seen[1][held_out(second)]), delta, false_alarm)
    return event_epsilon(_errors(seen[0][~held_out(first)], seen[1][~held_out(second)], rule), delta, false_alarm)


def held_out(trials: NDArray[Any]) -> NDArray[np.bool_]:
    """Which trials choose the attack: the first fifth."""
    return np.asarray(np.arange(len(trials)) < len(trials) // HELD_OUT)


def _sortable(scores: Floats) -> Floats:
    return np.asarray(np.round(np.clip(np.nan_to_num(scores, nan=0.0), -_FAR, _FAR), _DIGITS), dtype=np.float64)


def _best(fit: tuple[Floats, Floats], worth: Callable[[Errors], float]) -> tuple[float, bool]:
    """The threshold, and whether high scores mean the second world, that is worth most on these trials."""
    pooled = np.sort(np.concatenate(fit))
    # Quantiles in the middle, and ever rarer ones at both ends.
    ends = np.unique(np.geomspace(1, len(pooled) / 2, _CANDIDATES // 4).astype(np.int64))
    places = np.unique(np.concatenate([np.linspace(0, len(pooled) - 1, _CANDIDATES // 2, dtype=np.int64), ends,
                                       len(pooled) - ends]))  # fmt: skip
    places = places[(places >= 0) & (places < len(pooled))]
    options = [(float(t), up) for t in np.unique(pooled[places]) for up in (True, False)]
    ordered = tuple(np.sort(scores) for scores in fit)
    return max(options, key=lambda option: worth(_sorted_errors(ordered[0], ordered[1], option)))


def _surest(fit: tuple[Floats, Floats], delta: float, false_alarm: float) -> tuple[float, bool]:
    """The threshold that proves most, judged as if it were seen as often among the trials that count."""
    return _best(fit, lambda errors: event_epsilon(_larger(errors), delta, false_alarm))


def _errors(first: Floats, second: Floats, rule: tuple[float, bool]) -> Errors:
    return _sorted_errors(np.sort(first), np.sort(second), rule)


def _sorted_errors(first: Floats, second: Floats, rule: tuple[float, bool]) -> Errors:
    """The counts of the attack that says "second" from the threshold on (or below it)."""
    threshold, up = rule
    hits = [len(scores) - int(np.searchsorted(scores, threshold, side="left")) for scores in (first, second)]
    if not up:
        hits = [len(scores) - count for scores, count in zip((first, second), hits, strict=True)]
    return Errors(first=len(first), first_hits=hits[0], second=len(second), second_hits=hits[1])


def _larger(errors: Errors) -> Errors:
    grown = {name: (HELD_OUT - 1) * getattr(errors, name) for name in ("first", "first_hits", "second", "second_hits")}
    return Errors(**grown)


def _total(errors: Errors) -> float:
    """False alarms plus misses, as rates: least where two equally likely worlds are told apart best."""
    return errors.first_hits / errors.first + 1.0 - errors.second_hits / errors.second


def trials_of(kind: Kind, asked: int) -> int:
    """How many trials an attack of this kind takes of so many.

    >>> trials_of("mechanism", 5_000), trials_of("learner", 1_000_000), trials_of("learner", 1_000)
    (5000, 10000, 200)
    """
    return max(MIN_TRIALS[kind], asked // SHARES[kind])


def shown_down(epsilon: float) -> str:
    """A lower bound to three digits, rounded down: what is printed must not prove more than what was found.

    >>> shown_down(0.98769), shown_down(0.0), shown_down(math.inf)
    ('0.987', '0', 'inf')
    """
    if epsilon == 0.0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    scale = 10.0 ** (2 - math.floor(math.log10(epsilon)))
    return f"{math.floor(epsilon * scale) / scale:.3g}"
