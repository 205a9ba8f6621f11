"""The device: one person's side. It decides whether a bundle is worth an answer, follows its policy, and reports once.

D1  Refused are a forged or unpinned signature, another study, another claim, a stage below one that was seen, another
    bundle for the same stage or one that does not follow it, an unknown entry, an epsilon above the person's cap, a
    delta above 1e-3, fewer people than the person's floor, a ledger that went back, and noise that does not keep the
    claim.
D2  A report is frozen on the disk before it is returned: asked again, the device returns the same bytes and draws
    nothing, since two reports of one trajectory have less noise than one.
D3  A cover report has the length of a real one; whoever sends one in every stage does not show when there was nothing
    to tell.
D4  States, actions and rewards are clipped into the public sizes; nothing about them is ever raised or printed.
D5  Where features are declared, a device acts by the feature of a state and encodes features: what else a state tells
    does not leave it.
D6  A report counts from the moment it is frozen, and no more are made than the claim's unit has. Under local and
    shuffle trust what all of them cost together stays within claim and cap. Under local trust whatever left has left,
    also when it was refused. Where a trusted collector pays at the release, a slot counts once, since only void stages
    are asked for again, and a report that it did not take counts no more.
D7  Several processes may use one directory: a change is made to the newest state, under a lock.

On its disk (`DeviceState`) are the bundle that it follows, every report that has left, and what is being sent:

K1  Written whole, for its owner only, and on the disk with its directory before `keep` returns: what leaves was frozen
    and counted first.
K2  One stage at a time: with another bundle the frozen bytes of the last one are dropped; what has left stays counted.
K3  What has ended is gone: with an answer the frozen bytes leave the disk, and the answer stays.
K4  `device.drawn` beside the state is its lock, and as many bytes long as reports were drawn. A state that knows of
    fewer is an older copy, which would draw again, and is refused.

An older copy of the whole directory is not detected. An issuer of tokens refuses it a second token for a stage before
anything leaves; without an issuer a device must not be restored from a backup.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from random import SystemRandom
from types import EllipsisType
from typing import Any, Final

import numpy as np

from tacit.accounting.claims import LARGEST_DELTA
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events, event_from_dict, event_to_dict
from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.data.trajectories import FeatureUsers, Trajectory
from tacit.documents import canonical
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, require, require_count, require_real
from tacit.policies import AnyPolicy, GaussianPolicy, LayeredPolicy, LinearPolicy, tabular
from tacit.policies.named import NamedPolicy
from tacit.protocol import Noise
from tacit.randomness import SecureNoise
from tacit.release.returns import ReturnRelease
from tacit.runs.storage_paths import check_writable, complete_files, locked, read_json, write_private, writing_to
from tacit.study.bundle import Bundle
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.wire import ID, Report

STATE: Final = "device.json"
DRAWN: Final = "device.drawn"
VERSION: Final = 2
BYTES: Final = ("plain", "report", "envelope")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """Everything but tokens, which the wallet keeps; nothing that a person did is shown."""

    study: str = ""
    stage: int = -1
    """The stage that was seen last, which the rest is about."""
    digest: str = ""
    head: str = GENESIS_HEAD.text
    bundle: str = field(default="", repr=False)
    arm: int = 0
    drawn: int = 0
    """How many reports were drawn in all (K4)."""
    left: tuple[tuple[int, Events], ...] = ()
    """Slot and events of the reports that count."""
    plain: bytes | None = field(default=None, repr=False)
    """The report of this stage with its noise; None before it is drawn, empty when it has ended."""
    documents: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Party -> the newest signed document of its keys."""
    report: bytes = field(default=b"", repr=False)
    """The report as the collector will count it: its messages sealed, its id chosen."""
    envelope: bytes = field(default=b"", repr=False)
    """The same as it is sent."""
    answer: str = ""
    """How the report ended: counted, again, late, or why it was refused."""

    def ended(self, answer: str) -> DeviceState:
        """The state after the last word about a report (K3)."""
        return replace(self, answer=answer, plain=b"", report=b"", envelope=b"")


