"""A small multi-layer perceptron as one flat vector of parameters: the θ of the other policies, for networks.

    logits(x) = W₂ tanh(W₁ x + b₁) + b₂,    θ = (W₁, b₁, W₂, b₂) flattened

A flat θ keeps the private-gradient contract the same for tables, linear and neural policies: one vector in R^d arrives,
one step is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.errors import NotSupported, require_count

if TYPE_CHECKING:
    import torch

__all__ = ["NeuralPolicy", "require_torch"]


def require_torch() -> Any:
    """The module torch, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise NotSupported("neural policies need PyTorch: pip install '.[torch]'") from None
    return torch


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralPolicy:
    """The public shape of a network with one hidden layer.

    >>> NeuralPolicy(inputs=4, hidden=32, actions=2).dimension
    226
    """

    inputs: int
    hidden: int
    actions: int

    def __post_init__(self) -> None:
        for name in ("inputs", "hidden", "actions"):
            require_count(name, getattr(self, name))

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return self.hidden * (self.inputs + 1) + self.actions * (self.hidden + 1)

    def initial(self, seed: int) -> torch.Tensor:
        """θ₁: small random weights, data-free; the output layer starts at zero, so every action is alike."""
        torch = require_torch()
        generator = torch.Generator().manual_seed(seed)
        theta = torch.zeros(self.dimension)
        first = self.hidden * self.inputs
        theta[:first] = torch.randn(first, generator=generator) / math.sqrt(self.inputs)
        return theta

    def logits(self, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Logits [..., A] for observations x [..., inputs]."""
        torch = require_torch()
        n, h, a = self.inputs, self.hidden, self.actions
        w1, b1, w2, b2 = theta.split([h * n, h, a * h, a])
        hidden = torch.tanh(x @ w1.view(h, n).T + b1)
        return hidden @ w2.view(a, h).T + b2
