"""`tacit learn` and `tacit evaluate`: a policy, or what policies would have earned, from a log under central trust.

Everything here runs on the trusted side. Exit code 2: refused, nothing was released and nothing written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tacit.cli.common import AsJson, print_json, print_table, say, tell
from tacit.errors import InvalidInput, require

if TYPE_CHECKING:
    from tacit.accounting.certificate import Certificate
    from tacit.study.episodes import DataCheck, Progress
    from tacit.study.feature_learning import FeatureLearned
    from tacit.study.feature_mapping import FeatureMapping
    from tacit.study.learning import Behaviour, Learned, LearnRequest

LedgerFile = Annotated[
    Path | None, typer.Option(help="The ledger that is charged; LOG.ledger.db beside the log by default.")
]
Budget = Annotated[
    str | None, typer.Option(help="Of a new ledger: EPSILON,DELTA for every person; the claim by default.")
]
NOWHERE = "--out must be given: a release that is not kept costs its people the same"
EVERY = 1_000_000
"""After so many rows a line says how far the reading is."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("learn")(_learn)
    app.command("evaluate")(_evaluate)


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
    stationary: Annotated[
        bool, typer.Option("--stationary", help="Declare that nothing depends on the step: steps are pooled.")
    ] = False,
    learner: Annotated[str, typer.Option(help="pessimism, dp-apvi or dp-vapvi.")] = "pessimism",
    compare: Annotated[
        float, typer.Option(help="The share of people who compare the policy with the log's rule, by lot.")
    ] = 0.0,
    min_propensity: Annotated[
        float | None, typer.Option(help="Compare by weights (snips): the least propensity that a row may have.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new directory for policy, certificate and release.")] = None,
    ledger: LedgerFile = None,
    budget: Budget = None,
    key: Annotated[Path | None, typer.Option(help="The private key that signs them.")] = None,
    check_only: Annotated[bool, typer.Option("--check-only", help="Check the log, release nothing.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the log and print noise and what could be told apart.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Learn a policy from a log with one private release; every run of this command is a release and costs anew."""
    from tacit.planning.widths import DEFAULT_Z
    from tacit.randomness import SecureNoise
    from tacit.runs.signature import sign
    from tacit.study.feature_mapping import FeatureMapping, read_feature_log
    from tacit.study.learn_files import check_target, learned_to_dict, releasing, save_learned
    from tacit.study.learning import learn_from, read_log
    from tacit.study.split import Split

    featured = FeatureMapping.read(mapping)
    if check_only and featured is None:
        _check(log, mapping, reports_per_person, as_json=json)
        return
    if check_only and featured is not None:
        rows = read_feature_log(log, featured)
        say(f"{len(rows.x):,} rows, {rows.people:,} people (for the trusted side only): the log can be learned from")
        return
    for name, value in (("--epsilon", epsilon), ("--delta", delta), ("--behaviour", behaviour)):
        hint = "say 'known' if actions were chosen by step and state only" if name == "--behaviour" else ""
        require(value is not None, f"{name} must be given", None, hint)
    if out is None and not dry_run:
        raise InvalidInput(NOWHERE)
    if out is not None:
        check_target(out)
    limits = _limits(budget)
    if key is not None:
        sign({}, key)  # a key that cannot sign is refused before anything is released
    if featured is not None:
        unused = stationary or compare != 0.0 or min_propensity is not None
        require(not unused, "a log of features has no --stationary, --compare or --min-propensity", "one of them")
        require(
            behaviour == "known", "--behaviour must be 'known': actions were chosen by the features only", behaviour
        )
        asked_for = {"epsilon": epsilon, "delta": delta, "reports_per_person": reports_per_person, "keep": keep}
        kept_at = None if dry_run or out is None else ledger or _ledger_of(log)
        _learn_features(
            log,
            featured,
            {**asked_for, "fallback": fallback},
            out=out,
            ledger=kept_at,
            limits=limits,
            key=key,
            json=json,
        )
        return
    request, episodes = read_log(
        log,
        mapping,
        epsilon=epsilon,
        delta=delta,
        behaviour=cast("Behaviour", behaviour),
        reports_per_person=reports_per_person,
        keep=keep,
        z=DEFAULT_Z,
        fallback=fallback,
        stationary=stationary,
        learner=learner,
        progress=_progress(),
    )
    noise = SecureNoise()
    split = None if compare == 0.0 else Split.of(request, episodes, compare, min_propensity, noise)
    certificates = (request.certificate("secure"),) if split is None else split.certificates
    if dry_run or out is None:
        _outlook(request if split is None else split.request, certificates[0], as_json=json)
        return
    # All noise is Gaussian: the release with the larger epsilon costs more at every delta, and a person is in one.
    certificate, charged = max(certificates, key=lambda one: one.epsilon), ledger or _ledger_of(log)
    what = "stage-wise counts of a log"
    with releasing(out, charged, certificate, people=episodes.people, what=what, budget=limits) as place:
        learned = learn_from(request, episodes, noise) if split is None else split.learn(noise)
        save_learned(learned, place, key=key)
    written = out / "learned.json"
    if json:
        kept = ("certificate", "policy", "summary")
        content: dict[str, Any] = {name: part for name, part in learned_to_dict(learned).items() if name in kept}
        if learned.comparison is not None:
            content["comparison"] = learned.comparison.summary
        print_json({**content, "written": str(written), "ledger": str(charged)})
        return
    _show(learned)
    say(f"written: {written}; charged: {charged}")


def _learn_features(
    log: Path,
    known: FeatureMapping,
    asked: dict[str, Any],
    *,
    out: Path | None,
    ledger: Path | None,
    limits: tuple[float, float] | None,
    key: Path | None,
    json: bool,
) -> None:
    """The same from rows of features; without a ledger nothing is released, and the certificate is printed."""
    from dataclasses import replace

    from tacit.randomness import SecureNoise
    from tacit.study.feature_learning import FEATURE_MOMENTS, FeatureRequest, learn_from_rows
    from tacit.study.feature_mapping import read_feature_log
    from tacit.study.learn_files import releasing, save_learned

    several = asked["reports_per_person"]
    world: dict[str, Any] = {
        "features": known.features, "actions": known.actions.names, "reward": (known.low, known.high)
    }  # fmt: skip
    # Everything public is checked before the log is opened.
    public = FeatureRequest(**world, **asked, stage_people=(1,) * several)
    require(known.person is not None or several == 1, "several reports of a person need a column person", None)
    found = read_feature_log(log, known)
    request = replace(public, stage_people=(found.people,) * several)
    certificate = request.certificate("secure")
    if ledger is None or out is None:
        print_json({"certificate": certificate.to_dict()}) if json else say(certificate.describe())
        return
    with releasing(out, ledger, certificate, people=found.people, what=FEATURE_MOMENTS, budget=limits) as place:
        fitted = learn_from_rows(request, found, SecureNoise(), "secure")
        save_learned(fitted, place, key=key)
    _show_fitted(fitted, out / "learned.json", ledger, as_json=json)


def _show_fitted(fitted: FeatureLearned, written: Path, ledger: Path, *, as_json: bool) -> None:
    from tacit.study.learn_files import learned_to_dict

    if as_json:
        content = learned_to_dict(fitted)
        parts = {name: content[name] for name in ("certificate", "policy", "summary")}
        print_json({**parts, "written": str(written), "ledger": str(ledger)})
        return
    say(fitted.certificate.describe())
    actions = fitted.request.actions
    print_table(["feature (95 % interval)", *actions], fitted.table(), numeric=list(range(1, len(actions) + 1)))
    say("a second release from the same log costs its people the same again")
    say(f"written: {written}; charged: {ledger}")


def _ledger_of(log: Path) -> Path:
    """Beside the log, wherever its releases are written to; of a dataset by name, in the working directory."""
    return Path(f"{log.name if str(log).startswith('minari:') else log.with_suffix('')}.ledger.db")


def _limits(budget: str | None) -> tuple[float, float] | None:
    """The budget of a new ledger, as it was typed."""
    if budget is None:
        return None
    try:
        epsilon, delta = map(float, budget.split(","))
    except ValueError:
        raise InvalidInput(f"--budget must be EPSILON,DELTA, as in 4,1e-6, got {budget!r}") from None
    return epsilon, delta


def _evaluate(
    log: Annotated[Path, typer.Argument(help="Episodes in long format: .csv or .parquet.")],
    policies: Annotated[list[str], typer.Argument(metavar="POLICY...", help="Files of policies, or NAME=FILE.")],
    mapping: Annotated[Path, typer.Option(help="The public mapping of the log, .json or .toml.")],
    epsilon: Annotated[float, typer.Option(help="The claim's epsilon, for every person of the log.")],
    delta: Annotated[float, typer.Option(help="The claim's delta.")],
    estimator: Annotated[str, typer.Option(help="snips, ips, dr or dm.")] = "snips",
    propensity: Annotated[
        str, typer.Option(help="'column' (of the mapping), 'estimated', or the file of the policy that was followed.")
    ] = "column",
    min_propensity: Annotated[float | None, typer.Option(help="The least propensity that a row may have.")] = None,
    weight_cap: Annotated[float | None, typer.Option(help="The greatest weight; larger ones are cut.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    trust: Annotated[str, typer.Option(help="central; shuffle and local play every person's device.")] = "central",
    against_log: Annotated[bool, typer.Option(help="Compare with the log's own policy.")] = True,
    out: Annotated[Path | None, typer.Option(help="A new .json file for values, certificate and release.")] = None,
    ledger: LedgerFile = None,
    budget: Budget = None,
    key: Annotated[Path | None, typer.Option(help="The private key that signs it.")] = None,
    json: AsJson = False,
) -> None:
    """Estimate what policies would have earned on the people of a log, with one private release."""
    from tacit.cli.policy import load_policy
    from tacit.randomness import SecureNoise
    from tacit.runs.signature import sign
    from tacit.study.evaluation import VALUES, evaluate_episodes, read_evaluated
    from tacit.study.learn_files import check_new_file, evaluation_to_dict, releasing, save_evaluation

    if out is None:
        raise InvalidInput(NOWHERE)
    check_new_file(out)
    limits = _limits(budget)
    if key is not None:
        sign({}, key)
    named = {}
    for text in policies:
        name, equals, file = text.partition("=")
        place = Path(file if equals else text)
        label = name if equals else (place.parent.name if place.stem in ("policy", "learned") else place.stem)
        require(label not in named, "policies must have different names", label, "write NAME=FILE")
        named[label] = load_policy(place)[0]
    known = propensity in ("column", "estimated")
    request, episodes = read_evaluated(
        named,
        log,
        mapping,
        epsilon=epsilon,
        delta=delta,
        weight_cap=weight_cap,
        min_propensity=min_propensity,
        propensity=cast("Any", propensity) if known else load_policy(Path(propensity))[0],
        estimator=cast("Any", estimator),
        against_log=against_log,
        confidence=confidence,
        trust=cast("Any", trust),
        progress=_progress(),
    )
    charged, certificate = ledger or _ledger_of(log), request.certificate("secure")
    with releasing(out, charged, certificate, people=request.people, what=VALUES, budget=limits, whole=True) as place:
        found = evaluate_episodes(request, episodes, SecureNoise())
        save_evaluation(found, place, key=key)
    if json:
        content = evaluation_to_dict(found)
        kept = {name: content[name] for name in ("certificate", "summary")}
        print_json({**kept, "written": str(out), "ledger": str(charged)})
        return
    say(found.certificate.describe())
    head = [
        "policy",
        "return of an episode",
        f"{confidence:.0%} interval",
        "gain over the log",
        "effective size",
        "cut",
    ]
    rows = [
        (
            one.policy, f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}",
            "" if one.gain is None else "{:+.4g} ({:+.4g} to {:+.4g})".format(*one.gain),
            "" if one.effective_size is None else f"{one.effective_size:,.0f}",
            "" if one.clipped is None else f"{one.clipped:.2%}",
        )
        for one in found.values
    ]  # fmt: skip
    print_table(head, rows, numeric=[1, 4, 5])
    said = {"column": "from the log's column", "estimated": "estimated privately from the same log, and charged"}
    say(f"propensities: {'none are needed' if estimator == 'dm' else said.get(propensity, 'of a known rule')}")
    say("a second release from the same log costs its people the same again")
    say(f"written: {out}; charged: {charged}")


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
    if policy.support is not None:
        say(policy.support.legend)
    say(f"estimated return of an episode: {summary['estimated_return']:.4g}, at its most pessimistic "
        f"{summary['pessimistic_return']:.4g}")  # fmt: skip
    if learned.comparison is not None:
        one, rule = learned.comparison["learned"], learned.comparison["log"]
        gain = "{:+.4g} ({:+.4g} to {:+.4g})".format(*cast("tuple[float, float, float]", one.gain))
        say(
            f"on {learned.comparison.request.people:,} other people: {one.value:.4g} ({one.low:.4g} to "
            f"{one.high:.4g}), the rule of the log {rule.value:.4g} ({rule.low:.4g} to {rule.high:.4g}), gain {gain}"
        )
    say("a second release from the same log costs its people the same again")


def _outlook(request: LearnRequest, certificate: Certificate, *, as_json: bool) -> None:
    found = request.outlook()
    if as_json:
        print_json({"certificate": certificate.to_dict(), "outlook": found})
        return
    say(certificate.describe())
    std = ", ".join(f"{name} {value:.4g}" for name, value in found["noise_std"].items())
    say(f"standard deviation of the noise in a counter: {std}")
    say(f"an action counts as tried from {found['support_floor']:,.0f} released visits on; "
        f"evenly spread, each (step, state, action) has {found['even_visits']:,.0f}")  # fmt: skip
    rows = [
        (f"{one['difference']:.4g}", f"{one['visits']:,}", f"{one['even_visits']:.2f}") for one in found["told_apart"]
    ]
    head = ["difference of mean rewards", "visits both rows need", "in even parts"]
    print_table(head, rows, numeric=[0, 1, 2])
    say("found with probability .8 at the 95% level; nothing was released, written or charged")


def _progress() -> Progress:
    shown = [0]

    def heard(rows: int) -> None:
        if rows // EVERY > shown[0]:
            shown[0] = rows // EVERY
            tell(f"{rows:,} rows read")

    return heard
