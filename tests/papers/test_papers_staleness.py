"""Committed results and what is said about them: fingerprints, stale runs, the generated pages, `list`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from papers import catalogue, revisions, thinning
from papers.__main__ import main
from papers.catalogue import EXPERIMENTS
from papers.fingerprint import BEFORE, fingerprint_of
from papers.index import BEGIN, END, pages, with_block
from papers.revisions import ANSWERS, LEARNERS, MECHANISMS, PRIVATIZERS
from papers.staleness import PLACES, staleness, staleness_of_all
from papers.statements import STATEMENTS
from papers.thinning import thin
from tacit.learners.table import LEARNERS as ROWS
from tacit.noise.table import MECHANISMS as NOISES
from tacit.release.table import PRIVATIZERS as FACTORIES
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
NAME = "toy/staleness"


@pytest.fixture(scope="module")
def states():
    return staleness_of_all(RESULTS)[0]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A small experiment of two runs and its committed result."""
    common = {"environment": "riverswim", "episodes": 100, "seeds": (0,)}
    runs = (
        Run(label="PSRL", config=RunConfig(learner="psrl", **common)),
        Run(label="JDP", config=RunConfig(learner="ucbvi", trust="central", epsilon=1.0, delta=1e-6, **common)),
    )
    experiment = catalogue.Experiment(summary="toy", runs=lambda scale: runs)
    monkeypatch.setitem(catalogue.EXPERIMENTS, NAME, experiment)
    run_comparison(runs, name=NAME, out=tmp_path / "runs", command="none", workers=1)
    thin(tmp_path / "runs", tmp_path / "results" / NAME)
    return tmp_path


def test_changes_are_those_of_registered_parts():
    """The tables are derived from the registries; a misspelt entry would add a part that there is not."""
    assert set(LEARNERS) == set(ROWS)
    assert set(MECHANISMS) == set(NOISES)
    kinds = {f"{ANSWERS[asked]}, {trust}" for asked, trust in FACTORIES}
    expected = {kind for kind in kinds if kind.endswith("none")}
    expected |= {f"{kind}, {c}" for kind in kinds - expected for c in ("tight", "paper")}
    assert set(PRIVATIZERS) == expected
    assert PRIVATIZERS["totals, central, paper"]


