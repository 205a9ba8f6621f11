"""Learning from a log in one go, under central trust: one release, a policy and a certificate.

    read      episodes by a public mapping, checked; a log with one bad row is refused          (sensitive from here
    cap       at most g episodes of every person; which ones: by exact lots, or the first g
    deal      stage k gets the k-th of them from everybody, or a cover report that counts for nothing
    release   stage-wise counts of all g stages with exact discrete Gaussian noise               ... to here)
    plan      the policy that the released counts support best, pessimistically

G1  A person has at most one report in every stage and g in all, whatever the log says about the person: the unit of
    the claim is the person, and every stage has exactly as many reports as there are people. The number of people is
    public (neighbours replace one person by another); how many episodes anybody has is not.
G2  Everything after the release is post-processing and can be recomputed from the payloads (`tacit.study.learn_files`).
G3  The noise of the totals does not depend on the order in which episodes were dealt; its standard deviation is g
    times that of one episode per person.

When a log may be used. The model is estimated row by row: P̂_h(s'|s,a) and r̂_h(s,a) are means over the episodes that
took a in s at step h. They estimate what a *does* there if, given step and state, the choice of the action did not
depend on anything that also decides what follows. A rule that looks at step and state only (and its own lots) has this
property whatever the rule is, and nobody has to know its probabilities; that is `behaviour="known"`. If the rule
looked at more (a doctor's impression, an unlogged test, the person's wish), the same means mix the action's effect with
the reason for it: `behaviour="unknown"` is refused. Where the log has propensities they must agree with the
declaration: one number for every (step, state, action).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

import numpy as np

from tacit.accounting.certificate import Calibration, Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.terms import NoiseKind, terms_of
from tacit.arguments import checked
from tacit.arrays import Ints
from tacit.errors import (
    MAX_REPORTS,
    InvalidInput,
    PrivacyViolation,
    UnknownName,
    require,
    require_count,
    require_epsilon,
    require_real,
    with_suggestions,
)
from tacit.noise.exact import permutation
from tacit.planning.pessimism import (
    PessimisticPlan,
    pessimistic_plan,
    printed_rho,
    printed_std,
    private_value_iteration,
    support_floor,
)
from tacit.planning.widths import DEFAULT_Z
from tacit.policies import DeterministicPolicy
from tacit.policies.named import NamedPolicy, PolicySupport
from tacit.protocol import TOTALS, Noise
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.totals_release import TotalsPlan, TotalsRelease
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.study.episodes import DataCheck, Episodes, Progress, as_mapping, check_log
from tacit.study.log_source import LogSource
from tacit.study.mapping import EpisodeMapping

if TYPE_CHECKING:
    from tacit.study.evaluation import Evaluation

Behaviour = Literal["known", "unknown"]
Keep = Literal["random", "first"]
OfflineLearner = Literal["pessimism", "dp-apvi", "dp-vapvi"]
MECHANISM: Final = "batched"
OPTIONAL: Final = ("stationary", "learner")
"""Entries of a request that are left out where they say nothing."""
HALVINGS: Final = 16
"""Of the search for the printed noise."""
POWER_QUANTILE: Final = 1.959964 + 0.841621
"""A difference of so many standard errors is found with probability .8 at the 95% level."""
DIFFERENCES: Final = (0.05, 0.1, 0.2, 0.4)
"""Of mean rewards, as parts of the range: what a dry run speaks of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest:
    """The public parameters of learning from a log; everything a certificate is derived from."""

    mapping: EpisodeMapping
    epsilon: float
    delta: float
    people: int
    reports_per_person: int = 1
    keep: Keep = "random"
    z: float = DEFAULT_Z
    fallback: str | None = None
    """The action that the fall-back policy always takes; None: there is none."""
    stationary: bool = False
    """A public declaration: transitions and rewards do not depend on the step, so steps are pooled."""
    learner: OfflineLearner = "pessimism"
    """What plans from the released counts; the learners of papers have the noise that their papers print."""

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_count("people", self.people)
        require_count("reports_per_person", self.reports_per_person, most=MAX_REPORTS)
        require_real("z", self.z, low=0.0)
        require(self.keep in get_args(Keep), "keep must be 'random' or 'first'", self.keep)
        if self.learner not in get_args(OfflineLearner):
            raise UnknownName("offline learner", str(self.learner), get_args(OfflineLearner))
        if self.learner != "pessimism":
            one = not self.stationary and self.reports_per_person == 1
            require(one, f"{self.learner} is for one episode of a person, steps apart", "another", "use pessimism")
            _ = self.printed_epsilon
        if self.fallback is not None and self.fallback not in self.mapping.action_names:
            raise UnknownName("fall-back action", self.fallback, self.mapping.action_names)

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to every person of the log."""
        return PrivacyClaim(
            trust="central",
            epsilon=self.epsilon,
            delta=self.delta,
            unit=PrivacyUnit(reports=self.reports_per_person, per_stage=1),
            neighbours="replace-one",
            output="final-policy",
        )

    @property
    def basis(self) -> TotalsPlan:
        """The noise: fresh in every stage, all of it calibrated for a person who is in every stage."""
        known = self.mapping
        shape = CountShape(
            horizon=known.horizon,
            num_states=len(known.state_names),
            num_actions=len(known.action_names),
            staged=True,
        )
        claim = self.claim if self.learner == "pessimism" else replace(self.claim, epsilon=self.printed_epsilon)
        return TotalsPlan(shape=shape, claim=claim, releases=self.reports_per_person, mechanism=MECHANISM)

    @property
    def printed_epsilon(self) -> float:
        """Where the noise has the deviation that the paper prints for the claim, or just more: at most its epsilon."""
        wanted = printed_std(self.mapping.horizon, self.epsilon, self.delta)
        usual = replace(self, learner="pessimism")
        low, high = 0.0, self.epsilon
        tight = usual.basis.noise_std()["rewards"]
        if tight >= wanted:
            return self.epsilon
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            std = replace(usual, epsilon=middle).basis.noise_std()["rewards"]
            low, high = (middle, high) if std >= wanted else (low, middle)
        return low

    @property
    def channels(self) -> tuple[TotalsRelease, ...]:
        """One channel for every stage: all people report in each of them."""
        size = StageSize(target=self.people, least=self.people, query=TOTALS)
        return cast("tuple[TotalsRelease, ...]", self.basis.channels([size] * self.reports_per_person))

    def certificate(self, noise: NoiseKind) -> Certificate:
        """What the exact accountant finds for a person who is in every stage."""
        basis, channels, claim = self.basis, self.channels, self.claim
        std = basis.noise_std()
        families = [
            CertifiedFamily.of(family, noise=basis.name, std=std.get(family.name, std["rewards"]))
            for family in basis.families()
        ]
        how: Calibration = "tight" if self.learner == "pessimism" else "paper"
        found = certify(basis.exposure(channels, self.reports_per_person), families, claim, calibration=how)
        episodes = self.people * self.reports_per_person
        return found.under(terms_of(basis, noise=noise, episodes=episodes, users_per_batch=self.people))

    def outlook(self) -> dict[str, Any]:
        """What a release would show, before there is one: public, from sizes and noise alone.

        For each difference of two mean rewards (a part of their range): how many visits both rows (step, state, action)
        need so that it is found with probability .8 at the 95% level, and which share of a row's even part of all
        visits that is.
        """
        m, v = self.mapping, self.basis.noise_std()["rewards"] ** 2
        steps, rows = (m.horizon if self.stationary else 1), len(m.state_names) * len(m.action_names)
        empty = empty_counts(self.basis.shape)
        empty.variance[1] = 2.0 * v * steps
        floor, even = support_floor(empty), self.people * self.reports_per_person * steps / rows
        needed = []
        for gap in DIFFERENCES:
            # gap² = q² · 2 (1/(4N) + v/(2N²)):  r̂ = R/(R + C), both with noise of variance v, rewards within [0, 1]
            b = POWER_QUANTILE**2 / 2.0
            visits = (b + math.sqrt(b * b + 8.0 * b * v * steps * gap**2)) / (2.0 * gap**2)
            visits = math.ceil(max(visits, floor))
            needed.append({"difference": gap * (m.high - m.low), "visits": visits, "even_visits": visits / even})
        return {
            "people": self.people, "noise_std": self.basis.noise_std(), "support_floor": floor, "even_visits": even,
            "told_apart": needed,
        }  # fmt: skip

    def planned(self, payloads: tuple[bytes, ...], certificate: Certificate) -> Learned:
        """Everything that follows from what was released (G2)."""
        counts, known = released_counts(self, payloads), self.mapping
        default = 0 if self.fallback is None else known.action_names.index(self.fallback)
        if self.learner == "pessimism":
            plan = pessimistic_plan(counts, z=float(self.z), default=default, stationary=self.stationary)
        else:
            plan = private_value_iteration(
                counts,
                rho=printed_rho(self.epsilon, self.delta),
                variance_aware=self.learner == "dp-vapvi",
                z=float(self.z),
                default=default,
            )
        always = DeterministicPolicy(np.full_like(plan.actions, default))
        policy = NamedPolicy(
            policy=DeterministicPolicy(plan.actions),
            states=known.state_names,
            actions=known.action_names,
            fallback=None if self.fallback is None else always,
            support=PolicySupport(learned=plan.supported, noise_units=plan.noise_units, threshold=plan.threshold),
        )
        return Learned(request=self, payloads=payloads, certificate=certificate, policy=policy, plan=plan)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "mapping": self.mapping.to_dict(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "people": self.people,
            "reports_per_person": self.reports_per_person,
            "keep": self.keep,
            "z": self.z,
            "fallback": self.fallback,
            **({"stationary": True} if self.stationary else {}),
            **({} if self.learner == "pessimism" else {"learner": self.learner}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LearnRequest:
        """The request that `to_dict` wrote."""
        names = tuple(cls.__dataclass_fields__)
        complete = set(names) - set(OPTIONAL) <= set(plain) <= set(names)
        require(complete, f"a request has the entries {', '.join(names)}", sorted(plain))
        return cls(**{**plain, "mapping": EpisodeMapping.from_dict(plain["mapping"])})


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Learned:
    """What was learned from a log: public, all of it."""

    request: LearnRequest
    payloads: tuple[bytes, ...]
    """What was released: whole numbers, one payload for every stage."""
    certificate: Certificate
    policy: NamedPolicy
    plan: PessimisticPlan
    comparison: Evaluation | None = None
    """The policy against the rule of the log, on people who were not learned from."""

    @property
    def summary(self) -> dict[str, Any]:
        """What there is to say about the policy, from what was released; values in the units of the log."""
        request, known = self.request, self.request.mapping
        H, width = known.horizon, known.high - known.low
        return {
            "people": request.people,
            "reports_per_person": request.reports_per_person,
            "states": len(known.state_names),
            "actions": len(known.action_names),
            "horizon": H,
            "noise_std": request.basis.noise_std(),
            "estimated_return": H * known.low + width * self.plan.value,
            "pessimistic_return": H * known.low + width * self.plan.floor,
            "unsupported": [[int(h), known.state_names[s]] for h, s in np.argwhere(~self.plan.supported)],
            "support_threshold": self.plan.threshold,
        }


@with_suggestions()
@checked
def learn(
    log: LogSource,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    epsilon: float,
    delta: float,
    behaviour: Behaviour,
    reports_per_person: int = 1,
    keep: Keep = "random",
    z: float = DEFAULT_Z,
    fallback: str | None = None,
    stationary: bool = False,
    learner: OfflineLearner = "pessimism",
    compare: float = 0.0,
    min_propensity: float | None = None,
    noise: Noise | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Learn a policy from a log with one release; every call is a release of its own and costs anew.

    Parameters
    ----------
    log, mapping
        As in `tacit.data_check`.
    epsilon, delta
        What every person of the log is promised.
    behaviour
        How actions were chosen: `"known"`, by a rule that looked at step and state only; `"unknown"` is refused.
    reports_per_person, keep
        How many episodes of a person count, and which: `"random"` or `"first"`.
    learner
        `"pessimism"`, or `"dp-apvi"` or `"dp-vapvi"` with the noise that their paper prints
        (`tacit.planning.pessimism`).
    z
        The multiplier of the lower confidence bounds.
    fallback
        The action for states without data.
    stationary
        The public declaration that transitions and rewards do not depend on the step.
    compare, min_propensity
        The share of people kept out to compare the policy with the log's rule; the declared least propensity.
    noise
        Secure unless a simulation says otherwise.
    progress
        Called with the share that is done.

    Returns
    -------
    Learned
        Policy, released numbers and certificate.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> mapping = {"columns": {"person": "who", "episode": None, "step": None}, "horizon": 1,
    ...     "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
    ...     "actions": {"column": "given", "categories": ["wait", "pill"]},
    ...     "reward": {"column": "points", "low": 0.0, "high": 1.0}}
    >>> log = [{"who": n, "fever": 36 + n % 4, "given": ["wait", "pill"][n % 2], "points": n % 2} for n in range(60)]
    >>> learned = learn(log, mapping, epsilon=2.0, delta=1e-3, behaviour="known", fallback="wait")
    >>> learned.policy.states, learned.certificate.claim.epsilon
    (('well', 'sick'), 2.0)
    """
    asked = {"epsilon": epsilon, "delta": delta, "keep": keep, "z": z, "fallback": fallback, "stationary": stationary,
        "learner": learner,
    }  # fmt: skip
    request, usable = read_log(
        log, mapping, behaviour=behaviour, reports_per_person=reports_per_person, progress=progress, **asked
    )
    source = SecureNoise() if noise is None else noise
    if compare == 0.0:
        return learn_from(request, usable, source)
    from tacit.study.split import Split

    return Split.of(request, usable, compare, min_propensity, source).learn(source)


