"""`EpisodeMapping`: the public description of a log, from names in its columns to states, actions and rewards.

    columns   which columns hold person, episode, step and, if it is known, the propensity of the logged action
    states    the product of parts, each a column: categories by name, or bins of numbers between public edges
    actions   names, with the texts under which they stand in the log
    reward    public bounds [low, high]; rewards are scaled to [0, 1]
    horizon   H; longer episodes are refused, or cut after H steps where the mapping says so
    short     shorter episodes are refused, or absorbed: padded with a public action and reward, in a public state of
              their own (`state`) or in the state that was seen last (None)
    drop      reasons of the data check whose rows take their whole episode out; everything else that is bad is refused
    steps     "numbers" from `first_step` on; the "order" of numbers or ISO time stamps, or of time stamps of the form
              that stands here ("%d.%m.%Y %H:%M")

G1  A mapping is fixed before anybody's data are looked at: edges, categories and bounds that were read off the log
    would be a release that nobody pays for. It holds nothing about people and may be published.
"""

from __future__ import annotations

import bisect
import codecs
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from tacit.arguments import checked
from tacit.documents import parse_json
from tacit.errors import InvalidInput, UnknownName, require, require_count, require_real
from tacit.study.episode_log import DROPPABLE


def parse_number(text: str) -> float:
    """The number that a text stands for, NaN if it is none; no underscores, no infinities by other names.

    >>> parse_number(" 2.5 "), parse_number("1_000"), parse_number("")
    (2.5, nan, nan)
    """
    if "_" in text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def as_text(value: Any) -> str | None:
    """A value as CSV would have it: whole numbers without a point, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="surrogateescape")
    return str(value).strip() or None


@dataclass(frozen=True, kw_only=True)
class Categories:
    """A column of categories: names, each with the texts that stand for it in the log.

    >>> Categories(column="ward", values=(("well", ("W", "well")), ("sick", ("S",)))).index("S")
    1
    """

    column: str
    values: tuple[tuple[str, tuple[str, ...]], ...]
    missing: str | None = None
    """The category that a missing value stands for, one of the others or its own; None: it is refused."""

    def __post_init__(self) -> None:
        require_text("column", self.column)
        require(len(self.values) > 0, f"column '{self.column}' must have a category", 0)
        if self.missing is not None:
            require_text(f"categories of '{self.column}'", self.missing)
        every = [text for _, texts in self.values for text in texts]
        spoken = all(texts for _, texts in self.values)
        require(spoken, f"every category of '{self.column}' must stand for a text", "none")
        for text in (*self.names, *every):
            require_text(f"categories of '{self.column}'", text)
        names = [name for name, _ in self.values]
        require(len(set(names)) == len(names), f"categories of '{self.column}' must differ", "one twice")
        require(len(set(every)) == len(every), f"a text of '{self.column}' must belong to one category", "two of them")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: i for i, (_, texts) in enumerate(self.values) for text in texts}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order; that of missing values comes last if it is none of the others."""
        return _with_missing(tuple(name for name, _ in self.values), self.missing)

    def index(self, text: str | None) -> int:
        """The place of a text, or of a missing value (None or empty); -1 if it is none of them."""
        if not text:
            return -1 if self.missing is None else self.names.index(self.missing)
        return self._places.get(text, -1)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        named = {} if self.missing is None else {"missing": self.missing}
        return {"column": self.column, "categories": [[name, list(texts)] for name, texts in self.values], **named}


