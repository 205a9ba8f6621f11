"""Runs on counts of a tabular environment: running totals, and batches that a learner plans itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.contract import CountRequest, StageRequest
from tacit.planning.dynamic import backward_induction
from tacit.policies import DeterministicPolicy, Policy, uniform_policy
from tacit.privatizers.batch_none import BatchUnprotected
from tacit.privatizers.batched import BatchShuffle
from tacit.privatizers.contract import CountPrivatizer, count_precision, sampling_of
from tacit.privatizers.local import Local
from tacit.privatizers.none import Unprotected
from tacit.privatizers.registry import make_claim, make_privatizer
from tacit.protocol import Learner
from tacit.runs.kind import Chosen, privacy_request, tabular_environment

__all__ = ["BatchKind", "CountKind"]


class CountKind:
    """Running totals of a tabular environment."""

    def environment(self, chosen: Chosen) -> TabularMDP:
        """Any tabular environment."""
        return tabular_environment(chosen)

    def privatizer(self, chosen: Chosen, environment: TabularMDP) -> CountPrivatizer:
        """Every trust model has one."""
        return make_privatizer(privacy_request(chosen, environment, squares=chosen.row.squares(chosen.options)))

    def learner(self, chosen: Chosen, environment: TabularMDP, privatizer: Any) -> Learner[Any, Any, Any]:
        """Told the precision of the totals."""
        config = chosen.config
        return chosen.row.build(
            CountRequest(
                name=chosen.name,
                shape=privatizer.shape,
                episodes=config.episodes,
                constants=None if config.constants == "none" else config.constants,
                z=config.z,
                users_per_batch=config.users_per_batch,
                noisy=config.trust != "none",
                precision=privatizer.precision() if isinstance(privatizer, Local | Unprotected) else None,
                counts=count_precision(privatizer),
                sampling=sampling_of(privatizer),
                options=chosen.options,
                given=_reference(chosen.name, environment) if chosen.row.reference else None,
            )
        )

    def fitted(self, privatizer: CountPrivatizer, learner: Any) -> CountPrivatizer:
        """Totals need no schedule."""
        return privatizer


class BatchKind:
    """Batches that a learner plans itself."""

    def environment(self, chosen: Chosen) -> TabularMDP:
        """Any tabular environment."""
        return tabular_environment(chosen)

    def privatizer(self, chosen: Chosen, environment: TabularMDP) -> BatchShuffle | BatchUnprotected:
        """Every batch through the shuffler, or exact."""
        config, name = chosen.config, chosen.name
        if config.trust not in ("shuffle", "none"):
            raise NotSupported(f"{name} comes in batches that a shuffler mixes: use trust 'shuffle' (or 'none')")
        if config.batch is not None:
            raise InvalidInput(f"{name} plans the sizes of its batches itself; leave batch out")
        request = privacy_request(chosen, environment)
        if config.trust == "none":
            make_privatizer(request)  # it refuses an epsilon that protects nobody
            return BatchUnprotected(shape=request.shape)
        if config.mechanism not in (None, "binomial"):
            raise InvalidInput(f"a shuffler mixes noise bits: mechanism must be 'binomial', got {config.mechanism!r}")
        if not config.delta:
            raise NotSupported(
                "trust 'shuffle' cannot give pure differential privacy (delta 0); give a delta such as 1e-6, "
                "or choose trust central or local with another learner"
            )
        return BatchShuffle(
            shape=request.shape,
            claim=make_claim(request),
            calibration=config.calibration,
            variant="2024" if chosen.options.get("variant") == "2024" else "2025",
            honest_fraction=request.honest_fraction,
        )

    def learner(self, chosen: Chosen, environment: TabularMDP, privatizer: Any) -> Learner[Any, Any, Any]:
        """Told how noisy batches of any size would be."""
        config = chosen.config
        return chosen.row.build(
            StageRequest(
                name=chosen.name,
                shape=privatizer.shape,
                episodes=config.episodes,
                constants=None if config.constants == "none" else config.constants,
                z=config.z,
                noise=privatizer,
                options=chosen.options,
            )
        )

    def fitted(self, privatizer: Any, learner: Any) -> BatchShuffle | BatchUnprotected:
        """The noise of exactly the planned batches."""
        found: BatchShuffle | BatchUnprotected = privatizer.planned(learner.batches)
        return found


def _reference(name: str, mdp: TabularMDP) -> Policy:
    """Simulation only: the policy of a reference line."""
    _, _, greedy = backward_induction(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)
    known: Mapping[str, Policy] = {
        "uniform": uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions),
        "optimal": DeterministicPolicy(greedy),
    }
    return known[name]
