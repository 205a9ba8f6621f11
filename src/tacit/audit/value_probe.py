"""The probe of weighted returns: people with weights and rewards of every size, among a crowd of zeros."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacit.arrays import Floats
from tacit.audit.probes import CANARY, HOSTILE, Probe
from tacit.release.values import FACTORS, PolicyValues, ValueQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueProbe(Probe):
    """A release of what policies would have earned."""

    columns: ClassVar[Mapping[str, int]] = {"sums": 0}
    public: ClassVar[tuple[str, ...]] = ("variance", "users")
    euclidean: ClassVar[bool] = True
    exact_noise: ClassVar[bool] = True
    ordinary: ClassVar[int] = 12

    def asked(self, k: int) -> ValueQuery:
        """There is one question."""
        return ValueQuery() if self.query is None else self.query

    def stated(self, fields: Mapping[str, Floats]) -> dict[str, Floats]:
        """Every number has a variance of its own."""
        return {"sums": fields["variance"]}

    def persons(self) -> list[PolicyValues]:
        """Weights none, half and at the cap with the worst, the best and a telling reward; then hostile ones."""
        ordinary = [self._person(u, s, 0.0) for u in (0.0, 0.5, 1.0) for s in (-0.5, 0.5, CANARY - 0.5)]
        ordinary += [self._person(1.0, -0.5, 1.0), self._person(-1.0, 0.5, 0.0), self._person(CANARY, 0.1, 0.5)]
        odd = [self._person(*bad) for one in HOSTILE for bad in ((one, 0.5, 0.0), (1.0, one, 0.0), (1.0, 0.5, one))]
        return [*ordinary, *odd]

    def _person(self, u: float, s: float, c: float) -> PolicyValues:
        return PolicyValues(*(np.full((1, len(self.privatizer.shares)), value) for value in (u, s, c)))

    def given(self, person: PolicyValues, k: int, *, everybody: bool = False) -> PolicyValues:
        """A whole log: the others never took the action."""
        crowd = person if everybody else self._person(0.0, 0.0, 0.0)
        others = self.privatizer.people - 1
        return PolicyValues(*(np.concatenate([p, np.repeat(q, others, 0)]) for p, q in zip(person, crowd, strict=True)))

    def exact(self, person: PolicyValues) -> Floats:
        """What the sums would be without noise, from the definition."""
        u, s, c = (np.nan_to_num(part[0], nan=0.0) for part in person)
        if self.privatizer.kind == "residuals":
            z = np.clip(u, -1.0, 1.0)
            return np.stack([z, z**2], axis=1).reshape(1, -1)
        u, s, c = np.clip(u, 0.0, 1.0), np.clip(s, -0.5, 0.5), np.clip(c, 0.0, 1.0)
        return np.stack([u * s, u, u**2, u**2 * s, u**2 * s**2, c], axis=1).reshape(1, -1)

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """One vector, in units of its noise."""
        kind: Any = self.privatizer.kind
        return {kind: numbers * np.outer(self.privatizer.shares, FACTORS[kind]).ravel(), "uncovered": np.zeros(0)}
