"""Valid bands contain V*, are no wider than they must be, and shrink; each half of Lemma W4 (valid bands) has power."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.environments.registry import make_environment
from tacit.planning import valid_bands
from tacit.planning.dynamic import solve
from tacit.planning.flow_projection import FlowCounts, project
from tacit.planning.valid_bands import (
    Bands,
    Evidence,
    confidence,
    kept_block,
    start_interval,
    widen_nothing,
    write_bands,
)

BETA = 0.05


def counts_of(world, users: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact counts of users who act uniformly: moved [H,S,A,S], rewards and visits [H,S,A]."""
    H, S, A = world.horizon, world.num_states, world.num_actions
    moved, rewards, visits = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
    at = rng.multinomial(users, world.rho)
    P, r = (np.broadcast_to(part, (H, *np.shape(part)[1:])) for part in (world.stage_P, world.stage_r))
    for h in range(H):
        following = np.zeros(S, dtype=np.int64)
        for s in range(S):
            for a, n in enumerate(rng.multinomial(at[s], np.full(A, 1.0 / A))):
                visits[h, s, a] = n
                rewards[h, s, a] = rng.binomial(n, r[h, s, a])
                moved[h, s, a] = rng.multinomial(n, P[h, s, a])
                following += moved[h, s, a].astype(np.int64)
        at = following
    return moved, rewards, visits


def bands_of(world, users: int, std: float, rng: np.random.Generator, scale: float = 1.0) -> tuple[Bands, float, float]:
    """Bands after one batch with Gaussian noise; `scale` shrinks what the bands believe of it."""
    H, S, A = world.horizon, world.num_states, world.num_actions
    moved, rewards, visits = counts_of(world, users, rng)
    noise = [rng.normal(0.0, std, x.shape) for x in (moved[:-1], rewards, visits)]
    flow = project(FlowCounts(moved[:-1] + noise[0], rewards + noise[1], visits - rewards + noise[2]), float(users))
    kept, kept_sum = kept_block(H, S, A, False)
    evidence = Evidence(
        moved=np.concatenate([flow.moved, np.zeros((1, S, A, S))])[np.newaxis],
        rewards=flow.ones[np.newaxis],
        visits=(flow.ones + flow.zeros)[np.newaxis],
        variance=np.array([(scale * std) ** 2]),
        kept=kept,
        kept_sum=kept_sum,
    )
    sure = confidence(BETA, rows=H * S * A, plans=1, weightings=1, users=float(users), scale=0.0)
    bands = widen_nothing(H, S, A)
    write_bands(evidence, sure, bands, np.zeros((H, S, A)), np.zeros((H, S, A)))
    first = (flow.ones + flow.zeros)[0].sum(axis=1)
    return bands, *start_interval(first, float(users), std**2, 2 * A, sure, bands)


@pytest.fixture(scope="module")
def world():
    return make_environment("random-mdp:states=3,actions=2,horizon=3")


def best_of(world) -> tuple[np.ndarray, float]:
    _, V, _ = solve(np.array(world.stage_P), np.array(world.stage_r), world.horizon)
    return V, float(np.array(world.rho) @ V[0])


@pytest.mark.statistical
@pytest.mark.parametrize("std", [0.0, 20.0])
def test_the_best_value_never_leaves_its_bands_and_the_interval_shrinks(world, std):
    """At beta 0.05 even 8 misses of 60 would be an event of probability 0.01; the bands' slack leaves none."""
    V, best = best_of(world)
    widths = []
    for users in (2_000, 200_000):
        for seed in range(30):
            bands, low, high = bands_of(world, users, std, np.random.default_rng(seed))
            assert (bands.lower[:-1] <= V[: len(bands.lower) - 1] + 1e-9).all()
            assert (bands.upper[:-1] >= V[: len(bands.upper) - 1] - 1e-9).all()
            assert low <= best <= high
        widths.append(high - low)
    assert widths[1] < 0.25 * widths[0]


