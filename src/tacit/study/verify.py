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

from tacit._version import __version__
from tacit.accounting.composition import epsilon_of
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
from tacit.study.bundle import FORMAT as BUNDLE
from tacit.study.bundle import Bundle, believed
from tacit.study.collector import PEOPLE, Collector
from tacit.study.contract import GENESIS_HEAD, Head, certificate_under, parts_of, rung_of
from tacit.study.databases import FILES, doubts_about_layout
from tacit.study.design import FORMAT as DESIGNED
from tacit.study.learn_files import POLICIES, is_learned, verify_learned
from tacit.study.record import ENTRIES, FORMAT, FORMAT_VERSION, named_policy, replayed, require_exported
from tacit.study.store import Database
from tacit.study.study import DESIGN, Study, last_head
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
COLLECTED: Final = (
    ("meta", "name"),
    ("stage", "number"),
    ("question", "stage, number"),
    ("outbox", "stage, question"),
    ("records", "number"),
)
"""What a collector's signature is about: everything but reports and people."""
RUNNING: Final = ("-wal", "-shm", "-journal")
"""Ends of the files that SQLite has beside a database while it is open."""
LOG: Final = "the log that it starts from"
SECRETS: Final = ("batches", "bearer", "dashboard", "keys", "issuer-keys.json", "keys-issuer.json", "sealing")
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
    checks = {FORMAT: verify_policy, BUNDLE: verify_bundle, DESIGNED: verify_design}
    return checks.get(str(read_json(place).get("format")), verify_file)(place, key=key, needed=needed)


@checked
def sign_path(path: str | Path, private: str | Path, role: str = "learner", needed: Require = ()) -> Path:
    """Sign a file or directory in a role, beside it, if it is true and `needed` parties have signed; nothing else is.

    What says that its noise was secure is signed first by the party that drew it.
    """
    place = Path(path)
    found = verify(place, needed=needed)
    require(found.true and found.digest != "", f"{place} must be true to be signed", f"{found.outcome}: {found.why}")
    first = found.unsigned_by in ("", role)
    require(first, f"{place} must be signed by its {found.unsigned_by} first, who drew its noise", "no such signature")
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
    place, found = Path(directory), Findings(kind="study", goes_on=True)
    study = Study(place, database=database)
    with study.store.reading() as connection:
        bundles = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM bundle ORDER BY stage, question")]
        noises = [row[0] for row in connection.execute("SELECT noise FROM release ORDER BY charge")]
        last = last_head(connection)
    parsed = [Bundle.parse(data) for data in bundles]
    found.secure = "secure" in noises
    found.named = not noises or (len(parsed) > 0 and parsed[-1].head == last)
    if not found.named:
        found.not_derived.append("the last release, which the next bundle will name")
    _parties(found, [one.examined for one in parsed], ["signature" in one.content for one in parsed])
    if database is None:
        _study_files(found, place, study)
    with found.deriving("it does not follow"):
        parts_of(study.design)
        steps = replayed(study)
        found.right = f"its design keeps the claim, and {steps} steps follow from the releases"
    found.not_derived += ["releases", "the coins that it began with", "reasons of stages that were given up"]
    found.not_derived += [] if getattr(study.design, "start", None) is None else [LOG]
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
        rows = _rows_digest(connection, TABLES)
        found.wrong += doubts_about_layout(connection, "study")
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


def _rows_digest(connection: Connection, tables: Sequence[tuple[str, str]]) -> str:
    """SHA-256 over all rows of a party's tables: two databases with the same rows are one study."""
    found = hashlib.sha256()
    for table, order in tables:
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
    place, found = Path(directory), Findings(kind="collector", writer="operator", goes_on=True)
    collector = Collector(place, database=database)
    with collector.store.reading() as connection:
        released = [bytes(row[0]) for row in connection.execute("SELECT bytes FROM outbox ORDER BY charge")]
        rows = _rows_digest(connection, COLLECTED)
        found.wrong += doubts_about_layout(connection, "collector") if database is None else []
    parsed = [ReleasePayload.parse(data) for data in released]
    _parties(found, [one.examined for one in parsed], [bool(one.signature) for one in parsed])
    found.secure = any(one.noise == "secure" for one in parsed)
    with found.deriving("it does not hold together"):
        require(parts_of(collector.design).claim == collector.claim, "its claim must be that of its design", "another")
        collector.verify()
        whole = "".join(f"{head.text}\n" for head in collector.heads.read())
        require(collector.heads.path.read_bytes() == whole.encode(), "last-head must be as it was written", "otherwise")
        _require_asked(collector, {(one.stage, one.question): one for one in parsed})
        found.right = f"its design keeps the claim, and {len(released)} releases are in the ledger, each paid once"
    name = FILES["collector"]
    derived = (name, collector.heads.path.name, PEOPLE)
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.name != SIGNATURES:
            found.looked_at[path.name] = "derived" if path.name in derived else "not looked at"
        if path.name not in (*derived, *SECRETS, SIGNATURES, *(name + end for end in RUNNING)):
            found.wrong.append(f"{path.name} is no file of a collector")
    found.digest = digest({"format": "tacit-manifest", "kind": "collector", "files": {name: rows}})
    found.not_derived += ["reports, which are scrubbed", "who has taken part", "policies of unsigned bundles"]
    return judged(place, found, key, needed)


