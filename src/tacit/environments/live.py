"""Worlds without a table: whatever steps like Gymnasium is a source of users.

A `LiveWorld` is the public description of such a world, fixed before anybody comes: which environment, which
discretiser, how many decisions, how many of its steps one decision lasts, between which bounds rewards lie. Nothing of
it is learned from data, and nothing in it is true in the sense in which a `TabularMDP` is: no optimum is known, so
there is no regret, only returns with intervals.

    reward     a decision's sum of rewards, clipped to the declared bounds [low, high] and scaled to [0, 1]
    padding    an episode that ends early goes on in the state "ended", where every action earns 0 and changes nothing
    cut        an episode that has not ended after the last decision is left there
    rounding   under shuffle and local trust devices round each reward to 0 or 1, with its scaled value as probability

How a live world is written in one line: `gymnasium:ID,option=value,...`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.environments.discretise import (
    Discretiser,
    Function,
    Rows,
    by_name,
    carry,
    discretiser_from_dict,
    discretiser_of,
)
from tacit.environments.live_sources import (
    PRESETS,
    LivePreset,
    is_id,
    make_source,
    name_of,
    plain_options,
    preset_of,
    register_in_worker,
    source_of,
    spec_for_workers,
    spec_of,
)
from tacit.errors import (
    ForeignCode,
    InvalidInput,
    NotSupported,
    UnknownName,
    require,
    require_count,
    require_real,
    with_suggestions,
)
from tacit.features import Features
from tacit.policies import Policy, policy_from_dict, policy_to_dict
from tacit.support import Support
from tacit.system import available_memory, require_free

LIVE_PREFIX: Final = "gymnasium:"
"""How a live world is named where environments are: `gymnasium:Blackjack-v1`."""
EVALUATION: Final = 2_000
"""Fresh episodes with which a policy is measured, unless somebody chooses another number."""
ENDED: Final = "ended"
ENTRIES: Final = ("source", "made_by_function", "options", "horizon", "repeat", "discretiser", "rewards", "ends",
                  "stationary", "evaluation", "vector")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorld:
    """A Gymnasium environment as a source of users: its public description, which makes the environment on demand.

    Built by `live`, which fills in what is known about an id and checks the whole against the environment's spaces.

    Attributes
    ----------
    source, made_by_function, options
        The id or function that makes the environment, and with which options.
    horizon, repeat
        Decisions of an episode, and steps of the environment per decision.
    discretiser
        The public rule from observations to states.
    low, high
        Public bounds of the reward of a decision.
    num_actions, first_action
        The number of actions, and the environment's number of the first one.
    ends, stationary, support, rounded
        Public declarations about ends, steps, possible moves and rounding.
    evaluation, vector
        Fresh episodes that measure a policy; whether environments are stepped together.
    policies, baseline
        Named policies of the world, and the one in use.
    read
        Whether a file describes it; then no code that the file names is run.

    Examples
    --------
    >>> import tacit
    >>> world = tacit.live("Blackjack-v1")
    >>> isinstance(world, LiveWorld), world.horizon, world.num_actions
    (True, 4, 2)
    """

    source: str
    """A Gymnasium id, or ``package.module:function`` of a function that makes the environment."""
    made_by_function: bool
    options: tuple[tuple[str, Any], ...]
    """What the environment is made with, by name."""
    horizon: int
    repeat: int
    """How many steps of the environment one decision lasts."""
    discretiser: Discretiser
    low: float
    high: float
    num_actions: int
    first_action: int
    ends: bool
    """Whether episodes may end before the horizon; then there is a state more, "ended"."""
    stationary: bool
    """The public declaration that transitions and rewards do not depend on the step."""
    evaluation: int
    vector: bool | None
    """True, False, or None: vector environments where the environment brings its own."""
    policies: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] = ()
    """Named policies, actions[h][s] each: what people do already."""
    support: Support | None = None
    """The public declaration of what can happen, over the states of the discretiser; nobody can check it."""
    rounded: bool = field(default=True, compare=False)
    """Whether counts are made of rewards that were rounded to 0 or 1; the trust model of a run decides."""
    baseline: Policy | None = field(default=None, compare=False)
    """The policy that a run is measured against; the run decides."""
    read: bool = field(default=False, compare=False)
    """Whether a file describes it: then no code that the file names is run, and only presets can be made."""

    @property
    def num_states(self) -> int:
        """The states of the discretiser, and "ended" where episodes may end."""
        return self.discretiser.size + int(self.ends)

    @property
    def ended(self) -> int:
        """The number of the state of an episode that has ended."""
        return self.discretiser.size

    @property
    def name(self) -> str:
        """The id, or the name of the function."""
        return self.source

    @property
    def state_names(self) -> tuple[str, ...]:
        """Those of the discretiser, then "ended"."""
        return (*self.discretiser.names(), *((ENDED,) if self.ends else ()))

    @property
    def action_names(self) -> tuple[str, ...]:
        """The numbers of the actions, as the environment has them."""
        return tuple(str(self.first_action + a) for a in range(self.num_actions))

    @property
    def reward_scale(self) -> float:
        """One decision is worth `reward_scale * r + reward_offset` in the environment's own unit."""
        return self.high - self.low

    @property
    def reward_offset(self) -> float:
        """The lower bound of a decision's reward."""
        return self.low

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values of everything that is public about it."""
        told = {} if self.support is None else {"support": self.support.to_dict()}
        return told | {
            "source": self.source,
            "made_by_function": self.made_by_function,
            "options": {name: list(v) if isinstance(v, tuple) else v for name, v in self.options},
            "horizon": self.horizon,
            "repeat": self.repeat,
            "discretiser": self.discretiser.to_dict(),
            "rewards": [self.low, self.high],
            "ends": self.ends,
            "stationary": self.stationary,
            "evaluation": self.evaluation,
            "vector": self.vector,
            "actions": [self.first_action, self.num_actions],
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LiveWorld:
        """The world that `to_dict` wrote, as it is stated: nothing is imported and no environment is made."""
        return cls._stated(plain, PRESETS.get(str(plain.get("source")), LivePreset()))

    @classmethod
    def _stated(cls, plain: Mapping[str, Any], known: LivePreset) -> LiveWorld:
        entries = set(plain) - {"support", "actions"} == set(ENTRIES)
        require(entries, f"a live world has the entries {', '.join(ENTRIES)}", sorted(plain))
        first, count = plain.get("actions", (0, known.actions))
        if count is None:
            raise ForeignCode(
                f"{plain['source']} is code that the file names, which is not run, and only that code knows how many "
                "actions there are: tacit 0.8 did not write it"
            )
        return build_live(
            known,
            (first, require_count("actions", count)),
            source=str(plain["source"]),
            by_function=bool(plain["made_by_function"]),
            options=dict(plain["options"]),
            horizon=plain["horizon"],
            repeat=plain["repeat"],
            discretise=discretiser_from_dict(plain["discretiser"]),
            rewards=tuple(plain["rewards"]),
            ends=plain["ends"],
            stationary=plain["stationary"],
            evaluation=plain["evaluation"],
            vector=plain["vector"],
            support=Support.from_dict(plain["support"]) if "support" in plain else None,
        )

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the public description; the environment itself is known by its id only."""
        plain = {"live": 1, **self.to_dict()}
        del plain["actions"]  # they follow from the source, and 0.8 did not state them
        return hashlib.sha256(json.dumps(plain, sort_keys=True, allow_nan=False).encode()).hexdigest()

    def make(self) -> gymnasium.Env[Any, Any]:
        """A fresh environment.

        Raises
        ------
        ForeignCode
            If a file names the code that makes it, and not the caller.
        """
        preset = self.source in PRESETS and not self.options and not isinstance(self.discretiser, Function)
        if self.read and not preset:
            raise ForeignCode(
                f"{self.source} is code that a file names, and what was read is not run: pass the environment "
                f"yourself, environment=tacit.live(...) or --environment {LIVE_PREFIX}..."
            )
        return make_source(self.source, dict(self.options), by_function=self.made_by_function)

    def make_vector(self, width: int) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """So many environments that step together: the environment's own way, or else one after the other if asked.

        None where single environments are to be stepped.
        """
        spec = None if self.made_by_function or self.read else spec_of(self.source)
        own = spec is not None and spec.vector_entry_point is not None
        if self.vector is False or (self.vector is None and not own):
            return None
        if own:
            mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
            made = gymnasium.make_vec(self.source, num_envs=width, vectorization_mode=mode, **dict(self.options))
        else:
            made = gymnasium.vector.SyncVectorEnv([self.make for _ in range(width)])
        # Only then is the observation after the last step that step's own, and not the next episode's first.
        next_step = made.metadata.get("autoreset_mode") == gymnasium.vector.AutoresetMode.NEXT_STEP
        return made if next_step else None

    def policy_table(self, name: str) -> tuple[tuple[int, ...], ...] | None:
        """The named policy of this world, or None."""
        return dict(self.policies).get(name)

    def for_run(self, *, rounded: bool, baseline: Policy | None) -> LiveWorld:
        """The same world as one run uses it."""
        return replace(self, rounded=rounded, baseline=baseline)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the description: a copy in another process makes its own environments. What that process could not
        # find by name, functions of a script or notebook and ids that it registered, comes along.
        baseline = None if self.baseline is None else policy_to_dict(self.baseline)
        names = [self.source] if self.made_by_function else []
        names += [self.discretiser.function] if isinstance(self.discretiser, Function) else []
        carried = {name: by_name(name) for name in names if name.startswith("__main__:") and not self.read}
        spec = None if self.made_by_function or self.read else spec_for_workers(self.source)
        return _rebuild, (self.to_dict(), self.rounded, baseline, carried, spec, self.read)

    def __repr__(self) -> str:
        sizes = f"states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}"
        return f"LiveWorld({self.source!r}, {sizes}, rewards in [{self.low:g}, {self.high:g}])"


