"""`Result`: what a run gave, with everything needed to judge it and to make it again.

Regret is the pseudo-regret Σ_k V*(s₁) - V^{π_k}(s₁). It takes the true model to compute, so it exists in simulations
only; no deployment can report it. In a live world, which has no table, it is NaN, and `returns` stand in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.arrays import Floats, Ints
from tacit.environments.live import LiveWorld
from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import ForeignCode, InvalidInput, NotSupported, install_hint, require
from tacit.learners.table import learner_row
from tacit.notebook import block, facts, grid
from tacit.planning.valid_bands import ValueInterval
from tacit.policies import AnyPolicy, tabular
from tacit.policies.named import NamedPolicy
from tacit.protocol import Totals
from tacit.release.gradient import both_claims
from tacit.released.arms import ArmStatistics
from tacit.released.batches import BatchQuery, BatchReport
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig, parse_learner
from tacit.runs.returns_report import (
    RETURN_HEAD,
    BaselineComparison,
    against_baseline,
    return_cells,
    return_lines,
    returns_json,
)
from tacit.runs.trial_result import TrialResult, trial_of_run
from tacit.simulation.judges.games import LossMeasures
from tacit.simulation.judges.live import ReturnMeasures
from tacit.simulation.judges.softmax import Objective
from tacit.simulation.simulate import SeedRun

if TYPE_CHECKING:
    from tacit.runs.comparison import Comparison


def frame_of(results: Sequence[Result]) -> Any:
    """The rows of these results as one pandas DataFrame, with the columns of results.parquet.

    `frame.attrs["simulation_only"]` lists the columns that take the true world to compute.
    """
    if find_spec("pandas") is None:
        raise NotSupported(f"to_pandas needs pandas: {install_hint('pandas')}")
    import pyarrow as pa

    from tacit.runs.run_facts import make_labels
    from tacit.runs.storage import seed_rows

    tables = []
    for result in results:
        names = {"experiment": result.experiment, "label": result.label}
        labels = make_labels(result.config, result.resolved, result.claim, **names)
        tables += [seed_rows(run, labels) for run in result.seed_runs()]
    # Live worlds have a column `return` where others have `regret`.
    frame = pa.concat_tables(tables, promote_options="default").to_pandas()
    frame.attrs["simulation_only"] = [name for name in ("regret", "return") if name in frame.columns]
    return frame


def result_html(result: Result) -> str:
    """A result in a few lines: what ran, what it cost and who is protected."""
    config, spread, relative = result.config, result.spread(), result.relative_regret
    rows = [
        ("environment", config.environment_name, False),
        ("learner", "; ".join(config.choices) or config.learner, False),
        ("episodes, seeds", f"{config.episodes:,}, {len(result.seeds)}", False),
        *(
            zip(RETURN_HEAD, return_cells(result), [True] * len(RETURN_HEAD), strict=True)
            if result.returns
            else [("regret", f"{spread.mean:,.1f} ± {spread.std:,.1f} [{spread.min:,.1f}, {spread.max:,.1f}]", True)]
        ),
        *([] if relative is None else [("share of the uniform policy's regret", f"{relative:.3f}", True)]),
        ("privacy", result.privacy_words, False),
    ]
    return block(result.label, facts(rows))


def comparison_html(comparison: Comparison) -> str:
    """The table of a comparison."""
    from tacit.accounting.wording import shown_up

    rows = []
    for result in comparison.results:
        spread, relative = result.spread(), result.relative_regret
        certified = "-" if result.claim.trust == "none" else shown_up(result.certificate.epsilon)
        live = bool(result.returns)
        judgement = return_cells(result)[0] if live else f"{spread.mean:,.1f} ± {spread.std:,.1f}"
        share = "-" if relative is None else f"{relative:.3f}"
        rows.append([result.label, result.config.environment_name, result.claim.trust, certified, judgement, share])
    lives = {bool(result.returns) for result in comparison.results}
    judged = {True: "return per user", False: "regret"}[lives.pop()] if len(lives) == 1 else "regret or return per user"
    head = ["run", "environment", "trust", "certified ε", judged, "share of uniform's"]
    return block(comparison.name, grid(head, rows, simulated=(4, 5)))


class _Resolved(Protocol):
    @property
    def settings(self) -> Mapping[str, float | str] | None: ...


class _Reported(Protocol):
    @property
    def losses(self) -> Sequence[LossMeasures]: ...

    @property
    def resolved(self) -> _Resolved: ...


def adversarial_lines(result: _Reported) -> tuple[str, ...]:
    """Lines for people: the reference policies, C_M, and whether every solve can be trusted."""
    found, settings = losses_json(result), result.resolved.settings or {}
    if found is None:
        return ()
    tuned = ", ".join(f"{name} {_number(value)}" for name, value in settings.items() if name != "effective_support")
    solver = f"{found['solves']:,} solves, {found['unconverged']} unconverged, {found['iterations']:.2f} steps each"
    references = f"uniform policy {found['uniform'][-1]:,.1f}, myopic policy {found['myopic'][-1]:,.1f}"
    inside = f"mean width {found['width']:.3f} at the end, truth outside in {found['outside']:.1%} of the episodes"
    return (
        f"beside it (same losses): {references}; effective support C_M {found['effective_support']:.4g}",
        f"set of transitions: {inside}; {solver}",
        f"tuned: {tuned}",
    )


def losses_json(result: _Reported) -> dict[str, Any] | None:
    """Means over the seeds (counts are sums), JSON-ready; None for results without an adversary."""
    if not result.losses:
        return None
    summed = ("solves", "unconverged", "fallbacks", "infeasible", "floored")
    worst = ("worst_gap", "worst_residual")
    said: dict[str, Any] = {"effective_support": (result.resolved.settings or {}).get("effective_support")}
    for field in fields(LossMeasures):
        values = np.array([getattr(found, field.name) for found in result.losses], dtype=np.float64)
        if field.name in summed:
            said[field.name] = int(values.sum())
        elif field.name in worst:
            said[field.name] = float(values.max())
        else:
            said[field.name] = values.mean(axis=0).tolist()
    return {**said, "simulation_only": True}


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.runs.figures import Band, LogAxes


HARDLY_BETTER = 0.9
"""From this share of the uniform policy's regret on, a private run is told what to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What the names and defaults of a configuration stand for."""

    fingerprint: str
    """Of the environment: SHA-256 of the true model."""
    states: int
    actions: int
    horizon: int
    staged: bool
    constants: str
    z: float | None
    calibration: str
    privatizer: str
    users_per_batch: int
    optimal_value: float | None
    """Simulation only: the value of an episode under the optimal policy; None in a live world."""
    uniform_value: float | None
    """Simulation only: the value of an episode when every action is alike; None in a live world."""
    settings: dict[str, float | str] | None = None
    """Where losses are adversarial: every constant that was tuned, and the effective support C_M."""

    @property
    def mechanism(self) -> str | None:
        """The noise that was really used, also where nobody named one; None without a trust model."""
        return self.privatizer.partition("/")[2] or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean, sample standard deviation (zero for one seed), least and greatest of some numbers."""

    mean: float
    std: float
    min: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """The regret of every seed at every checkpoint (simulation only), its configuration, claim and certificate.

    Attributes
    ----------
    config, resolved
        The configuration, and what was looked up and computed for it.
    seeds, episodes
        Seeds, and the numbers of episodes at the checkpoints.
    regret
        Regret[seed, checkpoint]; simulation only.
    seconds, policy_changes
        Per seed.
    claim, certificate
        What was promised, and what the accountant finds.
    batches, objectives, losses, arms, intervals
        Releases, objectives, adversarial losses, arms and intervals of the optimal value, where a learner has them.
    policies
        The last policy of every seed; `policy` is the first.
    returns
        Returns of worlds without a table.
    experiment, label, version, command
        Where it belongs, and how it is made again.
    world, doubt
        The description of a world without a table; a doubt about a declaration.

    Examples
    --------
    >>> import tacit
    >>> found = tacit.run(environment="riverswim", learner="psrl", episodes=20, seeds=2, workers=1)
    >>> found.regret.shape == (2, len(found.episodes)), found.policy.actions.shape, found.certificate.claim.trust
    (True, (6, 4), 'none')
    >>> found.policy.act(state=3) in (0, 1), found.named_policy.act(0, "right bank") in ("left", "right")
    (True, True)
    """

    config: RunConfig
    resolved: Resolved
    seeds: tuple[int, ...]
    episodes: Ints
    """The checkpoints: episode numbers, evenly spaced on a log scale."""
    regret: Floats
    """[seed, checkpoint]: cumulative pseudo-regret. Simulation only."""
    seconds: tuple[float, ...]
    """Wall-clock seconds of each seed, compilation left out where users come one by one."""
    policy_changes: tuple[int, ...]
    claim: PrivacyClaim
    certificate: Certificate
    batches: tuple[BatchReport, ...]
    """Claim and message cost of each kind of batch, where the learner plans batches of its own."""
    objectives: tuple[Objective, ...]
    """Simulation only: one per seed for policy gradients, else empty."""
    losses: tuple[LossMeasures, ...]
    """Simulation only: one per seed for adversarial losses, else empty."""
    policies: tuple[AnyPolicy | None, ...]
    """The last policy of each seed; None where an older version did not keep it."""
    returns: tuple[ReturnMeasures, ...]
    """Simulation only: one per seed in a live world, else empty."""
    experiment: str
    label: str
    version: str
    command: str
    arms: tuple[ArmStatistics, ...] = ()
    """What fresh users released about the final policy, one per seed; empty without `value_users`."""
    intervals: tuple[ValueInterval, ...] = ()
    """Where the value of the best policy lies, one per seed, by what was released alone; empty for other learners."""
    world: dict[str, Any] | None = None
    """A live world's public description: discretiser, bounds, padding, and the version of Gymnasium."""
    doubt: str | None = None
    """What of the directory that was read is FALSE, or not verified; the certificate here was derived again."""

    @property
    def policy(self) -> AnyPolicy:
        """The last policy of the first seed."""
        return self.policy_of(self.seeds[0])

    def policy_of(self, seed: int) -> AnyPolicy:
        """The last policy of one seed."""
        require(seed in self.seeds, f"seed must be one of the run's {list(self.seeds)}", seed)
        found = self.policies[self.seeds.index(seed)]
        if found is None:
            raise InvalidInput(f"this result of tacit {self.version} holds no policies; run it again: {self.command}")
        return found

    @property
    def named_policy(self) -> NamedPolicy:
        """The same with the names of its states and actions, `act(step, state)` by name, a table and a JSON file."""
        world = assemble(self.config).mdp
        if not isinstance(world, TabularMDP | LiveWorld | SeenMDP):
            raise NotSupported(f"only policies of tabular worlds have names, got {self.config.environment_name}")
        return NamedPolicy(policy=tabular(self.policy), states=world.state_names, actions=world.action_names)

    @property
    def seconds_per_episode(self) -> float:
        """The median seed's seconds, per episode."""
        return float(np.median(self.seconds)) / self.config.episodes

    @property
    def uniform_regret(self) -> float:
        """Simulation only: the expected regret per episode of the uniform policy; NaN if live."""
        best, alike = self.resolved.optimal_value, self.resolved.uniform_value
        return math.nan if best is None or alike is None else best - alike

    @property
    def relative_regret(self) -> float | None:
        """Simulation only: the mean final regret as a share of the uniform policy's (None if that has none)."""
        if self.returns:
            return None
        scale = self.uniform_regret * self.config.episodes
        if self.losses:
            scale = float(np.mean([found.uniform[-1] for found in self.losses]))
            if scale < 1e-3 * self.config.episodes:
                return None  # all fixed policies pay the same: there is nothing to learn, only to lose
        return float(self.regret[:, -1].mean()) / scale if scale > 1e-12 else None

    @property
    def against(self) -> BaselineComparison | None:
        """Simulation only: the run beside its baseline, with intervals; None where it has none."""
        return against_baseline(self)

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """What fresh users certify about the final policy of each seed: its value, and the baseline beside it."""
        parts = zip(self.arms, self.policies, self.seeds, strict=False)
        try:
            return tuple(trial_of_run(self.config, *part) for part in parts)
        except ForeignCode:  # the baseline is a function of a file that was read
            return ()

    def spread(self) -> Spread:
        """Simulation only: the final regret over the seeds."""
        return spread_of(self.regret[:, -1])

    @property
    def unverified(self) -> str | None:
        """Which statements about the learner nobody has checked."""
        return learner_row(parse_learner(self.config.learner)[0]).unverified

    @property
    def reservations(self) -> str:
        """What was kept and is false, and what has not been checked about the learner; empty if neither."""
        before = "" if self.doubt is None else f"What was kept is {self.doubt}. This is derived again. "
        return before + ("" if self.unverified is None else f"Unverified: {self.unverified}.")

    @property
    def privacy_words(self) -> str:
        """The certificate as one paragraph, and what is to be said about it."""
        return f"{self.certificate.words} {self.reservations}".strip()

    @property
    def advice(self) -> str | None:
        """Simulation only: what to try where a private run ended hardly better than the uniform policy; else None."""
        if self.claim.trust == "none" or learner_row(parse_learner(self.config.learner)[0]).reference:
            return None
        if self.returns:
            gains = np.array([found.final.mean - found.uniform.mean for found in self.returns])
            variance = float(np.mean([found.final.variance + found.uniform.variance for found in self.returns]))
            hardly = float(gains.mean()) < 2.0 * math.sqrt(variance / len(gains))
        else:
            hardly = self.relative_regret is not None and not self.losses and self.relative_regret > HARDLY_BETTER
        if not hardly:
            return None
        try:
            parts, facts, K = assemble(self.config), self.resolved, self.config.episodes
        except ForeignCode:  # the baseline is a function of a file that was read
            return None
        noise = max(parts.privatizer.noise_std().values())
        visits = K * (1 if facts.staged else facts.horizon) / (facts.states * facts.actions)
        more = K * max(2.0, (3.0 * noise / visits) ** (2 if self.claim.trust == "local" else 1))
        sharing = "" if self.unused is None else ", which shares the steps of this stationary world,"
        auto = "" if self.config.because is not None else f"learner 'auto'{sharing} with "
        return (
            f"hardly better than the uniform policy: noise of a counter up to {noise:,.0f} (standard deviation), about "
            f"{visits:,.0f} visits each; try {auto}about {more:,.0f} users, or a larger epsilon"
        )

    @property
    def unused(self) -> str | None:
        """That a named learner keeps the steps of a stationary world apart, and what shares them; else None."""
        name, chosen = parse_learner(self.config.learner)
        row = learner_row(name)
        sharing = next((option for option in ("share_across_steps", "time_homogeneous") if option in row.options), None)
        apart = sharing is None or chosen.get(sharing) != "true"
        counts = row.asks in (Totals, BatchQuery) and not row.reference
        if self.config.because is not None or not counts or not self.resolved.staged or not apart:
            return None
        if not getattr(self.config.world(), "stationary", False):
            return None
        how = "'auto' chooses one that shares them" if sharing is None else f"{name}:{sharing}=true shares them"
        return f"the world is declared stationary, and {name} learns every step apart; {how}"

    def summary(self) -> str:
        """A few lines: what ran, what it cost, how long it took and who is protected."""
        spread, relative = self.spread(), self.relative_regret
        share = "" if relative is None else f", {relative:.3f} of the uniform policy's"
        widths = "" if self.resolved.constants == "none" else f", constants {self.resolved.constants}"
        widths += "" if self.resolved.z is None else f" (z = {self.resolved.z:g})"
        plural = "s" if len(self.seeds) > 1 else ""
        speed = f"{self.seconds_per_episode * 1e6:.3g} µs per episode"
        across = f"{spread.mean:,.1f} ± {spread.std:,.1f} [{spread.min:,.1f}, {spread.max:,.1f}]"
        lines = (
            *self.config.choices,
            f"{self.config.learner} on {self.config.environment_name}, trust {self.claim.trust}{widths}",
            f"{self.config.episodes:,} episodes, {len(self.seeds)} seed{plural}, {speed}",
            *(return_lines(self) or (f"regret (simulation only): {across}{share}",)),
            *self._interval_lines(),
            *(line for trial in self.trials[:1] for line in trial.lines),
            *adversarial_lines(self),
            *(() if self.against is None else self.against.lines),
            *(() if self.unused is None else (f"not used: {self.unused}",)),
            *(() if self.advice is None else (f"advice: {self.advice}",)),
            f"privacy: {self.privacy_words}",
        )
        return "\n".join(lines)

    def _interval_lines(self) -> tuple[str, ...]:
        """Where the value of the best policy lies, by what the first seed released; nothing where it is unknown."""
        if not self.intervals or self.intervals[0].high - self.intervals[0].low >= self.resolved.horizon:
            return ()
        low, high, beta = self.intervals[0]
        return (f"value of the best policy: {low:.3f} to {high:.3f} with probability {1.0 - beta:g} (from releases)",)

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints: plain values, valid JSON (infinity is written "inf")."""
        seed_spread, against = asdict(self.spread()), self.against
        return {
            "environment": self.config.world_name,
            "adversary": self.config.adversary_name,
            "learner": self.config.learner,
            "because": self.config.because,
            "by_size": self.config.by_size,
            "episodes": self.config.episodes,
            "seeds": len(self.seeds),
            "seed_list": list(self.seeds),
            "constants": self.resolved.constants,
            "z": self.resolved.z,
            "trust": self.claim.trust,
            "calibration": self.resolved.calibration,
            "mechanism": self.resolved.mechanism,
            "batch": self.resolved.users_per_batch,
            "claim": self.claim.to_dict(),
            "certificate": self.certificate.to_dict(),
            "unverified": self.unverified,
            "doubt": self.doubt,
            "batches": [batch.to_dict() for batch in self.batches],
            "regret": None
            if self.returns
            else {**seed_spread, "per_seed": self.regret[:, -1].tolist(), "simulation_only": True},
            "checkpoints": self._checkpoints(),
            "returns": returns_json(self),
            "intervals": [found._asdict() for found in self.intervals],
            "trials": [trial.to_dict() for trial in self.trials],
            "against": None if against is None else against.to_dict(),
            "relative_regret": self.relative_regret,
            "advice": self.advice,
            "objective": self._objective(),
            "losses": losses_json(self),
            "claims": [claim.to_dict() for claim in self.claims],
            "seconds_per_episode": self.seconds_per_episode,
            "experiment": self.experiment,
            "label": self.label,
            "resolved": asdict(self.resolved),
            "world": self.world,
            "version": self.version,
            "command": self.command,
        }

    def _checkpoints(self) -> list[dict[str, Any]]:
        """Regret so far, or in a live world the sum of returns so far, over the seeds."""
        rows = np.array([found.total for found in self.returns]) if self.returns else self.regret
        return [
            {"episode": int(episode), **asdict(spread_of(column))}
            for episode, column in zip(self.episodes, rows.T, strict=True)
        ]

    @property
    def claims(self) -> tuple[PrivacyClaim, ...]:
        """Everything that is promised at once: the claim, and for policy gradients joint DP of the online run, too."""
        return both_claims(self.claim) if self.objectives else (self.claim,)

    def _objective(self) -> dict[str, Any] | None:
        """The means over the seeds, and the final objective of each."""
        if not self.objectives:
            return None
        names = [field.name for field in fields(Objective)]
        means = {name: float(np.mean([getattr(found, name) for found in self.objectives])) for name in names}
        return {**means, "per_seed": [found.final for found in self.objectives], "simulation_only": True}

    def to_pandas(self) -> Any:
        """One row per seed and checkpoint, as a pandas DataFrame with the columns of results.parquet."""
        return frame_of([self])

    def __repr__(self) -> str:
        config, seeds = self.config, len(self.seeds)
        size = f"{config.episodes:,} episodes, {seeds} seed{'s' if seeds > 1 else ''}"
        return f"<Result of {self.label} on {config.environment_name}, trust {config.trust}, {size}>"

    def _repr_html_(self) -> str:
        return result_html(self)

    def plot(
        self,
        path: str | Path | None = None,
        *,
        band: Band = "std",
        per_episode: bool = False,
        log: LogAxes = "xy",
        title: str | None = None,
    ) -> Figure:
        """Draw the regret (simulation only) with its band; see `tacit.runs.figures.plot`."""
        from tacit.runs.figures import plot

        return plot([self], path, band=band, per_episode=per_episode, log=log, title=title)

    def save(self, directory: str | Path) -> Path:
        """Write the result as a run's directory; one that holds this result already is left as it is."""
        from tacit.runs.archive import write_result
        from tacit.runs.storage_paths import resolve_location

        return write_result(self, resolve_location(directory))

    def seed_runs(self) -> list[SeedRun]:
        """The result seed by seed, as the loop gave it."""
        parts = zip(self.seeds, self.regret, self.policy_changes, self.seconds, strict=True)
        return [
            SeedRun(
                seed=seed,
                episodes=self.episodes,
                regret=row,
                policy_changes=changes,
                seconds=seconds,
                objective=self.objectives[i] if self.objectives else None,
                losses=self.losses[i] if self.losses else None,
                policy=self.policies[i],
                returns=self.returns[i] if self.returns else None,
                interval=self.intervals[i] if self.intervals else None,
                arms=self.arms[i] if self.arms else None,
            )
            for i, (seed, row, changes, seconds) in enumerate(parts)
        ]


