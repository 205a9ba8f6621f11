"""A learned policy and the certificate of how it was learned, as one JSON file that belongs together.

    format       "tacit-bundle" and its version
    config       what was run (see `RunConfig`), and the seed whose policy this is
    policy       the last policy of that run: a table, probabilities of pairs, or doses
    claim        what is promised to the users it was learned from
    certificate  what the exact accountant finds
    audit        findings of `tacit audit`, if they were handed over
    digest       SHA-256 of all of the above, in canonical JSON
    signature    Ed25519, by whoever exported it; a bundle without one is "unsigned"

G0  A digest is no signature: whoever changes a policy writes a new one. So a bundle is loaded against a public key that
    the reader has pinned, or by saying that an unsigned one will do.
G1  Loading checks the digest, the shape of the policy and that the certificate is about the claim: a file that was
    changed is refused.
G2  Loading derives the certificate again from the configuration, where the environment has a name: a file whose
    certificate is not what its configuration gives is refused, even with a digest that fits.
G3  The policy is what the run ended with, as the result kept it.

The policy of a private run is computed from what was released, and from nothing else; so it has the guarantee of the
releases (post-processing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit._version import __version__
from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.arguments import checked
from tacit.documents import digest
from tacit.environments.live import LiveWorld
from tacit.environments.live_sources import PRESETS
from tacit.errors import require
from tacit.policies import (
    AnyPolicy,
    policy_from_dict,
    policy_to_dict,
)
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.result import Result
from tacit.runs.signature import sign
from tacit.runs.storage import check_writable, read_json, write_json, writing_to
from tacit.runs.storage_paths import resolve_location
from tacit.runs.verify import BUNDLE, verify_file


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bundle:
    """What a bundle holds.

    Attributes
    ----------
    config
        The configuration of the run.
    seed
        The seed whose policy this is.
    policy
        The policy.
    claim, certificate
        What was promised, and what the accountant finds.
    audit
        Rows of an audit that were handed over with it.
    version
        The version of tacit that wrote it.
    signature
        `"unsigned"`, or the fingerprint of the key that signed it.

    Examples
    --------
    >>> import tempfile, tacit
    >>> made = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = load_bundle(export_bundle(made, place + "/policy.json"), unsigned=True)
    >>> found.seed, found.signature
    (0, 'unsigned')
    """

    config: RunConfig
    seed: int
    policy: AnyPolicy
    claim: PrivacyClaim
    certificate: Certificate
    audit: tuple[Mapping[str, Any], ...]
    version: str
    signature: str
    """Who vouches for it, in words: "unsigned" if nobody does."""


@checked
def export_bundle(
    result: Result,
    path: str | Path,
    *,
    seed: int | None = None,
    audit: Sequence[Mapping[str, Any]] = (),
    key: str | Path | None = None,
) -> Path:
    """Write the last policy of a run with its claim and certificate; `seed` is the run's first one by default.

    Parameters
    ----------
    result
        The run.
    path
        The file to write.
    seed
        Whose last policy; by default the run's first seed.
    audit
        Rows of an audit to hand over.
    key
        The private key (`tacit keys new`) that signs; None: unsigned.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> import tempfile, tacit
    >>> made = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = load_bundle(export_bundle(made, place + "/policy.json"), unsigned=True)
    >>> found.certificate == made.certificate
    True
    """
    chosen = result.seeds[0] if seed is None else seed
    require(chosen in result.seeds, f"seed must be one of the run's {list(result.seeds)}", seed)
    config, world = result.config.with_seeds([chosen]), assemble(result.config).mdp
    if isinstance(world, LiveWorld) and world.source not in PRESETS:  # a name of which only its code knows the sizes
        config = replace(config, environment=world)
    content = {
        "format": BUNDLE[0],
        "format_version": BUNDLE[1],
        "version": __version__,
        "config": config.to_dict(),
        "seed": chosen,
        "policy": policy_to_dict(result.policy_of(chosen)),
        "claim": result.claim.to_dict(),
        "certificate": result.certificate.to_dict(),
        "audit": [dict(finding) for finding in audit],
    }
    target = Path(path)
    check_writable(target.parent)
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = {**content, "digest": digest(content)}
        write_json(target, whole if key is None else sign(whole, key))
    return target


@checked
def load_bundle(path: str | Path, *, key: str | Path | None = None, unsigned: bool = False) -> Bundle:
    """Read a bundle and check that its parts belong together (G1, G2) and that somebody vouches for it (G0).

    Parameters
    ----------
    path
        The file.
    key
        The public key that must have signed it.
    unsigned
        Accept a file without a signature.

    Returns
    -------
    Bundle
        Its parts belong together (G1, G2) and its signature is verified (G0).

    Raises
    ------
    InvalidInput
        If it was changed, does not belong together, or is not signed by the key.

    Examples
    --------
    >>> import tempfile, tacit
    >>> made = tacit.run(environment="riverswim", learner="psrl", episodes=20, workers=1)
    >>> from tacit.runs.signature import new_keys
    >>> with tempfile.TemporaryDirectory() as place:
    ...     private, public = new_keys(Path(place, "keys"))
    ...     found = load_bundle(export_bundle(made, place + "/policy.json", key=private), key=public)
    >>> found.policy.actions.shape
    (6, 4)
    """
    place = resolve_location(path)
    content = read_json(place)
    given = (content.get("format"), content.get("format_version"))
    require(given == BUNDLE, f"{path} must be a {BUNDLE[0]} of version {BUNDLE[1]}", given, "export it again")
    found = verify_file(place, key=key, unsigned=True)  # who vouches for its policy is asked below
    require(found.true, f"{path} must be as it was written and what its configuration gives", found.why)
    hint = "pass the public key of its writer, or unsigned=True to accept any writer"
    pinned = key is not None or unsigned
    require(pinned, f"{path} must be signed by a key you know", found.signature, hint)
    config = RunConfig.from_dict(content["config"], stated={})
    certificate = Certificate.from_dict(content["certificate"])
    return Bundle(
        config=config,
        seed=content["seed"],
        policy=policy_from_dict(content["policy"]),
        claim=certificate.claim,
        certificate=certificate,
        audit=tuple(content["audit"]),
        version=content["version"],
        signature=found.signature,
    )
