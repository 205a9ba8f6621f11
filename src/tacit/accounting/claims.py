"""What is promised to whom: a claim names everything a privacy guarantee depends on, and nothing has a default.

A claim reads: an adversary who sees `output` cannot tell whether `unit` was replaced as `neighbours` says, up to
(epsilon, delta), provided that the parties named by `trust` keep to the protocol.

    notion                  trust     output                whom one must trust
    LDP                     local     every-message         nobody
    SDP                     shuffle   shuffled-transcript   the shuffler (and the honest share of the users)
    JDP                     central   other-users-actions   the curator
    DP of the final policy  central   final-policy          the curator, who releases nothing else
    none                    none      nothing-protected     everybody

Implications (tested as such): LDP ⇒ SDP, because shuffling is post-processing; SDP ⇒ JDP, because the policies are
computed from the shuffled transcript and another user's actions from the policy, that user's own states and fresh
coins (Lemma P8 (billboard)); SDP ⇒ DP of the final policy, by post-processing. Never the reverse; and JDP and DP of the
final policy do not imply each other (one hides the policy, the other the actions on the way to it).

B-batch SDP is the claim SDP itself: the batches are disjoint and fixed beforehand, each user appears in one of them,
and adaptive parallel composition gives the whole transcript the (epsilon, delta) of one batch ([bai2024shuffle] Def. 3;
Lemma P7 (parallel composition): only the batch of the changed user sees the change).

References: [bai2024shuffle], [bai2025secure] (SDP); [bai2024adversarial] (JDP, LDP); [garcelon2021local] (LDP);
[he2025policy] (DP of the final policy).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Final, Literal, TypeAlias, get_args

from tacit.accounting.wording import bound, learned, shown_up
from tacit.errors import InvalidInput, NotSupported, require, require_count, require_real
from tacit.types import Trust

REASONS: Final[Mapping[Output, Mapping[Output, str]]] = {
    "every-message": {
        "shuffled-transcript": "shuffling is post-processing",
        "other-users-actions": "the billboard lemma",
        "final-policy": "post-processing",
        "published-sums": "post-processing",
    },
    "shuffled-transcript": {
        "other-users-actions": "the billboard lemma",
        "final-policy": "post-processing",
        "published-sums": "post-processing",
    },
    "other-users-actions": {},
    "final-policy": {},
    "published-sums": {},
    "nothing-protected": {},
}
"""What is implied by which guarantee, and why (Lemma P11 (implied claims), Lemma P8 (billboard))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """One guarantee that comes with another."""

    notion: str
    epsilon: float
    delta: float
    by: str

    def describe(self) -> str:
        """In words; epsilon is rounded up."""
        return f"implied: ({shown_up(self.epsilon)}, {self.delta:g})-{self.notion}, by {self.by}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"notion": self.notion, "epsilon": self.epsilon, "delta": self.delta, "by": self.by}


def implied_claims(claim: PrivacyClaim, epsilon: float) -> tuple[Implied, ...]:
    """What follows if `claim` is certified with this epsilon; nothing follows from an infinite one.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="shuffle", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="shuffled-transcript")
    >>> [found.describe() for found in implied_claims(claim, 0.95)]  # doctest: +NORMALIZE_WHITESPACE
    ['implied: (0.95, 1e-06)-JDP, by the billboard lemma',
     'implied: (0.95, 1e-06)-DP of the final policy, by post-processing',
     'implied: (0.95, 1e-06)-DP of published sums, by post-processing']
    """
    if not math.isfinite(epsilon):
        return ()
    return tuple(
        Implied(notion=NOTIONS[output], epsilon=epsilon, delta=claim.delta, by=reason)
        for output, reason in REASONS[claim.output].items()
    )


__all__ = [
    "LARGEST_DELTA",
    "NOTIONS",
    "OUTPUTS",
    "Neighbours",
    "Notion",
    "Output",
    "PrivacyClaim",
    "PrivacyUnit",
    "Trust",
    "no_privacy",
]

Neighbours: TypeAlias = Literal["replace-one", "zero-out"]
Output: TypeAlias = Literal[
    "nothing-protected",
    "other-users-actions",
    "final-policy",
    "published-sums",
    "shuffled-transcript",
    "every-message",
]
Notion: TypeAlias = Literal["none", "JDP", "DP of the final policy", "DP of published sums", "SDP", "LDP"]

