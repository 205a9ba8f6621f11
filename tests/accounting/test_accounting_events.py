"""Every event of the table keeps the contract: curve, pure epsilon, scaling, form on disk, ledger."""

from __future__ import annotations

import ast
import importlib
import json
import math
import pkgutil
import textwrap
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
import tacit.accounting.events as table
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import basic, delta_of, epsilon_of, gaussian_mu_of, merged, method_of, pure_epsilon_of
from tacit.accounting.events import (
    EVENTS,
    ApproximationEvent,
    BinomialEvent,
    BoundedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    LatticeEvent,
    MirroredEvent,
    PureEvent,
    SampledGaussianEvent,
    UnprotectedEvent,
    event_class,
    event_from_dict,
    event_to_dict,
)
from tacit.accounting.ledger import Ledger
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, UnknownName

SOURCE = Path(tacit.__file__).parent
KINDS = sorted(EVENTS.values(), key=lambda kind: kind.NAME)
EXAMPLE = {
    "binomial": BinomialEvent(bits=1000, probability=0.1, shift=-1),
    "mirrored-binomial": MirroredEvent(bits=1000, probability=0.1, shift=-1),
    "bounded": BoundedEvent(radius=100.0, shift=1.0),
    "gaussian": GaussianEvent(sigma=10.0, shift=1.0),
    "laplace": LaplaceEvent(scale=12.0, shift=2.0, discrete=True),
    "lattice": LatticeEvent(
        bits=5000, probability=0.5, mirrored=False, largest=2, square=12, changed=5, slack_each=1e-10
    ),
    "pure": PureEvent(epsilon=0.25),
    "sampled-gaussian": SampledGaussianEvent(sigma=8.0, norm=1.0, rate=0.1),
    "slack": ApproximationEvent(tv=1e-8, up_to=3.0),
    "unprotected": UnprotectedEvent(),
}
"""One of each kind that costs a little: a row of the table without one stops this file."""
EXAMPLES = [EXAMPLE[kind.NAME] for kind in KINDS]
PROTECTED = [event for event in EXAMPLES if event.PROTECTS]
CURVED = [event for event in EXAMPLES if event.slack() is None]
"""Events with a curve of their own, so with an epsilon at every delta."""
DELTA = 1e-6


def name(event: Event) -> str:
    return event.NAME


def claim(epsilon: float, delta: float = DELTA) -> PrivacyClaim:
    return PrivacyClaim(
        trust="central",
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output="other-users-actions",
    )


def charge(ledger: Ledger, claimed: PrivacyClaim, events: Any) -> None:
    ledger.charge(users=range(5), claim=claimed, events=events, recipient="learner", what="visits", noise="secure")


def test_every_event_has_a_row() -> None:
    modules = [
        importlib.import_module(found.name) for found in pkgutil.iter_modules(table.__path__, table.__name__ + ".")
    ]
    defined = {
        (module.__name__, thing)
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and Event in thing.__mro__ and thing.__module__ == module.__name__
    }
    kinds = {(kind.__module__, kind) for kind in EVENTS.values()}
    assert defined - {(Event.__module__, Event)} == kinds
    assert {key: kind.NAME for key, kind in EVENTS.items()} == {key: key for key in EVENTS}


def test_nobody_asks_an_event_for_its_class() -> None:
    kinds = {kind.__name__ for kind in EVENTS.values()}
    chains = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type"))
        or isinstance(node, ast.match_case)
        if kinds & {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    ]
    assert chains == []


@pytest.mark.parametrize("event", EXAMPLES, ids=name)
def test_json_and_back(event: Event) -> None:
    plain = json.loads(json.dumps(event_to_dict(event), allow_nan=False))
    assert plain["event"] == event.NAME
    again = event_from_dict(plain)
    assert (type(again), again, hash(again)) == (type(event), event, hash(event))
    with pytest.raises(InvalidInput, match="fields"):
        event_from_dict({**plain, "colour": "red"})
    with pytest.raises(InvalidInput, match=event.NAME):
        type(event).from_dict({**plain, "event": "another"})


@pytest.mark.parametrize("event", EXAMPLES, ids=name)
def test_n_times_is_n_written_down(event: Event) -> None:
    together, apart = ((event, 3),), ((event, 1),) * 3
    for delta in (0.0, DELTA):
        assert epsilon_of(together, delta) == epsilon_of(apart, delta)
        assert method_of(together, delta) == method_of(apart, delta)
    assert delta_of(together, 0.5) == delta_of(apart, 0.5)


