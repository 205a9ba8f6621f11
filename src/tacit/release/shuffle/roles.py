"""Two roles of the shuffle protocol: the encoder (device) and the shuffler (trusted, in between).

The encoder runs on the device and sees one trajectory; what it returns is all that leaves the device:
1. clip the trajectory into the public sizes and round rewards to bits, 1 with probability r: unbiased, and the same
   privacy as for binary rewards, because it comes first (Lemma S8 (rounded rewards));
2. look up the counters that the trajectory sets to one;
3. draw the noise bits of every counter;
4. pack the label of every one into a message of its own, and fill up with dummies.
Nothing here raises on what a user did, and no message says what it was: only shapes and types are checked.

The shuffler sees who reports, and puts all messages of the batch in a random order. It does not look into messages (in
a deployment they are encrypted to the analyzer). Whoever sees them in that order counts them, and learns the sums:
`tacit.release.shuffle_release` is that release.

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import TrajectoryLike
from tacit.errors import InvalidInput, PrivacyViolation, require, require_count, require_real
from tacit.noise.binomial import binomial_tail
from tacit.noise.exact import bernoulli, bernoulli_each, fair_bits, permutation
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.statistics.count_spec import ReleaseSpec


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


def data_labels(
    spec: ReleaseSpec, trajectory: TrajectoryLike, noise: SimulationNoise | SecureNoise
) -> NDArray[np.uint32]:
    """The counters that one trajectory sets to one, rewards rounded."""
    S, A, H = spec.num_states, spec.num_actions, spec.horizon
    states, actions = np.asarray(trajectory.states), np.asarray(trajectory.actions)
    rewards = np.asarray(trajectory.rewards, dtype=np.float64)
    if states.dtype.kind not in "iu" or actions.dtype.kind not in "iu":
        raise InvalidInput(f"states and actions must be integers, got {(states.dtype.name, actions.dtype.name)!r}")
    require(actions.shape == (H,) and rewards.shape == (H,), f"actions and rewards must have shape ({H},)", "another")
    lengths = (H + 1,) if spec.needs_last_state else (H, H + 1)
    require(states.ndim == 1 and len(states) in lengths, f"states must have a length in {lengths}", states.shape)
    # Out-of-range values are clipped, so that no user can move more counters than `families()` says.
    s = np.minimum(np.maximum(states.astype(np.int64), 0), S - 1)
    a = np.minimum(np.maximum(actions.astype(np.int64), 0), A - 1)
    return spec.labels(s, a, rounded_rewards(rewards, noise).astype(np.int64))


def pack(transport: Transport, ones: NDArray[np.uint32], noise_bits: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The labels of data ones and of noise ones (m bits for counter 0, m for counter 1, ...), with their dummies."""
    owners = np.repeat(np.arange(transport.num_counters, dtype=np.uint32), transport.bits_per_user)
    if transport.mirrored:  # the bits of the opposite bias follow in the same order
        owners = np.tile(owners, 2)
    noise_ones = owners[noise_bits == 1]
    blocks = max(1, -(-len(noise_ones) // transport.block))
    labels = np.full(transport.slots + blocks * transport.block, transport.dummy, dtype=np.uint32)
    labels[: len(ones)] = ones
    labels[transport.slots : transport.slots + len(noise_ones)] = noise_ones
    return labels


def rounded_rewards(rewards: NDArray[np.float64], noise: SimulationNoise | SecureNoise) -> NDArray[np.bool_]:
    """Bernoulli(r) for each reward; rewards are clipped to [0, 1], and NaN counts as 0.

    >>> rounded_rewards(np.array([0.0, 1.0, 7.0, np.nan]), SecureNoise())
    array([False,  True,  True, False])
    """
    if isinstance(noise, SimulationNoise):
        # A comparison with NaN is false, and random() < 1 is certain.
        return np.asarray(noise.generator.random(rewards.shape) < rewards, dtype=np.bool_)
    return bernoulli_each(rewards, noise)


def noise_coins(transport: Transport, noise: SimulationNoise | SecureNoise) -> NDArray[np.uint8]:
    """The noise bits of one device: those of probability q, then those of 1 - q where there are any."""
    rare = coins(transport.rare_bits, transport.probability, noise)
    if not transport.mirrored:
        return rare
    return np.concatenate([rare, 1 - coins(transport.rare_bits, transport.probability, noise)])


def coins(count: int, probability: float, noise: SimulationNoise | SecureNoise) -> NDArray[np.uint8]:
    """Independent noise bits, each 1 with this probability: exact from secure noise, reproducible from simulated."""
    fair = probability == 0.5
    if isinstance(noise, SimulationNoise):
        if fair:
            return noise.generator.integers(0, 2, count, dtype=np.uint8)
        return (noise.generator.random(count) < probability).astype(np.uint8)
    return fair_bits(count, noise) if fair else bernoulli(count, noise, probability=probability).astype(np.uint8)


def permuted(reports: Sequence[NDArray[np.uint32]], noise: SimulationNoise | SecureNoise) -> NDArray[np.uint32]:
    """The shuffler: all messages of these reports in random order; every order of all messages is equally likely."""
    labels = np.concatenate(reports)
    if isinstance(noise, SimulationNoise):
        return np.asarray(labels[noise.generator.permutation(len(labels))])
    return np.asarray(labels[permutation(len(labels), noise)])


def require_complete(reports: int, users: int) -> None:
    """Abort a batch whose number of reports is not the planned one, before anything is released.

    >>> require_complete(999, 1000)
    Traceback (most recent call last):
    ...
    tacit.errors.PrivacyViolation: the batch has 999 reports of 1000 planned, so its noise would be below the \
certified one: batch aborted, nothing released; plan a smaller batch and collect anew
    """
    if reports < users:
        raise PrivacyViolation(
            f"the batch has {reports} reports of {users} planned, so its noise would be below the certified one: "
            "batch aborted, nothing released; plan a smaller batch and collect anew"
        )
    require(reports == users, f"a batch must have exactly the {users} planned reports", reports)
