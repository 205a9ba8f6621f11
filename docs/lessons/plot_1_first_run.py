"""
First run
=========

Learn RiverSwim from 20,000 simulated people under shuffle trust, and read the certificate.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# One call: the learner is chosen for the trust model, and says why.
result = tacit.run(
    environment="riverswim", episodes=20_000, seeds=3, trust="shuffle", epsilon=1.0, delta=1e-6, workers=1
)
print(result.config.choice)
print(result.certificate.verdict)

# %%
# Regret is known in simulations only. The grey line is a policy that learns nothing.
share = result.relative_regret
assert share is not None
assert share < 0.4
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(result.episodes, result.regret.T, color="tab:blue", alpha=0.7)
axes.plot(
    result.episodes, result.uniform_regret * result.episodes, color="grey", linestyle="--", label="uniform policy"
)
axes.set(xlabel="people", ylabel="regret (simulation only)", title=f"shuffle, epsilon 1: {share:.2f} of uniform")
axes.legend()
