"""`KernelLearner`: a learner made of kernels over a belief that is a NamedTuple of arrays.

The contract of every learner is `tacit.protocol.Learner`: begin, plan, ask, update; state goes in and comes out. A
learner sees releases and its own coins, nothing else; it cannot even import a trajectory.

Kernels work in place, because a fused loop calls them 10⁸ times; `plan`, `ask` and `update` wrap them for everybody
else and leave the belief they were given untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import numpy as np

from tacit.errors import InvalidInput, NotSupported, require, require_real
from tacit.kernels import lean_kernel
from tacit.planning.loss_budget import LossBudget, Standing
from tacit.planning.widths import DEFAULT_Z
from tacit.policies import AnyPolicy, DeterministicPolicy, Policy
from tacit.protocol import (
    TOTALS,
    Constants,
    Learner,
    LearnerKernels,
    Plan,
    PrivateStatistics,
    Query,
    Totals,
    copy_state,
)
from tacit.released.batches import BatchNoise
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CountPrecision, PrintedRadii, Sampling, SumPrecision

Belief = TypeVar("Belief")
Asked = TypeVar("Asked", bound=Query)
Statistics = TypeVar("Statistics")

DEFAULT_CONSTANTS: Final = "practical"
"""The widths of every learner that has some, under every trust model: those of theory learn nothing at usual sizes."""


def own_widths(given: Constants | None) -> Constants | None:
    """The constants that a learner of counts is asked for: to have 'none' is no request, but see `require_widths`."""
    return None if given == "none" else given


def require_widths(learner: Learner[Belief, Asked, Statistics], name: str, given: Constants | None) -> None:
    """Raise where constants 'none' were chosen for a learner that has confidence widths."""
    if given == "none" and learner.constants != "none":
        raise InvalidInput(f"constants of {name} must be 'theory' or 'practical', got 'none'")


def require_over_support(learner: Any, declared: bool) -> None:
    """Raise where a support is declared to a learner that does not know what to do with it: it is never ignored."""
    if declared and not getattr(learner, "over_support", False):
        raise NotSupported(
            f"{learner.name} does not learn over a declared support; leave the support out, or use another learner of "
            "counts"
        )


def practical_z(constants: Constants, z: float | None) -> float:
    """The z of the practical rule, to which alone it belongs."""
    require(constants in ("theory", "practical"), "constants must be 'theory' or 'practical'", constants)
    if constants == "theory" and z is not None:
        raise InvalidInput("z belongs to the practical rule; use constants='practical' with it")
    return require_real("z", DEFAULT_Z if z is None else z, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRequest:
    """What a learner of running totals may know before it starts: public sizes and the user's choices."""

    name: str
    shape: CountShape
    episodes: int
    constants: Constants | None
    """None: the practical rule, whatever the trust model."""
    z: float | None
    users_per_batch: int
    noisy: bool
    """Whether the statistics carry privacy noise."""
    precision: SumPrecision | None = None
    """How far the noise of sums over users can go, if the privatizer releases such sums."""
    counts: CountPrecision | None = None
    """The sub-gamma scales of the noise in released counts; None: Gaussian, or none at all."""
    scheduled: bool = False
    """Whether totals with noise of their own are published on a public schedule, so that users may come together."""
    sampling: Sampling | None = None
    """What it costs that users send a random part of their trajectory; None: they send everything."""
    printed: PrintedRadii | None = None
    """The printed radii of the noise, where constants 'printed' are chosen."""
    options: Mapping[str, str]
    given: Policy | None = None
    """The policy of a reference line (simulation only)."""

    @property
    def chosen(self) -> Constants:
        """The user's constants, or the one default of all trust models: else privacy would seem to help or to cost."""
        return self.constants or DEFAULT_CONSTANTS

    @property
    def common(self) -> dict[str, Any]:
        """What every learner with confidence widths is made of."""
        sizes = ("shape", "episodes", "z", "users_per_batch", "sampling")
        return {"constants": self.chosen, **{name: getattr(self, name) for name in sizes}}

    def refuse_widths(self, name: str) -> None:
        """Raise if widths are chosen for a learner that has none."""
        if self.constants is not None or self.z is not None:
            raise InvalidInput(f"{name} has a prior instead of confidence widths; remove constants and z")

    def sums(self, name: str) -> SumPrecision:
        """The precision of sums over users, without which this learner cannot run."""
        if self.precision is None:
            raise NotSupported(f"{name} adds up messages of single users: use trust 'local' (or 'none', without noise)")
        return self.precision


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRequest:
    """What a learner in stages may know before it starts: public sizes, the user's choices, the noise of batches."""

    name: str
    shape: CountShape
    episodes: int
    constants: Constants | None
    """None: the learner's own default."""
    z: float | None
    noise: BatchNoise
    options: Mapping[str, str]
    sizes: tuple[int, ...] | None = None
    """The users of every stage that reports, where somebody else has fixed them; None: the learner's own schedule."""
    baseline: Policy | None = None
    """What people do already."""
    budget: LossBudget | None = None
    """How much mean return may be lost against it; None: as much as exploration costs."""
    log: CountStatistics | None = None
    """What was released of a log before the first batch; for learners whose row says `warm`."""

    def started(self, name: str) -> Policy | None:
        """What the first batch follows: the baseline where `start=baseline` or a budget asks for it, else None."""
        if self.options.get("start", "uniform") == "uniform" and self.budget is None:
            return None
        if self.baseline is None:
            what = "a loss budget" if self.budget is not None else f"{name}:start=baseline"
            raise InvalidInput(f"{what} needs a baseline to start from, got none; name what people do already")
        return self.baseline

    def own_schedule(self, name: str) -> None:
        """Raise if a learner whose stages follow from its theorem is given others."""
        if self.sizes is not None:
            raise NotSupported(f"{name} plans its own stages; leave the sizes out, or use bucb or sdp-pe-plus")

    def practical_only(self, name: str) -> None:
        """Raise if a learner without a theorem is asked for its constants."""
        if self.constants not in (None, "practical"):
            raise InvalidInput(
                f"no theorem gives constants for {name}; use constants 'practical', or sdp-pe with 'theory'"
            )