@with_suggestions()
@checked
def live(
    environment: str | gymnasium.Env[Any, Any] | Callable[..., gymnasium.Env[Any, Any]],
    *,
    horizon: int | None = None,
    rewards: tuple[float, float] | None = None,
    discretise: Discretiser | None = None,
    features: Features | None = None,
    repeat: int | None = None,
    ends: bool | None = None,
    stationary: bool | None = None,
    evaluation: int = EVALUATION,
    vector: bool | None = None,
    options: Mapping[str, Any] | None = None,
    support: Support | None = None,
) -> LiveWorld:
    """A Gymnasium environment as a source of users, for every learner and trust model; it needs no table.

    Parameters
    ----------
    environment
        An id, an environment made from one, or a function that makes one and can be imported.
    horizon
        How many decisions an episode has; it is cut there, and padded if it ends before.
    rewards
        Public bounds of the reward of one decision; they must contain 0, which padding earns. Rewards outside are
        clipped, and the share of those is reported (simulation only).
    discretise
        The public rule from observations to states; spaces of whole numbers need none.
    features
        Instead of a discretiser, for worlds of one decision: what observations mean as rows of features. Learners are
        then linear ones.
    repeat
        How many steps of the environment one decision lasts; its reward is their sum.
    ends
        Whether episodes may end before the horizon; True by default. False saves a state and is refused when it turns
        out to be wrong.
    stationary
        The public declaration that transitions and rewards do not depend on the step; False by default.
    evaluation
        How many fresh episodes measure a policy.
    vector
        Whether to step many environments together; by default where the environment brings its own way to do so.
    options
        What the environment is made with.
    support
        The public declaration of what can happen (`tacit.support`), over the states of the discretiser and "ended";
        a decision earns something where its reward can be above the lower bound. A run uses it where it is told to.

    Horizon, bounds, discretiser, repeat and declaration of the ids in `tacit list environments` are known.

    Returns
    -------
    LiveWorld
        The public description of the world, checked against the environment's spaces.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> live("Blackjack-v1")
    LiveWorld('Blackjack-v1', states=29, actions=2, horizon=4, rewards in [-1, 1])
    >>> live("FrozenLake-v1", horizon=20, options={"is_slippery": False}).num_states
    17
    """
    chosen = dict(options or {})
    by_function = False
    if isinstance(environment, str):
        source = environment
        by_function = ":" in source and not is_id(source)
    elif isinstance(environment, gymnasium.Env):
        source, chosen = source_of(environment, chosen)
    elif callable(environment):
        source, by_function = name_of(environment), True
    else:
        raise InvalidInput(f"a live world must be an id, an environment or a function, got {environment!r}")
    if features is not None:
        require(discretise is None, "features and a discretiser exclude each other", "both")
        discretise, horizon = Rows(features), 1 if horizon is None else horizon
        require(horizon == 1, "a world of features must have one decision", horizon, "use horizon=1")
    bounds = rewards
    pair = bounds is None or (isinstance(bounds, Sequence) and not isinstance(bounds, str) and len(bounds) == 2)
    require(pair, "rewards must be the public bounds (low, high) of one decision's reward", bounds)
    return build_live(
        preset_of(source),
        None,
        source=source,
        by_function=by_function,
        options=chosen,
        horizon=horizon,
        repeat=repeat,
        discretise=discretise,
        rewards=rewards,
        ends=ends,
        stationary=stationary,
        evaluation=evaluation,
        vector=vector,
        support=support,
    )


