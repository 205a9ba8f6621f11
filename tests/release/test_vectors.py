"""Statistics as vectors under every trust model: sensitivity, rounding, certificates, laws of simulations."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events import LatticeEvent
from tacit.accounting.events.gaussian import gaussian_delta, gaussian_mu
from tacit.accounting.events.lattice import dithered_square
from tacit.data.trajectories import FeatureUsers
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation
from tacit.randomness import SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.directions import direction, mean_score
from tacit.release.registry import channel_from_dict
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.release.vectors import VectorPlan
from tacit.released.batches import PlannedBatch
from tacit.released.moments import MomentQuery, MomentShape
from tacit.released.weighted_returns import WeightQuery, WeightShape
from tacit.statistics.moments import LEVELS, MomentVector, Rows, whole_rows

SHAPE = MomentShape(features=3, actions=2, shared=False)
QUERY = MomentQuery(lots=False)
TRUSTS = ("central", "shuffle", "local")


def claim_of(trust: Any, epsilon: float = 1.0, delta: float = 1e-6, reports: int = 1) -> PrivacyClaim:
    unit = PrivacyUnit(reports=reports, per_stage=1)
    return PrivacyClaim(
        trust=trust, epsilon=epsilon, delta=delta, unit=unit, neighbours="replace-one", output=OUTPUTS[trust][0]
    )


def made_for(trust: Any, shape: MomentShape, epsilon: float | None, delta: float | None) -> Any:
    return make_privatizer(
        PrivacyRequest(
            trust=trust,
            shape=shape,
            episodes=10_000,
            epsilon=epsilon,
            delta=delta,
            calibration=None,
            mechanism=None,
            users_per_batch=1,
            asks=MomentQuery,
        )
    )


def people(n: int, shape: MomentShape, seed: int, binary: bool = True) -> FeatureUsers:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, shape.features))
    x[:, 0] = 1.0
    x /= np.maximum(np.linalg.norm(x, axis=1), 1.0)[:, None]
    a = rng.integers(0, shape.actions, n)
    r = rng.random(n)
    return FeatureUsers(x, a, np.round(r) if binary else r, a.copy())


def noise(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def plan(trust: str, shape: MomentShape = SHAPE, **options: Any) -> VectorPlan:
    delta = 0.0 if trust == "local" else 1e-6
    claim = claim_of(trust, epsilon=options.pop("epsilon", 1.0), delta=delta, reports=options.pop("reports", 1))
    return VectorPlan(claim=claim, shape=shape, asks=MomentQuery, **options)


def release(trust: str, people: int, shape: MomentShape = SHAPE, lots: bool = False, **options: Any) -> Any:
    made = plan(trust, shape, **options)
    return made.release_of(StageSize(target=people, least=made.least_of(people), query=MomentQuery(lots=lots)))


def whole(statistic: MomentVector, x: Any, slot: int, level: int) -> np.ndarray:
    """The vector of one person."""
    rows = Rows(whole_rows(np.atleast_2d(x), statistic.shape.grid), *(np.array([k]) for k in (slot, level, slot)))
    found = np.zeros(statistic.size, dtype=np.int64)
    labels, amounts = statistic.entries(rows)
    found[labels[0]] = amounts[0]
    return found


# -------------------------------------------------------------------------------------------------------- sensitivity


@pytest.mark.parametrize("gram", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_pair_found_by_search_is_longer_than_the_lemma(d: int, gram: bool) -> None:
    """Lemma S12 (moments): maximisation from many starts comes within 1e-3 of the bound, and never above it."""
    shape = MomentShape(features=d, actions=2, shared=False)
    statistic = MomentVector(shape=shape, gram=gram, lots=False)
    same, other = statistic.changes()
    rng = np.random.default_rng(d)
    best = {0: 0.0, 1: 0.0}
    for start in range(12):
        slot, levels = start % 2, (LEVELS, 0 if start % 3 else LEVELS)

        def length(z: np.ndarray, slot: int = slot, levels: tuple[int, int] = levels) -> float:
            a, b = whole(statistic, z[:d], 0, levels[0]), whole(statistic, z[d:], slot, levels[1])
            return -float(((a - b).astype(float) ** 2).sum()) / float(statistic.length) ** 2

        found = optimize.minimize(length, 3 * rng.normal(size=2 * d), method="Nelder-Mead", options={"maxiter": 400})
        best[slot] = max(best[slot], -found.fun)
        # exactly, in whole numbers, at what was found and at shorter rows
        for scale in (1.0, 0.7):
            a = whole(statistic, scale * found.x[:d], 0, levels[0])
            b = whole(statistic, scale * found.x[d:], slot, levels[1])
            assert sum(int(v) ** 2 for v in a - b) <= (same, other)[slot].square * statistic.length**2
            assert sum(int(v) ** 2 for v in a) <= statistic.longest**2
            assert int((a != b).sum()) <= (same, other)[slot].counters
    assert best[0] > 0.99
    assert best[1] > 0.99 * float(other.square)
    low, high = statistic.bounds()
    for _ in range(300):
        own = whole(statistic, 2 * rng.normal(size=d), 0, int(rng.integers(0, LEVELS + 1)))[: statistic.width]
        assert (low <= own).all()
        assert (own <= high).all()


def test_rows_out_of_range_are_shortened_in_whole_numbers() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 7, 200):
        x = rng.normal(size=(500, d)) * 10.0 ** rng.uniform(-3, 200, size=(500, 1))
        x[:3, 0] = np.nan, np.inf, -np.inf
        for grid in (2, 1024):
            found = whole_rows(x, grid)
            assert ((found**2).sum(axis=1) <= grid**2).all()
    units = rng.normal(size=(2000, 6))
    units /= np.linalg.norm(units, axis=1)[:, None]
    assert (np.abs(whole_rows(units, 1024) - 1024 * units) < 1.0).all()


# ------------------------------------------------------------------------------------------------------------ rounding


def pairs(statistic: MomentVector, shift: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of people as vectors, over 2^shift: opposite rewards and close rows, other slots, and any."""
    rng, d, found = np.random.default_rng(3), statistic.shape.features, []
    for i in range(count):
        x = rng.normal(size=d)
        y = x + rng.choice([0.0, 0.05, 0.2, 1.0]) * rng.normal(size=d)
        x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
        one = whole(statistic, x, 0, LEVELS), whole(statistic, y, int(i % 4 == 3), 0 if i % 3 else LEVELS)
        found.append((one[0], one[1]))
    return found


