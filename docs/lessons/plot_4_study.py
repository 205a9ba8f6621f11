"""
A study: collect data from people in stages
===========================================

Run a study with real protocol messages: signed bundles, devices that add noise, a collector, releases and a
certificate.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tacit
from tacit.runs.signature import new_keys
from tacit.study import Collector, Device, Study, plan_study
from tacit.study.record import export_policy

# %%
# A *design* fixes everything before the first person comes: states, actions, trust model, epsilon, stages and sizes.
# Its certificate covers one patient in all stages.
design = plan_study(
    name="clinic", states=("well", "ill", "critical"), actions=("wait", "treat"), horizon=4,
    learner="bucb:share_across_steps=true", trust="shuffle", epsilon=2.0, delta=1e-6, stages=3, target=200, least=180,
)  # fmt: skip
print(f"certified epsilon: {design.parts().certificate.epsilon:.3f}")

# %%
# Two parties with two directories: the *study* learns, the *collector* takes reports and keeps the budget ledger. Only
# files cross: a bundle goes out, a release comes in.
place = Path(tempfile.mkdtemp())
learner_key, learner_public = new_keys(place / "learner")
collector_key, collector_public = new_keys(place / "shuffler")
study = Study.new(place / "study", design, key=learner_key, collector=collector_public)
collector = Collector.new(place / "collector", design, key=collector_key, learner=learner_public)

# %%
# Each patient has a device. It verifies the bundle, refuses an epsilon above ``cap`` or fewer than ``floor`` people,
# and adds noise to its report. ``None`` keeps its state in memory; a real device has a directory. The noise is
# calibrated for every device: one silent device voids a tight certificate, unless the design has an
# ``honest_fraction`` below 1. The patients are simulated here.
rng = np.random.default_rng(0)
P = np.array(
    [[[0.7, 0.3, 0.0], [0.6, 0.4, 0.0]], [[0.1, 0.5, 0.4], [0.7, 0.3, 0.0]], [[0.0, 0.2, 0.8], [0.2, 0.6, 0.2]]]
)
r = np.array([[0.9, 0.5], [0.4, 0.3], [0.1, 0.0]])


def episode(device):
    """Four visits of one patient, as the device sees them."""
    s = rng.choice(3, p=[0.2, 0.6, 0.2])
    lived = {"states": [design.states[s]], "actions": [], "rewards": []}
    for visit in range(4):
        action = device.act(visit, design.states[s])
        a = design.actions.index(action)
        lived["actions"].append(action)
        lived["rewards"].append(float(rng.random() < r[s, a]))
        s = rng.choice(3, p=P[s, a])
        lived["states"].append(design.states[s])
    return lived


def reports(bundle):
    """Reports of a stage; two of a hundred patients have no data and send a dummy report of the same length."""
    for i in range(195):
        device = Device(None, cap=3.0, floor=100, key=learner_public)
        device.accept(bundle)
        yield (device.cover() if rng.random() < 0.02 else device.report(episode(device))), f"patient {i}"


# %%
# Every stage: plan, collect, close, release, learn. Each step can be repeated after a crash without drawing or paying
# twice.
for stage in range(3):
    bundle = study.plan()
    collector.open(bundle)
    collector.add_many((report, f"{person} of stage {stage}") for report, person in reports(bundle))
    collector.close()
    print(stage, study.take(collector.release(study.head)))
study.plan()

# %%
# The certificate now says that the noise was secure, and the ledger shows the privacy budget that was spent.
certificate = study.certificate()
assert certificate.holds
assert certificate.terms.noise == "secure"
spent = collector.status()["spent"]
print(f"spent: epsilon {spent['epsilon']:.3f} of {design.parts().claim.epsilon}")

# %%
# The final policy as a named policy that devices can follow.
exported = export_policy(study, place / "policy.json", learner_key)
policy = tacit.NamedPolicy.from_dict(json.loads(exported.read_text(encoding="utf-8"))["policy"])
figure, axes = plt.subplots(layout="constrained")
shown = axes.imshow(policy.to_numpy()[:, :, 1].T, vmin=0, vmax=1, aspect="auto")
axes.set(yticks=range(3), yticklabels=policy.states, xticks=range(4), xlabel="visit")
axes.set_title("probability of treatment after three stages")
figure.colorbar(shown)

# %%
# *Probability of treatment by visit and state.*
#
# On the command line the same steps are ``tacit study new``, ``tacit study plan``, ``tacit collect open``, ``add``,
# ``close`` and ``release``, and ``tacit study take``. The page about studies explains parties, threats and
# troubleshooting.
