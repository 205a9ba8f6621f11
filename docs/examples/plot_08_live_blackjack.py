"""
Gymnasium simulator without a table: Blackjack
==============================================

Learn Blackjack from 1,000 private games. The transitions are unknown, so results are returns instead of regret.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# ``tacit.live`` fixes in public what must be known beforehand: horizon, reward bounds and the discretizer of
# observations.
table = tacit.live("Blackjack-v1", evaluation=200)
print(table)
result = tacit.run(
    environment=table, learner="bucb", trust="central", epsilon=3.0, delta=1e-6, episodes=1000, seeds=1, workers=1,
    baseline="dealer",
)  # fmt: skip

# %%
found = result.returns[0]
assert result.relative_regret is None
assert found.final.episodes == 200
means = {
    "final policy": found.final.mean,
    "uniform": found.uniform.mean,
    "baseline (dealer's rule)": found.baseline.mean,
}
for name, mean in means.items():
    print(f"{name:26s} {mean:+.3f}")
figure, axes = plt.subplots(layout="constrained")
axes.barh(list(means), list(means.values()), color=["C0", "C7", "C2"])
axes.set(xlabel="return per game (simulation only)", title="Blackjack, central trust, epsilon 3")

# %%
# *Mean return per game of the learned policy, the uniform policy and the baseline, over fresh games.*
