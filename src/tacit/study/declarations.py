"""Declarations of a study: what can happen in its world (its support), and which features of a state a policy sees.

    support    which states can follow a pair, where episodes can begin, which pairs can earn: what cannot move is not
               released (`tacit.support.Support`)
    features   the number of what is seen of every state: a device looks its states up before it encodes, and policies
               are tables over features

Both are public, part of the design, and never computed from anybody's data. No guarantee depends on their being true:
what a device encodes is a total public function of its trajectory (Lemma S9 (declared support)).

    support = {"moves": {"well": {"wait": ["well", "sick"]}, "gone": ["gone"]}, "starts": ["well"], "rewards": {...}}

By name, a list is complete (nothing else can follow, begin or earn), and what is not mentioned can happen. A list in
the place of actions is for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Ints
from tacit.environments.state_features import lifted
from tacit.environments.tabular import feature_map
from tacit.errors import InvalidInput, UnknownName, require
from tacit.policies import AnyPolicy, DeterministicPolicy, StochasticPolicy
from tacit.released.counts import CountShape
from tacit.support import Support

PARTS: Final = frozenset(("moves", "starts", "rewards"))
SHOWN: Final = 12
"""So many features are listed by name where people read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a policy sees of the states of a study.

    >>> seen = declared_features({"calm": "fine", "tense": "fine", "ill": "ill"}, ("calm", "tense", "ill"))
    >>> seen.names, seen.of, seen.seen([2, 0]).tolist()
    (('fine', 'ill'), (0, 0, 1), [1, 0])
    """

    names: tuple[str, ...]
    of: tuple[int, ...]
    """[S]: the number of the feature of every state."""

    def __post_init__(self) -> None:
        texts = all(isinstance(name, str) and name.strip() for name in self.names)
        require(
            texts and len(set(self.names)) == len(self.names), "features must have names, each of them once", "others"
        )
        feature_map(self.of, len(self.of))
        used = len(set(self.of))
        require(used == len(self.names), f"every one of the {len(self.names)} features must be seen somewhere", used)

    def seen(self, states: Sequence[int] | NDArray[np.integer]) -> Ints:
        """The features of states of this study."""
        return np.array(self.of, dtype=np.int64)[np.asarray(states, dtype=np.int64)]

    def lift(self, policy: AnyPolicy, actions: int) -> DeterministicPolicy | StochasticPolicy:
        """A policy over features as the policy over states that it is."""
        return lifted(policy, np.array(self.of, dtype=np.int64), actions)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"features": list(self.names), "of": list(self.of)}

    @classmethod
    def from_dict(cls, plain: object) -> Features:
        """The features that `to_dict` wrote."""
        must = "what is seen must have the lists 'features' and 'of'"
        if not isinstance(plain, Mapping) or set(plain) != {"features", "of"}:
            raise InvalidInput(f"{must}, got something else")
        require(all(isinstance(part, list | tuple) for part in plain.values()), must, "something else")
        whole = len(plain["of"]) > 0 and all(type(one) is int for one in plain["of"])
        require(whole, "what is seen of a state must be the number of a feature", "something else")
        return cls(names=tuple(plain["features"]), of=tuple(plain["of"]))


def declared_features(given: object, states: Sequence[str]) -> Features | None:
    """What is declared to be seen: by state name, or one feature (its name or number) for every state."""
    if given is None or isinstance(given, Features):
        fits = given is None or len(given.of) == len(states)
        require(fits, f"features must be given for all {len(states)} states", "others")
        return given
    if isinstance(given, Mapping):
        for name in given:
            _number("state", name, states)
        missing = [name for name in states if name not in given]
        require(not missing, "every state must have a feature", f"none for {', '.join(missing[:3])}")
        given = [given[name] for name in states]
    listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
    require(listed, "sees must give every state a feature, by name or number", type(given).__name__)
    found: list[Any] = list(given)  # type: ignore[call-overload]
    require(len(found) == len(states), f"features must be given for all {len(states)} states", len(found))
    if all(isinstance(one, str) for one in found):
        names = tuple(dict.fromkeys(found))
        return Features(names=names, of=tuple(names.index(one) for one in found))
    of = feature_map(found, len(states))
    return Features(names=tuple(f"feature {number}" for number in range(max(of) + 1)), of=of)


def declared_support(given: object, states: Sequence[str], actions: Sequence[str], horizon: int) -> Support | None:
    """What is declared to be possible: a `Support`, what its `to_dict` wrote, or lists by name.

    >>> line = declared_support({"moves": {"a": ["a", "b"], "b": ["b"]}, "starts": ["a"]}, ("a", "b"), ("go",), 2)
    >>> line.reach.astype(int).tolist(), line
    ([[1, 0], [1, 1]], Support(states=2, actions=1, horizon=2, 8 of 12 counters))
    """
    if given is None:
        return None
    if not isinstance(given, Support):
        good = isinstance(given, Mapping)
        require(
            good, "a support must be a Support, or lists of moves, starts and rewards by name", type(given).__name__
        )
        assert isinstance(given, Mapping)  # noqa: S101 - for the types
        whole = "stages" in given
        given = Support.from_dict(dict(given)) if whole else _by_name(given, states, actions, horizon)
    sizes, wanted = (given.horizon, given.num_states, given.num_actions), (horizon, len(states), len(actions))
    require(sizes == wanted, f"a support must have the horizon, states, actions {wanted} of its study", sizes)
    return given


def support_of(channel: Any) -> Support | None:
    """The support that a channel releases the counters of; None: it declares none."""
    shape = getattr(channel, "shape", None)
    return shape.support if isinstance(shape, CountShape) else None


@lru_cache(maxsize=64)
def seen_support(support: Support | None, sees: Features | None) -> Support | None:
    """What is declared to be possible, of what is seen."""
    return support if support is None or sees is None else support.seen_through(sees.of)


def declared_words(support: Support | None, sees: Features | None) -> dict[str, str]:
    """What is declared, for whoever reads a certificate or a page; empty where nothing is. The support is as seen."""
    found = {}
    if support is not None:
        kept, every = support.counters
        found["support"] = f"public: declared by the design; {kept:,} of {every:,} counters can move and are released"
    if sees is not None:
        more = "" if len(sees.names) <= SHOWN else ", ..."
        listed = ", ".join(sees.names[:SHOWN]) + more
        plural = "" if len(sees.names) == 1 else "s"
        count = f"{len(sees.names)} feature{plural} of {len(sees.of)} states"
        found["features"] = f"public: declared by the design; policies see {count} ({listed})"
    return found


def _by_name(given: Mapping[str, Any], states: Sequence[str], actions: Sequence[str], horizon: int) -> Support:
    """The support of lists by name."""
    unknown = sorted(str(name) for name in set(given) - PARTS)
    require(not unknown, "a support must have moves, starts and rewards, and nothing else", ", ".join(unknown))
    S, A = len(states), len(actions)
    moves, pays = np.ones((S, A, S), dtype=bool), np.ones((S, A), dtype=bool)
    for state, by in _table("moves", given.get("moves", {})):
        s = _number("state", state, states)
        for action, after in _table("moves", by if isinstance(by, Mapping) else dict.fromkeys(actions, by)):
            row = moves[s, _number("action", action, actions)]
            row[:] = False
            row[[_number("state", one, states) for one in _listed("moves", after)]] = True
    for state, by in _table("rewards", given.get("rewards", {})):
        row = pays[_number("state", state, states)]
        row[:] = False
        row[[_number("action", one, actions) for one in _listed("rewards", by)]] = True
    starts = None
    if "starts" in given:
        starts = np.zeros(S, dtype=bool)
        starts[[_number("state", one, states) for one in _listed("starts", given["starts"])]] = True
    return Support(moves=moves, horizon=horizon, starts=starts, rewards=pays)


def _table(part: str, given: object) -> list[tuple[Any, Any]]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{part} of a support must be lists by name, got a {type(given).__name__}")
    return list(given.items())


def _listed(part: str, given: object) -> list[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidInput(f"{part} of a support must be lists of names, got a {type(given).__name__}")
    return list(given)


def _number(kind: str, name: object, names: Sequence[str]) -> int:
    if not isinstance(name, str) or name not in names:
        raise UnknownName(kind, str(name), names)
    return names.index(name)
