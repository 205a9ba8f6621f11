"""
Features: a private linear contextual bandit
============================================

Learn the best action for a person's features from logged decisions, with intervals and a certificate.
"""

import matplotlib.pyplot as plt
import numpy as np

import tacit

# %%
# ``tacit.Features`` declares the features in public, before you look at the data: bounds of numbers, truth values and
# categories. The log has one row per decision and is simulated here. A walk helps people below 50, a rest the others.
features = tacit.Features(age=(18, 90), smoker=bool)
rng, people = np.random.default_rng(0), 20_000
age, smoker = rng.uniform(18, 90, people), rng.random(people) < 0.3
walk = rng.random(people) < 0.5
mean = 0.5 + np.where(walk, 1, -1) * (54 - age) / 120 - 0.1 * smoker
log = {
    "age": age,
    "smoker": smoker,
    "advice": np.where(walk, "walk", "rest"),
    "points": (rng.random(people) < mean).astype(float),
}

# %%
# ``LinearBandit`` models the expected reward of each action as linear in the encoded features. ``fit`` is one release
# of noisy moments under central trust.
bandit = tacit.LinearBandit(
    actions=["rest", "walk"], features=features, reward=(0, 1), trust="central", epsilon=1.0, delta=1e-6,
    reports_per_person=1,
)  # fmt: skip
bandit.fit(log, action="advice", reward="points")
print(bandit.certificate_.verdict)
print(bandit.predict({"age": [25, 80], "smoker": [False, False]}))
assert bandit.predict({"age": [25, 80], "smoker": [False, False]}).tolist() == ["walk", "rest"]

# %%
# Coefficients have 95% intervals that contain the privacy noise; one that is not told apart from noise has none.
names = list(features.names)
figure, axes = plt.subplots(layout="constrained")
for index, action in enumerate(bandit.classes_):
    middle, (low, high) = bandit.coef_[index], bandit.intervals_[index].T
    places = np.arange(len(names)) + 0.12 * (2 * index - 1)
    axes.errorbar(places, middle, yerr=[middle - low, high - middle], fmt="o", capsize=3, label=action)
axes.axhline(0.0, color="C7", linestyle="--")
axes.set(xticks=range(len(names)), xticklabels=names, ylabel="coefficient", title="effect of features at epsilon 1")
axes.legend()

# %%
# *Coefficients of the features by action, with their intervals. An interval across zero does not show an effect.*
#
# Coefficients are causal effects only without unmeasured confounding: nothing beside the features decided both the
# action and the reward. ``tacit learn`` reads
# feature logs on the command line, and linear learners run in simulations and studies.
