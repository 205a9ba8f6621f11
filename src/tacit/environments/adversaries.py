"""Oblivious adversaries: they choose all losses before the first episode and know the world, but no learner's coins.

    iid             a coin with the world's mean losses, every episode alike
    sinusoidal      the means swing, each with its own frequency and phase; no coins
    switching       coins whose means jump at the ends of equal segments
    turning         coins whose means turn into their opposites, once and early: what was learned first is wrong
    drift           the means wander on a straight line to another table; no coins
    worst-of-two    two opposite tables in turn: all fixed policies pay the same, whoever follows the leader pays more
    table           losses of your own, [episodes, states, actions], checked to lie in [0, 1]

Losses are made in blocks [episodes, pairs]; the pair (x,a) has the number x A + a. An adversary is written like an
environment, `switching:segments=20`; which parameters there are comes from the signature of its builder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.layered import Adversary, LossTable, LossWorld
from tacit.environments.registry import EnvironmentInfo, described, read_spec
from tacit.errors import InvalidInput, require, require_count, require_real


def iid(world: LossWorld, episodes: int) -> Adversary:
    """A coin with the world's mean losses: every episode alike."""
    mean = world.base.ravel()

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        del first
        return _coins(np.broadcast_to(mean, (count, mean.size)), rng)

    return Adversary(name="iid", episodes=episodes, mean=mean, described="iid", _block=block)


def sinusoidal(
    world: LossWorld, episodes: int, *, amplitude: float = 0.2, least: int = 2, most: int = 6, seed: int = 0
) -> Adversary:
    """Mean losses swing, each pair with its own frequency and phase; no coins."""
    height = require_real("amplitude", amplitude, low=0.0, high=1.0)
    low, high = require_count("least", least), require_count("most", most)
    require(low <= high, "least periods must not exceed most", (low, high))
    generator, center = _generator(seed), world.base.ravel()
    periods = generator.uniform(low, high, size=center.size)
    phase = generator.random(center.size)

    def at(k: Floats) -> Floats:
        # l_k = m + c sin 2π (f k/K + φ)
        turns = periods * (k / episodes)[:, np.newaxis] + phase
        return np.clip(center + height * np.sin(2.0 * math.pi * turns), 0.0, 1.0)

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        del rng
        return at(np.arange(first, first + count, dtype=np.float64))

    described = f"sinusoidal {height:g} {low} {high} {seed}"
    mean = _average(at, episodes)
    return Adversary(name="sinusoidal", episodes=episodes, mean=mean, described=described, _block=block)


def switching(world: LossWorld, episodes: int, *, segments: int = 10, keep: float = 0.5, seed: int = 0) -> Adversary:
    """Coins whose means jump: every segment mixes the world's means (share `keep`) with a table of its own."""
    parts = require_count("segments", segments)
    share = require_real("keep", keep, low=0.0, high=1.0)
    base = world.base.ravel()
    tables = share * base + (1.0 - share) * _generator(seed).random((parts, base.size))

    def segment(first: int, count: int) -> Ints:
        return np.arange(first, first + count) * parts // episodes

    lengths = np.bincount(segment(0, episodes), minlength=parts)

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        return _coins(tables[segment(first, count)], rng)

    described, mean = f"switching {parts} {share:g} {seed}", lengths @ tables / episodes
    return Adversary(name="switching", episodes=episodes, mean=mean, described=described, _block=block)


def turning(world: LossWorld, episodes: int, *, at: float = 0.1) -> Adversary:
    """Coins with the world's mean losses at first, and with one minus these after a share `at` of the episodes."""
    share = require_real("at", at, low=0.0, high=1.0)
    base, turn = world.base.ravel(), math.ceil(share * episodes)

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        early = (np.arange(first, first + count) < turn)[:, np.newaxis]
        return _coins(np.where(early, base, 1.0 - base), rng)

    mean = (turn * base + (episodes - turn) * (1.0 - base)) / episodes
    return Adversary(name="turning", episodes=episodes, mean=mean, described=f"turning {share:g}", _block=block)


def drift(world: LossWorld, episodes: int, *, reach: float = 1.0, seed: int = 0) -> Adversary:
    """Mean losses wander on a straight line from the world's towards another table, `reach` of the way; no coins."""
    share = require_real("reach", reach, low=0.0, high=1.0)
    base = world.base.ravel()
    target = _generator(seed).random(base.size)

    def at(k: Floats) -> Floats:
        way = share * (k / max(1, episodes - 1))[:, np.newaxis]
        return np.asarray((1.0 - way) * base + way * target)

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        del rng
        return at(np.arange(first, first + count, dtype=np.float64))

    described, mean = f"drift {share:g} {seed}", _average(at, episodes)
    return Adversary(name="drift", episodes=episodes, mean=mean, described=described, _block=block)


