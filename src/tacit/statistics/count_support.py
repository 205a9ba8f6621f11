"""Which counters a batch releases where the support of its world is declared: those that can move, and no others.

    transitions  N_h(s,a,s') of rows that can be reached and have several successors
    outcomes     visits with reward one, of pairs that can earn anything, and with reward zero, of pairs within reach

A row with a single successor has no counters of its own: whoever was there went there. A step that contradicts the
declaration sets no counter, a reward where none can be counts as a visit without one. So a trajectory still has at most
one counter at one per family and step, whatever is declared and whatever a person does: Lemma S9 (declared support).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec
from tacit.support import Support

__all__ = ["SupportedLayer", "SupportedSpec", "layer_spec", "supported_spec", "total_terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedSpec(ReleaseSpec):
    """The public description of a release over a declared support: transitions and outcomes of all steps.

    >>> chain = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> spec = supported_spec(chain)
    >>> spec.num_counters, spec.differing
    (18, 10)
    """

    support: Support

    @property
    def num_counters(self) -> int:
        """How many counters there are: transitions, ones, zeros, in this order."""
        cells = self.support.released
        return len(cells.moves) + len(cells.ones) + len(cells.zeros)

    def families(self) -> tuple[Family, ...]:
        """The worst replacement: in each family and step that has counters, one up and one down, by one."""
        steps = {"transitions": len(self.transitions), "outcomes": len(self.outcomes)}
        return tuple(Family(name=name, up=n, down=n, shift=1.0) for name, n in steps.items() if n)

    def labels(self, states: Ints, actions: Ints, rewards: Ints) -> NDArray[np.uint32]:
        """The labels of the counters that one user's trajectory sets to one (rewards already 0 or 1)."""
        cells, H, S, A = self.support.released, self.horizon, self.num_states, self.num_actions
        row = (np.arange(H) * S + states[:H]) * A + actions
        moved, _ = _found(cells.moves, row[: H - 1] * S + states[1:H])
        paid, earned = _found(cells.ones, row[rewards == 1])
        seen = np.ones(H, dtype=bool)
        seen[np.flatnonzero(rewards == 1)[earned]] = False
        met, _ = _found(cells.zeros, row[seen])
        first = len(cells.moves)
        return np.concatenate([moved, first + paid, first + len(cells.ones) + met]).astype(np.uint32)

    def counters(self, transitions: Ints, visits: Ints, rewards: Ints) -> Ints:
        """Exact counts [H, ...] of a batch as one vector over the labels; sums of rewards may be real."""
        cells = self.support.released
        earned = np.zeros(rewards.size, dtype=rewards.dtype)
        earned[cells.ones] = rewards.ravel()[cells.ones]
        idle = visits.ravel() - earned
        return np.concatenate(
            [transitions[: self.horizon - 1].ravel()[cells.moves], earned[cells.ones], idle[cells.zeros]]
        )

    def arrays(self, values: Floats) -> NoisyCounts:
        """The vector over the labels as arrays [H, ...]; what cannot happen is zero, sure rows follow from visits."""
        cells, H, S, A = self.support.released, self.horizon, self.num_states, self.num_actions
        N_sas, N_sa, R = np.zeros((H, S, A, S)), np.zeros(H * S * A), np.zeros(H * S * A)
        moved, ones, zeros = np.split(values, [len(cells.moves), len(cells.moves) + len(cells.ones)])
        N_sas.reshape(-1)[cells.moves] = moved
        R[cells.ones] = ones
        N_sa[cells.zeros] = zeros
        # N(s,a) = N(s,a,r=0) + N(s,a,r=1)
        N_sa += R
        sure, leads = _sure_rows(self.support)
        N_sas.reshape(-1)[sure * S + leads] = N_sa[sure]
        return NoisyCounts(transitions=N_sas, visits=N_sa.reshape(H, S, A), rewards=R.reshape(H, S, A))

    def noisy_terms(self) -> dict[str, int]:
        """How many counters' noise one entry of each statistic carries, at the most."""
        visits = 2 if len(self.support.released.ones) else 1
        # Where no transition has a counter, all of them follow from visits.
        moved = 1 if self.transitions else visits
        terms = {"transitions": moved} if self.horizon > 1 else {}
        return terms | {"visits": visits, "rewards": 1}


@lru_cache(maxsize=64)
def _sure_rows(support: Support) -> tuple[Ints, Ints]:
    """Flat (h,s,a) of the rows with a single successor, and where they lead."""
    single = support.released.single.ravel()
    sure = np.flatnonzero(single >= 0)
    return sure, single[sure]


