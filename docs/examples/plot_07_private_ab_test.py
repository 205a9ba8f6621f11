"""
Private A/B test
================

Compare two policies on fresh users: estimate, confidence interval, verdict and certificate.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# A trial of *always right* against the uniform policy on RiverSwim.
trial = tacit.trial(
    "always right", environment="riverswim", against="uniform", users=4000, trust="central", epsilon=1.0, delta=1e-6
)
print(trial.lines[0])
assert trial.verdict == "better"
assert trial.certificate.holds

# %%
figure, axes = plt.subplots(layout="constrained")
middle = (trial.low + trial.high) / 2
axes.errorbar([middle], ["difference"], xerr=[[middle - trial.low], [trial.high - middle]], fmt="o", capsize=4)
axes.axvline(0.0, color="C7", linestyle="--")
axes.set(xlabel="mean return, always right minus uniform", title=f"95% interval at epsilon 1: {trial.verdict}")

# %%
# *Difference of mean returns with its 95% interval. The interval lies right of the dashed line at zero.*
