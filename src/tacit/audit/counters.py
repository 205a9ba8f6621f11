"""Continual counters as privatizers: `CountedPrefixes` releases noisy prefix sums, from seeded or from secure noise.

A deployment counts integers with exact noise from the operating system (`tacit.noise.continual.add`). Here that
path answers a query like every other release, so that whatever examines privatizers can be pointed at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.audit.probes import CANARY, PREFIXES, Probe
from tacit.errors import InvalidInput
from tacit.noise.continual.counter import ContinualCounter, Running, add, begin
from tacit.protocol import Calibration, Noise, PrivateStatistics


class Prefixes(NamedTuple):
    """The query for the sums over all users so far."""

    every: int = 0

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "prefix sums"


class PrefixStatistics(NamedTuple):
    """What is released after every user."""

    totals: Floats
    variance: Floats
    """[1]: noise variance of one total."""


class PrefixState(NamedTuple):
    """The counter in use (sensitive), and what it released."""

    running: Running
    released: PrefixStatistics

    def __repr__(self) -> str:
        return "PrefixState()"  # never its contents


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPrefixes:
    """A continual counter of whole numbers in 0..1, `family.differing` of them; every field is public."""

    counter: ContinualCounter
    family: Family
    claim: PrivacyClaim
    calibration: Calibration = "tight"

    answers = Prefixes
    kernel = None
    parameters = None

    @property
    def name(self) -> str:
        """For tables."""
        return f"central/{type(self.counter).__name__}"

    @property
    def shape(self) -> int:
        """How many totals there are."""
        return self.family.differing

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return (self.family,)

    def events(self) -> Events:
        """The exposure of one user over the whole stream."""
        return self.counter.events(self.family)

    def noise_std(self) -> dict[str, float]:
        """The largest standard deviation of any release."""
        return {self.family.name: self.counter.max_std}

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        certified = CertifiedFamily.of(self.family, noise=type(self.counter).__name__, std=self.counter.max_std)
        return certify(self.events(), [certified], self.claim, calibration=self.calibration)

    def begin(self) -> PrefixState:
        """Nobody came yet."""
        return PrefixState(begin(self.counter, self.shape), PrefixStatistics(np.zeros(self.shape), np.zeros(1)))

    def release(
        self, state: PrefixState, users: Floats, query: Prefixes, noise: Noise
    ) -> tuple[PrefixState, PrivateStatistics[PrefixStatistics]]:
        """Count one user's vector, clipped and rounded into the range; nothing raises on data."""
        if not isinstance(query, Prefixes):
            raise InvalidInput(f"{self.name} answers {Prefixes.words()}, it was asked for {type(query).__name__}")
        whole = np.rint(np.clip(np.nan_to_num(users, nan=0.0), 0.0, 1.0))
        running, totals = add(self.counter, state.running, whole, noise)
        variance = self.counter.variance_at(int(running.stream.time[0]))
        released = PrefixStatistics(totals, np.array([variance]))
        return PrefixState(running, released), PrivateStatistics(released, self.claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterProbe(Probe):
    """A continual counter under examination, by all of its prefixes."""

    columns: ClassVar[Mapping[str, int]] = {"totals": 0}
    public: ClassVar[tuple[str, ...]] = ("variance",)
    exact_noise: ClassVar[bool] = True
    ordinary: ClassVar[int] = 3

    def asked(self, k: int) -> Any:
        """The next prefix."""
        return Prefixes() if self.query is None else self.query

    @property
    def releases(self) -> int:
        """The prefixes, of which seven make three levels of a binary tree."""
        return min(int(self.privatizer.counter.releases), PREFIXES)

    def persons(self) -> list[Floats]:
        """Corners of the cube, and vectors outside."""
        family = self.privatizer.family
        up = np.concatenate([np.ones(family.up), np.zeros(family.down)])
        return [1.0 - up, up, CANARY * up, *(np.where(up > 0.0, far, 0.0) for far in (7.0, np.nan, np.inf, 1e300))]

    def given(self, person: Floats, k: int, *, everybody: bool = False) -> Floats:
        """The person, then a crowd of zeros."""
        return person if k == 0 or everybody else np.zeros_like(person)

    def exact(self, person: Floats) -> Floats:
        """The person is in every prefix."""
        return np.tile(np.rint(np.clip(np.nan_to_num(person, nan=0.0), 0.0, 1.0)), (self.releases, 1))

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """One family."""
        return {self.privatizer.family.name: numbers, "uncovered": np.zeros(0)}
