"""The page of a result: escaped, self-contained under its own policy, linear first, with findings in words."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.errors import UnknownName
from tacit.pages import page as pages
from tacit.runs import report
from tacit.runs.comparison import Comparison
from tacit.runs.figures import REFERENCE_STYLES, STYLES
from tacit.runs.report import DARK, figure_of, finding, render_report, write_report

VENDOR = Path(pages.__file__).parent / "vendor"
BAD = "<script>alert('1')</script>"


class Read(HTMLParser):
    """Texts between tags, attributes, and the heads of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.inside: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.inside.append((tag, dict(attrs)))
            self.texts.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag):
        assert self.inside.pop()[0] == tag

    def handle_data(self, data):
        if self.inside:
            for i in range(len(self.texts) - 1, -1, -1):
                if self.texts[i][:2] == self.inside[-1]:
                    self.texts[i] = (*self.texts[i][:2], self.texts[i][2] + data)
                    break

    def of(self, tag: str) -> list[str]:
        return [text for found, _, text in self.texts if found == tag]

    def data(self) -> list[dict]:
        return [json.loads(text) for _, attrs, text in self.texts if attrs.get("type") == "application/json"]


@pytest.fixture(scope="module")
def results():
    shared = {"environment": "riverswim", "episodes": 60, "checkpoints": 10, "workers": 1}
    return [
        tacit.run(learner="psrl", seeds=3, **shared),
        tacit.run(learner="uniform", seeds=3, **shared),
    ]


def together(results, **more):
    return Comparison(**{"name": "two", "scale": None, "results": tuple(results), "directory": None, "version": "0",
                         "command": "tacit compare two.toml", **more})  # fmt: skip


def test_names_are_escaped_wherever_they_stand(results):
    text = render_report(together([replace(results[0], label=BAD), results[1]], name=BAD, command=BAD, scale=BAD))
    assert "<script>alert" not in text
    assert "alert('1')" not in text, "not even inside the numbers of the curves"
    read = Read(text)
    assert f"Comparison: {BAD} - tacit" in read.of("title")
    assert f"Comparison: {BAD}" in read.of("h1")
    assert read.data()[0]["panels"][0]["lines"][0]["name"] == BAD
    assert any(BAD in (attrs.get("aria-label") or "") for _, attrs in read.tags)


def test_the_certificate_comes_first_with_a_date(results):
    private = tacit.run(
        environment="riverswim", episodes=60, checkpoints=10, workers=1, trust="central", epsilon=1.0, delta=1e-6
    )
    text = render_report(private)
    assert text.index("SIMULATION, not a release") < text.index("<h3>Cumulative regret")
    assert f"certificates derived on {private.certificate.terms.date}" in text
    both = render_report(together([results[0], replace(private, label="private one")]))
    assert both.index("Certificate: private one") < both.index("Certificate: psrl")


def test_a_template_that_misses_a_value_is_an_error():
    with pytest.raises(Exception, match="'title' is undefined"):
        pages.render("base.html")


def test_the_policy_allows_what_is_inlined_and_nothing_else(results):
    read = Read(render_report(results[0]))
    (policy,) = [attrs["content"] for tag, attrs in read.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    rules = {name: rest.split() for name, _, rest in (part.strip().partition(" ") for part in policy.split(";"))}

    def digests(texts):
        return {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts}

    scripts = [text for tag, attrs, text in read.texts if tag == "script" and "type" not in attrs]
    assert len(scripts) == 2
    assert set(rules.pop("script-src")) == digests(scripts)
    assert set(rules.pop("style-src")) == digests(read.of("style"))
    none = ["'none'"]
    assert rules == {"default-src": none, "img-src": ["data:"], "base-uri": none, "form-action": none}
    assert not [attrs for _, attrs in read.tags if "style" in attrs or any(name.startswith("on") for name in attrs)]
    links = [value for _, attrs in read.tags for name, value in attrs.items() if name in ("src", "href")]
    assert links
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links)


