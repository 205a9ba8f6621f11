"""Shuffle trust with running totals: batches add up, layers add up, nothing else is released."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from contract_calls import shown

from tacit.accounting.composition import epsilon_of
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, PrivacyViolation
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape

SMALL = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)


def shuffled(shape: CountShape = SMALL, *, users: int = 8, **changes: Any) -> Staged:
    request = {
        "trust": "shuffle", "shape": shape, "episodes": 20_000, "epsilon": 1.0, "delta": 1e-6, "calibration": None,
        "mechanism": None, "users_per_batch": users,
    } | changes  # fmt: skip
    made = make_privatizer(PrivacyRequest(**request))
    assert isinstance(made, Staged)
    assert isinstance(made.first, ShuffleRelease)
    return made


def wanderers(shape: CountShape, users: int, seed: int = 0) -> Trajectories:
    generator = np.random.default_rng(seed)
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    return Trajectories(
        generator.integers(0, S, (users, H + 1)), generator.integers(0, A, (users, H)),
        generator.integers(0, 2, (users, H)).astype(float),
    )  # fmt: skip


def seeded(seed: int) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def test_numbers_to_meet() -> None:
    """n = 1000: 19.9 in the 4H-2 encoding; the printed noise is 378 and really epsilon 0.055."""
    reference = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    tight, paper = (shuffled(reference, users=1000, calibration=calibration) for calibration in ("tight", "paper"))
    assert tight.noise_std()["transitions"] == tight.noise_std()["rewards"] <= 19.9
    assert tight.noise_std()["visits"] == pytest.approx(2**0.5 * tight.noise_std()["rewards"])
    assert sum(family.differing for family in tight.families()) == 22
    assert tight.certificate().holds
    assert paper.noise_std()["transitions"] == pytest.approx(378.2, abs=0.1)
    assert sum(family.differing for family in paper.families()) == 36
    assert paper.certificate().epsilon == pytest.approx(0.0554, abs=1e-4)
    assert paper.certificate().holds
    assert "times stronger" in paper.certificate().verdict


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("path", ["messages", "aggregate"])
def test_pooled_totals_are_the_sum_over_the_layers(calibration: str, path: str) -> None:
    """From the same noise: pooling is post-processing, and successors of the last step stay out of both."""
    staged = shuffled(epsilon=8.0, calibration=calibration)
    pooled = shuffled(replace(SMALL, staged=False), epsilon=8.0, calibration=calibration)
    users = wanderers(SMALL, 8)
    batch = users if path == "messages" else count_trajectories(users, 2, 2)
    apart, together = (shown(made, made.begin(), batch, seeded(3))[1] for made in (staged, pooled))
    for name in ("transitions", "visits", "rewards", "squares"):
        np.testing.assert_allclose(getattr(together, name)[0], getattr(apart, name).sum(axis=0))
    assert not apart.transitions[-1].any()
    assert np.count_nonzero(apart.transitions[:-1]) > 12
    std, sums = staged.noise_std(), pooled.noise_std()
    assert sums == pytest.approx(
        {
            "transitions": 2**0.5 * std["transitions"],
            "visits": 3**0.5 * std["visits"],
            "rewards": 3**0.5 * std["rewards"],
        }
    )
    np.testing.assert_allclose(together.variance, np.square([sums["transitions"], sums["visits"], sums["rewards"]]))
    assert pooled.certificate().epsilon == staged.certificate().epsilon


def test_batches_add_up_with_fresh_noise() -> None:
    privatizer = shuffled()
    batch, noise = count_trajectories(wanderers(SMALL, 8), 2, 2), seeded(0)
    first, once = shown(privatizer, privatizer.begin(), batch, noise)
    _, twice = shown(privatizer, first, batch, noise)
    alone = shown(privatizer, privatizer.begin(), batch, seeded(0))[1]
    np.testing.assert_array_equal(once.visits, alone.visits)
    assert not np.allclose(twice.visits - once.visits, once.visits)
    np.testing.assert_allclose(twice.variance, 2 * once.variance)
    assert [int(once.users[0]), int(twice.users[0])] == [8, 16]
    assert privatizer.events() == privatizer.first.events()


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("staged", [True, False])
def test_horizon_one(calibration: str, staged: bool) -> None:
    shape = CountShape(horizon=1, num_states=2, num_actions=2, staged=staged)
    privatizer = shuffled(shape, epsilon=8.0, calibration=calibration)
    assert privatizer.noise_std()["transitions"] == 0.0
    users = wanderers(shape, 8)
    for batch in (users, count_trajectories(users, 2, 2)):
        released = shown(privatizer, privatizer.begin(), batch, seeded(1))[1]
        assert not released.transitions.any()
        assert released.variance[0] == 0.0
        assert released.visits.shape == (1, 2, 2)


def test_hostile_users_send_what_clipped_users_send() -> None:
    privatizer = shuffled()
    others = wanderers(SMALL, 7)
    rows = {
        "hostile": ([-7, 99, 2**40, -1], [5, -5, 2**33], [7.0, np.nan, -np.inf]),
        "tame": ([0, 1, 1, 0], [1, 0, 1], [1.0, 0.0, 0.0]),
    }
    released = {}
    for name, (states, actions, rewards) in rows.items():
        batch = Trajectories(
            np.vstack([others.states, [states]]), np.vstack([others.actions, [actions]]),
            np.vstack([others.rewards, [rewards]]),
        )  # fmt: skip
        released[name] = shown(privatizer, privatizer.begin(), batch, seeded(2))[1]
    for left, right in zip(released["hostile"], released["tame"], strict=True):
        np.testing.assert_array_equal(left, right)


def test_fractional_rewards_of_one_kind_go_through_the_aggregate_path() -> None:
    privatizer = shuffled(epsilon=1e3)
    users = wanderers(SMALL, 8)
    users = Trajectories(users.states, users.actions, np.full_like(users.rewards, 0.5))
    counts = count_trajectories(users, 2, 2)
    found = np.mean([shown(privatizer, privatizer.begin(), counts, seeded(s))[1].rewards for s in range(400)], axis=0)
    std = privatizer.noise_std()["rewards"] + 8**0.5 / 2
    assert np.abs(found - counts.rewards).max() < 6 * std / 20
    assert found.sum() == pytest.approx(12.0, abs=6 * std * 12**0.5 / 20)


def test_incomplete_batches_and_wrong_noise_are_refused() -> None:
    privatizer = shuffled()
    fewer, more = wanderers(SMALL, 7), wanderers(SMALL, 9)
    for batch in (fewer, count_trajectories(fewer, 2, 2)):
        with pytest.raises(PrivacyViolation, match="7 reports and needs 8"):
            shown(privatizer, privatizer.begin(), batch, seeded(0))
    for batch in (more, count_trajectories(more, 2, 2)):
        with pytest.raises(InvalidInput, match="at most the 8"):
            shown(privatizer, privatizer.begin(), batch, seeded(0))
    whole = wanderers(SMALL, 8)
    with pytest.raises(TypeError, match="SecureNoise"):
        shown(privatizer, privatizer.begin(), count_trajectories(whole, 2, 2), SecureNoise())
    # Real messages take real noise.
    one, two = (shown(privatizer, privatizer.begin(), whole, SecureNoise())[1] for _ in range(2))
    assert not np.array_equal(one.visits, two.visits)


def test_what_cannot_be_certified_is_refused() -> None:
    privatizer = shuffled()
    stage: Any = privatizer.first
    # Extra blocks cost a delta of their own: it is among the events, and nobody simulates without it.
    overflowing = replace(stage, overflow=Fraction(2.0**-30))
    assert epsilon_of(overflowing.events(), 1e-6) > epsilon_of(stage.events(), 1e-6)
    with pytest.raises(InvalidInput, match="must not overflow"):
        replace(stage, block=1)
    with pytest.raises(InvalidInput, match="one stage is repeated"):
        replace(privatizer, channels=privatizer.channels * 2)
    for made in (stage, privatizer.basis):
        with pytest.raises(InvalidInput, match="trust 'shuffle'"):
            replace(made, claim=Unprotected(shape=SMALL).claim)
