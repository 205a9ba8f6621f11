"""What a learner hands to the users: deterministic or stochastic Markov policies.

A policy is public (it is computed from released statistics only) and runs on the user's side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInput, UnknownName, require, require_count
from tacit.notebook import block, grid
from tacit.policies.linear import LinearPolicy


@dataclass(frozen=True, slots=True, eq=False)
class DeterministicPolicy:
    """One action per step and state: actions[h,s].

    >>> DeterministicPolicy(np.array([[0, 1], [1, 1]])).probabilities(num_actions=2)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    actions: NDArray[np.int64]

    def __post_init__(self) -> None:
        require(self.actions.ndim == 2, "actions must have shape [horizon, states]", self.actions.shape)
        least = int(self.actions.min(initial=0))
        require(least >= 0, "actions must be non-negative", least)

    @classmethod
    def each(cls, actions: NDArray[np.int64]) -> list[Self]:
        """The policies actions[j,h,s], checked together.

        >>> [policy.actions.tolist() for policy in DeterministicPolicy.each(np.array([[[0, 1]], [[1, 1]]]))]
        [[[0, 1]], [[1, 1]]]
        """
        require(actions.ndim == 3, "actions must have shape [policies, horizon, states]", actions.shape)
        cls(actions.reshape(-1, actions.shape[2]))
        found = [cls.__new__(cls) for _ in actions]
        for policy, own in zip(found, actions, strict=True):
            object.__setattr__(policy, "actions", own)
        return found

    def probabilities(self, num_actions: int) -> NDArray[np.float64]:
        """The same policy as probabilities[h,s,a]."""
        return np.eye(num_actions)[self.within(num_actions)]

    def act(self, state: int, step: int = 0) -> int:
        """The number of the action in a state at a step, from 0 on.

        >>> DeterministicPolicy(np.array([[0, 1], [1, 1]])).act(state=0, step=1)
        1
        """
        h, s = _place(self.actions, state, step)
        return int(self.actions[h, s])

    def within(self, num_actions: int) -> NDArray[np.int64]:
        """The actions[h,s], if there are so many."""
        most = int(self.actions.max(initial=0))
        require(most < num_actions, f"actions must be below {num_actions}", most)
        return self.actions.astype(np.int64, copy=False)

    def _repr_html_(self) -> str:
        rows = [[f"state {s}", *(str(a) for a in column)] for s, column in enumerate(self.actions.T.tolist())]
        return block("deterministic policy: action by state and step", grid(_steps(len(self.actions)), rows))


@dataclass(frozen=True, slots=True, eq=False)
class StochasticPolicy:
    """Probabilities[h,s,a] of each action."""

    table: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.table.ndim != 3 or not np.isfinite(self.table).all() or (self.table < 0).any():
            raise InvalidInput("a stochastic policy must be a non-negative array [horizon, states, actions]")
        sums = self.table.sum(axis=2)
        bad = np.argwhere(np.abs(sums - 1.0) > 1e-9)
        if len(bad):
            h, s = bad[0]
            raise InvalidInput(f"policy[h={h}, s={s}] must sum to 1, sums to {sums[h, s]:g}")

    def probabilities(self, num_actions: int) -> NDArray[np.float64]:
        """The table itself, once its number of actions is checked."""
        require(self.table.shape[2] == num_actions, f"the policy must have {num_actions} actions", self.table.shape[2])
        return self.table

    def act(self, state: int, step: int = 0, coins: np.random.Generator | None = None) -> int:
        """The number of an action in a state at a step, from 0 on; `coins` draw it, fresh ones by default.

        >>> StochasticPolicy(np.array([[[0.0, 1.0]]])).act(state=0)
        1
        """
        h, s = _place(self.table, state, step)
        return _drawn(self.table[h, s], coins)

    def _repr_html_(self) -> str:
        rows = [
            [f"state {s}", *(", ".join(f"{a}: {p:.0%}" for a, p in enumerate(at) if p > 0.0) for at in column)]
            for s, column in enumerate(self.table.transpose(1, 0, 2).tolist())
        ]
        return block("stochastic policy: actions by state and step", grid(_steps(len(self.table)), rows))


@dataclass(frozen=True, slots=True, eq=False)
class LayeredPolicy:
    """Probabilities of the pairs (x,a) of a layered world: flat[x A + a]."""

    flat: NDArray[np.float64]
    actions: int

    def __post_init__(self) -> None:
        require(self.flat.ndim == 1, "a layered policy must be one row of pairs", self.flat.shape)
        whole = len(self.flat) % self.actions == 0
        require(whole, f"a layered policy must have {self.actions} actions in every state", len(self.flat))

    def over_steps(self, horizon: int) -> StochasticPolicy:
        """The table of an unrolled world: behind its first state, which only leads to where people start.

        >>> LayeredPolicy(np.array([0.5, 0.5, 1.0, 0.0, 0.2, 0.8]), 2).over_steps(1).table.tolist()
        [[[1.0, 0.0], [0.2, 0.8]]]
        """
        return StochasticPolicy(self.flat.reshape(-1, self.actions)[1:].reshape(horizon, -1, self.actions))

    def act(self, state: int, step: int = 0, coins: np.random.Generator | None = None) -> int:
        """The number of an action in a state, which says its step; `coins` draw it, fresh ones by default.

        >>> LayeredPolicy(np.array([0.5, 0.5, 0.0, 1.0]), 2).act(state=1)
        1
        """
        rows = self.flat.reshape(-1, self.actions)
        return _drawn(rows[require_count("state", state, 0, len(rows) - 1)], coins)

    def _repr_html_(self) -> str:
        table = self.flat.reshape(-1, self.actions).tolist()
        rows = [[f"state {x}", *(f"{p:.0%}" for p in row)] for x, row in enumerate(table)]
        return block("layered policy", grid(["", *(f"action {a}" for a in range(self.actions))], rows))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPolicy:
    """Doses around means[s] = θ·x_s with standard deviation `deviation`."""

    theta: NDArray[np.float64]
    means: NDArray[np.float64]
    deviation: float

    def act(self, state: int, step: int = 0, coins: np.random.Generator | None = None) -> float:
        """A dose in a state; `coins` draw it, fresh ones by default.

        >>> GaussianPolicy(np.ones(1), np.array([2.0]), deviation=0.0).act(state=0)
        2.0
        """
        mean = float(self.means[require_count("state", state, 0, len(self.means) - 1)])
        return mean + self.deviation * float(_coins(coins).standard_normal())

    def _repr_html_(self) -> str:
        rows = [[f"state {s}", f"{mean:.4g}"] for s, mean in enumerate(self.means.tolist())]
        return block(f"Gaussian policy, standard deviation {self.deviation:.4g}", grid(["", "mean dose"], rows))