def test_the_mean_privacy_of_rounded_pairs_is_covered() -> None:
    """Lemma P17 (dithered vectors) against the mean of Gaussian curves over dithers: pairs of every sort."""
    statistic, sigma = MomentVector(shape=SHAPE, gram=True, lots=False), 30.0
    shift = 25
    rng, slack = np.random.default_rng(4), 1e-9
    bound = {
        change.counters: dithered_square(1.0 / sigma, math.ceil(256 * change.square), change.counters, slack)
        for change in statistic.changes()
    }
    mu = math.sqrt(max(bound.values())) / sigma
    tight = 0.0
    for a, b in pairs(statistic, shift, 24):
        u = rng.integers(0, 1 << shift, size=(400, statistic.size))
        moved = ((a + u) >> shift) - ((b + u) >> shift)
        squares = (moved**2).sum(axis=1)
        # coupled rounding has the mean of the change, and never more than one unit beyond it
        assert (np.abs(moved - (a - b) / 2**shift) < 1.0).all()
        for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
            mean = float(np.mean([gaussian_delta(epsilon, math.sqrt(w) / sigma) for w in squares]))
            covered = gaussian_delta(epsilon, mu)
            assert mean <= slack + covered * (1.0 + 1e-9)
            tight = max(tight, mean / covered)
    assert tight > 0.3, "the bound is not vacuous"


