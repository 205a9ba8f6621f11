"""`trial`: a private test by fresh users in two arms whether the new policy is better than what people do already.

    arms         the baseline and the policy, so many fresh users each, by public lots; or the policy alone: its value
    release      everybody's return, clipped to a declared range and rounded to a bit, by a privatizer
    certificate  of that one batch, where its people are fresh; else of everything that one person is exposed to

`trial_size` says beforehand how many users per arm show an effect, for a claim, an error and a power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from scipy.special import ndtri

from tacit.accounting.certificate import Certificate
from tacit.arguments import checked
from tacit.data.arms import require_bounds
from tacit.environments.baselines import baseline_policy, baseline_table
from tacit.environments.live import LiveWorld
from tacit.environments.registry import make_environment
from tacit.environments.tabular import TabularMDP
from tacit.errors import (
    MAX_FRESH_USERS,
    InvalidInput,
    NotSupported,
    require,
    require_count,
    require_real,
    with_suggestions,
)
from tacit.planning.arms import power_of, require_alpha
from tacit.policies import Policy
from tacit.release.arms import ArmRelease, composed, make_arms
from tacit.released.arms import ArmStatistics
from tacit.runs.assemble import assemble
from tacit.runs.bundle import Bundle
from tacit.runs.config import RunConfig
from tacit.runs.result import Result
from tacit.runs.trial_result import People, TrialResult, baseline_name, claim_of, run_policies, truth_of
from tacit.simulation.arms import Lived, release_arms, trial_world
from tacit.types import Trust


@with_suggestions()
@checked
def trial(
    policy: Result | Bundle | object,
    *,
    users: int,
    environment: str | TabularMDP | LiveWorld | None = None,
    against: object = None,
    trust: Trust | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    alpha: float = 0.05,
    bounds: Sequence[float] | None = None,
    people: People = "fresh",
    honest_fraction: float | None = None,
    allow_large_delta: bool = False,
    seed: int | None = None,
    command: str | None = None,
) -> TrialResult:
    """Compare a policy with the baseline in a private trial, or certify its value where there is nothing to compare.

    Parameters
    ----------
    policy
        A `Result` or `Bundle` (its policy, environment, baseline and claim are taken unless others are given), or a
        policy of an environment: an object, a table or a name.
    users
        How many users each arm has.
    environment
        The environment, if `policy` does not say it; that of a result which was read, if code of yours makes it.
    against
        The baseline: a name, a table or a policy; None: one arm.
    trust, epsilon, delta
        What is promised to the users of the trial.
    alpha
        The probability with which the interval may be wrong.
    bounds
        The declared range of a return in the world's own unit; returns are clipped to it.
    people
        `"fresh"`, or `"same"` where users of the run may come again: the certificate then adds both up.
    honest_fraction, allow_large_delta
        As in `tacit.run`.
    seed
        Whose policy of a result it is, and the random numbers of the trial.
    command
        The command that makes it again, for its record.

    Returns
    -------
    TrialResult
        Estimate, interval, p-value, verdict and certificate.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> found = trial("always right", against="always left", environment="riverswim", users=3000, trust="central",
    ...               epsilon=1.0, delta=1e-6)
    >>> found.verdict, found.low < found.truth < found.high
    ('better', True)
    """
    n = require_count("users", users, most=MAX_FRESH_USERS)
    target = _target(policy, environment, against, seed)
    asked = claim_of(target.config, trust, epsilon, delta, honest_fraction)
    arms = make_arms(users=(n,) * len(target.policies), allow_large_delta=allow_large_delta, **asked)
    a, unit = require_alpha(alpha), trial_world(target.world)[1]
    declared = unit.bounds if bounds is None else require_bounds(bounds)
    certificate = arms.certificate()
    if people == "same":
        if target.certificate is None:
            raise InvalidInput("people='same' needs the run; pass its result, or use people='fresh'")
        certificate = composed(target.certificate, certificate)
    found = TrialResult(
        environment=target.name,
        arms=target.names,
        released=ArmStatistics(sums=(0.0,) * len(arms.users), users=arms.users, noise=arms.noise),
        bounds=declared,
        alpha=a,
        certificate=certificate,
        people=people,
        seed=target.seed,
        command=command or f"tacit.trial(..., users={n}, trust={asked['trust']!r}, seed={target.seed})",
    )
    return _carried_out(found, target.world, target.policies, arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What is compared, where, and after which run."""

    world: Lived
    name: str
    policies: tuple[Policy, ...]
    names: tuple[str, ...]
    seed: int
    config: RunConfig | None = None
    certificate: Certificate | None = None


def _target(policy: object, environment: Any, against: object, seed: int | None) -> _Target:
    if isinstance(policy, Result | Bundle):
        return _of_run(policy, environment, against, seed)
    if environment is None:
        raise InvalidInput("a policy must come with its environment, or as the result of a run; give environment=...")
    made = make_environment(environment) if isinstance(environment, str) else environment
    world, _ = trial_world(made)
    mine = baseline_policy(world, baseline_table(policy))
    given = () if against is None else (baseline_policy(world, baseline_table(against)),)
    names = () if against is None else (_shown(against, "baseline"),)
    name = environment if isinstance(environment, str) else world.name or "custom"
    number = 0 if seed is None else require_count("seed", seed, 0)
    return _Target(
        world=world, name=name, policies=(*given, mine), names=(*names, _shown(policy, "policy")), seed=number
    )


