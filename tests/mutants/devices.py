"""Devices as privatizers: `SecureDevices` is local trust as it is deployed, examined like every other release.

A deployment sends what `Local.wire` encodes, integers from the operating system's randomness, and adds up what it
makes of the bodies. The privatizer itself runs on kernels and refuses secure noise; here that path answers the
same query, so that whatever examines privatizers can be pointed at it. Seeded noise goes the way of simulations.
"""

from __future__ import annotations

from typing import Any

from mutants.planted import twin
from tacit.data.trajectories import Trajectories
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.protocol import PrivateStatistics
from tacit.randomness import SecureNoise
from tacit.release.counts_contract import require_answer, require_shape
from tacit.release.local import Local

__all__ = ["SecureDevices", "deployed"]


class SecureDevices(Local):
    """Local trust whose release with secure noise goes through bodies, as those of a stage do."""

    def sent(self, user: Any, noise: SecureNoise) -> bytes:
        """What the device of one user sends."""
        return self.wire.encode(user, noise)

    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        """Every user of a batch sends one message of integers."""
        if not (isinstance(noise, SecureNoise) and isinstance(users, Trajectories)):
            return super().release(state, users, query, noise)
        require_answer(self, query)
        batch = require_shape(users, self.shape)
        rows = zip(batch.states, batch.actions, batch.rewards, strict=True)
        bodies = [self.sent(row, noise) for row in rows]
        released = self.totals(state.released, self.wire.total(bodies), len(bodies))
        return state._replace(released=released), PrivateStatistics(released, self.claim)


def deployed(original: Local, kind: type = SecureDevices) -> Any:
    """A twin of a local privatizer as it would be deployed: where noise is added, the least on the integers."""
    noise, claim = original.outcome, original.claim
    if not isinstance(noise, Laplace | Gaussian):
        return twin(kind, original)
    whole = type(noise).calibrate(original.families(), claim.epsilon, claim.delta, discrete=True)
    return twin(kind, original, outcome=whole, transition=whole)
