"""The OpenAPI document of a listener, made from the routes that it serves: `GET /openapi.json`.

A route of a listener is an `Offer`: it says which body it takes and which answers it gives, beside refusals, which all
have one form (`tacit.service.problems`). A status that is not in the document is a fault; 500 is in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute, Route

from tacit._version import __version__
from tacit.service.problems import MEDIA_TYPE, PROBLEMS

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
HTML: Final = "text/html"
BODIES: Final[dict[str, dict[str, Any]]] = {JSON: {"type": "object"}}
DIGITS: Final = 9


class _Number(Convertor[int]):
    """Whole numbers of so few digits that reading them costs nothing; an address with a longer one does not exist."""

    regex = f"[0-9]{{1,{DIGITS}}}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())


class Offer(Route):
    """A route with what it takes and gives."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Callable[..., Any],
        *,
        takes: str | None = None,
        gives: str | None = JSON,
        answers: Sequence[int] = (200,),
        refuses: Sequence[str] = (MEDIA_TYPE,),
    ) -> None:
        """`takes` and `gives` are media types, None for no body; `refuses` are those of refusals."""
        super().__init__(path, endpoint, methods=[method])
        self.method, self.takes, self.gives, self.answers, self.refuses = method, takes, gives, answers, refuses

    def described(self) -> dict[str, Any]:
        """The operation, as OpenAPI has it."""
        given = {} if self.gives is None else {"content": {self.gives: {"schema": BODIES.get(self.gives, {})}}}
        refused = {"description": "Refused.", "content": {kind: {"schema": _refusal(kind)} for kind in self.refuses}}
        found: dict[str, Any] = {
            "operationId": f"{self.method.lower()}_{self.endpoint.__name__}",
            "summary": next(iter((self.endpoint.__doc__ or self.endpoint.__name__).strip().splitlines())),
            "parameters": [_parameter(name, kind) for name, kind in self.param_convertors.items()],
            "responses": {
                **dict.fromkeys(("4XX", "501", "503"), refused),
                **{str(status): {"description": "Done.", **given} for status in self.answers},
            },
        }
        if self.takes is not None:
            found["requestBody"] = {"content": {self.takes: {"schema": BODIES.get(self.takes, {})}}}
        return found


def openapi(title: str, routes: Iterable[BaseRoute], *, secret: bool, open_to_all: frozenset[str]) -> dict[str, Any]:
    """The document of a listener; with a `secret`, everything but `open_to_all` wants it."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Offer):
            found = route.described()
            if secret and route.path not in open_to_all:
                found["security"] = [{"secret": []}]
            paths.setdefault(route.path_format, {})[route.method.lower()] = found
    schemes = {"secret": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": schemes} if secret else {},
    }


def _parameter(name: str, kind: Convertor[Any]) -> dict[str, Any]:
    number = {"type": "integer", "minimum": 0, "maximum": 10**DIGITS - 1}
    schema = number if isinstance(kind, _Number) else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _refusal(kind: str) -> dict[str, Any]:
    """The schema of a refusal: a problem document, or a page."""
    if kind != MEDIA_TYPE:
        return {}
    return {
        "type": "object",
        "properties": {
            "type": {"enum": [f"urn:tacit:problem:{slug}" for slug in PROBLEMS]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
        "required": ["type", "title", "status"],
        "additionalProperties": False,
    }
