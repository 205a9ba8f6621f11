"""Adversarial losses under central trust in whole numbers: noise, sensitivity, and agreement with the privatizer."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from central_tools import central_claim, require_law, simulated

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.trajectories import LossUser
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, PrivacyViolation
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise
from tacit.release.contract import StageSize
from tacit.release.curator import prefix_weights
from tacit.release.fixed_point import from_payload
from tacit.release.loss_release import LossPlan
from tacit.release.losses import make_adversarial
from tacit.release.registry import channel_from_dict
from tacit.released.losses import LayeredShape, LossQuery
from tacit.study.state import decode_state, encode_state

SHAPE = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3))
DIMENSION = SHAPE.triples + SHAPE.pairs
FEEDBACK = pytest.mark.parametrize("full", [True, False])


def basis_of(full, *, releases=4, reports=1):
    return LossPlan(shape=SHAPE, claim=central_claim(reports), full=full, releases=releases)


def silent(monkeypatch):
    monkeypatch.setattr(
        "tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64)
    )


def user_of(full, seed):
    """A user whose losses lie on the grid."""
    rng = np.random.default_rng(seed)
    first, second = int(rng.integers(2)), 2 + int(rng.integers(2))
    triples = np.array([2 * first + int(rng.integers(2)), second + 2])
    losses = np.floor(16 * rng.random(4 if full else 2)) / 16
    return LossUser(np.array([first, second]), triples, losses)


@FEEDBACK
def test_without_noise_statistics_are_those_of_the_privatizer(full, monkeypatch):
    """Totals, visits and losses of every release equal the exact totals that the privatizer keeps."""
    silent(monkeypatch)
    channel = basis_of(full).alone
    oracle = make_adversarial(
        shape=SHAPE, claim=central_claim(), episodes=6, feedback="full" if full else "bandit", calibration="tight"
    )
    state, secret, memory = oracle.begin(), channel.begin_secret(), channel.begin_memory()
    for k in range(4):
        user = user_of(full, k)
        state, _ = oracle.release(state, user, LossQuery(full=full), simulated(k))
        body = channel.encode(user, SecureNoise())
        channel.check(body)
        secret, payload = channel.release(secret, [body], LossQuery(full=full), SecureNoise())
        secret, memory = decode_state(encode_state(secret)), decode_state(encode_state(memory))
        memory, found = channel.read(memory, payload, 1)
        exact = state.exact
        assert np.allclose(found.statistics.transitions, exact.transitions, atol=1e-9)
        assert np.allclose(found.statistics.visits, exact.visits, atol=1e-9)
        assert np.allclose(found.statistics.losses, exact.losses if full else exact.own, atol=1e-9)
        assert found.statistics.users[0] == k + 1
        assert memory.released is found.statistics


@FEEDBACK
@pytest.mark.parametrize("episodes", [9, 400])
def test_noise_is_that_of_the_privatizer(full, episodes):
    """Within 0.5 % of the simulation's deviations, in every statistic: factors differ a little, shares do not."""
    oracle = make_adversarial(
        shape=SHAPE, claim=central_claim(), episodes=episodes, feedback="full" if full else "bandit"
    ).noise_std()
    found = basis_of(full, releases=episodes - 1).noise_std()
    for name in ("transitions", "visits", "losses"):
        assert abs(found[name] / oracle[name] - 1.0) < 0.005


@pytest.mark.statistical
@FEEDBACK
def test_s5_secure_noise_is_as_stated(full):
    """S5: mean and covariance of released minus exact over three releases; payloads are integers."""
    channel = basis_of(full, releases=3).alone
    users = [user_of(full, k) for k in range(3)]
    moved, losses = [], []
    for _ in range(150):
        secret, memory, errors, others = channel.begin_secret(), channel.begin_memory(), [], []
        for k, user in enumerate(users):
            secret, payload = channel.release(
                secret, [channel.encode(user, SecureNoise())], channel.query, SecureNoise()
            )
            assert len(payload) == 8 * (DIMENSION + 1)
            memory, found = channel.read(memory, payload, 1)
            with pytest.MonkeyPatch.context() as patch:
                silent(patch)
                quiet_secret, quiet = channel.begin_secret(), channel.begin_memory()
                for before in users[: k + 1]:
                    quiet_secret, sent = channel.simulate(quiet_secret, before, channel.query, simulated(0))
                    quiet, exact = channel.read(quiet, sent, 1)
            errors.append(found.statistics.transitions - exact.statistics.transitions)
            others.append(found.statistics.losses - exact.statistics.losses)
            assert found.statistics.variance.tolist() == list(channel.variances(k + 1))
        moved.append(errors)
        losses.append(others)
    q = prefix_weights(channel.noise.column) / channel.levels
    B = np.array([[q[k - j] if j <= k else 0.0 for j in range(3)] for k in range(3)])
    sample = np.array(moved).transpose(0, 2, 1).reshape(-1, 3)
    require_law(sample, channel.transition_variance * B @ B.T)
    stated = channel.loss_variance * (B @ B.T if full else np.eye(3) / channel.unit**2)
    require_law(np.array(losses).transpose(0, 2, 1).reshape(-1, 3), stated)
    with pytest.raises(AssertionError):
        require_law(0.75 * sample, channel.transition_variance * B @ B.T)


