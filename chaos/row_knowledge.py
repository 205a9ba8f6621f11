"""Who can know what: the table of `tacit.accounting.knowledge` against everything that real processes let parties read.

difference   two neighbouring histories, each run twice: whatever is the same in all runs of each history, and differs
             between the histories, tells them apart for certain; a part of a value that is does, too. It may stand only
             where the table says "data".
canaries     what the person reported, in every spelling: nowhere in any byte of a party that may not read it
reach        every coalition opens what its keys open, and guesses the order of what it opens: what it reads of one
             person is what the table says.
grades       each cell of the table is measured, surface by surface, from what was recorded.
messages     what is randomized is attacked by trials: no bound on epsilon above what the table says remains.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, reduce
from typing import Any

import numpy as np
from scipy import stats

from chaos import mutants, row_shape, views
from chaos.canaries import spellings
from chaos.worlds import row
from tacit.accounting.knowledge import KINDS, PARTIES, SURFACES, Kind, reach, remaining, sight
from tacit.audit.bounds import Errors, event_epsilon
from tacit.data.trajectories import Trajectory
from tacit.randomness import SimulationNoise
from tacit.service.encryption.envelope import open_envelope
from tacit.service.encryption.hpke import inner_info, mixer_info
from tacit.study.sealed_batches import message_size
from tacit.study.wire import ReleasePayload, Report

PEOPLE = 4
SCALES: dict[str, dict[str, Any]] = {
    "ci": {
        "kinds": ("central",),
        "databases": ("sqlite",),
        "pairs": (("zeros", "ones"),),
        "mutants": (),
        "trials": 2_000,
    },
    "chaos": {
        "kinds": tuple(KINDS),
        "databases": ("sqlite", "postgresql"),
        "pairs": (("zeros", "ones"), ("zeros", "nothing")),
        "mutants": (("sealed", "shuffler"), ("mixed", "shuffler"), ("mixed", "mixer")),
        "trials": 20_000,
    },
}
NEIGHBOURS: dict[str, Any] = {
    # Rewards that are encoded as 0 and 1, but whose digits stand nowhere else.
    "zeros": {
        **(row_shape.LIVES[0] or {}),
        "rewards": [3.14159265e-30, 2.71828182e-30, 1.41421356e-30, 1.73205080e-30],
    },
    "ones": {**(row_shape.LIVES[1] or {}), "rewards": [1.0 - 1.23456e-13 * step for step in (1, 2, 3, 4)]},
    "nothing": None,
}
"""What the person reports whose report differs; None is a dummy report."""
FALSE_ALARM = 1e-6
MOST_ROUNDS = 4
"""Rounds of two runs of each history: a value that has one of two forms by chance tells them apart once in 2^15."""
TRIED = 8
"""How many messages of a sealed report are tried with keys of other parties: all are sealed alike."""
SHORTEST = 8
"""Values of fewer letters are equal by chance; longer ones that are equal are the same one."""
WORD = re.compile(rb"""[^\s"',{}\[\]()]{4,}""")
"""A part of a text that can be equal in two texts otherwise different."""
LONG, DIFFERENT = 256, 3
"""Reports without seals are searched for, and their first halves if they are long, if so many bytes are different."""
TOGETHER = 4
"""So many sealed messages of one person, one after the other: once in a million in a uniform order."""
BATCHES = ("shuffler/internal/GET /v1/stages/0/batch#0", "mixer/internal/GET /v1/stages/0/batch#0")
"""Where the files of messages were handed over: the shuffler's, and the mixer's."""


# histories


def layers_of(kind: Kind) -> int:
    """In how many layers messages are sealed."""
    return {"sealed": 1, "mixed": 2}.get(kind, 0)


def kinds_served() -> tuple[Kind, ...]:
    """The kinds that services run; they refuse shuffle trust without seals."""
    return tuple(kind for kind in KINDS if kind != "plain")


def runs_of(kind: Kind, pair: Sequence[str] = ("zeros", "ones"), server: Any = None) -> dict[str, list[views.Run]]:
    """Two runs of each of two neighbouring histories, in turns, so that nothing that drifts looks like a difference.

    Where something seems to leak there are two more runs of each, up to eight: what is the same in all runs of one
    history and in none of the other by chance (free disk, in whole MiB) is not so again; what leaks is, every time.
    """
    found: dict[str, list[views.Run]] = {name: [] for name in pair}
    for _ in range(MOST_ROUNDS):
        with ThreadPoolExecutor(2) as both:
            for name, run in both.map(lambda name: (name, run_of(kind, name, server)), (*pair, *pair)):
                found[name].append(run)
        if not leaks(differences(found, kind)[0], kind):
            break
    return found


