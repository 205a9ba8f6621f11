"""Forgeries with fitting digests and manifests: what is said and nothing shows is never called true, nor signed."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import yaml
from study_fakes import REHEARSAL
from test_runs_mutations import LOCAL, MAPPING, SMALL, WORLD, a_study, learned, updated

import tacit
from tacit.accounting.certificate import Certificate
from tacit.accounting.wording import shown_up
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.documents import vouched, without_seal
from tacit.errors import InvalidInput, TacitError
from tacit.policies.named import NamedPolicy
from tacit.randomness import SimulationNoise
from tacit.runs.manifest import DIGESTS, write_manifest
from tacit.runs.signature import PRIVATE, PUBLIC, SIGNATURES, new_keys, sign_beside
from tacit.runs.storage_paths import json_bytes
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.episodes import Episodes, as_mapping
from tacit.study.evaluation import Evaluation, EvaluationRequest, evaluate_episodes
from tacit.study.learn_files import LEARNED, _payloads, _request, read_learned, save_evaluation, save_learned
from tacit.study.learning import LearnRequest, learn_from
from tacit.study.record import export_policy
from tacit.study.split import LEARNED_NAME
from tacit.study.state import MAGIC, decode_state
from tacit.study.study import Study
from tacit.study.verify import sign_path
from tacit.study.wire import ReleasePayload, sha256

OFFICER = "officer"


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("keys")
    new_keys(place)
    return place


def rehearsed(place: Path, *, epsilon: float = 1.0, key: Path | None = None, stages: int = 2) -> tuple[Path, Path]:
    """Directories of learner and collector after two stages with simulated noise."""
    sizes = {"states": 2, "actions": 2, "horizon": 2, "stages": stages, "target": 4, "least": 3, "epsilon": epsilon}
    design = plan_study(**sizes, delta=0.0, learner="psrl", trust="local", mechanism="laplace")
    study = Study.new(place / "study", design, seed=1, key=key)
    collector = Collector.new(place / "collector", design, noise="simulation", seed=1)
    for stage in range(stages):
        data = study.plan()
        collector.open(data)
        for i in range(4):
            device = Device(None, **REHEARSAL)
            device.accept(data)
            lived = {"states": [i % 2, 0, 1], "actions": [i % 2, 1], "rewards": [1, 0]}
            collector.add(device.report(lived), f"person {stage} {i}")
        collector.close()
        study.take(collector.release(study.head), inspected=True)
    return place / "study", place / "collector"


def called_secure(study: Path) -> None:
    """Every stored release with another byte for its noise, its digest and its column made to fit."""
    with contextlib.closing(sqlite3.connect(study / "study.db")) as connection:
        rows = connection.execute("SELECT rowid, bytes FROM release").fetchall()
    for row, data in rows:
        forged = dataclasses.replace(ReleasePayload.parse(bytes(data)), noise="secure").encode()
        for name, value in (("bytes", forged), ("digest", sha256(forged).hex()), ("noise", "secure")):
            assert updated(study / "study.db", f"UPDATE release SET {name} = ? WHERE rowid = ?", value, row)  # noqa: S608


def resealed(path: Path, **changes: object) -> Path:
    """The document with other entries and a digest that fits."""
    path.write_text(json.dumps(vouched({**without_seal(json.loads(path.read_text())), **changes})))
    return path


def relisted(place: Path, kind: str, *more: str) -> None:
    """A manifest that fits the directory, unless tacit refuses to write it: then the forger's own."""
    names = [*json.loads((place / DIGESTS).read_text())["files"], *more]
    try:
        write_manifest(place, kind, names)
    except InvalidInput:
        listed = json.loads((place / DIGESTS).read_text())
        for name in more:
            listed["files"][name] = {"kind": "page", "sha256": sha256((place / name).read_bytes()).hex()}
        listed["files"] = dict(sorted(listed["files"].items()))
        (place / DIGESTS).write_bytes(json_bytes(listed))


