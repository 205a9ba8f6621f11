"""
Verify a certificate
====================

Recompute a certificate from the configuration, and detect an edited number.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacit
from tacit.accounting.events import GaussianEvent

# %%
# ``tacit.verify`` recomputes the certificate of a run from its configuration.
place = Path(tempfile.mkdtemp()) / "river"
result = tacit.run(
    environment="riverswim", learner="psrl", episodes=200, trust="local", epsilon=1.0, delta=0.0, workers=1, out=place
)
print(tacit.verify(place).line)
assert tacit.verify(place).true

# %%
# An edited epsilon is detected.
kept = place / "privacy.json"
kept.write_text(kept.read_text().replace('"epsilon": 1.0', '"epsilon": 0.01'))
print(tacit.verify(place).line)
assert not tacit.verify(place).true

# %%
# The privacy profile: epsilon at other deltas. Local noise is pure, so a larger delta changes nothing; Gaussian noise
# is not pure.
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
figure, axes = plt.subplots(layout="constrained")
for name, certificate in (("this run: local noise", result.certificate), ("Gaussian noise", gaussian)):
    shown = [point for point in certificate.curve if point[0] > 0]
    axes.plot([delta for delta, _ in shown], [epsilon for _, epsilon in shown], "o-", label=name)
axes.set(xscale="log", xlabel="delta", ylabel="certified epsilon", title="what a certificate says at other deltas")
axes.set_ylim(bottom=0)
axes.legend()

# %%
# *Certified epsilon at other deltas than the claim's, for the two releases. Lower is more private.*
