"""The mutation suite: planted privacy bugs, and who must catch each of them (see `tacit.audit.watch`).

A bug that nobody catches is a hole in the watch. The honest originals go through the same three watchmen and must not
be flagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.audit.bugs import central as at_the_curator
from tacit.audit.bugs import local as on_the_device
from tacit.audit.bugs import loop as in_the_loop
from tacit.audit.bugs import shuffle as in_the_shuffler
from tacit.audit.messages import IntegerMessages
from tacit.audit.watch import Mutation
from tacit.privatizers.request import gradient_request
from tacit.privatizers.shuffle.protocol import Shuffle
from tacit.privatizers.table import make_privatizer
from tacit.released.gradients import GradientShape

__all__ = ["MUTATIONS", "ORIGINALS"]


def _paper_gradient() -> Any:
    shape = GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=4)
    request = gradient_request(
        shape=shape,
        trust="central",
        epsilon=1.0,
        delta=1e-5,
        calibration="paper",
        users_per_batch=8,
        clip=None,
        tabular=True,
    )
    return make_privatizer(request)


MUTATIONS: Final[Mapping[str, Mutation]] = {
    "noise halved": Mutation(
        what="every device draws half of the noise that it states",
        plant=lambda: on_the_device.local(on_the_device.HalfTheNoise),
        expected=("conformance", "audit"),
        rules=("variance",),
    ),
    "H for 2H": Mutation(
        what="a replaced user is counted as if she had been removed: H counters per family instead of 2H",
        plant=on_the_device.half_the_change,
        expected=("conformance", "audit"),
        rules=("families",),
    ),
    "forgotten family": Mutation(
        what="rewards are released, but not accounted for",
        plant=on_the_device.forgotten_family,
        expected=("conformance",),
        rules=("families",),
    ),
    "three families with the noise of two": Mutation(
        what="visits are released with noise that was calibrated without them",
        plant=on_the_device.three_families,
        expected=("accountant",),
    ),
    "one bit per slot": Mutation(
        what="randomized response is calibrated as if one bit per slot changed; two do",
        plant=on_the_device.bit_per_slot,
        expected=("accountant",),
    ),
    "shared noise": Mutation(
        what="one draw of noise covers all counters of a user: differences are exact",
        plant=lambda: on_the_device.local(on_the_device.SharedNoise),
        expected=("conformance",),
        rules=("independent",),
    ),
    "seed reuse across users": Mutation(
        what="every device starts its generator from the same seed",
        plant=lambda: on_the_device.local(on_the_device.SameSeedForEveryUser),
        expected=("conformance", "audit"),
        rules=("replay",),
    ),
    "reward not clipped": Mutation(
        what="a reward outside [0, 1] is added as it is reported",
        plant=lambda: on_the_device.local(on_the_device.UnclippedRewards),
        expected=("conformance",),
        rules=("families",),
    ),
    "slot chosen by the data": Mutation(
        what="which slot of the trajectory is sent depends on where the user began",
        plant=lambda: on_the_device.local(on_the_device.SlotByData, "oue"),
        expected=("conformance",),
        rules=("families",),
    ),
    "all slots with all of epsilon": Mutation(
        what="every slot is sent, each with the epsilon that was meant for one",
        plant=lambda: on_the_device.local(on_the_device.AllSlots, "oue"),
        expected=("conformance", "audit"),
        rules=("families",),
    ),
    "a log line with a reward": Mutation(
        what="a reward is written into a log",
        plant=lambda: on_the_device.local(on_the_device.Talkative),
        expected=("conformance",),
        rules=("silence",),
    ),
    "tree noise halved": Mutation(
        what="every node of the tree has half of the stated noise",
        plant=lambda: at_the_curator.central(at_the_curator.PlainCentral, at_the_curator.HalfTheStream),
        expected=("conformance", "audit"),
        rules=("variance",),
    ),
    "tree noise redrawn": Mutation(
        what="the noise of a tree node is drawn anew at every release",
        plant=lambda: at_the_curator.central(at_the_curator.PlainCentral, at_the_curator.Redrawn),
        expected=("conformance",),
        rules=("independent", "variance"),
    ),
    "ln K for log2 K levels": Mutation(
        what="noise for ⌊ln K⌋ levels of the tree, of which there are ⌈log₂ K⌉",
        plant=at_the_curator.level_short,
        expected=("conformance",),
        rules=("continual",),
    ),
    "off-by-one tree": Mutation(
        what="user k sits at leaf k, as printed: the first prefix has no noise at all",
        plant=lambda: at_the_curator.central(at_the_curator.PlainCentral, at_the_curator.OffByOne),
        expected=("conformance", "audit"),
        rules=("variance",),
    ),
    "exact visits": Mutation(
        what="visits are published without noise",
        plant=lambda: at_the_curator.central(at_the_curator.ExactVisits),
        expected=("conformance",),
        rules=("variance",),
    ),
    "last user published": Mutation(
        what="one release more than was paid for, with the noise of the one before",
        plant=lambda: at_the_curator.central(at_the_curator.LastUserPublished),
        expected=("conformance",),
        rules=("spent",),
    ),
    "integer messages": Mutation(
        what="messages are integers y + noise, as printed: the largest one proves y = 1",
        plant=lambda: in_the_shuffler.shuffled(IntegerMessages),
        expected=("conformance", "audit"),
        rules=("messages",),
    ),
    "unpadded message counts": Mutation(
        what="only ones are sent, and nothing fills a report up",
        plant=lambda: in_the_shuffler.shuffled(in_the_shuffler.UnpaddedMessages),
        expected=("conformance",),
        rules=("messages",),
    ),
    "messages in their order": Mutation(
        what="the shuffler hands reports on in the order of their arrival",
        plant=lambda: in_the_shuffler.shuffled(in_the_shuffler.NotShuffled),
        expected=("conformance", "audit"),
        rules=("messages",),
    ),
    "noise of a larger batch": Mutation(
        what="the accountant is told of a hundred times as many users as there are",
        plant=lambda: in_the_shuffler.shuffled(in_the_shuffler.CalibratedForMore),
        expected=("conformance", "audit"),
        rules=("events",),
    ),
    "half the noise bits": Mutation(
        what="the aggregate path draws half of the noise bits",
        plant=lambda: in_the_shuffler.shuffled(in_the_shuffler.HalfTheBits),
        expected=("conformance",),
        rules=("variance",),
    ),
    "score bound in the mean": Mutation(
        what="gradient noise for G = √(1 − 1/A), which bounds the mean of the score, not the score",
        plant=_paper_gradient,
        expected=("accountant",),
    ),
    "un-noised update": Mutation(
        what="the parameters are updated with the exact gradient, as in the paper's line 5",
        plant=lambda: in_the_loop.gradient_loop(leak=True),
        expected=("audit",),
    ),
    "last batch re-normalised": Mutation(
        what="a short last batch is divided by its own size instead of the public one",
        plant=lambda: in_the_loop.short_batch_loop(leak=True),
        expected=("audit",),
    ),
    "raw baseline": Mutation(
        what="the baseline of the next batch is the mean reward of this one, without noise",
        plant=lambda: in_the_loop.raw_baseline_loop(leak=True),
        expected=("audit",),
    ),
    "raw initial-state estimate": Mutation(
        what="the distribution of the first state is estimated from the first states themselves",
        plant=lambda: in_the_loop.first_state_loop(leak=True),
        expected=("audit",),
    ),
    "data-dependent batch size": Mutation(
        what="a batch ends as soon as somebody earned something",
        plant=lambda: in_the_loop.batch_size_loop(leak=True),
        expected=("audit",),
    ),
    "regret leaked into the plan": Mutation(
        what="whether the next plan explores depends on what was really earned",
        plant=lambda: in_the_loop.regret_loop(leak=True),
        expected=("audit",),
    ),
    "all bits of a float": Mutation(
        what="floating-point noise is released with all of its bits",
        plant=lambda: in_the_loop.precision_loop(leak=True),
        expected=("audit",),
    ),
}
"""Bugs by name."""

ORIGINALS: Final[Mapping[str, Mutation]] = {
    "local laplace": Mutation(what="correct", plant=lambda: on_the_device.configured("local", "laplace"), expected=()),
    "local oue": Mutation(what="correct", plant=lambda: on_the_device.configured("local", "oue"), expected=()),
    "local rr": Mutation(what="correct", plant=lambda: on_the_device.configured("local", "rr"), expected=()),
    "central laplace-tree": Mutation(
        what="correct", plant=lambda: at_the_curator.central(at_the_curator.PlainCentral), expected=()
    ),
    "shuffle binomial": Mutation(what="correct", plant=lambda: in_the_shuffler.shuffled(Shuffle), expected=()),
    "gradient update": Mutation(what="correct", plant=lambda: in_the_loop.gradient_loop(leak=False), expected=()),
    "last batch": Mutation(what="correct", plant=lambda: in_the_loop.short_batch_loop(leak=False), expected=()),
    "baseline": Mutation(what="correct", plant=lambda: in_the_loop.raw_baseline_loop(leak=False), expected=()),
    "initial-state estimate": Mutation(
        what="correct", plant=lambda: in_the_loop.first_state_loop(leak=False), expected=()
    ),
    "batch size": Mutation(what="correct", plant=lambda: in_the_loop.batch_size_loop(leak=False), expected=()),
    "plan": Mutation(what="correct", plant=lambda: in_the_loop.regret_loop(leak=False), expected=()),
    "integer noise": Mutation(what="correct", plant=lambda: in_the_loop.precision_loop(leak=False), expected=()),
}
"""What the bugs were planted in, without the bug."""
