"""Devices as they are deployed, with one bug each in the path of secure noise. For the mutation suite only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from mutants.devices import SecureDevices, deployed
from mutants.planted import Mutation, bug, configured, twin
from tacit.data.trajectories import Trajectories
from tacit.randomness import SecureNoise
from tacit.release.local import Local

__all__ = ["DEPLOYED", "DEPLOYED_BUGS"]

_BOTH: Final = ("outcome", "transition")


class _HalfTheSecureNoise(SecureDevices):
    def sent(self, user: Any, noise: SecureNoise) -> bytes:
        half = {name: replace(getattr(self, name), scale=getattr(self, name).scale / 2) for name in _BOTH}
        return twin(Local, self, **half).wire.encode(user, noise)


class _SecureAnswersForTwice(SecureDevices):
    def sent(self, user: Any, noise: SecureNoise) -> bytes:
        twice = {name: replace(getattr(self, name), epsilon=2.0 * getattr(self, name).epsilon) for name in _BOTH}
        return twin(Local, self, **twice).wire.encode(user, noise)


class _BehindThePoint(SecureDevices):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        if isinstance(users, Trajectories) and isinstance(noise, SecureNoise):
            earned = np.clip(np.nan_to_num(users.rewards), 0.0, 1.0).sum()
            released.statistics.rewards.ravel()[0] += 1e-3 * earned
        return after, released


def _local(kind: type, mechanism: str, delta: float) -> Any:
    return deployed(configured("local", mechanism, delta=delta), kind)


DEPLOYED_BUGS: Final[dict[str, Mutation]] = {
    "secure device noise halved": bug(
        "devices draw their secure noise at half of the stated scale",
        lambda: _local(_HalfTheSecureNoise, "laplace", 0.0), rules=("variance", "measured"),
        secure=True,
    ),
    "secure answers for twice epsilon": bug(
        "secure answers are randomized for twice the epsilon",
        lambda: _local(_SecureAnswersForTwice, "oue", 0.0), rules=("unbiased", "variance"),
        secure=True,
    ),
    "earnings behind the point": bug(
        "what a user really earned stands behind the point of a secure integer message",
        lambda: _local(_BehindThePoint, "laplace", 0.0), rules=("lattice",), secure=True,
    ),
}  # fmt: skip
"""Bugs of deployed devices, by name."""

DEPLOYED: Final[dict[str, Callable[[], Any]]] = {
    f"local {name} devices": partial(_local, SecureDevices, name, 1e-5 if name == "gaussian" else 0.0)
    for name in ("laplace", "gaussian", "oue", "rr", "subset")
}
"""What they were planted in."""
