"""`tacit certificate` and `tacit certify --notion zcdp`: other notions and forms, of what verifies only."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tacit.accounting.certificate import Certificate
from tacit.accounting.renyi import rho_of
from tacit.cli import main
from tacit.documents import vouched

SIZES = ["--states", "4", "--actions", "2", "--horizon", "3", "--episodes", "2000"]
STUDY = ["--name", "clinic", "--states", "well,sick", "--actions", "wait,treat", "--horizon", "3", "--stages", "2",
         "--target", "100", "--epsilon", "2"]  # fmt: skip
CURATOR = ["--name", "Clinic: doses", "--curator", "Clinic X", "--use", "Choice of doses", "--region", "EU",
           "--date", "2026-11-19", "--author", "An Officer", "--sector", "Healthcare"]  # fmt: skip
TEXT = {"type": "string", "minLength": 1}


def part(required: str, **properties: object) -> dict[str, object]:
    kinds = {name: properties.get(name, TEXT) for name in required.split()}
    more = {name: kind for name, kind in properties.items() if name not in kinds}
    return {"type": "object", "properties": {**kinds, **more}, "required": list(kinds), "additionalProperties": False}


def one_of(*names: str) -> dict[str, object]:
    return {"enum": list(names)}


NAMES = {"type": "array", "items": TEXT, "minItems": 1}
SCHEMA = part(
    "url_slug status tier deployment",
    status=one_of("Draft"),
    tier={"const": 3},
    deployment=part(
        "basic dp_variant privacy_loss deployment_model accounting implementation administrative",
        basic=part(
            "name data_curators intended_use data_product_type data_product_region description publication_date",
            data_curators=NAMES,
            data_product_type=one_of("Summary statistics", "Machine learning model", "Dataset"),
            publication_date={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
            data_product_sector=one_of("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
        ),
        dp_variant=part(
            "variant_name data_domain unprotected_quantities", variant_name=one_of("Pure DP", "Approximate DP")
        ),
        privacy_loss=part(
            "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
            privacy_parameters=part("epsilon", epsilon={"type": "number"}, delta={"type": "number"}),
        ),
        deployment_model=part(
            "model_name model_name_details actors release_type release_type_details data_source_type access_type",
            model_name=one_of("Local", "Central", "Shuffle"),
            release_type=one_of("One release", "Many releases"),
            data_source_type=one_of("Static", "Dynamic"),
            access_type=one_of("Interactive", "Non-interactive"),
        ),
        accounting=part("post_processing composition"),
        implementation=part("preprocessing_and_hyperparameter_tuning mechanisms justification"),
        administrative=part("sources notes registry_authors", registry_authors=NAMES),
    ),
)
"""The registry's schema as its repository has it, with everything that tacit fills in required."""


def new_study(place: Path, *more: str) -> Path:
    assert main(["study", "new", str(place), *STUDY, *more]) == 0
    return place


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    return new_study(tmp_path_factory.mktemp("study") / "there", "--trust", "central", "--delta", "1e-6")