@pytest.mark.parametrize("event", EXAMPLES, ids=name)
def test_the_curve_agrees_with_the_pure_epsilon_and_with_mu(event: Event) -> None:
    pure, pld = event.pure(), event.pld()
    assert pure > 0
    assert pld.epsilon(0.0) == pytest.approx(float(pure), rel=1e-12)
    assert isinstance(pure, Fraction) or pure == math.inf  # exact, or none at all
    assert epsilon_of(((event, 1),), DELTA) <= pld.epsilon(DELTA)
    square = event.mu_squared()
    if square is not None:
        assert epsilon_of(((event, 1),), DELTA) == pytest.approx(pld.epsilon(DELTA), rel=1e-4)
        assert gaussian_mu_of(((event, 1),)) == pytest.approx(math.sqrt(square), rel=1e-12)


@pytest.mark.parametrize("event", EXAMPLES, ids=name)
def test_scaling_a_change_costs_more_or_is_refused(event: Event) -> None:
    assert event.scaled(1) == event
    refusal, twice = "", event
    try:
        twice = event.scaled(2)
    except NotSupported as error:
        refusal = str(error)
    if refusal:
        assert "PrivacyClaim.group" in refusal
        return
    once, two = (epsilon_of(((one, 1),), DELTA) for one in (event, twice))
    assert two > once or not event.PROTECTS or event.slack() is not None
    assert delta_of(((twice, 1),), 0.2) > delta_of(((event, 1),), 0.2) or not event.PROTECTS
    assert pure_epsilon_of(((twice, 1),)) == 2.0 * pure_epsilon_of(((event, 1),))
    if event.PROTECTS:
        # Group privacy of the accountant's own guarantee is never better than the exact curve of the larger change.
        group = claim(max(once, 0.1)).group(2)
        assert delta_of(((twice, 1),), group.epsilon) <= group.delta
        for factor in (0.0, -1.0, math.nan):
            with pytest.raises(InvalidInput):
                event.scaled(factor)


def test_scaling_is_refused_where_nothing_true_can_be_said() -> None:
    with pytest.raises(InvalidInput, match="whole"):
        PureEvent(epsilon=0.1).scaled(1.5)
    for discrete in (
        LaplaceEvent(scale=9.0, shift=1.0, discrete=True),
        GaussianEvent(sigma=9.0, shift=1.0, discrete=True),
    ):
        assert discrete.scaled(3).shift == 3.0
        with pytest.raises(InvalidInput, match="whole"):
            discrete.scaled(1.5)
    for event in (EXAMPLE["binomial"], EXAMPLE["sampled-gaussian"]):
        with pytest.raises(NotSupported):
            event.scaled(2)
    assert Fraction(LaplaceEvent(scale=1.0, shift=0.1, discrete=False).scaled(3).shift) >= 3 * Fraction(0.1)


@pytest.mark.parametrize("event", [event for event in CURVED if event.PROTECTS], ids=name)
def test_more_noise_costs_less(event: Event) -> None:
    assert event.noisier(1.0) == event
    assert epsilon_of(((event.noisier(2.0), 1),), DELTA) < 0.7 * epsilon_of(((event, 1),), DELTA)


@pytest.mark.parametrize("event", PROTECTED, ids=name)
def test_moments_are_bounds(event: Event) -> None:
    loss = event.pld().forward
    finite = float((loss.masses * np.exp(loss.losses)).sum())
    assert event.signal() > 0.0
    if math.isfinite(event.signal()) and loss.infinity < 1e-9:
        # (E_P X − E_Q X)² ≤ χ²(P‖Q) Var_Q X and χ²(P‖Q) = E_P[e^ℓ] − 1
        assert event.signal() <= (finite - 1.0) * (1 + 1e-3)


@pytest.mark.parametrize("event", PROTECTED, ids=name)
def test_a_ledger_on_disk_knows_the_event_again(event: Event, tmp_path: Path) -> None:
    events = ((event, 3), (PureEvent(epsilon=0.125), 1))
    claimed = claim(epsilon_of(events, DELTA))
    ledger = Ledger.open(tmp_path / "ledger.db", claimed)
    charge(ledger, claimed, events)
    again = Ledger.load(tmp_path / "ledger.db")
    assert again.entries()[0].events == events
    assert again.spent(0) == ledger.spent(0) == (claimed.epsilon, claimed.delta)
    with pytest.raises(PrivacyBudgetExceeded):
        charge(again, claimed, events)
    assert len(again.entries()) == 1


