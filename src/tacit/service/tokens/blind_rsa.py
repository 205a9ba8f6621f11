"""Blind RSA signatures: RSABSSA-SHA384-PSS-Randomized of RFC 9474, with the steps and checks of its section 4.

    device    prepared = prefix[32] || message              prefix uniform
              m = EMSA-PSS(prepared, salt[48])               salt uniform
              z = m r^e mod n                                r uniform, blinded: what the signer sees
    signer    t = z^d mod n
    device    s = t r^-1 mod n = m^d mod n                   an ordinary RSA-PSS signature of `prepared`

B1  Blind: z is uniform whatever m is, and for every (z, t) and every (m, s) under one key there is exactly one r that
    connects them: what the signer saw fits every signature alike.
B2  Sound: a signature is used only after OpenSSL verified it, by the device before it is kept and by whoever takes it.
B3  The signer refuses inputs of another length or range and verifies its own result before it returns it: a fault in
    one half of the Chinese remaindering would give the key away.
B4  The signer's power is taken of z b^e for a fresh uniform b, with exponents that are masked by fresh multiples of
    p - 1 and q - 1, by GMP's mpz_powm_sec: its time and its accesses to memory depend on the sizes of the numbers only.

Keys are made, and signatures verified, by OpenSSL. The powers of B4 are the only constant-time arithmetic here: what is
around them (Python's integers: conversions, the remaindering in `_power`, `blind` and `finalize` of a device) is not,
and sees numbers that a fresh b or r hides. Nothing here stands against an observer of the signer's power supply.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, install_hint, require

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from gmpy2 import powmod, powmod_sec
except ImportError as error:  # pragma: no cover - the extra is installed wherever this is tested
    raise NotSupported(f"tokens need the packages cryptography and gmpy2: {install_hint('service')}") from error

BITS: Final = 2048
SIZE: Final = BITS // 8
"""Bytes of a blinded message and of a signature under the keys that are made here."""
EXPONENT: Final = 65537
PREFIX: Final = 32
SALT: Final = 48
HASH: Final = 48
LARGEST_BITS: Final = 4096
MASK_BITS: Final = 64
"""How many random bits mask an exponent of the signer."""
PSS: Final = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=SALT)


@dataclass(frozen=True)
class PublicKey:
    """A public RSA key of e = 65537, by its SubjectPublicKeyInfo (DER)."""

    spki: bytes = field(repr=False)

    def __post_init__(self) -> None:
        require(BITS <= self.bits <= LARGEST_BITS, f"a key must have {BITS} to {LARGEST_BITS} bits", self.bits)
        require(self.e == EXPONENT, f"the exponent of a key must be {EXPONENT}", "another")

    @cached_property
    def _key(self) -> Any:
        try:
            key = serialization.load_der_public_key(self.spki)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise InvalidInput(
                "a token key must be an RSA public key (SubjectPublicKeyInfo), got other bytes"
            ) from error
        require(isinstance(key, rsa.RSAPublicKey), "a token key must be of RSA", type(key).__name__)
        plain = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        require(key.public_bytes(*plain) == self.spki, "a token key must be in its one encoding", "another")
        return key

    @cached_property
    def n(self) -> int:
        """The modulus."""
        return int(self._key.public_numbers().n)

    @cached_property
    def e(self) -> int:
        """The exponent."""
        return int(self._key.public_numbers().e)

    @cached_property
    def bits(self) -> int:
        """Bits of the modulus."""
        return self.n.bit_length()

    @property
    def size(self) -> int:
        """Bytes of a signature."""
        return (self.bits + 7) // 8

    @property
    def id(self) -> str:
        """SHA-256 of the key, in hexadecimal."""
        return hashlib.sha256(self.spki).hexdigest()

    def verifies(self, prepared: bytes, signature: bytes) -> bool:
        """Whether this is a signature of a prepared message (RSASSA-PSS, by OpenSSL)."""
        if len(signature) != self.size:
            return False
        try:
            self._key.verify(signature, prepared, PSS, hashes.SHA384())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SecretKey:
    """A signer's RSA key, by its PKCS#8 encoding (DER); `repr` shows nothing of it.

    >>> SecretKey(b"no key").public
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: a signer's key must be an RSA private key (PKCS#8), got other bytes
    """

    pkcs8: bytes = field(repr=False)

    @classmethod
    def new(cls) -> SecretKey:
        """A new key of 2048 bits, made by OpenSSL."""
        key = rsa.generate_private_key(public_exponent=EXPONENT, key_size=BITS)
        encoding, none = serialization.Encoding.DER, serialization.NoEncryption()
        return cls(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, none))

    @cached_property
    def _key(self) -> Any:
        try:
            key = serialization.load_der_private_key(self.pkcs8, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise InvalidInput("a signer's key must be an RSA private key (PKCS#8), got other bytes") from error
        require(isinstance(key, rsa.RSAPrivateKey), "a signer's key must be of RSA", type(key).__name__)
        return key

    @cached_property
    def numbers(self) -> Any:
        """p, q, d, and d modulo p - 1 and q - 1."""
        return self._key.private_numbers()

    @cached_property
    def public(self) -> PublicKey:
        """The public half."""
        plain = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        return PublicKey(self._key.public_key().public_bytes(*plain))


@dataclass(frozen=True, slots=True)
class Blinded:
    """What a device sends, and what only it knows."""

    message: bytes
    inverse: int = field(repr=False)
    """r^-1 mod n: whoever has it can link what was sent to the signature."""


def prepare(message: bytes, prefix: bytes | None = None) -> bytes:
    """A message with 32 random bytes before it (section 4.1, PrepareRandomize)."""
    chosen = secrets.token_bytes(PREFIX) if prefix is None else prefix
    require(len(chosen) == PREFIX, f"a prefix must have {PREFIX} bytes", len(chosen))
    return chosen + message


def blind(key: PublicKey, prepared: bytes, *, salt: bytes | None = None, inverse: int | None = None) -> Blinded:
    """A prepared message under a blinding factor (section 4.2); `salt` and `inverse` are given by test vectors only."""
    n = key.n
    m = int.from_bytes(encode(prepared, key.bits - 1, secrets.token_bytes(SALT) if salt is None else salt))
    require(math.gcd(m, n) == 1, "a message must be coprime to the modulus", "another", "prepare it again")
    unblind = _unit(n) if inverse is None else inverse
    # r is uniform among the units exactly if its inverse is.
    r = int(powmod(unblind, -1, n))
    # z = m r^e mod n
    z = m * int(powmod(r, key.e, n)) % n
    return Blinded(message=z.to_bytes(key.size), inverse=unblind)


def blind_sign(key: SecretKey, blinded: bytes) -> bytes:
    """The signer's answer to a blinded message (section 4.3; B3, B4)."""
    public, numbers = key.public, key.numbers
    n, e = public.n, public.e
    require(len(blinded) == public.size, f"a blinded message must have {public.size} bytes", len(blinded))
    z = int.from_bytes(blinded)
    require(z < n, "a blinded message must be below the modulus", "a larger number")
    # t = z^d mod n = (z b^e)^d b^-1 mod n
    b = _unit(n)
    t = _power(numbers, z * int(powmod(b, e, n)) % n) * int(powmod(b, -1, n)) % n
    if powmod(t, e, n) != z:
        raise ArithmeticError("a blind signature did not verify: the signer's machine is at fault")
    return t.to_bytes(public.size)