def _of_run(found: Result | Bundle, environment: Any, against: object, seed: int | None) -> _Target:
    if isinstance(found, Bundle):
        chosen, policy = found.seed, found.policy
        require(seed in (None, chosen), f"the bundle holds seed {chosen}", seed)
    else:
        chosen = found.seeds[0] if seed is None else seed
        policy = found.policy_of(chosen)
    parts = assemble(found.config)
    world, _ = trial_world(parts.mdp)
    if environment is not None:  # that of the run, named by the caller where a file may not (`LiveWorld.make`)
        own: Any = make_environment(environment) if isinstance(environment, str) else environment
        same = isinstance(own, LiveWorld) and own.fingerprint() == world.fingerprint()
        require(same, "a result has its environment; leave environment out", "another")
        world = own
    baseline, name = parts.baseline, baseline_name(found.config)
    if against is not None:
        baseline, name = baseline_policy(world, baseline_table(against)), _shown(against, "baseline")
    mine = run_policies(parts, policy)[-1]
    return _Target(
        world=world,
        name=found.config.environment_name,
        policies=(mine,) if baseline is None else (baseline, mine),
        names=("policy",) if baseline is None else (name, "policy"),
        seed=chosen,
        config=found.config,
        certificate=found.certificate,
    )


def _carried_out(planned: TrialResult, world: Lived, policies: tuple[Policy, ...], arms: ArmRelease) -> TrialResult:
    """The trial with what its users released; nobody comes before everything was checked."""
    unit = trial_world(world)[1]
    released = release_arms(world, policies, arms, bounds=unit.inner(planned.bounds), seed=planned.seed)
    whole = planned.bounds[0] <= unit.bounds[0] and planned.bounds[1] >= unit.bounds[1]
    truth = truth_of(world, policies, unit.scale, unit.offset) if whole else None
    return replace(planned, released=released, truth=truth)


def _shown(given: object, otherwise: str) -> str:
    return given if isinstance(given, str) and not given.endswith(".json") else otherwise


MAX_USERS: Final = 10**9
"""More users per arm are not looked for."""
MIN_SQUARE: Final = 1e-100
"""Of an effect, so that it is not 0 in floating point; so many users are too many in any case."""
CLOSE: Final = 1.01
"""A size is found when so much fewer users are too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSize:
    """How many users each arm needs."""

    users: int
    power: float
    """The probability of the verdict 'better' at the stated effect, at least."""
    effect: float
    alpha: float
    trust: Trust
    epsilon: float | None
    delta: float | None
    bounds: tuple[float, float]
    mean: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"bounds": list(self.bounds)}


@checked
def trial_size(
    *,
    effect: float,
    trust: Trust,
    epsilon: float | None = None,
    delta: float | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    bounds: Sequence[float] = (0.0, 1.0),
    mean: float | None = None,
    honest_fraction: float = 1.0,
) -> TrialSize:
    """Find how many users per arm a trial needs to show an effect with this power.

    Parameters
    ----------
    effect
        The difference to show, in the unit of `bounds`.
    trust, epsilon, delta
        What is promised to the users.
    power, alpha
        The probability of showing the effect, and of a wrong interval.
    bounds
        The declared range of a return.
    mean
        The baseline's mean; by default the middle, which is the worst.
    honest_fraction
        As in `tacit.run`.

    Returns
    -------
    TrialSize
        Users per arm and the power that they have.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> trial_size(effect=0.1, trust="none").users < trial_size(effect=0.1, trust="local", epsilon=1, delta=0).users
    True
    """
    low, high = require_bounds(bounds)
    wanted, a = require_real("power", power, low=0.0, high=0.999, open_low=True), require_alpha(alpha)
    base = (low + high) / 2.0 if mean is None else require_real("mean", mean, low=low, high=high)
    p0 = (base - low) / (high - low)
    d = require_real("effect", effect, low=0.0, open_low=True) / (high - low)
    require(p0 + d <= 1.0, f"mean and effect must stay below the largest return {high:g}", base + effect)

    def reached(n: int) -> float:
        arms = make_arms(users=(n, n), trust=trust, epsilon=epsilon, delta=delta, honest_fraction=honest_fraction)
        return power_of(arms.users, arms.noise, a, (p0, p0 + d))

    found = _least_users(reached, wanted, _first_guess(d, p0, wanted, a))
    return TrialSize(
        users=found,
        power=reached(found),
        effect=effect,
        alpha=a,
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        bounds=(low, high),
        mean=base,
    )


def _first_guess(d: float, p0: float, power: float, alpha: float) -> int:
    """(z + z')² (p₀q₀ + p₁q₁)/d², as without noise."""
    variance = p0 * (1.0 - p0) + (p0 + d) * (1.0 - p0 - d)
    z = -float(ndtri(alpha / 2.0)) + float(ndtri(max(power, 0.5)))
    return max(10, math.ceil(min(2.0 * MAX_USERS, z**2 * variance / max(d**2, MIN_SQUARE))))


def _least_users(reached: Callable[[int], float], power: float, guess: int) -> int:
    """The least number with this power, to a hundredth: up in steps until it is enough, then by halves."""
    low, high, factor = max(2, guess // 2), guess, 1.25
    while reached(high) < power:
        low, high, factor = high, math.ceil(high * factor), factor * 1.5
        if high > MAX_USERS:
            raise NotSupported(f"no trial of {MAX_USERS:,} users per arm shows this effect; enlarge it, or epsilon")
    while high > low + 1 and high > CLOSE * low:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) >= power else (middle, high)
    return high
