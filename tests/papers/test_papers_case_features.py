"""The case of features: bars are met, the page shows what was committed, and a cell can be run again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from papers.cases.rows import BARS, SIZES, TRUSTS, Cell, Rows, interval, trial, where
from papers.cases.rows_page import FIGURE, PAGE, RESULTS, digest, load, render
from tacit.policies import LinearPolicy

FOUND = load()


def needs(name, package):
    return pytest.mark.skipif(
        where(name) is None, reason=f"{package} holds these data and is not installed (pip install '.[cases]')"
    )


def test_the_page_and_its_figure_are_made_of_the_committed_rows():
    """Otherwise: `python -m papers.cases.rows_page`."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(page, FOUND)
    with Image.open(FIGURE) as picture:
        assert picture.text["Source"] == digest(FOUND)


def test_bars_are_met_within_the_claim_by_all_that_was_designed():
    met = []
    for data in ("segments", "shuttle"):
        cells = [row["cell"] for row in FOUND[data]]
        assert cells == [{"data": data, "trust": trust, "episodes": K} for K in SIZES for trust in TRUSTS]
        for row in FOUND[data]:
            assert row["seeds"] == list(range(20))
            assert row["final interval"] == pytest.approx(interval(row["final"]), abs=1e-5)
            assert row["during interval"] == pytest.approx(interval(row["during"]), abs=1e-4)
            assert (row["certified epsilon"] is None) == (row["cell"]["trust"] == "none")
            assert row["certified epsilon"] is None or row["certified epsilon"] <= 1.0
            bar = BARS.get(tuple(row["cell"].values()))
            if bar is not None:
                assert np.mean(row["final"]) >= bar
                met.append(row["cell"]["data"])
    assert met == ["segments", "shuttle"]


def test_the_trial_is_the_negative_case_that_the_page_tells_of():
    (row,) = FOUND["actg175"]
    assert row["certified epsilon"] <= 1.0
    assert row["minus best single arm"]["linear, epsilon 1"][2] < 0.0
    assert row["minus best single arm"]["linear, no privacy"][0] < 0.0


def test_the_page_tells_what_steps_were_made_in_mobile_health():
    found, page = json.loads((RESULTS / "steps.json").read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    assert set(found["certified epsilon"]) == {f"{trust}, epsilon 1" for trust in ("central", "shuffle", "local")}
    assert max(found["certified epsilon"].values()) <= 1.0
    assert len(found["seeds"]) == 20
    baseline = found["steps"]["always tailor"]
    for name, values in found["steps"].items():
        assert len(values) == len(found["seeds"])
        assert found["intervals"][name] == pytest.approx(interval(values))
        if name != "uniform":
            assert f"{np.mean(values):,.0f}" in page
    for name, ends in found["minus always tailor"].items():
        apart = interval([a - b for a, b in zip(found["steps"][name], baseline, strict=True)])
        assert ends == pytest.approx(apart)
        assert f"{ends[0]:+,.0f} [{ends[1]:,.0f}, {ends[2]:,.0f}]" in page
    trial = found["trial"]
    assert trial["certified epsilon"] <= 1.0
    assert f"{trial['estimate']:+,.0f} [{trial['interval'][0]:,.0f}, {trial['interval'][1]:,.0f}]" in page
    assert trial["verdict"] in page


def test_people_are_paid_for_the_class_of_their_row():
    """Rows that are equal share a mean, also where all numbers are round."""
    x = np.array([[1.0, 0.5], [0.5, 1.0], [1.0, 0.5], [-1.0, 0.0]])
    rows = Rows(x, np.array([0, 1, 1, 1]), "small")
    assert rows.means(x).tolist() == [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.0, 1.0]]
    assert rows.right(LinearPolicy(np.array([[[1.0, 0.0], [0.0, 1.0]]]), 2)) == 0.75


@needs("segments", "river")
def test_a_committed_cell_is_found_again():
    row = FOUND["segments"][1]
    found = Cell(**row["cell"]).run(row["seeds"][:2])
    assert found["final"] == pytest.approx(row["final"][:2], abs=0.002)
    assert found["during"] == pytest.approx(row["during"][:2], abs=0.002)
    assert found["declaration"] == row["declaration"]


@needs("actg175", "lifelines")
def test_the_trial_is_found_again():
    (row,) = FOUND["actg175"]
    found = trial(row["seeds"])
    for name in ("values", "minus best single arm"):
        for rule, three in row[name].items():
            assert found[name][rule] == pytest.approx(three, abs=0.002)