@FEEDBACK
@pytest.mark.parametrize("reports", [1, 2, 5])
def test_s6_black_box_sensitivity(full, reports, monkeypatch):
    """S6: g replaced users, one per stage, move the payloads by at most the certified distance, and by nearly that."""
    silent(monkeypatch)
    basis = basis_of(full, releases=6, reports=reports)
    channel = basis.alone
    size = 4 if full else 2
    stay = LossUser(np.array([0, 2]), np.array([0, 4]), np.ones(size))
    move = LossUser(np.array([1, 3]), np.array([2, 5]), np.zeros(size))
    if not full:
        move = move._replace(losses=np.ones(size))

    def scaled(replaced):
        secret, found = channel.begin_secret(), []
        for k in range(6):
            secret, payload = channel.simulate(secret, move if k in replaced else stay, channel.query, simulated(0))
            w = from_payload(payload, DIMENSION + 1)[1:].astype(float)
            w[:6] /= math.sqrt(channel.transition_variance)
            w[6:] /= math.sqrt(channel.loss_variance)
            found.append(w)
        return np.concatenate(found)

    before = scaled(())
    moved = {J: float(np.linalg.norm(scaled(J) - before)) for J in combinations(range(6), reports)}
    mu = max(moved.values())
    exposed = basis.exposure([channel] * 6, reports)
    certified = math.sqrt(sum(event.mu_squared() * n for event, n in exposed if event.NAME == "gaussian"))
    assert mu <= certified <= mu * (1.0 + 1e-9)
    assert moved[tuple(range(reports))] == mu
    assert epsilon_of(exposed, 1e-6) <= 1.0
    assert mu <= gaussian_mu(1.0, 1e-6) < 1.001 * mu


@FEEDBACK
def test_extreme_users_and_cover_reports(full):
    """Nothing raises on what a user did, nobody counts twice, and a cover report counts for nothing."""
    channel = basis_of(full).alone
    size = 4 if full else 2
    wild = LossUser(np.array([2**40, -7]), np.array([3, 3]), np.array([np.nan, np.inf, -np.inf, 5.0])[:size])
    body = channel.encode(wild, SecureNoise())
    channel.check(body)
    sums = channel.body.sums(body)
    assert sums.transitions.sum() == channel.levels
    assert sums.losses.max() <= channel.levels
    cover = channel.encode(None, SecureNoise())
    channel.check(cover)
    assert len(cover) == len(body) == channel.body_size
    assert not any(part.any() for part in channel.body.sums(cover))
    bad = np.frombuffer(body, dtype="<u2").copy()
    bad[0] = 4
    with pytest.raises(InvalidInput, match="public sizes"):
        channel.check(bad.tobytes())
    with pytest.raises(InvalidInput, match="bytes"):
        channel.check(body[:-1])
    with pytest.raises(InvalidInput, match="losses"):
        channel.encode(wild._replace(losses=np.ones(3)), SecureNoise())


@FEEDBACK
def test_files_and_refusals(full):
    """from_dict(to_dict) is the identity; other queries, more users, spent budgets and pure privacy are refused."""
    basis = basis_of(full, releases=2, reports=2)
    channel = basis.channels([StageSize(target=1, least=1, query=LossQuery(full=full))])[0]
    assert channel_from_dict(json.loads(json.dumps(channel.to_dict()))) == channel
    plain = channel.to_dict()
    for entries in (
        plain | {"more": 1},
        plain | {"full": 1},
        plain | {"loss_variance": 9},
        plain | {"shape": plain["shape"] | {"pair_of": [0, 9]}},
        plain | {"shape": plain["shape"] | {"pair_of": "0"}},
    ):
        with pytest.raises(InvalidInput):
            channel_from_dict(entries)
    body, secret, memory = channel.encode(None, simulated(0)), channel.begin_secret(), channel.begin_memory()
    with pytest.raises(PrivacyViolation):
        channel.release(secret, [], channel.query, SecureNoise())
    for query in (LossQuery(full=not full), TOTALS):
        with pytest.raises(InvalidInput, match="asks for"):
            channel.release(secret, [body], query, SecureNoise())
    for _ in range(2):
        secret, payload = channel.release(secret, [body], channel.query, SecureNoise())
        memory, _ = channel.read(memory, payload, 1)
    with pytest.raises(PrivacyBudgetExceeded):
        channel.release(secret, [body], channel.query, SecureNoise())
    with pytest.raises(InvalidInput, match="2 releases"):
        channel.read(memory, payload, 1)
    assert repr(secret) == "LossSecret(2 releases)"
    with pytest.raises(NotSupported, match="delta"):
        LossPlan(shape=SHAPE, claim=central_claim(delta=0.0), full=full, releases=2)
    with pytest.raises(InvalidInput, match="one user"):
        basis.channels([StageSize(target=2, least=1, query=LossQuery(full=full))])
    with pytest.raises(InvalidInput, match="same noise"):
        basis.exposure([replace(channel, loss_variance=channel.loss_variance + 1)], 1)
