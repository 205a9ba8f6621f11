"""The basis of local channels: one mechanism, calibrated for all messages that one person sends.

one message     tight(shape, families, epsilon, delta), as `Local` has it; laplace and gaussian on the integers
g messages      g times the counters under the same noise; one slot: the largest eps1 with g pure eps1 within the claim
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import worst_exposure
from tacit.errors import InvalidInput, NotSupported, UnknownName, require
from tacit.noise.one_slot import OneSlot, calibrated_slot
from tacit.noise.protocol import Encoding, Randomizer
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.protocol import Totals
from tacit.release.contract import Channel, StageSize
from tacit.release.local import Local
from tacit.release.local_release import RANDOMIZERS, LocalChannel
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.stage import reports_of
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.released.precision import CountPrecision, Sampling, SumPrecision
from tacit.statistics.count_vectors import count_families

__all__ = ["LocalBasis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBasis:
    """The noise of local messages, calibrated to a claim; every field is public.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=10_000, epsilon=1.0, delta=0.0,
    ...                          calibration=None, mechanism=None, users_per_batch=1000)
    >>> basis = LocalBasis.of(request)
    >>> basis.mechanism, basis.channel(StageSize(target=1000, least=1, query=Totals())).body_size
    ('subset', 5)
    """

    claim: PrivacyClaim
    shape: CountShape
    mechanism: str
    squares: bool = False
    """Whether the learner needs squares of rewards."""

    def __post_init__(self) -> None:
        require(self.claim.trust == "local", "a basis of local channels claims trust 'local'", self.claim.trust)
        if self.mechanism not in RANDOMIZERS:
            raise UnknownName("local mechanism with an exact integer form", self.mechanism, RANDOMIZERS)

    @classmethod
    def of(cls, request: PrivacyRequest, *, claim: PrivacyClaim | None = None) -> Self:
        """The basis of a request; `claim` says another unit than one report, if that is wanted."""
        if request.calibrated != "tight":
            raise NotSupported("channels of a study have the least noise; leave the calibration out, or say 'tight'")
        if request.asks is not Totals:
            raise InvalidInput(f"local messages answer running totals, not {request.asks.words()}")
        made = make_claim(request) if claim is None else claim
        name = request.mechanism
        if name is None:
            # The quietest one for a person who sends so many messages.
            quietest: Any = make_privatizer(replace(request, epsilon=made.epsilon, delta=made.delta, unit=made.unit))
            name = quietest.mechanism.NAME
        return cls(claim=made, shape=request.shape, mechanism=name, squares=request.squares)

    @property
    def encoding(self) -> Encoding:
        """What a message holds beside transitions."""
        return "squares" if self.squares else "complement"

    @property
    def local(self) -> Local:
        """The privatizer of simulations with this noise."""
        return _calibrated(self)

    def channel(self, stage: StageSize) -> LocalChannel:
        """The channel of one stage: the same noise in all of them."""
        require(isinstance(stage.query, Totals), "local messages are added up to running totals", stage.query)
        local = self.local
        return LocalChannel(
            claim=self.claim,
            shape=self.shape,
            target=stage.target,
            least=stage.least,
            encoding=self.encoding,
            outcome=local.mechanism,
            transition=local.transition_mechanism,
        )

    def channels(self, stages: Sequence[StageSize]) -> tuple[LocalChannel, ...]:
        """One channel for every stage."""
        return tuple(self.channel(stage) for stage in stages)

    def exposure(self, channels: Sequence[Channel], reports: int) -> Events:
        """So many messages, each on its own (Lemma P14 (several stages))."""
        return worst_exposure([channel.events() for channel in channels], reports, self.claim.delta)

    def precision(self) -> SumPrecision:
        """How far the noise of a sum over people can go."""
        return self.local.precision()

    def count_precision(self) -> CountPrecision:
        """The sub-gamma scales of the noise in transitions, visits and rewards."""
        return self.local.count_precision()

    def sampling(self) -> Sampling:
        """What it costs if people send a part of their trajectory only."""
        return self.local.sampling()

    def noise_std(self) -> dict[str, float]:
        """The deviation that one person's noise adds to a counter."""
        return self.local.noise_std()


@lru_cache(maxsize=256)  # calibrations are remembered
def _calibrated(basis: LocalBasis) -> Local:
    claim, g, kind = basis.claim, reports_of(basis.claim), RANDOMIZERS[basis.mechanism]
    families = count_families(basis.shape, basis.encoding)
    if claim.delta == 0.0 and not kind.PURE:
        raise NotSupported(f"{basis.mechanism} noise is never pure (delta 0); give a delta such as 1e-6, or use subset")
    outcome, transition = _noise(kind, basis.shape, families, claim, g)
    return Local(
        shape=basis.shape,
        claim=claim,
        calibration="tight",
        encoding=basis.encoding,
        mechanism=outcome,
        transition_mechanism=transition,
    )


def _noise(
    kind: Any, shape: CountShape, families: Sequence[Family], claim: PrivacyClaim, g: int
) -> tuple[Randomizer, Randomizer]:
    """The least noise under which g messages of one person together keep the claim."""
    epsilon, delta = claim.epsilon, claim.delta
    if issubclass(kind, OneSlot):
        # g slots, each replaced: the largest epsilon of one of them.
        vectors = Family(name="slots", up=g, down=g, shift=1.0)
        each = epsilon if g == 1 else calibrated_slot(_one_vector, (vectors,), epsilon, delta).epsilon
        outcome, transition = kind.tight(shape, families, each, delta)
        return outcome, transition
    many = tuple(replace(family, up=g * family.up, down=g * family.down) for family in families)
    whole = {"discrete": True} if "discrete" in kind.__dataclass_fields__ else {}
    chosen = kind.calibrate(many, epsilon, delta, **whole)
    return chosen, chosen


def _one_vector(epsilon: float) -> UnaryEncoding:
    return UnaryEncoding(epsilon=epsilon, slots=1, feeding=1)
