"""The contracts of tacit: a learner asks a public query, a privatizer answers it, and only the answer crosses.

    plan(learner, belief, coins)                     which policy, how many users, which query
    act(world, plan, coins)                          sensitive from here ...
    judge(truth, plan, users)                        simulation only
    for each release of the plan:
        ask(learner, belief)                         the public query
        release(privatizer, state, users, query, noise)      ... to here
        update(learner, belief, released)

A `Run` is a world, a privatizer and a learner whose types agree: users of the world are what the privatizer takes,
queries of the learner are what it answers, and what it releases is what the learner learns from. State goes in and
comes out of every part, nothing is hidden, so a checkpoint is a belief.

Parts that run millions of times come as kernels, too (`LearnerKernels`, `WorldKernels`, a release kernel), which
`tacit.simulation.loop` fuses into one compiled function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import require
from tacit.policies import AnyPolicy, Policy
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.renamed import old_names
from tacit.types import Calibration, Constants

__all__ = [
    "Calibration",
    "Constants",
    "Judge",
    "Kernel",
    "Learner",
    "LearnerKernels",
    "Measures",
    "Noise",
    "Plan",
    "PrivateStatistics",
    "Privatizer",
    "Query",
    "Sampler",
    "Totals",
    "World",
    "copy_state",
]

Noise = SimulationNoise | SecureNoise
Kernel = Callable[..., Any]
"""A compiled function over NamedTuples of arrays, which it changes in place."""


class Query(Protocol):
    """What a learner asks about a batch of users: public, fixed before the first of them comes."""

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        ...


class Totals(NamedTuple):
    """The query for running totals of everything that is counted."""

    every: int = 0

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "running totals"


TOTALS: Final = Totals()

UsersIn = TypeVar("UsersIn", contravariant=True)
UsersOut = TypeVar("UsersOut", covariant=True)
Asked = TypeVar("Asked", bound=Query)
Statistics = TypeVar("Statistics")
Belief = TypeVar("Belief")
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class PrivateStatistics(Generic[Statistics]):
    """A release: statistics and the claim under which they left the privatizer."""

    statistics: Statistics
    claim: PrivacyClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[Asked]):
    """What happens next: which policy, for how many users (None: all that are left), and what they are asked."""

    policy: AnyPolicy
    users: int | None
    query: Asked | None
    """None: these users report nothing."""
    releases: int = 1
    """How many times the same users are asked."""
    groups: tuple[tuple[Policy, int], ...] = ()
    """Who of the batch follows another policy than `policy`, by the learner's own coins: (policy, users) each."""

    def arms(self, users: int) -> tuple[tuple[AnyPolicy, int], ...]:
        """Who of so many users follows which policy; those in no group follow `policy`."""
        left = users - sum(count for _, count in self.groups)
        require(left >= 0, "the groups of a batch must not have more users than the batch", left)
        return (*self.groups, (self.policy, left))


class LearnerKernels(NamedTuple):
    """A learner as three kernels over (parameters, belief), for the fused loop."""

    plan: Kernel
    """(parameters, belief, coins): write the next policy into the belief."""
    ask: Kernel
    """(parameters, belief, query, number): write the query of the round's release `number`."""
    update: Kernel
    """(parameters, belief, statistics): take a release in."""


class Learner(Protocol[Belief, Asked, Statistics]):
    """The contract of every learner: it sees releases and its own coins, and nothing else."""

    name: str
    constants: Constants
    z: float | None
    shape: Any
    asks: type[Asked]
    least: int
    """The fewest users that make a round; whoever is left over is served by the last policy and reports nothing."""
    uses_last: bool
    """Whether the last round is released: its data serve the final policy only."""

    def begin(self) -> Belief:
        """The belief before anybody came."""
        ...

    def plan(self, belief: Belief, rng: np.random.Generator) -> tuple[Belief, Plan[Asked]]:
        """Decide what the next users do and what they are asked."""
        ...

    def ask(self, belief: Belief, plan: Plan[Asked], number: int) -> tuple[Belief, Asked]:
        """The query of the release `number` of this plan."""
        ...

    def update(self, belief: Belief, released: PrivateStatistics[Statistics]) -> Belief:
        """Take a release in."""
        ...

    def policy(self, belief: Belief, planned: AnyPolicy | None = None) -> AnyPolicy:
        """What a run ends with: the policy that was planned last, or what the belief holds since."""
        ...