@dataclass(frozen=True, kw_only=True)
class Bins:
    """A column of numbers, binned: edges e₁ < ... < e_k make the k + 1 bins (-∞, e₁), [e₁, e₂), ..., [e_k, ∞).

    >>> Bins(column="age", edges=(18.0, 65.0)).names
    ('age < 18', '18 ≤ age < 65', '65 ≤ age')
    """

    column: str
    edges: tuple[float, ...]
    labels: tuple[str, ...] | None = None
    missing: str | None = None
    """The category that a missing value stands for; None: it is refused."""

    def __post_init__(self) -> None:
        require_text("column", self.column)
        for edge in self.edges:
            require_real(f"an edge of '{self.column}'", edge)
        rising = len(self.edges) > 0 and all(a < b for a, b in pairwise(self.edges))
        require(rising, f"edges of '{self.column}' must increase strictly", list(self.edges))
        if self.labels is not None:
            many = len(self.edges) + 1
            fits = len(self.labels) == many and len(set(self.labels)) == many
            require(fits, f"'{self.column}' must have {many} different names", list(self.labels))
            for label in self.labels:
                require_text(f"names of '{self.column}'", label)
        if self.missing is not None:
            require_text(f"names of '{self.column}'", self.missing)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order; that of missing values comes last if it is none of the others."""
        return _with_missing(self._bins, self.missing)

    @property
    def _bins(self) -> tuple[str, ...]:
        if self.labels is not None:
            return self.labels
        e, c = [f"{edge:g}" for edge in self.edges], self.column
        inner = (f"{a} ≤ {c} < {b}" for a, b in pairwise(e))
        return (f"{c} < {e[0]}", *inner, f"{e[-1]} ≤ {c}")

    def index(self, text: str | None) -> int:
        """The bin of a number that is written down as a text, or of a missing value; -1 if it is none."""
        if not text:
            return self.missing_index
        number = parse_number(text)
        return -1 if not math.isfinite(number) else bisect.bisect_right(self.edges, number)

    @property
    def missing_index(self) -> int:
        """The place of missing values, -1 if they are refused."""
        return -1 if self.missing is None else self.names.index(self.missing)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        named = {} if self.labels is None else {"names": list(self.labels)}
        absent = {} if self.missing is None else {"missing": self.missing}
        return {"column": self.column, "edges": list(self.edges), **named, **absent}


def _with_missing(names: tuple[str, ...], missing: str | None) -> tuple[str, ...]:
    return names if missing is None or missing in names else (*names, missing)


def require_text(what: str, text: object) -> None:
    """Raise unless a public name is one that a table can show."""
    fine = isinstance(text, str) and text == text.strip() and text != "" and text.isprintable()
    require(fine, f"{what} must be a printable text without spaces around it", text)


LongRule = Literal["refuse", "cut"]
MAX_STATES: Final = 65_535
"""Labels of states and actions are 16 bits wide on the wire."""
MAX_STEPS: Final = 10_000
BETWEEN: Final = ", "
"""Between the names of the parts of a state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of the columns that every log has.

    `propensity` is None where it is not known; `episode` where a person is one episode, and `episode` and `step` where
    every row is one.
    """

    person: str = "person"
    episode: str | None = "episode"
    step: str | None = "step"
    propensity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorb:
    """The padding of short episodes: a public action and reward in a public state, or in the last one (None)."""

    action: str
    state: str | None = None
    reward: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EpisodeMapping:
    """A public mapping from a log in long format to trajectories of H steps.

    Parameters
    ----------
    states
        The columns whose product is the state: `Categories` or `Bins`.
    actions
        The categories of the action column.
    reward, low, high
        The reward column and its public bounds.
    horizon
        The number of steps H.
    short, long
        What becomes of shorter and longer episodes: padding or None (refused); `"refuse"` or `"cut"`.
    columns
        The names of the columns of person, episode, step and propensity.
    first_step, steps
        The number of the first step; how steps are written: `"numbers"`, `"order"` or a format of time stamps.
    drop
        Reasons of the data check for which an episode is dropped.
    missing
        Texts that mean a missing value.
    decimal, delimiter, encoding
        Of CSV files; None: found in the file.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> mapping = EpisodeMapping.from_dict({
    ...     "states": [{"column": "ward", "categories": ["well", "sick"]}],
    ...     "actions": {"column": "drug", "categories": ["none", "pill"]},
    ...     "reward": {"column": "points", "low": 0, "high": 10}, "horizon": 3})
    >>> mapping.state_names, mapping.state({"ward": "sick"}), EpisodeMapping.from_dict(mapping.to_dict()) == mapping
    (('well', 'sick'), 'sick', True)
    """

    states: tuple[Categories | Bins, ...]
    actions: Categories
    reward: str
    low: float
    high: float
    horizon: int
    short: Absorb | None = None
    long: LongRule = "refuse"
    columns: Columns = Columns()
    first_step: int = 0
    steps: str = "numbers"
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value, beside the empty one."""
    decimal: Literal[".", ","] = "."
    delimiter: str | None = None
    """Of a CSV file; None: found in the header."""
    encoding: str | None = None
    """Of a CSV file; None: UTF-8, or what the byte order mark says."""

    def __post_init__(self) -> None:
        horizon = require_count("horizon", self.horizon)
        require(horizon <= MAX_STEPS, f"horizon must be at most {MAX_STEPS}", horizon)
        require_count("first_step", self.first_step, least=0)
        low, high = require_real("low", self.low), require_real("high", self.high)
        fine = low < high and math.isfinite(high - low)
        require(fine, "the bounds of rewards must satisfy low < high and be a finite distance apart", [low, high])
        require(self.long in get_args(LongRule), "long must be 'refuse' or 'cut'", self.long)
        if self.delimiter is not None:
            plain = len(self.delimiter) == 1 and self.delimiter not in '"\r\n'
            require(plain, "delimiter must be one character", self.delimiter)
        self._require_format()
        require(len(self.states) > 0, "states must have a column", 0)
        for name in self.used_columns:
            require_text("column", name)
        require(len(self.state_names) <= MAX_STATES, f"there must be at most {MAX_STATES} states", "more")
        require(len(set(self.state_names)) == len(self.state_names), "states must have different names", "one twice")
        require(len(self.action_names) <= MAX_STATES, f"there must be at most {MAX_STATES} actions", "more")
        c = self.columns
        every = (c.person, c.episode, c.step, c.propensity, self.reward, self.actions.column)
        roles = [name for name in every if name is not None] + [part.column for part in self.states]
        require(len(set(roles)) == len(roles), "every column must have one role", sorted(roles))
        if self.short is not None:
            if self.short.action not in self.action_names:
                raise UnknownName("action of the padding", self.short.action, self.action_names)
            require_real("reward of the padding", self.short.reward, low=low, high=high, hint="inside of the bounds")
            if self.short.state is not None:
                require_text("state of the padding", self.short.state)

    def _require_format(self) -> None:
        """Raise unless the entries about the format of a log can be followed."""
        fine = self.steps in ("numbers", "order") or (isinstance(self.steps, str) and "%" in self.steps)
        require(fine, "steps must be 'numbers', 'order' or the form of a time stamp such as '%d.%m.%Y'", self.steps)
        alone = self.columns.step is not None or (self.columns.episode is None and self.horizon == 1)
        require(alone, "a log without a step must have no episode and horizon 1: every row is one", self.horizon)
        for reason in self.drop:
            if reason not in DROPPABLE:
                raise UnknownName("reason to drop", str(reason), DROPPABLE)
        for text in self.missing:
            require_text("texts of missing values", text)
        require(self.decimal in (".", ","), "decimal must be '.' or ','", self.decimal)
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, TypeError):
                raise InvalidInput(f"encoding must be one that Python knows, got {self.encoding!r}") from None

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states: the product of the parts, then the padding's own state if it has a new one."""
        sizes = math.prod(len(part.names) for part in self.states)
        require(sizes <= MAX_STATES, f"there must be at most {MAX_STATES} states", sizes)
        names = tuple(BETWEEN.join(parts) for parts in product(*(part.names for part in self.states)))
        own = None if self.short is None else self.short.state
        return names if own is None or own in names else (*names, own)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""
        return self.actions.names

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The columns that are read, each once; no other one is looked at."""
        known = (self.columns.person, self.columns.episode, self.columns.step, self.columns.propensity)
        every = (*known, *(part.column for part in self.states), self.actions.column, self.reward)
        return tuple(dict.fromkeys(name for name in every if name is not None))

    def state_index(self, texts: Sequence[str | None]) -> int:
        """The number of the state that these texts of the state's columns stand for, -1 if one of them is unknown."""
        found = 0
        for part, text in zip(self.states, texts, strict=True):
            place = part.index(text)
            if place < 0:
                return -1
            found = found * len(part.names) + place
        return found

    def state(self, values: Mapping[str, object]) -> str:
        """The name of the state for these values by column: what a device asks before `NamedPolicy.act`."""
        missing = [part.column for part in self.states if part.column not in values]
        require(not missing, f"a state needs the columns {', '.join(p.column for p in self.states)}", missing)
        texts = ["" if values[part.column] is None else str(values[part.column]).strip() for part in self.states]
        found = self.state_index([None if text in ("", "nan", *self.missing) else text for text in texts])
        require(found >= 0, "the values must be those of a state of the mapping", "another value")
        return self.state_names[found]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; `from_dict` gives an equal mapping back."""
        c, short = self.columns, self.short
        known = {"person": c.person, "episode": c.episode, "step": c.step, "propensity": c.propensity}
        added: dict[str, Any] = {
            "steps": "numbers",
            "drop": [],
            "missing": [],
            "decimal": ".",
            "delimiter": None,
            "encoding": None,
        }
        now = {name: list(v) if isinstance(v := getattr(self, name), tuple) else v for name in added}
        return {
            "columns": {role: name for role, name in known.items() if name is not None or role in ("episode", "step")},
            "states": [part.to_dict() for part in self.states],
            "actions": self.actions.to_dict(),
            "reward": {"column": self.reward, "low": self.low, "high": self.high},
            "horizon": self.horizon,
            "short": "refuse"
            if short is None
            else {"action": short.action, "state": short.state, "reward": short.reward},
            "long": self.long,
            "first_step": self.first_step,
            **{name: list(value) if isinstance(value, tuple) else value for name, value in now.items()},
        }

    @classmethod
    @checked
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The mapping of a JSON or TOML file; anything missing or unknown is refused with the nearest name."""
        needed = ("states", "actions", "reward", "horizon")
        others = (
            "columns",
            "short",
            "long",
            "first_step",
            "steps",
            "drop",
            "missing",
            "decimal",
            "delimiter",
            "encoding",
        )
        _entries("a mapping", plain, needed, others)
        listed = plain["states"]
        parts = [listed] if isinstance(listed, Mapping) else listed
        require(isinstance(parts, list | tuple), "states must be a list of columns", type(parts).__name__)
        reward = _entries("reward", plain["reward"], ("low", "high"), ("column",))
        named = _entries("columns", plain.get("columns", {}), (), ("person", "episode", "step", "propensity"))
        actions = action_categories(plain["actions"])
        return cls(
            states=tuple(_part("state", part) for part in parts),
            actions=actions,
            reward=reward.get("column", "reward"),
            low=require_real("low", reward["low"]),
            high=require_real("high", reward["high"]),
            horizon=plain["horizon"],
            short=_short(plain.get("short", "refuse")),
            long=plain.get("long", "refuse"),
            columns=Columns(**named),
            first_step=plain.get("first_step", 0),
            steps=plain.get("steps", "numbers"),
            drop=_texts("drop", plain.get("drop", ())),
            missing=_texts("missing", plain.get("missing", ())),
            decimal=plain.get("decimal", "."),
            delimiter=plain.get("delimiter"),
            encoding=plain.get("encoding"),
        )

    @classmethod
    @checked
    def read(cls, path: str | Path) -> Self:
        """The mapping in a .json or .toml file."""
        place = Path(path)
        require(place.suffix in (".json", ".toml"), "a mapping must be a .json or .toml file", place.suffix)
        try:
            text = place.read_text(encoding="utf-8")
            plain = parse_json(text, str(path)) if place.suffix == ".json" else tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{path} must be a readable mapping in JSON or TOML: {type(error).__name__}") from None
        require(isinstance(plain, dict), f"{path} must hold one mapping", type(plain).__name__)
        return cls.from_dict(plain)


