"""A small study for tests: channels without noise in which every person has a label, a learner of totals, a design.

`Labels` has no noise and tells persons apart, so any honest result is zero or one per label. `Stamped` adds a random
stamp to every release, so that two draws are never equal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit.accounting.certificate import certify
from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.accounting.events import LaplaceEvent
from tacit.documents import canonical
from tacit.errors import InvalidInput, require
from tacit.policies import policy_to_dict, uniform_policy
from tacit.protocol import TOTALS, Plan, PrivateStatistics, Totals
from tacit.randomness import SimulationNoise
from tacit.release.registry import CHANNELS
from tacit.study.bundle import Bundle
from tacit.study.contract import GENESIS_HEAD

REHEARSAL: dict[str, Any] = {"cap": math.inf, "floor": 1, "key": None}
"""A device of no person's own limits."""
COVER = 0xFFFFFFFF
MARK = b"a body's end"
"""So that what is left of a body can be found in a file."""


def body_of(label: int) -> bytes:
    return label.to_bytes(4, "little") + MARK


class Nothing(NamedTuple):
    draws: np.ndarray


@dataclass(frozen=True)
class Labels:
    """Each person its own label, and no noise."""

    target: int
    least: int
    labels: int
    reports: int = 1
    questions: int = 1

    KIND: ClassVar[str] = "test-labels"
    TRUST: ClassVar[str] = "shuffle"
    CHARGED_AT: ClassVar[str] = "release"
    STAMP: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"{self.TRUST}/labels"

    @property
    def claim(self) -> PrivacyClaim:
        return claim_for(self.TRUST, self.reports)

    @property
    def query(self) -> Totals:
        return TOTALS

    @property
    def body_size(self) -> int:
        return 16

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.KIND, **asdict(self)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Any:
        names = ("target", "least", "labels", "reports", "questions")
        if set(plain) != {"kind", *names}:
            raise InvalidInput("a test channel has five entries")
        return cls(*(plain[name] for name in names))

    def events(self):
        return ((LaplaceEvent(scale=1.0, shift=0.5, discrete=False), 1),)

    def events_at(self, people: int):
        return ((LaplaceEvent(scale=people / self.least, shift=0.5, discrete=False), 1),)

    def encode(self, trajectory: Any, noise: Any) -> bytes:
        label = COVER if trajectory is None else int(trajectory.states[0])
        return body_of(label)

    def check(self, body: bytes) -> None:
        label = int.from_bytes(body[:4], "little")
        whole = body[4:] == MARK and (label < self.labels or label == COVER)
        require(whole, "a body is a label", "another")

    def begin_secret(self) -> Nothing:
        return Nothing(np.zeros(1, dtype=np.int64))

    def release(self, secret: Nothing, bodies: Sequence[bytes], query: Any, noise: Any):
        labels = [int.from_bytes(body[:4], "little") for body in bodies]
        counts = np.bincount([label for label in labels if label != COVER], minlength=self.labels).astype("<i8")
        stamp = b""
        if self.STAMP:
            stamp = noise.generator.bytes(8) if isinstance(noise, SimulationNoise) else noise.random_bytes(8)
        return Nothing(secret.draws + 1), counts.tobytes() + stamp

    def begin_memory(self) -> Nothing:
        return Nothing(np.zeros(1, dtype=np.int64))

    def skip(self, memory: Nothing, payload: bytes, people: int) -> Nothing:
        return memory

    def read(self, memory: Nothing, payload: bytes, people: int):
        size = 8 * self.labels + 8 * self.STAMP
        require(len(payload) == size, "a payload has a number per label", len(payload))
        counts = np.frombuffer(payload[: 8 * self.labels], dtype="<i8").astype(np.int64)
        return Nothing(memory.draws + 1), PrivateStatistics(Seen(counts), claim_for(self.TRUST, 1))


@dataclass(frozen=True)
class Stamped(Labels):
    KIND: ClassVar[str] = "test-stamped"
    STAMP: ClassVar[bool] = True


@dataclass(frozen=True)
class LocalLabels(Labels):
    KIND: ClassVar[str] = "test-local"
    TRUST: ClassVar[str] = "local"
    CHARGED_AT: ClassVar[str] = "open"
    STAMP: ClassVar[bool] = True


@dataclass(frozen=True)
class CentralLabels(Labels):
    KIND: ClassVar[str] = "test-central"
    TRUST: ClassVar[str] = "central"
    STAMP: ClassVar[bool] = True


FAKES = {kind.KIND: kind for kind in (Labels, Stamped, LocalLabels, CentralLabels)}


class Seen(NamedTuple):
    counts: np.ndarray


class Total(NamedTuple):
    counts: np.ndarray
    plans: np.ndarray
    policy: np.ndarray