LARGEST_DELTA: Final = 1e-3
"""Beyond this a delta is no privacy for a population of ordinary size; it takes an explicit override."""

OUTPUTS: Final[Mapping[Trust, tuple[Output, ...]]] = {
    "none": ("nothing-protected",),
    "central": ("other-users-actions", "final-policy", "published-sums"),
    "shuffle": ("shuffled-transcript",),
    "local": ("every-message",),
}
"""What the adversary may see under each trust model; the customary one stands first."""

NOTIONS: Final[Mapping[Output, Notion]] = {
    "nothing-protected": "none",
    "other-users-actions": "JDP",
    "final-policy": "DP of the final policy",
    "published-sums": "DP of published sums",
    "shuffled-transcript": "SDP",
    "every-message": "LDP",
}
"""What a guarantee is called, by what the adversary sees."""

_SEEN: Final[Mapping[Output, str]] = {
    "other-users-actions": "what all other people are advised to do",
    "final-policy": "the policy published in the end",
    "published-sums": "the sums published in the end",
    "shuffled-transcript": "all shuffled messages of all batches",
    "every-message": "every single message that leaves a device",
}

_TRUSTED: Final[Mapping[Trust, str]] = {
    "none": "no party: all of them see the data",
    "central": "the curator, who sees all data",
    "shuffle": "the shuffler, but not the learner",
    "local": "only a person's own device",
}