def action_categories(plain: object) -> Categories:
    """The actions of a mapping."""
    actions = _part("action", plain)
    if not isinstance(actions, Categories):
        raise InvalidInput("actions must be categories by name, got edges")
    return actions


def _part(role: str, plain: object) -> Categories | Bins:
    """One column of a state or action."""
    entries = _entries(f"a {role}", plain, (), ("column", "categories", "edges", "names", "missing"))
    column, missing = entries.get("column", role), entries.get("missing")
    if "categories" in entries:
        extra = [name for name in ("edges", "names") if name in entries]
        require(not extra, f"column '{column}' must have categories or edges", [*extra, "categories"])
        given = entries["categories"]
        listed = list(given.items()) if isinstance(given, Mapping) else given
        require(isinstance(listed, list | tuple), f"categories of '{column}' must be a list", type(given).__name__)
        return Categories(column=column, values=tuple(_category(column, one) for one in listed), missing=missing)
    require("edges" in entries, f"column '{column}' must have categories or edges", sorted(entries))
    edges, names = entries["edges"], entries.get("names")
    require(isinstance(edges, list | tuple), f"edges of '{column}' must be a list", type(edges).__name__)
    numbers = tuple(require_real(f"an edge of '{column}'", edge) for edge in edges)
    labels = None if names is None else tuple(map(str, names))
    return Bins(column=column, edges=numbers, labels=labels, missing=missing)


