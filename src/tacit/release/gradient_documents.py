"""Fields of a gradient as JSON: what it is made of, and the public sizes behind it, exactly."""

from __future__ import annotations

import math
from typing import Any, Final

from tacit.errors import require, require_count
from tacit.release.documents import float_from_plain, fraction_to_plain, require_entries
from tacit.release.gradient_noise import GradientSpec
from tacit.released.gradients import GradientShape

__all__ = ["gradient_shape_from_plain", "gradient_shape_to_plain", "spec_from_plain", "spec_to_plain"]

SPEC: Final = ("clip", "tabular", "baseline", "epochs", "rate", "surrogate")
SHAPE: Final = ("horizon", "num_states", "num_actions", "staged", "dimension")


def spec_to_plain(spec: GradientSpec) -> dict[str, Any]:
    """What a gradient is made of; rewards lie in [0, 1], and what is unlimited is null.

    >>> spec_to_plain(GradientSpec(clip=0.5, tabular=True))["clip"]
    [1, 2]
    """
    plain: dict[str, Any] = {"tabular": spec.tabular, "epochs": spec.epochs}
    for name in ("clip", "baseline", "rate", "surrogate"):
        value = getattr(spec, name)
        plain[name] = None if value is None or value == math.inf else fraction_to_plain(value)
    return plain


def gradient_shape_to_plain(shape: GradientShape) -> dict[str, Any]:
    """The public sizes behind a gradient."""
    return {name: getattr(shape, name) for name in SHAPE}


def spec_from_plain(plain: object) -> GradientSpec:
    """The description that `spec_to_plain` wrote."""
    given = require_entries("the description of a gradient", plain, SPEC)
    require(isinstance(given["tabular"], bool), "tabular must be true or false", given["tabular"])
    clip, baseline, surrogate = (
        None if given[name] is None else float_from_plain(name, given[name])
        for name in ("clip", "baseline", "surrogate")
    )
    return GradientSpec(
        clip=clip,
        tabular=given["tabular"],
        baseline=baseline,
        epochs=require_count("epochs", given["epochs"]),
        rate=float_from_plain("rate", given["rate"]),
        surrogate=math.inf if surrogate is None else surrogate,
    )


def gradient_shape_from_plain(plain: object) -> GradientShape:
    """The sizes that `gradient_shape_to_plain` wrote."""
    given = require_entries("the shape of a channel of gradients", plain, SHAPE)
    require(isinstance(given["staged"], bool), "staged must be true or false", given["staged"])
    sizes = {name: require_count(name, given[name]) for name in SHAPE if name != "staged"}
    return GradientShape(**sizes, staged=given["staged"])
