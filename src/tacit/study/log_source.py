"""The one reader of logs: whatever holds rows by column names becomes batches of Arrow columns.

    .csv, .parquet             files; delimiter and encoding are found or declared, and the file is streamed
    pandas, polars, Arrow      frames and tables; only the columns of the mapping are looked at
    NumPy                      structured arrays, or arrays by column name
    iterables                  of rows (mappings), or of episodes: `observations` (or `states`), `actions`, `rewards`
    Minari                     a dataset, or "minari:ID" of one that is stored on this machine

G1  Nothing here puts a value of the log into a message, and no error keeps the one that caused it.
G2  Delimiter and encoding are read off the header and the first bytes, never off what people did. A number with a
    decimal comma is not guessed: it is no number until the mapping declares `decimal`.
"""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tacit.arrays import Floats
from tacit.errors import InvalidInput, NotSupported, require
from tacit.study.mapping import EpisodeMapping, as_text, parse_number

LogSource = Any
"""A path, a frame or table, arrays by name, an iterable of rows or episodes, or a Minari dataset."""
SUFFIXES: Final = (".csv", ".parquet")
CHUNK: Final = 8192
DELIMITERS: Final = ",;\t|"
MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; the mark of UTF-32 begins with that of UTF-16."""


class Batch(NamedTuple):
    """Rows of a log, by column; sensitive."""

    columns: dict[str, pa.Array]
    """Texts are stripped, and missing values are null."""
    ragged: NDArray[np.bool_]
    """Rows with another number of fields than the header: null in every column."""


def read_batches(source: LogSource, mapping: EpisodeMapping) -> Iterator[Batch]:
    """The rows of a log in batches; a log without the mapping's columns is refused before the first."""
    if isinstance(source, str | Path) and str(source).startswith("minari:"):
        source = _minari(str(source).removeprefix("minari:"))
    if isinstance(source, str | Path):
        place = Path(source)
        suffix = place.suffix.lower()
        require(suffix in SUFFIXES, f"a log must be a {' or '.join(SUFFIXES)} file", place.suffix or "no suffix")
        require(place.is_file(), f"{source} must be a file", "nothing to read")
        return _csv_batches(place, mapping) if suffix == ".csv" else _parquet_batches(place, mapping)
    if hasattr(source, "iterate_episodes"):
        return _row_batches(source.iterate_episodes(), mapping)
    names = _column_names(source)
    if names is not None:
        if not hasattr(source, "iloc") and hasattr(source, "__arrow_c_stream__"):
            source = pa.table(source)
        return _frame_batches(source, names, mapping)
    if isinstance(source, Iterable) and not isinstance(source, bytes | np.ndarray):
        return _row_batches(source, mapping)
    raise InvalidInput(
        "a log must be a .csv or .parquet file, a frame or table, arrays by column name, or an iterable of rows or "
        f"episodes, got {type(source).__name__}"
    )


def as_numbers(values: pa.Array, decimal: str) -> Floats:
    """The numbers of a column, NaN where there is none."""
    if pa.types.is_string(values.type):
        if decimal == ",":  # a point would be a separator of thousands, and an underscore is in no number
            values = pc.replace_substring(pc.replace_substring(values, ".", "_"), ",", ".")
        try:
            return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            return np.array([parse_number(text or "") for text in values.to_pylist()])
    try:
        return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    except pa.ArrowException:
        return np.array([parse_number(as_text(value) or "") for value in values.to_pylist()])


def as_times(values: pa.Array, mapping: EpisodeMapping) -> Floats:
    """What orders the steps of an episode: seconds of time stamps, or numbers; NaN where it is neither."""
    if pa.types.is_temporal(values.type):
        return as_numbers(values.cast(pa.timestamp("us")).cast(pa.int64()), ".") / 1e6
    numbers = as_numbers(values, mapping.decimal)
    if not np.isnan(numbers).any():
        return numbers
    coded = values.dictionary_encode()
    seconds = np.array([_seconds(as_text(one), mapping.steps) for one in coded.dictionary.to_pylist()] + [math.nan])
    return np.where(np.isnan(numbers), seconds[coded.indices.fill_null(len(seconds) - 1).to_numpy()], numbers)


