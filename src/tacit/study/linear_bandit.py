"""`LinearBandit`: a private linear bandit as an estimator, from frames of rows that a curator holds.

    fit            one release from a log                          every fit of the same people costs them again
    partial_fit    one release from a batch of other people
    predict        the best action of a row; predict_proba(explore=True): the share of posterior draws that choose it
    coef_, intervals_, certificate_, policy_                       follow from what was released

G1  Everything is checked before a release, and the release is charged before its noise is drawn: an error before the
    end charges nothing and changes nothing. No message holds a value of the data.
G2  What is saved is public, and `tacit verify` derives it again from the releases. Which persons were in batches is
    sensitive: it is kept in memory alone.
G3  No default depends on data, and none stands for "no privacy".
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyUnit
from tacit.accounting.ledger import charging
from tacit.accounting.terms import terms_of
from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.errors import (
    InvalidInput,
    NotSupported,
    PrivacyBudgetExceeded,
    PrivacyViolation,
    require,
    require_real,
    with_suggestions,
)
from tacit.features import Features, read_columns
from tacit.notebook import block, grid
from tacit.planning.linear_posterior import thompson_draws
from tacit.planning.off_policy import normal_quantile, snips_value
from tacit.policies.feature_policy import FeaturePolicy
from tacit.protocol import Noise
from tacit.randomness import SecureNoise
from tacit.release.values import PolicyValues, PrivateValues
from tacit.study.feature_learning import (
    CONFIDENCE,
    FEATURE_MOMENTS,
    FeatureLearned,
    FeatureRequest,
    FeatureRows,
    deal_rows,
    extended,
    learn_from_rows,
    read_rows,
    real_column,
    release_rows,
)
from tacit.study.learn_files import read_learned, save_learned
from tacit.study.learning import kind_of

RECIPIENT: Final = "LinearBandit"


class LinearBandit:
    """A private linear contextual bandit: which action is best for a row of features.

    Parameters
    ----------
    actions
        The names of the actions, at least two.
    features
        The public declaration of the rows, written before the data are looked at.
    reward
        The public bounds (low, high) of rewards.
    trust
        "central": a curator holds the frame. Other trust models need devices: see `tacit study`.
    epsilon, delta
        What every person is promised, over all rows of the person that count.
    reports_per_person
        How many rows of a person count, at most: in `fit` a random choice of them, in `partial_fit` one per batch.
    fallback
        The action that a killed policy answers with.
    ledger
        The file of the ledger that releases are charged to; a new one gets `budget`. None: this object itself refuses
        a second `fit` and a second `score`.
    budget
        (epsilon, delta) of a new ledger, for every person; None: epsilon and delta above.

    Attributes
    ----------
    coef_ : array [actions, features]
        What a number of the encoded row (`features.encode`, `features.names`) adds to the expected reward.
    intercept_ : float
        The middle of the bounds: the reward where all numbers of the row are zero.
    intervals_ : array [actions, features, 2]
        95 % intervals, with the noise of the release in them: about one coefficient in twenty is missed. NaN: not told
        apart from noise. They reach to `coef_`, which noise draws towards zero.
    certificate_ : Certificate
        What is promised, and what the exact accountant finds.
    policy_ : FeaturePolicy
        The best action of a row, as a public object that can be written to a file.
    classes_, feature_names_in_, n_features_in_
        The actions, and the declared columns.

    Notes
    -----
    The expected reward of an action is modeled as linear in the encoded row. Coefficients say what an action *does* if,
    given the row, nothing else that matters decided who got it: logs of a rule that saw more are misleading.

    Examples
    --------
    >>> import numpy as np, tacit
    >>> rng, n = np.random.default_rng(0), 4000
    >>> tired, walk = rng.random(n) < 0.5, rng.random(n) < 0.5
    >>> log = {"tired": tired, "given": np.where(walk, "walk", "wait"), "points": 1.0 * (walk != tired)}
    >>> bandit = tacit.LinearBandit(actions=["wait", "walk"], features=tacit.Features(tired=bool), reward=(0, 1),
    ...                             trust="central", epsilon=1.0, delta=1e-6, reports_per_person=1)
    >>> bandit.fit(log, action="given", reward="points").predict({"tired": [True, False]}).tolist()
    ['wait', 'walk']
    >>> bandit.certificate_.verdict
    'The claim is true: the accountant certifies epsilon 1 at delta 1e-06.'
    """

    @with_suggestions()
    def __init__(
        self,
        *,
        actions: Sequence[str],
        features: Features,
        reward: tuple[float, float],
        trust: str,
        epsilon: float,
        delta: float,
        reports_per_person: int,
        fallback: str | None = None,
        ledger: str | Path | None = None,
        budget: tuple[float, float] | None = None,
    ) -> None:
        # As in other estimators: parameters are kept as they are given, and checked when they are used.
        self.actions = actions
        self.features = features
        self.reward = reward
        self.trust = trust
        self.epsilon = epsilon
        self.delta = delta
        self.reports_per_person = reports_per_person
        self.fallback = fallback
        self.ledger = ledger
        self.budget = budget

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` is there for other estimators' sake."""
        del deep
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; what was released before stays what it was until the next `fit`."""
        known = self._get_param_names()
        for name in params:
            require(name in known, f"a parameter must be one of {', '.join(known)}", name)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    @checked
    def fit(
        self,
        rows: Any,
        *,
        action: str,
        reward: str,
        person: str | None = None,
        propensity: str | None = None,
        noise: Noise | None = None,
    ) -> Self:
        """Learn from a log with one release, and forget earlier ones.

        Parameters
        ----------
        rows
            A frame of pandas or polars, an Arrow table, a structured NumPy array, or columns by name.
        action, reward
            The columns of the action that was taken and of the reward that followed.
        person
            The column that says whose row it is. None: every row is another person's, which you declare by this.
        propensity
            A column with the probability of the action that was taken: checked to lie in (0, 1], and not used.
        noise
            Secure, unless a simulation says otherwise; the certificate says which it was.

        Raises
        ------
        InvalidInput
            If a parameter or the data are not as declared; nothing was released or charged.
        PrivacyBudgetExceeded
            If the budget does not cover the release; nothing was released or charged.
        """
        request = self._request()
        found = self._read(rows, action, reward, person, propensity)
        asked = replace(request, stage_people=(found.people,) * self.reports_per_person)
        drawn = SecureNoise() if noise is None else noise
        self._require_first("_learned", "fit")
        with self._charging(asked.certificate(kind_of(drawn)), range(found.people)):
            learned = learn_from_rows(asked, found, drawn, kind_of(drawn))
        self._learned = learned
        self._draws: Floats | None = None
        self._people = found.people
        # After a fit a person may have no row left, so nobody of the log may be in a batch that follows.
        self._reports: dict[Any, int] | None = None
        if found.ids is not None:
            self._reports = dict.fromkeys(found.ids, self.reports_per_person)
        return self

    @checked
    def partial_fit(
        self,
        rows: Any,
        *,
        action: str,
        reward: str,
        person: str | None = None,
        propensity: str | None = None,
        noise: Noise | None = None,
    ) -> Self:
        """Learn from one more batch with a release of its own; parameters are those of `fit`.

        One row of a person counts in a batch. Rows of persons who were in `reports_per_person` batches already count
        for nothing, as far as this object has seen the batches; their people are part of the batch all the same. Names
        of persons are compared as text: 7 and "7" are one.
        """
        before = self._learned.request if hasattr(self, "_learned") else None
        known = getattr(self, "_reports", {} if before is None else None)
        request = self._request()
        if before is not None:
            same = replace(before, stage_people=(1,)) == request
            require(same, "the parameters must be those of the batches before", "others", "fit a new estimator")
        found = self._read(rows, action, reward, person, propensity)
        if before is not None and (known is None) != (found.ids is None):
            raise InvalidInput(
                "all batches must name their persons, or none of them: expected the same as before, got the other; an "
                "estimator that was loaded does not know who was in its batches, so it takes none that names persons"
            )
        drawn = SecureNoise() if noise is None else noise
        asked = replace(request, stage_people=(found.people,)) if before is None else extended(before, found.people)
        stage = deal_rows(found, 1, "random", drawn)
        used = known or {}
        if found.ids is not None:
            spent = np.array([used.get(one, 0) >= self.reports_per_person for one in found.ids])
            stage[0, spent] = -1
        certificate = asked.certificate(kind_of(drawn))
        require(certificate.holds, "the claim must hold", certificate.verdict)
        people = getattr(self, "_people", 0)
        with self._charging(certificate, range(people, people + found.people)):
            payloads = () if before is None else self._learned.payloads
            learned = asked.planned((*payloads, *release_rows(asked, found, stage, drawn)), certificate)
        self._learned, self._draws, self._people = learned, None, people + found.people
        self._reports = None
        if found.ids is not None:
            self._reports = {**used, **{one: used.get(one, 0) + 1 for one in found.ids}}
        return self

    def predict(self, rows: Any) -> NDArray[np.str_]:
        """The names of the best actions."""
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    def predict_proba(self, rows: Any, *, explore: bool = False) -> Floats:
        """[n,actions]: with which probability each action is taken.

        `explore` False: 1 for the best action. True: Thompson sampling, the share of 32 public draws of the posterior
        that choose it; a log of actions that were taken so has these as propensities.
        """
        return (self.explorer_ if explore else self.policy_).probabilities(rows)

    def decision_function(self, rows: Any) -> Floats:
        """[n,actions]: the expected rewards, in the units of the bounds."""
        return self.policy_.values(rows)

    def score(
        self,
        rows: Any,
        *,
        action: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        min_propensity: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        person: str | None = None,
        noise: Noise | None = None,
    ) -> float:
        """The mean reward of `predict` on a log with propensities, with a release of its own.

        A score of data is a release, so it needs a budget: without epsilon and delta it is refused. The estimate is
        self-normalised and in the units of the bounds; `score_interval_` and `score_certificate_` say how sure it is.

        Parameters
        ----------
        rows, action, reward, person
            As in `fit`; all rows of a person count as one report.
        propensity
            The column with the probability of the action that was taken.
        min_propensity
            The least propensity that a row may have, declared before the log is looked at.
        epsilon, delta
            What every person of these rows is promised for the score, beside other releases.
        noise
            As in `fit`.

        Raises
        ------
        PrivacyViolation
            Without epsilon and delta.
        """
        if epsilon is None or delta is None:
            raise PrivacyViolation(
                "a score is a release about the people of these rows: expected a budget, got none. Give epsilon and "
                "delta, and charge them beside the releases that the estimator was fitted with"
            )
        for name, given in (("action", action), ("reward", reward), ("propensity", propensity)):
            require(given is not None, f"a score needs the column '{name}'", None)
        cap = 1.0 / require_real("min_propensity", min_propensity, 0.0, 1.0, open_low=True)
        policy, (low, high) = self.policy_, self._released.request.reward
        found = self._read(rows, str(action), str(reward), person, propensity, one_report=True)
        p = real_column(str(propensity), read_columns(rows, [str(propensity)])[str(propensity)])
        require(
            bool((p >= (1.0 - 1e-9) / cap).all()), "every propensity must be at least min_propensity", "a smaller one"
        )
        w = policy.probabilities(rows)[np.arange(len(p)), found.actions] / p / cap
        each = np.maximum(np.bincount(found.persons, minlength=found.people), 1)
        u, x = (np.bincount(found.persons, part) / each for part in (w, w * (found.rewards - 0.5)))
        s = np.divide(x, u, out=np.zeros_like(x), where=u > 0.0)
        claim = replace(self._request().claim, epsilon=epsilon, delta=delta, unit=PrivacyUnit(reports=1, per_stage=1))
        release = PrivateValues(claim=claim, kind="weights", shares=(1.0,), people=found.people)
        drawn = SecureNoise() if noise is None else noise
        self._require_first("score_certificate_", "score")
        terms = terms_of(release, noise=kind_of(drawn), episodes=found.people, users_per_batch=found.people)
        certificate = release.certificate().under(terms)
        with self._charging(certificate, range(found.people)):
            released = release.read(release.payload(PolicyValues(*(a[:, None] for a in (u, s, 0.0 * u))), drawn))
        value = snips_value(
            released.sums[0], released.variance[0], found.people, cap, normal_quantile(CONFIDENCE), missing=0.0
        )
        self.score_certificate_ = certificate
        self.score_interval_ = (low + (high - low) * value.low, low + (high - low) * value.high)
        return low + (high - low) * value.value

    @property
    def policy_(self) -> FeaturePolicy:
        """The best action of a row."""
        return self._released.policy

    @property
    def explorer_(self) -> FeaturePolicy:
        """Thompson sampling: 32 draws of the posterior, which follow from what was released."""
        found = self._released
        if self._draws is None:
            seed = hashlib.sha256(b"".join(found.payloads)).digest()
            self._draws = thompson_draws(found.posterior, np.random.default_rng(list(seed)))
        return found.policy_of(self._draws)

    @property
    def coef_(self) -> Floats:
        """[actions, features]: what a number of the encoded row adds to the expected reward."""
        return self._released.coefficients

    @property
    def intercept_(self) -> float:
        """The reward where all numbers of the row are zero: the middle of the bounds."""
        return sum(self._released.request.reward) / 2.0

    @property
    def intervals_(self) -> Floats:
        """[actions, features, 2]: 95 % intervals of the coefficients; NaN: not told apart from noise."""
        return self._released.intervals

    @property
    def certificate_(self) -> Certificate:
        """What is promised, and what the exact accountant finds."""
        return self._released.certificate

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The actions, in the order of `predict_proba`."""
        return np.array(self._released.request.actions)

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """The declared columns."""
        return np.array([column.name for column in self._released.request.features.columns])

    @property
    def n_features_in_(self) -> int:
        """How many columns are declared."""
        return len(self._released.request.features.columns)

    def save(self, directory: str | Path, *, key: str | Path | None = None) -> Path:
        """Write what was released and what follows to a new directory, for `tacit verify` and `LinearBandit.load`.

        Parameters
        ----------
        directory
            A new or empty directory.
        key
            The private key that signs it.
        """
        return save_learned(self._released, directory, key=key)

    @classmethod
    def load(cls, path: str | Path, *, ledger: str | Path | None = None) -> LinearBandit:
        """The estimator that `save` or `tacit learn` wrote, derived again from its releases.

        No file says which `ledger` they were charged to: name it, or what it releases next is charged to none.
        """
        found = read_learned(path)
        if not isinstance(found, FeatureLearned):
            raise InvalidInput(f"{path} must be of a LinearBandit, got a policy over states")
        asked = found.request
        made = cls(
            actions=asked.actions,
            features=asked.features,
            reward=asked.reward,
            trust="central",
            epsilon=asked.epsilon,
            delta=asked.delta,
            reports_per_person=asked.reports_per_person,
            fallback=asked.fallback,
            ledger=ledger,
        )
        made._learned, made._draws = found, None
        made._people, made._reports = sum(asked.stage_people), None
        return made

    def __getstate__(self) -> dict[str, Any]:
        """What may be pickled: all but who was in which batch (G2)."""
        return {**self.__dict__, "_reports": None} if hasattr(self, "_learned") else dict(self.__dict__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __repr__(self) -> str:
        state = "fitted" if hasattr(self, "_learned") else "not fitted"
        return f"LinearBandit({self.trust} trust, epsilon {self.epsilon!r}, {state})"

    def _repr_html_(self) -> str:
        if not hasattr(self, "_learned"):
            return block(repr(self))
        return block(repr(self), grid(["feature", *self._learned.request.actions], self._learned.table()))

    @property
    def _released(self) -> FeatureLearned:
        if not hasattr(self, "_learned"):
            raise InvalidInput("the estimator must be fitted: expected a call of fit or partial_fit before, got none")
        return self._learned

    def _require_first(self, released: str, what: str) -> None:
        if self.ledger is None and hasattr(self, released):
            raise PrivacyBudgetExceeded(
                f"this estimator has released from data once: expected one {what}, got a second. Use a clone and other "
                "people, or give it a ledger whose budget covers both"
            )

    def _request(self) -> FeatureRequest:
        """The public parameters, checked; the batches follow."""
        if self.trust != "central":
            raise NotSupported(
                f"a frame is in the hands of a curator: expected trust 'central', got {self.trust!r}. Under other "
                "trust models devices encode rows: plan a study with these features"
            )
        return FeatureRequest(
            features=self.features,
            actions=self.actions,  # type: ignore[arg-type]
            reward=self.reward,
            epsilon=self.epsilon,
            delta=self.delta,
            reports_per_person=self.reports_per_person,
            stage_people=(1,),
            fallback=self.fallback,
        )

    def _read(
        self,
        rows: Any,
        action: str,
        reward: str,
        person: str | None,
        propensity: str | None,
        *,
        one_report: bool = False,
    ) -> FeatureRows:
        """The rows, checked; `one_report`: all rows of a person are one."""
        asked = self._request()
        if propensity is not None:
            p = real_column(propensity, read_columns(rows, [propensity])[propensity])
            inside = bool(((p > 0.0) & (p <= 1.0)).all())
            require(inside, f"propensities of the column '{propensity}' must lie in (0, 1]", "one outside, or none")
        named = {"action_column": action, "reward_column": reward, "person_column": person}
        found = read_rows(rows, asked.features, asked.actions, asked.reward, **named)  # type: ignore[arg-type]
        named_persons = person is not None or self.reports_per_person == 1 or one_report
        rule = "rows must name their persons where several reports of a person count"
        require(named_persons, rule, "no column 'person'", "give person=, or reports_per_person=1")
        return found

    def _charging(self, certificate: Certificate, users: range) -> AbstractContextManager[None]:
        """A block whose release is charged to the ledger in one transaction with it."""
        return charging(self.ledger, certificate, self.budget, users=users, recipient=RECIPIENT, what=FEATURE_MOMENTS)