def test_a_signature_of_one_collector_is_none_of_another(tmp_path, keys):
    (_, one), (_, other) = rehearsed(tmp_path / "one"), rehearsed(tmp_path / "other", epsilon=50.0)
    signature = sign_path(one, keys / PRIVATE, OFFICER)
    assert json.loads(signature.read_text())["digest"] == tacit.verify(one).digest != tacit.verify(other).digest != ""
    needed = [(OFFICER, keys / PUBLIC)]
    assert tacit.verify(one, needed=needed).true
    shutil.copytree(one / SIGNATURES, other / SIGNATURES)
    assert not tacit.verify(other, needed=needed).true
    sign_beside(other, "", keys / PRIVATE, "operator")
    assert not tacit.verify(other, needed=[("operator", keys / PUBLIC)]).true
    Collector(one).verify()
    (one / "evil.txt").write_text("epsilon 0.001")
    assert "evil.txt is no file of a collector" in tacit.verify(one).why


@pytest.mark.parametrize("signed", [True, False])
def test_a_rehearsal_that_is_called_secure_is_false_or_said_to_be_unsigned(tmp_path, keys, signed, capsys):
    place, _ = rehearsed(tmp_path, key=keys / PRIVATE if signed else None)
    study = Study(place, key=keys / PRIVATE if signed else None)
    study.plan()
    assert tacit.verify(place, key=keys / PUBLIC if signed else None).true
    called_secure(place)
    found = tacit.verify(place)
    assert found.outcome == "FALSE", "the bundles after a release name its head"
    with pytest.raises(InvalidInput, match="must be true to be signed"):
        sign_path(place, keys / PRIVATE, OFFICER)


def test_what_no_bundle_names_yet_its_learner_has_not_signed(tmp_path, keys):
    """The last release before the next bundle: no signature is about it."""
    place, _ = rehearsed(tmp_path, key=keys / PRIVATE, stages=1)
    called_secure(place)
    found = tacit.verify(place, key=keys / PUBLIC)
    assert found.true, "its certificate is what its design gives"
    assert "that its noise was secure its learner has not signed" in found.why
    assert "the last release, which the next bundle will name" in found.not_derived
    with pytest.raises(InvalidInput, match="must be signed by its learner first"):
        sign_path(place, keys / PRIVATE, OFFICER)
    with pytest.raises(InvalidInput, match="must be signed by its learner first"):
        sign_path(place, keys / PRIVATE, "operator")


def turned(values):
    return [turned(one) if isinstance(one, list) else -one if isinstance(one, float) else one for one in values]


def test_a_policy_alone_rests_on_the_key_that_signed_it(tmp_path, keys):
    place = a_study(tmp_path) / "policy.json"
    content = json.loads(place.read_text())
    tables = content["policy"]["policy"]
    other = {**tables, "actions": [[1 - action for action in row] for row in tables["actions"]]}
    handed = tmp_path / "handed.json"
    shutil.copy(place, handed)
    log = tmp_path / "log.json"
    shutil.copy(learned(tmp_path / "log") / "policy.json", log)
    assert tacit.verify(place).true, "beside its study it is derived"
    for file in (handed, log, resealed(handed, policy={**content["policy"], "policy": other})):
        found = tacit.verify(file)
        assert found.outcome == "not verified"
        assert "insist on a key (--key, --require)" in found.why
        with pytest.raises(InvalidInput, match="must be true to be signed"):
            sign_path(file, keys / PRIVATE, OFFICER)
    vouched_for = export_policy(Study(tmp_path / "study"), tmp_path / "vouched.json", keys / PRIVATE)
    assert not tacit.verify(vouched_for).true
    new_keys(tmp_path / OFFICER)
    mine = tmp_path / OFFICER
    sign_path(vouched_for, mine / PRIVATE, OFFICER, needed=[("learner", keys / PUBLIC)])
    assert tacit.verify(vouched_for, needed=[(OFFICER, mine / PUBLIC)]).true
    assert tacit.verify(vouched_for, needed=[("learner", mine / PUBLIC)]).outcome == "FALSE"
    words = ["keys", "sign", str(vouched_for), "--key", str(mine / PRIVATE), "--role", "operator"]
    assert main(words) == 2
    assert main([*words, "--require", f"learner={keys / PUBLIC}"]) == 0