def _seconds(text: str | None, form: str) -> float:
    try:
        when = datetime.strptime(text or "", form) if "%" in form else datetime.fromisoformat(text or "")
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _batch(columns: Mapping[str, Any], mapping: EpisodeMapping, ragged: NDArray[np.bool_] | None = None) -> Batch:
    cleaned = {name: _cleaned(_array(values), mapping.missing) for name, values in columns.items()}
    rows = len(next(iter(cleaned.values())))
    return Batch(cleaned, np.zeros(rows, dtype=np.bool_) if ragged is None else ragged)


def _array(values: Any) -> pa.Array:
    """A column of one Arrow type; as texts where its values have several."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([as_text(value) for value in values], pa.string())


def _cleaned(values: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _cleaned(values.dictionary, missing).take(values.indices)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), None, values)
    elif pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.string())
    elif (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind)
    ):
        # Bytes that are no UTF-8 match no name, and two ids that differ stay different.
        texts = (as_text(value) for value in values.to_pylist())
        values = pa.array(
            [None if t is None else t.encode("utf-8", "backslashreplace").decode() for t in texts], pa.string()
        )
    if pa.types.is_string(values.type):
        values = pc.utf8_trim_whitespace(values)
        absent = pc.is_in(values, value_set=pa.array(["", *missing]))
        return pc.if_else(absent, pa.scalar(None, pa.string()), values)
    return values


def _column_names(source: Any) -> list[str] | None:
    """The names of the columns, None for what has no columns."""
    if isinstance(source, pa.Table | pa.RecordBatch):
        return list(source.schema.names)
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    if isinstance(source, np.ndarray):
        return None if source.dtype.names is None else list(source.dtype.names)
    return [str(name) for name in source.columns] if hasattr(source, "columns") else None


def _frame_batches(source: Any, names: Sequence[str], mapping: EpisodeMapping) -> Iterator[Batch]:
    _ = _places(names, mapping)
    columns = {name: _array(source[name]) for name in mapping.used_columns}
    sizes = {len(values) for values in columns.values()}
    require(len(sizes) == 1, "all columns of a log must have the same length", sorted(sizes))
    for start in range(0, sizes.pop(), CHUNK):
        yield _batch({name: values.slice(start, CHUNK) for name, values in columns.items()}, mapping)


def _row_batches(items: Iterable[Any], mapping: EpisodeMapping) -> Iterator[Batch]:
    rows = (row for number, item in enumerate(items) for row in _rows_of(item, number, mapping))
    while chunk := list(islice(rows, CHUNK)):
        yield _batch({name: [row.get(name) for row in chunk] for name in mapping.used_columns}, mapping)


def _rows_of(item: Any, number: int, mapping: EpisodeMapping) -> Iterator[Mapping[str, Any]]:
    """The rows of a row, of a list of rows, or of an episode with observations, actions and rewards."""
    if isinstance(item, Mapping) and mapping.reward in item:
        yield item
        return
    if isinstance(item, list | tuple):
        for row in item:
            yield from _rows_of(row, number, mapping)
        return

    def part(*names: str) -> Any:
        found = [item.get(n) if isinstance(item, Mapping) else getattr(item, n, None) for n in names]
        return next((one for one in found if one is not None), None)

    states, actions, rewards = part("observations", "states"), part("actions"), part("rewards")
    if any(one is None for one in (states, actions, rewards)) or len(actions) != len(rewards):
        raise InvalidInput(
            "an element of an iterable must be a row with the mapping's columns, a list of rows, or an episode with "
            f"observations, and as many actions as rewards, got {type(item).__name__}"
        )
    names, known = [one.column for one in mapping.states], mapping.columns
    person, propensities = part("person", "id"), part("propensities")
    if isinstance(states, Mapping):
        table = [states[name] for name in names]
    else:
        table = list(np.asarray(states).reshape(len(states), -1).T)
        require(len(table) == len(names), f"an observation must have {len(names)} numbers", len(table))
    for h in range(len(actions)):
        row = {name: _plain(column[h]) for name, column in zip(names, table, strict=True)}
        row |= {mapping.actions.column: _plain(actions[h]), mapping.reward: _plain(rewards[h])}
        row |= {} if known.propensity is None or propensities is None else {known.propensity: _plain(propensities[h])}
        row[known.person] = str(number if person is None else _plain(person))
        row |= {} if known.episode is None else {known.episode: number}
        row |= {} if known.step is None else {known.step: h + mapping.first_step}
        yield row


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.size == 1 else value


def _minari(name: str) -> Any:
    try:
        import minari  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise NotSupported("Minari datasets need the package minari: pip install minari") from None
    try:
        return minari.load_dataset(name)
    except Exception as error:  # of whatever the package raises for a dataset that is not there
        raise InvalidInput(f"the Minari dataset {name!r} must be on this machine: {type(error).__name__}") from None


def _csv_batches(place: Path, mapping: EpisodeMapping) -> Iterator[Batch]:
    encoding = _encoding(place, mapping)
    try:
        with place.open(encoding=encoding, newline="") as file:
            first = file.readline()
            delimiter = _delimiter(first, mapping)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            header = [name.strip() for name in next(reader, [])]
            places = _places(header, mapping)
            empty = [None] * len(header)
            while chunk := list(islice(filter(None, reader), CHUNK)):  # an empty line is no row
                ragged = np.array([len(fields) != len(header) for fields in chunk])
                whole = [empty if bad else fields for bad, fields in zip(ragged, chunk, strict=True)]
                columns = list(zip(*whole, strict=True))
                yield _batch({n: pa.array(columns[i], pa.string()) for n, i in places.items()}, mapping, ragged)
    except csv.Error:
        raise InvalidInput(
            f"{place} must be readable CSV: the text between two delimiters is too long or its quotes do not match"
        ) from None
    except UnicodeError:
        hint = 'declare it in the mapping, for example "encoding": "latin-1"'
        raise InvalidInput(f"{place} must be text in {encoding}, got other bytes; {hint}") from None
    except OSError as error:
        raise InvalidInput(f"{place} must be readable: {error.strerror}") from None


def _encoding(place: Path, mapping: EpisodeMapping) -> str:
    """The encoding that is declared, or that the first bytes show; UTF-8 otherwise (G2)."""
    if mapping.encoding is not None:
        return mapping.encoding
    try:
        with place.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise InvalidInput(f"{place} must be readable: {error.strerror}") from None
    for mark, name in MARKS:
        if head.startswith(mark):
            return name
    if len(head) > 1 and 0 in head[:2] and head[0] != head[1]:  # the header begins with ASCII
        return "utf-16-be" if head[0] == 0 else "utf-16-le"
    return "utf-8"


def _delimiter(header: str, mapping: EpisodeMapping) -> str:
    """The delimiter that is declared, or the one that finds most of the mapping's columns in the header (G2)."""
    if mapping.delimiter is not None:
        return mapping.delimiter
    used = set(mapping.used_columns)

    def found(delimiter: str) -> int:
        return len(used & {name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])})

    return max(DELIMITERS, key=found)


def _parquet_batches(place: Path, mapping: EpisodeMapping) -> Iterator[Batch]:
    try:
        with pq.ParquetFile(place) as file:
            columns = list(_places(file.schema_arrow.names, mapping))
            for batch in file.iter_batches(batch_size=CHUNK, columns=columns):
                yield _batch({name: batch.column(name) for name in columns}, mapping)
    except (OSError, pa.ArrowException):
        raise InvalidInput(f"{place} must be a readable Parquet file") from None


def _places(header: Sequence[str], mapping: EpisodeMapping) -> dict[str, int]:
    """Where the mapping's columns are; the names of the others are not looked at."""
    missing = [name for name in mapping.used_columns if name not in header]
    require(not missing, "the log must have every column of the mapping", f"none called {', '.join(missing)}")
    twice = [name for name in mapping.used_columns if list(header).count(name) > 1]
    require(not twice, "the log must have every column of the mapping once", f"several called {', '.join(twice)}")
    return {name: list(header).index(name) for name in mapping.used_columns}