def run_of(
    kind: Kind, name: str, server: Any = None, *, mutant: str = "", of: Sequence[str] = ("shuffler",)
) -> views.Run:
    """One run of a history, of real processes, or of files where services refuse."""
    lived = [row_shape.LIVES[2 + number % 2] for number in range(PEOPLE)]
    lived[views.VICTIM] = NEIGHBOURS[name]
    design = row_shape.design(KINDS[kind][0], PEOPLE)
    if kind in kinds_served():
        run = views.lives(design, lived, mixed=kind == "mixed", server=server, mutant=mutant, mutants=of)
    else:
        run = views.filed(design, lived, server=server)
    assert run.answers == ["counted"] * PEOPLE, run.answers
    assert run.replayed, "what a learner has must follow from its releases"
    return run


# the certain attack


def aspects(run: views.Run, kind: Kind) -> dict[tuple[str, str, str], Any]:
    """(party, place, aspect) -> what can be seen: a value, its length, and where the same value was seen first."""
    first: dict[bytes, str] = {}
    found: dict[tuple[str, str, str], Any] = {}
    for party in PARTIES:
        for place, value in run.seen.get(party, {}).items():
            step, _, rest = place.partition("/")
            before = run.seen[party].get(f"0/{rest}") if step.isdigit() else None
            if derived(place, kind) or step == "0" or (before is not None and before == value):
                continue  # what was there before the first report says nothing about people
            randomized = views.PAYLOAD.search(place) and kind != "central"
            if not randomized:
                found[party, place, "value"] = value
            raw = value.encode() if isinstance(value, str) else value
            if isinstance(raw, bytes):
                found[party, place, "length"] = len(raw)
                found[party, place, "part"] = raw if layers_of(kind) or not randomized else b""
                if len(raw) >= SHORTEST and not randomized:
                    with contextlib.suppress(ValueError):
                        raw = bytes.fromhex(raw.decode())
                    found[party, place, "first seen"] = first.setdefault(raw, f"{party}/{place}")
    return found


def derived(place: str, kind: Kind) -> bool:
    """Whether what stands there follows from a release, so that it may differ."""
    return bool(views.DERIVED.search(place) or (not layers_of(kind) and views.RELEASED.search(place)))


@lru_cache(4_000)
def parts(value: bytes) -> Any:
    """The words of a text, by a hash; of other bytes, every eight that stand together: sorted numbers, each once."""
    if value.isascii():
        found = [hashlib.blake2b(word, digest_size=SHORTEST).digest() for word in WORD.findall(value)]
        return np.unique(np.frombuffer(b"".join(found), dtype="<u8"))
    if len(value) < SHORTEST:
        return np.empty(0, dtype="<u8")
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(value, dtype=np.uint8), SHORTEST)
    return np.unique(np.ascontiguousarray(windows).view("<u8"))


def differences(runs: Mapping[str, Sequence[views.Run]], kind: Kind) -> tuple[set[tuple[str, str, str]], int]:
    """Everything that tells two histories apart for certain; how many aspects were the same in all runs of each."""
    seen = {name: [aspects(run, kind) for run in some] for name, some in runs.items()}
    every = set().union(*(one for some in seen.values() for one in some))
    told, steady = set(), 0
    for key in every:
        one, other = ([run.get(key) for run in some] for some in seen.values())
        if key[2] == "part":
            if len({*one, *other}) > 2 and _told(one, other):
                told.add(key)
            continue
        if all(value == one[0] for value in one) and all(value == other[0] for value in other):
            steady += 1
            if one[0] != other[0]:
                told.add(key)
    return told, steady


def _told(one: Sequence[bytes | None], other: Sequence[bytes | None]) -> bool:
    """Whether a part is in all values of one history, and in none of the other."""
    both = [[parts(value or b"") for value in some] for some in (one, other)]
    for mine, others in (both, both[::-1]):
        common = reduce(lambda first, second: np.intersect1d(first, second, assume_unique=True), mine)
        if len(common) and len(np.setdiff1d(common, np.concatenate(others))):
            return True
    return False


