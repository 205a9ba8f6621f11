"""
Exact discrete Gaussian noise
=============================

Draw deployment noise from the operating system's randomness and compare it with its distribution.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

from tacit.noise import exact
from tacit.randomness import SecureNoise

# %%
# Samples are integers with exactly the stated distribution. The variance is a rational number.
draws = exact.discrete_gaussian(200_000, SecureNoise(), variance=Fraction(9))
values, counts = np.unique(draws, return_counts=True)

# %%
# P(z) is proportional to exp(-z² / 2σ²). Secure noise has no seed, so the check allows six standard errors.
z = np.arange(-40, 41)
weights = np.exp(-(z**2) / 18.0)
law = dict(zip(z.tolist(), weights / weights.sum(), strict=True))
for value, count in zip(values.tolist(), counts, strict=True):
    expected = 200_000 * law[value]
    assert abs(count - expected) < 6 * expected**0.5 + 6
figure, axes = plt.subplots(layout="constrained")
axes.bar(values, counts / 200_000, color="C0", label="200,000 draws")
axes.plot(z[28:53], [law[int(value)] for value in z[28:53]], "o", color="C1", markersize=3, label="exact distribution")
axes.set(xlabel="noise", ylabel="probability", title="discrete Gaussian, variance 9")
axes.legend()

# %%
# *Frequencies of 200,000 draws (bars) and the probabilities of the exact distribution (dots).*
