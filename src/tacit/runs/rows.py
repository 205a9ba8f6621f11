"""The rows of a seed in the long format, what is kept beside them, and Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tacit.errors import InvalidInput
from tacit.policies import policy_to_dict
from tacit.runs.storage_paths import is_local
from tacit.simulation.simulate import SeedRun

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
