"""Verification: edited epsilons, events, versions, rows and policies, each with its verdict and exit code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import tacit
from tacit.accounting.certificate import FIRST_ENTRIES, FOLLOWING, Certificate
from tacit.cli import main
from tacit.documents import digest, vouched, without_seal
from tacit.errors import InvalidInput
from tacit.learners.table import LEARNERS
from tacit.runs.manifest import DIGESTS
from tacit.runs.report import render_report
from tacit.runs.storage_paths import json_bytes

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


def resealed(content) -> None:
    """The forger's best for a document: a digest that fits."""
    content.update(vouched(without_seal(content)))


def relist(place: Path) -> None:
    """The forger's best: a manifest that fits the altered files."""
    content = json.loads((place / DIGESTS).read_text())
    for name, one in content["files"].items():
        one["sha256"] = hashlib.sha256((place / name).read_bytes()).hexdigest()
    (place / DIGESTS).write_bytes(json_bytes(content))


def reworded(plain) -> None:
    """The forger's best: a certificate whose words follow from its altered numbers."""
    kept = {name: value for name, value in plain.items() if name not in FOLLOWING}
    words = Certificate.from_dict({**plain, "statement": ""}).to_dict()
    plain.clear()
    plain.update({**kept, **{name: words[name] for name in FOLLOWING}})


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
    assert "derived again: config.json, privacy.json, digests.json\n" in out
    assert "looked at by digest: policies.json, results.parquet, timing.json\n" in out
    assert "It is a simulation, which protects nobody." in out
    code, out = verdict(capsys, kept, "--json")
    found = json.loads(out)
    assert {
        "path": str(kept),
        "kind": "run",
        "true": True,
        "outcome": "true",
        "signature": "unsigned",
    }.items() <= found.items()
    assert set(found["looked_at"]) == {path.name for path in kept.iterdir()}, "every file"


def test_an_edited_epsilon_is_false_everywhere(kept, capsys):
    edit(kept / "privacy.json", consistent_epsilon)
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "FALSE")
    assert "privacy.json is not as it was written" in out
    relist(kept)
    code, out = verdict(capsys, kept)
    assert code == 1
    assert "epsilon is 0.01, where 1 is derived" in out
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


def edited_sizes(content):
    content["certificate"]["terms"]["sizes"]["episodes"] = 10**9


def edited_words(content):
    content["certificate"]["statement"] = "All is well."


def extra_entry(content):
    content["certificate"]["seal"] = "approved"


def claim_beside(content):
    content["claim"]["epsilon"] = 0.01


def entry_beside(content):
    content["audit"] = "passed"


def lower_for_others(content):
    content["certificate"]["others"] = [[[{"kind": "laplace", "scale": 1e6, "shift": 1.0, "discrete": False}, 1]]]


EDITS = {
    edited_events: "certificate.events[0][0].scale is",
    edited_noise_source: "certificate.terms.noise is secure, where simulation is derived",
    edited_version: "certificate.terms.version is 9.9.9",
    edited_sizes: "certificate.terms.sizes.episodes is",
    edited_words: "certificate.statement is",
    extra_entry: "certificate.seal is no entry of it",
    claim_beside: "claim.epsilon is 0.01, where 1 is derived",
    entry_beside: "privacy.json.audit is no entry of it",
    lower_for_others: "certificate.others is no entry of it",
}


@pytest.mark.parametrize(("change", "words"), EDITS.items())
def test_every_edit_of_a_certificate_is_named(kept, capsys, change, words):
    edit(kept / "privacy.json", change)
    relist(kept)
    code, out = verdict(capsys, kept)
    assert code == 1
    assert words in out


@pytest.mark.parametrize("name", ["config.json", "privacy.json", "results.parquet", "policies.json", "timing.json"])
def test_every_file_has_a_digest(kept, capsys, name):
    (kept / name).write_bytes((kept / name).read_bytes() + b"\n")
    code, out = verdict(capsys, kept)
    assert code == 1
    assert f"{name} is not as it was written (its digest differs)" in out


def test_another_configuration_is_another_certificate(kept, capsys):
    edit(kept / "config.json", lambda content: content["config"].update(epsilon=2.0))
    relist(kept)
    code, out = verdict(capsys, kept)
    assert code == 1
    assert "is derived" in out


