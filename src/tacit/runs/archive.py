"""Results to and from their directories: what stands in config.json and in the columns, and how it is read back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, TacitError, require
from tacit.released.batches import BatchReport
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.result import Resolved, Result
from tacit.runs.run_facts import make_header, make_labels, make_privacy
from tacit.runs.storage import RunDirectory, complete_files
from tacit.runs.storage_paths import json_bytes, resolve_location
from tacit.runs.verify import doubts_about_run, kept_config
from tacit.simulation.judges.games import LossMeasures
from tacit.simulation.judges.softmax import Objective


class PrivacyJSON:
    """The bytes of privacy.json, run after run: those of a sweep mostly state the same, which is encoded once."""

    def __init__(self) -> None:
        self._stated: tuple[PrivacyClaim, Certificate, Sequence[BatchReport]] | None = None
        self._content = b""

    def of(self, claim: PrivacyClaim, certificate: Certificate, batches: Sequence[BatchReport] = ()) -> bytes:
        """The file of one run."""
        stated = (claim, certificate, batches)
        if stated != self._stated:
            self._stated, self._content = stated, json_bytes(make_privacy(*stated))
        return self._content


def write_result(result: Result, directory: Path) -> Path:
    """Write a result as a run's directory; one that holds it already is left as it is."""
    place = RunDirectory(directory)
    config, resolved = result.config, result.resolved
    names = {"experiment": result.experiment, "label": result.label}
    made = {"command": result.command, "version": result.version}
    header = make_header(config, resolved, **names, **made, world=result.world)
    place.check(header)
    if not place.finished:
        model = config.environment if isinstance(config.environment, TabularMDP) else None
        runs, labels = result.seed_runs(), make_labels(config, resolved, result.claim, **names)
        parts = len(runs) > 1
        place.begin(header, PrivacyJSON().of(result.claim, result.certificate, result.batches), model, parts=parts)
        for run in runs if parts else ():
            place.write_seed(run, labels)
        place.finish(result.seeds, {run.seed: run for run in runs}, labels)
    return place.path


def read_result(directory: str | Path) -> Result:
    """Read a finished run back; its certificate is derived again, and what was kept is compared, not believed."""
    place = RunDirectory(resolve_location(directory))
    with complete_files(place.path):
        return _read(place)


def _read(place: RunDirectory) -> Result:
    header, privacy = place.header(), place.privacy()
    config = kept_config(header, place.model())
    texts = all(isinstance(header[name], str) for name in ("experiment", "label", "version", "command"))
    require(texts, f"experiment, label, version and command in {place.path} must be text", "something else")
    if not place.finished:
        done = len(place.finished_seeds(config.seeds))
        raise InvalidInput(
            f"{place.path} is not finished ({done} of {len(config.seeds)} seeds); run its command again to resume: "
            f"{header['command']}"
        )
    seed, episode, regret = place.rows()
    shape = (len(config.seeds), len(regret) // len(config.seeds))
    if math.prod(shape) != len(regret) or tuple(seed.reshape(shape)[:, 0].tolist()) != config.seeds:
        raise InvalidInput(f"the rows in {place.path} must belong to the seeds of its configuration")
    timing = place.timing()
    claim, certificate = _derived(config, privacy)
    returns = place.returns(config.seeds)
    require(bool(returns) or not np.isnan(regret).all(), f"{place.path} must hold the returns of its world", "none")
    return Result(
        config=config,
        resolved=Resolved(**header["resolved"]),
        seeds=config.seeds,
        episodes=episode.reshape(shape)[0].copy(),
        regret=regret.reshape(shape).copy(),
        seconds=tuple(float(timing[str(s)]["seconds"]) for s in config.seeds),
        policy_changes=tuple(int(timing[str(s)]["changes"]) for s in config.seeds),
        claim=claim,
        certificate=certificate,
        doubt=doubts_about_run(place.path),
        batches=tuple(BatchReport.from_dict(batch) for batch in privacy.get("batches", ())),
        objectives=tuple(Objective(**seed["objective"]) for seed in _ordered(timing, config) if "objective" in seed),
        losses=tuple(_measures(seed["losses"]) for seed in _ordered(timing, config) if "losses" in seed),
        policies=place.policies(config.seeds),
        returns=returns,
        intervals=place.intervals(config.seeds),
        arms=place.arms(config.seeds),
        experiment=header["experiment"],
        label=header["label"],
        version=header["version"],
        command=header["command"],
        world=header.get("world"),
    )


def _derived(config: RunConfig, privacy: dict[str, Any]) -> tuple[PrivacyClaim, Certificate]:
    """Claim and certificate of the configuration; where it can be built no more, those that were kept."""
    try:
        parts = assemble(config)
    except TacitError:
        return PrivacyClaim.from_dict(privacy["claim"]), Certificate.from_dict(privacy["certificate"])
    return parts.claim, parts.certificate


def _measures(plain: dict[str, Any]) -> LossMeasures:
    curves = {name: tuple(plain[name]) for name in ("uniform", "myopic")}
    return LossMeasures(**{**plain, **curves})


def _ordered(timing: dict[str, Any], config: RunConfig) -> list[dict[str, Any]]:
    """What was kept beside the rows, in the order of the seeds."""
    return [timing[str(seed)] for seed in config.seeds]
