"""
Choose a trust model
====================

The same world, the same epsilon, four answers to "whom do you trust?".
"""

import matplotlib.pyplot as plt

import tacit

# %%
# Central and shuffle promise (1, 1e-6); local promises pure epsilon 1 to people who trust nobody.
trusts = {"none": {}, "central": {"delta": 1e-6}, "shuffle": {"delta": 1e-6}, "local": {"delta": 0.0}}
shares = {}
for trust, claim in trusts.items():
    private = {} if trust == "none" else {"epsilon": 1.0, **claim}
    found = tacit.run(environment="riverswim", episodes=20_000, seeds=2, trust=trust, workers=1, **private)
    assert found.certificate.holds
    shares[trust] = found.relative_regret
    print(f"{trust:8s} {found.config.learner:40s} {shares[trust]:.3f}")

# %%
# With 20,000 people a curator and a shuffler cost little; without anybody to trust there is not much to learn yet.
assert shares["none"] < shares["shuffle"] < shares["local"]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.barh(list(shares), list(shares.values()), color="tab:blue")
axes.axvline(1.0, color="grey", linestyle="--")
axes.set(xlabel="regret as a share of the uniform policy's (simulation only)", title="epsilon 1, 20,000 people")