@pytest.mark.parametrize("rounded", [1, 9, 65])
def test_the_worst_change_that_can_be_rounded_is_covered(rounded: int) -> None:
    """Changes of one length, spread over counters in many ways, by the exact law of their rounded squares."""
    kappa, slack, rng = 1.0 / 68.0, 1e-9, np.random.default_rng(rounded)
    square = 256
    mu = kappa * math.sqrt(dithered_square(kappa, square, rounded, slack))
    for spread in range(8):
        shares = rng.dirichlet(np.full(rounded, 10.0 ** (spread - 4)))
        change = np.sqrt(shares * square)
        k = np.floor(change)
        f = change - k
        # the law of Σ (k + B)², on whole numbers, by convolution
        law, first = np.ones(1), 0
        for base, part in zip(k.astype(int), f, strict=True):
            step = np.zeros(2 * base + 2)
            step[0], step[2 * base + 1] = 1.0 - part, part
            law, first = np.convolve(law, step), first + base * base
        squares = first + np.arange(len(law))
        for epsilon in (0.0, 0.3, 1.0, 1.5, 2.0):
            deltas = np.array([gaussian_delta(epsilon, kappa * math.sqrt(w)) for w in squares])
            assert float(deltas @ law) <= slack + gaussian_delta(epsilon, mu)


def test_the_square_of_the_change_alone_would_not_do() -> None:
    """A mutant: rounding is forgotten. Counters half-way between whole numbers refute it."""
    change = np.full(64, 0.5)
    mean = np.mean([gaussian_delta(1.0, math.sqrt(w) / 10.0) for w in np.random.default_rng(0).binomial(64, 0.5, 4000)])
    assert mean > 1.5 * gaussian_delta(1.0, math.sqrt(float((change**2).sum())) / 10.0)
    assert mean <= gaussian_delta(1.0, math.sqrt(dithered_square(0.1, 16, 64, 1e-9)) / 10.0)


# -------------------------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("trust", TRUSTS)
def test_certificates_hold_and_are_tight(trust: str, shared: bool) -> None:
    shape = MomentShape(features=5, actions=4, shared=shared)
    for epsilon, reports in ((0.3, 1), (1.0, 1), (3.0, 2)):
        delta = 0.0 if trust == "local" else 1e-6
        assert made_for(trust, shape, epsilon, delta).name in (f"{trust}/moments", "local/directions")
        made = plan(trust, shape, epsilon=epsilon, reports=reports, overflow=0.0)
        stages = [StageSize(target=n, least=n, query=QUERY) for n in (4000, 9000)]
        channels = made.channels(stages)
        events = made.exposure(channels, reports)
        found = delta_of(events, epsilon)
        assert found <= delta
        if delta:
            assert found > (0.3 if trust == "shuffle" else 0.95) * delta
        for channel in channels:
            assert channel_from_dict(channel.to_dict()) == channel


@pytest.mark.parametrize(
    ("epsilon", "delta", "shape", "finer"),
    [
        (1.0, 1e-6, MomentShape(features=10, actions=2, shared=False, grid=8), 64),  # certified: infinity, before
        (8.0, 1e-9, MomentShape(features=10, actions=2, shared=False), 16),  # 8.03, before
        (16.0, 1e-6, WeightShape(shares=(256, 76)), 16),
        (1.0, 1e-6, SHAPE, 1),
    ],
)
def test_whole_numbers_are_so_fine_that_the_claim_holds(epsilon: float, delta: float, shape: Any, finer: int) -> None:
    query = WeightQuery() if isinstance(shape, WeightShape) else QUERY
    made = VectorPlan(claim=claim_of("central", epsilon=epsilon, delta=delta), shape=shape, asks=type(query))
    stage = made.release_of(StageSize(target=1000, least=1000, query=query))
    assert stage.finer == finer
    assert 0.95 * delta < delta_of(stage.events(), epsilon) <= delta
    assert channel_from_dict(json.loads(json.dumps(stage.to_dict()))) == stage
    assert ("finer" in stage.to_dict()) == (finer > 1)
    _, drawn = stage.noise.add(None, np.full(stage.noise.size, stage.statistic.scale), noise(0))
    assert np.abs(drawn / stage.noise.unit - 1.0).max() < 6.0 * stage.noise.std


@pytest.mark.parametrize("trust", TRUSTS)
def test_weighted_returns_are_written_down_and_read_again(trust: str) -> None:
    made = VectorPlan(
        claim=claim_of(trust, delta=0.0 if trust == "local" else 1e-6), shape=WeightShape(shares=(256,)),
        asks=WeightQuery,
    )  # fmt: skip
    stage = made.release_of(StageSize(target=5000, least=4000, query=WeightQuery()))
    assert channel_from_dict(json.loads(json.dumps(stage.to_dict()))) == stage


