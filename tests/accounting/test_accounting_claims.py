"""Claims: nothing has a default, bad input is refused, and only true implications are claimed."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.claims import LARGEST_DELTA, OUTPUTS, PrivacyClaim, PrivacyUnit, no_privacy
from tacit.errors import InvalidInput, NotSupported

ONE = PrivacyUnit(reports=1, per_stage=1)


def make(**changes: Any) -> PrivacyClaim:
    fields: dict[str, Any] = {
        "trust": "central",
        "epsilon": 1.0,
        "delta": 1e-6,
        "unit": ONE,
        "neighbours": "replace-one",
        "output": "other-users-actions",
    }
    return PrivacyClaim(**(fields | changes))


LDP = make(trust="local", output="every-message")
SDP = make(trust="shuffle", output="shuffled-transcript")
JDP = make()
FINAL = make(output="final-policy")


def test_no_field_has_a_default() -> None:
    complete: dict[str, Any] = {
        "trust": "local",
        "epsilon": 1.0,
        "delta": 0.0,
        "unit": ONE,
        "neighbours": "replace-one",
        "output": "every-message",
    }
    PrivacyClaim(**complete)
    for name in complete:
        with pytest.raises(TypeError, match=name):
            PrivacyClaim(**{key: value for key, value in complete.items() if key != name})
    with pytest.raises(TypeError):
        PrivacyClaim("local", 1.0, 0.0, ONE, "replace-one", "every-message")  # type: ignore[misc]
    with pytest.raises(TypeError, match="reports"):
        PrivacyUnit()  # type: ignore[call-arg]


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, -math.inf, "one", None])
def test_epsilon_must_be_positive_and_finite(epsilon: Any) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        make(epsilon=epsilon)


@pytest.mark.parametrize("delta", [-1e-9, math.nan, math.inf, 1.0, 0.01, 1.001e-3])
def test_delta_must_lie_in_the_private_range(delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        make(delta=delta)


def test_large_delta_takes_an_explicit_override_and_stays_below_one() -> None:
    loose = make(delta=0.1, allow_large_delta=True)
    assert loose.delta == 0.1
    assert PrivacyClaim.from_dict(json.loads(json.dumps(loose.to_dict()))) == loose
    stripped = {key: value for key, value in loose.to_dict().items() if key != "allow_large_delta"}
    with pytest.raises(InvalidInput, match="delta"):
        PrivacyClaim.from_dict(stripped)
    for delta in (1.0, 2.0, math.nan):
        with pytest.raises(InvalidInput, match="delta"):
            make(delta=delta, allow_large_delta=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"trust": "centrall"},
        {"output": "every-message"},
        {"output": "everything"},
        {"neighbours": "add-remove"},
        {"unit": 1},
        {"trust": "none", "output": "nothing-protected"},
        {"trust": "shuffle", "output": "other-users-actions"},
    ],
)
def test_contradictory_claims_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make(**changes)


def test_units_count_reports() -> None:
    for bad in (0, -1, 1.5, True, "one"):
        with pytest.raises(InvalidInput, match="reports"):
            PrivacyUnit(reports=bad, per_stage=1)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="per stage"):
            PrivacyUnit(reports=3, per_stage=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at most the 2 reports"):
        PrivacyUnit(reports=2, per_stage=3)
    with pytest.raises(TypeError, match="per_stage"):
        PrivacyUnit(reports=1)  # type: ignore[call-arg]


def test_a_unit_of_an_earlier_version_is_read_as_any_trajectories() -> None:
    for g in (1, 3):
        plain = JDP.to_dict() | {"unit": {"trajectories": g}}
        read = PrivacyClaim.from_dict(json.loads(json.dumps(plain)))
        assert read == make(unit=PrivacyUnit(reports=g, per_stage=g))
        assert read.to_dict()["unit"] == {"reports": g, "per_stage": g}
    for wrong in ({}, {"reports": 1}, {"reports": 1, "per_stage": 1, "trajectories": 1}, 1, [1, 1]):
        with pytest.raises(InvalidInput, match="unit of a claim"):
            PrivacyUnit.from_dict(wrong)


def _most(unit: PrivacyUnit, stages: int) -> set[tuple[int, ...]]:
    """Every way to spread reports over stages that the unit allows."""
    counts = itertools.product(range(unit.per_stage + 1), repeat=stages)
    return {spread for spread in counts if sum(spread) <= unit.reports}


def test_units_cover_multiply_and_split_as_sets_of_reports_do() -> None:
    units = [PrivacyUnit(reports=g, per_stage=p) for g in (1, 2, 3, 4) for p in range(1, g + 1)]
    for one, other in itertools.product(units, units):
        assert one.covers(other) is (_most(other, 4) <= _most(one, 4))
        # Sums of that many spreads of `other` reach every spread of `one`.
        reached, parts = {(0,) * 4}, one.parts(other)
        for _ in range(parts):
            reached = {tuple(map(sum, zip(a, b, strict=True))) for a in reached for b in _most(other, 4)}
            reached = {spread for spread in reached if spread in _most(one, 4)}
        assert reached == _most(one, 4)
        assert other.times(parts).covers(one)


def test_notions() -> None:
    assert [claim.notion for claim in (LDP, SDP, JDP, FINAL, no_privacy())] == [
        "LDP",
        "SDP",
        "JDP",
        "DP of the final policy",
        "none",
    ]
    assert make(delta=0.0).pure
    assert not JDP.pure


def test_no_privacy_says_so() -> None:
    claim = no_privacy()
    assert claim.epsilon == math.inf
    assert "Nothing is protected" in claim.describe()
    assert claim.to_dict()["epsilon"] == "inf"
    assert json.loads(json.dumps(claim.to_dict(), allow_nan=False))["epsilon"] == "inf"


def test_descriptions_are_one_sentence_and_name_what_matters() -> None:
    for claim, who in ((LDP, "device"), (SDP, "shuffler"), (JDP, "curator"), (FINAL, "policy")):
        words = claim.describe()
        assert words.endswith(").")
        assert words.count(". ") == 0
        assert who in words
        assert "1e-06" in words
        assert "2.72" in words  # e^1
    assert "plus delta" not in make(delta=0.0).describe()
    assert "any 3 reports of the same person:" in make(unit=PrivacyUnit(reports=3, per_stage=3)).describe()
    assert "3 reports of the same person, at most 2 per" in make(unit=PrivacyUnit(reports=3, per_stage=2)).describe()
    assert "3 reports of the same person, at most one per" in make(unit=PrivacyUnit(reports=3, per_stage=1)).describe()
    assert "replacing one trajectory:" in make().describe()
    assert "leaving out" in make(neighbours="zero-out").describe()
    assert "e^1000" in make(epsilon=1000.0).describe()


def test_ldp_implies_sdp_implies_jdp_and_never_the_reverse() -> None:
    # The complete truth table: post-processing (LDP ⇒ SDP ⇒ final policy) and SDP ⇒ JDP: Lemma P11 (implied claims).
    true = {
        ("LDP", "SDP"), ("LDP", "JDP"), ("LDP", "DP of the final policy"),
        ("SDP", "JDP"), ("SDP", "DP of the final policy"),
    }  # fmt: skip
    for one, other in itertools.product((LDP, SDP, JDP, FINAL), repeat=2):
        expected = one is other or (one.notion, other.notion) in true
        assert one.implies(other) is expected, (one.notion, other.notion)
    for claim in (LDP, SDP, JDP, FINAL, no_privacy()):
        assert claim.implies(no_privacy())
        assert not no_privacy().implies(claim) or claim.trust == "none"


def test_implication_needs_every_parameter() -> None:
    assert LDP.implies(make(epsilon=1.1))
    assert not LDP.implies(make(epsilon=0.9))
    assert LDP.implies(make(delta=1e-5))
    assert not LDP.implies(make(delta=0.0))
    group, spread = make(unit=PrivacyUnit(reports=2, per_stage=2)), make(unit=PrivacyUnit(reports=2, per_stage=1))
    assert group.implies(spread)
    assert spread.implies(JDP)
    assert not JDP.implies(spread)
    assert not spread.implies(group)
    zero_out = make(neighbours="zero-out")
    assert JDP.implies(zero_out)
    # Replace = two zero-outs: the parameters would double, so it is not implied, not even at twice the epsilon here.
    assert not zero_out.implies(JDP)
    assert not zero_out.implies(make(epsilon=2.0, delta=1e-5))


claims = st.builds(
    lambda output, epsilon, delta, size, per_stage, neighbours: make(
        trust=next(trust for trust, outputs in OUTPUTS.items() if output in outputs),
        output=output,
        epsilon=math.inf if output == "nothing-protected" else epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=size, per_stage=min(size, per_stage)),
        neighbours=neighbours,
    ),
    st.sampled_from([output for outputs in OUTPUTS.values() for output in outputs]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 1e-6, LARGEST_DELTA]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["replace-one", "zero-out"]),
)


@settings(deadline=None, max_examples=300)
@given(claims, claims, claims)
def test_implication_is_a_partial_order_and_json_keeps_the_claim(
    a: PrivacyClaim, b: PrivacyClaim, c: PrivacyClaim
) -> None:
    assert a.implies(a)
    if a.implies(b) and b.implies(c):
        assert a.implies(c)
    if a.implies(b) and b.implies(a) and "none" not in (a.trust, b.trust):
        assert a == b
    assert PrivacyClaim.from_dict(json.loads(json.dumps(a.to_dict()))) == a


@settings(deadline=None, max_examples=100)
@given(st.floats(1e-6, 30.0), st.floats(1e-15, 1e-3), st.integers(2, 30))
def test_group_privacy_rounds_up_to_the_exact_formula(epsilon: float, delta: float, g: int) -> None:
    with mpmath.workdps(60):
        exact_epsilon = g * mpmath.mpf(epsilon)
        exact_delta = mpmath.mpf(delta) * mpmath.expm1(exact_epsilon) / mpmath.expm1(mpmath.mpf(epsilon))
        if exact_delta > 0.999:
            with pytest.raises(NotSupported, match="group"):
                make(epsilon=epsilon, delta=delta).group(1000)
            return
        person = make(epsilon=epsilon, delta=delta).group(g)
        assert exact_epsilon <= person.epsilon <= exact_epsilon * (1 + mpmath.mpf(2) ** -51)
        assert exact_delta <= person.delta <= exact_delta * (1 + mpmath.mpf(2) ** -40)
    assert person.unit == PrivacyUnit(reports=g, per_stage=g)


def test_group_privacy_composes_and_keeps_pure() -> None:
    pure = make(delta=0.0, epsilon=0.25)
    assert pure.group(6) == pure.group(2).group(3)
    assert pure.group(4).pure
    assert JDP.group(1) == JDP
    assert no_privacy().group(5).unit.reports == 5
    with pytest.raises(InvalidInput):
        JDP.group(0)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"epsilon": 1},
        JDP.to_dict() | {"extra": 1},
        JDP.to_dict() | {"unit": 1},
        JDP.to_dict() | {"unit": {}},
        JDP.to_dict() | {"epsilon": "nan"},
    ],
)
def test_broken_dictionaries_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        PrivacyClaim.from_dict(broken)
