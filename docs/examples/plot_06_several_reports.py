"""
Several reports per person
==========================

Protect a person who takes part several times: the privacy unit has more reports, and noise grows.
"""

import matplotlib.pyplot as plt

import tacit
from tacit.accounting import GaussianEvent

# %%
# The claim names the unit. Group privacy bounds what a person loses who reports more often than claimed.
claim = tacit.PrivacyClaim(
    trust="shuffle", epsilon=1.0, delta=1e-6, unit=tacit.PrivacyUnit(reports=1, per_stage=1),
    neighbours="replace-one", output="shuffled-transcript",
)  # fmt: skip
groups = {size: claim.group(size) for size in (1, 2, 3)}
for size, found in groups.items():
    print(f"{size} reports: epsilon {found.epsilon:g}, delta {found.delta:.2g}")

# %%
# Calibrating for the unit is much cheaper: the composition of g Gaussian releases costs the square root of g.
sizes = (1, 2, 3, 5, 10)
composed = [
    tacit.certify(((GaussianEvent(sigma=5.0, shift=1.0), size),), (), claim, calibration="tight") for size in sizes
]
epsilons = [certificate.epsilon for certificate in composed]
assert epsilons[-1] < 5 * epsilons[0]
figure, axes = plt.subplots(layout="constrained")
axes.plot(sizes, epsilons, "o-", label="composition of Gaussian releases")
axes.plot(sizes, [size * epsilons[0] for size in sizes], "--", color="C7", label="adding epsilons")
axes.set(xlabel="reports of one person", ylabel="epsilon at delta 1e-6", title="privacy loss of repeated participation")
axes.legend()

# %%
# *Epsilon of one person against the number of reports. The dashed line adds the epsilons of single reports.*
