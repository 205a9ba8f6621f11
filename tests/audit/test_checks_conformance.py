"""The shipped suite: every privatizer of the registry passes, every broken twin is caught, and by whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mutants.curator import PlainCentral, central
from mutants.device import HalfTheNoise
from mutants.mutations import MUTATIONS
from mutants.planted import SHAPE, twin
from mutants.shuffle import shuffled
from tacit.audit.conformance import RULES, ConformanceReport, NonConformant, check_privatizer
from tacit.audit.exposure import admitted, exposure, noise_map, own_covariance, stated_exposure
from tacit.errors import TacitError, UnknownName
from tacit.noise.continual.factorization import BufferedToeplitz
from tacit.noise.continual.kary_tree import KaryTree
from tacit.noise.continual.tree import LaplaceTree
from tacit.protocol import Totals
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.table import MECHANISMS, make_privatizer
from tacit.released.counts import CountShape


def configured(trust: str, mechanism: str | None = None, **changes: Any) -> Any:
    """A correct, small privatizer of totals."""
    request: dict[str, Any] = {
        "trust": trust,
        "shape": SHAPE,
        "episodes": 20 if trust == "shuffle" else 16,
        "epsilon": 1.0,
        "delta": 1e-5
        if mechanism in ("gaussian", "factorization", "bounded", "binomial", "mirrored-binomial")
        else 0.0,
        "calibration": None,
        "mechanism": mechanism,
        "users_per_batch": 10 if trust == "shuffle" else 1,
    }
    return make_privatizer(PrivacyRequest(**(request | changes)))


class ScaledNoise(HalfTheNoise):
    """Not a bug by itself: `factor` times the stated noise, for proofs of power."""

    factor = 0.75

    @property
    def parameters(self) -> Any:
        stated = super().parameters
        scaled = stated.outcome._replace(scale=2 * stated.outcome.scale * self.factor)
        return stated._replace(outcome=scaled, transition=scaled)


POOLED = replace(SHAPE, staged=False)
ONE_STEP = CountShape(horizon=1, num_states=2, num_actions=2, staged=True)

# Trust, mechanism, and what is asked for: every mechanism, both calibrations, staged and pooled steps, one step.
CORRECT: list[tuple[str, str, dict[str, Any]]] = [
    ("central", "factorization", {}),
    ("central", "factorization", {"shape": POOLED}),
    ("central", "kary-tree", {}),
    ("central", "kary-tree", {"shape": ONE_STEP}),
    ("central", "laplace-tree", {}),
    ("central", "laplace-tree", {"shape": POOLED, "calibration": "paper"}),
    ("central", "batched", {"episodes": 32}),
    ("central", "batched-factorization", {"delta": 1e-5, "episodes": 32, "shape": POOLED}),
    ("shuffle", "binomial", {}),
    ("shuffle", "binomial", {"shape": POOLED}),
    ("shuffle", "binomial", {"shape": ONE_STEP, "calibration": "paper", "epsilon": 8.0}),
    ("shuffle", "mirrored-binomial", {"epsilon": 8.0}),
    ("local", "subset", {}),
    ("local", "subset", {"shape": POOLED}),
    ("local", "subset", {"shape": ONE_STEP, "epsilon": 3.0}),
    ("local", "oue", {}),
    ("local", "oue", {"shape": POOLED}),
    ("local", "laplace", {}),
    ("local", "laplace", {"shape": POOLED, "calibration": "paper"}),
    ("local", "laplace", {"squares": True}),
    ("local", "gaussian", {"shape": POOLED}),
    ("local", "gaussian", {"calibration": "paper"}),
    ("local", "rr", {}),
    ("local", "rr", {"shape": POOLED, "calibration": "paper"}),
    ("local", "bounded", {"shape": ONE_STEP}),
    ("local", "bounded", {"shape": ONE_STEP, "calibration": "paper"}),
]


def test_the_list_of_correct_ones_leaves_nobody_out() -> None:
    for trust, mechanisms in MECHANISMS.items():
        assert set(mechanisms) == {mechanism for kind, mechanism, _ in CORRECT if kind == trust}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trust", "mechanism", "asked"),
    [
        # Every mechanism once; the same with other shapes and calibrations before a merge.
        pytest.param(*row, marks=() if row[1] not in [other[1] for other in CORRECT[:i]] else pytest.mark.slow)
        for i, row in enumerate(CORRECT)
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_privatizer_of_the_registry_conforms(trust: str, mechanism: str, asked: dict[str, Any]) -> None:
    """False alarms below 1.2e-5 per privatizer (twelve statistical rules, seed fixed); power: the twins below."""
    report = check_privatizer(configured(trust, mechanism, **asked), replicates=100)
    assert isinstance(report, ConformanceReport)
    assert report.name == f"{trust}/{mechanism}"
    assert {"claim", "certificate", "families", "events", "silence", "variance", "independent"} <= set(report.passed)
    assert ("continual" in report.passed) == (trust == "central")
    assert ("messages" in report.passed) == (trust == "shuffle")


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [0.75, 1.25])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_noise_scale_25_percent_off_is_found(mechanism: str, factor: float) -> None:
    kind = type("Scaled", (ScaledNoise,), {"factor": factor})
    with pytest.raises(NonConformant) as caught:
        check_privatizer(twin(kind, configured("local", mechanism)), replicates=150, only=["variance"])
    assert caught.value.rules == {"variance"}
    assert check_privatizer(configured("local", mechanism), replicates=150, only=["variance"]).passed == ("variance",)


@pytest.mark.statistical
def test_a_stream_scale_25_percent_off_is_found() -> None:
    class Quieter(LaplaceTree):
        @property
        def step(self) -> Any:
            inner = super().step
            return lambda params, stream, generator: inner(
                params._replace(scale=0.75 * params.scale), stream, generator
            )

    with pytest.raises(NonConformant, match="stated noise variance"):
        check_privatizer(central(PlainCentral, Quieter), replicates=150, only=["variance"])


@pytest.mark.statistical
def test_correct_privatizers_pass_whatever_the_seed() -> None:
    """Four seeds each: an alarm anywhere has probability below 1e-4, at a false-alarm rate of 1e-6 per rule."""
    rules = ["variance", "independent", "unbiased", "precise", "paths"]
    for privatizer in (
        configured("local", "oue"),
        configured("local", "subset"),
        configured("local", "laplace", shape=POOLED),
    ):
        for seed in range(1, 5):
            check_privatizer(privatizer, seed=seed, replicates=100, only=rules)


def test_controls_conform() -> None:
    """The twins' scaffolding is sound: without a planted bug nothing is found."""
    check_privatizer(central(PlainCentral), only=["spent", "replay", "state", "families", "variance", "independent"])
    check_privatizer(shuffled(ShuffleRelease), only=["messages", "batch size", "events"])
    check_privatizer(twin(type(configured("local", "rr")), configured("local", "rr")), only=["families", "events"])


