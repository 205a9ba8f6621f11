"""The channels by name: one table from what stands in a study file to the class that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.errors import UnknownName
from tacit.study.channels.batches import CentralBatchChannel
from tacit.study.channels.central import CentralChannel
from tacit.study.channels.gradient import GradientChannel
from tacit.study.channels.local import LocalChannel
from tacit.study.channels.losses import LossChannel
from tacit.study.channels.returns import ReturnChannel
from tacit.study.channels.shuffle import ShuffleChannel
from tacit.study.contract import Channel

__all__ = ["CHANNELS", "channel_from_dict"]

CHANNELS: Final[Mapping[str, type[Channel]]] = {
    "central-batch": CentralBatchChannel,
    "central-gradient": GradientChannel,
    "central-losses": LossChannel,
    "central-totals": CentralChannel,
    "local": LocalChannel,
    "local-returns": ReturnChannel,
    "shuffle": ShuffleChannel,
}
"""Channels by kind."""


def channel_from_dict(plain: Mapping[str, Any]) -> Channel:
    """The channel that `to_dict` wrote."""
    kind = str(plain.get("kind"))
    if kind not in CHANNELS:
        raise UnknownName("kind of channel", kind, CHANNELS)
    return CHANNELS[kind].from_dict(plain)