def build_live(
    known: LivePreset,
    stated: tuple[int, int] | None,
    *,
    source: str,
    by_function: bool,
    options: Mapping[str, Any],
    horizon: int | None,
    repeat: int | None,
    discretise: Discretiser | None,
    rewards: tuple[float, float] | None,
    ends: bool | None,
    stationary: bool | None,
    evaluation: int,
    vector: bool | None = None,
    support: Support | None = None,
) -> LiveWorld:
    """Check everything against the spaces of the environment, or take its actions (first, count) as they are stated."""
    kept = plain_options(options)
    made = None if stated is not None else make_source(source, dict(kept), by_function=by_function)
    horizon = known.horizon if horizon is None else horizon
    if rewards is None and repeat in (None, known.repeat):  # the preset's bounds are those of its own decisions
        rewards = known.rewards
    repeat = known.repeat if repeat is None else repeat
    ends = known.ends if ends is None else ends
    stationary = known.stationary if stationary is None else stationary
    if horizon is None:
        raise InvalidInput(
            f"a live world must have a horizon, the number of decisions of an episode: give {source} one, horizon=20 "
            f"(or '{LIVE_PREFIX}{source},horizon=20')"
        )
    if rewards is None:
        raise InvalidInput(
            f"a live world must have public bounds for the reward of one decision: give {source} some, "
            f"rewards=(-1.0, 1.0) (or '{LIVE_PREFIX}{source},low=-1,high=1'); they are never taken from data"
        )
    low, high = (require_real("a bound of rewards", bound) for bound in rewards)
    require(low < high, "the lower bound of rewards must be below the upper one", rewards)
    require(low <= 0.0 <= high, "the bounds of rewards must contain 0, which an ended episode earns", rewards)
    rule = known.discretiser if discretise is None else discretise
    if made is not None:
        actions = made.action_space
        if not isinstance(actions, gymnasium.spaces.Discrete):
            raise NotSupported(
                f"{source} takes actions in {actions} and policies choose among finitely many: wrap it, for instance "
                "in a gymnasium.ActionWrapper with a Discrete action_space, and pass the function that makes it"
            )
        stated = int(actions.start), int(actions.n)
        rule = discretiser_of(made.observation_space, source) if rule is None else rule
        if isinstance(rule, Function):
            by_name(rule.function)
        made.close()
    require(isinstance(rule, Discretiser), "discretise must be a Discretiser", type(rule).__name__)
    assert rule is not None and stated is not None  # noqa: S101, PT018 - for the types
    first, A = stated
    for what, flag in (("ends", ends), ("stationary", stationary)):
        require(isinstance(flag, bool), f"{what} must be True or False", flag)
    require(vector is None or isinstance(vector, bool), "vector must be True, False or None", vector)
    H, each = require_count("horizon", horizon), require_count("repeat", repeat)
    require_free(
        source, 8 * H * (rule.size + int(ends)), available_memory(), "choose a shorter horizon or fewer states"
    )
    named = known.policies if rule == known.discretiser else {}
    tables = tuple((name, _at_every_step(row, H, rule.size + int(ends), A)) for name, row in named.items())
    if support is not None:
        declared, sizes = (support.horizon, support.num_states, support.num_actions), (H, rule.size + int(ends), A)
        require(declared == sizes, f"a support must have the horizon, states, actions {sizes} of its world", declared)
    return LiveWorld(
        source=source,
        made_by_function=by_function,
        options=kept,
        horizon=H,
        repeat=each,
        discretiser=rule,
        low=low,
        high=high,
        num_actions=A,
        first_action=first,
        ends=ends,
        stationary=stationary,
        evaluation=require_count("evaluation", evaluation, least=2),
        vector=vector,
        policies=tables,
        support=support,
        read=made is None,
    )


