"""The parts of a study: learner, channels, exposure and certificate, derived from its design and nothing else.

    choices -> basis (which noise answers the query) -> learner -> stages -> channels -> exposure -> certificate

Every refusal of a combination is raised here, before anybody comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, Trust
from tacit.accounting.events import Events
from tacit.accounting.knowledge import coalitions
from tacit.accounting.terms import terms_of
from tacit.arrays import Floats
from tacit.environments.bandits import FeatureBandit
from tacit.environments.baselines import Table, baseline_policy, baseline_table
from tacit.environments.layered import LayeredMDP
from tacit.environments.registry import make_environment
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, UnknownName, require
from tacit.features import Features as RowFeatures
from tacit.learners.contract import StageRequest, require_over_support
from tacit.learners.linear import FeatureRequest
from tacit.learners.schedules import RarelyReplanned
from tacit.learners.table import LEARNERS, LearnerRow, learner_row
from tacit.policies import policy_from_dict
from tacit.protocol import Constants, Learner, Query, Totals
from tacit.release.batch_release import BatchPlan
from tacit.release.contract import Release, ReleasePlan, StageSize
from tacit.release.gradient_release import GradientPlan
from tacit.release.local import RANDOMIZERS, Local
from tacit.release.loss_release import LossPlan
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.returns import OneBitReturns
from tacit.release.shuffle_release import ShufflePlan
from tacit.release.stage import EVERYTHING
from tacit.release.staged import Staged
from tacit.release.table import OVER_SUPPORT, make_privatizer
from tacit.release.totals_release import TotalsPlan
from tacit.release.vectors import VectorPlan
from tacit.released.batches import BatchQuery
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery, MomentShape
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import KINDS
from tacit.runs.builder import OWN_BATCHES, RunRequest, count_shape, privacy_request
from tacit.runs.config import RunConfig, parse_learner
from tacit.runs.gradient_builder import GradientBuilder
from tacit.runs.loss_builder import LossBuilder
from tacit.runs.warm_start import AfterLog, WarmStart, composed_claim, remaining_epsilon
from tacit.study import uniform_assignment
from tacit.study.declarations import Features, declared_words, seen_support
from tacit.support import Support

if TYPE_CHECKING:
    from tacit.study.design import StudyDesign


ROWS: Final = 2000
"""Rows drawn from a declaration, where second moments are not released."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyParts:
    """What runs a study."""

    learner: Learner[Any, Any, Any]
    basis: ReleasePlan
    channels: tuple[Release, ...]
    claim: PrivacyClaim
    """Of the stages; the certificate has that of log and stages together, where a study starts with a log."""
    events: Events
    """What a person with all reports of the unit is exposed to at the worst, over the study."""
    certificate: Certificate

    @property
    def shape(self) -> Any:
        """The public shape of the statistics."""
        return self.basis.shape

    @property
    def privatizer(self) -> Staged:
        """The same channels for simulations."""
        return Staged(channels=self.channels, basis=self.basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the parts of a study follow from; hashable, so that they are derived once."""

    sizes: tuple[int, int, int]
    learner: str
    trust: Trust
    epsilon: float
    delta: float
    stages: int
    target: int
    least: int
    ladder: tuple[int, ...]
    unit: PrivacyUnit
    mechanism: str | None
    constants: Constants | None
    z: float | None
    honest_fraction: float | None
    baseline: Table | None
    loss_budget: float | None
    stage_loss_budget: float | None
    support: Support | None
    """Of what is seen."""
    sees: Features | None
    features: RowFeatures | None
    """The declaration of people's rows, where the study is over rows of features."""
    start: WarmStart | None
    epsilon_with_log: float | None

    @classmethod
    def of(cls, design: StudyDesign) -> Choices:
        """The choices of a design."""
        own = ("sizes", "baseline", "support")
        shared = {item.name: getattr(design, item.name) for item in fields(cls) if item.name not in own}
        usual = None if design.baseline is None else baseline_table(policy_from_dict(design.baseline))
        table = None if isinstance(usual, str) else usual
        sizes = (design.horizon, len(design.rows), len(design.actions))
        support = seen_support(design.support, design.sees)
        return cls(sizes=sizes, baseline=table, support=support, **shared)

    @property
    def share(self) -> Fraction:
        """The share of the people wanted without whom a stage is void."""
        return Fraction(self.least, self.target)

    def least_of(self, target: int) -> int:
        """How many reports a stage of another size needs."""
        return min(target, max(1, math.ceil(self.share * target)))


@lru_cache(maxsize=64)
def study_parts(choices: Choices) -> StudyParts:
    """Basis -> learner -> stages -> channels -> exposure -> certificate."""
    chosen, world = _chosen(choices)
    asks = chosen.row.asks
    if (asks, choices.trust) not in BASES:
        able = sorted({trust for asked, trust in BASES if asked is asks})
        known = ", ".join(name for name, row in LEARNERS.items() if _fits(row, choices.trust))
        raise NotSupported(
            f"studies with {chosen.name} run under trust {' or '.join(able)}, not {choices.trust}; use {known}"
            if able
            else f"{chosen.name} cannot learn in a study; under trust {choices.trust} use {known}"
        )
    _require_rows(chosen, choices)
    _require_declarations(chosen, choices)
    basis = BASES[asks, choices.trust](chosen, world, choices)
    learner = _learner(chosen, world, basis, choices)
    require_over_support(learner, choices.support is not None)
    channels = basis.channels(_stages(learner, choices))
    _require_alike(channels, choices)
    own = {(channel.least, channel.target) for channel in channels} != {(choices.least, choices.target)}
    if choices.ladder and own:
        raise NotSupported(f"a ladder needs stages of one size, and {choices.learner} plans stages of its own sizes")
    claim = replace(make_claim(_request(chosen, world, asks)), unit=choices.unit)
    staged = Staged(channels=channels, basis=basis)
    log, privatizer = choices.start, _after_log(staged, claim, choices)
    before, noise = ((), "secure") if log is None else (log.events, log.noise)
    episodes = sum(channel.target for channel in channels) + (0 if log is None else log.people * log.reports)
    terms = terms_of(privatizer, noise=noise, episodes=episodes, users_per_batch=channels[0].target)
    told = declared_words(choices.support, choices.sees)
    if asks is LossQuery:
        told |= {"losses": "private", "first states": "private: part of the trajectory"}
    if log is not None:
        told |= {"log": f"released before: {log.line}"}
    terms = replace(terms, public={**terms.public, "batch sizes": _public_sizes(channels, choices.ladder), **told})
    found = privatizer.certificate().under(terms)
    reports = choices.unit.reports
    against = coalitions(channels, lambda some: (*before, *basis.exposure(some, reports)), found.epsilon)
    return StudyParts(
        learner=learner,
        basis=basis,
        channels=channels,
        claim=claim,
        events=staged.events(),
        certificate=replace(found, coalitions=against),
    )


def _after_log(staged: Staged, claim: PrivacyClaim, choices: Choices) -> Any:
    """The stages, with the log before them if there is one: what a person who is in both is exposed to."""
    if choices.start is None:
        return staged
    whole = composed_claim(replace(claim, epsilon=cast("float", choices.epsilon_with_log)), choices.start)
    return AfterLog(inner=staged, start=choices.start, claim=whole)


def epsilon_after_log(choices: Choices) -> float:
    """What a log leaves of the epsilon of both for the stages, by the exact accountant."""
    start = cast("WarmStart", choices.start)

    def exposed_at(epsilon: float) -> Events:
        asked = replace(choices, epsilon=epsilon)
        plan = _central_batches(*_chosen(asked), asked)
        one = StageSize(target=asked.target, least=asked.least, query=EVERYTHING)
        return plan.exposure(plan.channels([one] * asked.unit.reports), asked.unit.reports)

    claim = replace(make_claim(_request(*_chosen(choices), BatchQuery)), unit=choices.unit)
    asked = replace(claim, epsilon=cast("float", choices.epsilon_with_log))
    return remaining_epsilon(composed_claim(asked, start), start.events, exposed_at)


def _require_rows(chosen: RunRequest, choices: Choices) -> None:
    """Rows of features are for learners of moments, and they for rows."""
    able = ", ".join(name for name, row in LEARNERS.items() if row.asks is MomentQuery and not row.reference)
    if choices.features is not None and chosen.row.asks is not MomentQuery:
        raise NotSupported(f"{chosen.name} does not learn from rows of features; use {able}, or declare states")
    if choices.features is None and chosen.row.asks is MomentQuery:
        raise NotSupported(f"{chosen.name} learns from rows: declare features, or use another learner than {able}")


def _require_declarations(chosen: RunRequest, choices: Choices) -> None:
    """Refuse what a learner, or the channels of its queries, cannot use: a declaration is never ignored."""
    asks, name = chosen.row.asks, chosen.name
    if choices.support is not None and asks not in OVER_SUPPORT:
        able = " and ".join(asked.words() for asked in OVER_SUPPORT)
        raise NotSupported(
            f"a study releases only the counters of a declared support for {able}, not {asks.words()} ({name}); leave "
            "the support out, or use a learner of counts such as bucb"
        )
    if choices.sees is None:
        return
    if asks not in (Totals, BatchQuery, ReturnQuery):
        raise NotSupported(f"{name} does not learn over features; remove sees, or use a learner of counts")
    if choices.constants == "valid":
        raise NotSupported("valid bands contain V* only if what is seen is Markov; remove sees, or use practical")
    if chosen.options.get("start", "uniform") != "uniform":
        raise NotSupported(f"{choices.learner} starts from a policy over states; remove start or sees")


def _require_alike(channels: Sequence[Release], choices: Choices) -> None:
    """Refuse unequal stages of binomial noise for people who come back.

    Which stages somebody reports in may depend on what was released before. Where all stages cost alike that changes
    nothing, and Gaussian noise adds up whoever chooses; the cost of unequal binomial stages is exact for stages that
    are fixed beforehand only (Lemma P14 (several stages)).
    """
    shuffled = choices.trust == "shuffle" and choices.unit.reports > 1
    kinds = {frozenset(channel.events()) for channel in channels} if shuffled else set()
    if len(kinds) > 1:
        raise NotSupported(
            f"people with {choices.unit.reports} reports need shuffled stages that are all alike, and "
            f"{choices.learner} plans {len(kinds)} kinds of them; use a learner that takes the study's own stages "
            "(bucb, sdp-pe-plus), or one report per person"
        )


def _public_sizes(channels: Sequence[Release], ladder: tuple[int, ...]) -> str:
    """What everybody may know about who reports."""
    low, high = min(channel.least for channel in channels), max(channel.target for channel in channels)
    if ladder:
        sizes = " or ".join(map(str, ladder))
        return f"public: {len(channels)} stages, of {sizes} reports each, drawn by lot from those who reported"
    return (
        f"public: {len(channels)} stages, of {low} to {high} reports each; how many report is public, and a cover "
        "report keeps it from depending on anybody's data"
    )


def _chosen(choices: Choices) -> tuple[RunRequest, Any]:
    """The learner's row and options, and a world of the public sizes about which nothing is known."""
    H, S, A = choices.sizes
    world: Any = unknown_world(H, [str(s) for s in range(S)], [str(a) for a in range(A)], choices.support)
    environment = world
    if choices.features is not None:
        environment = f"linear-bandit:features={choices.features.dimension},actions={A}"
        world = make_environment(environment)
    name, options = parse_learner(choices.learner)
    row = OWN[name] if name in OWN else learner_row(name)
    row.check(name, options)
    if row.reference:
        raise InvalidInput(f"{name} is a reference line of simulations and learns nothing; choose a learner")
    if choices.start is not None and not row.warm:
        raise NotSupported(f"{name} cannot start with a log; use bucb")
    config = RunConfig(
        environment=environment,
        learner=choices.learner,
        episodes=choices.stages * choices.target,
        seeds=(0,),
        trust=choices.trust,
        epsilon=choices.epsilon,
        delta=choices.delta,
        mechanism=choices.mechanism,
        constants=choices.constants,
        z=choices.z,
        batch=None if row.asks in OWN_BATCHES else choices.target,
        honest_fraction=choices.honest_fraction,
        baseline=choices.baseline,
        loss_budget=choices.loss_budget,
        stage_loss_budget=choices.stage_loss_budget,
        support=None if choices.support is None else "declared",
    )
    row.check_budget(name, config.budget)
    usual = None if choices.baseline is None else baseline_policy(world, choices.baseline)
    return RunRequest(config=config, name=name, row=row, options=options, baseline=usual), world


def unknown_world(H: int, states: Sequence[str], actions: Sequence[str], support: Support | None = None) -> TabularMDP:
    """A world of these sizes about which nothing is known but its support: whatever can happen is as likely."""
    S, A = len(states), len(actions)
    moves = np.ones((S, A, S)) if support is None else support.moves.astype(np.float64)
    starts = np.ones(S) if support is None else support.starts.astype(np.float64)
    return TabularMDP(
        P=moves / moves.sum(axis=-1, keepdims=True),
        r=np.zeros((S, A)),
        rho=starts / starts.sum(),
        horizon=H,
        reward_kind="bernoulli",
        state_names=states,
        action_names=actions,
        support=support,
    )


def _learner(chosen: RunRequest, world: TabularMDP, basis: Any, choices: Choices) -> Learner[Any, Any, Any]:
    """The learner, told what is public about the noise."""
    if chosen.name == uniform_assignment.NAME:
        plain = choices.constants is None and choices.z is None and choices.baseline is None
        require(plain, f"{uniform_assignment.NAME} only compares: it takes no constants, z or baseline", "some")
        return uniform_assignment.UniformAssignment(
            shape=basis.shape, noise=basis.bit_noise(), stages=choices.stages, users=choices.target
        )
    if chosen.row.asks is MomentQuery:
        config = chosen.config
        return chosen.row.build(
            FeatureRequest(
                name=chosen.name,
                shape=basis.shape,
                episodes=config.episodes,
                constants=config.constants,
                z=config.z,
                noise=basis,
                options=chosen.options,
                sizes=(choices.target,) * choices.stages,
                contexts=_uniform_rows(choices),
            )
        )
    if chosen.row.asks is LossQuery:
        return LossBuilder().told(chosen, LayeredMDP.from_tabular(world), basis)
    if chosen.row.asks is not BatchQuery:
        return KINDS[chosen.row.asks].learner(chosen, world, basis)
    config = chosen.config
    request = StageRequest(
        name=chosen.name,
        shape=basis.shape,
        episodes=config.episodes,
        constants=config.constants,
        z=config.z,
        noise=basis,
        options=chosen.options,
        sizes=(choices.target,) * choices.stages,
        baseline=chosen.baseline,
        budget=config.budget,
        log=None if choices.start is None else choices.start.counts,
    )
    try:
        return chosen.row.build(request)
    except NotSupported:
        # The stages follow from the learner's theorem; the study has those instead.
        return chosen.row.build(replace(request, sizes=None))


def _uniform_rows(choices: Choices) -> Floats | None:
    """Local trust: how rows are thought to be distributed, as public as their declaration."""
    if choices.trust != "local" or choices.features is None:
        return None
    return choices.features.uniform_rows(ROWS)


def _stages(learner: Any, choices: Choices) -> list[StageSize]:
    """The stages that report."""
    if learner.asks is ReturnQuery:
        kind = ReturnQuery(groups=(1,), bit="mean", level=float(choices.sizes[0]))
        return [StageSize(target=n, least=choices.least_of(n), query=kind) for n in learner.batch_sizes]
    planned = getattr(learner, "batches", None)
    if planned is not None:
        return [StageSize(target=b.users, least=choices.least_of(b.users), query=b.query) for b in planned]
    rarely = isinstance(learner, RarelyReplanned)
    if rarely or getattr(learner, "users_per_batch", choices.target) != choices.target:
        raise NotSupported(
            f"{choices.learner} does not take {choices.target} people at a time, as the stages of this study do; use "
            "a learner that takes batches, without options that say how many people share a policy"
        )
    query = Totals() if learner.asks is Totals else learner.query(learner.begin())
    return [StageSize(target=choices.target, least=choices.least, query=query)] * choices.stages


def _request(chosen: RunRequest, world: Any, asks: type[Query]) -> PrivacyRequest:
    """The privacy that the study asks for, as a simulation would ask for it."""
    if asks is SoftmaxQuery:
        return GradientBuilder().request(chosen, world)
    if asks is LossQuery:
        return LossBuilder().request(chosen, LayeredMDP.from_tabular(world))
    if isinstance(world, FeatureBandit):
        shape = MomentShape(features=world.features, actions=world.actions, shared=False)
        return privacy_request(chosen, MomentQuery, shape)
    request = privacy_request(chosen, asks, count_shape(chosen, world))
    return replace(request, squares=chosen.row.squares(chosen.options), users_per_batch=chosen.config.users_per_batch)


def _claim(chosen: RunRequest, world: TabularMDP, choices: Choices) -> tuple[PrivacyRequest, PrivacyClaim]:
    request = _request(chosen, world, chosen.row.asks)
    return request, replace(make_claim(request), unit=choices.unit)


def _shuffle(chosen: RunRequest, world: TabularMDP, choices: Choices) -> ReleasePlan:
    request, claim = _claim(chosen, world, choices)
    return ShufflePlan.of(replace(request, users_per_batch=choices.target), least=choices.share, claim=claim)


def _local(chosen: RunRequest, world: TabularMDP, choices: Choices) -> ReleasePlan:
    request = replace(_request(chosen, world, chosen.row.asks), unit=choices.unit, whole=True)
    plan: object = make_privatizer(request)
    if not isinstance(plan, Local | OneBitReturns):
        raise UnknownName("local mechanism with an exact integer form", str(request.mechanism), RANDOMIZERS)
    return plan


def _central(chosen: RunRequest, world: TabularMDP, choices: Choices) -> ReleasePlan:
    request, claim = _claim(chosen, world, choices)
    return TotalsPlan.of(request, least=choices.share, claim=claim, releases=choices.stages)


def _central_batches(chosen: RunRequest, world: TabularMDP, choices: Choices) -> ReleasePlan:
    request, claim = _claim(chosen, world, choices)
    return BatchPlan.of(request, least=choices.share, claim=claim)


def _gradient(chosen: RunRequest, world: TabularMDP, choices: Choices) -> ReleasePlan:
    request, claim = _claim(chosen, world, choices)
    return GradientPlan.of(request, least=choices.share, claim=claim)


def _moments(chosen: RunRequest, world: Any, choices: Choices) -> ReleasePlan:
    request, claim = _claim(chosen, world, choices)
    honest = request.honest_fraction if choices.trust == "shuffle" else 1.0
    return VectorPlan(claim=claim, shape=request.shape, asks=MomentQuery, least=choices.share, honest=honest)


def _losses(chosen: RunRequest, world: TabularMDP, choices: Choices) -> ReleasePlan:
    request, claim = _claim(chosen, world, choices)
    if request.feedback == "full" or request.known_transitions:
        raise NotSupported(
            "a person of a study knows the losses of what was done, and transitions are not known; use uob-lbps"
        )
    _ = request.shape.steps  # where it is no unrolled world of the study's sizes, devices have no losses of it
    return LossPlan.of(request, claim=claim, releases=choices.stages)


BASES: Final[Mapping[tuple[type[Query], Trust], Callable[[RunRequest, TabularMDP, Choices], ReleasePlan]]] = {
    (Totals, "central"): _central,
    (Totals, "shuffle"): _shuffle,
    (Totals, "local"): _local,
    (BatchQuery, "central"): _central_batches,
    (BatchQuery, "shuffle"): _shuffle,
    (LossQuery, "central"): _losses,
    (MomentQuery, "central"): _moments,
    (MomentQuery, "shuffle"): _moments,
    (MomentQuery, "local"): _moments,
    (SoftmaxQuery, "central"): _gradient,
    (ReturnQuery, "local"): _local,
}
"""Which noise answers which query in a study."""


def _no_request(request: object) -> Learner[Any, Any, Any]:
    raise NotSupported(
        f"{uniform_assignment.NAME} is known to studies alone; compare arms of a simulation by tacit.trial"
    )


OWN: Final[Mapping[str, LearnerRow]] = {
    uniform_assignment.NAME: LearnerRow(
        summary="fair lots between the arms of a trial", asks=ReturnQuery, build=_no_request
    ),
}
"""Learners that only studies know."""


def _fits(row: LearnerRow, trust: Trust) -> bool:
    facts = row.losses
    met = facts is None or (facts.feedback == "bandit" and facts.private is None)
    return (row.asks, trust) in BASES and met and not row.reference
