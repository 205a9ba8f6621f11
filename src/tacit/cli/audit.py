"""`tacit audit`: attack a guarantee instead of believing it.

Exit code 1 means that something was refuted: a certificate, or a claim (with `--all`: a claim that no paper printed,
since what the papers print is in the table to be refuted), or that a planted bug went unnoticed.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tacit.cli.common import Address, AsJson, Engine, command_line, print_json, print_table, say
from tacit.cli.failures import INTERRUPTED, Failed
from tacit.engines import check_engine
from tacit.errors import InvalidInput, NotSupported, require

if TYPE_CHECKING:
    from tacit.accounting.claims import Trust
    from tacit.checks.attack import Finding
    from tacit.checks.record import AuditRecord
    from tacit.protocol import Constants

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(_audit)


def _audit(
    context: typer.Context,
    learner: Annotated[str | None, typer.Option(help="Attack a whole learner; needs --trust.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Attack a mechanism, or with --trust a privatizer.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Attack everything; a table.")] = False,
    mutations: Annotated[bool, typer.Option("--mutations", help="Plant bugs, and see who catches them.")] = False,
    trust: Annotated[str | None, typer.Option(help="central, shuffle or local.")] = None,
    epsilon: Annotated[float, typer.Option(help="The claim's epsilon.")] = 1.0,
    delta: Annotated[
        float | None,
        typer.Option(
            help="The claim's delta; with --all that of whatever cannot be pure. Planted bugs bring their own."
        ),
    ] = None,
    environment: Annotated[str | None, typer.Option(help="Where the learner runs; a small world by default.")] = None,
    episodes: Annotated[int | None, typer.Option(help="How many users come.")] = None,
    calibration: Annotated[str, typer.Option(help="tight, or paper: the noise as printed.")] = "tight",
    constants: Annotated[str | None, typer.Option(help="The widths of the learner, valid for instance.")] = None,
    trials: Annotated[int, typer.Option(help="Trials of a mechanism; others take a public share of them.")] = 1_000_000,
    false_alarm: Annotated[float, typer.Option(help="The probability that any row is refuted by mistake.")] = 0.01,
    seed: Annotated[int, typer.Option(help="The seed of all trials.")] = 0,
    workers: Annotated[int | None, typer.Option(help="With --engine ray: rows at once.")] = None,
    engine: Engine = "local",
    address: Address = None,
    out: Annotated[str | None, typer.Option(metavar="PATH", help="The directory of the audit; resumable.")] = None,
    json: AsJson = False,
) -> None:
    """Attack what is claimed: claimed, certified and attacked epsilon, and a verdict."""
    from tacit.checks.mutations import MUTATIONS, ORIGINALS
    from tacit.checks.record import AuditRecord, AuditSettings
    from tacit.checks.resume import run_mutations, run_rows
    from tacit.checks.suite import PLACES, alarming
    from tacit.runs.places import is_local, place_of
    from tacit.runs.progress import progress_bar

    asked = sum([learner is not None, learner is None and mechanism is not None, everything, mutations])
    require(
        asked == 1 or (asked == 2 and everything and mutations),
        "say what to attack: --learner NAME, --mechanism NAME, --all or --mutations",
        "nothing" if asked == 0 else "several",
    )
    require(calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", calibration)
    if delta is None and not (mutations and not everything):
        raise InvalidInput(
            "a claim needs a delta, which has no default: say --delta 1e-6, for instance, or --delta 0 for pure "
            "differential privacy (with --all it is claimed by whatever cannot be pure; what can claims 0)"
        )
    if everything:
        require(delta != 0.0, "delta must be above 0 for --all: some of what is attacked cannot be pure", delta)
    check_engine(engine, address=address)
    directory = None if out is None else place_of(out)
    if directory is not None and not is_local(directory):
        raise NotSupported("an audit is kept in a directory of this machine; copy it from there")
    where = {"engine": engine, "address": address, "workers": workers}
    settings = AuditSettings(epsilon=epsilon, delta=delta, trials=trials, false_alarm=false_alarm, seed=seed)
    record = AuditRecord(settings=settings, command=command_line(context))
    if everything or learner is not None or mechanism is not None:
        rows = _rows(learner, mechanism, trust, settings, environment, episodes, calibration, constants)
        with progress_bar(len(rows), "attacking", show=not json) as progress:
            record = _kept(run_rows, directory, where | {"places": PLACES if everything else 0}, rows, record, progress)
    if mutations:
        with progress_bar(len(MUTATIONS) + len(ORIGINALS), "planting bugs", show=not json) as progress:
            record = _kept(run_mutations, directory, where, record, progress)
    if directory is not None:
        record.save(directory)
    found = record.findings
    wrong: list[Finding] = list(alarming(found)) if everything else [f for f in found if f.verdict != "holds"]
    unnoticed = [name for name, caught in record.mutations.items() if not caught.by]
    flagged = [name for name, caught in record.originals.items() if caught.by]
    if json:
        print_json(record.to_dict() | {"refuted": [f.name for f in wrong], "unnoticed": unnoticed, "flagged": flagged})
    else:
        _show(record, wrong, unnoticed, flagged, directory)
    if wrong or unnoticed or flagged:
        raise typer.Exit(1)


def _rows(
    learner: str | None,
    mechanism: str | None,
    trust: str | None,
    settings: Any,
    environment: str | None,
    episodes: int | None,
    calibration: str,
    constants: str | None,
) -> dict[str, Any]:
    from tacit.checks.release_rows import mechanism_row, privatizer_row
    from tacit.checks.suite import all_rows, learner_row

    epsilon, delta = settings.epsilon, settings.delta
    if learner is not None:
        if trust is None:
            raise InvalidInput("a learner makes a claim under a trust model: say --trust central, shuffle or local")
        asked: dict[str, Any] = {
            "environment": environment,
            "episodes": episodes,
            "mechanism": mechanism,
            "calibration": calibration,
            "constants": cast("Constants | None", constants),
        }
        words = f"learner {learner} {trust}" + ("" if constants is None else f" {constants}")
        return {words: learner_row(learner, trust, epsilon, delta, **asked)}
    for option, value in (("environment", environment), ("episodes", episodes), ("constants", constants)):
        require(value is None, f"--{option} belongs to --learner", value)
    if mechanism is not None and trust is not None:
        require(trust != "none", "trust must be central, shuffle or local", trust)
        row = privatizer_row(cast("Trust", trust), mechanism, calibration, epsilon, delta)
        return {f"privatizer {trust} {mechanism} {calibration}": row}
    if mechanism is not None:
        require(calibration == "tight", "a mechanism by itself is calibrated tightly", calibration, "add --trust")
        return {f"mechanism {mechanism}": mechanism_row(mechanism, epsilon, delta)}
    require(trust is None, "--trust belongs to --learner or --mechanism", trust)
    return all_rows(epsilon, delta)


def _kept(run: Any, out: Path | None, where: dict[str, Any], *given: Any) -> AuditRecord:
    """Turn an interruption or a failed row into its exit code, and say what is kept."""
    from tacit.checks.rows import RowFailed

    *rest, progress = given
    kept = "nothing was kept (give --out to be able to resume)" if out is None else f"rows are kept in {out}"
    try:
        found: AuditRecord = run(*rest, out=out, progress=progress, **where)
    except KeyboardInterrupt:
        raise Failed(kept, kind="interrupted", exit_code=INTERRUPTED, line=f"interrupted: {kept}") from None
    except RowFailed as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise Failed(f"{error}; {kept}", kind="row-failed", exit_code=1) from None
    return found


def _show(record: AuditRecord, wrong: Any, unnoticed: list[str], flagged: list[str], out: Path | None) -> None:
    from tacit.checks.record import mutation_table, shown_down

    if record.findings:
        from tacit.accounting.certificate import shown_up

        head = ["attacked", "calibration", "seen", "δ", "claimed", "certified", "attacked", "trials", "verdict"]
        rows = [
            [
                f"{f.kind} {f.name}" + ("" if f.trust in f.name or f.trust == "-" else f" ({f.trust})"),
                f.calibration,
                f.view,
                f"{f.delta:g}",
                f"{f.claimed:g}",
                shown_up(f.certified),
                shown_down(f.attacked),
                f"{f.trials:,}",
                f.verdict,
            ]
            for f in record.findings
        ]
        print_table(head, rows, numeric=range(3, 8))
        say(f"attacked: lower bounds on epsilon; all of them hold with probability {1 - record.settings.false_alarm:g}")
    if record.mutations:
        print_table(["planted bug", "caught by", "how"], [[r[0], r[2], r[3]] for r in mutation_table(record)[1]])
        say(f"{len(record.mutations)} planted bugs, {len(unnoticed)} unnoticed; {len(flagged)} originals flagged")
    for finding in wrong:
        say(f"{finding.verdict}: {finding.kind} {finding.name}, {finding.view}")
    for name in unnoticed:
        say(f"unnoticed: {name}")
    for name in flagged:
        say(f"flagged without a bug: {name}")
    if out is not None:
        say(f"audit: {out} (tacit report {out} makes a page of it)")
