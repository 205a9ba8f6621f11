"""`tacit device`: one person's side of a study. Exit code 2: refused, nothing changed, nothing sent."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.common import AsJson, OutFile, Pinned, check_out, print_json, read_bytes, say
from tacit.errors import InvalidInput, require
from tacit.runs.storage_paths import write_private

device = typer.Typer(help="Report to a study: what runs where a person's data are.", rich_markup_mode=None)
BundleFile = Annotated[Path, typer.Argument(help="The bundle of the stage.")]
State = Annotated[Path, typer.Option(help="Where the device keeps what it has seen and sent.")]
Cap = Annotated[float, typer.Option(help="The largest epsilon that this person accepts, over the whole study.")]
Floor = Annotated[int, typer.Option(help="The fewest people among whom this person reports.")]
Unsigned = Annotated[bool, typer.Option("--unsigned", help="Instead of a key: take any bundle (for rehearsals).")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(device, name="device")


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
