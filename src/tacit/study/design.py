"""The design of a study: everything that is decided, and public, before the first person comes.

A design is one JSON file. Whoever has it derives learner, channels, the exposure of a person and the certificate
without asking anybody; its digest is the name under which all parties know the study. Nothing in it can be changed
later: another design is another study, with another budget.

    plan_study(...)   from choices to a design, calibrated; every refusal is raised here
    design.parts()    from a design to the objects that run it
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, get_args

from tacit._version import __version__
from tacit.accounting.claims import PrivacyUnit, Trust
from tacit.arguments import checked
from tacit.documents import canonical
from tacit.environments.baselines import baseline_policy, baseline_table
from tacit.errors import (
    MAX_COUNTERS,
    MAX_HORIZON,
    MAX_REPORTS,
    InvalidInput,
    NotSupported,
    require,
    require_count,
    require_epsilon,
    require_real,
    with_suggestions,
)
from tacit.features import Features as RowFeatures
from tacit.learners.auto import AUTO, Situation, choose_learner, choose_linear
from tacit.planning.loss_budget import LossBudget
from tacit.policies import Policy, policy_from_dict, policy_to_dict, tabular, uniform_policy
from tacit.protocol import Constants
from tacit.release.contract import Release
from tacit.release.registry import channel_from_dict
from tacit.renamed import stored, today
from tacit.runs.config import parse_learner
from tacit.runs.warm_start import WarmStart
from tacit.study.assembly import Choices, StudyParts, epsilon_after_log, study_parts, unknown_world
from tacit.study.contract import require_ladder
from tacit.study.declarations import Features, declared_features, declared_support, declared_words, seen_support
from tacit.support import Support

__all__ = ["StudyDesign", "StudyParts", "plan_study"]

FORMAT: Final = "tacit-study"
FORMAT_VERSION: Final = 1
WITH_LOG: Final = ("start", "epsilon_with_log")
OPTIONAL: Final = frozenset(("baseline", "loss_budget", "stage_loss_budget", "support", "sees", "features", *WITH_LOG))
DECLARED: Final[Mapping[str, Any]] = {
    "support": Support, "sees": Features, "features": RowFeatures, "start": WarmStart
}  # fmt: skip
ROW: Final = ("row",)
"""The one state of a study over rows of features."""
TRUSTS: Final = tuple(trust for trust in get_args(Trust) if trust != "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDesign:
    """The public plan of a study; make one with `plan_study`."""

    name: str
    states: tuple[str, ...]
    actions: tuple[str, ...]
    horizon: int
    rewards: tuple[float, float]
    """The public bounds of a reward."""
    learner: str
    trust: Trust
    epsilon: float
    """What all reports of a person in the stages may cost."""
    delta: float
    stages: int
    """How many stages report, where the learner does not plan its own."""
    target: int
    """How many people are wanted in a stage."""
    least: int
    """How many reports a stage needs: with fewer, it is void."""
    ladder: tuple[int, ...]
    """The sizes that a release may have; empty: any from `least` to `target` (see `tacit.study.contract`)."""
    unit: PrivacyUnit
    mechanism: str | None
    constants: Constants | None
    z: float | None
    honest_fraction: float | None
    fallback: Mapping[str, Any]
    """The policy of whoever gets no plan: before the first stage, and after the kill switch."""
    channels: tuple[Mapping[str, Any], ...]
    """One for every stage that reports, with the exact numbers of its noise."""
    stationary: bool
    """The public declaration that transitions and rewards do not depend on the step."""
    because: str | None
    """Why `auto` chose the learner; None where it was named."""
    version: str
    baseline: Mapping[str, Any] | None = None
    """What people do already: learners start from it, and a loss is a loss against it."""
    loss_budget: float | None = None
    """How much mean return the people of the study may lose against it (`tacit.planning.loss_budget`)."""
    stage_loss_budget: float | None = None
    """The same for every single stage."""
    support: Support | None = None
    """The public declaration of what can happen, over the states: what cannot move is not released."""
    sees: Features | None = None
    """The public declaration of what a policy sees of a state; None: the state itself."""
    features: RowFeatures | None = None
    """The public declaration of people's rows; None: people are in states."""
    start: WarmStart | None = None
    """What was released of a log before: stage 0; None: there is none."""
    epsilon_with_log: float | None = None
    """What log and stages together may cost a person who is in both."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)} | {"learner": stored(self.learner)}
        plain |= {name: list(plain[name]) for name in ("states", "actions", "rewards", "ladder", "channels")}
        plain["unit"] = {"reports": self.unit.reports, "per_stage": self.unit.per_stage}
        plain["fallback"] = dict(self.fallback)
        plain |= {name: None if plain[name] is None else plain[name].to_dict() for name in DECLARED}
        # Studies that know nothing of these are written as before there were any.
        plain = {name: value for name, value in plain.items() if name not in OPTIONAL or value is not None}
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> StudyDesign:
        """The design that `to_dict` wrote; anything missing or unknown is an error."""
        names = {item.name for item in fields(cls)}
        known = plain.get("format") == FORMAT and plain.get("format_version") == FORMAT_VERSION
        must = f"a design must be a {FORMAT} of version {FORMAT_VERSION}"
        require(known, must, f"{plain.get('format')} {plain.get('format_version')}", "plan the study again")
        given = {name: value for name, value in plain.items() if name not in ("format", "format_version")}
        fits = names - OPTIONAL <= set(given) <= names
        require(fits, f"a design has the entries {', '.join(sorted(names))}", sorted(given))
        for name in ("epsilon", "delta"):  # true is no number
            require_real(name, given[name])
        try:
            given["unit"], given["learner"] = PrivacyUnit(**given["unit"]), today(given["learner"])
            given["rewards"] = _bounds(given["rewards"])
            given |= {name: tuple(given[name]) for name in ("states", "actions", "ladder", "channels")}
            given |= {name: kind.from_dict(given[name]) for name, kind in DECLARED.items() if name in given}
            given["channels"] = tuple(dict(channel) for channel in given["channels"])
            return cls(**given)
        except TypeError as error:
            raise InvalidInput("the entries of a design must have the types that 'tacit study new' writes") from error

    def __post_init__(self) -> None:
        for what, names in (("states", self.states), ("actions", self.actions)):
            _require_names(what, names)
        require_count("horizon", self.horizon)
        for name, text in (("name", self.name), ("learner", self.learner), ("version", self.version)):
            require(isinstance(text, str), f"{name} of a design must be text", type(text).__name__)
        for name, given in (("mechanism", self.mechanism), ("constants", self.constants)):
            require(isinstance(given, str | None), f"{name} of a design must be text or null", type(given).__name__)
        for name, number in (("z", self.z), ("honest_fraction", self.honest_fraction)):
            _ = number is None or require_real(f"{name} of a design", number, low=0.0)
        require(isinstance(self.stationary, bool), "stationary must be true or false", type(self.stationary).__name__)
        require(isinstance(self.because, str | None), "because must be text", type(self.because).__name__)
        require(self.trust in TRUSTS, f"trust must be one of {', '.join(TRUSTS)}", self.trust)
        require_count("stages", self.stages)
        least = require_count("least", self.least)
        require(least <= require_count("target", self.target), f"least must be at most the target {self.target}", least)
        sizes = require_ladder(self.ladder, least=least, target=self.target)
        plain = self.trust != "local" or not sizes
        require(plain, "a ladder must not be set where every message is public, and so is their number", "local trust")
        require(self.unit.per_stage == 1, "a person reports at most once in a stage (per_stage 1)", self.unit.per_stage)
        declared_support(self.support, self.states, self.actions, self.horizon)
        declared_features(self.sees, self.states)
        if self.start is not None:
            self.start.require_world(self.states, self.actions, self.horizon, self.trust, self.rewards)
            require(self.sees is None, "a study that starts with a log has policies over states", "sees")
        together = (self.start is None) == (self.epsilon_with_log is None)
        require(together, "start and epsilon_with_log come together", "one of them")
        _ = self.epsilon_with_log is None or require_epsilon(self.epsilon_with_log)
        if self.features is not None:
            one = self.states == ROW and self.horizon == 1 and self.sees is None and self.support is None
            rule = "a study over features must have one state, 'row', and one step, without support and sees"
            require(one and self.baseline is None, f"{rule} and baseline", "others")
            require(len(self.actions) > 1, "there must be at least two actions to choose from", len(self.actions))
        self.policy_of_last_resort()
        _ = self.budget
        require(self.loss_budget is None or self.baseline is not None, "a loss_budget needs a baseline", "none")

    @property
    def budget(self) -> LossBudget | None:
        """How much may be lost against the baseline; None: as much as exploration costs."""
        if self.loss_budget is None:
            must = "a stage_loss_budget needs a loss_budget for the whole study"
            require(self.stage_loss_budget is None, must, "none", "give both")
            return None
        return LossBudget(total=self.loss_budget, stage=self.stage_loss_budget)

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of what policies are tables over: features where they are declared, else states."""
        return self.states if self.sees is None else self.sees.names

    @property
    def declarations(self) -> dict[str, str]:
        """What the design declares to be public about the world, in words; empty where it declares nothing."""
        rows = {} if self.features is None else {"features": f"public: {', '.join(self.features.names)}"}
        log = {} if self.start is None else {"start": f"public: {self.start.line}"}
        return declared_words(seen_support(self.support, self.sees), self.sees) | rows | log

    @property
    def choice(self) -> str | None:
        """What `auto` chose, and why; None where the learner was named."""
        return None if self.because is None else f"auto: {self.learner}, because {self.because}"

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: the name of the study."""
        return hashlib.sha256(canonical(self.to_dict())).hexdigest()

    def policy_of_last_resort(self) -> Policy:
        """The fallback policy."""
        policy = tabular(policy_from_dict(self.fallback))
        table = policy.probabilities(len(self.actions))
        wanted = (self.horizon, len(self.rows), len(self.actions))
        what = "steps, states and actions" if self.sees is None else "steps, features and actions"
        require(table.shape == wanted, f"the fallback policy must have the {what} {wanted}", table.shape)
        return policy

    def parts(self) -> StudyParts:
        """Learner, channels, claim and certificate, derived from the design alone."""
        return study_parts(Choices.of(self))

    def declared(self) -> tuple[Release, ...]:
        """The channels as the design spells them out."""
        return tuple(channel_from_dict(plain) for plain in self.channels)


@with_suggestions()
@checked
def plan_study(
    *,
    states: Sequence[str] | int | None = None,
    actions: Sequence[str] | int,
    horizon: int | None = None,
    trust: Trust,
    epsilon: float,
    delta: float,
    stages: int,
    target: int,
    learner: str = AUTO,
    stationary: bool = False,
    least: int | None = None,
    ladder: Sequence[int] = (),
    reports_per_person: int = 1,
    rewards: tuple[float, float] = (0.0, 1.0),
    name: str = "study",
    mechanism: str | None = None,
    constants: Constants | None = None,
    z: float | None = None,
    honest_fraction: float | None = None,
    fallback: Policy | None = None,
    baseline: object = None,
    loss_budget: float | None = None,
    stage_loss_budget: float | None = None,
    support: object = None,
    sees: object = None,
    features: RowFeatures | None = None,
    start: object = None,
) -> StudyDesign:
    """Plan a study: calibrate the noise of every stage and certify what a person is exposed to over all of them.

    Parameters
    ----------
    states, actions
        Names, or how many there are.
    horizon, rewards
        Steps of an episode, and the public bounds of a reward.
    trust, epsilon, delta, reports_per_person, honest_fraction
        The claim for one person over all stages, and the share of devices whose noise counts (shuffle trust).
    stages, target, least, ladder
        How many stages, reports asked for, and reports needed (nine tenths of the target; one under local trust). A
        ladder of sizes from `least` on hides how many came: reports above the highest rung are dropped at random.
    learner, mechanism, constants, z, stationary
        As in `tacit.run`. `stationary` declares in public that nothing depends on the step; `auto` then pools them.
    fallback, baseline, loss_budget, stage_loss_budget
        A baseline is what people do already ('always ACTION', 'uniform', a policy or its table), and the fallback
        unless another one is given. A budget bounds what people lose against it, as a share of the largest return,
        with probability 95%.
    support, sees
        Public declarations of what can happen, and of what policies see of a state (`tacit.study.declarations`).
    features
        Rows in place of states and horizon (`tacit.Features`): one decision each, by a linear learner.
    start
        The learned.json of a log under central trust, as stage 0 of `bucb`: `epsilon` is what log and stages cost a
        person who is in both, and the stages get what the log leaves.
    name
        The name of the study.

    Returns
    -------
    StudyDesign
        `parts()` has learner, channels, claim and certificate; `digest` names the study.

    Raises
    ------
    InvalidInput, NotSupported, PrivacyViolation
        A value breaks its rule, the combination is not offered, or it would not be private.

    Examples
    --------
    >>> design = plan_study(states=4, actions=("left", "right"), horizon=6, trust="shuffle", epsilon=1.0,
    ...                     delta=1e-6, stages=10, target=1000, stationary=True)
    >>> design.learner, design.least, len(design.channels), design.parts().certificate.holds
    ('bucb:share_across_steps=true', 900, 10, True)
    """
    if features is not None:
        require(isinstance(features, RowFeatures), "features must be tacit.Features", type(features).__name__)
        require(states is None and horizon in (None, 1), "features come in place of states and horizon", "both")
        states, horizon = ROW, 1
    require(states is not None, "a study needs states and a horizon, or features", "neither")
    assert states is not None  # noqa: S101 - for the types
    H, wanted = require_count("horizon", horizon, most=MAX_HORIZON), require_count("target", target)
    named = (_names("state", states), _names("action", actions))
    # Without a support, what is sent counts every (step, state, action, next state).
    counters = H * len(named[1]) * len(named[0]) * (1 if support is not None else len(named[0]))
    few = "declare its support, or pool or merge states"
    require(counters <= MAX_COUNTERS, f"a study must have at most {MAX_COUNTERS:,} counters H·S·A·S", counters, few)
    seen, known = declared_features(sees, named[0]), declared_support(support, *named, H)
    _require_over_states(seen, baseline, loss_budget)
    usual = None if baseline is None else baseline_policy(unknown_world(H, *named), baseline_table(baseline))
    resort = fallback or usual or uniform_policy(H, len(named[0] if seen is None else seen.names), len(named[1]))
    draft = StudyDesign(
        name=name,
        states=named[0],
        actions=named[1],
        horizon=H,
        rewards=_bounds(rewards),
        learner=today(learner, warn=True),
        trust=trust,
        epsilon=require_epsilon(epsilon),
        delta=require_real("delta", delta, low=0.0, high=1.0),
        stages=stages,
        target=wanted,
        least=_least(trust, wanted) if least is None else least,
        ladder=tuple(ladder),
        unit=PrivacyUnit(
            reports=require_count("reports_per_person", reports_per_person, most=MAX_REPORTS), per_stage=1
        ),
        mechanism=mechanism,
        constants=constants,
        z=z,
        honest_fraction=honest_fraction,
        fallback=policy_to_dict(resort),
        channels=(),
        stationary=stationary,
        because=None,
        version=__version__,
        baseline=None if usual is None else policy_to_dict(usual),
        loss_budget=loss_budget,
        stage_loss_budget=stage_loss_budget,
        support=known,
        sees=seen,
        features=features,
    )
    draft = draft if start is None else replace(draft, start=WarmStart.of(start), epsilon_with_log=draft.epsilon)
    return _calibrated(_resolved(draft))


def _calibrated(draft: StudyDesign) -> StudyDesign:
    """The design with the channels of its stages, if it keeps its claim, with a log that it starts with."""
    if draft.start is not None:
        draft = replace(draft, epsilon=epsilon_after_log(Choices.of(draft)))
    parts = draft.parts()
    require(parts.certificate.holds, "a study must keep its claim", parts.certificate.verdict)
    return replace(draft, channels=tuple(channel.to_dict() for channel in parts.channels))


def _least(trust: Trust, target: int) -> int:
    """How many reports a stage needs where nobody says: nine tenths; one where no noise depends on others."""
    return 1 if trust == "local" else max(min(2, target), math.ceil(0.9 * target))


def _require_over_states(seen: Features | None, *given: object) -> None:
    """Refuse what is over states in a study over features."""
    if seen is not None and any(one is not None for one in given):
        raise NotSupported(
            "a baseline is over states: no loss budget and no start from it over features; remove sees, or give "
            "what people do already as the fallback, over features"
        )


def _resolved(draft: StudyDesign) -> StudyDesign:
    """The design with the learner that `auto` stands for."""
    name, options = parse_learner(draft.learner)
    if name != AUTO:
        return draft
    require(not options, "auto takes no options", draft.learner, "name a learner to give it options")
    if draft.features is not None:
        many = {"features": draft.features.dimension, "actions": len(draft.actions)}
        linear = choose_linear(draft.trust, episodes=draft.stages * draft.target, **many)
        return replace(draft, learner=linear.learner, because=linear.because)
    if draft.start is not None:
        pooled = "bucb:share_across_steps=true" if draft.stationary else "bucb"
        return replace(draft, learner=pooled, because="it is the learner that starts with a log")
    choice = choose_learner(
        Situation(
            trust=draft.trust,
            episodes=draft.stages * draft.target,
            horizon=draft.horizon,
            states=len(draft.rows),
            actions=len(draft.actions),
            stationary=draft.stationary,
            epsilon=draft.epsilon,
            delta=draft.delta,
            constants=draft.constants,
            mechanism=draft.mechanism,
            stages=draft.stages,
            budget=draft.loss_budget is not None,
        )
    )
    return replace(draft, learner=choice.learner, because=choice.because)


def _names(kind: str, given: Sequence[str] | int) -> tuple[str, ...]:
    """Names as they were given, or numbers as names."""
    if isinstance(given, int):
        return tuple(str(number) for number in range(require_count(f"number of {kind}s", given, most=MAX_COUNTERS)))
    require(not isinstance(given, str), f"{kind}s must be names in a list, or their number", given)
    found = tuple(given)
    _require_names(f"{kind}s", found)
    return found


def _require_names(what: str, names: tuple[str, ...]) -> None:
    good = len(names) > 0 and all(isinstance(name, str) and name.strip() for name in names)
    require(good and len(set(names)) == len(names), f"{what} must have names, each of them once", len(names))


def _bounds(given: Any) -> tuple[float, float]:
    try:
        low, high = given
    except (TypeError, ValueError) as error:
        raise InvalidInput("bounds of rewards must be two numbers, low and high") from error
    found = require_real("lower bound of rewards", low), require_real("upper bound of rewards", high)
    require(found[0] < found[1], "the lower bound of rewards must be below the upper one", found)
    return found
