"""
Verify a certificate
====================

A certificate is derived again by whoever does not believe it; an edited number is found.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacit
from tacit.accounting.events import GaussianEvent

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
# The same release at other deltas. Local noise is pure: giving delta away buys nothing. Gaussian noise is not.
claim = tacit.PrivacyClaim(
    trust="central",
    epsilon=1.0,
    delta=1e-6,
    unit=tacit.PrivacyUnit(reports=1, per_stage=1),
    neighbours="replace-one",
    output="other-users-actions",
)
gaussian = tacit.certify(((GaussianEvent(sigma=5.0, shift=1.0), 1),), (), claim, calibration="tight")
assert gaussian.holds
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, certificate in (("this run: local noise", result.certificate), ("Gaussian noise", gaussian)):
    shown = [point for point in certificate.curve if point[0] > 0]
    axes.plot([delta for delta, _ in shown], [epsilon for _, epsilon in shown], "o-", label=name)
axes.set(xscale="log", xlabel="delta", ylabel="certified epsilon", title="what a certificate says at other deltas")
axes.set_ylim(bottom=0)
axes.legend()