def test_without_its_manifest_a_directory_is_not_verified_and_not_signed(kept, capsys):
    """Rows and policies follow from nothing that is in the directory."""
    (kept / DIGESTS).unlink()
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "not verified")
    assert main(["keys", "sign", str(kept), "--key", "none.pem"]) == 2
    assert "digests.json is missing" in capsys.readouterr().err
    found = tacit.load(kept)
    assert found.doubt == "not verified: digests.json is missing, which lists its files"
    assert "What was kept is not verified: " in found.summary()


def as_0_8_0_wrote_it(place: Path) -> None:
    """Digests of some files, under no format."""
    files = json.loads((place / DIGESTS).read_text())["files"]
    (place / DIGESTS).write_text(json.dumps({name: files[name]["sha256"] for name in files if name != "timing.json"}))


def test_a_directory_of_0_8_0_is_not_verified_and_says_why(kept, capsys):
    as_0_8_0_wrote_it(kept)
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "not verified")
    assert "is of tacit 0.8.0 or older and does not list every file" in out
    assert len(tacit.load(kept).regret) == 1
    (kept / "results.parquet").write_bytes((kept / "results.parquet").read_bytes() + b" ")
    assert verdict(capsys, kept)[1].startswith("FALSE"), "what it lists is looked at all the same"


@pytest.mark.parametrize("version", ["0.1.0", "0.7.9", "9.9.9"])
def test_what_another_version_stated_is_derived_completely_or_not_verified(kept, capsys, version):
    """Its certificates may have less in them, and then they are not derived."""
    edit(kept / "config.json", lambda content: content.update(version=version))
    edit(kept / "privacy.json", lambda content: content["certificate"]["terms"].update(version=version))
    edit(kept / "privacy.json", lambda content: reworded(content["certificate"]))
    relist(kept)
    newer = version == "9.9.9"
    assert verdict(capsys, kept)[0] == newer, "what is newer this version cannot know"

    def older(content):
        content["certificate"] = {name: content["certificate"][name] for name in FIRST_ENTRIES}

    edit(kept / "privacy.json", older)
    relist(kept)
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "not verified")
    words = f"which is newer than {tacit.__version__}" if newer else f"where {tacit.__version__} derives otherwise"
    assert f"made by tacit {version}, {words}" in out
    edit(kept / "config.json", lambda content: content["config"].update(delta=None))
    relist(kept)
    assert tacit.load(kept).config.delta == 0.0


@pytest.mark.parametrize("version", ["0.8.0 ", "", "8", "v0.8.0", "0.8.0\n", None, 8, ["0.8.0"]])
def test_a_version_is_spelled_as_versions_are(kept, capsys, version):
    edit(kept / "config.json", lambda content: content.update(version=version))
    edit(kept / "privacy.json", lambda content: content["certificate"]["terms"].update(version=version))
    relist(kept)
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "FALSE")


def test_a_certificate_alone_is_verified_as_far_as_it_goes(tmp_path, capsys):
    path = tmp_path / "certificate.json"
    sizes = "--states 4 --actions 2 --horizon 6 --episodes 20000 --epsilon 1 --delta 0"
    assert main(["certify", "--trust", "local", *sizes.split(), "--json"]) == 0
    path.write_text(capsys.readouterr().out)
    code, out = verdict(capsys, path)
    assert code == 0
    assert "it is what its configuration gives" in out
    content = json.loads(path.read_text())
    for change in (edited_words, edited_sizes, claim_beside, extra_entry, lambda content: content.pop("digest")):
        forged = json.loads(json.dumps(content))
        change(forged)
        path.write_text(json.dumps({**forged, **({"digest": digest(forged)} if "digest" in forged else {})}))
        assert verdict(capsys, path)[0] == 1, change
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps(content["certificate"]))
    code, out = verdict(capsys, alone)
    assert (code, out.split(":")[0]) == (1, "not verified")
    edit(alone, lambda content: content["curve"].__setitem__(-1, [0.001, 0.5]))
    assert "words must follow" in verdict(capsys, alone)[1]
    edit(alone, reworded)
    code, out = verdict(capsys, alone)
    assert (code, out.split(":")[0]) == (1, "FALSE")
    assert "curve" in out


