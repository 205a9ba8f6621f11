"""Devices with one bug each: wrong noise, wrong sensitivity, wrong message. For the mutation suite only."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from mutants.planted import SHAPE, Mutation, bug, configured, twin
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories, Walked
from tacit.noise.laplace import Laplace
from tacit.noise.layout import exact_vector, outcome_cell
from tacit.noise.randomized_response import RandomizedResponse, response_encoder, send_slot
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.protocol import PrivateStatistics, copy_state
from tacit.randomness import SimulationNoise
from tacit.release.local import Local
from tacit.statistics.count_vectors import add_vector, count_families

__all__ = ["DEVICES", "DEVICE_BUGS", "HalfTheNoise", "local"]


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


class _HalfTheChange(Local):
    def families(self) -> tuple[Family, ...]:
        return tuple(replace(family, down=0) for family in super().families())


class _ForgottenFamily(Local):
    def families(self) -> tuple[Family, ...]:
        return tuple(family for family in super().families() if family.name != "rewards")


class _ForgottenEvents(Local):
    def events(self) -> Any:
        return self.transition.events(self.families()[0])


class _FreeVisits(Local):
    def families(self) -> tuple[Family, ...]:
        return count_families(self.shape, "complement")


class _Flattering(Local):
    def certificate(self) -> Any:
        return replace(super().certificate(), epsilon=0.5)


class _Talkative(Local):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        if isinstance(users, Trajectories):
            logging.getLogger("tacit.twin").info("first reward %r", float(users.rewards.ravel()[0]))
        return super().release(state, users, query, noise)


class _RaisesOnData(Local):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        if isinstance(users, Trajectories) and not (np.abs(users.rewards) <= 1.0).all():
            raise ValueError("a reward is out of range")
        return super().release(state, users, query, noise)


class _AnyLength(Local):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        if isinstance(users, Trajectories) and users.actions.shape[1] != self.shape.horizon:
            after = copy_state(state)
            for row in zip(users.states, users.actions, users.rewards, strict=True):
                self.kernel(self.parameters, after, Walked(*row), query, noise.generator)
            return after, PrivateStatistics(after.released, self.claim)
        return super().release(state, users, query, noise)


class _SameNoiseInEveryBatch(Local):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        if not isinstance(noise, SimulationNoise):
            return super().release(state, users, query, noise)
        seed = int(np.frombuffer(repr(noise.generator.bit_generator.state["state"]["inc"]).encode()[:8], np.int64)[0])
        return super().release(state, users, query, SimulationNoise(np.random.default_rng(seed)))


class _TenthDecimal(Local):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        if isinstance(users, Trajectories):
            shown = released.statistics.visits.ravel()
            state_then = int(np.clip(users.states[0, 0], 0, self.shape.num_states - 1))
            shown[0] = np.round(shown[0], 9) + 5e-10 * state_then
        return after, released


class _Plain(Local):
    """A release kernel in plain Python over `write`."""

    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        """Write one user's message."""
        raise NotImplementedError

    @property
    def kernel(self) -> Callable[..., None]:
        """Encode, then add up."""

        def release(parameters: Any, state: Any, users: Walked, query: Any, coins: Any) -> None:
            self.write(parameters, state.message, users, coins)
            add_vector(state.released, state.message, parameters.places, parameters.complement)
            state.released.variance[:] += parameters.variance
            state.released.users[0] += 1

        return release


