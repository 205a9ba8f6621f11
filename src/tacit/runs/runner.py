"""Running: `run` for one configuration, `run_cells` for many, resumable seed by seed.

    build and check everything -> look at the directories -> write what is known -> run what is missing -> join

Nothing is written before everything has been built, so bad input leaves no trace.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.arrays import Floats, Ints
from tacit.callbacks import Callback, Checkpoint, all_callbacks
from tacit.environments.layered import LayeredMDP, LossTable
from tacit.environments.tabular import TabularMDP
from tacit.errors import MAX_WORKERS, NotSupported, error_context, require, require_count, with_suggestions
from tacit.executors import check_engine
from tacit.runs.archive import PrivacyJSON, read_result
from tacit.runs.config import RunConfig, Seeds, as_seeds, option_lines, run_options
from tacit.runs.estimate import apply_size_defaults, require_memory
from tacit.runs.progress import progress_bar
from tacit.runs.result import Result
from tacit.runs.run_facts import RunFacts, derive, make_header, make_labels, result_of
from tacit.runs.schedule import Task, run_tasks
from tacit.runs.storage import Digests, RunDirectory
from tacit.runs.storage_paths import resolve_location
from tacit.runs.trial_result import check_arms
from tacit.simulation.simulate import SeedRun
from tacit.types import Calibration, Constants, Estimator, Trust

if TYPE_CHECKING:
    from tacit.environments.live import LiveWorld
    from tacit.policies import Policy
    from tacit.policies.named import NamedPolicy

Notify = Callable[[str], None]
"""Takes one line for whoever is watching."""

_log = logging.getLogger("tacit")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One named run of an experiment, and where it is kept (None: nowhere)."""

    label: str
    config: RunConfig
    directory: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRun:
    """A cell that can be run: what follows from its configuration, config.json, and the columns that name it."""

    derived: RunFacts
    header: dict[str, Any]
    labels: dict[str, Any]


