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

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats
from tacit.audit.attack import Finding, Target, attack
from tacit.audit.records import canaries
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.randomness import SimulationNoise
from tacit.release.shuffle.roles import permuted
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.stage import NoSecret

DISTINGUISHERS: Final = ("values", "counts", "order", "sums")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerMessages(ShuffleRelease):
    """As printed, and not private: one message per counter that carries y plus all noise bits of the user."""

    def encode(self, trajectory: Any, noise: Any) -> bytes:
        """One integer per counter, as label + (C + 1) · integer."""
        labels, C = np.frombuffer(ShuffleRelease.encode(self, trajectory, noise), dtype=self.labels), self._counters
        return (np.arange(C) + (C + 1) * np.bincount(labels, minlength=C + 1)[:C]).astype("<u4").tobytes()

    def shuffle(self, bodies: Sequence[bytes], noise: Any) -> NDArray[np.uint32]:
        """All integers in random order."""
        return permuted([np.frombuffer(body, dtype="<u4") for body in bodies], noise)

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Any, noise: Any) -> tuple[NoSecret, bytes]:
        """Add the integers up."""
        labels, values = np.divmod(np.frombuffer(b"".join(bodies), dtype="<u4"), self._counters + 1)[::-1]
        sums = np.bincount(labels, weights=values, minlength=self._counters)
        return secret, sums.astype("<i8").tobytes()

    @property
    def _counters(self) -> int:
        return self.spec.num_counters


def as_printed(release: ShuffleRelease) -> IntegerMessages:
    """The same noise, sent as the papers print it."""
    return IntegerMessages(**{field.name: getattr(release, field.name) for field in fields(ShuffleRelease)})


def audit_messages(
    release: ShuffleRelease,
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
        events=release.events(),
    )
    scores = message_scores(release, trials, seed)
    each = false_alarm / len(DISTINGUISHERS)
    found = {
        view: attack(target, scores[0][:, i], scores[1][:, i], false_alarm=each, note=f"best seen in the {view}")
        for i, view in enumerate(DISTINGUISHERS)
    }
    order = {"CERTIFICATE REFUTED": 2, "claim refuted": 1, "holds": 0}
    best = max(found.values(), key=lambda finding: (order[finding.verdict], finding.attacked))
    return Finding(**{**_plain(best), "confidence": 1.0 - false_alarm})


def message_scores(release: ShuffleRelease, trials: int, seed: int) -> tuple[Floats, Floats]:
    """Scores [trials, distinguishers] of whole transcripts in two worlds."""
    worlds = canaries(release.shape, release.target)
    ones = [_totals(release, users) for users in worlds]
    moved = np.flatnonzero(ones[0] != ones[1])
    noise = SimulationNoise(np.random.default_rng([seed, 13]))
    found = []
    for users in worlds:
        rows = np.empty((trials, len(DISTINGUISHERS)))
        for row in rows:
            row[:] = _transcript_scores(release, users, ones[0], ones[1], moved, noise)
        found.append(rows)
    return found[0], found[1]


def _transcript_scores(
    release: ShuffleRelease,
    users: Trajectories,
    was: Floats,
    became: Floats,
    moved: NDArray[Any],
    noise: SimulationNoise,
) -> tuple[float, float, float, float]:
    rows = zip(users.states, users.actions, users.rewards, strict=True)
    bodies = [release.encode(Trajectory(*row), noise) for row in rows]
    C, sent = len(was), release.shuffle(bodies, noise)
    # A message is a label that stands for one bit, or C; as printed, a label and an integer.
    labels, values = (sent % (C + 1), sent // (C + 1)) if isinstance(release, IntegerMessages) else (sent, sent < C)
    up = moved[became[moved] > was[moved]]
    sign = np.zeros(C + 1)
    sign[moved] = np.sign(became[moved] - was[moved])
    largest = float(values[np.isin(labels, up)].max(initial=0))
    early = slice(0, len(sent) // len(bodies))  # the messages of the first body, if they are in their order
    order = float((sign[labels[early]] * values[early]).sum())
    totals = np.bincount(labels, weights=values, minlength=C)[:C]
    law = release.law(release.target)
    seen = totals[moved] - law.mean - was[moved]
    sums = float(np.clip(law.log_ratio(seen, became[moved] - was[moved]), -1e6, 1e6).sum())
    return largest, float(len(bodies[0])), order, sums


def _totals(release: ShuffleRelease, users: Trajectories) -> Floats:
    """How many ones each counter holds, without noise (rewards are 0 or 1)."""
    spec, total = release.spec, np.zeros(release.spec.num_counters)
    for states, actions, rewards in zip(users.states, users.actions, users.rewards, strict=True):
        np.add.at(total, spec.labels(states, actions, rewards.astype(np.int64)), 1.0)
    return total


def _plain(finding: Finding) -> dict[str, Any]:
    return {field.name: getattr(finding, field.name) for field in fields(finding)}
