"""Running totals under central trust: noise as stated, sensitivity as certified, integers only."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from central_tools import SHAPE, SMALL, bodies_of, central_claim, one, people, require_law, simulated

from papers.square_root import SquareRootFactorization, square_root_coefficients
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, PrivacyViolation, UnknownName
from tacit.protocol import TOTALS, Totals
from tacit.randomness import SecureNoise
from tacit.release.contract import StageSize
from tacit.release.curator import best_exponent, column_square, integer_column, prefix_weights
from tacit.release.fixed_point import draw_noise, from_payload
from tacit.release.registry import channel_from_dict
from tacit.release.totals_release import TotalsPlan, TotalsRelease
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_vectors import add_trajectory, count_families
from tacit.study.state import decode_state, encode_state

BANDIT = CountShape(horizon=1, num_states=3, num_actions=2, staged=True)
MECHANISMS = ("factorization", "batched", None)


def basis_of(shape: CountShape = SMALL, *, releases: int = 4, reports: int = 1, mechanism: str | None = None):
    return TotalsPlan(shape=shape, claim=central_claim(reports), releases=releases, mechanism=mechanism)


def channels_of(basis: TotalsPlan, people_count: int = 20, least: int = 10) -> tuple[TotalsRelease, ...]:
    return basis.channels([StageSize(target=people_count, least=least, query=TOTALS)] * basis.releases)


def flat(found: CountStatistics) -> np.ndarray:
    """Transitions (with a successor), rewards and complements: the numbers that carry one noise each."""
    moved = found.transitions[:-1] if found.transitions.shape[0] > 1 else found.transitions
    return np.concatenate([moved.ravel(), found.rewards.ravel(), (found.visits - found.rewards).ravel()])


def exact_of(shape: CountShape, stages: list[Trajectories]) -> CountStatistics:
    totals = empty_counts(shape)
    for users in stages:
        for i in range(len(users)):
            add_trajectory(totals, users.states[i], users.actions[i], users.rewards[i])
    return totals


def on_grid(users: Trajectories, levels: int = 16) -> Trajectories:
    """Rewards that need no rounding, so that exact totals are known."""
    return Trajectories(users.states, users.actions, np.floor(users.rewards * levels) / levels)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_s5_secure_noise_of_the_totals_is_as_stated(mechanism: str | None) -> None:
    """S5: mean and covariance of released minus exact over all prefixes, secure noise; payloads are integers."""
    basis = basis_of(CountShape(horizon=2, num_states=2, num_actions=2, staged=True), releases=3, mechanism=mechanism)
    channels = channels_of(basis, 3, 1)
    stages = [on_grid(people(basis.shape, 3, seed)) for seed in range(3)]
    exact = [flat(exact_of(basis.shape, stages[: k + 1])) for k in range(3)]
    bodies = [bodies_of(channel, users, SecureNoise()) for channel, users in zip(channels, stages, strict=True)]
    errors: list[np.ndarray] = []
    for _ in range(60):
        secret, memory, found = channels[0].begin_secret(), channels[0].begin_memory(), []
        for k, channel in enumerate(channels):
            secret, payload = channel.release(secret, bodies[k], TOTALS, SecureNoise())
            assert len(payload) == 8 * (channel.noise.size + 1)
            memory, released = channel.read(memory, payload, 3)
            assert released.claim == basis.claim
            assert math.isclose(released.statistics.variance[0], channel.noise.variance_at(k + 1))
            assert released.statistics.variance[1] == 2.0 * released.statistics.variance[2]
            assert released.statistics.users[0] == 3 * (k + 1)
            found.append(flat(released.statistics) - exact[k])
        errors.append(np.stack(found))
    # Coordinates are alike and independent: rows of the sample are (round, coordinate), columns the prefixes.
    sample = np.stack(errors).transpose(0, 2, 1).reshape(-1, 3)
    q = prefix_weights(channels[0].noise.column)
    B = np.array([[q[k - j] if j <= k else 0.0 for j in range(3)] for k in range(3)])
    stated = channels[0].variance / channels[0].levels ** 2 * B @ B.T
    assert np.allclose(np.diag(stated), [channels[0].noise.variance_at(k + 1) for k in range(3)])
    require_law(sample, stated)
    # Its power: noise of which a quarter is missing, or which is not correlated as stated, is found.
    with pytest.raises(AssertionError):
        require_law(0.75 * sample, stated)


def test_without_noise_totals_are_exact_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is inverted in public is what the curator added up, for every mechanism and both shapes."""
    module = "tacit.release.curator.draw_noise"
    monkeypatch.setattr(module, lambda size, variance, noise: np.zeros(size, dtype=np.int64))
    for mechanism in MECHANISMS:
        for shape in (SMALL, replace(SMALL, staged=False), BANDIT, replace(BANDIT, staged=False)):
            channels = channels_of(basis_of(shape, mechanism=mechanism))
            stages = [on_grid(people(shape, 12, seed)) for seed in range(4)]
            secret, memory = channels[0].begin_secret(), channels[0].begin_memory()
            for k, channel in enumerate(channels):
                bodies = bodies_of(channel, stages[k], simulated(k))
                secret, payload = channel.release(secret, bodies, TOTALS, SecureNoise())
                secret, memory = decode_state(encode_state(secret)), decode_state(encode_state(memory))
                memory, released = channel.read(memory, payload, 12)
                exact = exact_of(shape, stages[: k + 1])
                found = released.statistics
                assert np.allclose(found.transitions, exact.transitions, atol=1e-9)
                assert np.allclose(found.visits, exact.visits, atol=1e-9)
                assert np.allclose(found.rewards, exact.rewards, atol=1e-9)


