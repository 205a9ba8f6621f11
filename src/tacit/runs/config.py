"""`RunConfig`: everything that decides the rows of a run, frozen, hashable and checked before anything is written.

Its fields are the options of `tacit run` and, spelled out for editors and type checkers, of `tacit.run`. Where a run is
made and how fast (workers, directory, progress) is not part of it: it cannot change a row.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from tacit.errors import (
    LARGEST_SEED,
    MAX_EPISODES,
    MAX_FRESH_USERS,
    MAX_REPORTS,
    InvalidInput,
    UnknownName,
    require,
    require_count,
    require_epsilon,
    require_real,
)
from tacit.renamed import LEARNERS, stored, today
from tacit.types import Calibration, Constants, Estimator, Trust

if TYPE_CHECKING:  # models that are handed over cost their import only where there is one
    from tacit.environments.layered import LayeredMDP, LossTable
    from tacit.environments.live import LiveWorld
    from tacit.environments.registry import Environment
    from tacit.environments.tabular import TabularMDP
    from tacit.planning.loss_budget import LossBudget
    from tacit.runs.warm_start import WarmStart

MAX_SEEDS: Final = 1_000_000
"""Each has rows, a file and a policy of its own."""
MAX_CHECKPOINTS: Final = 100_000

BUDGETS: Final = ("loss_budget", "stage_loss_budget")
OMITTED_IF_EMPTY: Final = (
    *("adversary", "estimator", "honest_fraction", "public_losses", "baseline", "support", "sees"),
    *(*BUDGETS, "value_users", "start", "because", "by_size"),
)
"""Entries that are not written where they say nothing."""

CALIBRATIONS: Final = tuple(one for one in get_args(Calibration) if one != "none")
"""What a run may ask for."""

DEFAULT_BATCH: Final = 1000
"""How many users the shuffler mixes when nobody says otherwise."""

Seeds = int | Iterable[int]
"""A number of seeds (0, 1, ...), or the seeds themselves."""


def option(words: str, default: Any = MISSING, *, text: type | None = None) -> Any:
    """An option of a run: its meaning, its default, and its type on a command line where that differs."""
    return field(default=default, metadata={"help": words, "text": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One learner in one environment under one trust model, for some seeds: frozen, hashable, validated.

    `learner="auto"`, the default, is resolved when the configuration is made: `learner` names the choice and `because`
    says why.

    Parameters
    ----------
    OPTIONS
    because, by_size, stated
        Why the learner was chosen, what follows from sizes, and what a file says of its world; filled in, not given.

    Raises
    ------
    InvalidInput
        If an option breaks a stated rule; `UnknownName` if a name is not registered.

    Examples
    --------
    >>> config = RunConfig(environment="riverswim", learner="ucbvi:bonus=bernstein", episodes=100, seeds=(0, 1))
    >>> config.command()
    'tacit run --environment riverswim --learner ucbvi:bonus=bernstein --episodes 100 --seeds 2'
    >>> RunConfig.from_dict(config.to_dict()) == config
    True
    >>> chosen = RunConfig(environment="riverswim", episodes=1000, seeds=(0,), trust="shuffle", epsilon=1.0, delta=1e-6)
    >>> chosen.learner
    'bucb:share_across_steps=true'
    """

    environment: str | TabularMDP | LayeredMDP | LiveWorld = option(
        "Name with options, for instance riverswim:states=4,horizon=6, or gymnasium:Blackjack-v1 for a world without "
        "a table; in Python also a TabularMDP or tacit.live(...).",
        text=str,
    )
    learner: str = option(
        "Name with options, such as ucbvi:time_homogeneous=true; uniform and optimal are reference lines; "
        "auto chooses by trust model, claim, size and whether the environment is declared stationary.",
        "auto",
    )
    episodes: int = option("The number of users.")
    seeds: tuple[int, ...] = option("How often the whole is repeated: a number of seeds, or the seeds.", text=int)
    constants: Constants | None = option(
        "theory or practical widths (ldp-obi: also printed; bucb and lin-ucb: also valid); practical by default.", None
    )
    z: float | None = option("The parameter of the practical constants.", None)
    trust: Trust = option("none (no privacy), central, shuffle or local.", "none")
    epsilon: float | None = option("The claim's epsilon.", None)
    delta: float | None = option("The claim's delta; 0 is pure differential privacy.", None)
    calibration: Calibration = option("tight, or paper for the constants as printed.", "tight")
    mechanism: str | None = option(
        "See 'tacit list mechanisms'; the best one by default. Printed noise: gaussian:c=statement, bounded:C=2.", None
    )
    batch: int | None = option("Users per batch; one by one, or 1000 with trust shuffle, by default.", None)
    checkpoints: int = option("How many episode numbers, evenly spaced on a log scale, are recorded.", 100)
    allow_large_delta: bool = option("Accept a delta above 1e-3.", False)
    adversary: str | LossTable | None = option(
        "Who chooses the losses, for learners such as uc-o-reps: iid, switching:segments=20, ...; in Python also an "
        "array [episodes, states, actions].",
        None,
        text=str,
    )
    estimator: Estimator | None = option("How uob-lbps estimates losses: centred (the default) or as-written.", None)
    honest_fraction: float | None = option(
        "Trust shuffle: the share of a batch's devices whose noise is counted on; 1, so all of them, by default.", None
    )
    public_losses: bool = option("Declare full-information loss tables to be nobody's data.", False)
    reports_per_person: int = option(
        "How many users one person may be, at most one per batch: the claim protects all of them together.", 1
    )
    baseline: str | tuple[Any, ...] | None = option(
        "What people do already, to measure against: uniform, 'always ACTION', a named policy of the environment, "
        "policy.json or package.module:function; in Python also a table.",
        None,
        text=str,
    )
    loss_budget: float | None = option(
        "How much mean return the run may lose against the baseline, per user, as a share of the largest return; "
        "learners then explore conservatively and keep to it with probability 95%.",
        None,
    )
    stage_loss_budget: float | None = option(
        "The same for every single stage; five times the loss_budget by default.", None
    )
    support: str | None = option(
        "declared: use what the environment declares in public about what can happen; counters that cannot move are "
        "not released.",
        None,
    )
    sees: str | tuple[int, ...] | None = option(
        "What the policy may see of a state: features that the environment declares by name; in Python also the number "
        "of the feature of each state. Learner and release know features only.",
        None,
        text=str,
    )
    start: str | WarmStart | None = option(
        "Begin with what was released of a log: the learned.json of tacit learn; its cost is part of the claim.",
        None,
        text=str,
    )
    value_users: int | None = option(
        "Fresh users who follow the final policy after the run (and as many the baseline, if there is one): they "
        "certify its value, and whether it is better than the baseline, under the same claim.",
        None,
    )
    because: str | None = field(default=None, compare=False)
    """Why `auto` chose the learner; None where it was named. Not an option, and it decides no row."""
    by_size: str | None = field(default=None, compare=False)
    """What the size of the run decided, and why (`tacit.runs.estimate`); None: nothing. No option either."""

    stated: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """Of a configuration that a file holds: what the file states about its live world. No code that it names is run."""

    def __post_init__(self) -> None:
        given: object = self.environment
        if not isinstance(given, str):
            _require_model(given)
        foe: object = self.adversary
        if foe is not None and not isinstance(foe, str):
            self._keep("adversary", _losses(foe))
        if self.baseline is not None:
            from tacit.environments.baselines import baseline_table

            self._keep("baseline", baseline_table(self.baseline))
        if self.start is not None:
            from tacit.runs.warm_start import WarmStart

            self._keep("start", WarmStart.of(self.start))
        _require_budget(self)
        _require_choice("estimator", self.estimator, get_args(Estimator))
        require(isinstance(self.learner, str), "learner must be a name like 'psrl:rewards=beta'", self.learner)
        self._keep("learner", today(self.learner, warn=True))
        self._keep("episodes", require_count("episodes", self.episodes, most=MAX_EPISODES))
        self._keep("checkpoints", require_count("checkpoints", self.checkpoints, 2, MAX_CHECKPOINTS))
        self._keep("seeds", as_seeds(tuple(self.seeds)))
        require(len(self.seeds) > 0, "there must be at least one seed", self.seeds)
        require(len(set(self.seeds)) == len(self.seeds), "every seed must be given once", self.seeds)
        _require_choice("constants", self.constants, get_args(Constants))
        _require_choice("trust model", str(self.trust), get_args(Trust))
        _require_choice("support", self.support, ("declared",))
        if self.sees is not None and not isinstance(self.sees, str):
            require(isinstance(self.sees, Iterable), "sees must be names or numbers of features", self.sees)
            self._keep("sees", tuple(require_count("feature", feature, least=0) for feature in self.sees))
        named = self.mechanism is None or isinstance(self.mechanism, str)
        require(named, "mechanism must be a name; 'tacit list mechanisms' has them", self.mechanism)
        for name in ("allow_large_delta", "public_losses"):
            require(isinstance(getattr(self, name), bool), f"{name} must be True or False", getattr(self, name))
        _require_choice("calibration", self.calibration, CALIBRATIONS)
        if self.z is not None:
            self._keep("z", require_real("z", self.z, low=0.0))
        if self.epsilon is not None:
            self._keep("epsilon", require_epsilon(self.epsilon))
        if self.delta is not None:
            self._keep("delta", require_real("delta", self.delta, low=0.0, high=1.0))
        if self.batch is not None:
            self._keep("batch", require_count("batch", self.batch))
        if self.value_users is not None:
            self._keep("value_users", require_count("value_users", self.value_users, most=MAX_FRESH_USERS))
        if self.honest_fraction is not None:
            shuffled = self.trust == "shuffle"
            require(
                shuffled, "an honest_fraction belongs to trust 'shuffle', whose noise all devices share", self.trust
            )
            share = require_real("honest_fraction", self.honest_fraction, low=0.0, high=1.0, open_low=True)
            self._keep("honest_fraction", share)

        reports = require_count("reports_per_person", self.reports_per_person, most=MAX_REPORTS)
        self._keep("reports_per_person", reports)
        protected = reports == 1 or self.trust != "none" or self.epsilon is not None  # which asks for a trust model
        require(protected, "reports_per_person requires a trust model other than 'none'", reports)
        require(
            self.because is None or isinstance(self.because, str), "because must be text", type(self.because).__name__
        )
        require(
            self.by_size is None or isinstance(self.by_size, str), "by_size must be text", type(self.by_size).__name__
        )
        if self.learner.partition(":")[0].strip() == "auto":
            from tacit.runs.auto import chosen_for

            choice = chosen_for(self)
            self._keep("learner", choice.learner)
            self._keep("because", choice.because)

    def _keep(self, name: str, value: object) -> None:
        """Store a checked value as a plain Python number, so that equal configurations are written alike."""
        object.__setattr__(self, name, value)

    @property
    def environment_name(self) -> str:
        """The specification, or the name of a model that was handed over; and its adversary, if there is one."""
        return self.world_name if self.adversary is None else f"{self.world_name} ({self.adversary_name} losses)"

    @property
    def world_name(self) -> str:
        """The same without the adversary."""
        return self.environment if isinstance(self.environment, str) else self.environment.name or "custom"

    def world(self) -> Environment | LayeredMDP:
        """The environment; where a file names it and only its code could make it, as the file states it."""
        from tacit.environments.registry import make_environment

        if not isinstance(self.environment, str):
            return self.environment
        return make_environment(self.environment, self.stated)

    @property
    def live(self) -> LiveWorld | None:
        """The live world that was handed over, if one was."""
        from tacit.environments.live import LiveWorld

        return self.environment if isinstance(self.environment, LiveWorld) else None

    @property
    def adversary_name(self) -> str | None:
        """The specification, or "given" for a table that was handed over."""
        return self.adversary if self.adversary is None or isinstance(self.adversary, str) else "given"

    @property
    def choice(self) -> str | None:
        """What `auto` chose, and why; None where the learner was named."""
        return None if self.because is None else f"auto: {self.learner}, because {self.because}"

    @property
    def budget(self) -> LossBudget | None:
        """How much may be lost against the baseline; None: as much as exploration costs."""
        if self.loss_budget is None:
            return None
        from tacit.planning.loss_budget import LossBudget

        return LossBudget(total=self.loss_budget, stage=self.stage_loss_budget)

    @property
    def choices(self) -> tuple[str, ...]:
        """What was chosen for whoever did not choose, and why: a line of `auto`, a line of the size."""
        return tuple(line for line in (self.choice, self.by_size) if line is not None)

    @property
    def users_per_batch(self) -> int:
        """How many users report together."""
        if self.batch is not None:
            return self.batch
        return DEFAULT_BATCH if self.trust == "shuffle" else 1

    @property
    def label(self) -> str:
        """A short name for tables and figures: whatever was chosen, in a few words."""
        words = [self.learner]
        if self.constants not in (None, "none"):
            words.append(str(self.constants) if self.z is None else f"{self.constants} z={self.z:g}")
        if self.trust != "none":
            words.append(self.trust if self.mechanism is None else f"{self.trust} {self.mechanism}")
            words += [f"ε={self.epsilon:g}"] if self.epsilon is not None else []
            words += ["paper"] if self.calibration == "paper" else []
        words += [self.estimator] if self.estimator is not None else []
        words += ["public losses"] if self.public_losses else []
        words += [] if self.honest_fraction is None else [f"honest {self.honest_fraction:g}"]
        words += [] if self.loss_budget is None else [f"loss budget {self.loss_budget:g}"]
        words += [] if self.support is None else [f"{self.support} support"]
        words += [] if self.sees is None else [f"policy over {self.sees if isinstance(self.sees, str) else 'features'}"]
        words += [] if self.start is None else ["started with a log"]
        words += [] if self.reports_per_person == 1 else [f"{self.reports_per_person} reports per person"]
        return ", ".join(words)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; a model that was handed over is known by its fingerprint."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        del plain["stated"]
        plain["seeds"] = list(self.seeds)
        plain["learner"] = stored(self.learner)
        for name in OMITTED_IF_EMPTY:
            # Runs that know nothing of these are written as before there were any.
            if not plain[name]:
                plain.pop(name)
        if self.reports_per_person == 1:
            plain.pop("reports_per_person")
        if self.adversary is not None and not isinstance(self.adversary, str):
            plain["adversary"] = {"fingerprint": self.adversary.fingerprint()}
        if self.baseline is not None and not isinstance(self.baseline, str):
            plain["baseline"] = _lists(self.baseline)
        if self.start is not None:
            plain["start"] = cast("WarmStart", self.start).to_dict()
        if isinstance(self.sees, tuple):
            plain["sees"] = list(self.sees)
        if self.live is not None:
            plain["environment"] = {"live": self.live.to_dict()}
        elif not isinstance(self.environment, str):
            plain["environment"] = {"name": self.world_name, "fingerprint": self.environment.fingerprint()}
            declared = getattr(self.environment, "support", None)
            if self.support is not None and declared is not None:
                plain["environment"]["support"] = declared.fingerprint()
        return plain

    @classmethod
    def from_dict(
        cls, plain: Mapping[str, Any], *, model: TabularMDP | None = None, stated: Mapping[str, Any] | None = None
    ) -> RunConfig:
        """The configuration that `to_dict` wrote; `model` is the one that was handed over, if one was.

        Readers of files of others hand over what the file states about its world, or {}: then no code that the
        configuration names is run.
        """
        known = [field.name for field in fields(cls) if field.name != "stated"]
        for key in plain:
            if key not in known:
                raise UnknownName("entry of a run", key, known)
        for key in ("environment", "learner", "episodes", "seeds"):
            require(key in plain, f"a run must say its {key}", sorted(plain))
        values = dict(plain)
        values["seeds"] = as_seeds(values["seeds"])
        values["learner"] = today(values["learner"]) if isinstance(values["learner"], str) else values["learner"]
        if isinstance(values["environment"], Mapping) and "live" in values["environment"]:
            from tacit.environments.live import LiveWorld

            values["environment"] = LiveWorld.from_dict(values["environment"]["live"])
        elif isinstance(values["environment"], Mapping):
            fingerprint = values["environment"].get("fingerprint")
            if model is None or model.fingerprint() != fingerprint:
                raise InvalidInput(f"this run needs the environment with fingerprint {fingerprint}; hand it over")
            told, declared = values["environment"].get("support"), model.support
            if told is not None and (declared is None or declared.fingerprint() != told):
                raise InvalidInput(f"this run needs the declared support with fingerprint {told}; hand it over")
            values["environment"] = model
        return cls(**values, stated=stated)

    def with_seeds(self, seeds: Seeds) -> RunConfig:
        """The same run with other seeds."""
        return replace(self, seeds=as_seeds(seeds))

    def command(self) -> str:
        """The command line that makes these rows (or the Python call, where only Python can)."""
        handed = not isinstance(self.environment, str) or not isinstance(self.adversary, str | None)
        handed = handed or not isinstance(self.baseline, str | None) or not isinstance(self.sees, str | None)
        handed = handed or self.start is not None
        if handed or self.seeds != _range_of(self.seeds):
            return self.call()
        words = ["tacit", "run", "--environment", str(self.environment), "--learner", self.learner]
        words += ["--episodes", str(self.episodes), "--seeds", str(len(self.seeds))]
        if self.seeds[0] != 0:
            words += ["--first-seed", str(self.seeds[0])]
        for name, value in self._chosen():
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        return shlex.join(words)

    def call(self) -> str:
        """The Python call that makes these rows."""
        named = isinstance(self.environment, str)
        values = [("environment", repr(self.environment) if named else self.world_name)]
        values += [("learner", repr(self.learner)), ("episodes", repr(self.episodes)), ("seeds", repr([*self.seeds]))]
        values += [(name, repr(value)) for name, value in self._chosen()]
        return f"tacit.run({', '.join(f'{name}={value}' for name, value in values)})"

    def _chosen(self) -> list[tuple[str, Any]]:
        """The options that differ from their defaults."""
        options = [item for item in run_options() if item.name not in ("environment", "learner", "episodes", "seeds")]
        return [(f.name, getattr(self, f.name)) for f in options if getattr(self, f.name) != f.default]


