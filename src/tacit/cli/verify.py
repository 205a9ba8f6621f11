"""`tacit verify` and `tacit keys`: certificates for readers who do not trust their writer, and who vouches for them.

Exit codes of `verify`: 0 true, 1 false or not verified, 2 unreadable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import AsJson, print_json, say, schema_flag
from tacit.errors import UnknownName, require

Signers = Annotated[
    list[str] | None,
    typer.Option("--require", metavar="ROLE=KEY", help="Who must have signed, as in officer=public.pem."),
]
keys = typer.Typer(help="Keys that sign bundles, certificates and directories (Ed25519).", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("verify")(_verify)
    app.add_typer(keys, name="keys")


def _verify(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A run, comparison, results, study, collector or release from a log; or a design, bundle, policy, "
            "trial or certificate by itself.",
        ),
    ],
    key: Annotated[Path | None, typer.Option(help="The public key that must have signed it.")] = None,
    required: Signers = None,
    schema: Annotated[bool, schema_flag("certificates", "tacit.accounting.certificate", "certificate_schema")] = False,
    json: AsJson = False,
) -> None:
    """Derive again what is stated, check every file and signature, and say whether it is true."""
    from tacit.study.verify import verify

    del schema  # it has answered already
    found = verify(path, key=key, needed=[_party(text) for text in required or ()])
    if json:
        print_json(found.to_dict())
    else:
        for line in (found.line, *found.coverage):
            say(line)
    if not found.true:
        raise typer.Exit(1)


def _party(text: str) -> tuple[str, Path]:
    """A role and the public key of the party that must have signed in it."""
    from tacit.runs.signature import ROLES

    role, equals, key = text.partition("=")
    require(bool(equals and key), "--require must be ROLE=KEY, as in officer=officer/public.pem", text)
    if role not in ROLES:
        raise UnknownName("role", role, ROLES)
    return role, Path(key)


@keys.command("new")
def _new(directory: Annotated[Path, typer.Argument(help="Where private.pem and public.pem go.")]) -> None:
    """Make a key pair; existing keys are never overwritten."""
    from tacit.runs.signature import new_keys

    private, public = new_keys(directory)
    say(f"private key: {private} (keep it to yourself)")
    say(f"public key: {public} (readers pin it: tacit verify FILE --key {public.name})")


@keys.command("sign")
def _sign(
    path: Annotated[Path, typer.Argument(help="Whatever 'tacit verify' takes.")],
    key: Annotated[Path, typer.Option(help="The private key.")],
    role: Annotated[str, typer.Option(help="In which role: learner, officer or operator.")] = "learner",
    required: Signers = None,
) -> None:
    """Sign what is true, beside the signatures of other parties; what is false or not verified is not signed."""
    from tacit.study.verify import sign_path

    say(f"signed: {sign_path(path, key, role, [_party(text) for text in required or ()])}")
