"""What `learner="auto"` stands for in a run: the rule of `tacit.learners.auto`, told what is public about the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.environments.bandits import DoseBandit, FeatureBandit
from tacit.environments.discretise import Rows
from tacit.environments.layered import LayeredMDP, LossWorld
from tacit.environments.live import LiveWorld
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.learners.auto import AUTO, Choice, Situation, choose_learner, choose_linear

if TYPE_CHECKING:
    from tacit.runs.config import RunConfig


def chosen_for(config: RunConfig) -> Choice:
    """What `auto` stands for in this configuration, and why."""
    if config.learner.strip() != AUTO:
        raise InvalidInput(f"auto takes no options, got '{config.learner}'; name a learner to give it options")
    world = config.world()
    if config.adversary is not None or isinstance(world, LossWorld | LayeredMDP):
        raise InvalidInput(
            "auto chooses among learners of rewards; where an adversary chooses losses, name the learner: uc-o-reps if "
            "all losses are shown, uob-lbps if only those that were met"
        )
    if isinstance(world, DoseBandit):
        raise InvalidInput("auto chooses among learners that count, and doses are real: name dp-pg:policy=gaussian")
    if isinstance(world, FeatureBandit):
        slots = 1 if world.shared else world.actions
        return choose_linear(config.trust, features=world.features, actions=slots, episodes=config.episodes)
    if isinstance(world, LiveWorld) and isinstance(world.discretiser, Rows):
        d = world.discretiser.features.dimension
        return choose_linear(config.trust, features=d, actions=world.num_actions, episodes=config.episodes)
    features = config.sees
    if isinstance(features, str):
        features = world.features.get(features) if isinstance(world, TabularMDP) else None
    states = world.num_states if not features else max(features) + 1
    return choose_learner(
        Situation(
            trust=config.trust,
            episodes=config.episodes,
            horizon=world.horizon,
            states=states,
            actions=world.num_actions,
            stationary=world.stationary,
            epsilon=config.epsilon,
            delta=config.delta,
            constants=config.constants,
            calibration=config.calibration,
            mechanism=config.mechanism,
            batch=config.batch,
            budget=config.loss_budget is not None,
        )
    )
