"""Studies: what a device pays for a report, and what exact integer noise costs over the noise of simulations.

Reference instance: S=4, A=2, H=6, steps kept apart; (epsilon, delta) = (1, 1e-6), delta 0 where noise can be pure;
stages of 1,000 people of whom 900 are needed. Seconds are CPU seconds of the process, best of several; a device encodes
with secure noise, tables of the samplers built before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from papers.gradient_requests import gradient_request
from papers.square_root import SquareRootFactorization
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.trajectories import Trajectory
from tacit.protocol import TOTALS, Totals
from tacit.randomness import SecureNoise
from tacit.release.batch_release import BatchPlan
from tacit.release.contract import Release, StageSize
from tacit.release.gradient_release import GradientPlan
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle_release import ShufflePlan
from tacit.release.table import make_privatizer
from tacit.release.totals_release import TotalsPlan
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import GradientShape, SoftmaxQuery
from tacit.statistics.count_vectors import count_families

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
EVERYTHING = BatchQuery(layer=None, failure_prob=None)
TARGET, LEAST = 1000, 900
MAX_SECONDS = 1e-3
MAX_NOISE = 1.005
STAGES = 16
MANY, MAX_STAGE = 10_000, 5.0
DELTAS = {"subset": 0.0, "oue": 0.0, "rr": 0.0, "laplace": 0.0, "gaussian": 1e-6}


def run() -> list[dict[str, object]]:
    """Rows {name, ratio, target, better, detail}."""
    return [*_encoding(), *_deviations(), *_curator()]


def channels() -> dict[str, Release]:
    """Every channel of the reference instance, by name."""
    found: dict[str, Release] = {}
    for asks, query in ((BatchQuery, EVERYTHING), (Totals, TOTALS)):
        basis = ShufflePlan.of(_request("shuffle", 1e-6, asks=asks), least=Fraction(LEAST, TARGET))
        name = "shuffle, a batch" if asks is BatchQuery else "shuffle, totals"
        found[name] = basis.release_of(StageSize(target=TARGET, least=LEAST, query=query))
    for mechanism in DELTAS:
        plan: Any = make_privatizer(_request("local", DELTAS[mechanism], mechanism=mechanism, whole=True))
        found[f"local, {mechanism}"] = plan.release_of(StageSize(target=TARGET, least=1, query=TOTALS))
    return found | central_channels(TARGET)


def central_channels(target: int) -> dict[str, Release]:
    """The channels of a curator: running totals over sixteen stages, a batch, gradients of a tabular policy."""
    found: dict[str, Release] = {}
    for mechanism in ("factorization", "batched"):
        request = _request("central", 1e-6, mechanism=mechanism)
        basis = TotalsPlan.of(request, least=Fraction(9, 10), releases=STAGES)
        stage = StageSize(target=target, least=basis.least_of(target), query=TOTALS)
        found[f"central, {mechanism}"] = basis.channels([stage])[0]
    single = BatchPlan.of(_request("central", 1e-6, asks=BatchQuery), least=Fraction(9, 10))
    stage = StageSize(target=target, least=single.least_of(target), query=EVERYTHING)
    found["central, a batch"] = single.channels([stage])[0]
    gradient = GradientPlan.of(_gradients(target), least=Fraction(9, 10))
    stage = StageSize(target=target, least=gradient.least_of(target), query=SoftmaxQuery)
    found["central, gradient"] = gradient.channels([stage])[0]
    return found


def _gradients(people: int) -> PrivacyRequest:
    return gradient_request(
        shape=GradientShape(horizon=6, num_states=4, num_actions=2, staged=True, dimension=48),
        trust="central",
        epsilon=1.0,
        delta=1e-6,
        calibration="tight",
        users_per_batch=people,
        clip=1.0,
        tabular=True,
        baseline=None,
    )


def _curator() -> list[dict[str, object]]:
    """CPU of the curator for one stage of 10,000 reports, secure noise: decoding, sums and noise."""
    rng, noise = np.random.default_rng(1), SecureNoise()
    rows: list[dict[str, object]] = []
    for name, channel in central_channels(MANY).items():
        one = [Trajectory(rng.integers(0, 4, 7), rng.integers(0, 2, 6), rng.random(6)) for _ in range(100)]
        bodies = [channel.encode(one[i % 100], noise) for i in range(MANY)]
        secret = channel.begin_secret()
        channel.release(secret, bodies, channel.query, noise)  # compiles
        work = lambda channel=channel, bodies=bodies: channel.release(secret, bodies, channel.query, noise)  # noqa: B023, E731
        seconds = _seconds(work, rounds=3, repeats=1)
        rows.append(
            {
                "name": f"release of {MANY:,} reports, {name}",
                "ratio": seconds / MAX_STAGE,
                "target": 1.0,
                "better": "lower",
                "detail": f"{seconds * 1e3:,.0f} ms of {MAX_STAGE:g} s CPU",
            }
        )
    return rows


def _request(
    trust: str, delta: float, *, asks: type = Totals, mechanism: str | None = None, whole: bool = False
) -> PrivacyRequest:
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
        whole=whole,
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
                "ratio": seconds / MAX_SECONDS,
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
        elif trust == "central":
            exact = channel.noise_std()
            continuous = _continuous(mechanism)
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
                "target": MAX_NOISE,
                "better": "lower",
                "detail": f"std {largest:.4g}, x{ratio:.5f} of the noise of simulations",
            }
        )
    return rows


def _continuous(mechanism: str) -> dict[str, float]:
    """The deviation of the continuous mechanism of the same certificate, by the name of the channel."""
    families = count_families(SHAPE, "complement")
    fresh = math.sqrt(sum(family.l2_squared for family in families)) / gaussian_mu(1.0, 1e-6)
    return {
        "factorization": {"rewards": SquareRootFactorization.calibrate(families, 1.0, 1e-6, STAGES).max_std},
        "batched": {"rewards": fresh * math.sqrt(STAGES)},
        "a batch": {"rewards": fresh},
        "gradient": {"gradient": make_privatizer(_gradients(LEAST)).sigma},
    }[mechanism]


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
