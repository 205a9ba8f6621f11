"""One slot of a trajectory, sent with all of ε: what unary encoding and subset selection have in common.

A slot is one family at one step; its data are a one-hot vector. A user draws one of `slots` slots without looking at
the data and sends a randomized version of that vector only, in which the one arrives as one with probability p and each
zero arrives as one with probability q. A counter adds up the bits of `feeding` slots: one, or H of them when it is
aggregated over the steps.

G1  A replaced vector costs ε, exactly. A user who sends one slot pays ε once in all, however many slots there are.
G2  `debias` is unbiased over the bits and the choice of the slot. A user with N ones among the `feeding` bits of a
    counter adds the variance  slots · feeding · q(1-q)/(p-q)²  (the noise)  +  w N - N²,  w = slots (1-2q)/(p-q)  (the
    sampling, Lemma L2 (one slot)): an estimate from n counts is as uncertain as if it rested on n/w users.
G3  `radius` covers the error of a sum over n users, whatever their bits: the Chernoff bound of the worst bits with the
    choice of the slot included.

In large worlds users are dealt their places one by one, in compiled code (`shared_slots`).

The law is that of `layout.held_slots`: given the counts of a batch whose users followed one Markov policy in one
environment, users in one state are exchangeable, so what each of them meets is a card of a shuffled deck, one deck for
every step and state. `held_slots` draws how the groups of senders share the decks, without drawing the users, which
costs the same for any number of them; here the cards are dealt, which costs a few operations per user and step, and
wins where there are fewer users than cells. The coins differ, the distribution does not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final, NoReturn, Self, TypeVar

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius
from numpy.typing import ArrayLike, NDArray

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, require, require_count, require_real
from tacit.kernels import kernel, lean_kernel
from tacit.noise.layout import flattened, held_slots, rounded_rewards, slot_sender
from tacit.noise.protocol import (
    Counts,
    EncoderParameters,
    Encoding,
    Shape,
    require_failure_prob,
    require_no_squares,
    require_simulation,
)
from tacit.noise.support_index import category_counts, excludes_something, gathered, slots_of
from tacit.randomness import SecureNoise, SimulationNoise

CELLS: Final = 10_000
"""Models with fewer cells H S² A are small: there the groups of senders share the decks."""
USERS_PER_ROW: Final = 50
"""Users are dealt up to so many for each of the S² A cells of a step."""


def shared_slots(
    counts: Counts, rewards: Floats, senders: Ints, generator: np.random.Generator, *, small: bool = False
) -> list[Ints]:
    """What the senders of each slot hold in it: outcomes [2, S, A] and transitions [S, A, S], step by step.

    With `small`, small worlds are dealt too: always less work, but other coins than committed results have.
    """
    H, S, A = counts.visits.shape
    few = counts.users <= USERS_PER_ROW * S * S * A
    if (H * S * S * A < CELLS and not small) or not few or not _complete(counts):
        return held_slots(counts, rewards, senders, generator)
    return dealt_slots(counts, rewards, senders, generator)


def dealt_slots(counts: Counts, rewards: Floats, senders: Ints, generator: np.random.Generator) -> list[Ints]:
    """The same, dealt user by user; every visit but those of the last step must have a successor.

    >>> from types import SimpleNamespace
    >>> counts = SimpleNamespace(transitions=np.array([[[[0, 3]], [[0, 0]]], [[[0, 0]], [[0, 0]]]]),
    ...                          visits=np.array([[[3], [0]], [[0], [3]]]), users=3)
    >>> found = dealt_slots(counts, np.zeros((2, 2, 1)), np.array([1, 2, 0]), np.random.default_rng(0))
    >>> [part.ravel().tolist() for part in found]
    [[0, 0, 1, 0], [0, 2, 0, 0], [0, 0, 0, 0]]
    """
    H, S, A = counts.visits.shape
    outcomes, moved = np.zeros((H, 2, S, A), dtype=np.int64), np.zeros((H, S, A, S), dtype=np.int64)
    multinomial_split(
        np.ascontiguousarray(counts.transitions, dtype=np.int64),
        np.ascontiguousarray(counts.visits, dtype=np.int64),
        np.rint(rewards).astype(np.int64),
        np.ascontiguousarray(senders, dtype=np.int64),
        generator,
        outcomes,
        moved,
    )
    return [part for h in range(H) for part in ((outcomes[h], moved[h]) if h < H - 1 else (outcomes[h],))]


@kernel
def multinomial_split(
    transitions: Ints,
    visits: Ints,
    ones: Ints,
    senders: Ints,
    generator: np.random.Generator,
    outcomes: Ints,
    moved: Ints,
) -> None:
    """Write what the senders of slots 0, 1, ..., 2H-2 hold to outcomes [H, 2, S, A] and moved [H, S, A, S]."""
    H, S, A = visits.shape
    users = 0
    for slot in range(senders.shape[0]):
        users += senders[slot]
    sends, at, deck = np.zeros(users, np.int64), np.zeros(users, np.int64), np.zeros(users, np.int64)
    first, left = np.zeros(S, np.int64), np.zeros(S, np.int64)
    i = 0
    for slot in range(senders.shape[0]):
        sends[i : i + senders[slot]] = slot
        i += senders[slot]
    i = 0
    for s in range(S):
        for a in range(A):
            at[i : i + visits[0, s, a]] = s
            i += visits[0, s, a]
    # First states: a random order, since senders of one slot stand together.
    for i in range(users):
        j = i + int(generator.random() * (users - i))
        at[i], at[j] = at[j], at[i]
    earning, unseen = np.zeros((S, A), np.int64), np.zeros((S, A), np.int64)
    for h in range(H):
        place = 0
        for s in range(S):
            first[s] = place
            for a in range(A):
                earning[s, a], unseen[s, a] = ones[h, s, a], visits[h, s, a]
                # A card is a · S + s'; nobody asks what follows the last step.
                if h == H - 1:
                    deck[place : place + visits[h, s, a]] = a * S
                    place += visits[h, s, a]
                else:
                    for t in range(S):
                        number = transitions[h, s, a, t]
                        deck[place : place + number] = a * S + t
                        place += number
            left[s] = place - first[s]
        for i in range(users):
            s = at[i]
            # One of the cards that are left, all alike; the last one takes its place.
            card = first[s] + int(generator.random() * left[s])
            a, t = deck[card] // S, deck[card] % S
            left[s] -= 1
            deck[card] = deck[first[s] + left[s]]
            if sends[i] == 2 * h:
                # Of the visits that nobody has asked about yet, `earning` earned a one.
                earned = generator.random() * unseen[s, a] < earning[s, a]
                unseen[s, a] -= 1
                earning[s, a] -= int(earned)
                outcomes[h, 0 if earned else 1, s, a] += 1
            elif sends[i] == 2 * h + 1:
                moved[h, s, a, t] += 1
            at[i] = t


def _complete(counts: Counts) -> bool:
    """Whether every visit but those of the last step has a successor, and people arrive where they go on."""
    follow = np.asarray(counts.transitions)[:-1]
    visits = np.asarray(counts.visits)
    same = bool((follow.sum(axis=3) == visits[:-1]).all())
    return same and bool((follow.sum(axis=(1, 2)) == visits[1:].sum(axis=2)).all())


SlotT = TypeVar("SlotT", bound="OneSlot")


@cache
def one_slot_encoder(send: Callable[..., None]) -> Callable[..., None]:
    """The encoder that sends one slot of the trajectory, chosen without looking at the data, with all of epsilon."""
    send_slot = slot_sender(send)

    @lean_kernel
    def encode(
        parameters: EncoderParameters,
        message: Floats,
        states: Ints,
        actions: Ints,
        rewards: Floats,
        generator: np.random.Generator,
    ) -> None:
        message[:] = 0.0
        # Slots: 0, 2, 4, ... the outcomes (s,a,r) of the H steps; 1, 3, ... their H-1 transitions.
        slots = parameters.places.slots
        slot = slots[int(generator.random() * slots.shape[0])]
        send_slot(parameters, message, slot, states, actions, rewards, generator)

    return encode


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSlot(ABC):
    """One slot out of `slots`, for counters fed by `feeding` slots each."""

    epsilon: float
    slots: int
    feeding: int

    PURE: ClassVar[bool] = True
    ENCODINGS: ClassVar[tuple[Encoding, ...]] = ("complement",)
    COUPLED: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_real("epsilon of one slot", self.epsilon, low=0.0, open_low=True)
        require_count("slots", self.slots)
        require_count("feeding slots", self.feeding)
        require(self.feeding <= self.slots, f"a counter is fed by at most all {self.slots} slots", self.feeding)

    @property
    @abstractmethod
    def keep(self) -> float:
        """P(a one arrives as one), p."""

    @property
    @abstractmethod
    def rise(self) -> float:
        """P(a zero arrives as one), q."""

    @property
    @abstractmethod
    def contrast(self) -> float:
        """The difference p - q, without cancellation."""

    @property
    def gain(self) -> float:
        """The factor slots/(p-q) of the de-biasing."""
        return self.slots / self.contrast

    @property
    def noise_variance(self) -> float:
        """The variance that the random bits add to a counter, per user: slots · feeding · q(1-q)/(p-q)² (G2)."""
        return self.slots * self.feeding * self.rise * (1.0 - self.rise) / self.contrast**2

    @property
    def weight(self) -> float:
        """What one counted user stands for: w = slots (1-2q)/(p-q) (G2)."""
        return self.slots * (1.0 - 2.0 * self.rise) / self.contrast

    @property
    def sampling_variance(self) -> float:
        """The most that choosing one slot adds, per user: w N - N² at the worst N up to `feeding` (G2)."""
        return self._sampling(self.weight)

    @property
    def variance(self) -> float:
        """The largest variance of a counter, per user: noise and sampling."""
        return self.noise_variance + self.sampling_variance

    @property
    def std(self) -> float:
        """The largest standard deviation of a counter, per user."""
        return math.sqrt(self.variance)

    def variance_at(self, ones: float) -> float:
        """The variance of a counter that holds `ones` of a user, or of a user on average: noise + w N - N² (G2)."""
        return self.noise_variance + self.weight * ones - ones**2

    def sum_variance(self, cells: int) -> float:
        """The largest variance of a sum over so many cells of every feeding slot, per user: noise and sampling."""
        p, q, m = self.keep, self.rise, cells
        # E (Σ bits - m q)² without and with the true cell among them
        empty = m * q * (1.0 - q) + m * (m - 1) * self.covariance
        held = p * (1.0 - p) + (m - 1) * q * (1.0 - q) + (m - 1) * (m - 2) * self.covariance
        held += 2.0 * (m - 1) * self.true_covariance + self.contrast**2
        scale = self.slots / self.contrast**2
        excess = scale * (held - empty)
        return scale * self.feeding * empty + self._sampling(excess)

    def _sampling(self, weight: float) -> float:
        """The largest w N - N² over N = 0, ..., feeding."""
        return max(weight * ones - ones**2 for ones in range(self.feeding + 1))

    @property
    def covariance(self) -> float:
        """Of the bits of two cells that are not the true one."""
        return 0.0

    @property
    def true_covariance(self) -> float:
        """Of the bits of the true cell and another one."""
        return 0.0

    def reach(self, cells: int) -> float:
        """The most that the sum over so many cells can be off, for one user."""
        return self.gain * cells + self.feeding

    def debias(self, ones: ArrayLike, senders: ArrayLike = 1) -> Floats:
        """The unbiased estimate of a counter: `senders` users sent a slot that feeds it, `ones` of them a one."""
        # n̂ = slots/(p-q) (ñ − q · senders)
        return self.gain * (np.asarray(ones, dtype=np.float64) - self.rise * np.asarray(senders, dtype=np.float64))

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """Centred noise of one user in counters whose bits are all zero: mostly another slot is sent."""
        generator = require_simulation(noise)
        sends = generator.random(size) < self.feeding / self.slots
        return self.debias(sends & (generator.random(size) < self.rise), sends)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|error of a counter over `terms` users| > t) <= failure_prob, for all bits (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        log_two = math.log(2.0 / p)
        up, down = self.gain * (1.0 - self.rise), self.gain * self.rise  # the estimate of one sent bit: up or -down
        ones = np.arange(self.feeding + 1)  # N, whatever it is
        one, zero = ones / self.slots, (self.feeding - ones) / self.slots

        def cumulant(rate: float) -> float:
            # ln E exp(λ (estimate − N)), estimate = up or −down if a feeding slot is sent and 0 otherwise
            rise, fall = math.expm1(rate * up), math.expm1(-rate * down)
            inner = one * (self.keep * rise + (1.0 - self.keep) * fall) + zero * (
                self.rise * rise + (1.0 - self.rise) * fall
            )
            return float(np.max(np.log1p(inner) - rate * ones))

        # P(|S| > t) ≤ 2 exp(n max κ(±λ) − λt); Gaussian tails say where to look for λ.
        guess = math.sqrt(2.0 * log_two / (n * max(self.variance, 1e-12)))
        bounds = (1e-3 * guess, min(3.0 * guess, 500.0 / up))
        found = scipy.optimize.minimize_scalar(
            lambda x: (log_two + n * max(cumulant(x), cumulant(-x))) / x, bounds=bounds, method="bounded"
        )
        return min(float(found.fun), n * max(up, down + self.feeding)) * (1 + 1e-9)

    def events(self, family: Family) -> Events:
        """One event per replaced one-hot vector (G1); the one sent slot is the family Family(up=1, down=1, shift=1)."""
        require(family.shift == 1.0, "one slot covers one-hot vectors", given=family.shift)
        vectors = max(family.up, family.down)
        return ((PureEvent(epsilon=self.epsilon), vectors),) if vectors else ()

    @abstractmethod
    def arrived(self, ones: Ints, senders: int, generator: np.random.Generator) -> Floats:
        """The de-biased sum of one slot's bits over the users who sent it, `ones` of them a one."""

    @abstractmethod
    def sent_bits(self, cells: int, hot: int, noise: SimulationNoise | SecureNoise) -> Ints:
        """The bits of one one-hot vector, exact from secure noise; `hot` -1: of one without a one, if there can be."""

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> NoReturn:
        """Refused: nobody printed it."""
        del shape, epsilon, delta
        require_no_squares(squares)
        raise NotSupported("no paper sends one slot only; use calibration 'tight' with it")

    def exposure(self, transition: Self, families: Sequence[Family]) -> Events:
        """One slot in all, whatever the families (G1)."""
        del families
        return ((PureEvent(epsilon=max(self.epsilon, transition.epsilon)), 1),)

    def user_variance(self, steps: int) -> float:
        """The noise alone; `feeding` says how many steps a counter collects."""
        del steps
        return self.noise_variance

    @property
    def noise_share(self) -> float:
        """How much of the variance is noise; where nothing varies (one cell, one slot) any share will do."""
        return self.noise_variance / (self.variance or 1.0)

    def typical_variance(self, pairs: int, steps: int) -> float:
        """Noise and sampling of a counter that holds an even share of the users."""
        del steps
        return self.variance_at(self.feeding / pairs)

    def sum_noise(self, cells: int, steps: int) -> tuple[float, float]:
        """Noise and sampling together, bounded by `reach`."""
        del steps
        return self.sum_variance(cells), self.reach(cells) / 3.0

    def total(
        self, transition: Self, encoding: Encoding, shape: Shape, counts: Counts, noise: SimulationNoise
    ) -> Floats:
        """Users choose their slot multinomially; what each group holds is hypergeometric, layer by layer, or dealt."""
        del encoding
        generator = noise.generator
        rewards, slots = rounded_rewards(counts, generator), slots_of(shape)
        senders = np.zeros(2 * shape.horizon - 1, dtype=np.int64)
        senders[slots] = generator.multinomial(counts.users, np.full(len(slots), 1.0 / len(slots)))
        held = shared_slots(counts, rewards, senders, generator, small=excludes_something(shape))
        arrived: list[Floats] = []
        for slot in slots:
            ones = category_counts(shape, int(slot), held[slot], int(senders[slot]))
            arrived.append((transition if slot % 2 else self).arrived(ones, int(senders[slot]), generator))
        told = shape.support
        return flattened(shape, arrived) if told is None else gathered(told, shape.staged, arrived)

    @property
    def unit(self) -> float:
        """The gain of the de-biasing."""
        return self.gain

    def quiet(self) -> Self:
        """Replayed coins flip the same bits, so there is nothing to switch off."""
        return self

    def likelihood_ratio(self, values: Floats, before: Floats, after: Floats) -> Floats:
        """That of the two bits; a subset is judged by them too, its own ratio is a multiple of theirs.

        The server knows the gain: a de-biased bit is 0 or 1 again; a 0 as it stands means that another slot was sent.
        """
        sent = values / self.gain + self.rise > 0.5
        ratio = bit_ratio(sent, before == 1.0, after == 1.0, self.keep, self.rise)
        return np.asarray(ratio * (np.abs(values) > 1e-12))