@pytest.mark.parametrize(
    "event", [event for event in CURVED if event.mu_squared() is None and event.PROTECTS], ids=name
)
def test_charges_of_other_noise_than_gaussian_add_up(event: Event, tmp_path: Path) -> None:
    events = ((event, 1),)
    claimed = claim(epsilon_of(events, DELTA))
    ledger = Ledger.open(tmp_path / "ledger.db", basic([claimed] * 2))
    charge(ledger, claimed, events)
    charge(ledger, claimed, events)
    assert ledger.spent(0) == (basic([claimed] * 2).epsilon, 2 * DELTA)
    with pytest.raises(PrivacyBudgetExceeded):
        charge(ledger, claimed, events)


@pytest.mark.parametrize("event", [event for event in EXAMPLES if not event.PROTECTS], ids=name)
def test_what_protects_nothing_is_recorded_or_over_every_budget(event: Event, tmp_path: Path) -> None:
    events = ((event, 2),)
    free = Ledger.open(tmp_path / "free.db", no_privacy())
    charge(free, no_privacy(), events)
    assert Ledger.load(tmp_path / "free.db").entries()[0].events == events
    limited = Ledger.open(tmp_path / "limited.db", claim(1.0))
    with pytest.raises(PrivacyBudgetExceeded):
        charge(limited, no_privacy(), events)
    with pytest.raises(InvalidInput, match="events must give"):
        charge(limited, claim(1.0), events)


def test_the_form_on_disk_does_not_change(tmp_path: Path) -> None:
    """What earlier versions wrote must be read, and written the same: these lines are theirs."""
    written = [
        ["binomial", {"bits": 1000, "probability": 0.1, "shift": -1}, 2],
        ["bounded", {"radius": 100.0, "shift": 1.0}, 2],
        ["gaussian", {"discrete": False, "shift": 1.0, "sigma": 10.0}, 2],
        ["laplace", {"discrete": True, "scale": 12.0, "shift": 2.0}, 2],
        ["pure", {"epsilon": 0.25}, 2],
        ["unprotected", {}, 2],
    ]
    events = tuple((EXAMPLE[kind], 2) for kind, _, _ in written)
    ledger = Ledger.open(tmp_path / "ledger.db", no_privacy())
    charge(ledger, no_privacy(), events)
    with ledger._journal.transaction() as writer:
        ((text,),) = writer.connection.execute("SELECT body FROM records WHERE kind = 'charge'").fetchall()
    assert json.dumps({"events": written}, sort_keys=True)[1:-1] in text
    assert ledger.entries()[0].events == events


def test_what_costs_nothing_is_dropped_and_nothing_else() -> None:
    still = (
        LaplaceEvent(scale=1.0, shift=0.0, discrete=False),
        GaussianEvent(sigma=1.0, shift=0.0),
        GaussianEvent(sigma=1.0, shift=0.0, discrete=True),
        BinomialEvent(bits=5, probability=0.5, shift=0),
        SampledGaussianEvent(sigma=1.0, norm=0.0, rate=0.5),
        PureEvent(epsilon=0.0),
        ApproximationEvent(tv=0.0, up_to=1.0),
    )
    for event in still:
        assert event.pure() == 0
        assert event.pld().epsilon(DELTA) == 0.0
    moving = tuple((event, 1) for event in EXAMPLES)
    assert merged((*moving, *((event, 9) for event in still))) == moving


def test_a_name_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'sampled-gaussian'"):
        event_from_dict({"event": "sampled-gausian", "sigma": 1.0})
    with pytest.raises(InvalidInput, match="under 'event'"):
        event_from_dict({"sigma": 1.0})


class Impostor(GaussianEvent):
    """Would be written down as Gaussian noise and read again as such."""


class Half:
    """Knows its curve and nothing else."""

    NAME = "half"

    def pld(self) -> object:
        """A curve."""
        return EXAMPLE["pure"].pld()


