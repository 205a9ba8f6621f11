"""`tacit certificate`: the certificate of whatever tacit wrote, in another notion or form; only of what verifies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tacit.cli.certify import NOTIONS
from tacit.cli.common import AsJson, OutFile, print_json, say, write_bytes
from tacit.errors import InvalidInput, UnknownName, require

if TYPE_CHECKING:
    from tacit.accounting.certificate import Certificate

FORMATS: Final = ("registry",)
FROM_LOGS: Final = ("learned from a log", "evaluation on a log")
Source = Annotated[Path, typer.Argument(metavar="PATH", help="Whatever 'tacit verify' takes.")]

certificate = typer.Typer(help="Certificates in other notions and forms.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(certificate, name="certificate")


@certificate.command("show")
def _show(
    path: Source,
    notion: Annotated[str, typer.Option(help="dp: epsilon and delta; zcdp: rho and the Rényi form, too.")] = "dp",
    json: AsJson = False,
) -> None:
    """Print the certificate of a run, study, collector, release from a log or document that verifies."""
    if notion not in NOTIONS:
        raise UnknownName("notion", notion, NOTIONS)
    found = certificate_of(path)[0]
    form = found.concentrated() if notion == "zcdp" else None
    if json:
        print_json({"certificate": found.to_dict(), **({} if form is None else {"zcdp": form.to_dict()})})
        return
    say(found.describe())
    if form is not None:
        say(form.describe())


@certificate.command("export")
def _export(
    path: Source,
    form: Annotated[str, typer.Option("--format", help="registry: an entry of the DP Deployments Registry, in YAML.")],
    name: Annotated[str, typer.Option(help="The name of the data product.")],
    curator: Annotated[str, typer.Option(help="The organization that publishes it.")],
    use: Annotated[str, typer.Option(help="What it is intended for.")],
    region: Annotated[str, typer.Option(help="The region that the data are from, or whose law applies.")],
    date: Annotated[str, typer.Option(help="The day of publication, YYYY-MM-DD.")],
    author: Annotated[str, typer.Option(help="Who filled in the entry.")],
    sector: Annotated[str | None, typer.Option(help="Technology, Healthcare, Education, Government, ...")] = None,
    out: OutFile = None,
    json: AsJson = False,
) -> None:
    """Write an entry for the Differential Privacy Deployments Registry; the curator states what no file knows."""
    from tacit.accounting.registry_entry import Curator, registry_entry, to_yaml

    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS)
    known = Curator(name=name, curator=curator, use=use, region=region, date=date, author=author, sector=sector)
    found, kind = certificate_of(path, deployed=True)
    entry = registry_entry(found, known, static=kind in FROM_LOGS, policy=kind != FROM_LOGS[1])
    text = to_yaml(entry)
    if out is not None:
        write_bytes(out, (text + "\n").encode())
    if json:
        print_json(entry)
    else:
        say(text if out is None else f"written: {out}")


def certificate_of(path: Path, *, deployed: bool = False) -> tuple[Certificate, str]:
    """The certificate of something that verifies, and what kind of thing it is; of a deployment signed by its party."""
    from tacit.accounting.certificate import Certificate
    from tacit.runs.storage import RunDirectory, read_json
    from tacit.runs.verify import BUNDLE, verify_file
    from tacit.study.collector import Collector
    from tacit.study.databases import FILES
    from tacit.study.learn_files import LEARNED
    from tacit.study.study import Study
    from tacit.study.verify import verify

    # What a bundle says of its policy is not shown.
    bundle = not deployed and path.is_file() and read_json(path).get("format") == BUNDLE[0]
    found = verify_file(path, unsigned=True) if bundle else verify(path)
    require(found.true, f"{path} must verify", f"{found.outcome}: {found.why}")
    signed = not (deployed and found.unsigned_by)
    require(signed, f"{path} must be signed by its {found.unsigned_by}, who drew its noise", "no such signature")
    if (path / FILES["study"]).is_file():
        return Study(path).certificate(), found.kind
    if (path / FILES["collector"]).is_file():
        return Collector(path).certificate(), found.kind
    content: dict[str, Any]
    if path.is_dir() and (path / LEARNED).is_file():
        content = read_json(path / LEARNED)
    elif path.is_dir() and RunDirectory(path).begun:
        content = RunDirectory(path).privacy()
    elif path.is_dir():
        raise InvalidInput(f"{path} must have one certificate: expected a run, study or release, got a {found.kind}")
    else:
        content = read_json(path)
    stated = content.get("certificate", content)
    return Certificate.from_dict({name: part for name, part in stated.items() if name != "digest"}), found.kind
