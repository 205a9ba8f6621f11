"""The world of watching in the package itself: RecSim's "interest evolution" behind the same decisions.

    tacit.live("papers.watching.package:make", horizon=12, rewards=(0.0, 40.0), discretise=...)

needs `pip install '.[recsim]'` and is some five hundred times slower than `world`, so it is what the compiled
sessions and the policies learned from them are compared with. The package draws choices and changes of interest from
NumPy's global generator; it is lent one of its own here, and the global one is as before after every call.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import gymnasium
import numpy as np

from papers.watching.session import CANDIDATES, SLATE
from papers.watching.world import GROUPS, PAGES, spaces
from tacit.arrays import Floats
from tacit.errors import NotSupported

__all__ = ["RecSimEnv", "make"]

FIRST: Final = 10.0


def make() -> RecSimEnv:
    """One person's session in the package."""
    return RecSimEnv()


class RecSimEnv(gymnasium.Env[Any, Any]):
    """One person's session in the package, ten pages at a time."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces()
        self._inner: Any = None
        self._lent: Any = None
        self._now: Any = None
        self._rated = (0.0, 0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """A new person."""
        super().reset(seed=seed)
        if self._inner is None or seed is not None:
            first, second = self.np_random.integers(2**31, size=2).tolist()
            self._inner, self._lent = _made(first), np.random.RandomState(second).get_state()
        with self._coins():
            self._now = self._inner.reset()
        self._rated = (0.0, 0)
        return self._observed(), {}

    def step(self, action: int) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Ten pages, or as many as there are before the person leaves."""
        minutes, over = 0.0, False
        first, last = GROUPS[int(action)]
        with self._coins():
            for _ in range(PAGES):
                topics = np.argmax(np.array(list(self._now["doc"].values())), axis=1)
                worth = self._now["user"][topics] + FIRST * ((topics >= first) & (topics < last))
                shown = np.argsort(-worth, kind="stable")[:SLATE]
                self._now, reward, over, _ = self._inner.step(shown.tolist())
                minutes += float(reward)
                watched = [float(r["quality"]) for r in self._now["response"] if r["click"]]
                self._rated = (self._rated[0] + sum(watched), self._rated[1] + len(watched))
                if over:
                    break
        return self._observed(), minutes, bool(over), False, {}

    def _observed(self) -> Floats:
        return np.array([self._rated[0] / max(self._rated[1], 1)])

    @contextmanager
    def _coins(self) -> Iterator[None]:
        """The global generator of NumPy is ours for a while."""
        theirs = np.random.get_state()  # noqa: NPY002
        np.random.set_state(self._lent)  # noqa: NPY002
        try:
            yield
        finally:
            self._lent = np.random.get_state()  # noqa: NPY002
            np.random.set_state(theirs)  # noqa: NPY002


def _made(seed: int) -> Any:
    """The package's environment with ten candidates and a slate of three, as in the paper on SlateQ."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package imports gym, which is not maintained any more
            from recsim.environments import interest_evolution
    except ImportError as error:
        raise NotSupported(
            "the package itself is needed here: pip install '.[recsim]'; 'gymnasium:tacit/Watching-v0' needs none"
        ) from error
    config = {"num_candidates": CANDIDATES, "slate_size": SLATE, "resample_documents": True, "seed": seed}
    return interest_evolution.create_environment(config)
