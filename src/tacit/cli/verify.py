"""`tacit verify` and `tacit keys`: certificates for whoever does not trust their writer, and who vouches for them.

Exit codes of `verify`: 0 true, 1 false, 2 unreadable.
"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import AsJson, print_json, say
from tacit.errors import require

__all__ = ["register"]

keys = typer.Typer(help="Keys that sign bundles and certificates (Ed25519).", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("verify")(_verify)
    app.add_typer(keys, name="keys")


def _schema(wanted: bool) -> None:
    if wanted:
        from tacit.accounting.schema import certificate_schema

        say(json_module.dumps(certificate_schema(), indent=2))
        raise typer.Exit


def _verify(
    path: Annotated[Path, typer.Argument(help="A run, a comparison, results, a bundle or a certificate (JSON).")],
    key: Annotated[Path | None, typer.Option(help="The public key that must have signed it.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of certificates.", callback=_schema, is_eager=True)
    ] = False,
    json: AsJson = False,
) -> None:
    """Derive a certificate again, check digests and signature, and say in one line whether it is true."""
    from tacit.runs.verify import verify

    del schema  # it has answered already
    learned = _learned(path)
    if learned is None:
        found = verify(path, key=key)
    else:
        from tacit.study.learned import verify_learned

        found = verify_learned(learned, key=key)
    if json:
        print_json(found.to_dict())
    else:
        say(found.line)
    if not found.true:
        raise typer.Exit(1)


def _learned(path: Path) -> Path | None:
    """The file of `tacit learn`, if that is what stands here."""
    from tacit.runs.storage import read_json

    place = path / "learned.json" if path.is_dir() else path
    if not place.is_file() or place.suffix != ".json":
        return None
    return place if read_json(place).get("format") == "tacit-learned" else None


@keys.command("new")
def _new(directory: Annotated[Path, typer.Argument(help="Where private.pem and public.pem go.")]) -> None:
    """Make a key pair; existing keys are never overwritten."""
    from tacit.runs.signature import new_keys

    private, public = new_keys(directory)
    say(f"private key: {private} (keep it to yourself)")
    say(f"public key: {public} (readers pin it: tacit verify FILE --key {public.name})")


@keys.command("sign")
def _sign(
    file: Annotated[Path, typer.Argument(help="A bundle or a certificate (JSON), which is signed in place.")],
    key: Annotated[Path, typer.Option(help="The private key.")],
) -> None:
    """Sign a bundle or a certificate that is true; what is false is not signed."""
    from tacit.runs.signature import sign
    from tacit.runs.storage import read_json, write_json
    from tacit.runs.verify import verify

    content = read_json(file)
    found = verify(file) if "signature" not in content else None
    require(found is not None, f"{file} must not be signed yet", "a signature")
    require(found is not None and found.true, f"{file} must be true to be signed", "" if found is None else found.why)
    write_json(file, sign(content, key))
    say(f"signed: {file}")
