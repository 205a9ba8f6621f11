"""The basis of shuffle channels: how noisy stages of any size would be, and then the channels themselves.

A person with g reports, at most one per stage, meets g independent stages. With the noise of one kind of stage that is
one release with g times as many counters up and down: so the noise of a stage is calibrated for that, exactly.

    one report     families up, down         (epsilon, delta - slack),     slack = (1 + e^epsilon)·overflow
    g reports      families g·up, g·down     (epsilon, delta - g·slack)

Stages of different sizes have noise of different kinds. Each is calibrated as if all were of its kind, with a part in a
thousand to spare, and `exposure` compares every choice of g stages. As in Lemma P14 (several stages), the stages in
which a person reports are fixed beforehand there; where all stages are alike, it does not matter who chooses them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.units import worst_exposure
from tacit.arrays import Floats
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_real
from tacit.protocol import TOTALS, Totals
from tacit.release.contract import Channel, StageSize
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.shuffle.batches import batch_spec
from tacit.release.shuffle.messages import Transport, overflow_slack
from tacit.release.shuffle.noise import BIT_KINDS, BitKind, least_bit_noise
from tacit.release.shuffle_release import MESSAGES, ShuffleChannel
from tacit.release.stage import reports_of
from tacit.release.table import MOST_NOISE_BITS
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["OVERFLOW", "ShuffleBasis", "reports_of"]

OVERFLOW: Final = 1e-10
"""The probability that a block of some device of a stage overflows, where delta has room for it."""
ROOM: Final = 100.0
"""What overflowing blocks may take of delta, at most: one part in so many."""
KINDS: Final = 1e-3
"""The share of epsilon left for stages of several kinds, each calibrated as if all were of its own kind."""
LEAST_PEOPLE: Final = 2
"""A shuffler with a single person hides nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleBasis:
    """The noise of shuffled stages, calibrated to a claim; every field is public.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="shuffle", shape=shape, episodes=10_000, epsilon=1.0, delta=1e-6,
    ...                          calibration=None, mechanism=None, users_per_batch=1000, asks=BatchQuery)
    >>> basis = ShuffleBasis.of(request, least=Fraction(9, 10))
    >>> everything = BatchQuery(layer=None, failure_prob=None)
    >>> round(basis.batch_std(1000, everything), 1), basis.least_of(1000)
    (20.9, 900)
    """

    claim: PrivacyClaim
    shape: CountShape
    least: Fraction
    """The share of the people wanted without whom a stage is not released."""
    honest: float = 1.0
    """The share of devices whose noise is counted on."""
    kind: BitKind | None = None
    """Which noise bits; None: the least noise."""
    users_per_batch: int | None = None
    """Running totals: the people wanted in every stage; None: single batches of any size."""
    overflow: float | None = None
    """The probability of an overflowing block in a stage; 0: blocks hold everything; None: as delta allows."""

    def __post_init__(self) -> None:
        require(self.claim.trust == "shuffle", "a basis of shuffle channels claims trust 'shuffle'", self.claim.trust)
        share = isinstance(self.least, Fraction) and 0 < self.least <= 1
        require(share, "least must be a fraction above 0 and at most 1", self.least)
        require_real("honest", self.honest, low=0.0, high=1.0, open_low=True)
        if self.claim.delta == 0.0:
            raise NotSupported("noise bits never give pure differential privacy (delta 0); give a delta such as 1e-6")

    @classmethod
    def of(cls, request: PrivacyRequest, *, least: Fraction, claim: PrivacyClaim | None = None) -> Self:
        """The basis of a request; `claim` says another unit than one report, if that is wanted."""
        if request.calibrated != "tight":
            raise NotSupported("channels of a study have the least noise; leave the calibration out, or say 'tight'")
        if request.mechanism not in (None, *BIT_KINDS):
            raise UnknownName("noise of shuffled stages", str(request.mechanism), BIT_KINDS)
        if request.asks not in (Totals, BatchQuery):
            raise InvalidInput(f"shuffled stages answer running totals or single batches, not {request.asks.words()}")
        return cls(
            claim=make_claim(request) if claim is None else claim,
            shape=request.shape,
            least=least,
            honest=request.honest_fraction,
            kind=request.mechanism,  # one of BIT_KINDS
            users_per_batch=request.users_per_batch if request.asks is Totals else None,
        )

    @property
    def reports(self) -> int:
        """How many reports of one person the claim covers, at most one of them per stage."""
        return reports_of(self.claim)

    def least_of(self, target: int) -> int:
        """How many reports a stage of this target needs."""
        return min(target, max(LEAST_PEOPLE, math.ceil(self.least * target)))

    def channel(self, stage: StageSize) -> ShuffleChannel:
        """The channel of one stage, calibrated at its least number of people."""
        query = stage.query
        if not isinstance(query, Totals | BatchQuery):
            raise InvalidInput(f"a shuffled stage is asked for counts, got a {type(query).__name__}")
        return _channel(self, stage.target, stage.least, query)

    def channels(self, stages: Sequence[StageSize]) -> tuple[ShuffleChannel, ...]:
        """One channel for every stage."""
        return tuple(self.channel(stage) for stage in stages)

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """The worst `reports` stages of all, one report in each (Lemma P14 (several stages))."""
        return worst_exposure([channel.events() for channel in channels], reports, self.claim.delta)

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The deviation of the noise in one counter when all that are wanted report."""
        return self._planned(users, query).bit_noise(users).total.std

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """Fresh noise in every stage of all layers: the stages' variances, and no covariance."""
        del following
        everything = BatchQuery(layer=None, failure_prob=None)
        return np.diag([self.batch_std(users, everything) ** 2 for users in sizes])

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """E of the consistent counts of such a stage; 0 if the query asks for unbiased ones."""
        if query.failure_prob is None:
            return 0.0
        return self._planned(users, query).protocol(users).precision(query.failure_prob)

    def precision(self) -> None:
        """Noise is added to stages, not to the messages of single people."""

    def count_precision(self) -> CountPrecision:
        """Shuffled bits: a centred bit is bounded by 1, its scale is 1/3."""
        return CountPrecision(scale=np.full(3, 1.0 / 3.0))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def noise_std(self) -> dict[str, float]:
        """The deviation that one stage of running totals adds to each statistic."""
        if self.users_per_batch is None:
            raise InvalidInput("single batches have noise of their own; ask for batch_std")
        return self._planned(self.users_per_batch, TOTALS).noise_std()

    def _planned(self, users: int, query: Totals | BatchQuery) -> ShuffleChannel:
        return _channel(self, users, self.least_of(users), query)


