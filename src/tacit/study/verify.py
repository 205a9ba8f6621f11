"""Verification of whatever tacit wrote, for readers who do not trust its parties: derive again and compare.

    a study's directory       its design keeps its claim; beliefs, coins and bundles follow from the stored releases
    a collector's directory   its design keeps its claim; ledger and outbox are whole, belong together, are all paid
    an exported policy        certificate, names, sizes and fall-back are what its design gives
    what `tacit learn` wrote  `tacit.study.learn_files`
    everything else           `tacit.runs.verify`

A directory that cannot be opened, and a file that cannot be read, is an error, neither true nor false. `key` is the
public key to insist on: of the bundles of a study, of the releases of a collector, of the file itself, or of a party
that signed beside it. `needed` are the parties that must have signed: pairs of role and public key. `database` is where
a party keeps its tables, if not in its directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tacit.accounting.journal import Connection
from tacit.accounting.terms import NOISE_KINDS
from tacit.arguments import checked
from tacit.documents import canonical, digest, json_values, without_seal
from tacit.errors import require, require_count
from tacit.runs.signature import SIGNATURES, Signed, sign_beside, signers_beside
from tacit.runs.storage import complete_files, read_json
from tacit.runs.storage_paths import is_local, resolve_location
from tacit.runs.verify import (
    Findings,
    Require,
    Verdict,
    as_stated,
    check_digest,
    check_version,
    judged,
    verify_file,
    verify_run_directory,
)
from tacit.study import contract as study_parts
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Head, certificate_under, parts_of
from tacit.study.databases import FILES
from tacit.study.learn_files import POLICIES, is_learned, verify_learned
from tacit.study.record import ENTRIES, FORMAT, FORMAT_VERSION, named_policy, replayed, require_exported
from tacit.study.store import Database
from tacit.study.study import DESIGN, Study
from tacit.study.wire import ReleasePayload

TABLES: Final = (
    ("meta", "name"),
    ("stage", "number"),
    ("bundle", "stage, question"),
    ("release", "stage, question"),
    ("quarantine", "stage, question"),
    ("belief", "step"),
)
"""What a study consists of, and its order."""
RUNNING: Final = ("-wal", "-shm", "-journal")
"""Ends of the files that SQLite has beside a database while it is open."""
SECRETS: Final = ("batches", "bearer", "keys", "issuer-keys.json", "sealing")
"""What a service keeps beside its study: keys, and batches until they are opened."""


@checked
def verify(path: str | Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Derive again what a file or directory states, compare every entry, and say whether it is true.

    Parameters
    ----------
    path
        A run, comparison, results, study, collector or what `tacit learn` wrote; or a bundle, policy, trial or
        certificate by itself.
    key
        The public key of a party that must have signed it.
    needed
        Pairs of a role ("learner", "officer", "operator") and the public key that must have signed in it.

    Returns
    -------
    Verdict
        Its `outcome` is "true", "FALSE", or "not verified" for what this version cannot derive completely.

    Raises
    ------
    InvalidInput
        If it cannot be read.

    Examples
    --------
    >>> import tempfile, tacit
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1, out=place + "/run")
    ...     found = verify(place + "/run")
    >>> found.outcome, found.kind, found.looked_at["config.json"]
    ('true', 'run', 'derived')
    """
    place = resolve_location(path)
    if is_local(place):
        for kind, check in (("study", verify_study), ("collector", verify_collector)):
            if (place / FILES[kind]).is_file():
                return check(place, key=key, needed=needed)
        if is_learned(place):
            with complete_files(place):
                return verify_learned(place, key=key, needed=needed)
    if place.is_dir():
        return verify_run_directory(place, key=key, needed=needed)
    if read_json(place).get("format") == FORMAT:
        return verify_policy(place, key=key, needed=needed)
    return verify_file(place, key=key, needed=needed)


@checked
def sign_path(path: str | Path, private: str | Path, role: str = "learner") -> Path:
    """Sign a file or directory in a role, beside it, if it is true; nothing else is signed."""
    place = Path(path)
    found = verify(place)
    require(found.true, f"{place} must be true to be signed", f"{found.outcome}: {found.why}")
    # A file of a directory is signed with it.
    alone = place.is_dir() or digest(read_json(place)) == found.digest
    return sign_beside(place if alone else place.parent, found.digest, private, role)


