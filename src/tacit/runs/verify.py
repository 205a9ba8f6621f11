"""Verification for whoever does not trust the writer: derive the certificate again and compare, believe nothing.

    a run's directory      from its configuration, beside digests and signature of its files
    a comparison           every run of it, beside its signature
    cells.json             from the recorded command of every run, beside its signature
    a bundle               from its configuration, beside digest and signature
    a trial                interval and verdict from what was released, the certificate from its events
    a certificate          from its own events; what they belong to only a configuration can tell

V1  A certificate is true if it is what its configuration (else: its events) gives, to a part in 10⁶. One that another
    version of tacit wrote is true if it promises no more than what is derived now.
V2  The verdict is about the certificate: one that says its claim is false, and is right, is true.
V3  A file that cannot be read is an error, neither true nor false.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from tacit._version import __version__
from tacit.accounting.certificate import FIRST_ENTRIES, FOLLOWING, Certificate, in_other_words
from tacit.accounting.claims import PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.accounting.terms import Terms
from tacit.errors import InvalidInput, TacitError, require
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.directory_signature import INDEX, doubts_about_signature, kept_signature, runs_of
from tacit.runs.result import resolve
from tacit.runs.signature import Signed, digest, examine
from tacit.runs.storage import DIGESTS, RunDirectory, complete_files, read_json
from tacit.runs.storage_paths import resolve_location
from tacit.runs.trial_result import FORMAT as TRIAL
from tacit.runs.trial_result import TrialResult

TOLERANCE: Final = 1e-6
CELLS = "cells.json"
WHERE_IT_RUNS: Final = ("workers", "engine", "address", "out", "json")
"""Options of `tacit run` that are no part of a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a file tells the truth, and why."""

    path: str
    kind: str
    true: bool
    why: str
    signature: str

    @property
    def line(self) -> str:
        """Everything in one line."""
        return f"{'true' if self.true else 'FALSE'}: {self.path} ({self.kind}, {self.signature}): {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def verify(path: str | Path, *, key: str | Path | None = None) -> Verdict:
    """Derive what a file or directory states, and say whether it is true (V1); `key` is the public key to insist on.

    >>> import tempfile, tacit
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1, out=place + "/run")
    ...     found = verify(place + "/run")
    >>> found.true, found.kind
    (True, 'run')
    """
    place = resolve_location(path)
    with complete_files(place):
        return _directory(place, key) if place.is_dir() else _file(place, key)


def _file(place: Path, key: str | Path | None) -> Verdict:
    content = read_json(place)
    if content.get("format") == "tacit-bundle":
        return _bundle(place, content, key)
    if content.get("format") == TRIAL:
        return _judged(place, "trial", *_trial(content), content, key)
    if "runs" in content and "experiment" in content:
        return _judged(place, "results", *_cells(content["runs"]), content, key)
    stated = content if set(FIRST_ENTRIES) <= set(content) else content.get("certificate")
    if not isinstance(stated, dict):
        raise InvalidInput(f"{place} must be a run, a comparison, results, a bundle or a certificate of tacit")
    plain = {name: part for name, part in stated.items() if name not in ("signature", "digest")}
    return _judged(place, "certificate", *_alone(plain, content), content, key)


def _directory(place: Path, key: str | Path | None) -> Verdict:
    """A run, a comparison or results: what it states, and whether it is what was signed."""
    if RunDirectory(place).begun:
        kind, wrong, right = "run", doubts_about_run(place), _certificate_words(place)
    elif (place / INDEX).is_file():
        runs = runs_of(place)
        wrong = [f"{run.relative_to(place)}: {line}" for run in runs for line in doubts_about_run(run)]
        kind, right = "comparison", f"all {len(runs)} runs are what they state"
    else:
        content = read_json(place / CELLS)
        require("runs" in content, f"{place} must be a run, a comparison or results of tacit", "another directory")
        kind, (wrong, right) = "results", _cells(content["runs"])
    return _judged(place, kind, [*wrong, *doubts_about_signature(place)], right, kept_signature(place), key)


def kept_config(header: Mapping[str, Any], model: Any = None) -> RunConfig:
    """The configuration in config.json; versions before 0.3 left a delta of 0 out."""
    plain = dict(header["config"])
    if plain.get("trust", "none") != "none" and plain.get("delta") is None:
        plain["delta"] = 0.0
    return RunConfig.from_dict(plain, model=model)


def doubts_about_run(directory: Path) -> list[str]:
    """What of a run's directory is not true; empty if all of it is."""
    place = RunDirectory(directory)
    header, privacy = place.header(), place.privacy()
    wrong = [f"{name} is not as it was written (its digest differs)" for name in _altered(place)]
    try:
        config = kept_config(header, place.model())
        parts = assemble(config)
        found = resolve(parts, config)
    except (TacitError, KeyError, TypeError) as error:
        return [*wrong, f"its configuration gives no certificate: {error}"]
    resolved = header.get("resolved", {})
    for name in ("fingerprint", "privatizer", "calibration", "users_per_batch"):
        if resolved.get(name) != getattr(found, name):
            wrong.append(f"{name} is {resolved.get(name)!r} there, the configuration gives {getattr(found, name)!r}")
    stated = privacy.get("certificate", {})
    if privacy.get("claim") != stated.get("claim"):
        wrong.append("claim and certificate of privacy.json are about different claims")
    terms = stated.get("terms")
    if terms is not None and terms.get("version") != header.get("version"):
        wrong.append(f"config.json is of tacit {header.get('version')}, its certificate of {terms.get('version')}")
    return wrong + check_certificate(stated, parts.certificate, str(header.get("version")))


