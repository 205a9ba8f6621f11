"""Ed25519 signatures of bundles and certificates: who vouches for a file, as far as the reader has pinned a public key.

G1  A signature covers every entry of the JSON object but itself and the digest, in canonical form.
G2  A key that came with the file proves nothing: only a key that the reader has from elsewhere makes a file `pinned`.
G3  Whatever is not signed is called "unsigned" in words.

Keys are PEM files, private.pem readable by its owner only. Signing needs the extra `sign` (the package cryptography).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, install_hint, require
from tacit.runs.storage import check_writable, writing_to

PRIVATE, PUBLIC = "private.pem", "public.pem"
ALGORITHM: Final = "ed25519"
DOMAIN: Final = b"tacit signature 1\n"
"""Before every message, so that a signature made for something else is none here."""
OUTSIDE: Final = ("signature", "digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What is known about the signature of a file."""

    valid: bool
    """Whether there is a signature and it fits the content and, if one was pinned, the key."""
    pinned: bool
    """Whether it was made by the key that the reader brought along."""
    words: str


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys and no spaces: the same content always gives the same bytes."""
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return plain.encode()


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but digest and signature."""
    return hashlib.sha256(canonical(_inside(content))).hexdigest()


def new_keys(directory: str | Path) -> tuple[Path, Path]:
    """Make a key pair in a directory; existing keys are never overwritten."""
    serialization, ed25519 = _cryptography()
    place = Path(directory)
    check_writable(place)
    private, public = place / PRIVATE, place / PUBLIC
    for path in (private, public):
        require(not path.exists(), f"{path} must not exist yet: keys are never overwritten", "an existing key")
    key = ed25519.Ed25519PrivateKey.generate()
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    with writing_to(place):
        place.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
        public.write_bytes(key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def sign(content: Mapping[str, Any], private: str | Path) -> dict[str, Any]:
    """The content with its signature (G1); an older signature is replaced."""
    serialization, ed25519 = _cryptography()
    key = _loaded(Path(private), lambda text: serialization.load_pem_private_key(text, password=None))
    require(isinstance(key, ed25519.Ed25519PrivateKey), f"{private} must be a private Ed25519 key", type(key).__name__)
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    value = key.sign(DOMAIN + canonical(_inside(content)))
    kept = {name: part for name, part in content.items() if name != "signature"}
    encoded = {"key": base64.b64encode(raw).decode(), "value": base64.b64encode(value).decode()}
    return {**kept, "signature": {"algorithm": ALGORITHM, **encoded}}


def examine(content: Mapping[str, Any], pinned: str | Path | None) -> Signed:
    """What the signature of a file is worth to a reader who has pinned this public key, or none (G2, G3)."""
    given = content.get("signature")
    expected = None if pinned is None else _public(Path(pinned))
    if given is None:
        return Signed(valid=False, pinned=False, words="unsigned")
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        raw = base64.b64decode(given["key"], validate=True)
        require(given["algorithm"] == ALGORITHM, "a signature must be of Ed25519", given["algorithm"])
        key = ed25519.Ed25519PublicKey.from_public_bytes(raw)
        key.verify(base64.b64decode(given["value"], validate=True), DOMAIN + canonical(_inside(content)))
    except (InvalidSignature, KeyError, TypeError, ValueError, binascii.Error):
        return Signed(valid=False, pinned=False, words="its signature is forged or about something else")
    name = hashlib.sha256(raw).hexdigest()[:16]
    if expected is None:
        return Signed(valid=True, pinned=False, words=f"signed by key {name}, which nobody pinned (give --key)")
    if raw != expected:
        return Signed(valid=False, pinned=False, words=f"signed by another key ({name}) than the pinned one")
    return Signed(valid=True, pinned=True, words=f"signed by the pinned key {name}")


def _inside(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in content.items() if name not in OUTSIDE}


def _public(path: Path) -> bytes:
    """The raw public key of a PEM file."""
    serialization, ed25519 = _cryptography()
    key = _loaded(path, serialization.load_pem_public_key)
    require(isinstance(key, ed25519.Ed25519PublicKey), f"{path} must be a public Ed25519 key", type(key).__name__)
    raw: bytes = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw


def _loaded(path: Path, load: Any) -> Any:
    try:
        return load(path.read_bytes())
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(f"{path} must be a key made by 'tacit keys new': {error}") from error


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise NotSupported(
            f"signatures need the package cryptography: install it with {install_hint('sign')}"
        ) from error
    return serialization, ed25519
