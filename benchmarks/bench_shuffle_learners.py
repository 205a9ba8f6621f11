"""Learners in stages: SDP-PE+ against UCBVI, its growth with the model, and the explicit set of policies of SDP-PE.

    python -m benchmarks shuffle_learners          ratios with targets
    python -m benchmarks.bench_shuffle_learners    the table of docs/shuffle-learners.md, larger models included

CPU seconds of whole runs, K = 10⁶. Random models with four successors per row; calibration and compilation are left out
(a first run pays for them).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.bench_loop import fit_seconds
from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.learners.sdp_pe import SDPPE
from tacit.learners.sdp_pe_plus import SDPPEPlus
from tacit.learners.ucbvi import UCBVI
from tacit.planning.policy_set import every_policy
from tacit.release.none import Unprotected
from tacit.release.shuffle_release import ShufflePlan
from tacit.release.staged import Staged
from tacit.released.counts import CountShape
from tacit.simulation.simulate import simulate

SIZES = (
    (4, 2, 6), (8, 2, 6), (16, 2, 6), (32, 2, 6), (64, 2, 6),
    (16, 2, 12), (16, 2, 24), (16, 4, 6), (16, 8, 6),
    (50, 4, 20), (100, 4, 20),
)  # fmt: skip
GROWTH = {
    "S": ((8, 2, 6), (16, 2, 6), (32, 2, 6), (64, 2, 6)),
    "A": ((16, 2, 6), (16, 4, 6), (16, 8, 6)),
    "H": ((16, 2, 6), (16, 2, 12), (16, 2, 24)),
}
EXPONENTS = {"S": 1.5, "A": 2.5, "H": 1.5}
"""What the committed table grew like (0.7, 2.3, 1.0), and some room: its seconds have two digits."""
EPISODES = 1_000_000

Row = dict[str, Any]


def random_model(S: int, A: int, H: int) -> TabularMDP:
    """Four successors per row."""
    rng = np.random.default_rng(0)
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        P[s, a, rng.choice(S, min(4, S), replace=False)] = rng.dirichlet(np.ones(min(4, S)))
    return TabularMDP(P=P, r=rng.random((S, A)) ** 4, rho=np.eye(S)[0], horizon=H, reward_kind="bernoulli")


def seconds(
    mdp: TabularMDP, learner: type[SDPPEPlus] | type[SDPPE], *, private: bool, episodes: int, runs: int = 1
) -> float:
    """CPU seconds of a run, the best of so many after a first one."""
    shape = CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=True)
    claim = PrivacyClaim(
        trust="shuffle",
        epsilon=1.0,
        delta=1e-6,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS["shuffle"][0],
    )
    plan = ShufflePlan(shape=shape, claim=claim, overflow=0.0, most_bits=None)
    noise: Staged | Unprotected = Staged(channels=(), basis=plan, batches=())
    if not private:
        noise = Unprotected(shape=shape, batches=())
    made = learner(shape=shape, episodes=episodes, noise=noise)
    privatizer = noise.planned(made.batches)
    took = []
    for _ in range(runs + 1):
        started = time.process_time()
        simulate(mdp, made, privatizer, episodes=episodes, seed=1, checkpoints=[episodes])
        took.append(time.process_time() - started)
    return min(took[1:])


def run() -> list[Row]:
    """SDP-PE+ against UCBVI, the exponents of its growth, and the explicit set: the smaller sizes only."""
    river = make("riverswim")
    shape = CountShape(horizon=river.horizon, num_states=river.num_states, num_actions=river.num_actions, staged=True)
    episode = fit_seconds(UCBVI(shape=shape, episodes=EPISODES), river)
    rows = [against_ucbvi(river, episode * EPISODES, private=private) for private in (False, True)]
    rows += [growth(letter, sizes) for letter, sizes in GROWTH.items()]
    count, left, took = filter_seconds()
    rows.append(
        {
            "name": "sdp-pe: every policy of RiverSwim evaluated and filtered, seconds",
            "ratio": took,
            "target": 1.0,
            "better": "lower",
            "detail": f"{count:,} policies, {left:,} left; {1e9 * took / count:.1f} ns per policy",
        }
    )
    return rows


def against_ucbvi(mdp: TabularMDP, plain: float, *, private: bool) -> Row:
    """A whole run in stages against a run of as many users one by one: a policy per stage is what makes it cheap."""
    spent = seconds(mdp, SDPPEPlus, private=private, episodes=EPISODES, runs=7)
    return {
        "name": f"sdp-pe-plus, {'epsilon 1' if private else 'no privacy'}: a million users of RiverSwim vs ucbvi",
        "ratio": spent / plain,
        "target": 0.05,
        "better": "lower",
        "detail": f"{1e3 * spent:.1f} ms against {1e3 * plain:.0f} ms; S=4 A=2 H=6",
    }


def growth(letter: str, sizes: tuple[tuple[int, int, int], ...]) -> Row:
    """The slope of log CPU seconds against log size, without privacy: noise ends the search early, and so the work."""
    spent = [seconds(random_model(*size), SDPPEPlus, private=False, episodes=EPISODES, runs=3) for size in sizes]
    values = [size["SAH".index(letter)] for size in sizes]
    slope = float(np.polyfit(np.log(values), np.log(spent), 1)[0])
    shown = ", ".join(f"{value}: {1e3 * one:.1f}" for value, one in zip(values, spent, strict=True))
    return {
        "name": f"sdp-pe-plus, exponent in {letter}",
        "ratio": slope,
        "target": EXPONENTS[letter],
        "better": "lower",
        "detail": f"ms of a run at {letter} = {shown}",
    }


def filter_seconds() -> tuple[int, int, float]:
    """How many policies RiverSwim has, how many a filter leaves, and the CPU seconds that it takes."""
    river = make("riverswim")
    policies = every_policy(horizon=6, num_states=4, num_actions=2)
    P, r, rho = np.array(river.P), np.array(river.r), np.array(river.rho)
    policies.keep(P, rho, r, 0.1)
    started = time.process_time()
    left = policies.keep(P, rho, r, 0.1)
    return int(policies.size), int(left.size), time.process_time() - started


def main() -> None:
    """Print the tables."""
    print(f"SDP-PE+, K = {EPISODES:,}: CPU seconds of a run\n")
    print("| S | A | H | no privacy | epsilon 1 |\n|---|---|---|---|---|")
    for S, A, H in SIZES:
        mdp = random_model(S, A, H)
        free, private = (seconds(mdp, SDPPEPlus, private=p, episodes=EPISODES) for p in (False, True))
        print(f"| {S} | {A} | {H} | {free:.2f} | {private:.2f} |", flush=True)
    count, left, took = filter_seconds()
    print(f"\nAll {count:,} policies of RiverSwim evaluated and filtered to {left:,}: {took:.2f} s")
    for private in (False, True):
        whole = seconds(make("riverswim"), SDPPE, private=private, episodes=20_000)
        print(f"SDP-PE on RiverSwim, K = 20,000, {'epsilon 1' if private else 'no privacy'}: {whole:.2f} s")


if __name__ == "__main__":
    main()