class Privatizer(Protocol[UsersIn, Asked, Statistics]):
    """The contract of every privatizer: the only door from users to releases."""

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        ...

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised."""
        ...

    @property
    def calibration(self) -> Calibration:
        """Where the noise comes from."""
        ...

    @property
    def shape(self) -> Any:
        """The public shape of the statistics."""
        ...

    @property
    def answers(self) -> type[Asked]:
        """The queries that are answered; every other one is refused."""
        ...

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        ...

    def events(self) -> Events:
        """Everything one user is exposed to."""
        ...

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each released family, at its largest."""
        ...

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        ...

    def begin(self) -> Any:
        """The state before anybody came; it has a field `released`."""
        ...

    def release(
        self, state: Any, users: UsersIn, query: Asked, noise: Noise
    ) -> tuple[Any, PrivateStatistics[Statistics]]:
        """Answer a query about these users."""
        ...

    @property
    def kernel(self) -> Kernel | None:
        """(parameters, state, users, query, coins): the same in place, for the fused loop; None: there is none."""
        ...

    @property
    def parameters(self) -> Any:
        """The kernel's public parameters, a NamedTuple."""
        ...


class Sampler(Protocol[UsersOut]):
    """Simulation only: where users come from during one run."""

    @property
    def act(self) -> Kernel | None:
        """(world, belief, users, coins): let users come, as a kernel; None: there is none."""
        ...

    @property
    def buffers(self) -> Any:
        """The users of a round, as the kernels see them: a NamedTuple of arrays."""
        ...

    @property
    def chunk(self) -> int:
        """How many users come at most before the fused loop returns to Python."""
        ...

    def arrays(self, done: int, users: int) -> Any:
        """What the kernel draws the next users from, a NamedTuple of arrays."""
        ...

    def draw(self, plan: Plan[Any], users: int, rng: np.random.Generator) -> UsersOut:
        """Let users come."""
        ...


class Measures(NamedTuple):
    """Simulation only: what a judge found."""

    regret: Any
    """[checkpoint]: cumulative regret."""
    changes: int
    """How many policies were used."""
    details: Mapping[str, Any]
    """What else there is to say, by name."""


class Judge(Protocol[UsersIn]):
    """Simulation only: what knows the truth and keeps the score."""

    truth: Any
    tally: Any
    curves: Any

    @property
    def count(self) -> Kernel:
        """(truth, tally, parameters, belief, users): add a round to the tally."""
        ...

    @property
    def record(self) -> Kernel:
        """(truth, tally, curves, mark, past): write checkpoint `mark`, `past` users into the round."""
        ...

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: UsersIn, done: int, number: int) -> None:
        """Count a round of `number` users after `done` others, and write the checkpoints it passes."""
        ...

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """The score in the end; whoever came after `done` users was served by the last policy."""
        ...


@runtime_checkable
class World(Protocol):
    """Simulation only: an environment that users live in and that a learner can play in."""

    environment: Any
    """What it was made from: it has horizon, num_states, num_actions and a fingerprint()."""

    @property
    def name(self) -> str | None:
        """For tables."""
        ...

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless learners and privatizers of this shape belong here: kernels do not check their indices."""
        ...

    def values(self) -> tuple[float, float]:
        """The value of an episode under the best policy, and when every action is alike."""
        ...

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> Sampler[Any]:
        """Where the users of one run come from."""
        ...

    def judge(self, learner: Any, checkpoints: Any) -> Judge[Any]:
        """Who keeps the score of one run."""
        ...


def copy_state(value: Any) -> Any:
    """A nested NamedTuple of arrays with every array copied."""
    if isinstance(value, tuple):
        # Most fields are arrays, and a run interpreted user by user copies millions of them.
        return type(value)(*[field.copy() if type(field) is np.ndarray else copy_state(field) for field in value])
    return value.copy() if isinstance(value, np.ndarray) else value


if not TYPE_CHECKING:
    __getattr__ = old_names(__name__, Private="PrivateStatistics")
