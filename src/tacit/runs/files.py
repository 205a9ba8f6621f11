"""Comparisons written down: a TOML file with shared defaults and several runs.

    name = "riverswim-baselines"      # optional; the file's name otherwise

    [defaults]                        # for every run that does not say otherwise
    environment = "riverswim:states=4,horizon=6"
    episodes = 20_000
    seeds = 20

    [[run]]
    name = "UCBVI"                    # optional
    learner = "ucbvi"
    constants = "practical"

    [[run]]
    learner = "uniform"               # a reference policy takes no constants and no privacy: such defaults pass it by

Runs take the same entries as `tacit.run` (a learner that is left out is `auto`); an unknown entry is refused with the
nearest known one.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tacit.callbacks import Callback, all_callbacks
from tacit.errors import InvalidInput, UnknownName, error_context, require
from tacit.learners.table import LEARNERS
from tacit.runs.comparison import Comparison, Run, run_comparison
from tacit.runs.config import RunConfig, parse_learner, run_options
from tacit.runs.size_defaults import apply_size_defaults

ENTRIES: Final = tuple(item.name for item in run_options())
SHARED_BY_ALL: Final = ("environment", "learner", "episodes", "seeds", "checkpoints", "baseline")
"""The defaults that also apply to a reference policy."""


def read_comparison(path: str | Path) -> tuple[str, tuple[Run, ...]]:
    """The name of a comparison and its runs."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file} must be valid TOML: {error}") from error
    _known("entry of a comparison", content, ("name", "defaults", "run"))
    name = content.get("name", file.stem)
    require(isinstance(name, str) and bool(name), "the name of a comparison must be text", name)
    defaults, tables = content.get("defaults", {}), content.get("run", [])
    require(isinstance(defaults, dict), "[defaults] must be a table", defaults)
    is_list = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
    require(is_list and len(tables) > 0, f"{file} must have at least one [[run]]", tables)
    _known("entry of [defaults]", defaults, ENTRIES)
    runs = []
    for number, table in enumerate(tables, start=1):
        called = table.get("name")
        with error_context(f"run {number}" + (f" ('{called}')" if isinstance(called, str) else "") + f" of {file}"):
            runs.append(_run(table, defaults))
    return name, tuple(runs)


def compare(
    path: str | Path,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Comparison:
    """Run the comparison that a TOML file describes.

    Parameters
    ----------
    path
        The file; see this module for its form.
    out
        A directory to keep the runs in, resumable; None: they are not kept.
    workers, engine, address, progress, callbacks
        As in `tacit.run`.

    >>> import tempfile
    >>> text = '''
    ... name = "two"
    ... defaults = {environment = "riverswim", episodes = 20, seeds = 1}
    ... run = [{learner = "psrl"}, {learner = "uniform"}]
    ... '''
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "two.toml")
    ...     written = file.write_text(text)
    ...     found = compare(file, workers=1)
    >>> found.name, [result.label for result in found.results]
    ('two', ['psrl', 'uniform'])
    """
    made = all_callbacks(callbacks)
    name, runs = read_comparison(path)
    command = f"tacit compare {shlex.quote(str(path))}"
    return run_comparison(
        runs,
        name=name,
        out=out,
        command=command,
        workers=workers,
        engine=engine,
        address=address,
        progress=progress,
        callbacks=made,
    )


def _run(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Run:
    _known("entry of [[run]]", table, (*ENTRIES, "name"))
    learner = table.get("learner", defaults.get("learner", "auto"))
    require(isinstance(learner, str), "a [[run]] must name its learner as text, or leave it out", dict(table))
    reference = _is_reference(parse_learner(str(learner))[0])
    shared = {key: value for key, value in defaults.items() if not reference or key in SHARED_BY_ALL}
    merged = {"learner": learner, **shared, **{key: value for key, value in table.items() if key != "name"}}
    if merged.get("constants") == "none" and "z" not in table:
        merged.pop("z", None)
    require(isinstance(merged.get("environment"), str), "every [[run]] must name its environment", dict(table))
    config = apply_size_defaults(RunConfig.from_dict(merged))
    label = table.get("name", config.label)
    require(isinstance(label, str) and bool(label), "the name of a run must be text", label)
    return Run(label=label, config=config)


def _known(kind: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise UnknownName(kind, key, known)


def _is_reference(name: str) -> bool:
    return name in LEARNERS and LEARNERS[name].reference
