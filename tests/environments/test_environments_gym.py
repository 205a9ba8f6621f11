import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import stats

from tacit.environments import GYMNASIUM_IDS, TabularEnv, TabularMDP, make
from tacit.environments.registry import list_environments, make_environment
from tacit.errors import InvalidInput

FALSE_ALARM = 1e-4


@pytest.mark.parametrize("env_id", sorted(GYMNASIUM_IDS))
def test_every_registered_environment_passes_the_checker(env_id):
    env = gymnasium.make(env_id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    mdp = env.unwrapped.mdp
    assert mdp == make(GYMNASIUM_IDS[env_id])
    assert env.observation_space.n == mdp.num_states
    assert env.action_space.n == mdp.num_actions


@pytest.mark.parametrize("env_id", sorted(GYMNASIUM_IDS))
def test_episodes_terminate_at_the_horizon_and_not_before(env_id):
    env = gymnasium.make(env_id)
    state, info = env.reset(seed=1)
    assert env.unwrapped.mdp.rho[state] > 0
    assert info["step"] == 0
    for h in range(env.unwrapped.mdp.horizon):
        state, reward, terminated, truncated, info = env.step(0)
        assert not truncated
        assert terminated == (h == env.unwrapped.mdp.horizon - 1)
        assert info["step"] == h + 1
        assert 0.0 <= reward <= 1.0
    with pytest.raises(InvalidInput, match="reset"):
        env.step(0)


def test_every_named_table_is_registered():
    tables = {info.name for info in list_environments() if isinstance(make_environment(info.name), TabularMDP)}
    assert set(GYMNASIUM_IDS.values()) == tables


def rollout(env, seed):
    generator = np.random.default_rng(5)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(20):
        state, reward, terminated, _, _ = env.step(int(generator.integers(env.action_space.n)))
        seen += [state, reward]
        if terminated:
            seen.append(env.reset()[0])
    return seen


def test_reset_honours_the_seed():
    env = gymnasium.make("tacit/Treatment-v0")
    assert rollout(env, 3) == rollout(env, 3)
    assert rollout(env, 3) == rollout(gymnasium.make("tacit/Treatment-v0"), 3)
    assert rollout(env, 3) != rollout(env, 4)


def test_registration_needs_only_the_import():
    script = (
        "import gymnasium, tacit.environments\n"
        "print(gymnasium.make('tacit/RiverSwim-v0', parameters='states=7').observation_space)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Discrete(7)"


def test_gymnasium_finds_the_ids_by_module_name():
    script = "import gymnasium; print(gymnasium.make('tacit.environments:tacit/HardTree-v0').action_space)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Discrete(3)"


def test_environments_can_be_vectorised():
    envs = gymnasium.make_vec("tacit/RiverSwim-v0", num_envs=3, vectorization_mode="sync")
    states, _ = envs.reset(seed=1)
    assert states.tolist() == [0, 0, 0]
    assert envs.step(np.array([0, 0, 1]))[0].shape == (3,)
    envs.close()


def test_rendering_names_the_state():
    env = gymnasium.make("tacit/RiverSwim-v0", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "step 0 of 6: left bank"


def test_bad_input_is_refused():
    env = TabularEnv(make("riverswim"))
    with pytest.raises(InvalidInput, match="reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match="0 to 1, got 2"):
        env.step(2)
    with pytest.raises(InvalidInput, match="needs a TabularMDP"):
        TabularEnv("riverswim")
    with pytest.raises(InvalidInput, match="render_mode"):
        TabularEnv(make("riverswim"), render_mode="human")


def test_a_deterministic_reward_is_the_mean_and_a_bernoulli_one_a_coin():
    arrays = {"P": [[[1.0]]], "r": [[0.25]], "rho": [1.0], "horizon": 400}
    paid = {}
    for kind in ("deterministic", "bernoulli"):
        env = TabularEnv(TabularMDP(**arrays, reward_kind=kind))
        env.reset(seed=2)
        paid[kind] = [env.step(0)[1] for _ in range(400)]
    assert set(paid["deterministic"]) == {0.25}
    assert set(paid["bernoulli"]) == {0.0, 1.0}
    # 400 coins of mean 0.25: standard deviation 8.7, so 60 to 140 is 4.6 of them; a fair coin gives 200.
    assert 60 < sum(paid["bernoulli"]) < 140


def frequencies(mdp, episodes, seed):
    """Counts [H, S, A, S'], reward sums [H, S, A] and counts of first states under uniform actions."""
    env = TabularEnv(mdp)
    actions = np.random.default_rng(seed).integers(mdp.num_actions, size=(episodes, mdp.horizon))
    counts = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions, mdp.num_states))
    rewards = np.zeros(counts.shape[:3])
    first = np.zeros(mdp.num_states)
    for episode in range(episodes):
        state, _ = env.reset(seed=seed if episode == 0 else None)
        first[state] += 1
        for h in range(mdp.horizon):
            a = int(actions[episode, h])
            following, reward, *_ = env.step(a)
            counts[h, state, a, following] += 1
            rewards[h, state, a] += reward
            state = following
    return counts, rewards, first


def chi_square_p_value(counts, P):
    """Whether the counts come from P, given how often each row was used; impossible moves reject at once."""
    if counts[P == 0].sum() > 0:
        return 0.0
    expected = counts.sum(axis=-1, keepdims=True) * P
    cells = expected > 0
    statistic = float((((counts - expected)[cells]) ** 2 / expected[cells]).sum())
    freedom = int((cells.sum(axis=-1) - 1).clip(min=0).sum())
    return float(stats.chi2.sf(statistic, freedom))


@pytest.mark.statistical
@pytest.mark.parametrize("homogeneous", [True, False])
def test_transition_frequencies_match_the_model(homogeneous):
    # Pearson's test on every row at a false-alarm rate of 1e-4, seed fixed. Power: against a model whose rows are the
    # true ones with one probability 25% off, the same counts are rejected.
    generator = np.random.default_rng(8)
    leading = (1,) if homogeneous else (3,)
    P = 0.5 * generator.dirichlet(np.ones(3), size=(*leading, 3, 2)) + 0.5 / 3  # no tiny cells: χ² holds
    r = generator.random((*leading, 3, 2))
    mdp = TabularMDP(P=P, r=r, rho=[0.5, 0.3, 0.2], horizon=3)
    counts, rewards, first = frequencies(mdp, 8000, seed=4)
    assert chi_square_p_value(counts, mdp.P) > FALSE_ALARM
    assert chi_square_p_value(first, mdp.rho) > FALSE_ALARM
    wrong = mdp.P.copy()
    wrong[..., 0] *= 1.25
    wrong /= wrong.sum(axis=-1, keepdims=True)
    assert chi_square_p_value(counts, wrong) < 1e-9
    assert chi_square_p_value(first, np.array([0.4, 0.4, 0.2])) < 1e-9
    # Rewards: sum of squared z-scores, one per row, is χ² with as many degrees of freedom.
    visits = counts.sum(axis=-1)

    def reward_p_value(means):
        z = (rewards - visits * means) / np.sqrt(visits * means * (1.0 - means))
        return float(stats.chi2.sf(float((z**2).sum()), z.size))

    assert reward_p_value(mdp.r) > FALSE_ALARM
    assert reward_p_value(np.clip(0.8 * mdp.r, 0.01, 0.99)) < 1e-9


def test_impossible_moves_never_happen_and_possible_ones_do():
    mdp = make("riverswim")
    counts, _, _ = frequencies(mdp, 2000, seed=6)
    assert np.array_equal(counts.sum(axis=0) > 0, mdp.P[0] > 0)
