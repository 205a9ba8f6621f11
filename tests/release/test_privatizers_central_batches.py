"""Central batches: certificate, measured covariance, what replacing a person moves, refusals."""

import numpy as np
import pytest

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, TacitError
from tacit.protocol import Totals
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.central_batches import CentralBatches
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
EVERYTHING = BatchQuery(layer=None, failure_prob=None)
SIZES = (20, 30, 50)


def request(**changed):
    chosen = {"epsilon": 1.0, "delta": 1e-6, "mechanism": None, **changed}
    return PrivacyRequest(
        trust="central", shape=SHAPE, episodes=200, calibration=None, users_per_batch=1, asks=BatchQuery, **chosen
    )


def planned(mechanism=None, **changed):
    made = make_privatizer(request(mechanism=mechanism, **changed))
    return made.planned([PlannedBatch(users=n, query=EVERYTHING) for n in SIZES], (30, 50, 100))


def people(count, seed=0, reward=0.5):
    rng = np.random.default_rng(seed)
    states, actions = rng.integers(0, 2, (count, 4)), rng.integers(0, 2, (count, 3))
    return Trajectories(states, actions, (rng.random((count, 3)) < reward).astype(float))


def run(privatizer, batches, seed):
    state, found = privatizer.begin(), []
    noise = SimulationNoise(np.random.default_rng(seed))
    for batch in batches:
        state, private = privatizer.release(state, batch, EVERYTHING, noise)
        found.append(private.statistics)
    return found


@pytest.mark.parametrize("mechanism", [None, "batched"])
def test_the_price_is_that_of_one_batch(mechanism):
    made = planned(mechanism)
    assert made.certificate().epsilon == pytest.approx(1.0, rel=1e-3)
    assert epsilon_of(made.events(), 1e-6) <= 1.0


@pytest.mark.parametrize("reports", [2, 5])
def test_a_person_with_several_reports_gets_the_noise_of_as_many_batches(reports):
    unit = PrivacyUnit(reports=reports, per_stage=1)
    one, several = planned("batched"), planned(unit=unit)
    assert several.correlation == "fresh"
    assert several.noise.std == pytest.approx(one.noise.std * reports**0.5, rel=1e-6)
    assert several.certificate().epsilon <= 1.0
    with pytest.raises(NotSupported, match="one report per person"):
        planned("correlated", unit=unit)


def test_replacing_a_person_moves_the_rows_by_no_more_than_is_paid_for():
    """C (x̂ - x̂'): the Gaussian mechanism's own output moves by the column's length times one batch's change."""
    made = planned()
    batches = [people(n, seed) for seed, n in enumerate(SIZES)]
    for b in range(3):
        other = list(batches)
        states, actions, rewards = (part.copy() for part in (batches[b].states, batches[b].actions, batches[b].rewards))
        # The farthest trajectory: other actions and other rewards at every step.
        actions[0], rewards[0] = 1 - actions[0], 1.0 - rewards[0]
        other[b] = Trajectories(states, actions, rewards)
        one, two = run(made, batches, 7), run(made, other, 7)
        moved = np.stack([_counters(y) - _counters(x) for x, y in zip(one, two, strict=True)])
        rows = made._factor(made.following) @ moved
        shift = np.sqrt((rows**2).sum())
        allowed = np.sqrt(sum(count * event.shift**2 for event, count in made.events()))
        assert shift <= allowed * (1 + 1e-9)
        assert shift > 0.9 * allowed  # and the bound is met by somebody


def _counters(found):
    zeros = found.visits - found.rewards
    return np.concatenate([found.transitions[:-1].ravel(), found.rewards.ravel(), zeros.ravel()])


def test_the_noise_has_the_stated_covariance_over_batches():
    made = planned()
    batches = [people(n, seed) for seed, n in enumerate(SIZES)]
    exact = [_counters_of(batch) for batch in batches]
    noise = np.stack([
        np.stack([_counters(found) - x for found, x in zip(run(made, batches, seed), exact, strict=True)])
        for seed in range(400)
    ])  # fmt: skip
    stated = made.batch_covariance(SIZES, made.following)
    flat = np.moveaxis(noise, 1, 0).reshape(3, -1)
    measured = flat @ flat.T / flat.shape[1]
    # 400 runs of 32 counters: a relative error of 1/√12800 · 5 standard errors
    np.testing.assert_allclose(measured, stated, rtol=0.07, atol=0.05 * stated.max())
    first = run(made, batches, 0)
    assert [found.variance[0] for found in first] == pytest.approx(np.diag(stated))
    assert [found.variance[1] for found in first] == pytest.approx(2.0 * np.diag(stated))


def _counters_of(batch):
    from tacit.data.counts import count_trajectories

    counts = count_trajectories(batch, 2, 2)
    zeros = counts.visits - counts.rewards
    return np.concatenate([counts.transitions[:-1].ravel(), counts.rewards.ravel(), zeros.ravel()])


def test_people_outside_the_public_sizes_are_moved_into_them():
    made = planned()
    wild = Trajectories(np.full((20, 4), 9), np.full((20, 3), -4), np.full((20, 3), np.nan))
    tame = Trajectories(np.full((20, 4), 1), np.zeros((20, 3), dtype=int), np.zeros((20, 3)))
    assert np.array_equal(_counters(run(made, [wild], 3)[0]), _counters(run(made, [tame], 3)[0]))


def test_refusals():
    made = planned()
    noise = SimulationNoise(np.random.default_rng(0))
    with pytest.raises(TacitError, match="19 reports of 20"):
        made.release(made.begin(), people(19), EVERYTHING, noise)
    with pytest.raises(InvalidInput, match="answers counts of single batches"):
        made.release(made.begin(), people(20), Totals(), noise)
    with pytest.raises(TypeError, match="simulation noise"):
        made.release(made.begin(), people(20), EVERYTHING, SecureNoise())
    with pytest.raises(PrivacyBudgetExceeded):
        run(made, [people(n) for n in (*SIZES, 20)], 0)
    with pytest.raises(NotSupported, match="never pure"):
        make_privatizer(request(delta=0.0))
    with pytest.raises(InvalidInput, match="mechanism of central batches"):
        make_privatizer(request(mechanism="factorization"))
    with pytest.raises(NotSupported, match="all layers"):
        made.batch_std(10, BatchQuery(layer=1, failure_prob=None))
    claim = make_claim(request())
    wrong = PrivacyClaim.from_dict({**claim.to_dict(), "trust": "shuffle", "output": OUTPUTS["shuffle"][0]})
    with pytest.raises(InvalidInput, match="trust 'central'"):
        CentralBatches.calibrated(SHAPE, wrong, "fresh")


def test_exact_counts_and_trajectories_are_released_alike():
    from tacit.data.counts import count_trajectories

    made, batch = planned(), people(20)
    counts = count_trajectories(batch, 2, 2)
    assert isinstance(counts, ExactCounts)
    one, two = run(made, [batch], 1)[0], run(made, [counts], 1)[0]
    assert np.array_equal(_counters(one), _counters(two))
