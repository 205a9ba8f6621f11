"""Learner and privatizer of a run in stages: the learner's schedule and the noise of its batches fit each other."""

from __future__ import annotations

from tacit.errors import InvalidInput, NotSupported
from tacit.experiments.config import RunConfig
from tacit.learners.stage_registry import StageLearner, StageRequest, make_stage_learner
from tacit.privatizers.batch_none import BatchUnprotected
from tacit.privatizers.batched import BatchShuffle
from tacit.privatizers.registry import PrivacyRequest, make_claim
from tacit.privatizers.shuffle_noise import PaperVariant
from tacit.released.counts import CountShape

__all__ = ["assemble_stages"]


def assemble_stages(
    config: RunConfig, name: str, options: dict[str, str], shape: CountShape
) -> tuple[StageLearner, BatchShuffle | BatchUnprotected]:
    """Ask the privatizer how noisy batches are, let the learner plan its schedule, and hand that to the privatizer."""
    if config.trust not in ("shuffle", "none"):
        raise NotSupported(f"{name} comes in batches that a shuffler mixes: use trust 'shuffle' (or 'none')")
    if config.batch is not None:
        raise InvalidInput(f"{name} plans the sizes of its batches itself; leave batch out")
    privatizer = _privatizer(config, shape, "2024" if options.get("variant") == "2024" else "2025")
    learner = make_stage_learner(
        name,
        StageRequest(
            shape=shape,
            episodes=config.episodes,
            constants=None if config.constants == "none" else config.constants,
            z=config.z,
            noise=privatizer,
            options=options,
        ),
    )
    return learner, privatizer.planned(learner.batches)


def _privatizer(config: RunConfig, shape: CountShape, variant: PaperVariant) -> BatchShuffle | BatchUnprotected:
    if config.trust == "none":
        for option in ("epsilon", "delta", "mechanism"):
            if getattr(config, option) is not None:
                raise InvalidInput(f"{option} makes no sense with trust 'none', which protects nobody; leave it out")
        return BatchUnprotected(shape=shape)
    if config.mechanism not in (None, "binomial"):
        raise InvalidInput(f"a shuffler mixes noise bits: mechanism must be 'binomial', got {config.mechanism!r}")
    if not config.delta:
        raise NotSupported(
            "trust 'shuffle' cannot give pure differential privacy (delta 0); give a delta such as 1e-6, "
            "or choose trust central or local with another learner"
        )
    request = PrivacyRequest(
        trust="shuffle",
        shape=shape,
        episodes=config.episodes,
        epsilon=config.epsilon,
        delta=config.delta,
        calibration=config.calibration,
        mechanism=config.mechanism,
        users_per_batch=config.users_per_batch,
        allow_large_delta=config.allow_large_delta,
    )
    return BatchShuffle(shape=shape, claim=make_claim(request), calibration=config.calibration, variant=variant)
