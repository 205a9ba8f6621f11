"""
Adversarial losses
==================

An adversary switches the losses of every episode. The regret is against the best fixed policy in hindsight.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# ``uc-o-reps`` learns over occupancy measures with full information, here with and without central trust.
asked = {"environment": "layered:layers=3,states=3,actions=2", "adversary": "switching", "learner": "uc-o-reps"}
plain = tacit.run(**asked, episodes=1000, seeds=2, workers=1)
private = tacit.run(**asked, episodes=1000, seeds=2, workers=1, trust="central", epsilon=5.0, delta=1e-6)
assert private.certificate.holds
assert private.losses[0].unconverged == 0

# %%
figure, axes = plt.subplots(layout="constrained")
for label, result in (("without privacy", plain), ("central, epsilon 5", private)):
    axes.plot(result.episodes, result.regret.mean(axis=0), label=label)
axes.axhline(0.0, color="C7", linestyle="--")
axes.set(xlabel="episodes", ylabel="regret (simulation only)", title="switching losses, 1,000 episodes")
axes.legend()

# %%
# *Regret against the best policy in hindsight, with and without privacy.*
