"""The basis of channels of one-bit returns: the largest epsilon of a bit under which a person's bits keep the claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.units import worst_exposure
from tacit.errors import InvalidInput, NotSupported, require
from tacit.release.contract import Channel, StageSize
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.return_release import ReturnChannel
from tacit.release.returns import OneBitReturns
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.released.returns import BitNoise, ReturnQuery

__all__ = ["ReturnBasis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnBasis:
    """The noise of one bit, calibrated to a claim; every field is public.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=10_000, epsilon=1.0, delta=0.0, asks=ReturnQuery,
    ...                          calibration=None, mechanism=None, users_per_batch=1000)
    >>> basis = ReturnBasis.of(request)
    >>> round(basis.bit_noise().flip, 3), basis.made.name
    (0.269, 'local/rr (one-bit returns)')
    """

    claim: PrivacyClaim
    made: OneBitReturns
    """The privatizer of simulations with this noise."""

    @classmethod
    def of(cls, request: PrivacyRequest, *, claim: PrivacyClaim | None = None) -> Self:
        """The basis of a request; `claim` says another unit than one report, if that is wanted."""
        if request.calibrated != "tight":
            raise NotSupported("channels of a study have the least noise; leave the calibration out, or say 'tight'")
        if request.asks is not ReturnQuery:
            raise InvalidInput(f"bits about returns answer {ReturnQuery.words()}, not {request.asks.words()}")
        promised = make_claim(request) if claim is None else claim
        require(promised.trust == "local", "bits about returns are local, and so is their claim", promised.trust)
        made = make_privatizer(replace(request, epsilon=promised.epsilon, delta=promised.delta, unit=promised.unit))
        if not isinstance(made, OneBitReturns):
            raise InvalidInput(f"bits about returns are sent by OneBitReturns, not by {type(made).__name__}")
        return cls(claim=promised, made=replace(made, claim=promised))

    @property
    def shape(self) -> CountShape:
        """The public sizes of a trajectory."""
        return self.made.shape

    def bit_noise(self) -> BitNoise:
        """What a learner is told about the noise of one bit."""
        return self.made.bit_noise()

    def noise_std(self) -> dict[str, float]:
        """The deviation that one person's flip adds to the ones."""
        return self.made.noise_std()

    def channels(self, stages: Sequence[StageSize]) -> tuple[ReturnChannel, ...]:
        """One channel for every stage: the same noise in all of them."""
        mechanism = self.made.mechanism
        if mechanism is None:
            raise InvalidInput("bits of a study are randomized; trust 'none' has no channel")
        return tuple(
            ReturnChannel(
                claim=self.claim, shape=self.shape, target=stage.target, least=stage.least, epsilon=mechanism.epsilon
            )
            for stage in stages
        )

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """So many bits, each on its own (Lemma P14 (several stages))."""
        return worst_exposure([channel.events() for channel in channels], reports, self.claim.delta)
