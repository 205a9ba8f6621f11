"""Checks shared by the models of this room: every refusal names the guilty row as the user would write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInput, require

__all__ = ["check_probabilities", "check_rewards", "floats", "frozen", "names_of"]

# A row of probabilities may miss 1 by what adding up a few thousand rounded floats can cost, and by no more.
ROW_SUM_TOLERANCE = 1e-9


def floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as an array of float64, or a clear refusal."""
    try:
        array = np.asarray(values)
        numbers = array if np.iscomplexobj(array) else array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be a rectangular array of real numbers: {error}") from error
    require(not np.iscomplexobj(numbers), f"{name} must be a rectangular array of real numbers", given="complex ones")
    return numbers


def check_probabilities(name: str, rows: NDArray[np.float64], axes: str) -> None:
    """Every row is a distribution: finite, not negative, sums to 1."""
    bad = np.argwhere(~(np.isfinite(rows) & (rows >= 0.0)))
    if bad.size:
        index = tuple(bad[0])
        raise InvalidInput(
            f"{_cell(name, axes, rows.shape, index[:-1])} must hold finite probabilities that are not negative, "
            f"has {rows[index]!s} at next state {index[-1]}"
            if axes
            else f"{name}[s={index[0]}] must be a finite probability that is not negative, is {rows[index]!s}"
        )
    sums = rows.sum(axis=-1)
    off = np.argwhere(np.abs(np.atleast_1d(sums) - 1.0) > ROW_SUM_TOLERANCE)
    if off.size:
        index = tuple(off[0]) if axes else ()
        raise InvalidInput(f"{_cell(name, axes, rows.shape, index)} must sum to 1, sums to {float(sums[index]):.10g}")


def check_rewards(stage_r: NDArray[np.float64]) -> None:
    """Every mean reward lies in [0, 1]."""
    bad = np.argwhere(~((stage_r >= 0.0) & (stage_r <= 1.0)))
    if bad.size:
        index = tuple(bad[0])
        raise InvalidInput(
            f"{_cell('r', 'hsa', stage_r.shape, index)} must lie in [0, 1], is {stage_r[index]!s}; "
            "rescale the rewards and keep their unit in reward_scale and reward_offset"
        )


def frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """A contiguous copy that nobody else can write to; adding 0 turns -0.0 into 0.0."""
    copy = np.array(array, dtype=np.float64, order="C", copy=True)
    copy += 0.0
    copy.flags.writeable = False
    return copy


def names_of(label: str, names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """The given names, checked, or the numbers from 0."""
    if names is None:
        return tuple(str(i) for i in range(count))
    listed = tuple(str(name) for name in names)
    require(
        len(listed) == count and len(set(listed)) == count, f"{label} must be {count} different names", given=listed
    )
    return listed


def _cell(name: str, axes: str, shape: tuple[int, ...], index: tuple[Any, ...]) -> str:
    """Name an entry as the user would write it; the step is left out where there is only one stage."""
    parts = [f"{axis}={i}" for axis, i in zip(axes, index, strict=True) if not (axis == "h" and shape[0] == 1)]
    return f"{name}[{', '.join(parts)}]" if parts else name
