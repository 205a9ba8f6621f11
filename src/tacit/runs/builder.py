"""How a run is put together: what the user chose, and what a kind of queries makes of it.

Totals         running totals        any tabular or live environment
BatchQuery     single batches        any tabular or live environment
LossQuery      counts and losses     a layered world with an adversary
SoftmaxQuery   gradients             a tabular or live environment, or a dose bandit
ReturnQuery    bits about returns    any tabular or live environment
MomentQuery    moments of features   a linear bandit

Which trust models answer such queries stands in `tacit.release.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from tacit.accounting.claims import PrivacyUnit
from tacit.environments.bandits import DoseBandit, FeatureBandit
from tacit.environments.discretise import Rows
from tacit.environments.layered import LayeredMDP, LossWorld
from tacit.environments.live import LiveWorld
from tacit.environments.registry import ENVIRONMENTS, Environment, make_environment
from tacit.environments.state_features import SeenMDP, seen_through
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.table import LEARNERS, LearnerRow
from tacit.policies import Policy
from tacit.protocol import Learner, Privatizer, Query
from tacit.release.request import PrivacyRequest
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.runs.config import RunConfig
from tacit.support import Support

Countable = TabularMDP | SeenMDP | LiveWorld
"""Environments with finitely many states and actions, whose users can be counted."""
OWN_BATCHES: Final = (BatchQuery, ReturnQuery, MomentQuery)
"""Queries of learners that plan the sizes of their batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What the user chose: a configuration, and the row and options of its learner."""

    config: RunConfig
    name: str
    row: LearnerRow
    options: Mapping[str, str]
    baseline: Policy | None = None
    """What people do already, once the environment is known."""


class RunBuilder(Protocol):
    """How a run with one kind of queries is put together."""

    def environment(self, chosen: RunRequest) -> Any:
        """The environment, as this kind plays in it: any tabular or live one, unless a kind says otherwise."""
        return tabular_environment(chosen)

    def privatizer(self, chosen: RunRequest, environment: Any) -> Privatizer[Any, Any, Any]:
        """The privatizer, before the learner's schedule is known."""
        ...

    def learner(self, chosen: RunRequest, environment: Any, privatizer: Any) -> Learner[Any, Any, Any]:
        """The learner, told what is public about the noise."""
        ...

    def fitted(self, privatizer: Any, learner: Any) -> Privatizer[Any, Any, Any]:
        """The privatizer with the learner's schedule; most need none."""
        found: Privatizer[Any, Any, Any] = privatizer
        return found


def tabular_environment(chosen: RunRequest) -> Countable:
    """The tabular or live environment of a run; what only learners of adversarial losses have is refused."""
    refuse_losses(chosen)
    found = _environment(chosen.config)
    if isinstance(found, LossWorld | LayeredMDP):
        known = ", ".join(_loss_learners())
        raise InvalidInput(
            f"a layered world has no rewards, an adversary chooses losses there: use {known}, not {chosen.name}"
        )
    if isinstance(found, DoseBandit):
        raise NotSupported(
            f"doses are real numbers and {chosen.name} counts: use dp-pg:policy=gaussian in {found.name}, "
            "or another environment"
        )
    if isinstance(found, FeatureBandit) or (isinstance(found, LiveWorld) and isinstance(found.discretiser, Rows)):
        raise NotSupported(
            f"people of {found.name} have rows of features and {chosen.name} counts states: use lin-ts, lin-ucb or "
            "lin-greedy, or another environment"
        )
    if chosen.config.sees is None:
        return found
    if not isinstance(found, TabularMDP):
        raise NotSupported(f"{found.name} is seen through its discretiser already; remove sees, or change that")
    return seen_through(found, chosen.config.sees).for_run(chosen.config.trust)


def _environment(config: RunConfig) -> Environment | LayeredMDP:
    """The environment of a run; tables do not change, so the runs of a sweep share one."""
    spec = config.environment
    builder = ENVIRONMENTS.get(spec.partition(":")[0].strip()) if isinstance(spec, str) else None
    return config.world() if builder is None else _shared(str(spec), builder)  # a live world is no table


@lru_cache(maxsize=8)
def _shared(spec: str, builder: Callable[..., Environment]) -> Environment:
    del builder  # who has registered another one of this name gets that one
    return make_environment(spec)


def refuse_losses(chosen: RunRequest) -> None:
    """Raise where a learner of rewards is asked for something that only learners of adversarial losses have."""
    config, name = chosen.config, chosen.name
    if config.adversary is not None:
        beside = "; the uniform policy is shown beside every such run" if chosen.row.reference else ""
        known = ", ".join(_loss_learners())
        raise InvalidInput(f"an adversary belongs to the learners {known}, not to {name}{beside}")
    if config.estimator is not None or config.public_losses:
        what = "public losses" if config.public_losses else f"the estimator '{config.estimator}'"
        raise InvalidInput(f"{what} belong{'' if config.public_losses else 's'} to learners of adversarial losses")


def count_shape(chosen: RunRequest, mdp: Countable) -> CountShape:
    """The sizes of counts in this environment; the learner decides whether steps are kept apart."""
    return CountShape(
        horizon=mdp.horizon,
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        staged=chosen.options.get("time_homogeneous", "false") == "false",
        support=declared_support(chosen, mdp),
    )


def declared_support(chosen: RunRequest, mdp: Countable) -> Support | None:
    """What the environment declares, where the run says to use it; None: the run uses no declaration."""
    if chosen.config.support is None:
        return None
    if mdp.support is None:
        raise InvalidInput(
            f"{mdp.name or 'this environment'} must declare its support before a run can use it, and declares none; "
            "make it with TabularMDP(..., support=Support(...)) or live(..., support=...), or leave support out"
        )
    return mdp.support


def privacy_request(chosen: RunRequest, asks: type[Query], shape: Any) -> PrivacyRequest:
    """The privacy that a configuration asks for, of such queries about statistics of this shape."""
    config = chosen.config
    if asks in OWN_BATCHES and config.batch is not None:
        raise InvalidInput(f"{chosen.name} plans the sizes of its batches itself; remove batch")
    return PrivacyRequest(
        asks=asks,
        trust=config.trust,
        shape=shape,
        episodes=config.episodes,
        epsilon=config.epsilon,
        delta=config.delta,
        calibration=config.calibration,
        mechanism=config.mechanism,
        users_per_batch=config.users_per_batch,
        allow_large_delta=config.allow_large_delta,
        honest_fraction=1.0 if config.honest_fraction is None else config.honest_fraction,
        unit=PrivacyUnit(reports=config.reports_per_person, per_stage=1),
    )


def _loss_learners() -> list[str]:
    return [name for name, row in LEARNERS.items() if row.losses is not None]
