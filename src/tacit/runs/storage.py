"""A run that is kept: one directory, here or remote (`places`), every file of it written whole or not at all.

    config.json      what was asked for, what it resolved to, the version and the command
    privacy.json     the claim and the certificate
    seeds/           one Parquet part (rows) and one JSON file (seconds) per finished seed, where there are several; the
                     rows of a single one are results.parquet
    results.parquet  all rows, long format; its presence means that the run is finished
    timing.json      seconds per seed: what differs between two runs of the same configuration, with the parts' seconds
                     and the manifest (but for the day in privacy.json, which SOURCE_DATE_EPOCH fixes)
    policies.json    the last policy of every seed
    intervals.json   where the value of the best policy lies, by what every seed released (learners with valid bands)
    arms.json        what fresh users released about the final policy of every seed, where they were asked
    returns.json     what users of a live world earned, seed by seed; its rows have a column "return", not "regret"
    digests.json     the manifest: every other file with its kind and SHA-256
    signatures/      who vouches for it, where somebody does (`tacit.runs.signature`)
    environment.npz  the model, where it was handed over and has no name

Parquet is read by DuckDB, Polars and pandas alike.
"""

from __future__ import annotations

import contextlib
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.planning.valid_bands import ValueInterval
from tacit.policies import AnyPolicy, policy_from_dict, policy_to_dict
from tacit.released.arms import ArmStatistics
from tacit.runs.manifest import DIGESTS, make_manifest, sha256
from tacit.runs.storage_paths import (
    TEMPORARY,
    check_writable,
    complete_files,
    is_local,
    json_bytes,
    make_directory,
    read_json,
    write_json,
    write_together,
    write_whole,
    writing_to,
)
from tacit.simulation.judges.live import ReturnMeasures
from tacit.simulation.simulate import SeedRun
from tacit.support import Support

if TYPE_CHECKING:
    import pyarrow as pa


COLUMNS: Final[Mapping[str, str]] = {
    "experiment": "string",
    "run": "string",
    "environment": "string",
    "learner": "string",
    "trust": "string",
    "epsilon": "float64",
    "delta": "float64",
    "calibration": "string",
    "mechanism": "string",
    "batch": "int64",
    "constants": "string",
    "z": "float64",
    "seed": "int64",
    "episode": "int64",
    "regret": "float64",
}
"""Columns of the long format and their types; regret is cumulative pseudo-regret and exists in simulations only."""
COMPRESSED_FROM: Final = 1000
"""Rows."""


def seed_rows(run: SeedRun, labels: Mapping[str, Any]) -> pa.Table:
    """The rows of a seed in the long format."""
    import pyarrow as pa

    count = len(run.episodes)
    varying = {"episode": run.episodes, "regret": run.regret}
    if run.returns is not None:  # the sum of all returns so far stands where regret would
        varying["return"] = np.array(run.returns.total)
    constant = {**labels, "seed": run.seed}
    schema, types = _schema(live=run.returns is not None)
    columns = [
        pa.array(varying[name], kind)
        if name in varying
        else _words(constant[name], count)
        if kind == pa.string()
        else pa.repeat(pa.scalar(constant[name], kind), count)
        for name, kind in types.items()
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@lru_cache(maxsize=64)
def _words(word: str | None, count: int) -> pa.Array:
    """A column of one word, which the runs of a sweep share."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(word, pa.string()), count)


@lru_cache(maxsize=2)
def _schema(*, live: bool) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """The columns of the long format, and their types by name."""
    import pyarrow as pa

    names = dict(COLUMNS)
    if live:
        names["return"] = names.pop("regret")
    types = {name: getattr(pa, kind)() for name, kind in names.items()}
    return pa.schema([*types.items()]), types


def seed_details(run: SeedRun) -> dict[str, Any]:
    """What is kept of a seed beside its rows."""
    details: dict[str, Any] = {"seconds": run.seconds, "changes": run.policy_changes}
    if run.objective is not None:
        details["objective"] = asdict(run.objective)
    if run.losses is not None:
        details["losses"] = asdict(run.losses)
    if run.returns is not None:
        details["returns"] = run.returns.to_dict()
    if run.policy is not None:
        details["policy"] = policy_to_dict(run.policy)
    if run.interval is not None:
        details["interval"] = run.interval._asdict()
    if run.arms is not None:
        details["arms"] = run.arms.to_dict()
    return details


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file; where there are few rows, to save bytes costs more than it saves."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    many = table.num_rows >= COMPRESSED_FROM
    pq.write_table(table, sink, compression="zstd" if many else "none", use_dictionary=many, write_statistics=many)
    return bytes(sink.getvalue())


def read_parquet(path: Path) -> pa.Table:
    """The table in a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path if is_local(path) else pa.BufferReader(path.read_bytes())).read()
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{path} must be a Parquet file written by tacit: {error}") from error


