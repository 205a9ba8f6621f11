"""From a request to a privatizer: names, defaults, and errors that say what to do."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.errors import InvalidInput, NotSupported, TacitError, UnknownName
from tacit.privatizers.registry import MECHANISMS, PrivacyRequest, make_claim, make_privatizer
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)


def request(trust: Any, **changes: Any) -> PrivacyRequest:
    asked: dict[str, Any] = {
        "trust": trust, "shape": SHAPE, "episodes": 100, "epsilon": 1.0, "delta": 0.0, "calibration": None,
        "mechanism": None, "users_per_batch": 20 if trust == "shuffle" else 1,
    }  # fmt: skip
    return PrivacyRequest(**(asked | changes))


REFUSED = {
    "an epsilon that is missing": ("local", {"epsilon": None}, InvalidInput, "needs an epsilon"),
    "a delta that is missing": ("local", {"delta": None}, InvalidInput, "needs a delta, which has no default"),
    "an epsilon of zero": ("local", {"epsilon": 0.0}, InvalidInput, "epsilon"),
    "an epsilon that is no number": ("central", {"epsilon": math.nan}, InvalidInput, "epsilon"),
    "an infinite epsilon": ("shuffle", {"epsilon": math.inf, "delta": 1e-6}, InvalidInput, "trust 'none'"),
    "a large delta": ("local", {"delta": 0.01}, InvalidInput, "allow_large_delta"),
    "a negative delta": ("local", {"delta": -1e-6}, InvalidInput, "delta"),
    "gaussian noise at delta 0": ("local", {"mechanism": "gaussian", "delta": 0.0}, NotSupported, "or use subset"),
    "bounded noise without a delta": ("local", {"mechanism": "bounded"}, NotSupported, "never pure"),
    "factorization at delta 0": ("central", {"mechanism": "factorization"}, NotSupported, "or use kary-tree"),
    "shuffling at delta 0": ("shuffle", {}, NotSupported, "choose trust central or local"),
    "a misspelt mechanism": ("local", {"mechanism": "laplase"}, UnknownName, "did you mean 'laplace'"),
    "a mechanism of another trust model": ("central", {"mechanism": "oue"}, UnknownName, "Known: .*kary-tree"),
    "a misspelt trust model": ("centrall", {}, UnknownName, "did you mean 'central'"),
    "a batch larger than the run": ("shuffle", {"users_per_batch": 101, "delta": 1e-6}, InvalidInput, "larger than"),
    "a batch of one": ("shuffle", {"users_per_batch": 1, "delta": 1e-6}, InvalidInput, "more than one user"),
    "an empty batch": ("central", {"users_per_batch": 0}, InvalidInput, "users_per_batch"),
    "no episodes": ("local", {"episodes": 0}, InvalidInput, "episodes"),
    "no steps": (
        "local",
        {"shape": CountShape(horizon=0, num_states=2, num_actions=2, staged=True)},
        InvalidInput,
        "horizon",
    ),
    "no states": (
        "central",
        {"shape": CountShape(horizon=2, num_states=0, num_actions=2, staged=True)},
        InvalidInput,
        "states",
    ),
    "another calibration": ("local", {"calibration": "loose"}, InvalidInput, "'tight' or 'paper'"),
    "an epsilon without protection": ("none", {}, InvalidInput, "makes no sense"),
    "a mechanism without protection": (
        "none",
        {"epsilon": None, "delta": None, "mechanism": "oue"},
        InvalidInput,
        "makes no sense",
    ),
    "a slot that nobody printed": ("local", {"mechanism": "oue", "calibration": "paper"}, NotSupported, "tight"),
    "a tree that nobody printed": (
        "central",
        {"mechanism": "kary-tree", "calibration": "paper"},
        InvalidInput,
        "leave",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused_in_words(name: str) -> None:
    trust, changes, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words) as caught:
        make_privatizer(request(trust, **changes))
    assert isinstance(caught.value, TacitError)


@pytest.mark.parametrize(
    ("trust", "delta", "calibration", "name"),
    [
        ("central", 1e-6, None, "central/factorization"),
        ("central", 0.0, None, "central/kary-tree"),
        ("central", 1e-6, "paper", "central/laplace-tree"),
        ("central", 0.0, "paper", "central/laplace-tree"),
        ("shuffle", 1e-6, None, "shuffle/binomial"),
        ("shuffle", 1e-6, "paper", "shuffle/binomial"),
        ("local", 0.0, None, "local/subset"),
        ("local", 0.0, "paper", "local/laplace"),
    ],
)
def test_defaults(trust: str, delta: float | None, calibration: str | None, name: str) -> None:
    made = make_privatizer(request(trust, delta=delta, calibration=calibration))
    assert made.name == name
    assert made.calibration == (calibration or "tight")
    assert made.claim == make_claim(request(trust, delta=delta))


@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_every_tight_mechanism_meets_its_claim_and_no_less_noise_would(trust: Any) -> None:
    """The certificate is at most the claim, and within one percent of it (k-ary trees, bits: within rounding)."""
    for mechanism in MECHANISMS[trust]:
        made = make_privatizer(request(trust, mechanism=mechanism, delta=1e-5))
        found = made.certificate()
        assert found.holds
        assert 0.99 <= found.epsilon <= 1.0, mechanism
        assert found.paper_says is None
        assert {family.name for family in found.families} == {family.name for family in made.families()}


def test_a_paper_calibration_says_what_the_paper_prints() -> None:
    for trust, mechanism, delta in (("local", "gaussian", 1e-5), ("central", None, 0.0), ("shuffle", None, 1e-6)):
        found = make_privatizer(request(trust, mechanism=mechanism, delta=delta, calibration="paper")).certificate()
        assert found.calibration == "paper"
        assert found.paper_says


def test_a_claim_has_no_defaults_but_is_complete() -> None:
    claim = make_claim(request("local"))
    assert (claim.trust, claim.epsilon, claim.delta) == ("local", 1.0, 0.0)
    assert (claim.neighbours, claim.unit.trajectories, claim.output) == ("replace-one", 1, "every-message")


def test_equal_requests_share_their_calibration() -> None:
    """Calibrations are remembered: the second is the same object."""
    assert make_privatizer(request("shuffle", delta=1e-6)) is make_privatizer(request("shuffle", delta=1e-6))


def test_an_explicit_override_allows_a_large_delta() -> None:
    made = make_privatizer(request("local", mechanism="gaussian", delta=0.01, allow_large_delta=True))
    assert made.claim.delta == 0.01
    assert made.certificate().holds
