"""The numbers of a card, and what its sentences and tables claim about committed results.

A card is Markdown. Every number on it outside of code, links and the sections that describe the software is either

    measured    a hole `{}` in a quoted sentence, or a cell of a quoted row: compared with a value, digit by digit
    stated      a literal number in such a quotation: a size, an option, a constant of the paper
    a label     "Theorem 5", "ε = 0.2", "K = 10⁸": recognised by `LABELS`

A number that is none of these is *unclaimed*, and a claim whose words are not on the card is an error, too: so neither
a number nor a claim can be changed alone.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["About", "AtLeast", "AtMost", "Card", "Number", "Order", "Section", "Value", "numbers_in"]

SUPERSCRIPT: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
NUMBER: Final = re.compile(
    r"(?<![\w.,√])(?<!\d[-–])(?<![A-Za-z][-+])(?P<sign>(?<![\w)⁰-⁹²³])[-−])?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|∞)(?P<e>e[-+]?\d+)?"
    r"(?:(?P<times>·10)?(?P<power>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^-?\d+(?!\.)))?(?![\w])"
)
RANGE: Final = re.compile(r"(?<=\d)[-–](?=\d)")
SYMBOL: Final = r"(?:\b(?:[SAHKXCdmkNLBzk]|first L|[Ee]psilon|[Dd]elta|seed|random-mdp:seed)|C₁|ε₀|δ₀|E'|[τμεδβαΔ])"
ONE: Final = r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:·10)?⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]*"
OTHER: Final = r"(?:0\.1|0\.2|0\.25|0\.35|0\.5|0\.7|1|2|4|5|8|10|20|100|10[⁴⁵⁶⁷⁸])(?![\d%⁰-⁹\w]|\.\d)"
"""What may follow a first value in a list of settings: anything else after a comma is a number of its own."""
WORDS: Final = (
    "[Ff]igures?|Figs?\\.|Theorems?|Lemmas?|Lemma [A-Z]|Props?\\.|Propositions?|Eqs?\\.|Alg\\.|Algorithms?|"
    "Tables?|Sections?|Sec\\.|Appendix|Corollary|Assumptions?|Definitions?|Remarks?|rows?|decision|[Ll]ine"
)
HOLE: Final = r"([-−]?[\d∞][\d,.]*(?:e-?\d+)?(?:(?:·10)?⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)?(?<![.,]))"
FENCE: Final = re.compile(r"^```(.*)$\n(?:.*\n)*?```$", re.M)
LABELS: Final = tuple(
    re.compile(pattern, re.M)
    for pattern in (
        r"`[^`\n]+`",
        r"\]\([^)\n]*\)",  # addresses
        r"^    \S.*$",  # commands, indented
        r"^:width:.*$",
        r"^```\{figure\}.*$",
        rf"\b(?:{WORDS})\s+\(?\d[\d.]*\w?\)?(?:(?:,| and| to|-|,? and)\s*\(?\d[\d.]*\)?(?![\w%]))*",
        rf"{SYMBOL}\s*[=≤≥<>]\s*{ONE}(?:(?:,| /| and| or| to|, and|-)\s*{OTHER})*",
        rf"\b[Ee]psilon\s+{ONE}(?:(?:,| and| or)\s*{OTHER})*",
        r"\bI\.2\b|\b1/[ε√μ]|\bln 2\b",
        r"\bversion(?:s of)? 20\d\d|\b20(?:13|21|24|25)\b",
    )
)


@dataclass(frozen=True, slots=True)
class Number:
    """One number as it is printed."""

    start: int
    end: int
    text: str
    value: float
    unit: float
    """What one more in its last digit is worth."""


def numbers_in(text: str) -> Iterator[Number]:
    """Every number of a text, ranges taken apart.

    >>> [(n.value, n.unit) for n in numbers_in("1,600 ± 16 (0.12-0.5), K^-0.23, 3.4·10⁷, 2⁻⁷, -5%")][:4]
    [(1600.0, 1.0), (16.0, 1.0), (0.12, 0.01), (0.5, 0.1)]
    >>> [n.value for n in numbers_in("K^-0.23, 3.4·10⁷, 2⁻⁷, 10^6, -5%, 1e-6, v2 x3")]
    [-0.23, 34000000.0, 0.0078125, 1000000.0, -5.0, 1e-06]
    """
    parted = RANGE.sub("~", text)  # a dash between digits is no sign
    for found in NUMBER.finditer(parted):
        digits = found["digits"].replace(",", "")
        if digits == "∞":
            yield Number(found.start(), found.end(), found.group(), math.inf, 1.0)
            continue
        exponent = int(found["power"].lstrip("^").translate(SUPERSCRIPT)) if found["power"] else 0
        mantissa = float(digits + (found["e"] or ""))
        unit = 10.0 ** (-len(digits.partition(".")[2]) + (int(found["e"][1:]) if found["e"] else 0))
        if found["times"]:
            mantissa, unit = mantissa * 10.0**exponent, unit * 10.0**exponent
        elif found["power"]:
            mantissa, unit = mantissa**exponent, mantissa**exponent
        sign = -1.0 if found["sign"] else 1.0
        yield Number(found.start(), found.end(), text[found.start() : found.end()], sign * mantissa, unit)


@dataclass(frozen=True, slots=True)
class About:
    """A value printed with so many digits, the rest filled up with zeros: 1,234 as 1,200."""

    value: float
    digits: int

    def agrees(self, printed: Number) -> bool:
        """Whether it is the printed one to these digits."""
        size = 10.0 ** (math.floor(math.log10(abs(self.value))) - self.digits + 1) if self.value else 1.0
        return abs(printed.value - self.value) <= 0.5000001 * size


@dataclass(frozen=True, slots=True)
class AtMost:
    """Values none of which exceeds the printed number."""

    value: float

    def agrees(self, printed: Number) -> bool:
        """Whether it does not exceed it."""
        return self.value <= printed.value


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Values none of which is below the printed number."""

    value: float

    def agrees(self, printed: Number) -> bool:
        """Whether it is not below it."""
        return self.value >= printed.value