def test_noise_is_what_the_recipe_says() -> None:
    """The deviation of v is 1/μ, of G √8/μ; bits need at most 8 % more at d = 10, and bodies stay below 4 kB."""
    shape, mu = MomentShape(features=10, actions=4, shared=False), gaussian_mu(1.0, 1e-6)
    gram, rewards = plan("central", shape).moment_std(4000, QUERY)
    assert gram == pytest.approx(math.sqrt(8.0) / mu, rel=2e-3)
    assert rewards == pytest.approx(1.0 / mu, rel=2e-3)
    bits = release("shuffle", 4000, shape)
    assert 1.0 < math.sqrt(bits.noise_variance(4000)) / 2.0 / rewards < 1.08
    assert bits.body_size <= 4000
    [(event, _)] = [one for one in bits.events() if isinstance(one[0], LatticeEvent)]
    assert (event.largest, event.square, event.changed, event.rounded) == (16, 256, 130, 65)


def test_what_cannot_be_released_is_refused() -> None:
    with pytest.raises(NotSupported, match="never pure"):
        VectorPlan(claim=claim_of("central", delta=0.0), shape=SHAPE, asks=MomentQuery)
    with pytest.raises(InvalidInput, match="MomentShape"):
        VectorPlan(claim=claim_of("central"), shape="three", asks=MomentQuery)
    with pytest.raises(InvalidInput, match="honest devices"):
        release("shuffle", 3, epsilon=0.1)
    channel = release("central", 10)
    with pytest.raises(PrivacyViolation):
        channel.simulate(channel.begin_secret(), people(9, SHAPE, 0), QUERY, noise(0))
    with pytest.raises(InvalidInput, match="features"):
        channel.simulate(
            channel.begin_secret(), people(10, MomentShape(features=4, actions=2, shared=False), 0), QUERY, noise(0)
        )
    body = channel.encode(None, noise(0))
    channel.check(body)
    for wrong in (body[:-1], (2000).to_bytes(2, "little") + bytes(len(body) - 2)):
        with pytest.raises(InvalidInput):
            channel.check(wrong)
    plain = channel.to_dict()
    for broken in ({"statistic": plain["statistic"] | {"name": "other"}}, {"variance": 0}, {"statistic": {}}):
        with pytest.raises(InvalidInput):
            channel_from_dict(plain | broken)


# ------------------------------------------------------------------------------------------------- laws of simulations


def statistics_of(channel: Any, users: FeatureUsers, seed: int, at_once: bool) -> Any:
    rng = noise(seed)
    if at_once:
        _, payload = channel.simulate(channel.begin_secret(), users, channel.query, rng)
    else:
        each = [FeatureUsers(*(part[i : i + 1] for part in users)) for i in range(users.users)]
        bodies = [channel.encode(one, rng) for one in each]
        for body in bodies:
            channel.check(body)
        _, payload = channel.release(channel.begin_secret(), bodies, channel.query, rng)
    return channel.read(channel.begin_memory(), payload, users.users)[1].statistics


def exact(users: FeatureUsers, shape: MomentShape) -> tuple[np.ndarray, np.ndarray]:
    slots = np.zeros(users.users, dtype=int) if shape.shared else users.actions
    x = whole_rows(users.x, shape.grid) / shape.grid
    G = np.array([x[slots == k].T @ x[slots == k] for k in range(shape.slots)])
    return G, np.array([x[slots == k].T @ (users.rewards[slots == k] - 0.5) for k in range(shape.slots)])


