"""
Attack a mechanism
==================

What a certificate forbids can be tried: guess from many releases which of two worlds they came from.
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
# What the attacker can prove, beside what is certified.
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.barh(["honest", "half the noise"], [honest.by_curve, bug.by_curve], color=["tab:blue", "tab:red"])
axes.axvline(honest.certified, color="grey", linestyle="--", label="certified")
axes.set(xlabel="epsilon that is proved with confidence 0.99")
axes.legend()
