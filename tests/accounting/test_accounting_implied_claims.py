"""Implied claims: LDP gives SDP gives JDP, at the certified epsilon; `certify` prints them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tacit.accounting.claims import NOTIONS, OUTPUTS, REASONS, PrivacyClaim, PrivacyUnit, implied_claims
from tacit.cli import main

TRUST = {output: trust for trust, outputs in OUTPUTS.items() for output in outputs}


def claim(output: str, epsilon: float = 1.0) -> PrivacyClaim:
    return PrivacyClaim(
        trust=TRUST[output],
        epsilon=epsilon,
        delta=1e-6,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=output,
    )


@pytest.mark.parametrize("output", [output for output in TRUST if output != "nothing-protected"])
def test_exactly_what_a_claim_implies_is_listed(output):
    own = claim(output)
    others = [name for name in TRUST if name not in (output, "nothing-protected")]
    expected = {name for name in others if own.implies(claim(name))}
    assert set(REASONS[output]) == expected
    found = implied_claims(own, 0.5)
    assert {item.notion for item in found} == {NOTIONS[name] for name in expected}
    assert all((item.epsilon, item.delta) == (0.5, 1e-6) for item in found)


def test_nothing_follows_from_an_infinite_epsilon():
    assert implied_claims(claim("every-message"), math.inf) == ()
    assert implied_claims(replace(claim("every-message"), delta=0.0), 2.0)[0].delta == 0.0


SIZES = ["--states", "3", "--actions", "2", "--horizon", "3", "--episodes", "2000", "--epsilon", "1"]


@pytest.mark.parametrize(
    ("trust", "delta", "notions"),
    [
        ("shuffle", "1e-6", ["JDP", "DP of the final policy", "DP of published sums"]),
        ("local", "0", ["SDP", "JDP", "DP of the final policy", "DP of published sums"]),
        ("central", "1e-6", []),
    ],
)
def test_certify_prints_what_is_implied(trust, delta, notions, capsys):
    words = ["certify", "--trust", trust, "--delta", delta, *SIZES]
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [item["notion"] for item in content["implied"]] == notions
    assert all(item["epsilon"] == content["certificate"]["epsilon"] for item in content["implied"])
    assert main(words) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("implied: ")]
    assert len(lines) == len(notions)
    assert all("JDP, by the billboard lemma" in line for line in lines if "JDP" in line)


def test_printed_noise_implies_what_it_certifies_not_what_it_claims(capsys):
    words = ["certify", "--trust", "shuffle", "--delta", "1e-6", *SIZES, "--calibration", "paper", "--json"]
    assert main(words) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["implied"][0]["epsilon"] == content["certificate"]["epsilon"] < 0.5
