"""`--dry-run`: what a run would take and give (memory, noise, certificate), and the refusal when memory won't do.

Memory of one process, in bytes; L is H where steps are kept apart and 1 where they are pooled:

    C = L S A (S + 2)                                 counters: transitions, visits, rewards
    world = 3 · 8 · (rows of P) A S                   P and its alias table
    R = C, or the released counters of a declared support: batches keep those only
    process = BASE + world + 4 · 8 C + 12 · 8 d + 3 · (state + belief + 8 R · batches)

d is the number of parameters of a policy that is learned by its gradients, 0 elsewhere; state and belief are what
privatizer and learner really begin with, or 8 C and 8 R where R is below C / 2 (most of their zeros are never touched);
batches are those that a learner keeps; the factor 3 is for the copies that a round makes. **The rule: a run is refused
before anything is written if its processes together need more than `SHARE` of the memory that is available**
(/proc/meminfo, and the control group's limit where there is one); where that is unknown, nothing is refused. It is an
estimate from above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.memory import SHARE, available_memory, in_words, require_free
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig

__all__ = ["SHARE", "Estimate", "available_memory", "estimate", "memory_of", "require_memory"]

BASE: Final = 200 * 2**20
"""What an interpreter with tacit in it needs."""
SMALL: Final = 2**20
"""Counters below which nobody has to look closer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run would take, and what it would give."""

    config: RunConfig
    processes: int
    memory: int
    """Bytes of one process."""
    available: int | None
    noise: dict[str, float]
    """Standard deviation of the noise in each released family, at its largest."""
    certificate: Certificate

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            "dry_run": True,
            **plain,
            "config": self.config.to_dict(),
            "because": self.config.because,
            "by_size": self.config.by_size,
            "certificate": self.certificate.to_dict(),
        }

    def lines(self) -> list[str]:
        """For people."""
        seeds = len(self.config.seeds)
        everything = self.memory * self.processes
        free = (
            "how much is available is not known" if self.available is None else f"{in_words(self.available)} available"
        )
        noise = ", ".join(f"{name} {std:.4g}" for name, std in self.noise.items()) or "none"
        return [
            *self.config.choices,
            (
                f"{self.config.learner} on {self.config.environment_name}, trust {self.config.trust}, "
                f"{self.config.episodes:,} episodes, {seeds} seed{'s' if seeds > 1 else ''}"
            ),
            f"memory: about {in_words(self.memory)} per process, {in_words(everything)} in all ({free})",
            f"noise (standard deviation): {noise}",
            self.certificate.describe(),
        ]


def estimate(config: RunConfig, *, workers: int | None = None) -> Estimate:
    """What a run of this configuration would take and give; nothing is run.

    >>> found = estimate(RunConfig(environment="riverswim", learner="uniform", episodes=100, seeds=(0,)))
    >>> found.noise["transitions"], found.processes
    (0.0, 1)
    """
    parts, free = assemble(config), available_memory()
    processes = _processes(len(config.seeds), workers)
    memory = memory_of(parts)
    _refuse(config.label, memory * processes, free)
    return Estimate(
        config=config,
        processes=processes,
        memory=memory,
        available=free,
        noise={name: float(std) for name, std in parts.privatizer.noise_std().items()},
        certificate=parts.certificate,
    )


def require_memory(needs: Sequence[tuple[RunConfig, int]], *, workers: int | None) -> None:
    """Raise where what may run at once needs more than `SHARE` of the memory that is available.

    `needs` are configurations, each with the bytes that one process needs for a seed (`memory_of`).
    """
    tasks = sum(len(config.seeds) for config, _ in needs)
    free = available_memory()
    for config, memory in needs:
        _refuse(config.label, memory * _processes(tasks, workers), free)


def memory_of(parts: Assembled) -> int:
    """Bytes that one process needs for a seed, by the rule of this module."""
    shape: Any = parts.learner.shape
    sizes = [getattr(shape, name, None) for name in ("horizon", "num_states", "num_actions")]
    if not all(isinstance(size, int | np.integer) for size in sizes):
        return BASE + 3 * (_bytes(parts.privatizer.begin()) + _bytes(parts.learner.begin()))
    H, S, A = (int(size) for size in sizes if size is not None)
    C = (H if shape.staged else 1) * S * A * (S + 2)
    support = getattr(shape, "support", None)
    R = C if support is None else sum(map(len, shape.cells[:3]))
    world = 3 * 8 * int(getattr(parts.mdp, "stage_P", np.zeros(0)).size)
    batches = len(getattr(parts.learner, "batches", None) or ())
    d = int(getattr(shape, "dimension", 0))
    found = BASE + world + 4 * 8 * C + 12 * 8 * d + 3 * 8 * R * batches
    least = found + 3 * 8 * (C + R)  # a state of C numbers and a belief of R
    if (
        C < SMALL or 2 * R < C or least > SHARE * (available_memory() or math.inf)
    ):  # too small to matter, or refused already
        return least
    try:
        return max(least, found + 3 * (_bytes(parts.privatizer.begin()) + _bytes(parts.learner.begin())))
    except MemoryError:  # it cannot even begin
        return max(least, available_memory() or 0) + 3 * 8 * C


def _refuse(label: str, needed: int, free: int | None) -> None:
    require_free(label, needed, free, "choose a smaller world, pooled counts or fewer workers")


def _processes(tasks: int, workers: int | None) -> int:
    from tacit.executors import default_workers

    return default_workers(tasks) if workers is None else min(workers, tasks)


def _bytes(value: Any) -> int:
    """Of all arrays in a nested state."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, tuple | list):
        return sum(map(_bytes, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(_bytes(getattr(value, field.name)) for field in fields(value))
    return 0
