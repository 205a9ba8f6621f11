"""The table of knowledge: what each party sees, what a coalition can derive from it, and the epsilon that remains.

    kind        trust and sealing: central, local, plain (shuffle, not sealed), sealed, mixed (sealed to a mixer, too)
    surface     messages, times, sizes, orders, keys, addresses, logs, metrics, database
    reach       release    what everybody may see: noisy statistics and policies; the claim holds
                rest       the release without the noise of the devices that took part in the coalition
                message    the report of one person, with the noise that its own device added
                data       the report of one person, without noise

Certificates take their line about collusion from here, `docs/operations/threats.md` is generated from it, and
`chaos/row_knowledge.py` compares it with everything that real processes store, log, count and send.

K1  A neighbouring history has the same people at the same moments; one of them reports something else. That a person
    takes part is not protected.
K2  Every coalition sees bundles, and a bundle follows from releases: no coalition is left with less than the claim.
K3  A cell is "grade: words". Grades are compared with what was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, TypeAlias, get_args

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.wording import shown_up
from tacit.errors import NotSupported, UnknownName, require
from tacit.types import Trust

Party: TypeAlias = Literal["learner", "shuffler", "mixer", "issuer", "device", "operator", "network"]
Surface: TypeAlias = Literal["messages", "times", "sizes", "orders", "keys", "addresses", "logs", "metrics", "database"]
Kind: TypeAlias = Literal["central", "local", "plain", "sealed", "mixed"]
Sealing: TypeAlias = Literal["plain", "sealed", "mixed"]
People: TypeAlias = Literal["issuer", "known", "open"]
Reach: TypeAlias = Literal["release", "rest", "message", "data"]

PARTIES: Final[tuple[Party, ...]] = get_args(Party)
SURFACES: Final[tuple[Surface, ...]] = get_args(Surface)
REACHES: Final[tuple[Reach, ...]] = get_args(Reach)
KINDS: Final[Mapping[Kind, tuple[Trust, Sealing]]] = {
    "central": ("central", "plain"),
    "local": ("local", "plain"),
    "plain": ("shuffle", "plain"),
    "sealed": ("shuffle", "sealed"),
    "mixed": ("shuffle", "mixed"),
}
"""The combinations that exist."""
NOT: Final = "none: -"
UNMIXED: Final[Mapping[Kind, str]] = {"central": NOT, "local": NOT, "plain": NOT, "sealed": NOT}


def _served(words: str, filed: str = NOT) -> Mapping[Kind, str]:
    """A cell of services, and of a study of files, which is what plain is: it has no listeners, logs or metrics."""
    return {kind: filed if kind == "plain" else words for kind in KINDS}


SEES: Final[Mapping[Party, Mapping[Surface, str | Mapping[Kind, str]]]] = {
    "learner": {
        "messages": {
            "central": "release: statistics with the shuffler's noise",
            "local": "release: every randomized message, sorted, without its sender",
            "plain": "release: sums of labels, with the devices' noise",
            "sealed": "release: every label by itself, in uniform order, without its sender",
            "mixed": "release: every label by itself, in the mixer's uniform order, without its sender",
        },
        "times": _served(
            "minute: when stages open and end; counts by the minute, of the status in steps, of metrics exactly",
            "stage: when stages open and end",
        ),
        "sizes": "constant: of a batch; messages per person are one number, but for Lemma M6 (overflowing blocks)",
        "orders": NOT,
        "keys": {
            "central": NOT,
            "local": NOT,
            "plain": NOT,
            "sealed": "learner: opens the labels of a stage; the bundle names one key per stage",
            "mixed": "learner: opens labels after the mixer; the bundle names one key per stage",
        },
        "addresses": NOT,
        "logs": _served("counts: its own steps"),
        "metrics": _served("counts: its own steps; labels and dummies of a batch, which follow from the release"),
        "database": "release: releases, beliefs, bundles; no id, token or pseudonym",
    },
    "shuffler": {
        "messages": {
            "central": "data: the report with its sender",
            "local": "message: the randomized message with its sender",
            "plain": "message: all labels of a report with their sender",
            "sealed": "sealed: labels sealed to the learner, with their sender",
            "mixed": "sealed: labels sealed to mixer and learner, with their sender",
        },
        "times": _served(
            "moment: of every request; stored are the ends of windows only", "stage: when a file is added"
        ),
        "sizes": "constant: one length of envelopes per stage, but for Lemma M6 (overflowing blocks)",
        "orders": "arrival: of reports",
        "keys": _served("shuffler: opens envelopes; key of the pseudonyms"),
        "addresses": _served("devices: of every connection; not stored"),
        "logs": _served("counts: requests per minute, route, status and reason"),
        "metrics": _served("counts: the same, and durations in histograms"),
        "database": "records: ids, pseudonyms and order of reports; bodies and tokens until the stage ends",
    },
    "mixer": {
        "messages": {
            **UNMIXED,
            "mixed": "sealed: labels sealed to the learner, in the shuffler's uniform order, without their sender",
        },
        "times": "minute: when a batch is mixed",
        "sizes": "constant: of a batch",
        "orders": NOT,
        "keys": {
            **UNMIXED,
            "mixed": "mixer: takes the outer layer off, and knows its own order",
        },
        "addresses": NOT,
        "logs": "counts: requests per minute",
        "metrics": "counts: requests",
        "database": "records: the last batch before and after mixing; tokens of the manifest while it mixes",
    },
    "issuer": {
        "messages": NOT,
        "times": "moment: when a credential asks for the token of a stage",
        "sizes": NOT,
        "orders": "arrival: of requests for tokens",
        "keys": "issuer: signs tokens, blindly; so it can make up people",
        "addresses": "devices: of every connection; not stored",
        "logs": "counts: requests per minute, route, status and reason",
        "metrics": "counts: signatures by outcome",
        "database": "records: pseudonyms of credentials, and which stages they have tokens for",
    },
    "device": {
        "messages": "release: bundles, which follow from releases; its own report, whose noise it knows",
        "times": "stage: when a bundle changes",
        "sizes": NOT,
        "orders": NOT,
        "keys": _served("public: keys of the other parties, signed"),
        "addresses": NOT,
        "logs": NOT,
        "metrics": NOT,
        "database": "own: its own state",
    },
    "operator": {
        "messages": _served("release: status and policies, which follow from releases"),
        "times": _served("minute: of counts"),
        "sizes": NOT,
        "orders": NOT,
        "keys": NOT,
        "addresses": NOT,
        "logs": _served("counts: of all parties"),
        "metrics": _served("counts: of all parties, and the dashboard"),
        "database": NOT,
    },
    "network": {
        "messages": _served("sealed: envelopes with their senders; bundles and signed keys, which are public"),
        "times": _served("moment: of every request"),
        "sizes": _served("constant: one length of envelopes per stage, but for Lemma M6 (overflowing blocks)"),
        "orders": _served("arrival: of requests"),
        "keys": _served("public: keys in transit"),
        "addresses": _served("devices: of every connection"),
        "logs": NOT,
        "metrics": NOT,
        "database": NOT,
    },
}
"""What each party sees of each surface: the same for all kinds, or by kind.

