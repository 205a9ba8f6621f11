"""Local noise fails closed: complete classes only, built in or from another package, simulated and deployed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from toy_mechanism import Blurred

import tacit
from tacit.accounting.events import Events, LaplaceEvent
from tacit.accounting.families import Family
from tacit.audit.conformance import check_privatizer
from tacit.audit.views import audit_privatizer
from tacit.cli.listing import KINDS
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.noise import ContinualCounter, Gaussian, Laplace, Mechanism, Randomizer
from tacit.noise.exact import bernoulli_logistic
from tacit.noise.exact.inversion import LogisticCoin
from tacit.noise.layout import exact_vector
from tacit.noise.protocol import missing_members
from tacit.noise.support_index import places_of
from tacit.noise.table import MECHANISMS, mechanism_row
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.counts_contract import count_precision, sampling_of
from tacit.release.local import Local
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
POOLED = replace(SHAPE, staged=False)


def make(mechanism: str, shape: CountShape = SHAPE, *, epsilon: float = 1.0, **changes: Any) -> Local:
    asked: dict[str, Any] = {
        "trust": "local", "shape": shape, "episodes": 16, "epsilon": epsilon, "calibration": None,
        "delta": 0.0 if MECHANISMS.get(mechanism, MECHANISMS["laplace"]).pure else 1e-5, "users_per_batch": 1,
        "mechanism": mechanism,
    }  # fmt: skip
    made = make_privatizer(PrivacyRequest(**(asked | changes)))
    assert isinstance(made, Local)
    return made


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


# ------------------------------------------------------------------------------------------------ the table


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_class_of_the_table_has_every_member_of_its_protocol(name: str) -> None:
    row = MECHANISMS[name]
    protocol = {"local": Randomizer, "central": ContinualCounter, "shuffle": Mechanism}[row.trust]
    assert missing_members(row.kind, protocol) == []
    assert row.summary
    if row.trust == "local":
        assert name == row.kind.NAME


def test_a_missing_member_is_found() -> None:
    assert missing_members(Laplace, ContinualCounter)[:3] == ["advance", "begin", "draws_at"]
    assert missing_members(MECHANISMS["binomial"].kind, Randomizer)[0] == "COUPLED"


# ----------------------------------------------------------------------------------------------- fails closed


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedLaplace:
    """The mechanism of docs/adding.md as it once was, plus a `std`: released with zero noise in version 0.2."""

    scale: float

    @property
    def variance(self) -> float:
        return 2.0 * self.scale**2 + 0.25

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def sample(self, size: int, noise: SimulationNoise) -> NDArray[np.float64]:
        return np.rint(noise.generator.laplace(0.0, self.scale, size))

    def events(self, family: Family) -> Events:
        return ((LaplaceEvent(scale=self.scale, shift=family.shift, discrete=False), family.differing),)


class Stubs(Randomizer):
    """Inherits the protocol and implements nothing: its members would all answer None."""


class PlainPython(Blurred):
    """A device that cannot be compiled into the loop."""

    @property
    def encoder(self) -> Callable[..., None]:
        return lambda *args: None


@pytest.mark.parametrize(
    ("foreign", "words"),
    [
        (RoundedLaplace(scale=6.0), "every member.*RoundedLaplace without .*encoder.*docs/adding.md"),
        (Stubs(), "Stubs without .*encoder.*events.*exposure"),
        (PlainPython(scale=6.0), "lean kernel"),
        ("laplace", "got str without"),
    ],
)
def test_an_incomplete_mechanism_is_refused_not_released_without_noise(foreign: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        replace(make("laplace"), outcome=foreign, transition=foreign)


class Foreign:
    """A privatizer that says nothing about its precision."""

    shape = SHAPE


@pytest.mark.parametrize("ask", [count_precision, sampling_of])
def test_a_privatizer_that_states_no_precision_is_refused_not_exact(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidInput, match=r"must state how precise.*Foreign without"):
        ask(Foreign())
    assert ask(Unprotected(shape=SHAPE))


# --------------------------------------------------------------------------------- a mechanism of another package


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install a package that registers these mechanisms, for one test."""

    def announce(lines: str) -> None:
        info = tmp_path / "toy-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tacit.mechanisms]\n{lines}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    return announce


