"""What a run's size decides where nobody chose: noise on a schedule and rare plans in large worlds.

A run that plans and releases after every user costs K · H S² A: as many numbers are touched as there are users and
cells of the model. That is seconds in the worlds of the papers and minutes to hours from fifty states on. Where

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

from dataclasses import replace
from typing import Final

from tacit.learners.auto import LARGE
from tacit.learners.table import learner_row
from tacit.noise.table import MECHANISMS
from tacit.protocol import Totals
from tacit.runs.config import RunConfig, parse_learner

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
