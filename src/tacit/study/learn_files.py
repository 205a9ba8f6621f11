"""Files of `tacit learn`: what was released and what follows from it, and the check that believes none of it.

    learned.json       request, payloads, certificate, policy, summary, digest[, signature]
    policy.json        the policy alone, for devices and people who act by it
    certificate.json   the certificate alone, with the request that it is derived from
    digests.json       the manifest of the three
    (one file)         of `tacit evaluate`: request, payloads, certificate, summary, digest[, signature]

V1  All three files are derived again from the request and the payloads, and compared entry by entry. Only the payloads
    themselves are taken as they are: they are the release.
"""

from __future__ import annotations

import base64
import glob
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tacit._version import __version__
from tacit.accounting.certificate import FIRST_ENTRIES, Certificate
from tacit.accounting.ledger import charging
from tacit.documents import json_values, vouched, without_seal
from tacit.errors import require
from tacit.policies.feature_policy import FEATURE_POLICY_FORMAT, FeaturePolicy
from tacit.policies.named import POLICY_FORMAT, NamedPolicy
from tacit.runs.manifest import DIGESTS, doubts_about_files, manifest_digest, write_manifest
from tacit.runs.signature import examine, sign, sign_beside
from tacit.runs.storage import check_writable, read_json, write_json, writing_to
from tacit.runs.verify import Findings, Require, Verdict, as_stated, check_digest, check_version, judged
from tacit.study.evaluation import Evaluation, EvaluationRequest, evaluated
from tacit.study.feature_learning import FeatureLearned, FeatureRequest
from tacit.study.learning import Learned, LearnRequest
from tacit.study.split import LEARNED_NAME

LEARNED_FORMAT: Final = "tacit-learned"
LEARNED_VERSION: Final = 1
EVALUATION_FORMAT: Final = "tacit-evaluation"
EVALUATION_VERSION: Final = 1
LEARNED, POLICY, CERTIFICATE = "learned.json", "policy.json", "certificate.json"
FILES: Final = (LEARNED, POLICY, CERTIFICATE)
KIND: Final = "release"
POLICIES: Final[Mapping[str, type[NamedPolicy | FeaturePolicy]]] = {
    POLICY_FORMAT: NamedPolicy,
    FEATURE_POLICY_FORMAT: FeaturePolicy,
}
"""Policies by the format of their files."""


def learned_to_dict(learned: Learned | FeatureLearned) -> dict[str, Any]:
    """Everything that was learned, as JSON-ready values."""
    return {
        "format": LEARNED_FORMAT,
        "format_version": LEARNED_VERSION,
        "version": __version__,
        "request": learned.request.to_dict(),
        "payloads": [base64.b64encode(payload).decode() for payload in learned.payloads],
        "certificate": learned.certificate.to_dict(),
        "policy": learned.policy.to_dict(),
        "summary": learned.summary,
        **({} if learned.comparison is None else {"comparison": evaluation_to_dict(learned.comparison)}),
    }


def evaluation_to_dict(found: Evaluation) -> dict[str, Any]:
    """Everything that was found about policies, as JSON-ready values."""
    return {
        "format": EVALUATION_FORMAT,
        "format_version": EVALUATION_VERSION,
        "version": __version__,
        "request": found.request.to_dict(),
        "payloads": [base64.b64encode(payload).decode() for payload in found.payloads],
        "certificate": found.certificate.to_dict(),
        "summary": found.summary,
    }


def save_evaluation(found: Evaluation, path: str | Path, *, key: str | Path | None = None) -> Path:
    """Write one file, signed if there is a private key."""
    place = Path(path)
    check_new_file(place)
    content = vouched(evaluation_to_dict(found))
    with writing_to(place.parent):
        write_json(place, content if key is None else sign(content, key))
    return place


def check_new_file(path: Path) -> None:
    """Raise unless this is a new .json file that can be written: asked before anything is released."""
    require(path.suffix == ".json", "an evaluation must be written to a .json file", path.suffix or "no suffix")
    require(not path.exists(), f"{path} must be a new file", "one that exists", "choose another with --out")
    check_writable(path.parent)
    _require_nothing_left(path)


def check_target(directory: Path) -> None:
    """Raise unless a directory is new or empty and can be written: asked before anything is released."""
    check_writable(directory)
    _require_nothing_left(directory)
    empty = not directory.exists() or not any(directory.iterdir())
    require(empty, f"{directory} must be a new or empty directory", "files in it", "choose another with --out")


