"""Policy gradients under central trust in whole numbers: length, noise, sensitivity, coins and refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numba
import numpy as np
import pytest
from central_tools import bodies_of, central_claim, people, require_law, simulated

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation
from tacit.policies.softmax import public_features, softmax_table, tabular_features
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise
from tacit.release.contract import StageSize
from tacit.release.fixed_point import from_payload
from tacit.release.gradient import make_gradients
from tacit.release.gradient_noise import GradientSpec
from tacit.release.gradient_release import GradientPlan, GradientRelease, add_truncated, whole_reach
from tacit.release.registry import channel_from_dict
from tacit.released.gradients import DoseQuery, GradientShape, SoftmaxQuery
from tacit.study.state import decode_state, encode_state

STEPS = GradientShape(horizon=3, num_states=2, num_actions=2, staged=True, dimension=12)
BANDIT = GradientShape(horizon=1, num_states=3, num_actions=4, staged=True, dimension=12)
LINEAR = GradientShape(horizon=3, num_states=2, num_actions=3, staged=False, dimension=2)
KINDS = {
    "clipped": (STEPS, GradientSpec(clip=0.7, tabular=True)),
    "clipped, mean reward": (STEPS, GradientSpec(clip=1.0, tabular=True, baseline=None)),
    "exact": (BANDIT, GradientSpec(clip=None, tabular=True, baseline=0.5)),
    "exact, mean reward": (BANDIT, GradientSpec(clip=None, tabular=True, baseline=None)),
    "exact and clipped": (BANDIT, GradientSpec(clip=0.9, tabular=True)),
    "linear": (LINEAR, GradientSpec(clip=0.5, tabular=False)),
    "surrogate": (STEPS, GradientSpec(clip=1.0, tabular=True, surrogate=0.2, epochs=3)),
    "coins": (STEPS, GradientSpec(clip=1.0, tabular=True, rate=0.25, baseline=None)),
}


def basis_of(kind: str, *, reports: int = 1, count: int = 40) -> GradientPlan:
    shape, spec = KINDS[kind]
    claim = replace(central_claim(reports), output="final-policy")
    return GradientPlan(shape=shape, claim=claim, spec=spec, users_per_batch=count)


def channel_of(kind: str, *, reports: int = 1, count: int = 40, least: int | None = None) -> GradientRelease:
    stage = StageSize(target=count, least=least or count, query=SoftmaxQuery)  # type: ignore[arg-type]
    return basis_of(kind, reports=reports, count=count).channels([stage])[0]  # type: ignore[return-value]


def question(kind: str, seed: int = 0, *, sharp: float = 1.0, baseline: float | None = None) -> SoftmaxQuery:
    shape, spec = KINDS[kind]
    features = tabular_features() if spec.tabular else public_features(shape.num_states, shape.num_actions, 2)
    table = np.zeros((shape.stages, shape.num_states, shape.num_actions))
    softmax_table(features, sharp * np.random.default_rng(seed).standard_normal(shape.dimension), table)
    behaviour = np.full(table.shape, 1.0 / shape.num_actions)
    middle = 0.4 if spec.baseline is None else spec.baseline
    return SoftmaxQuery(features, table, behaviour, np.array([middle if baseline is None else baseline]))


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tacit.release.curator.draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64)
    )


def on_grid(users: Trajectories) -> Trajectories:
    return Trajectories(users.states, users.actions, np.floor(users.rewards * 16) / 16)


@numba.njit
def truncate_all(vectors, unit, limit, found):
    """Each vector on its own."""
    whole = np.zeros(vectors.shape[1], dtype=np.int64)
    counted = 0
    for i in range(vectors.shape[0]):
        counted += add_truncated(vectors[i], unit, limit, whole, found[i])
    return counted


def test_s10_truncation_never_makes_a_vector_longer() -> None:
    """S10: a million vectors, with NaN, infinities, subnormals and huge numbers: norm <= M * clip, in integers."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((1_000_000, 4)) * np.exp(rng.uniform(-30.0, 5.0, (1_000_000, 1)))
    vectors[rng.random(vectors.shape) < 0.02] = np.nan
    for value in (np.inf, -np.inf, 5e-324, -5e-324, 2.2e-308, 1.7e308, -1e19, 0.0, 2.0**62, 2.0**63, -(2.0**63)):
        vectors[rng.random(vectors.shape) < 0.005] = value
    with np.errstate(all="ignore"):
        norms = np.sqrt((vectors**2).sum(axis=1))
        vectors[:200_000] *= (0.7 / norms[:200_000])[:, np.newaxis]  # as long as the clip, up to rounding
    _, spec = KINDS["clipped"]
    for unit in (1 << 16, 1 << 30):
        limit = whole_reach(spec, STEPS, unit).limit
        found = np.zeros(vectors.shape, dtype=np.int64)
        counted = truncate_all(vectors, float(unit), limit, found)
        assert 100_000 < counted < 900_000
        squares = (found**2).sum(axis=1)  # at most 4 · (0.7 · 2^30)² < 2^63, were every coordinate at the limit
        # In exact arithmetic: 100 Σ t² <= 49 M², and 0.7 is a little less than 7/10.
        assert 100 * int(max(squares)) <= 49 * unit**2
        finite = np.isfinite(vectors).all(axis=1)
        assert (found[~finite] == 0).all()
        kept = (found != 0).any(axis=1)
        assert (np.abs(found[kept]) <= np.abs(vectors[kept]) * unit).all()


