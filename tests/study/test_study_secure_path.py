"""The secure path is the exact samplers: no seeded generator, payloads replayed from recorded bytes, covers measured."""

from __future__ import annotations

import ast
import importlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_bits import Recorded, recording, replaying
from secure_paths import KINDS, OF_CHANNELS, PATHS, TWINS, SecurePath

import tacit
from tacit.mechanisms import exact
from tacit.randomness import SecureNoise

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
        if module.startswith("tacit.mechanisms.exact"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for scope in ast.walk(tree):
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
        for path in touched:
            path.release()


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
            if own.startswith(("numpy.random", "random", "_random")) or own == "None" or home.__name__ == "numpy.random":
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
    """Constructors, the functions of old, bit generators, the module of the standard library, and names held by tacit."""
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
