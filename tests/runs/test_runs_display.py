"""Results as data frames and in notebooks: the same numbers, escaped, in any colour scheme, simulations marked."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import tacit
from tacit.errors import NotSupported
from tacit.notebook import MARK, grid
from tacit.policies import DeterministicPolicy, GaussianPolicy, LayeredPolicy, StochasticPolicy
from tacit.policies.named import NamedPolicy
from tacit.runs import result as display
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig
from tacit.runs.storage import COLUMNS

PRIVATE = {"trust": "local", "epsilon": 1.0, "delta": 0.0}


@pytest.fixture(scope="module")
def result():
    return tacit.run(environment="riverswim", learner="uniform", episodes=60, seeds=[3, 5], checkpoints=4, workers=1)


@pytest.fixture(scope="module")
def comparison():
    shared = {"environment": "riverswim", "episodes": 60, "seeds": (0,), "checkpoints": 4}
    runs = [
        Run(label="<b>one</b>", config=RunConfig(learner="uniform", **shared)),
        Run(label="two", config=RunConfig(learner="optimal", **shared)),
    ]
    return run_comparison(runs, name="a & b", out=None, command="none", workers=1)


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(html: str) -> Tags:
    found = Tags()
    found.feed(html)
    assert found.open == []
    assert set(found.seen) <= {"div", "strong", "table", "tr", "th", "td", "em", "pre"}
    # The page decides about colours: nothing here is dark on dark.
    for word in ("#", "rgb", "white", "black"):
        assert f"color:{word}" not in html
    assert len(html) < 20_000
    return found


def test_a_frame_has_the_rows_of_the_result(result):
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert frame.pivot(index="seed", columns="episode", values="regret").to_numpy().tobytes() == result.regret.tobytes()
    assert frame["seed"].unique().tolist() == [3, 5]
    assert frame["epsilon"].tolist() == [np.inf] * len(frame)
    assert frame["z"].isna().all()
    assert frame.attrs["simulation_only"] == ["regret"]


def test_a_frame_is_what_was_stored(result, tmp_path):
    pd = pytest.importorskip("pandas")
    stored = pd.read_parquet(result.save(tmp_path / "run") / "results.parquet")
    pd.testing.assert_frame_equal(stored, result.to_pandas())


def test_a_comparison_is_one_frame(comparison):
    pytest.importorskip("pandas")
    frame = comparison.to_pandas()
    assert frame["run"].unique().tolist() == ["<b>one</b>", "two"]
    assert len(frame) == sum(one.regret.size for one in comparison)


def test_without_pandas_the_extra_is_named(result, monkeypatch):
    monkeypatch.setattr(display, "find_spec", lambda name: None)
    with pytest.raises(NotSupported, match=r"\[pandas\]"):
        result.to_pandas()


def test_a_result_at_a_prompt_is_one_line(result):
    config = result.config
    assert repr(result).startswith(f"<Result of {result.label} on {config.environment_name}, trust {config.trust}, ")
    assert len(repr(result)) < 200


def test_a_result_in_a_notebook(result):
    found = read(result._repr_html_())
    assert "regret" in "".join(found.words)
    assert result._repr_html_().count(MARK) == 2  # the regret and its share
    assert "Nothing is protected" in "".join(found.words)


def test_a_comparison_in_a_notebook_is_escaped(comparison):
    html = comparison._repr_html_()
    found = read(html)
    assert "<b>" not in html
    assert "<b>one</b>" in found.words
    assert "a & b" in found.words
    assert html.count(MARK) == 2


def test_certificates_in_a_notebook():
    ran = tacit.run(environment="riverswim", learner="ucbvi", episodes=60, workers=1, **PRIVATE)
    words = " ".join("".join(read(ran.certificate._repr_html_()).words).split())
    assert "SIMULATION" in words
    assert "The claim is true" in words
    assert ran.certificate.collusion in words


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (DeterministicPolicy(np.array([[0, 1], [1, 0]])), ["state 0", "0", "1", "state 1", "1", "0"]),
        (StochasticPolicy(np.array([[[0.25, 0.75]]])), ["state 0", "0: 25%, 1: 75%"]),
        (LayeredPolicy(np.array([0.5, 0.5, 1.0, 0.0]), 2), ["state 0", "50%", "50%", "state 1", "100%", "0%"]),
        (GaussianPolicy(np.zeros(1), np.array([1.5]), 0.5), ["state 0", "1.5"]),
        (
            NamedPolicy(policy=DeterministicPolicy(np.array([[1]])), states=("<i>",), actions=("a", "b&c")),
            ["<i>", "b&c"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_policies_in_a_notebook(policy, words):
    found = read(policy._repr_html_())
    assert found.words[-len(words) :] == words


def test_large_tables_say_what_was_cut():
    assert "and 5 more rows, 3 more columns" in "".join(read(grid(["x"] * 15, [["y"] * 15] * 25)).words)
    assert "more" not in grid(["x"], [["y"]])
