"""Certificates: what the exact accountant says about a configured release, in numbers and in words.

Every run prints one and stores it. A certificate holds the claim that was made, the epsilon that the accountant
certifies at the claim's delta (rounded up), the curve around it, how it was computed, what exactly is released with
which noise, and what is left if the parties that must not work together do so.

The JSON Schema of certificates is for other programs (`tacit verify --schema > docs/certificate.schema.json`):
certificates and their terms check their own fields.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from html import escape
from textwrap import fill
from typing import Any, Final, Literal, TypeAlias, get_args

from tacit._version import __version__
from tacit.accounting.claims import OUTPUTS, Neighbours, PrivacyClaim
from tacit.accounting.composition import Method, delta_of, epsilon_of, method_of
from tacit.accounting.events import Events, GaussianEvent, UnprotectedEvent, event_from_dict
from tacit.accounting.families import CertifiedFamily
from tacit.accounting.knowledge import KINDS, PARTIES, Coalition, coalition_table, collusion
from tacit.accounting.provenance import unchecked
from tacit.accounting.renyi import Concentrated, concentrated
from tacit.accounting.terms import UNIT, Terms, unit_of
from tacit.accounting.wording import SIMULATION, WEAK, bound, judge, shown_up
from tacit.arguments import checked
from tacit.errors import require, require_real
from tacit.notebook import block

__all__ = [
    "CURVE_DELTAS",
    "FIRST_ENTRIES",
    "Calibration",
    "Certificate",
    "CertifiedFamily",
    "PrintedGuarantee",
    "certify",
    "shown_up",
]

Calibration: TypeAlias = Literal["tight", "paper", "none"]

CURVE_DELTAS: Final = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""The deltas of the curve that every certificate carries."""

FOLLOWING: Final = ("holds", "verdict", "collusion", "release", "statement", "warnings")
"""Entries of the JSON that follow from the others."""
LEFT_OUT: Final = ("others", "unchecked", "coalitions")
"""Entries of the JSON that are left out where they are empty."""
WIDTH: Final = 118
"""Of the text, in characters."""
NAME: Final = 11

