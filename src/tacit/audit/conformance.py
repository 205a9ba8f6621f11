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

The rules that are not statistical stand here; each yields what is wrong, in words without data.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from tacit.accounting.provenance import record_pass
from tacit.audit import exposure, harness, noise
from tacit.audit.count_probe import (
    BatchProbe,
    CountProbe,
    counts_of,
    hostile_users,
    one_user,
    ordinary_users,
    stacked,
    users_at,
)
from tacit.audit.probes import CANARY, Probe
from tacit.audit.release_probes import (
    DoseProbe,
    LossProbe,
    MomentProbe,
    ReturnProbe,
    SoftmaxProbe,
    ValueProbe,
    WeightProbe,
)
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import PrivacyBudgetExceeded, TacitError, UnknownName, require_count, require_real
from tacit.protocol import Privatizer, Totals
from tacit.randomness import SecureNoise
from tacit.release.values import ValueQuery
from tacit.released.batches import BatchQuery
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.released.weighted_returns import WeightQuery

REPEATS: Final = 64
"""Releases that are compared before they are called all the same: a few bits may agree by chance, not so often."""


def replay(probe: Probe) -> Iterator[str]:
    """The same noise gives the same release; other noise gives another one."""
    first, again = _shown(probe, 0), _shown(probe, 0)
    if not _same(first, again):
        yield "a replayed noise source does not replay the release"
    others = (_shown(probe, number) for number in range(1, 1 + REPEATS))
    if probe.privatizer.claim.trust != "none" and all(_same(first, other) for other in others):
        yield "another noise source gives the very same release"


def state(probe: Probe) -> Iterator[str]:
    """State goes in and comes out: what was given stays as it was and can be used again."""
    privatizer, users, later = probe.privatizer, _users(probe), _users(probe, probe.releases - 1)
    before = privatizer.begin()
    kept = _frozen(before)
    after, first = privatizer.release(before, users, probe.asked(0), probe.noise(0))
    if _frozen(before) != kept:
        yield "release changes the state that it was given"
    kept, shown = _frozen(after), _frozen(first.statistics)
    with contextlib.suppress(PrivacyBudgetExceeded):  # a schedule of one batch
        privatizer.release(after, later, probe.asked(probe.releases - 1), probe.noise(1))
    if _frozen(after) != kept or _frozen(first.statistics) != shown:
        yield "the next release changes what came out of the last one"
    if _frozen(privatizer.release(before, users, probe.asked(0), probe.noise(0))[1].statistics) != shown:
        yield "an old state cannot be used again"
    if first.claim != privatizer.claim or _frozen(after.released) != shown:
        yield "the claim beside the release, or what the state says was released, is another one"
    public = probe.fields(first.statistics)
    counted = public.get("users", np.array([float(probe.batch_size)]))
    if not np.isfinite(public["variance"]).all() or int(counted[0]) != probe.batch_size:
        yield "the number of users or the variance beside the release is wrong"


def query(probe: Probe) -> Iterator[str]:
    """Queries of another type are refused."""
    privatizer = probe.privatizer
    for stranger in (None, 7, object()):
        if _raised(privatizer.release, privatizer.begin(), _users(probe), stranger, probe.noise(0)) is None:
            yield f"a {type(stranger).__name__} is answered as if it were {privatizer.answers.words()}"


def shapes(probe: CountProbe) -> Iterator[str]:
    """A trajectory that is longer than the release was calibrated for is refused."""
    batch, H = _users(probe), probe.shape.horizon
    longer = Trajectories(
        *(np.concatenate([part, part[:, -1:]], axis=1) for part in (batch.states, batch.actions, batch.rewards))
    )
    if _raised(probe.release, longer) is None:
        yield f"a trajectory of {H + 1} steps is taken where {H} are calibrated"


def batch_size(probe: Probe) -> Iterator[str]:
    """A batch of another size than planned is refused, where the noise depends on the size.

    Single batches have the size that the schedule says, everything else that of `users_per_batch`.
    """
    privatizer, planned = probe.privatizer, probe.batch_size
    if not isinstance(probe, BatchProbe) and planned != privatizer.users_per_batch:
        yield "the size of a batch is not stated"
        return
    whole = probe.given(probe.persons()[0], 0)
    parts = tuple(whole) if isinstance(whole, tuple) else (whole.states, whole.actions, whole.rewards)
    crowd = [np.concatenate([part, part]) for part in parts]
    for users in (planned - 1, planned + 1):
        batches: list[Any] = [type(whole)(*(part[:users] for part in crowd))]
        if isinstance(probe, CountProbe):
            batches.append(counts_of(probe.shape, batches[0]))
        for batch in batches:
            error = _raised(privatizer.release, privatizer.begin(), batch, probe.asked(0), probe.noise(0))
            if not isinstance(error, TacitError):
                yield f"a batch of {users} users is released where {planned} are planned"


def spent(probe: CountProbe) -> Iterator[str]:
    """Users after the last paid release are refused, or counted without changing anything that is seen."""
    privatizer, asked = probe.privatizer, probe.asked(0)
    if probe.steps > 64:
        return
    user = one_user(probe.shape, state=0, action=0, reward=1.0)
    now, seen = privatizer.begin(), None
    for k in range(probe.steps):
        now, seen = privatizer.release(now, stacked([user] * probe.users_at_step(k)), asked, probe.noise(k))
    for _ in range(2):
        error = _raised(privatizer.release, now, user, asked, probe.noise(0))
        if error is not None:
            if not isinstance(error, PrivacyBudgetExceeded):
                yield f"a user after the last paid release raises {type(error).__name__}"
            return
        now, after = privatizer.release(now, user, asked, probe.noise(0))
        if seen is not None and not _same(seen.statistics, after.statistics):
            yield "a user after the last paid release is published"
            return


