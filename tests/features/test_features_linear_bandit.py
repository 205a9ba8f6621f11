"""`tacit.LinearBandit`: what it learns, what it refuses, what it charges, and that its files verify."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import tacit
from tacit.accounting.ledger import Ledger
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, PrivacyViolation
from tacit.planning.linear_posterior import linear_posterior
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.study.feature_learning import deal_rows, read_rows

SPACE = tacit.Features(age=(18, 90), tired=bool, ward=["a", "b"])
ACTIONS = ("wait", "walk")
COLUMNS: dict[str, Any] = {"action": "given", "reward": "points"}


def made(**changed: Any) -> tacit.LinearBandit:
    asked: dict[str, Any] = {
        "actions": ACTIONS, "features": SPACE, "reward": (0, 10), "trust": "central", "epsilon": 1.0, "delta": 1e-6,
        "reports_per_person": 1,
    }  # fmt: skip
    return tacit.LinearBandit(**{**asked, **changed})


def log(n: int = 6000, seed: int = 0) -> dict[str, np.ndarray]:
    """Walking is good for those who are not tired, waiting for the others."""
    rng = np.random.default_rng(seed)
    tired, walk = rng.random(n) < 0.5, rng.random(n) < 0.5
    chance = np.where(walk != tired, 0.8, 0.3)
    return {
        "age": rng.uniform(18, 90, n), "tired": tired, "ward": rng.choice(["a", "b"], n),
        "given": np.where(walk, "walk", "wait"), "points": 10.0 * (rng.random(n) < chance), "who": np.arange(n),
        "p": np.full(n, 0.5),
    }  # fmt: skip


def seeded(seed: int = 1) -> SimulationNoise:
    return SimulationNoise(np.random.default_rng(seed))


def test_it_learns_and_its_certificate_is_about_people() -> None:
    rows = log()
    bandit = made().fit(rows, person="who", propensity="p", **COLUMNS)
    best = np.where(rows["tired"], "wait", "walk")
    assert (bandit.predict(rows) == best).mean() > 0.95
    certificate = bandit.certificate_
    assert certificate.holds
    assert certificate.release
    assert 0.99 < certificate.epsilon <= 1.0
    assert certificate.claim.trust == "central"
    assert certificate.terms is not None
    assert certificate.terms.sizes == {
        "features": 5, "actions": 2, "episodes": 6000, "users_per_batch": 6000, "batches": 1,
    }  # fmt: skip
    assert bandit.coef_.shape == (2, 5)
    assert bandit.intervals_.shape == (2, 5, 2)
    low, high = bandit.intervals_[..., 0], bandit.intervals_[..., 1]
    assert ((low <= bandit.coef_) & (bandit.coef_ <= high) & (low < high - 0.5)).all()
    values = bandit.decision_function(rows)
    assert abs(values[np.arange(6000), (~rows["tired"]).astype(int)].mean() - 8.0) < 0.5
    np.testing.assert_allclose(values, bandit.intercept_ + SPACE.encode(rows) @ bandit.coef_.T)


def test_probabilities_are_those_of_the_public_draws() -> None:
    bandit = made().fit(log(400), noise=seeded(), **COLUMNS)
    rows = log(50, seed=3)
    greedy, explored = bandit.predict_proba(rows), bandit.predict_proba(rows, explore=True)
    assert set(np.unique(greedy)) == {0.0, 1.0}
    np.testing.assert_array_equal(bandit.classes_[greedy.argmax(axis=1)], bandit.predict(rows))
    np.testing.assert_allclose(explored.sum(axis=1), 1.0)
    assert np.isin(explored * 32, np.arange(33)).all()
    assert ((explored > 0.0) & (explored < 1.0)).any()
    np.testing.assert_array_equal(explored, bandit.predict_proba(rows, explore=True))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "numpy", "list"])
def test_every_frame_gives_the_same_release(kind: str) -> None:
    rows = log(300)
    frame = pandas.DataFrame(rows)
    forms: dict[str, Callable[[], Any]] = {
        "pandas": lambda: frame, "polars": lambda: polars.from_pandas(frame), "list": lambda: frame.to_dict("records"),
        "arrow": lambda: pyarrow.Table.from_pandas(frame, preserve_index=False),
        "numpy": lambda: frame.astype({"ward": "U1", "given": "U4"}).to_records(index=False, column_dtypes={
            "ward": "U1", "given": "U4"}),
    }  # fmt: skip
    one = made().fit(rows, person="who", noise=seeded(), **COLUMNS)
    other = made().fit(forms[kind](), person="who", noise=seeded(), **COLUMNS)
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_parameters_are_those_of_other_estimators() -> None:
    bandit = made(fallback="wait")
    params = bandit.get_params(deep=False)
    assert params["features"] is SPACE
    assert params["reports_per_person"] == 1
    # What sklearn.base.clone does: the class with copies of the parameters, which it keeps as they are.
    copied = {name: copy.deepcopy(value) for name, value in params.items()}
    twin = type(bandit)(**copied)
    assert all(twin.get_params()[name] is copied[name] for name in copied)
    assert twin.get_params() == params
    assert bandit.set_params(epsilon=2.0) is bandit
    assert bandit.epsilon == 2.0
    with pytest.raises(InvalidInput, match="one of actions"):
        bandit.set_params(epsilom=1.0)
    with pytest.raises(InvalidInput, match="must be fitted"):
        bandit.predict(log(5))
    assert "not fitted" in repr(bandit)


BAD_PARAMETERS = [
    ({"actions": ["wait"]}, "at least two actions"),
    ({"actions": ["wait", "wait"]}, "different names"),
    ({"actions": "wait"}, "list of printable names"),
    ({"reward": (1, 1)}, "low < high"),
    ({"reward": None}, "pair of public bounds"),
    ({"epsilon": 0.0}, "finite number"),
    ({"delta": 0.0}, "never pure"),
    ({"reports_per_person": 0}, "whole number"),
    ({"reports_per_person": 1001}, "at most 1000"),
    ({"features": None}, "tacit.Features"),
    ({"fallback": "run"}, "fall-back action"),
    ({"trust": "shuffle"}, "curator"),
    ({"trust": None}, "curator"),
]


@pytest.mark.parametrize(("changed", "message"), BAD_PARAMETERS)
def test_bad_parameters_are_refused_before_anything_is_charged(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidInput, NotSupported), match=message):
        made(ledger=tmp_path / "ledger.db", **changed).fit(log(100), **COLUMNS)
    assert not list(tmp_path.iterdir())


def without(rows: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in rows.items() if key != name}


def with_first(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    def changed(rows: dict[str, Any]) -> Any:
        column = rows[name].astype(object)
        column[0] = value
        return {**rows, name: column}

    return changed


BAD_ROWS: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("a column missing", lambda r: without(r, "age"), "unknown column 'age'"),
    ("the action missing", lambda r: without(r, "given"), "unknown column 'given'"),
    ("a category undeclared", with_first("ward", "secret"), "category of the column 'ward'"),
    ("an action undeclared", with_first("given", "secret"), "action of the column 'given'"),
    ("no action", with_first("given", None), "action of the column 'given'"),
    ("a reward above", with_first("points", 10.5), "within the declared bounds"),
    ("a reward that is NaN", with_first("points", float("nan")), "within the declared bounds"),
    ("no reward", with_first("points", None), "within the declared bounds"),
    ("a reward that is a text", with_first("points", "secret"), "must hold numbers"),
    ("NaN in a feature", with_first("age", float("nan")), "no missing values"),
    ("a text in a feature", with_first("age", "secret"), "must hold numbers"),
    ("a feature beyond all bounds", with_first("age", 10**400), "'age' must hold numbers"),
    ("a reward beyond all bounds", with_first("points", 10**400), "'points' must hold numbers"),
    (
        "dates as a feature",
        lambda r: {**r, "age": np.full(100, "2020-01-01", "datetime64[ns]")},
        "'age' must hold numbers",
    ),
    ("times as rewards", lambda r: {**r, "points": np.zeros(100, "timedelta64[ns]")}, "'points' must hold numbers"),
    ("times as propensities", lambda r: {**r, "p": np.ones(100, "timedelta64[ns]")}, "'p' must hold numbers"),
    ("a person that is empty", with_first("who", " "), "name a person"),
    ("no person", with_first("who", None), "name a person"),
    ("a propensity of 0", with_first("p", 0.0), "lie in"),
    ("a text as a propensity", with_first("p", "secret"), "must hold numbers"),
    ("no rows", lambda r: {name: value[:0] for name, value in r.items()}, "at least one"),
    ("a duplicated index", lambda r: pandas.DataFrame(r, index=np.zeros(100, dtype=int)), "no duplicates"),
    ("columns of other lengths", lambda r: {**r, "points": r["points"][:99]}, "same length"),
    ("no table", lambda r: 7, "DataFrame"),
]


@pytest.mark.parametrize(("name", "change", "message"), BAD_ROWS)
def test_bad_rows_are_refused_and_nothing_is_charged(
    name: str, change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    bandit = made(ledger=tmp_path / "ledger.db")
    for learn in (bandit.fit, bandit.partial_fit):
        with pytest.raises(InvalidInput, match=message) as caught:
            learn(change(log(100)), person="who", propensity="p", **COLUMNS)
        assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert "not fitted" in repr(bandit)


def test_too_many_features_and_singular_sums(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at most 200 numbers"):
        tacit.Features({f"x{i}": (0, 1) for i in range(200)})
    # A constant column, an action that was never taken, one row: documented, the posterior stays near its prior.
    flat = {name: value[:1] for name, value in log(2).items()}
    found = made().fit(flat, noise=seeded(), **COLUMNS)
    assert np.isfinite(found.coef_).all()
    assert np.isnan(found.intervals_).all()
    assert "not told apart from noise" in found._repr_html_()
    assert tacit.verify(found.save(tmp_path / "flat").parent).outcome == "true"
    kept = json.loads((tmp_path / "flat" / "learned.json").read_text())["summary"]["coefficients"]
    assert all(ends[1:] == [None, None] for action in kept.values() for ends in action.values())


@pytest.mark.parametrize(("n", "least"), [(300, 0.0), (1000, 0.85), (4000, 0.9)])
def test_intervals_hold_large_effects(n: int, least: float) -> None:
    """Rewards 1 and 0 by one truth value, |theta| = 1.45: 80 logs, 320 coefficients, at most about 5 % are missed.

    12 % are exceeded with probability below 1e-4 at 6 %, since the 160 pairs are independent.
    """
    space, missed, held = tacit.Features(tired=bool), 0, 0
    means = np.array([[-0.5, 0.5], [0.5, -0.5]])  # of those who are not tired, and of those who are
    theta = np.linalg.solve(space.encode({"tired": [False, True]}), means).T
    for seed in range(80):
        rng = np.random.default_rng(seed)
        tired, walk = rng.random(n) < 0.5, rng.random(n) < 0.5
        rows = {"tired": tired, "given": np.where(walk, "walk", "wait"), "points": 1.0 * (walk != tired)}
        ends = made(features=space, reward=(0, 1)).fit(rows, noise=seeded(seed), **COLUMNS).intervals_
        inside = (ends[..., 0] <= theta) & (theta <= ends[..., 1])
        held, missed = held + int(inside.sum()), missed + int((np.isfinite(ends[..., 0]) & ~inside).sum())
    assert missed <= 0.12 * 320
    assert held >= least * 320


def test_a_budget_covers_what_it_covers(tmp_path: Path) -> None:
    rows, place = log(200), tmp_path / "people.db"
    bandit = made(ledger=place, budget=(1.5, 2e-6)).fit(rows, **COLUMNS)
    first = bandit.coef_
    assert [entry.committed for entry in Ledger.load(place).entries()] == [True]
    assert Ledger.load(place).spent(199)[0] == pytest.approx(1.0, abs=1e-6)
    assert Ledger.load(place).spent(200) == (0.0, 0.0)
    with pytest.raises(PrivacyBudgetExceeded, match="nothing was charged"):
        bandit.fit(rows, **COLUMNS)
    np.testing.assert_array_equal(bandit.coef_, first)
    bandit.partial_fit(rows, **COLUMNS)  # declared to be other people
    assert [entry.users for entry in Ledger.load(place).entries()] == [range(200), range(200, 400)]
    alone = made().fit(rows, **COLUMNS)
    with pytest.raises(PrivacyBudgetExceeded, match="one fit"):
        alone.fit(rows, **COLUMNS)


def test_a_release_that_fails_charges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.study.feature_learning.release_rows", lambda *_: (_ for _ in ()).throw(OSError("full")))
    bandit = made(ledger=tmp_path / "ledger.db")
    with pytest.raises(OSError, match="full"):
        bandit.fit(log(50), **COLUMNS)
    assert not list(tmp_path.iterdir())


def test_people_who_come_more_often_than_promised_count_as_often_as_promised() -> None:
    """Two of nine rows of one person; nine rows of nine people each in one of two stages."""
    frame = {**{name: value[:18] for name, value in log(18).items()}, "who": np.array([7] * 9 + list(range(10, 19)))}
    rows = read_rows(
        frame, SPACE, ACTIONS, (0.0, 10.0), action_column="given", reward_column="points", person_column="who"
    )
    assert rows.people == 10
    for noise in (SecureNoise(), seeded()):
        stages = deal_rows(rows, 2, "random", noise)
        assert stages.shape == (2, 10)
        assert set(stages[:, 0]) <= set(range(9))
        assert len(set(stages[:, 0])) == 2
        np.testing.assert_array_equal(stages[0, 1:], np.arange(9, 18))
        assert (stages[1, 1:] == -1).all()
    np.testing.assert_array_equal(deal_rows(rows, 2, "first", noise)[:, 0], [0, 1])
    # Every pair of rows is as likely: 3,600 deals, 36 pairs; chi-square beyond 90 has probability below 1e-6.
    noise, counts = seeded(5), np.zeros((9, 9))
    for _ in range(3600):
        one, other = sorted(deal_rows(rows, 2, "random", noise)[:, 0])
        counts[one, other] += 1
    pairs = counts[np.triu_indices(9, 1)]
    assert ((pairs - 100.0) ** 2 / 100.0).sum() < 90.0
    several = made(reports_per_person=2).fit(frame, person="who", noise=seeded(), **COLUMNS)
    assert several.certificate_.claim.unit.reports == 2
    assert several.certificate_.holds
    with pytest.raises(InvalidInput, match="name their persons"):
        made(reports_per_person=2).fit(frame, **COLUMNS)


def test_batches_add_up_and_forget_nobody() -> None:
    rows = log(3000)
    parts = [{name: value[k::3] for name, value in rows.items()} for k in range(3)]
    bandit = made()
    for k, part in enumerate(parts):
        assert bandit.partial_fit(part, person="who", noise=seeded(k), **COLUMNS) is bandit
    assert bandit.certificate_.holds
    assert bandit.certificate_.terms.sizes["batches"] == 3  # type: ignore[union-attr]
    # The same by hand: sums of three releases.
    released = [made().partial_fit(part, noise=seeded(k), **COLUMNS) for k, part in enumerate(parts)]
    total = None
    for one in released:
        request = one._learned.request
        found = request.channels[0].read(request.channels[0].begin_memory(), one._learned.payloads[0], 1000)[1]
        s = found.statistics
        part_sum = [s.gram, s.rewards, s.gram_variance, s.reward_variance]
        total = part_sum if total is None else [a + b for a, b in zip(total, part_sum, strict=True)]
    assert total is not None
    np.testing.assert_allclose(bandit.coef_, 10.0 * linear_posterior(*total).mean)
    # Who was in a batch counts for nothing in the next: noise alone, whatever the rewards are.
    again, changed = copy.deepcopy(bandit), {**parts[0], "points": 10.0 - parts[0]["points"]}
    bandit.partial_fit(parts[0], person="who", noise=SecretlyEqual(), **COLUMNS)
    again.partial_fit(changed, person="who", noise=SecretlyEqual(), **COLUMNS)
    np.testing.assert_array_equal(bandit.coef_, again.coef_)
    with pytest.raises(InvalidInput, match="name their persons, or none"):
        bandit.partial_fit(parts[0], **COLUMNS)
    with pytest.raises(InvalidInput, match="those of the batches before"):
        bandit.set_params(epsilon=2.0).partial_fit(parts[0], person="who", **COLUMNS)


def SecretlyEqual() -> SimulationNoise:
    return seeded(11)


def test_what_is_saved_is_verified_and_read_back(tmp_path: Path) -> None:
    named = {**log(500), "who": [f"patient {i}" for i in range(500)]}
    bandit = made(fallback="wait").fit(named, person="who", **COLUMNS)
    written = bandit.save(tmp_path / "bandit")
    assert tacit.verify(tmp_path / "bandit").outcome == "true"
    assert "patient" not in written.read_text()
    for name in ("learned.json", "policy.json", "certificate.json"):
        assert tacit.verify(tmp_path / "bandit" / name).outcome == "true"
    pickled = pickle.dumps(bandit)
    assert b"patient" not in pickled
    np.testing.assert_array_equal(pickle.loads(pickled).coef_, bandit.coef_)  # noqa: S301 - our own
    again = tacit.LinearBandit.load(tmp_path / "bandit")
    np.testing.assert_array_equal(again.coef_, bandit.coef_)
    rows = log(40, seed=4)
    np.testing.assert_array_equal(again.predict_proba(rows, explore=True), bandit.predict_proba(rows, explore=True))
    again.partial_fit(log(100), **COLUMNS).save(tmp_path / "more")
    assert tacit.verify(tmp_path / "more").outcome == "true"
    with pytest.raises(InvalidInput, match="name their persons"):
        again.partial_fit(log(100), person="who", **COLUMNS)
    plain = json.loads(written.read_text())
    plain["summary"]["coefficients"]["walk"]["age"][0] += 0.1
    written.write_text(json.dumps(plain))
    assert tacit.verify(tmp_path / "bandit").outcome == "FALSE"
    with pytest.raises(InvalidInput, match="must be true"):
        tacit.LinearBandit.load(tmp_path / "bandit")


def test_a_column_has_one_role(tmp_path: Path) -> None:
    for feature in ("points", "given", "who"):
        bandit = made(features=tacit.Features({feature: (0, 10), "age": (18, 90)}), ledger=tmp_path / "ledger.db")
        with pytest.raises(InvalidInput, match="must be different columns"):
            bandit.fit(log(100), person="who", **COLUMNS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spelt", [str, " {} ".format, float, lambda i: str(i).encode()])
def test_persons_are_the_same_in_whatever_type_their_names_are_read(spelt: Callable[[int], Any]) -> None:
    """A person whose one report was used counts for nothing, whether it is called 7 or "7"."""
    rows = log(100)
    found = []
    for points in (rows["points"], 10.0 - rows["points"]):
        bandit = made().partial_fit(rows, person="who", noise=seeded(0), **COLUMNS)
        who = np.array([spelt(i) for i in range(100)], dtype=object)
        found.append(
            bandit.partial_fit({**rows, "who": who, "points": points}, person="who", noise=seeded(5), **COLUMNS)
        )
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)


def test_without_a_ledger_there_is_one_score_and_a_loaded_one_takes_its_ledger(tmp_path: Path) -> None:
    rows, place = log(2000), tmp_path / "l.db"
    asked: dict[str, Any] = {**COLUMNS, "propensity": "p", "min_propensity": 0.5, "epsilon": 1.0, "delta": 1e-6}
    bandit = made().fit(rows, **COLUMNS)
    bandit.score(rows, **asked)
    with pytest.raises(PrivacyBudgetExceeded, match="one score, got a second"):
        bandit.score(rows, **asked)
    with pytest.raises(PrivacyBudgetExceeded, match="one score, got a second"):
        copy.deepcopy(bandit).score(rows, **asked)
    made(ledger=place, budget=(3.0, 1e-5)).fit(rows, **COLUMNS).save(tmp_path / "saved")
    again = tacit.LinearBandit.load(tmp_path / "saved", ledger=place)
    again.partial_fit(log(100), **COLUMNS).score(rows, **asked)
    assert len(Ledger.load(place).entries()) == 3
    with pytest.raises(PrivacyBudgetExceeded):
        again.score(rows, **{**asked, "epsilon": 2.0})
    assert tacit.LinearBandit.load(tmp_path / "saved").ledger is None


def test_a_score_is_a_release(tmp_path: Path) -> None:
    rows = log(20_000)
    bandit = made(ledger=tmp_path / "l.db", budget=(2.0, 1e-5)).fit(rows, **COLUMNS)
    with pytest.raises(PrivacyViolation, match="expected a budget"):
        bandit.score(rows, action="given", reward="points", propensity="p", min_propensity=0.5)
    asked: dict[str, Any] = {**COLUMNS, "propensity": "p", "min_propensity": 0.5, "delta": 1e-6}
    value = bandit.score(rows, epsilon=0.5, **asked)
    low, high = bandit.score_interval_
    assert low < 8.0 < high
    assert abs(value - 8.0) < 0.3
    assert bandit.score_certificate_.holds
    assert len(Ledger.load(tmp_path / "l.db").entries()) == 2
    with pytest.raises(PrivacyBudgetExceeded):
        bandit.score(rows, epsilon=1.5, **asked)
    with pytest.raises(InvalidInput, match="at least min_propensity"):
        bandit.score({**rows, "p": np.full(20_000, 0.4)}, epsilon=0.1, **asked)


def test_secure_noise_is_fresh_and_of_the_stated_size() -> None:
    """1,600 noisy sums: their deviation within 10 %, 5.6 of its own; noise that is 25 % off is rejected."""
    row = {name: value[:1] for name, value in log(1).items()}
    drawn = []
    for _ in range(40):
        fitted = made().fit(row, **COLUMNS)
        channel = fitted._learned.request.channels[0]
        drawn.append(channel.noise.values(fitted._learned.payloads[0]))
    sums = np.array(drawn)
    assert len(np.unique(sums)) > sums.size // 2
    deviation = (sums - sums.mean(axis=0)).std(ddof=0) * np.sqrt(40 / 39)
    stated = channel.noise.std
    assert 0.9 * stated < deviation < 1.1 * stated
