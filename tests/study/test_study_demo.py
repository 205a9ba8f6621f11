"""The demonstration: a whole study over real files, small, under every trust model."""

import json

import pytest
from typer.testing import CliRunner

from tacit.cli.app import app
from tacit.errors import InvalidInput
from tacit.study.demo import run_demo


@pytest.mark.parametrize("trust", [pytest.param("central", marks=pytest.mark.slow), "shuffle", "local"])
def test_a_study_ends_with_policy_certificate_and_ledger(trust, tmp_path):
    said = []
    found = run_demo(tmp_path / "demo", trust=trust, people=500, say=said.append)
    assert len(said) == 2 + len(found.design.channels)
    assert said[1] == found.design.choice
    status = found.collector.status()
    assert [stage["state"] for stage in status["stages"]] == ["released"] * 5
    # Whoever reports twice in a stage is counted once.
    assert status["refused"] == {"twice": 5}
    assert status["people"] == sum(row["reports"] for row in found.stages)
    assert 0.0 < status["spent"]["epsilon"] <= 2.0
    certificate = found.study.certificate()
    assert certificate.holds
    assert certificate.terms.noise == "secure"
    assert found.policy.act(0, "upstream") in ("drift", "swim")
    assert not list((tmp_path / "demo" / "reports").iterdir())
    exported = json.loads(found.file.read_text())
    assert exported["certificate"]["terms"]["noise"] == "secure"


def test_the_command_prints_json_and_refuses_a_used_directory(tmp_path):
    out = str(tmp_path / "demo")
    done = CliRunner().invoke(app, ["study", "demo", "--out", out, "--people", "250", "--trust", "central", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["stages"]) == 5
    with pytest.raises(InvalidInput, match="must be a new directory"):
        run_demo(out, people=250)
