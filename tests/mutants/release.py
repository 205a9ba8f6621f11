"""Gradients, losses and secure counters with one bug each. For the mutation suite only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mutants.planted import Mutation, bug, claim_of, twin
from papers.gradient_requests import gradient_request
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.gradients import add_gradients
from tacit.policies.softmax import add_pull_back
from tacit.release.gradient import GradientPrivatizer, add_noise, choose_users
from tacit.release.losses import AdversarialPrivatizer, make_adversarial, release_losses
from tacit.release.table import make_privatizer
from tacit.released.gradients import GradientShape
from tacit.released.losses import LayeredShape

__all__ = ["RELEASES", "RELEASE_BUGS", "gradients", "losses"]

LAYERS: Final = LayeredShape(horizon=2, pairs=6, pair_of=(0, 0, 1, 1, 2, 3, 4, 5))
"""Two pairs in the first of two layers, four in the second."""


def gradients(kind: type = GradientPrivatizer, *, doses: bool = False, **changes: Any) -> Any:
    """A twin of a correct privatizer of batch gradients."""
    H, A = (1, 0) if doses else (2, 2)
    asked: dict[str, Any] = {
        "shape": GradientShape(horizon=H, num_states=2, num_actions=A, staged=True, dimension=3 if doses else 8),
        "trust": "central",
        "epsilon": 1.0,
        "delta": 1e-5,
        "calibration": "tight",
        "users_per_batch": 6,
        "clip": 1.0,
        "tabular": not doses,
    }
    return twin(kind, make_privatizer(gradient_request(**asked | changes)))


def losses(
    kind: type = AdversarialPrivatizer, trust: Any = "local", feedback: Any = "bandit", delta: float = 0.0
) -> Any:
    """A twin of a correct privatizer of adversarial losses."""
    made = make_adversarial(shape=LAYERS, claim=claim_of(trust, 1.0, delta), episodes=8, feedback=feedback)
    return twin(kind, made)


class _Plain(GradientPrivatizer):
    """The release of a softmax gradient in plain Python."""

    __slots__ = ()

    @property
    def kernel(self) -> Any:
        return self.answer

    def answer(self, noise: Any, state: Any, users: Any, query: Any, coins: Any) -> None:
        self.choose(noise, state, coins)
        add_gradients(
            noise.bounds, query.features, query.table, query.behaviour, users.states, users.actions, users.rewards,
            state.chosen, query.baseline[0], state.sums,
        )  # fmt: skip
        state.released.gradient[:] = 0.0
        add_pull_back(query.features, state.sums.weights, 1.0 / self.shared_by(noise, state), state.released.gradient)
        self.cover(noise, state, coins)

    def choose(self, noise: Any, state: Any, coins: Any) -> None:
        choose_users(noise.rate, state.chosen, coins)

    def shared_by(self, noise: Any, state: Any) -> float:
        return float(noise.divisor)

    def cover(self, noise: Any, state: Any, coins: Any) -> None:
        add_noise(noise, state.sums.reward[0], state.chosen, state.released, coins)


class _ExactReward(_Plain):
    __slots__ = ()

    def cover(self, noise: Any, state: Any, coins: Any) -> None:
        super().cover(noise, state, coins)
        state.released.reward[0] = state.sums.reward[0] / noise.divisor


class _OneNoiseForAll(_Plain):
    __slots__ = ()

    def cover(self, noise: Any, state: Any, coins: Any) -> None:
        exact = state.released.gradient.copy()
        super().cover(noise, state, coins)
        state.released.gradient[:] = exact + (state.released.gradient - exact)[0]


class _CoinsReused(_Plain):
    __slots__ = ()

    def choose(self, noise: Any, state: Any, coins: Any) -> None:
        if state.released.releases[0] == 0:
            super().choose(noise, state, coins)


class _EverybodySampled(_Plain):
    __slots__ = ()

    def choose(self, noise: Any, state: Any, coins: Any) -> None:
        state.chosen[:] = True


class _DividedByWhoCame(_Plain):
    __slots__ = ()

    def shared_by(self, noise: Any, state: Any) -> float:
        return float(max(1, state.chosen.sum()))


class _HalfTheNoise(GradientPrivatizer):
    __slots__ = ()

    @property
    def parameters(self) -> Any:
        return super().parameters._replace(sigma=self.sigma / 2)


class _NotClipped(GradientPrivatizer):
    __slots__ = ()

    @property
    def parameters(self) -> Any:
        return super().parameters._replace(bounds=self.spec.bounds._replace(clip=math.inf))


class _DosesNotClipped(GradientPrivatizer):
    __slots__ = ()

    @property
    def parameters(self) -> Any:
        return super().parameters._replace(bounds=self.spec.bounds._replace(clip=1e3))


class _OneEpochCounted(GradientPrivatizer):
    __slots__ = ()

    def events(self) -> Events:
        return tuple((event, 1) for event, _ in super().events())


class _AnySize(GradientPrivatizer):
    __slots__ = ()

    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        came = len(users.actions)
        if came == self.users_per_batch:
            return super().release(state, users, query, noise)
        fitting = twin(GradientPrivatizer, self, users_per_batch=came)
        return fitting.release(fitting.begin(), users, query, noise)


def _reward_dropped() -> Any:
    made = gradients(rate=0.5, baseline=None, users_per_batch=10_000)
    return replace(made, reach=replace(made.reach, norm=made.spec.clip))


class _Tampered(AdversarialPrivatizer):
    """The release of counts and losses, changed in one place afterwards."""

    @property
    def kernel(self) -> Any:
        def release(parameters: Any, state: Any, users: Any, query: Any, coins: Any) -> None:
            release_losses(parameters, state, users, query, coins)
            self.tamper(state, users)

        return release

    def tamper(self, state: Any, users: Any) -> None:
        raise NotImplementedError


class _LossNotClipped(_Tampered):
    def tamper(self, state: Any, users: Any) -> None:
        state.released.losses[0] += np.nansum(np.abs(users.losses)) - np.nansum(np.clip(users.losses, 0.0, 1.0))


class _ExactLosses(_Tampered):
    def tamper(self, state: Any, users: Any) -> None:
        state.released.losses[:] = state.exact.own


class _ExactVisits(_Tampered):
    def tamper(self, state: Any, users: Any) -> None:
        state.released.visits[:] = state.exact.visits


class _OneNoiseForLosses(_Tampered):
    def tamper(self, state: Any, users: Any) -> None:
        state.released.losses[:] = state.exact.own + (state.released.losses - state.exact.own)[0]


class _UsersTold(_Tampered):
    def tamper(self, state: Any, users: Any) -> None:
        state.released.users[0] += int(users.pairs[0] > 0)


class _HalfTheMoves(AdversarialPrivatizer):
    def _public(self) -> Any:
        stated = super()._public()
        return stated._replace(transitions=stated.transitions._replace(scale=stated.transitions.scale / 2))


def _table_as_a_walk() -> Any:
    made = losses(trust="local", feedback="full")
    part = made.parts["losses"]
    walk = replace(part, family=Family(name="losses", up=2, down=2, shift=1.0))
    return replace(made, parts={**made.parts, "losses": walk})


RELEASE_BUGS: Final[dict[str, Mutation]] = {
    "score bound in the mean": bug(
        "gradient noise for G = √(1 − 1/A), which bounds the mean of the score, not the score",
        lambda: gradients(calibration="paper", clip=None, users_per_batch=8, shape=GradientShape(
            horizon=1, num_states=2, num_actions=2, staged=True, dimension=4)), "accountant",
    ),
    "gradient noise halved": bug(
        "batch gradients have half of the stated noise",
        lambda: gradients(_HalfTheNoise), "audit", rules=("measured", "exposed"),
    ),
    "mean reward without noise": bug(
        "the mean reward beside a gradient is released as it is",
        lambda: gradients(_ExactReward, baseline=None), "audit", rules=("exposed", "measured"),
    ),
    "one noise for a gradient": bug(
        "one draw of noise covers all coordinates of a gradient", lambda: gradients(_OneNoiseForAll), rules=("exposed",)
    ),
    "gradient not clipped": bug(
        "long gradients are added as they are", lambda: gradients(_NotClipped, clip=0.5), rules=("families",)
    ),
    "dose gradient not clipped": bug(
        "gradients of extreme doses are clipped far too late",
        lambda: gradients(_DosesNotClipped, doses=True), rules=("families",),
    ),
    "one epoch counted": bug(
        "a batch is used three times, the accountant hears of once",
        lambda: gradients(_OneEpochCounted, epochs=3), "audit", rules=("exposed",),
    ),
    "Poisson coins reused": bug(
        "the sample of the first epoch is used in all of them",
        lambda: gradients(_CoinsReused, rate=0.5, epochs=2), rules=("coins",),
    ),
    "everybody sampled": bug(
        "amplification by sampling is claimed, and everybody takes part",
        lambda: gradients(_EverybodySampled, rate=0.5), rules=("coins",),
    ),
    "reward dropped from the sampled norm": bug(
        "the sampled events know the length of a gradient, not of the reward beside it",
        _reward_dropped, rules=("length",),
    ),
    "divided by who came": bug(
        "a sampled gradient is divided by the size of the sample instead of the public one",
        lambda: gradients(_DividedByWhoCame, rate=0.5), rules=("families",),
    ),
    "gradients of any batch": bug(
        "a short batch is re-normalised and released", lambda: gradients(_AnySize), rules=("batch size",)
    ),
    "loss not clipped": bug(
        "a loss outside [0, 1] is added as it is reported", lambda: losses(_LossNotClipped), rules=("families",)
    ),
    "losses without noise": bug(
        "the losses that a user met are released as they are",
        lambda: losses(_ExactLosses), rules=("exposed",),
    ),
    "visits of losses without noise": bug(
        "visits of an adversarial MDP are released as they are",
        lambda: losses(_ExactVisits, "central", delta=1e-5), rules=("exposed",),
    ),
    "one noise for losses": bug(
        "one draw of noise covers all losses of a user", lambda: losses(_OneNoiseForLosses), rules=("exposed",)
    ),
    "losses with half the moves": bug(
        "transitions of an adversarial MDP have half of the stated noise",
        lambda: losses(_HalfTheMoves, "central"), rules=("exposed",),
    ),
    "loss table as one walk": bug(
        "a whole table of losses is accounted for as if it were one trajectory", _table_as_a_walk, rules=("families",)
    ),
    "users told apart by number": bug(
        "the number of users beside a release depends on where the last one was",
        lambda: losses(_UsersTold), rules=("fields", "state"),
    ),
}  # fmt: skip
"""Bugs of other releases, by name."""

RELEASES: Final[dict[str, Callable[[], Any]]] = {
    "gradients": gradients,
    "gradients with a released baseline": lambda: gradients(baseline=None),
    "gradients of three epochs": lambda: gradients(epochs=3),
    "sampled gradients": lambda: gradients(rate=0.5, epochs=2),
    "dose gradients": lambda: gradients(GradientPrivatizer, doses=True),
    "local bandit losses": losses,
    "local full losses": lambda: losses(feedback="full"),
    "central bandit losses": lambda: losses(trust="central"),
    "central full losses": lambda: losses(trust="central", feedback="full", delta=1e-5),
}
"""What they were planted in."""
