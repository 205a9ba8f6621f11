"""`tacit collect`: the trusted side of a study, in a directory of its own. Exit code 2: refused, nothing changed.

What is printed are numbers of reports; names of people and of their files are not.

`tacit device`: one person's side of a study. Exit code 2: refused, nothing changed, nothing sent.
"""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tacit.cli.common import (
    AsJson,
    Key,
    OutFile,
    Pinned,
    check_out,
    print_json,
    print_table,
    read_bytes,
    say,
    tell,
    write_bytes,
)
from tacit.errors import InvalidInput, require
from tacit.runs.storage_paths import write_private

if TYPE_CHECKING:
    from tacit.study.collector import Collector


collect = typer.Typer(help="Collect reports of real people: the trusted side of a study.", rich_markup_mode=None)
Directory = Annotated[Path, typer.Argument(help="The directory of the collector.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(collect, name="collect")
    app.add_typer(device, name="device")


@collect.command("new")
def _new(
    directory: Directory,
    design: Annotated[Path, typer.Option(help="The design of the study: design.json of its directory.")],
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Simulation noise without protection, for simulated people only.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Derive the certificate of a design, reserve its budget in a new ledger, and be ready to open the first stage."""
    from tacit.study.collector import Collector
    from tacit.study.contract import read_design_file

    made = Collector.new(directory, read_design_file(design), noise="simulation" if rehearsal else "secure")
    if json:
        print_json(made.status())
        return
    say(made.certificate().describe())
    say(f"collector: {directory}; keep {directory / 'people.key'} secret, and back the directory up as a whole")


@collect.command("open")
def _open(
    directory: Directory,
    bundle: Annotated[Path, typer.Argument(help="The bundle of the stage, by 'tacit study plan'.")],
    key: Pinned = None,
    json: AsJson = False,
) -> None:
    """Open the stage of a bundle, or ask the people of the closed stage its next question."""
    from tacit.study.collector import Collector

    stage = Collector(directory, learner=key).open(read_bytes(bundle))
    print_json({"stage": stage}) if json else say(f"stage {stage} is open")


@collect.command("add")
def _add(
    directory: Directory,
    files: Annotated[
        list[Path],
        typer.Argument(help="Reports (.tcr), directories of them, or a log (.csv, .parquet; central trust)."),
    ],
    person: Annotated[
        str | None, typer.Option(help="Whose report it is, for a single one; else the name of the file says so.")
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option(help="The public mapping of a log, if its columns and names are not the design's.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Take reports in; what is refused is counted by reason. Exit code 2 if every report was refused."""
    from tacit.runs.progress import progress_bar
    from tacit.study.collector import Collector, summary

    collector = Collector(directory)
    found = [part for path in files for part in _inside(path)]
    require(bool(found), "there must be reports to add", "none")
    require(person is None or len(found) == 1, "--person is for a single report", len(found))
    for number, path in enumerate(found, start=1):
        # Names of files are names of people, so none is quoted.
        place = f"file {number} of {len(found)}"
        require(path.suffix in READERS, f"reports must be files of the kind {', '.join(READERS)}", place)
        require(path.is_file() and os.access(path, os.R_OK), "reports must be files that can be read", place)
    asked = Asked(person=person, mapping=mapping)
    with progress_bar(len(found), "reports", show=not json) as advance:
        sources = [READERS[path.suffix](collector, path, asked) for path in found]
        reports = (report for source in sources for report in source)
        counts = summary(collector.add_many(reports, advance))
    if json:
        print_json(counts)
    else:
        say(f"counted {counts['counted']}, there already {counts['again']}")
        for reason, count in counts["refused"].items():
            tell(f"refused {count}: {_words(reason)}")
    if counts["refused"] and not counts["counted"] and not counts["again"]:
        raise typer.Exit(2)


@collect.command("close")
def _close(directory: Directory, json: AsJson = False) -> None:
    """Close the stage: its reports are fixed, later ones are late."""
    from tacit.study.collector import Collector

    n = Collector(directory).close()
    print_json({"reports": n}) if json else say(f"closed with {n} reports")


@collect.command("release")
def _release(
    directory: Directory,
    head: Annotated[
        str,
        typer.Option(
            help="What 'tacit study status' of the learner prints; an unknown head stops the collector for good."
        ),
    ],
    out: OutFile = None,
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Release the closed stage, once: asked again, the same bytes come out and nothing is drawn."""
    from tacit.study.collector import Collector
    from tacit.study.contract import Head
    from tacit.study.wire import ReleasePayload, sha256

    collector = Collector(directory, key=key)
    check_out(out, collector.stored())
    data = collector.release(Head.from_text(head))
    made = ReleasePayload.parse(data)
    target = out or directory / f"release-{made.stage}-{made.question}.tcl"
    write_bytes(target, data)
    plain = {
        "stage": made.stage,
        "question": made.question,
        "reports": made.people,
        "noise": made.noise,
        "digest": sha256(data).hex(),
        "file": str(target),
        "signature": made.examined(None).words,
    }
    if json:
        print_json(plain)
        return
    say(f"released: {target} (stage {made.stage}, {made.people} reports, {made.noise} noise, {plain['signature']})")


@collect.command("void")
def _void(
    directory: Directory,
    reason: Annotated[str, typer.Option(help="Why, for the ledger.")] = "given up",
    json: AsJson = False,
) -> None:
    """Give the stage up: nothing is released, its reports are erased."""
    from tacit.study.collector import Collector

    collector = Collector(directory)
    collector.void(reason)
    print_json(collector.status()) if json else say("the stage is void; nothing was released")


@collect.command("status")
def _status(directory: Directory, json: AsJson = False) -> None:
    """Stages, refusals and what was spent."""
    from tacit.study.collector import Collector

    found = Collector(directory).status()
    if json:
        print_json(found)
        return
    state = found["state"] if found["stopped"] is None else f"stopped for good, without record {found['stopped']}"
    say(f"{found['name']} ({found['trust']} trust, {found['noise']} noise): {state}")
    for what, words in found["declared"].items():
        say(f"{what}: {words}")
    rows = [[str(row[name]) for name in ("stage", "state", "reports", "least", "target")] for row in found["stages"]]
    print_table(["stage", "state", "reports", "least", "target"], rows, numeric=(0, 2, 3, 4))
    for reason, count in found["refused"].items():
        say(f"refused {count}: {_words(reason)}")
    spent, budget = found["spent"], found["budget"]
    say(f"spent: epsilon {spent['epsilon']:g} of {budget['epsilon']:g}, at delta {budget['delta']:g}")


@collect.command("certificate")
def _certificate(directory: Directory, json: AsJson = False) -> None:
    """What is promised, derived anew from the design, and what the finished stages cost."""
    from tacit.study.collector import Collector

    collector = Collector(directory)
    found, realised = collector.certificate(), collector.realised()
    if json:
        print_json({"certificate": found.to_dict(), "realised": realised})
        return
    say(found.describe())
    for row in realised:
        say(f"stage {row['stage']}: {row['reports']} reports, epsilon {row['epsilon']:.4g} for one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was said about the files: whose report it is, and how a log is to be read."""

    person: str | None
    mapping: Path | None


def _report_file(collector: Collector, path: Path, asked: Asked) -> Iterator[tuple[bytes, str]]:
    """One report in a file; its name says whose it is."""
    require(asked.mapping is None, "--mapping is for logs", "a report")
    yield read_bytes(path), path.stem if asked.person is None else asked.person


def _log_file(collector: Collector, path: Path, asked: Asked) -> Iterator[tuple[bytes, str]]:
    """A log of episodes, checked as a whole before its first report is made."""
    from tacit.study.episodes import log_reports

    require(asked.person is None, "--person is for a single report; a log names its people itself", "a log")
    return log_reports(collector, path, asked.mapping)


Reader = Callable[["Collector", Path, Asked], Iterator[tuple[bytes, str]]]
READERS: Final[Mapping[str, Reader]] = {".tcr": _report_file, ".csv": _log_file, ".parquet": _log_file}
"""How files are read, by suffix: each gives reports and whose they are."""


def _inside(path: Path) -> list[Path]:
    """The reports of a directory, or the file itself."""
    if path.is_dir():
        return sorted(part for part in path.iterdir() if part.suffix == ".tcr")
    return [path]


def _words(reason: str) -> str:
    from tacit.study.intake import REASONS

    words: Any = REASONS.get(reason, reason)
    return str(words)


device = typer.Typer(help="Report to a study: what runs where a person's data are.", rich_markup_mode=None)
BundleFile = Annotated[Path, typer.Argument(help="The bundle of the stage.")]
State = Annotated[Path, typer.Option(help="Where the device keeps what it has seen and sent.")]
Cap = Annotated[float, typer.Option(help="The largest epsilon that this person accepts, over the whole study.")]
Floor = Annotated[int, typer.Option(help="The fewest people among whom this person reports.")]
Unsigned = Annotated[bool, typer.Option("--unsigned", help="Instead of a key: take any bundle (for rehearsals).")]


@device.command("report")
def _report(
    bundle: BundleFile,
    trajectory: Annotated[Path, typer.Argument(help="JSON with states, actions and rewards, by name or number.")],
    state: State,
    cap: Cap,
    floor: Floor,
    out: OutFile = None,
    key: Pinned = None,
    unsigned: Unsigned = False,
    json: AsJson = False,
) -> None:
    """Encode one trajectory for the stage of a bundle; asked again, the same report comes out."""
    from tacit.study.bundle import Bundle
    from tacit.study.device import trajectory_from

    made = _device(state, cap, floor, key, unsigned)
    found, data = _trajectory(trajectory), read_bytes(bundle)
    trajectory_from(Bundle.parse(data), found)  # refused before anything is kept
    check_out(out, made.sent())
    made.accept(data)
    _send(made, made.report(found), state, out, json)


@device.command("cover")
def _cover(
    bundle: BundleFile,
    state: State,
    cap: Cap,
    floor: Floor,
    out: OutFile = None,
    key: Pinned = None,
    unsigned: Unsigned = False,
    json: AsJson = False,
) -> None:
    """Make a report that says nothing and looks like any other."""
    made = _device(state, cap, floor, key, unsigned)
    data = read_bytes(bundle)
    check_out(out, made.sent())
    made.accept(data)
    _send(made, made.cover(), state, out, json)


def _device(state: Path, cap: float, floor: int, key: Path | None, unsigned: bool) -> Any:
    from tacit.study.device import Device

    hint = "give --key with the learner's public key, or --unsigned in a rehearsal"
    require((key is None) == unsigned, "a device must have either a key or --unsigned", "both or none", hint)
    return Device(state, cap=cap, floor=floor, key=key)


def _trajectory(path: Path) -> Any:
    try:
        return json_module.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("a trajectory must be JSON with states, actions and rewards") from error


def _send(made: Any, report: bytes, state: Path, out: Path | None, json: bool) -> None:
    stage = made.bundle["stage"]
    target = out or state / f"report-{stage}.tcr"
    check_out(target, report)
    write_private(target, report)
    plain = {"stage": stage, "bytes": len(report), "file": str(target)}
    print_json(plain) if json else say(f"report of stage {stage}: {target} ({len(report)} bytes)")
