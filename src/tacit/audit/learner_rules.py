"""`check_learner`: the shipped suite for learners. One that passes keeps the contract of `tacit.protocol.Learner`.

rule      what must hold
begin     a belief is made afresh: equal to every other first one, and sharing nothing with it
state     plan, ask and update leave the belief, the plan and the release that they were given as they were
coins     the same belief and the same coins give the same step: nothing is remembered outside the belief
plan      users are counted in whole positive numbers, and whoever is asked is asked at least once
query     queries are of the stated type, and the privatizer answers them
policy    policies are probabilities, and stay as they are when the learner goes on
kept      a belief that is pickled, or copied, between every two steps goes on to the same end
foreign   releases of another kind are refused
speeds    the compiled and the interpreted loop agree bit for bit, where the learner has kernels
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.audit.conformance import NonConformant
from tacit.errors import UnknownName, require_count
from tacit.policies import AnyPolicy, GaussianPolicy, LayeredPolicy, LinearPolicy
from tacit.protocol import Learner, Plan, PrivateStatistics, Privatizer, World
from tacit.randomness import SimulationNoise, seed_streams
from tacit.simulation.loop import kernels_of
from tacit.simulation.simulate import log_checkpoints, simulate
from tacit.simulation.worlds import world_of

Carry = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerReport:
    """What was checked and held."""

    name: str
    passed: tuple[str, ...]
    rounds: int


class Foreign(NamedTuple):
    """Statistics that no learner asked for."""

    nonsense: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """A learner with everything around it."""

    learner: Any
    privatizer: Any
    world: World
    episodes: int
    seed: int
    rounds: int


class _Step(NamedTuple):
    """One step of a learner as it went: what was given before and after, twice what came out."""

    name: str
    kept: bool
    same: bool
    result: Any


def check_learner(
    learner: Learner[Any, Any, Any],
    privatizer: Privatizer[Any, Any, Any],
    world: Any,
    *,
    episodes: int,
    seed: int = 0,
    rounds: int = 12,
    only: Collection[str] | None = None,
) -> LearnerReport:
    """Check every rule in a run of at most so many rounds; raise `NonConformant` with all that are broken.

    `world` is a `World` or an environment; `episodes` is what learner and privatizer were made for.
    """
    setting = _Setting(
        learner=learner,
        privatizer=privatizer,
        world=world_of(world, learner.asks),
        episodes=require_count("episodes", episodes),
        seed=require_count("seed", seed, least=0),
        rounds=require_count("rounds", rounds),
    )
    for name in only or ():
        if name not in LEARNER_RULES:
            raise UnknownName("rule for learners", name, LEARNER_RULES)
    rules = {name: rule for name, rule in LEARNER_RULES.items() if only is None or name in only}
    violations: dict[tuple[str, str], None] = {}
    for name, rule in rules.items():
        try:
            for wrong in rule(setting):
                violations[name, wrong] = None
        except Exception as error:  # a check that cannot be run is not passed
            violations[name, f"cannot be checked: {type(error).__name__}"] = None
    if violations:
        raise NonConformant(str(learner.name), tuple(violations))
    return LearnerReport(name=learner.name, passed=tuple(rules), rounds=rounds)


def _begin(setting: _Setting) -> Iterator[str]:
    first, second = setting.learner.begin(), setting.learner.begin()
    if _frozen(first) != _frozen(second):
        yield "two runs begin with different beliefs"
    if any(np.shares_memory(a, b) for a in _arrays(first) for b in _arrays(second) if a.size and a.flags.writeable):
        yield "two runs begin with the same arrays"


def _state(setting: _Setting) -> Iterator[str]:
    yield from (f"{step.name} changes what it was given" for step in _play(setting) if not step.kept)


def _coins(setting: _Setting) -> Iterator[str]:
    yield from (f"{step.name} gives another result the second time" for step in _play(setting) if not step.same)


def _plan(setting: _Setting) -> Iterator[str]:
    for plan in _plans(setting):
        sizes = [plan.users, *(count for _, count in plan.groups)]
        if not all(size is None or (isinstance(size, int | np.integer) and size > 0) for size in sizes):
            yield "a plan must be for a whole, positive number of users, or for all that are left"
        elif plan.users is not None and sum(count for _, count in plan.groups) > plan.users:
            yield "the groups of a plan have more users than the plan"
        if not plan.releases >= 1:
            yield "a plan must have at least one release; users who are not asked have no query"


def _query(setting: _Setting) -> Iterator[str]:
    learner, answers = setting.learner, setting.privatizer.answers
    asked = [plan.query for plan in _plans(setting)]
    asked += [step.result[1] for step in _play(setting) if step.name == "ask"]
    for query in asked:
        if query is not None and not isinstance(query, learner.asks):
            yield f"a {type(query).__name__} is asked where {learner.asks.__name__} is stated"
        if query is not None and not isinstance(query, answers):
            yield f"a {type(query).__name__} is asked, {setting.privatizer.name} answers {answers.words()}"


def _policy(setting: _Setting) -> Iterator[str]:
    held: list[tuple[AnyPolicy, Any]] = []
    for plan in _plans(setting):
        policies = [plan.policy, *(policy for policy, _ in plan.groups)]
        held += [(policy, _frozen(policy)) for policy in policies]
        if not all(_proper(policy, setting.world) for policy in policies):
            yield "a policy is no table of probabilities of this world"
    if any(_frozen(policy) != before for policy, before in held):
        yield "a policy changes while users hold it"


def _kept(setting: _Setting) -> Iterator[str]:
    ends = [_last(setting, carry) for carry in (lambda belief: belief, _pickled, copy.deepcopy)]
    for name, end in zip(("pickled", "copied"), ends[1:], strict=True):
        if end != ends[0]:
            yield f"a belief that was {name} goes on to another end"


def _foreign(setting: _Setting) -> Iterator[str]:
    learner = setting.learner
    belief, _ = learner.plan(learner.begin(), seed_streams(setting.seed).learner)
    for strange in (PrivateStatistics(Foreign(np.zeros(3)), setting.privatizer.claim), None, 7):
        try:
            learner.update(belief, strange)
        except Exception:  # noqa: S112 - a refusal is what must happen
            continue
        yield f"a {type(strange).__name__} of nonsense is taken for a release"


def _speeds(setting: _Setting) -> Iterator[str]:
    learner, privatizer, world = setting.learner, setting.privatizer, setting.world
    marks, episodes, seed = log_checkpoints(setting.episodes), setting.episodes, setting.seed
    sampler = world.sampler(learner, episodes=episodes, seed=seed)
    if kernels_of(learner, privatizer, sampler, world.judge(learner, marks)) is None:
        return
    compiled, interpreted = (
        simulate(world, learner, privatizer, episodes=episodes, seed=seed, speed=speed)
        for speed in ("compiled", "interpreted")
    )
    for name in ("regret", "belief", "released", "policy"):
        if _frozen(getattr(compiled, name)) != _frozen(getattr(interpreted, name)):
            yield f"the {name} of a run depends on its speed"


LEARNER_RULES: Final[Mapping[str, Callable[[_Setting], Iterator[str]]]] = {
    "begin": _begin,
    "state": _state,
    "coins": _coins,
    "plan": _plan,
    "query": _query,
    "policy": _policy,
    "kept": _kept,
    "foreign": _foreign,
    "speeds": _speeds,
}
"""The rules by name."""


def _play(setting: _Setting, carry: Carry = lambda belief: belief) -> Iterator[_Step]:
    """Every step of a run; each is done twice with the same coins, and the first result is taken."""
    learner, privatizer, streams = setting.learner, setting.privatizer, seed_streams(setting.seed)
    sampler = setting.world.sampler(learner, episodes=setting.episodes, seed=setting.seed)
    noise, belief, state, done = SimulationNoise(streams.noise), learner.begin(), privatizer.begin(), 0

    def step(name: str, action: Callable[..., Any], *given: Any) -> _Step:
        before, coins = [_frozen(part) for part in given], streams.learner
        again = copy.deepcopy(coins)
        result, second = (action(*given, *((c,) if name == "plan" else ())) for c in (coins, again))
        kept = [_frozen(part) for part in given] == before
        return _Step(name, kept, _frozen(result) == _frozen(second), result)

    for _ in range(setting.rounds):
        if done + learner.least > setting.episodes:
            return
        yield (planned := step("plan", learner.plan, carry(belief)))
        belief, plan = planned.result
        left = setting.episodes - done
        number = left if plan.users is None else min(max(1, int(plan.users)), left)
        users = sampler.draw(plan, number, streams.world)
        done += number
        if plan.query is None or (done >= setting.episodes and not learner.uses_last):
            continue
        for release in range(plan.releases):
            yield (asked := step("ask", learner.ask, carry(belief), plan, release))
            belief, query = asked.result
            state, released = privatizer.release(state, users, query, noise)
            yield (updated := step("update", learner.update, carry(belief), released))
            belief = updated.result


def _plans(setting: _Setting) -> Iterator[Plan[Any]]:
    for step in _play(setting):
        if step.name == "plan":
            yield step.result[1]


def _last(setting: _Setting, carry: Carry) -> Any:
    """The last belief and all policies of a run."""
    policies, belief = [], None
    for step in _play(setting, carry):
        belief = step.result if step.name == "update" else step.result[0]
        if step.name == "plan":
            policies.append(_frozen(step.result[1].policy))
    return _frozen(belief), tuple(policies)


def _pickled(belief: Any) -> Any:
    return pickle.loads(pickle.dumps(belief))  # noqa: S301 - written in the same line


def _proper(policy: AnyPolicy, world: World) -> bool:
    """Whether a policy has probabilities of the right size."""
    environment = world.environment
    if isinstance(policy, GaussianPolicy):
        return bool(np.isfinite(policy.means).all() and np.isfinite(policy.theta).all() and policy.deviation > 0.0)
    if isinstance(policy, LinearPolicy):
        return bool(policy.actions == environment.num_actions)  # its numbers are finite, or it could not be made
    if isinstance(policy, LayeredPolicy):
        rows = policy.flat.reshape(-1, policy.actions)
    else:
        table = policy.probabilities(environment.num_actions)
        if table.shape != (environment.horizon, environment.num_states, environment.num_actions):
            return False
        rows = table.reshape(-1, environment.num_actions)
    return bool(np.isfinite(rows).all() and (rows >= 0.0).all() and np.allclose(rows.sum(axis=1), 1.0, atol=1e-8))


def _frozen(value: Any) -> Any:
    """A value that can be compared: arrays by their bytes, everything else by its parts."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, Mapping):
        return tuple((key, _frozen(part)) for key, part in value.items())
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(_frozen(part) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(_frozen(getattr(value, field.name)) for field in fields(value))
    return repr(value) if isinstance(value, float) else value


def _arrays(value: Any) -> Iterator[Any]:
    """All arrays inside a belief."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