FIRST_ENTRIES: Final = (
    *("claim", "epsilon", "delta", "curve", "method", "families", "calibration", "printed", "local_epsilon"),
    *("holds", "verdict", "collusion"),
)
"""What certificates of 0.1 and 0.2 say; a verifier compares these whatever the version."""


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

    Attributes
    ----------
    claim
        The promised guarantee.
    epsilon, delta
        The certified epsilon, rounded up, at the claim's delta.
    curve
        The privacy profile: pairs (delta, epsilon).
    method
        How epsilon was computed.
    families
        Noise and sensitivity of each family of counters.
    calibration
        `"tight"` or `"paper"`.
    printed
        The guarantee that a paper prints for this calibration; None if no paper is followed.
    local_epsilon
        The pure guarantee of each message when learner and shuffler collude; None if there is none.
    events, others
        What everything was computed from; `others` are events of other units that may cost more at another delta.
    terms
        What else the certificate depends on; None in certificates of 0.1 and 0.2 and outside of a run.
    unchecked
        Packages whose noise or events tacit has not checked.
    coalitions
        The epsilon that is left against parties that collude.

    Examples
    --------
    >>> from tacit.accounting.claims import PrivacyUnit
    >>> from tacit.accounting.events import GaussianEvent
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> found = certify(((GaussianEvent(sigma=6.0, shift=1.0), 1),), (), claim, calibration="tight")
    >>> found.holds, round(found.epsilon, 2)
    (True, 0.69)
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
    events: Events | None = None
    terms: Terms | None = None
    others: tuple[Events, ...] = ()
    """What people in stages of other kinds are exposed to, where that is more at some delta: the curve covers it."""
    unchecked: tuple[str, ...] = ()
    """Other packages that noise or events are from, whose conformance had not passed where this was written."""
    coalitions: tuple[Coalition, ...] = ()
    """Studies: what one person is left with against every party, and against parties that collude."""

    def under(self, terms: Terms, by: object = None) -> Certificate:
        """The same certificate with its terms, and with the packages of the privatizer that it is about."""
        if not self.holds:  # groups are left with what is certified, not with what is claimed
            terms = replace(terms, unit=unit_of(self.claim, self.proved))
        return replace(self.resting_on(unchecked(by)), terms=terms)

    def resting_on(self, packages: Sequence[str]) -> Certificate:
        """The same certificate, which names these packages, too, as not checked."""
        return replace(self, unchecked=tuple(sorted({*self.unchecked, *packages})))

    @property
    def release(self) -> bool:
        """Whether this is the certificate of a release: noise that nobody can replay."""
        return self.terms is not None and self.terms.noise == "secure" and self.claim.trust != "none"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever relies on this certificate must know, in words."""
        found = [] if self.terms is None else self.terms.warnings(self.claim)
        found = [*(f"Noise or events by {package}, not checked by tacit." for package in self.unchecked), *found]
        held = None if self.claim.trust == "none" else self.proved
        if held is None or held.epsilon <= WEAK:
            return tuple(found)
        return (f"Epsilon {held.epsilon:g} is weak: {bound(held.epsilon, held.delta)}.", *found)

    @property
    def holds(self) -> bool:
        """Whether the accountant confirms the claim."""
        return self.claim.trust == "none" or self.epsilon <= self.claim.epsilon

    @property
    def proved(self) -> PrivacyClaim | None:
        """The claim that holds: where it is false, the same with the epsilon that is certified; None: nothing holds."""
        if self.holds:
            return self.claim
        if math.isinf(self.epsilon):
            return None
        return replace(self.claim, epsilon=float(shown_up(self.epsilon)), allow_large_delta=True)

    @property
    def shuffled_later(self) -> bool:
        """Whether the events are of one message: shuffled Gaussian messages have none, so this refutes no claim."""
        return self.claim.trust == "shuffle" and any(e.NAME == GaussianEvent.NAME for e, _ in self.events or ())

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
            return judge("The claim", *claimed, shuffled_later=self.shuffled_later)
        printed = (self.printed.epsilon, self.printed.delta, self.printed.certified)
        sentence = judge(f"The printed guarantee ({self.printed.says})", *printed)
        return sentence if printed == claimed else f"{judge('The claim', *claimed)} {sentence}"

    @property
    def collusion(self) -> str:
        """What is left if the parties that the claim keeps apart work together."""
        return collusion(self.claim.trust, self.local_epsilon)

    @property
    def simulated(self) -> bool:
        """Whether this is about seeded noise, which protects no person."""
        return self.terms is not None and not self.release and self.claim.trust != "none"

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """(name, sentences) for people: the promise, to whom, by whose honesty, what breaks it, what was checked."""
        claim, terms = self.claim, self.terms
        rows, held = list[tuple[str, str]](), self.proved
        if not self.holds:
            least = "nothing" if held is None else f"epsilon {shown_up(held.epsilon)}"
            found = ("not shown", "is not shown") if self.shuffled_later else ("FALSE", "does not hold")
            rows.append((found[0], f"Epsilon {claim.epsilon:g} is claimed and {found[1]}; what is certified: {least}."))
        if held is not None:
            rows.append(("promise" if self.holds else "holds", held.promise))
            if terms is not None and claim.trust != "none":
                rows.append(("protected", terms.protected()))
        rows += [("trusted", f"{claim.trusted}."), ("broken by", self.collusion)]
        again = "" if terms is None else f" To derive it again: {terms.verifier}."
        rows.append(("checked", f"{self.verdict}{again}"))
        return (*rows, *(("warning", warning) for warning in self.warnings))

    @property
    def technical(self) -> tuple[tuple[str, str], ...]:
        """(name, words) for experts: everything that the accountant was given, and its answer at other deltas."""
        claim = self.claim
        stated = f"{claim.notion}: epsilon {claim.epsilon:g}, delta {claim.delta:g}; unit {claim.unit.describe()}"
        finite = [f"{shown_up(epsilon)} at {delta:g}" for delta, epsilon in self.curve if math.isfinite(epsilon)]
        infinite = [f"{delta:g}" for delta, epsilon in self.curve if math.isinf(epsilon)]
        curve = [*finite, *([f"none at {' or '.join(infinite)}"] if infinite else [])]
        noises = dict.fromkeys(family.noise for family in self.families)
        moved = (
            f"{family.name} {family.std:.5g} (L1 {family.l1:.5g}, L2 {family.l2:.5g}, {family.differing} counters)"
            for family in self.families
        )
        rows = [
            ("notion", f"{stated}; {claim.neighbours}; output {claim.output}"),
            ("certified", f"epsilon {shown_up(self.epsilon)} at delta {self.delta:g}, by {self.method}"),
            ("epsilon", ", ".join(curve)),
            ("noise", f"{', '.join(noises)}, {self.calibration}; standard deviation: {', '.join(moved)}"),
        ]
        return (*(rows if noises else rows[:-1]), *(() if self.terms is None else self.terms.lines()))

    def describe(self) -> str:
        """The certificate as a text: the facts for people first, technical terms below a line."""
        head = SIMULATION if self.simulated else "PRIVACY CERTIFICATE"
        table = coalition_table(self.coalitions, NAME)
        return "\n".join([_row("", head), *(_row(*row) for row in self.facts), *table, "-" * NAME,
                          *(_row(*row) for row in self.technical if row[1])])  # fmt: skip

    def render(self) -> str:
        """The text, under its name of version 0.8."""
        warnings.warn("render() is called describe() now; the old name goes with 0.10", DeprecationWarning, 2)
        return self.describe()

    def concentrated(self, claimed: float | None = None) -> Concentrated:
        """The zCDP and Rényi form, where there is one; `claimed` is the rho that was asked for."""
        return concentrated([self.events or ((UnprotectedEvent(), 1),), *self.others], self.delta, claimed)

    @property
    def statement(self) -> str:
        """The text, as it stands in the JSON."""
        return self.describe()

    @property
    def words(self) -> str:
        """The facts for people as one paragraph."""
        return " ".join([*([SIMULATION] if self.simulated else []), *(words for _, words in self.facts)])

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
            "release": self.release,
            "statement": self.statement,
            "warnings": list(self.warnings),
            "events": None if self.events is None else _events_to_plain(self.events),
            "terms": None if self.terms is None else self.terms.to_dict(),
            **({"others": [_events_to_plain(other) for other in self.others]} if self.others else {}),
            **({"unchecked": list(self.unchecked)} if self.unchecked else {}),
            **({"coalitions": [one.to_dict() for one in self.coalitions]} if self.coalitions else {}),
        }

    @classmethod
    @checked
    def from_dict(cls, plain: Mapping[str, Any]) -> Certificate:
        """The certificate that `to_dict` wrote; what it says in words must follow from its numbers."""
        known = (set(FIRST_ENTRIES), {*cls.__dataclass_fields__, *FOLLOWING})
        given = set(plain) if set(plain) == known[0] else {*plain, *LEFT_OUT}
        require(given in known, f"a certificate has the entries {', '.join(sorted(known[1]))}", sorted(plain))
        events, terms = plain.get("events"), plain.get("terms")
        known_names = get_args(Calibration)
        require(plain["calibration"] in known_names, f"calibration must be one of {known_names}", plain["calibration"])
        if plain["local_epsilon"] is not None:
            require_real("local_epsilon", plain["local_epsilon"], low=0.0)
        found = cls(
            claim=PrivacyClaim.from_dict(plain["claim"]),
            epsilon=float(plain["epsilon"]),
            delta=float(plain["delta"]),
            curve=tuple((float(delta), float(epsilon)) for delta, epsilon in plain["curve"]),
            method=plain["method"],
            families=tuple(CertifiedFamily.from_dict(family) for family in plain["families"]),
            calibration=plain["calibration"],
            printed=None if plain["printed"] is None else _printed_from_plain(plain["printed"]),
            local_epsilon=plain["local_epsilon"],
            events=None if events is None else _events_from_plain(events),
            others=tuple(_events_from_plain(other) for other in plain.get("others", ())),
            terms=None if terms is None else Terms.from_dict(terms),
            unchecked=tuple(str(package) for package in plain.get("unchecked", ())),
            coalitions=tuple(Coalition.from_dict(one) for one in plain.get("coalitions", ())),
        )
        follows = found.to_dict()
        # The words of other versions are derived anew.
        names = ("holds", "release") if in_other_words(plain) else FOLLOWING
        said = all(plain[name] == follows[name] for name in names if name in plain)
        require(said, "a certificate's words must follow from its numbers", given="other words")
        return found

    def derived(self) -> Certificate | None:
        """The same certificate computed again from its own events; None if it has none."""
        if self.events is None:
            return None
        printed = self.printed
        found = certify(
            self.events,
            self.families,
            self.claim,
            calibration=self.calibration,
            paper_says=None if printed is None else printed.says,
            paper_delta=None if printed is None else printed.delta,
            local_epsilon=self.local_epsilon,
            others=self.others,
        ).resting_on(self.unchecked)
        found = replace(found, coalitions=self.coalitions)
        return found if self.terms is None else found.under(self.terms)

    def _repr_html_(self) -> str:
        return block("", f'<pre style="color:inherit;background:transparent">{escape(self.describe())}</pre>')


def in_other_words(plain: Mapping[str, Any]) -> bool:
    """Whether the JSON of a certificate was written by another version, or, up to 0.8.0, in one paragraph."""
    version = (plain.get("terms") or {}).get("version", __version__)
    return version != __version__ or "\n" not in str(plain.get("statement", ""))


@checked
def certify(
    events: Events,
    families: Sequence[CertifiedFamily],
    claim: PrivacyClaim,
    *,
    calibration: Calibration,
    paper_says: str | None = None,
    paper_delta: float | None = None,
    local_epsilon: float | None = None,
    others: Sequence[Events] = (),
    by: object = None,
) -> Certificate:
    """The certificate of the exact accountant for these events under this claim.

    Parameters
    ----------
    events
        What one unit of the claim is exposed to: pairs (event, number).
    families
        Noise and sensitivity by family, for the text.
    claim
        The claim to certify.
    calibration
        `"tight"` or `"paper"`.
    paper_says, paper_delta
        The guarantee that the paper prints for the claim's epsilon, and the delta that it prints, if another.
    local_epsilon
        The pure guarantee of a single message, if there is one.
    others
        Events of other units that may cost more at another delta.
    by
        The privatizer, whose package is named.

    Returns
    -------
    Certificate
        Every number is the largest over all units, rounded up.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> from tacit.accounting.claims import PrivacyUnit
    >>> from tacit.accounting.events import LaplaceEvent
    >>> claim = PrivacyClaim(trust="local", epsilon=1.0, delta=0.0, unit=PrivacyUnit(reports=1, per_stage=1),
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
        everybody = tuple(map(tuple, (events, *others)))
        epsilon, method, curve = _accounted(everybody, claim.delta)
    printed = None
    if paper_says is not None:
        at = claim.delta if paper_delta is None else paper_delta
        certified = epsilon if at == claim.delta else max(epsilon_of(one, at) for one in (events, *others))
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
        events=tuple(events),
        others=tuple(others),
        unchecked=unchecked(tuple(events), tuple(others), by),
    )