__all__ = [
    "COLUMNS",
    "DIGESTS",
    "RESULTS",
    "Digests",
    "RunDirectory",
    "check_writable",
    "complete_files",
    "read_json",
    "seed_rows",
    "write_json",
    "write_whole",
    "writing_to",
]

CONFIG, PRIVACY, RESULTS, TIMING, POLICIES, RETURNS, INTERVALS, ARMS, MODEL = (
    "config.json",
    "privacy.json",
    "results.parquet",
    "timing.json",
    "policies.json",
    "returns.json",
    "intervals.json",
    "arms.json",
    "environment.npz",
)

Digests = dict[str, str]
"""File -> SHA-256 of its content."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where one run lives."""

    path: Path

    @property
    def begun(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / CONFIG).is_file()

    @property
    def finished(self) -> bool:
        """Whether all rows are here."""
        return (self.path / RESULTS).is_file() and self.begun

    def header(self) -> dict[str, Any]:
        """The contents of config.json; live worlds of 0.8 have their actions, which stood only beside them."""
        header = read_json(self.path / CONFIG)
        config, resolved = header.get("config"), header.get("resolved")
        given = config.get("environment") if isinstance(config, dict) else None
        for world in (given.get("live") if isinstance(given, dict) else None, header.get("world")):
            if isinstance(world, dict) and "source" in world and isinstance(resolved, dict):
                world.setdefault("actions", [0, resolved.get("actions")])
        return header

    def privacy(self) -> dict[str, Any]:
        """The contents of privacy.json."""
        return read_json(self.path / PRIVACY)

    def check(self, header: Mapping[str, Any]) -> None:
        """Raise unless this run may be begun or continued here; writes nothing."""
        if self.begun:
            _require_same(self.path, self.header(), header, finished=self.finished)
            return
        check_writable(self.path)
        if self.path.is_dir() and not self._hardly_begun():
            raise InvalidInput(
                f"{self.path} must be a new or empty directory or hold this run, but it has other files; "
                "choose another directory"
            )

    def _hardly_begun(self) -> bool:
        """Whether there is nothing here but what `begin` writes before config.json: it was killed there."""
        there = {file.name for file in self.path.iterdir() if not file.name.startswith(TEMPORARY)}
        if "seeds" in there and any(not part.name.startswith(TEMPORARY) for part in (self.path / "seeds").iterdir()):
            return False
        if PRIVACY in there and set(self.privacy()) - {"batches"} != {"claim", "certificate"}:
            return False
        return there <= {"seeds", MODEL, PRIVACY}

    def begin(
        self, header: Mapping[str, Any], privacy: bytes, model: TabularMDP | None, *, parts: bool = True
    ) -> Digests | None:
        """Write what is known before the first episode; config.json comes last and makes it a run.

        `privacy` is the content of privacy.json; `parts`: whether there will be parts, so more than one seed. Returns
        the digests of what was written; None where the run had been begun before.
        """
        if self.begun:
            if parts and not self.finished:  # a copy may have left an empty directory out
                with writing_to(self.path):
                    make_directory(self.path / "seeds")
            return None
        files = {} if model is None else {MODEL: _model_bytes(model)}
        files |= {PRIVACY: privacy, CONFIG: json_bytes(header)}
        with writing_to(self.path):
            if self.path.is_dir():
                self._clear()
            make_directory(self.path / "seeds" if parts else self.path)
            write_together(self.path, files)
        return {name: sha256(content) for name, content in files.items()}

    def model(self) -> TabularMDP | None:
        """The environment that was handed over, if it was."""
        if not (self.path / MODEL).is_file():
            return None
        try:
            return self._model()
        except (ArithmeticError, EOFError, KeyError, OSError, TypeError, ValueError, BadZipFile, zlib.error) as error:
            what = type(error).__name__
            raise InvalidInput(f"{self.path / MODEL} must be a model written by tacit, got {what}") from error

    def _model(self) -> TabularMDP:
        with np.load(io.BytesIO((self.path / MODEL).read_bytes()), allow_pickle=False) as stored:
            return TabularMDP(
                P=stored["P"],
                r=stored["r"],
                rho=stored["rho"],
                horizon=int(stored["horizon"]),
                reward_kind=str(stored["reward_kind"]),  # type: ignore[arg-type]
                name=str(stored["name"]),
                reward_scale=float(stored["reward_scale"]),
                reward_offset=float(stored["reward_offset"]),
                state_names=[str(name) for name in stored["state_names"]],
                action_names=[str(name) for name in stored["action_names"]],
                support=Support.from_dict(json.loads(str(stored["support"]))) if "support" in stored else None,
                features=json.loads(str(stored["features"])) if "features" in stored else None,
            )

    def finished_seeds(self, seeds: Sequence[int]) -> list[int]:
        """Those of these seeds whose rows are here."""
        if not (self.path / "seeds").is_dir():
            return []
        there = {file.name for file in (self.path / "seeds").iterdir()}
        return [seed for seed in seeds if self._part(seed).name in there]

    def write_seed(self, run: SeedRun, labels: Mapping[str, Any]) -> Digests:
        """Store a finished seed: its seconds first, then its rows, which count."""
        part = self._part(run.seed)
        rows = parquet_bytes(seed_rows(run, labels))
        files = {f"{part.stem}.json": json_bytes(seed_details(run)), part.name: rows}
        with writing_to(self.path):
            write_together(part.parent, files)
        return {f"{part.parent.name}/{name}": sha256(content) for name, content in files.items()}

    def finish(
        self,
        seeds: Sequence[int],
        runs: Mapping[int, SeedRun] | None = None,
        labels: Mapping[str, Any] | None = None,
        *,
        begun: Digests | None = None,
    ) -> None:
        """Join the parts in the order of the seeds; those that are at hand, with their labels, are not read again.

        `begun` is what `begin` returned to the same process; otherwise what is there is looked at first.
        """
        import pyarrow as pa

        if begun is None and self.finished:
            return
        here = runs if runs is not None and labels is not None else {}
        names = {} if labels is None else labels
        details = {
            str(seed): seed_details(here[seed]) if seed in here else read_json(self._part(seed).with_suffix(".json"))
            for seed in seeds
        }
        parts = [seed_rows(here[seed], names) if seed in here else read_parquet(self._part(seed)) for seed in seeds]
        rows = parquet_bytes(parts[0] if len(parts) == 1 else pa.concat_tables(parts))
        contents: dict[str, bytes] = {}
        for name, key in ((POLICIES, "policy"), (RETURNS, "returns"), (INTERVALS, "interval"), (ARMS, "arms")):
            kept = {seed: found.pop(key) for seed, found in details.items() if key in found}
            if kept or name == POLICIES:
                contents[name] = json_bytes(kept, indent=None)
        with writing_to(self.path):
            found = self._begun_before() if begun is None else begun
            contents[TIMING], contents[RESULTS] = json_bytes(details), rows
            known = {**found, **{name: sha256(content) for name, content in contents.items()}}
            contents[DIGESTS] = json_bytes(make_manifest("run", known))
            contents[RESULTS] = contents.pop(RESULTS)  # the last one: its presence means that the run is finished
            write_together(self.path, contents)

    def _begun_before(self) -> Digests:
        """Digests of what another process has written before the first episode; what it left half written goes."""
        self._clear()
        parts = (self.path / "seeds").iterdir() if (self.path / "seeds").is_dir() else ()
        found: Digests = {}
        for name in (CONFIG, PRIVACY, MODEL, *(f"seeds/{part.name}" for part in parts)):
            with contextlib.suppress(FileNotFoundError):  # most runs have no model of their own
                found[name] = sha256((self.path / name).read_bytes())
        return found

    def _clear(self) -> None:
        """Remove what a kill has left half written."""
        for place in (self.path, self.path / "seeds"):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # one seed has no parts
                for file in place.iterdir():
                    if file.name.startswith(TEMPORARY):
                        file.unlink(missing_ok=True)

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Seed, episode and regret of every row; NaN in a live world, where nobody knows it."""
        table = read_parquet(self.path / RESULTS)
        seed, episode = (table.column(name).to_numpy() for name in ("seed", "episode"))
        known = "regret" in table.column_names
        return seed, episode, table.column("regret").to_numpy() if known else np.full(len(seed), np.nan)

    def returns(self, seeds: Sequence[int]) -> tuple[ReturnMeasures, ...]:
        """What users of a live world earned, seed by seed; empty elsewhere."""
        if not (self.path / RETURNS).is_file():
            return ()
        kept = read_json(self.path / RETURNS)
        return tuple(ReturnMeasures.from_dict(kept[str(seed)]) for seed in seeds)

    def intervals(self, seeds: Sequence[int]) -> tuple[ValueInterval, ...]:
        """Where the value of the best policy lies, seed by seed; empty for learners that do not say."""
        if not (self.path / INTERVALS).is_file():
            return ()
        kept = read_json(self.path / INTERVALS)
        return tuple(ValueInterval(**kept[str(seed)]) for seed in seeds)

    def arms(self, seeds: Sequence[int]) -> tuple[ArmStatistics, ...]:
        """What fresh users released about each seed's final policy; empty where nobody was asked."""
        if not (self.path / ARMS).is_file():
            return ()
        kept = read_json(self.path / ARMS)
        return tuple(ArmStatistics.from_dict(kept[str(seed)]) for seed in seeds)

    def policies(self, seeds: Sequence[int]) -> tuple[AnyPolicy | None, ...]:
        """The last policy of each seed; None in directories of versions that did not keep it."""
        if not (self.path / POLICIES).is_file():
            return (None,) * len(seeds)
        kept = read_json(self.path / POLICIES)
        return tuple(policy_from_dict(kept[str(seed)]) if str(seed) in kept else None for seed in seeds)

    def timing(self) -> dict[str, Any]:
        """Seconds and changes of policy per seed."""
        return read_json(self.path / TIMING)

    def _part(self, seed: int) -> Path:
        return self.path / "seeds" / f"seed-{seed:06d}.parquet"


