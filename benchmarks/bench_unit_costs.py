"""Unit costs of the services: CPU of one device, one report, one message, one token.

Best of several, CPU seconds of this process; `take report` is the CPU of a real shuffler process per acknowledged
report of 1.6 kB, over HTTP with commits on the disk (`chaos.row_load`). The instance: four
states, two actions, six steps, epsilon 1, delta 1e-6, a million people.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.trajectories import Trajectory
from tacit.randomness import SecureNoise
from tacit.service.encryption.envelope import seal_envelope
from tacit.service.encryption.hpke import SecretKey, inner_info
from tacit.service.tokens import blind_rsa
from tacit.service.tokens.token import LENGTH, Token, TokenKeys, message, verify
from tacit.study.design import plan_study
from tacit.study.external_shuffle import write_permuted

PEOPLE, REPORTS, MESSAGES = 10**6, 2000, 200_000
SECONDS = 5.0
STUDY = bytes(range(32))
BUDGET = 1e-3
"""A millisecond of CPU: what a report may cost the one process that takes all of them in, at 1,000 a second."""


def run() -> list[dict[str, object]]:
    """Rows {name, value, detail}, and the target of the report."""
    noise = SecureNoise()
    rng = np.random.default_rng(0)
    lived = Trajectory(rng.integers(0, 4, 7), rng.integers(0, 2, 6), rng.random(6))
    rows = []
    for kind in ("central", "local", "shuffle"):
        channel = stage_channel(kind, PEOPLE)
        rows.append(_row(f"encode {kind}", _seconds(lambda c=channel: c.encode(lived, noise), 200)))  # type: ignore[misc]
        if kind != "shuffle":
            small = stage_channel(kind, REPORTS)
            bodies = [small.encode(lived, noise) for _ in range(REPORTS)]
            spent = _seconds(lambda c=small, b=bodies: c.release(c.begin_secret(), b, c.query, noise), 1)  # type: ignore[misc]
            rows.append(_row(f"count {kind}", spent / REPORTS))
    returns = stage_channel("local", PEOPLE, learner="ldp-rts")
    rows.append(_row("encode local return", _seconds(lambda: returns.answer(returns.query, 0, lived, noise), 200)))
    return [*rows, *_sealing(), *_tokens(), _permutation(), _taking()]


def stage_channel(trust: str, devices: int, learner: str | None = None) -> Any:
    """The channel of the last stage of a study with so many people per stage; of counts by default."""
    design = plan_study(
        states=("a", "b", "c", "d"),
        actions=("x", "y"),
        horizon=6,
        learner=learner or ("ldp-psrl" if trust == "local" else "bucb"),
        trust=trust,  # type: ignore[arg-type]
        epsilon=1.0,
        delta=0.0 if trust == "local" else 1e-6,
        stages=4,
        target=devices,
    )
    return design.parts().channels[-1]


def _sealing() -> list[dict[str, object]]:
    key = SecretKey.new()
    info = inner_info(STUDY, 1, key.id)
    sealer, opener = key.public.sealer(info), key.opener(info)
    sealed = sealer(b"ab")
    report, token = os.urandom(1600), os.urandom(LENGTH)
    return [
        _row("seal message", _seconds(lambda: sealer(b"ab"), 500)),
        _row("open message", _seconds(lambda: opener(sealed), 500)),
        _row("seal envelope", _seconds(lambda: seal_envelope(report, token, study=STUDY, key=key.public), 200)),
    ]


def _tokens() -> list[dict[str, object]]:
    secret = blind_rsa.SecretKey.new()
    keys = TokenKeys(study=STUDY, serial=1, stages={0: secret.public})
    prepared = blind_rsa.prepare(message(STUDY, 0))
    blinded = blind_rsa.blind(secret.public, prepared)
    answer = blind_rsa.blind_sign(secret, blinded.message)
    signature = blind_rsa.finalize(secret.public, prepared, answer, blinded.inverse)
    token = Token(stage=0, nonce=prepared[:32], signature=signature).encode()

    def ask() -> None:
        mine = blind_rsa.blind(secret.public, prepared)
        blind_rsa.finalize(secret.public, prepared, blind_rsa.blind_sign(secret, mine.message), mine.inverse)

    signing = _seconds(lambda: blind_rsa.blind_sign(secret, blinded.message), 10)
    return [
        _row("ask token", max(0.0, _seconds(ask, 10) - signing)),
        _row("sign token", signing),
        _row("verify token", _seconds(lambda: verify(token, keys, 0), 300)),
    ]


def _permutation() -> dict[str, object]:
    data = os.urandom(50 * MESSAGES)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "batch"

        def work() -> None:
            place.unlink(missing_ok=True)
            write_permuted([data], place, size=50, total=50 * MESSAGES, memory=16 * 2**20)

        return _row("permute message", _seconds(work, 1) / MESSAGES)


def _taking() -> dict[str, object]:
    from chaos.row_load import flood, shuffling, stored, sustain

    with shuffling() as parties, flood(parties, each=int(SECONDS * 1500)) as clients:
        found = sustain(parties, clients, lambda: stored(parties), seconds=SECONDS)
    assert found["lost"] == 0
    spent = found["cpu_us_per_report"] * 1e-6
    detail = f"{found['acknowledged']:,} reports, {found['per_second']:,.0f} a second, load {found['load_average']}"
    return {**_row("take report", spent), "ratio": spent / BUDGET, "target": 1.0, "better": "lower", "detail": detail}


def _row(name: str, seconds: float) -> dict[str, object]:
    return {"name": name, "value": seconds, "detail": f"{seconds * 1e6:,.3g} us CPU"}


def _seconds(work: Callable[[], object], repeats: int, rounds: int = 5) -> float:
    """CPU seconds of one call, best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(repeats):
            work()
        best = min(best, (time.process_time() - start) / repeats)
    return best