@pytest.mark.parametrize("kind", [*KINDS])
def test_without_noise_the_mean_is_that_of_the_privatizer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient and mean reward equal those of `GradientPrivatizer` without noise, up to one unit per person."""
    silent(monkeypatch)
    channel, shape, spec = channel_of(kind), *KINDS[kind]
    spec = replace(spec, rate=1.0)
    channel = replace(channel, spec=spec)
    users, query = on_grid(people(shape, 40, 1)), question(kind)
    oracle = make_gradients(shape, replace(central_claim(), output="final-policy"), "tight", 40, spec)
    oracle = replace(oracle, sigma=1e-300)
    _, wanted = oracle.release(oracle.begin(), users, query, simulated(0))
    bodies = bodies_of(channel, users, simulated(0))
    _, payload = channel.release(channel.begin_secret(), bodies, query, SecureNoise())
    memory, found = channel.read(channel.begin_memory(), payload, 40)
    assert np.abs(found.statistics.gradient - wanted.statistics.gradient).max() <= 2.0 / channel.unit
    assert found.statistics.releases[0] == memory.released.releases[0] == 1
    if spec.baseline is None:
        assert abs(found.statistics.reward[0] - wanted.statistics.reward[0]) <= 1.0 / channel.whole.reward
    # A cover report adds nothing, and counts as one more person.
    _, more = replace(channel, target=41).release(
        channel.begin_secret(), [*bodies, channel.encode(None, simulated(0))], query, SecureNoise()
    )
    assert more == payload


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["clipped, mean reward", "exact"])
def test_s5_secure_noise_is_as_stated(kind: str) -> None:
    """S5: released minus exact has the stated variances, coordinates independent; payloads are integers."""
    channel, shape = channel_of(kind), KINDS[kind][0]
    users, query = on_grid(people(shape, 40, 1)), question(kind)
    bodies = bodies_of(channel, users, simulated(0))
    with pytest.MonkeyPatch.context() as patch:
        silent(patch)
        exact = from_payload(
            channel.release(channel.begin_secret(), bodies, query, SecureNoise())[1], channel.dimension
        )
    sent = [channel.release(channel.begin_secret(), bodies, query, SecureNoise())[1] for _ in range(1500)]
    found = [channel.read(channel.begin_memory(), payload, 40)[1].statistics for payload in sent]
    errors = np.array([from_payload(payload, channel.dimension) for payload in sent]) - exact
    require_law(errors, channel.variance * np.eye(channel.dimension))
    mean = exact[: shape.dimension] / (channel.unit * 40)
    require_law(np.array([f.gradient for f in found]) - mean, found[0].variance[0] * np.eye(shape.dimension))
    assert math.isclose(found[0].variance[0], channel.sigma**2)
    if channel.whole.reward:
        rewards = np.array([f.reward for f in found]) - np.mean(users.rewards)
        require_law(rewards, np.array([[found[0].variance[1]]]))
    with pytest.raises(AssertionError):
        require_law(0.75 * errors, channel.variance * np.eye(channel.dimension))


@pytest.mark.parametrize("reports", [1, 2, 5])
@pytest.mark.parametrize("kind", [*KINDS])
def test_s6_black_box_sensitivity(kind: str, reports: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """S6: replacing one person moves the sum by at most the certified distance; g reports and all questions compose."""
    silent(monkeypatch)
    shape, spec = KINDS[kind]
    channel, basis = channel_of(kind, reports=reports, count=1), basis_of(kind, reports=reports, count=1)
    everybody = replace(channel, spec=replace(spec, rate=1.0))
    rng, longest, furthest = np.random.default_rng(2), 0.0, 0.0
    for trial in range(60):
        free = not spec.exact(shape) or spec.baseline is None
        query = question(
            kind, trial, sharp=float(rng.choice([0.0, 1.0, 40.0])), baseline=rng.random() if free else None
        )
        users = people(shape, 8, 100 + trial, binary=True)
        sums = [
            from_payload(
                everybody.release(everybody.begin_secret(), [body], query, SecureNoise())[1], channel.dimension
            )
            for body in bodies_of(channel, users, simulated(trial))
        ]
        longest = max(longest, *(float(np.linalg.norm(t)) for t in sums))
        furthest = max(furthest, *(float(np.linalg.norm(a - b)) for a in sums for b in sums))
    reach = channel.whole.reach
    assert 0.5 * reach.norm < longest <= reach.norm
    assert 0.5 * reach.shift < furthest <= reach.shift
    exposed = basis.exposure([channel] * 7, reports)
    counts = {event.NAME: count for event, count in exposed}
    assert counts["slack"] == reports
    assert counts["sampled-gaussian" if spec.rate < 1.0 else "gaussian"] == reports * spec.epochs
    assert epsilon_of(exposed, 1e-6) <= 1.0
    if spec.rate == 1.0:
        mu = math.sqrt(reports * spec.epochs) * reach.shift / math.sqrt(channel.variance)
        assert mu <= gaussian_mu(1.0, 1e-6) < 1.001 * mu
    else:
        assert epsilon_of(exposed, 0.98e-6) > 0.999


def test_hostile_questions_are_refused_or_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is not trusted: tables that are none, baselines from elsewhere, NaN, other shapes."""
    silent(monkeypatch)
    exact, fair = channel_of("exact", count=1), question("exact")
    body = exact.encode(None, simulated(0))
    hostile = [
        fair._replace(table=1e6 * fair.table),
        fair._replace(table=-fair.table),
        fair._replace(baseline=np.array([-1e9])),
        fair._replace(baseline=np.array([np.nan])),
        fair._replace(table=fair.table[:, :2]),
        fair._replace(table=np.full(fair.table.shape, np.nan)),
        fair._replace(features=np.ones((3, 4, 1))),
        TOTALS,
    ]
    # A loose clip does not replace the form that the smaller reach rests on.
    loose = replace(exact, spec=replace(exact.spec, clip=5.0))
    assert loose.whole == exact.whole
    for channel in (exact, loose):
        for query in hostile:
            with pytest.raises(InvalidInput):
                channel.release(channel.begin_secret(), [body], query, SecureNoise())
    clipped = channel_of("clipped", count=1)
    fair = question("clipped")
    for query in (fair._replace(table=1e200 * fair.table), fair._replace(baseline=np.array([1e300]))):
        sent = bodies_of(clipped, people(STEPS, 1, 0), simulated(0))
        _, payload = clipped.release(clipped.begin_secret(), sent, query, SecureNoise())
        assert np.linalg.norm(from_payload(payload, 12).astype(float)) <= 0.7 * clipped.unit
    dose = DoseQuery(np.ones((3, 1)), np.ones(3), np.ones(3), np.ones(1), 1.0)
    with pytest.raises(NotSupported, match="doses"):
        exact.release(exact.begin_secret(), [body], dose, SecureNoise())
    with pytest.raises(NotSupported, match="doses"):
        GradientPlan(shape=replace(BANDIT, num_actions=0), claim=exact.claim, spec=exact.spec, users_per_batch=9)


