"""S2: random histories show no person twice, nobody too often, no small batch, no second view; each mutant is found."""

from __future__ import annotations

import pytest
from study_histories import LetsIn, NoMinimum, PublishesFirst, Twice, history, released


def test_histories_of_an_honest_collector_show_nothing():
    for seed in range(24):
        assert history(seed, crashes=seed % 4 == 0) == [], seed


@pytest.mark.slow
def test_five_hundred_histories_show_nothing():
    for seed in range(1000, 1500):
        assert history(seed, crashes=seed % 4 == 0) == [], seed


def test_histories_release_something():
    assert sum(released(seed) for seed in range(5)) >= 10


@pytest.mark.parametrize(
    ("mutant", "crashes", "finding"),
    [
        (Twice, False, "a person twice in a batch"),
        (NoMinimum, False, "fewer than the least"),
        (LetsIn, False, "a closed batch let somebody in"),
        (PublishesFirst, True, "two views of one stage"),
    ],
)
def test_every_mutant_is_found(mutant, crashes, finding):
    assert any(finding in history(seed, mutant, crashes=crashes) for seed in range(40))
