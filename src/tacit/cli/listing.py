"""`tacit list`: what can be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from tacit.cli.common import AsJson, print_json, print_table
from tacit.errors import UnknownName


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("list")(_list)


def _list(
    kind: Annotated[str, typer.Argument(help="environments, adversaries, learners, mechanisms or privatizers")],
    json: AsJson = False,
) -> None:
    """List environments, adversaries, learners, mechanisms or privatizers with their options."""
    if kind not in KINDS:
        raise UnknownName("list", kind, KINDS)
    rows = KINDS[kind]()
    if json:
        print_json({kind: rows})
        return
    head = list(rows[0])
    print_table(head, [[_shown(row[key]) for key in head] for row in rows])


def _environments() -> list[dict[str, Any]]:
    from tacit.environments.registry import list_environments, list_live

    return [
        {"name": info.name, "summary": info.summary, "parameters": dict(info.parameters)}
        for info in (*list_environments(), *list_live())
    ]


def _adversaries() -> list[dict[str, Any]]:
    from tacit.environments.adversaries import list_adversaries

    return [
        {"name": info.name, "summary": info.summary, "parameters": dict(info.parameters)} for info in list_adversaries()
    ]


def _learners() -> list[dict[str, Any]]:
    from tacit.learners.table import list_learners

    return [
        {
            "name": row.name,
            "summary": row.summary,
            "asks": row.asks,
            "options": {k: list(v) for k, v in row.options.items()},
        }
        for row in list_learners()
    ]


def _mechanisms() -> list[dict[str, Any]]:
    from tacit.noise.table import known_names, mechanism_row

    return [
        {"name": name, "trust": trust, "default": place == 0, "pure": mechanism_row(trust, name).pure}
        for trust in ("central", "shuffle", "local")
        for place, name in enumerate(known_names(trust))
    ]


def _privatizers() -> list[dict[str, Any]]:
    from tacit.noise.table import known_names
    from tacit.protocol import Totals
    from tacit.release.table import PLUGINS, PRIVATIZERS

    built_in = [
        {
            "answers": asked.words(),
            "trust": trust,
            "mechanisms": list(known_names(trust)) if asked is Totals else [],
            "summary": "built in",
        }
        for asked, trust in PRIVATIZERS
    ]
    foreign = [
        {"answers": row.answers.words(), "trust": row.trust, "mechanisms": [name], "summary": row.summary}
        for name, row in PLUGINS.items()
    ]
    return built_in + foreign


KINDS: Final[Mapping[str, Callable[[], list[dict[str, Any]]]]] = {
    "environments": _environments,
    "adversaries": _adversaries,
    "learners": _learners,
    "mechanisms": _mechanisms,
    "privatizers": _privatizers,
}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={'|'.join(v) if isinstance(v, list) else v}" for key, v in value.items()) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
