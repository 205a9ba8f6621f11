"""Central trust: released totals are exact totals plus the counter's noise; reference numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_calls import shown
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.composition import pure_epsilon_of
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput, PrivacyBudgetExceeded
from tacit.protocol import TOTALS, copy_state
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.central import Central
from tacit.release.loss_noise import loss_parts
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape, empty_counts
from tacit.released.losses import LayeredShape
from tacit.statistics.count_vectors import add_trajectory, dimension_of

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from slow_privatizers import slow_statistics

SMALL = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
POOLED = CountShape(horizon=3, num_states=2, num_actions=2, staged=False)
REFERENCE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
COUNTERS = {"factorization": 1e-6, "kary-tree": 0.0, "laplace-tree": 0.0}


def central(
    mechanism: str | None, shape: CountShape = SMALL, *, episodes: int = 10, batch: int = 1, calibration: Any = None,
    delta: float | None = None,
) -> Central:  # fmt: skip
    wanted = delta if delta is not None else COUNTERS.get(mechanism or "", 0.0)
    request = PrivacyRequest(
        trust="central", shape=shape, episodes=episodes, epsilon=1.0, delta=wanted, calibration=calibration,
        mechanism=mechanism, users_per_batch=batch,
    )  # fmt: skip
    made = make_privatizer(request)
    assert isinstance(made, Central)
    return made


def wanderers(shape: CountShape, users: int, seed: int) -> Trajectories:
    generator = np.random.default_rng(seed)
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    return Trajectories(
        generator.integers(0, S, (users, H + 1)), generator.integers(0, A, (users, H)), generator.random((users, H))
    )


def one(users: Trajectories, i: int) -> Trajectories:
    return Trajectories(users.states[i : i + 1], users.actions[i : i + 1], users.rewards[i : i + 1])


def summed(shape: CountShape, users: Trajectories) -> dict[tuple[Any, ...], float]:
    total: dict[tuple[Any, ...], float] = {}
    for row in zip(users.states, users.actions, users.rewards, strict=True):
        for label, value in slow_statistics(shape, *row).items():
            total[label] = total.get(label, 0.0) + value
    return total


# ----------------------------------------------------------------------------------------------- statistics


wild = st.floats(allow_nan=True, allow_infinity=True)
index = st.integers(min_value=-(2**40), max_value=2**40)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), horizon=st.integers(1, 4), S=st.integers(1, 3), A=st.integers(1, 3), staged=st.booleans())
def test_statistics_are_the_slow_ones_whatever_is_reported(
    data: st.DataObject, horizon: int, S: int, A: int, staged: bool
) -> None:
    shape = CountShape(horizon=horizon, num_states=S, num_actions=A, staged=staged)
    states = np.array(data.draw(st.lists(index | st.integers(0, S - 1), min_size=horizon + 1, max_size=horizon + 1)))
    actions = np.array(data.draw(st.lists(index | st.integers(0, A - 1), min_size=horizon, max_size=horizon)))
    rewards = np.array(data.draw(st.lists(wild | st.floats(0.0, 1.0), min_size=horizon, max_size=horizon)))
    totals, again = empty_counts(shape), empty_counts(shape)
    add_trajectory(totals, states, actions, rewards)
    add_trajectory.py_func(again, states, actions, rewards)
    for left, right in zip(totals, again, strict=True):
        assert left.tobytes() == right.tobytes()
    slow = slow_statistics(shape, states, actions, rewards)
    for family, array in (("P", totals.transitions), ("N", totals.visits), ("R", totals.rewards)):
        for place in np.ndindex(array.shape):
            assert array[place] == pytest.approx(slow.get((family, *place), 0.0), abs=1e-12)


# -------------------------------------------------------------------------------------------------- releases


@pytest.mark.parametrize("shape", [SMALL, POOLED], ids=["staged", "pooled"])
@pytest.mark.parametrize(
    ("mechanism", "calibration"), [*((name, "tight") for name in COUNTERS), ("laplace-tree", "paper")]
)
def test_g1_released_is_exact_plus_the_noise_of_the_counter(
    mechanism: str, shape: CountShape, calibration: str
) -> None:
    """Step by step, from a replayed source: the same stream run beside it gives the difference, bit for bit."""
    privatizer, users = central(mechanism, shape, calibration=calibration), wanderers(shape, 9, 2)
    state, noise = privatizer.begin(), SimulationNoise(np.random.default_rng(4))
    beside, generator = privatizer.counter.begin(dimension_of(shape)), np.random.default_rng(4)
    cells = shape.stages * 4
    for k in range(9):
        state, released = shown(privatizer, state, one(users, k), noise)
        privatizer.counter.step(privatizer.counter.params, beside, generator)
        exact = state.exact
        moved = exact.transitions[:-1] if shape.staged else exact.transitions
        rewards = beside.noise[-2 * cells : -cells]
        other = beside.noise[-cells:]
        visits = (exact.visits.ravel() + other) + (rewards if privatizer.encoding == "complement" else 0.0)
        found = released.transitions[:-1] if shape.staged else released.transitions
        assert np.array_equal(found.ravel(), moved.ravel() + beside.noise[: -2 * cells])
        assert np.array_equal(released.rewards.ravel(), exact.rewards.ravel() + rewards)
        assert np.array_equal(released.squares, released.rewards)
        assert np.array_equal(released.visits.ravel(), visits)
        assert released.users[0] == k + 1
        if shape.staged:
            assert not released.transitions[-1].any()
    slow = summed(shape, users)
    assert state.exact.visits[0, 1, 1] == pytest.approx(slow.get(("N", 0, 1, 1), 0.0))
    assert state.exact.rewards[0, 1, 1] == pytest.approx(slow.get(("R", 0, 1, 1), 0.0))


@pytest.mark.parametrize("mechanism", list(COUNTERS))
def test_the_kernel_is_the_same_compiled_and_interpreted(mechanism: str) -> None:
    privatizer, users = central(mechanism), wanderers(SMALL, 9, 1)
    states = [privatizer.begin(), privatizer.begin()]
    for kernel, state in zip((privatizer.kernel, privatizer.kernel.py_func), states, strict=True):
        generator = np.random.default_rng(6)
        for row in zip(users.states, users.actions, users.rewards, strict=True):
            kernel(privatizer.parameters, state, Walked(*row), TOTALS, generator)
    for left, right in zip(states[0].released, states[1].released, strict=True):
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("mechanism", list(COUNTERS))
def test_g2_the_last_user_is_never_published_and_one_more_is_refused(mechanism: str) -> None:
    privatizer, users = central(mechanism, episodes=4), wanderers(SMALL, 5, 3)
    assert privatizer.counter.releases == 3
    for batches in ([one(users, i) for i in range(5)], [count_trajectories(one(users, i), 2, 2) for i in range(5)]):
        state, noise, seen = privatizer.begin(), SimulationNoise(np.random.default_rng(0)), []
        for batch in batches[:4]:
            state, released = shown(privatizer, state, batch, noise)
            seen.append(copy_state(released))
        assert [int(released.users[0]) for released in seen] == [1, 2, 3, 3]
        for left, right in zip(seen[2], seen[3], strict=True):
            assert np.array_equal(left, right)
        assert state.exact.users[0] == 4
        with pytest.raises(PrivacyBudgetExceeded, match="spent"):
            shown(privatizer, state, batches[4], noise)


def test_a_batch_is_one_step() -> None:
    """Ten batches of a hundred users cost what ten users cost, and every batch draws noise once."""
    single, batched = central("laplace-tree", episodes=10), central("laplace-tree", episodes=1000, batch=100)
    assert single.counter == batched.counter
    users = wanderers(SMALL, 100, 0)
    whole, alone = count_trajectories(users, 2, 2), count_trajectories(one(users, 0), 2, 2)
    many, few = (
        shown(batched, batched.begin(), batch, SimulationNoise(np.random.default_rng(1)))[0] for batch in (whole, alone)
    )
    assert many.stream.time[0] == few.stream.time[0] == 1
    assert many.released.users[0] == 100
    np.testing.assert_allclose(many.released.visits - many.exact.visits, few.released.visits - few.exact.visits)
    trajectory = shown(batched, batched.begin(), one(users, 0), SimulationNoise(np.random.default_rng(1)))[1]
    for left, right in zip(trajectory, few.released, strict=True):
        np.testing.assert_allclose(left, right)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("mechanism", list(COUNTERS))
def test_horizon_one(mechanism: str, staged: bool) -> None:
    """No transitions, no counters for them, and visits and rewards in their own places."""
    shape = CountShape(horizon=1, num_states=2, num_actions=3, staged=staged)
    privatizer = central(mechanism, shape)
    assert [family.name for family in privatizer.families()] == ["rewards and complements"]
    assert privatizer.noise_std()["transitions"] == 0.0
    state = privatizer.begin()
    assert state.stream.noise.shape == (12,)
    user = Trajectories(np.array([[1, 0]]), np.array([[2]]), np.array([[1.0]]))
    state, released = shown(privatizer, state, user, SimulationNoise(np.random.default_rng(0)))
    assert not released.transitions.any()
    np.testing.assert_array_equal(released.rewards.ravel(), state.exact.rewards.ravel() + state.stream.noise[:6])
    assert privatizer.certificate().holds


def test_hostile_users_count_as_clipped_ones() -> None:
    privatizer = central("laplace-tree")
    hostile = Trajectories(
        np.array([[-7, 99, 2**40, -1]]), np.array([[5, -5, 2**33]]), np.array([[7.0, np.nan, -np.inf]])
    )
    tame = Trajectories(np.array([[0, 1, 1, 0]]), np.array([[1, 0, 1]]), np.array([[1.0, 0.0, 0.0]]))
    for made in (privatizer, Unprotected(shape=SMALL)):
        left, right = (
            shown(made, made.begin(), user, SimulationNoise(np.random.default_rng(0)))[1] for user in (hostile, tame)
        )
        for one_array, other in zip(left, right, strict=True):
            assert np.array_equal(one_array, other)
    unsigned = Trajectories(tame.states.astype(np.uint64), tame.actions.astype(np.uint8), tame.rewards)
    released = shown(privatizer, privatizer.begin(), unsigned, SimulationNoise(np.random.default_rng(0)))[1]
    plain = shown(privatizer, privatizer.begin(), tame, SimulationNoise(np.random.default_rng(0)))[1]
    assert np.array_equal(released.visits, plain.visits)


def test_what_is_refused_and_what_is_never_said() -> None:
    privatizer, users = central("laplace-tree"), wanderers(SMALL, 2, 0)
    counts = count_trajectories(users, 2, 2)
    for batch in (users, counts):
        for noise in (SecureNoise(), np.random.default_rng(0)):
            with pytest.raises(TypeError):
                shown(privatizer, privatizer.begin(), batch, noise)  # type: ignore[arg-type]
    longer = wanderers(CountShape(horizon=4, num_states=2, num_actions=2, staged=True), 2, 0)
    for batch in (longer, count_trajectories(longer, 2, 2)):
        with pytest.raises(InvalidInput, match="3 steps"):
            shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(0)))
    with pytest.raises(InvalidInput, match="trust 'central'"):
        Central(
            shape=SMALL, claim=Unprotected(shape=SMALL).claim, calibration="tight", encoding="complement",
            counter=privatizer.counter, mechanism="laplace-tree",
        )  # fmt: skip
    state, _ = shown(privatizer, privatizer.begin(), users, SimulationNoise(np.random.default_rng(0)))
    assert repr(state) == "CentralState(2 users published)"


# --------------------------------------------------------------------------------------------------- numbers


def test_numbers_to_meet() -> None:
    """K = 10⁴, H = 6: prefix std at most 100 at (1, 1e-6), where the printed tree has 1285 and is really 1.889 pure."""
    tight, paper = (central(None, REFERENCE, episodes=10_000, calibration=c, delta=1e-6) for c in ("tight", "paper"))
    assert tight.mechanism == "factorization"
    assert tight.noise_std()["transitions"] <= 100.0
    assert tight.certificate().holds
    # 18 · 14 · √(2 · 13): the most 1-bits of a number below 10⁴ are 13, those of 8,191
    assert paper.noise_std() == pytest.approx(dict.fromkeys(("transitions", "visits", "rewards"), 1284.95), rel=1e-5)
    # ε = (6H - 2) L / b with b = 3HL: (6H - 2)/(3H)
    assert pure_epsilon_of(paper.events()) == pytest.approx(34 / 18, rel=1e-12)
    pure = central(None, REFERENCE, episodes=10_000, calibration="paper")
    assert pure.certificate().epsilon == pytest.approx(1.889, abs=1e-3)
    assert not pure.certificate().holds
    assert "FALSE" in pure.certificate().verdict


@pytest.mark.parametrize("mechanism", list(COUNTERS))
def test_variances_are_those_of_the_counter(mechanism: str) -> None:
    privatizer = central(mechanism, episodes=50)
    state = privatizer.begin()
    worst = max(privatizer.counter.variance_at(k) for k in range(1, privatizer.counter.releases + 1))
    assert privatizer.noise_std()["rewards"] ** 2 == pytest.approx(worst)
    np.testing.assert_allclose(state.released.variance, [worst, 2 * worst, worst])


def test_printed_counts_come_from_the_plain_binary_mechanism():
    """[bai2024adversarial] Sec. 5: only the losses' tree (Alg. 4) has exactly ⌈log₂ K⌉ noises in every prefix."""
    counter: Any = central(None, REFERENCE, episodes=20_000, calibration="paper", delta=1e-6).counter
    assert counter.scale == 3 * 6 * 15
    variances = [counter.variance_at(k) for k in range(1, 20_000)]
    assert variances == [k.bit_count() * 2 * counter.scale**2 for k in range(1, 20_000)]
    assert round(float(np.mean(variances)) ** 0.5) == 1007  # with padding it would be 1,479 everywhere


def test_printed_losses_keep_their_padding():
    claim = make_claim(
        PrivacyRequest(
            trust="central",
            shape=None,
            episodes=20_000,
            epsilon=1.0,
            delta=0.0,
            calibration="paper",
            mechanism=None,
            users_per_batch=1,
        )
    )
    layers = LayeredShape(horizon=2, pairs=2, pair_of=(0, 0, 1))
    for feedback, padded in (("full", True), ("bandit", None)):
        parts = loss_parts(layers, claim, 20_000, feedback, "paper", public_losses=False)
        assert [parts[name].source.padded for name in ("transitions", "visits")] == [False, False]
        assert getattr(parts["losses"].source, "padded", None) is padded
