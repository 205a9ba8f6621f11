"""Off-policy values of a log: one release that conforms, intervals that cover, a file that is derived again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import log_tools as log
import numpy as np
import pytest
from benchmarks.bench_off_policy import ESTIMATORS, WORLDS, Logs, covered
from scipy.optimize import minimize

import tacit
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.ledger import Ledger
from tacit.audit import check_privatizer
from tacit.audit.conformance import NonConformant
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded
from tacit.policies import DeterministicPolicy
from tacit.policies.named import NamedPolicy
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release import values
from tacit.release.values import FACTORS, SENSITIVITY, PrivateValues
from tacit.study import evaluation
from tacit.study.evaluation import EvaluationRequest, evaluate, evaluate_episodes
from tacit.study.learn_files import save_evaluation
from tacit.study.verify import verify

CLAIM = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
                     neighbours="replace-one", output="published-sums")  # fmt: skip


def weights_vector(x):
    """The vector of Lemma S11 (weighted returns), written down a second time."""
    u, s, c = x
    return np.array([u * s, 0.6 * u, 0.5 * u**2, 0.3 * u**2 * s, 0.4 * u**2 * s**2, 0.1 * c])


def residual_vector(x):
    return np.array([x[0], x[0] ** 2])


@pytest.mark.parametrize(
    ("kind", "vector", "bounds", "reached"),
    [("weights", weights_vector, [(0, 1), (-0.5, 0.5), (0, 1)], 1.10), ("residuals", residual_vector, [(-1, 1)], 4.0)],
)
def test_no_two_people_are_further_apart_than_lemma_s11_says(kind, vector, bounds, reached):
    """An adversary climbs from 60 random pairs: the bound is never passed, and nearly reached."""
    rng, k, worst = np.random.default_rng(0), len(bounds), 0.0
    low, high = np.array(bounds * 2, dtype=float).T
    for _ in range(60):
        start = low + (high - low) * rng.random(2 * k)
        found = minimize(lambda x: -((vector(x[:k]) - vector(x[k:])) ** 2).sum(), start, bounds=bounds * 2)
        worst = max(worst, -found.fun)
    assert reached - 1e-6 <= worst <= SENSITIVITY[kind] ** 2


def small(kind="weights", shares=(1.0, 0.3), people=3):
    return PrivateValues(claim=CLAIM, kind=kind, shares=shares, people=people)


@pytest.mark.parametrize("kind", FACTORS)
def test_the_release_conforms(kind):
    report = check_privatizer(small(kind), replicates=200)
    assert {"families", "measured", "exposed", "silence", "noise source"} <= set(report.passed)


class CapForgotten(PrivateValues):
    """Mutant: weights above the cap count in full."""

    def vectors(self, users):
        u, s, c = (np.nan_to_num(part, nan=0.0, posinf=9.0, neginf=-9.0) for part in users)
        u, s = np.clip(np.abs(u), 0.0, 9.0), np.clip(s, -0.5, 0.5)
        parts = np.stack([u * s, u, u**2, u**2 * s, (u * s) ** 2, c], axis=2)
        return np.rint(parts * self.factors * values.LEVELS).astype(np.int64)


class PersonTwice(PrivateValues):
    """Mutant: the first person's vector is added twice."""

    def vectors(self, users):
        found = super().vectors(users)
        found[0] *= 2
        return found


