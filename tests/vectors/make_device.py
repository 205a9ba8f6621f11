"""Shared test vectors of devices, for devices in other languages: random bytes in, exact results out.

python tests/vectors/make_device.py        writes device.json beside this file

Noise comes from recorded bytes here: the operating system's door (`SecureNoise.random_bytes`) is replaced by a stream,
and everything behind it is the code that devices run. Whoever takes the same bytes in the same order must end with the
same result and use up all of them. Keys are fixed and protect nobody; Ed25519 draws nothing, so that the file is the
same whenever it is made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import device_documents as documents
import numpy as np

from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.data.trajectories import FeatureUsers, Trajectory
from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.features import Features
from tacit.noise.exact import (
    bernoulli,
    bernoulli_each,
    bernoulli_logistic,
    fair_bits,
    permutation,
    uniform_integers,
)
from tacit.noise.exact.inversion import exp_enclosure
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.policies.linear import LinearPolicy
from tacit.policies.named import NamedPolicy
from tacit.policies.tables import StochasticPolicy, policy_to_dict
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise
from tacit.release.batch_release import BatchRelease
from tacit.release.counts_contract import batch_spec
from tacit.release.directions import DirectionRelease
from tacit.release.local import LocalRelease
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.totals_release import TotalsRelease
from tacit.release.vectors import CentralVectors, ShuffleVectors
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.moments import MomentQuery, MomentShape
from tacit.service.tokens.admission import known_credential, open_name
from tacit.statistics.moments import MomentVector
from tacit.study.bundle import Bundle
from tacit.study.device import Device, trajectory_from
from tacit.study.wire import Report
from tacit.support import Support

PATH = Path(__file__).with_name("device.json")
ONCE = PrivacyUnit(reports=1, per_stage=1)
RFC9180 = {
    "info": "4f6465206f6e2061204772656369616e2055726e",
    "ephemeral": "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
    "enc": "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
    "secret": "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
    "public": "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
    "plain": "4265617574792069732074727574682c20747275746820626561757479",
    "aad": "436f756e742d30",
    "sealed": "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
}
"""RFC 9180, A.1.1: base mode, sequence number 0."""


class Stream:
    """Bytes that a vector records as far as they were used; a cycle is recorded once, with how much was used."""

    def __init__(self, seed: str, first: bytes = b"", cycle: int | None = None) -> None:
        made = hashlib.shake_256(seed.encode()).digest(cycle or 2**17)
        self.data = first + made * (2**18 // cycle if cycle else 1)
        self.used, self.cycle = 0, cycle

    @property
    def record(self) -> dict[str, Any]:
        if self.cycle is None:
            return {"bytes": self.data[: self.used].hex()}
        return {"bytes": self.data[: self.cycle].hex(), "cycled": self.used}

    def take(self, count: int) -> bytes:
        self.used += count
        assert self.used <= len(self.data)
        return self.data[self.used - count : self.used]


@contextmanager
def replayed(stream: Stream) -> Iterator[SecureNoise]:
    """Noise whose bytes are those of a stream; whoever else asks the system (compilers do) is left alone."""
    with mock.patch("tacit.randomness.os", SimpleNamespace(urandom=stream.take)):
        yield SecureNoise()


def recorded(
    seed: str, draw: Callable[[SecureNoise], Any], first: bytes = b"", cycle: int | None = None
) -> tuple[dict[str, Any], Any]:
    """The bytes that `draw` used, and what it made of them."""
    stream = Stream(seed, first, cycle)
    with replayed(stream) as noise:
        found = draw(noise)
    return stream.record, found


def text(bits: Any) -> str:
    return "".join(str(int(bit)) for bit in bits)


def pair(value: Fraction | float | int) -> list[str]:
    """A fraction in texts: not every reader has whole numbers of so many bits."""
    return [str(part) for part in Fraction(value).as_integer_ratio()]


def ties(p: Fraction, words: int) -> bytes:
    """Words that agree with the binary digits of p, so that a coin needs one more."""
    digits = [(p.numerator << 16 * k) // p.denominator % 2**16 for k in range(1, words + 1)]
    return b"".join(digit.to_bytes(2, "little") for digit in digits)


def samplers() -> dict[str, Any]:
    made: dict[str, Any] = {name: [] for name in ("coins", "logistic", "each", "fair", "below", "orders", "enclosures")}
    for p in (Fraction(1, 3), Fraction(0.1), Fraction(0.28), Fraction(2**40 - 1, 2**40), Fraction(5e-324), Fraction(1)):
        for tied in (0, 3):
            first = b"" if p == 1 or not tied else ties(p, tied)
            used, bits = recorded(f"coins {p} {tied}", lambda noise, p=p: bernoulli(99, noise, probability=p), first)
            made["coins"].append({"probability": pair(p), "count": 99, **used, "bits": text(bits)})
    for gamma, odds in ((1.0, 1), (0.0, 1), (Fraction(1, 7), Fraction(7, 2)), (3.5, Fraction(1, 9)), (80.0, 1)):
        used, bits = recorded(
            f"logistic {gamma} {odds}",
            lambda noise, g=gamma, o=odds: bernoulli_logistic(99, noise, gamma=g, odds=o),
            bytes(4) if gamma == 80.0 else b"",
        )
        made["logistic"].append({"gamma": pair(gamma), "odds": pair(odds), "count": 99, **used, "bits": text(bits)})
    chances = [0.0, 1.0, 0.5, 0.1, 1e-300, 0.9999999999999999, 1 / 3, 0.25, 2.0**-40]
    # 0 has the digits 0.000..., and 1 has 0.111...
    every = [bytes(2), b"\xff\xff", *(ties(Fraction(p), 1) for p in chances[2:6])]
    for tied in (b"", b"".join(every)):
        used, bits = recorded("each", lambda noise: bernoulli_each(np.array(chances), noise), tied)
        made["each"].append({"probabilities": chances, **used, "bits": text(bits)})
    for count in (1, 8, 29):
        used, bits = recorded(f"fair {count}", lambda noise, n=count: fair_bits(n, noise))
        made["fair"].append({"count": count, **used, "bits": text(bits)})
    for limit in (1, 2, 3, 11, 256, 257, 65537, 2**31 + 1, 2**32):
        used, value = recorded(
            f"below {limit}", lambda noise, n=limit: uniform_integers(1, noise, below=n), b"\xff" * 4
        )
        made["below"].append({"limit": limit, **used, "value": int(value[0])})
    for count, first in ((0, b""), (1, b""), (2, bytes(16)), (40, b"")):
        used, order = recorded(f"order {count}", lambda noise, n=count: permutation(n, noise), first)
        made["orders"].append({"count": count, **used, "order": order.tolist()})
    for gamma in (Fraction(0), Fraction(1), Fraction(1, 1000), Fraction(22, 7), Fraction(79), Fraction(200)):
        for bits in (16, 80, 112):
            lower, upper = exp_enclosure(gamma, bits)
            made["enclosures"].append({"gamma": pair(gamma), "bits": bits, "lower": str(lower), "upper": str(upper)})
    return made


def channels() -> dict[str, Any]:
    """Channels of every kind that a device in another language encodes."""
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True)
    wide = CountShape(horizon=2, num_states=200, num_actions=2, staged=True)
    pooled = CountShape(horizon=3, num_states=2, num_actions=2, staged=False)
    everything = BatchQuery(layer=None, failure_prob=None)
    claims = {
        trust: PrivacyClaim(trust=trust, epsilon=2.0, delta=delta, unit=ONCE, neighbours="replace-one", output=output)
        for trust, delta, output in (
            ("shuffle", 1e-6, "shuffled-transcript"),
            ("local", 0.0, "every-message"),
            ("central", 1e-6, "other-users-actions"),
        )
    }

    def shuffle(query: Any, of: CountShape = shape, p: float = 0.28, m: int = 2, **more: Any) -> ShuffleRelease:
        spec = batch_spec(of, "tight", None if query == TOTALS else query.layer)
        plain = {
            "claim": claims["shuffle"],
            "shape": of,
            "query": query,
            "target": 100,
            "least": 90,
            "honest": 90,
            "bits_per_user": m,
            "probability": Fraction(p),
            "overflow": Fraction(0),
            "block": m * spec.num_counters,
        }
        return ShuffleRelease(**{**plain, **more})

    def mirrored(p: float, **more: Any) -> ShuffleRelease:
        whole = 2 * 2 * batch_spec(shape, "tight", None).num_counters
        return shuffle(everything, p=p, mirrored=True, **{"block": whole, **more})

    def local(kind: Any, of: CountShape) -> LocalRelease:
        outcome, transition = kind.tight(of, (), 2.0, 0.0)
        return LocalRelease(
            claim=claims["local"],
            shape=of,
            target=100,
            least=1,
            encoding="complement",
            outcome=outcome,
            transition=transition,
        )

    # A line that ends: rows with one successor, a first state, a step of its own, pairs that earn nothing.
    always = [[[1, 1, 0], [1, 0, 0]], [[0, 1, 1], [1, 1, 1]], [[0, 0, 1], [0, 0, 1]]]
    later = [[[0, 1, 0], [1, 1, 1]], *always[1:]]
    line = Support(moves=always, horizon=3, starts=[1, 1, 0], rewards=[[1, 0], [0, 1], [0, 0]])
    staged = Support(moves=[always, later, always], horizon=3, starts=[1, 0, 0])
    declared = {name: replace(shape, support=one) for name, one in (("line", line), ("staged", staged))}
    single = CountShape(horizon=1, num_states=2, num_actions=2, staged=True)
    long = CountShape(horizon=130, num_states=2, num_actions=1, staged=True)
    two = {"target": 2, "least": 2, "honest": 2}
    central = {"claim": claims["central"], "target": 100, "least": 90, "levels": 16, "unit": 2**18, "variance": 2**50}
    return {
        "shuffle totals": shuffle(TOTALS),
        "shuffle pooled totals": shuffle(TOTALS, of=pooled),
        "shuffle batch": shuffle(everything),
        "shuffle fair": shuffle(everything, p=0.5),
        "shuffle first layer": shuffle(BatchQuery(layer=0, failure_prob=0.05)),
        "shuffle last layer": shuffle(BatchQuery(layer=2, failure_prob=None)),
        "shuffle one step": shuffle(everything, of=single),
        "shuffle overflowing": shuffle(everything, **two, block=46, overflow=Fraction(0.5)),
        "shuffle u32": shuffle(everything, of=wide, p=2.0**-12, m=1, **two, block=40, overflow=Fraction(0.25)),
        "shuffle supported": shuffle(everything, of=declared["line"]),
        "shuffle supported steps": shuffle(everything, of=declared["staged"], p=0.5),
        "shuffle supported totals": shuffle(TOTALS, of=replace(declared["line"], staged=False)),
        "shuffle supported layer": shuffle(BatchQuery(layer=1, failure_prob=None), of=declared["staged"]),
        "shuffle supported last layer": shuffle(BatchQuery(layer=2, failure_prob=None), of=declared["staged"]),
        "shuffle mirrored": mirrored(p=0.05),
        "shuffle mirrored fair": mirrored(p=0.5),
        "shuffle mirrored overflowing": mirrored(p=0.01, **two, block=146, overflow=Fraction(0.5)),
        "local subset": local(SubsetSelection, shape),
        "local subset pooled": local(SubsetSelection, pooled),
        "local subset long": local(SubsetSelection, long),
        "local subset one step": local(SubsetSelection, single),
        "local oue": local(UnaryEncoding, shape),
        "local oue one step": local(UnaryEncoding, single),
        "local subset supported": local(SubsetSelection, declared["line"]),
        "local subset supported steps": local(SubsetSelection, declared["staged"]),
        "local subset supported pooled": local(SubsetSelection, replace(declared["staged"], staged=False)),
        "local oue supported": local(UnaryEncoding, declared["staged"]),
        "local oue supported pooled": local(UnaryEncoding, replace(declared["line"], staged=False)),
        "central totals": TotalsRelease(**central, shape=shape, releases=4, exponent=Fraction(1, 2)),
        "central batch": BatchRelease(**central, shape=shape, query=everything),
        "central totals supported": TotalsRelease(
            **central, shape=replace(declared["line"], staged=False), releases=4, exponent=Fraction(1, 2)
        ),
        "central batch supported": BatchRelease(**central, shape=declared["line"], query=everything),
    }


def bodies() -> list[dict[str, Any]]:
    made = []
    for name, channel in channels().items():
        H, S, A = channel.shape.horizon, channel.shape.num_states, channel.shape.num_actions
        steps = np.arange(H + 1)
        rewards = np.resize([0.0, 1.0, 0.3, 0.03125, 2.0, -1.0], H)
        walks: list[Trajectory | None] = [
            None,
            Trajectory((steps * 5 + 1) % S, (steps[:-1] + 1) % A, rewards),
            Trajectory(steps[:-1] * 7 - 3, steps[:-1] * 9 - 5, rewards[::-1]),
        ]
        if channel.shape.support is not None:  # people who do what can be, and what cannot
            walks += [
                Trajectory(np.array(s), np.array(a), np.ones(H))
                for s in ([0, 1, 2, 2], [0, 0, 1, 0], [2, 1, 0, 0], [1, 2, 1, 2], [0, 2, 2, 1])
                for a in ([0, 0, 1], [1, 1, 1])
            ]
        for number, walk in enumerate(walks):
            for run in range(6 if "overflow" in name else 2):
                seed, cycle = f"{name} {number} {run}", 4001 if "u32" in name else None
                used, body = recorded(seed, lambda noise, c=channel, w=walk: c.encode(w, noise), cycle=cycle)
                channel.check(body)
                plain = None if walk is None else {part: getattr(walk, part).tolist() for part in Trajectory._fields}
                made.append({"channel": name, "trajectory": plain, **used, "body": body.hex()})
    return made


DECLARED = (
    Features(age=(18, 90), steps=(0, 0.3), tired=bool, ward=["a", "b", "c"], missing={"age": 40, "ward": "b"}),
    Features({"a b": (-1, 1), "level": [1, 2]}, intercept=False, norm=0.3, products=[("a b", "level")]),
    Features(z=(-1e-3, 1e6), norm=1.0),
)
"""Declarations of rows: every kind of column, missing values, products, rows that are longer than 1."""
GIVEN: tuple[tuple[Any, ...], ...] = (
    (
        {"age": 54, "steps": 0.1, "tired": True, "ward": "a"},
        {"age": 18.3, "steps": 7, "tired": 0, "ward": "c", "more": 1},
        {"age": None, "steps": -4, "tired": 1, "ward": None},
        {"age": 33, "steps": 0.29999999999999993, "tired": False, "ward": "b"},
        {"age": 33, "steps": None, "tired": False, "ward": "b"},
        {"age": 33, "steps": 1, "tired": 2, "ward": "b"},
        {"age": 33, "steps": 1, "tired": True, "ward": "d"},
        {"age": "33", "steps": 1, "tired": True, "ward": "a"},
        {"age": 33, "steps": 1, "tired": True},
    ),
    ({"a b": 0.7, "level": 1}, {"a b": -0.1, "level": 2}, {"a b": 1, "level": 3}, {"a b": 1, "level": "1"}),
    ({"z": 12345.678}, {"z": -1}, {"z": 0}),
)


def rows() -> list[dict[str, Any]]:
    """Rows by declaration and what they become; null is refused."""
    made = []
    for space, rows in zip(DECLARED, GIVEN, strict=True):
        for given in rows:
            try:
                x = space.encode(given)[0].tolist()
            except InvalidInput:
                x = None
            made.append({"declaration": canonical(space.to_dict()).decode(), "given": given, "x": x})
    return made


def moment_channels() -> dict[str, Any]:
    """Moments of rows under every trust model."""
    shape = MomentShape(features=3, actions=2, shared=False)
    claims = {
        trust: PrivacyClaim(trust=trust, epsilon=2.0, delta=delta, unit=ONCE, neighbours="replace-one", output=output)
        for trust, delta, output in (
            ("shuffle", 1e-6, "shuffled-transcript"),
            ("local", 0.0, "every-message"),
            ("central", 1e-6, "other-users-actions"),
        )
    }

    def of(trust: Any, *, lots: bool = False, wide: MomentShape = shape) -> dict[str, Any]:
        statistic = MomentVector.of(wide, trust, MomentQuery(lots=lots))
        return {"statistic": statistic, "claim": claims[trust], "target": 100, "least": 90}

    def shuffled(shift: int, p: float, m: int = 2) -> ShuffleVectors:
        size = of("shuffle")["statistic"].size
        return ShuffleVectors(
            **of("shuffle"), honest=90, shift=shift, bits_per_user=m, probability=Fraction(p), block=m * size,
            overflow=Fraction(0),
        )  # fmt: skip

    ten = MomentShape(features=10, actions=4, shared=False)
    directions = {"directions": 32, "chosen": 11, "epsilon": 2.0}
    return {
        "central moments": CentralVectors(**of("central"), variance=2**60),
        "central moments, ten": CentralVectors(**of("central", wide=ten), variance=2**60),
        "shuffle moments": shuffled(25, 0.28),
        "shuffle moments, fair": shuffled(26, 0.5),
        "shuffle moments, fine": shuffled(22, 0.28, 1),
        "local moments": DirectionRelease(**of("local"), **directions),
        "local moments, lots": DirectionRelease(**of("local", lots=True), **directions),
        "local moments, sign": DirectionRelease(**of("local"), directions=2, chosen=1, epsilon=0.5),
    }


def moment_bodies() -> list[dict[str, Any]]:
    """Persons by encoded row, action, reward in [0, 1] and lot, and their bodies."""
    made = []
    for name, channel in moment_channels().items():
        d = channel.statistic.shape.features
        base = np.resize([0.3, -0.7, 0.11], d) / max(1.0, math.sqrt(d / 3.0))
        persons: list[tuple[Any, int, float, int] | None] = [
            None, (base, 1, 0.3, 1), (base * 40.0, 0, 1.0, 1), (np.zeros(d), 7, -3.0, 0), (-base, 0, 0.03125, 0),
        ]  # fmt: skip
        for number, one in enumerate(persons):
            users = None
            if one is not None:
                x, action, reward, lot = one
                users = FeatureUsers(x[np.newaxis], np.array([action]), np.array([reward]), np.array([lot]))
            for run in range(2):
                seed = f"{name} {number} {run}"
                used, body = recorded(seed, lambda noise, c=channel, u=users: c.encode(u, noise))
                channel.check(body)
                plain = None
                if one is not None:
                    plain = {"x": one[0].tolist(), "action": one[1], "reward": one[2], "lot": one[3]}
                made.append({"channel": name, "person": plain, **used, "body": body.hex()})
    return made


def row_bundle(world: documents.World) -> dict[str, Any]:
    """A bundle over rows: what its draws do with a row, and what a device says of it."""
    space = Features(age=(18, 90), tired=bool)
    claim = PrivacyClaim.from_dict(documents.CLAIM)
    shape = MomentShape(features=space.dimension, actions=2, shared=False)
    statistic = MomentVector.of(shape, "shuffle", MomentQuery(lots=False))
    channel = ShuffleVectors(
        statistic=statistic, claim=claim, target=50, least=45, honest=45, shift=25, bits_per_user=3,
        probability=Fraction(0.25), block=3 * statistic.size, overflow=Fraction(0),
    )  # fmt: skip
    draws = [
        LinearPolicy(np.array([[[0.1, -0.2, 0.3], [0.1, 0.4, -0.25]]]), 2),
        LinearPolicy(np.array([[[0.0, 0.2, 0.0], [0.01, 0.0, 0.0]]]), 2, widths=np.array([np.eye(3), 0.5 * np.eye(3)])),
    ]
    text = world.bundle(
        states=["row"], horizon=1, features=space.to_dict(), channel=channel.to_dict(),
        query={"kind": "moments", "lots": False}, policies=[[policy_to_dict(draw), [1, 2]] for draw in draws],
        fallback={"kind": "stochastic", "table": [[[0.5, 0.5]]]}, rewards=[-1.0, 3.0],
    )  # fmt: skip
    bundle, made = Bundle.parse(text), []
    for age, tired, action, reward in (
        (20, True, "y", 0.3),
        (54.5, False, "x", None),
        (95, True, 1, 99),
        (18, 0, 0, -1),
    ):
        row = {"age": age, "tired": tired}
        told = {"states": [row], "actions": [action], "rewards": [reward]}
        users, x = trajectory_from(bundle, told), space.encode(row)
        becomes = {
            "x": users.x[0].tolist(),
            "action": int(users.actions[0]),
            "reward": float(users.rewards[0]),
            "lot": -1,
        }
        acts = [bundle["actions"][int(one.scores(x, np.zeros(1, dtype=int)).argmax())] for one, _ in bundle.arms]
        made.append({"row": row, "given": told, "becomes": becomes, "acts": acts})
    asked = {"kind": "moments", "lots": False}
    refused = [
        world.bundle(**changed) for changed in (
            {"features": space.to_dict()},
            {"states": ["row"], "horizon": 1, "channel": channel.to_dict(), "query": asked},
        )
    ]  # fmt: skip
    for one in refused:
        with contextlib.suppress(InvalidInput):
            Bundle.parse(one)
            raise AssertionError("a bundle that should be refused")
    return {"bundle": text.decode(), "people": made, "refused": [one.decode() for one in refused]}


def trajectories(bundle: bytes) -> list[dict[str, Any]]:
    """What people's lists become in a study whose rewards lie in [-1, 3]; null is refused."""
    read = Bundle.parse(bundle)
    good = {"states": ["a", 1, "b"], "actions": ["x", 1], "rewards": [0.3, 1]}
    given = [
        good,
        {**good, "states": ["a", "b"]},
        {**good, "rewards": [None, 99]},
        {**good, "rewards": [-7.5, 2.9999999]},
        {**good, "states": [-4, 77, 1], "actions": [9, -9]},
        {**good, "states": ["a"]},
        {**good, "states": ["a", "c", "a"]},
        {**good, "actions": [0.5, 1]},
        {**good, "actions": [True, 1]},
        {**good, "rewards": ["1", 0]},
        {**good, "rewards": [True, 0]},
        {"states": good["states"], "actions": good["actions"]},
        {**good, "states": "ab"},
    ]
    made = []
    for one in given:
        try:
            found = trajectory_from(read, one)
            result = {part: getattr(found, part).tolist() for part in Trajectory._fields}
        except InvalidInput:
            result = None
        made.append({"given": one, "becomes": result})
    return made


