"""Policies: tables of actions or probabilities, and the parametrised families that gradients are taken of.

Everything here is public: a policy is computed from released statistics only and runs on the user's side.
"""

from __future__ import annotations

from tacit.policies.linear import LinearPolicy
from tacit.policies.tables import (
    AnyPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    LayeredPolicy,
    Policy,
    StochasticPolicy,
    policy_from_dict,
    policy_to_dict,
    tabular,
    uniform_policy,
)

__all__ = [
    "AnyPolicy",
    "DeterministicPolicy",
    "GaussianPolicy",
    "LayeredPolicy",
    "LinearPolicy",
    "Policy",
    "StochasticPolicy",
    "policy_from_dict",
    "policy_to_dict",
    "tabular",
    "uniform_policy",
]
