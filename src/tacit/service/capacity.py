"""Capacity of the services: bytes, CPU, disk, machines and stage time for so many devices, from measured unit costs.

    python -m tacit.service.capacity benchmarks/results/unit_costs.json > docs/operations/capacity.md

A stage is planned as a study plans it, so messages per device, lengths of bodies and noise are those of real designs;
the costs of its parts are measured (`python -m benchmarks unit_costs`), and everything else is multiplication:

    seconds of a part = devices x (units per device) x (CPU seconds per unit) / cores

Q1  A part is *full* at the share of what it may take: reports within the window, everything after it within the break
    between two stages. The part with the largest share breaks first.
Q2  Nothing is extrapolated that is not linear: where a part keeps a whole stage in memory it says how much.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from tacit.errors import InvalidInput, require, require_count
from tacit.service.sealing.envelope import envelope_size
from tacit.service.tokens.token import LENGTH as TOKEN
from tacit.study.channels.shuffle import ShuffleChannel
from tacit.study.design import plan_study
from tacit.study.sealed import message_size
from tacit.study.wire import Report

__all__ = ["Capacity", "Machine", "UnitCosts", "capacity", "page", "stage_channel"]

Kind = Literal["central", "local", "shuffle", "shuffle, mixed"]
KINDS: Final[tuple[Kind, ...]] = ("central", "local", "shuffle", "shuffle, mixed")
SIZES: Final = (10**4, 10**5, 10**6, 10**7, 10**8)
ROW: Final = 150
"""Bytes that a database keeps of a report beside its body: id, pseudonym, indexes."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
INTRODUCTION: Final = """\
What one stage takes, computed from measured unit costs (`python -m benchmarks unit_costs`, CPU of one core) and from
the lengths of real designs: four states, two actions, six steps, epsilon 1, delta 1e-6 (local: pure), tokens for
everybody. Every party has one machine with {cores} cores, {memory} of memory and {disk} of disk; devices report within
{window} hours, and {between} hour lies between two stages. *Fullness* is the share of that which the tightest part
needs; above 1 it needs so many machines, or so much more time."""
NOTES: Final = """\
What the numbers say, and what they leave out:

- Messages per device *fall* with the number of devices, because each adds less noise; work per device tends to that of
  its own data.
- **Opening** is the learner's work and scales with cores (`engine = "processes"`, or `"ray"` over machines): messages
  are opened and counted in pieces, in bounded memory. **Permuting** is one pass over the disk in bounded memory.
- **Taking in** is one process with one writer; devices should spread their reports over the window, or meet 429.
- **Counting** a stage that is not sealed (central, local) happens in memory: its bodies, and about 60 bytes for each.
- Network, TLS and the time of devices are not in the table; nor is PostgreSQL, whose disk is its own."""
HEAD: Final = (
    *("trust", "devices", "messages of a device", "upload", "CPU of a device", "taking in", "disk", "to the learner"),
    *("after the window", "fullness", "breaks first"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    """CPU seconds of one unit of work, as measured on one core."""

    encode_central: float
    encode_local: float
    encode_shuffle: float
    seal_message: float
    open_message: float
    seal_envelope: float
    ask_token: float
    sign_token: float
    verify_token: float
    take_report: float
    """What the shuffler's process does for one report without a token: HTTP, envelope, database, disk."""
    permute_message: float
    count_central: float
    count_local: float
    """The release of one report of an unsealed stage."""

    @classmethod
    def read(cls, path: str | Path) -> UnitCosts:
        """The costs in a file of `benchmarks/results`."""
        try:
            rows = json.loads(Path(path).read_text(encoding="utf-8"))["rows"]
            given = {row["name"].replace(" ", "_"): row["value"] for row in rows}
            return cls(**{field.name: float(given[field.name]) for field in fields(cls)})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path} must hold unit costs: {type(error).__name__}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one party has."""

    cores: int = 2
    disk: float = 100e9
    memory: float = 4e9
    window: float = DAY
    """Seconds in which devices report."""
    between: float = HOUR
    """Seconds between two stages, for release, opening and planning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a stage of so many devices takes."""

    kind: Kind
    devices: int
    messages: int
    """Messages of one device; 1 where a report is one."""
    upload: int
    """Bytes of one envelope."""
    device: float
    """CPU seconds of one device."""
    parts: Mapping[str, float]
    """The share of what each part may take; above 1 it is too much for one machine."""
    disk: float
    """Bytes that the shuffler keeps until the stage has ended."""
    batch: float
    """Bytes that travel from the shuffler to the learner."""
    intake: float
    """Seconds that the shuffler needs to take all reports in."""
    after: float
    """Seconds from the end of the window to the next plan."""

    @property
    def first(self) -> str:
        """The part that breaks first (Q1)."""
        return max(self.parts, key=lambda name: self.parts[name])

    @property
    def machines(self) -> int:
        """How many machines the tightest part needs."""
        return max(1, -(-int(1000 * self.parts[self.first]) // 1000))


def capacity(kind: Kind, devices: int, costs: UnitCosts, machine: Machine | None = None) -> Capacity:
    """What a stage takes: S = 4, A = 2, H = 6, epsilon 1, delta 1e-6 (local: pure), four stages, tokens."""
    require(kind in KINDS, f"kind must be one of {', '.join(KINDS)}", kind)
    n, has = require_count("devices", devices, least=100), machine or Machine()
    channel: Any = stage_channel(kind, n)
    layers = {"shuffle": 1, "shuffle, mixed": 2}.get(kind, 0)
    messages = channel.transport.report_size if isinstance(channel, ShuffleChannel) else 1
    body = messages * message_size(channel, layers) if layers else channel.body_size
    upload = envelope_size(TOKEN, len(Report(study=bytes(32), stage=0, id=bytes(16), body=b"").encode()) + body)
    encode = {"central": costs.encode_central, "local": costs.encode_local}.get(kind, costs.encode_shuffle)
    sealing = layers * messages * costs.seal_message
    device = encode + sealing + costs.seal_envelope + costs.ask_token
    intake = n * (costs.take_report + costs.verify_token)
    if layers:
        release, opened = n * messages * costs.permute_message, n * messages * costs.open_message
        learner = opened + n * costs.verify_token
        mixing = (opened + release) * (layers - 1)
        batch, memory = float(n * messages * message_size(channel, layers)), 64e6
    else:
        each = costs.count_central if kind == "central" else costs.count_local
        release, learner, mixing = n * each, 0.0, 0.0
        batch = float(n * body if kind == "local" else 0)
        memory = n * (body + 60.0)  # a stage that is not sealed is counted in memory (Q2)
    disk = float(n * (body + ROW + (TOKEN if layers else 0))) + batch
    after = release + mixing / has.cores + learner / has.cores
    parts = {
        "shuffler: reports": intake / has.window,  # one process writes
        "shuffler: release": release / has.between,
        "shuffler: disk": disk / has.disk,
        "shuffler: memory": memory / has.memory,
        "learner: opening": learner / (has.cores * has.between),
        "issuer: signing": n * costs.sign_token / (has.cores * has.window),
    }
    if layers == 2:
        parts["mixer: opening"] = mixing / (has.cores * has.between)
    return Capacity(
        kind=kind,
        devices=n,
        messages=messages,
        upload=upload,
        device=device,
        parts=parts,
        disk=disk,
        batch=batch,
        intake=intake,
        after=after,
    )


def stage_channel(kind: Kind, devices: int) -> Any:
    """The channel of the last stage of the page's study with so many people per stage."""
    trust: Any = kind.partition(",")[0]
    design = plan_study(
        states=("a", "b", "c", "d"),
        actions=("x", "y"),
        horizon=6,
        trust=trust,
        epsilon=1.0,
        delta=0.0 if trust == "local" else 1e-6,
        stages=4,
        target=devices,
    )
    return design.parts().channels[-1]


def page(costs: UnitCosts, machine: Machine | None = None) -> str:
    """The page about capacity, in Markdown."""
    has = machine or Machine()
    lines = [
        "# Capacity",
        "",
        "<!-- generated by python -m tacit.service.capacity benchmarks/results/unit_costs.json -->",
        "",
        *INTRODUCTION.format(
            cores=has.cores,
            memory=_bytes(has.memory),
            disk=_bytes(has.disk),
            window=f"{has.window / HOUR:g}",
            between=f"{has.between / HOUR:g}",
        ).splitlines(),
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---" * len(HEAD) + "|",
    ]
    for kind in KINDS:
        for devices in SIZES:
            row = capacity(kind, devices, costs, has)
            cells = (
                kind,
                f"{devices:,}",
                f"{row.messages}",
                _bytes(row.upload),
                f"{row.device * 1e3:.1f} ms",
                _time(row.intake),
                _bytes(row.disk),
                _bytes(row.batch) if row.batch else "1 release",
                _time(row.after),
                f"{row.parts[row.first]:.2g}",
                row.first,
            )
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *NOTES.splitlines(), "", "## Unit costs", "", "| unit | CPU |", "|---|---|"]
    lines += [
        f"| {field.name.replace('_', ' ')} | {getattr(costs, field.name) * 1e6:,.3g} us |"
        for field in fields(UnitCosts)
    ]
    return "\n".join(lines) + "\n"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def _time(seconds: float) -> str:
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


if __name__ == "__main__":
    require(len(sys.argv) == 2, "one argument must name the file of unit costs", len(sys.argv) - 1)
    sys.stdout.write(page(UnitCosts.read(sys.argv[1])))
