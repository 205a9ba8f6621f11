"""`Comparison`: several runs side by side, each in a directory of its own, resumable seed by seed.

DIR/comparison.json                  which runs belong together
DIR/<environment>/<run>/...          one run each, as `storage` describes it
DIR/regret.png                       the figure
"""

from __future__ import annotations

import math
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit._version import __version__
from tacit.arguments import checked
from tacit.callbacks import Callback
from tacit.errors import InvalidInput, require
from tacit.runs.archive import read_result
from tacit.runs.config import RunConfig
from tacit.runs.figures import Band, LogAxes, plot
from tacit.runs.manifest import DIGESTS, write_manifest
from tacit.runs.result import Result, comparison_html, frame_of
from tacit.runs.runner import Notify, RunSpec, check_cells, run_cells, silent
from tacit.runs.storage import RESULTS, RunDirectory, complete_files, read_json, write_json, writing_to
from tacit.runs.storage_paths import is_local, make_directory, resolve_location

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEX: Final = "comparison.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A named run of a comparison, before it has a place."""

    label: str
    config: RunConfig


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Results that belong together; a sequence of them, with a table and a figure.

    Attributes
    ----------
    name
        The name of the comparison.
    scale
        The size of an experiment of a paper; None elsewhere.
    results
        One `Result` per run, in their order.
    directory
        Where the comparison is kept; None if it is not.
    version, command
        The version of tacit that made it, and the command that makes it again.

    Examples
    --------
    >>> import tacit
    >>> one = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1)
    >>> two = Comparison(name="two", scale=None, results=(one, one), directory=None, version="0", command="")
    >>> len(two), two[0].label
    (2, 'psrl')
    """

    name: str
    scale: str | None
    """How large an experiment of the catalogue ran; None for a comparison of the user's own."""
    results: tuple[Result, ...]
    directory: Path | None
    version: str
    command: str

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, number: int) -> Result:
        return self.results[number]

    @property
    def finished_at(self) -> float:
        """When the last of its runs was finished, in seconds since the epoch; infinity if they are not kept here."""
        if self.directory is None or not is_local(self.directory):
            return math.inf
        return max((file.stat().st_mtime for file in self.directory.glob(f"*/*/{RESULTS}")), default=math.inf)

    def plot(
        self,
        path: str | Path | None = None,
        *,
        band: Band = "std",
        per_episode: bool = False,
        log: LogAxes = "xy",
        title: str | None = None,
    ) -> Figure:
        """Draw all runs in one figure (simulation only); see `tacit.runs.figures.plot`."""
        return plot(self.results, path, band=band, per_episode=per_episode, log=log, title=title)

    def to_pandas(self) -> Any:
        """The rows of all runs, one below the other, as a pandas DataFrame."""
        return frame_of(self.results)

    def _repr_html_(self) -> str:
        return comparison_html(self)

    def to_json(self) -> dict[str, Any]:
        """Plain values: the name and every run as `Result.to_json` gives it."""
        return {
            "experiment": self.name,
            "scale": self.scale,
            "runs": [result.to_json() for result in self.results],
            "version": self.version,
            "command": self.command,
        }