class NoiseOfOnePolicy(PrivateValues):
    """Mutant: the noise is that of one policy, whatever their number."""

    @property
    def noise(self):
        alone = PrivateValues(claim=self.claim, kind=self.kind, shares=(1.0,), people=self.people).noise
        return replace(alone, size=math.prod(self.shape), variance=alone.variance // 2)


@pytest.mark.parametrize("mutant", [CapForgotten, PersonTwice, NoiseOfOnePolicy])
def test_mutants_of_the_release_are_caught(mutant):
    with pytest.raises(NonConformant) as caught:
        check_privatizer(mutant(claim=CLAIM, kind="weights", shares=(1.0, 1.0), people=3), replicates=200)
    assert caught.value.rules & {"families", "certificate", "measured", "exposed", "unbiased"}


@pytest.mark.statistical
@pytest.mark.parametrize(("estimator", "propensity"), ESTIMATORS)
def test_intervals_cover_the_truth_quickly(estimator, propensity):
    """Nominal 95%: fewer than 50 of 60 has probability below 1.1e-4; coverage of 70% fails with probability 0.98."""
    logs = Logs(5, 3, 2, 2, 0.35, 3000)
    assert min(covered(logs, logs.request(estimator, propensity), 60)[0]) >= 50


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["snips", "dm"])
def test_the_logs_value_is_that_of_people_with_an_episode(estimator):
    """The mapping drops a quarter of all episodes: value, log and gain of 60 logs, each 95%.

    Fewer than 50 of 60 has probability below 1.1e-4. The mean over all people would be 25% too low: 0 of 60 then.
    """
    logs, hits = Logs(5, 3, 2, 1, 0.35, 1000), np.zeros(3)
    for i in range(60):
        rng = np.random.default_rng([3, i])
        whole, kept = logs.draw(rng), rng.random(1000) > 0.25
        t = whole.trajectories
        t = Trajectories(t.states[kept], t.actions[kept], t.rewards[kept])
        episodes = replace(
            whole, trajectories=t, persons=whole.persons[kept], lengths=whole.lengths[kept],
            propensities=whole.propensities[kept], mapping=replace(whole.mapping, drop=("unknown state",)),
        )  # fmt: skip
        found = evaluate_episodes(
            logs.request(estimator, epsilon=4.0, mapping=episodes.mapping), episodes, SimulationNoise(rng)
        )
        new, own = found["new"], found["log"]
        low, value, high = new.gain[1], logs.truth - logs.earned, new.gain[2]
        hits += [new.low <= logs.truth <= new.high, own.low <= logs.earned <= own.high, low <= value <= high]
    assert hits.min() >= 50


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["snips", "ips"])
@pytest.mark.parametrize(("H", "floor", "declared"), [(1, 0.02, 0.3), (2, 0.05, 0.25)])
def test_estimated_propensities_below_the_declared_one_cost_no_coverage(estimator, H, floor, declared):
    """The rule takes actions with probability .117 (.05), declared .3 (.25); the column would be refused.

    Fewer than 50 of 60 has probability below 1.1e-4 at 95%. Raised in silence, 0, 0, 0 and 41 of 60 held the truth.
    """
    logs = Logs(14 if H == 1 else 15, 3, 3, H, floor, 10_000)
    assert min(covered(logs, logs.request(estimator, "estimated", min_propensity=declared), 60)[0]) >= 50


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("estimator", "propensity"), ESTIMATORS)
def test_intervals_cover_the_truth_in_930_of_1000_logs(world, estimator, propensity):
    """At a coverage of exactly 95% fewer than 930 have probability 0.002 (`python -m benchmarks off_policy`)."""
    logs = WORLDS[world]()
    assert min(covered(logs, logs.request(estimator, propensity), 1000)[0]) >= 930


def test_weights_are_those_of_every_persons_own_rows():
    """By hand: products of ratios with each row's own propensity, cut at the cap; means over a person's episodes."""
    logs = Logs(6, 3, 2, 3, 0.2, 40, each=2)
    episodes = logs.draw(np.random.default_rng(0))
    request = logs.request("ips", weight_cap=4.0)
    found = evaluation._people(request, episodes, None)
    table, t = logs.policy.to_numpy(), episodes.trajectories
    for person in range(40):
        us, xs, cs = [], [], []
        for i in np.flatnonzero(episodes.persons == person):
            w, u, x, c = 1.0, 0.0, 0.0, 0.0
            for h in range(3):
                w *= table[h, t.states[i, h], t.actions[i, h]] / episodes.propensities[i, h]
                c += w > 4.0
                u += min(w, 4.0) / 12.0
                x += min(w, 4.0) * (t.rewards[i, h] - 0.5) / 12.0
            us, xs, cs = [*us, u], [*xs, x], [*cs, c / 3]
        assert found.u[person, 0] == pytest.approx(np.mean(us), rel=1e-12)
        assert found.u[person, 0] * found.s[person, 0] == pytest.approx(np.mean(xs), abs=1e-15)
        assert found.c[person, 0] == pytest.approx(np.mean(cs))
    assert (found.u[:, 1] == 1.0).all()