KINDS_OF_NOISE = {
    "local": {"learner": "ldp-obi", "trust": "local", "epsilon": 1.0, "delta": 0.0},
    "central": {"learner": "ucbvi", "trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "batches": {"learner": "bucb", "trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "returns": {"learner": "ldp-rts", "trust": "local", "epsilon": 1.0, "delta": 0.0},
    "gradients": {"learner": "dp-pg", "environment": "contextual-bandit", "epsilon": 1.0, "delta": 1e-5},
    "no gradients": {"learner": "dp-pg", "environment": "contextual-bandit"},
    "losses": {
        "learner": "uc-o-reps",
        "environment": "layered:seed=1",
        "adversary": "sinusoidal",
        "trust": "central",
        "epsilon": 1.0,
        "delta": 1e-6,
    },
}


@pytest.mark.parametrize("kind", KINDS_OF_NOISE)
def test_the_noise_of_a_fingerprint_is_that_of_the_certificate(kind):
    """Families that are stated without accounting are those of the certificate."""
    options = {"environment": "riverswim", "episodes": 100, "seeds": (0,)} | KINDS_OF_NOISE[kind]
    parts = assemble(RunConfig(**options))
    assert parts.families == tuple(parts.certificate.families)
    assert bool(parts.families) == (kind != "no gradients")


def test_a_new_result_is_current_and_a_revision_makes_it_stale(toy, monkeypatch):
    found = staleness(NAME, toy / "results")
    assert (found.current, found.before, found.stale, found.missing) == (("PSRL", "JDP"), (), (), ())
    monkeypatch.setitem(revisions.LEARNERS, "psrl", ("a change",))
    found = staleness(NAME, toy / "results")
    assert found.current == ("JDP",)
    ((run, why),) = found.stale
    assert run == "PSRL"
    assert "psrl r1" in why
    assert "psrl r2" in why


def test_another_noise_makes_a_result_stale_even_if_nobody_adds_a_revision(toy):
    path = toy / "results" / NAME / "cells.json"
    content = json.loads(path.read_text())
    cell = content["runs"][1]
    std = re.search(r"std transitions ([\d.]+)", cell["algorithm"])[1]
    cell["algorithm"] = cell["algorithm"].replace(std, "1.234")
    path.write_text(json.dumps(content))
    assert [run for run, _ in staleness(NAME, toy / "results").stale] == ["JDP"]


def test_results_of_earlier_times_are_neither_current_nor_stale(toy):
    path = toy / "results" / NAME / "cells.json"
    content = json.loads(path.read_text())
    del content["runs"][0]["algorithm"]
    content["runs"][1]["stale"] = "for this reason"
    path.write_text(json.dumps(content))
    found = staleness(NAME, toy / "results")
    assert (found.current, found.before, found.stale) == ((), ("PSRL",), (("JDP", "for this reason"),))
    assert found.words == f"1 runs {BEFORE}, 1 stale"


def test_a_committed_cell_has_the_fingerprint_of_the_version_that_made_it(toy, monkeypatch):
    config = RunConfig(environment="riverswim", learner="psrl", episodes=100, seeds=(0,))
    cell = json.loads((toy / "results" / NAME / "cells.json").read_text())["runs"][0]
    assert cell["algorithm"] == fingerprint_of(assemble(config)) == "psrl r1 | totals, none r1 | none r1"
    monkeypatch.setattr(thinning, "__version__", "99.0")  # today's sources cannot say what another version did
    assert {cell["algorithm"] for cell in thin(toy / "runs", toy / "later")["runs"]} == {BEFORE}


def test_runs_that_are_not_made_again_stay(toy):
    first = catalogue.EXPERIMENTS[NAME].runs("paper")[:1]
    run_comparison(first, name=NAME, out=toy / "again", command="none", workers=1)
    target = toy / "results" / NAME
    kept = thin(toy / "again", target, keep=True)
    assert [cell["run"] for cell in kept["runs"]] == ["PSRL", "JDP"]
    assert staleness(NAME, toy / "results").current == ("PSRL", "JDP")
    assert [cell["run"] for cell in thin(toy / "again", target)["runs"]] == ["PSRL"]


def test_the_readme_of_results_names_what_is_stale_and_nothing_else(states):
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Known to be stale")[2]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`([\w/-]+)`", row)
    }
    assert all((RESULTS / name).is_dir() for name in named)
    stale = {PLACES.get(name, name) for name, state in states.items() if state.stale}
    assert {name for name in named if (RESULTS / name / "cells.json").is_file()} == stale


RUNS = {
    **{f"garcelon2021local/{name}": 20 for name in ("fig1", "fig2", "fig2-printed", "fig4", "fig5", "fig6", "fig7")},
    "bai2025secure/fig4": 20,
}
"""How many runs the papers average over in their figures; the other three papers have no experiments."""


@pytest.mark.parametrize("name", RUNS)
def test_figures_of_papers_have_as_many_seeds_as_the_papers(name, states):
    cells = json.loads((RESULTS / name / "cells.json").read_text(encoding="utf-8"))["runs"]
    assert {cell["run"]: cell["seeds"] for cell in cells if cell["seeds"] != f"{RUNS[name]} of {RUNS[name]}"} == {}
    assert states[name].missing == ()
    assert {run.config.episodes for run in EXPERIMENTS[name].runs("paper")} >= {cell["episodes"] for cell in cells}


def test_every_committed_run_says_what_made_it(states):
    for name in states:
        for cell in json.loads((RESULTS / PLACES.get(name, name) / "cells.json").read_text(encoding="utf-8"))["runs"]:
            if cell["complete"]:
                assert cell["algorithm"], (name, cell["run"])
                assert cell["version"]
            else:  # nothing of it is committed, and the page says that it was not run
                assert cell["seeds"].startswith("0 of "), (name, cell["run"])
                assert len(states[name].missing) > 0


def test_the_pages_are_as_generated(states):
    wrong = [str(path) for path, text in pages(ROOT, states).items() if path.read_text(encoding="utf-8") != text]
    assert wrong == [], "run python -m papers.index"


