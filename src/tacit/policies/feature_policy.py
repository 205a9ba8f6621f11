"""`FeaturePolicy`: what to do with a row of features, by name: the action with the largest linear value.

    value_a(x) = low + (high − low) (1/2 + ⟨x, θ_a⟩)      x = features.encode(row)
    act(row)                                              the action with the largest value, the first of equal ones

The policy holds one θ of every action, or several draws of a posterior, of which lots choose one. A killed policy
answers with its fall-back. Everything here is public.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats
from tacit.documents import digest, parse_json, vouched, without_seal
from tacit.errors import InvalidInput, require, require_real
from tacit.features import Features
from tacit.notebook import block, grid
from tacit.policies.linear import LinearPolicy
from tacit.policies.tables import policy_from_dict, policy_to_dict

FEATURE_POLICY_FORMAT: Final = "tacit-feature-policy"
FEATURE_POLICY_VERSION: Final = 1
ENTRIES: Final = (
    "format", "format_version", "features", "actions", "reward", "policy", "fallback", "killed",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FeaturePolicy:
    """A linear policy over declared features, by name.

    >>> space = Features(age=(0, 100), intercept=True, norm=1.0)
    >>> policy = FeaturePolicy(features=space, actions=("wait", "walk"), reward=(0.0, 1.0),
    ...                        policy=LinearPolicy(np.array([[[0.1, 0.0], [0.1, 0.3]]]), actions=2))
    >>> policy.act({"age": 20}), policy.act({"age": 80})
    ('wait', 'walk')
    """

    features: Features
    actions: tuple[str, ...]
    reward: tuple[float, float]
    """The public bounds of rewards."""
    policy: LinearPolicy
    """One parameter per action."""
    fallback: tuple[float, ...] | None = None
    """The probabilities of the actions that a killed policy answers with, whatever the row."""
    killed: bool = False

    def __post_init__(self) -> None:
        require(isinstance(self.features, Features), "features must be tacit.Features", type(self.features).__name__)
        object.__setattr__(self, "actions", require_actions(self.actions))
        object.__setattr__(self, "reward", require_bounds(self.reward))
        linear = isinstance(self.policy, LinearPolicy)
        require(linear, "a policy over features must be a LinearPolicy", type(self.policy).__name__)
        shape = (len(self.actions), self.features.dimension)
        fits = self.policy.actions == shape[0] and self.policy.coefficients.shape[1:] == shape
        rule = f"coefficients must have the shape [draws, {shape[0]}, {shape[1]}]"
        require(fits, rule, self.policy.coefficients.shape)
        if self.fallback is not None:
            p = tuple(require_real("the probability of a fall-back action", one, 0.0, 1.0) for one in self.fallback)
            whole = len(p) == len(self.actions) and abs(sum(p) - 1.0) < 1e-9
            require(whole, "the probabilities of the fall-back must be one per action and add up to 1", list(p))
            object.__setattr__(self, "fallback", p)
        require(isinstance(self.killed, bool), "killed must be true or false", self.killed)
        require(self.fallback is not None or not self.killed, "a killed policy must have a fallback", None)

    def kill(self) -> FeaturePolicy:
        """The same object, answering with its fall-back from now on."""
        return replace(self, killed=True)

    def act(self, row: Any, coins: np.random.Generator | None = None) -> str:
        """The name of the action for one row; where there are several draws, `coins` choose one of them."""
        p = self.probabilities(row)
        require(len(p) == 1, "act answers for one row", len(p))
        certain = np.flatnonzero(p[0] == 1.0)
        if len(certain) == 1:
            return self.actions[int(certain[0])]
        if coins is None:
            raise InvalidInput("this policy is stochastic; pass coins, a numpy generator")
        return self.actions[int(coins.choice(len(self.actions), p=p[0]))]

    def probabilities(self, rows: Any) -> Floats:
        """[n,actions]: with which probability each action is taken; the fall-back for certain if it is killed."""
        return self.probabilities_of(self.features.encode(rows))

    def probabilities_of(self, x: Floats) -> Floats:
        """The same for encoded rows[n,d]."""
        if self.killed and self.fallback is not None:
            return np.tile(np.array(self.fallback), (len(x), 1))
        return self.policy.probabilities_of(x)

    def values(self, rows: Any) -> Floats:
        """[n,actions]: the expected rewards, in the units of the bounds; the mean over the draws."""
        low, high = self.reward
        return np.asarray(
            low + (high - low) * (0.5 + self.features.encode(rows) @ self.policy.coefficients.mean(axis=0).T)
        )

    def table(self) -> tuple[tuple[str, ...], ...]:
        """A row per feature: its name and how much a whole unit of its number adds to the reward of every action."""
        theta = self.policy.coefficients.mean(axis=0) * (self.reward[1] - self.reward[0])
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
            "policy": policy_to_dict(self.policy),
            "fallback": None if self.fallback is None else list(self.fallback),
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
            policy = policy_from_dict(plain["policy"])
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"the numbers of a policy must be complete: {type(error).__name__}") from error
        named = {name: plain[name] for name in ("actions", "reward", "fallback", "killed")}
        listed = named["fallback"] is None or isinstance(named["fallback"], list)
        require(listed, "the fall-back of a policy must be a list of probabilities, or null", "another type")
        return cls(features=Features.from_dict(plain["features"]), policy=policy, **named)  # type: ignore[arg-type]

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
