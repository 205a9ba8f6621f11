"""Runs of policy gradients: batch size, privatizer, step size, learner, in this order.

Inputs of neural policies: what a network is told about each state of a world; public, and fixed beforehand.

    bins and products   one number per dimension: the bin, scaled to [-1, 1]; a dimension with one bin says nothing
    everything else     the state itself, as a vector with a single one

The state of an ended episode is not active: no action there changes anything, and none is learned.

Rates: batch size, step size and regularisation of DP-PG as the theorems of [he2025policy] choose them, repaired.

| printed | here |
|---|---|
| m = (N d)^(1/3) ε^(-2/3), any real number | rounded, kept within [1, N]; T = ⌊N/m⌋, the other users are unused |
| η = min(1/(LB), √(2δ₀/(TLC))) with B = 1 - 1/m, infinite at m = 1 | 1/L instead of 1/(LB) |
| δ₀ = J* - J(θ₀), unknown | the width of the interval of returns, at least that |
| L = R_max (2 - 1/A) for J_λ | + λ/|S|, the smoothness of the log-barrier |
| R_max² G in Lemma 7 | R_max² G² |

The bounds G² = 1 - 1/A and F = 1 of softmax are used here only where a mean over a ~ π is bounded, where they are
right.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tacit.accounting.claims import Trust
from tacit.arrays import Floats
from tacit.environments.bandits import DoseBandit
from tacit.environments.discretise import Bins, Product
from tacit.environments.live import LiveWorld
from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.learners.gradient import GradientParameters, GradientSettings, read_settings
from tacit.learners.gradient import GradientRequest as LearnerRequest
from tacit.learners.network import make_network
from tacit.policies.softmax import network_dimension, parameters_of, public_features, score_bound, tabular_features
from tacit.protocol import Constants, Learner, Privatizer
from tacit.release.gradient import GradientPrivatizer
from tacit.release.gradient_noise import GradientSpec
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.gradients import DoseQuery, GradientShape, SoftmaxQuery
from tacit.runs.builder import Countable, RunBuilder, RunRequest, privacy_request, refuse_losses, tabular_environment
from tacit.runs.config import RunConfig


def theory_batch(users: int, dimension: int, epsilon: float) -> int:
    """The batch size m = (N d)^(1/3) / ε^(2/3), as a number of users (Thm. 2 and Lemma 7).

    >>> theory_batch(1_000_000, 50, 1.0), theory_batch(10, 1_000_000, 0.001)
    (368, 10)
    """
    N, d = require_count("users", users), require_count("dimension", dimension)
    epsilon = require_real("epsilon", epsilon, low=0.0, open_low=True)
    return min(max(round(math.cbrt(N * d) / math.cbrt(epsilon) ** 2), 1), N)


def theory_smoothness(
    largest: float, score: float, curvature: float, *, barrier: float = 0.0, states: int = 1
) -> float:
    """L = R_max (G² + F) of Lemma 3, plus λ/|S| for the log-barrier.

    >>> round(theory_smoothness(1.0, math.sqrt(0.8), 1.0), 9)   # R_max (2 - 1/A) with A = 5
    1.8
    """
    return largest * (score**2 + curvature) + barrier / states


def noise_term(
    largest: float, score: float, users_per_batch: int, dimension: int, sigma: float, *, barrier: float, states: int
) -> float:
    """C of the ABC condition: the variance of a batch gradient and d σ² of the privacy noise (Lemmas 2 and 5)."""
    # C = R² G²/m + d σ²;  with the barrier  C = (2/m) G² (R² + λ²/|S|) + d σ²
    factor = 1.0 if barrier == 0.0 else 2.0
    sampling = factor * score**2 * (largest**2 + barrier**2 / states) / users_per_batch
    return sampling + dimension * sigma**2


def theory_step(smoothness: float, noise: float, steps: int, width: float) -> float:
    """η = min(1/L, √(2 δ₀/(T L C))), where δ₀ is the width of the interval of returns.

    >>> theory_step(2.0, 0.0, 100, 1.0)
    0.5
    """
    T, L = require_count("steps", steps), require_real("smoothness", smoothness, low=0.0, open_low=True)
    if noise <= 0.0:
        return 1.0 / L
    return min(1.0 / L, math.sqrt(2.0 * width / (T * L * noise)))


def theory_barrier(users: int, dimension: int, epsilon: float) -> float:
    """λ = α/2 at the accuracy α that Thm. 4 promises for N users: N = α⁻⁶ + √d α^(-9/2)/ε, larger term.

    >>> round(theory_barrier(1_000_000, 50, 1.0), 4)
    0.05
    """
    N, d = require_count("users", users), require_count("dimension", dimension)
    sampling = 1.0 / math.sqrt(math.cbrt(N))
    private: float = (math.sqrt(d) / (N * require_real("epsilon", epsilon, low=0.0, open_low=True))) ** (2 / 9)
    return max(sampling, private) / 2.0


def state_inputs(world: TabularMDP | SeenMDP | LiveWorld) -> tuple[Floats, Floats]:
    """Inputs [S,n], and for each state whether it is active [S]: 1 or 0.

    >>> from tacit.environments.live import live
    >>> inputs, active = state_inputs(live("CartPole-v1"))  # six angles times three speeds, and "ended"
    >>> inputs[[0, 1, 17, 18]].tolist(), active[[17, 18]].tolist()
    ([[-1.0, -1.0], [-1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [1.0, 0.0])
    """
    S = world.num_states
    active = np.ones(S)
    rule = world.discretiser if isinstance(world, LiveWorld) else None
    if isinstance(world, LiveWorld) and world.ends:
        active[world.ended] = 0.0
    if not isinstance(rule, Bins | Product) or rule.size == 1:
        return np.eye(S), active
    places = np.stack(np.unravel_index(np.arange(rule.size), rule.counts), axis=1)
    counts = np.array(rule.counts)
    told = counts > 1
    inputs = np.zeros((S, int(told.sum())))
    inputs[: rule.size] = 2.0 * places[:, told] / (counts[told] - 1.0) - 1.0
    return inputs, active


REFERENCE_EPSILON: Final = 1.0
"""The batch size of a run without privacy is that of this epsilon, so that the two can be compared."""


TRUST_REGION: Final = "dp-trpo"
"""The learner whose steps are bounded by a radius instead of a step size."""
LARGEST_RADIUS: Final = 0.05
WALK: Final = 3.0
"""What all radii of a private run add up to (practical rule)."""


class GradientBuilder(RunBuilder):
    """Gradients of batches, at softmax policies of a tabular environment or Gaussian ones over doses."""

    def environment(self, chosen: RunRequest) -> Countable | DoseBandit:
        """A tabular environment, or a dose bandit."""
        refuse_losses(chosen)
        found = chosen.config.world()
        return found if isinstance(found, DoseBandit) else tabular_environment(chosen)

    def privatizer(self, chosen: RunRequest, environment: Countable | DoseBandit) -> Privatizer[Any, Any, Any]:
        """Of gradients at the learner's kind of policy."""
        return make_privatizer(self.request(chosen, environment))

    def request(self, chosen: RunRequest, environment: Countable | DoseBandit) -> PrivacyRequest:
        """The privacy that is asked for, with what the gradients are made of."""
        config, settings = chosen.config, read_settings(chosen.name, chosen.options)
        shape, _ = _shape(settings, environment)
        m = config.batch or theory_batch(config.episodes, shape.dimension, config.epsilon or REFERENCE_EPSILON)
        require(m <= config.episodes, "a batch must not be larger than the number of episodes", given=m)
        baseline = _baseline(settings, config, shape)
        spec = GradientSpec(
            clip=_clip(settings, environment),
            tabular=settings.policy == "softmax",
            baseline=None if baseline == "released" else float(baseline),
            epochs=settings.epochs,
            rate=settings.rate,
            surrogate=settings.radius,
        )
        request = privacy_request(chosen, SoftmaxQuery if shape.num_actions > 0 else DoseQuery, shape)
        # An epsilon asks for privacy, and gradients have one trust model that gives it.
        trust: Trust = "central" if config.trust == "none" and config.epsilon is not None else config.trust
        return replace(request, trust=trust, users_per_batch=m, gradient=spec)

    def learner(
        self, chosen: RunRequest, environment: Countable | DoseBandit, privatizer: GradientPrivatizer
    ) -> Learner[Any, Any, Any]:
        """Its step is as large as theory, or the noise, allows."""
        config, settings = chosen.config, read_settings(chosen.name, chosen.options)
        if config.z is not None:
            raise InvalidInput(f"{chosen.name} has no confidence widths; remove z")
        own = settings.kl if settings.name == TRUST_REGION else settings.step
        if own is not None and config.constants is not None:
            raise InvalidInput("a step or radius of your own replaces the constants; leave one of the two out")
        shape, features = _shape(settings, environment)
        constants, baseline = _constants(settings, config), _baseline(settings, config, shape)
        barrier, step, kl = settings.barrier, settings.step, math.inf
        if settings.name == TRUST_REGION:
            kl = _radius(settings, privatizer, config.episodes)
            step = math.inf if step is None else step
        if barrier is None:
            barrier = theory_barrier(config.episodes, shape.dimension, config.epsilon or REFERENCE_EPSILON)
        if step is None:
            rule = _theory_step if constants == "theory" else _practical_step
            step = rule(settings, shape, features, environment, privatizer, config.episodes, barrier)
        parameters = GradientParameters(
            features=features,
            step=float(step),
            barrier=float(barrier),
            damping=float(settings.damping),
            low=float(privatizer.spec.low),
            high=float(privatizer.spec.high),
            baseline=0.5 if baseline == "released" else float(baseline),
            kl=float(kl),
        )
        made = LearnerRequest(
            name=chosen.name,
            shape=shape,
            parameters=parameters,
            constants=constants,
            users_per_batch=privatizer.users_per_batch,
            releases=settings.epochs,
        )
        if settings.policy == "neural" and not isinstance(environment, DoseBandit):
            exact = privatizer.sigma == 0.0 and privatizer.reward_weight > 0.0
            return make_network(made, *state_inputs(environment), settings.hidden, exact=exact)
        doses = (environment.features, environment.deviation) if isinstance(environment, DoseBandit) else None
        return chosen.row.build(replace(made, doses=doses))


def _constants(settings: GradientSettings, config: RunConfig) -> Constants:
    if settings.name == TRUST_REGION:
        if config.constants == "theory":
            raise InvalidInput(
                "no theorem gives a radius for dp-trpo: leave constants out, or choose one, dp-trpo:kl=0.01"
            )
        return config.constants or ("practical" if settings.kl is None else "none")
    return config.constants or ("practical" if settings.step is None else "none")


def _baseline(settings: GradientSettings, config: RunConfig, shape: GradientShape) -> float | str:
    """The user's baseline, a number or "released"; else the theorems' or the practical one."""
    if settings.baseline is not None:
        return settings.baseline
    # The theorems know no baseline. In practice the middle of the interval halves the largest weight of one step;
    # over several steps what is typical depends on the world, and is worth 2 % more noise.
    if _constants(settings, config) == "theory" or config.calibration == "paper":
        return 0.0
    return 0.5 if shape.horizon == 1 else "released"


def _shape(settings: GradientSettings, world: Countable | DoseBandit) -> tuple[GradientShape, Floats]:
    if isinstance(world, DoseBandit):
        require(settings.policy == "gaussian", "a dose bandit needs policy=gaussian", given=settings.policy)
        sizes = GradientShape(
            horizon=1, num_states=world.num_states, num_actions=0, staged=True, dimension=world.dimension
        )
        return sizes, tabular_features()
    require(settings.policy != "gaussian", "policy=gaussian needs real-valued actions", given=world.name)
    H, S, A = world.horizon, world.num_states, world.num_actions
    if settings.policy == "neural":
        d = network_dimension(state_inputs(world)[0].shape[1], settings.hidden, A)
        return GradientShape(horizon=H, num_states=S, num_actions=A, staged=False, dimension=d), tabular_features()
    features = public_features(S, A, settings.features) if settings.policy == "linear" else tabular_features()
    dimension = parameters_of(features, H if settings.staged else 1, S, A)
    return GradientShape(horizon=H, num_states=S, num_actions=A, staged=settings.staged, dimension=dimension), features


def _clip(settings: GradientSettings, world: Countable | DoseBandit) -> float | None:
    """The user's clip; else none where the supremum is exact, and 1 elsewhere (a tuned default, no theorem's)."""
    if settings.clip is not None:
        return settings.clip
    if isinstance(world, DoseBandit):
        # Two standard deviations of the score: ‖x_s‖ |a - θ·x_s|/τ²
        return 2.0 * float(np.sqrt((world.features**2).sum(axis=1)).max()) / world.deviation
    if world.horizon == 1 and settings.radius == math.inf and settings.policy == "softmax":
        return None
    return 1.0


def _radius(settings: GradientSettings, privatizer: GradientPrivatizer, episodes: int) -> float:
    """The user's radius ρ; else as large as the noise allows.

    Every update uses up its radius, also one that is all noise. Independent steps of KL ρ add up to T ρ (½‖·‖² in the
    metric F), which is held at `WALK`; steps that agree reach √T times further.
    """
    if settings.kl is not None:
        return settings.kl
    steps = max(1, episodes // privatizer.users_per_batch)
    return LARGEST_RADIUS if privatizer.sigma == 0.0 else min(LARGEST_RADIUS, WALK / steps)


def _theory_step(
    settings: GradientSettings,
    shape: GradientShape,
    features: Floats,
    world: Countable | DoseBandit,
    privatizer: GradientPrivatizer,
    episodes: int,
    barrier: float,
) -> float:
    """η = min(1/L, √(2δ₀/(TLC))); for H steps returns are H times as large (the paper has H = 1)."""
    if isinstance(world, DoseBandit):
        length = float(np.sqrt((world.features**2).sum(axis=1)).max())
        score, curvature = length / world.deviation, (length / world.deviation) ** 2
    elif settings.policy == "neural":
        raise InvalidInput(
            f"no theorem gives a step for a network: leave constants out, or choose {settings.name}:step=1"
        )
    elif settings.policy == "softmax":
        score, curvature = math.sqrt(1.0 - 1.0 / shape.num_actions), 1.0
    else:
        score, curvature = score_bound(features), score_bound(features) ** 2
    H, m = shape.horizon, privatizer.users_per_batch
    largest, states = float(H), shape.stages * shape.num_states
    L = theory_smoothness(largest, H * score, H * curvature, barrier=barrier, states=states)
    C = noise_term(largest, score, m, shape.dimension, privatizer.sigma, barrier=barrier, states=states)
    steps = max(1, episodes // m) * privatizer.spec.epochs
    return theory_step(L, C, steps, width=float(H))


def _practical_step(
    settings: GradientSettings,
    shape: GradientShape,
    features: Floats,
    world: Countable | DoseBandit,
    privatizer: GradientPrivatizer,
    episodes: int,
    barrier: float,
) -> float:
    """As large as the noise allows: η σ √T is how far noise alone carries a parameter over the whole run."""
    steps = max(1, episodes // privatizer.users_per_batch) * privatizer.spec.epochs
    if settings.name == "dp-npg":
        most, drift = 1.0, 3.0 * settings.damping
    elif settings.policy == "softmax":
        most, drift = 0.5 * shape.stages * shape.num_states, 3.0
    elif settings.policy == "linear":
        most, drift = 4.0, 3.0
    elif settings.policy == "neural":
        # A logit is a sum over the hidden units: noise in as many weights carries it √hidden times as far.
        most, drift = 1.0, 3.0 / math.sqrt(settings.hidden)
    else:
        most, drift = 0.25, 0.5
    return most if privatizer.sigma == 0.0 else min(most, drift / (privatizer.sigma * math.sqrt(steps)))
