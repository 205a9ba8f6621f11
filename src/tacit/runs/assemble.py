"""From names to objects: world, privatizer and learner of a configuration, built and thereby fully validated.

row = the learner's row of the table          says what it asks for
kind = the kind of those queries              knows the worlds and privatizers that fit
world -> draft of the privatizer -> learner -> privatizer with the learner's schedule
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final

from tacit.accounting.certificate import Certificate, CertifiedFamily
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.terms import terms_of
from tacit.environments.baselines import baseline_policy
from tacit.environments.live import LiveWorld
from tacit.environments.state_features import SeenMDP
from tacit.errors import NotSupported
from tacit.learners.contract import require_over_support, require_widths
from tacit.learners.table import learner_row
from tacit.policies import Policy
from tacit.protocol import Learner, Privatizer, Query, Totals, World
from tacit.released.batches import BatchQuery, BatchReport
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.runs.builder import RunBuilder, RunRequest
from tacit.runs.config import RunConfig, parse_learner
from tacit.runs.count_builders import BatchBuilder, CountBuilder, ReturnBuilder
from tacit.runs.feature_builder import FeatureBuilder
from tacit.runs.gradient_builder import GradientBuilder
from tacit.runs.loss_builder import LossBuilder
from tacit.runs.warm_start import composed
from tacit.simulation.worlds import world_of

KINDS: Final[Mapping[type[Query], RunBuilder]] = {
    Totals: CountBuilder(),
    BatchQuery: BatchBuilder(),
    LossQuery: LossBuilder(),
    SoftmaxQuery: GradientBuilder(),
    ReturnQuery: ReturnBuilder(),
    MomentQuery: FeatureBuilder(),
}
"""How runs are put together, by what their learner asks for."""

NO_COUNTERS: Final[Mapping[type[Query], str]] = {
    ReturnQuery: "people say one bit about a return, and no counter that could be left out",
    MomentQuery: "moments have a number for every pair of features, whatever can happen",
    SoftmaxQuery: "a gradient has a number for every parameter, whatever can happen",
    LossQuery: "a layered world has counters for moves to the next layer only: its layers are its public support",
}
"""Why there is nothing to declare a support for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Assembled:
    """The three parts of a run, and what the simulator alone knows about them."""

    world: World
    learner: Learner[object, Query, object]
    privatizer: Privatizer[object, Query, object]
    config: RunConfig
    unverified: str | None = None
    """Which statements about the learner nobody has checked."""
    baseline: Policy | None = None
    """What the run is measured against."""

    @property
    def mdp(self) -> Any:
        """The environment that the world was made from."""
        return self.world.environment

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised."""
        return self.privatizer.claim

    @cached_property
    def certificate(self) -> Certificate:
        """What the exact accountant finds, and what that depends on; runs are simulations."""
        users = self.largest_batch or self.config.users_per_batch
        terms = terms_of(self.privatizer, noise="simulation", episodes=self.config.episodes, users_per_batch=users)
        return self.privatizer.certificate().under(terms, self.privatizer)

    @property
    def families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate; where the privatizer can state them without accounting, it does."""
        stated = getattr(self.privatizer, "certified_families", None)
        return tuple(self.certificate.families if stated is None else stated())

    @cached_property
    def batches(self) -> tuple[BatchReport, ...]:
        """Claim and message cost of each kind of batch, where the learner plans batches of its own."""
        reports = getattr(self.privatizer, "reports", None)
        return tuple(reports()) if reports is not None else ()

    @property
    def largest_batch(self) -> int | None:
        """The users of the largest batch, where the learner decides about it."""
        planned = getattr(self.learner, "batches", None)
        if planned is not None:
            return int(max(batch.users for batch in planned))
        return self.learner.least if self.learner.least > 1 else None

    @property
    def settings(self) -> dict[str, float | str] | None:
        """Everything that was tuned, where a learner keeps book of it."""
        kept = getattr(self.learner, "settings", None)
        return None if kept is None else dict(kept)

    @cached_property
    def values(self) -> tuple[float, float]:
        """Simulation only: the value of an episode under the best policy, and when every action is alike; else NaN."""
        return self.world.values()


def assemble(config: RunConfig) -> Assembled:
    """Build what a configuration names; every error is raised here, before anything is written.

    >>> parts = assemble(RunConfig(environment="riverswim", learner="psrl", episodes=10, seeds=(0,)))
    >>> parts.mdp.num_states, parts.learner.name, parts.learner.shape.staged, parts.claim.epsilon
    (4, 'psrl', True, inf)
    """
    # Equal configurations differ in whether the environment may be made: not where a file names it.
    return assembled(config, read=config.stated is not None or bool(getattr(config.environment, "read", False)))


@lru_cache(maxsize=64)
def assembled(config: RunConfig, *, read: bool) -> Assembled:
    """The same, kept for the next time."""
    name, options = parse_learner(config.learner)
    row = learner_row(name)
    row.check(name, options)
    row.check_constants(name, config.constants)
    row.check_budget(name, config.budget)
    if config.support is not None and row.asks in NO_COUNTERS:
        raise NotSupported(f"{name} has no use for a declared support: {NO_COUNTERS[row.asks]}; leave the support out")
    if config.start is not None and not row.warm:
        raise NotSupported(f"{name} cannot start with a log; use bucb")
    kind = KINDS[row.asks]
    chosen = RunRequest(config=config, name=name, row=row, options=options)
    environment = kind.environment(chosen)
    seen = isinstance(environment, SeenMDP)
    if config.sees is not None and not seen:
        raise NotSupported(f"{name} does not learn over features; remove sees, or use a learner of counts or returns")
    if seen and config.constants == "valid":
        raise NotSupported("valid bands contain V* only if what is seen is Markov; remove sees, or use practical")
    if seen and (config.budget is not None or options.get("start", "uniform") != "uniform"):
        raise NotSupported("a baseline is over states: no loss budget and no start from it over features; remove sees")
    lives = environment.mdp if seen else environment
    baseline = None if config.baseline is None else baseline_policy(lives, config.baseline, read=read)
    if isinstance(environment, LiveWorld):
        # Devices that send bits round rewards themselves; a curator adds them up as they are.
        environment = environment.for_run(rounded=config.trust in ("shuffle", "local"), baseline=baseline)
    chosen = replace(chosen, baseline=None if seen else baseline)  # a learner over features has no use for it
    privatizer = kind.privatizer(chosen, environment)
    learner = kind.learner(chosen, environment, privatizer)
    require_widths(learner, name, config.constants)
    require_over_support(learner, config.support is not None)
    return Assembled(
        world=world_of(environment, learner.asks),
        learner=learner,
        privatizer=composed(kind.fitted(privatizer, learner), config),
        config=config,
        unverified=row.unverified,
        baseline=baseline,
    )
