"""Single batches under central trust: statistics as shuffle trust gives them, with Gaussian noise in whole numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from central_tools import SHAPE, SMALL, bodies_of, central_claim, people, require_law, simulated

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise
from tacit.release.batch_release import BatchPlan, BatchRelease, gaussian_radius
from tacit.release.contract import StageSize
from tacit.release.counts_contract import batch_statistics, exact_statistics
from tacit.release.fixed_point import draw_noise, from_payload
from tacit.release.registry import channel_from_dict
from tacit.released.batches import BatchQuery

EVERYTHING = BatchQuery(layer=None, failure_prob=None)
QUERIES = [EVERYTHING, *(BatchQuery(layer=h, failure_prob=None) for h in range(3))]


def basis_of(shape=SMALL, reports=1):
    return BatchPlan(shape=shape, claim=central_claim(reports))


def channel_of(query=EVERYTHING, shape=SMALL, *, reports=1, target=20, least=10) -> BatchRelease:
    return basis_of(shape, reports).channels([StageSize(target=target, least=least, query=query)])[0]


def silent(monkeypatch):
    monkeypatch.setattr(
        "tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64)
    )


@pytest.mark.parametrize("query", QUERIES)
def test_without_noise_statistics_are_those_of_exact_counts(query, monkeypatch):
    """All layers, one layer, the last layer, consistent or not: what `Unprotected` would release."""
    silent(monkeypatch)
    channel = channel_of(query)
    users = people(SMALL, 12, 3, binary=True)
    _, payload = channel.release(channel.begin_secret(), bodies_of(channel, users, simulated(0)), query, SecureNoise())
    memory, found = channel.read(channel.begin_memory(), payload, 12)
    exact = exact_statistics(count_trajectories(users, 2, 2), channel.spec)
    wanted = batch_statistics(exact, np.zeros(3), 12, query, channel.spec, 0.0)
    for name in ("transitions", "visits", "rewards", "users"):
        assert np.allclose(getattr(found.statistics, name), getattr(wanted, name), atol=1e-12)
    assert memory.released is found.statistics
    assert found.statistics.variance.tolist() == [std**2 for std in channel.noise_std().values()]


@pytest.mark.statistical
def test_s5_secure_noise_is_as_stated():
    """S5: transitions and outcomes carry one independent noise each, visits two."""
    channel = channel_of(target=3, least=1)
    users = people(SMALL, 3, 3, binary=True)
    bodies = bodies_of(channel, users, simulated(0))
    exact = exact_statistics(count_trajectories(users, 2, 2), channel.spec)
    rows, visits = [], []
    for _ in range(300):
        _, payload = channel.release(channel.begin_secret(), bodies, EVERYTHING, SecureNoise())
        found = channel.read(channel.begin_memory(), payload, 3)[1].statistics
        moved = (found.transitions - exact.transitions)[:-1].ravel()
        rewards = (found.rewards - exact.rewards).ravel()
        other = (found.visits - exact.visits).ravel() - rewards
        rows.append(np.concatenate([moved, rewards, other]))
        visits.extend((found.visits - exact.visits).ravel())
    v = channel.std**2
    require_law(np.array(rows).reshape(-1, 10), v * np.eye(10))
    require_law(np.array(visits)[:, np.newaxis], np.array([[found.variance[1]]]))
    assert math.isclose(found.variance[1], 2.0 * v)
    with pytest.raises(AssertionError):
        require_law(0.75 * np.array(rows).reshape(-1, 10), v * np.eye(10))


@pytest.mark.parametrize("reports", [1, 2, 5])
def test_s6_black_box_sensitivity(reports, monkeypatch):
    """S6: one replaced report per stage, in the worst stages, moves the payloads by the certified distance."""
    silent(monkeypatch)
    basis = basis_of(reports=reports)
    queries = [EVERYTHING, QUERIES[1], QUERIES[3], EVERYTHING, QUERIES[2], QUERIES[1]]
    channels = basis.channels([StageSize(target=1, least=1, query=query) for query in queries])
    stay = Trajectories(np.zeros((1, 4), dtype=int), np.zeros((1, 3), dtype=int), np.ones((1, 3)))
    move = Trajectories(np.ones((1, 4), dtype=int), np.ones((1, 3), dtype=int), np.zeros((1, 3)))

    def sums(channel, users):
        body = bodies_of(channel, users, simulated(0))
        _, payload = channel.release(channel.begin_secret(), body, channel.query, SecureNoise())
        return from_payload(payload, channel.spec.num_counters)

    squares = [
        float(((sums(channel, stay) - sums(channel, move)) ** 2).sum()) / channel.variance for channel in channels
    ]
    mu = math.sqrt(max(sum(squares[k] for k in J) for J in combinations(range(6), reports)))
    exposed = basis.exposure(channels, reports)
    certified = math.sqrt(sum(event.mu_squared() * n for event, n in exposed if event.NAME == "gaussian"))
    assert mu <= certified <= mu * (1.0 + 1e-9)
    assert mu <= gaussian_mu(1.0, 1e-6) < 1.001 * mu
    assert epsilon_of(exposed, 1e-6) <= 1.0
    # Any replacement in one stage moves less.
    users, channel = people(SMALL, 200, 5), channels[0]
    moved = [sums(channel, Trajectories(users.states[i : i + 1], users.actions[i : i + 1], users.rewards[i : i + 1]))
             for i in range(200)]  # fmt: skip
    assert max(float(((a - b) ** 2).sum()) for a, b in zip(moved[::2], moved[1::2], strict=True)) <= max(
        squares
    ) * channel.variance * (1.0 + 1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("terms", [1, 2])
def test_the_radius_is_left_as_rarely_as_it_says(terms):
    """P(|Z| > radius) at 2 %: between 1 % and 2.6 % of 20,000 sums (false alarm below 1e-7)."""
    radius = gaussian_radius(0.02, terms, 300**2)
    z = draw_noise(20_000 * terms, 300**2, simulated(1)).reshape(terms, -1).sum(axis=0)
    assert 0.015 < np.mean(np.abs(z) > radius) < 0.026
    # Where the distance of the laws takes the whole probability, the sub-Gaussian radius is larger.
    assert gaussian_radius(1e-9, 1, 300**2) == 300.0 * math.sqrt(2.0 * math.log(2e9))


def test_precision_and_consistent_counts():
    """E is 4 radii of the union bound; consistent counts are non-negative, and transitions add up to visits."""
    asked = BatchQuery(layer=None, failure_prob=0.1)
    basis, channel = basis_of(), channel_of(asked)
    assert basis.batch_precision(20, EVERYTHING) == 0.0
    entries = 2 * 2 * 2 * 2 + 2 * (3 * 2 * 2)
    wanted = 4.0 * gaussian_radius(0.1 / entries, 2, channel.variance) / channel.unit
    assert math.isclose(basis.batch_precision(20, asked), wanted)
    bodies = bodies_of(channel, people(SMALL, 12, 1), simulated(0))
    _, payload = channel.release(channel.begin_secret(), bodies, asked, SecureNoise())
    found = channel.read(channel.begin_memory(), payload, 12)[1].statistics
    assert (found.visits >= 0.0).all()
    assert (found.transitions >= 0.0).all()
    assert np.allclose(found.transitions[:-1].sum(axis=3), found.visits[:-1])


def test_noise_of_the_reference_instance():
    """19.8 for everything, 6.0 for one layer: the analytic Gaussian; more reports cost a root."""
    for reports in (1, 2, 5):
        basis = basis_of(SHAPE, reports)
        mu = gaussian_mu(1.0, 1e-6) / math.sqrt(reports)
        for query, moved in ((EVERYTHING, 22), (BatchQuery(layer=2, failure_prob=None), 2)):
            ideal = math.sqrt(moved) / mu
            assert ideal < basis.batch_std(500, query) < 1.0002 * ideal


def test_sizes_queries_and_files():
    """Least and target; another query; from_dict(to_dict) is the identity, anything else is refused."""
    channel = channel_of()
    bodies = bodies_of(channel, people(SMALL, 21, 0), simulated(0))
    for count, error in ((9, PrivacyViolation), (21, InvalidInput)):
        with pytest.raises(error):
            channel.release(channel.begin_secret(), bodies[:count], EVERYTHING, SecureNoise())
    for query in (QUERIES[1], TOTALS):
        with pytest.raises(InvalidInput, match="asks for counts of single batches"):
            channel.release(channel.begin_secret(), bodies[:12], query, SecureNoise())
    with pytest.raises(InvalidInput, match="running totals"):
        basis_of().channels([StageSize(target=3, least=3, query=TOTALS)])
    with pytest.raises(InvalidInput, match="staged"):
        basis_of(replace(SMALL, staged=False))
    with pytest.raises(NotSupported, match="delta"):
        BatchPlan(shape=SMALL, claim=central_claim(delta=0.0))
    for query in (*QUERIES, BatchQuery(layer=1, failure_prob=0.05)):
        found = channel_of(query, SHAPE, reports=3)
        assert channel_from_dict(json.loads(json.dumps(found.to_dict()))) == found
    plain = channel.to_dict()
    wrong = [
        plain | {"query": {"asks": "totals"}},
        plain | {"query": {"asks": "batch", "layer": 3, "failure_prob": None}},
        plain | {"query": {"asks": "batch", "layer": None}},
        plain | {"unit": 3},
        plain | {"variance": "1"},
        plain | {"more": None},
        plain | {"shape": plain["shape"] | {"staged": False}},
    ]
    for entries in wrong:
        with pytest.raises(InvalidInput):
            channel_from_dict(entries)
