"""The longest envelope that devices of a study can send: what a shuffler must let in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tacit.release.contract import Release
from tacit.release.shuffle_release import ShuffleRelease
from tacit.service.encryption.envelope import envelope_size
from tacit.study.sealed_batches import message_size
from tacit.study.wire import Report

TOKEN: Final = 1030
"""The longest token, credential or name with its head."""


def largest_envelope(channels: Sequence[Release], layers: int) -> int:
    """The bytes of the longest envelope: every block that could overflow has overflowed, and the longest token."""
    head = len(Report(study=bytes(32), stage=0, id=bytes(16), body=b"").encode())
    return envelope_size(TOKEN, head + max(_largest_body(channel, layers) for channel in channels))


def _largest_body(channel: Release, layers: int) -> int:
    if not isinstance(channel, ShuffleRelease):
        return channel.body_size
    transport = channel.transport
    size = message_size(channel, layers) if layers else channel.labels.itemsize
    # As many blocks as all noise bits of a device need, and the slots of its data.
    blocks = -(-transport.noise_bits // transport.block)
    return (transport.report_size + (blocks - 1) * transport.block) * size
