"""The terms of a certificate: everything it depends on beside its claim and its events, each said in words and JSON.

A field of `Terms` says what it means (the text of the JSON Schema), which values it takes and how it is read off a
privatizer; nothing else has to be told about it. So a new one is one entry here, and `docs/certificate.schema.json`
written anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from tacit._version import __version__
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.errors import NotSupported, require, require_count, require_real

NoiseKind: TypeAlias = Literal["simulation", "secure"]
NOISE_KINDS: Final = ("simulation", "secure")
GROUPS: Final = (2, 10)
"""The sizes of groups for which a certificate says what is left."""
VERIFIER: Final = "tacit verify PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What terms are read off: a privatizer and what was asked for."""

    privatizer: Any
    """It has a name, a shape and a claim; under trust shuffle an `honest_fraction`."""
    noise: NoiseKind
    episodes: int
    users_per_batch: int

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised."""
        found: PrivacyClaim = self.privatizer.claim
        return found

    @property
    def batches(self) -> tuple[tuple[int, ...], int]:
        """(the different sizes of batches, how many batches), fixed beforehand; who is left over reports nothing."""
        planned = getattr(self.privatizer, "batches", None)
        if planned is not None:
            return tuple(sorted({batch.users for batch in planned})), len(planned)
        ends = getattr(self.privatizer, "ends", None)
        if ends is not None:
            return tuple(sorted({stop - start for start, stop in pairwise((0, *ends))})), len(ends)
        stages = [] if getattr(self.privatizer, "repeated", True) else self.privatizer.channels
        if stages:
            return tuple(sorted({stage.target for stage in stages})), len(stages)
        count = self.episodes // self.users_per_batch
        return (self.users_per_batch,) if count else (), count


def term(meaning: str, of: Callable[[Setting], Any], schema: Mapping[str, Any], *, compare: bool = True) -> Any:
    """A field of the terms: what it means, how it is read off a setting, the JSON it takes."""
    return field(compare=compare, metadata={"meaning": meaning, "of": of, "schema": schema})


def _sizes(setting: Setting) -> dict[str, int]:
    """The public sizes that this kind of release has."""
    shape, (different, count) = setting.privatizer.shape, setting.batches
    names = {"horizon": "horizon", "states": "num_states", "actions": "num_actions", "pairs": "pairs"}
    names["parameters"] = "dimension"
    if hasattr(shape, "features"):
        names = {"features": "features", "actions": "actions"}
    known = {name: int(getattr(shape, attribute)) for name, attribute in names.items() if hasattr(shape, attribute)}
    return {
        **known,
        "episodes": setting.episodes,
        "users_per_batch": max(different, default=setting.users_per_batch),
        "batches": count,
    }


def _public(setting: Setting) -> dict[str, str]:
    """What is declared to be nobody's data."""
    told = getattr(setting.privatizer, "public_losses", None)
    layered = hasattr(setting.privatizer.shape, "pairs")
    featured = hasattr(setting.privatizer.shape, "features")
    first = "public: the world has one first state" if layered else "private: part of the trajectory"
    sizes = setting.batches[0]
    listed = f"{', '.join(map(str, sizes[:4]))}{', ...' if sizes[4:] else ''} users" if sizes else "as planned"
    shown = "one user each" if sizes == (1,) else listed
    known = getattr(setting.privatizer, "known_transitions", False)
    return {
        **({"transitions": "public: known beforehand, nothing is counted"} if known else {}),
        **({} if told is None else {"losses": "public: declared to be nobody's data" if told else "private"}),
        "batch sizes": f"public: {shown}, fixed before the first of them comes",
        **({"rows": "private: names, bounds and categories are public"} if featured else {"first states": first}),
    }


def _honest(setting: Setting) -> float | None:
    return float(setting.privatizer.honest_fraction) if setting.claim.trust == "shuffle" else None


def _devices(setting: Setting) -> dict[str, int] | None:
    """Of the stage that counts on the fewest devices: how many, of at least and at most how many reports."""
    if setting.claim.trust != "shuffle":
        return None
    stages = [one for one in getattr(setting.privatizer, "channels", ()) if hasattr(one, "honest")]
    counted = [(int(one.honest), int(one.least), int(one.target)) for one in stages]
    sizes = setting.batches[0] or (setting.users_per_batch,)
    share = float(setting.privatizer.honest_fraction)
    honest, least, most = min(counted or [(int(share * users), users, users) for users in sizes])
    return {"honest": honest, "min": least, "max": most}


def unit_of(claim: PrivacyClaim, held: PrivacyClaim | None) -> dict[str, Any]:
    """Whom a claim protects, and what groups are left with if `held` is what holds of it."""
    groups: list[dict[str, float | None]] = []
    for size in GROUPS if claim.trust != "none" else ():
        epsilon: float | None = None
        delta: float | None = None
        with suppress(NotSupported):
            if held is not None:
                epsilon, delta = held.group(size).epsilon, held.group(size).delta
        groups.append({"size": size, "epsilon": epsilon, "delta": delta})
    return {**claim.unit.to_dict(), "groups": groups}


