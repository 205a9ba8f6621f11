"""Entries for the Differential Privacy Deployments Registry, made from a certificate.

The names of the fields and their values are those of the registry's schema (tier 3). Whatever a certificate states is
filled in; what only the curator knows (`Curator`) is asked for and refused where it is missing. A simulation is no
deployment.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.accounting.certificate import Certificate
from tacit.accounting.knowledge import coalition_table
from tacit.accounting.terms import is_day
from tacit.accounting.wording import shown_up
from tacit.errors import InvalidInput, require

MODELS: Final = {"central": "Central", "shuffle": "Shuffle", "local": "Local"}
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curator:
    """What the curator states about a deployment; no certificate knows it."""

    name: str
    curator: str
    use: str
    region: str
    date: str
    author: str
    sector: str | None = None

    def __post_init__(self) -> None:
        for name in ("name", "curator", "use", "region", "author"):
            require(getattr(self, name).strip() != "", f"--{name} must be stated", getattr(self, name))
        require(is_day(self.date), "--date must be a day, YYYY-MM-DD", self.date)
        require(self.sector in (None, *SECTORS), f"--sector must be one of {', '.join(SECTORS)}", self.sector)


def registry_entry(certificate: Certificate, curator: Curator, *, static: bool, policy: bool) -> dict[str, Any]:
    """The entry of a deployment under this certificate.

    Parameters
    ----------
    certificate
        Of a release with secure noise.
    curator
        What the curator states.
    static
        Whether the data are a log that does not grow; otherwise people come while the deployment runs.
    policy
        Whether a policy is published; otherwise what policies are worth.

    Returns
    -------
    dict
        The entry, JSON-ready; `to_yaml` writes it.

    Raises
    ------
    InvalidInput
        If the certificate is of a simulation or does not hold.
    """
    claim, terms = certificate.claim, certificate.terms
    if terms is None or not certificate.release:
        raise InvalidInput("the registry lists deployments: expected a certificate of secure noise, got a simulation")
    require(certificate.holds, "the registry lists guarantees: a certificate must hold", "one that fails")
    sizes, several = terms.sizes, terms.sizes["batches"] > 1
    world = ", ".join(f"{name.replace('_', ' ')} {sizes[name]}" for name in ("states", "actions") if name in sizes)
    table = coalition_table(certificate.coalitions, 1)
    rho = certificate.concentrated().rho
    technical = dict(certificate.technical)
    what = (
        "A policy (which action to take in which state and step) learned"
        if policy
        else "Values of policies (what they would have earned), estimated"
    )
    basic = {
        "name": curator.name,
        "data_curators": [curator.curator],
        "intended_use": curator.use,
        "data_product_type": "Machine learning model" if policy else "Summary statistics",
        "data_product_region": curator.region,
        "description": f"{what} from user trajectories.",
        "publication_date": curator.date,
        **({} if curator.sector is None else {"data_product_sector": curator.sector}),
    }
    privacy_loss = {
        "privacy_unit": f"Person: {claim.unit.describe()}",
        "privacy_unit_details": f"Adjacent datasets differ by {claim.unit.describe()} ({claim.neighbours}). "
        f"Protected: {terms.protected()}",
        "privacy_parameters": {"epsilon": claim.epsilon, **({"delta": claim.delta} if claim.delta else {})},
        "privacy_parameters_details": f"{certificate.verdict} Notion: {claim.notion}. Epsilon at other deltas: "
        f"{technical['epsilon']}.{'' if math.isinf(rho) else f' zCDP: rho {shown_up(rho)}.'}",
    }
    model = {
        "model_name": MODELS[claim.trust],
        "model_name_details": claim.promise,
        "actors": "\n".join([f"Trusted: {certificate.claim.trusted}.", certificate.collusion, *table]),
        "release_type": "Many releases" if several else "One release",
        "release_type_details": f"{sizes['batches']} releases of noisy statistics; the epsilon is that of all of them "
        "together, and no budget is refreshed.",
        "data_source_type": "Static" if static else "Dynamic",
        "access_type": "Non-interactive",
    }
    implementation = {
        "preprocessing_and_hyperparameter_tuning": "Sizes, noise and schedule are fixed before data are seen. "
        f"Public: {technical['public']}.",
        "mechanisms": f"{technical['release']}. {technical['noise']}. Implemented in tacit {terms.version}: noise of "
        "exact integer samplers from the operating system's randomness, no floating-point noise. Timing, memory and "
        "access to the raw data are the curator's to protect.",
        "justification": " ".join(certificate.warnings) or "The certificate has no warnings.",
    }
    slug = re.sub("[^a-z0-9]+", "-", f"{curator.name} {curator.curator} {curator.date[:4]}".lower()).strip("-")
    return {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": "Approximate DP" if claim.delta else "Pure DP",
                "data_domain": f"Trajectories of {sizes.get('horizon', 1)} steps{f' ({world})' if world else ''}.",
                "unprotected_quantities": "That a person took part, and how many reported; what is declared public.",
            },
            "privacy_loss": privacy_loss,
            "deployment_model": model,
            "accounting": {
                "post_processing": "What is published is computed from released statistics only.",
                "composition": f"{technical['certified']}; over all releases that one person is in.",
            },
            "implementation": implementation,
            "administrative": {
                "sources": f"Derived again by: {terms.verifier}",
                "notes": certificate.verdict,
                "registry_authors": [curator.author],
            },
        },
    }


def to_yaml(entry: Mapping[str, Any], indent: int = 0) -> str:
    """An entry as YAML: texts as JSON writes them, which YAML reads alike.

    >>> print(to_yaml({"tier": 3, "loss": {"delta": 1e-06}, "authors": ["A: B"]}))
    tier: 3
    loss:
      delta: 1.0e-06
    authors:
      - "A: B"
    """
    lines, space = list[str](), " " * indent
    for name, value in entry.items():
        if isinstance(value, Mapping):
            lines += [f"{space}{name}:", to_yaml(value, indent + 2)]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            lines += [f"{space}{name}:", *(f"{space}  - {_scalar(one)}" for one in value)]
        else:
            lines.append(f"{space}{name}: {_scalar(value)}")
    return "\n".join(lines)


def _scalar(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # A number like 1e-06 is a text in YAML: its mantissa needs a point.
    return re.sub(r"^(-?[0-9]+)e", r"\1.0e", text)
