"""The options of policy gradient learners, `dp-pg:policy=linear,features=8,clip=2`; `number` stands for numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from tacit.errors import InvalidInput, NotSupported, number_from, require, require_count, require_real

PolicyKind = Literal["softmax", "linear", "gaussian", "neural"]

COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "policy": ("softmax", "linear", "gaussian", "neural"),
    "time_homogeneous": ("false", "true"),
    "features": ("number",),
    "hidden": ("number",),
    "step": ("number",),
    "barrier": ("0", "theory", "number"),
    "clip": ("number",),
    "baseline": ("number", "released"),
}
"""What every policy gradient learner lets its user choose."""
FIELDS: Final = {"time_homogeneous": "staged"}
"""Options whose setting is called otherwise (and says the opposite)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSettings:
    """What the options of a policy gradient learner say; None: chosen by rule."""

    name: str
    policy: PolicyKind = "softmax"
    staged: bool = True
    features: int = 8
    hidden: int = 16
    """The units of a neural policy's hidden layer."""
    step: float | None = None
    barrier: float | None = 0.0
    """None: Theorem 4's."""
    clip: float | None = None
    baseline: float | Literal["released"] | None = None
    damping: float = 0.0
    kl: float | None = None
    """The radius of the trust region; None: by rule."""
    epochs: int = 1
    radius: float = math.inf
    rate: float = 1.0


DEFAULTS: Final[Mapping[str, Mapping[str, float]]] = {
    "dp-npg": {"damping": 0.05},
    "dp-trpo": {"damping": 0.05},
    "dp-ppo": {"epochs": 4, "radius": 0.2},
}


def read_settings(name: str, options: Mapping[str, str]) -> GradientSettings:
    """Read and check the options of a learner, whose names the table has checked.

    >>> read_settings("dp-pg", {"policy": "linear", "clip": "2"}).clip
    2.0
    >>> read_settings("dp-ppo", {}).epochs
    4
    """
    values: dict[str, object] = {"name": name, **DEFAULTS.get(name, {})}
    for option, text in options.items():
        values[FIELDS.get(option, option)] = _value(name, option, text)
    found = GradientSettings(**values)  # type: ignore[arg-type]
    if found.policy == "gaussian" and (name != "dp-pg" or found.barrier != 0.0):
        raise NotSupported("Gaussian policies are offered with dp-pg, without a barrier")
    for option, policy in (("features", "linear"), ("hidden", "neural")):
        if option in options and found.policy != policy:
            raise InvalidInput(f"{option} belong to policy={policy}, not to policy={found.policy}")
    return _neural(found, options) if found.policy == "neural" else found


def _neural(found: GradientSettings, options: Mapping[str, str]) -> GradientSettings:
    """One network serves all steps of an episode."""
    if options.get("time_homogeneous") == "false":
        raise NotSupported("one network serves all steps of an episode: use time_homogeneous=true or policy=linear")
    if found.barrier != 0.0:
        raise NotSupported("the log-barrier is offered for tables and linear policies, not for policy=neural")
    return replace(found, staged=False)


def _value(name: str, option: str, text: str) -> object:
    what = f"{name}:{option}"
    if option in ("features", "hidden", "epochs"):
        return require_count(what, int(text) if text.isdecimal() else text)
    if option in ("policy", "time_homogeneous"):
        known = COMMON[option]
        require(text in known, f"{what} must be one of {', '.join(known)}", given=text)
        return text if option == "policy" else text == "false"
    if (option, text) == ("barrier", "theory"):
        return None
    if (option, text) == ("baseline", "released"):
        return text
    limits = {"rate": (0.0, 1.0, True), "barrier": (0.0, math.inf, False), "baseline": (-math.inf, math.inf, False)}
    low, high, open_low = limits.get(option, (0.0, math.inf, True))
    return require_real(what, number_from(text), low=low, high=high, open_low=open_low)