def finalize(key: PublicKey, prepared: bytes, answer: bytes, inverse: int) -> bytes:
    """The signature of a prepared message, from the signer's answer (section 4.4); refused unless it verifies (B2)."""
    require(len(answer) == key.size, f"a blind signature must have {key.size} bytes", len(answer))
    # s = t r^-1 mod n
    signature = (int.from_bytes(answer) * inverse % key.n).to_bytes(key.size)
    require(key.verifies(prepared, signature), "a blind signature must verify once it is finalized", "another")
    return signature


def encode(prepared: bytes, bits: int, salt: bytes) -> bytes:
    """EMSA-PSS of SHA-384 (RFC 8017, section 9.1.1) into so many bits."""
    require(len(salt) == SALT, f"a salt must have {SALT} bytes", len(salt))
    length = (bits + 7) // 8
    require(length >= HASH + SALT + 2, "a key must be long enough for the encoding", bits)
    digest = hashlib.sha384(prepared).digest()
    # H = Hash(0^8 || Hash(M) || salt),  DB = 0...0 || 01 || salt,  EM = (DB xor MGF1(H)) || H || bc
    h = hashlib.sha384(bytes(8) + digest + salt).digest()
    db = bytes(length - HASH - SALT - 2) + b"\x01" + salt
    masked = int.from_bytes(db) ^ int.from_bytes(_mgf1(h, len(db)))
    # The leftmost bits that the modulus may not have are cleared.
    masked &= (1 << (bits - 8 * (HASH + 1))) - 1
    return masked.to_bytes(len(db)) + h + b"\xbc"


def _mgf1(seed: bytes, length: int) -> bytes:
    """The mask of RFC 8017, appendix B.2.1, by SHA-384."""
    blocks = (length + HASH - 1) // HASH
    return b"".join(hashlib.sha384(seed + place.to_bytes(4)).digest() for place in range(blocks))[:length]


def _power(numbers: Any, base: int) -> int:
    """base^d mod n by Chinese remaindering, exponents masked (B4)."""
    p, q = numbers.p, numbers.q
    # x_p = base^(d + k (p - 1)) mod p for a random k, and the same modulo q
    at_p = int(powmod_sec(base, numbers.dmp1 + secrets.randbits(MASK_BITS) * (p - 1), p))
    at_q = int(powmod_sec(base, numbers.dmq1 + secrets.randbits(MASK_BITS) * (q - 1), q))
    # x = x_q + q ((x_p - x_q) q^-1 mod p)
    return int(at_q + q * ((at_p - at_q) * numbers.iqmp % p))


def _unit(n: int) -> int:
    """A uniform unit modulo n (section 4.2, random_integer_uniform; what shares a factor with n is drawn again)."""
    while True:
        found = 1 + secrets.randbelow(n - 1)
        if math.gcd(found, n) == 1:
            return found