def keep(directory: Path, state: DeviceState, drawn: int, *, changed: bool = True) -> None:
    """Put a state on the disk (K1), if it changed; `drawn` is the descriptor of the locked file beside it (K4)."""
    if changed:
        found = {part.name: getattr(state, part.name) for part in fields(state)}
        found |= {name: None if found[name] is None else base64.b64encode(found[name]).decode() for name in BYTES}
        found["left"] = [[slot, [[event_to_dict(event), n] for event, n in events]] for slot, events in state.left]
        write_private(directory / STATE, canonical({"version": VERSION, **found}))
    with writing_to(directory):
        missing = state.drawn - os.fstat(drawn).st_size
        if missing > 0:  # also after a crash between the two files
            os.write(drawn, b"." * missing)
            os.fsync(drawn)


def recall(directory: Path) -> DeviceState:
    """The state that `keep` wrote, or that of a device that has sent nothing yet."""
    path, counter = directory / STATE, directory / DRAWN
    drawn = counter.stat().st_size if counter.is_file() else 0  # before the state, which others may write
    state = _read(path) if path.is_file() else DeviceState()
    known = state.drawn >= drawn
    hint = "this is an older copy: go on with the newest one, or take part no more"
    require(known, f"{path} must know of all {drawn} reports that were drawn", state.drawn, hint)
    return state


def _read(path: Path) -> DeviceState:
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    found = read_json(path)
    known = found.pop("version", None) == VERSION and set(found) == set(DeviceState.__dataclass_fields__)
    hint = "states of other versions do not tell how many reports have left: take part in another study"
    require(known, f"{path} must be as this version of tacit writes it", "something else", hint)
    with complete_files(path.parent):
        found |= {name: None if found[name] is None else base64.b64decode(found[name], validate=True) for name in BYTES}
        found["left"] = tuple(
            (slot, tuple((event_from_dict(event), n) for event, n in events)) for slot, events in found["left"]
        )
        return DeviceState(**found)


FIRST: Final = np.zeros(1, dtype=np.int64)
"""The only draw of a policy that a device has taken one of."""
NOT_TAKEN: Final = ("late", "full")
"""Answers of a collector that did not take a report, and that its person can do nothing about."""


