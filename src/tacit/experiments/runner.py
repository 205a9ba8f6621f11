"""Running: `run` for one configuration, `run_cells` for many, resumable seed by seed.

    build and check everything -> look at the directories -> write what is known -> run what is missing -> join

Nothing is written before everything has been built, so bad input leaves no trace.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numpy.typing import ArrayLike

from tacit.accounting.claims import Trust
from tacit.environments.layered import LayeredMDP
from tacit.environments.loss_sequences import LossTable
from tacit.environments.tabular import TabularMDP
from tacit.errors import NotSupported, require, require_count
from tacit.experiments.archive import make_header, make_labels, make_privacy, read_result
from tacit.experiments.assemble import assemble
from tacit.experiments.config import RunConfig, Seeds, as_seeds
from tacit.experiments.progress import progress_bar
from tacit.experiments.result import Result, resolve, result_of
from tacit.experiments.schedule import Task, run_tasks
from tacit.experiments.storage import RunDirectory
from tacit.learners.loss_contract import Estimator
from tacit.loop.simulate import SeedRun
from tacit.protocol import Calibration, Constants

__all__ = ["Cell", "Notify", "check_cells", "run", "run_cells", "silent"]

Notify = Callable[[str], None]
"""Takes one line for whoever is watching."""

_log = logging.getLogger("tacit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One named run of an experiment, and where it is kept (None: nowhere)."""

    label: str
    config: RunConfig
    directory: Path | None = None


def run(
    *,
    environment: str | TabularMDP | LayeredMDP,
    learner: str,
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
    workers: int | None = None,
    out: str | Path | None = None,
    progress: bool = False,
    checkpoints: int = 100,
    allow_large_delta: bool = False,
    adversary: str | ArrayLike | None = None,
    estimator: Estimator | None = None,
    public_losses: bool = False,
) -> Result:
    """Simulate a learner in an environment under a trust model, once per seed.

    Parameters
    ----------
    environment, learner
        Names with options, `"riverswim:states=4,horizon=6"` and `"ucbvi:bonus=bernstein,staged=false"`; the environment
        may also be a `TabularMDP`. The learners `"uniform"` and `"optimal"` are reference lines.
    episodes, seeds
        How many users come, and how often the whole is repeated: a number of seeds, or the seeds themselves.
    constants, z
        `"theory"` or `"practical"` confidence widths and the parameter of the practical rule; None: the learner's own.
    trust, epsilon, delta, calibration, mechanism, batch, allow_large_delta
        The trust model and its claim; `"none"` protects nobody. `batch` is the number of users the shuffler mixes.
    workers
        Processes; None: one per core, at most one per seed, and none for what takes a second or two. The rows do not
        depend on it.
    out
        A directory to keep the result in. A run that was interrupted continues there and redoes no finished seed; a
        finished one is read back; a different one is refused.
    progress
        Whether to draw a bar when stderr is a terminal.
    checkpoints
        How many episode numbers are recorded.
    adversary, estimator, public_losses
        For learners of adversarial losses, such as `"uc-o-reps"` in `"layered:layers=4,states=3,actions=2"`: who
        chooses the losses (`"iid"`, `"switching:segments=20"`, ... or an array [episodes, states, actions] of your own
        in [0, 1]); `"centred"` or `"as-written"` for `"uob-lbps"`; and whether full-information loss tables are
        declared to be nobody's data. Regret is then against the best policy in hindsight and may be negative.

    Returns
    -------
    Result
        With `.regret[seed, checkpoint]`, which is simulation-only.

    Examples
    --------
    >>> result = run(environment="riverswim", learner="optimal", episodes=100, seeds=2, workers=1)
    >>> result.regret.shape[0], abs(float(result.regret.max())) < 1e-9, result.claim.epsilon
    (2, True, inf)
    """
    config = RunConfig(
        environment=environment,
        learner=learner,
        episodes=episodes,
        seeds=as_seeds(seeds),
        constants=constants,
        z=z,
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,
        mechanism=mechanism,
        batch=batch,
        checkpoints=checkpoints,
        allow_large_delta=allow_large_delta,
        adversary=cast("Any", adversary),
        estimator=estimator,
        public_losses=public_losses,
    )
    cell = Cell(label=config.label, config=config, directory=None if out is None else Path(out))
    (result,) = run_cells([cell], experiment="run", workers=workers, progress=progress)
    return result


