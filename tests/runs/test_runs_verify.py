"""Verification: edited epsilons, events, versions, rows and policies, each with its verdict and exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tacit
from tacit.accounting.certificate import FIRST_ENTRIES, FOLLOWING, Certificate
from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.learners.table import LEARNERS
from tacit.runs.report import render_report
from tacit.runs.storage import DIGESTS

ROOT = Path(__file__).parents[2]
ASKED = {
    "environment": "random-mdp", "learner": "ucbvi", "episodes": 40, "seeds": 1, "workers": 1, "trust": "local",
    "epsilon": 1.0, "delta": 0.0, "mechanism": "laplace",
}  # fmt: skip


@pytest.fixture
def kept(tmp_path) -> Path:
    tacit.run(**ASKED, out=tmp_path / "run")
    return tmp_path / "run"


def edit(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def verdict(capsys, *words: object) -> tuple[int, str]:
    code = main(["verify", *map(str, words)])
    return code, capsys.readouterr().out


def consistent_epsilon(content, epsilon=0.01) -> None:
    """The forger's best: claim, certificate and words agree with one another."""
    forged = json.dumps(content).replace('"epsilon": 1.0', f'"epsilon": {epsilon}')
    certificate = json.loads(forged)["certificate"]
    content["claim"]["epsilon"] = epsilon
    certificate["curve"] = [[delta, min(e, epsilon)] for delta, e in certificate["curve"]]
    certificate["verdict"] = f"The claim is true: the accountant certifies epsilon {epsilon:g} at delta 0."
    for name in ("statement", "warnings", "release", "events", "terms"):
        del certificate[name]
    content["certificate"] = certificate


def test_a_run_is_verified_from_its_configuration(kept, capsys):
    code, out = verdict(capsys, kept)
    assert code == 0
    assert out.startswith(f"true: {kept} (run, unsigned): its certificate is what its configuration gives.")
    assert out.count("\n") == 1
    assert "It is a simulation, which protects nobody." in out
    code, out = verdict(capsys, kept, "--json")
    assert json.loads(out) | {"why": ""} == {
        "path": str(kept), "kind": "run", "true": True, "why": "", "signature": "unsigned"
    }  # fmt: skip


def test_an_edited_epsilon_is_false_everywhere(kept, capsys):
    edit(kept / "privacy.json", consistent_epsilon)
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "FALSE")
    assert "privacy.json is not as it was written" in out
    (kept / DIGESTS).unlink()  # the forger takes the digests away
    code, out = verdict(capsys, kept)
    assert code == 1
    assert "epsilon is 0.01, where 1 is derived" in out or "'epsilon': 0.01" in out
    found = tacit.load(kept)
    assert found.certificate.epsilon == 1.0, "load derives"
    assert found.doubt is not None
    assert "0.01" in found.doubt
    assert "What was kept is FALSE" in found.summary()
    assert "What was kept is FALSE" in render_report(found)
    assert found.to_json()["doubt"] == found.doubt


def edited_events(content):
    content["certificate"]["events"][0][0]["scale"] *= 100.0


def edited_noise_source(content):
    content["certificate"]["terms"]["noise"] = "secure"


def edited_version(content):
    content["certificate"]["terms"]["version"] = "9.9.9"


def reworded(content):
    """The words that follow from the numbers: as a forger would write them who has tacit."""
    plain = {name: value for name, value in content["certificate"].items() if name not in FOLLOWING}
    words = Certificate.from_dict({**content["certificate"], **plain, "statement": ""}).to_dict()
    content["certificate"] = {**plain, **{name: words[name] for name in FOLLOWING}}
    return content["certificate"]


def edited_sizes(content):
    content["certificate"]["terms"]["sizes"]["episodes"] = 10**9
    reworded(content)


def edited_words(content):
    content["certificate"]["statement"] = "All\nis well."


def edited_into_one_line(content):
    content["certificate"]["statement"] = "All is well."


def extra_entry(content):
    content["certificate"]["seal"] = "approved"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edited_events, "events is"),
        (edited_noise_source, "contradicts itself"),
        (edited_version, "config.json is of tacit"),
        (edited_sizes, "terms is"),
        (edited_words, "contradicts itself"),
        (edited_into_one_line, "not verified"),
        (extra_entry, "contradicts itself"),
    ],
)
def test_every_edit_of_a_certificate_is_named(kept, capsys, change, words):
    edit(kept / "privacy.json", change)
    (kept / DIGESTS).unlink()
    code, out = verdict(capsys, kept)
    assert code == 1
    assert words in out