def verify_study(
    directory: str | Path,
    *,
    key: str | Path | None = None,
    needed: Require = (),
    database: str | Database | None = None,
) -> Verdict:
    """Whether a learner's directory follows from its design and the releases in it."""
    place, found = Path(directory), Findings(kind="study")
    study = Study(place, database=database)
    with study.store.reading() as connection:
        bundles = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM bundle ORDER BY stage, question")]
    parsed = [Bundle.parse(data) for data in bundles]
    _parties(found, [one.examined for one in parsed], ["signature" in one.content for one in parsed])
    if database is None:
        _study_files(found, place, study)
    with found.deriving("it does not follow"):
        parts_of(study.design)
        steps = replayed(study)
        found.right = f"its design keeps the claim, and {steps} steps follow from the releases"
    found.not_derived += ["releases", "the coins that it began with", "reasons of stages that were given up"]
    return judged(place, found, key, needed)


def _study_files(found: Findings, place: Path, study: Study) -> None:
    """Look at every file of a study: the design as it is written out, the database row by row."""
    expected = canonical(study.design.to_dict()) + b"\n"
    name = FILES["study"]
    found.looked_at = {name: "derived"}
    if not (place / DESIGN).is_file():
        found.wrong.append(f"{DESIGN} is missing")
    elif (place / DESIGN).read_bytes() != expected:
        found.wrong.append(f"{DESIGN} is not the design of this study")
    else:
        found.looked_at[DESIGN] = "derived"
    with study.store.reading() as connection:
        rows = _rows_digest(connection)
        asked = connection.execute("SELECT stage, question, bytes FROM bundle").fetchall()
    written = {f"bundle-{stage}-{question}.json": bytes(data) for stage, question, data in asked}
    for path in sorted(place.iterdir()):
        if path.name in written:
            found.looked_at[path.name] = "derived"
            if not path.is_file() or path.read_bytes() != written[path.name]:
                found.wrong.append(f"{path.name} is not the bundle of this study")
        elif path.name.endswith(f".json.{SIGNATURES}"):  # of a policy that was handed out
            found.wrong += signers_beside(place / path.name.removesuffix(f".{SIGNATURES}"))[1]
        elif path.suffix == ".json" and path.is_file() and read_json(path).get("format") == FORMAT:
            found.looked_at[path.name] = "derived"
            inner = _policy(path)
            with inner.deriving("it was not learned here"):
                require_exported(study, read_json(path))
            if inner.doubt:
                found.wrong.append(f"{path.name} is not a policy of this study: {inner.doubt}")
        elif path.name in SECRETS:
            found.looked_at[path.name] = "not looked at"
        elif path.name not in (name, DESIGN, SIGNATURES, *(name + end for end in RUNNING)):
            found.looked_at[path.name] = "not looked at"
            found.wrong.append(f"{path.name} is no file of a study")
    listed = {DESIGN: hashlib.sha256(expected).hexdigest(), name: rows}
    found.digest = digest({"format": "tacit-manifest", "kind": "study", "files": listed})


def _rows_digest(connection: Connection) -> str:
    """SHA-256 over all rows of a study: two databases with the same rows are one study."""
    found = hashlib.sha256()
    for table, order in TABLES:
        rows = connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()  # noqa: S608 - constants
        for row in rows:
            found.update(canonical({table: [_plain(value) for value in row]}) + b"\n")
    return found.hexdigest()


def _plain(value: object) -> object:
    return {"bytes": bytes(value).hex()} if isinstance(value, bytes | bytearray | memoryview) else value


def verify_collector(
    directory: str | Path,
    *,
    key: str | Path | None = None,
    needed: Require = (),
    database: str | Database | None = None,
) -> Verdict:
    """Whether a collector's ledger and outbox are whole and paid, under a design that keeps its claim."""
    place, found = Path(directory), Findings(kind="collector", writer="operator")
    collector = Collector(place, database=database)
    with collector.store.reading() as connection:
        released = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM outbox ORDER BY charge")]
    parsed = [ReleasePayload.parse(data) for data in released]
    _parties(found, [one.examined for one in parsed], [bool(one.signature) for one in parsed])
    with found.deriving("it does not hold together"):
        parts_of(collector.design)
        collector.verify()
        found.right = f"its design keeps the claim, and {len(released)} releases are in the ledger, each paid once"
    if place.is_dir():
        known = (FILES["collector"], collector.heads.path.name)
        found.looked_at = {path.name: "derived" if path.name in known else "not looked at" for path in place.iterdir()}
    found.not_derived += ["reports and people, which are scrubbed"]
    return judged(place, found, key, needed)


