"""
A sweep
=======

Several epsilons and two trust models as one comparison: resumable, one table, one picture.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacit

# %%
# A comparison is a TOML file: what all runs share, and the runs.
place = Path(tempfile.mkdtemp())
runs = "\n".join(
    f'[[run]]\nname = "{trust}, epsilon {epsilon}"\ntrust = "{trust}"\nepsilon = {epsilon}\ndelta = 1e-6\n'
    for trust in ("central", "shuffle")
    for epsilon in (0.3, 1.0, 3.0)
)
(place / "sweep.toml").write_text(
    f'name = "sweep"\n[defaults]\nenvironment = "riverswim"\nepisodes = 20000\nseeds = 2\n{runs}', encoding="utf-8"
)
comparison = tacit.compare(place / "sweep.toml", out=place / "results", workers=1)

# %%
shares = {result.label: result.relative_regret for result in comparison.results}
for label, share in shares.items():
    print(f"{label:24s} {share:.3f}")
assert shares["central, epsilon 3.0"] < shares["central, epsilon 0.3"]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
EPSILONS = (0.3, 1.0, 3.0)
for trust in ("central", "shuffle"):
    axes.plot(EPSILONS, [shares[f"{trust}, epsilon {epsilon}"] for epsilon in EPSILONS], "o-", label=trust)
axes.set(
    xscale="log",
    xticks=EPSILONS,
    xticklabels=EPSILONS,
    xlabel="epsilon",
    ylabel="share of uniform (simulation only)",
    title="RiverSwim, 20,000 people",
)
axes.legend()