def _require_nothing_left(target: Path) -> None:
    """Raise if a release that no ledger has charged lies beside a target: its process was killed."""
    left = [path.name for path in target.parent.glob(f".{glob.escape(target.name)}.*.part*")]
    hint = "delete it: its release was cut short and is not charged"
    require(not left, f"beside {target} there must be nothing of an earlier release", left[:1], hint)


@contextmanager
def releasing(
    target: Path,
    ledger: Path,
    certificate: Certificate,
    *,
    people: int,
    what: str,
    budget: tuple[float, float] | None,
    whole: bool = False,
) -> Iterator[Path]:
    """Where to write a release that is charged to a ledger: the target appears when the charge is on the disk.

    A new ledger gets this budget, or the claim itself; one that exists keeps its own. Where anything fails, nothing is
    charged, and neither the target (a directory, or a new .json file) nor a new ledger is left behind.
    """
    check_writable(ledger.parent, "--ledger")
    place = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part{target.suffix}")
    users, recipient = range(people), target.name
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with charging(ledger, certificate, budget, users=users, recipient=recipient, what=what, whole=whole):
            yield place
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        if place.is_file():
            place.unlink()
        raise
    place.replace(target)


def save_learned(learned: Learned | FeatureLearned, directory: str | Path, *, key: str | Path | None = None) -> Path:
    """Write the files, signed if there is a private key; the manifest comes last and makes them complete."""
    place = Path(directory)
    check_target(place)
    with writing_to(place):
        place.mkdir(parents=True, exist_ok=True)
        for name, content in _contents(learned).items():
            write_json(place / name, vouched(content) if key is None else sign(vouched(content), key))
        write_manifest(place, KIND, FILES)
        if key is not None:
            sign_beside(place, manifest_digest(place), key, "learner")
    return place / LEARNED


def _contents(learned: Learned | FeatureLearned) -> dict[str, dict[str, Any]]:
    """What stands in the files."""
    certificate = learned.certificate.to_dict()
    request = learned.request.to_dict()
    return {
        CERTIFICATE: {**certificate, "request": request},
        POLICY: learned.policy.to_dict(),
        LEARNED: learned_to_dict(learned),
    }


def _compared(stated: Mapping[str, Any], learned: Learned) -> Evaluation:
    """The comparison of a policy, derived from request and payloads; it must be about the one that was learned."""
    request = EvaluationRequest.from_dict(stated["request"])
    same = request.mapping == learned.request.mapping and list(request.policies) == [LEARNED_NAME]
    same = same and request.policies[LEARNED_NAME].to_dict() == learned.policy.to_dict()
    require(same, "the comparison must be about the policy that was learned", "another")
    certificate = request.certificate(stated["certificate"]["terms"]["noise"])
    payloads = tuple(base64.b64decode(text, validate=True) for text in stated["payloads"])
    return evaluated(request, payloads, certificate)


def is_learned(place: Path) -> bool:
    """Whether this is a directory of `tacit learn`, or a file of one that stands in it or was handed out alone."""
    if place.is_dir():
        return any((place / name).is_file() for name in (LEARNED, CERTIFICATE))
    if not place.is_file() or place.suffix != ".json":
        return False
    content = read_json(place)
    certificate = set(FIRST_ENTRIES) <= set(content) and "request" in content
    return certificate or content.get("format") in (LEARNED_FORMAT, EVALUATION_FORMAT, *POLICIES)


def read_learned(path: str | Path) -> Learned | FeatureLearned:
    """What `save_learned` wrote, in a directory or in its learned.json, if it is true: derived from its releases."""
    place = Path(path)
    require(is_learned(place), f"{path} must be a directory that was learned from a log", "another")
    found = verify_learned(place)
    require(found.true, f"{path} must be true to be used", f"{found.outcome}: {found.why}")
    content = read_json(place / LEARNED if place.is_dir() else place)
    require(content.get("format") == LEARNED_FORMAT, f"{path} must hold a release", content.get("format"))
    request = _request(content["request"])
    certificate = request.certificate(content["certificate"]["terms"]["noise"])
    return request.planned(_payloads(content), certificate)


def _request(plain: Mapping[str, Any]) -> LearnRequest | FeatureRequest:
    """Of a log of states, or of rows of features."""
    return (FeatureRequest if "features" in plain else LearnRequest).from_dict(plain)


def _payloads(content: Mapping[str, Any]) -> tuple[bytes, ...]:
    return tuple(base64.b64decode(text, validate=True) for text in content["payloads"])


