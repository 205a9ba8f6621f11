"""The general harness: every kind of privatizer conforms, products of options as products, and nothing escapes it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from shuffle_tools import shuffled_batches

from mutants.curator import CURATORS
from mutants.device import local
from mutants.planted import SHAPE, claim_of
from mutants.release import RELEASES, gradients, losses
from mutants.shuffle import SHUFFLERS
from papers.audit.release_rows import planned_moments, planned_weights
from tacit.audit.conformance import PROBES, NonConformant, check_privatizer, probe_of
from tacit.audit.count_probe import ordinary_users
from tacit.audit.harness import worst_pair
from tacit.data.counts import count_trajectories, join_counts
from tacit.data.trajectories import Trajectories
from tacit.errors import UnknownName
from tacit.noise.randomized_response import RandomizedResponse
from tacit.protocol import PrivateStatistics
from tacit.randomness import SimulationNoise
from tacit.release.gradient import GradientPrivatizer
from tacit.release.losses import make_adversarial
from tacit.release.none import Unprotected
from tacit.release.returns import OneBitReturns
from tacit.release.staged import Staged
from tacit.release.table import PRIVATIZERS
from tacit.release.values import PrivateValues
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.losses import LayeredShape


def returns() -> OneBitReturns:
    """One randomized bit about everybody's return."""
    return OneBitReturns(shape=SHAPE, claim=claim_of("local", 1.0, 0.0), mechanism=RandomizedResponse(epsilon=1.0))


def values() -> PrivateValues:
    """What one policy would have earned on the people of a log."""
    return PrivateValues(claim=claim_of("central", 1.0, 1e-6), kind="weights", shares=(1.0,), people=3)


def moments(trust: str) -> Staged:
    """Moments of features of one batch."""
    return planned_moments(trust, 1.0, 0.0 if trust == "local" else 1e-6, shared=False, lots=False, users=12)


def weights(trust: str) -> Staged:
    """Weighted returns of two policies of one batch."""
    return planned_weights(trust, 1.0, 0.0 if trust == "local" else 1e-6, users=12)


CONFORMING = {**RELEASES, "one-bit returns": returns, "values of a log": values}
GENERAL = {"fields", "shift", "measured", "exposed", "tails", "coins", "length", "lattice"}


