"""Blind RSA: the numbers of RFC 9474, its checks, and that a signer's transcript fits every signature alike."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InvalidInput, NotSupported
from tacit.service.tokens import blind_rsa
from tacit.service.tokens.blind_rsa import PublicKey, SecretKey, blind, blind_sign, encode, finalize, prepare

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "rfc9474.json").read_text())
SPKI = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo


def number(name: str) -> int:
    return int(VECTOR[name], 16)


def text(name: str) -> bytes:
    return bytes.fromhex(VECTOR[name])


def key_of(p: int, q: int, e: int) -> SecretKey:
    d = pow(e, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(e, p * q)
    made = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key()
    encoding, none = serialization.Encoding.DER, serialization.NoEncryption()
    return SecretKey(made.private_bytes(encoding, serialization.PrivateFormat.PKCS8, none))


@pytest.fixture(scope="module")
def published() -> SecretKey:
    return key_of(number("p"), number("q"), number("e"))


@pytest.fixture(scope="module")
def signer() -> SecretKey:
    return SecretKey.new()


# the numbers of the RFC


def test_the_numbers_of_the_rfc_belong_together():
    n, e = number("n"), number("e")
    assert number("p") * number("q") == n
    assert pow(number("blind_sig"), e, n) == number("blinded_msg")
    assert number("blind_sig") * number("inv") % n == number("sig")


def test_every_step_gives_the_numbers_of_the_rfc(published):
    public = published.public
    prepared = prepare(text("msg"), text("msg_prefix"))
    blinded = blind(public, prepared, salt=text("salt"), inverse=number("inv"))
    assert blinded.message == text("blinded_msg")
    answer = blind_sign(published, blinded.message)
    assert answer == text("blind_sig")
    assert finalize(public, prepared, answer, blinded.inverse) == text("sig")
    assert public.verifies(prepared, text("sig"))


@pytest.mark.parametrize("size", [2048, 2050, 4096])
def test_the_encoding_is_what_openssl_signs(size, published):
    """An independent twin: OpenSSL's own signature, raised to e, is an encoding with some salt; ours has that salt."""
    if size == 4096:
        key = serialization.load_der_private_key(published.pkcs8, password=None)
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=size)
    bits = key.key_size - 1
    signed = key.sign(b"message", blind_rsa.PSS, blind_rsa.hashes.SHA384())
    numbers = key.public_key().public_numbers()
    em = pow(int.from_bytes(signed), numbers.e, numbers.n).to_bytes((bits + 7) // 8)
    h = em[-49:-1]
    db = int.from_bytes(em[:-49]) ^ int.from_bytes(blind_rsa._mgf1(h, len(em) - 49))
    salt = db.to_bytes(len(em) - 49)[-48:]
    assert encode(b"message", bits, salt) == em


# checks


@settings(max_examples=15, deadline=None)
@given(message=st.binary(max_size=200))
def test_blind_sign_finalize_gives_an_ordinary_signature(signer, message):
    prepared = prepare(message)
    blinded = blind(signer.public, prepared)
    signature = finalize(signer.public, prepared, blind_sign(signer, blinded.message), blinded.inverse)
    key = serialization.load_der_public_key(signer.public.spki)
    pss = padding.PSS(mgf=padding.MGF1(blind_rsa.hashes.SHA384()), salt_length=48)
    key.verify(signature, prepared, pss, blind_rsa.hashes.SHA384())
    assert not signer.public.verifies(prepared + b"x", signature)


def test_what_is_blinded_differs_every_time_and_is_signed_the_same_every_time(signer):
    prepared = prepare(b"message", bytes(32))
    first, second = blind(signer.public, prepared), blind(signer.public, prepared)
    assert first.message != second.message
    assert first.inverse != second.inverse
    assert blind_sign(signer, first.message) == blind_sign(signer, first.message)


def test_a_signer_refuses_another_length_or_range(signer):
    n = signer.public.n
    for wrong in (b"", bytes(255), bytes(257), n.to_bytes(256), (2**2048 - 1).to_bytes(256)):
        with pytest.raises(InvalidInput, match="blinded message"):
            blind_sign(signer, wrong)
    assert blind_sign(signer, bytes(256)) == bytes(256)
    assert int.from_bytes(blind_sign(signer, (n - 1).to_bytes(256))) == n - 1


def test_a_signer_returns_nothing_after_a_fault(signer, monkeypatch):
    """One wrong half of the Chinese remaindering would give the factors away: gcd(t^e - z, n)."""
    right = blind_rsa._power
    monkeypatch.setattr(blind_rsa, "_power", lambda numbers, base: right(numbers, base) + numbers.p)
    with pytest.raises(ArithmeticError, match="did not verify"):
        blind_sign(signer, blind(signer.public, prepare(b"message")).message)


def test_the_power_is_never_taken_of_what_was_sent(signer, monkeypatch):
    """Base blinding: the same input reaches the secret exponent as different, unpredictable numbers."""
    bases = []
    right = blind_rsa._power
    monkeypatch.setattr(blind_rsa, "_power", lambda numbers, base: bases.append(base) or right(numbers, base))
    message = blind(signer.public, prepare(b"message")).message
    for _ in range(5):
        blind_sign(signer, message)
    assert len(set(bases)) == 5
    assert int.from_bytes(message) not in bases


def test_secret_exponents_meet_the_constant_time_power_only(signer, monkeypatch):
    """B4: mpz_powm_sec takes both secret powers, with fresh masks; every other power has a public exponent."""
    secret, public = [], []
    right, plain = blind_rsa.powmod_sec, blind_rsa.powmod
    monkeypatch.setattr(blind_rsa, "powmod_sec", lambda *words: secret.append(words) or right(*words))
    monkeypatch.setattr(blind_rsa, "powmod", lambda *words: public.append(words[1]) or plain(*words))
    monkeypatch.setattr(blind_rsa, "pow", None, raising=False)  # Python's own power is not constant time
    message = blind(signer.public, prepare(b"message")).message
    for _ in range(2):
        blind_sign(signer, message)
    numbers = signer.numbers
    assert right.__name__ == "powmod_sec"
    assert [modulus for _, _, modulus in secret] == 2 * [numbers.p, numbers.q]
    assert len({exponent for _, exponent, _ in secret}) == 4
    assert all((exponent - numbers.d) % (modulus - 1) == 0 for _, exponent, modulus in secret)
    assert all(exponent.bit_length() > modulus.bit_length() for _, exponent, modulus in secret)
    assert set(public) == {-1, numbers.public_numbers.e}


def test_without_gmpy2_tokens_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gmpy2", None)
    monkeypatch.delitem(sys.modules, "tacit.service.tokens.blind_rsa")
    with pytest.raises(NotSupported, match=r"tokens need the packages cryptography and gmpy2: .*\[service\]"):
        importlib.import_module("tacit.service.tokens.blind_rsa")


def test_a_device_refuses_what_does_not_verify(signer):
    prepared = prepare(b"message")
    blinded = blind(signer.public, prepared)
    answer = blind_sign(signer, blinded.message)
    for wrong in (b"", answer[:-1], answer + b"\0", bytes(256), (int.from_bytes(answer) ^ 1).to_bytes(256)):
        with pytest.raises(InvalidInput, match="blind signature"):
            finalize(signer.public, prepared, wrong, blinded.inverse)
    with pytest.raises(InvalidInput, match="must verify"):
        finalize(signer.public, prepared, answer, blinded.inverse + 1)


def test_a_signature_above_the_modulus_is_none(published):
    """s and s + n are the same residue, and here as long; only one of them is a signature."""
    prepared = prepare(text("msg"), text("msg_prefix"))
    larger = (number("sig") + number("n")).to_bytes(published.public.size)
    assert published.public.verifies(prepared, text("sig"))
    assert not published.public.verifies(prepared, larger)


def test_public_keys_of_another_kind_are_refused():
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - that it is refused is the point
    small = weak.public_key().public_bytes(*SPKI)
    odd = rsa.RSAPublicNumbers(3, number("n")).public_key().public_bytes(*SPKI)
    other = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(*SPKI)
    for wrong in (b"", b"no key", small, odd, other):
        with pytest.raises(InvalidInput):
            PublicKey(wrong)
    with pytest.raises(InvalidInput, match="RSA public key"):
        PublicKey(SecretKey.new().public.spki + b"\0")


def test_secrets_have_no_readable_form(signer):
    blinded = blind(signer.public, prepare(b"message"))
    assert str(blinded.inverse) not in repr(blinded)
    assert repr(signer) == "SecretKey()"


# unlinkability


def test_every_transcript_fits_every_signature_by_exactly_one_factor(signer):
    """(z, t) of any request and (m, s) of any token: r = t / s solves z = m r^e, and no other r solves t = s r.

    So given all that the issuer saw, each token is equally likely to come from each request: r is uniform.
    """
    n, e = signer.public.n, signer.public.e
    transcripts, tokens = [], []
    for _ in range(6):
        prepared = prepare(b"message")
        blinded = blind(signer.public, prepared)
        answer = blind_sign(signer, blinded.message)
        signature = finalize(signer.public, prepared, answer, blinded.inverse)
        transcripts.append((int.from_bytes(blinded.message), int.from_bytes(answer), blinded.inverse))
        tokens.append(int.from_bytes(signature))
    for (i, (z, t, inverse)), (j, s) in itertools.product(enumerate(transcripts), enumerate(tokens)):
        m = pow(s, e, n)
        r = t * pow(s, -1, n) % n
        assert m * pow(r, e, n) % n == z
        # A device with token j that had drawn this r would have sent request i, byte for byte.
        assert (pow(r, -1, n) == inverse) == (i == j)


def test_on_a_small_modulus_the_factor_is_unique_and_requests_are_uniform():
    """Every unit r once: each message gives each request exactly once, so a request says nothing about its message."""
    p, q, e = 11, 23, 3
    n = p * q
    units = [r for r in range(1, n) if r % p and r % q]
    for m in (units[0], units[7], units[-1]):
        requests = sorted(m * pow(r, e, n) % n for r in units)
        assert requests == units
