"""What every noise offers, in one object: guarantee, sampler, precision, event; a `Randomizer` also runs on a device.

`Mechanism` is noise for one release. `Randomizer` is a mechanism of local trust: everything that `Local` needs to know
about one noise, in one file, with no default for anything. A class that leaves a member out is a type error, and
`require_randomizer` refuses it before anybody's data are touched.

A message of local trust is one flat vector (`noise.layout`). Its transitions are covered by one randomizer, its
outcomes (rewards, visits or complements, squares) by another one of the same class: methods that concern the whole
message belong to the outcomes' randomizer and take the transitions' one as `transition`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np

from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require, require_real
from tacit.randomness import SimulationNoise
from tacit.support import Support

Encoding = Literal["families", "complement", "squares"]
"""What a message holds beside transitions: R and N, R and N - R, or R, N and squares (`count_vectors`)."""


class Shape(Protocol):
    """The public shape of the statistics, as `CountShape` has it."""

    @property
    def horizon(self) -> int:
        """Steps of an episode."""

    @property
    def num_states(self) -> int:
        """States."""

    @property
    def num_actions(self) -> int:
        """Actions."""

    @property
    def staged(self) -> bool:
        """Whether steps are kept apart."""

    @property
    def stages(self) -> int:
        """H, or 1 when steps are pooled."""

    @property
    def support(self) -> Support | None:
        """The public declaration of what can happen; None: nothing is declared."""


class Counts(Protocol):
    """Exact counts of a simulated batch, as `ExactCounts` has them: sensitive."""

    @property
    def transitions(self) -> Ints:
        """[H, S, A, S]."""

    @property
    def visits(self) -> Ints:
        """[H, S, A]."""

    @property
    def rewards(self) -> Floats:
        """[H, S, A]."""

    @property
    def users(self) -> int:
        """How many."""

    @property
    def binary(self) -> bool:
        """Whether every reward was 0 or 1."""


class EncoderParameters(NamedTuple):
    """Public parameters of an encoder."""

    stages: int
    S: int
    A: int
    complement: bool
    outcome: Any
    """The randomizer's own parameters, for rewards, visits and complements: a NamedTuple of numbers."""
    transition: Any
    """The same for transitions."""
    variance: Floats
    """[3]: noise variance that one user adds to a cell of transitions, visits, rewards."""
    places: Any
    """Where the counters stand: `tacit.noise.support_index.SupportIndex`."""


class Mechanism(Protocol):
    """Independent, centred noise for every released counter."""

    @property
    def variance(self) -> float:
        """The variance of the noise in one counter (its largest value, where it depends on the data)."""

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """Draw centred noise for `size` counters, for simulations only."""

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|sum of `terms` independent noises| > t) <= failure_prob."""

    def events(self, family: Family) -> Events:
        """What the release of this family exposes one user to."""


class Randomizer(Mechanism, Protocol):
    """A noise that every user's own device can draw."""

    NAME: ClassVar[str]
    """On the command line and in tables."""
    SUMMARY: ClassVar[str]
    """One line for `tacit list mechanisms`."""
    PURE: ClassVar[bool]
    """Whether it can give pure differential privacy (delta = 0)."""
    ENCODINGS: ClassVar[tuple[Encoding, ...]]
    """The encodings it can send."""
    COUPLED: ClassVar[bool]
    """Whether bits of one user depend on each other (never positively)."""

    @classmethod
    def tight(cls, shape: Shape, families: Sequence[Family], epsilon: float, delta: float) -> tuple[Self, Self]:
        """The least noise for outcomes and for transitions under which one message is (epsilon, delta)-private."""

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> tuple[Self, Self]:
        """The printed noise for outcomes and for transitions, or `NotSupported`."""

    def exposure(self, transition: Self, families: Sequence[Family]) -> Events:
        """What one message exposes its user to."""

    def user_variance(self, steps: int) -> float:
        """The noise variance that one user adds to a counter which collects `steps` steps of the trajectory."""

    @property
    def sampling_variance(self) -> float:
        """The most that sending only a part of the trajectory adds to the variance; 0 where all of it is sent."""

    @property
    def weight(self) -> float:
        """What one counted user stands for: 1 where everything is sent."""

    @property
    def noise_share(self) -> float:
        """How much of the stated variance is noise; the rest bounds the sampling."""

    def typical_variance(self, pairs: int, steps: int) -> float:
        """The variance in a counter that holds an even share, 1/pairs, of `steps` steps: what defaults compare."""

    def sum_noise(self, cells: int, steps: int) -> tuple[float, float]:
        """Variance and sub-gamma scale of one user's noise in the sum over so many counters."""

    @property
    def encoder(self) -> Callable[..., None]:
        """The device as a lean kernel: `(EncoderParameters, message, states, actions, rewards, generator)`."""

    @property
    def parameters(self) -> tuple[float, ...]:
        """What the encoder needs to know about this noise: a NamedTuple of numbers."""

    def total(
        self, transition: Self, encoding: Encoding, shape: Shape, counts: Counts, noise: SimulationNoise
    ) -> Floats:
        """The sum of the messages of all users of a batch, drawn at once from its exact counts."""

    @property
    def unit(self) -> float:
        """By how much one changed bit moves a de-biased counter; 1 where noise is added to counts."""

    def quiet(self) -> Self:
        """The same with noise that depends on the data switched off; itself where noise does not depend on them."""

    def likelihood_ratio(self, values: Floats, before: Floats, after: Floats) -> Floats:
        """The log ratio ln P(value | `after`) - ln P(value | `before`) of released counters with these exact counts."""


