"""The three roles of the shuffle protocol: encoder (device), shuffler (trusted, in between), analyzer (untrusted).

E, the encoder, runs on the device and sees one trajectory; what it returns is all that leaves the device:
1. clip the trajectory into the public sizes and round rewards to bits, 1 with probability r: unbiased, and the same
   privacy as for binary rewards, because it comes first (Lemma S8 (rounded rewards));
2. look up the counters that the trajectory sets to one;
3. draw the noise bits of every counter;
4. pack every bit into a message of its own.
Nothing here raises on what a user did, and no message says what it was: only shapes and types are checked.

F, the shuffler, is the one trusted party. It sees who reports, and puts all messages of the batch in a random order.
It passes on nothing until the batch is complete: with fewer reports than planned there would be less noise than
certified, so the batch is aborted and nothing is released. It does not look into messages (in a deployment they are
encrypted to the analyzer); their number per report is public and constant, and that is all it checks.

G, the analyzer, sees single-bit messages in random order, counts the ones and subtracts the mean.

    N_noisy(c) = #{ones labelled c} − n·m·q                     [bai2024shuffle] Alg. 4, lines 12-16, message by message

Unbiased; the error Binomial(n·m, q) − n·m·q does not depend on the data. Everything after it is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import TrajectoryLike
from tacit.errors import InvalidInput, Unsupportable, require
from tacit.noise.exact import bernoulli, bernoulli_each, fair_bits, permutation
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.messages import Messages, Transport
from tacit.release.shuffle.noise import BitNoise
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec

__all__ = [
    "analyze",
    "coins",
    "encode",
    "noise_coins",
    "pack",
    "require_complete",
    "rounded_rewards",
    "shuffle",
]


def encode(
    spec: ReleaseSpec, transport: Transport, trajectory: TrajectoryLike, noise: SimulationNoise | SecureNoise
) -> Messages:
    """E: one user's report."""
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
    ones = spec.labels(s, a, rounded_rewards(rewards, noise).astype(np.int64))
    return pack(transport, ones, noise_coins(transport, noise))


def pack(transport: Transport, ones: NDArray[np.uint32], noise_bits: NDArray[np.uint8]) -> Messages:
    """Data ones (labels) and noise bits (m for counter 0, m for counter 1, ...) as single-bit messages."""
    owners = np.repeat(np.arange(transport.num_counters, dtype=np.uint32), transport.bits_per_user)
    if transport.mirrored:  # the bits of the opposite bias follow in the same order
        owners = np.tile(owners, 2)
    if transport.kind == "every-bit":
        data = np.zeros(transport.num_counters, dtype=np.uint8)
        data[ones] = 1
        labels = np.arange(transport.num_counters, dtype=np.uint32)
        return Messages(np.concatenate([labels, owners]), np.concatenate([data, noise_bits]))
    noise_ones = owners[noise_bits == 1]
    blocks = max(1, -(-len(noise_ones) // transport.block))
    counters = np.full(transport.slots + blocks * transport.block, transport.dummy, dtype=np.uint32)
    counters[: len(ones)] = ones
    counters[transport.slots : transport.slots + len(noise_ones)] = noise_ones
    return Messages(counters, (counters != transport.dummy).astype(np.uint8))


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


def shuffle(transport: Transport, reports: Sequence[Messages], noise: SimulationNoise | SecureNoise) -> Messages:
    """F: all messages of a complete batch in random order; every order of all messages is equally likely."""
    require_complete(len(reports), transport.users)
    for report in reports:
        require(
            transport.fits(len(report), 1),
            f"a report must have {transport.report_size} messages",
            len(report),
            "ask that device to encode with the description of this batch",
        )
    counters = np.concatenate([report.counters for report in reports])
    bits = np.concatenate([report.bits for report in reports])
    if isinstance(noise, SimulationNoise):
        order = noise.generator.permutation(len(counters))
    else:
        order = permutation(len(counters), noise)
    return Messages(counters[order], bits[order])


def require_complete(reports: int, users: int) -> None:
    """Abort a batch whose number of reports is not the planned one, before anything is released.

    >>> require_complete(999, 1000)
    Traceback (most recent call last):
    ...
    tacit.errors.Unsupportable: the batch has 999 reports of 1000 planned, so its noise would be below the certified \
one: batch aborted, nothing released; plan a smaller batch and collect anew
    """
    if reports < users:
        raise Unsupportable(
            f"the batch has {reports} reports of {users} planned, so its noise would be below the certified one: "
            "batch aborted, nothing released; plan a smaller batch and collect anew"
        )
    require(reports == users, f"a batch must have exactly the {users} planned reports", reports)


def analyze(spec: ReleaseSpec, transport: Transport, bit_noise: BitNoise, messages: Messages) -> NoisyCounts:
    """G: the noisy statistics of a complete, shuffled batch; dummies and labels that do not exist count for nothing."""
    require(
        transport.fits(len(messages), transport.users),
        f"a batch must have {transport.users} reports of {transport.report_size} messages each",
        f"{len(messages)} messages",
    )
    ones = messages.counters[(messages.bits != 0) & (messages.counters < transport.num_counters)]
    totals = np.bincount(ones, minlength=transport.num_counters).astype(np.float64)
    return spec.arrays(totals - bit_noise.total.mean)