class Device:
    """A person's device: verifies a bundle, acts, adds noise and reports once per stage.

    Parameters
    ----------
    directory
        Where it keeps what it has seen and sent; None forgets it with the process.
    cap, floor, key
        The largest epsilon, the fewest people and the public key of bundles that the person accepts; no defaults.
        For rehearsals, `math.inf`, 1 and None (bundles that are not signed) accept anything.
    noise, rng
        Noise of reports and choices among actions; both come from the operating system by default.
    """

    @checked
    def __init__(
        self,
        directory: str | Path | None,
        *,
        cap: float | EllipsisType = ...,
        floor: int | EllipsisType = ...,
        key: str | Path | EllipsisType | None = ...,
        noise: Noise | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        given = {"cap": cap, "floor": floor, "key": key}
        missing = [name for name, limit in given.items() if limit is ...]
        hint = "give the largest epsilon (cap), the fewest people (floor) and the learner's public key (key)"
        require(not missing, "a device must be given cap, floor and key", f"no {', '.join(missing)}", hint)
        assert cap is not ... and floor is not ... and key is not ...  # noqa: S101, PT018 - for the types
        require(cap == math.inf or require_real("cap", cap, low=0.0) >= 0, "cap must be an epsilon", "another")
        self.cap, self.floor = float(cap), require_count("floor", floor)
        self.key = None if key is None else Path(key)
        self.noise: Noise = SecureNoise() if noise is None else noise
        self.rng = rng
        """What lots are drawn with: which policy of a mixture, which action; None: the operating system's."""
        self.directory = None if directory is None else Path(directory)
        self.kept = DeviceState()
        self.bundle: Bundle | None = None
        if self.directory is not None:
            check_writable(self.directory)
            self._believe(recall(self.directory))

    def accept(self, bundle: bytes) -> Bundle:
        """Follow this bundle from now on, or refuse it and change nothing (D1)."""
        found = Bundle.parse(bundle)
        self._require_signed(found)
        self._require_order(found)
        if found.channel is not None and found.digest != self.kept.digest:
            self._require_private(found)

        def followed(kept: DeviceState) -> DeviceState:
            self._require_order(found)
            if kept.digest == found.digest:
                return kept
            return DeviceState(
                study=found["study"],
                stage=found["stage"],
                digest=found.digest,
                head=found["head"],
                bundle=bundle.decode(),
                arm=self._draw_arm(found),
                drawn=kept.drawn,
                left=kept.left,
                documents=kept.documents,
            )

        self.change(followed)
        self.bundle = found
        return found

    @property
    def policy(self) -> AnyPolicy:
        """The policy of this person in this stage; the fall-back policy where the study was ended."""
        bundle = self._accepted()
        return bundle.fallback if bundle["kill"] else bundle.arms[self.kept.arm][0]

    def act(self, step: int, state: int | str | Mapping[str, Any]) -> str:
        """The action to take at a step (from 0) in a state, by name or number; in a study over features, for a row."""
        bundle, policy = self._accepted(), self.policy
        h = require_count("step", step, least=0)
        require(h < bundle["horizon"], f"step must be below {bundle['horizon']}", step)
        if bundle.features is not None:
            return self._act_on(bundle, policy, bundle.features.encode(state))
        s = _place(state, bundle["states"])
        require(s is not None, "state must be one of the study's states, or its number", "another")
        assert s is not None  # noqa: S101 - for the types
        if isinstance(policy, LayeredPolicy | GaussianPolicy | LinearPolicy):
            raise NotSupported(f"a device follows tables of actions, not a {type(policy).__name__}")
        named = NamedPolicy(policy=policy, states=bundle.rows, actions=tuple(bundle["actions"]))
        return named.act(h, int(bundle.seen(np.array(s))), SystemRandom() if self.rng is None else self.rng)

    def _act_on(self, bundle: Bundle, policy: AnyPolicy, x: Floats) -> str:
        """The action for an encoded row: that of the draw which this device took, or of a table."""
        require(len(x) == 1, "a device acts on one row", len(x))
        lots = SystemRandom() if self.rng is None else self.rng
        if not isinstance(policy, LinearPolicy):
            named = NamedPolicy(policy=tabular(policy), states=bundle.rows, actions=tuple(bundle["actions"]))
            return named.act(0, 0, lots)
        chosen = int(lots.random() * policy.actions) if policy.uniform else policy.scores(x, FIRST).argmax()
        return str(bundle["actions"][int(chosen)])

    def report(self, trajectory: Any) -> bytes:
        """The report of this stage (D2); a trajectory has states, actions and rewards, by name or number.

        In a study over features its one state is a row, by name.
        """
        bundle = self.asked()
        return self._report(None if self.kept.plain is not None else trajectory_from(bundle, trajectory))

    def cover(self) -> bytes:
        """A report that says nothing, of the same length (D3)."""
        return self._report(None)

    def sent(self) -> bytes:
        """The report of this stage, if there is one."""
        return self.kept.plain or b""

    def asked(self) -> Bundle:
        """The bundle, if it asks something that this person may still answer (D6)."""
        bundle = self._accepted()
        require(not bundle["kill"], "a study that was ended must not be answered", "a bundle that ends it")
        require(bundle.channel is not None, "a stage must ask something to be answered", "a bundle that asks nothing")
        if self.kept.plain is None:
            self._require_unspent(bundle)
        return bundle

    def end(self, answer: str, digest: str) -> None:
        """Keep the last word about the report of a bundle and drop its bytes; none is made in its place (D2, D6)."""

        def ended(kept: DeviceState) -> DeviceState:
            if kept.digest != digest or self.bundle is None:
                return kept
            back = answer in NOT_TAKEN and _paid_at_release(self.bundle)
            left = self._others(self.bundle) if back else kept.left
            return replace(kept.ended(answer), left=left)

        self.change(ended)

    def change(self, make: Callable[[DeviceState], DeviceState]) -> None:
        """Write down, then believe, what `make` makes of the newest state (D7); where it raises, nothing changes."""
        if self.directory is None:
            self.kept = make(self.kept)
            return
        with locked(self.directory / DRAWN) as drawn:
            self._believe(recall(self.directory))
            after = make(self.kept)
            keep(self.directory, after, drawn, changed=after != self.kept)
            self.kept = after

    def _believe(self, found: DeviceState) -> None:
        if found.digest != self.kept.digest:
            self.bundle = Bundle.parse(found.bundle.encode()) if found.bundle else None
        self.kept = found

    def _report(self, trajectory: Any) -> bytes:
        asked = self.asked().digest

        def frozen(kept: DeviceState) -> DeviceState:
            bundle = self.asked()  # of the newest state
            require(bundle.digest == asked, "a report must be of the present stage", "another", "report again")
            channel = bundle.channel
            assert channel is not None  # noqa: S101 - for the types
            if kept.plain is not None:
                return kept
            told = trajectory
            if isinstance(told, FeatureUsers) and bundle.query.lots:  # the lot was drawn before there was a row
                told = told._replace(lots=np.array([kept.arm]))
            # A bit about a return is about the stage's question and the policy that was drawn.
            body = (
                channel.answer(bundle.query, kept.arm, told, self.noise)
                if isinstance(channel, ReturnRelease)
                else channel.encode(told, self.noise)
            )
            made = Report(study=bundle.study, stage=bundle["stage"], id=os.urandom(ID), body=body).encode()
            left = (*self._others(bundle), (bundle["slot"], channel.events()))
            return replace(kept, plain=made, drawn=kept.drawn + 1, left=left)

        self.change(frozen)
        return self.sent()

    def _others(self, bundle: Bundle) -> tuple[tuple[int, Events], ...]:
        """The reports that count beside the one for this bundle (D6)."""
        once = _paid_at_release(bundle)
        return tuple(one for one in self.kept.left if not (once and one[0] == bundle["slot"]))

    def _require_unspent(self, bundle: Bundle) -> None:
        """Refuse a report beyond the claim's unit, or that would cost more than the claim or the cap (D6)."""
        claim, channel, others = bundle.claim, bundle.channel, self._others(bundle)
        assert channel is not None  # noqa: S101 - for the types
        self._require_limits(bundle)
        if len(others) >= claim.unit.reports:
            raise PrivacyBudgetExceeded(
                f"a person of this study must report at most {claim.unit.reports} times, got {len(others)} reports "
                "that have left this device; it follows the policy and sends nothing more"
            )
        if not others or channel.TRUST == "central":  # what a curator adds up shares its noise: the curator counts
            return
        spent = epsilon_of((*(event for _, events in others for event in events), *channel.events()), claim.delta)
        if spent > claim.epsilon:
            raise PrivacyBudgetExceeded(
                f"all reports of this device must cost at most epsilon {claim.epsilon:g}, got {spent:g} with one more; "
                "it follows the policy and sends nothing more"
            )

    def _require_signed(self, found: Bundle) -> None:
        signed = found.examined(self.key)
        forged = found.content.get("signature") is not None and not signed.valid
        require(not forged, "a bundle must have a signature that fits", signed.words)
        require(self.key is None or signed.pinned, "a bundle must be signed by the pinned key", signed.words)

    def _require_order(self, found: Bundle) -> None:
        """Refuse what goes back, or forks."""
        require(found["question"] == 0, "devices are asked once per stage", "a later question")
        if self.bundle is None:
            return
        require(found["study"] == self.kept.study, "a device takes part in one study", "another study")
        require(found.claim == self.bundle.claim, "the claim of a study must not change", "another claim")
        seen = self.kept.stage
        require(found["stage"] >= seen, f"a stage must not be below stage {seen}, which was seen", found["stage"])
        same = found["stage"] > seen or found.digest == self.kept.digest
        require(same, "a stage must have one bundle for all devices", "another one")
        # Bundles of later questions are not for devices, so only a stage of one question is followed by its successor.
        follows = self.bundle["questions"] == 1 and found["stage"] == seen + 1
        chained = not follows or found["previous"] == self.kept.digest
        require(chained, "a bundle must name the one before it", "another one")
        head = Head.from_text(self.kept.head)
        back = found.head.number < head.number or (found.head.number == head.number and found.head != head)
        require(not back, "the ledger of a study must not go back", f"record {found.head.number}")

    def _require_limits(self, found: Bundle) -> None:
        """Refuse what is above the cap or below the floor."""
        epsilon, channel = found.claim.epsilon, found.channel
        assert channel is not None  # noqa: S101 - for the types
        require(epsilon <= self.cap, f"epsilon must be at most {self.cap:g}, the cap of this device", epsilon)
        delta = found.claim.delta  # a learner may allow itself more in the claim; no device does
        require(delta <= LARGEST_DELTA, f"delta must be at most {LARGEST_DELTA:g} for a device", delta)
        enough = channel.least >= self.floor
        require(enough, f"a stage must have at least {self.floor} people, the floor of this device", channel.least)

    def _require_private(self, found: Bundle) -> None:
        """Refuse what is beyond this person's limits, or not what it claims."""
        claim, channel = found.claim, found.channel
        assert channel is not None  # noqa: S101 - for the types
        require(claim.trust == channel.TRUST, "a bundle must claim the trust of its channel", claim.trust)
        self._require_limits(found)
        spent = epsilon_of(channel.events(), claim.delta)
        require(spent <= claim.epsilon, "the noise of a stage must keep the claim", f"epsilon {spent:g}")

    def _draw_arm(self, found: Bundle) -> int:
        """One of the weighted policies, by this person's own coins."""
        if len(found.arms) == 1:
            return 0
        common = math.lcm(*(weight.denominator for _, weight in found.arms))
        ticket = SystemRandom().randrange(common) if self.rng is None else int(self.rng.integers(common))
        for place, (_, weight) in enumerate(found.arms):
            ticket -= int(weight * common)
            if ticket < 0:
                return place
        raise InvalidInput("the weights of a bundle's policies must add up to 1")

    def _accepted(self) -> Bundle:
        if self.bundle is None:
            raise InvalidInput("a device must accept a bundle before it acts or reports; call accept first")
        return self.bundle


def _paid_at_release(bundle: Bundle) -> bool:
    """Whether a trusted collector pays for the stage when it releases: what was not released was never shown."""
    return bundle.channel is not None and bundle.channel.CHARGED_AT == "release"


def trajectory_from(bundle: Bundle, given: Any) -> Any:
    """A trajectory in the study's numbers: names become numbers, rewards go from their public bounds to [0, 1].

    Where the bundle declares features, states become the features that are seen of them, or rows their numbers.
    Numbers out of range are clipped and NaN is the lowest reward (D4). What is no trajectory of this study at all
    (another length, a name that it does not have) is refused, without a word about what it was.
    """
    plain = given if isinstance(given, Mapping) else {name: getattr(given, name, None) for name in Trajectory._fields}
    found: dict[str, Any] = {name: plain.get(name) for name in Trajectory._fields}
    lists = all(
        isinstance(part, Sequence | np.ndarray) and not isinstance(part, str | bytes) for part in found.values()
    )
    require(lists, "a trajectory must have lists of states, actions and rewards", "something else")
    horizon, (low, high) = bundle["horizon"], bundle["rewards"]
    lengths = tuple(len(part) for part in found.values())
    fits = lengths in ((horizon, horizon, horizon), (horizon + 1, horizon, horizon))
    hint = "pad shorter episodes by a public rule"
    require(fits, f"a trajectory must have {horizon} steps, and one state more or as many", "another length", hint)
    rewards = np.array([_number(one) for one in found["rewards"]])
    scaled = np.clip((rewards - low) / (high - low), 0.0, 1.0)
    if bundle.features is not None:
        x, action = bundle.features.encode(found["states"][0]), _clipped(found["actions"][0], bundle["actions"])
        return FeatureUsers(x, np.array([action]), np.where(np.isnan(scaled), 0.0, scaled), np.array([-1]))
    return Trajectory(
        states=bundle.seen(np.array([_clipped(one, bundle["states"]) for one in found["states"]], dtype=np.int64)),
        actions=np.array([_clipped(one, bundle["actions"]) for one in found["actions"]], dtype=np.int64),
        rewards=np.where(np.isnan(scaled), 0.0, scaled),
    )


def _place(given: object, names: Sequence[str]) -> int | None:
    """The number of a name, or a number that is one of them."""
    if isinstance(given, str):
        return names.index(given) if given in names else None
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        return None
    place = int(given.__index__())
    return place if 0 <= place < len(names) else None


def _clipped(given: object, names: Sequence[str]) -> int:
    """The number of a name; numbers are clipped."""
    if isinstance(given, str | bool) or not hasattr(given, "__index__"):
        place = _place(given, names)
        require(place is not None, "states and actions must have names of this study, or be their numbers", "others")
        return place or 0
    return min(max(int(given.__index__()), 0), len(names) - 1)


def _number(given: object) -> float:
    plain = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    require(given is None or plain, "rewards must be numbers", "something else")
    return math.nan if given is None else float(given)  # type: ignore[arg-type]