def spelled_as_before(content):
    """The unit as versions before 0.4 wrote it."""
    for claim in (content["claim"], content["certificate"]["claim"]):
        assert claim["unit"] == {"reports": 1, "per_stage": 1}
        claim["unit"] = {"trajectories": 1}
    unit = content["certificate"]["terms"]["unit"]
    content["certificate"]["terms"]["unit"] = {"trajectories": unit["reports"], "groups": unit["groups"]}


def test_a_unit_spelled_as_before_is_the_same_unit_and_another_one_is_not(kept, capsys):
    edit(kept / "privacy.json", spelled_as_before)
    (kept / DIGESTS).unlink()
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (0, "true")
    assert tacit.load(kept).doubt is None
    edit(kept / "privacy.json", lambda content: content["certificate"]["claim"].update(unit={"trajectories": 2}))
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "FALSE")


@pytest.mark.parametrize("name", ["config.json", "privacy.json", "results.parquet", "policies.json"])
def test_every_file_has_a_digest(kept, capsys, name):
    (kept / name).write_bytes((kept / name).read_bytes() + b"\n")
    code, out = verdict(capsys, kept)
    assert code == 1
    assert f"{name} is not as it was written (its digest differs)" in out


def test_another_configuration_is_another_certificate(kept, capsys):
    (kept / DIGESTS).unlink()
    edit(kept / "config.json", lambda content: content["config"].update(epsilon=2.0))
    code, out = verdict(capsys, kept)
    assert code == 1
    assert "is derived" in out


def test_directories_of_older_versions_are_verified_by_what_they_say(kept, capsys):
    """They wrote no terms, no events, no digests, and left a delta of 0 out."""
    (kept / DIGESTS).unlink()

    def older(content):
        content["certificate"] = {name: content["certificate"][name] for name in FIRST_ENTRIES}

    edit(kept / "privacy.json", older)
    edit(kept / "config.json", lambda content: content.update(version="0.1.0"))
    edit(kept / "config.json", lambda content: content["config"].update(delta=None))
    assert verdict(capsys, kept)[0] == 0
    assert tacit.load(kept).doubt is None
    assert tacit.load(kept).config.delta == 0.0
    edit(kept / "privacy.json", lambda content: content["certificate"]["curve"][-1].__setitem__(1, 0.1))
    code, out = verdict(capsys, kept)
    assert code == 1
    assert "epsilon 0.1 at delta 0.001 by tacit 0.1.0, where" in out


def test_a_certificate_alone_is_verified_from_its_events(tmp_path, capsys):
    path = tmp_path / "certificate.json"
    sizes = "--states 4 --actions 2 --horizon 6 --episodes 20000 --epsilon 1 --delta 0"
    assert main(["certify", "--trust", "local", *sizes.split(), "--json"]) == 0
    path.write_text(capsys.readouterr().out)
    code, out = verdict(capsys, path)
    assert code == 0
    assert "it follows from its events" in out
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps(json.loads(path.read_text())["certificate"]))
    assert verdict(capsys, alone)[0] == 0
    edit(alone, lambda content: content["curve"].__setitem__(-1, [0.001, 0.5]))
    assert "contradicts itself" in verdict(capsys, alone)[1]
    edit(alone, lambda content: content.update(reworded({"certificate": dict(content)})))
    code, out = verdict(capsys, alone)
    assert code == 1
    assert "curve is" in out


def test_results_of_a_command_are_verified_from_it(tmp_path, capsys):
    words = "run --environment random-mdp --learner psrl --episodes 20 --trust local --epsilon 1 --delta 0 --workers 1"
    assert main([*words.split(), "--json"]) == 0
    path = tmp_path / "result.json"
    path.write_text(capsys.readouterr().out)
    code, out = verdict(capsys, path)
    assert code == 0
    assert "it is what its command gives" in out
    edit(path, lambda content: content.update(command=content["command"].replace("--epsilon 1", "--epsilon 2")))
    assert verdict(capsys, path)[0] == 1


