"""The outer envelope of a report: what a device hands to the shuffler, in every trust model.

    envelope    "TCE1" study[32] key[8] sealed
    sealed      HPKE to the shuffler under outer_info(study, key) of
                "TCP1" u16 length, token, report                                           little endian

E1  Lengths are exact: what is cut off, or has a byte more than it says, is malformed.
E2  A refusal is one word (`REASONS`) and repeats nothing that was sent.
E3  Only the sealed part is believed: study and key outside of it are bound into the seal, so that a changed one does
    not open.
E4  An envelope of one study, token length and channel has one length, whoever sends it and whatever it says, extra
    blocks of the channel aside.

The inner seal: every label of a body is sealed by itself, in an order that says nothing.

    label     u16 or u32, little endian, as the channel has it
    inner     HPKE to the learner of the label, under inner_info(study, stage, key)              + 48 bytes
    outer     HPKE to the mixer of `inner`, under mixer_info(study, stage, key), if there is one     + 48 bytes

M1  One label is one message: nothing ties two messages of a body together once a shuffler has permuted them.
M2  Constant shape: dummies are sealed like labels, so a sealed body has as many messages as the unsealed one, which is
    one number but for certified extra blocks, whatever the person did.
M3  The order of messages is uniform, exact and secure: neither the shuffler nor anybody after it learns from it.
M4  Messages of another study, stage, purpose or key do not open; what does not open, or holds no label, is a dummy.

How many layers a study has is public and known to a device from elsewhere, as its pinned keys are: with the key of a
mixer it seals two layers. A shuffler sees from the length whether they are as many as its study has, and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol

from tacit.errors import InvalidInput, require
from tacit.noise.exact import permutation
from tacit.randomness import SecureNoise
from tacit.release.contract import Release
from tacit.service.encryption.hpke import OVERHEAD, PublicKey, inner_info, mixer_info, outer_info
from tacit.study.sealed_batches import sealable

ENVELOPE: Final = b"TCE1"
PLAIN: Final = b"TCP1"
HEAD: Final = struct.Struct("<4s32s8s")
INSIDE: Final = struct.Struct("<4sH")
LONGEST_TOKEN: Final = 2**16 - 1

EnvelopeReason = Literal["malformed", "unknown-study", "unknown-key"]
REASONS: Final[Mapping[EnvelopeReason, str]] = {
    "malformed": "no envelope of this version, or one that does not open",
    "unknown-study": "for another study",
    "unknown-key": "sealed to a key that this party does not have, or no longer opens with",
}
"""Why an envelope is refused, in words (E2)."""


class EnvelopeRefused(InvalidInput):
    """An envelope that is not for this party; `reason` is one of `REASONS`."""

    def __init__(self, reason: EnvelopeReason) -> None:
        self.reason: EnvelopeReason = reason
        super().__init__(f"an envelope must be one for this party, got one that is refused: {REASONS[reason]}")


class Opens(Protocol):
    """A key that opens: `SecretKey`, or one that was loaded before."""

    def open(self, info: bytes, sealed: bytes) -> bytes | None:
        """What was sealed to this key under this `info`, or None."""
        ...


class Opened(NamedTuple):
    """What was in an envelope: who vouches for the sender, and the report as it is counted."""

    token: bytes
    report: bytes

    def __repr__(self) -> str:
        return "Opened(token, report)"  # never their contents


def envelope_size(token: int, report: int) -> int:
    """The length of an envelope around a token and a report of these lengths (E4).

    >>> envelope_size(296, 1000) == 44 + 48 + 6 + 296 + 1000
    True
    """
    return HEAD.size + OVERHEAD + INSIDE.size + token + report


def seal_envelope(report: bytes, token: bytes, *, study: bytes, key: PublicKey) -> bytes:
    """The envelope around a report, for the shuffler's active key.

    >>> from tacit.service.encryption.hpke import SecretKey
    >>> key = SecretKey.new()
    >>> sealed = seal_envelope(b"report", b"token", study=bytes(32), key=key.public)
    >>> open_envelope(sealed, study=bytes(32), keys={key.id: key}).report
    b'report'
    """
    require(len(token) <= LONGEST_TOKEN, f"a token must have at most {LONGEST_TOKEN} bytes", len(token))
    name = key.id
    plain = INSIDE.pack(PLAIN, len(token)) + token + report
    return HEAD.pack(ENVELOPE, study, name) + key.seal(outer_info(study, name), plain)


def open_envelope(data: bytes, *, study: bytes, keys: Mapping[bytes, Opens]) -> Opened:
    """What is in an envelope for this study, sealed to one of these keys; raises `EnvelopeRefused`."""
    if len(data) < envelope_size(0, 0) or not data.startswith(ENVELOPE):
        raise EnvelopeRefused("malformed")
    _, given, name = HEAD.unpack_from(data)
    if given != study:
        raise EnvelopeRefused("unknown-study")
    if name not in keys:
        raise EnvelopeRefused("unknown-key")
    plain = keys[name].open(outer_info(study, name), data[HEAD.size :])
    if plain is None or len(plain) < INSIDE.size:
        raise EnvelopeRefused("malformed")
    word, length = INSIDE.unpack_from(plain)
    if word != PLAIN or len(plain) < INSIDE.size + length:
        raise EnvelopeRefused("malformed")
    end = INSIDE.size + length
    return Opened(token=plain[INSIDE.size : end], report=plain[end:])


def seal_body(
    channel: Release,
    body: bytes,
    *,
    study: bytes,
    stage: int,
    learner: PublicKey,
    mixer: PublicKey | None = None,
) -> bytes:
    """The sealed body of a report: what `channel.encode` made, label by label, in random order (M1, M2, M3)."""
    shuffled = sealable(channel)
    shuffled.check(body)
    width = shuffled.labels.itemsize
    labels = [body[start : start + width] for start in range(0, len(body), width)]
    inner = learner.sealer(inner_info(study, stage, learner.id))
    sealed = [inner(labels[place]) for place in permutation(len(labels), SecureNoise())]
    if mixer is not None:
        outer = mixer.sealer(mixer_info(study, stage, mixer.id))
        sealed = [outer(one) for one in sealed]
    return b"".join(sealed)
