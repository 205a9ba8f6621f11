"""
From a log: learn a policy from a CSV file
==========================================

Learn a policy from logged episodes (offline reinforcement learning) with one differentially private release.
"""

import csv
import random
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacit

# %%
# The log has one row per step: person, episode, step, state, action, reward and propensity. It is simulated here.
random.seed(4)
place = Path(tempfile.mkdtemp())
with (place / "log.csv").open("w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["patient", "stay", "visit", "temperature", "given", "points", "probability"])
    for patient in range(3000):
        sick = random.random() < 0.7
        for visit in range(4):
            pill = random.random() < 0.5
            fever = random.uniform(38.0, 40.0) if sick else random.uniform(36.0, 37.9)
            points = (0.0 if sick else 1.0) - (0.2 if pill else 0.0)
            writer.writerow([f"patient {patient}", 0, visit, round(fever, 2), "pill" if pill else "wait", points, 0.5])
            sick = random.random() < ((0.2 if pill else 0.8) if sick else (0.3 if pill else 0.1))

# %%
# The mapping declares what the columns mean. Write it before you look at the data: edges or bounds that are read off
# the log would leak information.
mapping = tacit.EpisodeMapping.from_dict(
    {
        "columns": {"person": "patient", "episode": "stay", "step": "visit", "propensity": "probability"},
        "states": [{"column": "temperature", "edges": [38], "names": ["well", "sick"]}],
        "actions": {"column": "given", "categories": {"wait": ["wait"], "pill": ["pill"]}},
        "reward": {"column": "points", "low": -0.2, "high": 1.0},
        "horizon": 4,
    }
)

# %%
# ``reports_per_person`` bounds how many episodes of one person count. ``behaviour="known"`` declares that actions were
# chosen by step and state only (here by a coin), which makes the log sufficient to learn from. ``fallback`` is the
# action where the log has too little data.
learned = tacit.learn(
    place / "log.csv", mapping, epsilon=2.0, delta=1e-6, reports_per_person=1, behaviour="known", fallback="wait"
)
print(learned.certificate.verdict)
assert learned.certificate.holds

# %%
# The policy has names: a pill for the sick.
policy = learned.policy
assert policy.act(0, "sick") == "pill"
figure, axes = plt.subplots(layout="constrained")
axes.imshow(policy.to_numpy()[:, :, 1].T, vmin=0, vmax=1, aspect="auto")
axes.set(yticks=range(2), yticklabels=policy.states, xticks=range(4), xlabel="visit")
axes.set_title("probability of a pill at epsilon 2")

# %%
# *Probability of a pill by visit and state.*
#
# ``tacit.learn`` keeps no ledger: every call is a new release that you must count. ``tacit learn log.csv --mapping
# mapping.json --epsilon 2 --delta 1e-6 --behaviour known --fallback wait --out learned`` does the same on the command
# line and charges a privacy budget ledger. Next: a study with real people.
