"""`FeatureMapping`: the public description of a log whose rows are features, actions and rewards, one decision each.

    features   declared columns: [low, high] of a number, "bool", a list of categories or {"categories": [...]};
               beside them "intercept", "products", "norm" and "missing" as in `tacit.Features`
    actions    names, with the texts under which they stand in the log
    reward     public bounds [low, high]
    columns    person, if a person may have several rows; propensity, which learning checks and `tacit evaluate` uses

It is fixed before the data are looked at, holds nothing about people, and may be published.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import numpy as np
import pyarrow as pa

from tacit.documents import parse_json
from tacit.errors import require, require_real
from tacit.features import FEATURES_FORMAT, Features
from tacit.study.feature_learning import FeatureRows, encoded_rows
from tacit.study.log_source import LogSource, as_numbers, read_batches
from tacit.study.mapping import Categories, action_categories, as_text

OPTIONS: Final = ("intercept", "products", "norm", "missing")
NEEDED: Final = ("features", "actions", "reward")
OTHERS: Final = ("columns", "missing", "decimal", "delimiter", "encoding")
TRUTHS: Final = {"true": 1.0, "1": 1.0, "yes": 1.0, "false": 0.0, "0": 0.0, "no": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureMapping:
    """A public mapping from a log to rows of features.

    >>> mapping = FeatureMapping.from_dict({
    ...     "features": {"age": [18, 90], "tired": "bool", "ward": ["a", "b"]},
    ...     "actions": {"column": "given", "categories": ["wait", "walk"]},
    ...     "reward": {"column": "points", "low": 0, "high": 10}})
    >>> mapping.features.names, mapping.actions.names
    (('intercept', 'age', 'tired', 'ward=a', 'ward=b'), ('wait', 'walk'))
    """

    features: Features
    actions: Categories
    reward: str
    low: float
    high: float
    person: str | None = None
    propensity: str | None = None
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value, beside the empty one."""
    decimal: str = "."
    delimiter: str | None = None
    encoding: str | None = None

    horizon: ClassVar[int] = 1
    """A row is one decision."""

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        named = (self.person, self.propensity, self.actions.column, self.reward)
        found = [name for name in named if name is not None] + [column.name for column in self.features.columns]
        require(len(set(found)) == len(found), "every column must have one role", sorted(found))
        return tuple(found)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FeatureMapping:
        """The mapping of a JSON or TOML file; anything missing or unknown is refused."""
        known = set(NEEDED) <= set(plain) <= {*NEEDED, *OTHERS}
        require(
            known, f"a mapping with features has {', '.join(NEEDED)} and may have {', '.join(OTHERS)}", sorted(plain)
        )
        columns, reward = plain.get("columns", {}), plain["reward"]
        good = isinstance(columns, Mapping) and set(columns) <= {"person", "propensity"}
        require(good, "columns of a mapping with features may be person and propensity", columns)
        good = isinstance(reward, Mapping) and {"low", "high"} <= set(reward) <= {"low", "high", "column"}
        require(good, "reward must have low and high, and may have a column", reward)
        texts = plain.get("missing", ())
        listed = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
        require(listed, "missing must be a list of texts", texts)
        require(plain.get("decimal", ".") in (".", ","), "decimal must be '.' or ','", plain.get("decimal"))
        found = cls(
            features=features_from(plain["features"]),
            actions=action_categories(plain["actions"]),
            reward=reward.get("column", "reward"),
            low=require_real("low", reward["low"]),
            high=require_real("high", reward["high"]),
            **{name: columns.get(name) for name in ("person", "propensity")},
            missing=tuple(texts),
            **{name: plain.get(name, "." if name == "decimal" else None) for name in OTHERS[2:]},
        )
        _ = found.used_columns
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; `from_dict` gives an equal mapping back."""
        columns = {name: value for name in ("person", "propensity") if (value := getattr(self, name)) is not None}
        return {
            "features": self.features.to_dict(),
            "actions": self.actions.to_dict(),
            "reward": {"column": self.reward, "low": self.low, "high": self.high},
            "columns": columns,
            **{name: getattr(self, name) for name in OTHERS[2:]},
            "missing": list(self.missing),
        }

    @classmethod
    def read(cls, path: str | Path) -> FeatureMapping | None:
        """The mapping in a .json or .toml file, None if it has states in place of features."""
        place = Path(path)
        try:
            text = place.read_text(encoding="utf-8")
            plain = tomllib.loads(text) if place.suffix == ".toml" else parse_json(text, str(path))
        except (OSError, ValueError):
            return None  # `EpisodeMapping.read` says what is wrong
        return cls.from_dict(plain) if isinstance(plain, dict) and "features" in plain else None


def features_from(plain: Any) -> Features:
    """A declaration as people write it, or as `Features.to_dict` does."""
    require(isinstance(plain, Mapping), "features must be declared by name", type(plain).__name__)
    if plain.get("format") == FEATURES_FORMAT:
        return Features.from_dict(plain)
    options = {name: plain[name] for name in OPTIONS if name in plain}
    columns = {name: _declared(given) for name, given in plain.items() if name not in OPTIONS}
    return Features(columns, **options)


def _declared(given: Any) -> Any:
    if given == "bool":
        return bool
    if isinstance(given, Mapping) and set(given) == {"categories"}:
        return list(given["categories"])
    pair = isinstance(given, list) and len(given) == 2 and not any(isinstance(value, str) for value in given)
    return tuple(given) if pair else given


def read_feature_log(log: LogSource, mapping: FeatureMapping) -> FeatureRows:
    """The rows of a log, checked; no message holds a value of it."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in mapping.used_columns}
    for batch in read_batches(log, cast("Any", mapping)):
        require(not batch.ragged.any(), "every row must have as many fields as the header", "others")
        for name in parts:
            parts[name].append(batch.columns[name])
    columns = {name: _joined(found) for name, found in parts.items()}
    rows = len(next(iter(columns.values())))
    require(rows > 0, "the log must have a row", 0)
    table = {column.name: _feature(columns[column.name], column, mapping) for column in mapping.features.columns}
    taken = np.array([mapping.actions.index(as_text(value)) for value in columns[mapping.actions.column].to_pylist()])
    p = None
    if mapping.propensity is not None:
        p = as_numbers(columns[mapping.propensity], mapping.decimal)
        fine = bool(((p > 0.0) & (p <= 1.0)).all())
        require(fine, f"propensities of the column '{mapping.propensity}' must lie in (0, 1]", "one outside, or none")
    persons = None if mapping.person is None else [as_text(one) for one in columns[mapping.person].to_pylist()]
    found = encoded_rows(
        mapping.features.encode(table),
        taken,
        as_numbers(columns[mapping.reward], mapping.decimal),
        persons,
        actions=mapping.actions.names,
        bounds=(mapping.low, mapping.high),
        names=(mapping.actions.column, mapping.reward, str(mapping.person)),
    )
    return replace(found, propensities=p)


def _joined(parts: list[pa.Array]) -> pa.Array:
    """One column; batches of a log may have read it as several types."""
    if len({part.type for part in parts}) > 1:
        parts = [pa.array([as_text(value) for value in part.to_pylist()], pa.string()) for part in parts]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _feature(values: pa.Array, column: Any, mapping: FeatureMapping) -> Any:
    """A column of a log as `Features.encode` takes it."""
    if column.kind == "category":
        spelt = {str(value): value for value in column.values}
        texts = (as_text(value) for value in values.to_pylist())
        return [None if text is None else spelt.get(text, math.inf) for text in texts]
    if column.kind == "bool" and pa.types.is_string(values.type):
        texts = (as_text(value) for value in values.to_pylist())
        return [None if text is None else TRUTHS.get(text.lower(), math.inf) for text in texts]
    numbers = as_numbers(values, mapping.decimal)
    whole = bool((np.isnan(numbers) == values.is_null().to_numpy(zero_copy_only=False)).all())
    require(whole, f"the column '{column.name}' must hold numbers", "another type")
    return numbers
