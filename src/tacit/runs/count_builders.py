"""Runs on counts of a tabular environment, totals or batches of a learner's own, and on one bit about each return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import NotSupported
from tacit.learners.contract import CountRequest, StageRequest, own_widths
from tacit.learners.ldp_rts import ReturnRequest
from tacit.planning.dynamic import solve
from tacit.policies import DeterministicPolicy, Policy, uniform_policy
from tacit.protocol import Learner, Privatizer, Totals
from tacit.release.counts_contract import count_precision, sampling_of, sum_precision
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery
from tacit.released.precision import printed_radii
from tacit.released.returns import ReturnQuery
from tacit.runs.builder import Countable, RunBuilder, RunRequest, count_shape, privacy_request
from tacit.runs.warm_start import after_log, log_counts


class CountBuilder(RunBuilder):
    """Running totals of a tabular environment."""

    def privatizer(self, chosen: RunRequest, environment: Countable) -> Privatizer[Any, Any, Any]:
        """Of the totals that the learner needs."""
        request = privacy_request(chosen, Totals, count_shape(chosen, environment))
        return make_privatizer(replace(request, squares=chosen.row.squares(chosen.options)))

    def learner(self, chosen: RunRequest, environment: Countable, privatizer: Any) -> Learner[Any, Any, Any]:
        """Told the precision of the totals."""
        config = chosen.config
        return chosen.row.build(
            CountRequest(
                name=chosen.name,
                shape=privatizer.shape,
                episodes=config.episodes,
                constants=own_widths(config.constants),
                z=config.z,
                users_per_batch=config.users_per_batch,
                noisy=config.trust != "none",
                precision=sum_precision(privatizer),
                counts=count_precision(privatizer),
                scheduled=getattr(privatizer, "ends", None) is not None,
                sampling=sampling_of(privatizer),
                printed=printed_radii(privatizer) if config.constants == "printed" else None,
                options=chosen.options,
                given=_reference(chosen.name, environment) if chosen.row.reference else None,
            )
        )


class BatchBuilder(RunBuilder):
    """Batches that a learner plans itself."""

    def privatizer(self, chosen: RunRequest, environment: Countable) -> Privatizer[Any, Any, Any]:
        """Of batches of any size, until the learner has planned them."""
        request = privacy_request(chosen, BatchQuery, count_shape(chosen, environment))
        printed: Any = chosen.options.get("variant", request.variant)
        made: Privatizer[Any, Any, Any] = after_log(replace(request, variant=printed), chosen.config.start, environment)
        return made

    def learner(self, chosen: RunRequest, environment: Countable, privatizer: Any) -> Learner[Any, Any, Any]:
        """Told how noisy batches of any size would be."""
        config = chosen.config
        return chosen.row.build(
            StageRequest(
                name=chosen.name,
                shape=privatizer.shape,
                episodes=config.episodes,
                constants=own_widths(config.constants),
                z=config.z,
                noise=privatizer,
                options=chosen.options,
                baseline=chosen.baseline,
                budget=config.budget,
                log=log_counts(config.start),
            )
        )

    def fitted(self, privatizer: Any, learner: Any) -> Privatizer[Any, Any, Any]:
        """The noise of exactly the planned batches."""
        found: Privatizer[Any, Any, Any] = privatizer.planned(learner.batches, learner.following)
        return found


class ReturnBuilder(RunBuilder):
    """One bit about everybody's return."""

    def privatizer(self, chosen: RunRequest, environment: Countable) -> Privatizer[Any, Any, Any]:
        """Of bits, whoever is in which group."""
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


def _reference(name: str, mdp: Countable) -> Policy:
    """Simulation only: the policy of a reference line."""
    if not isinstance(mdp, TabularMDP):
        if isinstance(mdp, SeenMDP) and name != "uniform":
            raise NotSupported(f"what is {name} depends on the states, not on features alone; remove sees")
        if name != "uniform":
            raise NotSupported(f"{mdp.name} has no table, so {name} is unknown there; use 'uniform'")
        return uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
    _, _, greedy = solve(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)
    known: Mapping[str, Policy] = {
        "uniform": uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions),
        "optimal": DeterministicPolicy(greedy),
    }
    return known[name]
