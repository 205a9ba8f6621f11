"""Which counters a shuffled batch releases: families, layers, labels, and how one user touches them.

Four families of counters exist, each over a public set of layers h (steps, zero-based):

    transitions  1{s_h, a_h, s_{h+1} = s, a, s'}     one cell per layer; layer H-1 needs the state after the last step
    visits       1{s_h, a_h = s, a}                  one cell per layer
    rewards      1{s_h, a_h = s, a} · r_h, r in {0,1}  at most one cell per layer
    outcomes     1{s_h, a_h, r_h = s, a, r}          one cell per layer: visits and rewards in one family

Replacing a trajectory moves, per family and layer, at most one counter up by one and one down by one, and there is a
pair of trajectories that does so everywhere at once; so `families()` is exact: Lemma S4 (staged counts).

    three families, layers as needed     6H-2 differing counters      [bai2024shuffle] releases layer H too: 6H
    transitions and outcomes             4H-2                         the same statistics for less noise
    one layer, crude exploration         2 (4 with visits), no rewards
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.errors import require, require_count

__all__ = ["NoisyCounts", "ReleaseSpec"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class NoisyCounts(NamedTuple):
    """What the analyzer computes: unbiased, not yet consistent; layers that were not released are zero."""

    transitions: Floats
    """[H, S, A, S]"""
    visits: Floats
    """[H, S, A]"""
    rewards: Floats
    """[H, S, A]"""


class _Block(NamedTuple):
    """One family's counters: a contiguous range of labels in the order [layer, cell...]."""

    name: str
    layers: tuple[int, ...]
    cells: tuple[int, ...]
    start: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.layers), *self.cells)

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSpec:
    """The public description of a release: sizes and, for each family, its layers.

    >>> ReleaseSpec.fine(num_states=4, num_actions=2, horizon=6).differing
    34
    >>> ReleaseSpec.one_hot(num_states=4, num_actions=2, horizon=6).differing
    22
    >>> ReleaseSpec.crude(num_states=4, num_actions=2, horizon=6, layer=3).differing
    2
    """

    num_states: int
    num_actions: int
    horizon: int
    transitions: tuple[int, ...]
    visits: tuple[int, ...]
    rewards: tuple[int, ...]
    outcomes: tuple[int, ...]

    def __post_init__(self) -> None:
        require_count("num_states", self.num_states)
        require_count("num_actions", self.num_actions)
        horizon = require_count("horizon", self.horizon)
        for name in ("transitions", "visits", "rewards", "outcomes"):
            layers = getattr(self, name)
            ordered = isinstance(layers, tuple) and list(layers) == sorted(set(layers))
            inside = ordered and all(0 <= h < horizon for h in layers)
            require(inside, f"layers of {name} must be a tuple that increases within 0..{horizon - 1}", layers)
        require(self.slots > 0, "a release must have at least one family with a layer", "none")
        twice = set(self.outcomes) & (set(self.visits) | set(self.rewards))
        require(not twice, "outcomes already hold visits and rewards: their layers must not overlap", sorted(twice))
        require(self.num_counters < 2**32, "a release must have fewer than 2^32 counters", self.num_counters)

    @classmethod
    def fine(cls, *, num_states: int, num_actions: int, horizon: int, last_transition: bool = False) -> Self:
        """Three families on all layers; transitions of the last layer only on request (as printed: nobody uses them).

        >>> ReleaseSpec.fine(num_states=4, num_actions=2, horizon=6, last_transition=True).differing
        36
        """
        every = tuple(range(require_count("horizon", horizon)))
        transitions = every if last_transition else every[:-1]
        return cls(
            num_states=num_states,
            num_actions=num_actions,
            horizon=horizon,
            transitions=transitions,
            visits=every,
            rewards=every,
            outcomes=(),
        )

    @classmethod
    def one_hot(cls, *, num_states: int, num_actions: int, horizon: int) -> Self:
        """Transitions and the joint cells (s, a, r), from which visits and rewards follow."""
        every = tuple(range(require_count("horizon", horizon)))
        return cls(
            num_states=num_states,
            num_actions=num_actions,
            horizon=horizon,
            transitions=every[:-1],
            visits=(),
            rewards=(),
            outcomes=every,
        )

    @classmethod
    def crude(cls, *, num_states: int, num_actions: int, horizon: int, layer: int, visits: bool = False) -> Self:
        """One layer's transitions (and visits, on request) and nothing else: all that crude exploration uses."""
        return cls(
            num_states=num_states,
            num_actions=num_actions,
            horizon=horizon,
            transitions=(layer,),
            visits=(layer,) if visits else (),
            rewards=(),
            outcomes=(),
        )

    @property
    def slots(self) -> int:
        """The number of (family, layer) pairs: a user has at most one counter at one in each."""
        return len(self.transitions) + len(self.visits) + len(self.rewards) + len(self.outcomes)

    @property
    def num_counters(self) -> int:
        """How many counters there are; their labels are 0, ..., num_counters - 1."""
        return self._blocks()[-1].stop

    @property
    def needs_last_state(self) -> bool:
        """Whether the state after the last step is used."""
        return self.horizon - 1 in self.transitions

    @property
    def differing(self) -> int:
        """How many counters differ between the worst two neighbours."""
        return sum(family.differing for family in self.families())

    def families(self) -> tuple[Family, ...]:
        """The worst replacement: in each family and layer one counter up and one down, by one."""
        return tuple(
            Family(name=block.name, up=len(block.layers), down=len(block.layers), shift=1.0)
            for block in self._blocks()
            if block.layers
        )

    def labels(self, states: Ints, actions: Ints, rewards: Ints) -> NDArray[np.uint32]:
        """The labels of the counters that one user's trajectory sets to one (rewards already 0 or 1).

        >>> spec = ReleaseSpec.crude(num_states=2, num_actions=2, horizon=2, layer=0)
        >>> spec.labels(np.array([1, 0]), np.array([1, 0]), np.array([0, 0]))     # ((s·A + a)·S + s') of layer 0
        array([6], dtype=uint32)
        """
        found = []
        for block, h, first in _steps(self):
            # Row-major over [layer, s, a] and then s' or r, as the blocks are laid out.
            cell = (first + states[h]) * self.num_actions + actions[h]
            if block.name == "transitions":
                cell = cell * self.num_states + states[h + 1]
            elif block.name == "outcomes":
                cell = cell * 2 + rewards[h]
            elif block.name == "rewards":
                cell = cell[rewards[h] == 1]
            found.append(block.start + cell)
        return np.concatenate(found).astype(np.uint32)

    def counters(self, transitions: Ints, visits: Ints, rewards: Ints) -> Ints:
        """Exact counts [H, ...] of a batch as one vector over the labels; rewards are counts of ones."""
        arrays = {
            "transitions": transitions,
            "visits": visits,
            "rewards": rewards,
            "outcomes": np.stack([visits - rewards, rewards], axis=-1),
        }
        return np.concatenate([arrays[block.name][list(block.layers)].ravel() for block in self._blocks()])

    def arrays(self, values: Floats) -> NoisyCounts:
        """The vector over the labels as arrays [H, ...]; statistics that follow from released ones are filled in."""
        H, S, A = self.horizon, self.num_states, self.num_actions
        N_sas, N_sa, R = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
        parts = {b.name: (list(b.layers), values[b.start : b.stop].reshape(b.shape)) for b in self._blocks()}
        layers, cells = parts["transitions"]
        N_sas[layers] = cells
        # N(s,a) = Σ_s' N(s,a,s') where nothing better was released
        N_sa[layers] = cells.sum(axis=-1)
        layers, cells = parts["outcomes"]
        # N(s,a) = N(s,a,r=0) + N(s,a,r=1);  R(s,a) = N(s,a,r=1)
        N_sa[layers], R[layers] = cells.sum(axis=-1), cells[..., 1]
        for target, name in ((N_sa, "visits"), (R, "rewards")):
            layers, cells = parts[name]
            target[layers] = cells
        return NoisyCounts(transitions=N_sas, visits=N_sa, rewards=R)

    def noisy_terms(self) -> dict[str, int]:
        """How many counters' noise one entry of each statistic carries, at the most; absent statistics are left out.

        >>> ReleaseSpec.one_hot(num_states=4, num_actions=2, horizon=6).noisy_terms()
        {'transitions': 1, 'visits': 2, 'rewards': 1}
        """
        terms = {"transitions": 1} if self.transitions else {}
        derived = set(self.transitions) - set(self.visits) - set(self.outcomes)
        sources = ((1, self.visits), (2, self.outcomes), (self.num_states, derived))
        visits = [count for count, layers in sources if layers]
        if visits:
            terms["visits"] = max(visits)
        if self.rewards or self.outcomes:
            terms["rewards"] = 1
        return terms

    def _blocks(self) -> tuple[_Block, ...]:
        return _layout(self)


@cache
def _layout(spec: ReleaseSpec) -> tuple[_Block, ...]:
    """The blocks of labels, one after the other; remembered, because every device of a batch asks."""
    S, A = spec.num_states, spec.num_actions
    cells = {"transitions": (S, A, S), "visits": (S, A), "rewards": (S, A), "outcomes": (S, A, 2)}
    blocks: list[_Block] = []
    start = 0
    for name, shape in cells.items():
        blocks.append(_Block(name, getattr(spec, name), shape, start))
        start = blocks[-1].stop
    return tuple(blocks)


@cache
def _steps(spec: ReleaseSpec) -> tuple[tuple[_Block, Ints, Ints], ...]:
    """For each block that has any: the layers h, and where the states of each of them begin; remembered likewise."""
    return tuple(
        (block, np.array(block.layers, dtype=np.int64), np.arange(len(block.layers)) * spec.num_states)
        for block in _layout(spec)
        if block.layers
    )
