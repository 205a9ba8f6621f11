"""Everything a learner is between two steps, as bytes that give every bit back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.accounting.database import Connection
from tacit.errors import require
from tacit.learners.contract import PlanningLearner
from tacit.protocol import Learner, Plan
from tacit.study.state import decode_state, encode_state

COINS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerState:
    """Everything a learner is between two steps."""

    belief: Any
    plan: Plan[Any] | None
    memory: Any
    """What was released so far, as far as channels need it: public."""
    rng: np.random.Generator

    def rows(self) -> tuple[bytes, bytes, bytes, str]:
        """The state as bytes, column by column."""
        state = json.dumps(self.rng.bit_generator.state, sort_keys=True)
        return encode_state(self.belief), encode_state(self.plan), encode_state(self.memory), state

    def served(self, learner: Learner[Any, Any, Any]) -> LearnerState:
        """The state once all stages were asked: with a plan that asks nothing, where the learner would go on."""
        belief, plan = learner.plan(self.belief, self.rng)
        if plan.query is not None and isinstance(learner, PlanningLearner):
            belief, plan = self.belief, learner.last(self.belief, plan, self.rng)
        return LearnerState(belief=belief, plan=plan, memory=self.memory, rng=self.rng)

    @classmethod
    def read(cls, row: Sequence[Any], packages: tuple[str, ...]) -> LearnerState:
        """The state that `rows` wrote."""
        belief, plan, memory = (decode_state(data, packages) for data in row[:3])
        state = json.loads(row[3])
        known = state["bit_generator"] in COINS
        require(known, f"coins must be of one of {', '.join(COINS)}", state["bit_generator"])
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return cls(belief=belief, plan=plan, memory=memory, rng=np.random.Generator(bits))


def keep(connection: Connection, kind: str, stage: int | None, question: int | None, mind: LearnerState) -> None:
    """Store the state after a step of this kind."""
    connection.execute(
        "INSERT INTO belief (kind, stage, question, belief, plan, memory, coins) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (kind, stage, question, *mind.rows()),
    )
