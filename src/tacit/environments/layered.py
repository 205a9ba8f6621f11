"""Loop-free MDPs: the states stand in layers 0, ..., H and every step leads from one layer to the next.

The first and the last layer hold a single state each, as in the literature on adversarial losses, where the loss
changes from episode to episode and therefore is no part of the model. The step is part of the state, so one array per
layer says everything: `transitions[h]` is [states of layer h, A, states of layer h+1].

States are numbered layer by layer from 0 (the first) to X - 1 (the last, in which nothing is done any more).

Named layered worlds for adversarial losses: transitions, and the mean losses around which an adversary moves.

    layered            transitions drawn from a Dirichlet distribution, mean losses uniform in [0, 1]
    layered-trap       cheap actions lead to expensive states: whoever ignores the transitions pays for it
    layered-support    transitions between certain and uniform, to vary the effective support C_M

Random worlds flatter private learners: there a policy that looks at the next loss only is nearly optimal (0 to 0.07 per
episode away), and a learner whose confidence set says nothing becomes that policy. In a trap it is worse than chance.

Any `TabularMDP` is a layered world, too (`loss_world`): unrolled, with losses 1 - r.

An `Adversary` hands out losses block by block; a `LossTable` holds losses of a user's own, checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.arrays import Floats, Ints
from tacit.environments.tabular import RewardKind, TabularMDP, check_probabilities, floats, frozen, names_of
from tacit.errors import InvalidInput, require, require_count, require_real


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


Block = Callable[[int, int, np.random.Generator], Floats]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adversary:
    """All losses of a run, made block by block."""

    name: str
    episodes: int
    mean: Floats
    """[pairs]: the average expected loss over all episodes."""
    described: str
    """What decides its losses, apart from the world and the coins: a specification, or the fingerprint of a table."""
    _block: Block = field(repr=False)

    def losses(self, first: int, count: int, rng: np.random.Generator) -> Floats:
        """The losses [count, pairs] of the episodes first, ..., first + count - 1 (counted from 0), in order.

        Coins are drawn from `rng`: successive blocks from one generator are one sequence, however it is cut.
        """
        require_count("first", first, least=0)
        within = first + require_count("count", count) <= self.episodes
        require(within, f"{self.name} has losses for {self.episodes} episodes", given=first + count)
        return self._block(first, count, rng)


@dataclass(frozen=True, slots=True, eq=False)
class LossTable:
    """Losses of your own, [episodes, states, actions] or [episodes, pairs]; a row for the last state may be there.

    >>> LossTable(np.full((5, 3, 2), 0.5))
    LossTable(5 episodes, 6 losses each)
    >>> LossTable([[0.5, 1.5]])
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: losses must be finite and lie in [0, 1], episode 0 has 1.5
    """

    losses: Floats
    _fingerprint: str = field(default="", init=False)

    def __init__(self, losses: ArrayLike) -> None:
        table = floats("losses", losses)
        require(table.ndim in (2, 3) and table.size > 0, "losses must be [episodes, states, actions]", table.shape)
        bad = np.argwhere(~((table >= 0.0) & (table <= 1.0)))
        if bad.size:
            index = tuple(bad[0])
            raise InvalidInput(f"losses must be finite and lie in [0, 1], episode {index[0]} has {table[index]!s}")
        flat = frozen(table.reshape(len(table), -1))
        object.__setattr__(self, "losses", flat)
        digest = hashlib.sha256(repr(flat.shape).encode() + flat.astype("<f8").tobytes()).hexdigest()
        object.__setattr__(self, "_fingerprint", digest)

    def fingerprint(self) -> str:
        """SHA-256 of the losses."""
        return self._fingerprint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LossTable) and self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __repr__(self) -> str:
        return f"LossTable({len(self.losses)} episodes, {self.losses.shape[1]} losses each)"

    def __reduce__(self) -> tuple[Any, ...]:
        return LossTable, (np.asarray(self.losses),)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossWorld:
    """A layered MDP and mean losses [X - 1, A] in [0, 1] around which an adversary moves."""

    mdp: LayeredMDP
    base: Floats

    def __post_init__(self) -> None:
        base = floats("base losses", self.base)
        shape = (self.mdp.num_states - 1, self.mdp.num_actions)
        require(base.shape == shape, f"base losses must be {list(shape)}: one row per state but the last", base.shape)
        require(bool(((base >= 0.0) & (base <= 1.0)).all()), "base losses must lie in [0, 1]", "others")
        object.__setattr__(self, "base", frozen(base))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossGame:
    """A layered world and the adversary who plays in it."""

    world: LossWorld
    adversary: Adversary

    @property
    def horizon(self) -> int:
        """H."""
        return self.world.mdp.horizon

    @property
    def num_states(self) -> int:
        """X, first and last included."""
        return self.world.mdp.num_states

    @property
    def num_actions(self) -> int:
        """A."""
        return self.world.mdp.num_actions

    def fingerprint(self) -> str:
        """SHA-256 of transitions, mean losses and adversary."""
        digest = hashlib.sha256(self.world.mdp.fingerprint().encode())
        digest.update(self.world.base.astype("<f8").tobytes() + self.adversary.described.encode())
        return digest.hexdigest()


def layered(
    *, layers: int = 4, states: int = 3, actions: int = 2, concentration: float = 1.0, seed: int = 0
) -> LossWorld:
    """Random layers: Dirichlet transitions and uniform mean losses, drawn once.

    Parameters
    ----------
    layers, states, actions
        H steps; so many states in each layer but the first and the last, which have one.
    concentration
        Of the Dirichlet distribution; 1 is uniform over all distributions, less is sparse.
    seed
        Which world; nothing else depends on it.

    Examples
    --------
    >>> world = layered(layers=4, states=3, actions=2)
    >>> world.mdp.horizon, world.mdp.num_states, world.base.shape
    (4, 11, (10, 2))
    """
    widths, A = _widths(layers, states), require_count("actions", actions)
    alpha = require_real("concentration", concentration, low=0.0, open_low=True)
    generator = np.random.default_rng(require_count("seed", seed, least=0))
    steps = [generator.dirichlet(np.full(after, alpha), size=(here, A)) for here, after in pairwise(widths)]
    base = generator.random((sum(widths) - 1, A))
    return LossWorld(mdp=LayeredMDP(transitions=tuple(steps), name="layered"), base=base)


def layered_trap(*, layers: int = 4, states: int = 3, actions: int = 2, slip: float = 0.1) -> LossWorld:
    """A trap: the cheapest action leads to expensive states, so looking one step ahead is worse than chance.

    The first state of every layer is good (losses 0.1 and 0.3), the others are bad (0.7 and 0.9). The first action is
    the cheaper one everywhere and leads to a bad state, the others lead to the good one; both fail with probability
    `slip`.

    Examples
    --------
    >>> world = layered_trap()
    >>> world.base[0].tolist(), world.mdp.transitions[0][0, :, 0].tolist()
    ([0.1, 0.3], [0.1, 0.9])
    """
    widths, A = _widths(layers, states), require_count("actions", actions, least=2)
    require_count("states", states, least=2)
    p = require_real("slip", slip, low=0.0, high=0.5)
    steps = []
    for here, after in pairwise(widths):
        step = np.ones((here, A, after))
        if after > 1:
            good = np.full(A, 1.0 - p)
            good[0] = p
            step[:, :, 0] = good
            step[:, :, 1:] = ((1.0 - good) / (after - 1))[:, np.newaxis]
        steps.append(step)
    mdp = LayeredMDP(transitions=tuple(steps), name="layered-trap")
    is_good = np.array([x == layer[0] for layer in mdp.layers[:-1] for x in layer])
    base = np.where(is_good, 0.3, 0.9)[:, np.newaxis] * np.ones(A)
    base[:, 0] = np.where(is_good, 0.1, 0.7)
    return LossWorld(mdp=mdp, base=base)


def layered_support(
    *, layers: int = 4, states: int = 3, actions: int = 2, spread: float = 0.5, seed: int = 0
) -> LossWorld:
    """Tunable effective support: every step is certain (spread 0), uniform (spread 1) or a mixture of the two.

    Where a certain step leads and the mean losses are drawn once and are the same for every spread.

    Examples
    --------
    >>> [round(layered_support(spread=s).mdp.effective_support, 2) for s in (0.0, 0.25, 1.0)]
    [0.0, 5.84, 8.93]
    """
    widths, A = _widths(layers, states), require_count("actions", actions)
    w = require_real("spread", spread, low=0.0, high=1.0)
    generator = np.random.default_rng(require_count("seed", seed, least=0))
    steps = []
    for here, after in pairwise(widths):
        # Actions of one state lead to different states as long as there are enough of them.
        start = generator.integers(after, size=here)
        goal = (start[:, np.newaxis] + np.arange(A)) % after
        steps.append((1.0 - w) * np.eye(after)[goal] + w / after)
    base = generator.random((sum(widths) - 1, A))
    return LossWorld(mdp=LayeredMDP(transitions=tuple(steps), name="layered-support"), base=base)


def loss_world(model: TabularMDP | LayeredMDP | LossWorld, base: ArrayLike | None = None) -> LossWorld:
    """A model as a world for adversaries: a `TabularMDP` is unrolled, and its mean losses are 1 - r.

    A `LayeredMDP` has no losses of its own: `base` [X - 1, A] says around what an adversary moves, else it is 0.5.
    """
    if isinstance(model, LossWorld):
        return model
    if isinstance(model, TabularMDP):
        unrolled = LayeredMDP.from_tabular(model)
        return LossWorld(mdp=unrolled, base=1.0 - unrolled.lift(model.r, fill=0.5)[:-1])
    around = np.full((model.num_states - 1, model.num_actions), 0.5) if base is None else floats("base losses", base)
    return LossWorld(mdp=model, base=around)


def _widths(layers: int, states: int) -> list[int]:
    """[1, n, ..., n, 1]: H + 1 layers."""
    H, n = require_count("layers", layers), require_count("states", states)
    return [1, *[n] * (H - 1), 1]
