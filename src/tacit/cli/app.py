"""The commands, one file per group; a new group is a module with `register(app)` and a line in `GROUPS`."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final

import typer

from tacit._version import __version__
from tacit.cli import (
    audit,
    certificate,
    certify,
    collect,
    compare,
    demo,
    learn,
    listing,
    policy,
    run,
    serve,
    study,
    trial,
    verify,
)

GROUPS: Final = (
    listing,
    run,
    certify,
    certificate,
    audit,
    compare,
    verify,
    trial,
    learn,
    policy,
    demo,
    study,
    collect,
    serve,
)

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 140},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Differentially private reinforcement learning: learn policies from user data with differential privacy."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for group in GROUPS:
    group.register(app)


@cache
def command() -> Any:
    """All commands as one; made once per process, which takes longer than most of them."""
    return typer.main.get_command(app)