def test_the_library_is_the_one_of_its_notice_and_its_licence_travels_with_every_page(results):
    notice = (VENDOR / "NOTICE").read_text()
    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        content = (VENDOR / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() in notice
        assert not re.search(rb"</script|</style|<!--", content), "it may stand between two tags"
    assert "uPlot 1.6.32" in notice
    text = render_report(results[0])
    assert (VENDOR / "LICENSE-uPlot.txt").read_text().strip() in text
    assert (VENDOR / "uPlot.iife.min.js").read_text() in text


def test_axes_are_linear_to_begin_with_and_logarithmic_if_asked(results):
    assert [figure["log"] for figure in Read(render_report(results[0])).data()] == ["none", "none"]
    figures = Read(render_report(results[0], log="xy")).data()
    assert [(figure["log"], figure["logs"]) for figure in figures] == [("xy", ["x", "y"])] * 2
    with pytest.raises(UnknownName, match="logarithmic"):
        render_report(results[0], log="z")  # type: ignore[arg-type]


def test_the_numbers_of_the_curves_are_those_of_the_result(results):
    cumulative, per_episode = Read(render_report(together(results))).data()
    psrl, uniform = cumulative["panels"][0]["lines"]
    regret = results[0].regret
    assert psrl["x"] == results[0].episodes.tolist()
    np.testing.assert_allclose(psrl["mean"], regret.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(psrl["seeds"], regret, rtol=1e-4)
    np.testing.assert_allclose(psrl["high"], regret.mean(axis=0) + regret.std(axis=0, ddof=1), rtol=1e-4)
    assert psrl["numbers"] == [0, 1, 2]
    assert (psrl["dash"], psrl["colour"]) != (uniform["dash"], uniform["colour"])
    each = np.array(per_episode["panels"][0]["lines"][0]["mean"]) * np.diff(psrl["x"], prepend=0)
    np.testing.assert_allclose(np.cumsum(each), regret.mean(axis=0), rtol=1e-3)
    # The uniform policy is drawn once: as a run, or else as a reference.
    (alone,) = figure_of(results[:1], "t", per_episode=False, log="none")["data"]["panels"]
    assert [line["name"] for line in alone["lines"]] == ["psrl", "uniform policy (expected)"]
    np.testing.assert_allclose(alone["lines"][1]["mean"], results[0].uniform_regret * results[0].episodes, rtol=1e-4)


def test_values_that_json_does_not_know_become_null(results):
    holes = results[0].regret.copy()
    holes[1, 3] = np.nan
    text = render_report(replace(results[0], regret=holes))
    assert Read(text).data()[0]["panels"][0]["lines"][0]["seeds"][1][3] is None


def test_many_seeds_are_left_out_and_the_page_says_so(results, monkeypatch):
    monkeypatch.setattr(report, "MAX_SEED_VALUES", sum(result.regret.size for result in results) - 1)
    text = render_report(together(results))
    assert "Single seeds are left out" in text
    figure = Read(text).data()[0]
    assert figure["seeds"] is False
    assert figure["panels"][0]["lines"][0]["seeds"] == []
    assert figure["panels"][0]["lines"][0]["low"] is not None


def ending(result, finals, label):
    """The same run with these final regrets, one per seed."""
    regret = np.outer(finals, np.linspace(0.1, 1.0, len(result.episodes)))
    return replace(result, regret=regret, label=label, seeds=tuple(range(len(finals))))


def test_alternative_texts_state_the_finding(results):
    a, b = ending(results[0], [10.0, 12.0, 11.0], "a"), ending(results[0], [30.0, 33.0, 36.0], "b")
    words = finding([b, a], per_episode=False)
    assert words == (
        "After 60 episodes, a has the least cumulative regret, 11 ± 1 (mean of 3 seeds); b has 33 (3 times as much). "
        "The bands (± one standard deviation) of a and b do not overlap there."
    )
    wide = ending(results[0], [10.0, 33.0, 56.0], "b")
    assert "of a and b overlap there" in finding([wide, a], per_episode=False)
    one = ending(results[0], [5.0], "c")
    assert "With one seed nothing is known about how far c and a scatter" in finding([a, one], per_episode=False)
    negative = finding([ending(results[0], [-1.0, -3.0], "a"), b], per_episode=False)
    assert "a has the least cumulative regret, -2 ± 1.41" in negative
    assert "times" not in negative, "a share of a negative number says nothing"
    expected = results[0].uniform_regret * 60
    assert f"uniform policy (expected): {expected:.3g}" in finding([a], per_episode=False)
    many = finding([ending(results[0], [1.0 + i], f"run {i}") for i in range(20)], per_episode=False)
    assert "11 more lie between" in many
    assert "run 19 has 20 (20 times as much)" in many
    # Every picture and every chart says it.
    read = Read(render_report(together([a, b])))
    alts = [attrs["alt"] or "" for tag, attrs in read.tags if tag == "img"]
    assert words in finding([a, b], per_episode=False)
    assert words in alts[0]
    assert finding([a, b], per_episode=True) in alts[1]
    labels = [attrs["aria-label"] or "" for _, attrs in read.tags if attrs.get("class") == "chart"]
    assert [words in label for label in labels] == [True, False]
    assert all("simulation only" in label for label in [*alts, *labels])


def test_what_is_simulation_only_is_marked(results):
    text = render_report(results[0])
    marked = re.findall(r'<th scope="col"[^>]*>([^<]*) <em class="mark">simulation only</em></th>', text)
    assert marked == ["regret, mean ± std", "least to greatest", "share of uniform&#39;s"]
    titles = re.findall(r'<h3>([^<]*) <em class="mark">simulation only</em></h3>', text)
    assert titles == ["Cumulative regret", "Regret per episode"]


def test_the_verifier_is_named_with_the_place_of_the_result(results, tmp_path):
    assert "tacit verify DIR" in Read(render_report(results[0])).of("pre")
    assert "tacit verify 'a b'" in Read(render_report(results[0], directory="a b")).of("pre")
    kept = together(results, directory=tmp_path)
    assert f"tacit verify {tmp_path}" in Read(render_report(kept)).of("pre")
    assert "tacit verify elsewhere" in Read(render_report(kept, directory="elsewhere")).of("pre")


def test_a_page_as_large_as_the_demo_s_is_below_a_megabyte(results, tmp_path):
    rng = np.random.default_rng(0)
    episodes = np.unique(np.geomspace(1, 20_000, 130).astype(np.int64))
    many = [
        replace(results[0], label=f"run {i}", seeds=tuple(range(10)), episodes=episodes,
                regret=rng.random((10, len(episodes))).cumsum(axis=1) * 1e3)
        for i in range(5)
    ]  # fmt: skip
    assert len(episodes) > 90
    page = write_report(together(many), tmp_path / "report.html")
    assert page.stat().st_size < 1_000_000
    assert len(Read(page.read_text()).data()[0]["panels"][0]["lines"][4]["seeds"]) == 10


def test_every_line_has_a_colour_for_dark_pages():
    assert {colour for colour, _, _ in (*STYLES, *REFERENCE_STYLES.values())} == set(DARK)
