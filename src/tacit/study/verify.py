"""Verification of studies, for whoever does not trust their parties: derive again and compare, believe nothing.

    a study's directory       its design keeps its claim; beliefs, coins and bundles follow from the stored releases
    a collector's directory   its design keeps its claim; ledger and outbox are whole, belong together, are all paid
    an exported policy        its certificate is what its design gives, beside digest and signature

A directory that cannot be opened, and a file that cannot be read, is an error, neither true nor false. `key` is the
public key to insist on: of the bundles of a study, of the releases of a collector, of the file itself. `database` is
where a party keeps its tables, if not in its directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit.errors import TacitError, require
from tacit.runs.signature import Signed, digest, examine
from tacit.runs.storage import read_json
from tacit.runs.verify import Verdict, check_certificate
from tacit.study import contract as study_parts
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import certificate_under, parts_of
from tacit.study.record import ENTRIES, FORMAT, replayed
from tacit.study.store import Database
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

Signatures = list[tuple[bool, Signed]]
"""Whether there is a signature, and what it is worth."""


def verify_study(
    directory: str | Path, *, key: str | Path | None = None, database: str | Database | None = None
) -> Verdict:
    """Whether a learner's directory follows from its design and the releases in it."""
    study, pinned = Study(directory, database=database), None if key is None else Path(key)
    with study.store.reading() as connection:
        bundles = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM bundle ORDER BY stage, question")]
    parsed = [Bundle.parse(data) for data in bundles]
    signed = [(one.content.get("signature") is not None, one.examined(pinned)) for one in parsed]

    def check() -> str:
        parts_of(study.design)
        steps = replayed(study)
        return f"its design keeps the claim, and {steps} steps follow from the releases"

    return _verdict(Path(directory), "study", check, signed, key)


def verify_collector(
    directory: str | Path, *, key: str | Path | None = None, database: str | Database | None = None
) -> Verdict:
    """Whether a collector's ledger and outbox are whole and paid, under a design that keeps its claim."""
    collector, pinned = Collector(directory, database=database), None if key is None else Path(key)
    with collector.store.reading() as connection:
        released = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM outbox ORDER BY charge")]
    parsed = [ReleasePayload.parse(data) for data in released]
    signed = [(bool(one.signature), one.examined(pinned)) for one in parsed]

    def check() -> str:
        parts_of(collector.design)
        collector.verify()
        return f"its design keeps the claim, and {len(released)} releases are in the ledger, each paid once"

    return _verdict(Path(directory), "collector", check, signed, key)


def verify_policy(path: str | Path, *, key: str | Path | None = None) -> Verdict:
    """Whether an exported policy states what its design gives; that it was learned shows the study's directory only."""
    place = Path(path)
    content = read_json(place)
    require(content.get("format") == FORMAT, f"{place} must be a {FORMAT}", content.get("format"))

    def check() -> str:
        wrong = _doubts(content)
        require(not wrong, "a policy must state what its design gives", wrong)
        return "its certificate is what its design gives (that it was learned, the directory of its study shows)"

    signed = [(content.get("signature") is not None, examine(content, key))]
    return _verdict(place, "policy of a study", check, signed, key)


def _doubts(content: Mapping[str, Any]) -> list[str]:
    """What of an exported policy does not follow from its design."""
    known = {*ENTRIES, "digest", "signature"}
    require(set(ENTRIES) <= set(content) <= known, f"it must have the entries {', '.join(ENTRIES)}", sorted(content))
    wrong = [] if content["digest"] == digest(content) else ["its content does not have the digest it states"]
    design = study_parts.read_design(content["design"])
    if content["study"] != design.digest:
        wrong.append("it names another study than its design")
    parts = parts_of(design)
    if content["claim"] != parts.claim.to_dict():
        wrong.append("its claim is not that of its design")
    sources = {row["noise"] for row in content["releases"]}
    derived = certificate_under(parts.certificate, "simulation" if "simulation" in sources else "secure")
    return wrong + check_certificate(content["certificate"], derived, str(content["version"]))


def _verdict(place: Path, kind: str, check: Callable[[], str], signed: Signatures, key: Any) -> Verdict:
    """True if the check passes and the signatures are as wanted."""
    words = "nothing to sign" if not signed else "; ".join(sorted({found.words for _, found in signed}))
    try:
        why, true = check(), True
        forged = any(there and not found.valid for there, found in signed)
        require(not forged, "signatures must fit", words)
        pinned = key is None or all(found.pinned for _, found in signed)
        require(pinned, "all of it must be signed by the given key", words)
    except (TacitError, KeyError, TypeError, ValueError) as error:
        why, true = str(error), False
    return Verdict(path=str(place), kind=kind, true=true, why=why, signature=words)
