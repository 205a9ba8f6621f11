"""
First run: learn RiverSwim with privacy
=======================================

Learn a policy for RiverSwim from 20,000 simulated users with differential privacy, and read its certificate.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# ``tacit.run`` simulates a learner in an environment under a trust model. Under *shuffle* trust users' devices add
# noise and a shuffler hides who sent which message. ``epsilon`` and ``delta`` bound the privacy loss of one user.
result = tacit.run(
    environment="riverswim", episodes=20_000, seeds=3, trust="shuffle", epsilon=1.0, delta=1e-6, workers=1
)

# %%
# The learner ``auto`` chooses an algorithm for the trust model and gives the reason.
print(result.config.choice)

# %%
# The certificate states the epsilon that the exact accountant finds for the noise in use.
print(result.certificate.verdict)
print(f"certified epsilon: {result.certificate.epsilon:.4f}")
assert result.certificate.holds

# %%
# Regret is the reward that users lose against the optimal policy. Only a simulation knows it. The dashed line is the
# uniform policy, which learns nothing.
share = result.relative_regret
assert share is not None
assert share < 0.4
figure, axes = plt.subplots(layout="constrained")
axes.plot(result.episodes, result.regret.T, color="C0", alpha=0.8)
axes.plot(result.episodes, result.uniform_regret * result.episodes, color="C7", linestyle="--", label="uniform policy")
axes.set(xlabel="users", ylabel="regret (simulation only)", title=f"shuffle, epsilon 1: {share:.2f} of uniform")
axes.legend()

# %%
# *Regret of three seeds against the number of users; the dashed line is the uniform policy.*
#
# The same run on the command line is ``tacit run --environment riverswim --episodes 20000 --seeds 3 --trust shuffle
# --epsilon 1 --delta 1e-6``. Next: an environment of your own.
