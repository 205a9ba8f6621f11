from __future__ import annotations

import base64
import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import tacit
from papers import catalogue
from papers.catalogue import EXPERIMENTS, Experiment
from tacit.cli import main
from tacit.errors import InvalidInput, UnknownName
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig
from tacit.runs.files import comparison_schema, read_comparison
from tacit.runs.report import render_report, write_report

ROOT = Path(__file__).parents[2]
FILE = """
name = "small"

[defaults]
environment = "random-mdp"
episodes = 60
seeds = 2
checkpoints = 6
constants = "practical"
z = 0.5

[[run]]
learner = "ucbvi"

[[run]]
name = "posterior <sampling>"
learner = "psrl"
constants = "none"

[[run]]
learner = "uniform"

[[run]]
environment = "riverswim"
learner = "ucbvi"
seeds = [4]
"""


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


def test_defaults_are_shared_and_pass_the_reference_policies_by(file):
    name, runs = read_comparison(file)
    assert name == "small"
    assert [run.label for run in runs] == ["ucbvi, practical z=0.5", "posterior <sampling>", "uniform", runs[0].label]
    assert runs[0].config.z == 0.5
    assert (runs[1].config.constants, runs[1].config.z) == ("none", None)
    assert (runs[2].config.constants, runs[2].config.z) == (None, None)
    assert runs[3].config.seeds == (4,)
    assert runs[3].config.environment == "riverswim"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("episodes = 60", "episode = 60", "unknown entry of .defaults. 'episode': did you mean 'episodes'"),
        ('learner = "psrl"', 'lerner = "psrl"', "did you mean 'learner'"),
        ("[defaults]", "[default]", "did you mean 'defaults'"),
        ("episodes = 60", "episodes = -1", "episodes must be a whole number"),
        ("z = 0.5", "z = nan", "z must be a finite number"),
        ('learner = "psrl"', "learner = 7", "name its learner"),
        ('environment = "random-mdp"', "", "name its environment"),
        ("[[run]]", "[[run", "valid TOML"),
        ('name = "small"', "name = 3", "name of a comparison must be text"),
    ],
)
def test_a_wrong_file_is_refused_in_words(file, old, new, words):
    file.write_text(FILE.replace(old, new))
    with pytest.raises(InvalidInput, match=words):
        read_comparison(file)