def messages(probe: CountProbe) -> Iterator[str]:
    """Shuffled messages are single bits, as many from everybody, and come out in another order."""
    stage = probe.stage
    users = stacked([ordinary_users(probe.shape, 4, probe.seed), hostile_users(probe.shape)])
    rows = zip(users.states, users.actions, users.rewards, strict=True)
    bodies = [stage.encode(Trajectory(*row), probe.noise(i)) for i, row in enumerate(rows)]
    if len({len(body) for body in bodies}) != 1:
        yield "the number of messages depends on the user"
    reports = [np.frombuffer(body, dtype=stage.labels) for body in bodies]
    if any(report.max() > stage.spec.num_counters for report in reports):
        yield "a message carries more than the label of a one"
    whole = [i % len(reports) for i in range(probe.batch_size)]
    sent = np.concatenate([reports[i] for i in whole])
    out, other = (stage.shuffle([bodies[i] for i in whole], probe.noise(seed)) for seed in (0, 1))
    if not np.array_equal(np.sort(sent), np.sort(out)):
        yield "the shuffler changes messages"
    if np.array_equal(sent, out) or np.array_equal(other, out):
        yield "the shuffler does not shuffle"


def noise_source(probe: Probe) -> Iterator[str]:
    """Noise that is neither seeded nor secure is a type error, and so is one that a path cannot use."""
    privatizer, asked, given = probe.privatizer, probe.asked(0), {"users": _users(probe)}
    if isinstance(probe, CountProbe):
        given["exact counts"] = counts_of(probe.shape, given["users"])
    for name, users in given.items():
        for source in (np.random.default_rng(0), None, 7):
            if not isinstance(_raised(privatizer.release, privatizer.begin(), users, asked, source), TypeError):
                yield f"{name} are released with a {type(source).__name__} for noise"
        error = _raised(privatizer.release, privatizer.begin(), users, asked, SecureNoise())
        if error is None:
            first, *others = (
                partial(privatizer.release, privatizer.begin(), users, asked, SecureNoise()) for _ in range(1 + REPEATS)
            )
            shown = first()[1].statistics
            if all(_same(shown, other()[1].statistics) for other in others):
                yield f"secure noise with {name} is no noise"
        elif not isinstance(error, TypeError):
            yield f"secure noise with {name} must work or be a TypeError"


def silence(probe: Probe) -> Iterator[str]:
    """Nothing is printed, logged or warned; no error and no representation contains data; nothing raises on data."""
    words, wrong = io.StringIO(), list[str]()
    handler, root, level = logging.StreamHandler(words), logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(words),
            contextlib.redirect_stderr(words),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            batches = [probe.given(person, 0, everybody=True) for person in probe.persons()]
            errors = {type(error).__name__ for batch in batches if (error := _raised(_release, probe, batch, 0))}
            wrong += [f"release raises {name} on data" for name in sorted(errors)]
            said = _what_is_said(probe)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    if words.getvalue() or warned:
        wrong.append("a release prints, logs or warns")
    if any(f"{CANARY:.6g}" in text for text in (*said, words.getvalue())):
        wrong.append("an error, a representation or a log line contains a user's reward")
    yield from wrong


def _what_is_said(probe: Probe) -> list[str]:
    """Representations and error messages around users whose reward is unmistakable."""
    privatizer, said = probe.privatizer, [repr(probe.privatizer)]
    for person in probe.persons():
        batch = probe.given(person, 0, everybody=True)
        if CANARY in np.asarray(getattr(batch, "rewards", getattr(batch, "losses", ()))):
            fields = batch if isinstance(batch, tuple) else (batch.states, batch.actions, batch.rewards)
            short = type(batch)(*(part[..., :0] for part in fields))
            said += [repr(batch), *(str(_raised(_release, probe, given, 0)) for given in (short, "nonsense"))]
            if privatizer.claim.trust != "none":
                said.append(repr(privatizer.release(privatizer.begin(), batch, probe.asked(0), probe.noise(0))[0]))
    return said


def _users(probe: Probe, k: int = 0) -> Any:
    """A batch whose rewards are whole: it can be counted beforehand."""
    return probe.given(probe.persons()[1], k)


def _release(probe: Probe, users: Any, number: int) -> Any:
    privatizer = probe.privatizer
    return privatizer.release(privatizer.begin(), users, probe.asked(0), probe.noise(number))[1].statistics


def _shown(probe: Probe, number: int) -> Any:
    return _release(probe, _users(probe), number)


def _raised(action: Callable[..., object], *given: object) -> Exception | None:
    try:
        action(*given)
    except Exception as error:  # whatever it is, it is what we came for
        return error
    return None


def _frozen(value: Any) -> Any:
    """Nested tuples of arrays as nested tuples of bytes."""
    if isinstance(value, tuple):
        return tuple(_frozen(part) for part in value)
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _same(first: Any, second: Any) -> bool:
    return bool(_frozen(first) == _frozen(second))


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
    "replay": replay,
    "state": state,
    "query": query,
    "shapes": shapes,
    "batch size": batch_size,
    "spent": spent,
    "messages": messages,
    "noise source": noise_source,
    "silence": silence,
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
