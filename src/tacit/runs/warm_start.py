"""`WarmStart`: the released sums of a log as stage 0 of a run or study, with budget and certificate composed.

    learned.json -> counts, events of a person of the log          (`tacit learn`)
    events of the run at ε'   such that   (log, run) together are (ε, δ)-private for a person who is in both

G1  The counts are read from the payloads of the release; the events follow from its public sizes and its claim, and
    not from what the file says its certificate was.
G2  People of the log may come to the run. The claim is about a person with all episodes of the log that count and all
    reports of the run; the exact accountant composes both. A person who is in one of the two pays less.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.composition import delta_of
from tacit.accounting.events import Events
from tacit.accounting.terms import NOISE_KINDS, NoiseKind
from tacit.documents import digest
from tacit.errors import MAX_HORIZON, MAX_REPORTS, InvalidInput, NotSupported, require, require_count
from tacit.protocol import TOTALS
from tacit.release.contract import StageSize
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.release.totals_release import TotalsPlan, TotalsRelease
from tacit.released.counts import CountShape, CountStatistics
from tacit.runs.storage import read_json
from tacit.runs.storage_paths import complete_files

if TYPE_CHECKING:
    from tacit.runs.config import RunConfig

LOG_MECHANISM: Final = "batched"
"""Of `tacit learn`: every stage has noise of its own."""
HALVINGS: Final = 40
"""Of the search for the epsilon of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """What was released of a log: public."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    horizon: int
    rewards: tuple[float, float]
    people: int
    reports: int
    """Episodes of a person that count, at most."""
    epsilon: float
    delta: float
    payloads: tuple[bytes, ...]
    noise: NoiseKind
    """Where the noise of the log came from: what begins with a simulation is one."""
    name: str = field(default="learned.json", compare=False)

    def __repr__(self) -> str:
        return repr(self.name)

    @classmethod
    def of(cls, given: object) -> WarmStart:
        """From itself, the file or directory of `tacit learn`, or JSON-ready values."""
        if isinstance(given, WarmStart):
            return given
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        if not isinstance(given, str | Path):
            raise InvalidInput(f"start must be the learned.json of a log, got a {type(given).__name__}")
        place = Path(given) / "learned.json" if Path(given).is_dir() else Path(given)
        content = read_json(place)
        known = content.get("format") == "tacit-learned"
        require(known, f"{place} must be the learned.json of tacit learn", content.get("format"))
        require(content.get("digest") == digest(content), f"{place} must be as it was written", "another digest")
        with complete_files(place.parent):
            return cls.from_dict(_start_of(content), name=str(given))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], name: str = "learned.json") -> WarmStart:
        """The start that `to_dict` wrote."""
        names = set(cls.__dataclass_fields__) - {"name"}
        require(set(plain) == names, f"a warm start has the entries {', '.join(sorted(names))}", sorted(plain))
        found = cls(
            states=tuple(plain["states"]),
            actions=tuple(plain["actions"]),
            horizon=require_count("horizon", plain["horizon"], most=MAX_HORIZON),
            rewards=(float(plain["rewards"][0]), float(plain["rewards"][1])),
            people=require_count("people", plain["people"]),
            reports=require_count("reports", plain["reports"], most=MAX_REPORTS),
            epsilon=plain["epsilon"],
            delta=plain["delta"],
            payloads=tuple(base64.b64decode(text, validate=True) for text in plain["payloads"]),
            noise=plain["noise"],
            name=name,
        )
        require(found.noise in NOISE_KINDS, "noise must be 'simulation' or 'secure'", found.noise)
        _ = found.counts  # whatever is wrong with the payloads is said here
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "name"}
        plain["payloads"] = [base64.b64encode(payload).decode() for payload in self.payloads]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}

    @property
    def claim(self) -> PrivacyClaim:
        """What was promised to every person of the log."""
        return PrivacyClaim(
            trust="central", epsilon=self.epsilon, delta=self.delta, neighbours="replace-one", output="final-policy",
            unit=PrivacyUnit(reports=self.reports, per_stage=1),
        )  # fmt: skip

    @property
    def counts(self) -> CountStatistics:
        """The totals of the log, with noise."""
        return _read(self)[0]

    @property
    def events(self) -> Events:
        """What a person of the log was exposed to."""
        return _read(self)[1]

    @property
    def families(self) -> tuple[CertifiedFamily, ...]:
        """What an episode of the log changed, for certificates."""
        plan = _plan(self)
        std = plan.noise_std()
        return tuple(
            CertifiedFamily.of(
                replace(f, name=f"{f.name} of the log"), noise=plan.name, std=std.get(f.name, std["rewards"])
            )
            for f in plan.families()
        )

    @property
    def line(self) -> str:
        """The log in words, with its digest."""
        cost = f"epsilon {self.epsilon:g}, delta {self.delta:g}"
        return f"a log of {self.people:,} people, {cost}, sha256 {digest(self.to_dict())[:16]}"

    def require_world(
        self,
        states: Sequence[str],
        actions: Sequence[str],
        horizon: int,
        trust: str,
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        """Raise unless this is a log of such a world, held by a curator as what follows."""
        same = (tuple(states), tuple(actions), horizon) == (self.states, self.actions, self.horizon)
        require(same, "start must be of a log with the same states, actions and horizon", "others")
        bounds = f"[{rewards[0]:g}, {rewards[1]:g}]"
        require(self.rewards == rewards, f"start must be of a log with rewards in {bounds}", self.rewards)
        if trust != "central":
            raise NotSupported(
                "what starts with a log needs trust 'central': a curator held the log, and a certificate of "
                f"trust '{trust}' would not be true of it"
            )


def _start_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a start in those of a learned.json."""
    asked, policy = content["request"], content["policy"]
    require("mapping" in asked, "start must be of a log of states", "a log over features")
    usual = asked.get("learner", "pessimism")
    require(usual == "pessimism", "start must be of a log that pessimism learned from", usual)
    reward = asked["mapping"]["reward"]
    return {
        **{name: policy[name] for name in ("states", "actions", "horizon")},
        **{name: asked[name] for name in ("people", "epsilon", "delta")},
        "reports": asked["reports_per_person"],
        "rewards": [reward["low"], reward["high"]],
        "payloads": content["payloads"],
        "noise": content["certificate"]["terms"]["noise"],
    }