def verify_learned(path: str | Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Whether a directory, or a file of one, states what its request and its payloads give (V1).

    A file that stands in its directory is as true as the whole directory. One that was handed out alone is derived as
    far as it goes: learned.json and certificate.json completely, of a policy it is known that it is as it was written.
    """
    place = Path(path)
    home = place if place.is_dir() else place.parent
    whole = place.is_dir() or (place.name in FILES and (home / DIGESTS).is_file())
    found = Findings(kind="learned from a log")
    if not whole:
        content = read_json(place)
        found.sealed(content)
        found.looked_at = {place.name: "derived"}
        with found.deriving("it cannot be derived again"):
            _check_alone(found, content)
        return judged(place, found, key, needed)
    wrong, found.unknown, names = doubts_about_files(home, KIND)
    found.looked_at = {name: "derived" if name in FILES else "digest" for name in names}
    missing = [name for name in FILES if not (home / name).is_file()]
    found.wrong += [*wrong, *(f"{name} is missing" for name in missing if f"{name} is missing" not in wrong)]
    if not missing:
        contents = {name: read_json(home / name) for name in FILES}
        found.sealed(contents[LEARNED if place.is_dir() else place.name])
        with found.deriving("it cannot be derived again"):
            derived = _check_alone(found, contents[LEARNED])
            for name in (POLICY, CERTIFICATE):
                check_digest(found, contents[name])
                signed = examine(contents[name], None)
                found.wrong += [f"{name}: {signed.words}"] if "signature" in contents[name] and not signed.valid else []
                stated = without_seal(contents[name])
                found.compare(stated, derived[name], name, contents[LEARNED].get("version"))
    # Signatures beside are about the directory, whichever of its files was named.
    known = not found.unknown and (home / DIGESTS).is_file()
    found.digest = manifest_digest(home) if known else ""
    found.looked_at |= {DIGESTS: "derived"} if known else {}
    return judged(place, found, key, needed, at=home)


def _check_alone(found: Findings, content: Mapping[str, Any]) -> dict[str, Any]:
    """Compare learned.json, or another file by itself, with what it is derived from; returns all that is derived."""
    check_digest(found, content)
    stated = without_seal(content)
    if content.get("format") in POLICIES:
        found.compare(stated, POLICIES[content["format"]].from_dict(stated).to_dict(), "policy", __version__)
        found.rests_on = "nothing in it shows what it was learned from"
        found.right = "it is as it was written"
        found.not_derived.append("policy")
        return {}
    found.not_derived += ["request", "where the noise came from"]
    whole = content.get("format") in (LEARNED_FORMAT, EVALUATION_FORMAT)
    evaluation = content.get("format") == EVALUATION_FORMAT
    request: Any = (EvaluationRequest.from_dict if evaluation else _request)(stated["request"])
    found.compare(stated["request"], request.to_dict(), "request", __version__)
    plain = stated["certificate"] if whole else stated
    version = plain["terms"]["version"]
    check_version(found, version)
    certificate = request.certificate(plain["terms"]["noise"])
    found.secure = certificate.release
    derived = as_stated(plain, certificate, version)
    if not whole:
        found.compare(stated, {**derived, "request": request.to_dict()}, "certificate", version)
        found.right = "it is what its request gives"
        return {}
    require(stated["version"] == version, "the certificate must be of the version of its file", "another")
    payloads = _payloads(stated)
    if evaluation:
        values = evaluation_to_dict(evaluated(request, payloads, certificate))
        found.compare(stated, {**values, "version": version, "certificate": derived}, "", version)
        found.kind, found.right = (
            "evaluation on a log",
            "certificate and values are what its request and its payloads give",
        )
        found.not_derived.append("payloads")
        return {}
    again = request.planned(payloads, certificate)
    if "comparison" in stated:
        again = replace(again, comparison=_compared(stated["comparison"], again))
        found.secure = found.secure or (again.comparison is not None and again.comparison.certificate.release)
    gives = {**learned_to_dict(again), "version": version, "certificate": derived}
    if again.comparison is not None:
        inner = stated["comparison"]["certificate"]
        gives["comparison"] |= {
            "version": version, "certificate": as_stated(inner, again.comparison.certificate, version)
        }  # fmt: skip
    found.compare(stated, gives, "", version)
    found.not_derived.append("payloads")
    found.right = "certificate and policy are what its request and its payloads give"
    beside = json_values(derived)
    return {POLICY: again.policy.to_dict(), CERTIFICATE: {**beside, "request": request.to_dict()}}