ENTRY = [
    *("--format", "registry", "--name", "a", "--curator", "b", "--use", "c", "--region", "EU"),
    *("--date", "2026-11-19", "--author", "d"),
]


def test_secure_noise_of_a_log_is_the_word_of_its_learner(tmp_path, keys, capsys):
    """A release of simulated noise, written again as a secure one: no other party signs it, no registry has it."""
    rng, n = np.random.default_rng(0), 60
    log = {
        "tired": rng.random(n) < 0.5,
        "given": np.where(rng.random(n) < 0.5, "walk", "wait"),
        "points": rng.random(n),
    }
    asked = {"features": tacit.Features(tired=bool), "reward": (0, 1), "trust": "central", "epsilon": 1.0}
    bandit = tacit.LinearBandit(actions=["wait", "walk"], **asked, delta=1e-6, reports_per_person=1)
    bandit.fit(log, action="given", reward="points", noise=SimulationNoise(rng))
    bandit.save(tmp_path / "simulated")
    assert tacit.verify(tmp_path / "simulated").unsigned_by == ""
    content = json.loads((tmp_path / "simulated" / LEARNED).read_text())
    request = _request(content["request"])
    forged = request.planned(_payloads(content), request.certificate("secure"))
    save_learned(forged, tmp_path / "forged")
    for place in (tmp_path / "forged", tmp_path / "forged" / LEARNED, learned(tmp_path / "log")):
        found = tacit.verify(place)
        assert found.true
        assert "that its noise was secure its learner has not signed" in found.line
        assert "where the noise came from" in found.not_derived
        with pytest.raises(InvalidInput, match="must be signed by its learner first"):
            sign_path(place, keys / PRIVATE, OFFICER)
        assert main(["certificate", "export", str(place), *ENTRY]) == 2
        assert "must be signed by its learner, who drew its noise" in capsys.readouterr().err
    honest = tmp_path / "log" / "out"
    sign_path(honest, keys / PRIVATE, "learner")
    assert "has not signed" not in tacit.verify(honest).line
    sign_path(honest, keys / PRIVATE, OFFICER)
    assert main(["certificate", "export", str(honest), *ENTRY]) == 0
    entry = yaml.safe_load(capsys.readouterr().out)
    assert entry["deployment"]["basic"]["data_product_type"] == "Machine learning model"


def evaluated(place: Path, trust: str = "central", **options: object) -> Evaluation:
    """One policy on a log of forty people."""
    place.mkdir(exist_ok=True)
    lines = [f"{k},{k},{h},{('well', 'sick')[h]},pill,1,0.5" for k in range(40) for h in range(2)]
    (place / "log.csv").write_text("\n".join(["person,episode,step,ward,drug,points,p", *lines]) + "\n")
    mapping = {**MAPPING, "columns": {"propensity": "p"}}
    policy = NamedPolicy.from_dict(without_seal(json.loads((learned(place / "log") / "policy.json").read_text())))
    asked = {"epsilon": 1.0, "delta": 0.0 if trust == "local" else 1e-6, "min_propensity": 0.5, "trust": trust}
    return tacit.evaluate({"p": policy}, place / "log.csv", mapping, **asked, **options)


def test_an_evaluation_is_no_policy_in_the_registry(tmp_path, keys, capsys):
    value = save_evaluation(evaluated(tmp_path / "a"), tmp_path / "value.json", key=keys / PRIVATE)
    assert main(["certificate", "export", str(value), *ENTRY]) == 0
    entry = yaml.safe_load(capsys.readouterr().out)["deployment"]
    assert entry["basic"]["data_product_type"] == "Summary statistics"
    assert "estimated" in entry["basic"]["description"]
    assert entry["deployment_model"]["data_source_type"] == "Static"