@pytest.mark.parametrize("trust", ["central --delta 1e-6", "local --delta 1e-6 --mechanism bounded"])
def test_noise_of_a_simulation_is_not_certified_as_secure(tmp_path, capsys, trust):
    path = tmp_path / "certificate.json"
    sizes = "--states 3 --actions 2 --horizon 3 --episodes 500 --epsilon 1 --json"
    assert main(["certify", "--trust", *trust.split(), *sizes.split()]) == 0
    path.write_text(capsys.readouterr().out)
    assert verdict(capsys, path)[0] == 0

    def secure(content):
        content["certificate"]["terms"]["noise"], content["certificate"]["release"] = "secure", True
        reworded(content["certificate"])

    edit(path, secure)
    edit(path, lambda content: content.update(digest=digest(content)))
    code, out = verdict(capsys, path)
    assert (code, out.split(":")[0]) == (1, "FALSE")
    assert "where" in out


def test_results_of_a_command_are_verified_from_it(tmp_path, capsys):
    words = "run --environment random-mdp --learner psrl --episodes 20 --trust local --epsilon 1 --delta 0 --workers 1"
    assert main([*words.split(), "--json"]) == 0
    path = tmp_path / "result.json"
    path.write_text(capsys.readouterr().out)
    code, out = verdict(capsys, path)
    assert code == 0
    assert "it is what its command gives" in out
    made = path.read_text()

    def another_command(content):
        content["command"] = content["command"].replace("--epsilon 1", "--epsilon 2")

    def another_claim(content):
        content["claim"]["epsilon"] = 0.5

    for change in (another_command, another_claim, edited_words):
        path.write_text(made)
        edit(path, lambda content, change=change: (change(content), content.update(digest=digest(content))))
        assert verdict(capsys, path)[0] == 1, change


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
    assert "not verified" in verdict(capsys, cells)[1], "it has no digest"
    cells.write_text(json.dumps(vouched(committed)))
    assert verdict(capsys, cells)[0] == 0
    edit(cells, lambda content: content["runs"][0].update({"certified epsilon": 1e-3}) or resealed(content))
    code, out = verdict(capsys, cells)
    assert code == 1
    assert "epsilon 0.001 at delta" in out
    edit(cells, lambda content: content["runs"][0].update({"certified epsilon": None}) or resealed(content))
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
    edit(kept / "privacy.json", lambda content: content["certificate"]["terms"].update(date="2001-01-01"))
    edit(kept / "privacy.json", lambda content: reworded(content["certificate"]))
    relist(kept)
    assert verdict(capsys, kept)[0] == 0
    edit(kept / "privacy.json", lambda content: content["certificate"]["terms"].update(date="soon"))
    relist(kept)
    assert verdict(capsys, kept)[0] == 1


def of_another_version(content):
    content["certificate"]["terms"]["version"] = "0.7.9"


def with_a_curve_of_its_own(content):
    content["certificate"]["curve"] = [[0.002, 0.01]]


def with_events_of_no_loss(content):
    content["certificate"]["events"][0][0]["scale"] = 1e6


def declared_public(content):
    content["certificate"]["terms"]["public"]["losses"] = "private"


def of_another_mechanism(content):
    content["certificate"]["terms"]["mechanism"] = "local/magic"


@pytest.mark.parametrize(
    "change", [with_a_curve_of_its_own, with_events_of_no_loss, declared_public, of_another_mechanism, lower_for_others]
)
def test_another_version_is_no_way_around(kept, capsys, change):
    """The comparison is the same whatever version it says."""
    edit(kept / "config.json", lambda content: content.update(version="0.7.9"))
    edit(kept / "privacy.json", of_another_version)
    edit(kept / "privacy.json", change)
    relist(kept)
    code, out = verdict(capsys, kept)
    assert (code, out.split(":")[0]) == (1, "not verified")
    assert main(["keys", "sign", str(kept), "--key", "none.pem"]) == 2


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[" * 10**5])
def test_json_is_read_strictly(kept, capsys, text):
    (kept / "privacy.json").write_text(text)
    assert main(["verify", str(kept)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