@with_suggestions(environment="'riverswim'", episodes="20_000")
def run(
    *,
    environment: str | TabularMDP | LayeredMDP | LiveWorld,
    learner: str = "auto",
    episodes: int,
    seeds: Seeds = 1,
    constants: Constants | None = None,
    z: float | None = None,
    trust: Trust = "none",
    epsilon: float | None = None,
    delta: float | None = None,
    calibration: Calibration = "tight",
    mechanism: str | None = None,
    batch: int | None = None,
    checkpoints: int = 100,
    allow_large_delta: bool = False,
    adversary: str | LossTable | Floats | None = None,
    estimator: Estimator | None = None,
    honest_fraction: float | None = None,
    public_losses: bool = False,
    reports_per_person: int = 1,
    baseline: str | Policy | NamedPolicy | Floats | Ints | Sequence[Any] | None = None,
    loss_budget: float | None = None,
    stage_loss_budget: float | None = None,
    support: str | None = None,
    sees: str | Sequence[int] | None = None,
    start: str | Path | None = None,
    value_users: int | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    on_checkpoint: Callable[[Checkpoint], object] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Simulate a learner in an environment under a trust model, once per seed.

    Parameters
    ----------
    OPTIONS
    workers
        Processes; one per core, at most one per seed, and none for what takes a second or two, by default.
    engine
        "local", or "ray" for the workers of a Ray cluster (extra `ray`); the rows are the same.
    address
        HOST:PORT of a Ray cluster that runs already, or "auto"; one is started and stopped by default.
    out
        A directory to keep the result in, or a URL such as s3://bucket/run (extra `fsspec`). An interrupted run
        continues there and redoes no finished seed; a finished one is read back; a different one is refused.
    progress
        Whether to draw a bar when stderr is a terminal.
    callbacks, on_checkpoint
        What is told of the rows of finished seeds (`tacit.callbacks`).

    Returns
    -------
    Result
        `regret[seed, checkpoint]` is simulation-only; `policy` is the last policy of the first seed. Where losses are
        adversarial, regret is against the best policy in hindsight and may be negative.

    Raises
    ------
    InvalidInput
        If an option breaks a stated rule; `UnknownName` if a name is not registered.
    NotSupported
        If learner, trust model and options do not go together.
    PrivacyViolation
        If the request would not be private.

    Examples
    --------
    >>> result = run(environment="riverswim", learner="optimal", episodes=100, seeds=2, workers=1)
    >>> result.regret.shape[0], abs(float(result.regret.max())) < 1e-9, result.claim.epsilon
    (2, True, inf)
    """
    given = locals()
    require(isinstance(progress, bool), "progress must be True or False", progress)
    options = {item.name: given[item.name] for item in run_options()}
    config = apply_size_defaults(RunConfig(**{**options, "seeds": as_seeds(seeds)}))
    cell = RunSpec(label=config.label, config=config, directory=None if out is None else resolve_location(out))
    made = all_callbacks(callbacks, on_checkpoint)
    where: dict[str, Any] = {"workers": workers, "engine": engine, "address": address}
    (result,) = run_cells([cell], experiment="run", **where, progress=progress, callbacks=made)
    return result


run.__doc__ = (run.__doc__ or "").replace("    OPTIONS", option_lines())


def run_cells(
    cells: Sequence[RunSpec],
    *,
    experiment: str,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: bool = False,
    notify: Notify = _log.warning,
    command: str | None = None,
    callbacks: Sequence[Callback] = (),
    checked: Sequence[CheckedRun] | None = None,
) -> tuple[Result, ...]:
    """Run what is missing of these cells, on one pool of processes or one cluster, and return all of them.

    Parameters
    ----------
    cells
        Each is validated before anything is written; two cells may not share a directory.
    experiment
        The name under which the rows are stored.
    workers, engine, address, progress
        As in `run`.
    notify
        Told what was found in the directories.
    command
        The command line to record; None: the one that makes each cell alone.
    callbacks
        Told every row when its seed is finished, in this process (`tacit.callbacks`).
    checked
        What `check_cells` gave for these cells, if they were checked already.
    """
    where: dict[str, Any] = {"workers": workers, "engine": engine, "address": address}
    if checked is None:
        checked = check_cells(cells, experiment=experiment, **where, command=command)
    runs: list[dict[int, SeedRun]] = [{} for _ in cells]
    privacy = PrivacyJSON()
    opened = [_open(cell, known, privacy, notify) for cell, known in zip(cells, checked, strict=True)]
    tasks = [
        Task(config=cell.config, seed=seed, cell=number, label=cell.label)
        for number, cell in enumerate(cells)
        for seed in opened[number].missing
    ]

    def finished(task: Task, seed_run: SeedRun) -> None:
        cell, mine = cells[task.cell], runs[task.cell]
        mine[task.seed] = replace(seed_run, belief=None, released=None)  # which may be large
        if cell.directory is not None:
            place, labels = RunDirectory(cell.directory), checked[task.cell].labels
            if len(cell.config.seeds) > 1:
                written, begun = place.write_seed(seed_run, labels), opened[task.cell].begun
                if begun is not None:
                    begun.update(written)
            if len(mine) == len(opened[task.cell].missing):
                place.finish(cell.config.seeds, mine, labels, begun=opened[task.cell].begun)
        for point in _points(cell, seed_run) if callbacks else ():
            for callback in callbacks:
                callback.on_checkpoint(point)

    for callback in callbacks:
        callback.on_begin([cell.label for cell in cells])
    total = sum(task.config.episodes for task in tasks)
    what = f"{len(tasks)} seed{'s' if len(tasks) > 1 else ''}"
    with progress_bar(total, what, show=progress) as advanced:
        run_tasks(tasks, finished=finished, advanced=advanced, **where)
    results = tuple(
        _collect(cell, known, mine, experiment, fresh=found.begun is not None)
        for cell, known, mine, found in zip(cells, checked, runs, opened, strict=True)
    )
    for callback in callbacks:
        callback.on_end(results)
    return results


def _points(cell: RunSpec, seed_run: SeedRun) -> list[Checkpoint]:
    """The rows of a seed as callbacks see them."""
    config = cell.config
    names = {"run": cell.label, "environment": config.environment_name, "learner": config.learner}
    live = seed_run.returns
    return [
        Checkpoint(
            **names,
            trust=config.trust,
            seed=seed_run.seed,
            episode=int(episode),
            regret=float(seed_run.regret[i]) if live is None else None,
            returns=None if live is None else float(live.total[i]),
        )
        for i, episode in enumerate(seed_run.episodes)
    ]


def check_cells(
    cells: Sequence[RunSpec],
    *,
    experiment: str,
    workers: int | None,
    engine: str = "local",
    address: str | None = None,
    command: str | None = None,
) -> list[CheckedRun]:
    """Raise unless every cell can be built and its directory fits; returns what is known about them."""
    check_engine(engine, address=address)
    if workers is not None:
        require_count("workers", workers, most=MAX_WORKERS)
    directories = [cell.directory.resolve() for cell in cells if cell.directory is not None]
    require(len(set(directories)) == len(directories), "every run must have a directory of its own", directories)
    checked = []
    for cell in cells:
        with (
            error_context(f"run '{cell.label}' on {cell.config.environment_name}") if len(cells) > 1 else nullcontext()
        ):
            checked.append(_check(cell, experiment, command))
    if address is None:  # another machine's memory is its own
        require_memory([(known.derived.config, known.derived.memory) for known in checked], workers=workers)
    for cell in cells:
        handed = isinstance(cell.config.environment, LayeredMDP) or isinstance(cell.config.adversary, LossTable)
        if handed and cell.directory is not None:
            raise NotSupported(
                "layered models and losses that are handed over are not kept in a directory; name them instead: "
                "environment 'layered:...', adversary 'table:path=losses.npy'"
            )
    for cell, known in zip(cells, checked, strict=True):
        if cell.directory is not None:
            RunDirectory(cell.directory).check(known.header)
    return checked


def silent(line: str) -> None:
    """A `Notify` that tells nobody."""
    del line


def _check(cell: RunSpec, experiment: str, command: str | None) -> CheckedRun:
    """Build the cell, which validates it, and say what it is."""
    derived = derive(cell.config)
    if cell.config.value_users is not None:
        check_arms(cell.config)
    header = make_header(
        cell.config,
        derived.resolved,
        experiment=experiment,
        label=cell.label,
        command=cell.config.command() if command is None else command,
        world=derived.world,
    )
    labels = make_labels(cell.config, derived.resolved, derived.claim, experiment=experiment, label=cell.label)
    return CheckedRun(derived=derived, header=header, labels=labels)


@dataclass(frozen=True, slots=True)
class _Opened:
    """What is left to run of a cell, and what was written to begin it."""

    missing: list[int]
    begun: Digests | None
    """None where the cell had been begun before: what somebody else has written is not known."""


def _open(cell: RunSpec, known: CheckedRun, privacy: PrivacyJSON, notify: Notify) -> _Opened:
    """Begin the cell's directory, if it has one, and find the seeds that are not in it: all, where it is fresh."""
    if cell.directory is None:
        return _Opened(list(cell.config.seeds), {})
    place, derived = RunDirectory(cell.directory), known.derived
    model = cell.config.environment
    begun = place.begin(
        known.header,
        privacy.of(derived.claim, derived.certificate, derived.batches),
        model if isinstance(model, TabularMDP) else None,
        parts=len(cell.config.seeds) > 1,
    )
    if begun is None and place.finished:
        notify(f"{place.path} holds this run already, finished: nothing to do")
        return _Opened([], None)
    found = place.finished_seeds(cell.config.seeds) if begun is None else []
    if found:
        notify(f"{place.path}: {len(found)} of {len(cell.config.seeds)} seeds are there already, the rest follows")
    return _Opened([seed for seed in cell.config.seeds if seed not in found], begun)


def _collect(cell: RunSpec, known: CheckedRun, runs: Mapping[int, SeedRun], experiment: str, *, fresh: bool) -> Result:
    """The result of a cell; what somebody else may have written is read back and checked, not believed."""
    if cell.directory is not None and not fresh:
        RunDirectory(cell.directory).finish(cell.config.seeds, runs, known.labels)  # where only that was missing
        return read_result(cell.directory)
    return result_of(known.derived, runs, experiment=experiment, label=cell.label, command=known.header["command"])