# Which outputs are computed from which: a guarantee for the key covers everything in the value.
_COVERS: Final[Mapping[Output, frozenset[Output]]] = {
    "nothing-protected": frozenset({"nothing-protected"}),
    "other-users-actions": frozenset({"nothing-protected", "other-users-actions"}),
    "final-policy": frozenset({"nothing-protected", "final-policy"}),
    "published-sums": frozenset({"nothing-protected", "published-sums"}),
    "shuffled-transcript": frozenset(
        {"nothing-protected", "other-users-actions", "final-policy", "published-sums", "shuffled-transcript"}
    ),
    "every-message": frozenset(get_args(Output)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyUnit:
    """Whom the claim protects: a person with at most `reports` reports in all and `per_stage` in any one stage.

    A report is one trajectory. A stage is a batch whose users are fixed beforehand; where there are no batches, every
    user is a stage. One report per stage is far cheaper to protect than several, since the stages have noise of their
    own.

    Parameters
    ----------
    reports
        How many reports (trajectories) of one person are protected together.
    per_stage
        How many of them may be in one stage.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> PrivacyUnit(reports=5, per_stage=1).describe()
    'any 5 reports of the same person, at most one per stage'
    """

    reports: int
    per_stage: int

    def __post_init__(self) -> None:
        reports = require_count("reports of the privacy unit", self.reports)
        per_stage = require_count("reports per stage of the privacy unit", self.per_stage)
        require(per_stage <= reports, f"reports per stage must be at most the {reports} reports in all", per_stage)

    @property
    def one(self) -> bool:
        """Whether a person is one trajectory."""
        return self.reports == 1

    def describe(self) -> str:
        """The unit in words."""
        if self.one:
            return "one trajectory"
        many = f"any {self.reports} reports of the same person"
        if self.per_stage == self.reports:
            return many
        return f"{many}, at most {'one' if self.per_stage == 1 else self.per_stage} per stage"

    def covers(self, other: PrivacyUnit) -> bool:
        """Whether every set of reports that `other` allows is allowed here."""
        return self.reports >= other.reports and self.per_stage >= other.per_stage

    def times(self, size: int) -> PrivacyUnit:
        """The unit of `size` such persons, who may meet in one stage."""
        return PrivacyUnit(reports=size * self.reports, per_stage=size * self.per_stage)

    def parts(self, other: PrivacyUnit) -> int:
        """The number of units like `other` that make up this one.

        Deal the reports, stage after stage, in turn to k = max(⌈reports/reports'⌉, ⌈per_stage/per_stage'⌉) units: each
        gets at most ⌈reports/k⌉ in all and ⌈per_stage/k⌉ of a stage, which `other` allows.

        >>> PrivacyUnit(reports=5, per_stage=1).parts(PrivacyUnit(reports=2, per_stage=1))
        3
        """
        return max(-(-self.reports // other.reports), -(-self.per_stage // other.per_stage))

    def to_dict(self) -> dict[str, int]:
        """JSON-ready values."""
        return {"reports": self.reports, "per_stage": self.per_stage}

    @classmethod
    def from_dict(cls, plain: object) -> PrivacyUnit:
        """The unit that `to_dict` wrote, or {"trajectories": g} of versions before 0.4: any g, wherever they are.

        >>> PrivacyUnit.from_dict({"trajectories": 3})
        PrivacyUnit(reports=3, per_stage=3)
        """
        if isinstance(plain, Mapping) and set(plain) == {"trajectories"}:
            return cls(reports=plain["trajectories"], per_stage=plain["trajectories"])
        if not isinstance(plain, Mapping) or set(plain) != {"reports", "per_stage"}:
            raise InvalidInput(f"the unit of a claim is {{'reports': g, 'per_stage': p}}, got {plain!r}")
        return cls(reports=plain["reports"], per_stage=plain["per_stage"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyClaim:
    """A privacy guarantee with everything it depends on; `delta` = 0 is pure differential privacy.

    Parameters
    ----------
    trust
        `"central"`, `"shuffle"`, `"local"` or `"none"`.
    epsilon, delta
        The bound of the privacy loss; `delta` = 0 is pure differential privacy.
    unit
        Whom the claim protects: a `PrivacyUnit`.
    neighbours
        `"replace-one"` compares any two trajectories of the unit, the empty one included; `"zero-out"` compares a
        trajectory with the empty one only.
    output
        What an adversary sees.
    allow_large_delta
        Accept a delta above 1e-3.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> claim = PrivacyClaim(trust="shuffle", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="shuffled-transcript")
    >>> claim.notion
    'SDP'
    >>> PrivacyClaim.from_dict(claim.to_dict()) == claim
    True
    """

    trust: Trust
    epsilon: float
    delta: float
    unit: PrivacyUnit
    neighbours: Neighbours
    output: Output
    allow_large_delta: InitVar[bool] = False

    def __post_init__(self, allow_large_delta: bool) -> None:
        known = isinstance(self.trust, str) and self.trust in OUTPUTS
        require(known, f"trust must be one of {', '.join(OUTPUTS)}", given=self.trust)
        require(
            self.output in OUTPUTS[self.trust],
            f"with trust '{self.trust}' the output must be one of {', '.join(OUTPUTS[self.trust])}",
            given=self.output,
        )
        require(
            self.neighbours in get_args(Neighbours),
            f"neighbours must be one of {', '.join(get_args(Neighbours))}",
            given=self.neighbours,
        )
        require(isinstance(self.unit, PrivacyUnit), "unit must be a PrivacyUnit", given=type(self.unit).__name__)
        if self.trust == "none":
            require(self.epsilon == math.inf, "without trust there is no protection: epsilon is inf", self.epsilon)
        else:
            require_real("epsilon", self.epsilon, low=0.0, open_low=True, hint="trust 'none' means no protection")
        require_real("delta", self.delta, low=0.0, hint="0 means pure differential privacy")
        require(
            self.delta <= LARGEST_DELTA or (allow_large_delta and self.delta < 1.0),
            f"delta must lie in [0, {LARGEST_DELTA:g}]",
            given=self.delta,
            hint="one user in 1/delta may lose all protection; allow_large_delta=True (on the command line "
            "--allow-large-delta) accepts that, below 1",
        )
        # Numbers are stored as plain floats, so that two equal claims are equal in every representation.
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def notion(self) -> Notion:
        """The name under which the literature knows this claim."""
        return NOTIONS[self.output]

    @property
    def pure(self) -> bool:
        """Whether this is pure differential privacy (delta = 0)."""
        return self.delta == 0.0

    @property
    def promise(self) -> str:
        """What is promised, in one plain sentence."""
        if self.trust == "none":
            return "Nothing is protected: every party that runs this sees the data as they are."
        change = f"{'replacing' if self.neighbours == 'replace-one' else 'leaving out'} {self.unit.describe()}"
        return (
            f"A party that sees {_SEEN[self.output]} {learned(self.epsilon)} when {change}: "
            f"{bound(self.epsilon, self.delta)} ({self.notion})."
        )

    @property
    def trusted(self) -> str:
        """Which party has to keep to the protocol."""
        return _TRUSTED[self.trust]

    def describe(self) -> str:
        """What is promised and who is trusted, for a person who answers for other people's data.

        >>> no_privacy().describe()
        'Nothing is protected: every party that runs this sees the data as they are.'
        """
        return self.promise if self.trust == "none" else f"{self.promise[:-2]}; trusted: {self.trusted})."

    def implies(self, other: PrivacyClaim) -> bool:
        """Whether whoever has this guarantee has `other`, too.

        >>> here = dict(epsilon=1.0, delta=0.0, unit=PrivacyUnit(reports=1, per_stage=1), neighbours="replace-one")
        >>> local = PrivacyClaim(trust="local", output="every-message", **here)
        >>> joint = PrivacyClaim(trust="central", output="other-users-actions", **here)
        >>> local.implies(joint), joint.implies(local)
        (True, False)
        """
        if other.trust == "none":
            return True
        return (
            other.output in _COVERS[self.output]
            and self.epsilon <= other.epsilon
            and self.delta <= other.delta
            and self.unit.covers(other.unit)
            # Zero-out gives replace-one only with doubled parameters: that is another claim.
            and (self.neighbours == other.neighbours or self.neighbours == "replace-one")
        )

    def group(self, size: int) -> PrivacyClaim:
        """What this claim gives to a person who contributes `size` units: group privacy, rounded up.

        >>> person = PrivacyClaim(trust="local", epsilon=0.5, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
        ...                       neighbours="replace-one", output="every-message").group(3)
        >>> person.epsilon, round(person.delta, 9), person.unit.reports
        (1.5, 5.367e-06, 3)
        """
        g = require_count("size of the group", size)
        unit = self.unit.times(g)
        if g == 1 or self.trust == "none":
            return replace(self, unit=unit, allow_large_delta=True)
        # Change one unit after the other: ε_g = gε, δ_g = δ (1 + e^ε + ... + e^((g-1)ε)) = δ (e^(gε) - 1)/(e^ε - 1).
        epsilon = g * self.epsilon
        if Fraction(epsilon) < g * Fraction(self.epsilon):
            epsilon = _up(epsilon)
        try:
            delta = self.delta and _up(self.delta * math.expm1(epsilon) / math.expm1(self.epsilon), ulps=8)
        except OverflowError:
            delta = math.inf
        if delta >= 1.0:
            raise NotSupported(
                f"a group of {g} has no guarantee left under epsilon={self.epsilon:g}, delta={self.delta:g}: "
                "its delta would reach 1; claim a smaller epsilon or delta per unit"
            )
        return replace(self, epsilon=epsilon, delta=delta, unit=unit, allow_large_delta=True)

    def to_dict(self) -> dict[str, object]:
        """The claim as JSON-ready values; infinity is written "inf", an accepted large delta is said aloud."""
        plain: dict[str, object] = {
            "trust": self.trust,
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "unit": self.unit.to_dict(),
            "neighbours": self.neighbours,
            "output": self.output,
        }
        if self.delta > LARGEST_DELTA:
            plain["allow_large_delta"] = True
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> PrivacyClaim:
        """The claim that `to_dict` wrote; anything missing or unknown is an error."""
        names = {"trust", "epsilon", "delta", "unit", "neighbours", "output"}
        require(
            names <= set(plain) <= names | {"allow_large_delta"},
            f"a claim has exactly the entries {', '.join(sorted(names))}",
            given=sorted(plain),
        )
        return cls(
            trust=plain["trust"],  # type: ignore[arg-type]
            epsilon=math.inf if plain["epsilon"] == "inf" else plain["epsilon"],  # type: ignore[arg-type]
            delta=plain["delta"],  # type: ignore[arg-type]
            unit=PrivacyUnit.from_dict(plain["unit"]),
            neighbours=plain["neighbours"],  # type: ignore[arg-type]
            output=plain["output"],  # type: ignore[arg-type]
            allow_large_delta=plain.get("allow_large_delta") is True,
        )


@cache
def no_privacy() -> PrivacyClaim:
    """The claim that promises nothing, and says so.

    >>> no_privacy().epsilon, no_privacy().notion
    (inf, 'none')
    """
    return PrivacyClaim(
        trust="none",
        epsilon=math.inf,
        delta=0.0,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output="nothing-protected",
    )


def _up(value: float, ulps: int = 1) -> float:
    """The next larger float (`ulps` of them: one for each rounding in the formula): promises never round down."""
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value
