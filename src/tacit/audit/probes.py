"""Probes: how any privatizer is examined, through nothing but its query and the arrays that it releases.

A probe knows, for one type of query, which query to ask, who the users are (ordinary and hostile ones), how a batch is
made in which one of them is replaced, and what would be released without noise. Everything else is the same for all:

- A `transcript` is every number of every release that the replaced user has a part in. Released tuples are flattened
  field by field; a field that the probe does not know is an error, so nothing can be missing from the view.
- The same number of a noise source replays the noise, so that the difference of two transcripts is what the replaced
  user moves: exactly, without knowing the noise.
- `secure=True` draws from the operating system instead, where the privatizer takes that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from tacit.arrays import Floats
from tacit.errors import InvalidInput
from tacit.protocol import Noise
from tacit.randomness import SecureNoise, SimulationNoise

Transcript = tuple[Floats, Floats]
"""[releases, numbers]: what was released, and the noise variance that was stated beside it."""

CANARY = 0.8315927406
"""A reward that occurs nowhere else: its digits in a message are a leak."""
HOSTILE = (7.0, -3.0, np.nan, np.inf, -np.inf, 1e300)
"""Rewards that nobody may report."""
PREFIXES = 7
"""Of a continual counter that are examined: three levels of a binary tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A privatizer under examination; everything is drawn from `seed`, unless it is `secure`."""

    privatizer: Any
    seed: int = 0
    replicates: int = 300
    false_alarm: float = 1e-6
    secure: bool = False
    query: Any = None
    """What is asked; None: what the probe asks by itself."""
    memory: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What this probe found out once and every rule asks for: it depends on nothing but the fields above."""

    columns: ClassVar[Mapping[str, int]] = {}
    """The released fields that depend on users, and where their noise variance stands."""
    public: ClassVar[tuple[str, ...]] = ()
    """The released fields that must not."""
    euclidean: ClassVar[bool] = False
    """Whether families bound the length of a vector, not single counters."""
    ordinary: ClassVar[int] = 0
    """How many of the persons report nothing odd; they come first."""
    exact_noise: ClassVar[bool] = False
    """Whether the stated variance is that of every number; otherwise it bounds it from above."""

    def asked(self, k: int) -> Any:
        """The query of the k-th release."""
        raise NotImplementedError

    @property
    def releases(self) -> int:
        """How many releases the replaced user has a part in, as far as they are examined."""
        return 1

    def persons(self) -> Sequence[Any]:
        """Users of every kind: ordinary ones first, then those who report what they must not."""
        raise NotImplementedError

    def given(self, person: Any, k: int, *, everybody: bool = False) -> Any:
        """The users of the k-th release: `person` first, the crowd behind; or a crowd that does as `person` does."""
        raise NotImplementedError

    def exact(self, person: Any) -> Floats:
        """The transcript without noise."""
        raise NotImplementedError

    @property
    def additive(self) -> bool:
        """Whether a release is what users did plus symmetric noise that has nothing to do with them."""
        return True

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """The numbers of one release by family; what no family covers stands under "uncovered"."""
        raise NotImplementedError

    def counter_variance(self) -> dict[str, Floats]:
        """By family, the variance of every counter where that is stated exactly; nothing where it is not."""
        return {}

    def quiet(self) -> Self:
        """The same with randomized answers switched off."""
        return self

    def seeded(self) -> Self:
        """The same with noise that can be replayed."""
        return replace(self, secure=False)

    def affordable(self, count: int) -> int:
        """How many transcripts of so many that are asked for can be paid."""
        return count

    def sizes(self) -> dict[str, int]:
        """How many numbers each field has."""
        statistics = self.privatizer.begin().released
        return {name: self.fields(statistics)[name].size for name in self.columns}

    def variants(self) -> tuple[Self, ...]:
        """The probes to be examined: one for each thing that can be asked."""
        return (self,)

    @property
    def batch_size(self) -> int:
        """How many users the first release takes."""
        return int(getattr(self.privatizer, "users_per_batch", 1))

    @property
    def sampled(self) -> tuple[float, float] | None:
        """The stated sampling rate, and the greatest length of one user in units of the noise; None: all take part."""
        for event, _ in self.privatizer.events():
            if hasattr(event, "rate"):
                return float(event.rate), float(event.norm / event.sigma)
        return None

    def noise(self, number: int) -> Noise:
        """The number-th source of noise; the same number replays it, unless it is secure."""
        return SecureNoise() if self.secure else SimulationNoise(np.random.default_rng([self.seed, number]))

    def fields(self, statistics: Any) -> dict[str, Floats]:
        """Every field of a release, flat; a field that is missing from the view, or from the release, is an error."""
        names = set(getattr(statistics, "_fields", ()))
        if names != {*self.columns, *self.public}:
            odd = ", ".join(sorted(names ^ {*self.columns, *self.public}))
            raise InvalidInput(f"every released field must be in the view of {type(self).__name__}, got {odd}")
        return {name: np.asarray(part, dtype=np.float64).ravel() for name, part in statistics._asdict().items()}

    def stated(self, fields: Mapping[str, Floats]) -> dict[str, Floats]:
        """The noise variance that is stated beside a release, for each of its numbers."""
        return {name: np.full(fields[name].size, fields["variance"][at]) for name, at in self.columns.items()}

    def largest_std(self) -> dict[str, float]:
        """The largest deviation of the noise in any number of a field, by what the privatizer states."""
        found: dict[str, float] = self.privatizer.noise_std()
        return found

    def numbers(self, statistics: Any) -> Floats:
        """The numbers of one release that depend on users."""
        fields = self.fields(statistics)
        return np.concatenate([fields[name] for name in self.columns])

    def split(self, numbers: Floats) -> dict[str, Floats]:
        """The numbers of one release by field."""
        if "ends" not in self.memory:
            self.memory["ends"] = np.cumsum(list(self.sizes().values()))[:-1]
        return dict(zip(self.columns, np.split(numbers, self.memory["ends"]), strict=True))

    def moved(self, number: int) -> dict[str, Floats]:
        """By family: the counters [persons, counters] of the first release when each of the persons comes first."""
        rows = [self.parts(self.transcript(person, number, releases=1)[0][0]) for person in self.persons()]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def transcript(
        self, person: Any, number: int, *, everybody: bool = False, releases: int | None = None
    ) -> Transcript:
        """Everything that is released of `person`."""
        shown, beside = self._released(self._users(person, everybody, releases), number)
        return shown, np.array(
            [np.concatenate([self.stated(fields)[name] for name in self.columns]) for fields in beside]
        )

    def transcripts(
        self, person: Any, count: int, *, first: int = 1000, everybody: bool = False, releases: int | None = None
    ) -> Floats:
        """[count, releases, numbers]: independent transcripts, all of them of the same users."""
        users = self._users(person, everybody, releases)
        return np.array([self._released(users, first + i)[0] for i in range(count)])

    def _users(self, person: Any, everybody: bool, releases: int | None) -> list[Any]:
        """The users of each release."""
        count = self.releases if releases is None else releases
        return [self.given(person, k, everybody=everybody) for k in range(count)]

    def _released(self, given: Sequence[Any], number: int) -> tuple[Floats, list[dict[str, Floats]]]:
        """What is released of these users, release by release, with the number-th source of noise; and all fields.

        States are used again, so fields of an earlier release tell its sizes, and its variances, which are copied.
        """
        state, noise, shown, beside = self.privatizer.begin(), self.noise(number), [], []
        for k, users in enumerate(given):
            state, released = self.privatizer.release(state, users, self.asked(k), noise)
            fields = self.fields(released.statistics)
            shown.append(np.concatenate([fields[name] for name in self.columns]))
            beside.append({**fields, "variance": fields["variance"].copy()})
        return np.array(shown), beside
