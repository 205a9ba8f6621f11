"""`LinearPolicy`: the action whose row of features promises most, by public coefficients.

    score(x, a) = c_{j,a} · x + ‖F_a' x‖        one parameter per action, x the row of the person
    score(x, a) = c_j · x_a + ‖F' x_a‖          one parameter for all actions, x_a the row of the action

A device takes one of the J draws c_1, ..., c_J, each alike: J > 1 is Thompson sampling with its draws in the plan. The
width F is optimism; None: there is none. A `uniform` policy takes every action alike, whatever its scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import require
from tacit.notebook import block, grid


@dataclass(frozen=True, slots=True, eq=False)
class LinearPolicy:
    """Coefficients [J,M,d] of J draws, M = actions or 1 parameters, d features.

    >>> policy = LinearPolicy(np.array([[[1.0, 0.0], [0.0, 1.0]]]), actions=2)
    >>> policy.choose(np.array([[0.3, 0.1], [0.3, 0.4]]), np.random.default_rng(0)).tolist()
    [0, 1]
    """

    coefficients: NDArray[np.float64]
    actions: int
    widths: NDArray[np.float64] | None = None
    """[M,d,d]: F of every parameter."""
    uniform: bool = False

    def __post_init__(self) -> None:
        three = self.coefficients.ndim == 3 and len(self.coefficients) > 0
        require(three, "coefficients must have the shape [draws, parameters, features]", self.coefficients.shape)
        require(bool(np.isfinite(self.coefficients).all()), "coefficients must be finite", "others")
        _, M, d = self.coefficients.shape
        require(M in (1, self.actions), f"a linear policy must have one parameter, or {self.actions}", M)
        if self.widths is not None:
            fits = self.widths.shape == (M, d, d) and bool(np.isfinite(self.widths).all())
            require(fits, f"widths must be finite, of the shape {(M, d, d)}", self.widths.shape)

    @property
    def shared(self) -> bool:
        """Whether actions have rows of their own and share one parameter."""
        return self.coefficients.shape[1] == 1 and self.actions > 1

    def each(self) -> tuple[LinearPolicy, ...]:
        """The draws one by one."""
        if self.uniform:
            return (replace(self, coefficients=self.coefficients[:1]),)
        return tuple(replace(self, coefficients=one[None]) for one in self.coefficients)

    def scores(self, x: NDArray[np.float64], draws: NDArray[np.int64]) -> NDArray[np.float64]:
        """The scores [n,A] of rows x[n,d], or x[n,A,d] where actions have rows of their own; draws[n] below J."""
        J, _, d = self.coefficients.shape
        wanted = (len(draws), self.actions, d) if self.shared else (len(draws), d)
        require(x.shape == wanted, f"rows must have the shape {wanted}", x.shape)
        if J == 1:
            found = x @ (self.coefficients[0, 0] if self.shared else self.coefficients[0].T)
        elif self.shared:
            found = np.einsum("nad,nd->na", x, self.coefficients[draws, 0])
        else:
            found = np.matmul(self.coefficients[draws], x[:, :, None])[:, :, 0]
        if self.widths is not None:
            wide = x @ self.widths[0] if self.shared else np.stack([x @ F for F in self.widths], axis=1)
            found = found + np.sqrt((wide * wide).sum(axis=2))
        return np.asarray(found, dtype=np.float64)

    def choose(self, x: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        """The actions [n] of people with these rows; each takes a draw of its own."""
        n = len(x)
        if self.uniform:
            return rng.integers(0, self.actions, n)
        draws = rng.integers(0, len(self.coefficients), n)
        return np.asarray(self.scores(x, draws).argmax(axis=1), dtype=np.int64)

    def act(self, state: Any, step: int = 0, coins: np.random.Generator | None = None) -> int:
        """The action for one row of features, or for the rows of all actions; `coins` choose a draw.

        >>> LinearPolicy(np.array([[[1.0, 0.0], [0.0, 1.0]]]), actions=2).act([0.2, 0.4])
        1
        """
        require(step == 0, "rows of features have one step, 0", step)
        row = np.asarray(state, dtype=np.float64)
        return int(self.choose(row[None], np.random.default_rng() if coins is None else coins)[0])

    def probabilities_of(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability [n,A] of every action for these rows.

        >>> policy = LinearPolicy(np.array([[[1.0], [0.0]], [[-1.0], [0.0]]]), actions=2)
        >>> policy.probabilities_of(np.array([[0.5]])).tolist()
        [[0.5, 0.5]]
        """
        n, J = len(x), len(self.coefficients)
        if self.uniform:
            return np.full((n, self.actions), 1.0 / self.actions)
        found = np.zeros((n, self.actions))
        for j in range(J):
            found[np.arange(n), self.scores(x, np.full(n, j)).argmax(axis=1)] += 1.0 / J
        return found

    def _repr_html_(self) -> str:
        mean = self.coefficients.mean(axis=0)
        names = ["all actions"] if len(mean) < self.actions else [f"action {a}" for a in range(self.actions)]
        rows = [[name, *(f"{value:.4g}" for value in row)] for name, row in zip(names, mean.tolist(), strict=True)]
        head = ["", *(f"feature {i}" for i in range(mean.shape[1]))]
        return block(f"linear policy, {len(self.coefficients)} draws: mean coefficients", grid(head, rows))