@lru_cache(maxsize=4096)  # calibrations are remembered
def _channel(basis: ShuffleBasis, target: int, least: int, query: Totals | BatchQuery) -> ShuffleChannel:
    shape, claim, g = basis.shape, basis.claim, basis.reports
    layer = None if isinstance(query, Totals) else query.layer
    alike = shape.support is None and layer is not None and 0 < layer < shape.horizon - 1
    if alike and isinstance(query, BatchQuery):
        # Every layer but the last one needs the same noise in as many counters: calibrate once.
        return replace(_channel(basis, target, least, replace(query, layer=0)), query=query)
    spec = batch_spec(shape, "tight", layer)
    overflow = _overflow(basis)
    # Running totals have stages of one kind.
    one_kind = g == 1 or basis.users_per_batch is not None
    epsilon = claim.epsilon if one_kind else claim.epsilon * (1.0 - KINDS)
    # Lemma M6 (overflowing blocks), once for every stage that a person reports in.
    room = claim.delta - g * overflow_slack(claim.epsilon, overflow) * (1.0 + 1e-9)  # the event rounds up
    require(room > 0.0, f"overflowing blocks must leave some of delta = {claim.delta!r}", overflow, "choose it smaller")
    families = [replace(family, up=g * family.up, down=g * family.down) for family in spec.families()]
    noise = least_bit_noise(
        families,
        epsilon=epsilon,
        delta=room,
        users=least,
        honest_fraction=basis.honest,
        max_bits_per_user=MOST_NOISE_BITS,
        kind=basis.kind,
    )
    transport = Transport(
        kind=MESSAGES,
        num_counters=spec.num_counters,
        slots=spec.slots,
        users=target,
        bits_per_user=noise.bits_per_user,
        probability=noise.probability,
        mirrored=noise.mirrored,
        overflow_prob=overflow,
    )
    return ShuffleChannel(
        claim=claim,
        shape=shape,
        query=query,
        target=target,
        least=least,
        honest=noise.honest_users,
        bits_per_user=noise.bits_per_user,
        probability=Fraction(noise.probability),
        mirrored=noise.mirrored,
        block=transport.block,
        overflow=Fraction(overflow),
    )


def _overflow(basis: ShuffleBasis) -> float:
    """What was asked for, or 1e-10, or as much less as delta needs."""
    if basis.overflow is not None:
        return require_real("overflow", basis.overflow, low=0.0, high=0.5)
    return min(OVERFLOW, basis.claim.delta / (ROOM * basis.reports * overflow_slack(basis.claim.epsilon, 1.0)))
