"""From a request to a privatizer: names, defaults, and errors that say what to do."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tacit import run
from tacit.cli import main
from tacit.errors import InvalidInput, NotSupported, TacitError, UnknownName
from tacit.protocol import Totals
from tacit.release.gradient_noise import GradientSpec
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.table import MECHANISMS, PRIVATIZERS, PrivatizerRow, make_privatizer
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import DoseQuery, GradientShape, SoftmaxQuery
from tacit.released.losses import LayeredShape, LossQuery
from tacit.released.moments import MomentQuery, MomentShape
from tacit.released.returns import ReturnQuery
from tacit.released.weighted_returns import WeightQuery, WeightShape

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
    "no states": (
        "central",
        {"shape": CountShape(horizon=2, num_states=0, num_actions=2, staged=True)},
        InvalidInput,
        "states",
    ),
    "another calibration": ("local", {"calibration": "loose"}, InvalidInput, "'tight' or 'paper'"),
    "an epsilon without protection": ("none", {}, InvalidInput, "requires a trust model"),
    "a mechanism without protection": (
        "none",
        {"epsilon": None, "delta": None, "mechanism": "oue"},
        InvalidInput,
        "requires a trust model",
    ),
    "a slot that nobody printed": ("local", {"mechanism": "oue", "calibration": "paper"}, NotSupported, "tight"),
    "a tree that nobody printed": (
        "central",
        {"mechanism": "kary-tree", "calibration": "paper"},
        InvalidInput,
        "leave",
    ),
}


def test_a_shape_without_steps_is_refused() -> None:
    with pytest.raises(InvalidInput, match="horizon"):
        CountShape(horizon=0, num_states=2, num_actions=2, staged=True)


def test_a_mechanism_of_another_trust_model_is_refused_by_every_trust_model() -> None:
    for trust, other in (("central", "laplace"), ("shuffle", "laplace"), ("local", "binomial")):
        with pytest.raises(UnknownName, match=f"mechanism of trust '{trust}'"):
            make_privatizer(request(trust, mechanism=other, delta=1e-6))


@pytest.mark.parametrize(
    ("asks", "trust", "words"),
    [
        (BatchQuery, "local", "counts of single batches: released under trust none, central or shuffle, not local"),
        (LossQuery, "shuffle", "counts and losses: released under trust none, central or local, not shuffle"),
        (SoftmaxQuery, "local", "the gradient at a softmax policy: released under trust none or central, not local"),
        (DoseQuery, "shuffle", "trust none or central, not shuffle"),
        (ReturnQuery, "central", "one bit about returns: released under trust none or local, not central"),
    ],
)
def test_a_missing_pair_names_the_trust_models_that_answer(asks: Any, trust: Any, words: str) -> None:
    with pytest.raises(NotSupported, match=words):
        make_privatizer(request(trust, asks=asks, delta=1e-6))


def test_every_pair_of_the_table_answers_its_query_under_its_trust_model() -> None:
    layered = LayeredShape(horizon=1, pairs=2, pair_of=(0, 1))
    needs: dict[Any, dict[str, Any]] = {
        Totals: {},
        BatchQuery: {},
        ReturnQuery: {},
        LossQuery: {"shape": layered, "feedback": "full"},
        SoftmaxQuery: {"shape": GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=4)},
        MomentQuery: {"shape": MomentShape(features=2, actions=2, shared=False)},
        WeightQuery: {"shape": WeightShape(shares=(256,))},
        DoseQuery: {"shape": GradientShape(horizon=1, num_states=2, num_actions=0, staged=True, dimension=2)},
    }
    for asks, trust in PRIVATIZERS:
        claimed = {"epsilon": None, "delta": None} if trust == "none" else {"delta": 1e-6}
        made = make_privatizer(
            request(trust, asks=asks, gradient=GradientSpec(clip=1.0, tabular=False), **claimed, **needs[asks])
        )
        assert made.claim.trust == trust
        assert made.answers is asks


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
    assert (claim.neighbours, claim.unit.reports, claim.output) == ("replace-one", 1, "every-message")


def test_equal_requests_share_their_calibration() -> None:
    """Calibrations are remembered: the second is the same object."""
    assert make_privatizer(request("shuffle", delta=1e-6)) is make_privatizer(request("shuffle", delta=1e-6))


def test_an_explicit_override_allows_a_large_delta() -> None:
    made = make_privatizer(request("local", mechanism="gaussian", delta=0.01, allow_large_delta=True))
    assert made.claim.delta == 0.01
    assert made.certificate().holds


# -------------------------------------------------------------------------------- a privatizer of another package


def double_noise(asked: PrivacyRequest) -> Any:
    """Central counters with the noise of half the epsilon."""
    return make_privatizer(replace(asked, trust="central", mechanism="kary-tree", epsilon=(asked.epsilon or 1.0) / 2))


TOY = PrivatizerRow(name="toy-central", trust="central", answers=Totals, build=double_noise, summary="twice the noise")
LIAR = PrivatizerRow(name="liar", trust="local", answers=Totals, build=double_noise, summary="claims the wrong trust")


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that registers these privatizers, for one test."""
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    here = "toy_privatizers"
    lines = f"toy-central = {here}:TOY\nliar = {here}:LIAR\nmisnamed = {here}:TOY\n"
    (info / "entry_points.txt").write_text(f"[tacit.privatizers]\n{lines}")
    module = ModuleType(here)
    module.TOY, module.LIAR = TOY, LIAR  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, here, module)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("foreign")
def test_a_foreign_privatizer_is_chosen_by_the_name_of_its_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    """In the table, in a whole run, in certify and in list."""
    plain, made = (make_privatizer(request("central", mechanism=name)) for name in ("kary-tree", "toy-central"))
    assert made.noise_std()["rewards"] > 1.9 * plain.noise_std()["rewards"]
    found = run(
        environment="riverswim:states=2,horizon=2", learner="ucbvi", episodes=20, seeds=1, workers=1, trust="central",
        epsilon=1.0, delta=0.0, mechanism="toy-central",
    )  # fmt: skip
    assert found.claim.epsilon == 0.5
    asked = "certify --trust central --states 2 --actions 2 --horizon 2 --episodes 20 --epsilon 1 --delta 0"
    assert main([*asked.split(), "--mechanism", "toy-central"]) == 0
    assert "no paper prints toy-central" in capsys.readouterr().out
    assert main(["list", "privatizers"]) == 0
    assert "twice the noise" in capsys.readouterr().out


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize(
    ("trust", "mechanism", "asks", "error", "words"),
    [
        ("local", "toy-central", Totals, NotSupported, "answers running totals under trust 'central'; it was asked"),
        ("central", "toy-central", LossQuery, NotSupported, "asked for counts and losses under trust 'central'"),
        ("local", "liar", Totals, InvalidInput, "must claim the trust and answer the queries of its row"),
        ("central", "misnamed", Totals, InvalidInput, "must be a PrivatizerRow of this name"),
        ("central", "toy-centrall", Totals, UnknownName, "mechanism of trust 'central'"),
    ],
)
def test_a_foreign_privatizer_is_what_its_row_says_or_refused(
    trust: Any, mechanism: str, asks: Any, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        make_privatizer(request(trust, mechanism=mechanism, asks=asks))
