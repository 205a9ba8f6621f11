"""Sealed stages: which channels can have them, the lengths of sealed bodies, and the manifest of a sealed batch.

A device of a sealed stage seals every label of its body by itself, in random order: to the learner, and around that, if
there is one, to a mixer. The collector cannot read a label. It checks lengths, permutes all messages of the stage and
hands them over as a file; its release holds the manifest of that file:

    manifest    "TCM1" sha256(file)[32] count u64 size u16 sha256(tokens)[32]             little endian

L1  Only sums of labels can be sealed: what leaves an unsealed collector of such a stage is the histogram of all labels,
    which the learner counts itself here (Lemma M9 (sealed messages)). Other channels have noise that the collector
    draws, or messages that are public anyhow.
L2  A sealed body is as long as the unsealed one has labels, times the public size of a sealed label. So it has one
    length, and whole blocks more with the certified probability (Lemma M6 (overflowing blocks)).
L3  `layers` is public and fixed when a collector or study begins: 0 nothing is sealed, 1 to the learner, 2 to a mixer
    around it.
L4  What one device can add to the sums is its number of messages, all on one label if it likes: that a label comes at
    most m + 1 times in an honest body cannot be seen from outside. Privacy does not rest on it; accuracy does, and the
    learner's test of flow stays.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tacit.errors import NotSupported, require
from tacit.release.contract import Release
from tacit.release.shuffle.labels import LabelRelease

LAYER: Final = 48
"""What one layer of HPKE adds to a message: an encapsulated key of 32 bytes and a tag of 16."""
MAX_LAYERS: Final = 2
NO_TOKENS: Final = hashlib.sha256(b"").digest()
"""What a manifest says where reports have no tokens."""
MANIFEST: Final = b"TCM1"
MANIFEST_FORM: Final = struct.Struct("<4s32sQH32s")


def sealable(channel: Release) -> LabelRelease:
    """The channel, if its release is a sum of labels (L1); any other is `NotSupported`."""
    if not isinstance(channel, LabelRelease):
        raise NotSupported(
            f"messages can be sealed to the learner under shuffle trust only, not by a channel '{channel.KIND}'; "
            "under central and local trust a report travels in the outer envelope alone"
        )
    return channel


def require_layers(channels: Sequence[Release], layers: int) -> int:
    """The number of layers, if all channels can have so many."""
    known = isinstance(layers, int) and 0 <= layers <= MAX_LAYERS
    require(known, f"messages are sealed in 0 to {MAX_LAYERS} layers", layers)
    if layers:
        for channel in channels:
            sealable(channel)
    return int(layers)


def require_seals(channels: Sequence[Release], sealed: bool) -> None:
    """Refuse services whose shuffler would read every report with its sender although messages can be sealed."""
    read = not sealed and any(isinstance(channel, LabelRelease) for channel in channels)
    hint = "set sealed = true"
    require(not read, "messages under shuffle trust must be sealed to the learner", "sealed = false", hint)


def message_size(channel: Release, layers: int) -> int:
    """The bytes of one sealed label: 50 or 98 where labels have 16 bits."""
    return sealable(channel).labels.itemsize + LAYER * layers


def body_size(channel: Release, layers: int) -> int:
    """The length of a sealed body, extra blocks aside."""
    return sealable(channel).transport.report_size * message_size(channel, layers)


def check_sealed(channel: Release, body: bytes, layers: int) -> None:
    """Raise unless a sealed body has a length that some device could have sent: all that a shuffler can see (L2)."""
    shuffled, size = sealable(channel), message_size(channel, layers)
    transport, base = shuffled.transport, body_size(channel, layers)
    extra, rest = divmod(len(body) - base, size * transport.block)
    most = -(-transport.noise_bits // transport.block) - 1
    require(rest == 0 and 0 <= extra <= most, f"a sealed body must have {base} bytes, or whole blocks more", len(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a release of a sealed stage says about its batch.

    >>> made = Manifest(digest=bytes(32), count=7, size=50, tokens=bytes(32))
    >>> Manifest.parse(made.encode()) == made
    True
    """

    digest: bytes
    """SHA-256 of the file."""
    count: int
    """How many messages it has."""
    size: int
    """How many bytes each of them has."""
    tokens: bytes
    """SHA-256 of the file of tokens; of no bytes where there are none."""

    def __post_init__(self) -> None:
        require(len(self.digest) == len(self.tokens) == 32, "digests must have 32 bytes", "others")
        require(0 < self.count < 2**64, "a batch must have messages", self.count)
        require(0 < self.size < 2**16, "messages must have 1 to 65535 bytes", self.size)

    def encode(self) -> bytes:
        """The manifest as bytes."""
        return MANIFEST_FORM.pack(MANIFEST, self.digest, self.count, self.size, self.tokens)

    @classmethod
    def parse(cls, data: bytes) -> Manifest:
        """The manifest in these bytes; its length is exact."""
        whole = len(data) == MANIFEST_FORM.size and data.startswith(MANIFEST)
        require(whole, f"a manifest must begin with TCM1 and have {MANIFEST_FORM.size} bytes", "other bytes")
        _, digest, count, size, tokens = MANIFEST_FORM.unpack(data)
        return cls(digest=digest, count=count, size=size, tokens=tokens)

    def require_fits(self, channel: Release, people: int, layers: int) -> None:
        """Raise unless so many people can have sent so many messages of this size."""
        transport, size = sealable(channel).transport, message_size(channel, layers)
        require(self.size == size, f"messages of this stage must have {size} bytes", self.size)
        extra = self.count - people * transport.report_size
        blocks = people * (-(-transport.noise_bits // transport.block) - 1)
        fits = extra % transport.block == 0 and 0 <= extra <= blocks * transport.block
        least = people * transport.report_size
        require(fits, f"{people} reports must have {least} messages, or whole blocks more", self.count)


def require_opened(channel: Release, opened: bytes, manifest: Manifest) -> bytes:
    """The histogram that a learner counted, if a batch of so many messages can have it."""
    import numpy as np

    C = sealable(channel).num_counters
    require(len(opened) == 8 * C, f"an opened batch must be a histogram of {8 * C} bytes", len(opened))
    found = np.frombuffer(opened, dtype="<i8")
    fits = bool((found >= 0).all()) and int(found.sum()) <= manifest.count
    require(fits, "an opened batch must have no more labels than messages", "more")
    return bytes(opened)
