"""Sources of live worlds: an id, an environment that was made from one, or a function that makes one, by its name.

A run must be able to make its environment anew, in any process and at any time, so nothing is kept but names and plain
options.

Presets of live worlds: what is public about well-known Gymnasium ids, chosen once and before anybody comes.

Horizons, bins and bounds are choices of tacit, small on purpose: every state costs noise. They are not the games'
own rules; `tacit.live` makes a world from any other.

| id | states | decisions | bounds of a decision's reward | named policies |
|---|---|---|---|---|
| Blackjack-v1 | hand (7 bins), dealer's card below 7 or not, usable ace; ended | 4 | [-1, 1] | dealer (sticks at 17) |
| CliffWalking-v1 | the 48 squares; ended | 25 | [-10, 0]: the fall costs 10, not 100 | far (along the top row) |
| FrozenLake-v1 | the 16 squares; ended | 20 | [0, 1] | - |
| CartPole-v1 | angle (6 bins), its speed (3); ended | 25, 4 steps each | [0, 4] | lean (push where the pole leans) |
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import gymnasium
from gymnasium.envs.registration import EnvSpec

from tacit.environments.discretise import Bins, Discretiser, Numbers, by_name, carry, tiles
from tacit.errors import InvalidInput, NotSupported, UnknownName, require


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePreset:
    """What is known about an id before anybody comes; all that is None must be chosen by the user."""

    summary: str = ""
    horizon: int | None = None
    repeat: int = 1
    rewards: tuple[float, float] | None = None
    discretiser: Discretiser | None = None
    actions: int | None = None
    """How many, numbered from 0; known without making the environment."""
    grids: Mapping[str, Discretiser] = field(default_factory=dict)
    """Other discretisers by name, `grid=fine`."""
    stationary: bool = False
    ends: bool = True
    """Whether episodes may end before the horizon."""
    policies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Named stationary policies over the discretiser's states."""


BLACKJACK: Final = Bins(edges=((12.0, 14.0, 16.0, 17.0, 18.0, 19.0), (7.0,), (1.0,)))
"""Own sum (below 12, 12-13, 14-15, 16, 17, 18, 19 and more), the dealer's card (ace to 6, 7 to 10), usable ace."""
CARTPOLE: Final = Bins(edges=((), (), (-0.1, -0.03, 0.0, 0.03, 0.1), (-0.5, 0.5)))
"""Angle in radians, and its speed; where the cart is and how fast is ignored."""
CARTPOLE_FINE: Final = tiles(low=(-0.75, -0.75, -0.2, -2.0), high=(0.75, 0.75, 0.2, 2.0), counts=(3, 3, 10, 10))
"""Place, speed, angle and its speed: 900 bins, far more than a table can learn in private from few people."""


PRESETS: Final[dict[str, LivePreset]] = {
    "Blackjack-v1": LivePreset(
        summary="hit or stick against a dealer",
        horizon=4,
        rewards=(-1.0, 1.0),
        discretiser=BLACKJACK,
        actions=2,
        stationary=True,
        # Stick (0) with 17 or more, hit (1) below: the rule of the dealer.
        policies={"dealer": tuple(1 if hand < 4 else 0 for hand in range(7) for _ in range(4))},
    ),
    "CartPole-v1": LivePreset(
        summary="keep a pole upright for 100 steps",
        horizon=25,
        repeat=4,
        rewards=(0.0, 4.0),
        discretiser=CARTPOLE,
        actions=2,
        grids={"fine": CARTPOLE_FINE},
        stationary=True,
        # Push to the right (1) where the pole leans to the right.
        policies={"lean": tuple(1 if angle >= 3 else 0 for angle in range(6) for _ in range(3))},
    ),
    "CliffWalking-v1": LivePreset(
        summary="cross a field beside a cliff",
        horizon=25,
        rewards=(-10.0, 0.0),
        discretiser=Numbers(count=48),
        actions=4,
        stationary=True,
        # Up to the top row, along it, and down the last column: up 0, right 1, down 2, left 3.
        policies={"far": tuple(2 if s % 12 == 11 else (1 if s < 12 else 0) for s in range(48))},
    ),
    "FrozenLake-v1": LivePreset(
        summary="cross a slippery lake",
        horizon=20,
        rewards=(0.0, 1.0),
        discretiser=Numbers(count=16),
        actions=4,
        stationary=True,
    ),
}
"""By Gymnasium id; a package whose worlds are named `package:Id-v0` adds its own when it is imported."""


