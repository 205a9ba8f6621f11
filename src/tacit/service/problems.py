"""Problem documents (RFC 9457): what a party answers when it refuses, without a word of what was sent.

P1  Every refusal has a type `urn:tacit:problem:<slug>`, a title and a status; input is never echoed.
P2  `detail` is for other parties (internal addresses) and says what must hold; devices get none.
P3  A fault of the service is "internal" and says nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.responses import Response

from tacit.errors import NotSupported, PrivacyBudgetExceeded, PrivacyViolation, TacitError

MEDIA_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """A kind of refusal."""

    status: int
    title: str
    retry: bool = False
    """Whether the same request may succeed later."""


PROBLEMS: Final[Mapping[str, Problem]] = {
    "malformed": Problem(400, "This is not what is taken here."),
    "unauthorized": Problem(401, "A secret is needed."),
    "forbidden": Problem(403, "This secret does not allow it."),
    "token": Problem(403, "The token or credential is not accepted."),
    "used-up": Problem(403, "This person has reported as often as the study allows."),
    "not-found": Problem(404, "There is nothing here."),
    "unknown-study": Problem(404, "This study is not collected here."),
    "unknown-key": Problem(404, "This key is not used here; fetch the keys again."),
    "method": Problem(405, "This is not done here."),
    "timeout": Problem(408, "The request took too long to arrive."),
    "refused": Problem(409, "The state of the study does not allow this."),
    "budget-spent": Problem(409, "The privacy budget does not allow this."),
    "not-open": Problem(409, "This stage is not open yet.", retry=True),
    "id-taken": Problem(409, "Another report has this id."),
    "twice": Problem(409, "This person has reported in this stage."),
    "full": Problem(409, "This stage has all the reports that it wants."),
    "late": Problem(410, "This stage is over."),
    "too-large": Problem(413, "The request is too large."),
    "range": Problem(416, "There is no such range."),
    "bad-body": Problem(422, "This is not what a device of this stage sends."),
    "overloaded": Problem(429, "Too much to do; come back.", retry=True),
    "internal": Problem(500, "Something is wrong on this side."),
    "not-supported": Problem(501, "This is not offered."),
    "unavailable": Problem(503, "Not ready; come back.", retry=True),
    "draining": Problem(503, "This process is ending; come back.", retry=True),
}
"""Every refusal by its slug; a slug that is not in here cannot be raised."""

ANSWERS: Final[Mapping[str, str]] = {
    "malformed": "malformed",
    "another study": "unknown-study",
    "not open": "not-open",
    "late": "late",
    "bad body": "bad-body",
    "id taken": "id-taken",
    "twice": "twice",
    "used up": "used-up",
    "full": "full",
}
"""The slugs of a collector's refusals (`tacit.study.intake.REASONS`)."""


class Refused(Exception):
    """A request is refused for the reason of this slug."""

    def __init__(self, slug: str, *, detail: str = "", retry_after: int | None = None) -> None:
        self.slug = slug
        self.problem = PROBLEMS[slug]
        self.detail = detail
        self.retry_after = retry_after
        super().__init__(slug)


def refusal_of(error: TacitError, *, detailed: bool) -> Refused:
    """The refusal that an error of tacit amounts to; `detailed` for other parties only (P2)."""
    kinds = {PrivacyBudgetExceeded: "budget-spent", NotSupported: "not-supported", PrivacyViolation: "refused"}
    slug = next((slug for kind, slug in kinds.items() if isinstance(error, kind)), "refused")
    return Refused(slug, detail=str(error) if detailed else "")


def problem_response(refused: Refused, retry_after: int = 2) -> Response:
    """The document of a refusal (P1).

    >>> problem_response(Refused("late")).body
    b'{"type":"urn:tacit:problem:late","title":"This stage is over.","status":410}'
    """
    problem = refused.problem
    plain: dict[str, object] = {
        "type": f"urn:tacit:problem:{refused.slug}",
        "title": problem.title,
        "status": problem.status,
    }
    if refused.detail:
        plain["detail"] = refused.detail
    headers = {"cache-control": "no-store"}
    if problem.retry:
        headers["retry-after"] = str(retry_after if refused.retry_after is None else refused.retry_after)
    if refused.slug == "unauthorized":
        headers["www-authenticate"] = "Bearer"
    if refused.slug in ("too-large", "timeout", "draining"):
        headers["connection"] = "close"
    return Response(msgspec.json.encode(plain), problem.status, headers, media_type=MEDIA_TYPE)