@dataclass(frozen=True, slots=True)
class Order:
    """A value of which the printed number gives the order: within a factor of three."""

    value: float

    def agrees(self, printed: Number) -> bool:
        """Whether it has this order."""
        return 1.0 / 3.0 <= self.value / printed.value <= 3.0


Value = float | About | AtMost | AtLeast | Order


def _agrees(value: Value, printed: Number) -> bool:
    if isinstance(value, About | AtMost | AtLeast | Order):
        return value.agrees(printed)
    if math.isinf(value) or math.isinf(printed.value):
        return value == printed.value
    return abs(value - printed.value) <= 0.5000001 * printed.unit


@dataclass(slots=True)
class Card:
    """A card that is being read: what is claimed so far, and what is wrong."""

    text: str
    skip: Sequence[str] = ()
    """Headings of sections that measure nothing."""
    errors: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    measured: int = 0
    """How many numbers have been compared with a value."""

    def section(self, heading: str) -> Section:
        """The section up to the next heading of its level or above.

        Its heading begins with these words; with a line feed at their end, it consists of them.
        """
        found = [m for m in re.finditer(r"^(#+) (.*)$", self.text, re.M) if f"{m[2]}\n".startswith(heading)]
        if len(found) != 1:
            self.errors.append(f"{len(found)} headings begin with {heading!r}")
            return Section(self, 0, 0)
        after = re.compile(rf"^#{{1,{len(found[0][1])}}} ", re.M).search(self.text, found[0].end())
        return Section(self, found[0].start(), after.start() if after else len(self.text))

    def unclaimed(self) -> list[str]:
        """Every number that no claim, label or skipped section covers, with the words around it."""
        spans = list(self.spans)
        for heading in self.skip:
            part = self.section(heading)
            spans.append((part.start, part.end))
        generated = re.search(r"<!-- generated by .*?<!-- end of what is generated -->", self.text, re.S)
        spans += [generated.span()] if generated else []
        spans += [found.span() for found in FENCE.finditer(self.text) if not found[1].startswith("{figure}")]
        spans += [found.span() for pattern in LABELS for found in pattern.finditer(self.text)]
        spans.sort()
        starts = [start for start, _ in spans]
        reach: list[int] = []
        for _, end in spans:
            reach.append(max(end, reach[-1] if reach else 0))
        found = []
        for number in numbers_in(self.text):
            at = bisect_right(starts, number.start) - 1
            if at < 0 or reach[at] < number.end:
                line = self.text.count("\n", 0, number.start) + 1
                around = " ".join(self.text[max(0, number.start - 40) : number.end + 25].split())
                found.append(f"line {line}: {number.text} in '{around}'")
        return found


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a card in which words are looked for; each must be there exactly once."""

    card: Card
    start: int
    end: int

    def says(self, template: str, *values: Value) -> None:
        """A sentence or part of one; `{}` stands for a measured number, every other number is stated."""
        words = [re.escape(part) for part in " ".join(template.split()).split("{}")]
        pattern = HOLE.join(words).replace(r"\ ", r"\s+")
        found = list(re.finditer(pattern, self.card.text[self.start : self.end]))
        if len(found) != 1:
            self.card.errors.append(f"{len(found)} places say {template!r}")
            return
        self.card.spans.append((self.start + found[0].start(), self.start + found[0].end()))
        if len(found[0].groups()) != len(values):
            self.card.errors.append(f"{len(values)} values for {len(found[0].groups())} holes in {template!r}")
            return
        printed = [next(numbers_in(f" {text}")) for text in found[0].groups()]
        self._compare(template, printed, values)

    def row(self, label: str, *values: Value) -> None:
        """A row of a table by its first cell: every number in the other cells, in their order."""
        pattern = re.compile(rf"^\| {re.escape(label)} \|(.*)$", re.M)
        found = list(pattern.finditer(self.card.text, self.start, self.end))
        if len(found) != 1:
            self.card.errors.append(f"{len(found)} rows {label!r}")
            return
        self.card.spans.append(found[0].span())
        printed = list(numbers_in(found[0][1]))
        if len(printed) != len(values):
            self.card.errors.append(f"row {label!r} has {len(printed)} numbers, claimed are {len(values)}")
            return
        self._compare(f"row {label!r}", printed, values)

    def table(self, header: str) -> Section:
        """The table whose header begins with this cell, or with the start of it."""
        found = list(re.compile(rf"^\| {re.escape(header)}", re.M).finditer(self.card.text, self.start, self.end))
        if len(found) != 1:
            self.card.errors.append(f"{len(found)} tables {header!r}")
            return Section(self.card, 0, 0)
        end = self.card.text.find("\n\n", found[0].start())
        return Section(self.card, found[0].start(), min(self.end, end if end >= 0 else self.end))

    def states(self, *fragments: str) -> None:
        """Words whose numbers are stated: sizes, options, constants of the paper, results of a proof or a test."""
        for fragment in fragments:
            pattern = re.escape(" ".join(fragment.split())).replace(r"\ ", r"\s+")
            found = list(re.finditer(pattern, self.card.text[self.start : self.end]))
            if not found:
                self.card.errors.append(f"no place states {fragment!r}")
            self.card.spans.extend((self.start + one.start(), self.start + one.end()) for one in found)

    def _compare(self, where: str, printed: Sequence[Number], values: Sequence[Value]) -> None:
        self.card.measured += len(values)
        for number, value in zip(printed, values, strict=True):
            if not _agrees(value, number):
                shown = value if isinstance(value, float | int) else value.value
                self.card.errors.append(f"{where}: {number.text.strip()} is printed, committed is {shown:.6g}")