class _UniformNoise(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        # The variance of a uniform number in [-√6, √6] is 2, that of a Laplace variable of scale 1.
        _noisy(parameters, message, coins.uniform(-math.sqrt(6.0), math.sqrt(6.0), message.size), user)


class _SharedNoise(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        _noisy(parameters, message, coins.laplace(), user)


class _PairsShareNoise(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        _noisy(parameters, message, np.repeat(coins.laplace(size=len(message) // 2), 2), user)


class _SameSeed(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        _noisy(parameters, message, np.random.default_rng(7).laplace(size=len(message)), user)


class _UnclippedRewards(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        drawn = coins.laplace(size=len(message))
        _noisy(parameters, message, drawn, user._replace(rewards=np.zeros_like(user.rewards)))
        S, A, block = parameters.S, parameters.A, parameters.stages * parameters.S * parameters.A
        first = parameters.places.num_moves
        for h, reward in enumerate(user.rewards):
            s, a = min(max(user.states[h], 0), S - 1), min(max(user.actions[h], 0), A - 1)
            cell = first + outcome_cell(h, s, a, S, A)
            message[cell] += reward
            message[cell + block] -= reward


class _UnclippedStates(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        _noisy(parameters, message, coins.laplace(size=len(message)), None)
        for h, (s, a) in enumerate(zip(user.states, user.actions, strict=False)):
            message[(h * parameters.S + s) * parameters.A + a] += 1.0


class _TwoSlots(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        message[:] = 0.0
        for slot in coins.choice(2 * len(user.actions) - 1, 2, replace=False):
            send_slot(parameters, message, slot, *user, coins)
        message /= 2.0


class _SlotByData(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        message[:] = 0.0
        slot = 0 if user.states[0] > 0 else int(coins.integers(2 * len(user.actions) - 1))
        send_slot(parameters, message, slot, *user, coins)


class _AllSlots(_Plain):
    def write(self, parameters: Any, message: Any, user: Walked, coins: Any) -> None:
        response_encoder(parameters, message, *user, coins)
        message /= 2 * len(user.actions) - 1


def _noisy(parameters: Any, message: Any, draws: Any, user: Walked | None) -> None:
    """Noise of the stated scales, and on top of it what the user did."""
    first = parameters.places.num_moves
    message[:] = draws
    message[:first] *= parameters.transition.scale
    message[first:] *= parameters.outcome.scale
    if user is not None:
        sizes = parameters.stages, parameters.S, parameters.A
        exact_vector(parameters.places, message, *sizes, parameters.complement, *user)


def _same(mechanism: Any) -> dict[str, Any]:
    return {"outcome": mechanism, "transition": mechanism}


def _covering(families: tuple[Family, ...]) -> dict[str, Any]:
    return _same(Laplace.calibrate(families, 1.0, 0.0, discrete=False))


def _half_the_change() -> Any:
    return local(_HalfTheChange, **_covering(tuple(replace(f, down=0) for f in count_families(SHAPE, "complement"))))


def _forgotten_family() -> Any:
    kept = tuple(family for family in count_families(SHAPE, "families") if family.name != "rewards")
    return local(_ForgottenFamily, encoding="families", **_covering(kept))


_BIT: Final = RandomizedResponse(epsilon=1.0 / (2 * SHAPE.horizon - 1))
_SLOT: Final = UnaryEncoding(epsilon=1.0, slots=SHAPE.horizon, feeding=1)
_ONE: Final = Laplace(scale=2.0 * SHAPE.horizon, discrete=False)

DEVICE_BUGS: Final[dict[str, Mutation]] = {
    "noise halved": bug(
        "every device draws half of the noise that it states", lambda: local(HalfTheNoise), "audit", rules=("variance",)
    ),
    "H for 2H": bug(
        "a replaced user is counted as if she had been removed: H counters per family instead of 2H",
        _half_the_change, "audit", rules=("families",),
    ),
    "forgotten family": bug("rewards are released, but not accounted for", _forgotten_family, rules=("families",)),
    "events forget a family": bug(
        "only transitions are reported to the accountant", lambda: local(_ForgottenEvents), rules=("events", "exposed")
    ),
    "visits as if they were free": bug(
        "three families of noise are accounted for as if visits were sums of the other two",
        lambda: local(_FreeVisits, encoding="families"), rules=("independent",),
    ),
    "three families with the noise of two": bug(
        "visits are released with noise that was calibrated without them",
        lambda: local(encoding="families"), "accountant",
    ),
    "scale of one family only": bug(
        "the noise is that of one family, two are released", lambda: local(**_same(_ONE)), "accountant"
    ),
    "one bit per slot": bug(
        "randomized response is calibrated as if one bit per slot changed; two do",
        lambda: local(base="rr", **_same(_BIT)), "accountant",
    ),
    "shared noise": bug(
        "one draw of noise covers all counters of a user: differences are exact",
        lambda: local(_SharedNoise), rules=("independent", "exposed"),
    ),
    "noise of another shape": bug(
        "devices draw uniform noise with the variance of the stated Laplace noise",
        lambda: local(_UniformNoise), rules=("tails",),
    ),
    "noise shared by pairs": bug(
        "two neighbouring counters have the same noise", lambda: local(_PairsShareNoise), rules=("independent",)
    ),
    "seed reuse across users": bug(
        "every device starts its generator from the same seed", lambda: local(_SameSeed), "audit", rules=("replay",)
    ),
    "seed reuse across batches": bug(
        "every batch starts its generator from the same seed",
        lambda: local(_SameNoiseInEveryBatch), rules=("independent",),
    ),
    "reward not clipped": bug(
        "a reward outside [0, 1] is added as it is reported", lambda: local(_UnclippedRewards), rules=("families",)
    ),
    "state not clipped": bug(
        "a state outside the range is an index as it is reported", lambda: local(_UnclippedStates), rules=("silence",)
    ),
    "trajectories of any length": bug(
        "longer trajectories are counted with the noise of short ones",
        lambda: local(_AnyLength, shape=replace(SHAPE, staged=False)), rules=("shapes",),
    ),
    "wrong number of slots": bug(
        "one slot of H is sent where there are 2H - 1", lambda: local(base="oue", **_same(_SLOT)), rules=("unbiased",)
    ),
    "two slots with all of epsilon": bug(
        "two slots are sent, each with the epsilon that was meant for one",
        lambda: local(_TwoSlots, "oue"), rules=("families",),
    ),
    "all slots with all of epsilon": bug(
        "every slot is sent, each with the epsilon that was meant for one",
        lambda: local(_AllSlots, "oue"), "audit", rules=("families",),
    ),
    "slot chosen by the data": bug(
        "which slot of the trajectory is sent depends on where the user began",
        lambda: local(_SlotByData, "oue"), rules=("families",),
    ),
    "certificate that flatters": bug(
        "the certificate says half of what the accountant finds", lambda: local(_Flattering), "accountant"
    ),
    "a log line with a reward": bug("a reward is written into a log", lambda: local(_Talkative), rules=("silence",)),
    "an error on data": bug("an error tells of a reward", lambda: local(_RaisesOnData), rules=("silence",)),
    "state in the tenth decimal": bug(
        "the clipped state is hidden in the tenth decimal of a Laplace message",
        lambda: local(_TenthDecimal), rules=("lattice",),
    ),
}  # fmt: skip
"""Bugs on the device, by name."""

DEVICES: Final[dict[str, Callable[[], Any]]] = {
    f"local {name}": partial(configured, "local", name) for name in ("laplace", "oue", "rr", "subset")
}
"""What they were planted in."""
