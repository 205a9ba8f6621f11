"""Off-policy values under shuffle and local trust: every device computes its own weight, and sends one message."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.bench_off_policy import Logs, covered
from scipy.optimize import minimize

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.audit.conformance import NonConformant, check_privatizer
from tacit.cli import main
from tacit.data.trajectories import Trajectory, WeightedUsers
from tacit.errors import InvalidInput, NotSupported
from tacit.planning.off_policy import snips_value
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.staged import Staged
from tacit.release.vectors import VectorPlan
from tacit.released.weighted_returns import WeightQuery, WeightShape
from tacit.statistics.weighted_returns import GRID, Levels, WeightedReturns
from tacit.study import evaluation
from tacit.study.evaluation import EvaluationRequest, collected, device_message, evaluate_episodes
from tacit.study.learn_files import save_evaluation

SHAPE = WeightShape(shares=(256, 76))


def simulated(seed=0):
    return SimulationNoise(np.random.default_rng(seed))


def staged(trust, people=12):
    claim = PrivacyClaim(
        trust=trust, epsilon=1.0, delta=0.0 if trust == "local" else 1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one", output=OUTPUTS[trust][0],
    )  # fmt: skip
    plan = VectorPlan(claim=claim, shape=SHAPE, asks=WeightQuery)
    return Staged(channels=(plan.release_of(StageSize(target=people, least=people, query=WeightQuery())),), basis=plan)


@pytest.mark.parametrize(
    "trust", ["shuffle", *(pytest.param(one, marks=pytest.mark.slow) for one in ("central", "local"))]
)
def test_the_release_conforms_under_every_trust_model(trust):
    report = check_privatizer(staged(trust), replicates=100)
    assert {"certificate", "measured", "exposed", "silence", "noise source"} <= set(report.passed)


def test_no_two_people_are_farther_apart_than_the_lemma_says():
    """Maximization over two people from many starts comes within 5% of Lemma S11 (weighted returns)."""
    statistic = WeightedReturns(shape=WeightShape(shares=(256,)))

    def vector(x):
        u, s, c = (np.array([[round(value)]]) for value in (x[0] * GRID, x[1] * GRID, x[2] * GRID))
        return statistic.entries(Levels(u, s, c))[1][0] / statistic.scale

    def apart(x):
        return -float(((vector(x[:3]) - vector(x[3:])) ** 2).sum())

    box = [(0, 1), (-1, 1), (0, 1)] * 2
    rng = np.random.default_rng(0)
    corners = [np.array(c, dtype=float) for c in ([1, 1, 1, 1, -1, 0], [1, -1, 1, 0, 0, 0], [1, 1, 0, 0, 1, 1])]
    starts = [*corners, *(rng.uniform([b[0] for b in box], [b[1] for b in box]) for _ in range(4))]
    worst = max(-minimize(apart, x, bounds=box, method="Nelder-Mead", options={"maxiter": 150}).fun for x in starts)
    bound = (statistic.length / statistic.scale) ** 2
    assert 0.95 * bound < max(worst, *(-apart(x) for x in corners)) <= bound
    single = max(float((vector(np.array([1.0, s, 1.0])) ** 2).sum()) for s in (-1.0, 0.0, 1.0))
    assert single <= (statistic.longest / statistic.scale) ** 2 < 1.01 * single + 0.01


def test_bodies_are_levels_and_hostile_numbers_are_cut():
    statistic, rng = WeightedReturns(shape=SHAPE), np.random.default_rng(1)
    users = WeightedUsers(rng.random((20, 2)), rng.random((20, 2)) - 0.5, rng.random((20, 2)))
    bodies = [statistic.pack(users.one(k), simulated()) for k in range(20)]
    for body in bodies:
        statistic.check(body)
    for mine, theirs in zip(statistic.unpack(bodies), statistic.people(users, simulated()), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert len(statistic.unpack([statistic.pack(None, simulated())]).u) == 0
    odd = WeightedUsers(*(np.array([[value, value]]) for value in (np.inf, -9.0, np.nan)))
    assert [part.tolist() for part in statistic.people(odd, simulated())] == [[[GRID] * 2], [[-GRID] * 2], [[0, 0]]]
    with pytest.raises(InvalidInput, match="public ranges"):
        statistic.check(np.array([GRID + 1, 0, 0, 0, 0, 0], dtype="<i2").tobytes())


@pytest.mark.parametrize("trust", ["shuffle", "local"])
def test_devices_send_messages_that_the_collector_reads_and_verify_derives_again(trust, tmp_path, capsys):
    """Secure noise: the messages are those of devices that know their own episode, and no other."""
    logs = Logs(5, 3, 2, 2, 0.35, 60)
    episodes = logs.draw(np.random.default_rng(0))
    request = logs.request("snips", trust=trust, epsilon=4.0, delta=0.0 if trust == "local" else 1e-6)
    t, p = episodes.trajectories, episodes.propensities
    messages = [
        device_message(request, Trajectory(t.states[i], t.actions[i], t.rewards[i]), p[i], SecureNoise())
        for i in range(60)
    ]
    found = collected(request, messages)
    assert found.certificate.claim.trust == trust
    assert found.certificate.holds
    assert found.certificate.release
    assert found["new"].low <= found["new"].value <= found["new"].high
    again = EvaluationRequest.from_dict(json.loads(json.dumps(request.to_dict())))
    assert again.to_dict() == request.to_dict()
    path = save_evaluation(found, tmp_path / "value.json")
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("true: ")
    low = np.array([0.01, 0.5])
    with pytest.raises(InvalidInput, match="at least the declared"):
        device_message(request, Trajectory(t.states[0], t.actions[0], t.rewards[0]), low, SecureNoise())


@pytest.mark.statistical
@pytest.mark.parametrize("trust", ["shuffle", "local"])
@pytest.mark.parametrize("estimator", ["snips", "ips"])
def test_intervals_cover_the_truth_quickly_under(trust, estimator):
    """Nominal 95%: fewer than 50 of 60 has probability below 1.1e-4; coverage of 70% fails with probability 0.98."""
    logs = Logs(5, 3, 2, 2, 0.35, 3000)
    request = logs.request(estimator, trust=trust, delta=0.0 if trust == "local" else 1e-6)
    assert min(covered(logs, request, 60)[0]) >= 50


@pytest.mark.parametrize(
    "changes",
    [{"estimator": "dm"}, {"estimator": "dr"}, {"propensity": "estimated"}, {"trust": "none"}],
    ids=["model", "doubly robust", "estimated", "no trust"],
)
def test_what_a_device_cannot_compute_is_refused(changes):
    with pytest.raises((NotSupported, InvalidInput)):
        Logs(5, 3, 2, 2, 0.35, 60).request(**{"estimator": "snips", "trust": "shuffle", **changes})


class CapForgotten(WeightedReturns):
    """Mutant: weights above the cap count in full."""

    def people(self, users, noise):
        found = super().people(users, noise)
        raw = np.nan_to_num(users.u, nan=0.0, posinf=8.0, neginf=0.0)
        return found._replace(u=np.rint(np.clip(raw, 0.0, 8.0) * GRID).astype(np.int64))


class PersonTwice(WeightedReturns):
    """Mutant: a person's vector is added twice."""

    def entries(self, people):
        labels, amounts = super().entries(people)
        return labels, 2 * amounts


