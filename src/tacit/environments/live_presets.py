"""Presets of live worlds: what is public about well-known Gymnasium ids, chosen once and before anybody comes.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tacit.environments.discretise import Bins, Discretiser, Numbers, tiles


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


def _dealer() -> tuple[int, ...]:
    """Stick (0) with 17 or more, hit (1) below: the rule of the dealer."""
    return tuple(1 if hand < 4 else 0 for hand in range(7) for _ in range(4))


def _lean() -> tuple[int, ...]:
    """Push to the right (1) where the pole leans to the right."""
    return tuple(1 if angle >= 3 else 0 for angle in range(6) for _ in range(3))


def _far() -> tuple[int, ...]:
    """Up to the top row, along it, and down the last column: up 0, right 1, down 2, left 3."""
    return tuple(2 if s % 12 == 11 else (1 if s < 12 else 0) for s in range(48))


PRESETS: Final[dict[str, LivePreset]] = {
    "Blackjack-v1": LivePreset(
        summary="hit or stick against a dealer",
        horizon=4,
        rewards=(-1.0, 1.0),
        discretiser=BLACKJACK,
        actions=2,
        stationary=True,
        policies={"dealer": _dealer()},
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
        policies={"lean": _lean()},
    ),
    "CliffWalking-v1": LivePreset(
        summary="cross a field beside a cliff",
        horizon=25,
        rewards=(-10.0, 0.0),
        discretiser=Numbers(count=48),
        actions=4,
        stationary=True,
        policies={"far": _far()},
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