def worst_of_two(world: LossWorld, episodes: int) -> Adversary:
    """Two opposite tables in turn: fixed policies all pay the same, whoever follows the leader meets the worse one."""
    # Levelled so that the uniform policy pays H/2 in both: then the leader pays less in the table it has seen more of.
    one = 0.5 + 0.5 * (world.base.ravel() - _uniform_loss(world) / world.mdp.horizon)
    other = 1.0 - one

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        del rng
        odd = (np.arange(first, first + count) % 2 == 1)[:, np.newaxis]
        return np.where(odd, one, other)

    played = (episodes // 2) / episodes
    mean = played * one + (1.0 - played) * other
    return Adversary(name="worst-of-two", episodes=episodes, mean=mean, described="worst-of-two", _block=block)


def table(world: LossWorld, episodes: int, *, path: str = "losses.npy") -> Adversary:
    """Losses of your own from a NumPy file, episodes by states by actions, checked to lie between 0 and 1."""
    try:
        loaded = np.load(Path(path), allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"'{path}' must be a readable .npy file of losses: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise InvalidInput(f"'{path}' must hold one array of losses; save it with numpy.save")
    return _from_table(LossTable(loaded), world, episodes)


ADVERSARIES: Final[Mapping[str, Callable[..., Adversary]]] = MappingProxyType(
    {
        "drift": drift,
        "iid": iid,
        "sinusoidal": sinusoidal,
        "switching": switching,
        "table": table,
        "turning": turning,
        "worst-of-two": worst_of_two,
    }
)


def make_adversary(spec: str | LossTable, world: LossWorld, episodes: int) -> Adversary:
    """Build the adversary that a specification names, or play the losses of a table.

    >>> from tacit.environments.layered import layered
    >>> adversary = make_adversary("switching:segments=4", layered(), 100)
    >>> adversary.losses(0, 100, np.random.default_rng(0)).shape
    (100, 20)
    """
    K = require_count("episodes", episodes)
    if isinstance(spec, LossTable):
        return _from_table(spec, world, K)
    if not isinstance(spec, str):
        raise InvalidInput(f"an adversary must be named like 'switching:segments=10', got {type(spec).__name__}")
    builder, parameters = read_spec("adversary", spec, ADVERSARIES)
    return builder(world, K, **parameters)


def list_adversaries() -> tuple[EnvironmentInfo, ...]:
    """The named adversaries with a one-line summary and their parameters with defaults, in alphabetical order.

    >>> [info.name for info in list_adversaries()]
    ['drift', 'iid', 'sinusoidal', 'switching', 'table', 'turning', 'worst-of-two']
    """
    return described(ADVERSARIES)


def _from_table(given: LossTable, world: LossWorld, episodes: int) -> Adversary:
    X, A = world.mdp.num_states, world.mdp.num_actions
    losses = given.losses
    fits = losses.shape[1] in ((X - 1) * A, X * A)
    require(fits, f"losses must have {X - 1} states (or {X}, with the last) and {A} actions", losses.shape[1])
    require(len(losses) >= episodes, f"losses must cover all {episodes} episodes", given=len(losses))
    mine = losses[:episodes, : (X - 1) * A]

    def block(first: int, count: int, rng: np.random.Generator) -> Floats:
        del rng
        return np.array(mine[first : first + count])  # a copy: kernels are compiled for writable arrays

    described, mean = f"table {given.fingerprint()}", mine.mean(axis=0)
    return Adversary(name="table", episodes=episodes, mean=mean, described=described, _block=block)


def _coins(means: Floats, rng: np.random.Generator) -> Floats:
    return (rng.random(means.shape) < means).astype(np.float64)


def _average(at: Callable[[Floats], Floats], episodes: int) -> Floats:
    """The mean over all episodes, from at most a thousand of them, evenly spaced."""
    k = np.arange(episodes, dtype=np.float64)
    if episodes > 1000:
        k = (np.arange(1000) + 0.5) * episodes / 1000 - 0.5
    return np.asarray(at(k).mean(axis=0))


def _uniform_loss(world: LossWorld) -> float:
    """What the uniform policy pays per episode when losses are the world's means."""
    value = np.zeros(1)
    for step, states in zip(reversed(world.mdp.transitions), reversed(world.mdp.layers[:-1]), strict=True):
        # V(x) = (1/A) Σ_a l(x,a) + Σ_x' P(x'|x,a) V(x')
        value = (world.base[states] + step @ value).mean(axis=1)
    return float(value[0])


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(require_count("seed", seed, least=0))
