"""Simulated people of a demonstration: a slice of them lives one stage, each with a device of its own over HTTP.

Devices keep their state in memory here: thousands on one disk would measure the disk. Some people stay away and some
send a cover report; everybody takes a token at another time than the report is sent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tacit.environments.registry import make
from tacit.errors import InvalidInput, TacitError
from tacit.service.bulk_client import join_all, refresh_all, send_all
from tacit.service.device import PinnedKeys, RemoteDevice
from tacit.service.http_client import async_client
from tacit.service.retry import Backoff
from tacit.study.demo import AWAY, COVERED, live

AT_ONCE: Final = 32
PATIENCE: Final = 120.0
"""Seconds that a device tries to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some people of one stage, and where their devices go."""

    shuffler: str
    issuer: str | None
    pins: PinnedKeys
    credentials: Sequence[str]
    """One per person; without an issuer, their names."""
    seed: Sequence[int]
    """Moves what they live through, never the noise."""
    cap: float
    floor: int
    """The limits of their devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What became of a slice: numbers only."""

    answers: dict[str, int]
    returns: float
    """The sum of their returns: simulation only."""
    people: int
    """How many of them reported what they lived through."""


def live_stage(part: Slice) -> Lived:
    """Let a slice of people live one stage."""
    return asyncio.run(_live_stage(part))


async def _live_stage(part: Slice) -> Lived:
    rng, world = np.random.default_rng(list(part.seed)), make("riverswim")
    devices = [_device(part, credential) for credential in part.credentials if rng.random() >= AWAY]
    returns, people = 0.0, 0
    async with async_client(AT_ONCE) as over:
        _require(await refresh_all(devices, over, at_once=AT_ONCE))
        _require(await join_all(devices, over, at_once=AT_ONCE))
        for device in devices:
            if rng.random() < COVERED:
                device.cover()
            else:
                lived = live(device, world, rng)
                device.report(lived)
                returns, people = returns + float(sum(lived["rewards"])), people + 1
        sent = _require(await send_all(devices, over, at_once=AT_ONCE, within=PATIENCE))
    return Lived(answers=dict(Counter(str(word) for word in sent)), returns=returns, people=people)


def _device(part: Slice, credential: str) -> RemoteDevice:
    return RemoteDevice(
        None,
        shuffler=part.shuffler,
        issuer=part.issuer,
        pins=part.pins,
        credential=None if part.issuer is None else credential,
        name=credential if part.issuer is None else None,
        cap=part.cap,
        floor=part.floor,
        backoff=Backoff(first=0.1, most=5.0),
    )


def _require(results: Sequence[object]) -> Sequence[object]:
    """Raise the first refusal: in a demonstration there should be none."""
    for result in results:
        if isinstance(result, TacitError):
            raise InvalidInput(f"a simulated device was refused: {result}")
    return results
