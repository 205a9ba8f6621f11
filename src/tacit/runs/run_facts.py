"""What follows from a configuration alone, derived once for all that is written and returned about its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacit._version import __version__
from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.released.batches import BatchReport
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.estimate import memory_of
from tacit.runs.result import Resolved, Result, resolve, world_json
from tacit.simulation.simulate import SeedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Claim, certificate and all that names and defaults stand for; no model, no learner, so that many can be kept."""

    config: RunConfig
    resolved: Resolved
    claim: PrivacyClaim
    certificate: Certificate
    batches: tuple[BatchReport, ...]
    world: dict[str, Any] | None
    memory: int
    """Bytes that one process needs for a seed."""


def derive(config: RunConfig) -> RunFacts:
    """Build what a configuration names, which validates it, and keep what is said about it."""
    parts = assemble(config)
    return RunFacts(
        config=config,
        resolved=resolve(parts, config),
        claim=parts.claim,
        certificate=parts.certificate,
        batches=parts.batches,
        world=world_json(parts),
        memory=memory_of(parts),
    )


def result_of(known: RunFacts, runs: Mapping[int, SeedRun], *, experiment: str, label: str, command: str) -> Result:
    """Put the seeds of one configuration together, in its order."""
    ordered = [runs[seed] for seed in known.config.seeds]
    return Result(
        config=known.config,
        resolved=known.resolved,
        seeds=known.config.seeds,
        episodes=ordered[0].episodes,
        regret=np.array([run.regret for run in ordered]),
        seconds=tuple(run.seconds for run in ordered),
        policy_changes=tuple(run.policy_changes for run in ordered),
        claim=known.claim,
        certificate=known.certificate,
        batches=known.batches,
        objectives=tuple(run.objective for run in ordered if run.objective is not None),
        losses=tuple(run.losses for run in ordered if run.losses is not None),
        policies=tuple(run.policy for run in ordered),
        returns=tuple(run.returns for run in ordered if run.returns is not None),
        intervals=tuple(run.interval for run in ordered if run.interval is not None),
        arms=tuple(run.arms for run in ordered if run.arms is not None),
        experiment=experiment,
        label=label,
        version=__version__,
        command=command,
        world=known.world,
    )


def make_header(
    config: RunConfig,
    resolved: Resolved,
    *,
    experiment: str,
    label: str,
    command: str,
    version: str = __version__,
    world: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What config.json says before the first episode.

    `world` is the description of a live world; those with a table have none.
    """
    return {
        "format": 1,
        "experiment": experiment,
        "label": label,
        "version": version,
        "command": command,
        "config": config.to_dict(),
        "resolved": asdict(resolved),
        **({} if world is None else {"world": world}),
    }


def make_labels(
    config: RunConfig, resolved: Resolved, claim: PrivacyClaim, *, experiment: str, label: str
) -> dict[str, Any]:
    """The columns that name a run; epsilon is infinite where nothing is protected."""
    return {
        "experiment": experiment,
        "run": label,
        "environment": config.environment_name,
        "learner": config.learner,
        "trust": claim.trust,
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "calibration": resolved.calibration,
        "mechanism": resolved.mechanism,
        "batch": resolved.users_per_batch,
        "constants": resolved.constants,
        "z": resolved.z,
    }


def make_privacy(claim: PrivacyClaim, certificate: Certificate, batches: Sequence[BatchReport] = ()) -> dict[str, Any]:
    """What privacy.json says."""
    said: dict[str, Any] = {"claim": claim.to_dict(), "certificate": certificate.to_dict()}
    return said | ({"batches": [batch.to_dict() for batch in batches]} if batches else {})