@lru_cache(maxsize=64)
def supported_spec(support: Support) -> SupportedSpec:
    """The release of everything that can move."""
    H, S, A = support.horizon, support.num_states, support.num_actions
    steps = np.unique(support.released.moves // (S * A * S))
    return SupportedSpec(
        num_states=S,
        num_actions=A,
        horizon=H,
        transitions=tuple(int(h) for h in steps),
        visits=(),
        rewards=(),
        outcomes=tuple(range(H)),
        support=support,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedLayer(ReleaseSpec):
    """One layer over a declared support: every transition that can happen there, or the visits of the last layer.

    A row with a single successor has its counter here: nothing else is released from which it would follow.

    >>> chain = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> [layer_spec(chain, layer).num_counters for layer in range(3)]
    [2, 4, 3]
    """

    support: Support
    layer: int

    @property
    def num_counters(self) -> int:
        """How many transitions, or visits, can happen at this layer."""
        return len(self._cells())

    def labels(self, states: Ints, actions: Ints, rewards: Ints) -> NDArray[np.uint32]:
        """The label of what happened at the layer, if it can happen there."""
        h = self.layer
        cell = np.array([states[h] * self.num_actions + actions[h]])
        if self.transitions:
            cell = cell * self.num_states + states[h + 1]
        return _found(self._cells(), cell)[0].astype(np.uint32)

    def counters(self, transitions: Ints, visits: Ints, rewards: Ints) -> Ints:
        """Exact counts [H, ...] of a batch as one vector over the labels."""
        return np.asarray((transitions if self.transitions else visits)[self.layer].ravel()[self._cells()])

    def arrays(self, values: Floats) -> NoisyCounts:
        """The vector over the labels as arrays [H, ...]; what is not released is zero."""
        H, S, A = self.horizon, self.num_states, self.num_actions
        N_sas, N_sa = np.zeros((H, S, A, S)), np.zeros((H, S, A))
        if self.transitions:
            N_sas[self.layer].reshape(-1)[self._cells()] = values
            N_sa[self.layer] = N_sas[self.layer].sum(axis=-1)
        else:
            N_sa[self.layer].reshape(-1)[self._cells()] = values
        return NoisyCounts(transitions=N_sas, visits=N_sa, rewards=np.zeros((H, S, A)))

    def noisy_terms(self) -> dict[str, int]:
        """How many counters' noise one entry of each statistic carries, at the most."""
        if not self.transitions:
            return {"visits": 1}
        return {"transitions": 1, "visits": int(np.bincount(self._cells() // self.num_states).max())}

    def _cells(self) -> Ints:
        return _layer_cells(self.support, self.layer)


@cache
def _layer_cells(support: Support, layer: int) -> Ints:
    """Flat, sorted: (s, a, s') that can happen at a layer, or (s, a) at the last one."""
    here = np.repeat(support.reach[layer][:, np.newaxis], support.num_actions, axis=1)
    if layer == support.horizon - 1:
        return np.flatnonzero(here)
    return np.flatnonzero(support.moves[min(layer, len(support.moves) - 1)] & here[..., np.newaxis])


def layer_spec(support: Support, layer: int) -> SupportedLayer:
    """The release of who moved where at one layer."""
    last = layer == support.horizon - 1
    return SupportedLayer(
        num_states=support.num_states,
        num_actions=support.num_actions,
        horizon=support.horizon,
        transitions=() if last else (layer,),
        visits=(layer,) if last else (),
        rewards=(),
        outcomes=(),
        support=support,
        layer=layer,
    )


def total_terms(support: Support) -> tuple[int, int, int]:
    """How many counters' noise one cell of pooled transitions, visits and rewards carries, at the most.

    >>> chain = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> total_terms(chain)
    (2, 6, 3)
    """
    spec = supported_spec(support)
    cells, S = support.released, support.num_states
    ones, zeros = np.zeros(spec.horizon * S * spec.num_actions), np.zeros(spec.horizon * S * spec.num_actions)
    ones[cells.ones], zeros[cells.zeros] = 1.0, 1.0
    own = spec.arrays(np.ones(spec.num_counters)).transitions
    # Rows that lead to one state at every step lead there for sure: their widths do not look at this noise.
    open_rows = support.every_step.moves[0].sum(axis=2) > 1
    open_rows |= not open_rows.any()
    moved = int((own.sum(axis=0) * open_rows[..., np.newaxis]).max())
    per_row = (spec.horizon, S, spec.num_actions)
    return moved, int((ones + zeros).reshape(per_row).sum(axis=0).max()), int(ones.reshape(per_row).sum(axis=0).max())


def _found(cells: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The places of wanted cells in a sorted list, of those that are in it, and which those are."""
    if len(cells) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(cells, wanted), len(cells) - 1)
    known = cells[places] == wanted
    return places[known], known
