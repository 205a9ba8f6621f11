"""`tacit learn`: a policy and a certificate from a log of episodes, in one go, under central trust.

Everything here runs on the trusted side. Exit code 2: refused, nothing was released and nothing written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tacit.cli.common import AsJson, print_json, print_table, say, tell
from tacit.errors import require

if TYPE_CHECKING:
    from tacit.study.episodes import DataCheck, Progress
    from tacit.study.learning import Behaviour, Keep, Learned

EVERY = 1_000_000
"""After so many rows a line says how far the reading is."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("learn")(_learn)


def _learn(
    log: Annotated[Path, typer.Argument(help="Episodes in long format: .csv or .parquet.")],
    mapping: Annotated[Path, typer.Option(help="The public mapping of the log, .json or .toml.")],
    epsilon: Annotated[float | None, typer.Option(help="The claim's epsilon, for every person of the log.")] = None,
    delta: Annotated[float | None, typer.Option(help="The claim's delta.")] = None,
    behaviour: Annotated[
        str | None,
        typer.Option(help="How actions were chosen: 'known', by step and state only; 'unknown' is refused."),
    ] = None,
    reports_per_person: Annotated[int, typer.Option(help="So many episodes of a person count, at most.")] = 1,
    keep: Annotated[
        str, typer.Option(help="Which of more: 'random' (exact lots) or the 'first' of the log.")
    ] = "random",
    fallback: Annotated[str | None, typer.Option(help="The action that the fall-back policy always takes.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new directory for policy, certificate and release.")] = None,
    key: Annotated[Path | None, typer.Option(help="The private key that signs them.")] = None,
    check_only: Annotated[bool, typer.Option("--check-only", help="Check the log, release nothing.")] = False,
    json: AsJson = False,
) -> None:
    """Learn a policy from a log with one private release; every run of this command is a release and costs anew."""
    from tacit.runs.signature import sign
    from tacit.study.learn_files import check_target, learned_to_dict, save_learned
    from tacit.study.learning import learn

    if check_only:
        _check(log, mapping, reports_per_person, as_json=json)
        return
    for name, value in (("--epsilon", epsilon), ("--delta", delta), ("--behaviour", behaviour)):
        hint = "say 'known' if actions were chosen by step and state only" if name == "--behaviour" else ""
        require(value is not None, f"{name} must be given", None, hint)
    if out is not None:
        check_target(out)
    if key is not None:
        require(out is not None, "--key signs what is written and needs --out", str(key))
        sign({}, key)  # a key that cannot sign is refused before anything is released
    learned = learn(
        log,
        mapping,
        epsilon=cast("float", epsilon),
        delta=cast("float", delta),
        behaviour=cast("Behaviour", behaviour),
        reports_per_person=reports_per_person,
        keep=cast("Keep", keep),
        fallback=fallback,
        progress=_progress(),
    )
    written = None if out is None else save_learned(learned, out, key=key)
    if json:
        kept = ("certificate", "policy", "summary")
        content: dict[str, Any] = {name: part for name, part in learned_to_dict(learned).items() if name in kept}
        print_json({**content, "written": None if written is None else str(written)})
        return
    _show(learned)
    say("nothing was written (give --out to keep policy and certificate)" if written is None else f"written: {written}")


def _check(log: Path, mapping: Path, reports: int, *, as_json: bool) -> None:
    from tacit.study.episodes import data_check

    found = data_check(log, mapping, reports_per_person=reports, progress=_progress())
    usable = found.ok and "propensity varies" not in found.notes
    if as_json:
        print_json(found.to_dict())
    else:
        _show_check(found, usable=usable)
    if not usable:
        raise typer.Exit(2)


def _show_check(found: DataCheck, *, usable: bool) -> None:
    say(f"{found.rows:,} rows, {found.episodes:,} episodes, {found.people:,} people (for the trusted side only)")
    if found.table():
        names = ["finding", "how many", "column", "first rows", "dropping costs (episodes)", "what is counted"]
        print_table(names, found.table(), numeric=[1])
    say("the log can be learned from" if usable else "the log is refused")


def _show(learned: Learned) -> None:
    summary, policy = learned.summary, learned.policy
    say(learned.certificate.describe())
    print_table(["state", *(f"step {h}" for h in range(policy.horizon))], policy.table())
    unknown, cells = len(summary["unsupported"]), summary["horizon"] * summary["states"]
    say(f"estimated return of an episode: {summary['estimated_return']:.4g}, at its most pessimistic "
        f"{summary['pessimistic_return']:.4g}")  # fmt: skip
    say(f"the log supports {cells - unknown} of {cells} decisions; the others are the default action")
    say("a second release from the same log costs its people the same again")


def _progress() -> Progress:
    shown = [0]

    def heard(rows: int) -> None:
        if rows // EVERY > shown[0]:
            shown[0] = rows // EVERY
            tell(f"{rows:,} rows read")

    return heard
