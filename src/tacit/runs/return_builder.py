"""Runs on one-bit returns: people of a tabular environment who follow public policies and say one bit each."""

from __future__ import annotations

from typing import Any

from tacit.errors import InvalidInput
from tacit.learners.ldp_rts import ReturnRequest
from tacit.protocol import Learner, Privatizer
from tacit.release.table import make_privatizer
from tacit.released.returns import ReturnQuery
from tacit.runs.builder import Countable, RunRequest, count_shape, privacy_request, tabular_environment


class ReturnBuilder:
    """One bit about everybody's return."""

    def environment(self, chosen: RunRequest) -> Countable:
        """Any tabular or live environment."""
        return tabular_environment(chosen)

    def privatizer(self, chosen: RunRequest, environment: Countable) -> Privatizer[Any, Any, Any]:
        """Of bits, whoever is in which group."""
        if chosen.config.batch is not None:
            raise InvalidInput(f"{chosen.name} plans the sizes of its batches itself; remove batch")
        return make_privatizer(privacy_request(chosen, ReturnQuery, count_shape(chosen, environment)))

    def learner(self, chosen: RunRequest, environment: Countable, privatizer: Any) -> Learner[Any, Any, Any]:
        """Told the noise of one bit."""
        config = chosen.config
        return chosen.row.build(
            ReturnRequest(
                name=chosen.name,
                shape=privatizer.shape,
                episodes=config.episodes,
                constants=config.constants,
                z=config.z,
                noise=privatizer.bit_noise(),
                options=chosen.options,
                baseline=chosen.baseline,
                budget=config.budget,
            )
        )

    def fitted(self, privatizer: Any, learner: Any) -> Privatizer[Any, Any, Any]:
        """Everybody sends one bit, whatever the schedule."""
        found: Privatizer[Any, Any, Any] = privatizer
        return found