OPTIONS = ("gradients with a released baseline", "gradients of three epochs", "sampled gradients")
"""Options of one kind of release, which the products below have, too."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in OPTIONS else ()) for name in CONFORMING]
)
def test_every_kind_of_release_conforms(name):
    """False alarms below 7e-6 each (at most seven statistical rules, seed fixed); power: the mutation suite."""
    privatizer = CONFORMING[name]()
    report = check_privatizer(privatizer, replicates=100)
    assert {"claim", "certificate", "families", "state", "silence", *GENERAL} <= set(report.passed)
    assert ("batch size" in report.passed) == hasattr(privatizer, "users_per_batch")


@pytest.mark.statistical
@pytest.mark.parametrize("made", [moments, weights])
@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_vectors_conform_under_every_trust_model(made, trust):
    """False alarms as above."""
    report = check_privatizer(made(trust), replicates=100)
    assert {"claim", "certificate", "families", "state", "silence", *GENERAL} <= set(report.passed)


def test_there_is_a_probe_for_every_query_that_is_answered():
    assert {asked for asked, _ in PRIVATIZERS} <= set(PROBES)
    made = (
        *CONFORMING.values(),
        *CURATORS.values(),
        *SHUFFLERS.values(),
        local,
        partial(moments, "central"),
        partial(weights, "central"),
    )
    assert {make().answers for make in made} == set(PROBES)


# ------------------------------------------------------------------------------------------------- products


REWARDS = [(0.0, 1.0), (10.0, 11.0), (-2.0, 1.0)]
PRODUCTS = [(rate, baseline, epochs, interval) for rate in (1.0, 0.5) for baseline in (0.0, None) for epochs in (1, 3)
            for interval in REWARDS]  # fmt: skip
QUICK = {False: (0, 10, 15), True: (5, 20)}
"""Rows for softmax policies and for doses that have every value of every option at least once."""


def test_the_quick_rows_leave_no_value_out():
    quick, every = [PRODUCTS[i] for some in QUICK.values() for i in some], PRODUCTS
    assert [set(values) for values in zip(*quick, strict=True)] == [set(values) for values in zip(*every, strict=True)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("doses", "rate", "baseline", "epochs", "interval"),
    [
        pytest.param(doses, *row, marks=() if i in QUICK[doses] else pytest.mark.slow)
        for doses in QUICK
        for i, row in enumerate(PRODUCTS)
    ],
)
def test_rate_times_baseline_times_epochs_times_rewards(doses, rate, baseline, epochs, interval):
    """False alarms below 7e-6 each; all options of gradients at once. Clipping bounds every interval."""
    low, high = interval
    given = low if baseline is not None else None
    privatizer = gradients(
        GradientPrivatizer, doses=doses, rate=rate, baseline=given, epochs=epochs,
        low=low, high=high, users_per_batch=2000 if rate < 1.0 else 6,
    )  # fmt: skip
    query = probe_of(privatizer).asked(0)._replace(baseline=np.array([low]))
    check_privatizer(privatizer, replicates=100, query=query, only=GENERAL | {"families", "batch size", "certificate"})


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("calibration", "users"),
    # The same rules for more users before a merge: they take twice as long.
    [("tight", 4), pytest.param("tight", 20, marks=pytest.mark.slow), ("paper", 4), ("paper", 20)],
)
def test_batches_times_stages(users, calibration):
    """False alarms below 7e-6 each: one schedule with every layer, with everything, and with consistent counts."""
    shuffle = shuffled_batches(SHAPE, claim_of("shuffle", 6.0, 1e-3), calibration)
    planned = [PlannedBatch(users=users, query=BatchQuery(layer=h, failure_prob=p)) for h, p in
               ((0, None), (1, 0.1), (None, None), (0, 0.1))]  # fmt: skip
    rules = ["fields", "families", "replay", "query", "silence", "shift"]
    if calibration == "tight":
        rules += ["measured", "exposed", "tails", "lattice", "batch size", "messages"]
    assert len(probe_of(shuffle.planned(planned)).variants()) == 3
    check_privatizer(shuffle.planned(planned), replicates=100, only=rules)


@pytest.mark.parametrize("groups", [2, 5])
@pytest.mark.parametrize("layer", [0, 1, None])
@pytest.mark.parametrize("trust", ["none", "shuffle"])
def test_batches_times_stages_times_groups(trust, layer, groups):
    """Who followed which policy is public: a batch in groups is released as the same users without groups are."""
    query, users = BatchQuery(layer=layer, failure_prob=None), 20
    open_batches = Unprotected(shape=SHAPE, batches=())
    shuffle = shuffled_batches(SHAPE, claim_of("shuffle", 6.0, 1e-3))
    privatizer = (open_batches if trust == "none" else shuffle).planned([PlannedBatch(users=users, query=query)])
    batch = ordinary_users(SHAPE, users, 3)
    batch = Trajectories(*(part[:users] for part in (batch.states, batch.actions, np.rint(batch.rewards))))
    cuts = np.linspace(0, users, groups + 1).astype(int)
    parts = [
        count_trajectories(
            Trajectories(batch.states[i:j], batch.actions[i:j], batch.rewards[i:j]), SHAPE.num_states, SHAPE.num_actions
        )
        for i, j in pairwise(cuts)
    ]
    joined, whole = join_counts(parts), count_trajectories(batch, SHAPE.num_states, SHAPE.num_actions)
    assert len(joined.groups) == groups
    assert np.array_equal(np.sum(joined.groups, axis=0), whole.starts)
    found = [
        privatizer.release(privatizer.begin(), given, query, SimulationNoise(np.random.default_rng(0)))[1].statistics
        for given in (joined, whole)
    ]
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trust", "feedback", "calibration"),
    # Tight losses of both trust models and feedbacks are among `CONFORMING`, in another shape.
    [
        ("central", "full", "paper"),
        ("local", "bandit", "paper"),
        pytest.param("central", "bandit", "paper", marks=pytest.mark.slow),
        pytest.param("local", "full", "paper", marks=pytest.mark.slow),
        pytest.param("central", "full", "tight", marks=pytest.mark.slow),
        pytest.param("central", "bandit", "tight", marks=pytest.mark.slow),
        pytest.param("local", "full", "tight", marks=pytest.mark.slow),
        pytest.param("local", "bandit", "tight", marks=pytest.mark.slow),
    ],
)
def test_losses_of_every_trust_feedback_and_calibration(trust, feedback, calibration):
    """False alarms below 7e-6 each; what a paper claims is the certificate's business, what it releases is ours."""
    shape = LayeredShape(horizon=3, pairs=5, pair_of=(0, 0, 1, 1, 2, 3, 4))
    privatizer = make_adversarial(
        shape=shape, claim=claim_of(trust, 2.0, 0.0), episodes=6, feedback=feedback, calibration=calibration
    )
    check_privatizer(privatizer, replicates=100)