def as_seeds(seeds: object) -> tuple[int, ...]:
    """A number of seeds counts from zero; a list is taken as it is.

    >>> as_seeds(3), as_seeds([7, 9])
    ((0, 1, 2), (7, 9))
    """
    if isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes | Mapping):
        return tuple(require_count("seed", seed, 0, LARGEST_SEED) for seed in seeds)
    return tuple(range(require_count("seeds", seeds, 1, MAX_SEEDS)))


def parse_learner(spec: str) -> tuple[str, dict[str, str]]:
    """Read a name and its options, which may be spelled as in version 0.8.

    >>> parse_learner("ucbvi:bonus=bernstein,staged=false")
    ('ucbvi', {'bonus': 'bernstein', 'time_homogeneous': 'true'})
    """
    name, colon, listed = (part.strip() for part in today(spec).partition(":"))
    if colon and not listed:
        raise InvalidInput(f"'{spec}' must name an option after the colon; leave the colon out for the defaults")
    options: dict[str, str] = {}
    for item in listed.split(",") if listed else []:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise InvalidInput(f"an option of {name} must be written name=value, got '{item.strip()}'")
        if key in options:
            raise InvalidInput(f"each option of {name} must be given once, got {key} twice")
        options[key] = value
    return LEARNERS.get(name, name), options


