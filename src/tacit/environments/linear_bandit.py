"""A contextual bandit over rows of features: the world of linear learners, and worlds that are not linear.

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
from tacit.errors import InvalidInput, UnknownName, require, require_count

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