@pytest.mark.statistical
def test_bands_that_think_the_noise_small_are_caught(world):
    """Power: with a hundredth of the noise believed in, most runs put V* outside of some band."""
    V, _ = best_of(world)
    missed = 0
    for seed in range(20):
        bands, _, _ = bands_of(world, 3_000, 60.0, np.random.default_rng(seed), scale=0.01)
        inside = (bands.lower[:-1] <= V[: len(bands.lower) - 1]) & (V[: len(bands.upper) - 1] <= bands.upper[:-1])
        missed += not inside.all()
    assert missed >= 15


def test_the_projector_leaves_what_the_lemma_says():
    """κ bounds f'Πf for f = (d, 1-r, -r) on one row, and κ₁ is exactly that of the visits."""
    H, S, A, rng = 4, 3, 2, np.random.default_rng(0)
    kept, kept_sum = kept_block(H, S, A, False)
    for h in range(H):
        for _ in range(50):
            d, r = rng.normal(size=S), rng.random()
            f = FlowCounts(np.zeros((H - 1, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A)))
            f.ones[h, 1, 0], f.zeros[h, 1, 0] = 1.0 - r, -r
            if h < H - 1:
                f.moved[h, 1, 0] = d
            y = project(f, 0.0)
            left = sum(float((part**2).sum()) for part in y)
            assert left <= kept[h] * ((d @ d if h < H - 1 else 0.0) + 1.0) + 1e-9
        f = FlowCounts(np.zeros((H - 1, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A)))
        f.ones[h, 1, 0] = f.zeros[h, 1, 0] = 1.0
        assert sum(float((part**2).sum()) for part in project(f, 0.0)) == pytest.approx(kept_sum[h])


def test_nothing_released_is_everything_possible():
    bands = widen_nothing(3, 2, 2)
    assert bands.upper[:, 0].tolist() == [3.0, 2.0, 1.0, 0.0]
    sure = confidence(0.05, rows=1, plans=1, weightings=1, users=1.0, scale=0.0)
    assert start_interval(np.zeros(2), 0.0, 1.0, 4, sure, bands) == (0.0, 3.0)


@pytest.mark.parametrize(("rows", "plans", "weightings", "users"), [(1, 1, 1, 1.0), (48, 10, 3, 2e4), (7, 500, 2, 1e7)])
def test_the_failure_probability_is_spent_once(rows, plans, weightings, users):
    """Half of beta over all martingale events and their peels, half over all noise events, and nothing is left over."""
    found = confidence(BETA, rows=rows, plans=plans, weightings=weightings, users=users, scale=1.0 / 3.0)
    events = sum(1 for _ in range(rows + 1)) * plans * weightings  # a row for the first state, too
    peels = max(1, next(k for k in range(1, 200) if 1.3**k >= users))
    assert 5 * events * peels * np.exp(-found.ell) == pytest.approx(BETA / 2.0)
    assert 6 * events * np.exp(-found.t) == pytest.approx(BETA / 2.0)
    assert found.scale == 1.0 / 3.0


def test_the_widths_are_those_of_the_lemma():
    """Typed in from Lemma W4 (valid bands): a martingale after peeling, and a sub-gamma functional of the noise."""
    for v, ell in ((0.0, 3.0), (0.2, 10.0), (900.0, 15.0)):
        assert valid_bands._martingale(v, ell) == pytest.approx(np.sqrt(2.6 * max(0.25, v) * ell) + ell / 3.0)
    for squares, t, c, q, kappa in ((4.0, 12.0, 0.0, 30.0, 1.0), (9.0, 7.0, 1.0 / 3.0, 5.0, 0.4)):
        wanted = np.sqrt(2.0 * t * q * kappa * squares) + c * t * np.sqrt(kappa * squares)
        assert valid_bands._noise(squares, t, c, q, kappa) == pytest.approx(wanted)
