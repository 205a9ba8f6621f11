"""Ed25519 signatures: who vouches for a document or a directory, as far as the reader has pinned public keys.

    inside a document     an entry "signature", by the party that wrote it: its learner
    beside it             DIR/signatures/ROLE-KEY.json or FILE.signatures/ROLE-KEY.json: any number of parties, each in
                          a role (learner, officer, operator), all over the same digest

G1  A signature covers every entry of the JSON object but itself and the digest, in canonical form. One beside covers
    the digest of the document (of a directory: of its manifest) and the role, so none makes another one invalid.
G2  A key that came with the file proves nothing: only a key that the reader has from elsewhere makes a file `pinned`.
G3  Whatever is not signed is called "unsigned" in words. A signature that is there and does not fit makes a file false.

Keys are PEM files, private.pem readable by its owner only. Signing needs the extra `sign` (the package cryptography).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.documents import canonical, without_seal
from tacit.errors import InvalidInput, NotSupported, UnknownName, install_hint, require
from tacit.runs.storage_paths import check_writable, json_bytes, make_directory, read_json, write_whole, writing_to

PRIVATE, PUBLIC = "private.pem", "public.pem"
ALGORITHM: Final = "ed25519"
DOMAIN: Final = b"tacit signature 1\n"
"""Before every message, so that a signature made for something else is none here."""
DOMAIN_BESIDE: Final = b"tacit signature beside 1\n"
FORMAT: Final = "tacit-signature"
ROLES: Final = ("learner", "officer", "operator")
SIGNATURES: Final = "signatures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What is known about the signature of a file."""

    valid: bool
    """Whether there is a signature and it fits the content and, if one was pinned, the key."""
    pinned: bool
    """Whether it was made by the key that the reader brought along."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A signature that fits what it says it is about."""

    role: str
    key: bytes
    """The raw public key."""
    digest: str
    """Of what it is about."""


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
    kept = {name: part for name, part in content.items() if name != "signature"}
    encoded = _made(private, DOMAIN + canonical(without_seal(content)))
    return {**kept, "signature": {"algorithm": ALGORITHM, **encoded}}


def sign_beside(place: Path, name: str, private: str | Path, role: str) -> Path:
    """Write the signature of a party over the digest `name` of a file or directory (G1)."""
    if role not in ROLES:
        raise UnknownName("role", role, ROLES)
    encoded = _made(private, _message(role, name))
    target = _beside(place) / f"{role}-{_short(base64.b64decode(encoded['key']))}.json"
    if target.exists():
        there = target.read_bytes() == json_bytes(_signature(role, name, encoded))
        require(not there, f"{place} must not be signed yet by this key as {role}", "its signature")
    with writing_to(target):
        make_directory(target.parent)
        write_whole(target, json_bytes(_signature(role, name, encoded)))
    return target


def signers_beside(place: Path) -> tuple[list[Signer], list[str]]:
    """Who signed beside a file or directory; and which of the files there are no signatures that fit (G3)."""
    found, wrong, folder = [], list[str](), _beside(place)
    for path in sorted(folder.iterdir(), key=str) if folder.is_dir() else ():
        try:
            content = read_json(path)
            role, name = str(content["role"]), str(content["digest"])
            raw = _verified(content, _message(role, name))
            expected = json_bytes(_signature(role, name, {part: content[part] for part in ("key", "value")}))
            whole = path.read_bytes() == expected and role in ROLES and path.name == f"{role}-{_short(raw)}.json"
            require(whole, "a signature must be as it was written", "another spelling")
        except (InvalidInput, KeyError, TypeError):
            wrong.append(f"{folder.name}/{path.name} is forged or no signature")
            continue
        found.append(Signer(role=role, key=raw, digest=name))
    return found, wrong


def examine(content: Mapping[str, Any], pinned: str | Path | None) -> Signed:
    """What the signature inside a document is worth to a reader who has pinned this public key, or none (G2, G3)."""
    given = content.get("signature")
    expected = None if pinned is None else public_key(pinned)
    if given is None:
        return Signed(valid=False, pinned=False, words="unsigned")
    try:
        whole = isinstance(given, Mapping) and set(given) == {"algorithm", "key", "value"}
        require(whole and given["algorithm"] == ALGORITHM, "a signature must be of Ed25519", "another")
        raw = _verified(given, DOMAIN + canonical(without_seal(content)))
    except (InvalidInput, KeyError, TypeError, ValueError):
        return Signed(valid=False, pinned=False, words="its signature is forged or about something else")
    if expected is None:
        return Signed(valid=True, pinned=False, words=f"signed by key {_short(raw)}, which nobody pinned (give --key)")
    if raw != expected:
        return Signed(valid=False, pinned=False, words=f"signed by another key ({_short(raw)}) than the pinned one")
    return Signed(valid=True, pinned=True, words=f"signed by the pinned key {_short(raw)}")


def public_key(path: str | Path) -> bytes:
    """The raw public key of a PEM file, or of the directory that `new_keys` wrote."""
    serialization, ed25519 = _cryptography()
    file = Path(path) / PUBLIC if Path(path).is_dir() else Path(path)
    key = _loaded(file, serialization.load_pem_public_key)
    require(isinstance(key, ed25519.Ed25519PublicKey), f"{path} must be a public Ed25519 key", type(key).__name__)
    raw: bytes = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw


def _beside(place: Path) -> Path:
    return place / SIGNATURES if place.is_dir() else place.with_name(f"{place.name}.{SIGNATURES}")


def _message(role: str, name: str) -> bytes:
    return DOMAIN_BESIDE + canonical({"role": role, "digest": name})


def _signature(role: str, name: str, encoded: Mapping[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, "format_version": 1, "role": role, "digest": name, "algorithm": ALGORITHM, **encoded}


def _short(raw: bytes) -> str:
    """What a key is called."""
    return hashlib.sha256(raw).hexdigest()[:16]


def _made(private: str | Path, message: bytes) -> dict[str, str]:
    serialization, ed25519 = _cryptography()
    key = _loaded(Path(private), lambda text: serialization.load_pem_private_key(text, password=None))
    require(isinstance(key, ed25519.Ed25519PrivateKey), f"{private} must be a private Ed25519 key", type(key).__name__)
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {"key": base64.b64encode(raw).decode(), "value": base64.b64encode(key.sign(message)).decode()}


def _verified(given: Mapping[str, Any], message: bytes) -> bytes:
    """The raw key of a signature that fits; raises `InvalidInput` for every other one."""
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        raw, value = (base64.b64decode(given[part], validate=True) for part in ("key", "value"))
        spelled = [base64.b64encode(part).decode() for part in (raw, value)]  # which base64 leaves open
        require(spelled == [given["key"], given["value"]], "base64 must be spelled in one way", "another")
        ed25519.Ed25519PublicKey.from_public_bytes(raw).verify(value, message)
    except (InvalidSignature, KeyError, TypeError, ValueError, binascii.Error):
        raise InvalidInput("a signature must fit, got a forged one") from None
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
