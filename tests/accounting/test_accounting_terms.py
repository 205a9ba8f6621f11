"""What a certificate says about itself: terms, warnings, words that scale with epsilon, and its published schema."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest

from tacit._version import __version__
from tacit.accounting.certificate import Certificate, certificate_schema
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.terms import Terms
from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.runs.assemble import assemble, assembled
from tacit.runs.config import RunConfig
from tacit.runs.verify import check_certificate, verify_file

SCHEMA = Path(__file__).parents[2] / "docs" / "certificate.schema.json"
KINDS = {
    "none": {"learner": "psrl"},
    "central": {"learner": "ucbvi", "trust": "central", "epsilon": 1.0, "delta": 1e-6},
    "central batches": {
        "learner": "ucbvi", "trust": "central", "epsilon": 1.0, "delta": 1e-6, "mechanism": "batched"
    },
    "paper": {"learner": "ucbvi", "trust": "local", "epsilon": 1.0, "delta": 0.0, "calibration": "paper"},
    "shuffle": {"learner": "ucbvi", "trust": "shuffle", "epsilon": 1.0, "delta": 1e-6, "batch": 500},
    "stages": {"learner": "bucb", "trust": "shuffle", "epsilon": 2.0, "delta": 1e-6, "honest_fraction": 0.5},
    "gradients": {"learner": "dp-pg", "trust": "central", "epsilon": 1.0, "delta": 1e-5, "batch": 50},
    "losses": {
        "environment": "layered:layers=3,states=2,actions=2", "learner": "uc-o-reps", "adversary": "iid",
        "trust": "local", "epsilon": 2.0, "delta": 0.0, "public_losses": True,
    },
}  # fmt: skip


def certificate(**asked) -> Certificate:
    return assemble(RunConfig(**{"environment": "riverswim", "episodes": 2000, "seeds": (0,), **asked})).certificate


def text(found: Certificate) -> str:
    """The text without its line breaks."""
    return " ".join(found.describe().split())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_certificate_says_its_terms_and_fits_the_schema(kind):
    found = certificate(**KINDS[kind])
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    jsonschema.validate(plain, certificate_schema())
    assert Certificate.from_dict(plain) == found
    assert found.derived() == found
    assert found.terms is not None
    assert found.terms.noise == "simulation"
    assert found.terms.sizes["episodes"] == 2000
    assert found.terms.sizes["horizon"] > 0
    assert not found.release
    if kind == "none":
        assert "would hold" not in text(found)
    else:
        assert found.statement.startswith("SIMULATION, not a release")
        assert "would hold if" in text(found)


def test_the_published_schema_is_current(capsys):
    assert main(["verify", "--schema", "."]) == 0
    assert capsys.readouterr().out == SCHEMA.read_text(encoding="utf-8")
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == certificate_schema()
    terms = certificate_schema()["properties"]["terms"]["properties"]
    assert list(terms) == [field.name for field in fields(Terms)]
    assert all(entry["description"] for entry in terms.values())


BROKEN = {
    "a text for a number": (("epsilon",), "much"),
    "a number below its least": (("epsilon",), -1.0),
    "a number for a truth value": (("holds",), 1),
    "an unknown trust model": (("claim", "trust"), "everybody"),
    "an unknown calibration": (("calibration",), "loose"),
    "an unknown noise": (("terms", "noise"), "unknown"),
    "no day": (("terms", "date"), "yesterday"),
    "nobody honest": (("terms", "honest_fraction"), 0.0),
    "more than all honest": (("terms", "honest_fraction"), 1.5),
    "half a step": (("terms", "sizes", "horizon"), 1.5),
    "a number for a text": (("terms", "public", "losses"), 3),
    "no reports": (("terms", "unit", "reports"), 0),
    "a group of one": (("terms", "unit", "groups", 0, "size"), 1),
    "a family without a name": (("families", 0, "name"), None),
    "a negative local epsilon": (("local_epsilon",), -1.0),
    "a pair of one": (("curve", 0), [0.0]),
    "more than it has": (("seal",), True),
    "more terms than it has": (("terms", "seal"), True),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_the_schema_and_the_verifier_refuse_every_kind_of_violation(broken, tmp_path):
    """The published schema, for other programs; and `tacit verify`, which reads the fields, also without a run."""
    found = certificate(**KINDS["shuffle"])
    plain = json.loads(json.dumps(found.to_dict()))
    assert check_certificate(plain, found, __version__) == []
    path, value = BROKEN[broken]
    at = plain
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain, certificate_schema())
    assert check_certificate(plain, found, __version__) != []
    (tmp_path / "certificate.json").write_text(json.dumps(plain))
    assert verify_file(tmp_path / "certificate.json").outcome == "FALSE"


def test_a_certificate_without_terms_does_not_fit_the_schema():
    plain = json.loads(json.dumps(certificate(**KINDS["shuffle"]).to_dict()))
    del plain["terms"]
    with pytest.raises(jsonschema.ValidationError, match="'terms' is a required property"):
        jsonschema.validate(plain, certificate_schema())


def test_a_simulation_is_not_mistaken_for_a_release():
    simulated = certificate(**KINDS["central"])
    released = simulated.under(replace(simulated.terms, noise="secure"))
    assert (simulated.release, released.release) == (False, True)
    assert "SIMULATION" not in released.describe()
    assert "simulation" not in released.describe()
    plain = simulated.to_dict()
    plain["terms"] = {**plain["terms"], "noise": "secure"}
    with pytest.raises(InvalidInput, match="words must follow"):
        Certificate.from_dict(plain)


def test_the_honest_fraction_is_said_and_costs_noise():
    all_honest, half = certificate(**KINDS["shuffle"]), certificate(**KINDS["shuffle"], honest_fraction=0.5)
    assert (all_honest.terms.honest_fraction, half.terms.honest_fraction) == (1.0, 0.5)
    silent = "The noise of all 500 devices of a batch is counted on: one silent device voids a tight certificate"
    assert any(silent in warning for warning in all_honest.warnings)
    assert not any("silent" in warning for warning in half.warnings)
    ratio = half.families[0].std / all_honest.families[0].std
    assert ratio == pytest.approx(2**0.5, rel=0.02)
    assert half.epsilon <= 1.0
    for trust in ("central", "local"):
        with pytest.raises(InvalidInput, match="honest_fraction belongs to trust 'shuffle'"):
            certificate(learner="ucbvi", trust=trust, epsilon=1.0, delta=1e-6, honest_fraction=0.5)
    assert certificate(learner="ucbvi", trust="local", epsilon=1.0, delta=0.0).terms.honest_fraction is None


def test_one_silent_device_voids_a_tight_shuffle_certificate():
    """The accountant itself, with the bits of one device of 500 missing."""
    from tacit.accounting.composition import epsilon_of

    found = certificate(**KINDS["shuffle"])
    fewer = tuple((replace(event, bits=event.bits * 499 // 500), count) for event, count in found.events)
    assert epsilon_of(fewer, 1e-6) > 1.0 >= found.epsilon


def test_a_delta_above_one_over_the_users_is_warned_about():
    large = certificate(learner="ucbvi", trust="central", epsilon=1.0, delta=1e-3)
    assert any("Delta 0.001 is above 1/K = 0.0005" in warning for warning in large.warnings)
    assert "is above 1/K" in text(large)
    assert certificate(learner="ucbvi", trust="central", epsilon=1.0, delta=4e-4).warnings == ()


def test_the_sentence_scales_with_epsilon():
    def words(epsilon: float) -> str:
        return PrivacyClaim(
            trust="local", epsilon=epsilon, delta=0.0, unit=PrivacyUnit(reports=1, per_stage=1),
            neighbours="replace-one", output="every-message",
        ).describe()  # fmt: skip

    assert "can hardly tell" in words(1.0)
    assert "factor 2.72 (epsilon 1)" in words(1.0)
    for epsilon in (1.01, 5.0, 5.1, 50.0, 1000.0):
        assert "can hardly tell" not in words(epsilon)
        assert ("weak" in words(epsilon)) == (epsilon > 5.0)
    assert "factor 5.19e+21 (epsilon 50)" in words(50.0)


def test_groups_and_public_declarations_are_said():
    terms = certificate(**KINDS["losses"]).terms
    assert terms.public["losses"] == "public: declared to be nobody's data"
    assert (terms.unit["reports"], terms.unit["per_stage"]) == (1, 1)
    assert terms.unit["groups"][0] == {"size": 2, "epsilon": 4.0, "delta": 0.0}
    assert "losses" not in certificate(**KINDS["central"]).terms.public  # where none are released, none are named
    batches = certificate(**KINDS["central batches"]).terms
    assert batches.sizes["users_per_batch"] > 1
    assert batches.sizes["batches"] < 2000


def test_equal_but_for_version_and_date(monkeypatch):
    first = certificate(**KINDS["none"])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assembled.cache_clear()
    second = certificate(**KINDS["none"])
    assert second.terms.date == "1970-01-01" != first.terms.date
    assert first == second
