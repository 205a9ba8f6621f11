"""A learned policy and the certificate of how it was learned, as one JSON file that belongs together.

    format       "tacit-bundle" and its version
    config       what was run (see `RunConfig`), and the seed whose policy this is
    policy       probabilities[h][s][a] of the last policy of that run
    claim        what is promised to the users it was learned from
    certificate  what the exact accountant finds
    audit        findings of `tacit audit`, if they were handed over
    digest       SHA-256 of all of the above, in canonical JSON

G1  Loading checks the digest, the shape of the policy and that the certificate is about the claim: a file that was
    changed is refused.
G2  Loading derives the certificate again from the configuration, where the environment has a name: a file whose
    certificate is not what its configuration gives is refused, even with a digest that fits.
G3  The policy is what the run ends with: seeds give bit-identical policies, so it can be derived again.

The policy of a private run is computed from what was released, and from nothing else; so it has the guarantee of the
releases (post-processing).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit._version import __version__
from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.errors import InvalidInput, NotSupported, require
from tacit.experiments.assemble import assemble
from tacit.experiments.config import RunConfig
from tacit.experiments.result import Result
from tacit.experiments.storage import check_writable, read_json, write_json, writing_to
from tacit.loop.simulate import simulate
from tacit.policies import DeterministicPolicy, StochasticPolicy

__all__ = ["Bundle", "export_bundle", "final_policy", "load_bundle"]

Floats = NDArray[np.float64]

FORMAT: Final = "tacit-bundle"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bundle:
    """What a bundle holds."""

    config: RunConfig
    seed: int
    policy: StochasticPolicy
    claim: PrivacyClaim
    certificate: Certificate
    audit: tuple[Mapping[str, Any], ...]
    version: str


def export_bundle(
    result: Result, path: str | Path, *, seed: int | None = None, audit: Sequence[Mapping[str, Any]] = ()
) -> Path:
    """Write the last policy of a run with its claim and certificate; `seed` is the run's first one by default.

    The policy is learned again from the seed, which gives the very same one.
    """
    chosen = result.seeds[0] if seed is None else seed
    require(chosen in result.seeds, f"seed must be one of the run's {list(result.seeds)}", seed)
    table = final_policy(result.config, chosen)
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "config": result.config.with_seeds([chosen]).to_dict(),
        "seed": chosen,
        "policy": {"shape": list(table.shape), "probabilities": table.tolist()},
        "claim": result.claim.to_dict(),
        "certificate": result.certificate.to_dict(),
        "audit": [dict(finding) for finding in audit],
    }
    target = Path(path)
    check_writable(target.parent)
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, {**content, "digest": _digest(content)})
    return target


def load_bundle(path: str | Path) -> Bundle:
    """Read a bundle and check that its parts belong together (G1, G2)."""
    content = read_json(Path(path))
    given = content.pop("digest", None)
    known = content.get("format") == FORMAT and content.get("format_version") == FORMAT_VERSION
    require(known, f"{path} must be a {FORMAT} of version {FORMAT_VERSION}", content.get("format"))
    require(given == _digest(content), f"{path} must be as it was written: its digest must fit", "another digest")
    try:
        config = RunConfig.from_dict(content["config"])
        certificate = Certificate.from_dict(content["certificate"])
        claim = PrivacyClaim.from_dict(content["claim"])
        table = np.array(content["policy"]["probabilities"], dtype=np.float64)
        policy = StochasticPolicy(table)
        shape, seed, audit = content["policy"]["shape"], int(content["seed"]), tuple(content["audit"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} must be a complete bundle: {error}") from error
    require(certificate.claim == claim, f"the certificate in {path} must be about its claim", "another claim")
    parts = assemble(config)
    sizes = [parts.mdp.horizon, parts.mdp.num_states, parts.mdp.num_actions]
    fits = list(table.shape) == shape == sizes and seed in config.seeds
    require(fits, f"the policy in {path} must belong to its configuration", list(table.shape))
    same = parts.claim == claim and parts.certificate == certificate
    require(same, f"the certificate in {path} must be what its configuration gives", "another certificate")
    return Bundle(
        config=config,
        seed=seed,
        policy=policy,
        claim=claim,
        certificate=certificate,
        audit=audit,
        version=content["version"],
    )


def final_policy(config: RunConfig, seed: int) -> Floats:
    """The probabilities[h,s,a] of the last policy that a run hands out.

    >>> table = final_policy(RunConfig(environment="riverswim", learner="psrl", episodes=20, seeds=(3,)), 3)
    >>> table.shape, bool((table.sum(axis=-1) == 1.0).all())
    ((6, 4, 2), True)
    """
    parts = assemble(config)
    run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=config.episodes, seed=seed)
    if not isinstance(run.policy, DeterministicPolicy | StochasticPolicy):
        raise NotSupported(f"bundles hold tables of policies, not those of {parts.learner.name}")
    return np.asarray(run.policy.probabilities(parts.mdp.num_actions), dtype=np.float64)


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON."""
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()
