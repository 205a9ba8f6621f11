"""Rows of a log in long format, as a stream: CSV through the standard library, Parquet through pyarrow.

A row is a tuple of texts in the order of `EpisodeMapping.used_columns`, None where a value is missing; a row with
another number of fields than the header is None as a whole. Rows come in chunks, so the file is never in memory.
Nothing here puts a value of the file into a message, and no error keeps the one that caused it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, NotSupported, require
from tacit.study.mapping import EpisodeMapping

Row = tuple[str | None, ...] | None
LOG_SUFFIXES: Final = (".csv", ".parquet")
CHUNK: Final = 8192


def is_log(path: str | Path) -> bool:
    """Whether a file is, by its suffix, a log of episodes.

    >>> is_log("ward.csv"), is_log("ward.parquet"), is_log("report.bin")
    (True, True, False)
    """
    return Path(path).suffix.lower() in LOG_SUFFIXES


def read_rows(path: str | Path, mapping: EpisodeMapping) -> Iterator[list[Row]]:
    """The rows of a log, chunk by chunk; a file without the mapping's columns is refused before the first."""
    place = Path(path)
    require(is_log(place), f"a log must be a {' or '.join(LOG_SUFFIXES)} file", place.suffix or "no suffix")
    require(place.is_file(), f"{path} must be a file", "nothing to read")
    if place.suffix.lower() == ".csv":
        return _csv_rows(place, mapping)
    return _parquet_rows(place, mapping)


def _csv_rows(place: Path, mapping: EpisodeMapping) -> Iterator[list[Row]]:
    # Bytes that are no UTF-8 stay what they are: they match no name, and two ids that differ stay different.
    with _opened(place) as file:
        reader = csv.reader(file, delimiter=mapping.delimiter, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
            places = _places(header, mapping)
            chunk: list[Row] = []
            for fields in reader:
                if not fields:
                    continue  # an empty line is no row
                whole = len(fields) == len(header)
                chunk.append(tuple(fields[i].strip() or None for i in places) if whole else None)
                if len(chunk) == CHUNK:
                    yield chunk
                    chunk = []
        except csv.Error:
            raise InvalidInput(
                f"{place} must be readable CSV: the text between two delimiters is too long or its quotes do not match"
            ) from None
        except OSError as error:
            raise InvalidInput(f"{place} must be readable: {error.strerror}") from None
        if chunk:
            yield chunk


def _opened(place: Path) -> Any:
    try:
        return place.open(encoding="utf-8-sig", errors="surrogateescape", newline="")
    except OSError as error:
        raise InvalidInput(f"{place} must be readable: {error.strerror}") from None


def _parquet_rows(place: Path, mapping: EpisodeMapping) -> Iterator[list[Row]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise NotSupported(
            "Parquet needs the package pyarrow: install it with pip install pyarrow, or hand over CSV"
        ) from None
    try:
        with pq.ParquetFile(place) as file:
            _places(file.schema_arrow.names, mapping)
            columns = list(mapping.used_columns)
            for batch in file.iter_batches(batch_size=CHUNK, columns=columns):
                values = [batch.column(name).to_pylist() for name in columns]
                yield [tuple(map(_text, row)) for row in zip(*values, strict=True)]
    except (OSError, pa.ArrowException):
        raise InvalidInput(f"{place} must be a readable Parquet file") from None


def _places(header: Sequence[str], mapping: EpisodeMapping) -> list[int]:
    """Where the mapping's columns are; what the others are called is nobody's business."""
    missing = [name for name in mapping.used_columns if name not in header]
    require(not missing, "the log must have every column of the mapping", f"none called {', '.join(missing)}")
    twice = [name for name in mapping.used_columns if list(header).count(name) > 1]
    require(not twice, "the log must have every column of the mapping once", f"several called {', '.join(twice)}")
    return [list(header).index(name) for name in mapping.used_columns]


def _text(value: Any) -> str | None:
    """A value of a Parquet file as CSV would have it: whole numbers without a point, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="surrogateescape")
    return str(value).strip() or None
