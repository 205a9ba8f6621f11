"""Layered worlds and oblivious adversaries: what they promise, and what is refused."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest

from tacit.environments.adversaries import ADVERSARIES, list_adversaries, make_adversary
from tacit.environments.layered import (
    LayeredMDP,
    LossTable,
    LossWorld,
    layered,
    layered_support,
    layered_trap,
    loss_world,
)
from tacit.environments.registry import list_environments, make, make_environment, make_layered
from tacit.errors import InvalidInput, UnknownName

NAMED = [name for name in ADVERSARIES if name != "table"]


def losses_of(name: str, world: LossWorld, K: int, seed: int = 0) -> np.ndarray:
    return make_adversary(name, world, K).losses(0, K, np.random.default_rng(seed))


def costs(world: LossWorld, mean: np.ndarray) -> dict[str, float]:
    """Expected loss of the best, the uniform and the myopic policy, by plain NumPy."""
    rows, A = mean.reshape(-1, world.mdp.num_actions), world.mdp.num_actions
    values = {name: np.zeros(1) for name in ("best", "uniform", "myopic")}
    for step, states in zip(reversed(world.mdp.transitions), reversed(world.mdp.layers[:-1]), strict=True):
        q = {name: rows[states] + step @ value for name, value in values.items()}
        greedy = rows[states].argmin(axis=1)
        values = {
            "best": q["best"].min(axis=1),
            "uniform": q["uniform"] @ np.full(A, 1.0 / A),
            "myopic": q["myopic"][np.arange(len(states)), greedy],
        }
    return {name: float(value[0]) for name, value in values.items()}


@pytest.mark.parametrize("name", NAMED)
def test_losses_lie_in_the_unit_interval_and_do_not_depend_on_the_cut(name) -> None:
    world, K = layered(seed=3), 500
    adversary = make_adversary(name, world, K)
    whole = adversary.losses(0, K, np.random.default_rng(1))
    coins = np.random.default_rng(1)
    parts = [adversary.losses(first, count, coins) for first, count in ((0, 1), (1, 199), (200, 300))]
    assert whole.shape == (K, 20)
    assert ((whole >= 0.0) & (whole <= 1.0)).all()
    assert (np.concatenate(parts) == whole).all()


@pytest.mark.parametrize("name", NAMED)
def test_the_stated_mean_is_the_mean(name) -> None:
    # Coins err by at most 1/2 per episode: 6 standard errors of the mean leave a false alarm below 1e-7 for 20 pairs.
    K = 4000
    adversary = make_adversary(name, layered(seed=3), K)
    assert np.abs(losses_of(name, layered(seed=3), K).mean(axis=0) - adversary.mean).max() < 6 * 0.5 / np.sqrt(K)


def test_switching_jumps_turning_turns_and_drift_arrives() -> None:
    world, K = layered(seed=3), 4000
    base = world.base.ravel()
    segments = losses_of("switching:segments=4,keep=0", world, K).reshape(4, 1000, -1).mean(axis=1)
    assert all(np.abs(one - other).max() > 0.2 for one, other in pairwise(segments))
    turned = losses_of("turning:at=0.25", world, K)
    assert np.abs(turned[:1000].mean(axis=0) - base).max() < 0.1
    assert np.abs(turned[1000:].mean(axis=0) - (1.0 - base)).max() < 0.06
    drifted = losses_of("drift", world, K)
    np.testing.assert_allclose(drifted[0], base)
    assert np.abs(np.diff(drifted, axis=0)).max() < 1.01 / (K - 1)
    assert np.abs(drifted[-1] - base).max() > 0.3


@pytest.mark.parametrize("spec", ["layered:layers=3,states=2,seed=5", "layered:seed=1", "layered-trap"])
def test_worst_of_two_always_punishes_whoever_follows_the_leader(spec) -> None:
    world, K = make_layered(spec), 300
    losses = losses_of("worst-of-two", world, K)
    tables, often = np.unique(losses, axis=0, return_counts=True)
    assert len(tables) == 2
    assert often.min() > 30
    rows = [table.reshape(-1, 2) for table in tables]
    total, led = losses[0].copy(), 0
    for k in range(1, K):
        # The leader of the losses so far, and what it pays in either table.
        value, worst, paid = np.zeros(1), np.zeros(1), [np.zeros(1), np.zeros(1)]
        for step, states in zip(reversed(world.mdp.transitions), reversed(world.mdp.layers[:-1]), strict=True):
            q = total.reshape(-1, 2)[states] + step @ value
            here, choice = np.arange(len(states)), q.argmin(axis=1)
            paid = [row[states, choice] + step[here, choice] @ p for row, p in zip(rows, paid, strict=True)]
            value, worst = q.min(axis=1), (total.reshape(-1, 2)[states] + step @ worst).max(axis=1)
        got = 0 if (losses[k] == tables[0]).all() else 1
        if worst[0] - value[0] > 1e-6:  # else all policies lead
            assert paid[got][0] >= paid[1 - got][0] - 1e-9
            led += 1
        total += losses[k]
    assert led >= K // 2 - 1


def test_a_trap_has_a_large_myopic_gap_and_random_worlds_hardly_any() -> None:
    trap = layered_trap()
    found = costs(trap, trap.base.ravel())
    assert found["myopic"] - found["best"] > 0.7
    assert found["myopic"] > found["uniform"] > found["best"]
    random = [costs(world, world.base.ravel()) for world in (layered(seed=seed) for seed in range(6))]
    gaps = [(c["myopic"] - c["best"]) / (c["uniform"] - c["best"]) for c in random]
    assert np.median(gaps) < 0.2


def test_the_effective_support_grows_from_certain_to_uniform() -> None:
    found = [layered_support(spread=s).mdp.effective_support for s in (0.0, 0.05, 0.2, 0.5, 1.0)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert len(set(found)) == 5
    # C_{x,a} = 2 for three equally likely successors: √4 in the first layer, √12 in the next two, 0 in the last.
    assert found[-1] == pytest.approx(2.0 + 2.0 * np.sqrt(12.0))
    for seed in range(5):
        mdp = layered(layers=5, states=4, actions=3, seed=seed).mdp
        assert 0.0 < mdp.effective_support <= mdp.num_states * np.sqrt(3)


def test_tabular_environments_are_layered_worlds_with_losses_one_minus_reward() -> None:
    river = make("riverswim")
    world = make_layered("riverswim")
    assert world.mdp.widths == LayeredMDP.from_tabular(river).widths
    assert 6.0 - costs(world, world.base.ravel())["best"] == pytest.approx(_optimum(river), abs=1e-9)
    plain = loss_world(world.mdp)
    assert (plain.base == 0.5).all()


def _optimum(mdp) -> float:
    value = np.zeros(mdp.num_states)
    for h in reversed(range(mdp.horizon)):
        value = (mdp.r[h] + mdp.P[h] @ value).max(axis=1)
    return float(mdp.rho @ value)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        (np.full((4, 10, 2), 1.0001), "episode 0 has 1.0001"),
        (np.full((4, 10, 2), -0.1), r"lie in \[0, 1\]"),
        (np.full((4, 10, 2), np.nan), "nan"),
        (np.full((4, 10, 2), np.inf), "inf"),
        (np.zeros(3), "must be"),
        (np.zeros((0, 10, 2)), "must be"),
        ([["a"]], "real numbers"),
    ],
)
def test_losses_of_your_own_are_checked(losses, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        LossTable(losses)


def test_a_table_is_played_as_it_is_and_must_fit(tmp_path) -> None:
    world = layered()
    mine = np.random.default_rng(0).random((7, 10, 2))
    with_last = np.concatenate([mine, np.zeros((7, 1, 2))], axis=1)
    for given in (mine, with_last, mine.reshape(7, 20)):
        adversary = make_adversary(LossTable(given), world, 7)
        assert (adversary.losses(0, 7, np.random.default_rng(0)) == mine.reshape(7, 20)).all()
    np.save(tmp_path / "mine.npy", mine)
    stored = make_adversary(f"table:path={tmp_path / 'mine.npy'}", world, 5)
    assert (stored.losses(0, 5, np.random.default_rng(0)) == mine.reshape(7, 20)[:5]).all()
    table = LossTable(mine)
    assert copy.deepcopy(table) == table
    assert hash(table) == hash(LossTable(mine.copy()))
    assert table != LossTable(1.0 - mine)
    with pytest.raises(InvalidInput, match="cover all 8 episodes"):
        make_adversary(table, world, 8)
    with pytest.raises(InvalidInput, match="10 states"):
        make_adversary(LossTable(np.zeros((7, 4, 2))), world, 7)
    with pytest.raises(InvalidInput, match="readable"):
        make_adversary(f"table:path={tmp_path / 'none.npy'}", world, 5)
    with pytest.raises(InvalidInput, match="7 episodes"):
        make_adversary(table, world, 7).losses(5, 3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("swiching", UnknownName, "did you mean 'switching'"),
        ("switching:segment=3", UnknownName, "did you mean 'segments'"),
        ("switching:world=3", UnknownName, "unknown parameter"),
        ("switching:segments=two", InvalidInput, "a whole number"),
        ("switching:segments=0", InvalidInput, "at least 1"),
        ("switching:keep=2", InvalidInput, r"\[0, 1\]"),
        ("switching:", InvalidInput, "after the colon"),
        ("switching:segments=2,segments=3", InvalidInput, "twice"),
        ("sinusoidal:least=5,most=2", InvalidInput, "exceed"),
        (7, InvalidInput, "named like"),
    ],
)
def test_bad_adversaries_are_refused(spec, error, message) -> None:
    with pytest.raises(error, match=message):
        make_adversary(spec, layered(), 10)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("layerd", "did you mean 'layered'"),
        ("layered:layers=0", "at least 1"),
        ("layered:states=0", "at least 1"),
        ("layered:layers=two", "a whole number"),
        ("layered-trap:actions=1", "at least 2"),
        ("layered-trap:states=1", "at least 2"),
        ("layered-support:spread=1.5", r"\[0, 1\]"),
        ("layered:", "after the colon"),
    ],
)
def test_bad_worlds_are_refused(spec, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_layered(spec)


def test_empty_layers_and_wrong_mean_losses_are_refused() -> None:
    with pytest.raises(InvalidInput, match="shape"):
        LayeredMDP(transitions=(np.zeros((1, 2, 0)), np.zeros((0, 2, 1))))
    mdp = layered().mdp
    for base in (np.full((10, 2), 1.5), np.full((10, 2), np.nan), np.zeros((3, 2))):
        with pytest.raises(InvalidInput, match="base losses"):
            LossWorld(mdp=mdp, base=base)


def test_everything_named_can_be_built_from_its_listed_parameters() -> None:
    for info in list_environments():
        if not isinstance(make_environment(info.name), LossWorld):
            continue
        spelled = ",".join(f"{key}={value}" for key, value in info.parameters.items())
        assert make_layered(f"{info.name}:{spelled}").mdp.fingerprint() == make_layered(info.name).mdp.fingerprint()
        assert info.summary.endswith(".")
    for found in list_adversaries():
        assert found.summary.endswith(".")
        if found.name != "table":
            spelled = ",".join(f"{key}={value}" for key, value in found.parameters.items())
            spec = f"{found.name}:{spelled}" if spelled else found.name
            assert make_adversary(spec, layered(), 9).described == make_adversary(found.name, layered(), 9).described
