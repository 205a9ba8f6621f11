"""
Privacy audit: attack a mechanism
=================================

Estimate a lower bound on epsilon from many releases of two neighboring inputs.
"""

import matplotlib.pyplot as plt
import numpy as np

from tacit.accounting.events import GaussianEvent
from tacit.audit.attack import Target, attack

# %%
# A Gaussian release of one number, honest and with half of the noise.
target = Target(
    kind="mechanism", name="gaussian", trust="central", calibration="tight", view="one number", claimed=5.0,
    delta=1e-5, events=((GaussianEvent(sigma=1.0, shift=1.0), 1),),
)  # fmt: skip
noise = np.random.default_rng(0).normal(size=(2, 100_000))
honest = attack(target, noise[0], noise[1] + 1.0, false_alarm=0.01)
bug = attack(target, noise[0] / 2, noise[1] / 2 + 1.0, false_alarm=0.01)
print(honest.verdict, "-", bug.verdict)
assert honest.verdict == "holds"
assert bug.verdict == "CERTIFICATE REFUTED"

# %%
# The attacked epsilon is a lower bound, the certified epsilon an upper bound.
figure, axes = plt.subplots(layout="constrained")
axes.barh(["honest", "half the noise"], [honest.by_curve, bug.by_curve], color=["C0", "C1"])
axes.axvline(honest.certified, color="C7", linestyle="--", label="certified")
axes.set(xlabel="epsilon that is proved with confidence 0.99")
axes.legend()

# %%
# *Epsilon that the attack proves for each mechanism; the dashed line is the certified epsilon.*