def test_a_foreign_mechanism_works_by_name_end_to_end(install: Callable[[str], None]) -> None:
    """Calibration, events, certificate, compiled device, aggregate, precision, audit, list, a whole run."""
    with pytest.raises(UnknownName):
        make("toy")
    install("toy = toy_mechanism:Blurred")
    made, laplace = make("toy"), make("laplace")
    assert made.name == "local/toy"
    assert made.events() == laplace.events()
    assert made.certificate().holds
    assert 0.99 <= made.certificate().epsilon <= 1.0
    assert made.precision().variance == pytest.approx(laplace.precision().variance * (25 / 24))
    assert make("toy", POOLED, squares=True).encoding == "squares"
    with pytest.raises(NotSupported, match="no paper"):
        make("toy", calibration="paper")
    assert made.certificate().unchecked == ("toy 1.0",)
    assert "by toy 1.0, not checked by tacit" in made.certificate().statement
    check_privatizer(made, only=["claim"])  # a part of the rules is not enough
    assert made.certificate().unchecked == ("toy 1.0",)
    assert check_privatizer(made).name == "local/toy"  # noise as stated on both paths; false alarms below 1e-6
    assert made.certificate().unchecked == ()
    assert audit_privatizer(made, trials=20_000).verdict == "holds"
    listed = {row["name"]: row for row in KINDS["mechanisms"]()}
    assert listed["toy"] == {"name": "toy", "trust": "local", "default": False, "pure": True}
    options = {
        "environment": "riverswim",
        "learner": "ldp-obi:time_homogeneous=true",
        "episodes": 300,
        "seeds": 1,
        "workers": 1,
    }
    runs = [tacit.run(trust="local", epsilon=5.0, delta=0.0, mechanism="toy", **options) for _ in range(2)]
    assert np.array_equal(runs[0].regret, runs[1].regret)


def test_the_compiled_and_the_interpreted_device_of_a_foreign_mechanism_agree() -> None:
    noise = Blurred(scale=3.0)
    made = replace(make("laplace"), outcome=noise, transition=noise)
    messages = np.zeros((2, made.dimension))
    user = (np.array([0, 1, 1]), np.array([1, 0]), np.array([0.25, 1.0]))
    for message, encode in zip(messages, (made.encoder, made.encoder.py_func), strict=True):  # type: ignore[attr-defined]
        encode(made.parameters, message, *user, np.random.default_rng(7))
    assert np.array_equal(*messages)
    assert np.abs(messages[0]).min() > 0.0


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("laplace = toy_mechanism:Blurred", "must be new, got 'laplace'"),
        ("toy = test_randomizers:RoundedLaplace", "complete Randomizer or ContinualCounter.*a local one lacks COUPLED"),
        ("toy = tacit.errors:require", "complete Randomizer"),
        ("other = toy_mechanism:Blurred", "under its own NAME, got 'toy'"),
    ],
)
def test_a_clash_and_an_incomplete_class_are_refused(lines: str, words: str, install: Callable[[str], None]) -> None:
    install(lines)
    with pytest.raises(InvalidInput, match=words):
        mechanism_row("local", "other" if lines.startswith("other") else "toy")
    assert mechanism_row("local", "subset").kind is MECHANISMS["subset"].kind  # built-in names do not look at it


# ------------------------------------------------------------------------------------------------- deployment


def deployed(name: str, shape: CountShape, encoding: str = "complement") -> Local:
    """A local privatizer whose devices can draw exact integers."""
    if name not in ("laplace", "gaussian"):
        return replace(make(name, shape, epsilon=2.0), encoding=encoding)
    noise = Laplace(scale=2.5, discrete=True) if name == "laplace" else Gaussian(sigma=2.5, discrete=True)
    return replace(make(name, shape), outcome=noise, transition=noise, encoding=encoding)


USER = (np.array([0, 1, 1]), np.array([1, 0]), np.array([0.25, 7.0]))  # 7 counts as 1
STAGE = StageSize(target=9, least=1, query=TOTALS)
DEVICES = 3000
"""Messages that each of them sends; the assertions say what such a number can show."""
ALL_DEPLOYED = [
    ("subset", SHAPE, "complement"), ("oue", POOLED, "complement"), ("rr", POOLED, "families"),
    ("laplace", POOLED, "squares"), ("gaussian", POOLED, "families"), ("subset", POOLED, "complement"),
    ("oue", SHAPE, "complement"), ("rr", SHAPE, "complement"), ("laplace", SHAPE, "complement"),
]  # fmt: skip
DEPLOYED = [
    # Every mechanism once; in its other shape before a merge.
    pytest.param(*row, marks=pytest.mark.slow if row[0] in [other[0] for other in ALL_DEPLOYED[:i]] else ())
    for i, row in enumerate(ALL_DEPLOYED)
]


@cache
def sent(name: str, shape: CountShape, encoding: str) -> tuple[bytes, ...]:
    """What so many devices send of `USER`, drawn once."""
    wire = deployed(name, shape, encoding).wire
    return tuple(wire.encode(USER, SecureNoise()) for _ in range(DEVICES))


def bias(made: Local, messages: NDArray[np.float64], alarm: float) -> float:
    """The largest |sum of errors| over counters, in units of a bound that holds but for `alarm` in all.

    Given the rounded rewards, a mechanism's own radius covers; rounding adds at most √(n ln(2/α)/2), by Hoeffding.
    """
    exact = np.zeros(made.dimension)
    for first, probability in ((0.0, 0.75), (1.0, 0.25)):  # 0.25, rounded at random
        vector = np.zeros(made.dimension)
        sizes, complement = (made.shape.stages, 2, 2), made.encoding == "complement"
        exact_vector(places_of(made.shape), vector, *sizes, complement, *USER[:2], np.array([first, 1.0]))
        exact += probability * vector
    n, share = len(messages), alarm / (2 * made.dimension)
    bits = 2 if made.outcome.NAME == "rr" and not made.shape.staged else 1  # pooled: of two steps
    bound = np.full(made.dimension, made.outcome.radius(share, bits * n) + math.sqrt(n * math.log(2.0 / share) / 2.0))
    bound[:8] = made.transition.radius(share, n)  # one step has a successor: S·A·S counters
    return float((np.abs((messages - exact).sum(axis=0)) / bound).max())