@pytest.mark.statistical
def test_coins_are_fresh_for_every_person_and_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of people who take part is Binomial(n, q), from both sources, and differs between questions."""
    silent(monkeypatch)
    channel = channel_of("coins", count=400)
    rate, H = 0.25, STEPS.horizon
    users = Trajectories(np.zeros((400, H + 1), dtype=int), np.zeros((400, H), dtype=int), np.ones((400, H)))
    bodies = bodies_of(channel, users, simulated(0))
    for noise in (SecureNoise(), simulated(1)):
        secret, taken = channel.begin_secret(), []
        for _ in range(30):
            secret, payload = channel.release(secret, bodies, question("coins"), noise)
            # Everybody's reward is 1: each adds `most` to the last number.
            taken.append(from_payload(payload, channel.dimension)[-1] / channel.whole.reward)
        assert all(float(t).is_integer() for t in taken)
        assert len(set(taken)) > 5
        # Five standard errors: false alarm 6e-7.
        assert abs(np.mean(taken) - 400 * rate) <= 5.0 * math.sqrt(400 * rate * (1.0 - rate) / 30)
        found = channel.read(channel.begin_memory(), payload, 400)[1].statistics
        assert math.isclose(found.reward[0], 0.5 + 0.5 * taken[-1] / (400 * rate))
        assert math.isclose(found.variance[0], channel.variance / (channel.unit * 100) ** 2)


@pytest.mark.statistical
def test_simulated_and_real_releases_have_one_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """`simulate` and `release` over `encode` round alike, bodies once for all questions; noise is one sampler."""
    silent(monkeypatch)
    shape, spec = KINDS["clipped, mean reward"]
    channel = replace(channel_of("clipped, mean reward", count=12), spec=replace(spec, epochs=2), levels=1)
    once = replace(channel, spec=spec)
    users, query = people(shape, 12, 1), question("clipped, mean reward")
    samples = []
    for number in range(2):
        noise, found = simulated(number), []
        for _ in range(300):
            if number:
                _, payload = once.simulate(once.begin_secret(), users, query, noise)
            else:
                secret, bodies = channel.begin_secret(), bodies_of(channel, users, noise)
                before, payload = (channel.release(secret, bodies, query, noise)[1] for _ in range(2))
                assert before == payload
            found.append(from_payload(payload, channel.dimension) / channel.unit)
        samples.append(np.array(found))
    real, simulation = samples
    variance = np.var(real, axis=0)
    assert (variance > 0.0).all()
    # 26 comparisons at six standard errors: false alarm below 1e-7; a variance of 300 has a relative error of √(2/300).
    assert (np.abs(real.mean(axis=0) - simulation.mean(axis=0)) <= 6.0 * np.sqrt(2.0 * variance / 300)).all()
    assert (np.abs(np.log(np.var(simulation, axis=0) / variance)) <= 6.0 * math.sqrt(4.0 / 300)).all()
    with pytest.raises(InvalidInput, match="same bodies"):
        channel.simulate(channel.begin_secret(), users, query, simulated(0))


@pytest.mark.parametrize("kind", [*KINDS])
def test_extra_noise_over_the_continuous_mechanism(kind: str) -> None:
    """At most 0.5 % above the continuous mechanism of the same certificate, and never below."""
    shape, spec = KINDS[kind]
    claim = replace(central_claim(), output="final-policy")
    continuous = make_gradients(shape, claim, "tight", 40, spec).sigma
    assert continuous * (1.0 - 1e-4) < basis_of(kind).sigma < 1.002 * continuous


def test_sizes_and_files() -> None:
    """n in [least, target], the mean over n; from_dict(to_dict) is the identity; what is wrong is refused."""
    for kind in KINDS:
        channel = channel_of(kind, reports=2, least=30)
        assert channel_from_dict(json.loads(json.dumps(channel.to_dict()))) == channel
        assert channel.questions == KINDS[kind][1].epochs
    users, query = people(STEPS, 41, 1), question("coins")
    bodies = bodies_of(channel, users, simulated(0))
    for count in (30, 35, 40):
        secret, payload = channel.release(channel.begin_secret(), bodies[:count], query, SecureNoise())
        memory, found = channel.read(decode_state(encode_state(channel.begin_memory())), payload, count)
        assert math.isclose(found.statistics.variance[0], channel.variance / (channel.unit * 0.25 * count) ** 2)
        assert channel.events_at(count) == channel.events()
    assert decode_state(encode_state(secret)) == ()
    assert memory.released.releases[0] == 1
    for count, error in ((29, PrivacyViolation), (41, InvalidInput)):
        with pytest.raises(error):
            channel.release(channel.begin_secret(), bodies[:count], query, SecureNoise())
    plain = channel.to_dict()
    wrong = [
        plain | {"more": 1},
        plain | {"variance": 100},
        plain | {"spec": plain["spec"] | {"clip": None}},
        plain | {"spec": plain["spec"] | {"clip": [0, 1]}},
        plain | {"spec": plain["spec"] | {"clip": [1 << 20, 1]}},
        plain | {"spec": plain["spec"] | {"rate": [3, 2]}},
        plain | {"spec": plain["spec"] | {"rate": [1, 3]}},
        plain | {"spec": plain["spec"] | {"epochs": 0}},
        plain | {"spec": plain["spec"] | {"tabular": 1}},
        plain | {"shape": plain["shape"] | {"dimension": 13}},
    ]
    for entries in wrong:
        with pytest.raises(InvalidInput):
            channel_from_dict(entries)
    with pytest.raises(InvalidInput, match="gradient"):
        basis_of("clipped").channels([StageSize(target=4, least=4, query=TOTALS)])
