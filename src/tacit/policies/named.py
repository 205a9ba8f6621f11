"""`NamedPolicy`: a policy with the names of its states and actions, its fall-back and its kill switch.

    act(step, state, coins)    the action's name for a state by name (or number), from step 0 on
    fallback                   the policy that answers instead once this one is killed: what was done before the study
    killed                     whether it is
    support                    which decisions are learned, and on how many noise units they rest; None: not known

G1  A killed policy answers with its fall-back at every step and in every state, and says so wherever it is shown; one
    without a fall-back cannot be killed, so no policy is ever silent.
G2  The file is JSON without code: `from_json` checks every entry and gives the same policy back bit for bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.documents import digest, parse_json, vouched, without_seal
from tacit.errors import InvalidInput, UnknownName, require, require_count, require_real
from tacit.notebook import block, grid
from tacit.policies.tables import DeterministicPolicy, Policy, policy_from_dict, policy_to_dict, tabular

POLICY_FORMAT: Final = "tacit-policy"
POLICY_VERSION: Final = 1
SUPPORTED_VERSION: Final = 2
"""Of policies that say which decisions are learned."""
ENTRIES: Final = ("format", "format_version", "horizon", "states", "actions", "policy", "fallback", "killed")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PolicySupport:
    """Which decisions of a policy are learned from released counts, and what they rest on."""

    learned: NDArray[np.bool_]
    """[H,S]: false where the default action stands because no action has enough visits."""
    noise_units: Floats
    """[H,S]: released visits of the action (of the most visited one, where it is the default) over the standard
    deviation of their noise."""
    threshold: float
    """Actions with more than so many noise units count as tried."""

    def __post_init__(self) -> None:
        learned, units = np.asarray(self.learned), np.asarray(self.noise_units, dtype=np.float64)
        fits = learned.dtype == np.bool_ and learned.shape == units.shape
        require(fits, "support must have a truth value and a number for every decision", learned.shape)
        finite = bool(np.isfinite(units).all()) and math.isfinite(self.threshold)
        require(finite, "support must be finite", "another")
        object.__setattr__(self, "learned", learned)
        object.__setattr__(self, "noise_units", units)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "learned": self.learned.tolist(), "noise_units": self.noise_units.tolist(), "threshold": self.threshold
        }  # fmt: skip

    @classmethod
    def from_dict(cls, plain: Any) -> PolicySupport:
        """The support that `to_dict` wrote."""
        names = {"learned", "noise_units", "threshold"}
        complete = isinstance(plain, dict) and set(plain) == names
        require(complete, f"support has the entries {', '.join(sorted(names))}", "others")
        threshold = require_real("threshold", plain["threshold"])
        try:
            units = np.array(plain["noise_units"], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"noise_units must be numbers: {error}") from error
        return cls(learned=np.array(plain["learned"]), noise_units=units, threshold=threshold)

    def words(self, step: int, state: int) -> str:
        """One decision, for tables: its support, marked where it is the default."""
        units = f"{self.noise_units[step, state]:.1f}"
        return units if self.learned[step, state] else f"default, {units}"

    @property
    def legend(self) -> str:
        """What the marks of a table mean."""
        return (
            f"{int(self.learned.sum())} of {self.learned.size} decisions are learned, the others are the default; in "
            "brackets: visits of the action in standard deviations of the noise, of the most visited one for a default "
            f"(learned: more than {self.threshold:.1f})"
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NamedPolicy:
    """A policy of a tabular world, by name.

    Parameters
    ----------
    policy
        The policy.
    states, actions
        Their names.
    fallback
        The policy that answers when this one is killed.
    killed
        Whether the kill switch was used.
    support
        Which decisions were learned from data, and how well they are supported.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> treat = DeterministicPolicy(np.array([[0, 1], [0, 0]]))
    >>> never = DeterministicPolicy(np.zeros((2, 2), dtype=np.int64))
    >>> named = NamedPolicy(policy=treat, states=("well", "sick"), actions=("wait", "pill"), fallback=never)
    >>> named.act(0, "sick"), named.act(1, "sick"), named.kill().act(0, "sick")
    ('pill', 'wait', 'wait')
    """

    policy: Policy
    states: tuple[str, ...]
    actions: tuple[str, ...]
    fallback: Policy | None = None
    killed: bool = False
    support: PolicySupport | None = None

    def __post_init__(self) -> None:
        for what, names in (("states", self.states), ("actions", self.actions)):
            texts = len(names) > 0 and all(isinstance(name, str) and name for name in names)
            require(texts and len(set(names)) == len(names), f"{what} must have different names", list(names))
        sizes = (len(self.states), len(self.actions))
        H = self.horizon
        for what, policy in (("policy", self.policy), ("fallback", self.fallback)):
            if policy is not None:
                table = policy.probabilities(sizes[1])
                require(table.shape == (H, *sizes), f"the {what} must have the shape {(H, *sizes)}", table.shape)
        if self.support is not None:
            shape = self.support.learned.shape
            require(shape == (H, sizes[0]), f"the support must have the shape {(H, sizes[0])}", shape)
        require(isinstance(self.killed, bool), "killed must be true or false", self.killed)
        hint = "give it the policy that was followed before"
        require(self.fallback is not None or not self.killed, "a killed policy must have a fallback", None, hint)

    @property
    def horizon(self) -> int:
        """How many steps an episode has."""
        return _horizon(self.policy)

    @property
    def current(self) -> Policy:
        """The policy that answers: the fall-back once this one is killed (G1)."""
        return self.fallback if self.killed and self.fallback is not None else self.policy

    def kill(self) -> NamedPolicy:
        """The same object, answering with its fall-back from now on."""
        return replace(self, killed=True)

    def act(self, step: int, state: str | int, coins: np.random.Generator | Random | None = None) -> str:
        """The name of the action at a step (from 0) in a state; where the policy draws lots, `coins` are its lots."""
        h = require_count("step", step, least=0)
        require(h < self.horizon, f"step must be below the horizon of {self.horizon}", step)
        row = self.to_numpy()[h, self.state_number(state)]
        certain = np.flatnonzero(row == 1.0)
        if len(certain) == 1:
            return self.actions[int(certain[0])]
        if coins is None:
            raise InvalidInput("this policy is stochastic at this step and state; pass coins, a numpy generator")
        # The first possible action whose cumulative probability exceeds a uniform number.
        possible = np.flatnonzero(row > 0.0)
        place = int(np.searchsorted(np.cumsum(row[possible]), coins.random(), side="right"))
        return self.actions[int(possible[min(place, len(possible) - 1)])]

    def state_number(self, state: str | int) -> int:
        """The number of a state that is given by name or by number."""
        if isinstance(state, str):
            if state not in self.states:
                raise UnknownName("state", state, self.states)
            return self.states.index(state)
        number = require_count("state", state, least=0)
        require(number < len(self.states), f"state must be below {len(self.states)}", state)
        return number

    def to_numpy(self) -> NDArray[np.float64]:
        """Probabilities[h,s,a] of the policy that answers."""
        return self.current.probabilities(len(self.actions))

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Rows of names for a table: a state and its action at every step, with percentages where lots are drawn.

        Where the support is known it stands behind each action.
        """
        shown = self.to_numpy()
        known = None if self.killed else self.support
        return tuple(
            (
                state,
                *(
                    self._words(shown[h, s]) + ("" if known is None else f" ({known.words(h, s)})")
                    for h in range(self.horizon)
                ),
            )
            for s, state in enumerate(self.states)
        )

    def _repr_html_(self) -> str:
        title = "policy by name" + (" (KILLED: its fall-back answers)" if self.killed else "")
        return block(title, grid(["state", *(f"step {h}" for h in range(self.horizon))], self.table()))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        known = {} if self.support is None else {"support": self.support.to_dict()}
        return {
            "format": POLICY_FORMAT,
            "format_version": SUPPORTED_VERSION if known else POLICY_VERSION,
            "horizon": self.horizon,
            "states": list(self.states),
            "actions": list(self.actions),
            "policy": policy_to_dict(self.policy),
            "fallback": None if self.fallback is None else policy_to_dict(self.fallback),
            "killed": self.killed,
            **known,
        }

    @classmethod
    @checked
    def from_dict(cls, plain: Mapping[str, Any]) -> NamedPolicy:
        """The policy that `to_dict` wrote; anything missing or unknown is refused (G2)."""
        version = plain.get("format_version")
        known = plain.get("format") == POLICY_FORMAT and version in (POLICY_VERSION, SUPPORTED_VERSION)
        require(known, f"a policy must be a {POLICY_FORMAT} of version 1 or 2", plain.get("format"))
        entries = ENTRIES if version == POLICY_VERSION else (*ENTRIES, "support")
        require(set(plain) == set(entries), f"a policy has the entries {', '.join(entries)}", sorted(plain))
        listed = isinstance(plain["states"], list) and isinstance(plain["actions"], list)
        require(listed, "states and actions must be lists of names", "another type")
        try:
            policy = _read(plain["policy"])
            fallback = None if plain["fallback"] is None else _read(plain["fallback"])
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(f"the tables of a policy must be complete: {error}") from error
        found = cls(
            policy=policy,
            states=tuple(plain["states"]),
            actions=tuple(plain["actions"]),
            fallback=fallback,
            killed=plain["killed"],
            support=PolicySupport.from_dict(plain["support"]) if version == SUPPORTED_VERSION else None,
        )
        require(plain["horizon"] == found.horizon, f"horizon must be that of the table, {found.horizon}", "another")
        return found

    def to_json(self) -> str:
        """The policy as a JSON text, with its digest.

        >>> named = NamedPolicy(policy=DeterministicPolicy(np.array([[1]])), states=("on",), actions=("a", "b"))
        >>> NamedPolicy.from_json(named.to_json()).act(0, "on")
        'b'
        """
        return json.dumps(vouched(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> NamedPolicy:
        """The policy that `to_json` wrote, or that stands in a file of `tacit learn` ; a digest must fit."""
        plain = parse_json(text, "a policy")
        if not isinstance(plain, dict):
            raise InvalidInput(f"a policy must be one JSON object, got {type(plain).__name__}")
        fits = plain.get("digest") in (None, digest(plain))
        require(fits, "a policy must be as it was written: its digest must fit", "another digest")
        return cls.from_dict(without_seal(plain))

    def _words(self, row: NDArray[np.float64]) -> str:
        certain = np.flatnonzero(row == 1.0)
        if len(certain) == 1:
            return self.actions[int(certain[0])]
        return ", ".join(f"{name} {p:.0%}" for name, p in zip(self.actions, row, strict=True) if p > 0.0)


def _horizon(policy: Policy) -> int:
    table = policy.actions if isinstance(policy, DeterministicPolicy) else policy.table
    return int(table.shape[0])


def _read(plain: Mapping[str, Any]) -> Policy:
    """A policy of a tabular world, with the types that its table must have."""
    found = tabular(policy_from_dict(plain))
    if isinstance(found, DeterministicPolicy):
        require(found.actions.dtype.kind in "iu", "actions of a policy must be whole numbers", found.actions.dtype.name)
    else:
        require(found.table.dtype.kind in "iuf", "probabilities must be numbers", found.table.dtype.name)
    return found
