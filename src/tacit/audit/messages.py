"""The shuffle transcript as an attacker sees it: all messages in their order, their sizes, and how many everybody sent.

Four distinguishers share the false-alarm rate of an audit:

    values   the largest message on a counter that only the replaced user can have raised
    counts   how many messages the replaced user sent
    order    what the first messages of the transcript say about the replaced user, who came first
    sums     the exact likelihood ratio of the number of ones per counter, which is all that may be seen

[bai2024shuffle] and [bai2025secure] print a protocol whose messages are integers z = y + noise, one per user and
counter. On a counter where nobody else has a one, a message of m + 1 proves y = 1: with probability 2⁻ᵐ, whatever
epsilon is (`IntegerMessages` is that protocol). tacit sends every bit as a message of its own.

G1  The protocol of single bits is called refuted with probability at most `false_alarm`.
G2  Integer messages, messages that are not padded and messages in their order are refuted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attack import Finding, Target, attack
from tacit.audit.records import canaries
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.randomness import SimulationNoise
from tacit.release.shuffle.messages import Messages
from tacit.release.shuffle.protocol import Shuffle
from tacit.released.counts import CountShape
from tacit.statistics.count_spec import NoisyCounts

__all__ = ["DISTINGUISHERS", "IntegerMessages", "as_printed", "audit_messages", "message_scores"]

Floats = NDArray[np.float64]

DISTINGUISHERS: Final = ("values", "counts", "order", "sums")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerMessages(Shuffle):
    """As printed, and not private: one message per counter that carries y plus all noise bits of the user."""

    def encode(self, trajectory: Any, noise: Any) -> Messages:
        """One integer per counter."""
        bits = Shuffle.encode(self, trajectory, noise)
        held = np.bincount(bits.counters, weights=bits.bits, minlength=self.spec.num_counters + 1)
        labels = np.arange(self.spec.num_counters, dtype=np.uint32)
        return Messages(labels, held[: self.spec.num_counters].astype(np.uint8))

    def shuffle(self, reports: Any, noise: Any) -> Messages:
        """All integers in random order."""
        sent = [np.concatenate([getattr(r, name) for r in reports]) for name in ("counters", "bits")]
        order = noise.generator.permutation(len(sent[0]))
        return Messages(sent[0][order], sent[1][order])

    def analyze(self, messages: Messages) -> NoisyCounts:
        """Add the integers up and subtract the mean of the noise."""
        totals = np.bincount(messages.counters, weights=messages.bits, minlength=self.spec.num_counters)
        return self.spec.arrays(np.asarray(totals - self.bit_noise.total.mean, dtype=np.float64))


def as_printed(protocol: Shuffle) -> IntegerMessages:
    """The same noise, sent as the papers print it."""
    return IntegerMessages(**{field.name: getattr(protocol, field.name) for field in fields(Shuffle)})


def audit_messages(
    protocol: Shuffle,
    *,
    epsilon: float,
    delta: float,
    trials: int = 2000,
    false_alarm: float = 0.01,
    seed: int = 0,
    name: str,
) -> Finding:
    """Attack the transcript of one batch; every message is real."""
    target = Target(
        kind="messages",
        name=name,
        trust="shuffle",
        calibration="-",
        view="the shuffled transcript",
        claimed=epsilon,
        delta=delta,
        events=protocol.events(),
    )
    scores = message_scores(protocol, trials, seed)
    each = false_alarm / len(DISTINGUISHERS)
    found = {
        view: attack(target, scores[0][:, i], scores[1][:, i], false_alarm=each, note=f"best seen in the {view}")
        for i, view in enumerate(DISTINGUISHERS)
    }
    order = {"CERTIFICATE REFUTED": 2, "claim refuted": 1, "holds": 0}
    best = max(found.values(), key=lambda finding: (order[finding.verdict], finding.attacked))
    return Finding(**{**_plain(best), "confidence": 1.0 - false_alarm})


def message_scores(protocol: Shuffle, trials: int, seed: int) -> tuple[Floats, Floats]:
    """Scores [trials, distinguishers] of whole transcripts in two worlds."""
    spec = protocol.spec
    shape = CountShape(horizon=spec.horizon, num_states=spec.num_states, num_actions=spec.num_actions, staged=True)
    worlds = canaries(shape, protocol.bit_noise.users)
    ones = [_totals(protocol, users) for users in worlds]
    moved = np.flatnonzero(ones[0] != ones[1])
    noise = SimulationNoise(np.random.default_rng([seed, 13]))
    found = []
    for users in worlds:
        rows = np.empty((trials, len(DISTINGUISHERS)))
        for row in rows:
            row[:] = _transcript_scores(protocol, users, ones[0], ones[1], moved, noise)
        found.append(rows)
    return found[0], found[1]


def _transcript_scores(
    protocol: Shuffle, users: Trajectories, was: Floats, became: Floats, moved: NDArray[Any], noise: SimulationNoise
) -> tuple[float, float, float, float]:
    rows = zip(users.states, users.actions, users.rewards, strict=True)
    reports = [protocol.encode(Trajectory(*row), noise) for row in rows]
    out = protocol.shuffle(reports, noise)
    up = moved[became[moved] > was[moved]]
    sign = np.zeros(len(was) + 1)
    sign[moved] = np.sign(became[moved] - was[moved])
    at_up = np.isin(out.counters, up)
    largest = float(out.bits[at_up].max(initial=0))
    early = slice(0, protocol.spec.slots)  # a report begins with the user's own ones
    order = float((sign[np.minimum(out.counters[early], len(was))] * out.bits[early]).sum())
    totals = np.bincount(out.counters, weights=out.bits, minlength=len(was))[: len(was)]
    law = protocol.bit_noise.total
    values = totals[moved] - law.mean - was[moved]
    sums = float(np.clip(law.log_ratio(values, became[moved] - was[moved]), -1e6, 1e6).sum())
    return largest, float(len(reports[0])), order, sums


def _totals(protocol: Shuffle, users: Trajectories) -> Floats:
    """How many ones each counter holds, without noise (rewards are 0 or 1)."""
    spec, total = protocol.spec, np.zeros(protocol.spec.num_counters)
    for states, actions, rewards in zip(users.states, users.actions, users.rewards, strict=True):
        np.add.at(total, spec.labels(states, actions, rewards.astype(np.int64)), 1.0)
    return total


def _plain(finding: Finding) -> dict[str, Any]:
    return {field.name: getattr(finding, field.name) for field in fields(finding)}
