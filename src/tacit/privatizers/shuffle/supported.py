"""Which counters a batch releases where the support of its world is declared: those that can move, and no others.

    transitions  N_h(s,a,s') of rows that can be reached and have several successors
    outcomes     visits with reward one, of pairs that can earn anything, and with reward zero, of pairs within reach

A row with a single successor has no counters of its own: whoever was there went there. A step that contradicts the
declaration sets no counter, a reward where none can be counts as a visit without one. So a trajectory still has at most
one counter at one per family and step, whatever is declared and whatever a person does: Lemma S9 (declared support).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.privatizers.shuffle.spec import NoisyCounts, ReleaseSpec
from tacit.support import Support

__all__ = ["SupportedSpec", "supported_spec"]


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
        """The vector over the labels as arrays [H, ...]; what is not released is zero."""
        cells, H, S, A = self.support.released, self.horizon, self.num_states, self.num_actions
        N_sas, N_sa, R = np.zeros((H, S, A, S)), np.zeros(H * S * A), np.zeros(H * S * A)
        moved, ones, zeros = np.split(values, [len(cells.moves), len(cells.moves) + len(cells.ones)])
        N_sas.reshape(-1)[cells.moves] = moved
        R[cells.ones] = ones
        N_sa[cells.zeros] = zeros
        # N(s,a) = N(s,a,r=0) + N(s,a,r=1)
        N_sa += R
        return NoisyCounts(transitions=N_sas, visits=N_sa.reshape(H, S, A), rewards=R.reshape(H, S, A))

    def noisy_terms(self) -> dict[str, int]:
        """How many counters' noise one entry of each statistic carries, at the most."""
        terms = {"transitions": 1} if self.transitions else {}
        return terms | {"visits": 2 if len(self.support.released.ones) else 1, "rewards": 1}


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


def _found(cells: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The places of wanted cells in a sorted list, of those that are in it, and which those are."""
    if len(cells) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    places = np.minimum(np.searchsorted(cells, wanted), len(cells) - 1)
    known = cells[places] == wanted
    return places[known], known
