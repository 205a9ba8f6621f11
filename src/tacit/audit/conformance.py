"""`check_privatizer`: the shipped conformance suite. A privatizer that passes keeps the contract; one that does not is
told every rule that it breaks. It can be pointed at any privatizer whose type of query has a probe (`PROBES`).

    rule          what must hold                                                            for              statistical
    claim         a claim is there, complete, about one trajectory                          all              no
    certificate   it is the accountant's word on the events, and at most the claim          all              no
    families      no replaced user, however hostile, moves more than stated                 all              no
    replay        the same noise gives the same release, other noise another one            all              no
    state         state in, state out; the claim goes with the release                      all              no
    query         queries of another type are refused                                       all              no
    noise source  neither seeded nor secure is a TypeError                                  all              no
    silence       nothing raises on data; nothing is printed, logged or told                all              no
    batch size    batches that are too small (or large) for the noise are refused           batches          no
    events        no linear distinguisher is better than the events admit                   totals           no
    continual     a counter's noise over time is as stated, and so is what it gives away    counters         no
    spent         a counter publishes nothing after the last release that was paid for      counters         no
    shapes        longer trajectories are refused                                           totals           no
    messages      shuffled messages are single bits, as many from everybody                 shuffled counts  no
    fields, shift, measured, exposed, tails,
    coins, length, lattice        see `tacit.audit.harness`                                all              yes
    variance      every counter has the stated noise                                        totals           yes
    independent   it is shared neither between counters nor between releases                totals           yes
    unbiased      its mean is zero                                                          totals           yes
    precise       the stated radii cover it                                                 totals           yes
    paths         real messages and the aggregate path have one distribution                totals           yes

Each statistical rule alarms on a conforming privatizer with probability at most `false_alarm`; the seed is fixed, so a
verdict is reproducible. What the suite cannot see: anything outside `release` and the messages (a learner that looks
at raw data, a side channel), and a continual counter beyond its first 64 releases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from tacit.accounting.provenance import record_pass
from tacit.audit import contract_rules, exposure, harness, noise
from tacit.audit.count_probe import BatchProbe, CountProbe, counts_of, ordinary_users, stacked, users_at
from tacit.audit.probes import Probe
from tacit.audit.release_probes import (
    DoseProbe,
    LossProbe,
    MomentProbe,
    ReturnProbe,
    SoftmaxProbe,
    ValueProbe,
    WeightProbe,
)
from tacit.errors import TacitError, UnknownName, require_count, require_real
from tacit.protocol import Privatizer, Totals
from tacit.release.values import ValueQuery
from tacit.released.batches import BatchQuery
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.released.weighted_returns import WeightQuery

Rule = Callable[[Any], Iterator[str]]

PROBES: Final[Mapping[type, type[Probe]]] = {
    Totals: CountProbe,
    BatchQuery: BatchProbe,
    LossQuery: LossProbe,
    SoftmaxQuery: SoftmaxProbe,
    DoseQuery: DoseProbe,
    ReturnQuery: ReturnProbe,
    MomentQuery: MomentProbe,
    ValueQuery: ValueProbe,
    WeightQuery: WeightProbe,
}
"""How privatizers are examined, by the type of query that they answer."""

RULES: Final[Mapping[str, Rule]] = {
    "claim": exposure.claim,
    "certificate": exposure.certificate,
    "families": exposure.families,
    "events": exposure.events,
    "continual": exposure.continual,
    "replay": contract_rules.replay,
    "state": contract_rules.state,
    "query": contract_rules.query,
    "shapes": contract_rules.shapes,
    "batch size": contract_rules.batch_size,
    "spent": contract_rules.spent,
    "messages": contract_rules.messages,
    "noise source": contract_rules.noise_source,
    "silence": contract_rules.silence,
    "fields": harness.fields,
    "shift": harness.shift,
    "measured": harness.measured,
    "exposed": harness.exposed,
    "tails": harness.tails,
    "coins": harness.coins,
    "length": harness.length,
    "lattice": harness.lattice,
}
"""The rules by name; those over shared samples of counts stand in `STATISTICAL`."""

STATISTICAL: Final[Mapping[str, Callable[[CountProbe, noise.Sample], Iterator[str]]]] = {
    "variance": noise.variance,
    "independent": noise.independent,
    "unbiased": noise.unbiased,
    "precise": noise.precise,
}

_NEEDS: Final[Mapping[str, str]] = {
    "continual": "counter",
    "spent": "counter",
    "batch size": "users_per_batch",
}
"""Rules that apply only to privatizers with this attribute."""
_TOTALS: Final = ("events", "continual", "shapes", "spent", *STATISTICAL, "paths")
"""Rules about running totals."""
_SHUFFLED: Final = ("batch size", "messages")
"""Rules that nobody who claims shuffle trust over counts is spared: one that cannot look is broken."""
_UNPROTECTED: Final = ("claim", "certificate", "replay", "state", "query", "shapes", "silence", "fields")
"""The rules for trust `none`, which promises nothing but good manners."""
_SECURE: Final = ("measured", "exposed", "tails", "lattice")
"""The rules that look at noise from the operating system, which cannot be replayed; those of `STATISTICAL` do so, too,
but for shuffled batches, whose secure bits are too many."""


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


def probe_of(privatizer: Privatizer[Any, Any, Any], **settings: Any) -> Probe:
    """The probe of a privatizer, by the type of query that it answers."""
    answers: Any = getattr(privatizer, "answers", None)
    if answers not in PROBES:
        known = {kind.__name__: kind for kind in PROBES}
        raise UnknownName("type of query", getattr(answers, "__name__", str(answers)), known)
    return PROBES[answers](privatizer=privatizer, **settings)


def check_privatizer(
    privatizer: Privatizer[Any, Any, Any],
    *,
    seed: int = 0,
    replicates: int = 300,
    false_alarm: float = 1e-6,
    only: Collection[str] | None = None,
    query: Any = None,
    secure: bool = False,
) -> ConformanceReport:
    """Check every rule of the contract; raise `NonConformant` with all that are broken, or report what held.

    `only` names the rules to check; the report then speaks of these alone. `query` is asked instead of what the probe
    asks by itself. `secure` examines the release with noise from the operating system; such a verdict is as reliable
    but not reproducible. A pass of all rules is remembered on this machine for classes of other packages, whose
    certificates say until then that they were not checked (`tacit.accounting.provenance`).

    >>> from tacit.release.none import Unprotected
    >>> from tacit.released.counts import CountShape
    >>> shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
    >>> check_privatizer(Unprotected(shape=shape)).passed
    ('claim', 'certificate', 'replay', 'state', 'query', 'shapes', 'silence', 'fields')
    """
    settings = {
        "seed": require_count("seed", seed, least=0),
        "replicates": require_count("replicates", replicates, least=100),
        "false_alarm": require_real("false_alarm", false_alarm, low=0.0, high=0.1, open_low=True),
        "query": query,
        "secure": secure,
    }
    name = str(getattr(privatizer, "name", type(privatizer).__name__))
    try:
        probe = probe_of(privatizer, **settings)
    except UnknownName as error:
        raise NonConformant(name, (("query", f"nothing can be checked: {error}"),)) from error
    rules = _rules(probe)
    for asked in only or ():
        if asked not in rules:
            raise UnknownName(f"rule of conformance for {name}", asked, rules)
    rules = {rule: check for rule, check in rules.items() if only is None or rule in only}
    violations: dict[tuple[str, str], None] = {}
    variants = probe.variants() if set(rules) - set(_UNPROTECTED) else ()
    # What is looked at several times shares the rate.
    shared = [replace(variant, false_alarm=false_alarm / len(variants)) for variant in variants]
    for rule, check in rules.items():
        for variant in (probe,) if rule in _UNPROTECTED else shared:
            try:
                for wrong in check(variant):
                    violations[rule, wrong] = None
            except Exception as error:  # a check that cannot be run is not passed; its words might hold data
                violations[rule, f"cannot be checked: {type(error).__name__}"] = None
    if violations:
        raise NonConformant(name, tuple(violations))
    if only is None and query is None and not secure and privatizer.claim.trust != "none":
        record_pass(privatizer, privatizer.certificate().events)
    return ConformanceReport(name=name, passed=tuple(rules), replicates=probe.replicates, false_alarm=false_alarm)


def _rules(probe: Probe) -> dict[str, Rule]:
    """The rules that apply to this kind of privatizer."""
    every: dict[str, Rule] = {**RULES, **_statistical(probe)} if isinstance(probe, CountProbe) else dict(RULES)
    trust = getattr(getattr(probe.privatizer, "claim", None), "trust", "unclaimed")
    if trust == "none":
        every = {name: rule for name, rule in every.items() if name in _UNPROTECTED}
    if probe.secure:
        few = isinstance(probe, CountProbe) and probe.bits == 0
        every = {name: rule for name, rule in every.items() if name in _SECURE or (few and name in STATISTICAL)}
    totals = type(probe) is CountProbe
    due = set(_SHUFFLED) if isinstance(probe, CountProbe) and trust == "shuffle" else set[str]()
    if isinstance(probe, BatchProbe):
        due.add("batch size")  # the schedule says how many users each batch has

    def applies(name: str) -> bool:
        needed = _NEEDS.get(name)
        has = name != "messages" and (needed is None or getattr(probe.privatizer, needed, None) is not None)
        return (has or name in due) and (totals or name not in _TOTALS)

    return {name: rule for name, rule in every.items() if applies(name)}


def _statistical(probe: CountProbe) -> dict[str, Rule]:
    """The statistical rules over shared samples of both paths, drawn when first needed."""
    alone = probe.secure or hasattr(probe.privatizer, "counter")  # sums are drawn at once in simulations only
    kinds: tuple[noise.Path, ...] = ("messages",) if alone else ("messages", "aggregate")
    drawn: dict[str, noise.Sample] = {}

    def samples() -> list[noise.Sample]:
        for kind in kinds:
            if kind not in drawn:
                drawn[kind] = noise.sampled(probe, kind)
        return [drawn[kind] for kind in kinds]

    def over(check: Callable[[CountProbe, noise.Sample], Iterator[str]], probe: CountProbe) -> Iterator[str]:
        return (wrong for sample in samples() for wrong in check(probe, sample))

    def same_paths(probe: CountProbe) -> Iterator[str]:
        if len(kinds) == 2:
            yield from noise.paths(probe, *samples())
            return
        # What is one step of the stream draws the same noise, counted beforehand or not.
        users = stacked([users_at(ordinary_users(probe.shape, 1, probe.seed), 1)] * probe.batch_size)
        one, other = (probe.release(batch) for batch in (users, counts_of(probe.shape, users)))
        if not all(np.allclose(left, right) for left, right in zip(one, other, strict=True)):
            yield "one step is released differently as trajectories and in aggregate"

    return {**{name: partial(over, check) for name, check in STATISTICAL.items()}, "paths": same_paths}