def missing_members(kind: type, protocol: type) -> list[str]:
    """The members of a protocol that a class does not have; a stub inherited from the protocol is none.

    >>> missing_members(str, Mechanism)
    ['events', 'radius', 'sample', 'std', 'variance']
    """
    wanted: dict[str, object] = {}
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base is not Protocol:
            own = {**dict.fromkeys(inspect.get_annotations(base)), **vars(base)}
            wanted |= {name: stub for name, stub in own.items() if not name.startswith("_")}
    fields = {name for base in kind.__mro__ if not getattr(base, "_is_protocol", False) for name in _annotated(base)}
    nothing = object()
    found = {name: inspect.getattr_static(kind, name, nothing) for name in wanted}
    return sorted(
        name
        for name, has in found.items()
        if (has is nothing and name not in fields) or has is (wanted[name] or nothing)
    )


def require_randomizer(thing: object) -> None:
    """Refuse what is no complete `Randomizer`: noise that nobody described is not released.

    >>> try:
    ...     require_randomizer("laplace")
    ... except InvalidInput as refused:
    ...     print(str(refused).partition(", got ")[0])
    a local mechanism must have every member of tacit.noise.Randomizer
    """
    missing = missing_members(type(thing), Randomizer)
    if missing:
        raise InvalidInput(
            "a local mechanism must have every member of tacit.noise.Randomizer, "
            f"got {type(thing).__name__} without {', '.join(missing)}; derive it from "
            "tacit.noise.additive.Additive or write them (docs/adding.md)"
        )
    encoder = thing.encoder  # type: ignore[attr-defined]
    require(
        hasattr(encoder, "py_func"),
        "the encoder of a local mechanism must be a lean kernel",
        encoder,
        "use @lean_kernel",
    )


def _annotated(base: type) -> list[str]:
    """The names that a class annotates as its fields (a dataclass without slots has them on its instances only)."""
    return [name for name in inspect.get_annotations(base) if name in getattr(base, "__dataclass_fields__", {})]


def require_failure_prob(failure_prob: float) -> float:
    """Return `failure_prob` if it is a probability strictly between 0 and 1, or raise.

    >>> require_failure_prob(0.05)
    0.05
    """
    # 1 - 2^-53 is the largest float below 1.
    return require_real("failure_prob", failure_prob, low=0.0, high=1.0 - 2.0**-53, open_low=True)


def require_simulation(noise: SimulationNoise) -> np.random.Generator:
    """Return the generator of `noise`; anything but seeded noise belongs to the exact samplers.

    >>> require_simulation(SimulationNoise(np.random.default_rng(1))).integers(3) in (0, 1, 2)
    True
    """
    if not isinstance(noise, SimulationNoise):
        raise TypeError(f"this sampler is for simulations and takes SimulationNoise, not {type(noise).__name__}")
    return noise.generator


def require_no_squares(squares: bool) -> None:
    """Refuse squares of rewards where no paper prints them."""
    if squares:
        raise NotSupported("squares of rewards are printed with laplace noise only; use calibration 'tight'")


def require_whole(family: Family, *, discrete: bool) -> None:
    """Refuse integer noise over a fractional shift: it would give the shift away."""
    require(
        not discrete or float(family.shift).is_integer(),
        "discrete noise covers whole shifts",
        given=family.shift,
        hint="round rewards to {0, 1} at random on the device",
    )
