"""The device: one person's side. It decides whether a bundle is worth an answer, follows its policy, and reports once.

D1  Refused are a forged or unpinned signature, another study, a stage below one that was seen, another bundle for the
    same stage or one that does not follow it, an unknown entry, an epsilon above the person's cap, fewer people than
    the person's floor, a ledger that went back, and noise that does not keep the claim.
D2  A report is frozen on the disk before it is returned: asked again, the device returns the same bytes and draws
    nothing, since two reports of one trajectory have less noise than one.
D3  A cover report has the length of a real one; whoever sends one in every stage does not show when there was nothing
    to tell.
D4  States, actions and rewards are clipped into the public sizes; nothing about them is ever raised or printed.
D5  Where features are declared, a device acts by the feature of a state and encodes features: what else a state tells
    does not leave it.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import numpy as np

from tacit.accounting.composition import epsilon_of
from tacit.errors import InvalidInput, NotSupported, require, require_count, require_real
from tacit.policies import AnyPolicy, GaussianPolicy, LayeredPolicy
from tacit.policies.named import NamedPolicy
from tacit.privatizers.shuffle.roles import Trajectory
from tacit.protocol import Noise
from tacit.randomness import SecureNoise
from tacit.runs.signature import canonical
from tacit.runs.storage import check_writable, read_json, write_whole, writing_to
from tacit.study.bundle import Bundle
from tacit.study.channels.returns import ReturnChannel
from tacit.study.parts import NOWHERE, Head
from tacit.study.wire import ID, Report

__all__ = ["Device", "trajectory_from"]

STATE: Final = "device.json"


class Device:
    """A person's device; `directory` keeps what it has seen and sent, None forgets it with the process."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        cap: float = math.inf,
        floor: int = 1,
        key: str | Path | None = None,
        noise: Noise | None = None,
        coins: np.random.Generator | None = None,
    ) -> None:
        """A device that takes part up to epsilon `cap` among at least `floor` people, in bundles signed by `key`."""
        require(cap == math.inf or require_real("cap", cap, low=0.0) >= 0, "cap must be an epsilon", "another")
        self.cap, self.floor = float(cap), require_count("floor", floor)
        self.key = None if key is None else Path(key)
        self.noise: Noise = SecureNoise() if noise is None else noise
        self.coins = coins
        """What lots are drawn with: which policy of a mixture, which action; None: the operating system's."""
        self.directory = None if directory is None else Path(directory)
        self.kept: dict[str, Any] = {"study": None, "stage": -1, "digest": None, "head": NOWHERE.text}
        self.kept |= {"bundle": None, "arm": None, "report": None}
        if self.directory is not None:
            check_writable(self.directory)
            if (self.directory / STATE).is_file():
                self.kept = read_json(self.directory / STATE)
        text = self.kept["bundle"]
        self.bundle = None if text is None else Bundle.parse(text.encode())

    def accept(self, bundle: bytes) -> Bundle:
        """Follow this bundle from now on, or refuse it and change nothing (D1)."""
        found = Bundle.parse(bundle)
        self._require_signed(found)
        self._require_order(found)
        if self.kept["digest"] == found.digest:
            return found
        if found.channel is not None:
            self._require_private(found)
        after = {
            "study": found["study"],
            "stage": found["stage"],
            "digest": found.digest,
            "head": found["head"],
            "bundle": bundle.decode(),
            "arm": self._draw_arm(found),
            "report": None,
        }
        self._keep(after)
        self.bundle = found
        return found

    @property
    def policy(self) -> AnyPolicy:
        """The policy of this person in this stage; the fall-back policy where the study was ended."""
        bundle = self._accepted()
        return bundle.fallback if bundle["kill"] else bundle.arms[self.kept["arm"]][0]

    def act(self, step: int, state: int | str) -> str:
        """The action to take at a step (from 0) in a state, by name or number."""
        bundle, policy = self._accepted(), self.policy
        h = require_count("step", step, least=0)
        require(h < bundle["horizon"], f"step must be below {bundle['horizon']}", step)
        s = _place(state, bundle["states"])
        require(s is not None, "state must be one of the study's states, or its number", "another")
        assert s is not None  # noqa: S101 - for the types
        if isinstance(policy, LayeredPolicy | GaussianPolicy):
            raise NotSupported(f"a device follows tables of actions, not a {type(policy).__name__}")
        named = NamedPolicy(policy=policy, states=bundle.rows, actions=tuple(bundle["actions"]))
        return named.act(h, int(bundle.seen(np.array(s))), SystemRandom() if self.coins is None else self.coins)

    def report(self, trajectory: Any) -> bytes:
        """The report of this stage (D2); a trajectory has states, actions and rewards, by name or number."""
        bundle = self.asked()
        return self._report(None if self.kept["report"] is not None else trajectory_from(bundle, trajectory))

    def cover(self) -> bytes:
        """A report that says nothing, of the same length (D3)."""
        return self._report(None)

    def sent(self) -> bytes:
        """The report of this stage, if there is one."""
        return b"" if self.kept["report"] is None else base64.b64decode(self.kept["report"])

    def forget(self) -> None:
        """Drop the bytes of this stage's report, which has ended; none is made in its place (D2)."""
        if self.kept["report"]:
            self._keep({**self.kept, "report": ""})

    def asked(self) -> Bundle:
        """The bundle, if it asks something."""
        bundle = self._accepted()
        require(not bundle["kill"], "a study that was ended must not be answered", "a bundle that ends it")
        require(bundle.channel is not None, "a stage must ask something to be answered", "a bundle that asks nothing")
        return bundle

    def _report(self, trajectory: Trajectory | None) -> bytes:
        bundle = self.asked()
        if self.kept["report"] is not None:
            return base64.b64decode(self.kept["report"])
        channel = bundle.channel
        assert channel is not None  # noqa: S101 - for the types
        # A bit about a return is about the stage's question and the policy that was drawn.
        told = channel.told(bundle.query, self.kept["arm"]) if isinstance(channel, ReturnChannel) else channel
        body = told.encode(trajectory, self.noise)
        made = Report(study=bundle.study, stage=bundle["stage"], id=os.urandom(ID), body=body).encode()
        self._keep({**self.kept, "report": base64.b64encode(made).decode()})
        return made

    def _require_signed(self, found: Bundle) -> None:
        signed = found.examined(self.key)
        forged = found.content.get("signature") is not None and not signed.valid
        require(not forged, "a bundle must have a signature that fits", signed.words)
        require(self.key is None or signed.pinned, "a bundle must be signed by the pinned key", signed.words)

    def _require_order(self, found: Bundle) -> None:
        """Refuse what goes back, or forks."""
        require(found["question"] == 0, "devices are asked once per stage", "a later question")
        if self.kept["study"] is None:
            return
        require(found["study"] == self.kept["study"], "a device takes part in one study", "another study")
        seen = self.kept["stage"]
        require(found["stage"] >= seen, f"a stage must not be below stage {seen}, which was seen", found["stage"])
        same = found["stage"] > seen or found.digest == self.kept["digest"]
        require(same, "a stage has one bundle for everybody", "another one")
        # Bundles of later questions are not for devices, so only a stage of one question is followed by its successor.
        follows = self.bundle is not None and self.bundle["questions"] == 1 and found["stage"] == seen + 1
        chained = not follows or found["previous"] == self.kept["digest"]
        require(chained, "a bundle must name the one before it", "another one")
        head = Head.from_text(self.kept["head"])
        back = found.head.number < head.number or (found.head.number == head.number and found.head != head)
        require(not back, "the ledger of a study must not go back", f"record {found.head.number}")

    def _require_private(self, found: Bundle) -> None:
        """Refuse what is above the cap, below the floor, or not what it claims."""
        claim, channel = found.claim, found.channel
        assert channel is not None  # noqa: S101 - for the types
        require(claim.trust == channel.TRUST, "a bundle must claim the trust of its channel", claim.trust)
        require(
            claim.epsilon <= self.cap, f"epsilon must be at most {self.cap:g}, the cap of this device", claim.epsilon
        )
        enough = channel.least >= self.floor
        require(enough, f"a stage must have at least {self.floor} people, the floor of this device", channel.least)
        spent = epsilon_of(channel.events(), claim.delta)
        require(spent <= claim.epsilon, "the noise of a stage must keep the claim", f"epsilon {spent:g}")

    def _draw_arm(self, found: Bundle) -> int:
        """One of the weighted policies, by this person's own coins."""
        if len(found.arms) == 1:
            return 0
        common = math.lcm(*(weight.denominator for _, weight in found.arms))
        ticket = SystemRandom().randrange(common) if self.coins is None else int(self.coins.integers(common))
        for place, (_, weight) in enumerate(found.arms):
            ticket -= int(weight * common)
            if ticket < 0:
                return place
        raise InvalidInput("the weights of a bundle's policies must add up to 1")

    def _accepted(self) -> Bundle:
        if self.bundle is None:
            raise InvalidInput("a device must accept a bundle before it acts or reports; call accept first")
        return self.bundle

    def _keep(self, after: dict[str, Any]) -> None:
        """Write down, then believe."""
        if self.directory is not None:
            with writing_to(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_whole(self.directory / STATE, canonical(after))
        self.kept = after


def trajectory_from(bundle: Bundle, given: Any) -> Trajectory:
    """A trajectory in the study's numbers: names become numbers, rewards go from their public bounds to [0, 1].

    Where the bundle declares features, states become the features that are seen of them.
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