@lru_cache(maxsize=64)
def _accounted(everybody: tuple[Events, ...], delta: float) -> tuple[float, Method, tuple[tuple[float, float], ...]]:
    """Epsilon at this delta, how it was found, and the curve: they follow from the events, which are values.

    The runs of a sweep differ in much that no event knows.
    """
    largest = {at: max(epsilon_of(one, at) for one in everybody) for at in {*CURVE_DELTAS, delta}}
    epsilon, method = largest[delta], method_of(everybody[0], delta)
    # The two views of one curve must agree on the private side: a broken accountant is not certified.
    agreed = math.isinf(epsilon) or all(delta_of(one, epsilon) <= delta for one in everybody)
    require(agreed, "the accountant must agree with itself", given=f"{method} at delta {delta:g}")
    return epsilon, method, tuple(sorted(largest.items()))


def _events_to_plain(events: Events) -> list[list[object]]:
    return [[event.to_dict(), count] for event, count in events]


def _events_from_plain(plain: Sequence[Any]) -> Events:
    return tuple((event_from_dict(event), count) for event, count in plain)


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


def _row(name: str, words: str) -> str:
    """A line of the text, and what does not fit below it."""
    start = f"{name:<{NAME}}" if name else ""
    return fill(words, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)


def _plain(epsilon: float) -> float | str:
    return "inf" if math.isinf(epsilon) else epsilon


