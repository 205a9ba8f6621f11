"""`tacit policy`: a policy that somebody can use, as a table of names or one answer at a time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.common import AsJson, print_json, print_table, say, tell
from tacit.documents import without_seal
from tacit.errors import InvalidInput, NotSupported, UnknownName, require

if TYPE_CHECKING:
    from tacit.policies.feature_policy import FeaturePolicy
    from tacit.policies.named import NamedPolicy

policies = typer.Typer(help="Policies by name: show one, or ask it what to do.", rich_markup_mode=None)

File = Annotated[Path, typer.Argument(help="A policy: of 'tacit learn', of a study, or a bundle of a run (JSON).")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(policies, name="policy")


@policies.command("show")
def _show(file: File, json: AsJson = False) -> None:
    """Print a policy as a table: what to do in which state at which step, or its coefficients."""
    from tacit.policies.feature_policy import FeaturePolicy

    named, vouched = load_policy(file)
    if isinstance(named, FeaturePolicy):
        _show_features(named, vouched, as_json=json)
        return
    if json:
        steps = [[row[1 + h] for row in named.table()] for h in range(named.horizon)]
        print_json({**named.to_dict(), "signature": vouched, "table": steps})
        return
    if named.killed:
        say("KILLED: the fall-back policy answers")
    print_table(["state", *(f"step {h}" for h in range(named.horizon))], named.table())
    fallback = "none" if named.fallback is None else "carried along"
    say(f"{len(named.states)} states, {len(named.actions)} actions, {named.horizon} steps; fall-back: {fallback}")
    if named.support is not None and not named.killed:
        say(named.support.legend)
    say(f"signature: {vouched}")


def _show_features(named: FeaturePolicy, vouched: str, *, as_json: bool) -> None:
    if as_json:
        print_json({**named.to_dict(), "signature": vouched, "table": named.table()})
        return
    if named.killed:
        say("KILLED: the fall-back action answers")
    print_table(["feature", *named.actions], named.table(), numeric=list(range(1, len(named.actions) + 1)))
    low, high = named.reward
    fallback = "none" if named.fallback is None else "carried along"
    say(f"expected reward of an action: {(low + high) / 2:g} and what the features add; fall-back: {fallback}")
    say(f"signature: {vouched}")


@policies.command("act")
def _act(
    file: File,
    step: Annotated[int, typer.Option(help="The step of the episode, from 0.")] = 0,
    state: Annotated[str | None, typer.Option(help="The name of the state, for a policy over states.")] = None,
    row: Annotated[
        str | None, typer.Option(help="The features by name as JSON, or a .json file, for a policy over features.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Print what to do in a state at a step, or for a row of features; lots are drawn here and now."""
    import numpy as np

    from tacit.policies.feature_policy import FeaturePolicy

    named, _ = load_policy(file)
    if isinstance(named, FeaturePolicy):
        if row is None or state is not None:
            raise InvalidInput("a policy over features acts on a row: expected --row, got none, or --state with it")
        action = named.act(_row(row), np.random.default_rng())
        if json:
            print_json({"action": action, "killed": named.killed})
        else:
            say(action)
        return
    if state is None or row is not None:
        raise InvalidInput("a policy over states acts in a state: expected --state, got none, or --row with it")
    action = named.act(step, state, np.random.default_rng())
    known = None if named.killed else named.support
    marks: dict[str, Any] = {}
    if known is not None:
        s = named.state_number(state)
        marks = {"learned": bool(known.learned[step, s]), "noise_units": float(known.noise_units[step, s])}
    if json:
        print_json({"step": step, "state": state, "action": action, "killed": named.killed, **marks})
        return
    say(action)
    if known is not None:
        what = "learned" if marks["learned"] else "the default action: the log does not support any"
        tell(f"{what} (visits in noise units: {marks['noise_units']:.1f}, threshold {known.threshold:.1f})")


def _row(text: str) -> dict[str, Any]:
    """One row of features, from JSON or from a file of it."""
    from tacit.documents import parse_json

    place = Path(text)
    if text.endswith(".json"):
        require(place.is_file(), "a row must be JSON or a .json file", "no such file")
        text = place.read_text(encoding="utf-8")
    plain = parse_json(text, "a row")
    require(isinstance(plain, dict), "a row must be one JSON object of features by name", type(plain).__name__)
    return dict(plain)


