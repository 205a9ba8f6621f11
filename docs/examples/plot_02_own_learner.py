"""
Write a learner: explore-then-commit
====================================

A learner sees released statistics only, so it runs under every trust model that answers its query.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit.learners.contract import PlanningLearner
from tacit.planning.dynamic import backward_induction
from tacit.policies import DeterministicPolicy, uniform_policy
from tacit.protocol import TOTALS, Plan, Totals
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape


class ExploreThenCommit(PlanningLearner):
    """Explore in the first batch, then follow the best policy of the estimated model."""

    asks = Totals

    def __init__(self, *, shape, explorers):
        self.name, self.shape, self.explorers = "explore-then-commit", shape, explorers
        self.constants, self.z = "none", None

    def begin(self):
        """Nothing is known."""

    def plan(self, belief, coins):
        """Explore, or follow what the released counts say."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        if belief is None:
            return belief, Plan(policy=uniform_policy(H, S, A), users=self.explorers, query=TOTALS)
        N = np.maximum(belief.transitions, 0.0)
        model = N / np.maximum(N.sum(axis=3, keepdims=True), 1.0)
        r = np.clip(belief.rewards / np.maximum(belief.visits, 1.0), 0.0, 1.0)
        _, _, best = backward_induction(model, r, H)
        return belief, Plan(policy=DeterministicPolicy(best), users=None, query=None)

    def update(self, belief, released):
        """What was released is what is known."""
        return released.statistics


# %%
# How many users should explore? Too few give noisy counts, too many lose reward.
mdp = tacit.make_environment("riverswim")
shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
sizes, regrets = (500, 1000, 2000, 4000, 8000), []
for explorers in sizes:
    privatizer = make_privatizer(
        PrivacyRequest(trust="shuffle", shape=shape, episodes=20_000, epsilon=1.0, delta=1e-6, calibration=None,
                       mechanism=None, users_per_batch=explorers)
    )  # fmt: skip
    learner = ExploreThenCommit(shape=shape, explorers=explorers)
    runs = [tacit.simulate(mdp, learner, privatizer, episodes=20_000, seed=seed).regret[-1] for seed in range(3)]
    regrets.append(float(np.mean(runs)) / 8884)
    print(f"{explorers:6d} explorers: {regrets[-1]:.2f} of uniform")

# %%
assert min(regrets) < 1.0
figure, axes = plt.subplots(layout="constrained")
axes.plot(sizes, regrets, marker="o")
axes.set(
    xscale="log",
    xticks=sizes,
    xticklabels=sizes,
    xlabel="explorers",
    ylabel="share of uniform (simulation only)",
    title="explore, then commit",
)
axes.minorticks_off()

# %%
# *Regret against the number of users who explore, as a share of the uniform policy's.*