Schema = Mapping[str, Any]

EPSILON: Final[Schema] = {"anyOf": [{"type": "number", "minimum": 0}, {"enum": ["inf"]}]}
DELTA: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
TEXT: Final[Schema] = {"type": "string"}
PAIR: Final[Schema] = {"minItems": 2, "items": False}
"""No fewer and no more entries than are listed."""
_PLAIN: Final = {"str": "string", "float": "number", "int": "integer"}


def certificate_schema() -> dict[str, Any]:
    """The schema of `Certificate.to_dict`."""
    family = {field.name: {"type": _PLAIN[str(field.type)]} for field in fields(CertifiedFamily)}
    printed = {"says": TEXT, "epsilon": EPSILON, "delta": DELTA, "certified": EPSILON, "true": {"type": "boolean"}}
    claim = {
        "trust": {"enum": list(OUTPUTS)},
        "epsilon": EPSILON,
        "delta": DELTA,
        "unit": _closed(UNIT),
        "neighbours": {"enum": list(get_args(Neighbours))},
        "output": {"enum": [output for outputs in OUTPUTS.values() for output in outputs]},
    }
    event = {"type": "object", "properties": {"event": TEXT}, "required": ["event"]}
    exposure = _list({"type": "array", "prefixItems": [event, {"type": "integer", "minimum": 0}], **PAIR})
    pair = {"type": "array", "prefixItems": [EPSILON, EPSILON], **PAIR}
    left = {"type": "object", "propertyNames": {"enum": list(KINDS)}, "additionalProperties": pair}
    entries: dict[str, Schema] = {
        "claim": {**_closed({**claim, "allow_large_delta": {"enum": [True]}}), "required": list(claim)},
        "epsilon": _meaning("What the accountant certifies at the claim's delta.", EPSILON),
        "delta": DELTA,
        "curve": _list(_meaning("(delta, epsilon)", {"type": "array", "prefixItems": [DELTA, EPSILON], **PAIR})),
        "method": TEXT,
        "families": _list(_closed(family)),
        "calibration": {"enum": list(get_args(Calibration))},
        "printed": {"anyOf": [{"type": "null"}, _closed(printed)]},
        "local_epsilon": {"type": ["number", "null"], "minimum": 0},
        "holds": _meaning("Whether the accountant confirms the claim.", {"type": "boolean"}),
        "verdict": TEXT,
        "collusion": TEXT,
        "release": _meaning("False: a simulation, which protects nobody.", {"type": "boolean"}),
        "statement": _meaning("Everything as a text for people.", TEXT),
        "warnings": _list(TEXT),
        "events": _meaning(
            "What one unit is exposed to, (event, count) each: mechanism and parameters from which epsilon follows.",
            exposure,
        ),
        "terms": _meaning("What the certificate depends on beside claim and events.", Terms.schema()),
        "others": _meaning(
            "Left out if there are none: what people in stages of other kinds are exposed to; the curve covers it.",
            _list(exposure),
        ),
        "coalitions": _meaning(
            "Studies: parties, and the epsilon of one person that is left against them by kind of sealing: if they "
            "keep to the protocol, and if they also make up or replace reports.",
            _list(_closed({"parties": _list({"enum": list(PARTIES)}), "left": left})),
        ),
        "unchecked": _meaning("Left out if there are none: packages of noise or events, not checked.", _list(TEXT)),
    }
    whole = _closed({name: dict(entry) for name, entry in entries.items()})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tacit certificate",
        **whole,
        "required": [name for name in whole["required"] if name not in LEFT_OUT],
    }


def _meaning(words: str, schema: Schema) -> dict[str, Any]:
    return {"description": words, **schema}


def _list(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _closed(properties: Mapping[str, Schema]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
