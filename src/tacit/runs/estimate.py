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

The size also decides where nobody chose: noise on a schedule and rare plans in large worlds. A run that plans and
releases after every user costs K · H S² A: as many numbers are touched as there are users and cells of the model. That
is seconds in the worlds of the papers and minutes to hours from fifty states on. Where

    H S² A ≥ CELLS    and    K · H S² A > LARGE

a learner of running totals is run, unless somebody said otherwise,

    under trust none and local   with replan=geometric: a plan when the number of users has grown by half a percent; the
                                 messages of everybody in between are drawn as one sum, by its exact law
    under trust central          the same, with noise on a public schedule of batches: batched-factorization, or batched
                                 where its delta is 0 or a person reports more than once
    under trust shuffle          as ever: users come in batches anyway

Only public numbers decide (sizes, users, options), before anybody's data are seen. The choice is written into the
configuration, so that results, certificates and commands name what ran, and `by_size` says why. Smaller runs are what
they always were, and so is whoever builds a `RunConfig` directly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.learners.auto import LARGE
from tacit.learners.table import learner_row
from tacit.noise.table import MECHANISMS
from tacit.protocol import Totals
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig, parse_learner
from tacit.system import SHARE, available_memory, in_words, require_free

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


CELLS: Final = 10_000
"""A model with fewer cells H S² A is small: its runs are never changed, however many users come."""


def is_large(*, horizon: int, states: int, actions: int, episodes: int) -> bool:
    """Whether a run that plans and releases after every user would take minutes.

    >>> is_large(horizon=20, states=50, actions=4, episodes=100_000)
    True
    >>> is_large(horizon=20, states=50, actions=4, episodes=10**4)
    False
    >>> is_large(horizon=6, states=4, actions=2, episodes=10**8)
    False
    """
    cells = horizon * states**2 * actions
    return cells >= CELLS and episodes * cells > LARGE


def apply_size_defaults(config: RunConfig) -> RunConfig:
    """The configuration with what its size decides written into it; the same one where it decides nothing.

    >>> run = {"environment": "random-mdp:states=50,actions=4,horizon=20", "learner": "dp-ucbvi", "seeds": (0,)}
    >>> private = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
    >>> large = apply_size_defaults(RunConfig(episodes=100_000, **run, **private))
    >>> large.learner, large.mechanism
    ('dp-ucbvi:replan=geometric', 'batched-factorization')
    >>> small = RunConfig(episodes=1000, **run, **private)
    >>> apply_size_defaults(small) is small
    True
    """
    name, options = parse_learner(config.learner)
    row = learner_row(name)
    alone = config.trust != "shuffle" and config.batch in (None, 1)
    if row.asks is not Totals or not alone or config.calibration != "tight":
        return config
    world = config.world()
    sizes = [getattr(world, size, None) for size in ("horizon", "num_states", "num_actions")]
    if not all(isinstance(size, int) for size in sizes):
        return config  # assembling it says what is wrong
    horizon, states, actions = (int(str(size)) for size in sizes)
    if not is_large(horizon=horizon, states=states, actions=actions, episodes=config.episodes):
        return config
    mechanism = _mechanism(config)
    rarely = "replan" in row.options and "replan" not in options and _together(config, mechanism)
    chosen = [f"mechanism {mechanism}"] if mechanism != config.mechanism else []
    chosen += ["replan=geometric"] if rarely else []
    if not chosen:
        return config
    why = (
        f"by size: {' and '.join(chosen)}, because {config.episodes:,} users times {horizon * states**2 * actions:,} "
        f"cells H·S²·A exceed {LARGE:.0e}"
    )
    listed = ",".join(
        f"{key}={value}" for key, value in {**options, **({"replan": "geometric"} if rarely else {})}.items()
    )
    learner = f"{name}:{listed}" if listed else name
    return replace(config, learner=learner if rarely else config.learner, mechanism=mechanism, by_size=why)


def _mechanism(config: RunConfig) -> str | None:
    """The mechanism of a large run: on a schedule under central trust, else the one that was asked for."""
    if config.trust != "central" or config.mechanism is not None:
        return config.mechanism
    # The noise of the factorization over B batches is ~ (1 + ln(B)/π) times that of one, accumulated noise √B times.
    return "batched-factorization" if config.delta and config.reports_per_person == 1 else "batched"


def _together(config: RunConfig, mechanism: str | None) -> bool:
    """Whether users may come together: under central trust only where totals are published on a schedule."""
    if config.trust != "central":
        return True
    row = None if mechanism is None else MECHANISMS.get(mechanism)
    return row is not None and row.growth is not None
