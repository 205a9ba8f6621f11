"""The page of linear learners is what is committed, bars are met, and a cell gives its rows again."""

from __future__ import annotations

import json

import pytest
from docs.tables import FOLDER, case_tables
from PIL import Image

from papers.features.page import FIGURE, PAGE, digest, load, render
from papers.features.shares import GROUPS, PUBLISHED, Cell, bars, run_cell, table_of
from tacit.environments.bandits import linear_bandit

FOUND = load()


def test_the_page_and_its_figure_are_made_of_the_committed_rows():
    """Otherwise: `python -m papers.features.page`, `python -m docs.tables`."""
    assert PAGE.read_text(encoding="utf-8") == render(FOUND)
    made = case_tables()
    for name in ("linear-learners.csv", "linear-sizes.csv", "linear-worlds.csv"):
        assert (FOLDER / name).read_text(encoding="utf-8") == made[name]
    with Image.open(FIGURE) as picture:
        assert picture.text["Source"] == digest(FOUND)


def test_every_bar_is_met_within_its_claim():
    assert [row["cell"] for row in FOUND["bars"]] == [json.loads(json.dumps(vars_of(cell))) for cell in bars()]
    for row in FOUND["bars"]:
        bar = row["cell"]["bar"]
        assert bar is None or row["share"] <= bar
        assert len(row["seeds"]) == 20


@pytest.mark.parametrize("group", GROUPS)
def test_every_certificate_is_within_its_claim(group):
    """Of every row, tables of bins included; papers' LinUCB has the certificate of its noise, whatever that is."""
    assert [row["cell"] for row in FOUND[group]] == [json.loads(json.dumps(vars_of(cell))) for cell in GROUPS[group]()]
    assert {len(row["seeds"]) for row in FOUND[group]} == ({3} if group == "published" else {20})
    for row in FOUND[group]:
        if row["cell"]["trust"] == "none":
            assert row["certified epsilon"] is None
        elif row["cell"]["learner"] not in PUBLISHED:
            assert 0.9 * row["cell"]["epsilon"] < row["certified epsilon"] <= row["cell"]["epsilon"]


def vars_of(cell):
    return {name: getattr(cell, name) for name in Cell.__dataclass_fields__}


@pytest.mark.parametrize("group", ["bars", "frontier", "misspecified"])
def test_committed_cells_are_found_again(group):
    """The first cells of a group at two of their seeds."""
    row = FOUND[group][0]
    found = run_cell(Cell(**row["cell"]), row["seeds"][:2])
    assert found["regrets"] == pytest.approx(row["regrets"][:2], abs=0.02)
    assert found["uniform"] == pytest.approx(row["uniform"][:2], abs=0.02)


def test_a_table_of_bins_has_the_means_of_its_cells():
    import numpy as np

    world = linear_bandit(features=3, actions=2, model="xor")
    x = world.contexts(20_000, np.random.default_rng(0))
    mdp = table_of(x, world.means(x), 2, 2)
    assert np.allclose(np.sort(np.unique(np.round(mdp.stage_r[0], 1))), [0.2, 0.3, 0.7, 0.8], atol=0.11)
    assert mdp.rho.sum() == pytest.approx(1.0)
