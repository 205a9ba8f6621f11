"""`check_privatizer`: the shipped conformance suite. A privatizer that passes keeps the contract; one that does not is
told every rule that it breaks.

    rule          what must hold                                                            statistical
    claim         a claim is there, complete, about one trajectory                          no
    certificate   it is the accountant's word on the events, and at most the claim          no
    families      no replaced user, however hostile, moves more than stated                 no (replayed noise)
    events        no linear distinguisher is better than the events admit                   no
    continual     a counter's noise over time is as stated, and so is what it gives away    no
    replay        the same noise gives the same release, other noise another one            no
    state         state in, state out                                                       no
    shapes        longer trajectories are refused                                           no
    batch size    batches that are too small (or large) for the noise are refused           no
    spent         a counter publishes nothing after the last release that was paid for      no
    messages      shuffled messages are single bits, as many from everybody                 no
    noise source  neither seeded nor secure is a TypeError                                  no
    silence       nothing raises on data; nothing is printed, logged or told                no
    variance      every counter has the stated noise                                        yes
    independent   it is shared neither between counters nor between releases                yes
    unbiased      its mean is zero                                                          yes
    precise       the stated radii cover it                                                 yes
    paths         real messages and the aggregate path have one distribution                yes

Each statistical rule alarms on a conforming privatizer with probability at most `false_alarm`; the seed is fixed, so a
verdict is reproducible. What the suite cannot see: anything outside `release` and the messages (a learner that looks
at raw data, a side channel), and a continual counter beyond its first 64 releases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tacit.errors import TacitError, UnknownName, require_count, require_real
from tacit.privatizers import conformance_exposure as exposure
from tacit.privatizers import conformance_manners as manners
from tacit.privatizers import conformance_noise as noise
from tacit.privatizers.conformance_probe import Probe, counts_of, ordinary_users, stacked, users_at
from tacit.privatizers.contract import CountPrivatizer

__all__ = ["RULES", "ConformanceReport", "NonConformant", "check_privatizer"]

Rule = Callable[[Probe], Iterator[str]]

RULES: Final[Mapping[str, Rule]] = {
    "claim": exposure.claim,
    "certificate": exposure.certificate,
    "families": exposure.families,
    "events": exposure.events,
    "continual": exposure.continual,
    "replay": manners.replay,
    "state": manners.state,
    "shapes": manners.shapes,
    "batch size": manners.batch_size,
    "spent": manners.spent,
    "messages": manners.messages,
    "noise source": manners.noise_source,
    "silence": manners.silence,
}
"""The rules that need no statistics, by name."""

_NEEDS: Final[Mapping[str, str]] = {
    "continual": "counter",
    "spent": "counter",
    "batch size": "users_per_batch",
    "messages": "protocol",
}
"""Rules that apply only to privatizers with this attribute."""

_UNPROTECTED: Final = ("claim", "certificate", "replay", "state", "shapes", "silence")
"""The rules for trust `none`, which promises nothing but good manners."""


class NonConformant(TacitError):
    """A privatizer breaks the contract; `violations` holds pairs of the rule and what is wrong."""

    def __init__(self, name: str, violations: tuple[tuple[str, str], ...]) -> None:
        self.violations = violations
        listed = "\n".join(f"  {rule}: {wrong}" for rule, wrong in violations)
        super().__init__(f"{name} does not conform:\n{listed}")

    @property
    def rules(self) -> frozenset[str]:
        """The names of the broken rules."""
        return frozenset(rule for rule, _ in self.violations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceReport:
    """What was checked and held."""

    name: str
    passed: tuple[str, ...]
    replicates: int
    false_alarm: float

    def render(self) -> str:
        """The report in one sentence."""
        return (
            f"{self.name} conforms: {', '.join(self.passed)} "
            f"({self.replicates} replicates, false alarms below {self.false_alarm:g} per statistical rule)"
        )


def check_privatizer(
    privatizer: CountPrivatizer,
    *,
    seed: int = 0,
    replicates: int = 300,
    false_alarm: float = 1e-6,
    only: Collection[str] | None = None,
) -> ConformanceReport:
    """Check every rule of the contract; raise `NonConformant` with all that are broken, or report what held.

    `only` names the rules to check; the report then speaks of these alone.

    >>> from tacit.privatizers.none import Unprotected
    >>> from tacit.released.counts import CountShape
    >>> shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
    >>> check_privatizer(Unprotected(shape=shape)).passed
    ('claim', 'certificate', 'replay', 'state', 'shapes', 'silence')
    """
    probe = Probe(
        privatizer=privatizer,
        seed=require_count("seed", seed, least=0),
        replicates=require_count("replicates", replicates, least=100),
        false_alarm=require_real("false_alarm", false_alarm, low=0.0, high=0.1, open_low=True),
    )
    protected = _trust(privatizer) != "none"
    rules = {
        name: rule
        for name, rule in {**RULES, **(_statistical(probe) if protected else {})}.items()
        if (protected or name in _UNPROTECTED) and _applies(name, privatizer)
    }
    for name in only or ():
        if name not in rules:
            raise UnknownName(f"rule of conformance for {privatizer.name}", name, rules)
    rules = {name: rule for name, rule in rules.items() if only is None or name in only}
    violations: list[tuple[str, str]] = []
    for name, rule in rules.items():
        try:
            violations += [(name, wrong) for wrong in rule(probe)]
        except Exception as error:  # a check that cannot be run is not passed; its words might hold data
            violations.append((name, f"cannot be checked: {type(error).__name__}"))
    if violations:
        raise NonConformant(str(getattr(privatizer, "name", type(privatizer).__name__)), tuple(violations))
    return ConformanceReport(
        name=privatizer.name, passed=tuple(rules), replicates=probe.replicates, false_alarm=probe.false_alarm
    )


def _applies(rule: str, privatizer: CountPrivatizer) -> bool:
    needs = _NEEDS.get(rule)
    # Who claims shuffle trust must show the messages: a rule that cannot look is broken, not spared.
    shuffled = _trust(privatizer) == "shuffle" and needs in ("protocol", "users_per_batch")
    return needs is None or shuffled or hasattr(privatizer, needs)


def _trust(privatizer: CountPrivatizer) -> str:
    return str(getattr(getattr(privatizer, "claim", None), "trust", "unclaimed"))


def _statistical(probe: Probe) -> dict[str, Rule]:
    """The statistical rules over shared samples of both paths, drawn when first needed."""
    kinds: tuple[noise.Path, ...] = ("messages",) if hasattr(probe.privatizer, "counter") else ("messages", "aggregate")
    drawn: dict[str, noise.Sample] = {}

    def samples() -> list[noise.Sample]:
        for kind in kinds:
            if kind not in drawn:
                drawn[kind] = noise.sampled(probe, kind)
        return [drawn[kind] for kind in kinds]

    def over(rule: Callable[[Probe, noise.Sample], Iterator[str]]) -> Rule:
        return lambda probe: (wrong for sample in samples() for wrong in rule(probe, sample))

    def same_paths(probe: Probe) -> Iterator[str]:
        if len(kinds) == 2:
            yield from noise.paths(probe, *samples())
            return
        # What is one step of the stream draws the same noise, counted beforehand or not.
        users = stacked([users_at(ordinary_users(probe.shape, 1, probe.seed), 1)] * probe.batch_size)
        one, other = (probe.release(batch) for batch in (users, counts_of(probe.shape, users)))
        if not all(np.allclose(left, right) for left, right in zip(one, other, strict=True)):
            yield "one step is released differently as trajectories and in aggregate"

    return {
        "variance": over(noise.variance),
        "independent": over(noise.independent),
        "unbiased": over(noise.unbiased),
        "precise": over(noise.precise),
        "paths": same_paths,
    }
