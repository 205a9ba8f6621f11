"""
Noise against epsilon
=====================

Calibrate the noise of one counter for several epsilons and three trust models, before any data exist.
"""

import matplotlib.pyplot as plt

from tacit.extend import CountShape, PrivacyRequest, make_privatizer

# %%
# One counter sums 1,000 users of RiverSwim. Central and shuffle trust add noise to the sum, local trust to every
# report.
shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
noise = {}
for trust, delta in (("central", 1e-6), ("shuffle", 1e-6), ("local", 0.0)):
    noise[trust] = []
    for epsilon in EPSILONS:
        privatizer = make_privatizer(
            PrivacyRequest(trust=trust, shape=shape, episodes=1000, epsilon=epsilon, delta=delta, calibration=None,
                           mechanism=None, users_per_batch=1 if trust == "local" else 1000)
        )  # fmt: skip
        assert privatizer.certificate().epsilon <= epsilon
        people = 1000 if trust == "local" else 1
        noise[trust].append(people**0.5 * privatizer.noise_std()["transitions"])
    print(trust, [round(std, 1) for std in noise[trust]])

# %%
assert noise["shuffle"][1] < noise["local"][1]
figure, axes = plt.subplots(layout="constrained")
for trust, stds in noise.items():
    axes.plot(EPSILONS, stds, "o-", label=trust)
axes.set(
    xscale="log", yscale="log", xlabel="epsilon", ylabel="standard deviation", title="noise in one count of 1,000 users"
)
axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axes.minorticks_off()
axes.legend()

# %%
# *Noise in one count of 1,000 users against epsilon, by trust model; both axes are logarithmic.*
