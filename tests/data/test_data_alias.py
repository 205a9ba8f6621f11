"""Alias tables hold exactly the rows they were made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.trajectories import _alias_tables, alias_draw, prepare_world
from tacit.environments.registry import make


def reconstructed(cut, other):
    """The distribution that a pair of tables draws from, in exact column masses."""
    n = len(cut)
    p = np.zeros(n)
    for column in range(n):
        p[column] += cut[column] / n
        p[other[column]] += (1.0 - cut[column]) / n
    return p


@given(st.integers(1, 60), st.sampled_from([0.01, 0.1, 1.0, 10.0]), st.integers(0, 2**32 - 1))
def test_tables_reconstruct_their_rows(n, concentration, seed):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n, concentration), size=20)
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[rows.sum(axis=1) == 0.0, 0] = 1.0
    rows /= rows.sum(axis=1, keepdims=True)
    cuts, others = _alias_tables(rows)
    for row, cut, other in zip(rows, cuts, others, strict=True):
        np.testing.assert_allclose(reconstructed(cut, other), row, rtol=0, atol=1e-12)
        # An impossible state keeps nothing of its own column and receives nothing from another.
        assert (cut[row == 0.0] == 0.0).all()
        assert (row[other[cut < 1.0]] > 0.0).all()


@pytest.mark.parametrize(
    "row",
    [
        [1.0],
        [0.0, 1.0],
        [1.0, 0.0, 0.0],
        [0.1] * 10,
        [1.0 - 1e-16, 1e-16, 0.0],
        [1e-300, 1.0 - 1e-300, 0.0],
        [1 / 3, 1 / 3, 1 / 3, 0.0, 0.0, 0.0, 0.0],
        [0.7, 0.1, 0.1, 0.1 - 1e-17],
    ],
)
def test_awkward_rows(row):
    p = np.array(row)
    cut, other = _alias_tables(p[None])
    np.testing.assert_allclose(reconstructed(cut[0], other[0]), p / p.sum(), rtol=0, atol=1e-15)
    grid = np.append(np.linspace(0.0, 1.0, 5001)[:-1], np.nextafter(1.0, 0.0))
    drawn = {int(alias_draw(cut[0], other[0], u)) for u in grid}
    assert drawn <= set(np.flatnonzero(p))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 48, 1000, 2**20 - 1])
def test_the_last_uniform_number_stays_inside(n):
    cut, other = np.ones(n), np.arange(n)
    assert alias_draw(cut, other, np.nextafter(1.0, 0.0)) == n - 1
    assert alias_draw(cut, other, 0.0) == 0


@pytest.mark.parametrize("name", ["riverswim", "random-mdp", "treatment", "ev-charging", "recommender", "hard-tree"])
def test_every_environment_is_prepared_exactly(name):
    mdp = make(name)
    world = prepare_world(mdp)
    for index in np.ndindex(*mdp.stage_P.shape[:3]):
        row = reconstructed(world.cut[index], world.other[index])
        np.testing.assert_allclose(row, mdp.stage_P[index], rtol=0, atol=1e-12)
    np.testing.assert_allclose(reconstructed(world.first_cut, world.first_other), mdp.rho, rtol=0, atol=1e-12)
    assert world.reward is not mdp.stage_r
