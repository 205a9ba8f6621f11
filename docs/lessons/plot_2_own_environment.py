"""
An environment of your own
==========================

Any finite-horizon MDP with finitely many states and actions is a table of probabilities and mean rewards.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

# %%
# A patient is well, ill or very ill; treatment helps and has a price.
WELL, ILL, WORSE = range(3)
P = np.zeros((3, 2, 3))
P[WELL] = [[0.8, 0.2, 0.0], [0.9, 0.1, 0.0]]  # wait, treat
P[ILL] = [[0.2, 0.4, 0.4], [0.7, 0.2, 0.1]]
P[WORSE] = [[0.0, 0.2, 0.8], [0.1, 0.5, 0.4]]
rewards = np.array([[1.0, 0.7], [0.5, 0.3], [0.0, 0.0]])
clinic = tacit.TabularMDP(P=P, r=rewards, rho=[0.5, 0.5, 0.0], horizon=4, name="clinic")
result = tacit.run(environment=clinic, episodes=10_000, seeds=2, trust="central", epsilon=1.0, delta=1e-6, workers=1)

# %%
# The last policy of the first seed: how likely treatment is, by step and state.
treat = result.policy.probabilities(2)[:, :, 1]
assert treat[0, ILL] > 0.5
figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
shown = axes.imshow(treat.T, vmin=0, vmax=1, cmap="Blues", aspect="auto")
axes.set(yticks=range(3), yticklabels=["well", "ill", "very ill"], xticks=range(4), xlabel="step")
axes.set_title("probability of treatment, learned at epsilon 1")
figure.colorbar(shown)
