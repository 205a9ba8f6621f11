"""From names to objects: environment, learner and privatizer of a configuration, built and thereby fully validated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.experiments.assemble_gradient import assemble_gradient, values_of, world_of
from tacit.experiments.assemble_losses import assemble_losses, loss_values, refuse_losses
from tacit.experiments.assemble_stages import assemble_stages
from tacit.experiments.config import RunConfig, parse_learner
from tacit.learners.contract import Learner
from tacit.learners.fixed import FixedPolicy
from tacit.learners.gradient_registry import GRADIENT_LEARNERS
from tacit.learners.loss_contract import LossLearner
from tacit.learners.loss_registry import LOSS_LEARNERS
from tacit.learners.registry import REFERENCE_LEARNERS, LearnerRequest, make_learner, needs_squares
from tacit.learners.stage_registry import STAGE_LEARNERS
from tacit.planning.dynamic import backward_induction, evaluate_stochastic
from tacit.policies import DeterministicPolicy, Policy, uniform_policy
from tacit.privatizers.batch_none import BatchUnprotected
from tacit.privatizers.batched import BatchShuffle
from tacit.privatizers.contract import CountPrivatizer, count_precision, sampling_of
from tacit.privatizers.gradient import GradientPrivatizer
from tacit.privatizers.local import Local
from tacit.privatizers.none import Unprotected
from tacit.privatizers.registry import PrivacyRequest, make_privatizer
from tacit.released.batches import BatchReport
from tacit.released.counts import CountShape

__all__ = ["Assembled", "assemble"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Assembled:
    """The three parts of a run, and what the simulator alone knows about them."""

    mdp: TabularMDP
    learner: Learner[Any]
    privatizer: CountPrivatizer
    values: tuple[float, float] | None = None
    """V* and the value of the uniform policy, where the world is no table."""

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised."""
        return self.privatizer.claim

    @cached_property
    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        return self.privatizer.certificate()

    @cached_property
    def batches(self) -> tuple[BatchReport, ...]:
        """Claim and message cost of each kind of batch, where the learner plans batches of its own."""
        return self.privatizer.reports() if isinstance(self.privatizer, BatchShuffle) else ()

    @property
    def largest_batch(self) -> int | None:
        """The users of the largest batch, where the learner plans batches of its own."""
        privatizer: object = self.privatizer
        if isinstance(privatizer, GradientPrivatizer):
            return privatizer.users_per_batch
        if not isinstance(self.privatizer, BatchShuffle | BatchUnprotected):
            return None
        return max(batch.users for batch in self.privatizer.batches)

    @property
    def settings(self) -> dict[str, float | str] | None:
        """Everything that was tuned, and C_M, where losses are adversarial."""
        learner: object = self.learner
        return dict(learner.settings) if isinstance(learner, LossLearner) else None

    @cached_property
    def optimal_value(self) -> float:
        """Simulation only: V* from the first state, averaged over rho."""
        if self.values is not None:
            return self.values[0]
        _, V, _ = backward_induction(np.array(self.mdp.stage_P), np.array(self.mdp.stage_r), self.mdp.horizon)
        return float(self.mdp.rho @ V[0])

    @cached_property
    def uniform_value(self) -> float:
        """Simulation only: what "nothing learned" is worth."""
        if self.values is not None:
            return self.values[1]
        policy = uniform_policy(self.mdp.horizon, self.mdp.num_states, self.mdp.num_actions)
        P, r = np.array(self.mdp.stage_P), np.array(self.mdp.stage_r)
        V = evaluate_stochastic(P, r, policy.probabilities(self.mdp.num_actions))
        return float(self.mdp.rho @ V[0])


@lru_cache(maxsize=64)
def assemble(config: RunConfig) -> Assembled:
    """Build what a configuration names; every error is raised here, before anything is written.

    >>> parts = assemble(RunConfig(environment="riverswim", learner="psrl:staged=false", episodes=10, seeds=(0,)))
    >>> parts.mdp.num_states, parts.learner.name, parts.learner.shape.staged, parts.claim.epsilon
    (4, 'psrl', False, inf)
    """
    name, options = parse_learner(config.learner)
    if name in LOSS_LEARNERS:
        game: Any
        loss_learner: Any
        private: Any
        game, loss_learner, private = assemble_losses(config, name, options)
        return Assembled(mdp=game, learner=loss_learner, privatizer=private, values=loss_values(game))
    refuse_losses(config, name)
    given: Any = config.environment
    if name in GRADIENT_LEARNERS:
        world: Any = world_of(given)
        gradient, noise = assemble_gradient(config, world, name, options)
        return Assembled(mdp=world, learner=gradient, privatizer=noise, values=values_of(world))
    mdp: TabularMDP = make(given) if isinstance(given, str) else given
    shape = CountShape(
        horizon=mdp.horizon,
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        staged=options.get("staged", "true") != "false",
    )
    if name in STAGE_LEARNERS:
        staged, batches = assemble_stages(config, name, options, shape)
        if config.constants == "none":
            raise InvalidInput(f"constants of {name} must be 'theory' or 'practical', got 'none'")
        return Assembled(mdp=mdp, learner=staged, privatizer=batches)
    privatizer = make_privatizer(
        PrivacyRequest(
            trust=config.trust,
            shape=shape,
            episodes=config.episodes,
            epsilon=config.epsilon,
            delta=config.delta,
            calibration=None if config.trust == "none" else config.calibration,
            mechanism=config.mechanism,
            users_per_batch=config.users_per_batch,
            allow_large_delta=config.allow_large_delta,
            squares=needs_squares(name, options),
        )
    )
    if name in REFERENCE_LEARNERS:
        learner: Learner[Any] = _reference(name, options, mdp, shape, config)
    else:
        learner = make_learner(
            name,
            LearnerRequest(
                shape=shape,
                episodes=config.episodes,
                constants=None if config.constants == "none" else config.constants,
                z=config.z,
                users_per_batch=config.users_per_batch,
                noisy=config.trust != "none",
                precision=privatizer.precision() if isinstance(privatizer, Local | Unprotected) else None,
                counts=count_precision(privatizer),
                sampling=sampling_of(privatizer),
                options=options,
            ),
        )
    if config.constants == "none" and learner.constants != "none":
        raise InvalidInput(f"constants of {name} must be 'theory' or 'practical', got 'none'")
    return Assembled(mdp=mdp, learner=learner, privatizer=privatizer)


def _reference(
    name: str, options: dict[str, str], mdp: TabularMDP, shape: CountShape, config: RunConfig
) -> FixedPolicy:
    """The learners that learn nothing: the simulator hands them their policy."""
    if options or config.constants not in (None, "none") or config.z is not None:
        raise InvalidInput(f"{name} is one fixed policy: it takes no options, no constants and no z")
    policy: Policy = uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
    if name == "optimal":
        _, _, greedy = backward_induction(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)
        policy = DeterministicPolicy(greedy)
    return FixedPolicy(name=name, policy=policy, shape=shape)
