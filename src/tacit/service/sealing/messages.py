"""The inner seal: every label of a body is sealed by itself, in an order that says nothing.

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

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tacit.errors import require
from tacit.mechanisms.exact import permutation
from tacit.randomness import SecureNoise
from tacit.service.sealing.hpke import PublicKey, SecretKey, inner_info, mixer_info
from tacit.study.contract import Channel
from tacit.study.sealed import body_size, check_sealed, message_size, sealable

__all__ = [
    "ENC",
    "Opener",
    "body_size",
    "check_sealed",
    "learner_opener",
    "message_size",
    "mixer_opener",
    "seal_body",
    "split",
]

ENC: Final = 32
"""The encapsulated key at the beginning of a message: two messages with the same one are copies."""

Opener = Callable[[bytes], bytes | None]
"""What opens one layer of one message, or finds that it does not open."""


def seal_body(
    channel: Channel,
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


def split(body: bytes, size: int) -> list[bytes]:
    """The messages of a body or of a piece of a batch.

    >>> split(b"aabbcc", 2)
    [b'aa', b'bb', b'cc']
    """
    require(size > 0 and len(body) % size == 0, f"messages must have {size} bytes each", "another length")
    return [body[start : start + size] for start in range(0, len(body), size)]


def learner_opener(keys: Mapping[bytes, SecretKey], *, study: bytes, stage: int) -> Opener:
    """What opens the inner layer with whichever of these keys fits."""
    return _first([key.opener(inner_info(study, stage, name)) for name, key in keys.items()])


def mixer_opener(keys: Mapping[bytes, SecretKey], *, study: bytes, stage: int) -> Opener:
    """What opens the layer of a mixer with whichever of these keys fits."""
    return _first([key.opener(mixer_info(study, stage, name)) for name, key in keys.items()])


def labels_of(opened: Sequence[bytes | None], dtype: np.dtype[np.unsignedinteger], dummy: int) -> np.ndarray:
    """The labels among opened messages (M4): what is none of them becomes the dummy label."""
    width = dtype.itemsize
    fill = np.array([dummy], dtype=dtype).tobytes()
    joined = b"".join(one if one is not None and len(one) == width else fill for one in opened)
    found = np.frombuffer(joined, dtype=dtype).astype(np.int64)
    return np.minimum(found, dummy)


def _first(openers: Sequence[Opener]) -> Opener:
    """The first of these that opens; a message does not say which key it was sealed to."""
    require(bool(openers), "a party must have a key to open with", "none")
    if len(openers) == 1:
        return openers[0]

    def open_one(sealed: bytes) -> bytes | None:
        for opener in openers:
            opened = opener(sealed)
            if opened is not None:
                return opened
        return None

    return open_one
