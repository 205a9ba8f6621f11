"""`Shuffle`: the public description of one shuffled batch, and its three roles E, F, G.

    encode (device) -> shuffle (trusted, in between) -> analyze (server, untrusted)

Guarantees (each has a test of its name):
G1  The analyzer's view is equivalent to, per counter, exact sum + Binomial(n·m, q), where bits are mirrored plus
    Binomial(n·m, 1 - q): every bit is its own message, all messages are permuted together, each user's number of
    messages is constant (Lemma M1 (sum view), Lemma M11 (mirrored bits)).
G2  `events()` describes the worst replacement of one trajectory, honest devices only; `tight` meets (epsilon, delta).
G3  `aggregate` has exactly the distribution of the three roles run one after the other.
G4  A batch with fewer reports than planned is never released.

If the shuffler hands the analyzer reports with their senders, nobody is protected: this is what shuffle trust means.

References: [bai2024shuffle], [bai2025secure] Sec. V; as printed, integers z = y + noise are shuffled, which leaks (a
message of m + 1 proves y = 1); here every bit travels alone, which is what their proof is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Self

import numpy as np

from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, Trajectory, TrajectoryLike
from tacit.errors import InvalidInput, require, require_real
from tacit.noise.protocol import require_simulation
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.shuffle.messages import MessageCost, MessageKind, Messages, Transport, overflow_slack
from tacit.release.shuffle.noise import BitKind, BitNoise, PaperVariant, least_bit_noise, paper_bit_noise
from tacit.release.shuffle.roles import analyze, encode, require_complete, shuffle
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec

__all__ = ["Shuffle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """One batch: which counters, how much noise, how the messages travel. Public; no field depends on data.

    >>> spec = ReleaseSpec.fine(num_states=4, num_actions=2, horizon=6)
    >>> batch = Shuffle.tight(spec, epsilon=1.0, delta=1e-6, users=1000)
    >>> batch.bit_noise.bits_per_user, batch.noise_std()["transitions"] < 25.5
    (3, True)
    """

    spec: ReleaseSpec
    bit_noise: BitNoise
    messages: MessageKind = "ones"
    overflow_prob: float = 0.0

    def __post_init__(self) -> None:
        self.transport()  # its checks are ours

    @classmethod
    def tight(
        cls,
        spec: ReleaseSpec,
        *,
        epsilon: float,
        delta: float,
        users: int,
        honest_fraction: float = 1.0,
        max_bits_per_user: int | None = None,
        messages: MessageKind = "ones",
        overflow_prob: float = 0.0,
        kind: BitKind | None = None,
    ) -> Self:
        """The least noise for (epsilon, delta); what visible extra blocks cost is taken off delta first.

        `kind` names the noise bits; without a name mirrored ones are used where they are worth their messages.
        """
        epsilon = require_real("epsilon", epsilon, low=0.0, open_low=True)
        overflow_prob = require_real("overflow_prob", overflow_prob, low=0.0, high=0.5)
        slack = overflow_slack(epsilon, overflow_prob)
        require(
            slack == 0.0 or (slack < delta and messages == "ones"),
            f"overflow_prob costs (1 + e^epsilon) times itself and must leave some of delta = {delta!r}",
            overflow_prob,
            "use a smaller one with messages='ones', or 0",
        )
        bit_noise = least_bit_noise(
            spec.families(),
            epsilon=epsilon,
            delta=delta - slack,
            users=users,
            honest_fraction=honest_fraction,
            max_bits_per_user=max_bits_per_user,
            kind=kind,
        )
        return cls(spec=spec, bit_noise=bit_noise, messages=messages, overflow_prob=overflow_prob)

    @classmethod
    def paper(
        cls,
        spec: ReleaseSpec,
        *,
        epsilon: float,
        delta: float,
        users: int,
        variant: PaperVariant,
        honest_fraction: float = 1.0,
        messages: MessageKind = "ones",
    ) -> Self:
        """The noise as printed, but with every bit as its own message (as printed, integers leak)."""
        bit_noise = paper_bit_noise(
            epsilon=epsilon,
            delta=delta,
            users=users,
            horizon=spec.horizon,
            num_states=spec.num_states,
            num_actions=spec.num_actions,
            variant=variant,
            honest_fraction=honest_fraction,
        )
        return cls(spec=spec, bit_noise=bit_noise, messages=messages)

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return self.spec.families()

    def events(self) -> Events:
        """Everything one user is exposed to; `delta_slack` comes on top when blocks may overflow."""
        return self.bit_noise.events(self.families())

    def delta_slack(self, epsilon: float) -> float:
        """What the transport adds to delta at this epsilon; 0 unless `overflow_prob` was set."""
        return overflow_slack(epsilon, self.overflow_prob)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in one entry of each statistic, at its largest."""
        return {name: self.bit_noise.total.std * sqrt(terms) for name, terms in self.spec.noisy_terms().items()}

    def precision(self, failure_prob: float) -> float:
        """E: with probability 1 − failure_prob every entry of every statistic is within E/4 of its exact count.

        A union bound over the entries, exact quantiles for each; for several batches divide `failure_prob` by their
        number. Rewards are counted after rounding.
        """
        cells = self.spec.num_states * self.spec.num_actions
        entries = {"transitions": cells * self.spec.num_states * len(self.spec.transitions)}
        layers = set(self.spec.transitions) | set(self.spec.visits) | set(self.spec.outcomes)
        entries |= {"visits": cells * len(layers), "rewards": cells * len(self.spec.rewards + self.spec.outcomes)}
        each = failure_prob / sum(entries.values())
        return 4 * max(self.bit_noise.total.radius(each, terms) for terms in self.spec.noisy_terms().values())

    def transport(self) -> Transport:
        """How the messages of this batch travel."""
        return _transport(self.messages, self.spec, self.bit_noise, self.overflow_prob)

    def cost(self) -> MessageCost:
        """Messages and bytes per user."""
        return self.transport().cost()

    def encode(self, trajectory: TrajectoryLike, noise: SimulationNoise | SecureNoise) -> Messages:
        """E, on the device: one user's report."""
        return encode(self.spec, self.transport(), trajectory, noise)

    def shuffle(self, reports: Sequence[Messages], noise: SimulationNoise | SecureNoise) -> Messages:
        """F, the trusted shuffler: all messages of the complete batch in random order, or an error and nothing."""
        return shuffle(self.transport(), reports, noise)

    def analyze(self, messages: Messages) -> NoisyCounts:
        """G, on the server: noisy statistics."""
        return analyze(self.spec, self.transport(), self.bit_noise, messages)

    def protocol(self, batch: Trajectories, noise: SimulationNoise | SecureNoise) -> NoisyCounts:
        """E, F and G one after the other, in one process: every message is real, and so is the permutation."""
        users = zip(batch.states, batch.actions, batch.rewards, strict=True)
        reports = [self.encode(Trajectory(*user), noise) for user in users]
        return self.analyze(self.shuffle(reports, noise))

    def aggregate(self, exact: ExactCounts, noise: SimulationNoise, *, constant_rewards: bool = False) -> NoisyCounts:
        """The same release from exact counts, for simulations: one Binomial(n·m, q) per counter (two where mirrored).

        Rewards must be counts of ones, rounded as the encoder does. With `constant_rewards` (every visit of a cell
        earned the same reward R/N) the rounding happens here: Binomial(N, R/N) is its exact law.
        """
        require_complete(exact.users, self.bit_noise.users)
        sums = self.exact_sums(exact, noise, constant_rewards=constant_rewards)
        return self.spec.arrays(sums + self.bit_noise.total.sample(len(sums), noise))

    def exact_sums(self, exact: ExactCounts, noise: SimulationNoise, *, constant_rewards: bool) -> Ints:
        """The counters without noise, but with rewards rounded: what all data bits of a simulated batch add up to."""
        generator = require_simulation(noise)
        rewards = np.rint(exact.rewards).astype(np.int64)
        if constant_rewards:
            mean = np.clip(exact.rewards / np.maximum(exact.visits, 1), 0.0, 1.0)
            rewards = generator.binomial(exact.visits, mean)
        elif not np.array_equal(rewards, exact.rewards):
            raise InvalidInput(
                "aggregated rewards must be counts of ones, got fractions; "
                "round each user's rewards first, or say constant_rewards=True"
            )
        return self.spec.counters(exact.transitions, exact.visits, rewards)


@lru_cache(maxsize=1024)
def _transport(kind: MessageKind, spec: ReleaseSpec, bit_noise: BitNoise, overflow_prob: float) -> Transport:
    """How the messages of a batch travel; remembered, because every device of a batch asks."""
    return Transport(
        kind=kind,
        num_counters=spec.num_counters,
        slots=spec.slots,
        users=bit_noise.users,
        bits_per_user=bit_noise.bits_per_user,
        probability=bit_noise.probability,
        mirrored=bit_noise.mirrored,
        overflow_prob=overflow_prob,
    )
