r"""HPKE (RFC 9180) in base mode, one shot, as the package `cryptography` has it: X25519, HKDF-SHA256, AES-128-GCM.

    sealed = enc[32] || ciphertext || tag[16]               48 bytes longer than what is inside

    outer_info(study, key)           b"tacit/1 outer\n" study[32] key[8]                  a report to the shuffler
    inner_info(study, stage, key)    b"tacit/1 inner\n" study[32] stage u32 key[8]        a message to the learner
    mixer_info(study, stage, key)    b"tacit/1 mixer\n" study[32] stage u32 key[8]        a layer around it, to a mixer

H1  What is sealed for one purpose, study, stage or key opens for no other: all of them are bound through `info`.
H2  Opening never raises on what it is given: whatever was not sealed to this key under this `info` is None.
H3  A secret key has no readable form: `repr` shows its public id.
H4  Whoever seals twice gets different bytes each time; nothing can be learned from equal plaintexts.

Key ids are the first eight bytes of SHA-256 of the raw public key; they choose a key, and prove nothing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, install_hint, require

SUITE: Final = "X25519-HKDF-SHA256-AES128GCM"
KEY: Final = 32
KEY_ID: Final = 8
ENC: Final = 32
OVERHEAD: Final = ENC + 16
"""How much longer a sealed message is than what is inside: the encapsulated key and the tag."""
STUDY: Final = 32
STAGE: Final = struct.Struct("<I")


def outer_info(study: bytes, key: bytes) -> bytes:
    r"""What is bound into an envelope to the shuffler (H1).

    >>> outer_info(bytes(32), bytes(8))[:14]
    b'tacit/1 outer\n'
    """
    return b"tacit/1 outer\n" + _digest(study) + _id(key)


def inner_info(study: bytes, stage: int, key: bytes) -> bytes:
    """What is bound into a message to the learner (H1)."""
    return b"tacit/1 inner\n" + _digest(study) + _stage(stage) + _id(key)


def mixer_info(study: bytes, stage: int, key: bytes) -> bytes:
    """What is bound into the layer of a mixer (H1)."""
    return b"tacit/1 mixer\n" + _digest(study) + _stage(stage) + _id(key)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A raw X25519 public key to seal to."""

    raw: bytes

    def __post_init__(self) -> None:
        require(len(self.raw) == KEY, f"a public key must have {KEY} bytes", len(self.raw))

    @property
    def id(self) -> bytes:
        """The eight bytes by which the key is named."""
        return hashlib.sha256(self.raw).digest()[:KEY_ID]

    def seal(self, info: bytes, plaintext: bytes) -> bytes:
        """Seal to the holder of the secret key.

        >>> key = SecretKey.new()
        >>> len(key.public.seal(b"about", b"ab")) == 2 + OVERHEAD
        True
        """
        return self.sealer(info)(plaintext)

    def sealer(self, info: bytes) -> Callable[[bytes], bytes]:
        """The same for many plaintexts under one `info`."""
        suite, key = _suite(), _loaded_public(self.raw)

        def seal(plaintext: bytes) -> bytes:
            try:
                sealed: bytes = suite.encrypt(plaintext, key, info)
            except ValueError as error:
                # Points of small order have no shared secret; no honest party has such a key.
                raise InvalidInput(
                    "a public key must be one that can be sealed to, got a point of small order"
                ) from error
            return sealed

        return seal


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SecretKey:
    """A raw X25519 secret key; it opens, and shows nobody what it is (H3)."""

    raw: bytes = field(repr=False)

    def __post_init__(self) -> None:
        require(len(self.raw) == KEY, f"a secret key must have {KEY} bytes", "another length")

    @classmethod
    def new(cls) -> SecretKey:
        """A key from the operating system's randomness."""
        x25519 = _x25519()
        return cls(x25519.X25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> PublicKey:
        """What others seal to."""
        return PublicKey(_loaded_secret(self.raw).public_key().public_bytes_raw())

    @property
    def id(self) -> bytes:
        """The eight bytes by which the key is named."""
        return self.public.id

    def open(self, info: bytes, sealed: bytes) -> bytes | None:
        """What was sealed to this key under this `info`, or None (H2).

        >>> key = SecretKey.new()
        >>> sealed = key.public.seal(b"about", b"ab")
        >>> key.open(b"about", sealed), key.open(b"something else", sealed), key.open(b"about", b"")
        (b'ab', None, None)
        """
        return self.opener(info)(sealed)

    def opener(self, info: bytes) -> Callable[[bytes], bytes | None]:
        """The same for many sealed messages under one `info`."""
        from cryptography.exceptions import InvalidTag

        suite, key = _suite(), _loaded_secret(self.raw)

        def open_one(sealed: bytes) -> bytes | None:
            try:
                plaintext: bytes = suite.decrypt(sealed, key, info)
            except (InvalidTag, ValueError):
                return None
            return plaintext

        return open_one

    def __repr__(self) -> str:
        return f"SecretKey({self.id.hex()})"


def _digest(study: bytes) -> bytes:
    require(len(study) == STUDY, f"a study's digest must have {STUDY} bytes", len(study))
    return study


def _stage(stage: int) -> bytes:
    fits = isinstance(stage, int) and not isinstance(stage, bool) and 0 <= stage < 2**32
    require(fits, "a stage must be a whole number below 2^32", "another")
    return STAGE.pack(stage)


def _id(key: bytes) -> bytes:
    require(len(key) == KEY_ID, f"the id of a key must have {KEY_ID} bytes", len(key))
    return key


def _x25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError as error:
        raise _missing() from error
    return x25519


@cache
def _suite() -> Any:
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError as error:
        raise _missing() from error
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def _missing() -> NotSupported:
    return NotSupported(f"sealing needs the package cryptography, 47 or newer: {install_hint('service')}")


@lru_cache(maxsize=64)
def _loaded_public(raw: bytes) -> Any:
    return _x25519().X25519PublicKey.from_public_bytes(raw)


def _loaded_secret(raw: bytes) -> Any:
    # Not cached: a key that was deleted should not live on in a table of this module.
    return _x25519().X25519PrivateKey.from_private_bytes(raw)