def leaks(told: set[tuple[str, str, str]], kind: Kind) -> list[str]:
    """Differences where the table allows none: of a party that reads data, what it keeps of reports is one."""
    return sorted(
        f"{party}: {place} ({aspect})"
        for party, place, aspect in told
        if not (views.PAYLOAD.search(place) and sight(party, "messages", kind)[0] == "data")  # type: ignore[arg-type]
    )


# canaries


def secrets(run: views.Run, life: str, kind: Kind) -> dict[str, set[bytes]]:
    """What the person reported, in every spelling: raw, as it was encoded, and as it was sealed."""
    found: dict[str, set[bytes]] = {"rewards": set(), "report": set(), "sealed": set()}
    lived = NEIGHBOURS[life]
    if lived is not None:
        for reward in lived["rewards"]:
            texts = {repr(reward), f"{reward:.17g}", reward.hex()}
            found["rewards"] |= set().union(*(spellings(text.encode()) for text in texts))
            found["rewards"] |= spellings(struct.pack("<d", reward)) | spellings(struct.pack(">d", reward))
    body = run.plain[views.VICTIM]
    for piece in {body, body[: len(body) // 2] if len(body) >= LONG else body}:
        if len(piece) >= SHORTEST and len(set(piece)) >= DIFFERENT:
            found["report"] |= spellings(piece)
    if layers := layers_of(kind):
        size = message_size(run.design.parts().channels[0], layers) * TOGETHER
        sealed = arrived(run)[views.VICTIM]
        for start in range(0, len(sealed) - size, size // TOGETHER):
            found["sealed"].add(sealed[start : start + size])
    return found


def readable(party: str, kind: Kind) -> set[str]:
    """Which of these a party may have: the report as it is encoded, and as it is sealed."""
    grade = sight(party, "messages", kind)[0]  # type: ignore[arg-type]
    sender = sight(party, "addresses", kind)[0] == "devices"  # type: ignore[arg-type]
    return {"report"} if grade in ("data", "message") else {"sealed"} if grade == "sealed" and sender else set()


def canaries(run: views.Run, life: str, kind: Kind) -> list[str]:
    """What the person reported, where a party has it that may not: in names of places, values, bytes of files."""
    hidden, wrong = secrets(run, life, kind), []
    for party in PARTIES:
        places = {place: _bytes(value) for place, value in run.seen.get(party, {}).items()}
        places |= {f"raw {place}": data for place, data in run.raw.get(party, {}).items()}
        whole = b"\0".join(itertools.chain.from_iterable((place.encode(), data) for place, data in places.items()))
        for name in sorted(set(hidden) - readable(party, kind)):
            for word in (word for word in hidden[name] if word in whole):
                there = [place for place, data in places.items() if word in place.encode() or word in data]
                wrong.append(f"{party}: {name} in {', '.join(there[:3])}")
    return sorted(set(wrong))


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


# what coalitions open


def coalitions() -> Iterator[tuple[str, ...]]:
    """All of them."""
    for size in range(1, len(PARTIES) + 1):
        yield from itertools.combinations(PARTIES, size)


def arrived(run: views.Run) -> list[bytes]:
    """The body of every report as the shuffler takes it from its envelope, in the order of arrival."""
    if not run.envelopes:
        return run.plain
    study, ring = bytes.fromhex(run.design.digest), run.rings["shuffler"]
    some = tuple(envelope for _, envelope in run.envelopes)
    return _once(
        run,
        ("arrived", some),
        lambda: [Report.parse(open_envelope(e, study=study, keys=ring).report).body for e in some],
    )


def _once(run: views.Run, key: Any, make: Callable[[], Any]) -> Any:
    """Work that many coalitions do alike."""
    kept = run.__dict__.setdefault("kept", {})
    if key not in kept:
        kept[key] = make()
    return kept[key]


def batches(run: views.Run, kind: Kind) -> list[list[bytes]]:
    """The messages of the files that were handed over: the shuffler's, then the mixer's."""
    channel, layers = run.design.parts().channels[0], layers_of(kind)
    found = []
    for number, place in enumerate(BATCHES[:layers]):
        size = message_size(channel, layers - number)
        (data,) = {run.seen[party][f"{place}/response/body"] for party in ("learner", "network")}
        found.append(_cut(data, size))
    return found


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def peeled(run: views.Run, party: str, messages: Sequence[bytes]) -> list[bytes | None]:
    """What is in messages that are sealed to a party."""
    info = inner_info if party == "learner" else mixer_info
    study = bytes.fromhex(run.design.digest)
    kept = _once(run, ("peeled", party), dict)
    for message in messages:
        if message not in kept:
            opened = (key.open(info(study, 0, name), message) for name, key in run.rings[party].items())
            kept[message] = next((one for one in opened if one is not None), None)
    return [kept[message] for message in messages]


def guessed(run: views.Run, coalition: Iterable[str], kind: Kind) -> list[bytes]:
    """The labels of all people, in the order of arrival as far as a coalition with the learner can tell.

    Those who permuted know their order, and undo it; of the others the guess is that they left everything in its place.
    """
    files, found = batches(run, kind), set(coalition)
    labels = [one or b"" for one in peeled(run, "learner", files[-1])]
    if kind == "mixed" and "mixer" in found:
        place = {message: at for at, message in enumerate(files[-1])}
        labels = [labels[place[inner]] for inner in peeled(run, "mixer", files[0]) if inner is not None]
    if "shuffler" in found:
        size = len(files[0][0])
        place = {message: at for at, message in enumerate(files[0])}
        labels = [labels[place[message]] for body in arrived(run) for message in _cut(body, size)]
    return labels


def blocks(labels: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The labels of one person, if they stand one after the other, or in turns."""
    each = len(labels) // PEOPLE
    for number in range(PEOPLE):
        yield labels[number * each : (number + 1) * each]
        yield labels[number::PEOPLE]


def opened(run: views.Run, coalition: Sequence[str], kind: Kind) -> bytes | None:
    """The report of the person as far as a coalition can read it, from what it recorded and the keys it holds."""
    layers, body = layers_of(kind), run.plain[views.VICTIM]
    if not layers:
        return arrived(run)[views.VICTIM] if "shuffler" in coalition else None
    if "learner" not in coalition:
        return None
    size = message_size(run.design.parts().channels[0], 0)
    mine = Counter(_cut(body, size))
    some = frozenset(coalition) & {"shuffler", "mixer"}

    def attack() -> bytes | None:
        return body if any(Counter(block) == mine for block in blocks(guessed(run, some, kind))) else None

    found: bytes | None = _once(run, ("attack", some, *map(tuple, batches(run, kind))), attack)
    return found


def wrong_keys(run: views.Run, kind: Kind) -> list[str]:
    """Messages and envelopes that open with a key of another party, or do not open with the right one."""
    wrong, study, layers = [], bytes.fromhex(run.design.digest), layers_of(kind)
    if not run.envelopes:
        return wrong
    for party, ring in run.rings.items():
        with contextlib.suppress(Exception):
            open_envelope(run.envelopes[views.VICTIM][1], study=study, keys=ring)
            if party != "shuffler":
                wrong.append(f"{party} opens an envelope")
    messages: list[bytes] = []
    sealed, owners = arrived(run)[views.VICTIM], ["mixer"] * (layers - 1) + ["learner"] * (layers > 0)
    for number, owner in enumerate(owners):
        size = message_size(run.design.parts().channels[0], layers - number)
        messages = [one or b"" for one in peeled(run, "mixer", messages)] if number else _cut(sealed, size)[:TRIED]
        for party, ring in run.rings.items():
            for info in (inner_info, mixer_info):
                keys = [(info(study, 0, name), key) for name, key in ring.items()]
                count = sum(any(key.open(about, one) is not None for about, key in keys) for one in messages)
                right = party == owner and info is (inner_info if owner == "learner" else mixer_info)
                if count != right * len(messages):
                    wrong.append(f"{party} opens {count} messages for the {owner}")
    return wrong


def reached(run: views.Run, coalition: Sequence[str], kind: Kind, life: str) -> str:
    """What a coalition has of one person: nothing but the release, a noisy report, or one that never changes."""
    found = opened(run, coalition, kind)
    if found is None:
        return "release"
    (first, *others) = bodies_of(kind, life)
    return "data" if not others and found == first else "message"


@cache
def bodies_of(kind: Kind, name: str) -> tuple[bytes, ...]:
    """The different bodies that a device makes of a life in 2,000 draws; under a weak claim two runs may be equal."""
    channel = row_shape.design(KINDS[kind][0], PEOPLE).parts().channels[0]
    noise = SimulationNoise(np.random.default_rng(31))
    return tuple({channel.encode(path_of(NEIGHBOURS[name]), noise) for _ in range(2_000)})


def path_of(life: Any) -> Trajectory | None:
    """A life as devices encode it."""
    return None if life is None else Trajectory(*(np.array(life[name]) for name in ("states", "actions", "rewards")))


def wrong_reaches(run: views.Run, kind: Kind, life: str = "zeros") -> list[str]:
    """Coalitions that read more, or less, than the table says of those that do not lie."""
    wrong = wrong_keys(run, kind)
    for coalition in coalitions():
        said = reach(coalition, kind, active=False)
        said = "release" if said == "rest" else said  # noise of others: attacked by trials
        found = reached(run, coalition, kind, life)
        if found != said:
            wrong.append(f"{'+'.join(coalition)}: {found}, where the table says {said}")
    return wrong


# grades


@dataclass(frozen=True)
class Look:
    """What one party has, as grades are measured from it."""

    run: views.Run
    party: str
    kind: Kind
    life: str

    @property
    def values(self) -> dict[str, Any]:
        """All values by place; a lease holds the time of the party itself, again and again."""
        some = self.run.seen[self.party].items()
        return {place: value for place, value in some if value is not None and "tables/lease/" not in place}

    def having(self, pattern: str) -> dict[str, Any]:
        """The values at places that match."""
        search = re.compile(pattern).search
        return {place: value for place, value in self.values.items() if search(place)}

    def holds(self, *words: bytes, among: Mapping[str, Any] | None = None) -> bool:
        """Whether one of these stands in a place or its value."""
        some = self.values if among is None else among
        whole = b"\0".join(itertools.chain.from_iterable((p.encode(), _bytes(v)) for p, v in some.items()))
        return any(word in whole for word in words)

    @property
    def peers(self) -> list[list[str]]:
        """The addresses that reports, and requests for tokens, came from, in the order of their first ones."""
        found: dict[str, dict[int, str]] = {}
        for place, peer in self.having(r"/public/POST /v1/(reports|tokens)#\d+/peer$").items():
            link, _, rest = place.partition("#")
            found.setdefault(link, {})[int(rest.partition("/")[0])] = peer
        return [list(dict.fromkeys(some[number] for number in sorted(some))) for some in found.values()]

    @property
    def ids(self) -> list[set[bytes]]:
        """What names the reports, in the order of arrival."""
        if not self.run.envelopes:
            shuffler = self.run.seen["shuffler"]
            last = [shuffler[f"{PEOPLE}/tables/report/{number}/id"] for number in range(PEOPLE)]
        else:
            study, ring = bytes.fromhex(self.run.design.digest), self.run.rings["shuffler"]
            inside = [open_envelope(data, study=study, keys=ring).report for _, data in self.run.envelopes]
            last = [Report.parse(report).id for report in inside]
        return [spellings(one) for one in last]


def messages_seen(look: Look) -> str:
    """The report of the person; or sealed ones that the party cannot open; or what is released; or nothing of it."""
    found = reached(look.run, (look.party,), look.kind, look.life)
    if found != "release":
        return found
    opens = look.party == "learner"  # what it carries to a mixer comes back without a layer, and it opens that
    if not opens and (
        look.having(r"POST /v1/reports#\d+/request/body$|/stages/0/batch[#/].*body$|files/\d+/mixed$|tables/body/")
    ):
        return "sealed"
    if look.having(r"(bundle|policies|releases?|PUT /v1/stages/\d+/questions/\d+)([/#.]|$)"):
        return "release"
    return "none"


def times_seen(look: Look) -> str:
    """The moment of requests of devices; or minutes that are written down; or that stages change; or nothing."""
    if look.peers:
        return "moment"
    if look.holds(b"2033-05-18T") or look.holds(time.strftime("%Y-%m-%dT%H:", time.gmtime(look.run.moment)).encode()):
        return "minute"
    return "stage" if look.having(r"(bundle|question|stage)") else "none"


SIZED = (
    r"/public/POST /v1/reports#\d+/request/body/bytes$",
    r"tables/body/\d+/bytes$",
    r"GET /v1/stages/0/batch#\d+/response/body/bytes$",
    r"PUT /v1/stages/0/batch/\d+#\d+/request/body/bytes$",
    r"files/\d+/mixed/bytes$",
    r"tables/release/0/bytes$",
)
"""Places of what people sent, alone or together."""


def sizes_seen(look: Look) -> str:
    """Whether what people sent has lengths, and whether they are all alike."""
    sizes: dict[str, set[int]] = {}
    for place, value in look.having("|".join(SIZED)).items():
        length = len(value) if isinstance(value, bytes) else int(value)
        sizes.setdefault(re.sub(r"\d+", "*", place), set()).add(length)
    return "varying" if any(len(some) > 1 for some in sizes.values()) else "constant" if sizes else "none"


def orders_seen(look: Look) -> str:
    """Whether reports, or the messages of a file, stand as they arrived."""
    if [views.address(number) for number in range(PEOPLE)] in look.peers:
        return "arrival"
    rows = look.having(rf"^{PEOPLE}/tables/report/\d+/id$")
    named = [next((n for n, some in enumerate(look.ids) if value in some), -1) for _, value in sorted(rows.items())]
    if named == list(range(PEOPLE)):
        return "arrival"
    return "arrival" if any(not mixed_up(owners) for owners in files_seen(look)) or sums_in_order(look) else "none"


def files_seen(look: Look) -> list[list[int]]:
    """Of every file of messages that a party has: whose they are."""
    layers, found = layers_of(look.kind), []
    if not layers:
        return found
    sent = [_cut(body, message_size(look.run.design.parts().channels[0], layers)) for body in arrived(look.run)]
    for number in range(layers):
        size = message_size(look.run.design.parts().channels[0], layers - number)
        whose = {message: owner for owner, some in enumerate(sent) for message in some}
        for value in look.having(r"/stages/0/batch[#/].*body$|files/\d+/mixed$|files/batches/").values():
            owners = [whose.get(message, -1) for message in _cut(value, size)] if isinstance(value, bytes) else []
            if owners and min(owners) >= 0:
                found.append(owners)
        if number + 1 < layers:
            sent = [[one or b"" for one in peeled(look.run, "mixer", some)] for some in sent]
    return found


def mixed_up(owners: Sequence[int]) -> bool:
    """Whether the owners of messages stand as in a uniform order: false alarms once in half a million."""
    N, counts = len(owners), Counter(owners)
    same = sum(n * (n - 1) for n in counts.values()) / N / (N - 1)
    neighbours = sum(one == other for one, other in itertools.pairwise(owners))
    scale = N**-0.5
    drift = float(np.corrcoef(owners, np.arange(N))[0, 1]) / scale
    both = (abs(neighbours - (N - 1) * same) / ((N - 1) * same * (1 - same)) ** 0.5, abs(drift))
    return max(both) < float(stats.norm.isf(FALSE_ALARM / 2))


def sums_in_order(look: Look) -> bool:
    """Whether a release of messages, which is sorted, holds them as they came."""
    bodies = look.run.plain
    for value in look.having(r"tables/release/0/bytes$").values():
        payload = ReleasePayload.parse(value).payload
        pieces = _cut(payload, len(bodies[0]))
        if sorted(pieces) == sorted(bodies) and pieces != sorted(pieces):
            return True
    return False


def keys_seen(look: Look) -> str:
    """Whose secret keys a party holds; or public ones of others; or none."""
    if look.party in look.run.rings:
        return look.party
    if look.having(r"tables/stage_key/\d+/secret$"):
        return "issuer"
    return "public" if look.having(r"/GET /v1/keys/[a-z]+#\d+/response/body/|device\.json/documents/") else "none"


def addresses_seen(look: Look) -> str:
    """Whether the address of the person's device is there."""
    return "devices" if look.holds(views.address(views.VICTIM).encode()) else "none"


def counts_in(look: Look, pattern: str) -> str:
    """Counts and words of the program; or records, if what names a person or a report is among them; or nothing."""
    found = look.having(pattern)
    names = set().union(*look.ids) | {views.address(number).encode() for number in range(PEOPLE)}
    if look.holds(*names, among=found):
        return "records"
    return "counts" if found else "none"


def database_seen(look: Look) -> str:
    """Whether there is a row, or a message, per report; or tables; or files of a device's own."""
    rows = [Counter[str]() for _ in range(PEOPLE)]
    for place in look.having(r"^\d/tables/\w+/\d+/"):
        step, _, name, number = place.split("/")[:4]
        if int(step) < PEOPLE:
            rows[int(step)][name] = max(rows[int(step)][name], int(number) + 1)
    grows = [name for name in rows[-1] if all(rows[n][name] == rows[0][name] + n for n in range(PEOPLE))]
    if (
        grows
        or look.having(r"files/\d+/mixed$")
        or look.holds(*look.ids[views.VICTIM], among=look.having("tables/|files/"))
    ):
        return "records"
    if look.having(r"^\d/tables/"):
        return "release"
    return "own" if look.having(r"^\d/device-\d+/files/") else "none"


MEASURED: dict[str, Callable[[Look], str]] = {
    "messages": messages_seen,
    "times": times_seen,
    "sizes": sizes_seen,
    "orders": orders_seen,
    "keys": keys_seen,
    "addresses": addresses_seen,
    "logs": lambda look: counts_in(look, r"(^|/)log/"),
    "metrics": lambda look: counts_in(look, r"/metrics/"),
    "database": database_seen,
}
"""How the grade of a surface is measured."""


def measured(run: views.Run, kind: Kind, life: str = "zeros") -> dict[tuple[str, str], str]:
    """The grade of every cell of the parties that ran."""
    return {
        (party, surface): MEASURED[surface](Look(run, party, kind, life))
        for party in PARTIES
        if party in run.seen
        for surface in SURFACES
    }


def wrong_grades(grades: Mapping[tuple[str, str], str], kind: Kind) -> list[str]:
    """Cells of the table that are not what was measured."""
    said = {cell: sight(*cell, kind)[0] for cell in grades}  # type: ignore[arg-type]
    return [
        f"{'/'.join(cell)}: {grades[cell]}, where the table says {said[cell]}"
        for cell in grades
        if grades[cell] != said[cell]
    ]


def stored(run: views.Run) -> list[str]:
    """Parties that keep the moment of the report: moments pass, and are kept nowhere."""
    moment = str(int(run.moment)).encode()
    found = []
    for party, some in run.seen.items():
        kept = {place: value for place, value in some.items() if "tables/lease/" not in place}
        numbers = [value for value in kept.values() if isinstance(value, int | float) and 0 <= value - run.moment < 60]
        if numbers or any(moment in _bytes(value) for value in kept.values()):
            found.append(f"{party}: a moment")
    return found


# attacks by trials


def bound(first: Any, second: Any, delta: float) -> float:
    """A lower bound on epsilon from two samples [trials, numbers]: half of them choose a direction and a threshold."""
    half = len(first) // 2
    mean = [sample[:half].mean(axis=0) for sample in (first, second)]
    spread = (first[:half].var(axis=0) + second[:half].var(axis=0)) / 2 + 1e-9
    scores = [sample @ ((mean[1] - mean[0]) / spread) for sample in (first, second)]
    cuts = np.unique(np.quantile(np.concatenate([score[:half] for score in scores]), np.linspace(0.002, 0.998, 200)))

    def at(cut: float, part: slice, alarm: float) -> float:
        hits = [int((score[part] > cut).sum()) for score in scores]
        trials = len(scores[0][part])
        errors = Errors(first=trials, first_hits=hits[0], second=trials, second_hits=hits[1])
        return float(event_epsilon(errors, delta, alarm))

    best = max(cuts, key=lambda cut: at(float(cut), slice(half), FALSE_ALARM))
    return at(float(best), slice(half, None), FALSE_ALARM)


def sampled(channel: Any, life: Any, trials: int, seed: int, noise_of: int = 1) -> Any:
    """What a coalition has of one person, [trials, numbers], with the noise of so many devices under shuffle trust."""
    noise = SimulationNoise(np.random.default_rng(seed))
    path = path_of(life)

    def one() -> Any:
        body = channel.encode(path, noise)
        if channel.TRUST != "shuffle":
            return np.unpackbits(np.frombuffer(body, dtype=np.uint8)).astype(np.float64)
        bodies = [body, *(channel.encode(None, noise) for _ in range(noise_of - 1))]
        labels = np.frombuffer(b"".join(bodies), dtype=channel.labels)
        return np.bincount(labels, minlength=channel.spec.num_counters + 1)[:-1].astype(np.float64)

    return np.array([one() for _ in range(trials)])


def attacks(trials: int, seed: int = 23) -> list[tuple[str, float, float]]:
    """(what is attacked, the bound that trials prove, what the table says remains)."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "stages": 1, "target": 12, "least": 12}
    lives = [{"states": [s] * 3, "actions": [s] * 2, "rewards": [float(s)] * 2} for s in (0, 1)]
    found = []
    local = plan_study(**sizes, epsilon=2.0, delta=0.0, trust="local").parts().channels[0]
    samples = [sampled(local, life, trials, seed + i) for i, life in enumerate(lives)]
    found.append(("local: shuffler reads a message", bound(*samples, 0.0), remaining(["shuffler"], local)))
    shuffled = plan_study(**sizes, epsilon=2.0, delta=1e-3, trust="shuffle", learner="bucb").parts().channels[0]
    for coalition, devices, count in ((["learner"], 0, 12), (["learner", "device"], 6, 6)):
        samples = [sampled(shuffled, life, trials, seed + i, count) for i, life in enumerate(lives)]
        left = remaining(coalition, shuffled, sealing="sealed", devices=devices)
        found.append((f"shuffle: {'+'.join(coalition)} with {devices} devices", bound(*samples, 1e-3), left))
    return found


def planted(trials: int, seed: int = 29) -> list[tuple[str, float, float]]:
    """The same for messages with less noise than the table was told of; the attack must find them."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "stages": 1, "target": 12, "least": 12}
    lives = [{"states": [s] * 3, "actions": [s] * 2, "rewards": [float(s)] * 2} for s in (0, 1)]
    weak, said = (plan_study(**sizes, epsilon=e, delta=0.0, trust="local").parts().channels[0] for e in (6.0, 1.0))
    samples = [sampled(weak, life, trials, seed + i) for i, life in enumerate(lives)]
    found = [("local: three times the epsilon", bound(*samples, 0.0), remaining(["shuffler"], said))]
    made = plan_study(**sizes, epsilon=2.0, delta=1e-3, trust="shuffle", learner="bucb").parts().channels[0]
    silent = replace(made, probability=Fraction(2.0**-10))
    samples = [sampled(silent, life, trials, seed + i, 12) for i, life in enumerate(lives)]
    return [*found, ("shuffle: devices without noise", bound(*samples, 1e-3), remaining(["learner"], made))]


# rows


@contextlib.contextmanager
def databases(name: str) -> Iterator[Any]:
    """A server of databases, or None for files."""
    if name == "sqlite":
        yield None
        return
    import postgres

    with postgres.running() as server:
        yield server


def wrong(run: views.Run, kind: Kind, life: str) -> list[str]:
    """Everything in one run that is not as the table says."""
    return [
        *wrong_reaches(run, kind, life),
        *wrong_grades(measured(run, kind, life), kind),
        *canaries(run, life, kind),
        *stored(run),
    ]


def run(scale: str = "chaos") -> list[dict[str, Any]]:
    """All rows of this module."""
    size, rows = SCALES[scale], []
    for database in size["databases"]:
        with databases(database) as server:
            for kind in size["kinds"]:
                for pair in size["pairs"] if database == "sqlite" else size["pairs"][:1]:
                    rows += _kind_rows(kind, database, server, pair)
    for kind, party in size["mutants"]:
        rows.append(unpermuted_row(kind, party))
    for name, lower, left in attacks(size["trials"]):
        rows.append(row(name, f"epsilon {left:.3g} remains", f"at least {lower:.3g}", lower <= left))
    for name, lower, left in planted(size["trials"]):
        rows.append(row(f"planted: {name}", f"found: above {left:.3g}", f"at least {lower:.3g}", lower > left))
    return rows


def unpermuted_row(kind: Kind, party: str) -> dict[str, Any]:
    """A party that does not permute must be found by those that open what it hands over."""
    made = run_of(kind, "zeros", mutant=mutants.UNPERMUTED, of=(party,))
    found = [*wrong_reaches(made, kind), *wrong_grades(measured(made, kind), kind)]
    return row(
        f"planted: a {party} that does not permute, {kind}",
        "found",
        f"{len(found)} wrong",
        bool(found),
        found[0] if found else "",
    )


def _kind_rows(kind: Kind, database: str, server: Any, pair: Sequence[str]) -> list[dict[str, Any]]:
    runs = runs_of(kind, pair, server)
    told, steady = differences(runs, kind)
    found, name = leaks(told, kind), f"{kind}, {database}, {' or '.join(pair)}"
    rows = [
        row(f"difference: {name}", "no leak", f"{len(found)} of {steady:,} aspects", not found, "; ".join(found[:5]))
    ]
    if kind == "central":
        rows.append(row(f"difference: {name}, shuffler", "data found", len(told), bool(told)))
    not_so = [line for life in pair for line in wrong(runs[life][0], kind, life)]
    detail = "; ".join(not_so[:5])
    rows.append(row(f"reach, grades, canaries: {name}", "as the table", f"{len(not_so)} wrong", not not_so, detail))
    return rows
