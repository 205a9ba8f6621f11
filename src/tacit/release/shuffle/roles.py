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
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import TrajectoryLike
from tacit.errors import InvalidInput, PrivacyViolation, require
from tacit.noise.exact import bernoulli, bernoulli_each, fair_bits, permutation
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.messages import Transport
from tacit.statistics.count_spec import ReleaseSpec


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