@pytest.mark.parametrize(
    ("trust", "delta", "model"),
    [("central", "1e-6", "Central"), ("shuffle", "1e-6", "Shuffle"), ("local", "0", "Local")],
)
def test_an_entry_has_the_fields_of_the_registry(tmp_path, capsys, trust, delta, model):
    place, out = new_study(tmp_path / "there", "--trust", trust, "--delta", delta), tmp_path / "entry.yaml"
    assert main(["certificate", "export", str(place), "--format", "registry", *CURATOR, "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["certificate", "export", str(place), "--format", "registry", *CURATOR, "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    jsonschema.validate(entry, SCHEMA)
    assert yaml.safe_load(out.read_text("utf-8")) == entry
    deployment = entry["deployment"]
    assert deployment["deployment_model"]["model_name"] == model
    stated = deployment["privacy_loss"]["privacy_parameters"]
    assert stated == {"epsilon": 2.0, **({} if delta == "0" else {"delta": 1e-6})}
    assert deployment["dp_variant"]["variant_name"] == ("Pure DP" if delta == "0" else "Approximate DP")
    assert deployment["deployment_model"]["release_type"] == "Many releases"
    assert "secure noise" in deployment["implementation"]["mechanisms"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--date", "yesterday"], "--date must be a day"),
        (["--date", "2026-13-45"], "--date must be a day"),
        (["--sector", "Sports"], "--sector must be one of"),
        (["--author", " "], "--author must be stated"),
        (["--format", "xml"], "unknown format 'xml'"),
    ],
)
def test_what_the_curator_must_state(study, capsys, change, message):
    assert main(["certificate", "export", str(study), "--format", "registry", *CURATOR, *change]) == 2
    assert message in capsys.readouterr().err


def test_a_simulation_is_no_deployment(tmp_path, capsys):
    words = ["run", "--environment", "riverswim", "--learner", "psrl", "--episodes", "8", "--trust", "local",
             "--epsilon", "1", "--delta", "0", "--workers", "1", "--out", str(tmp_path / "run")]  # fmt: skip
    assert main(words) == 0
    assert main(["certificate", "export", str(tmp_path / "run"), "--format", "registry", *CURATOR]) == 2
    assert "got a simulation" in capsys.readouterr().err


def test_what_does_not_verify_is_not_shown(study, tmp_path, capsys):
    import shutil

    place = Path(shutil.copytree(study, tmp_path / "other"))
    (place / "design.json").write_text("{}")
    for words in (["show", str(place)], ["export", str(place), "--format", "registry", *CURATOR]):
        assert main(["certificate", *words]) == 2
        assert "must verify" in capsys.readouterr().err


def test_a_certificate_in_another_notion(tmp_path, capsys):
    study = new_study(tmp_path / "there", "--trust", "local", "--delta", "0", "--mechanism", "laplace")
    capsys.readouterr()
    assert main(["certificate", "show", str(study), "--notion", "zcdp", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    found = Certificate.from_dict(content["certificate"])
    assert content["zcdp"]["rho"] == rho_of(found.events)
    assert content["zcdp"]["epsilon"] == "inf", "rho by itself never gives delta 0"
    assert main(["certificate", "show", str(study), "--notion", "zcdp"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(found.describe())
    assert "zCDP: certified rho" in text
    assert main(["certificate", "show", str(study), "--notion", "renyi"]) == 2


@pytest.mark.parametrize(
    ("how", "delta"), [(["central", "--mechanism", "batched", "--batch", "100"], "1e-6"), (["local"], "0")]
)
def test_a_claim_in_rho_is_certified_and_verified(tmp_path, capsys, how, delta):
    words = ["certify", "--trust", *how, *SIZES, "--delta", delta, "--notion", "zcdp", "--rho", "0.1", "--json"]
    assert main(words) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["zcdp"]["claimed"] == 0.1
    assert content["zcdp"]["holds"]
    assert 0.0999 < content["zcdp"]["rho"] <= 0.1
    assert content["certificate"]["holds"]
    place = tmp_path / "certificate.json"
    place.write_text(json.dumps(content))
    assert main(["verify", str(place)]) == 0
    for name, value in (("rho", 0.05), ("claimed", 0.2), ("epsilon", 0.5), ("holds", False), ("renyi", [])):
        edited = {**content, "zcdp": {**content["zcdp"], name: value}}
        del edited["digest"]
        place.write_text(json.dumps(vouched(edited)))
        assert (main(["verify", str(place)]) == 0) == (name == "claimed"), name


def test_noise_that_is_close_to_a_gaussian_has_no_zcdp_form(study, capsys):
    assert main(["certificate", "show", str(study), "--notion", "zcdp"]) == 0
    assert "zCDP: none" in capsys.readouterr().out


def test_bits_have_no_zcdp_form(capsys):
    words = ["certify", "--trust", "shuffle", *SIZES, "--delta", "1e-6", "--notion", "zcdp"]
    assert main([*words, "--rho", "0.1"]) == 2
    assert "no zCDP form" in capsys.readouterr().err
    assert main([*words, "--epsilon", "1"]) == 0
    assert "zCDP: none" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [[], ["--epsilon", "1", "--rho", "1"], ["--rho", "1"], ["--rho", "0", "--notion", "zcdp"]]
)
def test_a_claim_has_one_size(capsys, words):
    assert main(["certify", "--trust", "local", *SIZES, "--delta", "0", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")
