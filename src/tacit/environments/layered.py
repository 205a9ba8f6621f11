"""Loop-free MDPs: the states stand in layers 0, ..., H and every step leads from one layer to the next.

The first and the last layer hold a single state each, as in the literature on adversarial losses, where the loss
changes from episode to episode and therefore is no part of the model. The step is part of the state, so one array per
layer says everything: `transitions[h]` is [states of layer h, A, states of layer h+1].

States are numbered layer by layer from 0 (the first) to X - 1 (the last, in which nothing is done any more).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.arrays import Floats, Ints
from tacit.environments.tabular import RewardKind, TabularMDP, check_probabilities, floats, frozen, names_of
from tacit.errors import require


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayeredMDP:
    """An immutable loop-free MDP without rewards.

    Parameters
    ----------
    transitions
        One array [layer h, A, layer h+1] of probabilities for each step h = 0, ..., H - 1.
    name
        A label for tables and plots.
    state_names
        Readable names of the X states, in the order of the layers.
    origin
        Where the states come from, [X, 2]: the step and the state of a `TabularMDP`, or -1 and -1 for a state that was
        added. Filled by `from_tabular`.

    Examples
    --------
    >>> fork = LayeredMDP(transitions=([[[1.0, 0.0], [0.2, 0.8]]], [[[1.0], [1.0]], [[1.0], [1.0]]]))
    >>> fork.horizon, fork.num_states, fork.num_actions, [layer.tolist() for layer in fork.layers]
    (2, 4, 2, [[0], [1, 2], [3]])
    """

    transitions: tuple[Floats, ...]
    name: str = ""
    state_names: tuple[str, ...] = ()
    origin: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64), repr=False)

    def __post_init__(self) -> None:
        given: Sequence[ArrayLike] = self.transitions
        require(len(given) > 0, "transitions must hold one array for each step", given=len(given))
        steps = [floats(f"transitions[{h}]", step) for h, step in enumerate(given)]
        width, A = 1, steps[0].shape[1] if steps[0].ndim == 3 else 0
        for h, step in enumerate(steps):
            shape = f"[{width}, {A}, states of layer {h + 1}]"
            fits = step.ndim == 3 and step.shape[:2] == (width, A) and step.size > 0
            require(fits, f"transitions[{h}] must have the shape {shape}", given=step.shape)
            check_probabilities(f"transitions[{h}]", step, "xa")
            width = step.shape[2]
        require(width == 1, "the last layer must hold a single state", given=width, hint="add a step that leads to one")
        freeze = object.__setattr__
        freeze(self, "transitions", tuple(frozen(step) for step in steps))
        X = self.num_states
        freeze(self, "state_names", names_of("state_names", self.state_names or None, X))
        origin = np.full((X, 2), -1, dtype=np.int64) if len(self.origin) == 0 else np.array(self.origin, dtype=np.int64)
        require(origin.shape == (X, 2), f"origin must be [{X}, 2]", given=origin.shape)
        origin.flags.writeable = False
        freeze(self, "origin", origin)

    @property
    def horizon(self) -> int:
        """The number H of steps."""
        return len(self.transitions)

    @property
    def num_actions(self) -> int:
        """The number A of actions."""
        return int(self.transitions[0].shape[1])

    @property
    def num_states(self) -> int:
        """The number X of states over all layers, first and last included."""
        return 1 + sum(int(step.shape[2]) for step in self.transitions)

    @property
    def layers(self) -> tuple[Ints, ...]:
        """The states of each of the H + 1 layers."""
        widths = [1, *(step.shape[2] for step in self.transitions)]
        ends = np.cumsum(widths)
        return tuple(np.arange(end - width, end) for width, end in zip(widths, ends, strict=True))

    @property
    def widths(self) -> tuple[int, ...]:
        """How many states each of the H + 1 layers has."""
        return (1, *(int(step.shape[2]) for step in self.transitions))

    @property
    def flat_transitions(self) -> Floats:
        """All P(x'|x,a) in one row, pair by pair: the order in which released statistics are numbered."""
        return np.concatenate([step.ravel() for step in self.transitions])

    @property
    def effective_support(self) -> float:
        """How hard the transitions are to learn: C_M = Σ_h √( Σ_{x ∈ X_h, a} (Σ_x' √(P(1-P)))² ), [bai2024adversarial].

        It is 0 if every step is certain and at most X √A.

        >>> fork = LayeredMDP(transitions=([[[0.5, 0.5], [0.0, 1.0]]], [[[1.0], [1.0]], [[1.0], [1.0]]]))
        >>> fork.effective_support
        1.0
        """
        # C_{x,a} = (Σ_x' √(P(x'|x,a) (1 - P(x'|x,a))))²
        supports = [np.sqrt(step * (1.0 - np.minimum(step, 1.0))).sum(axis=2) ** 2 for step in self.transitions]
        return float(sum(np.sqrt(support.sum()) for support in supports))

    def fingerprint(self) -> str:
        """SHA-256 of the transitions."""
        digest = hashlib.sha256(repr((self.num_actions, self.widths)).encode())
        digest.update(self.flat_transitions.astype("<f8").tobytes())
        return digest.hexdigest()

    @classmethod
    def from_tabular(cls, mdp: TabularMDP) -> LayeredMDP:
        """Unroll a `TabularMDP`: layer h holds the states that some policy can reach at step h.

        If the first state is random, a first layer is added from which every action leads to it, so that the horizon
        grows by one. `origin` keeps where each state comes from, and `lift` moves rewards, losses and policies along.

        >>> mdp = TabularMDP(P=[[[0.5, 0.5]], [[0.0, 1.0]]], r=[[0.0], [1.0]], rho=[1.0, 0.0], horizon=2)
        >>> LayeredMDP.from_tabular(mdp).state_names
        ('0:0', '1:0', '1:1', 'end')
        """
        H, A = mdp.horizon, mdp.num_actions
        P = mdp.P
        reached = [np.flatnonzero(mdp.rho)]  # the states of step h
        for h in range(H - 1):
            reached.append(np.flatnonzero(P[h, reached[h]].sum(axis=(0, 1))))
        steps = [P[h][reached[h]][:, :, reached[h + 1]] for h in range(H - 1)]
        steps.append(np.ones((len(reached[-1]), A, 1)))
        origins = [(h, int(s)) for h in range(H) for s in reached[h]]
        names = [f"{h}:{mdp.state_names[s]}" for h, s in origins]
        if len(reached[0]) > 1:
            steps.insert(0, np.broadcast_to(mdp.rho[reached[0]], (1, A, len(reached[0]))))
            origins.insert(0, (-1, -1))
            names.insert(0, "start")
        return cls(
            transitions=tuple(steps),
            name=mdp.name,
            state_names=(*names, "end"),
            origin=np.array([*origins, (-1, -1)], dtype=np.int64),
        )

    def lift(self, table: ArrayLike, *, fill: float = 0.0) -> Floats:
        """Move a table [H, S, A] of the `TabularMDP` this came from (rewards, losses, a policy) to [X, A].

        States that were added, the first or the last, get `fill`: 0 for rewards, 1 / A for a policy.
        """
        source = floats("table", table)
        H, S = (self.origin.max(axis=0) + 1).tolist()
        require(H > 0, "lift needs an MDP made by from_tabular", given=self.name)
        fits = (
            source.ndim == 3 and source.shape[0] >= H and source.shape[1] >= S and source.shape[2] == self.num_actions
        )
        require(fits, "table must be the [H, S, A] of the TabularMDP this came from", given=source.shape)
        lifted = np.full((self.num_states, self.num_actions), fill)
        kept = self.origin[:, 0] >= 0
        lifted[kept] = source[self.origin[kept, 0], self.origin[kept, 1]]
        return lifted

    def to_tabular(self, *, r: ArrayLike, reward_kind: RewardKind = "bernoulli") -> TabularMDP:
        """The `TabularMDP` over all X states with mean rewards r[x, a]; the last state is absorbing.

        Its horizon is H, so the last state is entered but never acted in, and its row of r plays no part. The step is
        part of the state already, so the result is time-homogeneous.
        """
        X, A = self.num_states, self.num_actions
        P = np.zeros((X, A, X))  # [x, a, x']
        for h, step in enumerate(self.transitions):
            here, there = self.layers[h], self.layers[h + 1]
            P[here[0] : here[-1] + 1, :, there[0] : there[-1] + 1] = step
        P[X - 1, :, X - 1] = 1.0
        rho = np.zeros(X)
        rho[0] = 1.0
        return TabularMDP(
            P=P,
            r=r,
            rho=rho,
            horizon=self.horizon,
            reward_kind=reward_kind,
            name=self.name,
            state_names=self.state_names,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy in another process is validated and read-only too.
        return _rebuild, (self.transitions, self.name, self.state_names, self.origin)


def _rebuild(transitions: tuple[Floats, ...], name: str, state_names: tuple[str, ...], origin: Ints) -> LayeredMDP:
    """Undo `__reduce__`."""
    return LayeredMDP(transitions=transitions, name=name, state_names=state_names, origin=origin)
