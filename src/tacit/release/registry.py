"""The channels by name: one table from what stands in a study file to the class that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.errors import UnknownName
from tacit.release.batch_release import BatchRelease
from tacit.release.contract import Release
from tacit.release.directions import DirectionRelease
from tacit.release.gradient_release import GradientRelease
from tacit.release.local import LocalRelease
from tacit.release.loss_release import LossRelease
from tacit.release.returns import ReturnRelease
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.totals_release import TotalsRelease
from tacit.release.vectors import CentralVectors, ShuffleVectors

CHANNELS: Final[Mapping[str, type[Release]]] = {
    "central-batch": BatchRelease,
    "central-gradient": GradientRelease,
    "central-losses": LossRelease,
    "central-totals": TotalsRelease,
    "shuffle": ShuffleRelease,
    "local": LocalRelease,
    "local-returns": ReturnRelease,
    "central-vectors": CentralVectors,
    "shuffle-vectors": ShuffleVectors,
    "local-vectors": DirectionRelease,
}
"""Channels by kind."""


def channel_from_dict(plain: Mapping[str, Any]) -> Release:
    """The channel that `to_dict` wrote."""
    kind = str(plain.get("kind"))
    if kind not in CHANNELS:
        raise UnknownName("kind of channel", kind, CHANNELS)
    return CHANNELS[kind].from_dict(plain)