def test_a_block_is_replaced_where_it_stands():
    text = f"before\n{BEGIN}\n\nold\n\n{END}\nafter\n"
    assert with_block(text, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert with_block("card\n", "new").endswith(f"{BEGIN}\n\nnew\n\n{END}\n")


def test_every_statement_names_an_experiment_that_exists_and_every_experiment_of_a_paper_is_named():
    assert {item.experiment for item in STATEMENTS} - {None} <= set(EXPERIMENTS)
    assert len({(item.paper, item.name) for item in STATEMENTS}) == len(STATEMENTS)
    for item in STATEMENTS:
        assert "|" not in item.says + item.why
        assert item.test is None or (ROOT / item.test).is_file()
        assert item.status != "open"


NUMBERED = {
    "bai2024shuffle": "Table I, Theorems 6 and 11, Lemmas 7 to 10, Lemmas 12 to 38 and 40 to 42, "
    "Corollary 39, Algorithm 4",
    "bai2025secure": "Fig. 1 to 4, Table I, Theorems 6 and 11, Lemmas 7 to 10, Lemmas 12 to 18",
    "he2025policy": "Theorems 1 to 4, Lemmas 1 to 7, Proposition 1, Remarks 1 and 3",
    "bai2024adversarial": "Tables 1 and 2, Theorems 3.3, 4.2, 5.2 and 5.8, Lemmas 3.1, 5.1, 5.5, 5.6 and 5.7, "
    "Remarks 5.3, 5.4, 5.9 and 5.10, Lemmas C.1, D.1, D.2, D.3, E.1, E.2, E.4 to E.15, E.17 to E.22, E.24 and F.1, "
    "Corollary E.16, Proposition E.23, "
    "Algorithms 2 and 4",
    "garcelon2021local": "Figures 1 to 9, Table 1, Theorems 2, 5 and 7, Propositions 4 and 8 to 15, Lemma 6, "
    "Algorithms 7, 8, 9 and 10",
}
"""Every figure, table and numbered result that the papers print."""
KINDS = r"(Figure|Fig\.|Table|Theorem|Lemma|Proposition|Corollary|Remark|Algorithm)s?"


def named(text: str) -> set[tuple[str, str]]:
    """(kind, number) of everything that a text names, lists and ranges taken apart."""
    found = set()
    for part in re.finditer(rf"{KINDS} ((?:[A-Z]\.)?[IVX\d.]+(?:(?:, | and | to )(?:[A-Z]\.)?[\d.]+)*)", text):
        kind, numbers = part[1].replace("Fig.", "Figure"), part[2]
        for first, last in re.findall(r"([A-Z.IVX\d]+) to ([A-Z.\d]+)", numbers):
            letter = first[: -len(first.split(".")[-1])]
            found |= {(kind, f"{letter}{i}") for i in range(int(first.split(".")[-1]), int(last.split(".")[-1]) + 1)}
        found |= {(kind, number.rstrip(".")) for number in re.findall(r"[A-Z.IVX\d]+", numbers)}
    return found


@pytest.mark.parametrize("paper", NUMBERED)
def test_no_figure_table_or_numbered_result_of_a_paper_is_left_out(paper):
    assert named("Lemmas E.1 to E.3 and F.1") == {("Lemma", f"E.{i}") for i in (1, 2, 3)} | {("Lemma", "F.1")}
    listed = set().union(*(named(item.name) for item in STATEMENTS if item.paper == paper))
    assert named(NUMBERED[paper]) - listed == set()


@pytest.mark.parametrize(
    ("paper", "least"),
    [
        ("bai2024shuffle", 4),
        ("bai2025secure", 8),
        ("he2025policy", 6),
        ("bai2024adversarial", 12),
        ("garcelon2021local", 18),
    ],
)
def test_reproduce_lists_every_paper(paper, least, capsys):
    assert main(["list", paper, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["statements"]
    assert len(listed) >= least
    assert {item["paper"] for item in listed} == {paper}
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{paper}, {item['name']}: {item['status']}" in shown for item in listed)


def test_a_name_is_needed_otherwise(capsys):
    assert main(["reproduce"]) == 2
    assert "NAME" in capsys.readouterr().err.upper()
    assert main(["list", "nobody"]) == 2