def verify_policy(path: str | Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Whether an exported policy states what its design gives; that it was learned shows the study's directory only."""
    place = Path(path)
    content, found = read_json(place), _policy(place)
    verdict = judged(place, found, key, needed)
    if verdict.true and key is None and not needed and any(row["noise"] == "secure" for row in content["releases"]):
        # Whoever rehearsed could write "secure": that it was, the study's directory shows, or a party that is trusted.
        found.unknown.append("that its noise was secure nothing in it shows: insist on a key, or verify its study")
        return judged(place, found, key, needed)
    return verdict


def _policy(place: Path) -> Findings:
    content, found = read_json(place), Findings(kind="policy of a study")
    require(content.get("format") == FORMAT, f"{place} must be a {FORMAT}", content.get("format"))
    found.sealed(content)
    found.looked_at = {place.name: "derived"}
    check_digest(found, content)
    check_version(found, content.get("version"))
    with found.deriving("it does not state what its design gives"):
        _check_policy(found, without_seal(content))
    return found


def _check_policy(found: Findings, content: Mapping[str, Any]) -> None:
    """Compare every entry of an exported policy with what its design gives; the tables are taken as stated."""
    require(set(content) == set(ENTRIES), f"a policy has the entries {', '.join(ENTRIES)}", sorted(content))
    require(content["format_version"] == FORMAT_VERSION, f"it must be of version {FORMAT_VERSION}", "another")
    design, version = study_parts.read_design(content["design"]), content["version"]
    found.compare(content["design"], design.to_dict(), "design", version)
    parts, stated = parts_of(design), content["certificate"]
    releases = _releases(content["releases"], parts.channels)
    Head.from_text(content["head"])
    sources = {row["noise"] for row in releases}
    certificate = certificate_under(parts.certificate, "simulation" if "simulation" in sources else "secure")
    policy = POLICIES[content["policy"]["format"]].from_dict(content["policy"])
    gives = {
        **content,
        "name": design.name,
        "study": design.digest,
        "claim": parts.claim.to_dict(),
        "certificate": as_stated(stated, certificate, version),
        "policy": named_policy(design, policy.policy, killed=policy.killed).to_dict(),
    }
    found.compare(content, json_values(gives), "", version)
    found.not_derived += ["tables of the policy", "releases", "head"]
    found.right = "its certificate is what its design gives (that it was learned, the directory of its study shows)"


def _releases(given: list[Any], channels: Sequence[Any]) -> list[Any]:
    """The releases that a policy lists, if its study could have made them."""
    require(isinstance(given, list) and len(given) > 0, "a policy must list the releases it was learned from", "none")
    places = set()
    for row in given:
        whole = isinstance(row, Mapping) and set(row) == {"stage", "question", "people", "noise"}
        require(whole and row["noise"] in NOISE_KINDS, "a release has stage, question, people and noise", "others")
        numbers = [require_count(name, row[name], least=0) for name in ("stage", "question", "people")]
        enough = numbers[2] >= min(channel.least for channel in channels)
        require(enough, "a release must be of as many people as its stage needs", numbers[2])
        places.add(tuple(numbers[:2]))
    most = sum(channel.questions for channel in channels)
    require(len(places) == len(given) <= most, f"a study of this design has at most {most} releases", len(given))
    return given


def _parties(found: Findings, parts: Sequence[Callable[[Path | None], Signed]], there: Sequence[bool]) -> None:
    """Who signed the parts of a study: a signature that is there must fit; a key that made all of them signed it."""

    def inside(key: str | Path | None) -> Signed:
        each = [one(None if key is None else Path(key)) for one in parts]
        words = "; ".join(sorted({one.words for one in each})) or "nothing to sign"
        pinned = len(each) > 0 and all(one.pinned for one in each)
        return Signed(valid=all(one.valid for one in each), pinned=pinned, words=words)

    found.inside = inside
    if any(given and not one(None).valid for one, given in zip(parts, there, strict=True)):
        found.wrong.append("its signatures must fit, got a forged one")
