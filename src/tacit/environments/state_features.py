"""`SeenMDP`: a tabular world whose policy sees public features of the states, and nothing else of them.

features[s] is the number of what a policy may see of state s. People live in the states; their devices report features,
policies are tables over features, and learners count features: fewer rows, less noise, less time. Whatever the map, the
guarantee is that of the counts: a trajectory of features is a public function of a trajectory of states.

Features need not be Markov: a learner's model of them is an approximation, and the best policy over features may be
worse than the best one over states. Both are part of the regret here, which is measured against the states' optimum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from tacit.arrays import Ints
from tacit.environments.tabular import TabularMDP, feature_map
from tacit.errors import UnknownName, require
from tacit.policies import AnyPolicy, DeterministicPolicy, StochasticPolicy, tabular
from tacit.support import Support


@dataclass(frozen=True, kw_only=True)
class SeenMDP:
    """A tabular world seen through features.

    >>> from tacit.environments.treatment import treatment
    >>> seen = seen_through(treatment(), "side-effects")
    >>> seen.num_states, seen.mdp.num_states, seen.state_names
    (4, 13, ('side-effects 0', 'side-effects 1', 'side-effects 2', 'side-effects 3'))
    """

    mdp: TabularMDP
    features: tuple[int, ...]
    label: str
    paths: bool = False
    """Whether users come as trajectories: where devices choose by themselves what they send, counts do not suffice."""
    rounded: bool = False
    """Whether rewards are rounded to {0, 1} as they come, as devices do before they are shuffled."""

    @cached_property
    def map(self) -> Ints:
        """[S]: the features as an array."""
        return np.array(self.features, dtype=np.int64)

    @property
    def horizon(self) -> int:
        """Steps of an episode."""
        return self.mdp.horizon

    @property
    def num_states(self) -> int:
        """How many features there are: the states of whoever learns."""
        return max(self.features) + 1

    @property
    def num_actions(self) -> int:
        """Actions."""
        return self.mdp.num_actions

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.mdp.name or 'custom'} seen through {self.label}"

    @property
    def stationary(self) -> bool:
        """What is declared of the states."""
        return self.mdp.stationary

    @cached_property
    def support(self) -> Support | None:
        """What is declared of the states, seen through the features."""
        return None if self.mdp.support is None else self.mdp.support.seen_through(self.features)

    @property
    def state_names(self) -> tuple[str, ...]:
        """The features by number."""
        return tuple(f"{self.label} {f}" for f in range(self.num_states))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Those of the world."""
        return self.mdp.action_names

    def fingerprint(self) -> str:
        """SHA-256 of the world and of the map."""
        return hashlib.sha256(repr((self.mdp.fingerprint(), self.features)).encode()).hexdigest()

    def for_run(self, trust: str) -> Self:
        """The same for the users of one trust model."""
        return replace(self, paths=trust == "local", rounded=trust == "shuffle")

    def lift(self, policy: AnyPolicy) -> DeterministicPolicy | StochasticPolicy:
        """A policy over features as the policy over states that it is."""
        return lifted(policy, self.map, self.num_actions)


def lifted(policy: AnyPolicy, features: Ints, num_actions: int) -> DeterministicPolicy | StochasticPolicy:
    """A policy over features[s] as the policy over states that it is.

    >>> lifted(DeterministicPolicy(np.array([[1, 0]])), np.array([0, 1, 1]), 2).actions.tolist()
    [[1, 0, 0]]
    """
    table = tabular(policy)
    if isinstance(table, DeterministicPolicy):
        return DeterministicPolicy(np.ascontiguousarray(table.actions[:, features]))
    return StochasticPolicy(np.ascontiguousarray(table.probabilities(num_actions)[:, features]))


def seen_through(mdp: TabularMDP, features: str | Sequence[int]) -> SeenMDP:
    """The world as a policy sees it: through features that it declares by name, or through a map that is given."""
    if isinstance(features, str):
        if features not in mdp.features:
            raise UnknownName(f"features of {mdp.name or 'this environment'}", features, mdp.features)
        return SeenMDP(mdp=mdp, features=mdp.features[features], label=features)
    found = feature_map(features, mdp.num_states)
    require(len(found) > 0, "there must be at least one feature", len(found))
    return SeenMDP(mdp=mdp, features=found, label="feature")
