"""
Baseline and loss budget
========================

Start from the policy in use and bound how much users may lose while the learner explores.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# ``treatment`` has the named policy *careful*. Without a budget the learner explores at the users' cost.
asked = {"environment": "treatment", "trust": "central", "epsilon": 3.0, "delta": 1e-6, "seeds": 2, "workers": 1}
free = tacit.run(**asked, learner="bucb", episodes=4000, baseline="careful")
kept = tacit.run(**asked, learner="bucb", episodes=4000, baseline="careful", loss_budget=0.05)
for name, result in (("no budget", free), ("budget 0.05", kept)):
    print(f"{name}: {result.against.lines[0]}")

# %%
# The budget keeps the mean loss of a run small; its noise and its certificate are those of the run without a budget.
during = {name: result.against.during.mean for name, result in (("no budget", free), ("budget 0.05", kept))}
assert during["budget 0.05"] > during["no budget"]
assert during["budget 0.05"] > -0.05 * 8
figure, axes = plt.subplots(layout="constrained")
axes.barh(list(during), list(during.values()), color=["C1", "C0"])
axes.axvline(-0.05 * 8, color="C7", linestyle="--", label="budget: 5% of the largest return")
axes.set(xlabel="return per user minus the baseline's (simulation only)", title="cost of exploration, 4,000 users")
axes.legend()

# %%
# *Mean return minus the baseline's while the run explores. The dashed line is the loss that the budget allows.*
