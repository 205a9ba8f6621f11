"""Planted bugs in releases of moments are caught, honest releases are not flagged."""

from __future__ import annotations

import pytest

from mutants.moments import MOMENT_BUGS, MOMENTS
from mutants.mutations import examine
from mutants.planted import Mutation


@pytest.mark.statistical
@pytest.mark.parametrize("name", MOMENT_BUGS)
def test_every_bug_in_moments_is_caught(name):
    """By the first watchman of its list, and by one of the rules that must fire."""
    planted = MOMENT_BUGS[name]
    found = examine(name, planted, watchmen=planted.expected[:1], trials=2000, rules=planted.rules or None)
    assert found.by == planted.expected[:1], found.details


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", MOMENTS)
def test_no_honest_release_of_moments_is_flagged(name):
    """The rules that catch the bugs, false alarms below 1e-5 each, and an attack at 1e-4.

    Quick siblings: the laws and certificates of `tests/release/test_vectors.py`.
    """
    honest = Mutation(what="correct", plant=MOMENTS[name], expected=())
    found = examine(name, honest, trials=1000, rules=("families", "exposed"))
    assert found.by == (), found.details