def _range_of(seeds: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(seeds[0], seeds[0] + len(seeds)))


def _require_choice(name: str, value: object, known: Iterable[str]) -> None:
    known = list(known)
    if value is not None and value not in known:
        raise UnknownName(name, str(value), known)


def _require_model(given: object) -> None:
    from tacit.environments.layered import LayeredMDP
    from tacit.environments.live import LiveWorld
    from tacit.environments.tabular import TabularMDP

    if not isinstance(given, TabularMDP | LayeredMDP | LiveWorld):
        kind = type(given).__name__
        raise InvalidInput(
            "environment must be a name like 'riverswim:states=4', a TabularMDP or a live world (tacit.live), "
            f"got {kind}"
        )


def _require_budget(config: RunConfig) -> None:
    """Check the loss budget; it is kept as plain numbers, and only where there is a baseline to lose against."""
    for name in BUDGETS:
        given = getattr(config, name)
        if given is not None:
            config._keep(name, require_real(name, given, low=0.0, high=1.0, open_low=True))
    if config.stage_loss_budget is not None and config.loss_budget is None:
        raise InvalidInput("a stage_loss_budget needs a loss_budget for the whole run; give both")
    if config.loss_budget is not None and config.baseline is None:
        raise InvalidInput("a loss_budget needs a baseline to lose against, got none; name what people do already")


def _lists(value: Any) -> Any:
    return [_lists(part) for part in value] if isinstance(value, tuple) else value


def _losses(given: object) -> LossTable:
    from tacit.environments.layered import LossTable

    return given if isinstance(given, LossTable) else LossTable(cast("Any", given))


def run_options() -> list[Field[Any]]:
    """The fields of `RunConfig` that are options: all but what it notes for itself."""
    return [item for item in fields(RunConfig) if "help" in item.metadata]


def option_lines() -> str:
    """The options of a run as parameters of a numpydoc docstring, at four spaces."""
    return "\n".join(f"    {item.name}\n        {item.metadata['help']}" for item in run_options())


RunConfig.__doc__ = (RunConfig.__doc__ or "").replace("    OPTIONS", option_lines())
