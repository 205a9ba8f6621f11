"""Tabular Markov decision processes of finite horizon: the exact world that a simulation runs in.

A `TabularMDP` holds P[h,s,a,s'] (transition probabilities), r[h,s,a] (mean rewards in [0, 1]) and ρ[s] (first state).
It is validated once, when it is made, and never changes afterwards. A time-homogeneous model stores each array once,
with a leading axis of length 1, and shows it at every step through a view.

The checks at the end serve all models of this room: a refusal names the guilty row as the user would write it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from tacit.arrays import Floats
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.support import Support

if TYPE_CHECKING:
    import gymnasium

RewardKind = Literal["bernoulli", "deterministic"]
"""How a reward is drawn from its mean: a coin in {0, 1}, or the mean itself."""

# A row of probabilities may miss 1 by what adding up a few thousand rounded floats can cost, and by no more.
ROW_SUM_TOLERANCE = 1e-9


MAX_HORIZON: Final = 1_000_000
"""Tables over all steps are made for a run; longer episodes are refused before anything is computed."""


@final
class TabularMDP:
    """An immutable finite-horizon MDP with S states, A actions and H steps.

    Parameters
    ----------
    P
        Transition probabilities, [S, A, S'] (the same at every step) or [H, S, A, S'].
    r
        Mean rewards in [0, 1], [S, A] or [H, S, A].
    rho
        Distribution of the first state, [S].
    horizon
        The number H of steps of an episode.
    reward_kind
        `"bernoulli"` draws the reward of a step from {0, 1} with the given mean, `"deterministic"` pays the mean.
    name
        A label for tables and plots; it plays no part in equality.
    reward_scale, reward_offset
        The original unit of the rewards: one step is worth `reward_scale * r + reward_offset` there.
    state_names, action_names
        Readable names, one per state and action; by default `"0", "1", ...`. They play no part in equality.
    support
        The author's public declaration of what can happen (`tacit.support`); a run uses it where it is told to.
    features
        Named public maps from states to what a policy may see: features[name][s] numbers the feature of s from 0.

    Attributes
    ----------
    stage_P, stage_r
        The stored arrays, contiguous and read-only, with a leading axis of length 1 if P and r are both the same at
        every step, else of length H. Compiled code reads these.

    Examples
    --------
    >>> coin = TabularMDP(P=[[[0.5, 0.5]], [[0.5, 0.5]]], r=[[0.0], [1.0]], rho=[1.0, 0.0], horizon=3)
    >>> coin
    TabularMDP(states=2, actions=1, horizon=3, homogeneous, bernoulli rewards)
    >>> coin.P.shape, coin.stage_P.shape, np.shares_memory(coin.P, coin.stage_P)
    ((3, 2, 1, 2), (1, 2, 1, 2), True)
    """

    __slots__ = (
        "_fingerprint",
        "action_names",
        "features",
        "horizon",
        "name",
        "num_actions",
        "num_states",
        "reward_kind",
        "reward_offset",
        "reward_scale",
        "rho",
        "stage_P",
        "stage_r",
        "state_names",
        "support",
    )

    stage_P: Floats  # noqa: N815 - the P of the papers, stored by stage
    stage_r: Floats
    rho: Floats
    horizon: int
    num_states: int
    num_actions: int
    reward_kind: RewardKind
    name: str
    reward_scale: float
    reward_offset: float
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    support: Support | None
    features: Mapping[str, tuple[int, ...]]
    _fingerprint: str

    def __init__(
        self,
        *,
        P: ArrayLike,
        r: ArrayLike,
        rho: ArrayLike,
        horizon: int,
        reward_kind: RewardKind = "bernoulli",
        name: str = "",
        reward_scale: float = 1.0,
        reward_offset: float = 0.0,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        support: Support | None = None,
        features: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        H = require_count("horizon", horizon, most=MAX_HORIZON)
        kinds = get_args(RewardKind)
        require(reward_kind in kinds, f"reward_kind must be one of {', '.join(kinds)}", given=reward_kind)
        stage_P, stage_r = _stages("P", P, 4, H), _stages("r", r, 3, H)  # [1 or H, S, A, S'], [1 or H, S, A]
        S, A = stage_P.shape[1], stage_P.shape[2]
        require(stage_P.shape[3] == S, "the first and the last state axis of P must agree", given=np.shape(P))
        require(stage_r.shape[1:] == (S, A), f"r must have the S, A = {S}, {A} of P", given=np.shape(r))
        if stage_P.shape[0] != stage_r.shape[0]:  # one of them changes over time, so both are stored for each step
            stage_P = np.broadcast_to(stage_P, (H, S, A, S))
            stage_r = np.broadcast_to(stage_r, (H, S, A))
        first = floats("rho", rho)
        require(first.shape == (S,), f"rho must have one entry for each of the {S} states", given=np.shape(rho))
        check_probabilities("P", stage_P, "hsa")
        check_probabilities("rho", first, "")
        check_rewards(stage_r)
        freeze = object.__setattr__
        freeze(self, "stage_P", frozen(stage_P))
        freeze(self, "stage_r", frozen(stage_r))
        freeze(self, "rho", frozen(first))
        freeze(self, "horizon", H)
        freeze(self, "num_states", S)
        freeze(self, "num_actions", A)
        freeze(self, "reward_kind", reward_kind)
        freeze(self, "name", str(name))
        freeze(self, "reward_scale", require_real("reward_scale", reward_scale, low=0.0, open_low=True))
        freeze(self, "reward_offset", require_real("reward_offset", reward_offset))
        freeze(self, "state_names", names_of("state_names", state_names, S))
        freeze(self, "action_names", names_of("action_names", action_names, A))
        if support is not None:
            require(isinstance(support, Support), "support must be a tacit.support.Support", type(support).__name__)
            require(support.horizon == H, f"a support must have the horizon {H} of its world", support.horizon)
            support.require_true_of(self.stage_P, self.stage_r, self.rho)
        freeze(self, "support", support)
        freeze(self, "features", MappingProxyType({n: feature_map(f, S) for n, f in (features or {}).items()}))
        freeze(self, "_fingerprint", _digest(self))

    @property
    def P(self) -> Floats:
        """Transition probabilities [H, S, A, S'], a read-only view of `stage_P`."""
        return np.broadcast_to(self.stage_P, (self.horizon, *self.stage_P.shape[1:]))

    @property
    def r(self) -> Floats:
        """Mean rewards [H, S, A], a read-only view of `stage_r`."""
        return np.broadcast_to(self.stage_r, (self.horizon, *self.stage_r.shape[1:]))

    @property
    def homogeneous(self) -> bool:
        """Whether P and r are stored once for all steps."""
        return len(self.stage_P) == 1

    @property
    def stationary(self) -> bool:
        """The public declaration that transitions and rewards do not depend on the step.

        Whoever gives P and r without an axis of steps makes it; learners may be told (`auto` pools the steps then).
        """
        return self.homogeneous

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of everything that decides what happens: arrays, horizon, kind and unit of rewards.

        Names do not count; whether the model is stored as time-homogeneous does, since learners may be told that. What
        is declared (`support`, `features`) changes nothing that happens: it has a fingerprint of its own.
        """
        return self._fingerprint

    def original_value(self, value: float) -> float:
        """The value of a whole episode in the original unit of the rewards.

        >>> mdp = TabularMDP(P=[[[1.0]]], r=[[0.5]], rho=[1.0], horizon=4, reward_scale=10, reward_offset=-1)
        >>> mdp.original_value(2.0)
        16.0
        """
        return self.reward_scale * value + self.reward_offset * self.horizon

    @classmethod
    def from_gymnasium(
        cls,
        env: gymnasium.Env[Any, Any] | str,
        *,
        horizon: int,
        rho: ArrayLike | None = None,
        reward_kind: RewardKind = "deterministic",
    ) -> TabularMDP:
        """The model of a Gymnasium environment, or id, with Discrete spaces that exposes its table `P`.

        States in which an episode ends become absorbing. Rewards become their means r(s, a), also where they depend on
        the next state, rescaled to [0, 1]; see `tacit.environments.gym.from_gymnasium`, which this calls.
        """
        from tacit.environments.gym import from_gymnasium

        return from_gymnasium(env, horizon=horizon, rho=rho, reward_kind=reward_kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TabularMDP):
            return NotImplemented
        told = self.support == other.support and self.features == other.features
        return told and self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"a TabularMDP never changes: cannot set {attribute!r}; make a new one")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise AttributeError(f"a TabularMDP never changes: cannot delete {attribute!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that a copy in another process is validated and read-only too.
        arguments = {
            "P": self.stage_P,
            "r": self.stage_r,
            "rho": self.rho,
            "horizon": self.horizon,
            "reward_kind": self.reward_kind,
            "name": self.name,
            "reward_scale": self.reward_scale,
            "reward_offset": self.reward_offset,
            "state_names": self.state_names,
            "action_names": self.action_names,
            "support": self.support,
            "features": dict(self.features),
        }
        return _rebuild, (arguments,)

    def __repr__(self) -> str:
        label = f"{self.name!r}, " if self.name else ""
        stages = "homogeneous" if self.homogeneous else "time-dependent"
        return (
            f"TabularMDP({label}states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}, "
            f"{stages}, {self.reward_kind} rewards)"
        )


def _rebuild(arguments: dict[str, Any]) -> TabularMDP:
    """Undo `__reduce__`."""
    return TabularMDP(**arguments)


def _stages(name: str, values: ArrayLike, ndim: int, H: int) -> Floats:
    """The array with its step axis in front: length 1 if it was given without one, else 1 or H."""
    axes = "[S, A, S'] or [H, S, A, S']" if ndim == 4 else "[S, A] or [H, S, A]"
    array = floats(name, values)
    require(array.ndim in (ndim - 1, ndim), f"{name} must have the axes {axes}", given=array.shape)
    require(array.size > 0, f"{name} must have at least one state and one action", given=array.shape)
    staged = array if array.ndim == ndim else array[None]
    require(staged.shape[0] in (1, H), f"the step axis of {name} must have length horizon = {H}", given=staged.shape[0])
    return staged


def _digest(mdp: TabularMDP) -> str:
    """The fingerprint; the arrays are written in little-endian order so that it does not depend on the machine."""
    head = (mdp.stage_P.shape, mdp.horizon, mdp.reward_kind, mdp.reward_scale.hex(), mdp.reward_offset.hex())
    digest = hashlib.sha256(repr(head).encode())
    for array in (mdp.stage_P, mdp.stage_r, mdp.rho):
        digest.update(array.astype("<f8").tobytes())
    return digest.hexdigest()


def floats(name: str, values: ArrayLike) -> Floats:
    """The values as an array of float64, or a clear refusal."""
    try:
        array = np.asarray(values)
        numbers = array if np.iscomplexobj(array) else array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be a rectangular array of real numbers: {error}") from error
    require(not np.iscomplexobj(numbers), f"{name} must be a rectangular array of real numbers", given="complex ones")
    return numbers


def check_probabilities(name: str, rows: Floats, axes: str) -> None:
    """Every row is a distribution: finite, not negative, sums to 1."""
    bad = np.argwhere(~(np.isfinite(rows) & (rows >= 0.0)))
    if bad.size:
        index = tuple(bad[0])
        raise InvalidInput(
            f"{_cell(name, axes, rows.shape, index[:-1])} must hold finite probabilities that are not negative, "
            f"has {rows[index]!s} at next state {index[-1]}"
            if axes
            else f"{name}[s={index[0]}] must be a finite probability that is not negative, is {rows[index]!s}"
        )
    sums = rows.sum(axis=-1)
    off = np.argwhere(np.abs(np.atleast_1d(sums) - 1.0) > ROW_SUM_TOLERANCE)
    if off.size:
        index = tuple(off[0]) if axes else ()
        raise InvalidInput(f"{_cell(name, axes, rows.shape, index)} must sum to 1, sums to {float(sums[index]):.10g}")


def check_rewards(stage_r: Floats) -> None:
    """Every mean reward lies in [0, 1]."""
    bad = np.argwhere(~((stage_r >= 0.0) & (stage_r <= 1.0)))
    if bad.size:
        index = tuple(bad[0])
        raise InvalidInput(
            f"{_cell('r', 'hsa', stage_r.shape, index)} must lie in [0, 1], is {stage_r[index]!s}; "
            "rescale the rewards and keep their unit in reward_scale and reward_offset"
        )


def frozen(array: Floats) -> Floats:
    """A contiguous copy that nobody else can write to; adding 0 turns -0.0 into 0.0."""
    copy = np.array(array, dtype=np.float64, order="C", copy=True)
    copy += 0.0
    copy.flags.writeable = False
    return copy


def names_of(label: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The given names, checked, or the numbers from 0."""
    if names is None:
        return tuple(str(i) for i in range(count))
    listed = tuple(str(name) for name in names)
    require(
        len(listed) == count and len(set(listed)) == count, f"{label} must be {count} different names", given=listed
    )
    return listed


def feature_map(features: Sequence[int], count: int) -> tuple[int, ...]:
    """The number of the feature of each state, checked: whole numbers from 0, each of them used.

    >>> feature_map([0, 1, 1], 3)
    (0, 1, 1)
    """
    listed = np.asarray(features)
    good = listed.shape == (count,) and listed.dtype.kind in "iu"
    require(good, f"features must number the {count} states by whole numbers", np.shape(features))
    used = np.unique(listed)
    require(
        bool((used == np.arange(len(used))).all()), "features must be numbered from 0 without gaps", "other numbers"
    )
    return tuple(int(f) for f in listed)


def _cell(name: str, axes: str, shape: tuple[int, ...], index: tuple[Any, ...]) -> str:
    """Name an entry as the user would write it; the step is left out where there is only one stage."""
    parts = [f"{axis}={i}" for axis, i in zip(axes, index, strict=True) if not (axis == "h" and shape[0] == 1)]
    return f"{name}[{', '.join(parts)}]" if parts else name
