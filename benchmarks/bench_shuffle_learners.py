"""How SDP-PE+ grows with the model, and what the explicit SDP-PE costs: seconds of one whole run, K = 10⁶.

    python -m benchmarks.bench_shuffle_learners

Random models with four successors per row; calibration and compilation are left out (a first run pays for them).
"""

from __future__ import annotations

import time

import numpy as np

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.learners.sdp_pe import SDPPE
from tacit.learners.sdp_pe_plus import SDPPEPlus
from tacit.loop.simulate import simulate
from tacit.planning.policy_set import every_policy
from tacit.privatizers.none import Unprotected
from tacit.privatizers.shuffle.privatizer import Shuffled
from tacit.released.counts import CountShape

SIZES = (
    (4, 2, 6), (8, 2, 6), (16, 2, 6), (32, 2, 6), (64, 2, 6),
    (16, 2, 12), (16, 2, 24), (16, 4, 6), (16, 8, 6),
    (50, 4, 20), (100, 4, 20),
)  # fmt: skip
EPISODES = 1_000_000


def random_model(S: int, A: int, H: int) -> TabularMDP:
    """Four successors per row."""
    rng = np.random.default_rng(0)
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        P[s, a, rng.choice(S, min(4, S), replace=False)] = rng.dirichlet(np.ones(min(4, S)))
    return TabularMDP(P=P, r=rng.random((S, A)) ** 4, rho=np.eye(S)[0], horizon=H, reward_kind="bernoulli")


def seconds(mdp: TabularMDP, learner: type[SDPPEPlus] | type[SDPPE], *, private: bool, episodes: int) -> float:
    """CPU seconds of the second of two runs."""
    shape = CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=True)
    claim = PrivacyClaim(
        trust="shuffle",
        epsilon=1.0,
        delta=1e-6,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS["shuffle"][0],
    )
    noise = Shuffled(shape=shape, claim=claim, calibration="tight") if private else Unprotected(shape=shape, batches=())
    made = learner(shape=shape, episodes=episodes, noise=noise)
    privatizer = noise.planned(made.batches)
    took = 0.0
    for seed in range(2):
        started = time.process_time()
        simulate(mdp, made, privatizer, episodes=episodes, seed=seed, checkpoints=[episodes])
        took = time.process_time() - started
    return took


def main() -> None:
    """Print the tables."""
    print(f"SDP-PE+, K = {EPISODES:,}: CPU seconds of a run\n")
    print("| S | A | H | no privacy | epsilon 1 |\n|---|---|---|---|---|")
    for S, A, H in SIZES:
        mdp = random_model(S, A, H)
        free, private = (seconds(mdp, SDPPEPlus, private=p, episodes=EPISODES) for p in (False, True))
        print(f"| {S} | {A} | {H} | {free:.2f} | {private:.2f} |", flush=True)
    river = make("riverswim")
    policies = every_policy(horizon=6, num_states=4, num_actions=2)
    P, r, rho = np.array(river.P), np.array(river.r), np.array(river.rho)
    policies.keep(P, rho, r, 0.1)
    started = time.process_time()
    left = policies.keep(P, rho, r, 0.1)
    took = time.process_time() - started
    print(f"\nAll {policies.size:,} policies of RiverSwim evaluated and filtered to {left.size:,}: {took:.2f} s")
    for private in (False, True):
        whole = seconds(river, SDPPE, private=private, episodes=20_000)
        print(f"SDP-PE on RiverSwim, K = 20,000, {'epsilon 1' if private else 'no privacy'}: {whole:.2f} s")


if __name__ == "__main__":
    main()
