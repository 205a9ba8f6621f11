"""Comparisons and sweeps: a TOML file with shared defaults and several runs, or lists of options in Python.

    name = "riverswim-baselines"      # optional; the file's name otherwise

    [defaults]                        # for every run that does not say otherwise
    environment = "riverswim:states=4,horizon=6"
    episodes = 20_000
    seeds = 20                        # optional; 1 otherwise, as in `tacit.run`

    [[run]]
    name = "UCBVI"                    # optional
    learner = "ucbvi"
    constants = "practical"

    [[run]]
    learner = "uniform"               # a reference policy takes no constants and no privacy: such defaults pass it by

    [[run]]                           # a list is a sweep: one run for each value, and for each combination of lists
    learner = ["bucb", "psrl"]
    trust = "central"
    epsilon = [0.5, 1.0]
    delta = 1e-6

Runs take the same entries as `tacit.run` (a learner that is left out is `auto`); an unknown entry is refused with the
nearest known one. A file needs no [[run]] where [defaults] hold a list. Lists of `seeds`, `baseline`, `sees` and
`adversary` are values. `comparison_schema` is the format for other programs, `docs/comparison.schema.json`.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, get_args

from tacit import types
from tacit.arguments import checked
from tacit.callbacks import Callback, all_callbacks
from tacit.errors import InvalidInput, UnknownName, error_context, require
from tacit.learners.table import LEARNERS
from tacit.runs.comparison import Comparison, Run, run_comparison
from tacit.runs.config import CALIBRATIONS, RunConfig, as_seeds, parse_learner, run_options
from tacit.runs.estimate import apply_size_defaults
from tacit.runs.storage_paths import resolve_location
from tacit.types import Calibration

ENTRIES: Final = tuple(item.name for item in run_options())
SHARED_BY_ALL: Final = ("environment", "learner", "episodes", "seeds", "checkpoints", "baseline")
"""The defaults that also apply to a reference policy."""
PLAIN_TYPES: Final = {"int": "integer", "float": "number", "bool": "boolean"}
NOT_SWEPT: Final = ("seeds", "baseline", "sees", "adversary")
"""Options of which a list is one value."""
SAID_BY_LABELS: Final = ("learner", "constants", "z", "trust", "mechanism", "epsilon", "calibration", "estimator")
"""Options that `RunConfig.label` tells."""


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
    swept = any(_is_sweep(*item) for item in defaults.items())
    require(is_list and (swept or len(tables) > 0), f"{file} must have at least one [[run]]", tables)
    _known("entry of [defaults]", defaults, ENTRIES)
    runs: list[Run] = []
    tables = tables or [{}]
    for number, table in enumerate(tables, start=1):
        called = table.get("name")
        with error_context(f"run {number}" + (f" ('{called}')" if isinstance(called, str) else "") + f" of {file}"):
            runs += [run for run in _runs(table, defaults) if run not in runs]
    return name, tuple(runs)


@checked
def compare(
    path: str | Path | None = None,
    *,
    name: str = "sweep",
    out: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Comparison:
    """Run the comparison that a TOML file describes, or a sweep over lists of options.

    Parameters
    ----------
    path
        The file; see `tacit.runs.files` for its form. None: the options describe the runs.
    name
        What a sweep without a file is called.
    out
        A directory to keep the runs in, resumable; None: they are not kept.
    workers, engine, address, progress, callbacks
        As in `tacit.run`.
    **options
        Options of `tacit.run`. A list is swept: one run for each combination of values. Environments may be objects.

    Returns
    -------
    Comparison
        One result for each run, in the order of the file or of the options.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.
    UnknownName
        If no registry knows a name; the message suggests the nearest one.

    Examples
    --------
    >>> found = compare(environment="riverswim", learner=["psrl", "ucbvi"], episodes=[20, 40], workers=1)
    >>> [result.label for result in found]
    ['psrl, episodes=20', 'psrl, episodes=40', 'ucbvi, episodes=20', 'ucbvi, episodes=40']
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
    if path is None:
        _known("option of compare", options, ENTRIES)
        runs, command = _runs(options, {}), f"tacit.compare({', '.join(map(_shown, options.items()))})"
    else:
        require(not options, "options are given in the file where there is one", sorted(options))
        name, runs = read_comparison(resolve_location(path))
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


