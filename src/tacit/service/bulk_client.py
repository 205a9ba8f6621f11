"""Crowds: many devices over one connection pool, for rehearsals and loads; a person's own device needs none of this.

    answers = await send_all(devices, over, at_once=64)

Every device keeps its own state and draws its own noise; only connections are shared. At most `at_once` conversations
are under way, and one that fails does not stop the others: its error is its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tacit.errors import TacitError, require_count
from tacit.service.device import RemoteDevice
from tacit.service.http_client import Exchange, converse_async
from tacit.study.bundle import Bundle

if TYPE_CHECKING:
    import httpx

Result = TypeVar("Result")


async def for_all(
    devices: Iterable[RemoteDevice],
    exchange: Callable[[RemoteDevice], Exchange[Result]],
    over: httpx.AsyncClient,
    *,
    at_once: int = 64,
) -> list[Result | TacitError]:
    """One exchange of every device, in the order of the devices; what tacit refuses is its result."""
    gate = asyncio.Semaphore(require_count("at_once", at_once))

    async def one(device: RemoteDevice) -> Result | TacitError:
        async with gate:
            try:
                return await converse_async(exchange(device), over)
            except TacitError as error:
                return error

    return list(await asyncio.gather(*(one(device) for device in devices)))


async def refresh_all(
    devices: Sequence[RemoteDevice], over: httpx.AsyncClient, *, at_once: int = 64
) -> list[Bundle | TacitError]:
    """`refresh` of all."""
    return await for_all(devices, lambda device: device.refreshing(), over, at_once=at_once)


async def join_all(
    devices: Sequence[RemoteDevice], over: httpx.AsyncClient, *, at_once: int = 64
) -> list[bool | TacitError]:
    """`join` of all."""
    return await for_all(devices, lambda device: device.joining(), over, at_once=at_once)


async def send_all(
    devices: Sequence[RemoteDevice], over: httpx.AsyncClient, *, at_once: int = 64, within: float | None = None
) -> list[str | TacitError]:
    """`send` of all."""
    return await for_all(devices, lambda device: device.sending(within), over, at_once=at_once)
