"""
Your own environment: a clinic as an MDP
========================================

Define a finite-horizon MDP by transition probabilities and mean rewards, learn in it with privacy, and read the policy.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

# %%
# A patient is well, ill or very ill. The two actions are *wait* and *treat*. ``P[s, a]`` is the distribution of the
# next state and ``rewards[s, a]`` the mean reward in [0, 1].
WELL, ILL, WORSE = range(3)
P = np.zeros((3, 2, 3))
P[WELL] = [[0.8, 0.2, 0.0], [0.9, 0.1, 0.0]]
P[ILL] = [[0.2, 0.4, 0.4], [0.7, 0.2, 0.1]]
P[WORSE] = [[0.0, 0.2, 0.8], [0.1, 0.5, 0.4]]
rewards = np.array([[1.0, 0.7], [0.5, 0.3], [0.0, 0.0]])
clinic = tacit.TabularMDP(P=P, r=rewards, rho=[0.5, 0.5, 0.0], horizon=4, name="clinic")
print(clinic)

# %%
# Central trust: a curator sees the trajectories and releases noisy counts.
result = tacit.run(environment=clinic, episodes=10_000, seeds=2, trust="central", epsilon=1.0, delta=1e-6, workers=1)
print(f"regret: {result.relative_regret:.2f} of the uniform policy's")

# %%
# The policy of the first seed gives the probability of each action by step and state.
treat = result.policy.probabilities(2)[:, :, 1]
assert treat[0, ILL] > 0.5
figure, axes = plt.subplots(layout="constrained")
shown = axes.imshow(treat.T, vmin=0, vmax=1, aspect="auto")
axes.set(yticks=range(3), yticklabels=["well", "ill", "very ill"], xticks=range(4), xlabel="step")
axes.set_title("probability of treatment at epsilon 1")
figure.colorbar(shown)

# %%
# *Probability of treatment by step and state.*
#
# A Gymnasium environment works as well: ``tacit.from_gymnasium`` reads its table, ``tacit.live`` steps through it.
# Next: a log that you already have.
