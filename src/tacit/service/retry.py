"""Sending: what an answer of the shuffler means for a frozen report, and how long to wait before the next try.

N1  Only the shuffler's own words end a report: "counted" and "again", or a problem of tacit that is final. No answer,
    an overload, or a page of something in between is waited out.
N2  Waiting doubles up to `most`, in full jitter on top of what `Retry-After` asked for, so that devices that failed
    together do not come back together.
N3  A key that the shuffler does not know means a new envelope around the same report, never a new report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tacit.errors import require_count, require_real
from tacit.service.http_client import HttpResponse

Next = Literal["done", "wait", "rekey", "over", "refused"]
COUNTED, AGAIN, NO_ANSWER = "counted", "again", "no answer"
DONE: Final = {201: COUNTED, 200: AGAIN}
PROBLEM: Final = re.compile(r"urn:tacit:problem:([a-z-]{1,40})")
FINAL: Final = frozenset(
    ("malformed", "unknown-study", "token", "bad-body", "id-taken", "twice", "used-up", "full", "too-large")
)
"""Problems that another try of the same bytes cannot mend."""
LONGEST_WAIT: Final = 3600.0
"""No `Retry-After` is believed beyond this many seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to do next, and the word to remember."""

    next: Next
    word: str
    after: float = 0.0
    """Seconds that the shuffler asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Seconds before the next try.

    >>> Backoff(first=1.0, most=8.0).seconds(2, after=0.0, lot=0.5)
    2.0
    >>> Backoff(first=1.0, most=8.0).seconds(10, after=5.0, lot=0.5)
    9.0
    """

    first: float = 0.5
    most: float = 60.0

    def __post_init__(self) -> None:
        require_real("first", self.first, low=0.0)
        require_real("most", self.most, low=0.0)

    def seconds(self, attempt: int, *, after: float, lot: float) -> float:
        """After so many tries that failed; `lot` is uniform in [0, 1) (N2)."""
        tries = min(require_count("attempt", attempt, least=0), 64)
        # after + U [0, min(most, first 2^k))
        return after + lot * min(self.most, self.first * 2.0**tries)


def understood(reply: HttpResponse | None) -> Answer:
    """What a reply to a report means (N1).

    >>> understood(None)
    Answer(next='wait', word='no answer', after=0.0)
    >>> understood(HttpResponse(410, {}, b'{"type": "urn:tacit:problem:late"}')).next
    'over'
    """
    if reply is None:
        return Answer("wait", NO_ANSWER)
    if reply.status in DONE:
        # A page in between may say 200 to everything; the shuffler says what became of the report.
        said = _entry(reply, "report") == DONE[reply.status]
        return Answer("done", DONE[reply.status]) if said else Answer("wait", NO_ANSWER)
    word, after = problem_of(reply), retry_after(reply.headers)
    if word == "late":
        return Answer("over", word)
    if word == "unknown-key":
        return Answer("rekey", word, after)
    if word in FINAL:
        return Answer("refused", word)
    return Answer("wait", word or NO_ANSWER, after)


def problem_of(reply: HttpResponse) -> str:
    """The slug of a problem document of tacit, or nothing."""
    found = PROBLEM.fullmatch(_entry(reply, "type"))
    return "" if found is None else found[1]


def retry_after(headers: Mapping[str, str]) -> float:
    """Whole seconds of `Retry-After`, bounded; anything else asks for nothing."""
    text = headers.get("retry-after", "")
    return min(float(text), LONGEST_WAIT) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _entry(reply: HttpResponse, name: str) -> str:
    """A text in the JSON object of a reply, or nothing."""
    try:
        found = json.loads(reply.content)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""
