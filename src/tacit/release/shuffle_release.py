"""The shuffle channel: every device sends labels of ones, data and noise mixed, and the collector counts them.

    device      body = labels of the ones of one trajectory, of m noise bits per counter, and dummies; sorted
    collector   histogram = how often each label came, over all bodies
    anybody     N(c) = histogram(c) - n m q                  [bai2024shuffle] Alg. 4, lines 12-16

G1  A payload is the vector of sums, exact + Binomial(n m, q): what a shuffler that only permutes would show, too (Lemma
    M1 (sum view)). Whoever counts needs no permutation; the sums are all that leaves.
G2  Noise per device is calibrated for `least` people: any n from `least` to `target` is released and costs at most what
    `events` says (Lemma M8 (more people than needed)). Fewer are never released.
G3  A body has one length, whatever the person did; data have slots of their own and noise ones a block. A block that
    overflows (with probability `overflow` over all people of the stage together) adds whole blocks. That depends on
    noise alone and is paid for as if everybody saw it (Lemma M6 (overflowing blocks)).
G4  A cover report has noise and dummies only: it adds noise to the sums, and nothing else.
G5  Labels are sorted within a body: the collector sees no order of steps, and a label at most m + 1 times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, Slack
from tacit.accounting.families import Family
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, Trajectory, TrajectoryLike
from tacit.errors import require, require_count
from tacit.protocol import Noise, Private, Query, Totals
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt
from tacit.release.counts_contract import Batch, require_shape
from tacit.release.documents import (
    claim_from_plain,
    count_query_from_plain,
    count_query_to_plain,
    fraction_from_plain,
    fraction_to_plain,
    require_entries,
    shape_from_plain,
    shape_to_plain,
)
from tacit.release.shuffle.batches import added_totals, batch_spec, batch_statistics, statistic_std, total_std
from tacit.release.shuffle.messages import Transport
from tacit.release.shuffle.noise import BitNoise
from tacit.release.shuffle.protocol import Shuffle
from tacit.release.shuffle.roles import encode, noise_coins, pack
from tacit.release.stage import CountMemory, NoSecret, require_people
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_spec import ReleaseSpec

__all__ = ["CountMemory", "NoSecret", "ShuffleChannel", "require_people"]

MESSAGES: Final = "ones"
ENTRIES: Final = (
    *("kind", "claim", "shape", "query", "target", "least", "honest"),
    *("messages", "bits_per_user", "probability", "block", "overflow"),
)
MIRRORED: Final = "mirrored"
"""The entry of a channel whose bits are mirrored; it is true, or it is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleChannel:
    """One stage through the shuffler; make it with `ShuffleBasis`."""

    claim: PrivacyClaim
    shape: CountShape
    query: Totals | BatchQuery
    """Running totals, or a batch of its own."""
    target: int
    least: int
    honest: int
    """How many of `least` devices add their noise and keep it to themselves: what the guarantee counts on."""
    bits_per_user: int
    """m: noise bits of one device per counter."""
    probability: Fraction
    """q: of each of them; a double, exactly."""
    mirrored: bool = False
    """Whether as many bits of probability 1 - q are added."""
    block: int
    """B: room for noise ones in a body."""
    overflow: Fraction
    """The probability that the block of some device of the stage is too small, from above."""

    KIND: ClassVar[str] = "shuffle"
    TRUST: ClassVar[Trust] = "shuffle"
    CHARGED_AT: ClassVar[ChargedAt] = "release"
    questions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require(self.claim.trust == "shuffle", "a shuffle channel claims trust 'shuffle'", self.claim.trust)
        least = require_count("least", self.least, least=2)  # a shuffler with a single person hides nobody
        require(least <= require_count("target", self.target), f"least must be at most the target {self.target}", least)
        require(
            require_count("honest", self.honest) <= least, f"honest must be at most the {least} needed", self.honest
        )
        require(isinstance(self.query, Totals) or self.shape.staged, "single batches keep the steps apart", "pooled")
        for name in ("probability", "overflow"):
            value = getattr(self, name)
            require(Fraction(float(value)) == value, f"{name} must be a double", value)
        require(isinstance(self.mirrored, bool), "mirrored must be true or false", type(self.mirrored).__name__)
        _ = self.transport, self.bit_noise(least)  # their checks are ours

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return f"shuffle/{self.bit_noise(self.least).total.NAME}"

    @property
    def spec(self) -> ReleaseSpec:
        """Which counters there are: as few as the query needs."""
        return _spec(self.shape, None if isinstance(self.query, Totals) else self.query.layer)

    @property
    def transport(self) -> Transport:
        """How labels travel."""
        return _transport(self)

    def bit_noise(self, people: int) -> BitNoise:
        """The noise of one counter when so many report; honest devices are the same share of any number."""
        honest = self.honest * people // self.least
        q = float(self.probability)
        return BitNoise(
            users=people,
            honest_users=honest,
            bits_per_user=self.bits_per_user,
            probability=q,
            mirrored=self.mirrored,
        )

    @property
    def _most_bits(self) -> int:
        """Noise bits of one device per counter, of both biases."""
        return self.bits_per_user * (2 if self.mirrored else 1)

    def protocol(self, people: int) -> Shuffle:
        """The batch as the privatizer of simulations describes it."""
        return Shuffle(spec=self.spec, bit_noise=self.bit_noise(people))

    @property
    def labels(self) -> np.dtype[Any]:
        """The type of a label: 16 bits, or 32 where there are more counters."""
        return np.dtype("<u2") if self.spec.num_counters < 2**16 else np.dtype("<u4")

    @property
    def body_size(self) -> int:
        """The length of a body in bytes, extra blocks aside."""
        return self.labels.itemsize * self.transport.report_size

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "kind": self.KIND,
            "claim": self.claim.to_dict(),
            "shape": shape_to_plain(self.shape),
            "query": count_query_to_plain(self.query),
            "target": self.target,
            "least": self.least,
            "honest": self.honest,
            "messages": MESSAGES,
            "bits_per_user": self.bits_per_user,
            "probability": fraction_to_plain(self.probability),
            "block": self.block,
            "overflow": fraction_to_plain(self.overflow),
            **({MIRRORED: True} if self.mirrored else {}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ShuffleChannel:
        """The channel that `to_dict` wrote; anything missing, unknown or out of range is `InvalidInput`."""
        mirrored = isinstance(plain, Mapping) and MIRRORED in plain
        given = require_entries("a shuffle channel", plain, (*ENTRIES, MIRRORED) if mirrored else ENTRIES)
        require(not mirrored or given[MIRRORED] is True, "mirrored must be true, or left out", "another")
        require(given["kind"] == cls.KIND, f"the kind of this channel is '{cls.KIND}'", given["kind"])
        require(given["messages"] == MESSAGES, f"messages of this channel are '{MESSAGES}'", given["messages"])
        whole = {name: require_count(name, given[name]) for name in ("target", "least", "honest", "bits_per_user")}
        return cls(
            claim=claim_from_plain(given["claim"], cls.TRUST),
            shape=shape_from_plain(given["shape"]),
            query=count_query_from_plain(given["query"]),
            probability=fraction_from_plain("probability", given["probability"]),
            mirrored=mirrored,
            block=require_count("block", given["block"]),
            overflow=fraction_from_plain("overflow", given["overflow"]),
            **whole,
        )

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return self.spec.families()

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic when `target` people report."""
        full = self.protocol(self.target)
        return total_std(full, self.shape) if isinstance(self.query, Totals) else statistic_std(full)

    def events(self) -> Events:
        """What one report costs when `least` people report (G2), extra blocks included (G3)."""
        return self.events_at(self.least)

    def events_at(self, people: int) -> Events:
        """The same when so many report."""
        require_people(people, self.least, self.target)
        covered = self.bit_noise(people).events(self.families())
        if self.overflow == 0:
            return covered
        return (*covered, (Slack(tv=float(self.overflow), up_to=self.claim.epsilon), 1))

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: labels of data and noise, sorted, dummies last; None is a cover report (G4)."""
        transport = self.transport
        if trajectory is None:
            sent = pack(transport, np.zeros(0, dtype=np.uint32), noise_coins(transport, noise))
        else:
            sent = encode(self.spec, transport, trajectory, noise)
        return np.sort(sent.counters).astype(self.labels).tobytes()

    def check(self, body: bytes) -> None:
        """Raise unless a body has a length, labels and an order that some device could have sent (G3, G5)."""
        transport, size = self.transport, self.labels.itemsize
        extra, rest = divmod(len(body) - self.body_size, size * transport.block)
        most = -(-transport.noise_bits // transport.block) - 1
        whole = rest == 0 and 0 <= extra <= most
        require(whole, f"a body must have {self.body_size} bytes, or whole blocks more", len(body))
        labels = np.frombuffer(body, dtype=self.labels)
        C, m = transport.num_counters, self._most_bits
        known = bool(labels[-1] <= C and (labels[1:] >= labels[:-1]).all())
        require(known, f"labels of a body must be sorted and at most {C}", "others")
        real = labels[: np.searchsorted(labels, C)]
        # One data bit and m noise bits per counter, so no label comes more than m + 1 times.
        often = len(real) > m + 1 and bool((real[m + 1 :] == real[: -m - 1]).any())
        require(not often, f"a label must come at most {m + 1} times in a body", "more")

    def begin_secret(self) -> NoSecret:
        """Nothing."""
        return NoSecret()

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[NoSecret, bytes]:
        """Count the labels of all bodies; nothing is drawn, all noise is the devices' (G1)."""
        require_people(len(bodies), self.least, self.target)
        require(type(query) is type(self.query) and query == self.query, f"this stage asks for {self.query}", query)
        for body in bodies:
            self.check(body)
        C = self.spec.num_counters
        labels = np.frombuffer(b"".join(bodies), dtype=self.labels)
        return secret, np.bincount(labels, minlength=C + 1)[:C].astype("<i8").tobytes()

    def begin_memory(self) -> CountMemory:
        """Nobody reported yet."""
        return CountMemory(released=empty_counts(self.shape))

    def read(self, memory: CountMemory, payload: bytes, people: int) -> tuple[CountMemory, Private[CountStatistics]]:
        """Running totals with this stage added, or the statistics of this stage alone."""
        require_people(people, self.least, self.target)
        sums, protocol = self._sums(payload, people), self.protocol(people)
        noisy = self.spec.arrays(sums - protocol.bit_noise.total.mean)
        if isinstance(self.query, Totals):
            released = added_totals(memory.released, noisy, protocol, self.shape)
        else:
            p = self.query.failure_prob
            E = 0.0 if p is None else _precision(protocol, p)
            variance = np.square([*statistic_std(protocol).values()])
            released = batch_statistics(noisy, variance, people, self.query, self.spec, E)
        return CountMemory(released=released), Private(released, self.claim)

    def _sums(self, payload: bytes, people: int) -> NDArray[np.float64]:
        """The histogram, if so many people can have sent it."""
        C = self.spec.num_counters
        require(len(payload) == 8 * C, f"a payload must have {8 * C} bytes", len(payload))
        sums = np.frombuffer(payload, dtype="<i8")
        most = people * (self._most_bits + 1)
        fits = bool((sums >= 0).all() and (sums <= most).all())
        require(fits, f"every sum of {people} reports must lie in 0..{most}", "another")
        return sums.astype(np.float64)

    def skip(self, memory: CountMemory, payload: bytes, people: int) -> CountMemory:
        """Nothing is missed: a stage that is not added up leaves the others as they are."""
        return memory

    def simulate(self, secret: NoSecret, users: Batch, query: Query, noise: SimulationNoise) -> tuple[NoSecret, bytes]:
        """A payload from trajectories, report by report, or from exact counts, at once."""
        if isinstance(users, Trajectories):
            rows = zip(users.states, users.actions, users.rewards, strict=True)
            return self.release(secret, [self.encode(Trajectory(*row), noise) for row in rows], query, noise)
        counts: ExactCounts = require_shape(users, self.shape)
        require_people(counts.users, self.least, self.target)
        require(type(query) is type(self.query) and query == self.query, f"this stage asks for {self.query}", query)
        protocol = self.protocol(counts.users)
        exact = protocol.exact_sums(counts, noise, constant_rewards=not counts.binary)
        law = protocol.bit_noise.total
        drawn = np.rint(law.sample(len(exact), noise) + law.mean)
        return secret, (exact + drawn).astype("<i8").tobytes()


@cache
def _spec(shape: CountShape, layer: int | None) -> ReleaseSpec:
    return batch_spec(shape, "tight", layer)


@lru_cache(maxsize=256)  # every device of a stage asks
def _transport(channel: ShuffleChannel) -> Transport:
    return Transport(
        kind=MESSAGES,
        num_counters=channel.spec.num_counters,
        slots=channel.spec.slots,
        users=channel.target,
        bits_per_user=channel.bits_per_user,
        probability=float(channel.probability),
        mirrored=channel.mirrored,
        overflow_prob=float(channel.overflow),
        fixed_block=channel.block,
    )


@lru_cache(maxsize=1024)
def _precision(protocol: Shuffle, failure_prob: float) -> float:
    return protocol.precision(failure_prob)