def read_log(
    log: LogSource,
    mapping: EpisodeMapping | Mapping[str, Any] | str | Path,
    *,
    behaviour: Behaviour,
    reports_per_person: int,
    progress: Progress | None,
    **asked: Any,
) -> tuple[LearnRequest, Episodes]:
    """What is asked of a log, and its episodes; nothing is released."""
    known = as_mapping(mapping)
    _require_behaviour(behaviour)
    # Everything public is checked before the log is opened.
    _ = LearnRequest(mapping=known, people=1, reports_per_person=reports_per_person, **asked).channels
    check, episodes = check_log(log, known, reports_per_person=reports_per_person, progress=progress)
    usable = require_usable(check, episodes)
    found = LearnRequest(mapping=known, people=usable.people, reports_per_person=reports_per_person, **asked)
    return found, usable


def require_usable(check: DataCheck, episodes: Episodes | None) -> Episodes:
    """The episodes, if the log passed its check and its propensities are functions of step and state."""
    if episodes is None:
        raise InvalidInput(f"the log must pass its data check, got {check.line}; see where with --check-only")
    varies = check.notes.get("propensity varies", 0)
    if varies:
        raise PrivacyViolation(
            "the propensities of the log must be one number for every step, state and action, got several for "
            f"{varies} of them: the actions were chosen by more than step and state, and counts of such a log mix what "
            "an action does with why it was taken"
        )
    return episodes