def seen(bundle: bytes) -> dict[str, Any]:
    """What a study with features makes of states: in a report, and for a policy that tells the features apart."""
    device = Device(None, cap=math.inf, floor=1, key=None)
    device.accept(bundle)
    lived = {"actions": ["x", "x"], "rewards": [0, 1]}
    given = [{**lived, "states": list(states)} for states in product(["a", "b", "c"], repeat=2)]
    return {
        "bundle": bundle.decode(),
        "trajectories": [
            {"given": one, "becomes": trajectory_from(Bundle.parse(bundle), one).states.tolist()} for one in given
        ],
        "actions": [[device.act(step, state) for state in ("a", "b", "c")] for step in range(2)],
    }


class _Lot:
    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def lots() -> dict[str, Any]:
    """Which action and which policy a lot chooses."""
    names, actions = ("s",), ("0", "1", "2")
    rows = [[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.1, 0.0, 0.9], [1 / 3, 1 / 3, 1 / 3]]
    chosen = []
    for row in rows:
        policy = NamedPolicy(policy=StochasticPolicy(np.array([[row]])), states=names, actions=actions)
        for lot in (0.0, 0.1, 0.2, 0.49999, 0.5, 0.6666666666666666, 0.9999999999999999):
            chosen.append({"row": row, "lot": lot, "action": int(policy.act(0, "s", _Lot(lot)))})  # type: ignore[arg-type]
    weights = [Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)]
    arms = [arm for arm, weight in enumerate(weights) for _ in range(int(6 * weight))]
    return {"actions": chosen, "weights": [pair(weight) for weight in weights], "arms": arms}