@pytest.mark.parametrize(
    "stranger", ["noise", None, 1.0, Half(), GaussianEvent], ids=["text", "nothing", "number", "half", "class"]
)
def test_what_is_not_an_event_is_refused_and_never_free(stranger: Any, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", no_privacy())
    for question in (
        lambda: epsilon_of(((stranger, 1),), DELTA),
        lambda: delta_of(((stranger, 1),), 1.0),
        lambda: event_to_dict(stranger),
        lambda: charge(ledger, no_privacy(), ((stranger, 1),)),
    ):
        with pytest.raises(TypeError, match="an event must"):
            question()
    assert ledger.entries() == ()


def test_an_event_is_written_down_only_under_a_name_of_its_own() -> None:
    impostor = Impostor(sigma=1.0, shift=1.0)
    assert epsilon_of(((impostor, 1),), DELTA) == epsilon_of(((GaussianEvent(sigma=1.0, shift=1.0), 1),), DELTA)
    with pytest.raises(TypeError, match="name of its own"):
        event_to_dict(impostor)


STRANGERS = """
    from dataclasses import asdict, dataclass
    from fractions import Fraction
    from tacit.accounting.events import Event
    from tacit.accounting.pld import PLD

    @dataclass(frozen=True)
    class Coin(Event):
        epsilon: float
        NAME = "coin"

        def pld(self): return PLD.from_guarantee(self.epsilon, 0.0)
        def pure(self): return Fraction(self.epsilon)
        def scaled(self, factor): return Coin(self.epsilon * factor)
        def noisier(self, factor): return Coin(self.epsilon / factor)
        def signal(self): return float("inf")

    class Misnamed(Coin):
        NAME = "other"

    class Unfinished(Event):
        NAME = "unfinished"
"""


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another distribution, installed, with its own events."""
    info = tmp_path / "strangers-1.0.dist-info"
    info.mkdir()
    (tmp_path / "strangers_of_the_test.py").write_text(textwrap.dedent(STRANGERS), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n", encoding="utf-8")
    points = {"coin": "Coin", "misnamed": "Misnamed", "unfinished": "Unfinished", "gaussian": "Coin"}
    rows = "".join(f"{key} = strangers_of_the_test:{kind}\n" for key, kind in points.items())
    (info / "entry_points.txt").write_text(f"[{table.ENTRY_POINTS}]\n{rows}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    event_class.cache_clear()
    yield tmp_path
    event_class.cache_clear()


def test_events_of_another_distribution(strangers: Path) -> None:
    coin = event_class("coin")(epsilon=0.5)
    assert event_from_dict(json.loads(json.dumps(event_to_dict(coin)))) == coin
    events = ((coin, 2), (PureEvent(epsilon=0.25), 1))
    assert epsilon_of(events, 0.0) == 1.25
    ledger = Ledger.open(strangers / "ledger.db", claim(1.25))
    charge(ledger, claim(1.25), events)
    assert Ledger.load(strangers / "ledger.db").entries()[0].events == events
    assert event_class("gaussian") is GaussianEvent  # the table comes first
    with pytest.raises(InvalidInput, match="'other'"):
        event_class("misnamed")
    with pytest.raises(TypeError, match="pld"):
        event_class("unfinished")
    with pytest.raises(UnknownName, match="did you mean 'coin'"):
        event_class("coyn")


def test_a_pure_epsilon_is_added_exactly_and_never_believed_below_zero(strangers: Path) -> None:
    coin = event_class("coin")

    class Float(coin):  # type: ignore[misc, valid-type]
        def pure(self) -> float:
            return self.epsilon

    assert Fraction(epsilon_of(((Float(epsilon=0.1), 3),), 0.0)) >= 3 * Fraction(0.1)
    for wrong in (-1.0, math.nan):
        with pytest.raises(InvalidInput, match="from zero on"):
            epsilon_of(((Float(epsilon=wrong), 3),), 0.0)


def test_without_that_distribution_its_ledger_is_refused_not_misread(
    strangers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(strangers / "ledger.db", claim(1.0))
    charge(ledger, claim(1.0), ((event_class("coin")(epsilon=0.5), 2),))
    monkeypatch.undo()
    event_class.cache_clear()
    with pytest.raises(UnknownName, match="'coin'"):
        ledger.spent(0)


def test_unprotected_beside_anything_is_unprotected() -> None:
    for event in PROTECTED:
        events = ((event, 1), (UnprotectedEvent(), 1))
        assert (epsilon_of(events, DELTA), delta_of(events, 50.0)) == (math.inf, 1.0)
        assert method_of(events, DELTA) == "no protection"