The owner of the machine of a party is that party. The operator reads logs, metrics, status and dashboard.
"""

LINKS: Final[Mapping[Kind, frozenset[Party]]] = {
    "central": frozenset(("shuffler",)),
    "local": frozenset(("shuffler",)),
    "plain": frozenset(("shuffler",)),
    "sealed": frozenset(("shuffler", "learner")),
    "mixed": frozenset(("shuffler", "mixer", "learner")),
}
"""Who has to work together to read the report of a person: the keys of its layers, and who sent it."""


def kind_of(trust: Trust, sealing: Sealing) -> Kind:
    """The kind of a study; a combination that does not exist is `NotSupported`.

    >>> kind_of("shuffle", "mixed")
    'mixed'
    """
    for kind, found in KINDS.items():
        if found == (trust, sealing):
            return kind
    raise NotSupported(f"messages can be sealed to the learner under shuffle trust only, not {sealing} under {trust}")


def sight(party: Party, surface: Surface, kind: Kind) -> tuple[str, str]:
    """(grade, words) of one cell (K3).

    >>> sight("shuffler", "messages", "sealed")
    ('sealed', 'labels sealed to the learner, with their sender')
    """
    cell = SEES[party][surface]
    grade, _, words = (cell if isinstance(cell, str) else cell[kind]).partition(": ")
    return grade, words


def reach(coalition: Iterable[str], kind: Kind, *, people: People = "issuer", active: bool = True) -> Reach:
    """What a coalition learns about one person at most.

    `people` says who may report (the shuffler's configuration). An `active` coalition makes up people where it can, or
    replaces their reports: the shuffler can under tokens, too, since no message is bound to its token. Then the sums of
    a stage, from which policies follow (K2), are the report of one person and numbers that it knows.

    >>> reach(("learner",), "sealed"), reach(("shuffler",), "mixed"), reach(("shuffler",), "mixed", active=False)
    ('release', 'message', 'release')
    """
    found = frozenset(coalition)
    for party in sorted(found - set(PARTIES)):
        raise UnknownName("party", party, PARTIES)
    if LINKS[kind] <= found:
        return "data" if kind == "central" else "message"
    if kind in ("central", "local"):
        return "release"  # noise of the shuffler, or of every message: other people change nothing
    # No message is bound to its token: a shuffler puts others in the place of real people's, and keeps their tokens.
    makes_up = {"issuer": bool(found & {"issuer", "shuffler"}), "known": "shuffler" in found, "open": True}[people]
    if active and makes_up:
        return "message"
    return "rest" if "device" in found else "release"


def breaches(kind: Kind, *, people: People = "issuer", active: bool = True) -> tuple[tuple[Party, ...], ...]:
    """The smallest coalitions that are left with less than the claim; collusion with a device aside.

    >>> breaches("mixed", active=False), breaches("local")
    ((('learner', 'shuffler', 'mixer'),), ())
    """
    weak: Reach = "data" if kind == "local" else "message"  # a randomized message is what local trust claims
    found: list[tuple[Party, ...]] = []
    for size in range(1, len(PARTIES) + 1):
        for some in combinations(PARTIES, size):
            smaller = any(set(one) <= set(some) for one in found)
            if not smaller and REACHES.index(reach(some, kind, people=people, active=active)) >= REACHES.index(weak):
                found.append(some)
    return tuple(found)


def collusion(trust: Trust, local_epsilon: float | None) -> str:
    """The line of a certificate: what is left if the parties that the claim keeps apart work together.

    A certificate follows from a design, which does not say how messages are sealed: so the line says what holds where
    they are, what holds where they are not, and who breaks the claim by making up or replacing reports.

    >>> collusion("shuffle", None).partition(".")[0]
    'If learner and shuffler collude, nothing is protected: there is no local floor'
    """
    if trust == "none":
        return "Collusion changes nothing: all parties see the data already."
    if trust == "local":
        return "Collusion changes nothing: only a person's own device ever sees the data."
    if trust == "central":
        return "The curator sees everything: if the curator is dishonest, nothing is protected."
    left = "nothing is protected: there is no local floor."
    if local_epsilon is not None:
        floor = f"each single message still has epsilon {local_epsilon:g} (the local floor)"
        left = f"{floor}; the claim itself is lost."
    sealed, plain, lying = (
        " or ".join(" and ".join(some) for some in found)
        for found in (breaches("sealed", active=False), breaches("plain", active=False), breaches("sealed"))
    )
    return (
        f"If {sealed} collude, {left} Where messages are not sealed, the {plain} alone is enough; a dishonest {lying} "
        "can leave a person with the noise of one device."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalition:
    """Parties that put together what they see, and the epsilon of one person that is left, by kind of sealing."""

    parties: tuple[str, ...]
    left: Mapping[str, tuple[float, float]]
    """By kind (a key of `KINDS`): if they keep to the protocol, and if they also make up or replace reports."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; infinity is written "inf"."""
        plain = {kind: ["inf" if math.isinf(one) else one for one in pair] for kind, pair in self.left.items()}
        return {"parties": list(self.parties), "left": plain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Coalition:
        """The coalition that `to_dict` wrote."""
        known = set(plain) == {"parties", "left"} and set(plain["parties"]) <= set(PARTIES)
        require(known and set(plain["left"]) <= set(KINDS), "a coalition has known parties and kinds", sorted(plain))
        return cls(
            parties=tuple(plain["parties"]),
            left={kind: (float(first), float(second)) for kind, (first, second) in plain["left"].items()},
        )


def coalitions(
    channels: Sequence[Any], exposure: Callable[[Sequence[Any]], Events], epsilon: float
) -> tuple[Coalition, ...]:
    """What one person of a study is left with against every party, and against those who can break the claim.

    `exposure` gives the events of a person over all stages, `epsilon` is what they cost. People report with tokens of
    an issuer. A party that sees nothing of a kind of study is left out of it.
    """
    trust = channels[0].TRUST
    kinds = [kind for kind, (found, _) in KINDS.items() if found == trust]
    known: dict[Reach, float] = {"release": epsilon, "data": math.inf}

    def left(some: tuple[Party, ...], kind: Kind, active: bool) -> float:
        found = reach(some, kind, active=active)
        if trust != "shuffle":
            found = "data" if found == "data" else "release"  # noise of others changes nothing
        if found not in known:
            known[found] = _epsilon(channels, found, 1, exposure)
        return known[found]

    together = {some for kind in kinds for some in breaches(kind, active=False) if len(some) > 1}
    asked: list[tuple[Party, ...]] = [
        ("learner",),
        ("shuffler",),
        ("mixer",),
        ("issuer",),
        ("device",),
        *sorted(together, key=len),
    ]
    found = []
    for some in asked:
        there = [kind for kind in kinds if not any(kind in WITHOUT.get(party, ()) for party in some)]
        pairs: dict[str, tuple[float, float]] = {
            kind: (left(some, kind, False), left(some, kind, True)) for kind in there
        }
        found += [Coalition(parties=some, left=pairs)] if pairs else []
    return tuple(found)


SHOWN: Final[Mapping[str, str]] = {"central": "", "local": "", "plain": "not sealed", "sealed": "sealed",
                                   "mixed": "sealed and mixed"}  # fmt: skip


def coalition_table(rows: Sequence[Coalition], margin: int) -> list[str]:
    """The coalitions as lines of a text; parties that are left with the same share a line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.left))
    for row in rows:
        cells = tuple(_cell(row.left.get(kind)) for kind in kinds)
        names = NAMES | ({} if "plain" in kinds else {"shuffler": "curator" if "central" in kinds else "collector"})
        alike.setdefault(cells, []).append(" and ".join(names.get(party, party) for party in row.parties))
    if not alike:
        return []
    table = [("epsilon of one person left against", *(SHOWN[kind] for kind in kinds))]
    table += [(", or ".join(who), *cells) for cells, who in alike.items()]
    widths = [max(len(line[i]) for line in table) + 2 for i in range(len(table[0]))]
    lines = ["".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in table]
    lines = [f"{'' if i else 'collusion':<{margin}}{line}".rstrip() for i, line in enumerate(lines)]
    lied = any(first != second for row in rows for first, second in row.left.values())
    return [*lines, *([f"{'':<{margin}}in brackets: if they also make up or replace reports"] if lied else [])]


NAMES: Final = {"device": "another participant"}
"""Parties by other names, in texts."""
WITHOUT: Final[Mapping[str, frozenset[str]]] = {"mixer": frozenset(KINDS) - {"mixed"}, "issuer": frozenset(("plain",))}
"""Parties, and the kinds of studies that do not have them: files that are handed over have no issuer."""


def _cell(pair: tuple[float, float] | None) -> str:
    if pair is None:
        return "-"
    first, second = ("no protection" if math.isinf(one) else shown_up(one) for one in pair)
    return first if first == second else f"{first} ({second})"


def remaining(
    coalition: Iterable[str],
    channel: Any,
    *,
    sealing: Sealing = "plain",
    people: People = "issuer",
    active: bool = True,
    devices: int = 1,
) -> float:
    """The epsilon of one report that is left against a coalition, by the accountant at the delta of the claim.

    `channel` is the channel of a stage (`tacit.study`), and `devices` is how many devices a coalition with some has.
    """
    found = reach(coalition, kind_of(channel.TRUST, sealing), people=people, active=active)
    if found == "data":
        return math.inf
    if channel.TRUST != "shuffle":
        return epsilon_of(channel.events(), channel.claim.delta)
    return _epsilon([channel], found, devices, lambda one: one[0].events())


def _epsilon(channels: Sequence[Any], found: Reach, devices: int, exposure: Callable[[Sequence[Any]], Events]) -> float:
    """What stages of shuffle trust cost with the noise of the devices that do not take part in a coalition."""
    claim = channels[0].claim
    up_to = claim.epsilon
    while up_to < 500.0:  # extra blocks are priced for epsilons up to the claim's, which may be exceeded here
        claimed = replace(claim, epsilon=up_to)
        noise = [{"release": one.honest, "rest": max(one.honest - devices, 1), "message": 1}[found] for one in channels]
        changed = [replace(one, honest=n, claim=claimed) for one, n in zip(channels, noise, strict=True)]
        epsilon = epsilon_of(exposure(changed), claimed.delta)
        if epsilon <= up_to:
            return epsilon
        up_to *= 1.5
    return math.inf
