"""The text of a certificate: every field against the design that made it, and the table of collusion."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache

import jsonschema
import numpy as np
import pytest
from scipy.stats import norm

from tacit.accounting.certificate import Certificate, certificate_schema, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_delta, gaussian_mu
from tacit.accounting.knowledge import KINDS, PARTIES, breaches, reach
from tacit.accounting.wording import shown_up
from tacit.cli import main
from tacit.study.design import StudyDesign, plan_study

PEOPLE = 25
"""So many lines are for people, at most."""
STUDIES = {
    "shuffle": {"trust": "shuffle"},
    "shuffle, half honest": {"trust": "shuffle", "honest_fraction": 0.5, "least": 300},
    "shuffle, all must come": {"trust": "shuffle", "least": 400},
    "shuffle, two reports": {"trust": "shuffle", "reports_per_person": 2, "stages": 4, "learner": "sdp-pe-plus"},
    "central": {"trust": "central", "reports_per_person": 3},
    "central, batches": {"trust": "central", "learner": "bucb"},
    "local": {"trust": "local", "delta": 0.0},
}


@cache
def study(name: str) -> StudyDesign:
    asked = {"states": 4, "actions": 2, "horizon": 3, "epsilon": 1.0, "delta": 1e-6, "stages": 6, "target": 400}
    return plan_study(**{**asked, "stationary": True, **STUDIES[name]})


def parts(text: str) -> dict[str, str]:
    """What stands behind each name; lines that go on are joined."""
    found, name = {}, ""
    for line in text.splitlines():
        given = line[:11].strip()
        name = given or name
        found[name] = f"{found[name]} {line[11:].strip()}" if name in found and not given else line[11:].strip()
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_every_field_is_that_of_the_design(name):
    design = study(name)
    found = design.parts().certificate
    text, channels, claim = found.describe(), design.parts().channels, found.claim
    people = text.partition("\n-----------\n")[0]
    assert len(people.splitlines()) <= PEOPLE
    assert max(map(len, text.splitlines())) <= 118
    said = parts(text)
    # promised, to whom
    assert f"(epsilon {design.epsilon:g})" in said["promise"]
    assert (f", plus delta {design.delta:g} (" in said["promise"]) == (design.delta > 0.0)
    assert f"each person among up to {sum(one.target for one in channels):,} reports" in said["protected"]
    assert design.unit.describe() in said["protected"]
    two = claim.group(2)
    assert f"a group of 2: epsilon {two.epsilon:g}, delta {two.delta:.3g}." in said["protected"]
    # trusted, broken by
    assert {"shuffle": "shuffler", "central": "curator", "local": "own device"}[design.trust] in said["trusted"]
    assert said["broken by"] == found.collusion
    # checked
    assert f"certifies epsilon {float(f'{found.epsilon:.4g}'):g} at delta {design.delta:g}" in said["checked"]
    assert "tacit verify" in said["checked"]
    # technical
    assert f"{claim.notion}: epsilon {design.epsilon:g}, delta {design.delta:g}" in said["notion"]
    assert claim.output in said["notion"]
    release = said["release"]
    assert release.startswith(f"{channels[0].name}; secure noise; ")
    sizes = dict(re.findall(r"(horizon|states|actions|episodes|users per batch|batches) (\d+)", release))
    assert sizes["horizon"] == str(design.horizon)
    assert (sizes["states"], sizes["actions"]) == (str(len(design.states)), str(len(design.actions)))
    assert sizes["batches"] == str(len(channels))
    assert sizes["users per batch"] == str(max(one.target for one in channels))
    assert f"{min(one.least for one in channels)} to {max(one.target for one in channels)} reports" in said["public"]
    for family in found.families:
        assert f"{family.name} {family.std:.5g} " in said["noise"]
    assert "None" not in text
    assert "none are released" not in text
    # and in JSON
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    jsonschema.validate(plain, certificate_schema())
    assert plain["statement"] == text
    assert Certificate.from_dict(plain) == found
    assert Certificate.from_dict(plain).describe() == text


def test_the_promise_is_what_epsilon_and_delta_bound() -> None:
    """The probability of every conclusion, as the sentence says; the privacy loss exceeds epsilon 20 times as often."""
    claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
                         neighbours="replace-one", output="other-users-actions")  # fmt: skip
    mu = gaussian_mu(claim.epsilon, claim.delta)
    assert gaussian_delta(claim.epsilon, mu) == pytest.approx(claim.delta)
    assert norm.sf((claim.epsilon - mu**2 / 2) / mu) > 20 * claim.delta
    words = re.search(r"by at most the factor ([0-9.]+) \(epsilon 1\), plus delta ([0-9.e-]+) ", claim.promise)
    factor, more = map(float, words.groups())
    at = np.linspace(-8.0, 8.0, 1601)  # the events with the largest loss, by Neyman and Pearson
    assert (norm.sf(at - mu) <= factor * norm.sf(at) + more).all()
    assert (norm.sf(at - mu) > 0.99 * math.exp(claim.epsilon) * norm.sf(at) + 0.9 * more).any()


@pytest.mark.parametrize(("claimed", "held"), [("1", "1.889"), ("3", "5.667")])
def test_a_false_claim_is_not_promised(claimed, held, capsys):
    """Text and groups are those of what is certified, and the first row says that the claim is false."""
    options = "--trust local --states 4 --actions 2 --horizon 6 --episodes 20 --pooled --delta 0 --json"
    chosen = f"--calibration paper --mechanism laplace:scale=3H --epsilon {claimed}"
    assert main(["certify", *options.split(), *chosen.split()]) == 0
    plain = json.loads(capsys.readouterr().out)["certificate"]
    found = Certificate.from_dict(plain)
    said = parts(found.describe())
    assert not found.holds
    assert "promise" not in said
    assert said["FALSE"] == f"Epsilon {claimed} is claimed and does not hold; what is certified: epsilon {held}."
    assert f"(epsilon {held}) (LDP)." in said["holds"]
    assert f"a group of 2: epsilon {2 * float(held):g}, delta 0." in said["protected"]
    assert f"the factor {shown_up(math.exp(float(held)), 3)} " in said["holds"]
    assert found.claim.promise not in found.words
    assert [round(group["epsilon"], 6) for group in plain["terms"]["unit"]["groups"]] == [
        round(size * float(held), 6) for size in (2, 10)
    ]
    assert found.derived() == found
    weak = [line for line in found.warnings if f"Epsilon {held} is weak" in line]
    assert len(weak) == (float(held) > 5.0)


def test_where_nothing_is_certified_nothing_is_promised() -> None:
    certificate = study("central").parts().certificate
    claim = replace(certificate.claim, delta=0.0)  # Gaussian noise is never pure
    found = certify(certificate.events, (), claim, calibration="tight").under(certificate.terms)
    said = parts(found.describe())
    assert math.isinf(found.epsilon)
    assert said["FALSE"] == "Epsilon 1 is claimed and does not hold; what is certified: nothing."
    assert not {"promise", "holds", "protected"} & set(said)
    assert [group["epsilon"] for group in found.terms.unit["groups"]] == [None, None]
    assert Certificate.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("shuffle")])
def test_devices_that_are_counted_on_are_those_the_noise_is_calibrated_for(name):
    """Noise is calibrated for the least number: a warning about the number wanted contradicts the design."""
    design = study(name)
    found = design.parts().certificate
    smallest = min(design.parts().channels, key=lambda one: one.honest)
    devices = {"honest": smallest.honest, "min": smallest.least, "max": smallest.target}
    assert found.terms.noise_devices == devices
    silent = [line for line in found.warnings if "silent" in line]
    assert len(silent) == (smallest.honest == smallest.least)
    if silent:
        assert f"all {smallest.honest} devices" in silent[0]
        assert (f"has {smallest.least} of {smallest.target}" in silent[0]) == (smallest.least < smallest.target)
    # The warning is true: with the noise of one device less, the accountant finds more than the claim.
    tight = smallest.honest == smallest.least
    fewer = replace(smallest, honest=smallest.honest - 1, claim=replace(smallest.claim, epsilon=2.0)).events()
    if tight and design.unit.one:
        assert epsilon_of(fewer, design.delta) > design.epsilon >= epsilon_of(smallest.events(), design.delta)


# who learns what


@pytest.mark.parametrize("name", STUDIES)
def test_the_table_of_collusion_is_what_the_design_leaves(name):
    """Each number by the accountant, from the channel with the noise of those who do not collude."""
    design = study(name)
    made = design.parts()
    found = {one.parties: one.left for one in made.certificate.coalitions}
    kinds = [kind for kind, (trust, _) in KINDS.items() if trust == design.trust]
    assert {kind for left in found.values() for kind in left} == set(kinds)
    for kind in kinds:  # whoever breaks the claim by listening has a line of their own
        for some in breaches(kind, active=False):
            assert kind in found[some]
    worst = made.certificate.epsilon
    for some, left in found.items():
        for kind, pair in left.items():
            for active, epsilon in zip((False, True), pair, strict=True):
                reached = reach(some, kind, active=active)
                if design.trust != "shuffle" or reached == "release":
                    assert epsilon == (float("inf") if reached == "data" else worst), (some, kind, active)
                    continue
                low, high = alone(design, 1 if reached == "message" else None)
                assert low * (1 - 1e-9) <= epsilon <= high * (1 + 1e-9), (some, kind, active)
                assert epsilon >= worst
    text = made.certificate.describe()
    assert ("in brackets" in text) == (design.trust == "shuffle")
    assert ("not sealed" in text) == (design.trust == "shuffle")


def alone(design: StudyDesign, honest: int | None) -> tuple[float, float]:
    """Bounds of a person's epsilon with the noise of one device, or of all honest ones but one.

    Below: without extra blocks, whose price is a slack; above: with extra blocks priced at twice that epsilon.
    """

    def worst(up_to: float, blocks: bool) -> float:
        channels = [
            replace(one, honest=honest or one.honest - 1, claim=replace(one.claim, epsilon=up_to))
            for one in design.parts().channels
        ]
        events = [one.events() if blocks else [e for e in one.events() if e[0].NAME != "slack"] for one in channels]
        return max(epsilon_of(tuple(each) * design.unit.reports, design.delta) for each in events)

    low = worst(1.0, blocks=False)
    return low, worst(2.0 * low, blocks=True) if low < 100.0 else low


def test_parties_that_a_study_does_not_have_are_left_out():
    found = {one.parties: set(one.left) for one in study("shuffle").parts().certificate.coalitions}
    assert found["mixer",] == {"mixed"}
    assert found["issuer",] == {"sealed", "mixed"}
    assert found["learner", "shuffler"] == {"plain", "sealed", "mixed"}
    assert found["learner", "shuffler", "mixer"] == {"mixed"}
    assert {party for some in found for party in some} <= set(PARTIES)


# tacit certify

SIZES = "--states 4 --actions 2 --horizon 6 --episodes 2500 --epsilon 1"


def certified(capsys, words: str) -> str:
    assert main(["certify", *words.split(), *SIZES.split()]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "noise"),
    [
        ("--trust shuffle --delta 1e-6 --batch 1000", "secure"),
        ("--trust local --delta 0", "secure"),
        ("--trust local --delta 1e-6 --mechanism gaussian", "simulation"),
        ("--trust local --delta 1e-6 --mechanism gaussian --noise secure", "secure"),
        ("--trust local --delta 1e-6 --mechanism bounded", "simulation"),
        ("--trust local --delta 0 --calibration paper", "simulation"),
        ("--trust central --delta 1e-6", "simulation"),
        ("--trust central --delta 1e-6 --batch 100 --noise secure", "secure"),
        ("--trust shuffle --delta 1e-6 --batch 1000 --noise simulation", "simulation"),
    ],
)
def test_certify_says_simulation_where_the_noise_is_one_and_nowhere_else(capsys, tmp_path, words, noise):
    out = certified(capsys, words)
    assert ("SIMULATION" in out) == (noise == "simulation")
    assert f"; {noise} noise;" in " ".join(out.split())
    found = json.loads(certified(capsys, f"{words} --json"))["certificate"]
    assert found["terms"]["noise"] == noise
    assert found["release"] == (noise == "secure")
    assert found["statement"] in out
    path = tmp_path / "certified.json"
    path.write_text(certified(capsys, f"{words} --json"))
    assert main(["verify", str(path)]) == 0
    capsys.readouterr()


def test_certify_has_no_holes(capsys):
    out = " ".join(certified(capsys, "--trust shuffle --delta 1e-6 --batch 1000").split())
    for hole in ("batches 0", "public:  users", "none are released", "inf", "None", "[]", "{}"):
        assert hole not in out
    assert "batches 2" in out
    assert "batch sizes public: 1000 users" in out
    weak = " ".join(certified(capsys, "--trust shuffle --delta 1e-3 --batch 1000").split())
    assert "Left to a group of 10: nothing." in weak


@pytest.mark.parametrize(
    "words",
    [
        "--trust local --delta 1e-6 --mechanism bounded --noise secure",
        "--trust local --delta 0 --calibration paper --noise secure",
        "--trust central --delta 1e-6 --mechanism laplace-tree --noise secure",
        "--trust central --delta 1e-6 --feedback bandit --noise secure",
        "--trust local --delta 0 --noise sure",
    ],
)
def test_secure_noise_that_does_not_exist_is_refused(capsys, words):
    assert main(["certify", *words.split(), *SIZES.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
