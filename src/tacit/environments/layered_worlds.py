"""Named layered worlds for adversarial losses: transitions, and the mean losses around which an adversary moves.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tacit.arrays import Floats
from tacit.environments.layered import LayeredMDP
from tacit.environments.tabular import TabularMDP, floats, frozen
from tacit.errors import InvalidInput, require, require_count, require_real

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