def load_named(path: Path) -> tuple[NamedPolicy, str]:
    """A policy over states, and who vouches for the file in words."""
    from tacit.policies.named import NamedPolicy

    found, words = load_policy(path)
    if not isinstance(found, NamedPolicy):
        raise NotSupported(f"a policy over states is needed here; {path} is one over features")
    return found, words


def load_policy(path: Path) -> tuple[NamedPolicy | FeaturePolicy, str]:
    """The policy of a file that is as it was written, whatever wrote it, and who vouches for the file in words.

    In a directory of `tacit learn` it must be the policy of that directory, as `tacit verify` finds.
    """
    from tacit.documents import digest
    from tacit.runs.manifest import DIGESTS
    from tacit.runs.signature import examine
    from tacit.runs.storage import read_json
    from tacit.runs.verify import BUNDLE
    from tacit.study.learn_files import CERTIFICATE, LEARNED, POLICIES, verify_learned

    content = read_json(path)
    kind = content.get("format")
    signed = examine(content, None)
    forged = content.get("signature") is not None and not signed.valid
    require(not forged, f"{path} must have a signature that fits", signed.words)
    fits = content.get("digest") == digest(content) or ("digest" not in content and signed.valid)
    require(fits, f"{path} must be as it was written: its digest must fit", "another digest, or none")
    beside = [name for name in (DIGESTS, LEARNED, CERTIFICATE) if (path.parent / name).is_file()]
    if kind in (*POLICIES, "tacit-learned") and beside:
        found = verify_learned(path.parent)
        listed = found.looked_at.get(path.name) == "derived"
        require(listed, f"{path} must be the policy of its directory", "another file", "hand it out alone")
        require(found.true, f"{path} must be the policy of its directory", f"{found.outcome}: {found.why}")
    if kind in POLICIES:
        return POLICIES[str(kind)].from_dict(without_seal(content)), signed.words
    if kind == BUNDLE[0]:
        version = content.get("format_version")
        require(version == BUNDLE[1], f"{path} must be a {kind} of version {BUNDLE[1]}", version, "export it again")
        return _of_bundle(path, content), signed.words
    inner = content.get("policy")
    if isinstance(inner, dict) and inner.get("format") in POLICIES:
        return POLICIES[str(inner["format"])].from_dict(inner), signed.words
    raise UnknownName(
        "format of a policy", str(kind), (*POLICIES, "tacit-bundle", "tacit-learned", "tacit-study-policy")
    )


def _of_bundle(path: Path, content: dict[str, Any]) -> NamedPolicy:
    """The policy of a run's bundle, with the names of its environment."""
    from tacit.environments.live import LiveWorld
    from tacit.environments.state_features import seen_through
    from tacit.environments.tabular import TabularMDP
    from tacit.policies import DeterministicPolicy, GaussianPolicy, LayeredPolicy, LinearPolicy, policy_from_dict
    from tacit.policies.named import NamedPolicy
    from tacit.runs.config import RunConfig

    try:
        policy, config = policy_from_dict(content["policy"]), content["config"]
        given = isinstance(config["environment"], dict) and "live" not in config["environment"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path} must be a complete bundle: {error}") from error
    if isinstance(policy, LayeredPolicy | GaussianPolicy | LinearPolicy):
        raise NotSupported(f"only policies of tabular worlds have names, got a {content['policy']['kind']} one")
    environment = None if given else RunConfig.from_dict(config, stated={}).world()
    sees = config.get("sees")
    if isinstance(environment, TabularMDP) and sees is not None:
        seen = seen_through(environment, sees)
        return NamedPolicy(policy=policy, states=seen.state_names, actions=seen.action_names)
    if isinstance(environment, TabularMDP | LiveWorld):
        return NamedPolicy(policy=policy, states=environment.state_names, actions=environment.action_names)
    # A model that was handed over has no names here: states and actions are called by their numbers.
    if isinstance(policy, DeterministicPolicy):
        S, A = policy.actions.shape[1], int(policy.actions.max(initial=0)) + 1
    else:
        S, A = policy.table.shape[1:]
    return NamedPolicy(policy=policy, states=tuple(map(str, range(S))), actions=tuple(map(str, range(A))))
