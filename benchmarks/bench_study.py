"""Studies: what a device pays for a report, and what exact integer noise costs over the noise of simulations.

Reference instance: S=4, A=2, H=6, steps kept apart; (epsilon, delta) = (1, 1e-6), delta 0 where noise can be pure;
stages of 1,000 people of whom 900 are needed. Seconds are CPU seconds of the process, best of several; a device encodes
with secure noise, tables of the samplers built before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tacit.privatizers.request import PrivacyRequest
from tacit.privatizers.shuffle.roles import Trajectory
from tacit.privatizers.table import make_privatizer
from tacit.protocol import TOTALS, Totals
from tacit.randomness import SecureNoise
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.study.channels.local_basis import LocalBasis
from tacit.study.channels.shuffle_basis import ShuffleBasis
from tacit.study.contract import Channel, StageSize

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
EVERYTHING = BatchQuery(layer=None, failure_prob=None)
TARGET, LEAST = 1000, 900
MOST_SECONDS = 1e-3
MOST_NOISE = 1.005
DELTAS = {"subset": 0.0, "oue": 0.0, "rr": 0.0, "laplace": 0.0, "gaussian": 1e-6}


def run() -> list[dict[str, object]]:
    """Rows {name, ratio, target, better, detail}."""
    return [*_encoding(), *_deviations()]


def channels() -> dict[str, Channel]:
    """Every channel of the reference instance, by name."""
    found: dict[str, Channel] = {}
    for asks, query in ((BatchQuery, EVERYTHING), (Totals, TOTALS)):
        basis = ShuffleBasis.of(_request("shuffle", 1e-6, asks=asks), least=Fraction(LEAST, TARGET))
        name = "shuffle, a batch" if asks is BatchQuery else "shuffle, totals"
        found[name] = basis.channel(StageSize(target=TARGET, least=LEAST, query=query))
    for mechanism in DELTAS:
        basis = LocalBasis.of(_request("local", DELTAS[mechanism], mechanism=mechanism))
        found[f"local, {mechanism}"] = basis.channel(StageSize(target=TARGET, least=1, query=TOTALS))
    return found


def _request(trust: str, delta: float, *, asks: type = Totals, mechanism: str | None = None) -> PrivacyRequest:
    return PrivacyRequest(
        trust=trust,
        shape=SHAPE,
        episodes=20 * TARGET,
        epsilon=1.0,
        delta=delta,
        calibration=None,
        mechanism=mechanism,
        users_per_batch=TARGET,
        asks=asks,
    )


def _encoding() -> list[dict[str, object]]:
    """CPU of one report on the device, and of its check in the letter box."""
    rng, noise = np.random.default_rng(1), SecureNoise()
    one = Trajectory(rng.integers(0, 4, 7), rng.integers(0, 2, 6), rng.random(6))
    rows: list[dict[str, object]] = []
    for name, channel in channels().items():
        body = channel.encode(one, noise)
        seconds = _seconds(lambda channel=channel: channel.encode(one, noise))
        check = _seconds(lambda channel=channel, body=body: channel.check(body))
        rows.append(
            {
                "name": f"device encode, {name}",
                "ratio": seconds / MOST_SECONDS,
                "target": 1.0,
                "better": "lower",
                "detail": f"{seconds * 1e6:,.0f} us of 1 ms CPU, {len(body):,} bytes; check {check * 1e6:,.0f} us",
            }
        )
    return rows


def _deviations() -> list[dict[str, object]]:
    """Standard deviation of the exact noise over that of the privatizer of simulations: same people, same claim."""
    rows: list[dict[str, object]] = []
    for name, channel in channels().items():
        trust, _, mechanism = name.partition(", ")
        if trust == "local":
            continuous = make_privatizer(_request("local", DELTAS[mechanism], mechanism=mechanism)).noise_std()
            exact = channel.noise_std()
        else:
            # Totals and a batch of everything have the same counters. Noise of the 900 needed; that 1,000 bring theirs
            # is the price of drop-outs, sqrt(1000/900) in the deviation.
            batches = make_privatizer(_request("shuffle", 1e-6, asks=BatchQuery))
            continuous = {"rewards": batches.batch_std(LEAST, EVERYTHING)}
            exact = {"rewards": channel.bit_noise(LEAST).total.std}
        ratio = max(exact[part] / continuous[part] for part in exact if continuous.get(part))
        largest = max(exact.values())
        rows.append(
            {
                "name": f"exact noise, {name}",
                "ratio": ratio,
                "target": MOST_NOISE,
                "better": "lower",
                "detail": f"std {largest:.4g}, x{ratio:.5f} of the noise of simulations",
            }
        )
    return rows


def _seconds(work: Callable[[], object], rounds: int = 5, repeats: int = 100) -> float:
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
