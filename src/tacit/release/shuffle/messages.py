"""What travels: labels of ones, how many of them each user sends, and what that costs.

A message is a counter's label: one of its bits is one. It travels alone: nothing ties two messages of one user
together. Zeros stay at home. A user sends the labels of its ones, and dummies (label C) up to a constant number:
F slots for data (F = number of (family, layer) pairs) and a block of B slots for noise ones.

Why nothing more is seen than if every bit were a message: the analyzer sees the number of messages per label; the
dummies are n·(F + B) minus all others, a function of the sums. So its view is equivalent to the vector of sums (Lemma
M1 (sum view)).

The block. With `overflow_prob = 0` a block holds all C·m noise bits: it never overflows and the claim is exact.
Otherwise B is the least number with n · P(Bin(C·m, q) > B) ≤ overflow_prob, and a device with more noise ones than
that opens another block: the released numbers keep exactly their distribution, but an extra block is visible. Its
presence depends on noise alone, and is paid for (Lemma M6 (overflowing blocks)): with delta(eps)
for the sums, for every set of views V,

    P(V) ≤ P(V, no extra) + p ≤ e^eps P'(V₀) + delta + p ≤ e^eps (P'(V, no extra) + p) + delta + p
         ≤ e^eps P'(V) + delta + (1 + e^eps)·p,          V₀ = the sums in V with n blocks, p = overflow_prob.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tacit.errors import require, require_count, require_real
from tacit.noise.binomial import binomial_tail


class MessageCost(NamedTuple):
    """Communication of one user; bytes are those of labels, before encryption and transport."""

    messages_per_user: int
    bytes_per_message: int

    @property
    def bytes_per_user(self) -> int:
        """What one device uploads."""
        return self.messages_per_user * self.bytes_per_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """How the bits of one batch travel; everything in here is public.

    >>> Transport(num_counters=256, slots=17, users=1000, bits_per_user=3, probability=0.28, overflow_prob=0.0).cost()
    MessageCost(messages_per_user=785, bytes_per_message=2)
    """

    num_counters: int
    slots: int
    users: int
    bits_per_user: int
    probability: float
    overflow_prob: float
    mirrored: bool = False
    """Whether a device draws m bits of probability 1 - q for every counter, too."""
    fixed_block: int | None = None
    """B where it is written down; it must hold all noise ones of all users but for `overflow_prob`. None: the least."""

    def __post_init__(self) -> None:
        for name in ("num_counters", "slots", "users", "bits_per_user"):
            require_count(name, getattr(self, name))
        require_real("overflow_prob", self.overflow_prob, low=0.0, high=0.5)
        if self.fixed_block is not None:
            block = require_count("block", self.fixed_block)
            require(block <= self.noise_bits, f"a block holds at most all {self.noise_bits} noise bits", block)
            missing = self.users * binomial_tail(block - self._sure, self.rare_bits, self.probability)
            # The tail is a float, right to about twelve digits.
            fits = missing <= self.overflow_prob * (1.0 + 1e-9)
            require(fits, f"a block of {block} must not overflow with more than the stated probability", missing)

    @property
    def dummy(self) -> int:
        """The label that stands for nothing."""
        return self.num_counters

    @property
    def noise_bits(self) -> int:
        """Noise bits that one device draws."""
        return self.rare_bits + self._sure

    @property
    def rare_bits(self) -> int:
        """Those of probability q."""
        return self.num_counters * self.bits_per_user

    @property
    def _sure(self) -> int:
        """Those of probability 1 - q: room for all of them is always kept."""
        return self.rare_bits if self.mirrored else 0

    @property
    def block(self) -> int:
        """Slots for noise ones: B."""
        if self.fixed_block is not None:
            return self.fixed_block
        if self.overflow_prob == 0.0:
            return self.noise_bits
        return self._sure + _least_block(self.users, self.rare_bits, self.probability, self.overflow_prob)

    @property
    def report_size(self) -> int:
        """Messages per user, extra blocks aside."""
        return self.slots + self.block

    def cost(self) -> MessageCost:
        """Messages and bytes of one user; a label may be that of a dummy."""
        return MessageCost(self.report_size, max(1, math.ceil(self.num_counters.bit_length() / 8)))


def overflow_slack(epsilon: float, overflow_prob: float) -> float:
    """What visible extra blocks add to delta at this epsilon: (1 + e^eps) · overflow_prob.

    >>> overflow_slack(0.0, 1e-9)
    2e-09
    """
    if overflow_prob == 0.0:
        return 0.0
    return (1.0 + math.exp(epsilon)) * overflow_prob if epsilon < 700.0 else math.inf


@cache
def _least_block(users: int, bits: int, probability: float, overflow_prob: float) -> int:
    """The least B with n · P(Bin(bits, q) > B) ≤ overflow_prob; remembered, because every device of a batch asks."""
    # Bisection on the tail itself: its inverse loses all digits for such small probabilities.
    low, high = 0, bits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if users * binomial_tail(middle, bits, probability) <= overflow_prob else (middle, high)
        )
    return high