def make_source(source: str, options: dict[str, Any], *, by_function: bool) -> gymnasium.Env[Any, Any]:
    """A fresh environment."""
    if by_function:
        maker = by_name(source)
        try:
            made = maker(**options)
        except Exception as error:
            raise InvalidInput(
                f"{source} must make an environment, it raised {type(error).__name__}: {error}"
            ) from error
    else:
        try:
            made = gymnasium.make(_versioned(source), disable_env_checker=True, **options)
        except InvalidInput:
            raise
        except Exception as error:
            kind = "" if isinstance(error, gymnasium.error.Error | ModuleNotFoundError) else f"{type(error).__name__}: "
            raise InvalidInput(
                f"'{source}' must be a Gymnasium id that can be made: {kind}{error}; ids of another package are "
                "written 'package:Id-v0' or registered by importing it"
            ) from error
    if not isinstance(made, gymnasium.Env):
        raise InvalidInput(f"{source} must make a gymnasium.Env, got {type(made).__name__}")
    return made


def _versioned(source: str) -> str:
    """The id itself; one without its version names whichever is the latest, which no run could repeat."""
    if ":" not in source and source not in gymnasium.registry:
        others = [name for name in gymnasium.registry if name.rpartition("-v")[0] == source]
        if others:
            raise UnknownName("Gymnasium id", source, others)
    return source


def preset_of(source: str) -> LivePreset:
    """What is known about an id; the package of `package:Id-v0` is imported first, as Gymnasium does."""
    package = source.rpartition(":")[0]
    if package and is_id(source):
        with suppress(ModuleNotFoundError):  # making the environment says so, in one line
            importlib.import_module(package)
    return PRESETS.get(source, LivePreset())


def spec_of(source: str) -> Any:
    """What Gymnasium knows of an id; it finds 'package:Id-v0' when it makes one, but not here."""
    package, _, name = source.rpartition(":")
    if package:
        importlib.import_module(package)
    return gymnasium.spec(name)


def source_of(environment: gymnasium.Env[Any, Any], options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The id and options of an environment that was handed over; it is made anew from them for every run."""
    spec = environment.spec
    hint = "pass its id, its class or a function that makes it: tacit.live(Walk, options={...}) for Walk(...)"
    if spec is None:
        raise NotSupported(f"{type(environment).__name__} was not made from an id, so no run could repeat it: {hint}")
    if spec.additional_wrappers:
        raise NotSupported(f"{spec.id} has wrappers of its own, so its id alone would not repeat it: {hint}")
    require(not options, "options belong to an id; an environment that was handed over has its own", sorted(options))
    kept = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    if spec.max_episode_steps != spec_of(spec.id).max_episode_steps:  # make(..., max_episode_steps=7)
        kept["max_episode_steps"] = spec.max_episode_steps
    return spec.id, kept


def name_of(maker: Callable[..., Any]) -> str:
    """`package.module:function`; the function is remembered here, since those of a prompt cannot be imported."""
    module, name = getattr(maker, "__module__", None), getattr(maker, "__qualname__", None)
    if not module or not name or "<" in name:
        raise InvalidInput(
            "a function that makes environments must have a name, got a nameless one; pass a class or a function with "
            "what it takes: tacit.live(Walk, options={...}) for lambda: Walk(...)"
        )
    carry({f"{module}:{name}": maker})
    return f"{module}:{name}"


def spec_for_workers(source: str) -> EnvSpec | None:
    """The registration of an id, for processes that did not run the script or notebook which registered it."""
    spec = gymnasium.registry.get(source)
    if spec is not None and isinstance(spec.entry_point, str) and spec.entry_point.startswith("__main__:"):
        return replace(spec, entry_point=by_name(spec.entry_point))
    return spec


def register_in_worker(spec: EnvSpec | None) -> None:
    """Register an id as `spec_for_workers` found it, unless it is known here."""
    if spec is not None:
        gymnasium.registry.setdefault(spec.id, spec)


def is_id(source: str) -> bool:
    """Whether `module:name` is an id of a package, `package:Id-v0`, and no function."""
    name = source.partition(":")[2]
    return name.rpartition("-v")[2].isdigit()


def plain_options(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Options that can be kept with a result: numbers, texts, truth values, lists of them."""
    found = []
    for name, value in sorted(options.items()):
        kept = tuple(value) if isinstance(value, list | tuple) else value
        parts = kept if isinstance(kept, tuple) else (kept,)
        plain = all(part is None or isinstance(part, bool | int | float | str) for part in parts)
        require(
            plain, f"the option {name} must be a number, a text, a truth value or a list of them", type(value).__name__
        )
        found.append((name, kept))
    return tuple(found)