@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_an_evaluation_with_simulated_noise_is_true_when_it_is_read_back(tmp_path, trust):
    found = evaluated(tmp_path / "a", trust, noise=SimulationNoise(np.random.default_rng(0)))
    value = save_evaluation(found, tmp_path / "value.json")
    assert tacit.verify(value).outcome == "true"
    request = json.loads(value.read_text())["request"]
    assert tacit.verify(resealed(value, request={**request, "against_log": -1})).outcome == "FALSE", (
        "-1 is no truth value"
    )
    assert found.certificate.simulated


def test_no_file_is_hidden_from_a_manifest(tmp_path, keys):
    place = tmp_path / "run"
    tacit.run(**{**SMALL, **LOCAL}, out=place)
    for name in ("sub", "a.signatures", "config.json.signatures"):
        (place / name).mkdir()
        (place / name / "evil.html").write_text("x")
        assert not tacit.verify(place).true, name
        shutil.rmtree(place / name)
    (place / "sub").mkdir()
    (place / "sub" / DIGESTS).write_text("{}")
    relisted(place, "run", f"sub/{DIGESTS}")
    assert not tacit.verify(place).true
    empty = tmp_path / "comparison"
    shutil.copytree(place / "sub", empty / "x")
    index = {
        "format": 1,
        "name": "n",
        "scale": "s",
        "runs": [],
        "version": tacit.__version__,
        "command": "tacit compare",
    }
    (empty / "comparison.json").write_bytes(json_bytes(index))
    write_manifest(empty, "comparison", ["comparison.json"])
    assert not tacit.verify(empty).true
    write_manifest(empty, "comparison", ["comparison.json", f"x/{DIGESTS}"])
    assert f"x/{DIGESTS} is of no run" in tacit.verify(empty).why
    shutil.rmtree(empty / "x")
    write_manifest(empty, "comparison", ["comparison.json"])
    assert tacit.verify(empty).outcome == "not verified", "a comparison of no runs shows nothing"