def learn_from(request: LearnRequest, episodes: Episodes, noise: Noise) -> Learned:
    """Release the counts of these episodes once, and plan."""
    kind = kind_of(noise)
    require(episodes.people == request.people, f"there must be {request.people} people", episodes.people)
    channels = request.channels
    stages = deal(episodes, request.reports_per_person, request.keep, noise)
    # Everything that may be refused is refused before the first lot of noise is drawn.
    certificate = request.certificate(kind)
    require(certificate.holds, "the claim must hold", certificate.verdict)
    secret, payloads = channels[0].begin_secret(), []
    for channel, chosen in zip(channels, stages, strict=True):
        bodies = [channel.encode(None if i < 0 else episodes.trajectory(int(i)), noise) for i in chosen]
        secret, payload = channel.release(secret, bodies, TOTALS, noise)
        payloads.append(payload)
    return request.planned(tuple(payloads), certificate)


def deal(episodes: Episodes, reports: int, keep: Keep, noise: Noise) -> Ints:
    """The numbers[stage, person] of the episodes that count, -1 for a cover report (G1).

    A person with more than `reports` episodes keeps a uniformly drawn set of them ("random"; exact lots from secure
    noise), or those that come first in the log ("first").
    """
    order = np.argsort(episodes.persons, kind="stable")
    starts = np.searchsorted(episodes.persons[order], np.arange(episodes.people + 1))
    dealt: Ints = np.full((reports, episodes.people), -1, dtype=np.int64)
    for person in range(episodes.people):
        own = order[starts[person] : starts[person + 1]]
        if keep == "random" and len(own) > reports:
            own = own[shuffled(len(own), noise)]
        dealt[: len(own[:reports]), person] = own[:reports]
    return dealt


