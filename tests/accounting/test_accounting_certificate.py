"""Certificates: the accountant's number, honest words about false claims, and what collusion costs."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from tacit._version import __version__
from tacit.accounting.calibrate import events_of
from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import BinomialEvent, GaussianEvent, LaplaceEvent, PureEvent, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.errors import InvalidInput
from tacit.noise.binomial import Binomial, paper_binomial
from tacit.noise.gaussian import Gaussian, paper_gaussian_sigma
from tacit.runs.verify import check_certificate

H = 6
THREE = tuple(Family(name=name, up=H, down=H, shift=1.0) for name in ("transitions", "visits", "rewards"))
# Aggregated over steps (local release): a user may sit in one cell all the time.
LOCAL = (
    Family(name="rewards", up=1, down=1, shift=float(H)),
    Family(name="visits", up=1, down=1, shift=float(H)),
    Family(name="transitions", up=1, down=1, shift=float(H - 1)),
)
OUTPUT = {"central": "other-users-actions", "shuffle": "shuffled-transcript", "local": "every-message"}


def claim(trust: Any = "shuffle", epsilon: float = 1.0, delta: float = 1e-6) -> PrivacyClaim:
    return PrivacyClaim(
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUT[trust],  # type: ignore[arg-type]
    )


def shuffled(mechanism: Binomial, **changes: Any) -> Certificate:
    families = [CertifiedFamily.of(family, noise="binomial", std=mechanism.std) for family in THREE]
    return certify(events_of(mechanism, THREE), families, claim(), **({"calibration": "tight"} | changes))


def test_the_printed_shuffle_noise_is_certified_with_its_true_epsilon() -> None:
    # Verdict table, rows 1 and 2: 0.063 (v1) and 0.055 (v2) at n = 1000, in under 5 s.
    began = time.process_time()
    first = shuffled(paper_binomial(H, 1.0, 1e-6, users=1000), calibration="paper", paper_says="(1, 1e-6)-SDP")
    second = shuffled(paper_binomial(H, 1.0, 1e-6, users=1000, cells=H * 4 * 2), calibration="paper")
    assert time.process_time() - began < 5.0
    assert first.epsilon == pytest.approx(0.0628, rel=2e-3)
    assert second.epsilon == pytest.approx(0.0554, rel=2e-3)
    assert first.holds
    assert "is true" in first.verdict
    assert "15.9 times stronger" in first.verdict
    assert first.method == "PLD (FFT, pessimistic)"


def test_a_false_printed_guarantee_is_called_false() -> None:
    # Verdict table, row 14: the proved constant of the Gaussian claims (1, 1e-5) and gives 1.14.
    mechanism = Gaussian(sigma=paper_gaussian_sigma(H, 1.0, 1e-5, proved_constant=True))
    certificate = certify(
        events_of(mechanism, LOCAL), (), claim("local", delta=1e-5), calibration="paper", paper_says="(1, 1e-5)-LDP"
    )
    assert certificate.epsilon == pytest.approx(1.144, abs=1e-3)
    assert not certificate.holds
    assert "The printed guarantee ((1, 1e-5)-LDP) is FALSE" in certificate.verdict
    assert "1.144" in certificate.verdict
    assert certificate.verdict in certificate.words
    assert certificate.verdict in " ".join(certificate.describe().split())


def test_a_pure_guarantee_in_print_is_judged_as_pure() -> None:
    # Verdict table, row 11: bandit feedback prints 1-LDP (pure); it is really 2.00, and 1.37 at delta 1e-6.
    scale = 3.0 * H
    events = ((LaplaceEvent(scale=scale, shift=1.0, discrete=False), 6 * H),)
    certificate = certify(events, (), claim("local"), calibration="paper", paper_says="1-LDP", paper_delta=0.0)
    assert certificate.epsilon == pytest.approx(1.37, abs=5e-3)
    assert not certificate.holds
    assert certificate.printed is not None
    assert certificate.paper_says == "1-LDP"
    assert certificate.printed.certified == pytest.approx(2.0, rel=1e-12)
    assert not certificate.printed.true
    assert "The printed guarantee (1-LDP) is FALSE" in certificate.verdict
    assert "The claim is FALSE" in certificate.verdict
    assert Certificate.from_dict(json.loads(json.dumps(certificate.to_dict()))) == certificate


def test_a_claim_may_be_true_where_the_print_is_false() -> None:
    # Row 9: the same noise in a tree of 14 levels prints 1-JDP; pure it is 2.00, at delta 1e-6 the claim of 1 is true.
    tree = LaplaceEvent(scale=3.0 * H * 14, shift=1.0, discrete=False)
    loss = LaplaceEvent(scale=3.0 * H, shift=1.0, discrete=False)
    events = ((tree, 4 * H * 14), (loss, 2 * H))
    certificate = certify(events, (), claim("central"), calibration="paper", paper_says="1-JDP", paper_delta=0.0)
    assert certificate.epsilon == pytest.approx(0.766, abs=2e-3)
    assert certificate.holds
    assert "The claim is true" in certificate.verdict
    assert (
        "The printed guarantee (1-JDP) is FALSE: the accountant certifies no better than epsilon 2 "
        in certificate.verdict
    )


def test_half_the_noise_and_half_the_count_are_caught() -> None:
    honest = Binomial.calibrate(THREE, 1.0, 1e-6)
    assert shuffled(honest).holds
    assert not shuffled(Binomial(bits=honest.bits // 4, probability=0.5)).holds
    # H instead of 2H differing counters per family: calibrated for half of what a replaced user changes.
    wrong = Binomial.calibrate([Family(name="half", up=3 * H // 2, down=3 * H // 2, shift=1.0)], 1.0, 1e-6)
    assert not shuffled(wrong).holds
    # A forgotten family.
    assert not shuffled(Binomial.calibrate(THREE[:2], 1.0, 1e-6)).holds


def test_collusion_is_said_for_every_trust_model() -> None:
    events = ((GaussianEvent(sigma=50.0, shift=1.0), 2),)
    words = {trust: certify(events, (), claim(trust), calibration="tight").collusion for trust in OUTPUT}
    assert "nothing is protected" in words["shuffle"]
    assert "curator sees everything" in words["central"]
    assert "changes nothing" in words["local"]
    floor = certify(events, (), claim("shuffle"), calibration="tight", local_epsilon=8.0)
    assert "epsilon 8" in floor.collusion
    assert "nothing is protected" not in floor.collusion


def test_no_privacy_certifies_nothing() -> None:
    certificate = certify(((UnprotectedEvent(), 1),), (), no_privacy(), calibration="none")
    assert certificate.epsilon == math.inf
    assert certificate.method == "no protection"
    assert "none is given" in certificate.verdict
    assert Certificate.from_dict(json.loads(json.dumps(certificate.to_dict(), allow_nan=False))) == certificate
    exposed = certify(((UnprotectedEvent(), 1),), (), claim(), calibration="none")
    assert not exposed.holds
    assert "FALSE" in exposed.verdict


def test_the_curve_is_monotone_and_contains_the_point() -> None:
    certificate = shuffled(Binomial.calibrate(THREE, 1.0, 1e-6))
    deltas, epsilons = zip(*certificate.curve, strict=True)
    assert list(deltas) == sorted(deltas)
    assert list(epsilons) == sorted(epsilons, reverse=True)
    assert (certificate.delta, certificate.epsilon) in certificate.curve
    assert epsilons[0] == math.inf  # binomial noise has no pure guarantee


def test_families_carry_sensitivities_and_noise() -> None:
    certificate = shuffled(Binomial(bits=2600, probability=0.5))
    visits = certificate.families[1]
    assert (visits.name, visits.l1, visits.differing, visits.noise) == ("visits", 12.0, 12, "binomial")
    assert visits.l2 == pytest.approx(math.sqrt(12))
    assert visits.std == pytest.approx(math.sqrt(650))


def test_json_keeps_the_certificate_and_refuses_other_words() -> None:
    certificate = shuffled(Binomial(bits=2600, probability=0.5), calibration="paper", paper_says="something")
    plain = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert Certificate.from_dict(plain) == certificate
    lie = {"printed": plain["printed"] | {"true": not plain["printed"]["true"]}}
    for change in ({"holds": False}, {"verdict": "fine"}, {"epsilon": 0.5}, lie):
        with pytest.raises(InvalidInput):
            Certificate.from_dict(plain | change)
    with pytest.raises(InvalidInput):
        Certificate.from_dict({key: value for key, value in plain.items() if key != "method"})


def test_the_text_says_it_for_people_first_and_for_experts_below_a_line() -> None:
    text = shuffled(Binomial(bits=2600, probability=0.5)).describe()
    people, rule, experts = text.partition("\n-----------\n")
    assert rule
    assert [line.split()[0] for line in people.splitlines() if line[0] != " "] == [
        "PRIVACY", "promise", "trusted", "broken", "checked"
    ]  # fmt: skip
    for part in ("can hardly tell", "the shuffler", "collude", "is true"):
        assert part in people
    experts = " ".join(experts.split())
    for part in ("replace-one", "PLD", "visits 25.495 (L1 12, L2 3.4641, 12 counters)", "none at 0"):
        assert part in experts
        assert part not in people
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 118


def test_printed_numbers_never_promise_more_than_certified() -> None:
    # 34/36 = 0.94444...: four digits would round down to 0.9444.
    events = ((LaplaceEvent(scale=36.0, shift=1.0, discrete=False), 34),)
    assert "epsilon 0.9445 at" in certify(events, (), claim("local", delta=0.0), calibration="tight").describe()
    exact = ((LaplaceEvent(scale=34.0, shift=1.0, discrete=False), 34),)
    assert "epsilon 1 at" in certify(exact, (), claim("local", delta=0.0), calibration="tight").describe()


def test_bad_input() -> None:
    events = ((BinomialEvent(bits=100, probability=0.5, shift=1), 1),)
    with pytest.raises(InvalidInput, match="calibration"):
        certify(events, (), claim(), calibration="loose")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="paper"):
        certify(events, (), claim(), calibration="tight", paper_says="x")
    with pytest.raises(InvalidInput, match="local_epsilon"):
        certify(events, (), claim(), calibration="tight", local_epsilon=-1.0)


def test_the_words_of_earlier_versions_are_derived_anew_and_those_of_this_one_compared() -> None:
    """Up to 0.8.0 the statement was one paragraph, and the line about shuffle trust did not speak of seals."""
    made = certify(((PureEvent(epsilon=0.5), 1),), (), claim(), calibration="tight")
    plain = json.loads(json.dumps(made.to_dict()))
    before = {**plain, "collusion": "If learner and shuffler collude, nothing is protected.", "statement": "One line."}
    assert Certificate.from_dict(before) == made
    assert Certificate.from_dict(before).to_dict() == made.to_dict()
    assert check_certificate(plain, made, __version__) == []
    found = [line.partition(" is ")[0] for line in check_certificate(before, made, __version__)]
    assert found == ["certificate.collusion", "certificate.statement"], "which is why it is not verified here"
    for name in ("collusion", "verdict", "statement"):
        with pytest.raises(InvalidInput, match="words must follow"):
            Certificate.from_dict({**plain, name: f"{plain[name]}\n"})


def test_people_in_other_stages_count_at_every_delta() -> None:
    """The curve is the largest of all exposures: where `others` cost more, epsilon, curve and verdict say so."""
    small, large = (((GaussianEvent(sigma=sigma, shift=1.0), 1),) for sigma in (8.0, 2.0))
    alone, both = (certify(small, (), claim(), calibration="tight", others=others) for others in ((), (large,)))
    worst = certify(large, (), claim(), calibration="tight")
    assert alone.holds
    assert not both.holds
    assert both.epsilon == worst.epsilon == epsilon_of(large, 1e-6)
    assert both.curve == worst.curve
    assert all(more >= less for (_, more), (_, less) in zip(both.curve, alone.curve, strict=True))
    assert both.derived() == both
