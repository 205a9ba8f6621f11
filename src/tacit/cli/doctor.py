"""`tacit doctor`: look whether a party of a study can run. Exit code 0: it can, 1: a check failed, 2: your input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import AsJson, print_json, say
from tacit.cli.serve import service_extra


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(_doctor)


def _doctor(
    party: Annotated[str, typer.Argument(help="learner, shuffler, issuer or mixer.")],
    config: Annotated[Path, typer.Argument(help="The configuration of the party (TOML).")],
    head: Annotated[
        str | None, typer.Option(help="The head that the learner's status shows; the shuffler's ledger must hold it.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Check keys, clocks, disk, sizes of batches, tables and ledger of a party; nothing is changed."""
    with service_extra():
        from tacit.service.config import read_party
        from tacit.service.health_checks import check_up
        from tacit.study.contract import Head

        found = check_up(read_party(config, party), head=None if head is None else Head.from_text(head))
    failed = any(finding.state == "failed" for finding in found)
    if json:
        print_json({"healthy": not failed, "findings": [finding.to_dict() for finding in found]})
    else:
        for finding in found:
            say(f"{finding.state:8s} {finding.check}: {finding.words}")
    if failed:
        raise typer.Exit(1)
