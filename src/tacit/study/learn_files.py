"""Files of `tacit learn`: what was released and what follows from it, and the check that believes none of it.

    learned.json       request, payloads, certificate, policy, summary, digest[, signature]
    policy.json        the policy alone, for whoever acts by it
    certificate.json   the certificate alone

V1  `verify_learned` derives channels, certificate and policy again from the request and the payloads; whatever is not
    what it should be is said. Only the payloads themselves are taken as they are: they are the release.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tacit._version import __version__
from tacit.errors import InvalidInput, TacitError, require
from tacit.policies.named import NamedPolicy
from tacit.runs.signature import digest, examine, sign
from tacit.runs.storage import check_writable, read_json, write_json, writing_to
from tacit.runs.verify import Verdict, check_certificate
from tacit.study.learning import Learned, LearnRequest, planned

LEARNED_FORMAT: Final = "tacit-learned"
LEARNED_VERSION: Final = 1
LEARNED, POLICY, CERTIFICATE = "learned.json", "policy.json", "certificate.json"
ENTRIES: Final = ("format", "format_version", "version", "request", "payloads", "certificate", "policy", "summary")


def learned_to_dict(learned: Learned) -> dict[str, Any]:
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
    }


def check_target(directory: Path) -> None:
    """Raise unless a directory is new or empty and can be written: asked before anything is released."""
    check_writable(directory)
    empty = not directory.exists() or not any(directory.iterdir())
    require(empty, f"{directory} must be a new or empty directory", "files in it", "choose another with --out")


def save_learned(learned: Learned, directory: str | Path, *, key: str | Path | None = None) -> Path:
    """Write the files, signed if there is a private key; learned.json comes last and makes them complete."""
    place = Path(directory)
    check_target(place)
    with writing_to(place):
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / CERTIFICATE, _vouched(learned.certificate.to_dict(), key))
        write_json(place / POLICY, _vouched(learned.policy.to_dict(), key))
        write_json(place / LEARNED, _vouched(learned_to_dict(learned), key))
    return place / LEARNED


def verify_learned(path: str | Path, *, key: str | Path | None = None) -> Verdict:
    """Whether learned.json states what its request and its payloads give (V1)."""
    place = Path(path)
    content = read_json(place)
    require(content.get("format") == LEARNED_FORMAT, f"{path} must be a {LEARNED_FORMAT}", content.get("format"))
    wrong = [] if content.get("digest") == digest(content) else ["its content does not have the digest it states"]
    wrong += _doubts(content)
    signed = examine(content, key)
    forged = content.get("signature") is not None and not signed.valid
    wrong += [signed.words] if forged or (key is not None and not signed.pinned) else []
    right = "certificate and policy are what its request and its payloads give"
    why = wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "") if wrong else right
    return Verdict(path=str(place), kind="learned from a log", true=not wrong, why=why, signature=signed.words)


def _doubts(content: Mapping[str, Any]) -> list[str]:
    """What of a file does not follow from its request and its payloads."""
    try:
        known = {*ENTRIES, "digest", "signature"}
        require(set(ENTRIES) <= set(content) <= known, f"it has the entries {', '.join(ENTRIES)}", sorted(content))
        stated = content["certificate"]
        noise = stated["terms"]["noise"]
        request = LearnRequest.from_dict(content["request"])
        payloads = tuple(base64.b64decode(text, validate=True) for text in content["payloads"])
        certificate = request.certificate(noise)
        wrong = check_certificate(stated, certificate, str(content["version"]))
        again = planned(request, payloads, certificate)
        if NamedPolicy.from_dict(content["policy"]).to_dict() != again.policy.to_dict():
            wrong.append("its policy is not what its payloads give")
        if not _close(content["summary"], again.summary):
            wrong.append("its summary is not what its payloads give")
    except (TacitError, KeyError, TypeError, ValueError, binascii.Error) as error:
        return [f"it cannot be derived again: {error}"]
    return wrong


def _close(stated: Any, derived: Any) -> bool:
    """Whether two summaries agree, numbers to a part in 10⁹."""
    if isinstance(derived, Mapping):
        same = isinstance(stated, Mapping) and set(stated) == set(derived)
        return same and all(_close(stated[name], derived[name]) for name in derived)
    if isinstance(derived, float):
        return isinstance(stated, int | float) and math.isclose(stated, derived, rel_tol=1e-9, abs_tol=1e-12)
    return bool(stated == derived)


def _vouched(content: Mapping[str, Any], key: str | Path | None) -> dict[str, Any]:
    whole = {**content, "digest": digest(content)}
    if key is None:
        return whole
    try:
        return sign(whole, key)
    except OSError as error:
        raise InvalidInput(f"{key} must be a private key: {error.strerror}") from None
