"""The fresh users who come after a run: what they are promised, and what they say about its final policy."""

from __future__ import annotations

from typing import Any, Final

from tacit.environments.state_features import SeenMDP
from tacit.errors import InvalidInput, NotSupported, require
from tacit.policies import AnyPolicy, Policy, tabular
from tacit.release.arms import ArmRelease, make_arms
from tacit.released.arms import ArmStatistics
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig
from tacit.runs.trial_result import TrialResult
from tacit.simulation.arms import Lived, release_arms, trial_world, true_value
from tacit.types import Trust

ALPHA: Final = 0.05
"""How often the statement of a run about its final policy may be wrong."""


def check_arms(config: RunConfig) -> None:
    """Raise unless the final policy of this run can be certified: by people of a world with returns, who are fresh."""
    trial_world(assemble(config).mdp)
    arms_of_run(config)


def release_of_run(config: RunConfig, policy: AnyPolicy, seed: int) -> ArmStatistics:
    """Let the fresh users of a run with `value_users` come, and release their returns. Simulation only."""
    parts = assemble(config)
    world, unit = trial_world(parts.mdp)
    bounds = unit.inner(unit.bounds)
    return release_arms(world, run_policies(parts, policy), arms_of_run(config), bounds=bounds, seed=seed)


def trial_of_run(config: RunConfig, released: ArmStatistics, policy: AnyPolicy | None, seed: int) -> TrialResult:
    """What the fresh users of a run with `value_users` released about one seed's final policy."""
    parts = assemble(config)
    arms = arms_of_run(config)
    require(arms.noise == released.noise and arms.users == released.users, "a trial must have its noise", "another")
    if policy is None:
        raise InvalidInput("what fresh users released is about a policy, which was not kept; run it again")
    policies = run_policies(parts, policy)
    world, unit = trial_world(parts.mdp)
    return TrialResult(
        environment=config.environment_name,
        arms=("policy",) if len(policies) == 1 else (baseline_name(config), "policy"),
        released=released,
        bounds=unit.bounds,
        alpha=ALPHA,
        certificate=arms.certificate(),
        people="fresh",
        seed=seed,
        command=config.command(),
        truth=truth_of(world, policies, unit.scale, unit.offset),
    )


def arms_of_run(config: RunConfig) -> ArmRelease:
    """The release of the fresh users of a run: the final policy, and the baseline where there is one."""
    if config.value_users is None:
        raise InvalidInput("a run has fresh users for its final policy only with value_users")
    arms = 1 if config.baseline is None else 2
    asked = claim_of(config, None, None, None, None)
    return make_arms(users=(config.value_users,) * arms, allow_large_delta=config.allow_large_delta, **asked)


def run_policies(parts: Assembled, policy: AnyPolicy) -> tuple[Policy, ...]:
    """The policies of the arms, over the states in which people live: the baseline first."""
    mine = parts.mdp.lift(policy) if isinstance(parts.mdp, SeenMDP) else tabular(policy)
    return (mine,) if parts.baseline is None else (parts.baseline, mine)


def claim_of(
    config: RunConfig | None, trust: Trust | None, epsilon: float | None, delta: float | None, honest: float | None
) -> dict[str, Any]:
    """What is promised to the people of a trial: what was asked for, else what the run promised."""
    if trust is None:
        if config is None:
            raise InvalidInput("trust has no default: say central, shuffle, local or none")
        if config.reports_per_person > 1:
            raise NotSupported(
                "a person of this run may be several users, and noise of a trial is for one report; say trust, epsilon "
                "and delta of a trial whose people are fresh"
            )
        trust, honest = config.trust, config.honest_fraction if honest is None else honest
        epsilon = config.epsilon if epsilon is None else epsilon
        delta = config.delta if delta is None else delta
    require(honest is None or trust == "shuffle", "an honest_fraction belongs to trust 'shuffle'", trust)
    return {"trust": trust, "epsilon": epsilon, "delta": delta, "honest_fraction": 1.0 if honest is None else honest}


def truth_of(world: Lived, policies: tuple[Policy, ...], scale: float, offset: float) -> float | None:
    """Simulation only: the true value of the last arm, minus that of the first where there are two; own unit."""
    values = [true_value(world, policy) for policy in policies]
    if any(value is None for value in values):
        return None
    known = [scale * float(value) for value in values if value is not None]
    return known[0] + offset if len(known) == 1 else known[1] - known[0]


def baseline_name(config: RunConfig) -> str:
    """What the baseline of a run is called."""
    return config.baseline if isinstance(config.baseline, str) else "baseline"
