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

from tacit.noise.exact import permutation
from tacit.randomness import SecureNoise
from tacit.release.contract import Release
from tacit.service.encryption.hpke import PublicKey, inner_info, mixer_info
from tacit.study.sealed_batches import body_size, check_sealed, message_size, sealable

__all__ = ["body_size", "check_sealed", "message_size", "seal_body"]


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
