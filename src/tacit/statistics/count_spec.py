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

Where a support is declared, a family has the counters that can move, and no others. A row with a single successor has
no transitions of its own beside released outcomes: whoever was there went there. A step that contradicts the
declaration sets no counter, a reward where none can be counts as a visit without one. So a trajectory still has at most
one counter at one per family and layer, whatever is declared and whatever a person does: Lemma S9 (declared support).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import require, require_count
from tacit.support import Support


class NoisyCounts(NamedTuple):
    """What the analyzer computes: unbiased, not yet consistent; layers that were not released are zero."""

    transitions: Floats
    """[H, S, A, S]"""
    visits: Floats
    """[H, S, A]"""
    rewards: Floats
    """[H, S, A]"""


class _Block(NamedTuple):
    """One family's counters: a contiguous range of labels, in the order [layer, cell...]."""

    name: str
    layers: tuple[int, ...]
    cells: Ints | slice
    """Counter start + i counts cells[i] of [H, S, A, S], [H, S, A] or, of outcomes, [H, S, A, 2]."""
    order: Ints
    """What sorts the cells."""
    start: int
    stop: int

    def label(self, cells: Ints) -> Ints:
        """The labels of cells in these layers; -1 for those that have no counter."""
        if isinstance(self.cells, slice):
            return cells + (self.start - int(self.cells.start))
        if len(self.cells) == 0:
            return np.full(cells.shape, -1)
        found = np.searchsorted(self.cells, cells, sorter=self.order)
        place = self.order[np.minimum(found, len(self.order) - 1)]
        return np.asarray(np.where(self.cells[place] == cells, self.start + place, -1), dtype=np.int64)


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
    support: Support | None = None
    """The public declaration of what can happen; None: every counter is released."""

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
    def one_hot(cls, *, num_states: int, num_actions: int, horizon: int, support: Support | None = None) -> Self:
        """Transitions and the joint cells (s, a, r), from which visits and rewards follow.

        >>> chain = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
        >>> spec = ReleaseSpec.one_hot(num_states=3, num_actions=1, horizon=3, support=chain)
        >>> spec.num_counters, spec.differing
        (18, 10)
        """
        every = tuple(range(require_count("horizon", horizon)))
        moving = every[:-1]
        if support is not None:
            moving = tuple(np.unique(support.released.moves // (num_states**2 * num_actions)).tolist())
        return cls(
            num_states=num_states,
            num_actions=num_actions,
            horizon=horizon,
            transitions=moving,
            visits=(),
            rewards=(),
            outcomes=every,
            support=support,
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
        """The labels of the counters that one user's trajectory sets to one (rewards already 0 or 1), in their order.

        >>> spec = ReleaseSpec.crude(num_states=2, num_actions=2, horizon=2, layer=0)
        >>> spec.labels(np.array([1, 0]), np.array([1, 0]), np.array([0, 0]))     # ((s·A + a)·S + s') of layer 0
        array([6], dtype=uint32)
        """
        H, S, found = self.horizon, self.num_states, []
        row = (np.arange(H) * S + states[:H]) * self.num_actions + actions
        for block in self._blocks():
            h = np.array(block.layers, dtype=np.int64)
            cell = row[h]
            if block.name == "transitions":
                cell = cell * S + states[h + 1]
            elif block.name == "rewards":
                cell = cell[rewards[h] == 1]
            elif block.name == "outcomes":
                # A reward where none can be counts as a visit without one.
                cell = 2 * cell + ((rewards[h] == 1) & (block.label(2 * cell + 1) >= 0))
            label = block.label(cell)
            found.append(label[label >= 0])
        return np.sort(np.concatenate(found)).astype(np.uint32)

    def counters(self, transitions: Ints, visits: Ints, rewards: Floats | Ints) -> Ints:
        """Exact counts [H, ...] of a batch as one vector over the labels; sums of rewards may be real."""
        earned = rewards * _possible(self)[1]
        outcomes = np.stack([visits - earned, earned], axis=-1)
        arrays = {"transitions": transitions, "visits": visits, "rewards": earned, "outcomes": outcomes}
        return np.concatenate([arrays[block.name].reshape(-1)[block.cells] for block in self._blocks()])

    def arrays(self, values: Floats) -> NoisyCounts:
        """The vector over the labels as arrays [H, ...]; statistics that follow from released ones are filled in."""
        H, S, A = self.horizon, self.num_states, self.num_actions
        sizes = {"transitions": (H, S, A, S), "visits": (H, S, A), "rewards": (H, S, A), "outcomes": (H, S, A, 2)}
        parts = {name: np.zeros(size) for name, size in sizes.items()}
        for block in self._blocks():
            parts[block.name].reshape(-1)[block.cells] = values[block.start : block.stop]
        N_sas, N_sa, R, outcomes = parts.values()
        # N(s,a) = Σ_s' N(s,a,s') where nothing better was released
        derived = sorted(set(self.transitions) - set(self.visits) - set(self.outcomes))
        N_sa[derived] = N_sas[derived].sum(axis=-1)
        # N(s,a) = N(s,a,r=0) + N(s,a,r=1);  R(s,a) = N(s,a,r=1)
        layers = list(self.outcomes)
        N_sa[layers], R[layers] = outcomes[layers].sum(axis=-1), outcomes[layers][..., 1]
        rows, cells = _sure(self)
        N_sas.reshape(-1)[cells] = N_sa.reshape(-1)[rows]
        return NoisyCounts(transitions=N_sas, visits=N_sa, rewards=R)

    def noisy_terms(self) -> dict[str, int]:
        """How many counters' noise one entry of each statistic carries, at the most; absent statistics are left out.

        >>> ReleaseSpec.one_hot(num_states=4, num_actions=2, horizon=6).noisy_terms()
        {'transitions': 1, 'visits': 2, 'rewards': 1}
        """
        derived, full = sorted(set(self.transitions) - set(self.visits) - set(self.outcomes)), self.support is None
        successors = self.num_states if full else int(_possible(self)[2][derived].sum(axis=-1).max(initial=0))
        sources = ((1, self.visits), (1 + bool(_possible(self)[1].any()), self.outcomes), (successors, derived))
        visits = max((count for count, layers in sources if layers), default=0)
        # Where no transition has a counter, all of them follow from visits.
        moved = 1 if self.transitions else visits * bool(len(_sure(self)[0]))
        terms = {"transitions": moved, "visits": visits, "rewards": int(bool(self.rewards or self.outcomes))}
        return {name: count for name, count in terms.items() if count}

    def _blocks(self) -> tuple[_Block, ...]:
        return _layout(self)


@cache
def _layout(spec: ReleaseSpec) -> tuple[_Block, ...]:
    """The blocks of labels, one after the other; remembered, because every device of a batch asks."""
    blocks: list[_Block] = []
    start = 0
    for name in ("transitions", "visits", "rewards", "outcomes"):
        cells = _cells(spec, name)
        order = np.zeros(0, dtype=np.int64) if isinstance(cells, slice) else np.argsort(cells)
        stop = start + (cells.stop - cells.start if isinstance(cells, slice) else len(cells))
        blocks.append(_Block(name, getattr(spec, name), cells, order, start, stop))
        start = stop
    return tuple(blocks)


def _cells(spec: ReleaseSpec, name: str) -> Ints | slice:
    """The cells of a family that have counters."""
    pairs, S = spec.num_states * spec.num_actions, spec.num_states
    size = pairs * {"transitions": S, "outcomes": 2}.get(name, 1)
    layers = np.array(getattr(spec, name), dtype=np.int64)
    if spec.support is None and np.all(np.diff(layers) == 1):
        return slice(int(layers[0]) * size, (int(layers[-1]) + 1) * size) if len(layers) else slice(0, 0)
    every = (layers[:, np.newaxis] * size + np.arange(size)).ravel()
    if spec.support is None:
        return every
    here, pays, led = _possible(spec)
    mask = {"transitions": led, "visits": here, "rewards": pays, "outcomes": np.stack([here, pays], axis=-1)}[name]
    every = every[mask.reshape(-1)[every]]
    # The labels of a declared support: all ones, then all zeros.
    return np.concatenate([every[every % 2 == 1], every[every % 2 == 0]]) if name == "outcomes" else every


@cache
def _possible(spec: ReleaseSpec) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which pairs [H, S, A] can be met, which can earn anything, and which transitions [H, S, A, S'] have counters."""
    H, S, A, known = spec.horizon, spec.num_states, spec.num_actions, spec.support
    here = np.ones((H, S, A), dtype=bool)
    if known is None:
        return here, here, np.broadcast_to(True, (H, S, A, S))
    here &= known.reach[..., np.newaxis]
    led = known.moves & here[..., np.newaxis]
    led.reshape(-1, S)[_sure(spec)[0]] = False
    return here, here & known.rewards, led


def _sure(spec: ReleaseSpec) -> tuple[Ints, Ints]:
    """Rows of [H, S, A] whose only transitions follow from released outcomes, and the cells of these."""
    if spec.support is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows, cells = spec.support.released.sure
    follows = np.isin(rows // (spec.num_states * spec.num_actions), spec.outcomes)
    return rows[follows], cells[follows]


def total_terms(support: Support) -> tuple[int, int, int]:
    """How many counters' noise one cell of pooled transitions, visits and rewards carries, at the most.

    >>> chain = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> total_terms(chain)
    (2, 6, 3)
    """
    sizes = {"horizon": support.horizon, "num_states": support.num_states, "num_actions": support.num_actions}
    spec = ReleaseSpec.one_hot(**sizes, support=support)
    every = [part.sum(axis=0) for part in spec.arrays(np.ones(spec.num_counters))]
    # Rows that lead to one state at every step lead there for sure: their widths do not look at this noise.
    open_rows = support.every_step.moves[0].sum(axis=2) > 1
    open_rows |= not open_rows.any()
    moved, visits, rewards = every[0] * open_rows[..., np.newaxis], every[1], every[2]
    return int(moved.max()), int(visits.max()), int(rewards.max())