def spellings() -> list[dict[str, Any]]:
    """JSON texts, and whether they are canonical."""
    texts = [
        '{"a":1,"b":[1.0,-0.0,1e-06,0.0001,1e+16,1.2345678901234568e+17,5e-324,1.7976931348623157e+308]}',
        '{"b":1,"a":2}',
        '{"a": 1}',
        '{"a":1.00}',
        '{"a":1e-6}',
        '{"a":0.00001}',
        '{"a":1E+16}',
        '{"a":10000000000000000.0}',
        '{"a":1e16}',
        '{"a":1,"a":1}',
        '{"a":-0}',
        '{"a":01}',
        '{"a":[]}',
        '{"a":{}}',
        '{"a":null,"b":true,"c":false}',
        '{"a":"\\n\\t\\u001f"}',
        '{"a":"\\u001F"}',
        '{"a":"\\u0041"}',
        '{"a":"\\/"}',
        '{"a":"é\u2028😀"}',
        '{"a":"\\u00e9"}',
        '{"\uffff":1,"😀":2}',
        '{"😀":2,"\uffff":1}',
        '{"a":9007199254740993,"b":36028797018963968123456789}',
        '{"a":1}\n',
        "{'a':1}",
        '{"a":1,}',
        '{"a":NaN}',
        '{"a":1e400}',
        '{"a":0.1,"b":2.5,"c":100.0,"d":9999999999999998.0}',
        '{"a":"\\ud800"}',
        '{"a":[1,2,[3,{"b":"c"}]]}',
        '{"__proto__":1}',
        '{"10":1,"9":2}',
        '{"9":2,"10":1}',
    ]
    made = []
    for one in texts:
        try:
            same = canonical(json.loads(one)) == one.encode()
        except ValueError:
            same = False
        made.append({"text": one, "canonical": same})
    return made


