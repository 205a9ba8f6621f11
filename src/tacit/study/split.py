"""`Split`: learn from some people of a log, and compare the policy with the log's rule on the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.errors import require, require_real
from tacit.policies import uniform_policy
from tacit.policies.named import NamedPolicy
from tacit.protocol import Noise
from tacit.study.episodes import Episodes
from tacit.study.evaluation import EvaluationRequest, evaluate_episodes, require_propensities
from tacit.study.learning import Learned, LearnRequest, kind_of, learn_from, shuffled

LEARNED_NAME: Final = "learned"
"""The name of the policy in a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Sensitive: people by lot in two groups, one to learn from and one to compare the policy with the log's rule.

    A person is in one of the two releases only, whichever the lots say, so both have the whole claim: Lemma P7
    (parallel composition). The second release may depend on the first, as it is about other people.
    """

    request: LearnRequest
    episodes: Episodes
    asked: EvaluationRequest
    others: Episodes

    @classmethod
    def of(
        cls, request: LearnRequest, episodes: Episodes, share: float, min_propensity: float | None, noise: Noise
    ) -> Split:
        """Draw the lots; everything that a comparison can refuse is refused here."""
        require_real("compare", share, 0.0, 0.9, open_low=True)
        many, people = int(share * episodes.people), episodes.people
        require(0 < many < people, "both groups must have a person", many, "choose another share")
        lots = np.zeros(people, dtype=np.bool_)
        lots[shuffled(people, noise)[:many]] = True
        known = request.mapping
        anything = NamedPolicy(
            policy=uniform_policy(known.horizon, len(known.state_names), len(known.action_names)),
            states=known.state_names,
            actions=known.action_names,
        )
        asked = EvaluationRequest(
            mapping=known, policies={LEARNED_NAME: anything}, epsilon=request.epsilon, delta=request.delta, people=many,
            estimator="dm" if min_propensity is None else "snips", min_propensity=min_propensity,
        )  # fmt: skip
        require(asked.certificate(kind_of(noise)).holds, "the claim of the comparison must hold", "another")
        others = episodes.of_people(lots)
        require_propensities(asked, others)
        return cls(
            request=replace(request, people=people - many), episodes=episodes.of_people(~lots), asked=asked,
            others=others,
        )  # fmt: skip

    @property
    def certificates(self) -> tuple[Certificate, Certificate]:
        """Of the two groups, for a release."""
        return self.request.certificate("secure"), self.asked.certificate("secure")

    def learn(self, noise: Noise) -> Learned:
        """Release the counts of one group, and with the policy that they give the values of the other."""
        found = learn_from(self.request, self.episodes, noise)
        asked = replace(self.asked, policies={LEARNED_NAME: found.policy})
        return replace(found, comparison=evaluate_episodes(asked, self.others, noise))
