"""The least noise that is private: a root search that always ends on the private side.

`excess(noise)` is ln(δ(noise)/δ), the logarithm of how far the accountant's δ exceeds the allowed one. It decreases in
the noise; the searches return a noise at which it was evaluated and found to be at most zero, so a calibration is
private by construction, whatever the rounding of the search.

Answers of long searches, remembered on disk: a hint for the next process, never a reason to believe it.

An answer is known by the question, the accountant's own sources, numpy, scipy and the processor's features, so another
version asks again, and what is found is what would be computed. Whoever reads one has to ask the accountant whether it
is private. The folder is `answers` in the cache directory of tacit (`TACIT_CACHE_DIR`, or `tacit` in the user's cache
directory); if it cannot be read or written, everything is computed.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import scipy

from tacit.errors import require

FIRST_STEP = 0.05
MAX_GROWTH = 1e9


def least_real(excess: Callable[[float], float], guess: float, *, tolerance: float = 1e-6) -> float:
    """The least x > 0 with excess(x) ≤ 0, to a relative tolerance, rounded up; `guess` must be positive.

    >>> 2.0 <= least_real(lambda x: 4.0 - x * x, 1.0) <= 2.0 * (1 + 1e-6)
    True
    """
    return _least(excess, guess, lambda x: (x * (1.0 - 0.4 * tolerance), x * (1.0 + 0.4 * tolerance)), tolerance, 0.0)


def least_integer(excess: Callable[[int], float], guess: float) -> int:
    """The least whole number n ≥ 1 with excess(n) ≤ 0.

    >>> least_integer(lambda n: 1000.0 - n * n, 100.0)
    32
    """
    return int(_least(lambda n: excess(int(n)), guess, lambda x: (math.ceil(x) - 1.0, math.ceil(x)), 0.0, 1.0))


def _least(
    excess: Callable[[float], float],
    guess: float,
    around: Callable[[float], tuple[float, float]],
    relative: float,
    absolute: float,
) -> float:
    """Bracket by growing steps, then secant steps in ln x that test both sides of the estimated root."""
    low, value_low = 0.0, math.inf
    high = max(around(guess)[1], absolute)
    value_high, step = excess(high), FIRST_STEP
    while value_high > 0.0:
        require(high < MAX_GROWTH * max(guess, absolute), "some amount of noise must reach the target", "none found")
        ahead = _growth(low, value_low, high, value_high, step)
        low, value_low = high, value_high
        high, step = max(around(high * ahead)[1], high + absolute), 2.0 * step
        value_high = excess(high)
    upper, value_upper, step = 0.0, math.inf, FIRST_STEP
    while low == 0.0:
        lower = around(high / _growth(upper, value_upper, high, value_high, step))[0]
        if lower <= 0.0:
            break
        value, step = excess(lower), 2.0 * step
        if value > 0.0:
            low, value_low = lower, value
        else:
            upper, value_upper, high, value_high = high, value_high, lower, value
    attempt = 0
    while high - low > max(absolute, relative * high) and low < 0.5 * (low + high) < high:
        # Follow the secant; bisect every fourth time, and where there is no slope to follow.
        attempt += 1
        finite = math.isfinite(value_low) and math.isfinite(value_high)
        root = low * (high / low) ** (value_low / (value_low - value_high)) if finite and attempt % 4 else 0.0
        candidates = around(root) if root else around(0.5 * (low + high))[1:]
        for x in candidates:
            if low < x < high:
                value = excess(x)
                low, value_low, high, value_high = (
                    (x, value, high, value_high) if value > 0.0 else (low, value_low, x, value)
                )
    return high


def _growth(x: float, value_x: float, y: float, value_y: float, step: float) -> float:
    """The factor from y to a little beyond the root that the secant of (x, y) promises; 1 + step without a secant."""
    if not (math.isfinite(value_x) and math.isfinite(value_y)) or value_x == value_y or x == y:
        return 1.0 + step
    reach = abs(value_y / (value_x - value_y) * math.log(y / x))
    return math.exp(min(1.1 * reach + 1e-9, 1.0))


def recall(question: str) -> float | None:
    """What was answered to this question, a positive number; None if that is not known.

    >>> recall("what nobody asked") is None
    True
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        answer = float.fromhex(_place(question).read_text("ascii"))
        return answer if 0.0 < answer < float("inf") else None
    return None


def remember(question: str, answer: float) -> None:
    """Keep an answer for other processes."""
    with contextlib.suppress(OSError, RuntimeError):
        place = _place(question)
        place.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=place.parent, delete=False, encoding="ascii") as file:
            file.write(answer.hex())
        os.replace(file.name, place)


def _place(question: str) -> Path:
    shared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tacit"
    name = hashlib.sha256(f"{_stamp()} {question}".encode()).hexdigest()[:40]
    return Path(os.environ.get("TACIT_CACHE_DIR") or shared) / "answers" / name


@lru_cache(maxsize=1)
def _stamp() -> str:
    """What an answer depends on besides the question."""
    stamp = hashlib.sha256(f"{np.__version__} {scipy.__version__} {platform.machine()} {sys.version}".encode())
    core = sys.modules.get("numpy._core._multiarray_umath")
    stamp.update(repr(sorted(getattr(core, "__cpu_features__", {}).items())).encode())
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        stamp.update(source.read_bytes())
    return stamp.hexdigest()
