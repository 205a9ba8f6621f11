"""The loop: UCBVI and PSRL against plain NumPy and public peers, memory at many episodes, distance from the floor.

CPU seconds are compared, best of several in the same run. The peers are measured if `make bench-peers` has made their
environment; the plain NumPy twin (tests/reference) always is.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from tacit.data.trajectories import prepare_world, roll_out, walk
from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import random_mdp, riverswim
from tacit.gammas import gamma_draw
from tacit.learners.psrl import PSRL
from tacit.learners.ucbvi import UCBVI
from tacit.policies import uniform_policy
from tacit.randomness import seed_streams
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape
from tacit.simulation.loop import fused, kernels_of
from tacit.simulation.simulate import simulate
from tacit.simulation.worlds import TabularWorld

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
PEERS = ROOT / ".venv-peers" / "bin" / "python"
EPISODES = 20_000

Row = dict[str, Any]


def run() -> list[Row]:
    """Every row of the table."""
    river = riverswim()
    fits = {
        "ucbvi": fit_seconds(UCBVI(shape=shape(river, staged=True), episodes=EPISODES), river),
        "ucbvi pooled": fit_seconds(UCBVI(shape=shape(river, staged=False), episodes=EPISODES), river),
        "ucbvi practical": fit_seconds(
            UCBVI(shape=shape(river, staged=True), episodes=EPISODES, constants="practical"), river
        ),
        "psrl": fit_seconds(PSRL(shape=shape(river, staged=True)), river),
        "psrl pooled": fit_seconds(PSRL(shape=shape(river, staged=False)), river),
    }
    rows = [
        numpy_row(river, rule, fits[name]) for rule, name in (("hoeffding", "ucbvi"), ("practical", "ucbvi practical"))
    ]
    rows += peer_rows(river, fits)
    rows += memory_rows()
    rows += floor_rows()
    rows.append(long_run_row())
    rows.append(rollout_row(river))
    return rows


def shape(mdp: TabularMDP, *, staged: bool) -> CountShape:
    return CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=staged)


def best_of(times: int, call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of several calls."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def fit_seconds(learner: Any, mdp: TabularMDP, episodes: int = EPISODES) -> float:
    """CPU seconds per episode of a whole fit, exact regret at 100 checkpoints included; compiled before the clock."""
    privatizer = Unprotected(shape=learner.shape)
    simulate(mdp, learner, privatizer, episodes=10, seed=0, speed="compiled")
    return best_of(25, lambda: simulate(mdp, learner, privatizer, episodes=episodes, seed=0)) / episodes


def numpy_row(mdp: TabularMDP, rule: str, fast: float) -> Row:
    """A plain NumPy loop that does the same: plan, walk, count."""
    from slow_ucbvi import SlowUCBVI

    episodes = 300
    sizes = {"horizon": mdp.horizon, "num_states": mdp.num_states, "num_actions": mdp.num_actions}

    def fit() -> None:
        rng = np.random.default_rng(0)
        learner = SlowUCBVI(**sizes, staged=True, rule=rule, episodes=EPISODES)
        for _ in range(episodes):
            policy = learner.plan(rng.random((mdp.horizon, mdp.num_states)))
            s = int(rng.choice(mdp.num_states, p=mdp.rho))
            states, actions, rewards = [s], [], []
            for h in range(mdp.horizon):
                a = int(policy[h, s])
                rewards.append(float(rng.random() < mdp.r[h, s, a]))
                s = int(rng.choice(mdp.num_states, p=mdp.P[h, s, a]))
                states.append(s)
                actions.append(a)
            learner.observe(states, actions, rewards)

    slow = best_of(3, fit) / episodes
    return {
        "name": f"ucbvi ({rule}) vs plain NumPy",
        "ratio": slow / fast,
        "target": 100.0,
        "better": "higher",
        "detail": f"{fast * 1e6:.2f} us/episode against {slow * 1e6:.0f}; RiverSwim S=4 A=2 H=6, K=20,000",
    }


def peer_rows(mdp: TabularMDP, fits: dict[str, float]) -> list[Row]:
    """The public peers on the same MDP, each as it comes (time-homogeneous) and stage-dependent."""
    # The fastest public PSRL is time-homogeneous. Stage-dependent, an episode is 256 gamma variates: no target is set.
    wanted: dict[str, list[tuple[str, str, float | None]]] = {
        "ucbvi": [("ucbvi", "staged", 300.0), ("ucbvi pooled", "pooled", 300.0)],
        "psrl": [("psrl pooled", "pooled", 200.0), ("psrl", "staged", None)],
    }
    if not PEERS.exists():
        return [
            {
                "name": f"{kind} vs a public peer",
                "ratio": None,
                "target": None,
                "detail": "run `make bench-peers` first",
            }
            for kind in wanted
        ]
    model = json.dumps({"P": mdp.stage_P[0].tolist(), "r": mdp.stage_r[0].tolist(), "horizon": mdp.horizon})
    rows: list[Row] = []
    for kind, pairs in wanted.items():
        command = [str(PEERS), str(ROOT / "benchmarks" / "peer_fits.py"), kind, "1000"]
        done = subprocess.run(command, input=model, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            rows.append({"name": f"{kind} vs a public peer", "ratio": None, "target": None, "detail": last[:100]})
            continue
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        for ours, theirs, target in pairs:
            seconds = answer["seconds_per_episode"][theirs]
            rows.append(
                {
                    "name": f"{ours} vs {answer['peer']} ({theirs})",
                    "ratio": seconds / fits[ours],
                    "target": target,
                    "better": "higher",
                    "detail": f"{fits[ours] * 1e6:.2f} us/episode against {seconds * 1e6:.0f}",
                }
            )
    return rows


MEMORY = """
import sys
from tacit.environments.tabular_worlds import random_mdp
from tacit.learners.ucbvi import UCBVI
from tacit.simulation.simulate import simulate
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape
shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
episodes = int(sys.argv[1])
learner = UCBVI(shape=shape, episodes=episodes)
simulate(random_mdp(), learner, Unprotected(shape=shape), episodes=episodes, seed=0)
"""

# The peak of this program alone (VmHWM). `ru_maxrss` outlives exec: it can be the peak of whoever started the program,
# and then a benchmark that ran before is what is measured.
PEAK = """
import re, resource
from pathlib import Path
status = Path("/proc/self/status")
own = re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text()) if status.exists() else None
print(int(own[1]) / 1024 if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak_megabytes(program: str, *arguments: object) -> float:
    """The peak of resident memory of a Python program in a process of its own."""
    command = [sys.executable, "-c", program + PEAK, *map(str, arguments)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def memory_rows() -> list[Row]:
    """The peak of resident memory at 10⁵ and 10⁸ episodes, each in its own process."""
    peak_megabytes(MEMORY, 10)  # compiles, which takes memory of its own
    peaks = [peak_megabytes(MEMORY, episodes) for episodes in (10**5, 10**8)]
    return [
        {
            "name": "memory, K=10^8 of 300 MB",
            "ratio": peaks[1] / 300.0,
            "target": 1.0,
            "better": "lower",
            "detail": f"{peaks[1]:.0f} MB resident at its peak; random-mdp S=A=H=2",
        },
        {
            "name": "memory, K=10^8 vs K=10^5",
            "ratio": peaks[1] / peaks[0],
            "target": 1.05,
            "better": "lower",
            "detail": f"{peaks[0]:.0f} MB and {peaks[1]:.0f} MB: flat in K",
        },
    ]


@numba.njit
def floor(world, policy, episodes, uniforms, gammas, world_coins, learner_coins):
    """What no loop can do without: walk, and draw the learner's random numbers."""
    horizon = policy.shape[0]
    states = np.zeros(horizon + 1, dtype=np.int64)
    actions = np.zeros(horizon, dtype=np.int64)
    rewards = np.zeros(horizon)
    total = 0.0
    for _ in range(episodes):
        walk(world, policy, world_coins, states, actions, rewards)
        for _ in range(uniforms):
            total += learner_coins.random()
        for _ in range(gammas):
            total += gamma_draw(1.5, learner_coins)
    return total


def floor_seconds(uniforms: int, gammas: int, *, episodes: int, times: int) -> float:
    """Seconds per episode of a loop that only samples: S=A=H=2."""
    world, policy = prepare_world(random_mdp()), np.zeros((2, 2), dtype=np.int64)

    def sample(count: int) -> None:
        floor(world, policy, count, uniforms, gammas, np.random.default_rng(0), np.random.default_rng(1))

    sample(10)
    return best_of(times, lambda: sample(episodes)) / episodes


def floor_rows() -> list[Row]:
    """Time per episode against a compiled loop that only samples: S=A=H=2, the first 300,000 episodes."""
    mdp, episodes = random_mdp(), 300_000
    rows: list[Row] = []
    # UCBVI draws one coin per step and state; PSRL S²A gammas for the first step's rows and two for each mean reward.
    for name, learner, uniforms, gammas in (
        ("ucbvi", UCBVI(shape=shape(mdp, staged=True), episodes=10**8), 4, 0),
        ("psrl", PSRL(shape=shape(mdp, staged=True)), 0, 8 + 16),
    ):
        least = floor_seconds(uniforms, gammas, episodes=episodes, times=25)
        spent = fit_seconds(learner, mdp, episodes)
        rows.append(
            {
                "name": f"{name} vs only sampling",
                "ratio": spent / least,
                "target": 3.0,
                "better": "lower",
                "detail": f"{spent * 1e9:.0f} ns/episode against {least * 1e9:.0f}; S=A=H=2",
            }
        )
    return rows


def long_run_row() -> Row:
    """Along a run of K=10⁸ episodes: at twenty places the next 100,000, best of nine, against only sampling."""
    mdp, places, stride, size = random_mdp(), 20, 5 * 10**6, 100_000
    learner = UCBVI(shape=shape(mdp, staged=True), episodes=places * stride)
    privatizer = Unprotected(shape=learner.shape)
    world, marks = TabularWorld(mdp), np.array([places * stride])
    sampler, judge = world.sampler(learner, episodes=places * stride, seed=0), world.judge(learner, marks)
    kernels = kernels_of(learner, privatizer, sampler, judge)
    assert kernels is not None
    advance = fused(kernels, 1)

    def learn(run: Any, done: int, episodes: int) -> None:
        belief, state, tally, streams = run
        advance(
            learner.parameters, belief, learner.query(belief), privatizer.parameters, state,
            sampler.arrays(done, episodes), sampler.buffers, judge.truth, tally, judge.curves, marks, done, episodes, 1,
            places * stride, streams.world, streams.learner, streams.noise,
        )  # fmt: skip

    run = (learner.begin(), privatizer.begin(), judge.tally, seed_streams(0))
    learn(copy.deepcopy(run), 0, 10)
    spent = []
    for place in range(places):
        again = [copy.deepcopy(run) for _ in range(9)]
        spent.append(best_of(9, lambda done=place * stride, again=again: learn(again.pop(), done, size)) / size)
        learn(run, place * stride, stride)
    # The median place: the cost does not change along the run, but now and then the machine does.
    typical, least = float(np.median(spent)), floor_seconds(4, 0, episodes=size, times=25)
    return {
        "name": "ucbvi vs only sampling, K=10^8",
        "ratio": typical / least,
        "target": 3.0,
        "better": "lower",
        "detail": f"{typical * 1e9:.0f} ns/episode along the run against {least * 1e9:.0f}; S=A=H=2",
    }


def rollout_row(mdp: TabularMDP) -> Row:
    """Seconds for 10⁶ trajectories of six steps."""
    world, policy = prepare_world(mdp), uniform_policy(6, 4, 2)
    roll_out(world, policy, 10, np.random.default_rng(0))
    seconds = best_of(3, lambda: roll_out(world, policy, 10**6, np.random.default_rng(0)))
    return {
        "name": "10^6 trajectories of H=6, seconds",
        "ratio": seconds,
        "target": 1.0,
        "better": "lower",
        "detail": f"{seconds * 1e9 / 1e6:.0f} ns per trajectory of a stochastic policy, on one core",
    }