def _today(setting: Setting) -> str:
    """UTC; the variable SOURCE_DATE_EPOCH fixes it for results that must be the same byte for byte."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(UTC) if fixed is None else datetime.fromtimestamp(int(fixed), UTC)
    return now.date().isoformat()


UNIT: Final = {name: {"type": "integer", "minimum": 1} for name in ("reports", "per_stage")}
"""The JSON of a unit."""
_NUMBER: Final = {"type": ["number", "null"]}
_GROUP: Final = {
    "type": "object",
    "properties": {"size": {"type": "integer", "minimum": 2}, "epsilon": _NUMBER, "delta": _NUMBER},
    "required": ["size", "epsilon", "delta"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a certificate depends on; two of them are equal when they differ in version and date only."""

    noise: NoiseKind = term(  # noqa: RUF009 - a field, as all below
        "Where the noise comes from: 'simulation' is seeded, can be replayed and protects nobody; 'secure' is that of "
        "a release.",
        lambda setting: setting.noise,
        {"enum": list(NOISE_KINDS)},
    )
    honest_fraction: float | None = term(
        "Trust shuffle: the share of a batch's devices whose noise the guarantee counts on. At 1, one silent device "
        "voids a tight certificate. Null: the guarantee needs nobody else's noise.",
        _honest,
        {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
    )
    noise_devices: Mapping[str, int] | None = term(
        "Trust shuffle: how many devices of a batch have to add their noise ('honest'), of how many reports a batch "
        "has at least ('min') and at most ('max'). Null: the guarantee needs no other person's noise.",
        _devices,
        {
            "type": ["object", "null"],
            "properties": {name: {"type": "integer", "minimum": 1} for name in ("honest", "min", "max")},
            "required": ["honest", "min", "max"],
            "additionalProperties": False,
        },
    )
    public: Mapping[str, str] = term(
        "What is declared to be public or private: losses, batch sizes, first states, rows of features.",
        _public,
        {"type": "object", "additionalProperties": {"type": "string"}},
    )
    sizes: Mapping[str, int] = term(
        "Public sizes: horizon H, states S, actions A, pairs, features and parameters where there are some, episodes "
        "K, users of the largest batch, batches.",
        _sizes,
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    )
    mechanism: str = term(
        "Trust model and mechanism; its parameters are those of the events.",
        lambda setting: str(setting.privatizer.name),
        {"type": "string"},
    )
    unit: Mapping[str, Any] = term(
        "Whom the claim protects, a person with so many reports in all and so many in a stage, and what a group of "
        "such persons is left with (null: nothing).",
        lambda setting: unit_of(setting.claim, setting.claim),
        {
            "type": "object",
            "properties": {
                **UNIT,
                "groups": {"type": "array", "items": _GROUP},
            },
            "required": [*UNIT, "groups"],
            "additionalProperties": False,
        },
    )
    version: str = term(
        "The version of tacit that certified.", lambda _: __version__, {"type": "string"}, compare=False
    )
    date: str = term(
        "The day of certification, UTC.",
        _today,
        {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
        compare=False,
    )
    verifier: str = term(
        "The command that derives the certificate again and says whether it is true.",
        lambda _: VERIFIER,
        {"type": "string"},
    )

    def __post_init__(self) -> None:
        require(self.noise in NOISE_KINDS, "terms.noise must be 'simulation' or 'secure'", self.noise)
        if self.honest_fraction is not None:
            require_real("terms.honest_fraction", self.honest_fraction, low=0.0, high=1.0, open_low=True)
        if self.noise_devices is not None:
            found = dict(_entries("noise_devices", self.noise_devices))
            require(set(found) == {"honest", "min", "max"}, "terms.noise_devices has honest, min, max", sorted(found))
            for name, count in found.items():
                require_count(f"terms.noise_devices.{name}", count)
            ordered = found["honest"] <= found["min"] <= found["max"]
            require(ordered, "terms.noise_devices must be honest <= min <= max", found)
        for name, size in _entries("sizes", self.sizes):
            require_count(f"terms.sizes.{name}", size, least=0)
        texts = {name: getattr(self, name) for name in ("mechanism", "version", "date", "verifier")}
        for name, text in [*texts.items(), *_entries("public", self.public)]:
            require(isinstance(text, str), f"terms.{name} must be a text", text)
        require(is_day(self.date), "terms.date must be a day, YYYY-MM-DD", self.date)
        unit = {name: part for name, part in _entries("unit", self.unit) if name != "groups"}
        require(PrivacyUnit.from_dict(unit).to_dict() == unit, "terms.unit must be a unit and its groups", unit)
        for group in self.unit["groups"]:
            whole = set(group) == {"size", "epsilon", "delta"}
            require(whole, "terms.unit.groups must have size, epsilon and delta", sorted(group))
            require_count("terms.unit.groups.size", group["size"], least=2)
            for name in ("epsilon", "delta"):
                if group[name] is not None:
                    require_real(f"terms.unit.groups.{name}", group[name], low=0.0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in plain.items() if name != "noise_devices" or value is not None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Terms:
        """The terms that `to_dict` wrote; anything missing or unknown is an error."""
        names = {item.name for item in fields(cls)}
        plain = {"noise_devices": None, **plain}  # left out where it is null, and up to 0.8.0
        require(set(plain) == names, f"the terms of a certificate are {', '.join(sorted(names))}", sorted(plain))
        unit = plain["unit"]
        if isinstance(unit, Mapping) and "trajectories" in unit:  # before 0.4
            kept = {name: part for name, part in unit.items() if name != "trajectories"}
            unit = {**PrivacyUnit.from_dict({"trajectories": unit["trajectories"]}).to_dict(), **kept}
        return cls(**{**plain, "unit": unit})

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON Schema of `to_dict`."""
        return {
            "type": ["object", "null"],
            "properties": {
                item.name: {"description": item.metadata["meaning"], **item.metadata["schema"]} for item in fields(cls)
            },
            "required": [item.name for item in fields(cls) if item.name != "noise_devices"],
            "additionalProperties": False,
        }

    def with_also(self, other: Terms, claim: PrivacyClaim) -> Terms:
        """The terms of a person who is in both, under the claim for both: secure only where both are."""
        shares = [one.honest_fraction for one in (self, other) if one.honest_fraction is not None]
        texts = {
            name: {one.public[name]: None for one in (self, other) if name in one.public}
            for name in {**self.public, **other.public}
        }
        summed = {name: self.sizes[name] + other.sizes[name] for name in ("episodes", "batches")}
        largest = max(self.sizes["users_per_batch"], other.sizes["users_per_batch"])
        return replace(
            other,
            noise="secure" if self.noise == other.noise == "secure" else "simulation",
            honest_fraction=max(shares, default=None),
            noise_devices=other.noise_devices or self.noise_devices,
            public={name: "; and ".join(found) for name, found in texts.items()},
            sizes={**other.sizes, **self.sizes, **summed, "users_per_batch": largest},
            mechanism=f"{self.mechanism}, and {other.mechanism}",
            unit=unit_of(claim, claim),
        )

    def warnings(self, claim: PrivacyClaim) -> list[str]:
        """What whoever relies on a claim under these terms must know, in words."""
        found, K = [], self.sizes["episodes"]
        if claim.delta * K > 1.0:
            found.append(
                f"Delta {claim.delta:g} is above 1/K = {1.0 / K:.3g}: whoever publishes the data of one random user "
                "outright stays within it."
            )
        devices = self.noise_devices
        if devices is not None and devices["honest"] == devices["min"]:
            one = (
                "a batch"
                if devices["min"] == devices["max"]
                else f"a batch that has {devices['min']} of {devices['max']}"
            )
            found.append(
                f"The noise of all {devices['honest']} devices of {one} is counted on: one silent device voids a tight "
                "certificate (an honest fraction below 1 leaves room)."
            )
        return found

    def protected(self) -> str:
        """Whom the claim protects, and what groups are left with."""
        unit = PrivacyUnit(reports=self.unit["reports"], per_stage=self.unit["per_stage"])
        people = f"each person among up to {self.sizes['episodes']:,} reports: {unit.describe()}."
        for group in self.unit["groups"]:
            nothing = group["epsilon"] is None or group["delta"] is None
            left = "nothing" if nothing else f"epsilon {group['epsilon']:g}, delta {group['delta']:.3g}"
            people += f" Left to a group of {group['size']}: {left}."
        return people

    def lines(self) -> list[tuple[str, str]]:
        """The technical terms, (name, words) each."""
        devices = self.noise_devices
        counted = []
        if devices is not None:
            reports = " to ".join(dict.fromkeys((str(devices["min"]), str(devices["max"]))))
            counted = [f"counts on {devices['honest']} devices of {reports}"]
        sizes = (f"{name.replace('_', ' ')} {size}" for name, size in self.sizes.items())
        return [
            ("release", "; ".join([self.mechanism, f"{self.noise} noise", *counted, ", ".join(sizes)])),
            ("public", "; ".join(f"{name} {words}" for name, words in self.public.items())),
            ("written", f"tacit {self.version}, {self.date}"),
        ]


def is_day(text: str) -> bool:
    """Whether this is a day as YYYY-MM-DD.

    >>> is_day("2026-11-19"), is_day("2026-02-30"), is_day("20261119")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _entries(name: str, value: Any) -> list[tuple[str, Any]]:
    require(isinstance(value, Mapping), f"terms.{name} must be an object", value)
    return list(value.items())


def terms_of(privatizer: Any, *, noise: NoiseKind, episodes: int, users_per_batch: int) -> Terms:
    """The terms under which a privatizer's certificate stands."""
    require(noise in NOISE_KINDS, "noise must be 'simulation' or 'secure'", noise)
    setting = Setting(privatizer=privatizer, noise=noise, episodes=episodes, users_per_batch=users_per_batch)
    return Terms(**{item.name: item.metadata["of"](setting) for item in fields(Terms)})