def shuffled(count: int, noise: Noise) -> Ints:
    """Numbers below `count` in a random order, by exact lots unless this is a simulation."""
    if isinstance(noise, SimulationNoise):
        return noise.generator.permutation(count)
    return permutation(count, noise)


def released_counts(request: LearnRequest, payloads: tuple[bytes, ...]) -> CountStatistics:
    """The totals of all stages, from what was released."""
    channels = request.channels
    require(len(payloads) == len(channels), f"there must be {len(channels)} payloads", len(payloads))
    memory, released = channels[0].begin_memory(), None
    for channel, payload in zip(channels, payloads, strict=True):
        memory, released = channel.read(memory, payload, request.people)
    return cast("Any", released).statistics  # type: ignore[no-any-return]


def _require_behaviour(behaviour: object) -> None:
    require(behaviour in get_args(Behaviour), "behaviour must be 'known' or 'unknown'", behaviour)
    if behaviour == "unknown":
        raise PrivacyViolation(
            "a log can only be learned from if its actions were chosen by step and state alone: what else decided "
            "them may also have decided what followed, and no count tells the two apart; collect with a study"
        )


def kind_of(noise: object) -> NoiseKind:
    """What a certificate says about this source of noise."""
    if isinstance(noise, SecureNoise):
        return "secure"
    if isinstance(noise, SimulationNoise):
        return "simulation"
    raise InvalidInput(f"noise must be SecureNoise or SimulationNoise, got {type(noise).__name__}")
