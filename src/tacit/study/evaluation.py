"""`evaluate`: what policies would have earned on the people of a log, released once with a certificate.

    estimator   released                                         needs
    ips         weighted returns                                 propensities
    snips       the same (the default)                           propensities
    dr          counts, then residuals of the model they give    propensities, a cap that cuts nothing
    dm          counts                                           actions chosen by step and state

    weights     w_h = Π_{t≤h} π_t(a_t|s_t) / p_t, cut at the declared cap; a person is the mean of their episodes
    log         "what the rule in use earned" is a policy with weights 1, released with a smaller share

Propensities come from the column of the mapping, from a known rule (a policy by name), or are estimated from counts,
which are released and charged first.

A log over features (`FeatureMapping`) has one decision per row: ips, snips, and dr with a linear model of released
moments, q(x, a) = 1/2 + x·θ_a in [0, 1]. With right propensities dr needs no linear rewards. dm would need them.

G1  Counts and vectors are released once each, calibrated so that the Gaussian shifts together are those of the claim;
    the certificate is the exact accountant's for both.
G2  Values are post-processing of the payloads: `evaluated` computes them again for `tacit verify`.
G3  Padded steps have weight 1 and the public padding; people of whom nothing counts are zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, Trust
from tacit.accounting.events.gaussian import gaussian_epsilon, gaussian_mu
from tacit.accounting.ledger import charging
from tacit.accounting.terms import NoiseKind, terms_of
from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import (
    InvalidInput,
    NotSupported,
    UnknownName,
    require,
    require_epsilon,
    require_real,
    with_suggestions,
)
from tacit.planning.linear_posterior import linear_posterior
from tacit.planning.off_policy import (
    Interval,
    Model,
    backward,
    direct_value,
    ips_value,
    missing_mass,
    model_of,
    normal_quantile,
    propensity_variance,
    residual_value,
    snips_value,
    visited,
)
from tacit.policies.feature_policy import FEATURE_POLICY_FORMAT, FeaturePolicy
from tacit.policies.named import NamedPolicy
from tacit.protocol import TOTALS, Noise
from tacit.randomness import SecureNoise
from tacit.release.fixed_point import BEYOND, SLACK_SHARE
from tacit.release.values import DeviceValues, PolicyValues, PrivateValues
from tacit.released.counts import CountShape
from tacit.released.moments import MomentShape
from tacit.study.episodes import Episodes, Progress, as_mapping, check_log
from tacit.study.feature_learning import FeatureRequest, FeatureRows, deal_rows, release_rows
from tacit.study.feature_mapping import FeatureMapping, read_feature_log
from tacit.study.learning import LearnRequest, deal, kind_of, released_counts
from tacit.study.log_source import LogSource
from tacit.study.mapping import EpisodeMapping

Estimator = Literal["snips", "ips", "dr", "dm"]
AnyNamed = NamedPolicy | FeaturePolicy
"""A policy over states, or over rows of features."""
VALUES: Final = "values of policies on a log"
"""What ledgers call a release."""
LOG: Final = "log"
"""The name of the log's own policy."""
LOG_SHARE: Final = 0.3
"""Its share of a release, whose other policies have 1: its weights are 1, so it needs far less."""
COUNTS_SHARE: Final[Mapping[str, float]] = {"dm": 0.9, "dr": 0.3, "ips": 0.5, "snips": 0.5}
"""The part of the squared shift that pays for counts, where they are released beside vectors."""


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """The public parameters of an evaluation; everything a certificate is derived from."""

    mapping: EpisodeMapping | FeatureMapping
    policies: Mapping[str, AnyNamed]
    epsilon: float
    delta: float
    people: int
    estimator: Estimator = "snips"
    weight_cap: float | None = None
    """None: 1/min_propensity per step, where nothing is cut."""
    min_propensity: float | None = None
    propensity: Literal["column", "estimated"] | AnyNamed = "column"
    against_log: bool = True
    confidence: float = 0.95
    trust: Trust = "central"

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require(self.estimator in get_args(Estimator), "estimator must be snips, ips, dr or dm", self.estimator)
        require_real("confidence", self.confidence, 0.5, 0.9999)
        require(len(self.policies) > 0, "there must be a policy to evaluate", 0)
        require(isinstance(self.against_log, bool), "against_log must be true or false", self.against_log)
        require(LOG not in self.policies, f"the name '{LOG}' is that of the log's own policy; choose another", LOG)
        rules = [] if isinstance(self.propensity, str) else [self.propensity]
        for policy in (*self.policies.values(), *rules):
            _require_names(policy, self.mapping)
        if self.min_propensity is not None:
            require_real("min_propensity", self.min_propensity, 0.0, 1.0, open_low=True)
            countable = -math.log(self.min_propensity) * self.mapping.horizon < math.log(1e300)
            require(countable, "min_propensity^horizon must be at least 1e-300", self.min_propensity)
        known = self.propensity in ("column", "estimated") if isinstance(self.propensity, str) else True
        require(known, "propensity must be 'column', 'estimated' or a policy", self.propensity)
        if isinstance(self.mapping, FeatureMapping) and (
            self.estimator == "dm" or self.propensity == "estimated" or self.trust != "central"
        ):
            raise NotSupported(
                "a log over features has no counts of states: dm and estimated propensities need a model of them, and "
                "devices know no rows of others; use snips, ips or dr under trust central, with known propensities"
            )
        if self.trust != "central":
            self._require_devices()
        if self.estimator == "dm":
            return
        m = self.mapping
        column = m.propensity if isinstance(m, FeatureMapping) else m.columns.propensity
        if self.propensity == "column" and column is None:
            hint = "name the column in the mapping, or choose propensity 'estimated' or a known rule"
            require(False, "the mapping must have a column of propensities", None, hint)
        declared = self.weight_cap is not None or self.min_propensity is not None
        require(declared, "weight_cap or min_propensity must be declared", None, "they bound what one person can add")
        require_real("weight_cap", self.cap, 1.0, 1e9)
        if self.estimator == "dr" and self.cuts:
            raise NotSupported("dr needs min_propensity and a weight_cap of at least 1/min_propensity^H; use snips")
        if self.estimator != "snips" and isinstance(m, EpisodeMapping) and m.drop:
            raise NotSupported(f"{self.estimator} needs every person's episodes, and the mapping drops some; use snips")

    def _require_devices(self) -> None:
        """Raise where a device alone cannot compute what is asked."""
        require(self.trust in ("shuffle", "local"), "trust must be central, shuffle or local", self.trust)
        if self.estimator not in ("snips", "ips") or self.propensity == "estimated":
            raise NotSupported(
                f"under trust '{self.trust}' a device knows its own weight and no model: use snips or ips, with the "
                "propensities of the rule that it followed"
            )

    @property
    def cap(self) -> float:
        """T: the greatest weight."""
        if self.weight_cap is not None:
            return float(self.weight_cap)
        return float(cast("float", self.min_propensity)) ** -self.mapping.horizon

    @property
    def cuts(self) -> bool:
        """Whether a weight may be above the cap."""
        least = self.min_propensity
        return least is None or self.cap < least**-self.mapping.horizon * (1.0 - 1e-9)

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to every person of the log."""
        return PrivacyClaim(
            trust=self.trust, epsilon=self.epsilon, delta=self.delta, unit=PrivacyUnit(reports=1, per_stage=1),
            neighbours="replace-one", output="published-sums" if self.trust == "central" else OUTPUTS[self.trust][0],
        )  # fmt: skip

    @property
    def honest_fraction(self) -> float:
        """Shuffle: the noise of all devices is counted on."""
        return 1.0

    @property
    def name(self) -> str:
        """For certificates."""
        return f"{self.trust}/{self.estimator} values of a log"

    @property
    def shape(self) -> CountShape | MomentShape:
        """The sizes of the log."""
        m = self.mapping
        if isinstance(m, FeatureMapping):
            return MomentShape(features=m.features.dimension, actions=len(m.actions.names), shared=False)
        return CountShape(
            horizon=m.horizon, num_states=len(m.state_names), num_actions=len(m.action_names), staged=True
        )

    @property
    def listed(self) -> tuple[str, ...]:
        """The policies whose vectors are released, by name."""
        weighed = () if self.estimator == "dm" else tuple(self.policies)
        return (*weighed, LOG) if self.against_log else weighed

    @cached_property
    def counts(self) -> LearnRequest | FeatureRequest | None:
        """The release of counts, or of moments of rows, if there is one."""
        if self.estimator not in ("dm", "dr") and self.propensity != "estimated":
            return None
        share = COUNTS_SHARE[self.estimator] if self.listed else 1.0
        promised: Any = {"epsilon": self._part(share), "delta": self.delta}
        m = self.mapping
        if isinstance(m, FeatureMapping):
            promised |= {"features": m.features, "actions": m.actions.names, "reward": (m.low, m.high)}
            return FeatureRequest(reports_per_person=1, stage_people=(self.people,), **promised)
        return LearnRequest(mapping=m, people=self.people, **promised)

    @cached_property
    def values(self) -> PrivateValues | DeviceValues | None:
        """The release of vectors, if there is one."""
        if not self.listed:
            return None
        share = 1.0 if self.counts is None else 1.0 - COUNTS_SHARE[self.estimator]
        shares = tuple(LOG_SHARE if name == LOG and len(self.listed) > 1 else 1.0 for name in self.listed)
        if self.trust != "central":
            return DeviceValues(claim=self.claim, shares=shares, people=self.people)
        kind: Any = "residuals" if self.estimator == "dr" else "weights"
        return PrivateValues(claim=self._claim(share), kind=kind, shares=shares, people=self.people)

    def _claim(self, share: float) -> PrivacyClaim:
        return self.claim if share == 1.0 else replace(self.claim, epsilon=self._part(share))

    def _part(self, share: float) -> float:
        """The epsilon of a release with this share of the squared shift (G1)."""
        if share == 1.0:
            return self.epsilon
        mu = gaussian_mu(self.epsilon, self.delta * (1.0 - 2.0 * SLACK_SHARE)) * math.sqrt(share) * (1.0 - 1e-9)
        part = gaussian_epsilon(self.delta * (1.0 - SLACK_SHARE), mu)
        if self.epsilon > part + BEYOND:
            raise NotSupported(
                f"epsilon {self.epsilon:g} is too large for {self.estimator} with counts: their part of it must be at "
                f"most {BEYOND:g} below, got {part:.3g}; use less, or snips or ips with known propensities"
            )
        return part

    def certificate(self, noise: NoiseKind) -> Certificate:
        """What the exact accountant finds for a person, over both releases."""
        events: list[Any] = []
        families: list[CertifiedFamily] = []
        if self.counts is not None:
            beside = self.counts.certificate(noise)
            events += beside.events or ()
            families += beside.families
        if self.values is not None:
            events += self.values.events()
            families += self.values.certified()
        found = certify(tuple(events), families, self.claim, calibration="tight")
        return found.under(terms_of(self, noise=noise, episodes=self.people, users_per_batch=self.people))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        rule = self.propensity
        return {
            "mapping": self.mapping.to_dict(),
            "policies": {name: policy.to_dict() for name, policy in self.policies.items()},
            "propensity": rule if isinstance(rule, str) else rule.to_dict(),
            **{name: getattr(self, name) for name in PLAIN},
            **({} if self.trust == "central" else {"trust": self.trust}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> EvaluationRequest:
        """The request that `to_dict` wrote."""
        names = ("mapping", "policies", "propensity", *PLAIN)
        given = set(plain) - {"trust"}
        require(given == set(names), f"a request has the entries {', '.join(names)}", sorted(plain))
        rule = plain["propensity"]
        return cls(
            mapping=_mapping(plain["mapping"]),
            policies={name: _policy(policy) for name, policy in plain["policies"].items()},
            propensity=cast("Any", rule) if isinstance(rule, str) else _policy(rule),
            trust=plain.get("trust", "central"),
            **{name: plain[name] for name in PLAIN},
        )


PLAIN: Final = (
    "epsilon", "delta", "people", "estimator", "weight_cap", "min_propensity", "against_log", "confidence"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValue:
    """The value of one policy: the return of an episode, in the units of the log."""

    policy: str
    value: float
    low: float
    high: float
    effective_size: float | None
    """How many people with equal weights know as much; None where weights are not released."""
    clipped: float | None
    """The share of weights that were cut at the cap."""
    gain: tuple[float, float, float] | None
    """Value, low and high of the difference to the log's own policy; the interval holds whatever their correlation."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        named = {name: getattr(self, name) for name in ("policy", "value", "low", "high", "effective_size", "clipped")}
        return {**named, "gain": None if self.gain is None else list(self.gain)}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evaluation:
    """What policies would have earned: public, all of it."""

    request: EvaluationRequest
    payloads: tuple[bytes, ...]
    certificate: Certificate
    values: tuple[PolicyValue, ...]

    def __getitem__(self, policy: str) -> PolicyValue:
        found = {one.policy: one for one in self.values}
        if policy not in found:
            raise UnknownName("policy", policy, found)
        return found[policy]

    @property
    def value(self) -> float:
        """The value of the first policy."""
        return self.values[0].value

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return self.values[0].low

    @property
    def high(self) -> float:
        """The upper end of its interval."""
        return self.values[0].high

    @property
    def summary(self) -> dict[str, Any]:
        """What was found, from what was released."""
        request = self.request
        named = request.propensity if isinstance(request.propensity, str) else "a known rule"
        return {
            "people": request.people,
            "estimator": request.estimator,
            "weight_cap": None if request.estimator == "dm" else request.cap,
            "confidence": request.confidence,
            "propensities": None if request.estimator == "dm" else named,
            "values": [one.to_dict() for one in self.values],
        }


