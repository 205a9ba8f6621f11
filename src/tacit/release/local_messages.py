"""Letter boxes: stages of messages that are private by themselves, so that a collector only sorts them.

    device      body = one randomized message; all bodies have one length
    collector   payload = all bodies in the order of their bytes; nothing is drawn
    anybody     adds up what the bodies stand for

G1  A body is private whoever reads it: nothing is added or hidden later, and what other people send does not help. So a
    stage is paid before it opens, and it can be released with any number of reports.
G2  A payload is in the order of its bytes: it does not say who reported when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tacit.accounting.claims import Trust
from tacit.data.trajectories import Trajectories, TrajectoryLike
from tacit.errors import require
from tacit.protocol import Noise, Query
from tacit.release.contract import ChargedAt
from tacit.release.stage import StageRelease, require_people


class LetterBox(StageRelease):
    """One stage of randomized messages; subclasses say what a message is and what it stands for."""

    __slots__ = ()
    TRUST: ClassVar[Trust] = "local"
    CHARGED_AT: ClassVar[ChargedAt] = "open"

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        raise NotImplementedError

    def check(self, body: bytes) -> None:
        """Raise unless some device could have sent this body."""
        raise NotImplementedError

    def asked(self, query: Query) -> Query:
        """The query, if messages answer it."""
        raise NotImplementedError

    def release(self, secret: Any, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[Any, bytes]:
        """All bodies in the order of their bytes; nothing is drawn."""
        require_people(len(bodies), self.least, self.target)
        self.asked(query)
        for body in bodies:
            self.check(body)
        return secret, b"".join(sorted(bodies))

    def bodies(self, payload: bytes, people: int) -> list[bytes]:
        """The messages of a payload, if it is one that `release` can have made from so many."""
        require_people(people, self.least, self.target)
        size = self.body_size
        require(len(payload) == people * size, f"a payload must have {people} messages of {size} bytes", len(payload))
        found = [payload[start : start + size] for start in range(0, len(payload), size)]
        for body in found:
            self.check(body)
        require(found == sorted(found), "the messages of a payload must be sorted", "another order")
        return found


def alone(person: TrajectoryLike) -> Trajectories:
    """A batch of one person."""
    states, actions, rewards = (np.asarray(part) for part in (person.states, person.actions, person.rewards))
    return Trajectories(states[np.newaxis], actions[np.newaxis], rewards[np.newaxis])