def _require_same(path: Path, there: Mapping[str, Any], here: Mapping[str, Any], *, finished: bool) -> None:
    """Refuse to mix two configurations, or two versions, in one directory."""
    flat_there, flat_here = _flat(there), _flat(here)
    differing = [key for key in flat_here if flat_there.get(key) != flat_here[key]]
    if differing:
        shown = "; ".join(f"{key} is {flat_there.get(key)!r} there, {flat_here[key]!r} here" for key in differing[:3])
        raise InvalidInput(f"{path} holds another run: {shown}; choose another directory")
    if not finished and there.get("version") != here.get("version"):
        raise InvalidInput(
            f"{path} was begun with tacit {there.get('version')}, this is {here.get('version')}: seeds of two versions "
            "do not belong together; finish it with the same version or choose another directory"
        )


def _flat(header: Mapping[str, Any]) -> dict[str, Any]:
    """What must agree: the configuration and everything it resolved to, but for why something was chosen."""
    parts = [header.get(part) or {} for part in ("config", "resolved")]
    found = {key: value for part in parts if isinstance(part, Mapping) for key, value in part.items()}
    found.pop("because", None)
    found.pop("by_size", None)
    found["world"] = header.get("world")  # another version of Gymnasium may be another game
    return found


def _model_bytes(mdp: TabularMDP) -> bytes:
    buffer, told = io.BytesIO(), dict[str, Any]()
    if mdp.support is not None:
        told["support"] = json.dumps(mdp.support.to_dict())
    if mdp.features:
        told["features"] = json.dumps(dict(mdp.features))
    np.savez_compressed(
        buffer,
        P=mdp.stage_P,
        r=mdp.stage_r,
        rho=mdp.rho,
        horizon=mdp.horizon,
        reward_kind=mdp.reward_kind,
        name=mdp.name,
        reward_scale=mdp.reward_scale,
        reward_offset=mdp.reward_offset,
        state_names=list(mdp.state_names),
        action_names=list(mdp.action_names),
        **told,
    )
    return buffer.getvalue()