@with_suggestions()
@checked
def evaluate(
    policies: AnyNamed | Mapping[str, AnyNamed] | Sequence[AnyNamed],
    log: LogSource | Episodes,
    mapping: EpisodeMapping | FeatureMapping | Mapping[str, Any] | str | Path | None = None,
    *,
    epsilon: float,
    delta: float,
    weight_cap: float | None = None,
    min_propensity: float | None = None,
    propensity: Literal["column", "estimated"] | AnyNamed = "column",
    estimator: Estimator = "snips",
    against_log: bool = True,
    confidence: float = 0.95,
    trust: Trust = "central",
    ledger: str | Path | None = None,
    budget: tuple[float, float] | None = None,
    noise: Noise | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate what policies would have earned on the people of a log, with one private release.

    Parameters
    ----------
    policies
        A policy by name, several, or several by a name of your own. More policies share one release.
    log, mapping
        A log with its public mapping (`tacit.read_episodes`), or episodes that were read.
    epsilon, delta
        The claim for every person of the log, with all of their episodes.
    weight_cap, min_propensity
        The greatest weight, and the least propensity that a row may have, both declared before the log is looked at.
        With min_propensity alone the cap is 1/min_propensity^H, and nothing is cut.
    propensity
        "column" (of the mapping), the policy that the log followed, or "estimated" from counts, which are charged.
    estimator
        "snips", "ips", "dr" or "dm".
    against_log
        Whether the log's own policy is evaluated, too, and every other one compared with it.
    confidence
        Of the intervals.
    trust
        "central", or "shuffle" or "local": then every person's device computes its own weights and sends one message
        (`device_message`, `collected`); with a log at hand, all devices are played here. Local trust has delta 0.
    ledger, budget
        The file of the ledger that the release is charged to, and (epsilon, delta) of one that is new. None: no ledger.
    noise
        Secure unless a simulation says otherwise; the certificate says which it was.
    progress
        Called with the share that is done.

    Returns
    -------
    Evaluation
        Values with intervals, effective sample sizes, shares of cut weights, gains over the log's policy, certificate.

    Raises
    ------
    InvalidInput
        If the log fails its data check, or has a propensity below the declared one.
    PrivacyBudgetExceeded
        If the ledger's budget does not cover the release; nothing was released or charged.

    Examples
    --------
    >>> from tacit.policies import DeterministicPolicy
    >>> from tacit.randomness import SimulationNoise
    >>> mapping = {"columns": {"person": "who", "episode": None, "step": None, "propensity": "p"}, "horizon": 1,
    ...     "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
    ...     "actions": {"column": "given", "categories": ["wait", "pill"]},
    ...     "reward": {"column": "points", "low": 0, "high": 1}}
    >>> i = np.arange(4000)
    >>> pill, sick = i % 2, i // 2 % 2
    >>> log = {"who": i, "fever": 37 + 2.0 * sick, "given": np.array(["wait", "pill"])[pill],
    ...     "points": 1.0 * (pill == sick), "p": np.full(4000, 0.5)}
    >>> treat = NamedPolicy(policy=DeterministicPolicy(np.array([[0, 1]])), states=("well", "sick"),
    ...     actions=("wait", "pill"))
    >>> found = evaluate(treat, log, mapping, epsilon=1.0, delta=1e-6, min_propensity=0.5,
    ...     noise=SimulationNoise(np.random.default_rng(0)))
    >>> found.low < 1.0 <= found.high, round(found["log"].value, 1)
    (True, 0.5)
    """
    request, episodes = read_evaluated(
        policies, log, mapping, progress=progress, epsilon=epsilon, delta=delta, weight_cap=weight_cap,
        min_propensity=min_propensity, propensity=propensity, estimator=estimator, against_log=against_log,
        confidence=confidence, trust=trust,
    )  # fmt: skip
    source = SecureNoise() if noise is None else noise
    certificate, users = request.certificate(kind_of(source)), range(request.people)
    with charging(ledger, certificate, budget, users=users, recipient="evaluate", what=VALUES, whole=True):
        return evaluate_episodes(request, episodes, source)


def read_evaluated(
    policies: AnyNamed | Mapping[str, AnyNamed] | Sequence[AnyNamed],
    log: LogSource | Episodes,
    mapping: EpisodeMapping | FeatureMapping | Mapping[str, Any] | str | Path | None,
    *,
    progress: Progress | None,
    **asked: Any,
) -> tuple[EvaluationRequest, Episodes]:
    """What `evaluate` is asked, and the episodes of its log; nothing is released."""
    if isinstance(policies, NamedPolicy | FeaturePolicy):
        policies = {"policy": policies}
    elif not isinstance(policies, Mapping):
        listed = isinstance(policies, Sequence) and not isinstance(policies, str)
        require(listed, "policies must be a policy, a list of them or a table by name", policies)
        policies = {f"policy {i + 1}": policy for i, policy in enumerate(policies)}
    asked["mapping"] = log.mapping if isinstance(log, Episodes) else _mapping(cast("Any", mapping))
    asked["policies"] = dict(policies)
    # Everything public is checked before the log is opened.
    public = EvaluationRequest(people=1, **asked)
    _ = public.counts, public.values
    if not isinstance(log, Episodes) and isinstance(asked["mapping"], FeatureMapping):
        log = _rows(log, asked["mapping"])
    if not isinstance(log, Episodes):
        check, episodes = check_log(log, asked["mapping"], progress=progress)
        if episodes is None:
            raise InvalidInput(f"the log must pass its data check, got {check.line}; see where with --check-only")
        log = episodes
    return EvaluationRequest(people=log.people, **asked), log


def evaluate_episodes(request: EvaluationRequest, episodes: Episodes, noise: Noise) -> Evaluation:
    """Release what the request asks for about these episodes, once, and read it."""
    require(episodes.people == request.people, f"there must be {request.people} people", episodes.people)
    certificate = request.certificate(kind_of(noise))
    require(certificate.holds, "the claim must hold", certificate.verdict)
    require_propensities(request, episodes)
    payloads: list[bytes] = []
    if isinstance(request.counts, FeatureRequest):
        t, x = episodes.trajectories, cast("Floats", episodes.x)
        rows = FeatureRows(x, t.actions[:, 0], t.rewards[:, 0], episodes.persons, episodes.people)
        payloads += release_rows(request.counts, rows, deal_rows(rows, 1, "random", noise), noise)
    elif request.counts is not None:
        channel, chosen = request.counts.channels[0], deal(episodes, 1, "random", noise)[0]
        bodies = [channel.encode(None if i < 0 else episodes.trajectory(int(i)), noise) for i in chosen]
        payloads.append(channel.release(channel.begin_secret(), bodies, TOTALS, noise)[1])
    model = _model(request, tuple(payloads))
    if request.values is not None:
        payloads.append(request.values.payload(_people(request, episodes, model), noise))
    return evaluated(request, tuple(payloads), certificate)


def device_message(request: EvaluationRequest, steps: Trajectory, propensities: Floats, noise: Noise) -> bytes:
    """The device of a person: the message about one episode, from the probabilities with which its actions were drawn.

    All H steps count; whoever sends no message is missing, so send the message of an episode without weight if there
    is none.
    """
    require(request.trust != "central", "devices send messages under trust shuffle or local", request.trust)
    H = request.mapping.horizon
    shape = np.asarray(propensities, dtype=np.float64).reshape(1, -1)
    require(shape.shape == (1, H), f"there must be {H} propensities", shape.size)
    rows = (np.asarray(part).reshape(1, -1) for part in (steps.states, steps.actions, steps.rewards))
    one = Episodes(
        trajectories=Trajectories(*rows), persons=np.zeros(1, dtype=np.int64), people=1, lengths=np.array([H]),
        propensities=shape, mapping=request.mapping,
    )  # fmt: skip
    alone = replace(request, people=1)
    require_propensities(alone, one)
    return cast("DeviceValues", request.values).message(_people(alone, one, None), noise)


def collected(request: EvaluationRequest, messages: Sequence[bytes], noise: Noise | None = None) -> Evaluation:
    """The collector: values from the messages of all people.

    No message shows which noise its device drew: `noise` says whether they rehearsed (`SimulationNoise`).
    """
    source = SecureNoise() if noise is None else noise
    certificate = request.certificate(kind_of(source))
    require(certificate.holds, "the claim must hold", certificate.verdict)
    payload = cast("DeviceValues", request.values).collected(messages, source)
    return evaluated(request, (payload,), certificate)


def evaluated(request: EvaluationRequest, payloads: tuple[bytes, ...], certificate: Certificate) -> Evaluation:
    """Everything that follows from what was released (G2)."""
    wanted = (request.counts is not None) + (request.values is not None)
    require(len(payloads) == wanted, f"there must be {wanted} payloads", len(payloads))
    model = _model(request, payloads[:1])
    found: dict[str, tuple[Interval, float | None, float | None]] = {}
    z, n, H = normal_quantile(request.confidence), request.people, request.mapping.horizon
    if request.estimator == "dm":
        for name in request.policies:
            found[name] = direct_value(cast("Model", model), _table(request, name), z), None, None
    if request.values is not None:
        released = request.values.read(payloads[-1])
        for name, sums, variance in zip(request.listed, released.sums, released.variance, strict=True):
            cap = 1.0 if name == LOG else request.cap
            if request.estimator == "dr":
                center, reach = (0.5, 0.5) if name == LOG else _reach(request, cast("Model", model), name)
                found[name] = residual_value(sums, variance, n, center, reach, z), None, None
                continue
            missing = missing_mass(sums, variance, n, cap, z) if request.cuts and name != LOG else 0.0
            # Only ips has everybody's episodes for certain; a mapping that drops some leaves people without any
            interval = ips_value if request.estimator == "ips" else snips_value
            value = interval(sums, variance, n, cap, z, missing)
            if request.propensity == "estimated" and name != LOG:
                value = _widened(value, z, request, cast("Model", model), name)
            size = min(float(n), max(0.0, sums[1]) ** 2 / max(1e-12, sums[2]))
            share = min(1.0, max(0.0, float(sums[5]) / n)) if request.cuts and name != LOG else 0.0
            found[name] = value, float(size), None if request.propensity == "estimated" and name != LOG else share
    low, width = H * request.mapping.low, H * (request.mapping.high - request.mapping.low)
    values = []
    for name, (value, size, clipped) in found.items():
        gain = None
        if LOG in found and name != LOG:
            own = found[LOG][0]
            ends = (value.value - own.value, value.low - own.high, value.high - own.low)
            gain = cast("tuple[float, float, float]", tuple(width * float(end) for end in ends))
        inside = {end: low + width * float(getattr(value, end)) for end in ("value", "low", "high")}
        values.append(PolicyValue(policy=name, effective_size=size, clipped=clipped, gain=gain, **inside))
    return Evaluation(request=request, payloads=payloads, certificate=certificate, values=tuple(values))


def _model(request: EvaluationRequest, payloads: tuple[bytes, ...]) -> Model | Floats | None:
    """What was released of counts; θ[actions,d] of rows over features."""
    if isinstance(request.counts, FeatureRequest):
        return linear_posterior(*request.counts.sums(payloads)).mean
    return None if request.counts is None else model_of(released_counts(request.counts, payloads))


def _widened(value: Interval, z: float, request: EvaluationRequest, model: Model, name: str) -> Interval:
    """The interval with what estimated propensities add, and what those raised to the floor took away."""
    table, p = _table(request, name), _estimated(request, model)
    half = z * math.sqrt(propensity_variance(model, table, p))
    if not request.cuts:
        # V = Σ E w r + Σ d^π (1 - p/floor) Q;  of snips, the weights that are left count 1 - Σ d^π (1 - p/floor)
        H = len(p)
        lost = visited(model, table) * (1.0 - _shares(model) / p)
        gone = float(lost.sum(axis=(1, 2)) @ np.arange(H, 0, -1)) / H if request.estimator == "snips" else 0.0
        added = [float((lost * backward(model, table, unknown)[1]).sum()) / H for unknown in (0.5, 0.0, 1.0)]
        value = Interval(*((1.0 - gone) * end + more for end, more in zip(value, added, strict=True)))
        # Of supported rows Q has the doubt of the direct method, and of others it was counted from 0 to 1
        direct, part = direct_value(model, table, z), np.where(model.visits > 0.0, 1.0 - _shares(model) / p, 0.0)
        half = math.hypot(half, float(part[table > 0.0].max()) * (direct.high - direct.low) / 2.0)
    below, above = (math.hypot(half, end) for end in (value.value - value.low, value.high - value.value))
    return Interval(value.value, value.value - below, value.value + above).cut()


def _table(request: EvaluationRequest, name: str) -> Floats:
    """π[H,S,A]; in a padding state of its own the padding's action is certain."""
    m = cast("EpisodeMapping", request.mapping)
    table, short = np.array(cast("NamedPolicy", request.policies[name]).to_numpy(), dtype=np.float64), m.short
    if short is not None and short.state is not None:
        table[:, m.state_names.index(short.state)] = np.eye(len(m.action_names))[m.action_names.index(short.action)]
    return table


def _reach(request: EvaluationRequest, model: Model, name: str) -> tuple[float, float]:
    """Center and reach of the doubly robust value per step, from the public model."""
    if isinstance(request.mapping, FeatureMapping):
        return 0.5, 0.5 + request.cap  # |Σ π q - 1/2| + T |r - q|
    table, H = _table(request, name), request.mapping.horizon
    V, Q = backward(model, table, 0.5)
    # |V_0(s) - center| + T Σ_h max |r + V_{h+1}(s') - Q_h(s,a)| over actions that the policy takes
    residuals = [
        max(
            float(np.max(np.where(table[h] > 0.0, 1.0 + V[h + 1].max() - Q[h], 0.0))),
            float(np.max(np.where(table[h] > 0.0, Q[h] - V[h + 1].min(), 0.0))),
        )
        for h in range(H)
    ]
    center = float(V[0].max() + V[0].min()) / 2.0
    reach = float(V[0].max() - V[0].min()) / 2.0 + request.cap * sum(residuals)
    return center / H, max(reach, 1e-9) / H


def _estimated(request: EvaluationRequest, model: Model) -> Floats:
    """[H,S,A]: propensities of the released counts, at least what is declared."""
    return np.clip(_shares(model), request.min_propensity or 1.0 / request.cap, 1.0)


def _shares(model: Model) -> Floats:
    """[H,S,A]: of the released counts of a state; 1 where there are none."""
    total = model.visits.sum(axis=2, keepdims=True)
    return np.asarray(np.where(total > 0.0, model.visits / np.where(total > 0.0, total, 1.0), 1.0))


def _propensities(request: EvaluationRequest, episodes: Episodes, model: Model | Floats | None) -> Floats:
    """[n,H]: the propensities of the logged actions."""
    t, H = episodes.trajectories, request.mapping.horizon
    if request.propensity == "column":
        return cast("Floats", episodes.propensities)
    if isinstance(request.propensity, FeaturePolicy):
        return _of_rows(request.propensity, episodes)
    table = _estimated(request, cast("Model", model)) if request.propensity == "estimated" else _rule(request)
    return np.asarray(table[np.arange(H), t.states, t.actions], dtype=np.float64)


def _rule(request: EvaluationRequest) -> Floats:
    return np.asarray(cast("NamedPolicy", request.propensity).to_numpy())


def _people(request: EvaluationRequest, episodes: Episodes, model: Model | Floats | None) -> PolicyValues:
    """Sensitive: u, s and c of every person and policy; or z."""
    t, H, n = episodes.trajectories, request.mapping.horizon, request.people
    real = np.arange(H) < episodes.lengths[:, None]
    columns = []
    for name in request.listed:
        cap, policy = (1.0, None) if name == LOG else (request.cap, request.policies[name])
        if name == LOG:
            w: Floats = np.ones_like(t.rewards)
        else:
            if isinstance(policy, FeaturePolicy):
                taken = _of_rows(policy, episodes)
            else:
                taken = _table(request, name)[np.arange(H), t.states, t.actions]
            ratios: Floats = np.where(real, taken / _propensities(request, episodes, model), 1.0)
            w = np.asarray(np.cumprod(ratios, axis=1), dtype=np.float64)
        cut, w = w > cap * (1.0 + 1e-9), np.minimum(w, cap)
        if request.estimator == "dr":
            if name == LOG:
                z: Floats = 2.0 * t.rewards.mean(axis=1) - 1.0
            elif isinstance(policy, FeaturePolicy):
                x, (center, reach) = (
                    cast("Floats", episodes.x)[t.states[:, 0]],
                    _reach(request, cast("Any", None), name),
                )
                q = np.clip(0.5 + x @ cast("Floats", model).T, 0.0, 1.0)
                residuals = w[:, 0] * (t.rewards[:, 0] - q[np.arange(len(x)), t.actions[:, 0]])
                z = ((policy.probabilities_of(x) * q).sum(axis=1) + residuals - center) / reach
            else:
                V, Q = backward(cast("Model", model), _table(request, name), 0.5)
                ahead = np.concatenate([V[np.arange(1, H), t.states[:, 1:]], np.zeros((len(w), 1))], axis=1)
                residuals = w * (t.rewards + ahead - Q[np.arange(H), t.states, t.actions])
                center, reach = _reach(request, cast("Model", model), name)
                z = np.asarray(((V[0, t.states[:, 0]] + residuals.sum(axis=1)) / H - center) / reach)
            columns.append((_means(z, episodes, n), np.zeros(n), np.zeros(n)))
            continue
        u = _means(w.mean(axis=1) / cap, episodes, n)
        x = _means((w * (t.rewards - 0.5)).mean(axis=1) / cap, episodes, n)
        s = np.where(u > 0.0, x / np.where(u > 0.0, u, 1.0), 0.0)
        columns.append((u, s, _means((cut & real).mean(axis=1), episodes, n)))
    return PolicyValues(*(np.stack(part, axis=1) for part in zip(*columns, strict=True)))


def _means(values: Floats, episodes: Episodes, people: int) -> Floats:
    """[people]: the mean over a person's episodes, 0 where there is none."""
    each = np.bincount(episodes.persons, minlength=people)
    return np.asarray(np.bincount(episodes.persons, weights=values, minlength=people) / np.maximum(each, 1))


def _mapping(given: Any) -> EpisodeMapping | FeatureMapping:
    """A mapping over states or over features, as it was given."""
    if isinstance(given, FeatureMapping):
        return given
    if isinstance(given, Mapping):
        return FeatureMapping.from_dict(given) if "features" in given else EpisodeMapping.from_dict(given)
    found = FeatureMapping.read(given) if isinstance(given, str | Path) else None
    return as_mapping(given) if found is None else found


def _policy(plain: Mapping[str, Any]) -> AnyNamed:
    return (FeaturePolicy if plain.get("format") == FEATURE_POLICY_FORMAT else NamedPolicy).from_dict(plain)


def _rows(log: LogSource, mapping: FeatureMapping) -> Episodes:
    """Sensitive: the rows of a log as episodes of one step, whose states are the numbers of the rows."""
    rows = read_feature_log(log, mapping)
    n, p = len(rows.x), rows.propensities
    steps = Trajectories(np.arange(n)[:, np.newaxis], rows.actions[:, np.newaxis], rows.rewards[:, np.newaxis])
    return Episodes(
        trajectories=steps, persons=rows.persons, people=rows.people, lengths=np.ones(n, dtype=np.int64),
        propensities=None if p is None else p[:, np.newaxis], mapping=mapping, x=rows.x,
    )  # fmt: skip


def _of_rows(policy: FeaturePolicy, episodes: Episodes) -> Floats:
    """[n,1]: with which probability the policy takes the logged actions."""
    t = episodes.trajectories
    return np.asarray(policy.probabilities_of(cast("Floats", episodes.x))[t.states, t.actions])


def _require_names(policy: object, mapping: EpisodeMapping | FeatureMapping) -> None:
    if isinstance(mapping, FeatureMapping):
        same = isinstance(policy, FeaturePolicy) and policy.features == mapping.features
        rule = "a policy for a log over features must be a FeaturePolicy with the features and actions of the mapping"
        alike = same and cast("FeaturePolicy", policy).actions == mapping.actions.names
        require(alike, rule, "another" if same else type(policy).__name__)
        return
    if not isinstance(policy, NamedPolicy):
        raise InvalidInput(f"a policy must be a NamedPolicy, got {type(policy).__name__}")
    hint = "write the mapping with the policy's names"
    same = policy.states == mapping.state_names and policy.actions == mapping.action_names
    require(same, "a policy must have the states and actions of the mapping", "others", hint)
    require(policy.horizon == mapping.horizon, f"a policy must have {mapping.horizon} steps", policy.horizon)


def require_propensities(request: EvaluationRequest, episodes: Episodes) -> None:
    """Raise if a propensity is below the declared one; counts of a log with a rule that saw more are refused."""
    short = request.mapping.short if isinstance(request.mapping, EpisodeMapping) else None
    if request.estimator in ("dm", "dr") and short is not None and short.state is None:
        raise NotSupported(f"{request.estimator} needs a padding state of its own: give 'short' a 'state'")
    least = request.min_propensity
    if least is None or request.estimator == "dm" or request.propensity == "estimated":
        return
    p = _propensities(request, episodes, None)
    real = np.arange(p.shape[1]) < episodes.lengths[:, None]
    if bool((p[real] < least * (1.0 - 1e-9)).any()):
        raise InvalidInput(f"every propensity of the log must be at least the declared {least:g}, got a smaller one")
