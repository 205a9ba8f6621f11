"""Counts and losses of adversarial MDPs: certificates of printed and tight noise, and what is really released."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contract_calls import shown

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.counts import take_in
from tacit.data.trajectories import LossUser
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded
from tacit.noise.continual.counter import gaussian_shares
from tacit.noise.laplace import Laplace
from tacit.protocol import TOTALS, Noise
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.losses import AdversarialPrivatizer, LossState, make_adversarial
from tacit.released.losses import LayeredShape, LossQuery
from tacit.released.precision import now_radius

# The reference instance: H = 6, X'A = 42, seven pairs per layer with three successors each.
H, PAIRS = 6, 42
REFERENCE = LayeredShape(horizon=H, pairs=PAIRS, pair_of=tuple(np.repeat(np.arange(PAIRS), 3).tolist()))
SMALL = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3))


def claim_of(trust: str, epsilon: float = 1.0, delta: float = 0.0) -> PrivacyClaim:
    return PrivacyClaim(
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS[trust][0],
    )


def built(trust: str, feedback: str, *, shape: LayeredShape = REFERENCE, delta: float = 0.0, **options: object):
    episodes = options.pop("episodes", 10_000)
    return make_adversarial(
        shape=shape, claim=claim_of(trust, delta=delta), episodes=episodes, feedback=feedback, **options
    )


@pytest.mark.parametrize(
    ("trust", "feedback", "pure", "approximate"),
    [
        ("central", "full", 11.0 / 3.0, 0.484),
        ("central", "bandit", 2.0, 0.766),
        ("local", "full", 11.0 / 3.0, 1.943),
        ("local", "bandit", 2.0, 1.368),
    ],
)
def test_printed_noise_gives_more_than_the_printed_epsilon(trust, feedback, pure, approximate) -> None:
    exact = built(trust, feedback, calibration="paper").certificate()
    assert exact.epsilon == pytest.approx(pure, rel=1e-9)
    assert not exact.holds
    assert "FALSE" in exact.verdict
    relaxed = built(trust, feedback, calibration="paper", delta=1e-6).certificate()
    assert relaxed.epsilon == pytest.approx(approximate, rel=2e-3)


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("feedback", ["full", "bandit"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_tight_noise_meets_the_claim_and_wastes_nothing(trust, feedback, delta) -> None:
    certificate = built(trust, feedback, delta=delta).certificate()
    assert certificate.holds
    assert certificate.epsilon == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("feedback", ["full", "bandit"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.8, 1e-6), (5.0, 1e-12), (30.0, 1e-6), (30.0, 1e-3)])
def test_tight_local_noise_is_the_least_at_a_positive_delta_too(feedback, epsilon, delta) -> None:
    # Up to 0.2.0 delta was ignored: the pure noise was added, and the reference instance certified 0.68 for 0.8.
    claim = claim_of("local", epsilon=epsilon, delta=delta)
    found = make_adversarial(shape=REFERENCE, claim=claim, episodes=100, feedback=feedback)
    pure = make_adversarial(shape=REFERENCE, claim=replace(claim, delta=0.0), episodes=100, feedback=feedback)
    assert found.certificate().holds
    assert found.certificate().epsilon == pytest.approx(epsilon, rel=1e-4)
    assert sum_of_squares(found) <= sum_of_squares(pure)
    # Neither kind of noise would do with 0.1 % less than what was found.
    families, weights = found.families(), [1.0] * len(found.families())
    sigmas = gaussian_shares(families, weights, gaussian_mu(epsilon, delta))
    assert sum_of_squares(found) <= sum(sigma**2 for sigma in sigmas) * (1 + 1e-9)
    scale = math.sqrt(sum_of_squares(found) / sum_of_squares(pure)) * 0.999
    names = [name for name, part in pure.parts.items() if part.family is not None]
    less = [Laplace(scale=pure.parts[name].source.scale * scale, discrete=False) for name in names]
    events = tuple(pair for family, noise in zip(families, less, strict=True) for pair in noise.events(family))
    assert epsilon_of(events, delta) > epsilon


def sum_of_squares(privatizer) -> float:
    return sum(part.source.std**2 for part in privatizer.parts.values() if part.family is not None)


def laplace_losses(t: float, cells: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """The privacy loss of Laplace noise over a shift of t scales: atoms at ±t, and midpoints of cells between."""
    edges = np.linspace(-t, t, cells + 1)
    between = 0.5 * math.exp(-t / 2) * np.diff(np.exp(edges / 2))
    losses = np.concatenate([[-t, t], (edges[:-1] + edges[1:]) / 2])
    return losses, np.concatenate([[0.5 * math.exp(-t), 0.5], between])


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5])
@pytest.mark.parametrize("t", [0.2, 1.0, 3.0])
def test_a_loss_and_its_complement_tell_no_more_than_one_counter_that_moves_by_their_sum(t, share) -> None:
    (first, p), (second, q) = laplace_losses(share * t), laplace_losses((1 - share) * t)
    losses, masses = np.add.outer(first, second), np.outer(p, q)
    for epsilon in t * np.array([0.0, 0.25, 0.5, 0.9, 0.99]):
        split = float((masses * np.maximum(-np.expm1(epsilon - losses), 0.0)).sum())
        whole = -math.expm1((epsilon - t) / 2)
        assert 0.3 * whole < split <= whole + 1e-6


def test_tight_noise_of_the_reference_instance() -> None:
    full = built("central", "full", delta=1e-6).noise_std()
    assert full["transitions"] <= 100.0
    assert full["losses"] == pytest.approx(135.6, rel=5e-3)
    bandit = built("central", "bandit", delta=1e-6).noise_std()
    assert bandit["transitions"] == pytest.approx(82.75, rel=5e-3)
    assert bandit["losses"] == pytest.approx(20.7, rel=5e-3)
    assert built("central", "full", delta=1e-6, public_losses=True).noise_std()["transitions"] < 59.0
    assert built("local", "bandit").noise_std()["transitions"] == pytest.approx(33.94, rel=1e-3)
    # Printed counts are not padded: at most 13 nodes add up, where a padded tree has 14 (1333).
    assert built("central", "full", calibration="paper").noise_std()["transitions"] == pytest.approx(1285, rel=1e-3)


def test_a_public_loss_table_costs_nothing_and_takes_an_explicit_switch() -> None:
    private, public = built("central", "full", delta=1e-6), built("central", "full", delta=1e-6, public_losses=True)
    assert not private.public_losses
    assert [family.differing for family in private.families()] == [2 * H, PAIRS]
    assert [family.name for family in public.families()] == ["transitions"]
    with pytest.raises(InvalidInput, match="bandit losses tell where a user was"):
        built("central", "bandit", public_losses=True)


def walker(seed: int) -> LossUser:
    """One user of the small world: layer 0 has pairs 0 and 1, layer 1 has pairs 2 and 3."""
    generator = np.random.default_rng(seed)
    first, second = int(generator.integers(2)), int(generator.integers(2, 4))
    triples = np.array([2 * first + int(generator.integers(2)), second + 2])
    return LossUser(np.array([first, second]), triples, generator.random(2))


def table(seed: int) -> LossUser:
    user = walker(seed)
    return LossUser(user.pairs, user.triples, np.random.default_rng(seed).random(4))


def released_of(privatizer: AdversarialPrivatizer, state: LossState, user: LossUser, noise: Noise) -> Any:
    """The state and the statistics after one user, asked what the feedback shows."""
    return shown(privatizer, state, user, noise, LossQuery(full=privatizer.feedback == "full"))


def contribution(privatizer: AdversarialPrivatizer, user: LossUser) -> dict[str, np.ndarray]:
    """What one user adds to the exact totals."""
    state = privatizer.begin().exact
    take_in(privatizer.parameters.layout.full, state, user.pairs, user.triples, user.losses)
    rest = state.visits - state.own if privatizer.feedback == "bandit" else np.zeros_like(state.own)
    return {"transitions": state.transitions, "visits": state.visits, "losses": state.own, "complements": rest}


def difference(privatizer: AdversarialPrivatizer, one: LossUser, other: LossUser) -> dict[str, np.ndarray]:
    """What the data change in the released numbers: the same noise is replayed for both users."""
    state, seen = privatizer.begin(), []
    for user in (one, other):
        _, released = released_of(privatizer, state, user, SimulationNoise(np.random.default_rng(5)))
        seen.append(released)
    return {name: getattr(seen[0], name) - getattr(seen[1], name) for name in ("transitions", "visits", "losses")}


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_no_pair_of_users_differs_by_more_than_the_families_say(trust, calibration) -> None:
    for feedback, draw in (("bandit", walker), ("full", table)):
        privatizer = built(trust, feedback, shape=SMALL, calibration=calibration, episodes=10)
        sizes = {family.name: family.l1 for family in privatizer.families()}
        allowed = sizes.get("losses", sizes.get("losses and complements"))
        worst = {"transitions": 0.0, "losses": 0.0}
        for seed in range(40):
            moved = difference(privatizer, draw(seed), draw(seed + 100))
            for name in worst:
                worst[name] = max(worst[name], float(np.abs(moved[name]).sum()))
        assert worst["transitions"] == pytest.approx(sizes["transitions"], abs=1e-9)  # noise cancels to rounding
        assert 0.0 < worst["losses"] <= allowed


def test_complements_of_a_message_move_no_more_than_the_losses_alone() -> None:
    privatizer = built("local", "bandit", shape=SMALL, episodes=10)
    family = privatizer.parts["losses"].family
    for seed in range(40):
        one, other = (contribution(privatizer, walker(seed + shift)) for shift in (0, 100))
        together = sum(np.abs(one[name] - other[name]).sum() for name in ("losses", "complements"))
        assert together <= family.l1 + 1e-12


def test_users_who_report_nonsense_are_clipped_and_nothing_raises() -> None:
    wild = LossUser(np.array([99, -7]), np.array([99, -7]), np.array([math.nan, 1e300, -5.0, math.inf]))
    for feedback in ("full", "bandit"):
        privatizer = built("central", feedback, shape=SMALL, episodes=10)
        exact = contribution(privatizer, wild)
        assert all(((values >= 0.0) & (values <= 1.0)).all() for values in exact.values())
        assert "99" not in repr(wild)


@pytest.mark.statistical
@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("feedback", ["full", "bandit"])
def test_noise_is_centred_and_has_the_stated_size(trust, feedback) -> None:
    # False alarm below 1e-6 per check (5 sigma); the same bound rejects a scale 25% off.
    rounds, users = 3_000, 3
    privatizer = built(trust, feedback, shape=SMALL, delta=1e-6 if trust == "central" else 0.0, episodes=8)
    people = [(table if feedback == "full" else walker)(seed) for seed in range(users)]
    noise = SimulationNoise(np.random.default_rng(11))
    exact = [contribution(privatizer, person) for person in people]
    errors = np.zeros((rounds, 3))
    for i in range(rounds):
        state = privatizer.begin()
        for person in people:
            state, released = released_of(privatizer, state, person, noise)
        seen = exact[-1]["losses"] if feedback == "bandit" else sum(part["losses"] for part in exact)
        errors[i] = [
            released.transitions[0] - sum(part["transitions"][0] for part in exact),
            released.visits[3] - sum(part["visits"][3] for part in exact),
            released.losses[2] - seen[2],
        ]
    assert (np.abs(errors.mean(axis=0)) < 5.0 * errors.std(axis=0) / math.sqrt(rounds)).all()
    if trust == "local":
        ratio = (errors**2).mean(axis=0) / released.variance
        # Squares of Laplace sums have at most kurtosis 6: the mean of n of them errs by √(5/n) per sigma.
        slack = 5.0 * math.sqrt(5.0 / rounds)
        fan = np.array([1.0, 1.0 if feedback == "bandit" else 0.5, 1.0])  # pair 3 has one of at most two successors
        assert (np.abs(ratio / fan - 1.0) < slack).all()
        assert abs(0.75**2 - 1.0) > slack


def test_states_are_not_changed_and_secure_noise_is_refused() -> None:
    privatizer = built("central", "full", shape=SMALL, delta=1e-6, episodes=8)
    state = privatizer.begin()
    released_of(privatizer, state, table(1), SimulationNoise(np.random.default_rng(0)))
    assert state.exact.users[0] == 0
    assert all((values == 0.0).all() for values in state.exact)
    assert (state.released.transitions == 0.0).all()
    with pytest.raises(TypeError, match="SimulationNoise"):
        released_of(privatizer, state, table(1), SecureNoise())
    with pytest.raises(NotSupported, match="central and local"):
        built("shuffle", "full", delta=1e-6)


def test_the_last_user_is_never_released() -> None:
    # A counter is paid for K - 1 prefixes: one more with the old noise would show the last user exactly.
    privatizer = built("central", "full", shape=SMALL, delta=1e-6, episodes=3)
    state, noise = privatizer.begin(), SimulationNoise(np.random.default_rng(0))
    for seed in range(2):
        state, _ = released_of(privatizer, state, table(seed), noise)
    with pytest.raises(PrivacyBudgetExceeded, match="spent"):
        released_of(privatizer, state, table(2), noise)


def test_without_privacy_everything_is_exact_and_the_certificate_says_so() -> None:
    for feedback, draw in (("full", table), ("bandit", walker)):
        privatizer = make_adversarial(shape=SMALL, claim=no_privacy(), episodes=5, feedback=feedback)
        assert math.isinf(privatizer.certificate().epsilon)
        assert privatizer.name == privatizer.calibration == "none"
        state, noise = privatizer.begin(), SimulationNoise(np.random.default_rng(0))
        people = [draw(seed) for seed in range(4)]
        for person in people:
            state, released = released_of(privatizer, state, person, noise)
        exact = [contribution(privatizer, person) for person in people]
        for name in ("transitions", "visits"):
            assert (getattr(released, name) == sum(part[name] for part in exact)).all()
        seen = sum(part["losses"] for part in exact) if feedback == "full" else exact[-1]["losses"]
        np.testing.assert_allclose(released.losses, seen, rtol=0, atol=1e-15)
        assert (released.variance == 0.0).all()
    with pytest.raises(InvalidInput, match="trust model other than 'none'"):
        make_adversarial(shape=SMALL, claim=no_privacy(), episodes=5, feedback="full", public_losses=True)


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("feedback", ["full", "bandit"])
@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_compiled_and_interpreted_releases_are_the_same_bits(trust, feedback, calibration) -> None:
    privatizer = built(trust, feedback, shape=SMALL, delta=1e-6, calibration=calibration, episodes=20)
    fast, slow = privatizer.begin(), privatizer.begin()
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    kernel, parameters = privatizer.kernel, privatizer.parameters
    for seed in range(19):
        user = (table if feedback == "full" else walker)(seed)
        kernel(parameters, fast, user, LossQuery(full=feedback == "full"), one)
        slow, released = released_of(privatizer, slow, user, SimulationNoise(two))
        for name in ("transitions", "visits", "losses", "variance"):
            assert (getattr(fast.released, name) == getattr(released, name)).all()


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_stated_radii_cover_the_noise(trust, calibration) -> None:
    # E' by the exact quantile, E by √(2vL) + cL: each is left with at most the stated probability.
    privatizer = built(trust, "bandit", shape=SMALL, calibration=calibration, episodes=300)
    noise, state, p = SimulationNoise(np.random.default_rng(7)), privatizer.begin(), 0.02
    still = LossUser(np.array([0, 2]), np.array([0, 4]), np.zeros(2))
    outside = np.zeros(2)
    for k in range(1, 300):
        state, released = released_of(privatizer, state, still, noise)
        outside[0] += (np.abs(released.losses) > privatizer.loss_radius(p)).sum()
        radius = now_radius(privatizer.precision(), released.variance, 0, math.log(2 / p))
        outside[1] += (np.abs(released.transitions[[1, 2, 3, 5]]) > radius).sum()
        assert released.variance[0] == pytest.approx(
            privatizer.noise_std()["transitions"] ** 2 * (k if trust == "local" else 1)
        )
    assert outside[0] / (299 * 4) < 0.04
    assert outside[0] > 0  # an exact quantile is exceeded now and then
    assert outside[1] / (299 * 4) < 0.02


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("feedback", ["full", "bandit"])
def test_tight_noise_is_rounded_to_the_private_side(trust, feedback) -> None:
    for horizon in (1, 3, 7):
        shape = LayeredShape(horizon=horizon, pairs=2 * horizon, pair_of=tuple(range(2 * horizon)))
        for epsilon in (0.3, 1.0, 3.0, 7.7, 30.0):
            claim = claim_of(trust, epsilon=epsilon)
            privatizer = make_adversarial(shape=shape, claim=claim, episodes=1000, feedback=feedback)
            assert privatizer.certificate().holds
            assert privatizer.certificate().epsilon == pytest.approx(epsilon, rel=1e-9)


def test_only_losses_are_answered() -> None:
    """Running totals are refused although the two queries are equal as tuples."""
    privatizer, noise = built("central", "bandit", shape=SMALL, delta=1e-6), SimulationNoise(np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="answers counts and losses; it was asked for running totals"):
        privatizer.release(privatizer.begin(), walker(0), TOTALS, noise)  # type: ignore[arg-type]
