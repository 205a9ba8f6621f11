"""
Privacy budget ledger
=====================

Charge releases to a budget. The ledger composes them per user and refuses a charge that exceeds the budget.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import tacit
from tacit.accounting import GaussianEvent, Ledger
from tacit.errors import PrivacyBudgetExceeded


# %%
# The budget is epsilon 1 per user. Every release has Gaussian noise and its own claim.
def claim(epsilon, delta):
    unit = tacit.PrivacyUnit(reports=1, per_stage=1)
    return tacit.PrivacyClaim(trust="central", epsilon=epsilon, delta=delta, unit=unit, neighbours="replace-one",
                              output="other-users-actions")  # fmt: skip


ledger = Ledger.open(Path(tempfile.mkdtemp()) / "ledger.db", claim(1.0, 1e-6))
events = ((GaussianEvent(sigma=15.0, shift=1.0), 1),)
spent = []
for number in range(100):
    try:
        receipt = ledger.charge(users=range(100), claim=claim(0.4, 1e-6), events=events, recipient="learner",
                                what=f"release {number}", noise="simulation")  # fmt: skip
    except PrivacyBudgetExceeded as refused:
        print(f"release {number}: {refused}")
        break
    ledger.commit(receipt)
    spent.append(ledger.spent(0)[0])

# %%
# Exact Gaussian composition allows more releases than adding epsilons, which stops after two of 0.4.
assert 2 < len(spent) < 100
assert spent[-1] <= 1.0
figure, axes = plt.subplots(layout="constrained")
axes.plot(range(1, len(spent) + 1), spent, "o-")
axes.axhline(1.0, color="C7", linestyle="--", label="budget")
axes.set(xlabel="releases", ylabel="epsilon spent", title="composition in the ledger", ylim=(0, None))
axes.legend()

# %%
# *Epsilon in the ledger after each release. The dashed line is the budget; the next release would cross it.*