def test_values_without_noise_are_those_of_the_textbook(monkeypatch):
    monkeypatch.setattr(
        "tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64)
    )
    logs = Logs(2, 4, 3, 1, 0.25, 5000)
    episodes, rng = logs.draw(np.random.default_rng(1)), SimulationNoise(np.random.default_rng(0))
    t = episodes.trajectories
    w = logs.policy.to_numpy()[0, t.states[:, 0], t.actions[:, 0]] / episodes.propensities[:, 0]
    r = t.rewards[:, 0]
    found = {e: evaluate_episodes(logs.request(e), episodes, rng)["new"] for e in ("ips", "snips")}
    assert found["ips"].value == pytest.approx((w * r).mean(), abs=1e-4)
    assert found["snips"].value == pytest.approx((w * r).sum() / w.sum(), abs=1e-4)
    assert found["ips"].effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-3)
    assert evaluate_episodes(logs.request("ips"), episodes, rng)["log"].value == pytest.approx(r.mean(), abs=1e-4)


def test_cut_weights_widen_the_interval_by_what_they_may_hold():
    logs = Logs(2, 4, 3, 1, 0.05, 20_000)
    episodes, rng = logs.draw(np.random.default_rng(1)), SimulationNoise(np.random.default_rng(0))
    whole = evaluate_episodes(logs.request("snips"), episodes, rng)["new"]
    cut = evaluate_episodes(logs.request("snips", weight_cap=2.0), episodes, rng)["new"]
    assert whole.clipped == 0.0
    assert cut.clipped > 0.05
    assert cut.low <= logs.truth <= cut.high
    assert cut.high - cut.low > whole.high - whole.low
    estimated = evaluate_episodes(logs.request("snips", "estimated", weight_cap=2.0), episodes, rng)
    # What was raised to the floor is no share of cut weights, and the log's weights are 1.
    assert (estimated["new"].clipped, estimated["log"].clipped) == (None, 0.0)
    assert evaluate_episodes(logs.request("dm", min_propensity=None), episodes, rng)["log"].clipped == 0.0


@pytest.mark.parametrize(("estimator", "propensity"), ESTIMATORS)
def test_certificates_hold_for_everything_that_is_released(estimator, propensity):
    logs = Logs(2, 4, 3, 1, 0.25, 100)
    request = logs.request(estimator, propensity)
    certificate = request.certificate("secure")
    assert certificate.holds
    assert 0.99 < certificate.epsilon <= 1.0
    again = EvaluationRequest.from_dict(json.loads(json.dumps(request.to_dict())))
    assert again.certificate("secure") == certificate
    payloads = (request.counts is not None) + (request.values is not None)
    assert payloads == (1 if (estimator, propensity) in (("snips", "column"), ("ips", "column")) else 2)


REFUSED = {
    "no cap": ({"min_propensity": None}, InvalidInput),
    "a cap below one": ({"weight_cap": 0.5}, InvalidInput),
    "an unknown estimator": ({"estimator": "is"}, InvalidInput),
    "the name of the log": ({"policies": {"log": None}}, InvalidInput),
    "no policy": ({"policies": {}}, InvalidInput),
    "dr with a cap that cuts": ({"estimator": "dr", "weight_cap": 2.0}, NotSupported),
    "certainty": ({"confidence": 1.0}, InvalidInput),
    "a propensity above one": ({"min_propensity": 1.5}, InvalidInput),
    "pure privacy": ({"delta": 0.0}, NotSupported),
    "more than two releases can add up to": ({"estimator": "dr", "epsilon": 16.0, "delta": 1e-3}, NotSupported),
}


@pytest.mark.parametrize(("changes", "kind"), REFUSED.values(), ids=REFUSED)
def test_requests_that_cannot_be_kept_are_refused_before_a_log_is_read(changes, kind):
    logs = Logs(2, 4, 3, 1, 0.25, 100)
    with pytest.raises(kind):
        _ = replace(logs.request("snips"), **changes).values


def test_a_propensity_below_the_declared_one_is_refused_without_its_value():
    logs = Logs(2, 4, 3, 1, 0.25, 50)
    episodes = logs.draw(np.random.default_rng(0))
    episodes.propensities[7, 0] = 0.0123
    with pytest.raises(InvalidInput, match="at least the declared") as refusal:
        evaluate(logs.policy, episodes, epsilon=1.0, delta=1e-6, min_propensity=0.25)
    assert "0.0123" not in str(refusal.value)


