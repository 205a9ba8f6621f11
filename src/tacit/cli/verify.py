"""`tacit verify` and `tacit keys`: certificates for whoever does not trust their writer, and who vouches for them.

Exit codes of `verify`: 0 true, 1 false, 2 unreadable.
"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.common import AsJson, print_json, say
from tacit.errors import require

if TYPE_CHECKING:
    from tacit.runs.verify import Verdict

keys = typer.Typer(help="Keys that sign bundles, certificates and directories (Ed25519).", rich_markup_mode=None)


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
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A run, comparison, results, study, collector, bundle, policy or certificate."
        ),
    ],
    key: Annotated[Path | None, typer.Option(help="The public key that must have signed it.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of certificates.", callback=_schema, is_eager=True)
    ] = False,
    json: AsJson = False,
) -> None:
    """Derive a certificate again, check digests and signature, and say in one line whether it is true."""
    from tacit.runs.storage_paths import is_local, resolve_location
    from tacit.runs.verify import verify

    del schema  # it has answered already
    place = resolve_location(path)
    found = (_of_a_study(place, key) if is_local(place) else None) or verify(place, key=key)
    if json:
        print_json(found.to_dict())
    else:
        say(found.line)
    if not found.true:
        raise typer.Exit(1)


def _of_a_study(path: Path, key: Path | None) -> Verdict | None:
    """What is to be said about a party of a study or what it left behind, if that is what stands here."""
    from tacit.runs.storage import read_json
    from tacit.study.learn_files import verify_learned
    from tacit.study.verify import verify_collector, verify_policy, verify_study

    if (path / "study.db").is_file():
        return verify_study(path, key=key)
    if (path / "collector.db").is_file():
        return verify_collector(path, key=key)
    place = path / "learned.json" if path.is_dir() else path
    if not place.is_file() or place.suffix != ".json":
        return None
    kind = read_json(place).get("format")
    if kind == "tacit-study-policy":
        return verify_policy(place, key=key)
    return verify_learned(place, key=key) if kind == "tacit-learned" else None


@keys.command("new")
def _new(directory: Annotated[Path, typer.Argument(help="Where private.pem and public.pem go.")]) -> None:
    """Make a key pair; existing keys are never overwritten."""
    from tacit.runs.signature import new_keys

    private, public = new_keys(directory)
    say(f"private key: {private} (keep it to yourself)")
    say(f"public key: {public} (readers pin it: tacit verify FILE --key {public.name})")


@keys.command("sign")
def _sign(
    path: Annotated[
        Path,
        typer.Argument(
            help="A bundle or certificate (JSON), signed in place; or a directory, which gets signature.json."
        ),
    ],
    key: Annotated[Path, typer.Option(help="The private key.")],
) -> None:
    """Sign a bundle, a certificate, a run, a comparison or results that are true; what is false is not signed."""
    from tacit.runs.directory_signature import kept_signature, sign_directory
    from tacit.runs.signature import sign
    from tacit.runs.storage import read_json, write_json
    from tacit.runs.verify import verify

    content = kept_signature(path) if path.is_dir() else read_json(path)
    require("signature" not in content, f"{path} must not be signed yet", "a signature")
    found = verify(path)
    require(found.true, f"{path} must be true to be signed", found.why)
    if path.is_dir():
        path = sign_directory(path, key)
    else:
        write_json(path, sign(content, key))
    say(f"signed: {path}")