@pytest.mark.parametrize(
    ("mutant", "trust"), [(CapForgotten, "central"), pytest.param(PersonTwice, "shuffle", marks=pytest.mark.slow)]
)
def test_mutants_of_the_statistic_are_caught(mutant, trust):
    honest = staged(trust)
    bad = replace(honest, channels=(replace(honest.channels[0], statistic=mutant(shape=SHAPE)),))
    with pytest.raises(NonConformant):
        check_privatizer(bad, replicates=100)


def test_a_propensity_of_another_row_is_caught(monkeypatch):
    """Mutant: rows are shifted by one. A person then moves another's weight, and values miss the truth."""
    logs = Logs(2, 4, 3, 1, 0.25, 4_000)
    episodes = logs.draw(np.random.default_rng(3))
    request = logs.request("ips")
    other = logs.draw(np.random.default_rng(4)).trajectories

    def rows_that_move():
        """Whose vectors change where only this person is another."""
        t = episodes.trajectories
        changed = [part.copy() for part in (t.states, t.actions, t.rewards)]
        for part, new in zip(changed, (other.states, other.actions, other.rewards), strict=True):
            part[who] = new[who]
        p = episodes.propensities.copy()
        p[who] = 1.0
        mine = evaluation._people(request, episodes, None)
        theirs = evaluation._people(request, replace(episodes, trajectories=type(t)(*changed), propensities=p), None)
        return {int(i) for a, b in zip(mine, theirs, strict=True) for i in np.flatnonzero((a != b).any(axis=1))}

    who = int(np.flatnonzero(evaluation._people(request, episodes, None).u[1:, 0] > 0.0)[0])  # before one with weight
    assert rows_that_move() <= {who}
    found = evaluate_episodes(request, episodes, simulated())["new"]
    assert found.low <= logs.truth <= found.high
    honest = evaluation._propensities
    monkeypatch.setattr(evaluation, "_propensities", lambda *a: np.roll(honest(*a), 1, axis=0))
    assert rows_that_move() - {who}
    wrong = evaluate_episodes(request, episodes, simulated())["new"]
    assert not wrong.low <= logs.truth <= wrong.high


def test_the_point_lies_in_its_interval_whatever_the_noise():
    """Few people under strong noise: squares below zero must not leave the point out (5 of these 300 did, once)."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        sums = rng.normal([5.0, 20.0, 5.0, 0.0, -8.0, 0.0], 6.0)
        found = snips_value(sums, np.full(6, 4.0), 60, 4.0, 1.96, 0.0)
        assert 0.0 <= found.low <= found.value <= found.high <= 1.0