def _texts(name: str, plain: object) -> tuple[str, ...]:
    require(isinstance(plain, list | tuple), f"{name} must be a list of texts", type(plain).__name__)
    return tuple(str(one) for one in plain)  # type: ignore[attr-defined]


def _category(column: str, plain: object) -> tuple[str, tuple[str, ...]]:
    """A category: a name that stands for itself, or a pair of a name and the texts that stand for it."""
    if isinstance(plain, str | int) and not isinstance(plain, bool):
        return str(plain), (str(plain),)
    if not isinstance(plain, list | tuple) or len(plain) != 2:
        raise InvalidInput(f"a category of '{column}' must be a name, or a name and its texts")
    name, texts = plain
    several = list(texts) if isinstance(texts, list | tuple) else [texts]
    return str(name), tuple(str(text) for text in several)


def _short(plain: object) -> Absorb | None:
    """The rule for short episodes."""
    if plain == "refuse":
        return None
    hint = "write 'refuse', or the public action (and state) that pads them"
    require(isinstance(plain, Mapping), "short must be 'refuse' or a padding", plain, hint)
    entries = _entries("short", plain, ("action",), ("state", "reward"))
    state = entries.get("state")
    reward = require_real("reward of the padding", entries.get("reward", 0.0))
    return Absorb(action=str(entries["action"]), state=None if state is None else str(state), reward=reward)


def _entries(what: str, plain: object, needed: tuple[str, ...], others: tuple[str, ...]) -> dict[str, Any]:
    """The entries of an object, if they are the ones that it has."""
    if not isinstance(plain, Mapping):
        raise InvalidInput(f"{what} must be an object with entries, got {type(plain).__name__}")
    for name in plain:
        if name not in (*needed, *others):
            raise UnknownName(f"entry of {what}", str(name), (*needed, *others))
    missing = [name for name in needed if name not in plain]
    require(not missing, f"{what} must have {', '.join(needed)}", f"none of {missing}" if missing else "all")
    return dict(plain)
