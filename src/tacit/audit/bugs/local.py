"""Devices with one bug each: wrong noise, wrong sensitivity, wrong message. For the mutation suite only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np

from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories
from tacit.mechanisms.noise.laplace import Laplace
from tacit.mechanisms.noise.layout import exact_vector, outcome_cell, transition_cells
from tacit.mechanisms.noise.randomized_response import RandomizedResponse, response_encoder, send_slot
from tacit.privatizers.local import Local
from tacit.privatizers.request import PrivacyRequest
from tacit.privatizers.statistics import add_vector, count_families
from tacit.privatizers.table import make_privatizer
from tacit.released.counts import CountShape

__all__ = [
    "SHAPE",
    "AllSlots",
    "ForgottenFamily",
    "HalfTheChange",
    "HalfTheNoise",
    "SameSeedForEveryUser",
    "SharedNoise",
    "SlotByData",
    "Talkative",
    "UnclippedRewards",
    "bit_per_slot",
    "configured",
    "forgotten_family",
    "half_the_change",
    "local",
    "three_families",
    "twin",
]

SHAPE: Final = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)


def configured(trust: str, mechanism: str) -> Any:
    """A correct, small privatizer; the shuffled one has so few noise bits per user that integers would tell."""
    shuffled = trust == "shuffle"
    request = PrivacyRequest(
        trust=trust,  # type: ignore[arg-type]
        shape=SHAPE,
        episodes=40 if shuffled else 16,
        epsilon=3.0 if shuffled else 1.0,
        delta=1e-5 if shuffled else 0.0,
        calibration=None,
        mechanism=mechanism,
        users_per_batch=20 if shuffled else 1,
    )
    return make_privatizer(request)


def twin(kind: type, original: Any, **changes: Any) -> Any:
    """The same fields in another class."""
    return kind(**{field.name: getattr(original, field.name) for field in fields(original)} | changes)


def local(kind: type = Local, base: str = "laplace", **changes: Any) -> Any:
    """A twin of a correct local privatizer."""
    return twin(kind, configured("local", base), **changes)


class HalfTheNoise(Local):
    """Draws half of the noise that it states."""

    @property
    def parameters(self) -> Any:
        """Half the scales."""
        stated = super().parameters
        half = stated.outcome._replace(scale=stated.outcome.scale / 2)
        return stated._replace(outcome=half, transition=half)


class HalfTheChange(Local):
    """H counters per family instead of 2H: a replaced user counted as if she had been removed."""

    def families(self) -> tuple[Family, ...]:
        """Half of what moves."""
        return tuple(replace(family, down=0) for family in super().families())


class ForgottenFamily(Local):
    """Releases rewards without accounting for them."""

    def families(self) -> tuple[Family, ...]:
        """All but the rewards."""
        return tuple(family for family in super().families() if family.name != "rewards")


class Talkative(Local):
    """Writes a reward into a log."""

    def release(self, state: Any, batch: Any, noise: Any) -> Any:
        """As usual, and talk about it."""
        if isinstance(batch, Trajectories):
            logging.getLogger("tacit.twin").info("first reward %r", float(batch.rewards.ravel()[0]))
        return super().release(state, batch, noise)


class _PlainEncoder(Local):
    """A release kernel in plain Python over `write`."""

    def write(self, parameters: Any, message: Any, user: tuple[Any, Any, Any], generator: Any) -> None:
        """Write one user's message."""
        raise NotImplementedError

    @property
    def release_kernel(self) -> Callable[..., None]:
        """Encode, then add up."""

        def release(parameters: Any, state: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            self.write(parameters, state.message, (states, actions, rewards), generator)
            add_vector(state.released, state.message, parameters.complement, actions.shape[0])
            state.released.variance[:] += parameters.variance
            state.released.users[0] += 1

        return release


class SharedNoise(_PlainEncoder):
    """One draw of noise for all counters of a user."""

    def write(self, parameters: Any, message: Any, user: tuple[Any, Any, Any], generator: Any) -> None:
        """The same noise everywhere."""
        _cover(parameters, message, generator.laplace())
        _add(parameters, message, user)


class SameSeedForEveryUser(_PlainEncoder):
    """Every device starts its generator from the same seed."""

    def write(self, parameters: Any, message: Any, user: tuple[Any, Any, Any], generator: Any) -> None:
        """The same noise for everybody."""
        del generator
        _cover(parameters, message, np.random.default_rng(7).laplace(size=len(message)))
        _add(parameters, message, user)


class UnclippedRewards(_PlainEncoder):
    """Adds rewards as they are reported."""

    def write(self, parameters: Any, message: Any, user: tuple[Any, Any, Any], generator: Any) -> None:
        """Noise for rewards in [0, 1], whatever they are."""
        states, actions, rewards = user
        _cover(parameters, message, generator.laplace(size=len(message)))
        _add(parameters, message, (states, actions, np.zeros_like(rewards)))
        S, A, block = parameters.S, parameters.A, parameters.stages * parameters.S * parameters.A
        first = transition_cells(len(actions), parameters.stages, S, A)
        for h, reward in enumerate(rewards):
            s, a = min(max(states[h], 0), S - 1), min(max(actions[h], 0), A - 1)
            cell = first + outcome_cell(h, s, a, S, A)
            message[cell] += reward
            message[cell + block] -= reward


class SlotByData(_PlainEncoder):
    """Which slot is sent tells where the user began."""

    def write(self, parameters: Any, message: Any, user: tuple[Any, Any, Any], generator: Any) -> None:
        """The first slot for whoever starts somewhere else."""
        slots = 2 * len(user[1]) - 1
        slot = 0 if user[0][0] > 0 else int(generator.integers(slots))
        message[:] = 0.0
        send_slot(parameters, message, slot, *user, generator)


class AllSlots(_PlainEncoder):
    """Sends every slot, each with all of epsilon."""

    def write(self, parameters: Any, message: Any, user: tuple[Any, Any, Any], generator: Any) -> None:
        """All bits of all slots."""
        response_encoder(parameters, message, *user, generator)
        message /= 2 * len(user[1]) - 1


def half_the_change() -> Any:
    """Calibrated to half of what moves."""
    halved = tuple(replace(family, down=0) for family in count_families(SHAPE, "complement"))
    return local(HalfTheChange, **_laplace(halved))


def forgotten_family() -> Any:
    """Calibrated to two families of three."""
    kept = tuple(family for family in count_families(SHAPE, "families") if family.name != "rewards")
    return local(ForgottenFamily, encoding="families", **_laplace(kept))


def three_families() -> Any:
    """Three families with the noise of the complement encoding."""
    return local(encoding="families")


def bit_per_slot() -> Any:
    """Randomized response as if one bit per slot changed; two do."""
    bit = RandomizedResponse(epsilon=1.0 / (2 * SHAPE.horizon - 1))
    return twin(Local, configured("local", "rr"), mechanism=bit, transition_mechanism=bit)


def _laplace(families: tuple[Family, ...]) -> dict[str, Any]:
    noise = Laplace.calibrate(families, 1.0, 0.0, discrete=False)
    return {"mechanism": noise, "transition_mechanism": noise}


def _cover(parameters: Any, message: Any, draws: Any) -> None:
    first = transition_cells(SHAPE.horizon, parameters.stages, parameters.S, parameters.A)
    message[:] = draws
    message[:first] *= parameters.transition.scale
    message[first:] *= parameters.outcome.scale


def _add(parameters: Any, message: Any, user: tuple[Any, Any, Any]) -> None:
    exact_vector(message, parameters.stages, parameters.S, parameters.A, parameters.complement, *user)
