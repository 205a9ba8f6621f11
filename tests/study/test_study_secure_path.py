"""The secure path is the exact samplers: no seeded generator, payloads replayed from recorded bytes, covers too."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import math
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from channel_tools import rejected
from log_tools import MAPPING, ROWS, write
from recorded_bits import Recorded, recording, replaying
from scipy import stats
from secure_paths import (
    KINDS,
    MEANS,
    OF_CHANNELS,
    PATHS,
    TWINS,
    SecurePath,
    central_channels,
    central_noise,
    local_channels,
    return_channel,
    shuffle_channels,
    vector_channel,
)
from study_fakes import REHEARSAL

import tacit
from tacit.data.trajectories import FeatureUsers, Trajectory
from tacit.errors import TacitError
from tacit.features import Features
from tacit.learners.table import LEARNERS
from tacit.noise import exact
from tacit.noise.one_slot import OneSlot
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.policies import tabular
from tacit.randomness import SecureNoise
from tacit.release import codecs as wires
from tacit.release import curator, directions, returns
from tacit.release.shuffle import labels as shuffle_module
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.study.assembly import BASES
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.episodes import log_reports
from tacit.study.learning import learn
from tacit.study.linear_bandit import LinearBandit
from tacit.study.study import Study
from tacit.study.trial import LEARNERS as TRIALS
from tacit.study.trial import plan_trial, trial_bit

SOURCES = Path(tacit.__file__).parent
NAMES = [path.name for path in PATHS]
SAMPLERS = {name: getattr(exact, name) for name in exact.__all__}


def replays(path: SecurePath) -> bool:
    """Whether the release is what slow samplers make of the bytes that it drew, all of them."""
    with recording() as drawn:
        released = path.release()
    bits = Recorded(drawn)
    try:
        found = path.replay(bits)
        bits.finish()
    except AssertionError:
        return False
    return bool(found == released)


# --------------------------------------------------------------------------------------------------- what is covered


def test_every_kind_of_channel_has_a_twin() -> None:
    assert set(TWINS) == set(KINDS)
    assert {kind for kind, _ in OF_CHANNELS} == set(KINDS)
    assert len(set(NAMES)) == len(NAMES)


@cache
def sites() -> dict[tuple[str, str], set[str]]:
    """Module and function of everything outside of the samplers that calls one, with the names of the samplers."""
    found: dict[tuple[str, str], set[str]] = {}
    for file in sorted(SOURCES.rglob("*.py")):
        module = ".".join(["tacit", *file.relative_to(SOURCES).with_suffix("").parts])
        if module.startswith("tacit.noise.exact"):
            continue
        text = file.read_text(encoding="utf-8")
        if not any(name in text for name in (*SAMPLERS, "random_bytes")):
            continue  # what is not named is not called
        for scope in ast.walk(ast.parse(text)):
            if isinstance(scope, ast.FunctionDef):
                called = {node.func.id for node in ast.walk(scope) if _calls_name(node)} & set(SAMPLERS)
                called |= {node.func.attr for node in ast.walk(scope) if _calls_attribute(node)} & {"random_bytes"}
                if called:
                    found[module, scope.name] = called
    return found


def _calls_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def _calls_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def test_samplers_are_imported_by_name_and_their_source_by_nobody() -> None:
    """So that `sites` sees every call: no other name, no module, and no words of the operating system elsewhere."""
    for file in sorted(SOURCES.rglob("*.py")):
        if file.is_relative_to(SOURCES / "noise" / "exact"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not [one for one in node.names if one.name.startswith("tacit.noise.exact")], file
            if isinstance(node, ast.ImportFrom):
                given = {one.name: one.asname for one in node.names}
                assert "secure_bits" not in given, file
                assert not (node.module == "tacit.noise" and "exact" in given), file
                if str(node.module).startswith("tacit.noise.exact"):
                    assert not any(given.values()), file


def visited(release: Any) -> set[tuple[str, str]]:
    """Module and function of everything of tacit that stood above a draw from the operating system."""
    seen: set[tuple[str, str]] = set()
    real = SecureNoise.random_bytes

    def looked(noise: SecureNoise, count: int) -> bytes:
        frame = sys._getframe(1)
        while frame is not None:
            seen.add((str(frame.f_globals.get("__name__")), frame.f_code.co_name))
            frame = frame.f_back  # type: ignore[assignment]
        return real(noise, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureNoise, "random_bytes", looked)
        release()
    return seen


def test_every_place_that_draws_is_on_a_path() -> None:
    """A new function that calls an exact sampler, or asks for bytes itself, needs a path with a twin."""
    seen = set().union(*(visited(path.release) for path in PATHS))
    assert len(sites()) > 15
    assert set(sites()) <= seen
    # Nobody but the samplers makes something of bytes.
    assert not [place for place, called in sites().items() if "random_bytes" in called]


# ------------------------------------------------------------------------------------------------------------- replay


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_release_is_what_slow_samplers_make_of_its_bytes(path: SecurePath) -> None:
    for _ in range(2):
        assert replays(path)


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_release_depends_on_its_bytes_alone(path: SecurePath) -> None:
    """The same bytes give the same release: there is no other source, compiled or not."""
    with recording() as drawn:
        released = path.release()
    with replaying(bytes(drawn)):
        assert path.release() == released


def planted(sampler: str, shape_of: Any) -> Any:
    """A mutant: floating-point numbers of a generator that is seeded by eight bytes, in the place of a sampler."""
    count_or_values = shape_of

    def mutant(*arguments: Any, **options: Any) -> Any:
        noise = next(one for one in arguments if isinstance(one, SecureNoise))
        seeded = np.random.Generator(np.random.PCG64(int.from_bytes(noise.random_bytes(8), "little")))
        size = count_or_values(arguments[0])
        if sampler == "discrete_gaussian":
            return np.rint(seeded.normal(scale=float(options["variance"]) ** 0.5, size=size)).astype(np.int64)
        if sampler in ("discrete_laplace", "geometric"):
            return np.rint(seeded.laplace(scale=float(options["scale"]), size=size)).astype(np.int64)
        if sampler == "permutation":
            return seeded.permutation(arguments[0])
        if sampler == "uniform_integers":
            return seeded.integers(options["below"], size=size)
        if sampler == "bernoulli_each":
            return seeded.random(size) < arguments[0]
        if sampler == "fair_bits":
            return seeded.integers(2, size=size).astype(np.uint8)
        chance = options.get("probability")
        if chance is None:
            weight = float(options.get("odds", 1)) * np.exp(-float(options["gamma"]))
            chance = weight / (1.0 + weight)
        return seeded.random(size) < float(chance)

    return mutant


def mutants() -> list[tuple[str, str]]:
    """Every sampler that some module calls, by module: each can be replaced on its own."""
    return sorted({(module, name) for (module, _), called in sites().items() for name in called if name in SAMPLERS})


@pytest.mark.parametrize(("module", "sampler"), mutants(), ids=lambda one: str(one).rpartition(".")[2])
def test_floats_of_a_seeded_generator_in_the_place_of_any_sampler_are_caught(
    module: str, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant of a normal number seeded by eight bytes, and its relatives: replay fails, and so does the ban."""
    where = importlib.import_module(module)
    touched = [path for path in PATHS if _draws_in(path.name, module)]
    assert touched
    shape_of = np.shape if sampler == "bernoulli_each" else lambda size: size
    monkeypatch.setattr(where, sampler, planted(sampler, shape_of))
    assert not all(replays(path) for path in touched)
    with pytest.raises(Seeded), no_seeded_generators():
        [path.release() for path in touched]


