from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tacit
from papers.panels import FigureSpec
from tacit.errors import InvalidInput
from tacit.runs.figures import apart, plot, series


@pytest.fixture(scope="module")
def results():
    shared = {"episodes": 60, "checkpoints": 10, "workers": 1}
    return [
        tacit.run(environment="riverswim", learner="psrl", seeds=4, **shared),
        tacit.run(environment="riverswim", learner="optimal", seeds=1, **shared),
        tacit.run(environment="random-mdp", learner="uniform", seeds=2, **shared),
    ]


def test_the_bands_are_what_they_say(results):
    regret = results[0].regret
    x, mean, low, high = series(results[0], band="std", per_episode=False)
    np.testing.assert_array_equal(x, results[0].episodes)
    np.testing.assert_allclose(mean, regret.mean(axis=0))
    np.testing.assert_allclose(high - mean, regret.std(axis=0, ddof=1))
    np.testing.assert_allclose(mean - low, high - mean)
    _, _, low, high = series(results[0], band="minmax", per_episode=False)
    np.testing.assert_array_equal(low, regret.min(axis=0))
    np.testing.assert_array_equal(high, regret.max(axis=0))
    first = series(results[0], band="bootstrap", per_episode=False)
    again = series(results[0], band="bootstrap", per_episode=False)
    np.testing.assert_array_equal(first, again)
    _, mean, low, high = first
    assert (regret.min(axis=0) <= low + 1e-9).all()
    assert (low <= mean + 1e-9).all()
    assert (mean <= high + 1e-9).all()
    # The interval of a mean of four is narrower than their range, and there is one.
    assert 0.0 < (high - low)[-1] < np.ptp(regret[:, -1])


def test_the_regret_of_an_episode_adds_up_to_the_cumulative_one(results):
    x, mean, _, _ = series(results[0], band="none", per_episode=True)
    np.testing.assert_allclose(np.cumsum(mean * np.diff(x, prepend=0)), results[0].regret.mean(axis=0))
    # Every episode of the uniform policy costs the same.
    _, flat, _, _ = series(results[2], band="none", per_episode=True)
    np.testing.assert_allclose(flat, results[2].uniform_regret)


def test_the_regret_so_far_is_the_cumulative_one_per_episode(results):
    x, mean, low, high = series(results[0], band="minmax", per_episode="so far")
    np.testing.assert_allclose(mean * x, results[0].regret.mean(axis=0))
    np.testing.assert_allclose(low * x, results[0].regret.min(axis=0))
    np.testing.assert_allclose(high * x, results[0].regret.max(axis=0))
    assert "R_k/k" in plot(results[:1], per_episode="so far").axes[0].get_ylabel()


def test_one_panel_per_environment_and_every_line_is_named_at_its_end(results):
    figure = plot(results, title="both")
    first, second = figure.axes
    assert first.get_title(loc="left") == "riverswim"
    assert second.get_title(loc="left") == "random-mdp"
    assert [text.get_text() for text in first.texts] == ["uniform policy (expected)", "psrl", "optimal"]
    assert [text.get_text() for text in second.texts] == ["uniform"]
    assert first.get_legend() is None
    assert first.get_xscale() == first.get_yscale() == "log"
    linear = plot(results[:1], log="none").axes[0]
    assert linear.get_xscale() == linear.get_yscale() == "linear"


def test_lines_differ_without_colour(results):
    more = [results[0], *(tacit.run(environment="riverswim", learner=name, episodes=20, workers=1) for name in
            ("ucbvi", "psrl:time_homogeneous=true", "ucbvi:bonus=bernstein"))]  # fmt: skip
    drawn = plot(more).axes[0].lines[1:]
    assert len({(str(line._unscaled_dash_pattern), line.get_marker()) for line in drawn}) == len(drawn)
    assert len({line.get_marker() for line in drawn}) == len(drawn)


def test_zero_is_drawn_at_the_lower_edge_of_a_logarithmic_axis(results):
    ax = plot(results[1:2], log="xy").axes[0]
    optimal = ax.lines[-1].get_ydata()
    assert np.isfinite(optimal).all()
    np.testing.assert_allclose(optimal, ax.get_ylim()[0])


def test_a_spec_selects_results_and_names_panels(results, tmp_path):
    spec = FigureSpec(name="f", select=lambda r: len(r.seeds) > 1, panel=lambda r: f"{len(r.seeds)} seeds", log="none")
    figure = spec.draw(results, tmp_path / "f.png", title="given")
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["4 seeds", "2 seeds"]
    assert figure.get_suptitle() == "given"


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_figure_is_saved_whole(results, tmp_path, suffix):
    target = tmp_path / "new" / f"figure{suffix}"
    results[0].plot(target, band="minmax", per_episode=True)
    magic = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert target.read_bytes().startswith(magic)
    assert [file.name for file in target.parent.iterdir()] == [target.name]


def test_bad_choices_are_refused(results, tmp_path):
    for choice in ({"band": "sdt"}, {"log": "z"}, {"path": tmp_path / "figure.gif"}):
        with pytest.raises(InvalidInput):
            plot(results, **choice)
    with pytest.raises(InvalidInput, match="at least one result"):
        plot([])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("heights", [[0.0, 1.0, 2.0], [50.0, 50.0, 50.0, 10.0], [5.0, 100.0], [3.0, 2.0, 1.0]])
def test_names_are_moved_apart_in_order(heights):
    places = apart(heights, 11.0, 0.0)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(np.array(places)[order]) >= 11.0 - 1e-9).all()
    assert min(places) >= 0.0
    if min(np.diff(np.sort(heights))) >= 11.0:
        assert places == heights


def test_many_panels_stand_in_columns(results):
    many = [replace(results[0], label=f"run {i}") for i in range(10)]
    for panels, columns in ((4, 1), (5, 2), (10, 3)):
        figure = plot(many[:panels], panel=lambda result: result.label)
        assert len(figure.axes) == panels
        assert len({round(ax.get_position().x0, 3) for ax in figure.axes}) == columns
        assert [ax.get_title(loc="left") for ax in figure.axes] == [f"run {i}" for i in range(panels)]
