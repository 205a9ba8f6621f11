"""Contextual bandits: one context, one action, one reward; MDPs of horizon 1 whose first state is the context.

The setting of [he2025policy] section 2 with finitely many contexts. Because they are tabular MDPs, everything that
tacit does with MDPs (regret, learners of counts, Gymnasium) works for them, too.

A contextual bandit with real-valued actions: which dose for which patient. The world of Gaussian policies.

    context s ~ ρ with public features x_s,   action a ∈ ℝ,   reward ~ Bernoulli(exp(-(a - t_s)²/(2 w²)))

Under the Gaussian policy a ~ N(θ·x_s, τ²) everything has a closed form:

    J(θ) = Σ_s ρ_s q exp(-(θ·x_s - t_s)²/(2 (w² + τ²))),   q = w/√(w² + τ²),
    F(θ) = Σ_s ρ_s x_s x_sᵀ/τ²,

so the Fisher matrix is constant. With one feature per context, scaled to √k, it is I/τ² in every dimension: the policy
is Fisher-non-degenerate ([he2025policy] Assumption 2) with μ = 1/τ² whatever k is. It is not a `TabularMDP`.

A contextual bandit over rows of features: the world of linear learners, and worlds that are not linear.

    one parameter per action   θ_a = g/(2 ‖g‖), g ~ N(0, I);  x = (1, z)/‖(1, z)‖, z ~ N(0, I)
    one shared parameter       θ and the row x_a of every action uniform on the unit sphere, u_a = x_a·θ
    P(r = 1) = 1/2 + u_a/2     u_a = x·θ_a, clipped to [-1, 1]

Worlds that break the assumption, with one parameter per action:

    logistic   P = 1/(1 + exp(-6 u_a))                    quad   u_a + √d x'W_a x/2, W_a symmetric, entries N(0, 1)/d
    heavy      x = (1, z)/√d, shortened to 1, z ~ t₂      corr   z = .95 L f + .31 e with two factors f
    xor        P = 1/2 ± sign(x_1 x_2)/4, + for odd actions: no linear function of x says anything
    xor-product    the same, and the last feature is the declared product z_1 z_2

The number of a world seeds its parameters; people are drawn from the coins of a run.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats
from tacit.environments.tabular import TabularMDP, check_probabilities
from tacit.errors import InvalidInput, UnknownName, require, require_count, require_real

MIN_CONTEXT = 0.5  # the rarest context is at least a third as frequent as the most frequent one
MAX_CONTEXT = 1.5

# Patients by severity and by age group, with their shares; all numbers are illustrative, none was taken from a study.
PATIENTS = {
    "mild, young": 0.25,
    "mild, old": 0.20,
    "moderate, young": 0.15,
    "moderate, old": 0.20,
    "severe, young": 0.08,
    "severe, old": 0.12,
}
# The probability that each treatment helps, in the order of the patients.
TREATMENTS = {
    "watchful waiting": (0.80, 0.65, 0.40, 0.30, 0.15, 0.10),
    "standard drug": (0.70, 0.70, 0.65, 0.55, 0.40, 0.30),
    "high dose": (0.55, 0.35, 0.70, 0.40, 0.65, 0.35),
    "combination": (0.50, 0.40, 0.60, 0.60, 0.55, 0.50),
}


def contextual_bandit(*, contexts: int = 10, actions: int = 5, seed: int = 0) -> TabularMDP:
    """A random contextual bandit with finitely many contexts and binary rewards.

    Parameters
    ----------
    contexts, actions
        The size.
    seed
        Which bandit: shares of the contexts and mean rewards r(s, a) ~ Uniform[0, 1] are drawn once.

    Examples
    --------
    >>> contextual_bandit()
    TabularMDP('contextual-bandit', states=10, actions=5, horizon=1, homogeneous, bernoulli rewards)
    """
    S, A = require_count("contexts", contexts), require_count("actions", actions)
    generator = np.random.default_rng(require_count("seed", seed, least=0))
    shares = generator.uniform(MIN_CONTEXT, MAX_CONTEXT, S)
    return _bandit("contextual-bandit", shares / shares.sum(), generator.random((S, A)))


def treatment_bandit(*, contrast: float = 1.0) -> TabularMDP:
    """Which of four treatments helps which of six groups of patients.

    Parameters
    ----------
    contrast
        How much treatments differ: each probability of helping keeps this share of its distance from 1/2.

    Examples
    --------
    >>> treatment_bandit().action_names[0], treatment_bandit().state_names[-1]
    ('watchful waiting', 'severe, old')
    """
    shares = np.array(list(PATIENTS.values()))
    share = require_real("contrast", contrast, low=0.0, high=1.0)
    means = 0.5 + share * (np.array(list(TREATMENTS.values())).T - 0.5)  # [s, a]
    return _bandit("treatment-bandit", shares, means, tuple(PATIENTS), tuple(TREATMENTS))


def _bandit(
    name: str,
    rho: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    means: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    state_names: tuple[str, ...] | None = None,
    action_names: tuple[str, ...] | None = None,
) -> TabularMDP:
    S, A = means.shape
    # Nobody comes back after the only step, so where it leads plays no part: everybody stays.
    P = np.repeat(np.eye(S)[:, None, :], A, axis=1)
    return TabularMDP(
        P=P,
        r=means,
        rho=rho,
        horizon=1,
        reward_kind="bernoulli",
        name=name,
        state_names=state_names,
        action_names=action_names,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DoseBandit:
    """Contexts with features[s,j], shares rho[s], best doses target[s] and the width w of what still helps."""

    features: Floats
    rho: Floats
    target: Floats
    width: float
    deviation: float
    """τ: the standard deviation of the Gaussian policies that are played here."""
    name: str = "dose-bandit"

    def __post_init__(self) -> None:
        S = len(self.rho)
        require(self.features.ndim == 2 and len(self.features) == S, f"features must be [{S}, k]", self.features.shape)
        require(self.target.shape == (S,), f"target must have {S} entries", self.target.shape)
        for array in (self.features, self.rho, self.target):
            require(bool(np.isfinite(array).all()), "all numbers must be finite", "not finite")
            array.setflags(write=False)
        check_probabilities("rho", self.rho, "")
        require_real("width", self.width, low=0.0, open_low=True)
        require_real("deviation", self.deviation, low=0.0, open_low=True)

    @property
    def num_states(self) -> int:
        """The number of contexts."""
        return len(self.rho)

    @property
    def num_actions(self) -> int:
        """None can be counted: actions are real numbers."""
        return 0

    @property
    def horizon(self) -> int:
        """One step."""
        return 1

    @property
    def dimension(self) -> int:
        """The number k of features."""
        return int(self.features.shape[1])

    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what happens."""
        digest = hashlib.sha256(repr((self.width.hex(), self.deviation.hex())).encode())
        for array in (self.features, self.rho, self.target):
            digest.update(array.astype("<f8").tobytes())
        return digest.hexdigest()

    def objective(self, theta: Floats) -> float:
        """J(θ), exactly.

        >>> bandit = dose_bandit(contexts=2)
        >>> bandit.objective(np.zeros(2)) < bandit.optimal_value
        True
        """
        spread = self.width**2 + self.deviation**2
        gap = self.features @ theta - self.target
        return float(self.rho @ (self.width / math.sqrt(spread) * np.exp(-(gap**2) / (2.0 * spread))))

    @property
    def optimal_value(self) -> float:
        """J* of the best Gaussian policy: every mean at its target, which one feature per context makes possible."""
        best = np.asarray(np.linalg.lstsq(self.features, self.target, rcond=None)[0], dtype=np.float64)
        reached = bool(np.allclose(self.features @ best, self.target, atol=1e-9))
        require(reached, "the targets must be linear in the features", "they are not")
        return self.objective(best)