@pytest.mark.statistical
@pytest.mark.parametrize(("trust", "lots"), [("central", False), ("shuffle", False), ("local", False), ("local", True)])
def test_simulations_have_the_law_of_devices(trust: str, lots: bool) -> None:
    """Means and deviations of both ways, and of both against the truth and the stated variance.

    300 batches of 30 people each way: a false alarm has probability below 1e-5, a deviation off by a
    fifth, or a mean by a third of a deviation, is missed with probability below 1e-2.
    """
    shape = MomentShape(features=2, actions=2, shared=False, grid=64)
    users = people(30, shape, 5, binary=False)
    channel = release(trust, 30, shape, lots, epsilon=4.0)
    G, v = exact(users, shape)
    draws: dict[bool, np.ndarray] = {}
    for at_once in (True, False):
        found = [statistics_of(channel, users, 1000 * at_once + seed, at_once) for seed in range(300)]
        sent = [np.concatenate([one.gram[:, *np.triu_indices(2)].ravel(), one.rewards.ravel()]) for one in found]
        draws[at_once] = np.array(sent)
        truth = np.concatenate([G[:, *np.triu_indices(2)].ravel(), v.ravel()])
        used = slice(None) if trust != "local" else slice(6, None)
        error = (draws[at_once] - truth)[:, used]
        stated = np.sqrt(
            np.concatenate([np.repeat(found[0].gram_variance, 3), np.repeat(found[0].reward_variance, 2)])
        )[used]
        deviation = error.std(axis=0)
        assert (np.abs(error.mean(axis=0)) < 5.0 * deviation / math.sqrt(300) + 1e-3).all()
        beside = np.tile([True, False, True], 2) if trust != "local" else np.array([], dtype=bool)
        factor = np.where(np.concatenate([beside, np.full(4, True)]), 1.0, math.sqrt(0.5))
        assert (deviation < 1.25 * stated * factor + 0.35).all()
        assert (deviation > 0.75 * stated * factor).all()
    used_draws = [draws[way][:, used] for way in (True, False)]
    ratio = used_draws[0].std(axis=0) / used_draws[1].std(axis=0)
    assert (np.abs(np.log(ratio)) < 0.27).all()
    for column in range(used_draws[0].shape[1]):
        assert stats.ks_2samp(used_draws[0][:, column], used_draws[1][:, column]).pvalue > 1e-6


def test_fast_sums_are_the_sums_of_entries() -> None:
    for shape in (SHAPE, MomentShape(features=4, actions=3, shared=True)):
        for gram in (True, False):
            statistic = MomentVector(shape=shape, gram=gram, lots=False)
            rows = statistic.people(people(5000, shape, 2, binary=False), noise(0))
            labels, amounts = statistic.entries(rows)
            assert np.array_equal(
                statistic.sums(rows), np.bincount(labels.ravel(), amounts.ravel(), statistic.size).astype(int)
            )


def test_a_lot_that_was_not_followed_counts_for_nothing() -> None:
    channel = release("local", 40, lots=True)
    users = people(40, SHAPE, 1)
    strayed = users._replace(lots=1 - users.actions)
    statistic = channel.statistic
    assert not statistic.people(strayed, noise(0)).x.any()
    found = statistics_of(channel, users, 0, False)
    assert found.slot_users.tolist() == np.bincount(users.lots, minlength=2).tolist()


# ---------------------------------------------------------------------------------------------------------- directions


def test_an_index_is_exactly_as_private_as_stated() -> None:
    """Whatever the vector, k indices have e^ε times the probability of the others: their sum is one."""
    channel = release("local", 10, epsilon=1.3)
    k, M = channel.chosen, channel.directions
    high = math.exp(1.3) / (k * math.exp(1.3) + M - k)
    assert channel._keep / k <= high * (1.0 + 1e-12)
    assert (1 - channel._keep) / (M - k) >= high / math.exp(1.3) * (1 - 1e-12)
    assert delta_of(channel.events(), 1.3) == 0.0
    assert delta_of(channel.events(), 1.29) > 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("v", [[1.0, 0.0, 0.0, 0.0], [0.6, 0.3, -0.5, 0.2]])
