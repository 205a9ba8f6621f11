"""People who report several times: every trust model and mechanism covers g reports of one person, and says so."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tacit
from papers.gradient_requests import gradient_request
from papers.square_root import SquareRootFactorization
from tacit.accounting.claims import PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import ApproximationEvent, BinomialEvent, Events, GaussianEvent, PureEvent
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages, worst_exposure
from tacit.audit.count_probe import counts_of, one_user
from tacit.audit.exposure import admitted, own_covariance
from tacit.cli import main
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported
from tacit.noise.continual.accumulated import AccumulatedNoise
from tacit.noise.continual.counter import person_events
from tacit.noise.continual.factorization import BufferedToeplitz
from tacit.noise.table import names_of
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.losses import make_adversarial
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape
from tacit.released.gradients import GradientShape
from tacit.released.losses import LayeredShape
from tacit.statistics.count_vectors import count_families

SMALL = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
REFERENCE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
DELTA = 1e-6
G = (1, 2, 5)


def unit(g: int) -> PrivacyUnit:
    return PrivacyUnit(reports=g, per_stage=1)


def made(trust: str, g: int, **changes: Any) -> Any:
    asked = {
        "trust": trust, "shape": SMALL, "episodes": 9, "epsilon": 1.0, "delta": DELTA, "calibration": None,
        "mechanism": None, "users_per_batch": 1, "unit": unit(g),
    }  # fmt: skip
    return make_privatizer(PrivacyRequest(**(asked | changes)))


def base_counters(released: Any) -> np.ndarray:
    """Transitions, rewards and complements, whose noises are independent of each other."""
    parts = (released.transitions, released.rewards, released.visits - released.rewards)
    return np.concatenate([part.ravel() for part in parts])


def worlds(privatizer: Any, sizes: list[int], positions: tuple[int, ...]) -> np.ndarray:
    """[steps, counters]: how far the releases move when one person's reports are all replaced, at equal noise."""
    first, second = (one_user(SMALL, state=s, action=s, reward=float(1 - s)) for s in (0, 1))
    seen = []
    for theirs in (first, second):
        state, noise, released = privatizer.begin(), SimulationNoise(np.random.default_rng(7)), []
        for step, users in enumerate(sizes):
            mine = theirs if step in positions else first
            batch = Trajectories(
                states=np.concatenate([mine.states, *[first.states] * (users - 1)]),
                actions=np.concatenate([mine.actions, *[first.actions] * (users - 1)]),
                rewards=np.concatenate([mine.rewards, *[first.rewards] * (users - 1)]),
            )
            state, private = privatizer.release(state, counts_of(SMALL, batch), TOTALS, noise)
            released.append(base_counters(private.statistics))
        seen.append(np.array(released))
    return np.asarray(seen[1] - seen[0])