def check_certificate(stated: Mapping[str, Any], derived: Certificate, version: str) -> list[str]:
    """What a certificate states that is not what was derived (V1)."""
    missing = [name for name in FIRST_ENTRIES if name not in stated]
    if missing:
        return [f"the certificate does not say {', '.join(missing)}"]
    try:
        read = Certificate.from_dict(stated)
    except (TacitError, KeyError, TypeError, ValueError) as error:
        return [f"the certificate contradicts itself: {error}"]
    if version == __version__ and "statement" in stated and in_other_words(stated):
        return ["its words are those of another version, which this one does not derive: not verified"]
    stated = _respelled(stated)
    # What was not checked where it was written may have been checked here; the other way round it says too little.
    derived = derived.resting_on(read.unchecked)
    if derived.terms is not None and read.terms is not None:  # any day will do
        derived = derived.under(replace(derived.terms, date=read.terms.date))
    gives = json.loads(json.dumps(derived.to_dict()))
    if version != __version__:
        return _promises_more(stated, derived, gives, version)
    if "terms" in stated:
        return _differing(stated, gives, sorted({**gives, **stated}, key=lambda name: name in FOLLOWING))
    return _differing(stated, gives, FIRST_ENTRIES)


def _respelled(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate as it is spelled now: its unit was {"trajectories": g} before 0.4."""
    claim, terms = stated["claim"], stated.get("terms")
    found = {**stated, "claim": {**claim, "unit": PrivacyUnit.from_dict(claim["unit"]).to_dict()}}
    return found if terms is None else {**found, "terms": Terms.from_dict(terms).to_dict()}


def _differing(stated: Mapping[str, Any], gives: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    # An entry that is left out says nothing (`others`, where there are none).
    return [
        f"{name} is {_short(stated.get(name))}, where {_short(gives.get(name))} is derived"
        for name in names
        if not _same(stated.get(name), gives.get(name))
    ]


def _promises_more(
    stated: Mapping[str, Any], derived: Certificate, gives: Mapping[str, Any], version: str
) -> list[str]:
    """What another version stated that is stronger than what is derived now, or about something else."""
    wrong = _differing(stated, gives, ("claim", "calibration", "delta", "local_epsilon"))
    if stated.get("terms") is not None and gives["terms"] is not None:
        wrong += _differing(stated["terms"], gives["terms"], ("noise", "honest_fraction", "sizes", "unit"))
    printed = [] if stated["printed"] is None else [(stated["printed"]["delta"], stated["printed"]["certified"])]
    for delta, epsilon in [(stated["delta"], stated["epsilon"]), *stated["curve"], *printed]:
        now = epsilon_of(derived.events or (), delta) if derived.claim.trust != "none" else math.inf
        if float(epsilon) < now * (1.0 - TOLERANCE):
            wrong.append(
                f"epsilon {_short(epsilon)} at delta {delta:g} by tacit {version}, where {__version__} "
                f"derives {now:.6g}"
            )
    return wrong[:3]


def _alone(stated: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[list[str], str]:
    """A certificate without its run: by the command beside it, else by its own events."""
    version = str((stated.get("terms") or {}).get("version", content.get("version")))
    config = _from_command(str(content.get("command", "")))
    if config is not None:
        return check_certificate(stated, assemble(config).certificate, version), "it is what its command gives"
    try:
        derived = Certificate.from_dict(stated).derived()
    except (TacitError, KeyError, TypeError, ValueError) as error:
        return [f"the certificate contradicts itself: {error}"], ""
    if derived is None:
        return ["it has neither events nor a configuration to derive it from (certificates before 0.3)"], ""
    return check_certificate(stated, derived, version), "it follows from its events (whose they are it cannot prove)"


def _trial(content: Mapping[str, Any]) -> tuple[list[str], str]:
    """A trial: its interval and verdict from what was released, its certificate from its own events."""
    plain = {name: part for name, part in content.items() if name not in ("signature", "digest")}
    try:
        found = TrialResult.from_dict(plain)
    except TacitError as error:
        return [str(error)], ""
    derived = found.certificate.derived()
    if derived is None:
        return ["its certificate has no events to derive it from"], ""
    wrong = check_certificate(plain["certificate"], derived, found.version)
    return wrong, "its verdict follows from what was released, and its certificate from its events"


def _bundle(place: Path, content: dict[str, Any], key: str | Path | None) -> Verdict:
    wrong = [] if content.get("digest") == digest(content) else ["its content does not have the digest it states"]
    try:
        parts = assemble(RunConfig.from_dict(content["config"]))
        if content["claim"] != content["certificate"]["claim"]:
            wrong.append("claim and certificate are about different claims")
        wrong += check_certificate(content["certificate"], parts.certificate, str(content["version"]))
    except (TacitError, KeyError, TypeError) as error:
        wrong.append(f"its configuration gives no certificate: {error}")
    return _judged(place, "bundle", wrong, "its certificate is what its configuration gives", content, key)


def _cells(runs: list[dict[str, Any]]) -> tuple[list[str], str]:
    """Committed results: the certified epsilon of every run whose command can be read."""
    wrong, derived = [], 0
    for run in runs:
        config = _from_command(run["command"])
        if config is None:
            continue
        found, stated = assemble(config).certificate, run["certified epsilon"]
        derived += 1
        now = found.epsilon
        # Null is written for infinity: no protection, or none that the accountant could find.
        fits = math.isinf(now) if stated is None else stated >= now * (1.0 - TOLERANCE)
        if not fits or run["delta"] != found.delta:
            wrong.append(f"{run['run']}: epsilon {_short(stated)} is stated, {_short(now)} is derived")
    return wrong, f"{derived} of {len(runs)} epsilons derived again"


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


def _judged(
    place: Path, kind: str, wrong: list[str], right: str, content: Mapping[str, Any], key: str | Path | None
) -> Verdict:
    signed: Signed = examine(content, key)
    forged = "signature" in content and not signed.valid
    wrong = [*wrong, *([signed.words] if forged or (key is not None and not signed.pinned) else [])]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    why = f"{wrong[0]}{more}" if wrong else right
    return Verdict(path=str(place), kind=kind, true=not wrong, why=why, signature=signed.words)


def _certificate_words(place: Path) -> str:
    stated = RunDirectory(place).privacy().get("certificate", {})
    simulated = "" if stated.get("release") else " It is a simulation, which protects nobody."
    return f"its certificate is what its configuration gives. {stated.get('verdict', '')}{simulated}"


def _altered(place: RunDirectory) -> list[str]:
    """The files that are not as they were when the run was finished."""
    if not (place.path / DIGESTS).is_file():
        return []
    found = []
    for name, expected in read_json(place.path / DIGESTS).items():
        file = place.path / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            found.append(name)
    return found


def _same(first: Any, second: Any) -> bool:
    """Equal, numbers to a part in 10⁶."""
    numbers = isinstance(first, int | float) and isinstance(second, int | float)
    if numbers and not isinstance(first, bool) and not isinstance(second, bool):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=0.0)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return set(first) == set(second) and all(_same(first[name], second[name]) for name in first)
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