def _require_asked(collector: Collector, released: Mapping[tuple[int, int], ReleasePayload]) -> None:
    """Stages and questions must be what their bundles say, and what was released."""
    with collector.store.reading() as connection:
        asked = connection.execute("SELECT stage, number, bundle, charge, head FROM question").fetchall()
        stages = connection.execute("SELECT number, slot, questions, state, n FROM stage ORDER BY number").fetchall()
        counts = dict(connection.execute("SELECT stage, count(*) FROM report GROUP BY stage").fetchall())
        people = dict(connection.execute("SELECT stage, count(*) FROM participation GROUP BY stage").fetchall())
        commits = {one.head for one in released.values()} | {GENESIS_HEAD}
        drawn = dict(connection.execute("SELECT number, digest FROM records WHERE kind = 'draw'").fetchall())
        reports = connection.execute("SELECT value FROM meta WHERE name = 'reports'").fetchone()[0]
    ladder, fits = collector.design.ladder, [one.noise == collector.noise for one in released.values()]
    fits.append(reports == str(int(collector.design.unit.reports)))
    firsts = dict[int, tuple[int, int]]()
    for stage, number, data, charge, digest_of in asked:
        bundle = believed(bytes(data), collector.design, collector.claim, None)
        fits.append((bundle["stage"], bundle["question"]) == (stage, number) and bundle.head in commits)
        firsts[stage] = (bundle["slot"], bundle["questions"])
        at_opening = collector.channels[bundle["slot"]].CHARGED_AT == "open"
        paid = Head(number=charge, digest=bytes(digest_of)) if at_opening else None
        done = released.get((stage, number))
        fits.append((charge is not None) == at_opening and (paid is None or drawn.get(charge) == paid.digest.hex()))
        fits.append(paid is None or done is None or done.charge == paid)
    fits.append(set(released) <= {tuple(row[:2]) for row in asked})
    for stage, slot, questions, state, n in stages:
        all_of = [one for place, one in released.items() if place[0] == stage]
        fits.append((slot, questions) == firsts.get(stage) and (state == "released") == (len(all_of) == questions))
        given_back = state == "void" and stage not in people  # of a stage that was not paid
        fits.append(given_back or people.get(stage, 0) == counts.get(stage, 0))
        fits.append(n is None or n == rung_of(ladder, counts.get(stage, 0)))
        fits.append(all(one.people == n for one in all_of))
    require(all(fits), "stages and questions must be what their bundles and releases say", "others")


def verify_policy(path: str | Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Whether an exported policy states what its design gives, and beside its study or by a key that it was learned."""
    place = Path(path)
    found = _policy(place)
    _rest(found, place, "nothing in it shows its tables, or that its noise was secure")
    return judged(place, found, key, needed)


def verify_bundle(path: str | Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Whether the bundle of a stage keeps its claim, and beside its study or by a key that it is one of a study."""
    place = Path(path)
    found = Findings(kind="bundle of a stage", looked_at={place.name: "derived"})
    bundle = Bundle.parse(place.read_bytes())
    found.sealed(bundle.content)
    if bundle.channel is not None:
        delta, epsilon = bundle.claim.delta, bundle.claim.epsilon
        kept = all(
            epsilon_of(bundle.channel.events_at(n), delta) <= epsilon for n in {bundle["least"], bundle["target"]}
        )
        found.wrong += [] if kept else ["a report under its channel costs more than its claim"]
    found.not_derived += ["policies", "query"]
    found.right = "a report under its channel costs no more than its claim"
    _rest(found, place, "nothing in it shows the design that it belongs to")
    return judged(place, found, key, needed)


def verify_design(path: str | Path, *, key: str | Path | None = None, needed: Require = ()) -> Verdict:
    """Whether the channels of a design follow from its other entries, and keep its claim."""
    place = Path(path)
    content, found = read_json(place), Findings(kind="design of a study", looked_at={place.name: "derived"})
    found.sealed(content)
    with found.deriving("it keeps no claim"):
        design = study_parts.read_design(content)
        found.compare(content, design.to_dict(), "design", __version__)
        check_version(found, content["version"])
        if (start := getattr(design, "start", None)) is not None:
            found.secure = start.noise == "secure"
            found.not_derived.append(LOG)
        found.right = f"its channels follow from its other entries. {parts_of(design).certificate.verdict}"
    return judged(place, found, key, needed)


def _rest(found: Findings, place: Path, why: str) -> None:
    """A file of a study is as true as the directory that it stands in; alone it rests on the key that signed it."""
    if not (place.parent / FILES["study"]).is_file():
        found.rests_on = why
    elif not (study := verify_study(place.parent)).true:
        found.unknown.append(f"its study is {study.outcome}: {study.why}")
    elif study.looked_at.get(place.name) != "derived":  # a name that is skipped there
        found.rests_on = why


def _policy(place: Path) -> Findings:
    content, found = read_json(place), Findings(kind="policy of a study")
    require(content.get("format") == FORMAT, f"{place} must be a {FORMAT}", content.get("format"))
    found.sealed(content)
    found.looked_at = {place.name: "derived"}
    check_digest(found, content)
    check_version(found, content.get("version"))
    with found.deriving("it does not state what its design gives"):
        _check_policy(found, without_seal(content))
        found.secure = any(row["noise"] == "secure" for row in content["releases"])
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
        "format_version": FORMAT_VERSION,
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
