"""Small channels for tests, and what every channel must refuse."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import stats

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.protocol import TOTALS, Totals
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.counts_contract import batch_spec
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle_release import ShufflePlan, ShuffleRelease
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
SMALL = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
EVERYTHING = BatchQuery(layer=None, failure_prob=None)
SILENT = Fraction(1, 2**60)
"""A noise bit that a seeded generator never draws: what is released is exact."""
FALSE_ALARM = 1e-6


def claim_of(trust, *, epsilon=1.0, delta=1e-6, reports=1):
    unit = PrivacyUnit(reports=reports, per_stage=1)
    return PrivacyClaim(
        trust=trust, epsilon=epsilon, delta=delta, unit=unit, neighbours="replace-one", output=OUTPUTS[trust][0]
    )


def request_of(trust, shape=SHAPE, *, asks=Totals, epsilon=1.0, delta=1e-6, mechanism=None, users=1000, **more):
    return PrivacyRequest(
        trust=trust,
        shape=shape,
        episodes=10 * users,
        epsilon=epsilon,
        delta=delta,
        calibration=None,
        mechanism=mechanism,
        users_per_batch=users,
        asks=asks,
        **more,
    )


def shuffle_basis(shape=SHAPE, *, least=Fraction(9, 10), asks=BatchQuery, reports=1, overflow=None, **more):
    request = request_of("shuffle", shape, asks=asks, **more)
    claim = claim_of("shuffle", epsilon=request.epsilon, delta=request.delta, reports=reports)
    return replace(ShufflePlan.of(request, least=least, claim=claim), overflow=overflow)


def bits_channel(
    shape=SMALL,
    query=EVERYTHING,
    *,
    target=10,
    least=8,
    m=2,
    q=Fraction(0.3),
    block=None,
    overflow=0,
    mirrored=False,
):
    """A shuffle channel with noise as given, not calibrated."""
    layer = None if isinstance(query, Totals) else query.layer
    everything = batch_spec(shape, "tight", layer).num_counters * m * (2 if mirrored else 1)
    return ShuffleRelease(
        claim=claim_of("shuffle"),
        shape=shape,
        query=query,
        target=target,
        least=least,
        honest=least,
        bits_per_user=m,
        probability=q,
        mirrored=mirrored,
        block=everything if block is None else block,
        overflow=Fraction(overflow),
    )


def local_channel(mechanism, shape=SMALL, *, epsilon=2.0, delta=0.0, reports=1, target=10, least=1, squares=False):
    plan = local_plan(mechanism, shape, epsilon=epsilon, delta=delta, reports=reports, squares=squares)
    return plan.release_of(StageSize(target=target, least=least, query=TOTALS))


def local_plan(mechanism, shape=SMALL, *, reports=1, **more):
    unit = PrivacyUnit(reports=reports, per_stage=1)
    return make_privatizer(request_of("local", shape, mechanism=mechanism, unit=unit, whole=True, **more))


def people(shape, users, seed, *, rewards=None):
    rng = np.random.default_rng(seed)
    H = shape.horizon
    earned = rng.integers(0, 2, (users, H)).astype(float) if rewards is None else np.full((users, H), rewards)
    return Trajectories(
        rng.integers(0, shape.num_states, (users, H + 1)), rng.integers(0, shape.num_actions, (users, H)), earned
    )


def rows(batch):
    return [Trajectory(*row) for row in zip(batch.states, batch.actions, batch.rewards, strict=True)]


def extreme(shape):
    """Episodes that no honest device has."""
    H, huge = shape.horizon, np.iinfo(np.int64)
    for states, actions, rewards in (
        (np.full(H + 1, huge.max), np.full(H, huge.min), np.full(H, np.nan)),
        (np.full(H + 1, -1), np.full(H, 10**6), np.full(H, np.inf)),
        (np.arange(H + 1) * 1000, np.zeros(H, dtype=np.int64), np.full(H, -np.inf)),
        (np.zeros(H + 1, dtype=np.uint64) + huge.max, np.zeros(H, dtype=np.int8), np.full(H, 1e308)),
    ):
        yield Trajectory(states, actions, rewards)


def noises(seed):
    """Both sources of noise."""
    return {"secure": SecureNoise(), "simulation": SimulationNoise(np.random.default_rng(seed))}


def tampered(plain):
    """What no channel may be read from: something missing, something unknown, something of another type."""
    for name in plain:
        yield {key: value for key, value in plain.items() if key != name}
        for wrong in (None, True, -1, 0.5, "more", [], {}, [1, 0], [2, 4], float("nan")):
            if wrong != plain[name]:
                yield plain | {name: wrong}
        if isinstance(plain[name], dict):
            for changed in tampered(plain[name]):
                yield plain | {name: changed}
    yield plain | {"surprise": 1}


def rejected(observed, expected):
    """Whether a chi-square test tells observed counts from expected ones, with a false-alarm rate of 1e-6."""
    order = np.argsort(expected)
    observed, expected = np.asarray(observed, float)[order], np.asarray(expected, float)[order]
    # Rare outcomes are pooled until five of them are expected.
    few = max(1, int(np.searchsorted(np.cumsum(expected), 5.0)) + 1)
    observed = np.concatenate([[observed[:few].sum()], observed[few:]])
    expected = np.concatenate([[expected[:few].sum()], expected[few:]])
    return bool(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue < FALSE_ALARM)
