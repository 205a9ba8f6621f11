"""Batches of their own: one test per numbered guarantee, and what each batch promises and costs."""

from __future__ import annotations

import numpy as np
import pytest
from contract_calls import shown
from shuffle_tools import shuffled_batches

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.data.counts import count_trajectories, flow_counts
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.registry import make
from tacit.errors import InvalidInput, PrivacyBudgetExceeded, PrivacyViolation
from tacit.policies import uniform_policy
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.none import Unprotected
from tacit.release.shuffle_release import ShuffleRelease
from tacit.released.batches import BatchQuery, BatchReport, PlannedBatch
from tacit.released.counts import CountShape

MDP = make("riverswim:states=3,horizon=3")
SHAPE = CountShape(horizon=3, num_states=3, num_actions=2, staged=True)
POLICY = uniform_policy(3, 3, 2)
EVERYTHING = BatchQuery(layer=None, failure_prob=None)
LAYER, LAST = (BatchQuery(layer=h, failure_prob=None) for h in (1, 2))
SCHEDULE = tuple(
    PlannedBatch(users=users, query=request)
    for users, request in ((200, LAYER), (200, LAST), (500, EVERYTHING), (900, EVERYTHING))
)


def noise(seed=0):
    return SimulationNoise(np.random.default_rng(seed))


def shuffle(calibration="tight", epsilon=1.0):
    claim = PrivacyClaim(
        trust="shuffle",
        epsilon=epsilon,
        delta=1e-6,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS["shuffle"][0],
    )
    return shuffled_batches(SHAPE, claim, calibration)


def batch_of(users, seed=0):
    return flow_counts(MDP, POLICY, users, np.random.default_rng(seed))


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_g1_a_run_has_the_guarantee_of_its_worst_batch(calibration):
    privatizer = shuffle(calibration).planned(SCHEDULE)
    each = [epsilon_of(stage.events(), 1e-6) for stage in privatizer.channels]
    certificate = privatizer.certificate()
    assert certificate.epsilon == pytest.approx(max(each), rel=1e-9)
    assert max(each) <= 1.0
    assert certificate.holds
    if calibration == "tight":
        assert min(each) > 0.97  # every batch has the least noise for its own statistics and size


def test_g1_every_batch_reports_claim_and_cost():
    privatizer = shuffle().planned(SCHEDULE)
    reports = privatizer.reports()
    assert [(report.users, report.statistic, report.batches) for report in reports] == [
        (200, "one layer", 1), (200, "last layer", 1), (500, "all layers", 1), (900, "all layers", 1),
    ]  # fmt: skip
    for report, stage in zip(reports, privatizer.channels, strict=True):
        sent = len(stage.encode(roll_trajectory(), noise())) // stage.labels.itemsize
        assert report.messages_per_user == sent  # padding included: everybody sends this many
        assert report.bytes_per_user >= sent
        assert BatchReport.from_dict(report.to_dict()) == report
    crude, _, fine, _ = reports
    assert crude.std < fine.std / 2  # one layer needs a fraction of the noise


def roll_trajectory():
    from tacit.data.trajectories import Trajectory

    users = roll_out(prepare_world(MDP), POLICY, 1, np.random.default_rng(0))
    return Trajectory(users.states[0], users.actions[0], users.rewards[0])


def test_g2_batches_come_in_order_and_complete():
    privatizer = shuffle().planned(SCHEDULE)
    state = privatizer.begin()
    with pytest.raises(PrivacyViolation, match="199 reports and needs 200"):
        privatizer.release(state, batch_of(199), LAYER, noise())
    with pytest.raises(InvalidInput, match="at most the 200"):
        privatizer.release(state, batch_of(201), LAYER, noise())
    with pytest.raises(InvalidInput, match="this stage asks for"):
        privatizer.release(state, batch_of(200), EVERYTHING, noise())
    for planned in SCHEDULE:
        state, _ = privatizer.release(state, batch_of(planned.users), planned.query, noise())
    with pytest.raises(PrivacyBudgetExceeded, match="all 4 stages"):
        privatizer.release(state, batch_of(200), LAYER, noise())
    with pytest.raises(InvalidInput, match="asked for running totals"):
        privatizer.release(privatizer.begin(), batch_of(200), TOTALS, noise())
    with pytest.raises(InvalidInput, match="least must be"):
        shuffle().planned([PlannedBatch(users=1, query=EVERYTHING)])


def test_g2_drop_outs_abort_a_batch_of_real_messages():
    privatizer = shuffle().planned([PlannedBatch(users=20, query=EVERYTHING)])
    users = roll_out(prepare_world(MDP), POLICY, 19, np.random.default_rng(0))
    with pytest.raises(PrivacyViolation, match="nothing is released"):
        privatizer.release(privatizer.begin(), users, EVERYTHING, noise())


@pytest.mark.parametrize("request_", [EVERYTHING, LAYER, LAST, BatchQuery(layer=None, failure_prob=0.1)])
def test_g3_without_noise_the_statistics_are_those_of_the_batch(request_, monkeypatch):
    """The shuffle path with its noise taken away and the unprotected path release the same bits."""
    from tacit.noise.binomial import Binomial

    monkeypatch.setattr(Binomial, "sample", lambda self, size, noise: np.zeros(size))
    monkeypatch.setattr(Binomial, "mean", property(lambda self: 0.0))
    monkeypatch.setattr(ShuffleRelease, "precision", lambda self, people, failure_prob: 0.0)
    schedule, batch = [PlannedBatch(users=300, query=request_)], batch_of(300)
    released = []
    for privatizer in (shuffle().planned(schedule), Unprotected(shape=SHAPE).planned(schedule)):
        released.append(privatizer.release(privatizer.begin(), batch, request_, noise())[1].statistics)
    for name in ("transitions", "visits", "rewards", "squares", "users"):
        np.testing.assert_array_equal(getattr(released[0], name), getattr(released[1], name))
    exact = released[1]
    layers = range(3) if request_.layer is None else [request_.layer]
    for h in range(3):
        wanted = batch.visits[h] if h in layers else np.zeros_like(batch.visits[h])
        np.testing.assert_array_equal(exact.visits[h], wanted)
    assert not exact.transitions[-1].any()


def test_trajectories_and_counts_are_released_alike_without_noise():
    users = roll_out(prepare_world(MDP), POLICY, 50, np.random.default_rng(1))
    privatizer = Unprotected(shape=SHAPE).planned([PlannedBatch(users=50, query=EVERYTHING)])
    counts = count_trajectories(users, 3, 2)
    first, second = (
        privatizer.release(privatizer.begin(), batch, EVERYTHING, noise())[1].statistics for batch in (users, counts)
    )
    assert first.visits.tobytes() == second.visits.tobytes()
    assert privatizer.certificate().epsilon == np.inf


@pytest.mark.statistical
def test_noise_has_the_stated_variance():
    """The variance of 28,800 draws is within 5 standard errors (false alarm 6e-7); a variance 25% off is rejected."""
    privatizer = shuffle().planned([PlannedBatch(users=500, query=EVERYTHING)])
    batch, coins = batch_of(500), noise(3)
    errors = []
    for _ in range(800):
        _, released = shown(privatizer, privatizer.begin(), batch, coins, EVERYTHING)
        errors.append((released.transitions - batch.transitions)[:2].ravel())
    drawn = np.array(errors).ravel()
    stated = released.variance[0]
    slack = 5.0 * stated * np.sqrt(2.0 / len(drawn))
    assert abs(drawn.var() - stated) < slack < 0.25 * stated
    assert abs(drawn.mean()) < 5.0 * np.sqrt(stated / len(drawn))
