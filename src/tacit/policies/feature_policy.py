"""`FeaturePolicy`: what to do with a row of features, by name: the action with the largest linear value.

    value_a(x) = low + (high − low) (1/2 + ⟨x, θ_a⟩)      x = features.encode(row)
    act(row)                                              the action with the largest value, the first of equal ones

`parameters` holds one θ of every action, or several draws of a posterior (`explore`): a device takes one of them, and
keeps to it. A killed policy answers with its fall-back action. Everything here is public.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.documents import digest, parse_json, vouched, without_seal
from tacit.errors import InvalidInput, UnknownName, require, require_count, require_real
from tacit.features import Features
from tacit.notebook import block, grid

FEATURE_POLICY_FORMAT: Final = "tacit-feature-policy"
FEATURE_POLICY_VERSION: Final = 1
ENTRIES: Final = (
    "format", "format_version", "features", "actions", "reward", "parameters", "fallback", "killed",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FeaturePolicy:
    """A linear policy over declared features.

    >>> space = Features(age=(0, 100), intercept=True, norm=1.0)
    >>> policy = FeaturePolicy(features=space, actions=("wait", "walk"), reward=(0.0, 1.0),
    ...                        parameters=np.array([[[0.1, 0.0], [0.1, 0.3]]]))
    >>> policy.act({"age": 20}), policy.act({"age": 80})
    ('wait', 'walk')
    """

    features: Features
    actions: tuple[str, ...]
    reward: tuple[float, float]
    """The public bounds of rewards."""
    parameters: Floats
    """[draws, actions, d]: θ."""
    fallback: str | None = None
    """The action that a killed policy answers with."""
    killed: bool = False

    def __post_init__(self) -> None:
        require(isinstance(self.features, Features), "features must be tacit.Features", type(self.features).__name__)
        object.__setattr__(self, "actions", require_actions(self.actions))
        object.__setattr__(self, "reward", require_bounds(self.reward))
        shape = (len(self.actions), self.features.dimension)
        fits = self.parameters.ndim == 3 and self.parameters.shape[1:] == shape and len(self.parameters) > 0
        require(fits, f"parameters must have the shape [draws, {shape[0]}, {shape[1]}]", self.parameters.shape)
        require(bool(np.isfinite(self.parameters).all()), "parameters must be finite numbers", "others")
        if self.fallback is not None and self.fallback not in self.actions:
            raise UnknownName("fall-back action", self.fallback, self.actions)
        require(isinstance(self.killed, bool), "killed must be true or false", self.killed)
        require(self.fallback is not None or not self.killed, "a killed policy must have a fallback", None)

    @property
    def draws(self) -> int:
        """How many parameters there are to take one of."""
        return len(self.parameters)

    def taking(self, draw: int) -> FeaturePolicy:
        """The policy of one device: with one of the draws."""
        j = require_count("draw", draw, least=0)
        require(j < self.draws, f"draw must be below {self.draws}", j)
        return replace(self, parameters=self.parameters[j : j + 1])

    def kill(self) -> FeaturePolicy:
        """The same object, answering with its fall-back from now on."""
        return replace(self, killed=True)

    def choices(self, rows: Any) -> Ints:
        """[draws,n]: the numbers of the actions for rows in any form that `Features.encode` takes."""
        return best_actions(self.features.encode(rows), self.parameters)

    def act(self, row: Any, coins: np.random.Generator | Random | None = None) -> str:
        """The name of the action for one row; where there are several draws, `coins` choose one of them."""
        if self.killed and self.fallback is not None:
            return self.fallback
        chosen = self.choices(row)
        require(chosen.shape[1] == 1, "act answers for one row", chosen.shape[1])
        if self.draws == 1:
            return self.actions[int(chosen[0, 0])]
        if coins is None:
            raise InvalidInput("this policy has several draws: take one of them, or hand over coins, a numpy generator")
        return self.actions[int(chosen[int(coins.random() * self.draws), 0])]

    def probabilities(self, rows: Any) -> Floats:
        """[n,actions]: the share of the draws that take each action; of the fall-back if this one is killed."""
        chosen = self.choices(rows)
        if self.killed and self.fallback is not None:
            chosen = np.full((1, chosen.shape[1]), self.actions.index(self.fallback))
        return np.asarray(np.mean(chosen[:, :, None] == np.arange(len(self.actions)), axis=0))

    def values(self, rows: Any) -> Floats:
        """[n,actions]: the expected rewards, in the units of the bounds; the mean over the draws."""
        low, high = self.reward
        return np.asarray(low + (high - low) * (0.5 + self.features.encode(rows) @ self.parameters.mean(axis=0).T))

    def table(self) -> tuple[tuple[str, ...], ...]:
        """A row per feature: its name and how much a whole unit of its number adds to the reward of every action."""
        theta = self.parameters.mean(axis=0) * (self.reward[1] - self.reward[0])
        return tuple((name, *(f"{value:+.4g}" for value in theta[:, i])) for i, name in enumerate(self.features.names))

    def _repr_html_(self) -> str:
        title = "policy over features" + (" (KILLED: its fall-back answers)" if self.killed else "")
        return block(title, grid(["feature", *self.actions], self.table()))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "format": FEATURE_POLICY_FORMAT,
            "format_version": FEATURE_POLICY_VERSION,
            "features": self.features.to_dict(),
            "actions": list(self.actions),
            "reward": list(self.reward),
            "parameters": self.parameters.tolist(),
            "fallback": self.fallback,
            "killed": self.killed,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FeaturePolicy:
        """The policy that `to_dict` wrote; anything missing or unknown is refused."""
        known = (plain.get("format"), plain.get("format_version")) == (FEATURE_POLICY_FORMAT, FEATURE_POLICY_VERSION)
        rule = f"a policy must be a {FEATURE_POLICY_FORMAT} of version {FEATURE_POLICY_VERSION}"
        require(known, rule, plain.get("format"))
        require(set(plain) == set(ENTRIES), f"a policy has the entries {', '.join(ENTRIES)}", sorted(plain))
        try:
            parameters = np.array(plain["parameters"], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the parameters of a policy must be complete: {type(error).__name__}") from error
        named = {name: plain[name] for name in ("actions", "reward", "fallback", "killed")}
        return cls(features=Features.from_dict(plain["features"]), parameters=parameters, **named)

    def to_json(self) -> str:
        """The policy as a JSON text, with its digest."""
        return json.dumps(vouched(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FeaturePolicy:
        """The policy that `to_json` wrote; a digest must fit."""
        plain = parse_json(text, "a policy")
        if not isinstance(plain, dict):
            raise InvalidInput(f"a policy must be one JSON object, got {type(plain).__name__}")
        fits = plain.get("digest") in (None, digest(plain))
        require(fits, "a policy must be as it was written: its digest must fit", "another digest")
        return cls.from_dict(without_seal(plain))


def best_actions(x: Floats, parameters: Floats) -> Ints:
    """[draws,n]: the action with the largest ⟨x, θ⟩, the first of equal ones.

    >>> best_actions(np.array([[1.0, 0.0]]), np.array([[[0.2, 0.0], [0.2, 0.5]]])).tolist()
    [[0]]
    """
    return np.asarray(np.argmax(x @ parameters.transpose(0, 2, 1), axis=2), dtype=np.int64)


def require_actions(actions: Any) -> tuple[str, ...]:
    """The names of at least two actions, or raise.

    >>> require_actions(["wait", "walk"])
    ('wait', 'walk')
    """
    listed = isinstance(actions, list | tuple) and all(isinstance(name, str) for name in actions)
    plain = listed and all(name.isprintable() and name.strip() == name != "" for name in actions)
    require(plain, "actions must be a list of printable names without spaces around them", actions)
    require(len(actions) > 1, "there must be at least two actions to choose from", list(actions))
    require(len(set(actions)) == len(actions), "actions must have different names", list(actions))
    return tuple(actions)


def require_bounds(reward: Any) -> tuple[float, float]:
    """The bounds (low, high) of rewards, or raise."""
    pair = isinstance(reward, list | tuple) and len(reward) == 2
    require(pair, "reward must be a pair of public bounds (low, high)", reward)
    low, high = require_real("the lower bound of rewards", reward[0]), require_real("the upper bound", reward[1])
    fine = low < high and bool(np.isfinite(high - low))
    require(fine, "the bounds of rewards must satisfy low < high", [low, high], "declare them before looking at data")
    return low, high
