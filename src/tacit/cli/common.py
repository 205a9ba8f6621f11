"""What every command shares: where lines go, how results are shown, what an interruption leaves behind."""

from __future__ import annotations

import contextlib
import json as json_module
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tacit.cli.failures import INTERRUPTED, Failed, as_json, tell
from tacit.documents import parse_json, vouched
from tacit.errors import InvalidInput, TacitError, require
from tacit.runs.storage_paths import check_writable, write_whole, writing_to

Key: TypeAlias = Annotated[Path | None, typer.Option(help="The private key that signs (see 'tacit keys new').")]
Pinned: TypeAlias = Annotated[Path | None, typer.Option(help="The public key that must have signed.")]
OutFile: TypeAlias = Annotated[Path | None, typer.Option(help="The file to write.")]
LARGEST = 2**30


def read_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        require(path.stat().st_size <= LARGEST, "a file must have at most 1 GiB", "more")
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} must be a readable file: {error.strerror}") from error


def check_out(path: Path | None, made: bytes) -> None:
    """Refuse a file that could not be written before anything happens; `made` is what may stand in it already."""
    if path is None:
        return
    check_writable(path.parent)
    if path.exists():
        require(path.is_file() and path.read_bytes() == made, f"{path} must be new or the same", "another file")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; one that is there must be the same."""
    check_out(path, content)
    if path.exists():
        return
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


def read_json_file(path: Path) -> Any:
    """What stands in a JSON file."""
    return parse_json(read_bytes(path), str(path))


if TYPE_CHECKING:
    from tacit.runs.comparison import Comparison
    from tacit.runs.result import Result

__all__ = [
    "Address",
    "AsJson",
    "DryRun",
    "Engine",
    "Out",
    "Workers",
    "command_line",
    "print_comparison",
    "print_json",
    "print_results",
    "print_table",
    "resumable",
    "say",
    "schema_flag",
    "tell",
]

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
Workers: TypeAlias = Annotated[int | None, typer.Option(help="Processes; one per core and seed at most by default.")]
Engine: TypeAlias = Annotated[str, typer.Option(help="Where it runs: local, or ray for a Ray cluster.")]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(help="With --engine ray: HOST:PORT of a cluster that runs, or auto; one is started by default."),
]
DryRun: TypeAlias = Annotated[
    bool,
    typer.Option("--dry-run", help="Print estimated memory, noise and the certificate, and run nothing."),
]
Out: TypeAlias = Annotated[
    str | None, typer.Option(metavar="PATH", help="The directory of the results, or a URL (s3://...); resumable.")
]


def schema_flag(what: str, module: str, function: str) -> Any:
    """The option `--schema`, which prints the JSON Schema that a function returns, and ends the command."""

    def shown(wanted: bool) -> None:
        if wanted:
            say(json_module.dumps(getattr(import_module(module), function)(), indent=2))
            raise typer.Exit

    return typer.Option("--schema", help=f"Print the JSON Schema of {what}.", callback=shown, is_eager=True)


def say(line: str) -> None:
    """A line of the answer, on stdout."""
    typer.echo(line)


def command_line(context: typer.Context) -> str:
    """The command as it was typed."""
    return shlex.join(["tacit", *(context.obj or sys.argv[1:])])


def print_json(content: Mapping[str, Any]) -> None:
    """One JSON object on stdout: valid (no NaN, no Infinity) and complete; one with a certificate has a digest."""
    typer.echo(as_json(vouched(content) if "certificate" in content else content))


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = ()) -> None:
    """A plain table on stdout."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    right = set(numeric)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, title in enumerate(head):
        table.add_column(title, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def print_results(results: Sequence[Result]) -> None:
    """The table of a comparison; live worlds, which have returns and no regret, have one of their own."""
    from tacit.accounting.wording import shown_up

    _print_live([result for result in results if result.returns])
    for result in results:
        for trial in result.trials:
            say(f"{result.label}, seed {trial.seed}: {trial.lines[0]}")
    results = [result for result in results if not result.returns]
    if not results:
        return
    several = len({result.config.environment_name for result in results}) > 1
    rows = []
    for result in results:
        spread, relative = result.spread(), result.relative_regret
        row = [
            result.label,
            result.claim.trust,
            "-" if result.claim.trust == "none" else shown_up(result.certificate.epsilon),
            f"{spread.mean:,.1f} ± {spread.std:,.1f}",
            "-" if relative is None else f"{relative:.3f}",
            f"{result.seconds_per_episode * 1e6:.3g}",
        ]
        rows.append([result.config.environment_name, *row] if several else row)
    head = ["run", "trust", "certified ε", "regret (simulation only)", "share of uniform's", "µs/episode"]
    shift = 1 if several else 0
    print_table(["environment", *head] if several else head, rows, numeric=[i + shift for i in (2, 3, 4, 5)])


def print_comparison(comparison: Comparison, figures: Sequence[Path], *, json: bool) -> None:
    """The table, what ran at which size, the certificates and the figures."""
    if json:
        content: dict[str, Any] = comparison.to_json()
        print_json({**content, "figures": [str(figure) for figure in figures]})
        return
    at = "" if comparison.scale is None else f" at scale {comparison.scale}"
    say(f"{comparison.name}{at}:")
    for result in comparison:
        size = f"{result.config.episodes:,} episodes, {len(result.seeds)} seeds"
        say(f"  {result.config.environment_name}: {result.label} ({size})")
    print_results(comparison.results)
    words: dict[str, list[str]] = {}
    for result in comparison:
        words.setdefault(result.privacy_words, []).append(result.label)
    for text, labels in words.items():
        say(f"privacy of {', '.join(dict.fromkeys(labels))}: {text}")
    for figure in figures:
        say(f"figure: {figure}")


def _print_live(results: Sequence[Result]) -> None:
    """The returns of live worlds (simulation only), beside the baseline where there is one."""
    from tacit.accounting.wording import shown_up
    from tacit.runs.returns_report import RETURN_HEAD, return_cells

    if not results:
        return
    compared = any(result.against is not None for result in results)
    rows = []
    for result in results:
        certified = "-" if result.claim.trust == "none" else shown_up(result.certificate.epsilon)
        against = result.against
        more = [] if not compared else ["-" if against is None else against.final.words]
        rows.append([result.config.environment_name, result.label, certified, *return_cells(result), *more])
    head = ["environment", "run", "certified ε", *RETURN_HEAD, *(["final - baseline"] if compared else [])]
    say("returns (simulation only), with 95% intervals:")
    print_table(head, rows, numeric=range(2, len(head)))


@contextlib.contextmanager
def resumable(directory: Path | None) -> Iterator[None]:
    """Turn an interruption or a failed seed into its exit code, and say what is kept."""
    from tacit.runs.schedule import SeedFailed

    kept = (
        "nothing was kept (give --out to be able to resume)"
        if directory is None
        else f"finished seeds are kept in {directory}; the same command resumes"
    )
    try:
        yield
    except KeyboardInterrupt:
        raise Failed(kept, kind="interrupted", exit_code=INTERRUPTED, line=f"interrupted: {kept}") from None
    except SeedFailed as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, TacitError):
            traceback.print_exception(error.__cause__)
        raise Failed(f"{error}; {kept}", kind="seed-failed", exit_code=1) from None
