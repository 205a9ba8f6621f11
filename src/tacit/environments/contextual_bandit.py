"""Contextual bandits: one context, one action, one reward; MDPs of horizon 1 whose first state is the context.

The setting of [he2025policy] section 2 with finitely many contexts. Because they are tabular MDPs, everything that
tacit does with MDPs (regret, learners of counts, Gymnasium) works for them, too.
"""

from __future__ import annotations

import numpy as np

from tacit.environments.tabular import TabularMDP
from tacit.errors import require_count, require_real

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
