"""Certificates: what the exact accountant says about a configured release, in numbers and in words.

Every run prints one and stores it. A certificate holds the claim that was made, the epsilon that the accountant
certifies at the claim's delta (rounded up), the curve around it, how it was computed, what exactly is released with
which noise, and what is left if the parties that must not work together do so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.composition import delta_of, epsilon_of, method_of
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import require, require_real

__all__ = ["Calibration", "Certificate", "CertifiedFamily", "PrintedGuarantee", "certify", "shown_up"]

Calibration: TypeAlias = Literal["tight", "paper", "none"]

CURVE_DELTAS: Final = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""The deltas of the curve that every certificate carries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedFamily:
    """One released family: what one user can change in it, and the noise that covers it."""

    name: str
    l1: float
    l2: float
    differing: int
    noise: str
    std: float

    @classmethod
    def of(cls, family: Family, *, noise: str, std: float) -> CertifiedFamily:
        """Describe `family` under noise of this name and standard deviation.

        >>> CertifiedFamily.of(Family(name="visits", up=6, down=6, shift=1.0), noise="laplace", std=17.0).l1
        12.0
        """
        l2 = math.sqrt(family.l2_squared)
        return cls(name=family.name, l1=family.l1, l2=l2, differing=family.differing, noise=noise, std=std)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedGuarantee:
    """What a paper prints, in words and numbers, and the epsilon that the accountant certifies at the printed delta."""

    says: str
    epsilon: float
    delta: float
    certified: float

    @property
    def true(self) -> bool:
        """Whether the printed guarantee holds."""
        return self.certified <= self.epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the accountant certifies; make one with `certify`.

    `curve` holds pairs (delta, epsilon). `printed` is the guarantee that a paper prints for this calibration (None if
    no paper is followed). `local_epsilon` is the pure guarantee of each single message that is left when learner and
    shuffler collude (None: there is no such floor).
    """

    claim: PrivacyClaim
    epsilon: float
    delta: float
    curve: tuple[tuple[float, float], ...]
    method: str
    families: tuple[CertifiedFamily, ...]
    calibration: Calibration
    printed: PrintedGuarantee | None
    local_epsilon: float | None

    @property
    def holds(self) -> bool:
        """Whether the accountant confirms the claim."""
        return self.claim.trust == "none" or self.epsilon <= self.claim.epsilon

    @property
    def paper_says(self) -> str | None:
        """The guarantee that a paper prints for this calibration, in words."""
        return None if self.printed is None else self.printed.says

    @property
    def verdict(self) -> str:
        """Whether what was claimed, and what a paper prints, is true: in words."""
        if self.claim.trust == "none":
            return "No protection is claimed and none is given."
        claimed = (self.claim.epsilon, self.delta, self.epsilon)
        if self.printed is None:
            return _judge("The claim", *claimed)
        printed = (self.printed.epsilon, self.printed.delta, self.printed.certified)
        sentence = _judge(f"The printed guarantee ({self.printed.says})", *printed)
        return sentence if printed == claimed else f"{_judge('The claim', *claimed)} {sentence}"

    @property
    def words(self) -> str:
        """The certificate in plain sentences: what is promised, whether it is true, what collusion costs."""
        return f"{self.claim.describe()} {self.verdict} {self.collusion}"

    @property
    def collusion(self) -> str:
        """What is left if the parties that the claim keeps apart work together."""
        if self.claim.trust == "shuffle" and self.local_epsilon is not None:
            return (
                f"If learner and shuffler collude, each single message still has epsilon {self.local_epsilon:g} "
                "(the local floor); the claim itself is lost."
            )
        return _COLLUSION[self.claim.trust]

    def to_dict(self) -> dict[str, object]:
        """The certificate as JSON-ready values; infinity is written "inf"."""
        return {
            "claim": self.claim.to_dict(),
            "epsilon": _plain(self.epsilon),
            "delta": self.delta,
            "curve": [[delta, _plain(epsilon)] for delta, epsilon in self.curve],
            "method": self.method,
            "families": [asdict(family) for family in self.families],
            "calibration": self.calibration,
            "printed": None if self.printed is None else _printed_to_plain(self.printed),
            "local_epsilon": self.local_epsilon,
            "holds": self.holds,
            "verdict": self.verdict,
            "collusion": self.collusion,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Certificate:
        """The certificate that `to_dict` wrote; what it says in words must follow from its numbers."""
        names = {*cls.__dataclass_fields__, "holds", "verdict", "collusion"}
        require(set(plain) == names, f"a certificate has the entries {', '.join(sorted(names))}", given=sorted(plain))
        found = cls(
            claim=PrivacyClaim.from_dict(plain["claim"]),
            epsilon=float(plain["epsilon"]),
            delta=float(plain["delta"]),
            curve=tuple((float(delta), float(epsilon)) for delta, epsilon in plain["curve"]),
            method=plain["method"],
            families=tuple(CertifiedFamily(**family) for family in plain["families"]),
            calibration=plain["calibration"],
            printed=None if plain["printed"] is None else _printed_from_plain(plain["printed"]),
            local_epsilon=plain["local_epsilon"],
        )
        said = {name: plain[name] for name in ("holds", "verdict", "collusion")}
        follows = {"holds": found.holds, "verdict": found.verdict, "collusion": found.collusion}
        require(said == follows, "a certificate's words must follow from its numbers", given="other words")
        return found

    def render(self) -> str:
        """The certificate as a plain text table."""
        claim = self.claim
        stated = f"epsilon {shown_up(claim.epsilon)}, delta {claim.delta:g}"
        count = claim.unit.trajectories
        unit = f"unit {count} {'trajectory' if count == 1 else 'trajectories'}, {claim.neighbours}"
        lines = [
            f"claim        {claim.notion}: {stated} ({unit})",
            f"certified    epsilon {shown_up(self.epsilon)} at delta {self.delta:g} ({self.method})",
            f"calibration  {self.calibration}",
            f"verdict      {self.verdict}",
            f"collusion    {self.collusion}",
            "curve        " + "  ".join(f"{delta:g}: {shown_up(epsilon)}" for delta, epsilon in self.curve),
        ]
        if self.families:
            width = max(len("family"), *(len(family.name) for family in self.families))
            kind = max(len("noise"), *(len(family.noise) for family in self.families))
            lines.append(f"{'family':<{width}}  {'L1':>8}  {'L2':>8}  {'differing':>9}  {'noise':<{kind}}  {'std':>10}")
            lines.extend(
                f"{family.name:<{width}}  {family.l1:>8.5g}  {family.l2:>8.5g}  {family.differing:>9}  "
                f"{family.noise:<{kind}}  {family.std:>10.5g}"
                for family in self.families
            )
        return "\n".join(lines)


def certify(
    events: Events,
    families: Sequence[CertifiedFamily],
    claim: PrivacyClaim,
    *,
    calibration: Calibration,
    paper_says: str | None = None,
    paper_delta: float | None = None,
    local_epsilon: float | None = None,
) -> Certificate:
    """The certificate of the exact accountant for these events under this claim.

    The events describe the change of one unit of the claim; for a unit of g trajectories, shifts are g times as large.
    `paper_says` quotes the guarantee that the paper prints for the claim's epsilon; `paper_delta` is the delta that it
    prints, if that is not the claim's (0 where the paper promises pure differential privacy).

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> from tacit.accounting.events import LaplaceEvent
    >>> claim = PrivacyClaim(trust="local", epsilon=1.0, delta=0.0, unit=PrivacyUnit(trajectories=1),
    ...                      neighbours="replace-one", output="every-message")
    >>> found = certify(((LaplaceEvent(scale=36.0, shift=1.0, discrete=False), 34),), (), claim, calibration="paper",
    ...                 paper_says="epsilon 1 by Laplace noise of scale 6H")
    >>> round(found.epsilon, 3), found.holds, found.method
    (0.944, True, 'pure composition')
    """
    require(calibration in get_args(Calibration), "calibration must be tight, paper or none", given=calibration)
    require(
        calibration == "paper" or paper_says is None, "only the paper calibration quotes a paper", given=calibration
    )
    if local_epsilon is not None:
        require_real("local_epsilon", local_epsilon, low=0.0)
    if claim.trust == "none":
        epsilon, method = math.inf, "no protection"
        curve: tuple[tuple[float, float], ...] = ()
    else:
        epsilon, method = epsilon_of(events, claim.delta), method_of(events, claim.delta)
        deltas = sorted({*CURVE_DELTAS, claim.delta})
        curve = tuple((delta, epsilon_of(events, delta)) for delta in deltas)
        # The two views of one curve must agree on the private side: a broken accountant is not certified.
        agreed = math.isinf(epsilon) or delta_of(events, epsilon) <= claim.delta
        require(agreed, "the accountant must agree with itself", given=f"{method} at delta {claim.delta:g}")
    printed = None
    if paper_says is not None:
        at = claim.delta if paper_delta is None else paper_delta
        certified = epsilon if at == claim.delta else epsilon_of(events, at)
        printed = PrintedGuarantee(says=paper_says, epsilon=claim.epsilon, delta=at, certified=certified)
    return Certificate(
        claim=claim,
        epsilon=epsilon,
        delta=claim.delta,
        curve=curve,
        method=method,
        families=tuple(families),
        calibration=calibration,
        printed=printed,
        local_epsilon=local_epsilon,
    )


_COLLUSION: Final[Mapping[Trust, str]] = {
    "none": "Collusion changes nothing: everybody sees the data already.",
    "central": "The curator sees everything: if the curator is dishonest, nothing is protected.",
    "shuffle": "If learner and shuffler collude, nothing is protected: there is no local floor.",
    "local": "Collusion changes nothing: nobody but the user's own device ever sees the data.",
}


def _judge(what: str, claimed: float, delta: float, certified: float) -> str:
    if not certified <= claimed:
        return (
            f"{what} is FALSE: the accountant certifies no better than epsilon {shown_up(certified)} "
            f"at delta {delta:g}, where epsilon {claimed:g} is claimed."
        )
    slack = claimed / certified if certified > 0.0 else math.inf
    more = f", {slack:.3g} times stronger than claimed" if slack > 1.05 else ""
    return f"{what} is true: the accountant certifies epsilon {shown_up(certified)} at delta {delta:g}{more}."


def _printed_to_plain(printed: PrintedGuarantee) -> dict[str, object]:
    plain = asdict(printed)
    return plain | {"certified": _plain(printed.certified), "true": printed.true}


def _printed_from_plain(plain: Mapping[str, Any]) -> PrintedGuarantee:
    found = PrintedGuarantee(
        says=plain["says"],
        epsilon=float(plain["epsilon"]),
        delta=float(plain["delta"]),
        certified=float(plain["certified"]),
    )
    require(plain["true"] is found.true, "a certificate's words must follow from its numbers", given="other words")
    return found


def shown_up(epsilon: float) -> str:
    """The number to four digits, rounded up: what is printed must not promise more than what is certified.

    >>> shown_up(0.12341), shown_up(1.0), shown_up(math.inf)
    ('0.1235', '1', 'inf')
    """
    if math.isinf(epsilon) or epsilon == 0.0:
        return f"{epsilon:g}"
    digits = 4 - 1 - math.floor(math.log10(epsilon))
    shown = round(epsilon, digits)
    # A claim that is met exactly shows as itself; beyond a part in 1e9 the last digit goes up.
    return f"{shown:.4g}" if shown >= epsilon * (1.0 - 1e-9) else f"{shown + 10.0**-digits:.4g}"


def _plain(epsilon: float) -> float | str:
    return "inf" if math.isinf(epsilon) else epsilon