class Adder:
    """A learner that adds releases up; its policy depends on them and on its coins."""

    name, constants, z, asks, least, uses_last = "adder", "practical", None, Totals, 1, False

    def __init__(self, labels: int, users: int, sizes: tuple[int, int, int], questions: int) -> None:
        self.labels, self.users, self.sizes, self.questions = labels, users, sizes, questions

    def begin(self) -> Total:
        return Total(np.zeros(self.labels, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(self.sizes))

    def plan(self, belief: Total, coins: np.random.Generator):
        table = coins.random(self.sizes) + belief.counts.sum()
        table /= table.sum(axis=2, keepdims=True)
        after = Total(belief.counts, belief.plans + 1, table)
        policy = uniform_policy(*self.sizes)
        return after, Plan(policy=policy, users=self.users, query=TOTALS, releases=self.questions)

    def ask(self, belief: Total, plan: Any, number: int):
        return belief, plan.query

    def update(self, belief: Total, released: PrivateStatistics) -> Total:
        return belief._replace(counts=belief.counts + released.statistics.counts)

    def policy(self, belief: Total, planned: Any = None) -> Any:
        from tacit.policies import StochasticPolicy

        return StochasticPolicy(belief.policy)


def claim_for(trust: str, reports: int) -> PrivacyClaim:
    unit = PrivacyUnit(reports=reports, per_stage=1)
    return PrivacyClaim(
        trust=trust,
        epsilon=float(reports),
        delta=1e-6,
        unit=unit,
        neighbours="replace-one",
        output=OUTPUTS[trust][0],
    )


@dataclass(frozen=True)
class FakeDesign:
    kind: str = "test-labels"
    stages: int = 3
    target: int = 6
    least: int = 4
    labels: int = 40
    reports: int = 1
    questions: int = 1
    epsilon: float = 1.0
    name: str = "clinic"
    states: tuple[str, ...] = field(default=tuple(f"s{i}" for i in range(40)))
    actions: tuple[str, ...] = ("wait", "treat")
    horizon: int = 2
    rewards: tuple[float, float] = (0.0, 2.0)
    ladder: tuple[int, ...] = ()
    sees: ClassVar[None] = None
    features: ClassVar[None] = None
    baseline: ClassVar[None] = None
    budget: ClassVar[None] = None
    declarations: ClassVar[dict[str, str]] = {}

    @property
    def trust(self) -> str:
        return FAKES[self.kind].TRUST

    @property
    def delta(self) -> float:
        return 1e-6

    @property
    def unit(self) -> PrivacyUnit:
        return PrivacyUnit(reports=self.reports, per_stage=1)

    @property
    def fallback(self) -> dict[str, Any]:
        return policy_to_dict(uniform_policy(self.horizon, len(self.states), len(self.actions)))

    @property
    def _channel(self) -> Labels:
        return FAKES[self.kind](self.target, self.least, self.labels, self.reports, self.questions)

    @property
    def channels(self) -> tuple[dict[str, Any], ...]:
        return (self._channel.to_dict(),) * self.stages

    def to_dict(self) -> dict[str, Any]:
        names = ("kind", "stages", "target", "least", "labels", "reports", "questions", "epsilon", "name")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FakeDesign:
        return cls(**plain)

    @property
    def digest(self) -> str:
        return hashlib.sha256(canonical(self.to_dict())).hexdigest()

    def parts(self) -> Any:
        return _parts(self)


@cache
def _parts(design: FakeDesign) -> Any:
    channel = design._channel
    sizes = (design.horizon, len(design.states), len(design.actions))
    events = tuple((event, count * design.reports) for event, count in channel.events())
    claim = claim_for(design.trust, design.reports)
    return SimpleNamespace(
        learner=Adder(design.labels, design.target, sizes, design.questions),
        channels=(channel,) * design.stages,
        claim=claim,
        events=events,
        certificate=certify(events, (), claim, calibration="tight"),
    )


def bundle_of(design: FakeDesign, *, stage: int = 0, slot: int = 0, key: Any = None, **entries: Any) -> bytes:
    """A bundle of a design, without a study behind it."""
    channel = design._channel
    content = {
        "study": design.digest,
        "name": design.name,
        "states": list(design.states),
        "actions": list(design.actions),
        "horizon": design.horizon,
        "rewards": list(design.rewards),
        "claim": claim_for(design.trust, design.reports).to_dict(),
        "stage": stage,
        "slot": slot,
        "question": 0,
        "questions": design.questions,
        "query": {"kind": "totals", "every": 0},
        "channel": channel.to_dict(),
        "target": channel.target,
        "least": channel.least,
        "policies": [[design.fallback, [1, 1]]],
        "fallback": design.fallback,
        "kill": False,
        "head": GENESIS_HEAD.text,
        "previous": "00" * 32,
        **entries,
    }
    return Bundle.make(content, key)


def register() -> None:
    """Let bundles name the channels of tests."""
    CHANNELS.update(FAKES)  # type: ignore[attr-defined]