def spread_of(values: Floats) -> Spread:
    """Summarise one number per seed.

    >>> spread_of(np.array([1.0, 3.0]))
    Spread(mean=2.0, std=1.4142135623730951, min=1.0, max=3.0)
    """
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Spread(mean=float(np.mean(values)), std=std, min=float(np.min(values)), max=float(np.max(values)))


def resolve(parts: Assembled, config: RunConfig) -> Resolved:
    """What the configuration stands for, once it is built."""
    return Resolved(
        fingerprint=parts.mdp.fingerprint(),
        states=parts.mdp.num_states,
        actions=parts.mdp.num_actions,
        horizon=parts.mdp.horizon,
        staged=parts.learner.shape.staged,
        constants=parts.learner.constants,
        z=parts.learner.z,
        calibration=parts.privatizer.calibration,
        privatizer=parts.privatizer.name,
        users_per_batch=parts.largest_batch or config.users_per_batch,
        optimal_value=_known(parts.values[0]),
        uniform_value=_known(parts.values[1]),
        settings=parts.settings,
    )


def world_json(parts: Assembled) -> dict[str, Any] | None:
    """What is public of a live world (with the version of Gymnasium), or of what a policy sees; None for a table."""
    world = parts.mdp
    if isinstance(world, SeenMDP):
        return {"sees": world.label, "features": list(world.features), "states": world.mdp.num_states}
    return {**world.to_dict(), "gymnasium": gymnasium.__version__} if isinstance(world, LiveWorld) else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