def run_comparison(
    runs: Sequence[Run],
    *,
    name: str,
    out: str | Path | None,
    scale: str | None = None,
    command: str,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: bool = False,
    notify: Notify = silent,
    borrow: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Comparison:
    """Run what is missing of a comparison and return all of it; nothing is written before every run was validated.

    With `borrow`, runs that a sibling comparison has finished are copied (see `sharing`).
    """
    require(len(runs) > 0, "a comparison must have at least one run", len(runs))
    where: dict[str, Any] = {"workers": workers, "engine": engine, "address": address}
    root = None if out is None else resolve_location(out)
    places = [f"{slug(run.config.environment_name)}/{slug(run.label)}" for run in runs]
    twice = sorted(place for place, count in Counter(places).items() if count > 1)
    if twice:
        raise InvalidInput(f"two runs of {name} would both be kept in '{twice[0]}'; give each run a name of its own")
    cells = [
        RunSpec(label=run.label, config=run.config, directory=None if root is None else root / place)
        for run, place in zip(runs, places, strict=True)
    ]
    checked = None
    if root is not None:
        checked = check_cells(cells, experiment=name, **where)
        _check_root(root, name, scale)
        _write_index(root, name=name, scale=scale, places=places, command=command)
        if borrow and is_local(root):
            borrow_finished(dict(zip(places, (run.config for run in runs), strict=True)), root, notify=notify)
        if all(RunDirectory(root / place).finished for place in places):
            notify(f"{root} holds all {len(runs)} runs already, finished: nothing to do")
            notify = silent
    results = run_cells(
        cells, experiment=name, **where, progress=progress, notify=notify, callbacks=callbacks, checked=checked
    )
    if root is not None:
        listed = [f"{place}/{DIGESTS}" for place in places if (root / place / DIGESTS).is_file()]
        write_manifest(root, "comparison", [INDEX, *listed])
    if any(result.config.constants is None for result in results) and (words := mixed_constants(results)):
        notify(words)
    return Comparison(name=name, scale=scale, results=results, directory=root, version=__version__, command=command)


@checked
def load(directory: str | Path) -> Result | Comparison:
    """Read a finished run, or all runs of a comparison, back from their directory.

    Parameters
    ----------
    directory
        A directory or URL that `run`, `compare` or the command line wrote.

    Returns
    -------
    Result or Comparison
        With certificates recomputed, not read.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> import tempfile, tacit
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1, out=place + "/run")
    ...     again = load(place + "/run")
    >>> again.regret.tobytes() == made.regret.tobytes()
    True
    """
    root = resolve_location(directory)
    if RunDirectory(root).begun:
        return read_result(root)
    if not (root / INDEX).is_file():
        raise InvalidInput(f"{root} must be a directory that tacit wrote: it has no config.json and no {INDEX}")
    index = read_json(root / INDEX)
    with complete_files(root):
        return Comparison(
            name=index["name"],
            scale=index["scale"],
            results=tuple(read_result(root / place) for place in index["runs"]),
            directory=root,
            version=index["version"],
            command=index["command"],
        )


def mixed_constants(results: Sequence[Result]) -> str | None:
    """What to say where runs use different constants (theory, practical, ...); None where all use one."""
    rules = {
        rule: [r.label for r in results if r.resolved.constants == rule]
        for rule in ("theory", "practical", "printed", "valid")
    }
    rules = {rule: labels for rule, labels in rules.items() if labels}
    if len(rules) < 2:
        return None
    named = "; ".join(f"{rule}: {', '.join(labels)}" for rule, labels in rules.items())
    return f"different constants are compared ({named}); give all runs the same, for instance constants = 'practical'"


def slug(text: str) -> str:
    """A name that any file system takes.

    >>> slug("UCBVI, practical z=1 (ε=0.5)")
    'ucbvi-practical-z-1-e-0.5'
    """
    plain = text.lower().replace("ε", "e").replace("δ", "d")
    return re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.") or "run"


def _check_root(root: Path, name: str, scale: str | None) -> None:
    """A comparison may grow, but it stays the same comparison."""
    if RunDirectory(root).begun:
        raise InvalidInput(f"{root} holds a single run; choose another directory for the comparison")
    if (root / INDEX).is_file():
        there = read_json(root / INDEX)
        if (there.get("name"), there.get("scale")) != (name, scale):
            found = f"'{there.get('name')}'" + (f" at scale {there['scale']}" if there.get("scale") else "")
            raise InvalidInput(f"{root} holds another comparison, {found}; choose another directory")
    elif root.is_dir() and any(root.iterdir()):
        raise InvalidInput(f"{root} must be a new or empty directory, or hold this comparison; choose another")


def _write_index(root: Path, *, name: str, scale: str | None, places: Sequence[str], command: str) -> None:
    with writing_to(root):
        make_directory(root)
        index = {"format": 1, "name": name, "scale": scale, "runs": list(places)}
        write_json(root / INDEX, {**index, "version": __version__, "command": command})


def borrow_finished(runs: Mapping[str, RunConfig], root: Path, *, notify: Notify) -> int:
    """Copy the runs (by their place) that a sibling or a child of this experiment has finished; returns how many.

    Rows follow from the configuration alone, so a finished run with the same configuration is the run itself.

    Results of an experiment lie in `root` = .../name/scale, those of its siblings and children in .../other/scale and
    .../name/child/scale.
    """
    copied = 0
    for place, config in runs.items():
        here = root / place
        if RunDirectory(here).begun:
            continue
        siblings, children = root.parent.parent.glob(f"*/{root.name}"), root.parent.glob(f"*/{root.name}")
        for sibling in sorted([*siblings, *children]):
            there = RunDirectory(sibling / place)
            if sibling == root or not there.finished or there.header().get("config") != config.to_dict():
                continue
            with writing_to(here):
                shutil.copytree(there.path, here)
            notify(f"{here}: finished in {sibling}, copied")
            copied += 1
            break
    return copied