FOREIGN = {
    "run": ("policy.json", "cells.json", "study.json", "measures.json", "certificate.json", "learned.json"),
    "release": ("privacy.json", "arms.json", "report.html", "certificates.txt", "figure.png", "cells.json"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_of_directory_is_named(tmp_path, kind):
    place = tmp_path / "run"
    if kind == "run":
        tacit.run(**{**SMALL, **LOCAL}, out=place)
    else:
        place = learned(tmp_path / "log")
    kept = (place / DIGESTS).read_bytes()
    for name in FOREIGN[kind]:
        (place / name).write_text('{"epsilon": 0.001}')
        relisted(place, kind, name)
        found = tacit.verify(place)
        assert found.outcome == "FALSE", name
        assert name in found.why or name in ("certificate.json", "learned.json"), "which begin another kind"
        (place / name).unlink()
        (place / DIGESTS).write_bytes(kept)
    assert tacit.verify(place).true


def test_results_that_show_nothing_are_not_verified(tmp_path, keys):
    for runs in ([], [{"run": "a", "command": "python fake.py", "certified epsilon": 0.001, "delta": 1e-9}]):
        place = tmp_path / f"results-{len(runs)}"
        place.mkdir()
        (place / "cells.json").write_text(json.dumps(vouched({"experiment": "x", "runs": runs})))
        write_manifest(place, "results", ["cells.json"])
        for path in (place, place / "cells.json"):
            assert tacit.verify(path).outcome == "not verified"
            with pytest.raises(InvalidInput, match="must be true to be signed"):
                sign_path(path, keys / PRIVATE, OFFICER)


@pytest.mark.parametrize(
    ("entry", "value", "outcome"),
    [("date", "9999-99-99", "FALSE"), ("date", "2026-02-30", "FALSE"), ("version", "99.1.0", "not verified")],
)
def test_days_and_versions_are_those_that_there_can_be(tmp_path, entry, value, outcome):
    place = learned(tmp_path / "log")
    for name in ("certificate.json", LEARNED):
        text = (place / name).read_text()
        terms = json.loads(text).get("certificate", json.loads(text))["terms"]
        text = text.replace(terms[entry], value) if entry == "date" else text.replace(f'"{terms[entry]}"', f'"{value}"')
        (place / name).write_bytes(json_bytes(vouched(without_seal(json.loads(text)))))
    relisted(place, "release")
    assert tacit.verify(place).outcome == outcome


def certificates(place: Path) -> dict[str, tuple[Certificate, float, float, int, int]]:
    """Certificate, epsilon, delta, reports in all and reports of a person of what is no study."""
    rng, n = np.random.default_rng(0), 30
    log = {"tired": rng.random(n) < 0.5, "given": np.where(rng.random(n) < 0.5, "walk", "wait"), "points": np.ones(n)}
    asked = {"features": tacit.Features(tired=bool), "reward": (0, 1), "trust": "central", "epsilon": 2.0}
    bandit = tacit.LinearBandit(actions=["wait", "walk"], **asked, delta=1e-5, reports_per_person=1)
    trial = tacit.trial(
        "always 0", environment=WORLD, against="always 1", users=40, trust="shuffle", epsilon=3.0, delta=1e-6
    )
    policy = read_learned(learned(place / "log"))
    values = evaluated(place / "values", "shuffle")
    return {
        "a log": (policy.certificate, 1.0, 1e-6, 6, 2),
        "rows": (bandit.fit(log, action="given", reward="points").certificate_, 2.0, 1e-5, n, 1),
        "a trial": (trial.certificate, 3.0, 1e-6, 80, 1),
        "an evaluation": (values.certificate, 1.0, 1e-6, 40, 1),
    }


def test_certificates_of_logs_and_trials_say_what_was_asked(tmp_path):
    """Every field for people against the request that made it, as of studies in test_accounting_certificate_text."""
    for name, (found, epsilon, delta, reports, of_one) in certificates(tmp_path).items():
        said = dict(found.facts)
        assert f"(epsilon {epsilon:g}), plus delta {delta:g}" in said["promise"], name
        assert said["protected"].startswith(f"each person among up to {reports:,} reports: "), name
        assert found.claim.unit.reports == of_one, name
        assert found.claim.unit.describe() in said["protected"], name
        assert f"a group of 2: epsilon {found.claim.group(2).epsilon:g}" in said["protected"], name
        assert {"shuffle": "shuffler", "central": "curator"}[found.claim.trust] in said["trusted"], name
        assert f"certifies epsilon {shown_up(found.epsilon)} at delta {delta:g}" in said["checked"], name
        assert found.epsilon <= epsilon, name
        assert (found.terms.noise == "secure") == (name != "a trial"), name
        assert found.simulated == (name == "a trial"), name
        technical = dict(found.technical)
        assert found.claim.output in technical["notion"], name
        assert all(f"{family.name} {family.std:.5g} " in technical["noise"] for family in found.families), name
        assert f"episodes {found.terms.sizes['episodes']}" in technical["release"], name


def test_bundles_and_designs_are_verified_and_signed_alone(tmp_path, keys):
    place, _ = rehearsed(tmp_path, key=keys / PRIVATE, stages=1)
    study = Study(place, key=keys / PRIVATE)
    bundle, needed = tmp_path / "bundle-1.json", [("learner", keys / PUBLIC)]
    bundle.write_bytes(study.plan())
    found = tacit.verify(bundle)
    assert (found.kind, found.outcome) == ("bundle of a stage", "not verified")
    assert tacit.verify(bundle, key=keys / PUBLIC).true
    new_keys(tmp_path / OFFICER)
    sign_path(bundle, tmp_path / OFFICER / PRIVATE, OFFICER, needed=needed)
    assert tacit.verify(bundle, needed=[*needed, (OFFICER, tmp_path / OFFICER / PUBLIC)]).true
    (place / "bundle-1-0.json").write_bytes(bundle.read_bytes())
    assert tacit.verify(place / "bundle-1-0.json").true, "beside its study it is derived"
    content = json.loads(bundle.read_text())
    bundle.write_text(json.dumps({**content, "name": "another"}, sort_keys=True, separators=(",", ":")))
    assert not tacit.verify(bundle, key=keys / PUBLIC).true
    design = tmp_path / "design.json"
    shutil.copy(place / "design.json", design)
    found = tacit.verify(design)
    assert (found.kind, found.true) == ("design of a study", True)
    sign_path(design, tmp_path / OFFICER / PRIVATE, OFFICER)
    plain = json.loads(design.read_text())
    for change in ({"epsilon": 0.5}, {"version": "x"}, {"extra": 1}, {"channels": plain["channels"][:1] * 2}):
        design.write_text(json.dumps({**plain, **change}))
        with contextlib.suppress(TacitError):
            assert not tacit.verify(design).true


CERTIFY = ["certify", "--trust", "local", "--states", "2", "--actions", "2", "--horizon", "2", "--episodes", "9"]


@pytest.mark.parametrize("command", ["certify", "run"])
def test_nothing_stands_beside_a_certificate_that_is_not_derived(tmp_path, capsys, command):
    """Every entry of `--json` beside the results of simulation is compared, and an unknown one is false."""
    run = ["run", "--environment", WORLD, "--learner", "psrl", "--trust", "local", "--mechanism", "laplace"]
    chosen = CERTIFY if command == "certify" else [*run, "--episodes", "8", "--checkpoints", "2"]
    assert main([*chosen, "--epsilon", "1", "--delta", "0", "--json"]) == 0
    content, file = json.loads(capsys.readouterr().out), tmp_path / "f.json"

    def outcome(**changes: object) -> str:
        file.write_text(json.dumps(vouched({**content, **changes})))
        return tacit.verify(file).outcome

    assert outcome() == "true"
    for name in ("approved_by", "epsilon", "configuration2"):
        assert outcome(**{name: 0.001}) == "FALSE"
    stated = set(tacit.verify(file).not_derived)
    for name in set(content) - stated - {"command", "digest"}:
        for value in (3, "x", None, [], {}):
            if value != content[name] and (content[name] or value):
                with contextlib.suppress(TacitError):
                    assert outcome(**{name: value}) == "FALSE", (name, value)
    if command == "certify":
        assert stated == set()
        for side in ("tight", "paper"):
            for name, value in (("epsilon", 0.001), ("statement", None), ("holds", None)):
                forged = {**content[side], "certificate": {**content[side]["certificate"], name: value}}
                assert outcome(**{side: forged}) == "FALSE", (side, name)
        assert outcome(configuration={**content["configuration"], "approved": True}) == "FALSE"
    else:
        assert "regret" in stated
        assert not stated & {"claims", "doubt", "unverified", "version"}


def test_a_name_that_a_study_skips_hides_no_policy(tmp_path, keys):
    """What stands in the directory of a study is true for that only where the study has looked at it."""
    place = a_study(tmp_path)
    content = json.loads((place / "policy.json").read_text())
    tables = content["policy"]["policy"]
    other = {**tables, "actions": [[1 - action for action in row] for row in tables["actions"]]}
    for name in ("batches", "keys", "bearer", "signatures", "x.json.signatures", "study.db-wal"):
        forged = place / name
        shutil.copy(place / "policy.json", forged)
        resealed(forged, policy={**content["policy"], "policy": other})
        with contextlib.suppress(TacitError):
            assert not tacit.verify(forged).true, name
        with pytest.raises(InvalidInput):
            sign_path(forged, keys / PRIVATE, OFFICER)
        forged.unlink(missing_ok=True)  # SQLite removes a log that is none
    (tmp_path / "other").mkdir()
    rehearsed(tmp_path / "other", epsilon=50.0)
    foreign = place / "issuer-keys.json"
    foreign.write_bytes(Study(tmp_path / "other" / "study").plan())
    assert tacit.verify(foreign).outcome == "not verified"
    assert tacit.verify(place / "policy.json").true


def a_comparison_called_secure(place: Path) -> Path:
    """A log learned from with simulated noise, and an evaluation beside it with the same that is called secure."""
    mapping = as_mapping({**MAPPING, "columns": {"propensity": "p"}})
    rng, n = np.random.default_rng(0), 300
    lived = Trajectories(rng.integers(0, 2, (n, 2)), rng.integers(0, 2, (n, 2)), rng.random((n, 2)))
    sizes = {"persons": np.arange(n), "people": n, "lengths": np.full(n, 2), "propensities": np.full((n, 2), 0.5)}
    log = Episodes(trajectories=lived, mapping=mapping, **sizes)
    asked = {"mapping": mapping, "delta": 1e-6, "people": n}
    found = learn_from(LearnRequest(epsilon=0.5, **asked), log, SimulationNoise(rng))
    policies = {LEARNED_NAME: found.policy}
    request = EvaluationRequest(policies=policies, epsilon=1.0, min_propensity=0.5, trust="central", **asked)
    compared = evaluate_episodes(request, log, SimulationNoise(rng))
    save_learned(dataclasses.replace(found, comparison=compared), place / "honest")
    forged = dataclasses.replace(compared, certificate=request.certificate("secure"))
    save_learned(dataclasses.replace(found, comparison=forged), place / "forged")
    return place / "forged"


def test_a_comparison_in_a_release_that_is_called_secure_its_learner_has_not_signed(tmp_path, keys):
    forged = a_comparison_called_secure(tmp_path)
    honest = tacit.verify(tmp_path / "honest")
    assert (honest.true, honest.unsigned_by) == (True, "")
    assert tacit.verify(forged).unsigned_by == "learner"
    with pytest.raises(InvalidInput, match="must be signed by its learner first"):
        sign_path(forged, keys / PRIVATE, OFFICER)


def test_the_log_that_a_design_starts_from_is_taken_as_stated(tmp_path, keys):
    place = learned(tmp_path / "log")
    sizes = {"states": ["well", "sick"], "actions": ["none", "pill"], "horizon": 2, "stages": 2, "target": 40}
    design = plan_study(**sizes, least=30, epsilon=4.0, delta=1e-6, trust="central", start=place, rewards=(-1, 3))
    study = Study.new(tmp_path / "study", design, seed=1)
    study.plan()
    alone = tmp_path / "design.json"
    shutil.copy(tmp_path / "study" / "design.json", alone)
    found = tacit.verify(alone)
    assert (found.true, found.unsigned_by) == (True, "learner")
    assert "the log that it starts from" in found.not_derived
    with pytest.raises(InvalidInput, match="must be signed by its learner first"):
        sign_path(alone, keys / PRIVATE, OFFICER)
    assert "the log that it starts from" in tacit.verify(tmp_path / "study").not_derived


HIDDEN = {
    "a table": "CREATE TABLE evil (x)",
    "a trigger": "CREATE TRIGGER evil AFTER INSERT ON {} BEGIN DELETE FROM lease; END",
    "a view": "CREATE VIEW evil AS SELECT * FROM {}",
    "no guard": "DROP TRIGGER {}_no_update",
}


@pytest.mark.parametrize("what", HIDDEN)
def test_databases_hold_nothing_but_what_tacit_lays_out(tmp_path, keys, what):
    """SQLite would run a trigger at the next step."""
    for place, table in zip(rehearsed(tmp_path), ("bundle", "report"), strict=True):
        sign_path(place, keys / PRIVATE, OFFICER)
        needed = [(OFFICER, keys / PUBLIC)]
        assert tacit.verify(place, needed=needed).true
        with contextlib.closing(sqlite3.connect(place / f"{place.name}.db", isolation_level=None)) as connection:
            connection.execute(HIDDEN[what].format(table))
        found = tacit.verify(place, needed=needed)
        assert found.outcome == "FALSE"
        assert "is not laid out as tacit does it" in found.why


def test_who_has_taken_part_is_counted_and_named(tmp_path):
    """Without it the same people may come again."""
    _, place = rehearsed(tmp_path)
    found = tacit.verify(place)
    assert found.true
    assert "who has taken part" in found.not_derived
    with contextlib.closing(sqlite3.connect(place / "collector.db", isolation_level=None)) as connection:
        guard = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'participation_given_back'").fetchone()
        connection.execute("DROP TRIGGER participation_given_back")
        connection.execute("DELETE FROM participation")
        connection.execute(guard[0])
    assert tacit.verify(place).outcome == "FALSE"


def test_a_run_of_a_comparison_whose_signature_is_about_something_else_is_false(tmp_path, keys):
    options = {**SMALL, **LOCAL, "learner": ["psrl", "uniform"]}
    tacit.compare(**options, out=tmp_path / "cmp")
    run = next(path.parent for path in (tmp_path / "cmp").rglob("config.json"))
    sign_path(run, keys / PRIVATE, OFFICER)
    assert tacit.verify(tmp_path / "cmp").true
    seconds = json.loads((run / "timing.json").read_text())
    (run / "timing.json").write_bytes(json_bytes({seed: {**one, "seconds": 9.0} for seed, one in seconds.items()}))
    relisted(run, "run")
    relisted(tmp_path / "cmp", "comparison")
    assert tacit.verify(run).outcome == "FALSE"
    found = tacit.verify(tmp_path / "cmp")
    assert found.outcome == "FALSE"
    assert "the signature of its officer is about something else" in found.why


@pytest.mark.parametrize("version", ["99.1.0", "0.8.7"])
def test_a_version_that_this_one_cannot_know_is_not_verified(tmp_path, capsys, version):
    assert main([*CERTIFY, "--epsilon", "1", "--delta", "0", "--json"]) == 0
    text = capsys.readouterr().out.replace(tacit.__version__, version)
    (tmp_path / "f.json").write_text(json.dumps(vouched(without_seal(json.loads(text)))))
    assert tacit.verify(tmp_path / "f.json").outcome == "not verified"


def test_a_bundle_alone_rests_on_a_key(tmp_path, keys):
    result = tacit.run(**{**SMALL, **LOCAL})
    unsigned = tacit.export_bundle(result, tmp_path / "unsigned.json")
    found = tacit.verify(unsigned)
    assert found.outcome == "not verified"
    assert "nothing in it shows its policy: insist on a key" in found.why
    with pytest.raises(InvalidInput, match="must be true to be signed"):
        sign_path(unsigned, keys / PRIVATE, OFFICER)
    assert main(["certificate", "show", str(unsigned)]) == 0, "its certificate is derived"
    signed = tacit.export_bundle(result, tmp_path / "signed.json", key=keys / PRIVATE)
    assert tacit.verify(signed, key=keys / PUBLIC).true
    assert tacit.verify(signed, needed=[("learner", keys / PUBLIC)]).true


def test_what_is_no_file_is_not_read(tmp_path):
    """A pipe would never end, a link may lead around in a circle."""
    place = tmp_path / "run"
    tacit.run(**{**SMALL, **LOCAL}, out=place)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(tmp_path)):
        make(place / "x.png")
        found = tacit.verify(place)
        assert (found.outcome, "x.png is no file that tacit writes there" in found.why) == ("FALSE", True)
        (place / "x.png").unlink()
    assert tacit.verify(place).true


@pytest.mark.parametrize("name", ["tacit.data.simulator_users:LiveWorld", "tacit.protocol:SecureNoise"])
def test_states_build_no_class_that_a_module_imports(name):
    head = json.dumps({"fields": [], "type": name}).encode()
    body = MAGIC + len(head).to_bytes(4, "little") + head
    with pytest.raises(InvalidInput, match="must be named tuples or dataclasses"):
        decode_state(body + hashlib.sha256(body).digest())
