"""The probe of one-bit returns: people with returns of every size, rounded or compared with a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from tacit.arrays import Floats
from tacit.audit.count_probe import one_user, stacked
from tacit.audit.probes import CANARY, HOSTILE, Probe
from tacit.data.trajectories import Trajectories
from tacit.released.returns import ReturnQuery

CROWD: Final = 64
"""Others who are asked: so many that their bits are rarely the same twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnProbe(Probe):
    """A privatizer of one-bit returns: the person who is replaced is alone in the first of two groups."""

    columns: ClassVar[Mapping[str, int]] = {"ones": 0}
    public: ClassVar[tuple[str, ...]] = ("groups", "variance", "users")
    ordinary: ClassVar[int] = 6

    def asked(self, k: int) -> Any:
        """A return rounded in its whole range, unless another query is given."""
        if self.query is not None:
            return self.query
        return ReturnQuery(groups=(1, CROWD), bit="mean", level=float(self.privatizer.shape.horizon))

    def variants(self) -> tuple[ReturnProbe, ...]:
        """Rounded in the whole range, rounded in half of it, and compared with half of it."""
        if self.query is not None:
            return (self,)
        whole = self.asked(0)
        half = replace(whole, level=whole.level / 2.0)
        return tuple(replace(self, query=query) for query in (whole, half, replace(half, bit="tail")))

    @property
    def batch_size(self) -> int:
        """Everybody who is asked."""
        return int(self.asked(0).users)

    def sizes(self) -> dict[str, int]:
        """One number for every group."""
        return {"ones": len(self.asked(0).groups)}

    def persons(self) -> list[Trajectories]:
        """People who always earn the same: nothing, everything, something; then those who earn what they must not."""
        shape = self.privatizer.shape
        S, A = shape.num_states, shape.num_actions
        places = ((0, 0), (S - 1, A - 1))
        ordinary = [one_user(shape, state=s, action=a, reward=r) for s, a in places for r in (0.0, 1.0, CANARY)]
        odd = [one_user(shape, state=s, action=a, reward=r) for s, a in places for r in HOSTILE]
        return [*ordinary, *odd, one_user(shape, state=-5, action=2**40, reward=1.0)]

    def given(self, person: Trajectories, k: int, *, everybody: bool = False) -> Trajectories:
        """The person first, then a crowd that earns nothing."""
        crowd = person if everybody else one_user(self.privatizer.shape, state=0, action=0, reward=0.0)
        return stacked([person, *[crowd] * (self.batch_size - 1)])

    def exact(self, person: Trajectories) -> Floats:
        """The expected number of ones in each group; written apart from the privatizer."""
        query, flip = self.asked(0), float(self.privatizer.bit_noise().flip)
        expected, at = [], 0
        rewards = self.given(person, 0).rewards
        for users in query.groups:
            total = 0.0
            for row in rewards[at : at + users]:
                # G = Σ r, each in [0, 1]; NaN earns nothing
                earned = sum(min(1.0, max(0.0, float(r))) if r == r else 0.0 for r in row)
                bit = float(earned > query.level) if query.bit == "tail" else min(earned, query.level) / query.level
                total += flip + (1.0 - 2.0 * flip) * bit
            expected.append(total)
            at += users
        return np.array([expected])

    @property
    def additive(self) -> bool:
        """A flipped bit is no additive noise."""
        return False

    def quiet(self) -> ReturnProbe:
        """The same with nothing flipped."""
        noise = self.privatizer.mechanism
        return self if noise is None else replace(self, privatizer=replace(self.privatizer, mechanism=noise.quiet()))

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """The ones of all groups are one family."""
        return {"ones": np.asarray(numbers)}
