"""The simulated worlds of the cases, registered with Gymnasium: `gymnasium:papers.worlds:tacit/Titration-v0`.

| id | states | decisions | bounds of a decision's reward | named policies |
|---|---|---|---|---|
| tacit/Titration-v0 | dose (5) x yesterday (3) | 7 | [0, 1] | textbook (low: lower, high: raise, fine: keep) |
| tacit/Watching-v0 | mean quality of what was watched (4 bins); ended | 12, of 10 pages each | [0, 40] | interest |

Gymnasium imports this module for an id that is written with it, in every process that makes such a world.
"""

from __future__ import annotations

from typing import Final

from gymnasium.envs.registration import register, registry

from tacit.environments.discretise import Bins, Numbers
from tacit.environments.live_sources import PRESETS, LivePreset

__all__ = ["RENAMED", "TITRATION", "TITRATION_ID", "WATCHING", "WATCHING_ID"]

TITRATION_ID: Final = "papers.worlds:tacit/Titration-v0"
"""Insulin titration on virtual patients."""
WATCHING_ID: Final = "papers.worlds:tacit/Watching-v0"
"""Sessions of people who watch videos."""
RENAMED: Final = {name.partition(":")[2]: name for name in (TITRATION_ID, WATCHING_ID)}
"""What committed results of version 0.8.0 and before call them -> their names today."""

TITRATION: Final = LivePreset(
    summary="adjust the insulin of a virtual patient every morning for a week",
    horizon=7,
    rewards=(0.0, 1.0),
    discretiser=Numbers(count=15),
    stationary=True,
    ends=False,
    policies={"textbook": (0, 1, 2) * 5},
)
"""Of five doses: lower (0) after a low day, keep (1) after a fine one, raise (2) after a high one."""
WATCHING: Final = LivePreset(
    summary="choose every ten pages which topics a person is shown first",
    horizon=12,
    rewards=(0.0, 40.0),
    discretiser=Bins(edges=((-1.0, 0.0, 1.0),)),
    policies={"interest": (0, 0, 0, 0)},
)
"""The state is the mean quality of what the person watched, as the service rates it."""

for known, preset, place in (
    (TITRATION_ID, TITRATION, "papers.glucose.titration:Titration"),
    (WATCHING_ID, WATCHING, "papers.watching.world:Watching"),
):
    PRESETS[known] = preset
    if (name := known.partition(":")[2]) not in registry:
        register(id=name, entry_point=f"{place}Env", vector_entry_point=f"{place}VectorEnv")