def test_the_schema_of_files_is_the_published_one_and_agrees_with_the_reader(file, capsys):
    schema = comparison_schema()
    published = (ROOT / "docs" / "comparison.schema.json").read_text("utf-8")
    assert main(["compare", "--schema"]) == 0
    assert capsys.readouterr().out == published
    assert json.loads(published) == schema
    valid = jsonschema.Draft202012Validator(schema).is_valid
    (shown,) = re.findall(
        r"^```toml\n(.*?)^```$", (ROOT / "docs/engines.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    file.write_text(shown)
    _, runs = read_comparison(file)
    assert [run.label for run in runs][-1] == "no learning"
    assert len(runs) == 5
    assert {len(run.config.seeds) for run in runs} == {20}
    for text in (FILE, shown):
        assert valid(tomllib.loads(text))
    right = {"calibration": '"paper"', "constants": '"theory"', "sees": "[0, 1]", "seeds": "[3, 4]", "z": "[0.5, 1]"}
    wrong = {"calibration": '"none"', "constants": '"big"', "batch": "true", "seeds": "0", "z": "[]", "epsilom": "1",
             "trust": '"cental"', "episodes": "1.5", "learner": "7", "public_losses": "1"}  # fmt: skip
    base = {"environment": '"riverswim"', "episodes": "60", "learner": '"ucbvi"'}
    for entry in ({}, *({name: value} for name, value in right.items())):
        text = "[[run]]\n" + "".join(f"{name} = {value}\n" for name, value in {**base, **entry}.items())
        file.write_text(text)
        assert read_comparison(file), entry
        assert valid(tomllib.loads(text)), entry
    for name, value in wrong.items():
        text = "[[run]]\n" + "".join(f"{key} = {one}\n" for key, one in {**base, name: value}.items())
        file.write_text(text)
        with pytest.raises(InvalidInput):
            read_comparison(file)
        assert not valid(tomllib.loads(text)), name


def test_a_missing_or_empty_file_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot read"):
        read_comparison(tmp_path / "none.toml")
    (tmp_path / "empty.toml").write_text("[defaults]\nepisodes = 3\n")
    with pytest.raises(InvalidInput, match="at least one"):
        read_comparison(tmp_path / "empty.toml")


def test_a_comparison_is_kept_read_back_resumed_and_grows(file, tmp_path):
    out = tmp_path / "out"
    first = tacit.compare(file, out=out, workers=1)
    again = tacit.load(out)
    assert isinstance(again, tacit.Comparison)
    assert again.to_json() == first.to_json()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    file.write_text(FILE + '[[run]]\nlearner = "optimal"\n')
    grown = tacit.compare(file, out=out, workers=1)
    assert len(grown) == len(first) + 1
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for old, new in zip(first, grown, strict=False):
        np.testing.assert_array_equal(old.regret, new.regret)
    file.write_text(FILE.replace("episodes = 60", "episodes = 61"))
    with pytest.raises(InvalidInput, match="episodes is 60 there, 61 here"):
        tacit.compare(file, out=out, workers=1)
    file.write_text(FILE.replace('name = "small"', 'name = "other"'))
    with pytest.raises(InvalidInput, match="holds another comparison, 'small'"):
        tacit.compare(file, out=out, workers=1)


def test_runs_of_a_comparison_need_names_of_their_own(tmp_path):
    config = tacit.RunConfig(environment="random-mdp", learner="psrl", episodes=10, seeds=(0,))
    with pytest.raises(InvalidInput, match="name of its own"):
        run_comparison([Run(label="A b", config=config), Run(label="a-b", config=config)], name="x", out=tmp_path / "o",
                       command="-")  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_one_bad_run_stops_a_comparison_before_anything_is_written(file, tmp_path):
    file.write_text(FILE.replace('learner = "psrl"', 'learner = "prsl"'))
    with pytest.raises(UnknownName, match="did you mean 'psrl'"):
        tacit.compare(file, out=tmp_path / "out", workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_load_refuses_what_tacit_did_not_write(tmp_path):
    with pytest.raises(InvalidInput, match="must be a directory that tacit wrote"):
        tacit.load(tmp_path)


def kind_of(config):
    """What can go wrong when a run is built. Batches of a shuffler take seconds to calibrate, in whatever world."""
    kind = (config.learner, config.trust, config.calibration, config.mechanism, config.constants)
    return kind if config.trust == "shuffle" else (*kind, config.world_name, config.batch)


def by_kind(runs):
    """One run of every kind, the one with the smallest epsilon, which is the hardest to calibrate."""
    ordered = sorted(runs, key=lambda run: -(run.config.epsilon or 0.0))
    return {kind_of(run.config): run for run in ordered}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_experiment_can_be_built_at_every_scale(every):
    """With every change one run of every kind, where it occurs first; before a merge every run of every experiment."""
    built = set()
    for name, experiment in EXPERIMENTS.items():
        for scale in ("smoke", "paper"):
            runs = experiment.runs(scale)
            assert runs, name
            for kind, run in enumerate(runs) if every else by_kind(runs).items():
                if every or kind not in built:
                    tacit.runs.assemble.assemble(run.config)
                    built.add(kind)
        assert experiment.figures


def test_reproduce_runs_what_is_missing_draws_and_then_does_nothing(tmp_path, monkeypatch):
    def tiny(scale):
        episodes = {"smoke": 20, "paper": 40}[scale]
        return tuple(
            Run(
                label=name,
                config=tacit.RunConfig(environment="random-mdp", learner=name, episodes=episodes, seeds=(0,)),
            )
            for name in ("psrl", "uniform")
        )

    monkeypatch.setattr(catalogue, "EXPERIMENTS", {"tiny/one": Experiment(summary="small", runs=tiny)})
    told: list[str] = []
    first = catalogue.reproduce("tiny/one", out=tmp_path / "out", workers=1, notify=told.append)
    assert (first.name, first.scale, len(first)) == ("tiny/one", "smoke", 2)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.p*")}
    assert tmp_path / "out" / "regret.png" in before
    told.clear()
    catalogue.reproduce("tiny/one", out=tmp_path / "out", workers=1, notify=told.append)
    assert told[0].endswith("holds all 2 runs already, finished: nothing to do")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.p*")} == before
    with pytest.raises(InvalidInput, match="another"):
        catalogue.reproduce("tiny/one", scale="paper", out=tmp_path / "out", workers=1)
    with pytest.raises(UnknownName, match="did you mean 'tiny/one'"):
        catalogue.reproduce("tiny/on", out=tmp_path / "x")
    with pytest.raises(UnknownName, match="unknown scale"):
        catalogue.reproduce("tiny/one", scale="huge", out=tmp_path / "x")  # type: ignore[arg-type]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_report_is_one_page_that_needs_nothing_else(file, tmp_path):
    comparison = tacit.compare(file, workers=1)
    page = _Page()
    text = write_report(comparison, tmp_path / "report.html").read_text()
    page.feed(text)
    assert page.open == []
    assert len(page.links) == 2
    for link in page.links:
        assert base64.b64decode(link.removeprefix("data:image/svg+xml;base64,")).startswith(b"<?xml")
    assert not re.search(r"<link|@import|<script[^>]* src|<iframe|<object", text)
    # The library's own first line names where it is from; nothing else is an address.
    assert not re.search(r"https?://", text.replace("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", ""))
    for needed in ("Nothing is protected", "tacit compare", "simulations only", "posterior <sampling>",
                   comparison[3].config.command(), comparison[0].resolved.fingerprint):  # fmt: skip
        assert needed in page.text
    assert "posterior <sampling>" not in text, "names must be escaped"
    for result in comparison:
        assert f"{result.spread().mean:,.1f} ± {result.spread().std:,.1f}" in page.text
    assert render_report(comparison) == text, "the same results give the same page"


def test_runs_that_mix_constants_say_so():
    private = {"trust": "local", "epsilon": 1.0, "delta": 0.0}

    def told(plain, constants):
        words: list[str] = []
        shared = {"environment": "random-mdp", "learner": "ucbvi", "episodes": 20, "seeds": (0,)}
        runs = [
            Run(label="plain", config=RunConfig(**shared, constants=plain)),
            Run(label="private", config=RunConfig(**shared, **private, constants=constants)),
        ]
        run_comparison(runs, name="c", out=None, command="c", workers=1, notify=words.append)
        return " ".join(words)

    assert "theory: plain; practical: private" in told("theory", None)
    assert "constants" not in told("practical", "practical")
    assert "constants" not in told(None, None), "one default for every trust model"


def test_lists_are_swept_in_files_and_in_python(tmp_path):
    text = """
    [defaults]
    environment = "riverswim"
    episodes = 30
    trust = "central"
    epsilon = [0.5, 1.0]
    delta = 1e-6
    [[run]]
    learner = ["psrl", "uniform"]
    """
    (tmp_path / "sweep.toml").write_text(text)
    _, runs = read_comparison(tmp_path / "sweep.toml")
    private = [("psrl", 0.5), ("psrl", 1.0)]
    assert {(run.config.learner, run.config.epsilon) for run in runs} == {*private, ("uniform", None)}
    assert len({run.label for run in runs}) == 3
    assert {run.config.seeds for run in runs} == {(0,)}  # one seed, as in `tacit.run`
    world = tacit.make_environment("riverswim:states=3,horizon=3")
    found = tacit.compare(environment=[world, "riverswim"], learner=("psrl", "uniform"), episodes=30, workers=1)
    asked = [(name, learner) for name in (world.name, "riverswim") for learner in ("psrl", "uniform")]
    assert [(result.config.world_name, result.config.learner) for result in found] == asked
    with pytest.raises(UnknownName, match="did you mean 'epsilon'"):
        tacit.compare(environment="riverswim", epsilom=[1, 2])
    with pytest.raises(InvalidInput, match="for instance episodes"):
        tacit.compare(environment="riverswim", learner=["psrl", "ucbvi"])
    with pytest.raises(InvalidInput, match="at least one value"):
        tacit.compare(environment="riverswim", learner=[], episodes=10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tacit.run(environment="riverswim", episodes=20, trust=None), "unknown trust model"),
        (lambda: tacit.run(environment="riverswim", episodes=20, out=3), "must be named"),
        (lambda: tacit.run(environment="riverswim", episodes=20, out=""), "must be named"),
        (lambda: tacit.run(environment="riverswim", episodes=20, trust="central", epsilon=True), "finite number"),
        (lambda: tacit.run(environment="riverswim", episodes=20, trust="central", epsilon="1"), "got the text"),
        (lambda: tacit.run(environment="riverswim", episodes=20, mechanism=3), "mechanism must be a name"),
        (lambda: tacit.live("Blackjack-v1", rewards=1), "rewards must be a list"),
        (lambda: tacit.load(None), "must be text or a path"),
        (lambda: tacit.compare(["a"]), "path must be text or a path or None"),
        (lambda: tacit.simulate("riverswim", "ucbvi", None, episodes=10, seed=0), "must be an object"),
        (lambda: tacit.TabularMDP(P=[[[1.0]]], r=[[0.0]], rho=[1.0], horizon=10**12), "at most 1000000"),
    ],
)
def test_what_has_the_wrong_type_is_refused_in_words(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
