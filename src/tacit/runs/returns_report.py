"""What a result says of returns: those of a live world, where there is no regret, and those beside a baseline.

    during   mean return per user of the run, minus the baseline's
    final    return of the policy that the run ended with, minus the baseline's

In a tabular world all values are exact (pseudo-returns, simulation only) and the interval is over the seeds; in a live
world they are measured. With two seeds or more intervals are Student's t over the seeds, which differ by far more than
the episodes of one; with one seed of a live world they are normal, over its episodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import scipy

from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import ForeignCode
from tacit.planning.dynamic import value_of
from tacit.policies import Policy, tabular
from tacit.runs.assemble import assemble
from tacit.simulation.judges.live import Z95, Estimate, ReturnMeasures

if TYPE_CHECKING:
    from tacit.runs.result import Result


LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95% interval; None: one seed says nothing about others."""

    mean: float
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.mean:+.4g}" + ("" if self.low is None else f" [{self.low:+.4g}, {self.high:+.4g}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineComparison:
    """Simulation only: a run beside its baseline; differences are the run's minus the baseline's."""

    baseline: str
    value: float
    """The baseline's return per user."""
    during: Interval
    final: Interval
    how: str
    """What the intervals are made of."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {**asdict(self), "simulation_only": True}

    @property
    def lines(self) -> tuple[str, ...]:
        """For people."""
        line = (
            f"against the baseline '{self.baseline}' ({self.value:.4g} per user, simulation only): during the run "
            f"{self.during.words}, final policy {self.final.words}; {self.how}"
        )
        return (line,)


def against_baseline(result: Result) -> BaselineComparison | None:
    """The run beside its baseline; None where it has none."""
    given = result.config.baseline
    if given is None:
        return None
    name = given if isinstance(given, str) else "table"
    if result.returns:
        return _live(name, result.returns, result.config.episodes)
    try:
        parts = assemble(result.config)
    except ForeignCode:  # a function that the file names: what it would say is not known
        return None
    mdp, policy, seen = parts.mdp, parts.baseline, None
    if isinstance(mdp, SeenMDP):
        seen, mdp = mdp, mdp.mdp
    if not isinstance(mdp, TabularMDP) or policy is None:
        return None
    value = _value(mdp, policy)
    best = parts.values[0]
    # V^{π_k} - V^b = (V* - V^b) - (V* - V^{π_k}), summed over users
    during = (best - value) - result.regret[:, -1] / result.config.episodes
    lifted = [found if seen is None else seen.lift(found) for found in result.policies if found is not None]
    finals = [_value(mdp, tabular(found)) - value for found in lifted]
    how = "exact values, 95% t-interval over the seeds" if len(result.seeds) > 1 else "exact values, one seed"
    return BaselineComparison(
        baseline=name, value=value, during=interval_over(during), final=interval_over(np.array(finals)), how=how
    )


def interval_over(values: np.ndarray[Any, Any]) -> Interval:
    """The mean of one number per seed, with Student's interval.

    >>> interval_over(np.array([1.0, 3.0])).mean
    2.0
    """
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Interval(mean=mean, low=None, high=None)
    half = float(scipy.special.stdtrit(n - 1, 0.5 + LEVEL / 2.0)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Interval(mean=mean, low=mean - half, high=mean + half)


def mean_return(returns: Sequence[ReturnMeasures], episodes: int) -> Interval:
    """The mean return per user of a live run."""
    if len(returns) > 1:
        return interval_over(np.array([found.total[-1] / episodes for found in returns]))
    return _normal(returns[0].total[-1] / episodes, _variance(returns[0], episodes))


def _live(name: str, returns: Sequence[ReturnMeasures], episodes: int) -> BaselineComparison | None:
    measured = [found.baseline for found in returns]
    bases = [base for base in measured if base is not None]
    if len(bases) != len(returns):
        return None
    during = np.array([f.total[-1] / episodes - b.mean for f, b in zip(returns, bases, strict=True)])
    final = np.array([f.final.mean - b.mean for f, b in zip(returns, bases, strict=True)])
    value = float(np.mean([base.mean for base in bases]))
    if len(returns) > 1:
        how = f"95% t-interval over the seeds, {bases[0].episodes:,} fresh episodes each"
        return BaselineComparison(
            baseline=name, value=value, during=interval_over(during), final=interval_over(final), how=how
        )
    one, base = returns[0], bases[0]
    return BaselineComparison(
        baseline=name,
        value=value,
        during=_normal(float(during[0]), _variance(one, episodes) + base.variance),
        final=_normal(float(final[0]), one.final.variance + base.variance),
        how=f"95% normal interval over {base.episodes:,} fresh episodes, one seed",
    )


def _variance(found: ReturnMeasures, episodes: int) -> float:
    """Of the mean return per user: (Σx²/n - x̄²)/n."""
    mean = found.total[-1] / episodes
    return max(0.0, found.squares[-1] / episodes - mean * mean) / episodes


def _normal(mean: float, variance: float) -> Interval:
    half = Z95 * math.sqrt(variance)
    return Interval(mean=mean, low=mean - half, high=mean + half)


def _value(mdp: TabularMDP, policy: Policy) -> float:
    V = value_of(np.array(mdp.stage_P), np.array(mdp.stage_r), policy.probabilities(mdp.num_actions))
    return float(mdp.rho @ V[0])


RETURN_HEAD = ("return per user", "final policy", "uniform policy", "share clipped")
"""The columns of a table of live runs."""


class _Config(Protocol):
    @property
    def episodes(self) -> int: ...


class _Reported(Protocol):
    @property
    def returns(self) -> Sequence[ReturnMeasures]: ...

    @property
    def config(self) -> _Config: ...


def return_cells(result: _Reported) -> tuple[str, str, str, str]:
    """The cells of a table for one live run."""
    found = returns_json(result)
    if found is None:
        return ("-", "-", "-", "-")
    during, final, uniform = (_words(found[name]) for name in ("during", "final", "uniform"))
    return during, final, uniform, f"{found['clipped']:.3f}"


def return_lines(result: _Reported) -> tuple[str, ...]:
    """Lines for people; none for results with regret."""
    found = returns_json(result)
    if found is None:
        return ()
    during, final, uniform, _ = return_cells(result)
    many = "95% intervals over the seeds" if len(result.returns) > 1 else "95% intervals over episodes, one seed"
    clipped = f"; {found['clipped']:.1%} of the rewards lay outside the declared bounds" if found["clipped"] else ""
    fresh = f"{found['evaluation']:,} fresh episodes measure each policy"
    return (
        f"return per user (simulation only): {during}; final policy {final}; uniform policy {uniform} ({many})",
        f"no optimum is known here, so there is no regret; {fresh}{clipped}",
    )


def returns_json(result: _Reported) -> dict[str, Any] | None:
    """Means over the seeds with intervals, JSON-ready; None for results with regret."""
    returns = result.returns
    if not returns:
        return None
    during = mean_return(returns, result.config.episodes)
    return {
        "during": {"mean": during.mean, "low": during.low, "high": during.high},
        "final": _estimate([found.final for found in returns]),
        "uniform": _estimate([found.uniform for found in returns]),
        "clipped": float(np.mean([found.clipped for found in returns])),
        "length": float(np.mean([found.length for found in returns])),
        "evaluation": returns[0].final.episodes,
        "per_seed": [found.total[-1] / result.config.episodes for found in returns],
        "final_per_seed": [found.final.mean for found in returns],
        "simulation_only": True,
    }


def _estimate(parts: Sequence[Estimate]) -> dict[str, float | None]:
    if len(parts) == 1:
        return {"mean": parts[0].mean, "low": parts[0].low, "high": parts[0].high}
    over = interval_over(np.array([part.mean for part in parts]))
    return {"mean": over.mean, "low": over.low, "high": over.high}


def _words(interval: dict[str, float | None]) -> str:
    mean, low, high = (interval[name] for name in ("mean", "low", "high"))
    return f"{mean:.4g}" + ("" if low is None else f" [{low:.4g}, {high:.4g}]")
