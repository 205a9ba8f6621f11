"""
Verify a certificate
====================

A certificate is derived again by whoever does not believe it; an edited number is found.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacit

# %%
# A run in a directory, and its certificate derived from its configuration.
place = Path(tempfile.mkdtemp()) / "river"
result = tacit.run(
    environment="riverswim", learner="psrl", episodes=200, trust="local", epsilon=1.0, delta=0.0, workers=1, out=place
)
print(tacit.verify(place).line)
assert tacit.verify(place).true

# %%
# Somebody claims more.
kept = place / "privacy.json"
kept.write_text(kept.read_text().replace('"epsilon": 1.0', '"epsilon": 0.01'))
print(tacit.verify(place).line)
assert not tacit.verify(place).true

# %%
# The same release at other deltas: less certainty buys less epsilon, and here it buys nothing, since it is pure.
curve = result.certificate.curve
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot([point[0] for point in curve], [point[1] for point in curve], marker="o")
axes.set(xscale="log", xlabel="delta", ylabel="certified epsilon", title="one release, many deltas", ylim=(0, 1.2))
