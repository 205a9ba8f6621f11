"""Environments of a package that others wrote (popgym, from PyPI): live worlds by id, with a law that is known here."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacit
from tacit.data.simulator_users import Players
from tacit.environments.live import LiveWorld
from tacit.environments.registry import make_environment
from tacit.policies import DeterministicPolicy

pytest.importorskip("popgym", reason="popgym is missing: pip install '.[test]'")
CARDS = "gymnasium:popgym:popgym-HigherLowerEasy-v0,horizon={},low=-0.02,high=0.02"
"""Whether the next of 52 cards is higher (0) or lower (1) than this one; a guess pays or costs 1/52, a tie nothing."""


@pytest.mark.statistical
def test_guesses_pay_what_the_deck_says():
    """False alarms below 6e-7 (5 standard errors of each of two means, seed fixed)."""
    world = make_environment(CARDS.format(1))
    assert isinstance(world, LiveWorld)
    assert (world.num_actions, world.horizon) == (2, 1)
    users, ranks = 4000, np.arange(13)
    # The best guess wins with 4 max(12 - r, r) of the 51 cards that are left, and loses with 4 min(12 - r, r).
    best = float(np.mean(4 * np.abs(12 - 2 * ranks) / 51)) / 52
    low = np.arange(world.num_states) < 6
    for actions, mean in ((np.where(low, 0, 1), best), (np.where(low, 1, 0), -best)):
        played = Players(world, seed=3).play(DeterministicPolicy(actions[np.newaxis]), users, np.random.default_rng(3))
        assert abs(played.measured.returns.mean() - mean) < 5 / 52 / math.sqrt(users)
        assert set(np.unique(np.rint(played.measured.returns * 52)).tolist()) == {-1.0, 0.0, 1.0}


def test_a_private_learner_learns_to_guess():
    found = tacit.run(
        environment=CARDS.format(1), learner="ucbvi", trust="central", epsilon=20.0, delta=1e-6, episodes=3000, seeds=1,
        workers=1,
    )  # fmt: skip
    (policy,) = found.policies
    guesses = policy.actions[0]
    assert guesses[:3].tolist() == [0, 0, 0]  # a deuce, a three or a four: higher
    assert guesses[10:13].tolist() == [1, 1, 1]