def test_people_without_an_episode_count_as_people(tmp_path):
    known = log.mapping(columns={"propensity": "propensity"}, drop=["unknown state"])
    rows, header = log.with_propensity(["0.5"] * 6)
    rows[4][3] = "QELSE"
    path = log.write(tmp_path / "log.csv", rows, header)
    policy = NamedPolicy(policy=DeterministicPolicy(np.zeros((3, 2), dtype=np.int64)), states=("well", "sick"),
                         actions=("none", "pill"))  # fmt: skip
    found = evaluate(policy, path, known, epsilon=1.0, delta=1e-6, min_propensity=0.5)
    assert found.request.people == 2
    with pytest.raises(NotSupported, match="use snips"):
        evaluate(policy, path, known, epsilon=1.0, delta=1e-6, min_propensity=0.5, estimator="ips")


def test_evaluate_on_the_command_line_writes_what_verify_derives_again(tmp_path, capsys):
    rows, header = log.with_propensity(["0.5"] * 6)
    path = log.write(tmp_path / "log.csv", rows, header)
    (tmp_path / "mapping.json").write_text(json.dumps(log.mapping(columns={"propensity": "propensity"})))
    learned = ["learn", str(path), "--mapping", str(tmp_path / "mapping.json"), "--epsilon", "1", "--delta", "1e-6"]
    assert main([*learned, "--behaviour", "known", "--budget", "2,2e-6", "--out", str(tmp_path / "out")]) == 0
    asked = ["evaluate", str(path), f"new={tmp_path / 'out' / 'policy.json'}", "--mapping",
             str(tmp_path / "mapping.json"), "--epsilon", "1", "--delta", "1e-6"]  # fmt: skip
    capsys.readouterr()
    assert main([*asked, "--min-propensity", "0.5", "--out", str(tmp_path / "value.json")]) == 0
    shown = capsys.readouterr().out
    assert "gain over the log" in shown
    assert main(["verify", str(tmp_path / "value.json")]) == 0
    assert capsys.readouterr().out.startswith("true")
    assert main([*asked, "--min-propensity", "0.5", "--out", str(tmp_path / "value.json")]) == 2
    assert main([*asked, "--out", str(tmp_path / "other.json")]) == 2
    assert main([*asked, "--min-propensity", "1e-300", "--out", str(tmp_path / "other.json")]) == 2
    assert not (tmp_path / "other.json").exists()
    text = (tmp_path / "value.json").read_text()
    public = str(log.mapping()) + " 0.5"
    assert not [value for value in log.values_of(path) if value in text + shown and value not in public]


@pytest.fixture
def asked(tmp_path):
    """A log with its mapping and a policy: the words of `tacit evaluate` without a place to write to."""
    (tmp_path / "in").mkdir()
    rows, header = log.with_propensity(["0.5"] * 6)
    path = log.write(tmp_path / "in" / "log.csv", rows, header)
    (tmp_path / "mapping.json").write_text(json.dumps(log.mapping(columns={"propensity": "propensity"})))
    policy = NamedPolicy(policy=DeterministicPolicy(np.zeros((3, 2), dtype=np.int64)), states=("well", "sick"),
                         actions=("none", "pill"))  # fmt: skip
    (tmp_path / "new.json").write_text(policy.to_json())
    return ["evaluate", str(path), str(tmp_path / "new.json"), "--mapping", str(tmp_path / "mapping.json"),
            "--epsilon", "1", "--delta", "1e-6", "--min-propensity", "0.5"]  # fmt: skip


def test_every_evaluation_is_charged_to_the_ledger_of_the_log(tmp_path, asked, capsys):
    """Beside the log, wherever the release is written; a second one does not fit, and is not made."""
    (tmp_path / "sub").mkdir()
    assert main([*asked, "--out", str(tmp_path / "one.json")]) == 0
    (entry,) = Ledger.load(tmp_path / "in" / "log.ledger.db").entries()
    assert (entry.users, entry.noise, entry.committed, entry.what) == (range(2), "secure", True, evaluation.VALUES)
    certificate = json.loads((tmp_path / "one.json").read_text())["certificate"]
    assert [[event.to_dict(), count] for event, count in entry.events] == certificate["events"]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for out in ("two.json", "sub/two.json"):
        assert main([*asked, "--out", str(tmp_path / out)]) == 2
        assert "over the budget" in capsys.readouterr().err
    learned = [*asked[:2], *asked[3:9], "--behaviour", "known", "--out", str(tmp_path / "sub" / "learned")]
    assert main(["learn", *learned[1:]]) == 2
    assert "over the budget" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_evaluation_without_a_place_is_refused_before_anything_is_drawn(asked, capsys, monkeypatch):
    monkeypatch.setattr("tacit.release.curator.draw_noise", None)
    assert main(asked) == 2
    assert capsys.readouterr().err.startswith("error: --out must be given")