@pytest.mark.parametrize(("name", "shape", "encoding"), DEPLOYED)
def test_deployed_messages_are_integers_and_unbiased(name: str, shape: CountShape, encoding: str) -> None:
    """False alarms: 1e-9. Power: a shift of 0.4 deviations in every counter goes beyond the bound."""
    made, bodies = deployed(name, shape, encoding), sent(name, shape, encoding)
    messages = np.array([made.wire.total([body]) for body in bodies])
    assert messages.shape == (DEVICES, made.dimension)
    assert bias(made, messages, 1e-9) < 1.0
    assert bias(made, messages + 0.4 * made.outcome.std, 1e-9) > 1.0
    np.testing.assert_allclose(made.wire.total(bodies), messages.sum(axis=0), atol=1e-6)
    released = made.totals(made.begin().released, messages.sum(axis=0), DEVICES)
    assert released.users[0] == DEVICES


@pytest.mark.parametrize(("name", "shape", "encoding"), DEPLOYED)
def test_deployed_messages_have_the_stated_noise(name: str, shape: CountShape, encoding: str) -> None:
    """The mean square of counters without data is the stated variance, within seven of its own deviations.

    Means over 3000 users are nearly normal: false alarms below 1e-10. Power: 0.7 times the noise has half the variance,
    and seven deviations are less than that.
    """
    made = deployed(name, shape, encoding)
    messages = np.array([made.wire.total([body]) for body in sent(name, shape, encoding)])
    squares = (messages[:, [0, 1, 2, 4, 5, 6, 7]] ** 2).mean(axis=1)  # transitions (s, a, s'): USER makes (0, 1, 1)
    stated, room = made.transition.user_variance(1), 7.0 * squares.std() / math.sqrt(DEVICES)
    assert abs(squares.mean() - stated) < room < 0.5 * stated


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("laplace", SHAPE),
        ("gaussian", POOLED),
        pytest.param("laplace", POOLED, marks=pytest.mark.slow),
        pytest.param("gaussian", SHAPE, marks=pytest.mark.slow),
    ],
)
def test_discrete_noise_conforms_in_simulation(name: str, shape: CountShape) -> None:
    """Devices and the aggregate path draw the integers that are stated; messages of the simulation are integers."""
    made = deployed(name, shape)
    loose = replace(made, claim=replace(made.claim, epsilon=40.0))
    assert "variance" in check_privatizer(loose).passed
    batch = Trajectories(*(np.tile(part, (5, 1)) for part in USER))
    for given in (batch, count_trajectories(batch, 2, 2)):
        released = made.release(made.begin(), given, TOTALS, seeded(3))[1].statistics
        assert np.array_equal(released.transitions, np.rint(released.transitions))
        assert np.array_equal(released.rewards, np.rint(released.rewards))


def test_continuous_and_bounded_noise_is_not_deployed() -> None:
    for name in ("laplace", "gaussian", "bounded"):
        with pytest.raises(NotSupported, match="no exact integer form"):
            make(name).wire.encode(USER, SecureNoise())
        with pytest.raises(InvalidInput, match=r"whole numbers|exact integer form"):
            make(name).release_of(STAGE)
    device = make("oue").release_of(STAGE)
    with pytest.raises(TypeError, match="Noise"):
        device.encode(Trajectory(*USER), np.random.default_rng(0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="2 steps"):
        device.encode(Trajectory(np.zeros(4, dtype=np.int64), np.zeros(3, dtype=np.int64), np.zeros(3)), SecureNoise())


@pytest.mark.parametrize("sent", [b"\x09\x00", b"\x01", b"\x01\x00\x00", b"\xff\x00"])
def test_a_message_that_no_device_sends_is_refused(sent: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"slot|2 bytes"):
        make("oue").wire.check(sent)


def test_the_coin_of_a_subset_has_exactly_its_odds() -> None:
    """Enclosures of o e^-γ contain it; the coin's frequency is right: 20,000 tosses, false alarms below 1e-9."""
    for odds, gamma in ((Fraction(7, 1), Fraction(2)), (Fraction(3, 5), Fraction(1, 4))):
        weights = LogisticCoin(gamma, odds).weights(64)
        true = float(odds) * math.exp(-float(gamma))
        assert weights.lower[1] / weights.lower[0] <= true * (1 + 1e-15)
        assert weights.upper[1] / weights.upper[0] >= true * (1 - 1e-15)
        assert weights.upper[1] - weights.lower[1] < 2**12
        p, n = true / (1.0 + true), 20_000
        tosses = int(bernoulli_logistic(n, SecureNoise(), gamma=gamma, odds=odds).sum())
        assert abs(tosses - n * p) < 6.2 * math.sqrt(n * p * (1.0 - p)) + 2.0
    assert not bernoulli_logistic(100, SecureNoise(), gamma=1, odds=0).any()
