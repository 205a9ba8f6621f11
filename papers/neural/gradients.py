"""Sensitive: per-user policy gradients of a network by `torch.func`, clipped user by user.

A user is one trajectory of at most H steps, padded with weight zero; users of similar length are computed together, so
that little is spent on padding. The surrogate of one user,
Σ_h w_h log π_θ(a_h|x_h) with weights that are held fixed, has the gradient Σ_h w_h ∇ log π_θ(a_h|x_h); `vmap` takes it
for all users at once, and each is scaled to norm C at most before anything is summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from papers.neural.policy import NeuralPolicy, require_torch
from tacit.errors import require

if TYPE_CHECKING:
    import torch

__all__ = ["NeuralBatch", "clipped_sum", "plain_sum", "user_gradients"]

GROUP: Final = 100
"""About how many users of similar length are computed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class NeuralBatch:
    """Users, padded to H steps: observations [m,H,n], actions [m,H], weights [m,H] (zero after the end).

    `shares` [m] is the return as a share of the horizon, `lengths` [m] the number of steps.
    """

    observations: torch.Tensor
    actions: torch.Tensor
    weights: torch.Tensor
    shares: torch.Tensor
    lengths: torch.Tensor

    def __repr__(self) -> str:
        return f"NeuralBatch({len(self.actions)} users)"  # never their contents

    def __len__(self) -> int:
        return len(self.actions)


def plain_sum(policy: NeuralPolicy, theta: torch.Tensor, batch: NeuralBatch) -> torch.Tensor:
    """Σ_i g_i without clipping, by one backward pass over the steps that happened: an update without privacy."""
    torch = require_torch()
    leaf = theta.detach().requires_grad_()
    happened = torch.arange(batch.actions.shape[1]) < batch.lengths[:, None]
    total = _surrogate(policy, leaf, batch.observations[happened], batch.actions[happened], batch.weights[happened])
    (gradient,) = torch.autograd.grad(total, leaf)
    return gradient


def user_gradients(policy: NeuralPolicy, theta: torch.Tensor, batch: NeuralBatch) -> torch.Tensor:
    """Each user's gradient [m,d], not clipped: sensitive."""
    th = require_torch()

    def one(x: torch.Tensor, a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = th.func.grad(lambda flat: _surrogate(policy, flat, x, a, w))(theta)
        return gradient

    found = theta.new_zeros(len(batch), len(theta))
    order = th.argsort(batch.lengths)
    for group in order.tensor_split(max(1, len(batch) // GROUP)):
        steps = max(1, int(batch.lengths[group].max()))
        parts = (batch.observations[group, :steps], batch.actions[group, :steps], batch.weights[group, :steps])
        found[group] = th.func.vmap(one)(*parts)
    return found


def clipped_sum(policy: NeuralPolicy, theta: torch.Tensor, batch: NeuralBatch, clip: float) -> torch.Tensor:
    """Σ_i g_i min(1, C/‖g_i‖); a gradient that is not finite counts as zero, whatever made it so."""
    torch = require_torch()
    require(clip > 0.0, "clip must be positive", given=clip)
    gradients = user_gradients(policy, theta.detach(), batch)
    norms = gradients.norm(dim=1)
    # Single precision sums err by less than a part in 10⁵: the clip is lowered by as much.
    scales = torch.clamp(clip * (1.0 - 1e-5) / norms.clamp(min=1e-12), max=1.0)
    scales = torch.where(torch.isfinite(norms), scales, torch.zeros_like(scales))
    return scales @ torch.nan_to_num(gradients, nan=0.0, posinf=0.0, neginf=0.0)


def _surrogate(
    policy: NeuralPolicy, theta: torch.Tensor, x: torch.Tensor, actions: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Σ w log π_θ(a|x) over everything that is given."""
    torch = require_torch()
    logs = torch.log_softmax(policy.logits(theta, x), dim=-1)
    taken = logs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return (weights * taken).sum()