def test_an_evaluation_that_cannot_be_written_is_not_charged(tmp_path, asked, monkeypatch):
    def fails(*args, **kwargs):
        raise OSError(28, "no space left on device", "one.json")

    monkeypatch.setattr("tacit.study.learn_files.write_json", fails)
    assert main([*asked, "--out", str(tmp_path / "one.json")]) == 2
    assert not (tmp_path / "in" / "log.ledger.db").exists()
    assert not list(tmp_path.glob(".one*"))


def test_a_ledger_that_another_process_began_meanwhile_is_kept(tmp_path, asked, monkeypatch):
    """Both saw no ledger; the second one is over the budget of the first, and must not take its ledger away."""
    assert main([*asked, "--out", str(tmp_path / "one.json")]) == 0
    ledger, real = tmp_path / "in" / "log.ledger.db", Path.exists
    monkeypatch.setattr(Path, "exists", lambda path, **options: path != ledger and real(path, **options))
    assert main([*asked, "--out", str(tmp_path / "two.json")]) == 2
    monkeypatch.undo()
    assert len(Ledger.load(ledger).entries()) == 1


def test_a_release_that_was_cut_short_stands_in_the_way(tmp_path, asked, capsys):
    """Killed between writing and commit, a release is on the disk that no ledger counts: it must go first."""
    left = tmp_path / ".one.json.0123abcd.part.json"
    left.write_text("{}")
    assert main([*asked, "--out", str(tmp_path / "one.json")]) == 2
    assert "is not charged" in capsys.readouterr().err
    left.unlink()
    assert main([*asked, "--out", str(tmp_path / "one.json")]) == 0


def test_the_function_charges_a_ledger_too_and_a_person_is_one_vector_however_many_reports(tmp_path, asked):
    """The ledger of a log of two episodes per person: an evaluation costs its epsilon and not twice as much."""
    policy = NamedPolicy.from_json((tmp_path / "new.json").read_text())
    budget = replace(CLAIM, epsilon=1.5, unit=PrivacyUnit(reports=2, per_stage=1), output="final-policy")
    ledger = Ledger.open(tmp_path / "two.db", budget)
    given = {"epsilon": 1.0, "delta": 1e-6, "min_propensity": 0.5, "ledger": tmp_path / "two.db"}
    evaluate(policy, asked[1], tmp_path / "mapping.json", **given)
    assert 0.99 < ledger.spent(1)[0] <= 1.0
    with pytest.raises(PrivacyBudgetExceeded):
        evaluate(policy, asked[1], tmp_path / "mapping.json", **given)
    new = {**given, "ledger": tmp_path / "new.db", "budget": (1.2, 1e-6), "trust": "local", "delta": 0.0}
    evaluate(policy, asked[1], tmp_path / "mapping.json", **new)
    assert Ledger.load(tmp_path / "new.db").budget.epsilon == 1.2
    # The direct method asks for no propensities, so it says none
    assert evaluate(policy, asked[1], tmp_path / "mapping.json", epsilon=1.0, delta=1e-6, estimator="dm").summary[
        "propensities"
    ] is None  # fmt: skip


@pytest.mark.parametrize("estimator", ["snips", "dr", "dm"])
def test_a_changed_evaluation_is_found(tmp_path, estimator):
    from tacit.documents import vouched

    logs = Logs(2, 4, 3, 1, 0.25, 300)
    found = evaluate_episodes(logs.request(estimator), logs.draw(np.random.default_rng(0)), SecureNoise())
    path = save_evaluation(found, tmp_path / "value.json")
    assert verify(path).true
    plain = json.loads(path.read_text())
    plain.pop("digest")
    plain["summary"]["values"][0]["value"] += 0.1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(vouched(plain)))
    assert not verify(changed).true


def test_the_front_door_opens():
    assert tacit.evaluate is evaluate
