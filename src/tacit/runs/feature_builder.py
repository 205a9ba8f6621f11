"""Runs on rows of features: people of a linear bandit, whose moments are released batch by batch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tacit.arrays import Floats
from tacit.environments.bandits import FeatureBandit
from tacit.environments.live import LiveWorld
from tacit.errors import NotSupported
from tacit.learners.linear import FeatureRequest
from tacit.learners.linucb_published import PUBLISHED
from tacit.protocol import Learner, Privatizer
from tacit.release.table import make_privatizer
from tacit.released.moments import MomentQuery, MomentShape
from tacit.runs.builder import RunBuilder, RunRequest, privacy_request, refuse_losses
from tacit.simulation.features import rows_of

DECLARED: Final = 20_000
"""Rows that stand for the declared distribution of people's rows."""


RowWorld = FeatureBandit | LiveWorld


def declared_rows(environment: RowWorld) -> Floats:
    """Rows as the world declares them in public: no person's. Those of live worlds are uniform in their bounds."""
    if isinstance(environment, LiveWorld):
        return rows_of(environment).features.uniform_rows(DECLARED)
    return environment.contexts(DECLARED, np.random.default_rng(7))


class FeatureBuilder(RunBuilder):
    """Moments of batches that a learner plans itself."""

    def environment(self, chosen: RunRequest) -> RowWorld:
        """A world of rows."""
        refuse_losses(chosen)
        found = chosen.config.world()
        if isinstance(found, LiveWorld):
            _ = rows_of(found)
        elif not isinstance(found, FeatureBandit):
            raise NotSupported(
                f"{chosen.name} learns from rows of features, and {chosen.config.world_name} has states: use "
                "linear-bandit, or another learner"
            )
        if chosen.config.baseline is not None or chosen.config.value_users is not None:
            raise NotSupported("baselines and trials are over states, and rows of features have none; leave them out")
        return found

    def privatizer(self, chosen: RunRequest, environment: RowWorld) -> Privatizer[Any, Any, Any]:
        """Of batches of any size, until the learner has planned them."""
        wanted, calibrated = PUBLISHED.get(chosen.name), chosen.config.calibration == "paper"
        if wanted is not None and (chosen.config.trust != wanted or not calibrated):
            raise NotSupported(
                f"{chosen.name} is as published: use trust '{wanted}' and calibration 'paper', or lin-ucb"
            )
        if wanted is None and calibrated:
            raise NotSupported(f"no paper prints the noise of {chosen.name}: use {', '.join(PUBLISHED)}, or 'tight'")
        if isinstance(environment, LiveWorld):
            d, shared = rows_of(environment).features.dimension, False
        else:
            d, shared = environment.features, environment.shared
        shape = MomentShape(features=d, actions=environment.num_actions, shared=shared)
        return make_privatizer(privacy_request(chosen, MomentQuery, shape))

    def learner(self, chosen: RunRequest, environment: RowWorld, privatizer: Any) -> Learner[Any, Any, Any]:
        """Told how noisy batches of any size would be."""
        config = chosen.config
        return chosen.row.build(
            FeatureRequest(
                name=chosen.name,
                shape=privatizer.shape,
                episodes=config.episodes,
                constants=config.constants,
                z=config.z,
                noise=privatizer,
                options=chosen.options,
                bounded=config.trust in ("none", "central") and getattr(environment, "model", "") == "linear",
                contexts=declared_rows(environment) if config.trust == "local" else None,
            )
        )

    def fitted(self, privatizer: Any, learner: Any) -> Privatizer[Any, Any, Any]:
        """The noise of exactly the planned batches."""
        found: Privatizer[Any, Any, Any] = privatizer
        if learner.name not in PUBLISHED:
            found = privatizer.planned(learner.batches, learner.following)
        return found