def comparison_schema() -> dict[str, Any]:
    """The JSON Schema of a comparison file, from the options of `RunConfig`.

    Values, combinations and registered names are checked by `RunConfig` only.

    Examples
    --------
    >>> comparison_schema()["properties"]["defaults"]["properties"]["seeds"]["default"]
    1
    """
    options = {item.name: _entry(item) for item in run_options()}
    name = {"type": "string", "minLength": 1}
    table = {"type": "object", "additionalProperties": False}
    runs = {"type": "array", "items": {**table, "properties": {"name": name, **options}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tacit comparison",
        "description": "A TOML file for tacit compare: [defaults] and [[run]] together name environment and episodes.",
        **table,
        "properties": {"name": name, "defaults": {**table, "properties": options}, "run": runs},
        "anyOf": [{"required": ["run"]}, {"required": ["defaults"]}],
    }


def _entry(item: Field[Any]) -> dict[str, Any]:
    """The schema of one option: a value, or a list of them to sweep."""
    kind = str(item.type).removesuffix(" | None")
    alias = getattr(types, kind, None)
    value: dict[str, Any] = {"type": PLAIN_TYPES.get(kind, "string")}
    if alias is not None:
        value = {"enum": list(CALIBRATIONS if alias is Calibration else get_args(alias))}
    default = {} if item.default in (MISSING, None) else {"default": item.default}
    if item.name == "seeds":
        listed = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True}
        value, default = {"type": "integer", "minimum": 1}, {"default": 1}
    else:
        listed = {"type": "array"} if item.name in NOT_SWEPT else {"type": "array", "items": value, "minItems": 1}
    return {"description": item.metadata["help"], "anyOf": [value, listed], **default}


def _is_sweep(option: str, value: object) -> bool:
    return isinstance(value, list | tuple) and option not in NOT_SWEPT


def _shown(option: tuple[str, Any]) -> str:
    name, value = option
    values = list(value) if _is_sweep(name, value) else [value]
    shown = [repr(one) if isinstance(one, str | int | float | list | tuple | None) else str(one) for one in values]
    return f"{name}=[{', '.join(shown)}]" if _is_sweep(name, value) else f"{name}={shown[0]}"


def _runs(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[Run, ...]:
    """The runs of a table: one for each combination of the lists in it and in the defaults that it leaves alone."""
    entries = {**defaults, **table}
    swept = {key: list(value) for key, value in entries.items() if _is_sweep(key, value)}
    for key, values in swept.items():
        require(len(values) > 0, f"a list of {key} must have at least one value", values)
    runs: list[Run] = []
    for combination in product(*swept.values()):
        chosen = dict(zip(swept, combination, strict=True))
        own = {key: chosen.get(key, value) for key, value in table.items()}
        run = _run(own, {key: chosen.get(key, value) for key, value in defaults.items()})
        # What labels of runs do not say by themselves, or do not where the run has a name.
        untold = [key for key in chosen if "name" in table or key not in SAID_BY_LABELS]
        if _is_reference(parse_learner(run.config.learner)[0]):
            untold = [key for key in untold if key in table or key in SHARED_BY_ALL]
        told = [f"{key}={_value(run.config, key)}" for key in untold if len(swept[key]) > 1]
        if all(run.config != other.config for other in runs):  # reference policies take no privacy: they would repeat
            label = ", ".join([run.label, *told])
            same = sum(label == other.label.partition(" #")[0] for other in runs)  # environments of one name
            runs.append(replace(run, label=f"{label} #{same + 1}" if same else label))
    return tuple(runs)


def _value(config: RunConfig, key: str) -> object:
    return config.world_name if key == "environment" else getattr(config, key)


def _run(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> Run:
    _known("entry of [[run]]", table, (*ENTRIES, "name"))
    learner = table.get("learner", defaults.get("learner", "auto"))
    require(isinstance(learner, str), "a [[run]] must name its learner as text, or leave it out", dict(table))
    reference = _is_reference(parse_learner(str(learner))[0])
    shared = {key: value for key, value in defaults.items() if not reference or key in SHARED_BY_ALL}
    merged = {"learner": learner, **shared, **{key: value for key, value in table.items() if key != "name"}}
    if merged.get("constants") == "none" and "z" not in table:
        merged.pop("z", None)
    require(merged.get("environment") is not None, "every run must name its environment", sorted(merged))
    if "episodes" not in merged:
        raise InvalidInput("a run must say its episodes, the number of users; for instance episodes = 20_000")
    config = apply_size_defaults(RunConfig(**{**merged, "seeds": as_seeds(merged.get("seeds", 1))}))
    label = table.get("name", config.label)
    require(isinstance(label, str) and bool(label), "the name of a run must be text", label)
    return Run(label=label, config=config)


def _known(kind: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise UnknownName(kind, key, known)


def _is_reference(name: str) -> bool:
    return name in LEARNERS and LEARNERS[name].reference