def made() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        world = documents.World(Path(folder))
        study = documents.STUDY
        return {
            "format": "tacit-vectors-device",
            "version": 1,
            "rfc9180": RFC9180,
            "spellings": spellings(),
            **samplers(),
            "channels": {name: canonical(channel.to_dict()).decode() for name, channel in channels().items()},
            "bodies": bodies(),
            "study": world.bundle(rewards=[-1.0, 3.0]).decode(),
            "trajectories": trajectories(world.bundle(rewards=[-1.0, 3.0])),
            "seen": seen(world.bundle(**documents.SEEN)),
            "lots": lots(),
            "rows": rows(),
            "moment_channels": {n: canonical(channel.to_dict()).decode() for n, channel in moment_channels().items()},
            "moment_bodies": moment_bodies(),
            "row_bundle": row_bundle(world),
            "report": {
                "study": study,
                "stage": 7,
                "id": bytes(range(16)).hex(),
                "body": "0102",
                "report": Report(study=bytes.fromhex(study), stage=7, id=bytes(range(16)), body=b"\1\2").encode().hex(),
            },
            "badges": {"known": known_credential("é secret").hex(), "open": open_name("é secret").hex()},
            **world.vectors(),
        }


if __name__ == "__main__":
    PATH.write_text(json.dumps(made(), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