@lean_kernel
def ask_nothing(parameters: Any, belief: Any, query: Any, number: int) -> None:
    """The query never changes."""


@lean_kernel
def plan_nothing(parameters: Any, belief: Any, rng: np.random.Generator) -> None:
    """The policy stands in the belief already."""


def statistics_of(released: Any, kind: type[Statistics]) -> Statistics:
    """What was released, if it is of this kind: a learner that keeps releases must not keep anything else."""
    if not isinstance(released, PrivateStatistics) or not isinstance(released.statistics, kind):
        raise InvalidInput(f"a release must be a PrivateStatistics of {kind.__name__}, got {type(released).__name__}")
    return released.statistics


class PlanningLearner(Generic[Belief, Asked]):
    """What learners share that plan in Python, batch by batch: queries are those of the plan."""

    least = 1
    uses_last = False
    following: tuple[int, ...] | None = None
    """Who acts on what was released up to each batch; None: the next batch."""

    def ask(self, belief: Belief, plan: Plan[Asked], number: int) -> tuple[Belief, Asked]:
        """What was planned to be asked."""
        if plan.query is None:
            raise InvalidInput("a plan without a query asks nothing; check plan.query before asking")
        return belief, plan.query

    def policy(self, belief: Belief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The policy that was planned last."""
        if planned is None:
            raise InvalidInput("this learner keeps no policy in its belief; pass the last plan's")
        return planned

    def last(self, belief: Belief, plan: Plan[Asked], rng: np.random.Generator) -> Plan[Asked]:
        """What a study serves that ends before its plans do, because releases were skipped; `plan` would go on."""
        return plan

    def standing(self, belief: Belief) -> Standing | None:
        """What was proven against the baseline; None: this learner has promised nothing about it."""
        return None


class KernelLearner(Generic[Belief, Asked, Statistics]):
    """A learner made of three kernels, for one user at a time or for batches of a fixed size."""

    kernels: LearnerKernels
    asks: type[Any] = Totals
    least = 1
    uses_last = False
    releases = 1

    def __init__(
        self,
        *,
        name: str,
        shape: Any,
        constants: Constants,
        z: float | None,
        parameters: NamedTuple,
        users_per_batch: int,
    ) -> None:
        self.name = name
        self.shape = shape
        self.constants: Constants = constants
        self.z = z
        self.parameters = parameters
        self.users_per_batch = users_per_batch

    def begin(self) -> Belief:
        """The belief before anybody came."""
        raise NotImplementedError

    def policy(self, belief: Belief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """The policy that was planned last: one action per step and state, as it stands in the belief."""
        return DeterministicPolicy(cast("Any", belief).policy.copy()) if planned is None else planned

    def query(self, belief: Belief) -> Asked:
        """The query as kernels see it: its arrays may be those of the belief."""
        return cast("Asked", TOTALS)

    def plan(self, belief: Belief, rng: np.random.Generator) -> tuple[Belief, Plan[Asked]]:
        """Run the planning kernel on a copy of the belief."""
        after = cast("Belief", copy_state(belief))
        self.kernels.plan(self.parameters, after, rng)
        return after, Plan(
            policy=self.policy(after), users=self.users_per_batch, query=self.query(after), releases=self.releases
        )

    def ask(self, belief: Belief, plan: Plan[Asked], number: int) -> tuple[Belief, Asked]:
        """What was planned to be asked."""
        return belief, cast("Asked", plan.query)

    def update(self, belief: Belief, released: PrivateStatistics[Statistics]) -> Belief:
        """Run the update kernel on a copy of the belief."""
        after = cast("Belief", copy_state(belief))
        self.kernels.update(self.parameters, after, released.statistics)
        return after