def bit_ratio(
    sent: NDArray[np.bool_], zero: NDArray[np.bool_], one: NDArray[np.bool_], keep: float, rise: float
) -> Floats:
    """The log ratio of P(sent | bit `one`) to P(sent | bit `zero`); a one is kept with `keep`, a zero sent with `rise`.

    >>> no, yes = np.array([False]), np.array([True])
    >>> round(float(bit_ratio(yes, no, yes, 0.75, 0.25)[0]), 6)      # ln 3
    1.098612
    """
    up = np.where(sent, math.log(keep / rise), math.log((1.0 - keep) / (1.0 - rise)))
    return np.asarray(up * (one.astype(np.float64) - zero.astype(np.float64)))


def feeding_slots(shape: Shape) -> tuple[int, int]:
    """How many slots feed a counter of outcomes and of transitions."""
    return (1, 1) if shape.staged else (shape.horizon, max(1, shape.horizon - 1))


def calibrated_slot(make: Callable[[float], SlotT], families: Sequence[Family], epsilon: float, delta: float) -> SlotT:
    """The mechanism with the largest ε per vector under which these families together are (epsilon, delta)-private."""
    # The knob of the search is 1/ε, which grows with the noise.
    vectors = sum(max(family.up, family.down) for family in families)
    enough = vectors / require_real("epsilon", epsilon, low=0.0, open_low=True)
    return least_noise(lambda knob: make(1.0 / knob), families, epsilon=epsilon, delta=delta, enough=enough)