def test_directions_are_unbiased(v: list[float]) -> None:
    """60,000 messages by the published hash: each entry within 5 deviations, which are .8 % of the signal."""
    rng, size, M, k = np.random.default_rng(7), 4, 32, 11
    unit = np.array(v) / np.linalg.norm(v)
    # one hash gives the bits of all entries of a direction here; `direction` itself is checked below
    u = rng.binomial(256, 0.5, size=(60_000, M // 2, size)) - 128.0
    scores = u @ unit
    signed = np.concatenate([scores, -scores], axis=1)
    order = np.argsort(-signed, axis=1, kind="stable")
    keep = k * math.e / (k * math.e + M - k)
    rank = np.where(rng.random(60_000) < keep, rng.integers(0, k, 60_000), rng.integers(k, M, 60_000))
    index = order[np.arange(60_000), rank]
    sent = u[np.arange(60_000), index % (M // 2)] * np.where(index < M // 2, 1.0, -1.0)[:, None]
    estimate = sent / (8.0 * mean_score(M, k, 1.0))
    error = estimate.mean(axis=0) - unit
    assert (np.abs(error) < 5.0 * estimate.std(axis=0) / math.sqrt(60_000) + 2e-3).all()


@pytest.mark.statistical
def test_published_directions_have_the_stated_moments() -> None:
    """Mean 0 and variance 64 of 4,000 entries, within 5 deviations; opposite halves are opposite."""
    found = np.array([direction(i.to_bytes(16, "little"), 3, 40, 32) for i in range(100)])
    assert abs(found.mean()) < 5.0 * 8.0 / math.sqrt(4000)
    assert abs(found.var() / 64.0 - 1.0) < 5.0 * math.sqrt(2.0 / 4000)
    assert np.array_equal(direction(bytes(16), 19, 5, 32), -direction(bytes(16), 3, 5, 32))


def test_mean_scores_by_an_independent_integral() -> None:
    """The sign bit by hand, and the first of many by drawing."""
    assert mean_score(2, 1, 1.0) == pytest.approx(math.sqrt(2.0 / math.pi) * math.tanh(0.5), rel=1e-9)
    drawn = -np.sort(-np.abs(np.random.default_rng(0).normal(size=(200_000, 16))), axis=1)[:, :11].mean()
    keep = 11 * math.e / (11 * math.e + 21)
    assert mean_score(32, 11, 1.0) == pytest.approx(drawn * (keep - (1 - keep) * 11 / 21), rel=3e-3)


# ----------------------------------------------------------------------------------------------- runs of several stages


@pytest.mark.parametrize("trust", ["none", *TRUSTS])
def test_a_schedule_runs_under_every_trust_model(trust: str) -> None:
    shape = MomentShape(features=4, actions=3, shared=True)
    epsilon, delta = (None, None) if trust == "none" else (1.0, 0.0 if trust == "local" else 1e-6)
    made: Any = made_for(trust, shape, epsilon, delta)
    batches = [PlannedBatch(users=n, query=QUERY) for n in (500, 2000)]  # type: ignore[arg-type]
    run = made.planned(batches)
    assert run.certificate().holds
    state = run.begin()
    for seed, batch in enumerate(batches):
        users = people(batch.users, shape, seed)
        state, private = run.release(state, users, QUERY, noise(seed))
        G, v = exact(users, shape)
        found = private.statistics
        assert found.users.tolist() == [batch.users]
        gram, rewards = run.moment_std(batch.users, QUERY)
        assert gram**2 == pytest.approx(found.gram_variance[0])
        assert rewards**2 == pytest.approx(found.reward_variance[0])
        assert (np.abs(found.rewards - v) <= 6.0 * rewards + 0.12 * math.sqrt(batch.users) + 1e-9).all()
        if math.isfinite(gram):
            assert (np.abs(found.gram - G) <= 6.0 * gram + 0.2 * math.sqrt(batch.users) + 3e-4 * batch.users).all()
    assert Fraction(1) == run.basis.least


SEARCHED = [
    (5, 3, 40, 36, 2.0), (5, 3, 60, 54, 2.0), (5, 2, 40, 36, 2.0), (4, 2, 300, 270, 0.5), (4, 2, 77, 70, 3.0),
    (2, 3, 1000, 900, 0.3),
]  # fmt: skip


@pytest.mark.parametrize(("d", "actions", "target", "least", "epsilon"), SEARCHED)
def test_bits_are_as_many_as_the_accountant_certifies(d, actions, target, least, epsilon) -> None:
    """The search by a formula leaves room for the accountant's grid, at any size, and next to nothing beyond it."""
    claim = PrivacyClaim(
        trust="shuffle", epsilon=epsilon, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one", output="shuffled-transcript",
    )  # fmt: skip
    plan = VectorPlan(claim=claim, shape=MomentShape(features=d, actions=actions, shared=False), asks=MomentQuery)
    release = plan.release_of(StageSize(target=target, least=least, query=MomentQuery(lots=False)))
    assert 0.999 * epsilon < epsilon_of(release.events(), claim.delta) <= epsilon
