"""How a live world is written in one line: `gymnasium:ID,option=value,...`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.environments.discretise import Discretiser, Function
from tacit.environments.live import EVALUATION, LIVE_PREFIX, LiveWorld, build_live, live
from tacit.environments.live_presets import PRESETS, LivePreset
from tacit.environments.live_sources import is_id, preset_of
from tacit.errors import ForeignCode, InvalidInput, UnknownName, require

SPEC_OPTIONS: Final = (
    "horizon",
    "repeat",
    "low",
    "high",
    "stationary",
    "ends",
    "evaluation",
    "discretise",
    "count",
    "grid",
)


def live_from_spec(spec: str, stated: Mapping[str, Any] | None = None) -> LiveWorld:
    """The live world that `gymnasium:ID,option=value,...` names.

    With what a file states about it (`LiveWorld.to_dict`, or nothing), no code is run: what neither the specification
    nor a preset says is taken from there.

    >>> live_from_spec("gymnasium:CartPole-v1,horizon=10").horizon
    10
    >>> live_from_spec("gymnasium:CartPole-v1,grid=fine").num_states
    901
    >>> live_from_spec("gymnasium:Blackjack-v1,horizn=3")
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: unknown option of a live world 'horizn': did you mean 'horizon'? Known: ...
    """
    source, *listed = (part.strip() for part in spec.removeprefix(LIVE_PREFIX).split(","))
    require(bool(source), "a live world must be named like 'gymnasium:Blackjack-v1'", spec)
    given: dict[str, str] = {}
    for item in listed:
        key, equals, text = (part.strip() for part in item.partition("="))
        require(bool(equals and text), "an option of a live world must be written name=value", item)
        if key not in SPEC_OPTIONS:
            raise UnknownName("option of a live world", key, SPEC_OPTIONS)
        require(key not in given, f"each option of a live world must be given once, got {key} twice", item)
        given[key] = text
    known = preset_of(source) if stated is None else PRESETS.get(source) or _stated_preset(source, stated)
    bounds = known.rewards
    if "low" in given or "high" in given:
        both = "low" in given and "high" in given
        require(both, "low and high, the bounds of a decision's reward, belong together", spec)
        bounds = (_number(given, "low"), _number(given, "high"))
    discretiser: Discretiser | None = None
    if "discretise" in given:
        require("count" in given, "a function that discretises must come with the count of its states", spec)
        discretiser = Function(function=given["discretise"], count=_whole(given, "count"))
    if "grid" in given:
        require("discretise" not in given, "a grid and a function that discretises exclude each other", spec)
        if given["grid"] not in known.grids and (stated is None or source in PRESETS):
            raise UnknownName(f"grid of {source}", given["grid"], known.grids)
        discretiser = known.grids.get(given["grid"])
    chosen: dict[str, Any] = {
        "horizon": _whole(given, "horizon") if "horizon" in given else None,
        "rewards": bounds if "low" in given else None,
        "discretise": discretiser,
        "repeat": _whole(given, "repeat") if "repeat" in given else None,
        "ends": _truth(given, "ends", default=known.ends),
        "stationary": _truth(given, "stationary", default=known.stationary),
        "evaluation": _whole(given, "evaluation") if "evaluation" in given else EVALUATION,
    }
    if stated is None:
        return live(source, **chosen)
    by_function, first = ":" in source and not is_id(source), stated.get("actions", [0])[0]
    return build_live(known, (first, known.actions or 0), source=source, by_function=by_function, options={}, **chosen)


def _stated_preset(source: str, stated: Mapping[str, Any]) -> LivePreset:
    """What a file states about a world that only its code knows."""
    if not stated:
        raise ForeignCode(f"{source} is code that a file names, which is not run, and nothing is stated about it")
    world = LiveWorld.from_dict({name: part for name, part in stated.items() if name != "gymnasium"})
    return LivePreset(
        horizon=world.horizon,
        repeat=world.repeat,
        rewards=(world.low, world.high),
        discretiser=world.discretiser,
        actions=world.num_actions,
        stationary=world.stationary,
        ends=world.ends,
    )


def _whole(given: Mapping[str, str], name: str) -> int:
    try:
        return int(given[name])
    except ValueError as error:
        raise InvalidInput(f"{name} must be a whole number, got '{given[name]}'") from error


def _number(given: Mapping[str, str], name: str) -> float:
    try:
        return float(given[name])
    except ValueError as error:
        raise InvalidInput(f"{name} must be a number, got '{given[name]}'") from error


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default).lower())
    require(text in ("true", "false"), f"{name} must be true or false", text)
    return text == "true"