def _at_every_step(row: tuple[int, ...], H: int, S: int, A: int) -> tuple[tuple[int, ...], ...]:
    """A stationary policy over the discretiser's states as a table; who has ended takes the first action."""
    padded = (*row, *(0,) * (S - len(row)))
    require(len(padded) == S and max(padded) < A, "a named policy must fit its world", (len(row), S))
    return (padded,) * H


def _rebuild(
    plain: dict[str, Any],
    rounded: bool,
    baseline: dict[str, Any] | None,
    carried: Mapping[str, Callable[..., Any]],
    spec: EnvSpec | None,
    read: bool,
) -> LiveWorld:
    carry(carried)
    register_in_worker(spec)
    policy: Any = None if baseline is None else policy_from_dict(baseline)
    world = LiveWorld.from_dict(plain) if read else LiveWorld._stated(plain, preset_of(plain["source"]))
    return replace(world, rounded=rounded, baseline=policy, read=read)


def clipped(world: LiveWorld, rewards: Floats) -> tuple[Floats, int]:
    """Rewards of decisions as finite numbers (what is none is the lower bound), and how many are out of bounds."""
    outside = ~((rewards >= world.low) & (rewards <= world.high))  # NaN, too
    return np.nan_to_num(rewards, nan=world.low, posinf=world.high, neginf=world.low), int(outside.sum())


