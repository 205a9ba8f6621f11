"""`TrialResult`: what fresh users in two arms, or in one, released, and what it shows.

    interval     of the difference, wrong with probability at most alpha, whatever returns are: Lemma B5 (exact arms)
    verdict      better, worse or not shown: how often the first two are wrong at most, `wrong_verdict` says

What counts is the mean of returns that are clipped to the declared range; by default that is all a return can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from tacit._version import __version__
from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.documents import digest, without_seal
from tacit.environments.state_features import SeenMDP
from tacit.errors import InvalidInput, NotSupported, UnknownName, require
from tacit.planning.arms import ArmInterval, Verdict, interval_of, verdict_of, wrong_verdict
from tacit.policies import AnyPolicy, Policy, tabular
from tacit.release.arms import ArmRelease, make_arms
from tacit.released.arms import ArmStatistics
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig
from tacit.simulation.arms import Lived, release_arms, trial_world, true_value
from tacit.types import Trust

FORMAT: Final = "tacit-trial"
FORMAT_VERSION: Final = 1
People: TypeAlias = Literal["fresh", "same"]
"""Whether nobody of the trial was in the run before, or anybody may have been."""
KEPT: Final = ("environment", "arms", "bounds", "alpha", "people", "seed", "version", "command")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmMean:
    """The released mean return of one arm, in the world's own unit, with an interval of its own."""

    name: str
    users: int
    mean: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.name} {self.mean:.4g} [{self.low:.4g}, {self.high:.4g}] ({self.users:,} users)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What a trial released and what it shows; everything but `truth` is computed from the release."""

    environment: str
    arms: tuple[str, ...]
    """The names of the arms: the baseline and the policy, or the policy alone."""
    released: ArmStatistics
    bounds: tuple[float, float]
    """The declared range of returns, in the world's own unit."""
    alpha: float
    certificate: Certificate
    people: People
    seed: int
    command: str
    truth: float | None = None
    """Simulation only: the true difference (or value), where the world has a table and nothing is clipped."""
    version: str = __version__

    def __post_init__(self) -> None:
        require(len(self.arms) == len(self.released.users), "every arm must have a name", list(self.arms))
        if self.people not in get_args(People):
            raise UnknownName("kind of people", str(self.people), get_args(People))

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to the people of the trial."""
        return self.certificate.claim

    @property
    def compared(self) -> bool:
        """Whether there are two arms."""
        return len(self.arms) == 2

    @property
    def interval(self) -> ArmInterval:
        """The difference (the policy's mean return minus the baseline's), or the value of the policy."""
        return self._own(interval_of(self.released, self.alpha), single=not self.compared)

    @property
    def estimate(self) -> float:
        """The released difference, or value."""
        return self.interval.estimate

    @property
    def low(self) -> float:
        """Where the interval begins."""
        return self.interval.low

    @property
    def high(self) -> float:
        """Where the interval ends."""
        return self.interval.high

    @property
    def p_value(self) -> float | None:
        """The bound of the p-value; None for a single arm."""
        return self.interval.p_value

    @property
    def verdict(self) -> Verdict | None:
        """What the difference shows; None for a single arm."""
        return verdict_of(self.interval) if self.compared else None

    @property
    def means(self) -> tuple[ArmMean, ...]:
        """Every arm by itself; each interval is wrong with probability at most alpha."""
        parts = zip(self.arms, self.released.sums, self.released.users, strict=True)
        found = []
        for name, total, users in parts:
            one = ArmStatistics(sums=(total,), users=(users,), noise=self.released.noise)
            own = self._own(interval_of(one, self.alpha), single=True)
            found.append(ArmMean(name=name, users=users, mean=own.estimate, low=own.low, high=own.high))
        return tuple(found)

    @property
    def lines(self) -> tuple[str, ...]:
        """For people."""
        level, found = f"{1.0 - self.alpha:.4g}", self.interval
        shown = f"{found.estimate:.4g} [{found.low:.4g}, {found.high:.4g}]"
        who = "fresh users" if self.people == "fresh" else "users who may have been in the run"
        if not self.compared:
            line = f"value of {self.arms[0]}: {shown} with probability {level}, by {self.released.users[0]:,} {who}"
            return (line, *self._beside())
        line = (
            f"{self.arms[1]} against {self.arms[0]}: {shown} with probability {level}, p ≤ {found.p_value:.2g}: "
            f"{self.verdict}"
        )
        each = f"{' and '.join(f'{users:,}' for users in self.released.users)} {who}"
        errors = f"a wrong 'better' has probability at most {wrong_verdict(self.alpha):g}, and so has a wrong 'worse'"
        return (line, f"{each}; {errors}", "; ".join(mean.words for mean in self.means), *self._beside())

    def summary(self) -> str:
        """All lines, and who is protected."""
        return "\n".join([f"trial in {self.environment}", *self.lines, f"privacy: {self.certificate.words}"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        found = self.interval
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "environment": self.environment,
            "arms": list(self.arms),
            "bounds": list(self.bounds),
            "alpha": self.alpha,
            "people": self.people,
            "seed": self.seed,
            "version": self.version,
            "command": self.command,
            "released": self.released.to_dict(),
            "estimate": found.estimate,
            "low": found.low,
            "high": found.high,
            "p_value": found.p_value,
            "verdict": self.verdict,
            "means": [[mean.mean, mean.low, mean.high] for mean in self.means],
            "truth": None if self.truth is None else {"value": self.truth, "simulation_only": True},
            "certificate": self.certificate.to_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TrialResult:
        """The trial that `to_dict` wrote; its interval and verdict must follow from what was released."""
        fits = plain.get("digest") in (None, digest(plain))
        require(fits, "a trial must be as it was written: its digest must fit", "another digest")
        plain = without_seal(plain)
        known = (plain.get("format"), plain.get("format_version")) == (FORMAT, FORMAT_VERSION)
        require(known, f"a trial must be a {FORMAT} of version {FORMAT_VERSION}", plain.get("format"))
        try:
            kept = {name: plain[name] for name in KEPT}
            kept |= {name: tuple(kept[name]) for name in ("arms", "bounds")}
            found = cls(
                **kept,
                released=ArmStatistics.from_dict(plain["released"]),
                certificate=Certificate.from_dict(plain["certificate"]),
                truth=None if plain["truth"] is None else float(plain["truth"]["value"]),
            )
            follows = found.to_dict()
            said = ("estimate", "low", "high", "p_value", "verdict", "means")
            same = set(plain) == set(follows) and all(_close(plain[name], follows[name]) for name in said)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput("a trial must be complete, as it was written") from error
        require(same, "a trial's interval and verdict must follow from what was released", "others")
        return found

    def _own(self, share: ArmInterval, *, single: bool) -> ArmInterval:
        """An interval in the world's own unit; a difference has no offset."""
        low, high = self.bounds
        offset = low if single else 0.0
        return ArmInterval(
            estimate=offset + (high - low) * share.estimate,
            low=offset + (high - low) * share.low,
            high=offset + (high - low) * share.high,
            alpha=share.alpha,
            p_value=share.p_value,
        )

    def _beside(self) -> tuple[str, ...]:
        return () if self.truth is None else (f"the truth is {self.truth:.4g} (simulation only)",)


def _close(first: Any, second: Any) -> bool:
    """Equal, numbers to a part in 10⁶ of what is written."""
    if isinstance(first, Sequence) and not isinstance(first, str):
        return len(first) == len(second) and all(map(_close, first, second))
    if isinstance(first, float | int) and isinstance(second, float | int):
        return abs(first - second) <= 1e-6 * max(1.0, abs(first))
    return bool(first == second)


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