@pytest.mark.parametrize("g", [1, 2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mechanism", names_of("central"))
def test_a_curator_covers_all_reports_of_a_person(mechanism: str, g: int) -> None:
    privatizer = made("central", g, mechanism=mechanism, episodes=9)
    certificate = privatizer.certificate()
    assert certificate.holds
    assert 0.999 < certificate.epsilon <= 1.0
    assert certificate.claim.unit == unit(g)
    assert certificate.events == privatizer.events()
    steps = min(8, privatizer.counter.releases)
    sizes = [1] * steps if privatizer.ends is None else np.diff([0, *privatizer.ends]).tolist()
    covariance = own_covariance(privatizer.counter, steps)
    moved = worlds(privatizer, sizes, tuple(range(min(g, steps))))
    # The best linear distinguisher of the two transcripts: Σ_c d_cᵀ Σ⁻¹ d_c over independent counters.
    signal = float(np.einsum("kc,kc->", moved, np.linalg.solve(covariance, moved)))
    assert signal > 0.0
    assert signal <= admitted(privatizer.events()) * (1 + 1e-9)


@pytest.mark.parametrize("g", [1, 2, 3])
@pytest.mark.parametrize("mechanism", ["factorization", "kary-tree", "laplace-tree", "batched"])
def test_no_choice_of_steps_is_worse_than_what_is_certified(mechanism: str, g: int) -> None:
    counter = made("central", g, mechanism=mechanism).counter
    steps = min(7, counter.releases)
    inverse = np.linalg.inv(own_covariance(counter, steps))
    ones = np.tril(np.ones((steps, steps)))  # column i: the prefixes that contain user i
    found = {}
    for chosen in itertools.combinations(range(steps), min(g, steps)):
        shift = ones[:, chosen].sum(axis=1)
        found[chosen] = float(shift @ inverse @ shift)
    most = admitted(person_events(counter, (Family(name="one count", up=1, down=0, shift=1.0),), g))
    assert max(found.values()) <= most * (1 + 1e-6)
    if mechanism == "factorization" and steps == counter.releases:
        # Lemma C10 (several reports): the earliest are the worst, and that is exact.
        assert max(found, key=lambda chosen: found[chosen]) == tuple(range(g))
        assert max(found.values()) == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize("kind", [SquareRootFactorization, BufferedToeplitz])
def test_the_earliest_columns_against_the_matrix_itself(kind: Any) -> None:
    for steps, g in ((1, 1), (5, 2), (40, 1), (40, 7), (40, 40)):
        counter = kind.for_steps(steps, 1.0)
        if kind is SquareRootFactorization:
            column = np.array([math.comb(2 * j, j) / 4.0**j for j in range(steps)])
        else:
            stream, rows = counter.begin(1), np.zeros(steps)
            for k in range(steps):  # b, the impulse response of the noise; c = 1/((1-x) b)
                counter.advance(counter.params, stream, np.full((1, 1), float(k == 0)))
                rows[k] = stream.noise[0]
            lower = np.array([[rows[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
            column = np.linalg.solve(lower, np.ones(steps))
        assert (np.diff(column) <= 1e-15).all()
        assert (column >= 0.0).all()
        matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
        exact = float(np.linalg.norm(matrix[:, :g].sum(axis=1)))
        assert exact * (1 - 1e-13) <= counter.person_sensitivity(g) <= exact * (1 + 1e-9)


def test_the_noise_of_sixteen_stages() -> None:
    families = count_families(REFERENCE, "complement")
    stages = {AccumulatedNoise: (79.3, 112.1, 177.2), SquareRootFactorization: (38.5, 70.2, 154.5)}
    for kind, wanted in stages.items():
        for g, std in zip(G, wanted, strict=True):
            found = tacit.accounting.largest_report_epsilon(
                lambda one, kind=kind: kind.for_releases(families, one, DELTA, 16),
                lambda counter, g=g: person_events(counter, families, g),
                1.0,
                DELTA,
            )
            assert found.max_std == pytest.approx(std, rel=0.01)
    for g, std in zip(G, stages[SquareRootFactorization], strict=True):
        run = made("central", g, shape=REFERENCE, episodes=17_000, users_per_batch=1000)
        assert run.noise_std()["transitions"] == pytest.approx(std, rel=0.01)


@pytest.mark.parametrize(("g", "std"), [(1, 19.8), (2, 28.0), pytest.param(5, 44.3, marks=pytest.mark.slow)])
def test_the_noise_of_shuffled_batches(g: int, std: float) -> None:
    privatizer = made("shuffle", g, shape=REFERENCE, episodes=20_000, users_per_batch=1000)
    assert privatizer.noise_std()["transitions"] == pytest.approx(std, rel=0.01)
    assert privatizer.certificate().holds


@pytest.mark.parametrize("g", G)
def test_a_shuffler_covers_one_report_in_each_of_several_batches(g: int) -> None:
    privatizer = made("shuffle", g, episodes=1200, users_per_batch=200)
    certificate = privatizer.certificate()
    assert certificate.holds
    assert certificate.claim.unit == unit(g)
    moved = np.diff(worlds(privatizer, [200] * 6, tuple(range(g))), axis=0, prepend=0.0)
    signal = float((moved**2).sum()) / privatizer.first.bit_noise(200).honest.std ** 2
    assert 0.0 < signal <= admitted(privatizer.events()) * (1 + 1e-9)
    assert signal == pytest.approx(admitted(privatizer.events()), rel=1e-9)  # the two worlds are the worst ones


@pytest.mark.parametrize("g", [1, 2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mechanism", [*names_of("local"), None])
def test_every_message_of_a_person_is_counted(mechanism: str | None, g: int) -> None:
    privatizer, once = made("local", g, mechanism=mechanism), made("local", 1, mechanism=mechanism)
    certificate = privatizer.certificate()
    assert certificate.holds
    assert 0.99 < certificate.epsilon <= 1.0
    one = privatizer.outcome.exposure(privatizer.transition, privatizer.families())
    assert certificate.epsilon == epsilon_of(tuple(pair for pair in one for _ in range(g)), DELTA)
    ratio = privatizer.noise_std()["transitions"] / once.noise_std()["transitions"]
    # The tail of bounded noise is what costs, and it falls faster than any other.
    assert ratio == 1.0 if g == 1 else ratio > (1.1 if mechanism == "bounded" else g**0.49)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_messages_of_a_person_move_no_more_than_the_events_say(mechanism: str) -> None:
    privatizer = made("local", 2, mechanism=mechanism)
    first, second = (one_user(SMALL, state=s, action=s, reward=float(s)) for s in (0, 1))

    def message(user: Trajectories, seed: int) -> np.ndarray:
        state = privatizer.begin()
        noise = SimulationNoise(np.random.default_rng(seed))
        return privatizer.release(state, user, TOTALS, noise)[0].message  # type: ignore[no-any-return]

    moved = np.array([message(second, seed) - message(first, seed) for seed in (1, 2)])
    variance = privatizer.outcome.user_variance(1)
    signal = float((moved**2).sum()) / variance
    assert 0.0 < signal <= admitted(privatizer.events()) * (1 + 1e-9)


@pytest.mark.parametrize("g", [1, 2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("trust", "delta", "feedback"), [*itertools.product(("central", "local"), (0.0, DELTA), ("full", "bandit"))]
)
def test_losses_of_a_person(trust: str, delta: float, feedback: Any, g: int) -> None:
    shape = LayeredShape(horizon=2, pair_of=(0, 0, 1, 1, 2, 3, 4, 5), pairs=6)
    claims = [made(trust, n, delta=delta).claim for n in (1, g)]
    once, found = (make_adversarial(shape=shape, claim=claim, episodes=9, feedback=feedback) for claim in claims)
    certificate = found.certificate()
    assert certificate.holds
    assert 0.99 < certificate.epsilon <= 1.0
    ratio = found.noise_std()["transitions"] / once.noise_std()["transitions"]
    assert (g if delta == 0.0 else g**0.5) * (1 - 1e-4) <= ratio <= g * (1 + 1e-4)
    # Reports of single noises compose; those of a counter are covered by its own bound.
    assert admitted(found.events()) >= g * admitted(once.events()) / ratio**2 * (1 - 1e-6)


@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize("g", G)
def test_gradients_of_several_batches_compose(g: int, rate: float) -> None:
    def gradients(reports: int) -> Any:
        return make_privatizer(
            gradient_request(
                shape=GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=4),
                trust="central", epsilon=1.0, delta=DELTA, calibration="tight", users_per_batch=20, clip=1.0,
                tabular=True, rate=rate, epochs=2, unit=unit(reports),
            )
        )  # fmt: skip

    found = gradients(g)
    assert found.certificate().holds
    assert sum(count for _, count in found.events()) == 2 * g
    if rate == 1.0:
        assert found.sigma == pytest.approx(math.sqrt(g) * gradients(1).sigma, rel=1e-9)
    else:
        assert 0.999 < found.certificate().epsilon <= 1.0


def test_single_batches_are_charged_for_the_worst_of_the_schedule() -> None:
    shuffled = made("shuffle", 2, asks=BatchQuery, episodes=2000, users_per_batch=300)
    everything, layer = (BatchQuery(layer=h, failure_prob=None) for h in (None, 0))
    kinds = [PlannedBatch(users=300, query=everything), PlannedBatch(users=500, query=layer)]
    planned = shuffled.planned([kinds[0], kinds[1], kinds[1]])
    certificate = planned.certificate()
    assert certificate.holds
    one, other = (channel.events() for channel in planned.channels[:2])
    mixed, same = epsilon_of((*one, *other), DELTA), epsilon_of(in_stages(other, 2), DELTA)
    assert certificate.epsilon == pytest.approx(max(mixed, same), rel=1e-12)


def test_several_reports_are_refused_where_nothing_is_known_about_them() -> None:
    with pytest.raises(NotSupported, match="per stage"):
        made("shuffle", 1, unit=PrivacyUnit(reports=2, per_stage=2), users_per_batch=3)
    with pytest.raises(NotSupported, match="one trajectory"):
        made("central", 2, calibration="paper")
    with pytest.raises(InvalidInput, match="requires a trust model"):
        made("none", 2, epsilon=None, delta=None)
    with pytest.raises(InvalidInput, match="reports_per_person"):
        tacit.RunConfig(environment="riverswim", learner="ucbvi", episodes=9, seeds=(0,), reports_per_person=2)

    class Foreign:
        def events(self, family: Family) -> Events:
            return ((PureEvent(epsilon=0.1), 1),)

    family = Family(name="one count", up=1, down=0, shift=1.0)
    assert person_events(Foreign(), (family,), 1) == ((PureEvent(epsilon=0.1), 1),)
    with pytest.raises(NotSupported, match="person_events"):
        person_events(Foreign(), (family,), 2)


def test_the_worst_stages_against_every_choice() -> None:
    def binomial(bits: int) -> Events:
        return (
            (BinomialEvent(bits=bits, probability=0.5, shift=1), 2),
            (BinomialEvent(bits=bits, probability=0.5, shift=-1), 2),
        )

    mixed: list[Events] = [binomial(400), ((PureEvent(epsilon=0.2), 3),), binomial(900), binomial(400)]
    gaussian: list[Events] = [
        ((GaussianEvent(sigma=s, shift=1.0), 2), (ApproximationEvent(tv=tv, up_to=2.0), 1))
        for s, tv in ((5.0, 1e-9), (9.0, 1e-8), (6.0, 1e-12), (5.0, 1e-9))
    ]
    for schedule, g in itertools.product((mixed, gaussian), (1, 2, 3, 9)):
        choices = [
            epsilon_of(tuple(pair for events in chosen for pair in events), DELTA)
            for chosen in itertools.combinations(schedule, min(g, 4))
        ]
        found = epsilon_of(worst_exposure(schedule, g, DELTA), DELTA)
        assert max(choices) * (1 - 1e-9) <= found <= max(choices) * (1 + 1e-2)
        if schedule is mixed:
            assert found == pytest.approx(max(choices), rel=1e-9)
    many = [binomial(bits) for bits in range(400, 440)]
    with pytest.raises(NotSupported, match="combinations"):
        worst_exposure(many, 3, DELTA)
    assert worst_exposure([], 3, DELTA) == ()


def test_a_run_says_how_often_a_person_may_report(capsys: pytest.CaptureFixture[str]) -> None:
    config = tacit.RunConfig(
        environment="riverswim", learner="ucbvi", episodes=50, seeds=(0,), trust="central", epsilon=1.0, delta=DELTA,
        reports_per_person=3,
    )  # fmt: skip
    assert tacit.RunConfig.from_dict(config.to_dict()) == config
    assert "--reports-per-person 3" in config.command()
    assert (
        "reports_per_person"
        not in tacit.RunConfig(environment="riverswim", learner="ucbvi", episodes=50, seeds=(0,)).to_dict()
    )
    from tacit.runs.assemble import assemble

    found = assemble(config).certificate
    assert found.holds
    assert found.claim.unit == unit(3)
    assert "any 3 reports of the same person, at most one per stage" in found.statement
    words = "--states 2 --actions 2 --horizon 2 --episodes 50 --epsilon 1 --delta 1e-6 --reports-per-person 3"
    assert main(["certify", "--trust", "central", *words.split()]) == 0
    assert "any 3 reports of the same person, at most one per stage" in capsys.readouterr().out.replace("\n", " ")
    assert main(["certify", "--trust", "local", *words.split(), "--feedback", "full"]) == 0
    assert main(["certify", "--trust", "central", *words.split(), "--calibration", "paper"]) == 2
