"""Tokens: what a device, the issuer, the shuffler and the learner pay for one of them.

RSA-2048, RSABSSA-SHA384-PSS-Randomized. Microseconds are CPU of the process, best of several; the budget of a report is
1 ms of CPU where it is taken in, and a verification of Ed25519 by the same library is the yardstick of a signature.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ed25519

from tacit.service.tokens.blind_rsa import SecretKey, blind, blind_sign, finalize, prepare
from tacit.service.tokens.token import LENGTH, Token, TokenKeys, message, verify, verify_tokens

STUDY = bytes(32)
REPORT = 1e-3
DEVICE = 1e-3
SIGNER = 1e-3
"""An issuer that signs 1,000 tokens a second on one core gives ten million people theirs in three hours."""
MAX_ED25519 = 2.0
TOKENS = 200


def run() -> list[dict[str, object]]:
    """Rows {name, ratio, target, better, detail}."""
    secret = SecretKey.new()
    keys = TokenKeys(study=STUDY, serial=1, stages={0: secret.public})
    prepared = prepare(message(STUDY, 0))
    blinded = blind(secret.public, prepared)
    answer = blind_sign(secret, blinded.message)
    token = Token(
        stage=0, nonce=prepared[:32], signature=finalize(secret.public, prepared, answer, blinded.inverse)
    ).encode()
    signing = ed25519.Ed25519PrivateKey.generate()
    signed, key = signing.sign(prepared), signing.public_key()

    asking = _seconds(lambda: blind(secret.public, prepared), 30)
    finishing = _seconds(lambda: finalize(secret.public, prepared, answer, blinded.inverse), 300)
    issuing = _seconds(lambda: blind_sign(secret, blinded.message), 20)
    checking = _seconds(lambda: verify(token, keys, 0), 1000)
    yardstick = _seconds(lambda: key.verify(signed, prepared), 1000)
    file = b"".join(_sorted(secret, TOKENS))
    reading = _seconds(lambda: verify_tokens(io.BytesIO(file), keys, 0, TOKENS), 3) / TOKENS
    micro = f"{asking * 1e6:,.0f} us to blind and {finishing * 1e6:,.0f} us to finalize"
    each = f"{reading * 1e6:,.1f} us a token of {LENGTH} bytes in a sorted file of {TOKENS}"
    return [
        _row("device: blind and finalize, of 1 ms", (asking + finishing) / DEVICE, f"{micro}, GMP"),
        _row("issuer: sign, of 1 ms", issuing / SIGNER, f"{issuing * 1e6:,.0f} us, {1 / issuing:,.0f}/s on one core"),
        _row("shuffler: verify, of 1 ms a report", checking / REPORT, f"{checking * 1e6:,.1f} us, OpenSSL"),
        _row("learner: verify again, of 1 ms a report", reading / REPORT, each),
        _row(
            "verify over Ed25519 verify",
            checking / yardstick,
            f"{checking * 1e6:,.1f} us over {yardstick * 1e6:,.1f} us",
            MAX_ED25519,
        ),
    ]


def _sorted(secret: SecretKey, count: int) -> list[bytes]:
    """Tokens of one stage in the order of their nonces."""
    made = []
    for _ in range(count):
        prepared = prepare(message(STUDY, 0))
        blinded = blind(secret.public, prepared)
        signature = finalize(secret.public, prepared, blind_sign(secret, blinded.message), blinded.inverse)
        made.append(Token(stage=0, nonce=prepared[:32], signature=signature).encode())
    return sorted(made)


def _row(name: str, ratio: float, detail: str, target: float = 1.0) -> dict[str, object]:
    return {"name": name, "ratio": ratio, "target": target, "better": "lower", "detail": detail}


def _seconds(work: Callable[[], object], repeats: int, rounds: int = 5) -> float:
    """CPU seconds of one call, the best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(repeats):
            work()
        best = min(best, (time.process_time() - start) / repeats)
    return best


if __name__ == "__main__":
    for row in run():
        print(row)
