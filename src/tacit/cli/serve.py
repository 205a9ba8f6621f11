"""`tacit serve`: the parties of a study over HTTP, one process each. Exit code 2: refused, nothing changed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tacit.cli.common import AsJson, print_json, say, tell
from tacit.errors import LARGEST_SEED, NotSupported, require_count

__all__ = ["register", "service_extra"]

serve = typer.Typer(help="Run the parties of a study as services over HTTP.", rich_markup_mode=None)
Config = Annotated[Path, typer.Argument(help="The configuration of the party (TOML).")]
EXTRA: Final = frozenset(
    (
        *("starlette", "uvicorn", "httpx", "msgspec", "sqlalchemy", "alembic", "jinja2", "prometheus_client"),
        *("cryptography", "anyio", "mako"),
    )
)
"""Packages of the extra `service`."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(serve, name="serve")


@contextmanager
def service_extra() -> Iterator[None]:
    """Say what to install where a package of the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in EXTRA:
            raise NotSupported(f"services need {missing}: install it with pip install 'tacit[service]'") from error
        if missing.startswith("psycopg"):
            raise NotSupported(f"this needs {missing}: install it with pip install 'tacit[postgres]'") from error
        if missing == "ray":
            raise NotSupported("this needs ray: install it with pip install 'tacit[ray]'") from error
        raise


def _run(party: str, config: Path) -> None:
    """Read the configuration, build the party and run it until it is asked to end."""
    with service_extra():
        from tacit.service.config import read_party
        from tacit.service.running import serve as run

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
    out: Annotated[Path, typer.Option(help="A new directory for the files of the parties.")] = Path("tacit-serve-demo"),
    trust: Annotated[str, typer.Option(help="central, shuffle or local.")] = "shuffle",
    devices: Annotated[int, typer.Option(help="How many simulated devices take part.")] = 2000,
    seed: Annotated[int, typer.Option(help="Moves the people; the noise cannot be seeded.")] = 0,
    json: AsJson = False,
) -> None:
    """Start all parties on loopback with simulated devices, and end with a learned policy."""
    require_count("devices", devices)
    require_count("seed", seed, 0, LARGEST_SEED)
    with service_extra():
        demo: Any = importlib.import_module("tacit.service.demo")
        found = demo.run_service_demo(out, trust=trust, devices=devices, seed=seed, say=None if json else tell)
    print_json(found) if json else say(str(found["line"]))


@serve.command("migrate")
def _migrate(
    database: Annotated[str, typer.Argument(help="The directory of a party, or a postgresql:// URL.")],
    json: AsJson = False,
) -> None:
    """Bring the tables of a party's database to the version of this tacit; nothing else does so."""
    with service_extra():
        from tacit.service.database import migrate

        found = [asdict(one) for one in migrate(database)]
    if json:
        print_json({"databases": found})
        return
    for one in found:
        done = "is up to date" if one["before"] == one["after"] else f"went from version {one['before']}"
        say(f"{one['where']}: the {one['kind']} {done} (version {one['after']})")


@serve.command("enrol")
def _enrol(
    people: Annotated[Path, typer.Argument(help="The enrolment list; begun where there is none.")],
    count: Annotated[int, typer.Option(help="How many people are new on it.", min=1)] = 1,
    json: AsJson = False,
) -> None:
    """Put people on an enrolment list: prints one credential for each, which is kept nowhere else."""
    require_count("count", count)
    with service_extra():
        lists: Any = importlib.import_module("tacit.service.tokens.enrolment").Enrolment
        made = (lists(people) if people.exists() else lists.new(people)).enrol(count)
    print_json({"credentials": made}) if json else say("\n".join(made))