def payloads(channels: tuple[TotalsRelease, ...], replaced: tuple[int, ...]) -> np.ndarray:
    """All payloads of a person who sits in one cell, or in another one in these stages."""
    H = SMALL.horizon
    stay = Trajectory(np.zeros(H + 1, dtype=int), np.zeros(H, dtype=int), np.ones(H))
    move = Trajectory(np.ones(H + 1, dtype=int), np.ones(H, dtype=int), np.zeros(H))
    secret, found = channels[0].begin_secret(), []
    for k, channel in enumerate(channels):
        body = channel.encode(move if k in replaced else stay, simulated(0))
        secret, payload = channel.release(secret, [body], TOTALS, SecureNoise())
        found.append(from_payload(payload, channel.noise.size + 1)[1:])
    return np.concatenate(found)


@pytest.mark.parametrize("reports", [1, 2, 5])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_s6_black_box_sensitivity(reports: int, mechanism: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """S6: g reports replaced at the worst, one per stage, move the payloads by at most the certified distance."""
    monkeypatch.setattr(
        "tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64)
    )
    for staged in (True, False):
        basis = basis_of(replace(SMALL, staged=staged), releases=6, reports=reports, mechanism=mechanism)
        channels = channels_of(basis, 2, 1)
        before = payloads(channels, ())
        moved = {J: float(np.linalg.norm(payloads(channels, J) - before)) for J in combinations(range(6), reports)}
        worst = max(moved, key=lambda J: moved[J])
        # μ = distance / s, in units
        mu = moved[worst] / math.sqrt(channels[0].variance)
        certified = math.sqrt(
            sum(e.mu_squared() * n for e, n in basis.exposure(channels, reports) if e.NAME == "gaussian")
        )
        assert mu <= certified <= mu * (1.0 + 1e-9)
        # The earliest stages are the worst.
        assert moved[tuple(range(reports))] >= moved[worst] * (1.0 - 1e-12)
        # The claim is met, and 0.1 % less noise would not meet it.
        assert epsilon_of(basis.exposure(channels, reports), 1e-6) <= 1.0
        assert mu * 1.001 > gaussian_mu(1.0, 1e-6)


def test_s6_one_stage_of_random_people_moves_less() -> None:
    """Any replacement in one stage moves its sums by at most the families' length."""
    channel = channels_of(basis_of())[0]
    most = sum(f.l2_squared for f in count_families(SMALL, "complement")) * channel.levels**2
    users = people(SMALL, 400, 3)
    sums = [channel.sums(channel.opened([b]), TOTALS, simulated(0)) for b in bodies_of(channel, users, simulated(1))]
    for i in range(0, 400, 2):
        assert float(((sums[i] - sums[i + 1]) ** 2).sum()) <= most


@pytest.mark.statistical
def test_simulated_and_real_releases_have_one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """`simulate` from trajectories and from counts, and `release` over `encode`: the same mean and covariance."""
    shape = CountShape(horizon=2, num_states=2, num_actions=1, staged=True)
    channel = channels_of(basis_of(shape, releases=1), 12, 1)[0]
    users = people(shape, 12, 5)
    constant = Trajectories(users.states, users.actions, np.full(users.rewards.shape, 0.3))
    exact = flat(exact_of(shape, [constant]))
    counts = count_trajectories(constant, 2, 1)
    ways = {
        "devices": lambda n: channel.release(channel.begin_secret(), bodies_of(channel, constant, n), TOTALS, n),
        "people": lambda n: channel.simulate(channel.begin_secret(), constant, TOTALS, n),
        "counts": lambda n: channel.simulate(channel.begin_secret(), counts, TOTALS, n),
    }
    # Rounding 0.3 to the grid of 16: 4.8 is 4 or 5, with variance .16/16² per visit; R and N - R move oppositely.
    visits = counts.visits.astype(float).ravel()
    D = channel.noise.size
    stated = channel.noise.variance_at(1) * np.eye(D)
    first = D - 2 * len(visits)
    for i, n in enumerate(visits):
        r, c = first + i, first + len(visits) + i
        rounding = n * 0.16 / 256
        stated[r, r] += rounding
        stated[c, c] += rounding
        stated[r, c] -= rounding
        stated[c, r] -= rounding
    for number, way in enumerate(ways.values()):
        noise = simulated(100 + number)
        errors = []
        for _ in range(250):
            _, payload = way(noise)
            errors.append(flat(channel.read(channel.begin_memory(), payload, 12)[1].statistics) - exact)
        require_law(np.array(errors), stated)
        assert np.square(errors).mean() == pytest.approx(np.trace(stated) / D, rel=0.2)
    # Without noise only the rounding is left, and all three ways have its variance, too.
    monkeypatch.setattr(
        "tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64)
    )
    rewards = slice(first, first + len(visits))
    for number, way in enumerate(ways.values()):
        noise = simulated(200 + number)
        payloads = [way(noise)[1] for _ in range(250)]
        errors = [flat(channel.read(channel.begin_memory(), payload, 12)[1].statistics) - exact for payload in payloads]
        require_law(np.array(errors)[:, rewards], np.diag(visits * 0.16 / 256))


@pytest.mark.statistical
def test_the_two_sources_of_noise_have_one_law() -> None:
    """Secure and simulated integers: variance s², within five standard errors (false alarm 6e-7 each)."""
    for noise in (SecureNoise(), simulated(9)):
        z = draw_noise(40_000, 300**2, noise)
        assert z.dtype == np.int64
        assert abs(z.mean()) <= 5.0 * 300 / math.sqrt(z.size)
        assert abs(z.var() / 300**2 - 1.0) <= 5.0 * math.sqrt(2.0 / z.size)
    with pytest.raises(TypeError, match="noise must be"):
        draw_noise(3, 300**2, np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("releases", [1, 16, 64])
def test_extra_noise_over_the_continuous_mechanism(releases: int) -> None:
    """The deviation of the last totals is at most 0.5 % above the continuous mechanism's of the same certificate."""
    families = count_families(SHAPE, "complement")
    ideal = SquareRootFactorization.calibrate(families, 1.0, 1e-6, releases).max_std
    found = basis_of(SHAPE, releases=releases, mechanism="factorization").noise_std()["transitions"]
    assert ideal * (1.0 - 1e-9) < found < 1.0002 * ideal
    fresh = basis_of(SHAPE, releases=releases, mechanism="batched").noise_std()["transitions"]
    single = math.sqrt(22.0) / gaussian_mu(1.0, 1e-6) * math.sqrt(releases)
    assert single < fresh < 1.0002 * single


def test_reference_instance() -> None:
    """Sixteen stages at (1, 1e-6): the square root and fresh noise for 1, 2 and 5 reports, and what is chosen."""
    table = {1: (38.5, 79.3), 2: (70.2, 112.1), 5: (154.5, 177.2)}
    for reports, wanted in table.items():
        found = [
            basis_of(SHAPE, releases=16, reports=reports, mechanism=name).noise_std()["rewards"]
            for name in ("factorization", "batched")
        ]
        assert [round(std, 1) for std in found] == list(wanted)

        def total(mechanism: str | None, g: int = reports) -> float:
            channel = channels_of(basis_of(SHAPE, releases=16, reports=g, mechanism=mechanism))[0]
            return sum(channel.noise.variance_at(k) for k in range(1, 17))

        assert total(None) <= min(total("factorization"), total("batched"))
    assert best_exponent(16, 16) == 0


def test_the_column_is_the_rounded_square_root() -> None:
    """⌊N c_j⌉, non-negative and non-increasing, at any size; its squares are those of g columns written out."""
    for stages, scale in ((5, 7), (40, 1 << 12), (700, 1 << 16)):
        column = integer_column(Fraction(1, 2), stages, scale)
        assert np.abs(np.array(column) - scale * square_root_coefficients(stages)).max() <= 0.5 + 1e-9
        assert all(a >= b >= 0 for a, b in pairwise(column))
    column = integer_column(Fraction(3, 8), 9, 1000)
    C = np.array([[column[r - j] if r >= j else 0 for j in range(9)] for r in range(9)], dtype=np.int64)
    for g in range(1, 10):
        worst = max(int((C[:, list(J)].sum(axis=1) ** 2).sum()) for J in combinations(range(9), g))
        assert column_square(column, g) == worst
    A = np.tril(np.ones((9, 9)))
    assert np.allclose((A @ np.linalg.inv(C))[:, 0], prefix_weights(column), rtol=1e-9)


def test_least_and_target_are_enforced() -> None:
    """One report too few, and one too many, is refused, and nothing is released."""
    channel = channels_of(basis_of(), 20, 10)[0]
    bodies = bodies_of(channel, people(SMALL, 21, 0), simulated(0))
    with pytest.raises(PrivacyViolation, match="needs 10"):
        channel.release(channel.begin_secret(), bodies[:9], TOTALS, SecureNoise())
    with pytest.raises(InvalidInput, match="at most the 20"):
        channel.release(channel.begin_secret(), bodies, TOTALS, SecureNoise())
    with pytest.raises(PrivacyViolation):
        channel.simulate(channel.begin_secret(), people(SMALL, 9, 0), TOTALS, simulated(0))
    with pytest.raises(PrivacyViolation):
        channel.events_at(9)
    for count in (10, 20):
        channel.release(channel.begin_secret(), bodies[:count], TOTALS, SecureNoise())
        assert channel.events_at(count) == channel.events()


def test_cover_reports_count_for_nothing() -> None:
    """A cover report is as long as any other and leaves the sums as they are."""
    channel = channels_of(basis_of())[0]
    cover = channel.encode(None, SecureNoise())
    users = bodies_of(channel, people(SMALL, 10, 0), simulated(0))
    assert {len(body) for body in (cover, *users)} == {channel.body_size} == {6 * 3 + 2}
    channel.check(cover)
    alone, beside = (
        channel.sums(channel.opened(sent), TOTALS, simulated(0)) for sent in (users, [cover, *users, cover])
    )
    assert (alone == beside).all()
    assert (channel.sums(channel.opened([cover]), TOTALS, simulated(0)) == 0).all()


def test_extreme_trajectories_are_clipped() -> None:
    """Nothing raises on what a person did, and nobody counts for more than one."""
    channel = channels_of(basis_of())[0]
    wild = Trajectory(
        np.array([-5, 2**40, 1, np.iinfo(np.int64).min]), np.array([2**62, -1, 0]), np.array([np.nan, np.inf, -np.inf])
    )
    unsigned = Trajectory(
        np.full(4, 2**64 - 1, dtype=np.uint64), np.zeros(3, dtype=np.uint8), np.array([5e-324, 2.0, 1e-300])
    )
    for trajectory in (wild, unsigned):
        body = channel.encode(trajectory, SecureNoise())
        channel.check(body)
        counts = channel.body.counts(channel.body.decode([body]))
        assert counts.visits.sum() == 3 * channel.levels
        assert (counts.rewards <= counts.visits).all()
    assert channel.body.decode([channel.encode(wild, SecureNoise())]).levels.tolist() == [[0, 16, 0]]
    with pytest.raises(InvalidInput, match="3 actions"):
        channel.encode(Trajectory(np.zeros(3, dtype=int), np.zeros(2, dtype=int), np.zeros(2)), SecureNoise())
    with pytest.raises(InvalidInput, match="integers"):
        channel.encode(Trajectory(np.zeros(4), np.zeros(3, dtype=int), np.zeros(3)), SecureNoise())


def test_bodies_that_no_device_sends_are_refused_or_harmless() -> None:
    """A label out of range, a cover with a hole, another length; what slips past the check counts for one."""
    channel = channels_of(basis_of())[0]
    good = np.frombuffer(channel.encode(one(people(SMALL, 1, 0), 0), simulated(0)), dtype="<u2")
    for place, label in ((0, 2), (3, 7), (4, 2), (9, 17), (0, 0xFFFF)):
        bad = good.copy()
        bad[place] = label
        with pytest.raises(InvalidInput, match="public sizes") as refused:
            channel.check(bad.tobytes())
        assert str(label) not in str(refused.value)
        counts = channel.body.counts(channel.body.decode([bad.tobytes()]))
        assert counts.visits.sum() == 3 * channel.levels
        assert counts.rewards.max() <= channel.levels
    for body in (b"", good.tobytes()[:-1], good.tobytes() + b"\0"):
        with pytest.raises(InvalidInput, match="20 bytes"):
            channel.check(body)
        with pytest.raises(InvalidInput, match="20 bytes"):
            channel.release(channel.begin_secret(), [body] * 10, TOTALS, SecureNoise())


@pytest.mark.statistical
def test_rewards_are_rounded_exactly_and_unbiased() -> None:
    """Means within five standard errors from both sources; numbers of the grid are kept as they are."""
    body = channels_of(basis_of())[0].body
    assert body.rounded(np.arange(17) / 16, SecureNoise()).tolist() == list(range(17))
    for noise in (SecureNoise(), simulated(4)):
        levels = body.rounded(np.full(20_000, 0.3), noise)
        assert set(levels.tolist()) == {4, 5}
        assert abs(levels.mean() - 4.8) <= 5.0 * math.sqrt(0.16 / 20_000)


def test_channels_survive_their_file() -> None:
    """from_dict(to_dict) is the identity, through JSON; anything else is refused."""
    for mechanism in MECHANISMS:
        for channel in channels_of(basis_of(SHAPE, releases=16, reports=2, mechanism=mechanism)):
            again = channel_from_dict(json.loads(json.dumps(channel.to_dict())))
            assert again == channel
            assert again.events() == channel.events()
    plain = channel.to_dict()
    wrong = [
        {k: v for k, v in plain.items() if k != "variance"},
        plain | {"more": 1},
        plain | {"variance": 255**2},
        plain | {"variance": 1.5e9},
        plain | {"unit": 3 << 16},
        plain | {"levels": 12},
        plain | {"exponent": [2, 3]},
        plain | {"exponent": 0.5},
        plain | {"least": 21},
        plain | {"target": 2**60},
        plain | {"releases": 0},
        plain | {"claim": plain["claim"] | {"trust": "shuffle", "output": "shuffled-transcript"}},
        plain | {"claim": plain["claim"] | {"unit": {"reports": 2, "per_stage": 2}}},
        plain | {"shape": plain["shape"] | {"staged": 1}},
        plain | {"kind": "central"},
    ]
    for entries in wrong:
        with pytest.raises(InvalidInput):
            channel_from_dict(entries)


def test_refusals_of_the_basis_and_of_the_order_of_stages() -> None:
    """Pure privacy, unknown mechanisms, other queries, too many releases, another secret."""
    with pytest.raises(NotSupported, match="delta"):
        TotalsPlan(shape=SMALL, claim=central_claim(delta=0.0), releases=2)
    with pytest.raises(UnknownName, match="factorization"):
        basis_of(mechanism="factorisation")
    basis = basis_of(releases=2)
    with pytest.raises(InvalidInput, match="running totals"):
        basis.channels([StageSize(target=2, least=1, query=BatchQuery(layer=None, failure_prob=None))])
    with pytest.raises(InvalidInput, match="2 releases"):
        basis.channels([StageSize(target=2, least=1, query=TOTALS)] * 3)
    channel = channels_of(basis, 2, 1)[0]
    body = channel.encode(None, simulated(0))
    secret, memory = channel.begin_secret(), channel.begin_memory()
    for _ in range(2):
        secret, payload = channel.release(secret, [body], TOTALS, SecureNoise())
        memory, _ = channel.read(memory, payload, 1)
    with pytest.raises(PrivacyBudgetExceeded):
        channel.release(secret, [body], TOTALS, SecureNoise())
    with pytest.raises(InvalidInput, match="2 releases"):
        channel.read(memory, payload, 1)
    with pytest.raises(InvalidInput, match="bytes"):
        channel.read(channel.begin_memory(), payload + b"\0", 1)
    with pytest.raises(InvalidInput, match="asks for running totals"):
        channel.release(channel.begin_secret(), [body], BatchQuery(layer=None, failure_prob=None), SecureNoise())
    if not channel.noise.fresh:
        with pytest.raises(InvalidInput, match="secret"):
            channel.release(secret._replace(releases=secret.releases - 1), [body], TOTALS, SecureNoise())
    assert repr(secret) == "CuratorSecret(2 releases)"


def test_a_stage_that_was_void_takes_no_place() -> None:
    """Two releases of four planned stages are the first two prefixes, whichever channels they went through."""
    channels = channels_of(basis_of(mechanism="factorization"))
    users = [on_grid(people(SMALL, 12, seed)) for seed in (0, 1)]
    secret, memory = channels[0].begin_secret(), channels[0].begin_memory()
    for channel, stage in ((channels[1], users[0]), (channels[3], users[1])):
        secret, payload = channel.release(secret, bodies_of(channel, stage, simulated(0)), Totals(), SecureNoise())
        memory, released = channel.read(memory, payload, 12)
    with pytest.raises(InvalidInput, match="must be release 2"):
        channels[0].read(memory, payload, 12)
    with pytest.raises(InvalidInput, match="must be release 0"):
        channels[0].read(channels[0].begin_memory(), payload, 12)
    exact = exact_of(SMALL, users)
    limit = 8.0 * math.sqrt(channels[0].noise.variance_at(2))
    assert np.abs(released.statistics.rewards - exact.rewards).max() < limit
    assert math.isclose(released.statistics.variance[2], channels[0].noise.variance_at(2))


def test_a_release_that_is_not_learned_from_is_skipped() -> None:
    """A factor keeps its payload and its people in later totals; fresh noise leaves both out."""
    users = [on_grid(people(SMALL, 12, seed)) for seed in range(3)]
    for mechanism, counted in (("factorization", users), ("batched", [users[0], users[2]])):
        channel = channels_of(basis_of(mechanism=mechanism))[0]
        secret, memory = channel.begin_secret(), channel.begin_memory()
        for number, stage in enumerate(users):
            secret, payload = channel.release(secret, bodies_of(channel, stage, simulated(0)), TOTALS, SecureNoise())
            if number == 1:
                before = memory.released
                memory = channel.skip(memory, payload, 12)
                assert memory.released is before
            else:
                memory, released = channel.read(memory, payload, 12)
        exact, found = exact_of(SMALL, counted), released.statistics
        assert found.users[0] == 12 * len(counted)
        assert math.isclose(found.variance[2], channel.noise.variance_at(len(counted)))
        assert np.abs(found.rewards - exact.rewards).max() < 8.0 * math.sqrt(found.variance[2])