def dose_bandit(*, contexts: int = 4, seed: int = 0, deviation: float = 0.5) -> DoseBandit:
    """Equally frequent contexts, one feature each, best doses at distances between 1/2 and 1 from zero.

    `deviation` is that of the policies, τ: the Fisher matrix is I/τ².

    >>> dose_bandit(contexts=3).dimension
    3
    """
    S = require_count("contexts", contexts)
    generator = np.random.default_rng(require_count("seed", seed, least=0))
    target = generator.uniform(0.5, 1.0, S) * generator.choice([-1.0, 1.0], S)
    return DoseBandit(
        features=math.sqrt(S) * np.eye(S), rho=np.full(S, 1.0 / S), target=target, width=1.0, deviation=deviation
    )


MODELS: Final = ("linear", "logistic", "quad", "heavy", "corr", "xor", "xor-product")
FIRST_SEED: Final = 1000
"""Worlds are seeded by 1000 plus their number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureBandit:
    """People with rows of features, actions, and rewards of 0 or 1; make it with `linear_bandit`."""

    features: int
    """d"""
    actions: int
    """A"""
    shared: bool
    """Whether actions have rows of their own and share one parameter."""
    model: str
    seed: int
    name: str = "linear-bandit"
    theta: Floats = field(init=False)
    """[A,d], or [1,d] where it is shared."""
    curved: Floats = field(init=False)
    """W [A,d,d]."""
    loads: Floats = field(init=False)
    """L [d-1,2]."""

    def __post_init__(self) -> None:
        d, A = require_count("features", self.features, least=2), require_count("actions", self.actions, least=2)
        require_count("seed", self.seed, least=0)
        if self.model not in MODELS:
            raise UnknownName("model of linear-bandit", self.model, MODELS)
        if self.shared and self.model != "linear":
            raise InvalidInput(f"a shared parameter must come with the model 'linear', got '{self.model}'")
        least = {"xor": 3, "xor-product": 4}.get(self.model, 2)
        require(d >= least, f"{self.model} must have at least {least} features", d)
        rng = np.random.default_rng(FIRST_SEED + self.seed)
        theta = rng.normal(size=(1 if self.shared else A, d))
        theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        curved = np.zeros((0, d, d)) if self.shared else rng.normal(size=(A, d, d)) / d
        loads = rng.normal(size=(d - 1, 2))
        numbers = {
            "theta": theta if self.shared else 0.5 * theta,
            "curved": (curved + curved.transpose(0, 2, 1)) / 2.0,
            "loads": loads / np.linalg.norm(loads, axis=1, keepdims=True),
        }
        for name, values in numbers.items():
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @property
    def num_actions(self) -> int:
        """A."""
        return self.actions

    @property
    def num_states(self) -> int:
        """None can be counted: rows are real numbers."""
        return 0

    @property
    def horizon(self) -> int:
        """One decision."""
        return 1

    stationary = True

    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what happens."""
        found = hashlib.sha256(repr((self.features, self.actions, self.shared, self.model)).encode())
        for array in (self.theta, self.curved, self.loads):
            found.update(array.astype("<f8").tobytes())
        return found.hexdigest()

    def contexts(self, people: int, rng: np.random.Generator) -> Floats:
        """Rows of so many people: [n,d], or [n,A,d] where actions have rows of their own."""
        d = self.features
        if self.shared:
            x = rng.normal(size=(people, self.actions, d))
            x /= np.sqrt((x * x).sum(axis=2, keepdims=True))
            return np.asarray(x)
        x = np.ones((people, d))
        if self.model == "heavy":
            x[:, 1:] = rng.standard_t(2, size=(people, d - 1))
            x /= math.sqrt(d)
        elif self.model == "corr":
            x[:, 1:] = 0.95 * rng.normal(size=(people, 2)) @ self.loads.T + 0.31 * rng.normal(size=(people, d - 1))
        else:
            x[:, 1:] = rng.normal(size=(people, d - 1))
        if self.model == "xor-product":
            x[:, -1] = x[:, 1] * x[:, 2]
        x /= np.maximum(1.0, np.sqrt((x * x).sum(axis=1, keepdims=True)))
        return x

    def means(self, x: Floats) -> Floats:
        """P(r = 1) of every action [n,A] for these rows."""
        if self.shared:
            return np.asarray(0.5 + 0.5 * (x @ self.theta[0]))
        u = x @ self.theta.T
        if self.model == "logistic":
            return np.asarray(1.0 / (1.0 + np.exp(-6.0 * u)))
        if self.model.startswith("xor"):
            sign = np.where(np.arange(self.actions) % 2 == 1, 0.25, -0.25)
            return np.asarray(0.5 + np.sign(x[:, 1] * x[:, 2])[:, None] * sign)
        if self.model == "quad":
            bent = [((x @ W) * x).sum(axis=1) for W in self.curved]
            u = u + 0.5 * math.sqrt(self.features) * np.stack(bent, axis=1)
        return np.asarray(0.5 + 0.5 * np.clip(u, -1.0, 1.0))

    def own_rows(self, x: Floats, actions: NDArray[np.int64]) -> Floats:
        """The rows that people report: those of their actions where actions have some."""
        return np.asarray(x[np.arange(len(actions)), actions]) if self.shared else x


def linear_bandit(
    *, features: int = 5, actions: int = 4, seed: int = 0, shared: bool = False, model: str = "linear"
) -> FeatureBandit:
    """People with rows of features and rewards of 0 or 1: linear, or misspecified on purpose.

    >>> world = linear_bandit(features=10)
    >>> x = world.contexts(3, np.random.default_rng(0))
    >>> x.shape, world.means(x).shape
    ((3, 10), (3, 4))
    """
    return FeatureBandit(features=features, actions=actions, shared=shared, model=model, seed=seed)