def run_cells(
    cells: Sequence[Cell],
    *,
    experiment: str,
    workers: int | None = None,
    progress: bool = False,
    notify: Notify = _log.warning,
    command: str | None = None,
) -> tuple[Result, ...]:
    """Run what is missing of these cells, on one pool of processes, and return all of them.

    Parameters
    ----------
    cells
        Each is validated before anything is written; two cells may not share a directory.
    experiment
        The name under which the rows are stored.
    workers, progress
        As in `run`.
    notify
        Told what was found in the directories.
    command
        The command line to record; None: the one that makes each cell alone.
    """
    headers = check_cells(cells, experiment=experiment, workers=workers, command=command)
    runs: list[dict[int, SeedRun]] = [{} for _ in cells]
    tasks: list[Task] = []
    for number, (cell, header) in enumerate(zip(cells, headers, strict=True)):
        for seed in _missing(cell, header, notify):
            tasks.append(Task(config=cell.config, seed=seed, cell=number))

    def finished(task: Task, seed_run: SeedRun) -> None:
        cell = cells[task.cell]
        runs[task.cell][task.seed] = seed_run
        if cell.directory is not None:
            RunDirectory(cell.directory).write_seed(seed_run, _labels(cell, experiment))

    total = sum(task.config.episodes for task in tasks)
    what = f"{len(tasks)} seed{'s' if len(tasks) > 1 else ''}"
    with progress_bar(total, what, show=progress) as advanced:
        run_tasks(tasks, workers=workers, finished=finished, advanced=advanced)
    return tuple(
        _collect(cell, header, mine, experiment) for cell, header, mine in zip(cells, headers, runs, strict=True)
    )


def check_cells(
    cells: Sequence[Cell], *, experiment: str, workers: int | None, command: str | None = None
) -> list[dict[str, Any]]:
    """Raise unless every cell can be built and its directory fits; returns what config.json will say."""
    if workers is not None:
        require_count("workers", workers)
    directories = [cell.directory.resolve() for cell in cells if cell.directory is not None]
    require(len(set(directories)) == len(directories), "every run must have a directory of its own", directories)
    headers = [_header(cell, experiment, command) for cell in cells]
    for cell in cells:
        handed = isinstance(cell.config.environment, LayeredMDP) or isinstance(cell.config.adversary, LossTable)
        if handed and cell.directory is not None:
            raise NotSupported(
                "layered models and losses that are handed over are not kept in a directory; name them instead: "
                "environment 'layered:...', adversary 'table:path=losses.npy'"
            )
    for cell, header in zip(cells, headers, strict=True):
        if cell.directory is not None:
            RunDirectory(cell.directory).check(header)
    return headers


def silent(line: str) -> None:
    """A `Notify` that tells nobody."""
    del line


def _header(cell: Cell, experiment: str, command: str | None) -> dict[str, Any]:
    """Build the cell, which validates it, and say what it is."""
    resolved = resolve(assemble(cell.config), cell.config)
    line = cell.config.command() if command is None else command
    return make_header(cell.config, resolved, experiment=experiment, label=cell.label, command=line)


def _labels(cell: Cell, experiment: str) -> dict[str, Any]:
    parts = assemble(cell.config)
    resolved = resolve(parts, cell.config)
    return make_labels(cell.config, resolved, parts.claim, experiment=experiment, label=cell.label)


def _missing(cell: Cell, header: Mapping[str, Any], notify: Notify) -> list[int]:
    """Begin the cell's directory, if it has one, and return the seeds that are not in it."""
    if cell.directory is None:
        return list(cell.config.seeds)
    place, parts = RunDirectory(cell.directory), assemble(cell.config)
    if place.finished:
        notify(f"{place.path} holds this run already, finished: nothing to do")
        return []
    model = cell.config.environment
    place.begin(
        header,
        make_privacy(parts.claim, parts.certificate, parts.batches),
        model if isinstance(model, TabularMDP) else None,
    )
    found = place.finished_seeds(cell.config.seeds)
    if found:
        notify(f"{place.path}: {len(found)} of {len(cell.config.seeds)} seeds are there already, the rest follows")
    return [seed for seed in cell.config.seeds if seed not in found]


def _collect(cell: Cell, header: Mapping[str, Any], runs: Mapping[int, SeedRun], experiment: str) -> Result:
    if cell.directory is None:
        return result_of(cell.config, runs, experiment=experiment, label=cell.label, command=header["command"])
    place = RunDirectory(cell.directory)
    place.finish(cell.config.seeds)
    return read_result(place.path)