def _place(table: NDArray[Any], state: object, step: object) -> tuple[int, int]:
    """A step and a state that the table has."""
    H, S = table.shape[:2]
    return require_count("step", step, 0, H - 1), require_count("state", state, 0, S - 1)


def _coins(given: np.random.Generator | None) -> np.random.Generator:
    return np.random.default_rng() if given is None else given


def _drawn(row: NDArray[np.float64], coins: np.random.Generator | None) -> int:
    """An action with these probabilities; one that is impossible never comes."""
    possible = np.flatnonzero(row)
    place = int(np.searchsorted(np.cumsum(row[possible]), _coins(coins).random(), side="right"))
    return int(possible[min(place, len(possible) - 1)])


def _steps(horizon: int) -> list[str]:
    return ["", *(f"step {h}" for h in range(horizon))]


Policy = DeterministicPolicy | StochasticPolicy
"""A policy of a tabular world."""
AnyPolicy = Policy | LayeredPolicy | GaussianPolicy | LinearPolicy


def tabular(policy: AnyPolicy) -> Policy:
    """The policy, if it is one of a tabular world."""
    if not isinstance(policy, DeterministicPolicy) and isinstance(
        policy, LayeredPolicy | GaussianPolicy | LinearPolicy
    ):
        raise InvalidInput(f"a tabular world needs a table of actions, got a {type(policy).__name__}")
    return policy


def tables_of(policies: Sequence[Policy], num_actions: int) -> NDArray[np.float64]:
    """The probabilities [j,h,s,a] of several policies of one shape.

    >>> tables_of([DeterministicPolicy(np.array([[1]])), uniform_policy(1, 1, 2)], 2).tolist()
    [[[[0.0, 1.0]]], [[[0.5, 0.5]]]]
    """
    actions = [policy.actions for policy in policies if isinstance(policy, DeterministicPolicy)]
    tables = [] if len(actions) == len(policies) else [policy.probabilities(num_actions) for policy in policies]
    shapes = {array.shape for array in tables or actions}
    require(len(shapes) == 1, "policies of one batch must have one shape", sorted(shapes))
    if tables:
        return np.stack(tables)
    stacked = DeterministicPolicy(np.concatenate(actions))  # checked once for all
    return stacked.probabilities(num_actions).reshape(len(actions), *shapes.pop(), num_actions)


def uniform_policy(horizon: int, num_states: int, num_actions: int) -> StochasticPolicy:
    """Every action with the same probability: what "nothing learned" looks like."""
    return StochasticPolicy(np.full((horizon, num_states, num_actions), 1.0 / num_actions))


def policy_to_dict(policy: AnyPolicy) -> dict[str, Any]:
    """JSON-ready values; `policy_from_dict` gives the policy back bit for bit.

    >>> policy_to_dict(DeterministicPolicy(np.array([[0, 1]])))
    {'kind': 'deterministic', 'actions': [[0, 1]]}
    """
    kind = next((name for name, known in KINDS.items() if isinstance(policy, known)), None)
    require(kind is not None, f"a policy must be one of {', '.join(KINDS)}", type(policy).__name__)
    values = {field.name: getattr(policy, field.name) for field in fields(policy)}
    return {"kind": kind, **{name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}}


def policy_from_dict(plain: Mapping[str, Any]) -> AnyPolicy:
    """The policy that `policy_to_dict` wrote."""
    if plain.get("kind") not in KINDS:
        raise UnknownName("kind of policy", str(plain.get("kind")), KINDS)
    kind = KINDS[plain["kind"]]
    names = {field.name for field in fields(kind)}
    require(set(plain) == {"kind", *names}, f"a {plain['kind']} policy has {', '.join(sorted(names))}", sorted(plain))
    values: dict[str, Any] = {
        name: np.array(v) if isinstance(v, list) else v for name, v in plain.items() if name != "kind"
    }
    return kind(**values)


KINDS: Final[Mapping[str, type[AnyPolicy]]] = {
    "deterministic": DeterministicPolicy,
    "stochastic": StochasticPolicy,
    "layered": LayeredPolicy,
    "gaussian": GaussianPolicy,
    "linear": LinearPolicy,
}
