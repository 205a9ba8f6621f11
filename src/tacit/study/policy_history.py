"""Policies that people followed, stage by stage, by name, and what changed from one stage to the next: all public.

A bundle may hold several policies with weights, of which everybody draws one. What is shown is the share of people who
take an action at a step in a state, over those draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInput
from tacit.policies import tabular
from tacit.study.bundle import Bundle
from tacit.study.study import Study

SAME: Final = 0.005
"""Shares that differ by less look the same in whole per cent."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StagePolicy:
    """What people of one stage follow; a stage that nobody reports in serves what was learned."""

    stage: int
    asks: bool
    killed: bool
    states: tuple[str, ...]
    """Features, where they are declared."""
    actions: tuple[str, ...]
    shares: NDArray[np.float64]
    """[H,S,A]"""

    def words(self, step: int, state: int) -> str:
        """The action at a step in a state, or the shares of several."""
        row = self.shares[step, state]
        certain = np.flatnonzero(row > 1.0 - SAME)
        if len(certain) == 1:
            return self.actions[int(certain[0])]
        return ", ".join(f"{name} {p:.0%}" for name, p in zip(self.actions, row, strict=True) if p >= SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One place where the policy is another one than in the stage before."""

    step: int
    state: str
    before: str
    after: str


def followed(study: Study) -> tuple[StagePolicy, ...]:
    """The policies of all stages that were planned; without those that have no table."""
    with study.store.reading() as connection:
        rows = connection.execute("SELECT bytes FROM bundle WHERE question = 0 ORDER BY stage").fetchall()
    found = [_followed(Bundle.parse(bytes(data))) for (data,) in rows]
    return tuple(one for one in found if one is not None)


def changes(before: StagePolicy, after: StagePolicy) -> tuple[Change, ...]:
    """Where two policies differ, by step and state."""
    differ = np.abs(before.shares - after.shares).max(axis=2) >= SAME
    return tuple(
        Change(step=h, state=after.states[s], before=before.words(h, s), after=after.words(h, s))
        for h, s in np.argwhere(differ).tolist()
    )


def _followed(bundle: Bundle) -> StagePolicy | None:
    states, actions = bundle.rows, tuple(bundle["actions"])
    arms: Any = ((bundle.fallback, 1),) if bundle["kill"] else bundle.arms
    try:
        shares = sum(float(weight) * tabular(policy).probabilities(len(actions)) for policy, weight in arms)
    except InvalidInput:  # policies of worlds without a table
        return None
    return StagePolicy(
        stage=int(bundle["stage"]),
        asks=bundle.channel is not None,
        killed=bool(bundle["kill"]),
        states=states,
        actions=actions,
        shares=np.asarray(shares, dtype=np.float64),
    )
