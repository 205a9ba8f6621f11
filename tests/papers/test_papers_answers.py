"""Answers of the accountant that are kept for the pages: the same as computed ones, refused when they may not be."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from papers import answers as kept_answers
from papers import catalogue
from papers.answers import DIGITS, FILE, TURNS, remembering, source_files, sources
from papers.fingerprint import fingerprint_of
from papers.staleness import staleness, staleness_of_all
from papers.thinning import thin
from tacit.errors import InvalidInput
from tacit.noise import binomial
from tacit.release.shuffle.labels import least_bit_noise
from tacit.runs.assemble import assemble
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig
from tacit.statistics.count_spec import ReleaseSpec

RESULTS = Path(__file__).parents[2] / "results"
NAME = "toy/answers"
CONFIG = RunConfig(
    environment="riverswim:states=2,horizon=2",
    learner="bucb",
    trust="shuffle",
    epsilon=1.0,
    delta=1e-6,
    constants="practical",
    episodes=300,
    seeds=(0,),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A committed result of one small run with shuffled bits, and the answers that its staleness needs."""
    place, patch = tmp_path_factory.mktemp("answers"), pytest.MonkeyPatch()
    runs = (Run(label="SDP", config=CONFIG),)
    patch.setattr(kept_answers, "SECONDS", 0.0)  # keep every answer, however fast it was
    patch.setitem(catalogue.EXPERIMENTS, NAME, catalogue.Experiment(summary="toy", runs=lambda scale: runs))
    run_comparison(runs, name=NAME, out=place / "runs", command="none", workers=1)
    thin(place / "runs", place / "results" / NAME)
    states, answers = staleness_of_all(place / "results")
    assert states[NAME].current == ("SDP",)
    assert answers.new == len(answers.asked) > 0
    answers.write(place / "results")
    yield place / "results"
    patch.undo()


@pytest.fixture
def toy(made, tmp_path):
    """A copy of it whose answers a test may spoil."""
    (tmp_path / FILE).write_bytes((made / FILE).read_bytes())
    return tmp_path


def spoil(place: Path) -> tuple[int, int]:
    """Make every bit rarer than it is; a turn in which one of them is computed again, and one in which none is."""
    content = json.loads((place / FILE).read_text())
    changed = {key: 0.5 * value for key, value in content["answers"].items() if value < 0.5}
    (place / FILE).write_text(json.dumps({**content, "answers": content["answers"] | changed}))
    turns = {int(key, 16) % TURNS for key in changed}
    return min(turns), min(set(range(TURNS)) - turns)


def stated(place: Path, **options) -> str:
    with remembering(place, **options):
        return fingerprint_of(assemble(CONFIG))


def test_kept_answers_give_what_computed_ones_give_and_each_is_computed_again_in_one_turn(made, monkeypatch):
    monkeypatch.setattr(kept_answers, "TURNS", 4)
    count, again = len(json.loads((made / FILE).read_text())["answers"]), 0
    for turn in range(4):
        with remembering(made, turn=turn) as answers:
            assert staleness(NAME, made).current == ("SDP",)
        assert (answers.new, len(answers.asked)) == (0, count)
        again += answers.again
    assert again == count


def test_a_false_answer_is_seen_by_the_fingerprint_and_refused_on_its_turn(toy):
    true = fingerprint_of(assemble(CONFIG))
    its_turn, another = spoil(toy)
    assert stated(toy, turn=another) != true
    with pytest.raises(InvalidInput, match="compute all of them again"):
        stated(toy, turn=its_turn)
    assert stated(toy, kept=False) == true


def test_answers_of_other_sources_are_refused(toy):
    true, (_, another) = fingerprint_of(assemble(CONFIG)), spoil(toy)
    content = json.loads((toy / FILE).read_text())
    content["sources"] = content["sources"][::-1]
    (toy / FILE).write_text(json.dumps(content))
    assert stated(toy, turn=another) == true


def test_nothing_that_runs_sees_them(toy):
    families = ReleaseSpec.fine(num_states=2, num_actions=2, horizon=2).families()
    asked = {"epsilon": 1.0, "delta": 1e-6, "users": 100}
    true, function, parts = least_bit_noise(families, **asked), binomial.least_bits, assemble(CONFIG)
    _, another = spoil(toy)
    with remembering(toy, turn=another):
        assert binomial.least_bits is not function
        assemble(CONFIG)
    assert binomial.least_bits is function
    assert least_bit_noise(families, **asked) == true
    assert assemble(CONFIG).families == parts.families


def test_the_sources_are_all_that_an_answer_follows_from(tmp_path, monkeypatch):
    names = {path.name for path in source_files()}
    assert {"binomial.py", "bits.py", "lattice.py", "pld.py", "privacy_loss.py", "search.py", "composition.py"} <= names
    before, real = sources(), kept_answers.source_files()
    changed = tmp_path / "privacy_loss.py"
    text = next(p for p in real if p.name == changed.name).read_text()
    other = tuple(changed if path.name == changed.name else path for path in real)
    monkeypatch.setattr(kept_answers, "source_files", lambda: other)
    changed.write_text('"""Another docstring."""\n' + text.partition('"""\n')[2] + "\n# a comment\n")
    assert sources() == before
    changed.write_text(text.replace("TAIL = 1e-18", "TAIL = 1e-17"))
    assert sources() != before


def test_the_answers_kept_are_those_of_todays_accountant():
    content = json.loads((RESULTS / FILE).read_text(encoding="utf-8"))
    assert content["sources"] == sources(), "run python -m papers.index"


@pytest.mark.slow
def test_all_answers_computed_again_are_those_kept():
    kept = json.loads((RESULTS / FILE).read_text(encoding="utf-8"))["answers"]
    states, answers = staleness_of_all(RESULTS, kept=False)
    assert states == staleness_of_all(RESULTS)[0]
    both = kept.keys() & answers.asked.keys()
    assert len(both) > 0.9 * len(kept)
    assert {key for key in both if not math.isclose(kept[key], answers.asked[key], rel_tol=DIGITS)} == set()
