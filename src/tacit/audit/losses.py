"""The privatizers of adversarial MDPs, attacked through the counts and losses they release.

The replaced user takes the first pair of every layer in one world and the last pair in the other; all losses are 1
(bandit feedback), or the whole loss table goes from 0 to 1 (full information).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attack import Finding, Target, attack
from tacit.audit.privatizers import View
from tacit.audit.streams import stream_score
from tacit.audit.views import record_steps
from tacit.errors import require
from tacit.mechanisms.noise.gaussian import Gaussian
from tacit.mechanisms.noise.laplace import Laplace
from tacit.privatizers.loss_noise import LossNoise
from tacit.privatizers.losses import AdversarialPrivatizer
from tacit.released.losses import LayeredShape

__all__ = ["LAYERED", "audit_losses", "losses_view"]

Floats = NDArray[np.float64]

LAYERED = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3))
"""Two layers of two pairs; the pairs of the first one have two successors each."""

_LAST_TRIPLES = (3, 5)  # of the pairs 1 and 3
_FIRST_TRIPLES = (0, 4)  # of the pairs 0 and 2


def audit_losses(
    privatizer: AdversarialPrivatizer, *, trials: int = 100_000, false_alarm: float = 0.01, seed: int = 0
) -> Finding:
    """Attack a privatizer of counts and losses over the shape `LAYERED`."""
    view = losses_view(privatizer)
    target = Target(
        kind="privatizer",
        name=f"{privatizer.name}, {privatizer.feedback} losses",
        trust=privatizer.claim.trust,
        calibration=privatizer.calibration,
        view=view.seen,
        claimed=privatizer.claim.epsilon,
        delta=privatizer.claim.delta,
        events=privatizer.events(),
    )
    return attack(target, *view.scores(trials, seed), false_alarm=false_alarm)


def losses_view(privatizer: AdversarialPrivatizer) -> View:
    """Everything that is released from the replaced user on."""
    require(privatizer.shape == LAYERED, "the attack knows the shape LAYERED only", privatizer.shape)
    central = privatizer.claim.trust == "central"
    steps = privatizer.episodes - 1 if central else 1
    T, P = LAYERED.triples, LAYERED.pairs
    worlds = tuple(_users(privatizer, steps, second=second) for second in (False, True))
    was, became = (_exact(privatizer, users) for users in worlds)  # [steps, numbers]
    ends = {"transitions": slice(0, T), "visits": slice(T, T + P), "losses": slice(T + P, T + 2 * P)}

    def part(values: Floats, name: str) -> Floats:
        if name == "complements":
            return values[..., ends["visits"]] - values[..., ends["losses"]]
        return values[..., ends[name]]

    def score(records: Floats) -> Floats:
        total = np.zeros(len(records))
        for name, noise in privatizer.parts.items():
            x0, x1, seen = (part(values, name) for values in (was, became, records))
            moved = np.abs(x1 - x0).max(axis=0) > 0.0
            if not moved.any() or noise.source is None:
                continue
            total += _part_score(noise, seen[..., moved] - x0[:, moved], (x1 - x0)[:, moved])
        return total

    width = T + 2 * P + 3
    return View(
        seen=f"all {steps} releases" if central else "the user's message",
        worlds=(worlds[0], worlds[1]),
        record=record_steps(privatizer, width),
        score=score,
        width=width * steps,
    )


def _part_score(noise: LossNoise, seen: Floats, moved: Floats) -> Floats:
    if isinstance(noise.source, Laplace | Gaussian):
        # One release, in the user's own episode; where totals are shown, later ones repeat its noise.
        return np.asarray(noise.source.log_ratio(seen[:, 0], moved[0]).sum(axis=1))
    return stream_score(noise.source, seen.shape[1])(seen, moved)


def _users(privatizer: AdversarialPrivatizer, steps: int, *, second: bool) -> tuple[Any, Any, Any]:
    full = privatizer.feedback == "full"
    pairs = np.tile(np.array([0, 2], dtype=np.int64), (steps, 1))
    triples = np.tile(np.array(_FIRST_TRIPLES, dtype=np.int64), (steps, 1))
    losses = np.zeros((steps, LAYERED.pairs if full else LAYERED.horizon))
    if second:
        pairs[0], triples[0] = (1, 3), _LAST_TRIPLES
    losses[0] = 1.0 if second or not full else 0.0
    return pairs, triples, losses


def _exact(privatizer: AdversarialPrivatizer, users: tuple[Any, Any, Any]) -> Floats:
    """The records without noise."""
    pairs, triples, losses = users
    steps, T, P = len(pairs), LAYERED.triples, LAYERED.pairs
    moves, visits, table = np.zeros((steps, T)), np.zeros((steps, P)), np.zeros((steps, P))
    for k in range(steps):
        moves[k:, triples[k]] += 1.0
        visits[k:, pairs[k]] += 1.0
        if privatizer.feedback == "full":
            table[k:] += losses[k]
        else:
            table[k, pairs[k]] = losses[k]  # each user's own, not the total
    return np.concatenate([moves, visits, table], axis=1)
