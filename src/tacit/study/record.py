"""What a study leaves behind: a signed policy with its certificate, and the proof that it follows from the releases.

    format        "tacit-study-policy" and its version
    design        the public plan of the study, and its digest
    policy        what was learned, with its names and its fall-back policy (see `tacit.policies.named`)
    claim, certificate, head, releases          what was promised, what it cost, and where that stands in the ledger
    digest        SHA-256 of all of the above; signature: Ed25519, or the file is "unsigned"

V1  `replayed` runs the learner again, from its first coins, over the stored releases: every belief, every coin and
    every bundle must come out as it was stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from tacit._version import __version__
from tacit.documents import digest, json_values, same
from tacit.errors import require
from tacit.policies import AnyPolicy, Policy, policy_from_dict, tabular
from tacit.policies.feature_policy import FeaturePolicy
from tacit.policies.named import NamedPolicy
from tacit.runs.signature import sign
from tacit.runs.storage import check_writable, write_json, writing_to
from tacit.study.bundle import Bundle, query_to_dict
from tacit.study.contract import GENESIS_HEAD, Design, Head, packages_of
from tacit.study.state import LearnerState
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, sha256

__all__ = ["ENTRIES", "FORMAT", "FORMAT_VERSION", "export_policy", "named_policy", "replayed", "require_exported"]

Place: TypeAlias = tuple[int, int]
"""Stage and question."""
KINDS: Final = ("begin", "plan", "ask", "take", "void")
FORMAT: Final = "tacit-study-policy"
FORMAT_VERSION: Final = 1
ENTRIES: Final = (
    "format",
    "format_version",
    "version",
    "name",
    "study",
    "design",
    "policy",
    "claim",
    "certificate",
    "releases",
    "head",
)


def export_policy(study: Study, path: str | Path, key: str | Path | None = None) -> Path:
    """Write the learned policy with its names and its certificate; without a key it is unsigned, and says so."""
    target, found = Path(path), study.status()
    certificate = study.certificate()
    require(bool(found["releases"]), "a study must have learned something to be exported", "no release", "take one")
    policy = _exported(study, study.policy(), killed=found["state"] == "ended")
    content: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "name": study.design.name,
        "study": study.design.digest,
        "design": study.design.to_dict(),
        "policy": policy.to_dict(),
        "claim": study.parts.claim.to_dict(),
        "certificate": certificate.to_dict(),
        "releases": found["releases"],
        "head": found["head"],
    }
    check_writable(target.parent)
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = {**content, "digest": digest(content)}
        chosen = study.key if key is None else Path(key)
        write_json(target, whole if chosen is None else sign(whole, chosen))
    return target


def _exported(study: Study, policy: AnyPolicy, *, killed: bool) -> NamedPolicy | FeaturePolicy:
    over = policy if study.design.features is not None else over_states(study.design, policy)
    return named_policy(study.design, over, killed=killed)


def require_exported(study: Study, content: Mapping[str, Any]) -> None:
    """Raise unless an exported policy is what this study had learned from the releases that it lists."""
    parts, status = study.parts, study.status()
    with study.store.reading() as connection:
        steps = connection.execute("SELECT kind, belief, plan, memory, coins FROM belief ORDER BY step").fetchall()
        taken = connection.execute("SELECT bytes FROM release ORDER BY charge").fetchall()
        held = {tuple(row) for row in connection.execute("SELECT stage, question FROM quarantine")}
    heads = [ReleasePayload.parse(bytes(row[0])).head.text for row in taken]
    listed = content["study"] == study.design.digest and content["head"] in heads
    most = heads.index(content["head"]) + 1 if listed else 0
    require(
        listed and same(content["releases"], status["releases"][:most]),
        "a policy must list the releases of its study up to its head",
        "others",
    )
    # A release that was quarantined is listed, and not learned from until it was inspected.
    least = most - ((status["releases"][most - 1]["stage"], status["releases"][most - 1]["question"]) in held)
    seen = accumulate(row[0] in ("take", "void") for row in steps)
    rows = [row[1:] for row, releases in zip(steps, seen, strict=True) if least <= releases <= most]
    killed = content["policy"]["killed"]
    minds = (LearnerState.read(row, packages_of(parts.learner, *parts.channels)) for row in rows)
    learned = (_exported(study, study.policy_of(mind), killed=killed) for mind in minds if mind.plan is not None)
    wanted = (not killed or status["state"] == "ended") and any(
        same(content["policy"], json_values(one.to_dict())) for one in learned
    )
    require(wanted, "a policy must be one that its study learned from these releases", "another")


def named_policy(design: Design, policy: AnyPolicy, *, killed: bool) -> NamedPolicy | FeaturePolicy:
    """A policy over the states or rows of a design, with its names and its fall-back."""
    if design.features is not None:
        resort = tabular(policy_from_dict(design.fallback)).probabilities(len(design.actions))[0, 0]
        return FeaturePolicy(
            features=design.features,
            actions=tuple(design.actions),
            reward=design.rewards,
            policy=policy,  # type: ignore[arg-type]
            fallback=tuple(resort.tolist()),
            killed=killed,
        )
    states, actions = tuple(design.states), tuple(design.actions)
    fallback = over_states(design, policy_from_dict(design.fallback))
    return NamedPolicy(policy=tabular(policy), states=states, actions=actions, fallback=fallback, killed=killed)


def over_states(design: Design, policy: AnyPolicy) -> Policy:
    """A policy over features as the policy over states that it is."""
    return tabular(policy) if design.sees is None else design.sees.lift(policy, len(design.actions))


def replayed(study: Study) -> int:
    """Raise unless everything in a study follows from its releases (V1); the number of steps that were done again."""
    parts = study.parts
    packages = packages_of(parts.learner, *parts.channels)
    with study.store.reading() as connection:
        steps = connection.execute(
            "SELECT kind, stage, question, belief, plan, memory, coins FROM belief ORDER BY step"
        ).fetchall()
        slots = dict(connection.execute("SELECT number, slot FROM stage").fetchall())
        bundles = connection.execute("SELECT stage, question, bytes, digest FROM bundle ORDER BY stage, question")
        asked = {(row[0], row[1]): row[2:] for row in bundles.fetchall()}
        rows = connection.execute("SELECT stage, question, bytes, opened FROM release").fetchall()
        released = {(stage, question): (data, opened) for stage, question, data, opened in rows}
        sealed = connection.execute("SELECT bytes, digest FROM release").fetchall()
    require(all(sha256(data).hex() == name for data, name in sealed), "releases must be as they were taken", "others")
    _require_chain(study, asked)
    _require_columns(study)
    mind = LearnerState.read(steps[0][3:], packages)
    begun = LearnerState(belief=parts.learner.begin(), plan=None, memory=parts.channels[0].begin_memory(), rng=mind.rng)
    require(begun.rows() == tuple(steps[0][3:]), "a study must begin with nothing", "another belief")
    for kind, stage, question, *stored in steps[1:]:
        mind = _again(
            study, mind, kind, slots.get(stage), released.get((stage, question)), asked.get((stage, question))
        )
        require(
            mind.rows() == tuple(stored), "a study must follow from its releases", f"another {kind} of stage {stage}"
        )
    return len(steps)


def _again(study: Study, mind: LearnerState, kind: str, slot: int | None, release: Any, asked: Any) -> LearnerState:
    """One step of a study, done again."""
    learner = study.parts.learner
    if kind == "plan":
        if slot is None and learner.uses_last:
            return mind
        if slot is None:
            return mind.served(learner)
        belief, plan = learner.plan(mind.belief, mind.rng)
        return LearnerState(belief=belief, plan=plan, memory=mind.memory, rng=mind.rng)
    require(mind.plan is not None and slot is not None, "a study must plan before it asks", kind)
    assert mind.plan is not None and slot is not None  # noqa: S101, PT018 - for the types
    if kind == "ask":
        bundle = Bundle.parse(asked[0])
        belief, query = learner.ask(mind.belief, mind.plan, bundle["question"])
        require(query_to_dict(query) == bundle["query"], "bundles must ask what was planned", "another query")
        return LearnerState(belief=belief, plan=mind.plan, memory=mind.memory, rng=mind.rng)
    kept = kind in ("take", "void") and release is not None
    require(kept, "a study must have kept its releases", "one is missing")
    given, channel = ReleasePayload.parse(release[0]), study.parts.channels[slot]
    # A sealed release is read as what it was opened to.
    payload = given.payload if release[1] is None else release[1]
    require((release[1] is None) == (study.layers == 0), "a sealed study must have kept what it opened", "otherwise")
    if kind == "void":
        memory = channel.skip(mind.memory, payload, given.people)
        return LearnerState(belief=mind.belief, plan=mind.plan, memory=memory, rng=mind.rng)
    memory, found = channel.read(mind.memory, payload, given.people)
    return LearnerState(belief=learner.update(mind.belief, found), plan=mind.plan, memory=memory, rng=mind.rng)


def _require_chain(study: Study, asked: dict[tuple[int, int], Any]) -> None:
    """Every bundle must be as it was made, of this study, and name the one before it."""
    previous = GENESIS_HEAD.digest.hex()
    for data, name in asked.values():
        bundle = Bundle.parse(data)
        whole = bundle.digest == name and bundle.study == study.study and bundle["previous"] == previous
        require(whole, "bundles must be as they were made, each after the one before it", "another bundle")
        forged = bundle.content.get("signature") is not None and not bundle.examined(None).valid
        require(not forged, "the signatures of bundles must fit", "a forged one")
        previous = name


def _heads(place: Place, released: Mapping[Place, ReleasePayload], taken: set[Place]) -> list[Head]:
    """The heads that a bundle may name: of the last release before it that was learned from, or of a later one."""
    before = sorted((at for at in released if at < place), key=lambda at: released[at].charge.number)
    learned = [i for i, at in enumerate(before) if at in taken]
    return [*(released[at].head for at in before[max(learned, default=0) :]), *([] if learned else [GENESIS_HEAD])]


def _require_columns(study: Study) -> None:
    """What stands beside bundles, releases and beliefs must be what they say themselves."""
    with study.store.reading() as connection:
        bundles = connection.execute("SELECT stage, question, bytes FROM bundle ORDER BY stage, question").fetchall()
        taken = connection.execute("SELECT stage, question, charge, people, noise, bytes FROM release").fetchall()
        stages = connection.execute("SELECT number, slot, questions, state, reason FROM stage ORDER BY number")
        found = [tuple(row) for row in stages.fetchall()]
        steps = connection.execute("SELECT step, kind, stage, question FROM belief ORDER BY step").fetchall()
        held = connection.execute("SELECT stage, question FROM quarantine").fetchall()
    asked = {(stage, question): Bundle.parse(bytes(data)) for stage, question, data in bundles}
    released = {tuple(row[:2]): ReleasePayload.parse(bytes(row[5])) for row in taken}
    done = {kind: {(stage, question) for _, one, stage, question in steps if one == kind} for kind in KINDS}
    fits = [
        *(place == (one["stage"], one["question"]) for place, one in asked.items()),
        *(one.head in _heads(place, released, done["take"]) for place, one in asked.items()),
        *(place == (one.stage, one.question) and one.study == study.study for place, one in released.items()),
        *(
            tuple(row[2:5]) == (one.charge.number, one.people, one.noise)
            for row, one in zip(taken, released.values(), strict=True)
        ),
        {tuple(row) for row in held} <= set(released),
        [row[0] for row in steps] == list(range(1, len(steps) + 1)),
        tuple(steps[0][1:]) == ("begin", None, None),
        done["ask"] == {place for place, one in asked.items() if one["query"] is not None},
        done["take"] | done["void"] <= set(released),
        # A plan is asked about at once; the last one is served.
        *(row[2] == following[2] for row, following in pairwise(steps) if row[1] == "plan"),
        steps[-1][1] != "plan" or steps[-1][2] == max(row[0] for row in found if row[3] != "killed"),
    ]
    for number, (stage, slot, questions, state, reason) in enumerate(found):
        one = asked[stage, 0]
        took = len([place for place in done["take"] if place[0] == stage])
        ended = "killed" if one["kill"] else "served" if slot is None else "released" if took == questions else ""
        expected = ended or ("open" if reason is None else "void")
        fits.append((number, one["slot"], one["questions"], expected) == (stage, slot, questions, state))
        fits.append(state != "open" or number == len(found) - 1 or found[-1][3] == "killed")
        fits.append((state == "void") == (reason is not None))
    require(all(fits), "the rows of a study must be what its bundles and releases say", "others")
