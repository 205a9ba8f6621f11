"""Verification for readers who do not trust the writer: derive what is stated again, compare every entry of it.

    a run's directory      certificate, claim and all that its configuration resolves to; rows and policies by digest
    a comparison           every run of it
    cells.json             the certified epsilon of every run, from its recorded command
    a bundle               claim and certificate from its configuration; its policy by digest
    a trial                noise, certificate and verdict from its own claim and sizes and from what was released
    a certificate          from the request or command beside it; alone, its numbers follow from its events

V1  True is what is derived completely, to a part in 10⁶, in files that are as they were written: every file of a
    directory is looked at (`tacit.runs.manifest`), and a document by itself has a digest.
V2  What this version cannot derive completely is "not verified", whatever version it says it is of, and never true;
    tables that rest on nothing in a file are so, until a reader insists on the key of a party that signed them.
V3  The verdict is about the certificate: one that says its claim is false, and is right, is true.
V4  A file that cannot be read is an error, neither true nor false.
V5  Where noise came from no file shows. What says "secure" and is not signed by the party that drew it is true as far
    as it is derived, and its verdict says so; no other party signs it, and no entry of a registry is made from it.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from tacit._version import __version__
from tacit.accounting.certificate import FIRST_ENTRIES, Certificate
from tacit.accounting.terms import is_day
from tacit.documents import differences, digest, json_values, same, without_seal
from tacit.environments.live_sources import PRESETS
from tacit.errors import ForeignCode, InvalidInput, TacitError, require
from tacit.learners.table import learner_row
from tacit.policies import (
    AnyPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    LayeredPolicy,
    LinearPolicy,
    policy_from_dict,
)
from tacit.release.arms import make_arms
from tacit.release.gradient import both_claims
from tacit.released.losses import LayeredShape
from tacit.released.moments import MomentShape
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.certification import certified_again
from tacit.runs.config import RunConfig, as_seeds, parse_learner
from tacit.runs.manifest import DIGESTS, doubts_about_files, manifest_digest
from tacit.runs.run_facts import derive, make_header, make_labels, make_privacy
from tacit.runs.signature import Signed, examine, public_key, signers_beside
from tacit.runs.storage import MODEL, RESULTS, RunDirectory, complete_files, read_json, read_parquet
from tacit.runs.trial_result import FORMAT as TRIAL
from tacit.runs.trial_result import TrialResult, arms_of_run

INDEX: Final = "comparison.json"
CELLS: Final = "cells.json"
BUNDLE: Final = ("tacit-bundle", 3)
VERSIONS: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc|\.dev)[0-9]+)?")
WHERE_IT_RUNS: Final = ("workers", "engine", "address", "out", "json")
"""Options of `tacit run` that are no part of a configuration."""
Outcome: TypeAlias = Literal["true", "FALSE", "not verified"]
Require: TypeAlias = Sequence[tuple[str, str | Path]]
"""Roles, each with the public key of the party that must have signed in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a file tells the truth, why, and what was looked at to say so."""

    path: str
    kind: str
    outcome: Outcome
    why: str
    signature: str
    digest: str = ""
    """What signatures beside it are about."""
    looked_at: Mapping[str, str] = field(default_factory=dict)
    """Every file -> "derived" (again, every entry), "digest" (as it was written) or "not looked at"."""
    not_derived: tuple[str, ...] = ()
    """What is taken as it is stated."""
    unsigned_by: str = ""
    """The party that drew the noise, if it is called secure and that party has not signed it (V5)."""

    @property
    def true(self) -> bool:
        """Whether it is."""
        return self.outcome == "true"

    @property
    def line(self) -> str:
        """The verdict in one line."""
        return f"{self.outcome}: {self.path} ({self.kind}, {self.signature}): {self.why}"

    @property
    def coverage(self) -> tuple[str, ...]:
        """Which files were looked at and how, and what was not derived, in lines."""
        hows: dict[str, list[str]] = {}
        for name, how in self.looked_at.items():
            hows.setdefault(how, []).append(name)
        lines = [f"{_SHOWN[how]}: {_listed(names)}" for how, names in hows.items()]
        return (*lines, *([f"taken as stated: {_listed(self.not_derived)}"] if self.not_derived else []))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**plain, "true": self.true, "looked_at": dict(self.looked_at), "not_derived": list(self.not_derived)}


_SHOWN: Final = {
    "derived": "derived again",
    "digest": "looked at by digest",
    "not looked at": "not looked at",
}


UNSIGNED: Final = partial(examine, {})


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was found about a file or directory while it was looked through."""

    kind: str
    right: str = ""
    """Why it is true, if it is."""
    digest: str = ""
    """What signatures beside it are about."""
    inside: Callable[[str | Path | None], Signed] = UNSIGNED
    """What the signatures inside of it are worth to a reader who has pinned a key."""
    writer: str = "learner"
    """The role of the party that signs inside."""
    secure: bool = False
    """Whether it says that noise was drawn which nothing can replay (V5)."""
    named: bool = True
    """Whether the signatures inside are about all releases."""
    rests_on: str = ""
    """What it says that nothing in it shows, so that a reader has to insist on a key (V2)."""
    goes_on: bool = False
    """Whether it may go on after it was signed."""
    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """What cannot be derived, and would have to be."""
    looked_at: dict[str, str] = field(default_factory=dict)
    not_derived: list[str] = field(default_factory=list)

    def sealed(self, content: Mapping[str, Any]) -> None:
        """What signatures are about is this document; the one inside must fit, if there is one."""
        self.digest, self.inside = digest(content), partial(examine, content)
        if "signature" in content and not (signed := examine(content, None)).valid:
            self.wrong.insert(0, signed.words)

    @property
    def doubt(self) -> str | None:
        """What is wrong or unknown, in words; None where nothing is."""
        if self.wrong:
            return f"FALSE: {'; '.join(self.wrong)}"
        return f"not verified: {'; '.join(self.unknown)}" if self.unknown else None

    @contextmanager
    def deriving(self, what: str) -> Iterator[None]:
        """What cannot be derived again at all is wrong."""
        try:
            yield
        except ForeignCode as error:
            self.unknown.append(f"{what}: {error}")
        except (TacitError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
            self.wrong.append(f"{what}: {error if isinstance(error, TacitError) else type(error).__name__}")

    def compare(self, stated: Any, derived: Any, name: str, version: object) -> None:
        """Compare every entry; where another version wrote it, what differs is not known to be wrong (V2)."""
        found = list(differences(stated, json_values(derived), name))
        if found and version != __version__:
            self.unknown.append(f"made by tacit {version}, where {__version__} derives otherwise: {found[0]}")
        else:
            self.wrong += found


def verify_run_directory(place: Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Whether a run, a comparison or results are what they state."""
    with complete_files(place):
        if RunDirectory(place).begun:
            found = _run(place)
        elif (place / INDEX).is_file():
            found = _comparison(place)
        else:
            content = read_json(place / CELLS)
            require("runs" in content, f"{place} must be a run, a comparison or results of tacit", "another directory")
            found = Findings(kind="results")
            _files(found, place, (CELLS,))
            _cells(found, content["runs"])
    return judged(place, found, key, needed)


def verify_file(place: Path, *, key: str | Path | None = None, needed: Require = (), unsigned: bool = False) -> Verdict:
    """Whether a document is what it states, as far as it goes without a directory; `unsigned` asks for no key."""
    with complete_files(place):
        content = read_json(place)
        found = _document(place, content)
        found.sealed(content)
        found.looked_at.setdefault(place.name, "derived")
        found.rests_on = "" if unsigned else found.rests_on
        return judged(place, found, key, needed)


def _document(place: Path, content: Mapping[str, Any]) -> Findings:
    if content.get("format") == BUNDLE[0]:
        return _bundle(content)
    if content.get("format") == TRIAL:
        return _trial(content)
    if "runs" in content and "experiment" in content:
        found = Findings(kind="results")
        check_digest(found, content)
        _cells(found, content["runs"])
        return found
    stated = content if set(FIRST_ENTRIES) <= set(content) else content.get("certificate")
    if not isinstance(stated, Mapping):
        raise InvalidInput(f"{place} must be a run, a comparison, results, a bundle or a certificate of tacit")
    return _certificate(content, stated)


def doubts_about_run(directory: Path) -> str | None:
    """What of a run's directory is not true or cannot be verified; None if all of it is as it should be."""
    return _run(directory).doubt


def runs_of(place: Path) -> list[Path]:
    """The runs of a directory: itself, those of a comparison (none of which may lie outside), or none."""
    if RunDirectory(place).begun:
        return [place]
    if not (place / INDEX).is_file():
        return []
    listed = [Path(str(one)) for one in read_json(place / INDEX).get("runs", ())]
    for one in listed:
        require(not one.is_absolute() and ".." not in one.parts, "runs of a comparison must lie inside it", str(one))
    return [place / str(one) for one in listed]


def kept_config(header: Mapping[str, Any], model: Any = None) -> RunConfig:
    """The configuration in config.json; versions before 0.3 left a delta of 0 out."""
    require(isinstance(header.get("config"), Mapping), "config must be an object", type(header.get("config")).__name__)
    plain = dict(header["config"])
    if plain.get("trust", "none") != "none" and plain.get("delta") is None:
        plain["delta"] = 0.0
    return RunConfig.from_dict(plain, model=model, stated=header.get("world") or {})


def check_version(found: Findings, version: object) -> None:
    """The version that wrote a document is spelled as versions are, and is none that this one cannot know."""
    if not isinstance(version, str) or VERSIONS.fullmatch(version) is None:
        found.wrong.append("version must be that of a tacit, as in 0.8.0")
    elif _numbers(version) > _numbers(__version__):
        found.unknown.append(f"made by tacit {version}, which is newer than {__version__}")


def _numbers(version: str) -> list[int]:
    return [int(one) for one in re.findall(r"[0-9]+", version)[:3]]


def check_digest(found: Findings, content: Mapping[str, Any]) -> None:
    """A document by itself has a digest (V1)."""
    if content.get("digest") is None:
        found.unknown.append("it has no digest")
    elif content["digest"] != digest(content):
        found.wrong.append("its content does not have the digest it states")


def check_certificate(stated: Mapping[str, Any], derived: Certificate, version: str = __version__) -> list[str]:
    """What a certificate states that is not what was derived, entry by entry; any day will do, and that version."""
    return list(differences(stated, json_values(as_stated(stated, derived, version)), "certificate"))


def as_stated(stated: Mapping[str, Any], derived: Certificate, version: object) -> dict[str, Any]:
    """The derived certificate with what is free: its day, its version, and packages that were not checked there."""
    # What was not checked where it was written may have been checked here; the other way round it says too little.
    packages = stated.get("unchecked", ())
    if isinstance(packages, Sequence) and not isinstance(packages, str):
        derived = derived.resting_on([str(package) for package in packages])
    terms = stated.get("terms")
    if derived.terms is not None and isinstance(terms, Mapping):
        day = str(terms.get("date"))
        if is_day(day):
            derived = replace(derived, terms=replace(derived.terms, date=day, version=str(version)))
    return derived.to_dict()


def _run(directory: Path) -> Findings:
    """Everything that is known about a run's directory."""
    place, found = RunDirectory(directory), Findings(kind="run")
    _files(found, directory, ("config.json", "privacy.json"))
    found.not_derived += ["command", "rows", "policies", "seconds", "returns, intervals and arms", "figures", "pages"]
    if any(line.startswith(MODEL) for line in found.wrong):  # what is not as it was written is not unpacked
        return found
    header, privacy = place.header(), place.privacy()
    version = header.get("version")
    check_version(found, version)
    with found.deriving("its configuration gives no certificate"):
        config = kept_config(header, place.model())
        facts = derive(config)
        texts = {name: header.get(name) for name in ("experiment", "label", "command")}
        plain = all(isinstance(text, str) for text in texts.values())
        require(plain, "experiment, label and command must be text", "something else")
        if facts.world is not None and facts.world.get("source", "") not in {"", *PRESETS}:
            found.not_derived.append("actions and observations of its environment")
        world = _here(facts.world, header.get("world"))
        named: dict[str, str] = {name: str(text) for name, text in texts.items()}
        gives = make_header(facts.config, facts.resolved, **named, version=str(version), world=world)
        found.compare(header, gives, "config.json", version)
        stated = privacy.get("certificate")
        certificate = as_stated(stated if isinstance(stated, Mapping) else {}, facts.certificate, version)
        said = make_privacy(facts.claim, facts.certificate, facts.batches) | {"certificate": certificate}
        found.compare(privacy, said, "privacy.json", version)
        with found.deriving("its rows and policies must belong to its configuration"):
            if found.wrong:  # what is not as it was written is not parsed
                return found
            labels = make_labels(
                config, facts.resolved, facts.claim, experiment=named["experiment"], label=named["label"]
            )
            _results(place, config, labels)
        verdict = facts.certificate.verdict
        simulated = "" if facts.certificate.release else " It is a simulation, which protects nobody."
        found.right = f"its certificate is what its configuration gives. {verdict}{simulated}"
    return found


def _here(world: dict[str, Any] | None, stated: Any) -> dict[str, Any] | None:
    """A world with the version of gymnasium on the machine it ran on."""
    known = world is not None and "gymnasium" in world and isinstance(stated, Mapping)
    return {**(world or {}), "gymnasium": stated.get("gymnasium")} if known else world


def _results(place: RunDirectory, config: RunConfig, labels: Mapping[str, Any]) -> None:
    """Raise unless rows, policies and what was released belong to the configuration."""
    if not place.finished:
        raise InvalidInput(f"{RESULTS} is missing: the run is not finished")
    table = read_parquet(place.path / RESULTS)
    for name, value in labels.items():
        one = table.column(name).unique().to_pylist()
        require(one == [value], f"the column {name} must hold {value!r}", one[:2])
    seeds = table.column("seed").unique().to_pylist()
    require(seeds == list(config.seeds), "the rows must be of the seeds of the configuration", seeds[:3])
    parts = assemble(config)
    for policy in place.policies(config.seeds):
        require(policy is None or _fits_shape(policy, parts.learner.shape), "policies must fit the world", "others")
    place.returns(config.seeds), place.intervals(config.seeds), place.timing()
    arms = place.arms(config.seeds)
    require(len(arms) == (0 if config.value_users is None else len(config.seeds)), "arms are of every seed", len(arms))
    expected = arms_of_run(config) if arms else None
    for one in arms:
        gives = expected and replace(one, noise=expected.noise, users=expected.users).to_dict()
        require(
            same(one.to_dict(), gives), "what fresh users released must have the noise of their claim", "another noise"
        )


def _comparison(place: Path) -> Findings:
    """Every run of a comparison, and that nothing else is in it."""
    found, runs = Findings(kind="comparison"), runs_of(place)
    _files(found, place, (INDEX,))
    index = read_json(place / INDEX)
    check_version(found, index.get("version"))
    names = ("format", "name", "scale", "runs", "version", "command")
    texts = all(isinstance(index.get(name), str) for name in ("name", "version", "command"))
    if set(index) != set(names) or index["format"] != 1 or not texts or len(set(index["runs"])) != len(runs):
        found.wrong.append(f"{INDEX} is not as tacit writes it")
    listed = {f"{run.relative_to(place).as_posix()}/{DIGESTS}" for run in runs}
    inside = [name for name in found.looked_at if name.endswith(f"/{DIGESTS}")]
    found.wrong += [f"{name} is of no run in {INDEX}" for name in inside if name not in listed]
    for run in runs:
        name = run.relative_to(place).as_posix()
        if not RunDirectory(run).begun:
            found.wrong.append(f"{name} is missing")
            continue
        inner = _run(run)
        signers, forged = signers_beside(run)
        other = [one.role for one in signers if one.digest != inner.digest]
        forged += [f"the signature of its {role} is about something else" for role in other]
        found.wrong += [f"{name}: {line}" for line in (*inner.wrong, *forged)]
        found.unknown += [f"{name}: {line}" for line in inner.unknown]
        found.looked_at |= {f"{name}/{file}": how for file, how in inner.looked_at.items()}
        if f"{name}/{DIGESTS}" not in found.looked_at:
            found.unknown.append(f"{name} is not listed")
    found.not_derived += ["name", "scale", "command", "rows", "policies", "seconds", "figures", "pages"]
    if not runs:
        found.unknown.append("there is no run in it")
    found.right = f"all {len(runs)} runs are what they state"
    return found


def _files(found: Findings, place: Path, derived: Iterable[str]) -> None:
    """Look at every file of a directory by its manifest; `derived` are those whose entries are derived, too."""
    wrong, unknown, names = doubts_about_files(place, found.kind)
    found.wrong += wrong
    found.unknown += unknown
    found.looked_at = dict.fromkeys(derived, "derived")
    found.looked_at |= {name: "digest" for name in names if name not in found.looked_at}
    if not unknown and (place / DIGESTS).is_file():
        found.looked_at[DIGESTS] = "derived"
        found.digest = manifest_digest(place)


def _certificate(content: Mapping[str, Any], stated: Mapping[str, Any]) -> Findings:
    """A certificate without its run: by the command beside it, else by its own events."""
    found = Findings(kind="certificate")
    check_digest(found, content)
    terms = stated.get("terms")
    version = terms.get("version") if isinstance(terms, Mapping) else content.get("version")
    if version is not None:
        check_version(found, version)
    plain = without_seal(stated) if stated is content else stated
    config, beside = _from_command(str(content.get("command", ""))), dict[str, Any]()
    derived: Certificate | None = None
    asked = content.get("configuration")
    with found.deriving("it cannot be derived again"):
        if config is not None:
            derived = derive(config).certificate
            beside, found.right = _facts_beside(config, content, version), "it is what its command gives"
        elif isinstance(asked, Mapping):
            beside, found.right = json_values(certified_again(content)), "it is what its configuration gives"
            derived = Certificate.from_dict(beside.pop("certificate"))
            for name in [name for name in SIDES if beside.get(name)]:
                side = Certificate.from_dict(beside[name]["certificate"])
                beside[name]["certificate"] = as_stated(content[name]["certificate"], side, version)
        else:
            derived = Certificate.from_dict(plain).derived()
            beside = {} if stated is content else {name: part for name, part in stated.items() if name in content}
            alone = "its numbers follow from its events, but its terms and families from nothing in it"
            found.unknown.append("it has no events to derive it from" if derived is None else alone)
        if derived is not None:
            found.compare(plain, as_stated(plain, derived, version), "certificate", version)
    if derived is not None and "zcdp" in content:
        with found.deriving("its zCDP form cannot be derived again"):
            beside["zcdp"] = derived.concentrated(content["zcdp"]["claimed"]).to_dict()
    for name in beside:
        missing = [f"{name} is missing"] if name not in content else []
        found.wrong += missing or differences(content[name], json_values(beside[name]), name)
    if stated is not content:
        loose = {*content} - {*beside, "certificate", "digest", "signature", *(["command"] if config else [])}
        found.not_derived += sorted(loose & set(SIMULATED))
        found.wrong += [f"{name} is no entry of it" for name in sorted(loose - set(SIMULATED if config else ()))]
    return found


SIDES: Final = ("tight", "paper", "paper_2024")
"""Certificates of a configuration beside the one that was asked for."""
SIMULATED: Final = (
    *("regret", "checkpoints", "returns", "intervals", "trials", "against", "relative_regret", "advice", "objective"),
    *("losses", "seconds_per_episode", "experiment", "label", "because", "by_size"),
)
"""What `tacit run --json` says about its seeds and the choice of its learner."""


def _facts_beside(config: RunConfig, content: Mapping[str, Any], version: object) -> dict[str, Any]:
    """What `tacit run --json` says beside a certificate that follows from the command."""
    facts = derive(config)
    claims = both_claims(facts.claim) if content.get("objective") is not None else (facts.claim,)
    return {
        "version": version,
        "doubt": None,
        "unverified": learner_row(parse_learner(config.learner)[0]).unverified,
        "claims": [claim.to_dict() for claim in claims],
        "world": _here(facts.world, content.get("world")),
        "adversary": config.adversary_name,
        "constants": facts.resolved.constants,
        "z": facts.resolved.z,
        "seeds": len(config.seeds),
        "claim": facts.claim.to_dict(),
        "trust": facts.claim.trust,
        "resolved": asdict(facts.resolved),
        "calibration": facts.resolved.calibration,
        "mechanism": facts.resolved.mechanism,
        "batch": facts.resolved.users_per_batch,
        "batches": [batch.to_dict() for batch in facts.batches],
        "environment": config.world_name,
        "learner": config.learner,
        "episodes": config.episodes,
        "seed_list": list(config.seeds),
    }


def _trial(content: Mapping[str, Any]) -> Findings:
    """A trial: noise and certificate from its claim and sizes, interval and verdict from what was released."""
    found, plain = Findings(kind="trial"), without_seal(content)
    check_digest(found, content)
    check_version(found, plain.get("version"))
    with found.deriving("it cannot be derived again"):
        trial = TrialResult.from_dict(plain)
        found.compare(plain, trial.to_dict(), "trial", trial.version)
        claim, terms = trial.claim, trial.certificate.terms
        if trial.people != "fresh" or terms is None:
            found.unknown.append("its certificate adds up a run that is not in it")
        else:
            none = claim.trust == "none"
            arms = make_arms(
                users=trial.released.users,
                trust=claim.trust,
                epsilon=None if none else claim.epsilon,
                delta=None if none else claim.delta,
                honest_fraction=1.0 if terms.honest_fraction is None else terms.honest_fraction,
                allow_large_delta=True,
            )
            gives = replace(trial.released, noise=arms.noise).to_dict()
            found.wrong += differences(plain["released"], gives, "trial.released")
            derived = as_stated(plain["certificate"], arms.certificate(), trial.version)
            found.compare(plain["certificate"], derived, "certificate", trial.version)
    found.not_derived += ["environment", "arms", "bounds", "seed", "command", "sums", "truth"]
    found.right = "its verdict follows from what was released, its noise and certificate from its claim"
    return found


def _bundle(content: Mapping[str, Any]) -> Findings:
    """A bundle: claim and certificate from its configuration."""
    found = Findings(kind="bundle")
    check_digest(found, content)
    version = content.get("version")
    check_version(found, version)
    entries = {"format", "format_version", "version", "config", "seed", "policy", "claim", "certificate", "audit"}
    if content.get("format_version") != BUNDLE[1]:
        found.unknown.append(f"made by tacit {version} in the format {content.get('format_version')}")
        return found
    if set(without_seal(content)) != entries:
        found.wrong.append(f"a bundle has the entries {', '.join(sorted(entries))}")
        return found
    with found.deriving("its configuration gives no certificate"):
        config = RunConfig.from_dict(content["config"], stated={})
        found.compare(content["config"], config.to_dict(), "config", version)
        parts = assemble(config)
        found.compare(content["claim"], parts.claim.to_dict(), "claim", version)
        stated = content["certificate"]
        found.compare(stated, as_stated(stated, parts.certificate, version), "certificate", version)
        require(_belongs(content, parts, config), "the policy must belong to its configuration", "another")
    found.not_derived += ["policy", "audit"]
    found.rests_on = "nothing in it shows its policy"
    found.right = "its certificate is what its configuration gives"
    return found


def _belongs(content: Mapping[str, Any], parts: Assembled, config: RunConfig) -> bool:
    """Whether the policy of a bundle is one of its world, and of the seed of its configuration."""
    fits = _fits_shape(policy_from_dict(content["policy"]), parts.learner.shape)
    return fits and type(content["seed"]) is int and [content["seed"]] == list(config.seeds)


def _fits_shape(policy: AnyPolicy, shape: Any) -> bool:
    """Whether a policy is one of the world that a learner of this shape plays in."""
    if isinstance(policy, LayeredPolicy):
        return isinstance(shape, LayeredShape) and len(policy.flat) == shape.pairs
    if isinstance(policy, GaussianPolicy):
        return bool(shape.num_actions == 0 and len(policy.means) == shape.num_states)
    if isinstance(policy, LinearPolicy) or isinstance(shape, MomentShape):
        wanted = isinstance(shape, MomentShape) and (shape.slots, shape.features, shape.actions)
        return isinstance(policy, LinearPolicy) and (*policy.coefficients.shape[1:], policy.actions) == wanted
    sizes = (shape.horizon, shape.num_states)
    if isinstance(policy, DeterministicPolicy):
        return policy.actions.shape == sizes and int(policy.actions.max(initial=0)) < shape.num_actions
    return bool(policy.table.shape == (*sizes, shape.num_actions))


def _cells(found: Findings, runs: Sequence[Mapping[str, Any]]) -> None:
    """Committed results: the certified epsilon of every run whose command can be read."""
    derived = 0
    for run in runs:
        try:
            config = _from_command(run["command"])
            if config is None:
                continue
            certificate, stated = assemble(config).certificate, run["certified epsilon"]
        except ForeignCode:  # one that could be derived only by running it counts as not derived
            continue
        derived += 1
        # Null is written for infinity: no protection, or none that the accountant could find.
        now = None if math.isinf(certificate.epsilon) else certificate.epsilon
        line = f"{run['run']}: epsilon {stated!r} at delta {run['delta']!r} is stated, {now!r} is derived"
        if not same([stated, run["delta"]], [now, certificate.delta]):
            more = now is not None and (stated is None or stated > now) and same(run["delta"], certificate.delta)
            (found.unknown if more and stated is not None else found.wrong).append(line)
    if derived < max(1, len(runs)):
        found.unknown.append(f"{len(runs) - derived} of {len(runs)} epsilons have no 'tacit run' to derive them from")
    found.not_derived += ["everything but epsilon and delta"]
    found.right = f"{derived} of {len(runs)} epsilons derived again"


def _from_command(command: str) -> RunConfig | None:
    """The configuration of a recorded `tacit run ...`; None for any other command."""
    words = shlex.split(command) if command.startswith("tacit run ") else []
    if not words:
        return None
    kinds = {field.name: str(field.type).removesuffix(" | None") for field in fields(RunConfig)}
    plain: dict[str, Any] = {}
    left = iter(words[2:])
    for word in left:
        name = word.removeprefix("--").replace("-", "_")
        if kinds.get(name) == "bool" or name == "json":
            plain[name] = True
            continue
        value = next(left, None)
        require(word.startswith("--") and value is not None, "a recorded command has options with values", word)
        number = {"int": int, "float": float}.get(kinds.get(name, "str"), str)
        plain[name] = int(str(value)) if name in ("seeds", "first_seed") else number(str(value))
    first = plain.pop("first_seed", 0)
    plain["seeds"] = as_seeds(range(first, first + plain.get("seeds", 1)))
    return kept_config({"config": {name: part for name, part in plain.items() if name not in WHERE_IT_RUNS}})


def judged(place: Path, found: Findings, key: str | Path | None, needed: Require, *, at: Path | None = None) -> Verdict:
    """The verdict on what was found, and on who signed it, or the directory `at` which it stands."""
    beside, forged = signers_beside(place if at is None else at)
    earlier = [one for one in beside if one.digest != found.digest]
    signers = [one for one in beside if one.digest == found.digest]
    found.wrong += forged
    if found.rests_on and key is None and not needed:
        found.unknown.append(f"{found.rests_on}: insist on a key (--key, --require), or verify its directory")
    if earlier and not found.goes_on:
        found.wrong[:0] = [f"the signature of its {one.role} is about something else" for one in earlier]
    inside = found.inside(key)
    pinned = None if key is None else public_key(key)
    by_key = [one for one in signers if one.key == pinned]
    if pinned is not None and not by_key and not inside.pinned:
        found.wrong.append("signed by other keys than the given one" if signers else inside.words)
    for role, wanted in needed:
        raw_key = public_key(wanted)
        vouches = any((one.role, one.key) == (role, raw_key) for one in signers)
        vouches = vouches or (role == found.writer and found.inside(wanted).pinned)
        if not vouches:
            found.wrong.append(f"it is not signed by the {role} with the key {wanted}")
    words = [] if inside.words == "unsigned" and signers else [inside.words]
    words += [f"signed by the {'pinned key' if one in by_key else 'key'} of its {one.role}" for one in signers]
    if earlier and found.goes_on:
        words.append("signed earlier, before it went on, or the signature is of something else")
    signed = (found.named and found.inside(None).valid) or any(one.role == found.writer for one in signers)
    unsigned_by = found.writer if found.secure and not signed else ""
    right = found.right + (f" (that its noise was secure its {unsigned_by} has not signed)" if unsigned_by else "")
    outcome: Outcome = "FALSE" if found.wrong else "not verified" if found.unknown else "true"
    lines = found.wrong or found.unknown
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return Verdict(
        path=str(place),
        kind=found.kind,
        outcome=outcome,
        why=f"{lines[0]}{more}" if lines else right,
        signature=", ".join(words),
        digest=found.digest,
        looked_at=found.looked_at,
        not_derived=tuple(found.not_derived),
        unsigned_by=unsigned_by,
    )


def _listed(names: Sequence[str]) -> str:
    """Some names in a line."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
