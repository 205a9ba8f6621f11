"""Runs against an adversary: counts and losses of a layered world."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np

from tacit.environments.adversaries import make_adversary
from tacit.environments.layered import LayeredMDP, LossGame, loss_world
from tacit.environments.live import LiveWorld
from tacit.environments.registry import make_layered
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.loss_contract import Estimator, LossLearner, LossRequest
from tacit.planning.layered import layered_geometry, layered_shape
from tacit.protocol import Privatizer
from tacit.release.loss_release import LossPlan
from tacit.release.losses import AdversarialPrivatizer
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.losses import LossQuery
from tacit.runs.builder import RunBuilder, RunRequest, privacy_request


class LossBuilder(RunBuilder):
    """Counts and losses of a layered world with an adversary."""

    def environment(self, chosen: RunRequest) -> LossGame:
        """A layered world, or a tabular one unrolled, and the adversary."""
        config, name = chosen.config, chosen.name
        if config.adversary is None:
            raise InvalidInput(
                f"{name} learns from losses that an adversary chooses; name one, for instance adversary 'switching' "
                "(see 'tacit list adversaries'), or pass your own losses"
            )
        given = config.environment
        if isinstance(given, LiveWorld):
            raise InvalidInput(
                f"{given.name} has no table: an adversary needs transitions to play in; use another world"
            )
        world = make_layered(given) if isinstance(given, str) else loss_world(given)
        return LossGame(world=world, adversary=make_adversary(config.adversary, world, config.episodes))

    def privatizer(self, chosen: RunRequest, environment: LossGame) -> Privatizer[Any, Any, Any]:
        """Of what the learner is shown."""
        return make_privatizer(self.request(chosen, environment.world.mdp))

    def request(self, chosen: RunRequest, mdp: LayeredMDP) -> PrivacyRequest:
        """The privacy that is asked for, of counts and losses in such a world."""
        config, name = chosen.config, chosen.name
        facts = chosen.row.losses
        if facts is None:
            raise InvalidInput(f"the row of learner '{name}' must say which losses it is shown (losses=LossFacts(...))")
        if config.estimator is not None and "radius" not in chosen.row.options:
            raise InvalidInput(f"only uob-lbps has a choice of estimators; leave '{config.estimator}' out")
        known = _known(chosen)
        if facts.private is not None and config.trust != "none" and not known:
            raise NotSupported(f"{name} is an ancestor without privacy; use {facts.private}")
        if known and (config.z is not None or {"cb", "ce"} & chosen.options.keys()):
            raise InvalidInput(f"{name} knows the transitions and has no widths to choose; remove z, cb and ce")
        request = privacy_request(chosen, LossQuery, layered_shape(layered_geometry(mdp.widths, mdp.num_actions)))
        return replace(
            request,
            feedback=facts.feedback,
            public_losses=config.public_losses,
            # Without privacy nothing is paid for: everything is released, whoever looks at it.
            known_transitions=known and config.trust != "none",
        )

    def learner(self, chosen: RunRequest, environment: LossGame, privatizer: AdversarialPrivatizer) -> LossLearner:
        """Told what is public about the noise; the effective support is for who reads the result."""
        mdp = environment.world.mdp
        learner = self.told(chosen, mdp, privatizer)
        learner.settings["effective_support"] = mdp.effective_support
        return learner

    def told(self, chosen: RunRequest, mdp: LayeredMDP, privatizer: AdversarialPrivatizer | LossPlan) -> LossLearner:
        """Told the precision of counts and losses, and how far the noise of one loss goes."""
        config = chosen.config
        draft = LossRequest(
            name=chosen.name,
            geometry=layered_geometry(mdp.widths, mdp.num_actions),
            episodes=config.episodes,
            constants=config.constants,
            z=config.z,
            options=chosen.options,
            precision=privatizer.precision(),
            variance=privatizer.largest_variance(),
            loss_radius=0.0,
            estimator=config.estimator or get_args(Estimator)[0],
            known=np.array(mdp.flat_transitions) if _known(chosen) else None,
        )
        # E' holds for every loss of every episode at once, but for the probability δ.
        each = draft.failure_prob / (privatizer.shape.pairs * draft.episodes)
        radius = privatizer.loss_radius(each) if privatizer.feedback == "bandit" else 0.0
        return chosen.row.build(replace(draft, loss_radius=radius))  # type: ignore[return-value]


def _known(chosen: RunRequest) -> bool:
    """Whether the learner is told the transitions: always, or because the user says so."""
    facts = chosen.row.losses
    return facts is not None and (facts.known or chosen.options.get("transitions") == "known")