def scaled(world: LiveWorld, rewards: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rewards of decisions in [0, 1]: clip((x - low) / (high - low)).

    >>> scaled(live("Blackjack-v1"), np.array([-1.0, 0.0, 1.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.nan_to_num(np.clip((rewards - world.low) / (world.high - world.low), 0.0, 1.0), nan=0.0)


SPEC_OPTIONS: Final = (
    "horizon",
    "repeat",
    "low",
    "high",
    "stationary",
    "ends",
    "evaluation",
    "discretise",
    "count",
    "grid",
)


def live_from_spec(spec: str, stated: Mapping[str, Any] | None = None) -> LiveWorld:
    """The live world that `gymnasium:ID,option=value,...` names.

    With what a file states about it (`LiveWorld.to_dict`, or nothing), no code is run: what neither the specification
    nor a preset says is taken from there.

    >>> live_from_spec("gymnasium:CartPole-v1,horizon=10").horizon
    10
    >>> live_from_spec("gymnasium:CartPole-v1,grid=fine").num_states
    901
    >>> live_from_spec("gymnasium:Blackjack-v1,horizn=3")
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: unknown option of a live world 'horizn': did you mean 'horizon'? Known: ...
    """
    source, *listed = (part.strip() for part in spec.removeprefix(LIVE_PREFIX).split(","))
    require(bool(source), "a live world must be named like 'gymnasium:Blackjack-v1'", spec)
    given: dict[str, str] = {}
    for item in listed:
        key, equals, text = (part.strip() for part in item.partition("="))
        require(bool(equals and text), "an option of a live world must be written name=value", item)
        if key not in SPEC_OPTIONS:
            raise UnknownName("option of a live world", key, SPEC_OPTIONS)
        require(key not in given, f"each option of a live world must be given once, got {key} twice", item)
        given[key] = text
    known = preset_of(source) if stated is None else PRESETS.get(source) or _stated_preset(source, stated)
    bounds = known.rewards
    if "low" in given or "high" in given:
        both = "low" in given and "high" in given
        require(both, "low and high, the bounds of a decision's reward, belong together", spec)
        bounds = (_number(given, "low"), _number(given, "high"))
    discretiser: Discretiser | None = None
    if "discretise" in given:
        require("count" in given, "a function that discretises must come with the count of its states", spec)
        discretiser = Function(function=given["discretise"], count=_whole(given, "count"))
    if "grid" in given:
        require("discretise" not in given, "a grid and a function that discretises exclude each other", spec)
        if given["grid"] not in known.grids and (stated is None or source in PRESETS):
            raise UnknownName(f"grid of {source}", given["grid"], known.grids)
        discretiser = known.grids.get(given["grid"])
    chosen: dict[str, Any] = {
        "horizon": _whole(given, "horizon") if "horizon" in given else None,
        "rewards": bounds if "low" in given else None,
        "discretise": discretiser,
        "repeat": _whole(given, "repeat") if "repeat" in given else None,
        "ends": _truth(given, "ends", default=known.ends),
        "stationary": _truth(given, "stationary", default=known.stationary),
        "evaluation": _whole(given, "evaluation") if "evaluation" in given else EVALUATION,
    }
    if stated is None:
        return live(source, **chosen)
    by_function, first = ":" in source and not is_id(source), stated.get("actions", [0])[0]
    return build_live(known, (first, known.actions or 0), source=source, by_function=by_function, options={}, **chosen)


def _stated_preset(source: str, stated: Mapping[str, Any]) -> LivePreset:
    """What a file states about a world that only its code knows."""
    if not stated:
        raise ForeignCode(f"{source} is code that a file names, which is not run, and nothing is stated about it")
    world = LiveWorld.from_dict({name: part for name, part in stated.items() if name != "gymnasium"})
    return LivePreset(
        horizon=world.horizon,
        repeat=world.repeat,
        rewards=(world.low, world.high),
        discretiser=world.discretiser,
        actions=world.num_actions,
        stationary=world.stationary,
        ends=world.ends,
    )


def _whole(given: Mapping[str, str], name: str) -> int:
    try:
        return int(given[name])
    except ValueError as error:
        raise InvalidInput(f"{name} must be a whole number, got '{given[name]}'") from error


def _number(given: Mapping[str, str], name: str) -> float:
    try:
        return float(given[name])
    except ValueError as error:
        raise InvalidInput(f"{name} must be a number, got '{given[name]}'") from error


def _truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default).lower())
    require(text in ("true", "false"), f"{name} must be true or false", text)
    return text == "true"