def test_a_privatizer_without_a_claim_is_told_so() -> None:
    class Nameless:
        name = "nameless"
        shape = SHAPE

    with pytest.raises(NonConformant, match="unknown type of query"):
        check_privatizer(Nameless())  # type: ignore[arg-type]
    Nameless.answers = Totals  # type: ignore[attr-defined]
    with pytest.raises(NonConformant) as caught:
        check_privatizer(Nameless())  # type: ignore[arg-type]
    assert {"claim", "certificate", "families", "variance", "exposed"} <= caught.value.rules
    assert "cannot be checked" in str(caught.value)


def test_shuffle_trust_must_show_its_messages() -> None:
    class Hidden:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            if name in ("protocol", "users_per_batch"):
                raise AttributeError(name)
            return getattr(self.inner, name)

    with pytest.raises(NonConformant) as caught:
        check_privatizer(Hidden(configured("shuffle", "binomial")), only=["messages", "batch size"])
    assert caught.value.rules == {"messages", "batch size"}


def test_trust_none_is_asked_for_manners_only() -> None:
    report = check_privatizer(Unprotected(shape=SHAPE))
    assert "variance" not in report.passed
    assert "state" in report.passed
    assert "conforms" in report.render()


def test_rules_are_named_and_errors_list_them() -> None:
    with pytest.raises(UnknownName, match="did you mean 'families'"):
        check_privatizer(configured("local", "laplace"), only=["familys"])
    bug = MUTATIONS["events forget a family"]
    with pytest.raises(TacitError, match="local/laplace does not conform:\n  events: a linear distinguisher"):
        check_privatizer(bug.plant(), only=list(RULES.keys() - {"batch size", "messages", "continual", "spent"}))


# ------------------------------------------------------------------------------------ what a counter gives away


@pytest.mark.parametrize("steps", [2, 9, 40])
def test_counters_give_away_exactly_what_they_state(steps: int) -> None:
    """The best linear distinguisher of a tree, a k-ary tree and a factorization is what their events say."""
    families = configured("local", "laplace").families()
    for counter in (
        LaplaceTree.calibrate(families, 1.0, 0.0, steps),
        KaryTree.calibrate(families, 1.0, 0.0, steps),
        BufferedToeplitz.calibrate(families, 1.0, 1e-6, steps - 1),
    ):
        covariance = own_covariance(counter, counter.releases)
        assert exposure(covariance) == pytest.approx(stated_exposure(counter), rel=1e-6)
        assert stated_exposure(counter) <= admitted(counter.events(families[0])) * (1 + 1e-9)
        assert noise_map(counter, counter.releases).shape[0] == counter.releases


def test_a_bare_prefix_gives_everything_away() -> None:
    assert exposure(np.array([[0.0, 0.0], [0.0, 1.0]])) == np.inf
