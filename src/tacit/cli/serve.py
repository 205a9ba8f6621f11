"""`tacit serve`: the parties of a study over HTTP, one process each. Exit code 2: refused, nothing changed.

`tacit doctor`: whether a party of a study can run. Exit code 0: it can, 1: a check failed, 2: your input.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tacit.cli.common import AsJson, print_json, print_table, say, tell
from tacit.errors import LARGEST_SEED, NotSupported, install_hint, require_count

serve = typer.Typer(help="Run the parties of a study as services over HTTP.", rich_markup_mode=None)
Config = Annotated[Path, typer.Argument(help="The configuration of the party (TOML).")]
EXTRA: Final = frozenset(
    (
        *("starlette", "uvicorn", "httpx", "msgspec", "sqlalchemy", "jinja2", "prometheus_client"),
        *("cryptography", "gmpy2", "anyio", "mako"),
    )
)
"""Packages of the extra `service`."""
MAX_ENROLLED: Final = 10**7


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(serve, name="serve")
    app.command("doctor")(_doctor)


@contextmanager
def service_extra() -> Iterator[None]:
    """Say what to install where a package of the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in EXTRA:
            raise NotSupported(f"services need {missing}: install it with {install_hint('service')}") from error
        if missing.startswith("psycopg"):
            raise NotSupported(f"this needs {missing}: install it with {install_hint('postgres')}") from error
        if missing == "ray":
            raise NotSupported(f"this needs ray: install it with {install_hint('ray')}") from error
        raise


def _run(party: str, config: Path) -> None:
    """Read the configuration, build the party and run it until it is asked to end."""
    with service_extra():
        from tacit.service.config import read_party
        from tacit.service.server import serve as run

        made: Any = importlib.import_module(f"tacit.service.{party}").party(read_party(config, party))
        code = run(made)
    if code:
        raise typer.Exit(code)


@serve.command("learner")
def _learner(config: Config) -> None:
    """Plan, ask and learn: the study, and a worker that talks to the shuffler."""
    _run("learner", config)


@serve.command("shuffler")
def _shuffler(config: Config) -> None:
    """Take reports of devices, close stages and release them: the party that the claim trusts."""
    _run("shuffler", config)


@serve.command("issuer")
def _issuer(config: Config) -> None:
    """Hand out unlinkable tokens to the persons who may report."""
    _run("issuer", config)


@serve.command("mixer")
def _mixer(config: Config) -> None:
    """Mix a sealed batch a second time."""
    _run("mixer", config)


@serve.command("demo")
def _demo(
    people: Annotated[int, typer.Option(help="How many simulated people take part.")] = 2000,
    trust: Annotated[str, typer.Option(help="central, shuffle or local.")] = "shuffle",
    epsilon: Annotated[float, typer.Option(help="What a person may lose.")] = 2.0,
    database: Annotated[str | None, typer.Option(help="postgresql://...; SQLite files by default.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="A new directory to keep the files of the parties in; none are kept by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Moves the people; the noise cannot be seeded.")] = 0,
    stay: Annotated[bool, typer.Option("--stay", help="Serve the dashboard until Enter is pressed.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Serve a page on which you play and take part in the first stage.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Start shuffler, issuer and learner on loopback with simulated devices, and end with a learned policy.

    Prints the address of a dashboard that shows the study while it runs. With --page the first stage waits for you, and
    there is no issuer: a browser has no blind tokens.
    """
    require_count("people", people)
    require_count("seed", seed, 0, LARGEST_SEED)
    with service_extra():
        from tacit.service.demo import run_service_demo

        found = run_service_demo(
            keep,
            trust=trust,
            epsilon=epsilon,
            people=people,
            seed=seed,
            database=database,
            dashboard=not json or stay,
            wait=_until_enter if stay else None,
            person=_visit if page else None,
            say=None if json and not stay else tell,
        )
    if json:
        print_json(found.to_dict())
        return
    steps = [f"step {h}" for h in range(found.design.horizon)]
    print_table(["state", *steps], [list(row) for row in found.policy.table()])
    say(found.certificate.describe())
    rows = [
        [
            str(row["stage"]),
            str(row["reports"]),
            *(f"{row[name]:.3f}" for name in ("epsilon", "mean_return", "seconds")),
        ]
        for row in found.stages
    ]
    head = ["stage", "reports", "epsilon of a report", "mean return (simulation only)", "seconds"]
    print_table(head, rows, numeric=range(len(head)))
    counted = sum(row["reports"] for row in found.stages)
    say(f"{counted} reports, {found.per_second:.0f} per second while devices sent; {found.seconds:.0f} seconds in all")


def _until_enter() -> None:
    tell("the study is over; press Enter to end its dashboard")
    sys.stdin.readline()


def _visit(url: str) -> None:
    tell(f"page: {url}")
    tell("play, take part, and press Enter: the first stage is open until then")
    sys.stdin.readline()


@serve.command("dashboard")
def _dashboard(
    places: Annotated[
        list[Path],
        typer.Argument(help="A study's directory, a collector's, or the configuration (TOML) of learner or shuffler."),
    ],
    host: Annotated[str, typer.Option(help="Where to listen; beyond loopback only behind TLS.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 lets the kernel choose.", min=0, max=65_535)] = 0,
    secrets: Annotated[
        Path | None,
        typer.Option(help="The directory of the two tokens; 'dashboard' beside the first place by default."),
    ] = None,
    ready: Annotated[
        Path | None, typer.Option(help="A file to write the address to, as JSON, once it listens.")
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="People are simulated: mark what is learned of them.")
    ] = False,
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="A proxy with TLS stands in front: cookies are for HTTPS only.")
    ] = False,
) -> None:
    """Show a study while it runs: to operators, privacy officers and learners, and nobody's data to anybody."""
    with service_extra():
        from tacit.service.dashboard.app import dashboard_party
        from tacit.service.server import serve as run

        code = run(
            dashboard_party(
                places,
                host=host,
                port=port,
                secrets=secrets,
                ready=ready,
                simulated=simulated,
                behind_tls=behind_tls,
                say=say,
            )
        )
    if code:
        raise typer.Exit(code)


@serve.command("enrol")
def _enrol(
    people: Annotated[Path, typer.Argument(help="The enrolment list; begun where there is none.")],
    count: Annotated[int, typer.Option(help="How many people are new on it.", min=1)] = 1,
    json: AsJson = False,
) -> None:
    """Put people on an enrolment list: prints one credential for each, which is kept nowhere else."""
    require_count("count", count, 1, MAX_ENROLLED)
    with service_extra():
        lists: Any = importlib.import_module("tacit.service.tokens.admission").Enrolment
        made = (lists(people) if people.exists() else lists.new(people)).enrol(count)
    print_json({"credentials": made}) if json else say("\n".join(made))


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
