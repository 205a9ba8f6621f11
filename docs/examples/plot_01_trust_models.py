"""
Compare trust models
====================

Run the same environment and epsilon without privacy and under central, shuffle and local trust.
"""

import matplotlib.pyplot as plt

import tacit

# %%
# Central and shuffle trust get (1, 1e-6)-privacy, local trust gets pure epsilon 1.
trusts = {"none": {}, "central": {"delta": 1e-6}, "shuffle": {"delta": 1e-6}, "local": {"delta": 0.0}}
shares = {}
for trust, claim in trusts.items():
    private = {} if trust == "none" else {"epsilon": 1.0, **claim}
    found = tacit.run(environment="riverswim", episodes=20_000, seeds=2, trust=trust, workers=1, **private)
    assert found.certificate.holds
    shares[trust] = found.relative_regret
    print(f"{trust:8s} {found.config.learner:40s} {shares[trust]:.3f}")

# %%
# With 20,000 users central and shuffle trust cost little, local trust costs more.
assert shares["none"] < shares["shuffle"] < shares["local"]
figure, axes = plt.subplots(layout="constrained")
axes.barh(list(shares), list(shares.values()), color="C0")
axes.axvline(1.0, color="C7", linestyle="--")
axes.set(xlabel="regret as a share of the uniform policy's (simulation only)", title="epsilon 1, 20,000 people")

# %%
# *Regret of each trust model; the dashed line is the uniform policy, which learns nothing.*