def test_comparisons_and_committed_results(tmp_path, capsys):
    (tmp_path / "c.toml").write_text(
        '[defaults]\nenvironment = "random-mdp"\nepisodes = 20\nseeds = 1\n[[run]]\nlearner = "psrl"\n'
        '[[run]]\nlearner = "ucbvi"\ntrust = "local"\nepsilon = 1.0\ndelta = 0.0\nmechanism = "laplace"\n'
    )
    found = tacit.compare(tmp_path / "c.toml", out=tmp_path / "out", workers=1)
    assert verdict(capsys, tmp_path / "out")[0] == 0
    assert all(result.doubt is None for result in tacit.load(tmp_path / "out"))
    place = next(path.parent for path in (tmp_path / "out").rglob("privacy.json") if "local" in str(path))
    edit(place / "privacy.json", consistent_epsilon)
    assert verdict(capsys, tmp_path / "out")[0] == 1
    assert len(found) == 2
    cells = tmp_path / "cells.json"
    committed = json.loads((ROOT / "results" / "garcelon2021local" / "fig1" / "cells.json").read_text())
    committed["runs"] = [run for run in committed["runs"] if "laplace" in run["command"]][:2]
    assert len(committed["runs"]) == 2
    cells.write_text(json.dumps(committed))
    assert verdict(capsys, cells)[0] == 0
    edit(cells, lambda content: content["runs"][0].update({"certified epsilon": 1e-3}))
    code, out = verdict(capsys, tmp_path)
    assert code == 1
    assert "epsilon 0.001 is stated" in out
    edit(cells, lambda content: content["runs"][0].update({"certified epsilon": None}))
    assert verdict(capsys, cells)[0] == 1, "null stands for infinity, not for whatever there is"


def test_what_cannot_be_read_is_neither_true_nor_false(tmp_path, capsys):
    (tmp_path / "text.json").write_text("not JSON")
    (tmp_path / "other.json").write_text('{"something": "else"}')
    for path in (tmp_path / "text.json", tmp_path / "other.json", tmp_path / "nowhere", tmp_path):
        assert main(["verify", str(path)]) == 2
    assert capsys.readouterr().out == ""
    with pytest.raises(InvalidInput, match="must be a run, a comparison"):
        tacit.verify(tmp_path / "other.json")


def test_what_nobody_has_checked_about_a_learner_is_said_beside_every_certificate(tmp_path, capsys):
    words = ["run", "--environment", "random-mdp", "--learner", "dp-ucbvi", "--episodes", "20", "--workers", "1"]
    assert main(words) == 0
    checked = LEARNERS["dp-ucbvi"].unverified
    assert checked
    assert f"Unverified: {checked}." in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unverified"] == checked
    found = tacit.run(environment="random-mdp", learner="dp-ucbvi", episodes=20, workers=1)
    assert f"Unverified: {checked}." in render_report(found)
    assert tacit.run(environment="random-mdp", learner="psrl", episodes=20, workers=1).unverified is None


def test_any_day_will_do_but_it_must_be_a_day(kept, capsys):
    (kept / DIGESTS).unlink()
    edit(kept / "privacy.json", lambda content: content["certificate"]["terms"].update(date="2001-01-01"))
    edit(kept / "privacy.json", reworded)
    assert verdict(capsys, kept)[0] == 0
    edit(kept / "privacy.json", lambda content: content["certificate"]["terms"].update(date="soon"))
    assert verdict(capsys, kept)[0] == 1


def of_another_version(content):
    content["certificate"]["terms"]["version"] = "9.9.9"


def with_a_curve_of_its_own(content):
    content["certificate"]["curve"] = [[0.002, 0.01]]


def as_a_release(content):
    plain = content["certificate"]
    plain["terms"]["noise"], plain["release"] = "secure", True
    reworded(content)


def at_another_delta(content):
    content["certificate"]["delta"] = 0.5
    reworded(content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_a_curve_of_its_own, "epsilon 0.01 at delta 0.002 by tacit 9.9.9, where"),
        (as_a_release, "noise is secure, where simulation is derived"),
        (at_another_delta, "delta is 0.5, where 0 is derived"),
    ],
)
def test_another_version_is_no_way_around(kept, capsys, change, words):
    """Whoever states another version is compared leniently, and still cannot promise more."""
    (kept / DIGESTS).unlink()
    edit(kept / "config.json", lambda content: content.update(version="9.9.9"))
    edit(kept / "privacy.json", of_another_version)
    assert verdict(capsys, kept)[0] == 0
    edit(kept / "privacy.json", change)
    code, out = verdict(capsys, kept)
    assert code == 1
    assert words in out
