"""From names to objects for learners of adversarial losses: world, adversary, privatizer, learner, in this order."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, no_privacy
from tacit.environments.adversaries import make_adversary
from tacit.environments.layered import LayeredMDP
from tacit.environments.layered_worlds import LAYERED_WORLDS, LossGame, LossWorld, loss_world, make_layered
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, require
from tacit.experiments.config import RunConfig
from tacit.learners.loss_contract import Estimator, LossLearner, LossRequest
from tacit.learners.loss_registry import LOSS_LEARNERS, make_loss_learner
from tacit.loop.judges.games import expected_loss, hindsight, loss_truth
from tacit.planning.layered import layered_geometry, layered_shape
from tacit.privatizers.adversarial import AdversarialPrivatizer, make_adversarial

__all__ = ["assemble_losses", "loss_values", "refuse_losses"]


def assemble_losses(
    config: RunConfig, name: str, options: dict[str, str]
) -> tuple[LossGame, LossLearner, AdversarialPrivatizer]:
    """Build the game, the learner and the privatizer of a configuration."""
    entry = LOSS_LEARNERS[name]
    if config.adversary is None:
        raise InvalidInput(
            f"{name} learns from losses that an adversary chooses; name one, for instance adversary 'switching' "
            "(see 'tacit list adversaries'), or hand over your own losses"
        )
    if config.mechanism is not None:
        raise NotSupported(f"{name} has one mechanism per trust model; leave {config.mechanism} out")
    if config.batch not in (None, 1):
        raise NotSupported(f"users of {name} come one by one; leave the batch out")
    if config.estimator is not None and name != "uob-lbps":
        raise InvalidInput(f"only uob-lbps has a choice of estimators; leave '{config.estimator}' out")
    if config.public_losses and entry.feedback == "bandit":
        raise InvalidInput(
            "bandit losses tell where a user was; only full-information tables can be declared public (uc-o-reps)"
        )
    if not entry.private and config.trust != "none":
        raise NotSupported(
            f"{name} is an ancestor without privacy; use {'uc-o-reps' if entry.feedback == 'full' else 'uob-lbps'}"
        )
    world = _world(config)
    game = LossGame(world=world, adversary=make_adversary(config.adversary, world, config.episodes))
    geometry = layered_geometry(world.mdp.widths, world.mdp.num_actions)
    privatizer = make_adversarial(
        shape=layered_shape(geometry),
        claim=_claim(config),
        episodes=config.episodes,
        feedback=entry.feedback,
        calibration="tight" if config.trust == "none" else config.calibration,
        public_losses=config.public_losses,
    )
    layout = privatizer.parameters.layout
    draft = LossRequest(
        geometry=geometry,
        episodes=config.episodes,
        constants=config.constants,
        z=config.z,
        options=options,
        precision=privatizer.precision(),
        variance=layout.variance * (1.0 + layout.growth * max(0, config.episodes - 2)),
        loss_radius=0.0,
        estimator=config.estimator or get_args(Estimator)[0],
        known=np.array(world.mdp.flat_transitions) if entry.known else None,
    )
    learner = make_loss_learner(name, _with_radius(draft, privatizer))
    learner.settings["effective_support"] = world.mdp.effective_support
    return game, learner, privatizer


def loss_values(game: LossGame) -> tuple[float, float]:
    """Simulation only: minus the expected losses per episode of the best fixed and of the uniform policy."""
    truth, mean = loss_truth(game.world.mdp), np.array(game.adversary.mean)
    states, policy = np.zeros(game.num_states), np.zeros(len(mean))
    best = hindsight(truth, mean, states, policy)
    uniform = expected_loss(truth, np.full(len(mean), 1.0 / game.num_actions), mean, states)
    return -best, -uniform


def refuse_losses(config: RunConfig, name: str) -> None:
    """Raise where a learner of rewards is asked for something that only learners of adversarial losses have."""
    known = ", ".join(LOSS_LEARNERS)
    if config.adversary is not None:
        beside = "; the uniform policy is shown beside every such run" if name == "uniform" else ""
        raise InvalidInput(f"an adversary belongs to the learners {known}, not to {name}{beside}")
    if config.estimator is not None or config.public_losses:
        what = "public losses" if config.public_losses else f"the estimator '{config.estimator}'"
        raise InvalidInput(f"{what} belong{'' if config.public_losses else 's'} to learners of adversarial losses")
    layered = isinstance(config.environment, LayeredMDP) or (
        isinstance(config.environment, str) and config.environment.partition(":")[0].strip() in LAYERED_WORLDS
    )
    if layered:
        raise InvalidInput(
            f"a layered world has no rewards, an adversary chooses losses there: use {known}, not {name}"
        )


def _world(config: RunConfig) -> LossWorld:
    given = config.environment
    return loss_world(given) if isinstance(given, TabularMDP | LayeredMDP) else make_layered(given)


def _claim(config: RunConfig) -> PrivacyClaim:
    if config.trust == "none":
        for option in ("epsilon", "delta"):
            require(
                getattr(config, option) is None,
                f"{option} makes no sense with trust 'none', which protects nobody",
                getattr(config, option),
                "choose trust central or local, or leave it out",
            )
        return no_privacy()
    if config.trust not in ("central", "local"):
        raise NotSupported(f"adversarial losses are released under trust central or local, not {config.trust}")
    if config.epsilon is None:
        raise InvalidInput(f"trust '{config.trust}' needs an epsilon; for instance epsilon 1")
    return PrivacyClaim(
        trust=config.trust,
        epsilon=config.epsilon,
        delta=config.delta or 0.0,
        unit=PrivacyUnit(trajectories=1),
        neighbours="replace-one",
        output=OUTPUTS[config.trust][0],
        allow_large_delta=config.allow_large_delta,
    )


def _with_radius(request: LossRequest, privatizer: AdversarialPrivatizer) -> LossRequest:
    """E' holds for every loss of every episode at once, but for the probability δ."""
    pairs = len(request.geometry.edges) - 1
    each = request.failure_prob / (pairs * request.episodes)
    return replace(request, loss_radius=privatizer.loss_radius(each) if privatizer.feedback == "bandit" else 0.0)