def _plan(start: WarmStart) -> TotalsPlan:
    S, A = len(start.states), len(start.actions)
    shape = CountShape(horizon=start.horizon, num_states=S, num_actions=A, staged=True)
    return TotalsPlan(shape=shape, claim=start.claim, releases=start.reports, mechanism=LOG_MECHANISM)


@lru_cache(maxsize=8)
def _read(start: WarmStart) -> tuple[CountStatistics, Events]:
    plan = _plan(start)
    size = StageSize(target=start.people, least=start.people, query=TOTALS)
    channels = cast("tuple[TotalsRelease, ...]", plan.channels([size] * start.reports))
    require(len(start.payloads) == len(channels), f"there must be {len(channels)} payloads", len(start.payloads))
    memory, released = channels[0].begin_memory(), None
    for channel, payload in zip(channels, start.payloads, strict=True):
        memory, released = channel.read(memory, payload, start.people)
    return cast("Any", released).statistics, plan.exposure(channels, start.reports)


def remaining_epsilon(claim: PrivacyClaim, before: Events, events_at: Callable[[float], Events]) -> float:
    """The largest epsilon of a release that stays within the claim after what was released before, rounded down.

    >>> from tacit.accounting.events import GaussianEvent
    >>> from tacit.accounting.events.gaussian import gaussian_mu
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="other-users-actions")
    >>> at = lambda e: ((GaussianEvent(sigma=1 / gaussian_mu(e, 1e-6), shift=1.0), 1),)
    >>> round(remaining_epsilon(claim, at(0.6), at), 3)
    0.769
    """
    low, high = 0.0, claim.epsilon
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        fits = middle > 0.0 and delta_of((*before, *events_at(middle)), claim.epsilon) <= claim.delta
        low, high = (middle, high) if fits else (low, middle)
        if high - low < 1e-6 * claim.epsilon:
            break
    if low < 0.01 * claim.epsilon:
        raise InvalidInput(
            f"epsilon must be larger than what the log has cost: expected more than its claim, got {claim.epsilon:g}"
        )
    return low


@dataclass(frozen=True, kw_only=True)
class AfterLog:
    """The privatizer of a run or study whose people may be in a log that was released before."""

    inner: Any
    start: WarmStart
    claim: PrivacyClaim
    """Of log and run together."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def events(self) -> Events:
        """What a person of log and run is exposed to."""
        return (*self.start.events, *self.inner.events())

    def certificate(self) -> Certificate:
        """What the exact accountant finds for both together."""
        inner = self.inner.certificate()
        return certify(
            self.events(), (*inner.families, *self.start.families), self.claim, calibration=inner.calibration
        )


def log_counts(given: object) -> CountStatistics | None:
    """The totals that a run begins with; None: there are none."""
    return None if given is None else WarmStart.of(given).counts


def after_log(request: PrivacyRequest, given: object, environment: Any) -> Any:
    """The privatizer of a run: with what a log leaves of the claim, if the run starts with one."""
    made: Any = make_privatizer(request)
    if given is None:
        return made
    start = WarmStart.of(given)
    start.require_world(environment.state_names, environment.action_names, environment.horizon, made.claim.trust)

    def events_at(epsilon: float) -> Events:
        found: Any = make_privatizer(replace(request, epsilon=epsilon))
        return found.events()  # type: ignore[no-any-return]

    left = remaining_epsilon(composed_claim(made.claim, start), start.events, events_at)
    return make_privatizer(replace(request, epsilon=left))


def composed(privatizer: Any, config: RunConfig) -> Any:
    """The privatizer of a run with its schedule, and the log before it (G2)."""
    if config.start is None:
        return privatizer
    start = WarmStart.of(config.start)
    asked = replace(privatizer.claim, epsilon=float(config.epsilon or 0.0))
    return AfterLog(inner=privatizer, start=start, claim=composed_claim(asked, start))


def composed_claim(claim: PrivacyClaim, start: WarmStart) -> PrivacyClaim:
    """The claim of a run or study for a person who is in the log as well (G2)."""
    return replace(claim, unit=replace(claim.unit, reports=claim.unit.reports + start.reports))
