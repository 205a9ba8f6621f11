"""Shuffle protocols with one bug each: what travels says more than the sums. Never use them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from tacit.audit.bugs.local import configured, twin
from tacit.audit.messages import IntegerMessages
from tacit.privatizers.shuffle.messages import Messages
from tacit.privatizers.shuffle.privatizer import Shuffled
from tacit.privatizers.shuffle.protocol import Shuffle

__all__ = ["CalibratedForMore", "HalfTheBits", "NotShuffled", "UnpaddedMessages", "shuffled"]


class UnpaddedMessages(IntegerMessages):
    """Every bit travels alone, but only ones are sent, and nothing fills the report up."""

    def encode(self, trajectory: Any, noise: Any) -> Messages:
        """Ones only: the crowd's reports without a one are shorter."""
        bits = Shuffle.encode(self, trajectory, noise)
        ones = bits.bits == 1
        return Messages(bits.counters[ones], bits.bits[ones])


class NotShuffled(Shuffle):
    """Hands the reports on in the order of their arrival."""

    def shuffle(self, reports: Any, noise: Any) -> Messages:
        """No permutation."""
        out = super().shuffle(reports, noise)
        sent = [np.concatenate([getattr(report, name) for report in reports]) for name in ("counters", "bits")]
        return Messages(sent[0], sent[1]) if len(sent[0]) == len(out) else out


class CalibratedForMore(Shuffle):
    """States the events of a batch a hundred times as large as the one that is run."""

    def events(self) -> Any:
        """Too little exposure."""
        users = 100 * self.bit_noise.users
        return replace(self.bit_noise, users=users, honest_users=users).events(self.families())


class HalfTheBits(Shuffle):
    """Simulates a batch with half of its noise bits."""

    def aggregate(self, exact: Any, noise: Any, *, constant_rewards: bool = False) -> Any:
        """Half the bits."""
        half = replace(self.bit_noise, bits_per_user=max(1, self.bit_noise.bits_per_user // 2))
        return Shuffle(spec=self.spec, bit_noise=half).aggregate(exact, noise, constant_rewards=constant_rewards)


def shuffled(protocol: type) -> Any:
    """A twin of a correct shuffle privatizer."""
    original = configured("shuffle", "binomial")
    made = protocol(**{field.name: getattr(original.protocol, field.name) for field in fields(Shuffle)})
    return twin(Shuffled, original, protocol=made)