def test_public_losses_protect_nobody_and_say_so():
    privatizer = make_adversarial(
        shape=LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3)), claim=claim_of("local", 1.0, 0.0),
        episodes=4, feedback="full", public_losses=True,
    )  # fmt: skip
    check_privatizer(privatizer, replicates=100, only=["families", "shift", "exposed"])


# ---------------------------------------------------------------------------------------------- nothing escapes


class Wider(NamedTuple):
    gradient: Any
    reward: Any
    variance: Any
    releases: Any
    raw: Any


class TellsMore(GradientPrivatizer):
    """Releases a field that nobody's view knows."""

    __slots__ = ()

    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        return after, PrivateStatistics(Wider(*released.statistics, users.rewards.sum()), self.claim)


def test_a_field_that_is_missing_from_the_view_is_an_error():
    with pytest.raises(NonConformant, match="every released field must be in the view of SoftmaxProbe, got raw"):
        check_privatizer(gradients(TellsMore), only=["fields"])


@pytest.mark.parametrize("name", RELEASES)
def test_every_released_array_is_in_the_transcript(name):
    probe = probe_of(RELEASES[name]())
    statistics = probe.privatizer.begin().released
    numbers = sum(np.size(getattr(statistics, field)) for field in statistics._fields if field not in probe.public)
    assert probe.transcript(probe.persons()[0], 0)[0].shape == (probe.releases, numbers)


@pytest.mark.statistical
def test_25_percent_less_noise_is_found_by_measuring():
    """Power, at a false-alarm rate of 1e-6: three quarters of the noise of a gradient; and of a local message."""

    class Quieter(GradientPrivatizer):
        __slots__ = ()

        @property
        def parameters(self) -> Any:
            return super().parameters._replace(sigma=0.75 * self.sigma)

    with pytest.raises(NonConformant, match="noise variance beside gradient"):
        check_privatizer(gradients(Quieter), only=["measured"])
    with pytest.raises(NonConformant, match="signal-to-noise"):
        check_privatizer(gradients(Quieter), only=["exposed"], replicates=600)


def test_the_worst_pair_attains_what_the_families_state():
    probe = probe_of(gradients(users_per_batch=4, clip=0.5)).variants()[1]
    one, other = worst_pair(probe)
    assert np.linalg.norm(probe.exact(one) - probe.exact(other)) == pytest.approx(probe.privatizer.sensitivity)
    loss = probe_of(losses(feedback="full"))
    one, other = worst_pair(loss)
    moved = loss.split((loss.exact(other) - loss.exact(one))[0])
    assert np.abs(moved["losses"]).sum() == 6.0
    assert np.abs(moved["transitions"]).sum() == 4.0


def test_an_unknown_query_has_no_probe():
    with pytest.raises(UnknownName, match="type of query"):
        probe_of(object())  # type: ignore[arg-type]
