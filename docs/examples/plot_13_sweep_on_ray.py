"""
Parallel sweep on Ray
=====================

Run three epsilons and two numbers of users on a Ray cluster. The rows equal those of a local run bit for bit.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacit

# %%
# A comparison is a TOML file: what all runs share, and the runs.
place = Path(tempfile.mkdtemp())
EPSILONS, PEOPLE = (0.3, 1.0, 3.0), (2_000, 10_000)
runs = "\n".join(
    f'[[run]]\nname = "{people} people, epsilon {epsilon}"\nepisodes = {people}\nepsilon = {epsilon}\n'
    for people in PEOPLE
    for epsilon in EPSILONS
)
defaults = 'environment = "riverswim"\ntrust = "central"\ndelta = 1e-6\nseeds = 2\n'
(place / "sweep.toml").write_text(f'name = "sweep"\n[defaults]\n{defaults}{runs}', encoding="utf-8")

# %%
# Without an address, a cluster is started on this machine and stopped in the end (``pip install '.[ray]'``);
# ``address="head:6379"`` is one that runs already. An interrupted sweep goes on where it was.
swept = tacit.compare(place / "sweep.toml", out=place / "swept", engine="ray", workers=2)

# %%
# The same here, without Ray: every number of every seed is equal, bit for bit.
here = tacit.compare(place / "sweep.toml", out=place / "here", engine="local", workers=1)
for far, near in zip(swept.results, here.results, strict=True):
    assert far.label == near.label
    assert np.array_equal(far.regret, near.regret)
    assert far.certificate.verdict == near.certificate.verdict
shares = {result.label: result.relative_regret for result in swept.results}
for label, share in shares.items():
    print(f"{label:28s} {share:.3f}")
for people in PEOPLE:
    assert shares[f"{people} people, epsilon 3.0"] < shares[f"{people} people, epsilon 0.3"]

# %%
figure, axes = plt.subplots(layout="constrained")
for people in PEOPLE:
    line = [shares[f"{people} people, epsilon {epsilon}"] for epsilon in EPSILONS]
    axes.plot(EPSILONS, line, "o-", label=f"{people:,} people")
axes.set(
    xscale="log",
    xticks=EPSILONS,
    xticklabels=EPSILONS,
    xlabel="epsilon",
    ylabel="share of uniform (simulation only)",
    title="RiverSwim with central trust, swept by a Ray cluster",
)
axes.minorticks_off()
axes.legend()

# %%
# *Regret against epsilon, one line for each number of people.*