@cache
def _visited_by(name: str) -> set[tuple[str, str]]:
    return visited(PATHS[NAMES.index(name)].release)


def _draws_in(name: str, module: str) -> bool:
    return any(place[0] == module and place in sites() for place in _visited_by(name))


# ----------------------------------------------------------------------------------------------- no seeded generators


class Seeded(AssertionError):
    """A secure path asked `numpy.random` or `random` for something."""


@contextmanager
def no_seeded_generators() -> Iterator[None]:
    """Whatever `numpy.random` and `random` offer raises, wherever tacit holds it; the operating system's stays."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Seeded("a seeded generator in a secure path")

    class Refused:
        __init__ = refuse

    banned: dict[int, Any] = {}
    homes = [module for name, module in sys.modules.items() if name.startswith("numpy.random") or name == "random"]
    for home in homes:
        for name, value in vars(home).items():
            own = str(getattr(value, "__module__", None) or home.__name__)
            if value is random.SystemRandom or name.startswith("__") or not callable(value):
                continue
            if (
                own.startswith(("numpy.random", "random", "_random"))
                or own == "None"
                or home.__name__ == "numpy.random"
            ):
                banned[id(value)] = Refused if isinstance(value, type) else refuse
    with pytest.MonkeyPatch.context() as patch:
        ours = [module for name, module in list(sys.modules.items()) if name == "tacit" or name.startswith("tacit.")]
        for module in [*homes, *ours]:
            for name, value in list(vars(module).items()):
                held = isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator)
                assert not (held and module in ours), f"{module.__name__}.{name} is a generator"
        for module in [*homes, *ours]:
            for name, value in list(vars(module).items()):
                if id(value) in banned and module.__name__ != "numpy.random.mtrand._rand":
                    patch.setattr(module, name, banned[id(value)])
        yield


def test_the_ban_covers_every_door() -> None:
    """Constructors, the functions of old, bit generators and the module of the standard library."""
    doors = ["default_rng", "Generator", "PCG64", "SeedSequence", "RandomState", "normal", "random", "laplace", "seed"]
    with no_seeded_generators():
        for name in doors:
            with pytest.raises(Seeded):
                getattr(np.random, name)(1)
        for name in ("Random", "random", "gauss", "shuffle", "getrandbits", "seed"):
            with pytest.raises(Seeded):
                getattr(random, name)()
        assert 0 <= random.SystemRandom().random() < 1
    assert np.random.default_rng(0).random() < 1.0


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_no_path_needs_a_seeded_generator(path: SecurePath) -> None:
    path.release()  # what is compiled or remembered is so before
    with no_seeded_generators():
        path.release()


ROWS_OF = Features(age=(18, 90), tired=bool)


@cache
def designs() -> dict[str, StudyDesign]:
    """A small study for every name of `DESIGNS`, with the first learner that asks that query."""
    found: dict[str, StudyDesign] = {}
    for asks, trust in BASES:
        for name, row in LEARNERS.items():
            key = f"{asks.__name__} {trust}"
            if row.asks is asks and not row.reference and key not in found:
                small = (
                    {"states": ("all",), "horizon": 1} if asks is ReturnQuery else {"states": ("a", "b"), "horizon": 2}
                )
                small = {"features": ROWS_OF} if asks is MomentQuery else small
                target, least = (1, 1) if asks is LossQuery else (40, 30)
                with contextlib.suppress(TacitError):
                    found[key] = plan_study(
                        actions=("x", "y"), learner=name, trust=trust, epsilon=4.0, stages=2, target=target,
                        least=least, delta=0.0 if trust == "local" else 1e-6, **small,
                    )  # fmt: skip
        assert key in found, key
    for trust in TRIALS:
        delta = 0.0 if trust == "local" else 1e-6
        made = plan_trial(arms=("old", "new"), people=40, trust=trust, epsilon=4.0, delta=delta, least=30)
        found[f"trial {trust}"] = made
    return found


DESIGNS = sorted([*(f"{asks.__name__} {trust}" for asks, trust in BASES), *(f"trial {trust}" for trust in TRIALS)])
"""Every query and trust model that studies answer. They are planned when a test asks for them: that takes seconds."""


@pytest.mark.parametrize("name", DESIGNS)
def test_devices_and_collectors_need_no_seeded_generator(name: str, tmp_path: Path) -> None:
    """Bundles are taken, arms and actions drawn, reports and covers made and counted, a stage closed and released."""
    design = designs()[name]
    assert sorted(designs()) == DESIGNS
    study = Study.new(tmp_path / "study", design, seed=0)
    bundle, head = study.plan(), study.head
    with no_seeded_generators():
        collector = Collector.new(tmp_path / "collector", design)
        collector.open(bundle)
        people = Bundle.parse(bundle)["least"]
        for number in range(people):
            device = Device(tmp_path / f"device {number}", **REHEARSAL)
            found = device.accept(bundle)
            state = {"age": 20 + number, "tired": True} if found.features else number % len(found["states"])
            actions = [device.act(h, state) for h in range(found["horizon"])]
            rewards = [trial_bit(0.3, (0.0, 1.0)) for _ in actions]
            first = state if found.features else found["states"][0]
            life = {"states": [first] * (len(actions) + 1), "actions": actions, "rewards": rewards}
            assert (
                collector.add(device.cover() if number == 3 else device.report(life), f"person {number}") == "counted"
            )
        assert collector.close() == people
        release = collector.release(head)
    study.take(release)


def test_a_log_is_learned_from_without_a_seeded_generator(tmp_path: Path) -> None:
    """One release with secure noise from a log of people with several episodes, some of which are left out."""
    path = write(tmp_path / "log.csv", [[f"Q{i // 3}", f"E{i}", *row[2:]] for i in range(60) for row in ROWS[:3]])
    with no_seeded_generators():
        learned = learn(path, MAPPING, epsilon=2.0, delta=1e-3, behaviour="known", reports_per_person=2)
    assert learned.certificate.release


def test_a_frame_is_learned_from_without_a_seeded_generator() -> None:
    """Persons with more rows than count, rewards between the levels, and a score."""
    n = 60
    i = np.arange(n)
    frame = {
        "who": i // 3, "age": 20.0 + i, "tired": i % 2 == 0, "given": np.array(["x", "y"])[i % 2], "points": i / n,
        "p": np.full(n, 0.5),
    }  # fmt: skip
    bandit = LinearBandit(
        actions=["x", "y"], features=ROWS_OF, reward=(0, 1), trust="central", epsilon=1.0, delta=1e-6,
        reports_per_person=2,
    )  # fmt: skip
    columns = {"action": "given", "reward": "points", "person": "who"}
    with no_seeded_generators():
        bandit.fit(frame, **columns)
        bandit.score(frame, **columns, propensity="p", min_propensity=0.5, epsilon=1.0, delta=1e-6)
    assert bandit.certificate_.release
    assert bandit.score_certificate_.release


def test_a_log_becomes_reports_without_a_seeded_generator(tmp_path: Path) -> None:
    design = designs()["Totals central"]
    study, collector = Study.new(tmp_path / "s", design, seed=0), Collector.new(tmp_path / "c", design)
    bundle = study.plan()
    collector.open(bundle)
    acted = tabular(Bundle.parse(bundle).arms[0][0]).probabilities(2).argmax(axis=2)
    rows = [[f"Q{i}", "0", str(h), "a", design.actions[acted[h, 0]], "0.3"] for i in range(40) for h in range(2)]
    path = write(tmp_path / "log.csv", rows, ["person", "episode", "step", "state", "action", "reward"])
    with no_seeded_generators():
        assert set(collector.add_many(log_reports(collector, path))) == {"counted"}


@dataclass(frozen=True)
class Told:
    """A stage of returns as a device of the second group uses it."""

    channel: Any

    def encode(self, trajectory: Any, noise: Any) -> bytes:
        body: bytes = self.channel.answer(MEANS, 1, trajectory, noise)
        return body


def cover_channels() -> dict[str, Any]:
    """A channel of every kind and mechanism of the registries."""
    found: dict[str, Any] = {"local-returns": Told(return_channel())}
    found |= {f"local {name}": one for name, one in local_channels().items()}
    found |= dict(shuffle_channels())
    found |= central_channels()
    found |= {f"{trust}-vectors": vector_channel(trust) for trust in ("shuffle", "local")}
    assert {name.split()[0] for name in found} == set(KINDS)
    return found


@pytest.mark.parametrize("name", [name for name in sorted(cover_channels()) if name != "central-losses"])
def test_a_device_draws_as_much_whatever_was_earned(name: str) -> None:
    """Requests to the operating system, one by one: the same for certain, fractional and missing rewards."""
    channel = cover_channels()[name]

    def asked(reward: float) -> list[int]:
        stream, sizes = Recorded(hashlib.shake_256(name.encode()).digest(2**14)), []
        life: Any = Trajectory(np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.int64), np.array([reward, 1.0]))
        if name.endswith("-vectors"):
            life = FeatureUsers(np.full((1, 2), 0.4), np.array([1]), np.array([reward]), np.array([1]))
        with mock.patch("tacit.randomness.os", SimpleNamespace(urandom=lambda n: sizes.append(n) or stream.take(n))):
            channel.encode(life, SecureNoise())
        return sizes

    assert asked(0.3)
    assert all(asked(reward) == asked(0.3) for reward in (0.0, 1.0, 0.5, 1e-9, float("nan")))


# ------------------------------------------------------------------------------------------------------ cover reports


COVERS = 1500
"""Cover reports, or under central trust noisy numbers of stages of covers: so many are measured."""
Table = tuple[Any, Any]


def covers_of(channel: Any) -> list[bytes]:
    return [channel.encode(None, SecureNoise()) for _ in range(COVERS)]


def tables_of(name: str, channel: Any, off: float = 1.0) -> list[Table]:
    """Counts of what cover reports hold, and what their stated law expects where noise is `off` times as large."""
    kind = name.split()[0]
    if kind.startswith("central"):
        return [_binned(central_noise(name, channel, COVERS), off)]
    bodies = covers_of(channel)
    assert {len(body) for body in bodies} == {len(bodies[0])}
    if kind == "local-returns":
        assert {body[0] for body in bodies} == {1}
        return [_bits(np.array([body[1] for body in bodies]), 0.5 * off)]
    if kind == "local-vectors":
        k, M = channel.chosen, channel.directions
        index = np.array([body[-1] for body in [*bodies, *covers_of(channel)]])
        law = np.where(np.arange(M) < k, np.exp(channel.epsilon / off), 1.0)
        # Of 3,000 indices: whether they are among the first k decides, at 65 % of epsilon with probability above 0.999.
        return [
            _bits(index < k, law[:k].sum() / law.sum()),
            (np.bincount(index, minlength=M), len(index) * law / law.sum()),
        ]
    if kind.startswith("shuffle"):
        labels = np.array([np.frombuffer(body, dtype="<u2") for body in bodies])
        C, m, q = channel.num_counters, channel.bits_per_user, float(channel.probability) * off
        each = np.array([np.bincount(row, minlength=C + 1)[:C] for row in labels])
        each = (each - (channel.offsets if kind == "shuffle-vectors" else 0)).ravel()
        law = stats.binom.pmf(np.arange(m + 1), m, q)
        law = np.convolve(law, law[::-1]) if channel.mirrored else law
        return [(np.bincount(each, minlength=len(law)), len(each) * law)]
    if channel.outcome.NAME in ("laplace", "gaussian"):
        width = channel.body_size // channel.wire.counters
        sent = np.array([np.frombuffer(body, dtype=f"<i{width}") for body in bodies]).astype(np.int64)
        z = np.arange(-40_000, 40_001)
        own = channel.outcome
        gamma = np.abs(z) / (off * own.scale) if own.NAME == "laplace" else z**2 / (2 * (off * own.sigma) ** 2)
        law = np.exp(-gamma) / np.exp(-gamma).sum()
        return [(np.bincount(sent.ravel() + 40_000, minlength=len(z)), sent.size * law)]
    raw = np.array([np.frombuffer(body, dtype=np.uint8) for body in bodies])
    if channel.outcome.NAME == "rr":
        bits = np.unpackbits(raw, axis=1, bitorder="little")[:, : channel.wire.bits]
        return [_bits(bits.ravel(), channel.outcome.flip * off)]
    found: list[Table] = [(np.bincount(raw[:, 0], minlength=3), np.full(3, COVERS / 3))]
    for slot in range(3):
        own = channel.transition if slot % 2 else channel.outcome
        bits = np.unpackbits(raw[raw[:, 0] == slot, 1:], axis=1, bitorder="little")[:, :8]
        if own.NAME == "oue":
            found.append(_bits(bits.ravel(), off / (1.0 + math.exp(own.epsilon))))
            continue
        # Every subset of the size is as likely: a cell is drawn, and kept or left out.
        subsets = {chosen: place for place, chosen in enumerate(combinations(range(8), own.size))}
        seen = np.bincount([subsets[tuple(np.flatnonzero(row))] for row in bits], minlength=len(subsets))
        law = np.where([0 in chosen for chosen in subsets], off, 1.0)
        found.append((seen, len(bits) * law / law.sum()))
    return found


def _bits(bits: Any, chance: float) -> Table:
    ones = int(bits.sum())
    return [len(bits) - ones, ones], [len(bits) * (1.0 - chance), len(bits) * chance]


def _binned(z: Any, off: float) -> Table:
    """Noise over its stated deviation in 20 bins that a normal variable meets equally often."""
    edges = stats.norm.ppf(np.arange(1, 20) / 20)
    law = np.diff(stats.norm.cdf(edges / off), prepend=0.0, append=1.0)
    return np.bincount(np.searchsorted(edges, z), minlength=20), len(z) * law


def fits(name: str, channel: Any, off: float = 1.0) -> bool:
    """Whether cover reports have their law; a false alarm has probability 1e-6 per table."""
    return not any(rejected(*table) for table in tables_of(name, channel, off))


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(cover_channels()))
def test_cover_reports_carry_the_noise_of_their_law(name: str) -> None:
    """Power: noise of 65 % of what is stated, or a cell four times as likely, is missed with probability below 0.01."""
    channel = cover_channels()[name]
    assert fits(name, channel)
    assert not fits(name, channel, off=1.0 / 0.65 if "subset" not in name else 4.0)


def without_noise(name: str, patch: pytest.MonkeyPatch) -> None:
    """A mutant: a cover report, or a stage of cover reports, that draws nothing."""
    kind = name.split()[0]
    if kind.startswith("central"):
        patch.setattr(curator, "draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64))
    elif kind == "local-vectors":
        patch.setattr(directions, "bernoulli_logistic", lambda size, noise, gamma, odds: np.zeros(size, dtype=bool))
    elif kind.startswith("shuffle"):
        patch.setattr(
            shuffle_module, "noise_coins", lambda transport, noise: np.zeros(transport.noise_bits, dtype=np.uint8)
        )
    elif kind == "local-returns":
        patch.setattr(returns, "uniform_below", lambda limit, noise: 0)
    else:
        for kind in (OneSlot, SubsetSelection, UnaryEncoding):
            patch.setattr(
                kind,
                "sent_bits",
                lambda own, cells, hot, noise: (np.arange(cells) < getattr(own, "size", 0)).astype(np.int64),
            )
        patch.setattr(wires, "flipped", lambda own, bits, noise: bits)
        patch.setattr(wires.IntegersCodec, "_noise", lambda wire, noise: np.zeros(wire.counters, dtype=np.int64))


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(cover_channels()))
def test_cover_reports_without_noise_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = cover_channels()[name]
    without_noise(name, monkeypatch)
    assert not fits(name, channel)
    assert not all(replays(path) for kind, path in OF_CHANNELS if kind == name.split()[0])
