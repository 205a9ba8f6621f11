"""Differentially private reinforcement learning: learn policies from user data with differential privacy.

Everything public is named in `__all__` and imported when it is first used: `import tacit` costs next to nothing.

>>> result = run(environment="riverswim", learner="ucbvi", constants="practical", episodes=1000, seeds=2, workers=1)
>>> result.regret.shape == (2, len(result.episodes))
True
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit._version import __version__
from tacit.gymnasium_ids import register_when_loaded
from tacit.renamed import LEAVES, find_renamed, warn_of_foreign

if TYPE_CHECKING:
    from tacit.accounting.certificate import Certificate, certify
    from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
    from tacit.environments.estimated import estimate_model
    from tacit.environments.gym import from_gymnasium
    from tacit.environments.live import LiveWorld, live
    from tacit.environments.registry import list_environments, make_environment
    from tacit.environments.tabular import TabularMDP
    from tacit.errors import TacitError
    from tacit.features import Features
    from tacit.learners.table import list_learners
    from tacit.policies.named import NamedPolicy
    from tacit.runs.bundle import Bundle, export_bundle, load_bundle
    from tacit.runs.comparison import Comparison, load
    from tacit.runs.config import RunConfig
    from tacit.runs.files import compare
    from tacit.runs.result import Result
    from tacit.runs.runner import run
    from tacit.runs.study_plan import plan
    from tacit.runs.trial import trial, trial_size
    from tacit.service.device import RemoteDevice
    from tacit.simulation.simulate import simulate
    from tacit.study.episodes import data_check, read_episodes
    from tacit.study.evaluation import evaluate
    from tacit.study.learning import learn
    from tacit.study.linear_bandit import LinearBandit
    from tacit.study.mapping import EpisodeMapping
    from tacit.study.verify import verify

__all__ = [
    "Bundle",
    "Certificate",
    "Comparison",
    "EpisodeMapping",
    "Features",
    "LinearBandit",
    "LiveWorld",
    "NamedPolicy",
    "PrivacyClaim",
    "PrivacyUnit",
    "RemoteDevice",
    "Result",
    "RunConfig",
    "TabularMDP",
    "TacitError",
    "__version__",
    "certify",
    "compare",
    "data_check",
    "estimate_model",
    "evaluate",
    "export_bundle",
    "from_gymnasium",
    "learn",
    "list_environments",
    "list_learners",
    "live",
    "load",
    "load_bundle",
    "make_environment",
    "plan",
    "read_episodes",
    "run",
    "simulate",
    "trial",
    "trial_size",
    "verify",
]

_HOMES = {
    "Bundle": ("tacit.runs.bundle", "Bundle"),
    "Certificate": ("tacit.accounting.certificate", "Certificate"),
    "Comparison": ("tacit.runs.comparison", "Comparison"),
    "EpisodeMapping": ("tacit.study.mapping", "EpisodeMapping"),
    "Features": ("tacit.features", "Features"),
    "LinearBandit": ("tacit.study.linear_bandit", "LinearBandit"),
    "LiveWorld": ("tacit.environments.live", "LiveWorld"),
    "NamedPolicy": ("tacit.policies.named", "NamedPolicy"),
    "PrivacyClaim": ("tacit.accounting.claims", "PrivacyClaim"),
    "PrivacyUnit": ("tacit.accounting.claims", "PrivacyUnit"),
    "RemoteDevice": ("tacit.service.device", "RemoteDevice"),
    "Result": ("tacit.runs.result", "Result"),
    "RunConfig": ("tacit.runs.config", "RunConfig"),
    "TabularMDP": ("tacit.environments.tabular", "TabularMDP"),
    "TacitError": ("tacit.errors", "TacitError"),
    "certify": ("tacit.accounting.certificate", "certify"),
    "compare": ("tacit.runs.files", "compare"),
    "data_check": ("tacit.study.episodes", "data_check"),
    "estimate_model": ("tacit.environments.estimated", "estimate_model"),
    "evaluate": ("tacit.study.evaluation", "evaluate"),
    "export_bundle": ("tacit.runs.bundle", "export_bundle"),
    "from_gymnasium": ("tacit.environments.gym", "from_gymnasium"),
    "learn": ("tacit.study.learning", "learn"),
    "list_environments": ("tacit.environments.registry", "list_environments"),
    "list_learners": ("tacit.learners.table", "list_learners"),
    "live": ("tacit.environments.live", "live"),
    "load": ("tacit.runs.comparison", "load"),
    "load_bundle": ("tacit.runs.bundle", "load_bundle"),
    "make_environment": ("tacit.environments.registry", "make_environment"),
    "plan": ("tacit.runs.study_plan", "plan"),
    "read_episodes": ("tacit.study.episodes", "read_episodes"),
    "run": ("tacit.runs.runner", "run"),
    "simulate": ("tacit.simulation.simulate", "simulate"),
    "trial": ("tacit.runs.trial", "trial"),
    "trial_size": ("tacit.runs.trial", "trial_size"),
    "verify": ("tacit.study.verify", "verify"),
}
"""Public name -> where it lives."""


def __getattr__(name: str) -> Any:
    if name == "Device":
        warnings.warn(f"tacit.Device is called tacit.RemoteDevice now; {LEAVES}", DeprecationWarning, 2)
        name = "RemoteDevice"
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_loaded()
find_renamed()
warn_of_foreign(__path__)
