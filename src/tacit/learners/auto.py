"""`auto`: the learner to use, by rule, from what is public: trust model, claim, sizes and declarations.

    none      ucbvi
    central   bucb; on running totals ucbvi (private-ucb-vi with theory constants) where its batches do not fit
    shuffle   the same
    local     ldp-rts below epsilon 5, ldp-obi above

With a budget of what may be lost against a baseline: bucb, under local trust ldp-rts, whatever the trust model.

Steps share one model (`share_across_steps=true`, `time_homogeneous=true`) exactly where the world is *declared*
stationary: transitions and rewards do not depend on the step. The declaration is made in public, before any data; it is
never looked up in data. A wrong one costs regret, never privacy.

The batches of bucb do not fit where pure differential privacy, printed calibrations or constants with a theorem, a
batch size of one's own or a mechanism of running totals are asked for, or where there are fewer than 40 users. The
one-bit returns of ldp-rts do not fit where widths, a mechanism or a batch size are asked for, or with fewer than 1,000
users. Learners that plan after every user plan rarely (`replan=geometric`) in large
models, under trust none and local; under central trust noise has a say in it (`tacit.runs.estimate`). Policy
gradients are never chosen: they need tuning. The rule is resolved before a run, so results, certificates and commands
name the learner that was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tacit.types import Calibration, Constants, Trust

AUTO: Final = "auto"
"""What stands for the rule wherever a learner is named."""
FEWEST: Final = 40
"""With fewer users the first batch of bucb, a twentieth of them, would have less than two."""
FEWEST_RETURNS: Final = 1_000
"""With fewer users one bit about each return says too little to choose a policy."""
RETURNS_BELOW: Final = 5.0
"""Below this epsilon one bit with all of it says more than a noisy count."""
MIN_PER_NUMBER: Final = 20
"""Below so many people per number of the parameters there is nothing left to exploit after exploration."""
LARGE: Final = 1e10
"""Planning after every user costs K H S² A products; above so many, minutes, it is done rarely."""
BATCHES: Final[dict[Trust, tuple[str | None, ...]]] = {
    "central": (None, "correlated", "batched"),
    "shuffle": (None, "binomial", "mirrored-binomial"),
}
"""The mechanisms that release single batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is public before a run."""

    trust: Trust
    episodes: int
    horizon: int
    states: int
    actions: int
    stationary: bool
    """The public declaration that transitions and rewards do not depend on the step."""
    epsilon: float | None = None
    delta: float | None = None
    constants: Constants | None = None
    calibration: Calibration = "tight"
    mechanism: str | None = None
    batch: int | None = None
    stages: int | None = None
    """How often it plans, where that is fixed beforehand (a study); None: after every user."""
    budget: bool = False
    """Whether there is a budget of what may be lost against a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A learner with its options, and why it was chosen."""

    learner: str
    because: str

    @property
    def words(self) -> str:
        """For people."""
        return f"auto: {self.learner}, because {self.because}"


def choose_learner(here: Situation) -> Choice:
    """The learner to use in a situation.

    >>> river = {"horizon": 6, "states": 4, "actions": 2, "episodes": 20_000}
    >>> choose_learner(Situation(trust="shuffle", epsilon=1.0, delta=1e-6, stationary=True, **river)).learner
    'bucb:share_across_steps=true'
    >>> choose_learner(Situation(trust="local", epsilon=1.0, delta=0.0, stationary=False, **river)).learner
    'ldp-rts'
    >>> choose_learner(Situation(trust="local", epsilon=8.0, delta=0.0, stationary=False, **river)).learner
    'ldp-obi'
    """
    declared = "the world is declared stationary" if here.stationary else "the world is not declared stationary"
    if here.budget:
        return _within_budget(here, declared)
    if here.trust == "none":
        return _planning("ucbvi", here, f"exact counts need no batches without privacy; {declared}")
    if here.trust == "local":
        if _returns_fit(here):
            return Choice(
                learner="ldp-rts", because=f"below epsilon {RETURNS_BELOW:g} one bit about a return says most"
            )
        return _planning("ldp-obi", here, f"devices send noisy counts under local trust; {declared}")
    obstacle = _obstacle(here)
    if obstacle is None:
        because = f"batches carry least noise under {here.trust} trust; {declared}"
        return Choice(learner=_batches(here), because=because)
    if here.constants == "theory":
        return Choice(learner="private-ucb-vi", because=obstacle)
    # Pooled counters move by H in one cell: under noise, running totals keep the steps apart.
    return _planning("ucbvi", replace(here, stationary=False), obstacle)


def _within_budget(here: Situation, declared: str) -> Choice:
    """A learner that can keep to a loss budget; where its releases do not fit, it is refused when it is built."""
    if here.trust == "local":
        return Choice(learner="ldp-rts", because="one bit about returns bounds what is lost under local trust")
    because = f"batches bound what is lost against the baseline; {declared}"
    return Choice(learner=_batches(here), because=because)


def _batches(here: Situation) -> str:
    return "bucb:share_across_steps=true" if here.stationary else "bucb"


def _planning(name: str, here: Situation, because: str) -> Choice:
    """A learner that plans after every user, or rarely where that takes long."""
    options = ["time_homogeneous=true"] if here.stationary else []
    plans = here.episodes if here.stages is None else here.stages
    # Where batches or central noise decide when totals are released, plans cannot wait (`tacit.runs.estimate`).
    free = here.trust in ("none", "local") and here.batch in (None, 1)
    if free and plans * here.horizon * here.states**2 * here.actions > LARGE:
        options.append("replan=geometric")
        because += "; the model is large"
    return Choice(learner=":".join([name, ",".join(options)]) if options else name, because=because)


def _returns_fit(here: Situation) -> bool:
    """Whether one-bit returns can be asked for, and say more than counts."""
    asked = (here.constants, here.mechanism, here.batch)
    own = here.calibration == "tight" and asked == (None, None, None)
    return own and here.episodes >= FEWEST_RETURNS and here.epsilon is not None and here.epsilon < RETURNS_BELOW


def _obstacle(here: Situation) -> str | None:
    """Why the batches of bucb do not fit; None where they do."""
    if here.episodes < FEWEST:
        return f"{here.episodes} users are too few for batches"
    if here.constants == "theory":
        return "the constants of bucb have no theorem"
    if here.calibration == "paper":
        return "no paper prints the batches of bucb"
    if here.trust == "central" and not here.delta:
        return "the noise of batches is never pure (delta 0)"
    if here.batch is not None:
        return "bucb plans the sizes of its batches itself, and a batch size was given"
    if here.mechanism not in BATCHES[here.trust]:
        return f"the mechanism {here.mechanism} answers running totals"
    return None


def choose_linear(trust: Trust, *, features: int, actions: int, episodes: int) -> Choice:
    """The linear learner to use: d features, one parameter for each of so many actions (1: shared), K people.

    >>> choose_linear("shuffle", features=10, actions=4, episodes=20_000).learner
    'lin-ts'
    >>> choose_linear("local", features=10, actions=4, episodes=20_000).learner
    'lin-greedy'
    """
    numbers = features * actions
    if trust == "local":
        return Choice(learner="lin-greedy", because="under local trust exploration by lot finds what one index can say")
    if episodes < MIN_PER_NUMBER * numbers:
        because = f"{episodes:,} people are too few to explore {numbers} numbers: every person follows the best guess"
        return Choice(learner="lin-greedy", because=because)
    because = f"draws explore {numbers} numbers as far as noise and rewards leave them open under {trust} trust"
    return Choice(learner="lin-ts", because=because)
