"""Names of version 0.8, found with a warning that names the new one; and another project called `tacit`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

RENAMED: Final = {
    "tacit.checks.manners": "tacit.audit.conformance",
    "tacit.compiling": "tacit.jit_progress",
    "tacit.engines": "tacit.executors",
    "tacit.environments.inputs": "tacit.runs.gradient_builder",
    "tacit.environments.ladders": "tacit.environments.treatment",
    "tacit.ids": "tacit.gymnasium_ids",
    "tacit.loop.round": "tacit.simulation.loop",
    "tacit.mechanisms.noise.dealt": "tacit.noise.one_slot",
    "tacit.mechanisms.noise.places": "tacit.noise.support_index",
    "tacit.mechanisms.upper_law": "tacit.noise.dominating_pmf",
    "tacit.mechanisms.exact.bernoulli": "tacit.noise.exact.inversion",
    "tacit.privatizers.shuffle.batches": "tacit.release.counts_contract",
    "tacit.privatizers.shuffle.noise": "tacit.release.shuffle.labels",
    "tacit.privatizers.shuffle.spec": "tacit.statistics.count_spec",
    "tacit.runs.places": "tacit.runs.storage_paths",
    "tacit.runs.sealing": "tacit.runs.manifest",
    "tacit.runs.sizes": "tacit.runs.estimate",
    "tacit.service.running": "tacit.service.server",
    "tacit.service.sealing": "tacit.service.encryption",
    "tacit.service.tokens.issuing": "tacit.service.tokens.token_issuer",
    "tacit.service.tokens.people": "tacit.service.tokens.admission",
    "tacit.tiers": "tacit.lazy_jit",
    "tacit.memory": "tacit.system",
    "tacit.mechanisms.noise": "tacit.noise",
    "tacit.mechanisms": "tacit.noise",
    "tacit.privatizers.contract": "tacit.release.counts_contract",
    "tacit.privatizers.statistics": "tacit.statistics.count_vectors",
    "tacit.privatizers": "tacit.release",
    "tacit.loop": "tacit.simulation",
    "tacit.checks": "tacit.audit",
    **{
        f"tacit.{folder}.{old}": f"tacit.{folder}.{new}"
        for folder, new, merged in (
            ("accounting", "certificate", "schema"),
            ("accounting", "journal", "database"),
            ("accounting.events", "binomial", "mirrored"),
            ("accounting.events", "gaussian", "sampled"),
            ("accounting.events", "pure", "laplace"),
            ("audit", "learners", "runs"),
            ("audit", "mechanisms", "messages"),
            ("data", "counts", "flow"),
            ("environments", "bandits", "contextual_bandit dose_bandit"),
            ("environments", "layered", "layered_worlds"),
            ("environments", "live", "live_spec"),
            ("environments", "live_sources", "live_presets"),
            ("environments", "tabular_worlds", "ev_charging hard_tree random_mdp riverswim taxi"),
            ("learners", "conservative", "bucb_valid"),
            ("learners", "fixed_bonus", "private_ucb_vi pucb"),
            ("learners", "gradient", "dp_npg dp_pg dp_trpo gradient_settings"),
            ("learners", "ldp_rts", "conservative_returns"),
            ("learners", "occupancy", "transition_set uc_o_reps uob_lbps uob_reps"),
            ("learners", "psrl", "ldp_psrl"),
            ("planning", "barrier_flow", "barrier_row"),
            ("planning", "layered", "transition_intervals"),
            ("policies", "softmax", "network"),
            ("released", "precision", "printed_radii"),
            ("runs", "report", "curves"),
            ("runs", "storage", "rows"),
            ("runs", "trial", "trial_size"),
            ("runs", "trial_result", "trial_arms"),
            ("study", "episodes", "log_reports"),
            ("study", "external_shuffle", "batch_files"),
            ("study", "mapping", "columns"),
        )
        for old in merged.split()
    },
}
"""Old name -> new name; the first one that fits counts."""
LEAVES: Final = "the old name goes with version 0.10"


class _Renamed(MetaPathFinder, Loader):
    """Finds what no other finder does: modules that are called otherwise now."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec of the old name, if it is one."""
        for old in RENAMED:
            if fullname == old or fullname.startswith(f"{old}."):
                return ModuleSpec(fullname, self, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that has the new name in the place of the old one."""
        name = module.__name__
        old = next(old for old in RENAMED if name == old or name.startswith(f"{old}."))
        new = RENAMED[old] + name.removeprefix(old)
        warnings.warn(f"{name} is called {new} now; {LEAVES}", DeprecationWarning, 2)
        sys.modules[name] = import_module(new)


def find_renamed() -> None:
    """Have old names found; nothing is imported before one is asked for."""
    if not any(isinstance(finder, _Renamed) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Renamed())  # before the one that finds files below a renamed package


def warn_of_foreign(package: Sequence[str]) -> None:
    """Warn if another project's distribution `tacit` has its files where this package's files are.

    The distribution of this package is `tacit-rl`. Both would install a package `tacit`: whichever was installed last
    has overwritten files of the other one.
    """
    for site in {Path(place).parent for place in package}:
        for metadata in site.glob("tacit-[0-9]*.dist-info/METADATA"):
            if "differential privacy" not in metadata.read_text(encoding="utf-8", errors="replace").lower():
                name = metadata.parent.name.removesuffix(".dist-info")
                warnings.warn(
                    f"another project's distribution, {name}, is installed in the place of this package: run "
                    "'pip uninstall tacit' and install tacit-rl anew",
                    RuntimeWarning,
                    stacklevel=3,
                )


def old_names(module: str, **renamed: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that still answers to old names of its members.

    >>> from tacit import errors
    >>> with warnings.catch_warnings(action="ignore"):
    ...     errors.BudgetSpent is errors.PrivacyBudgetExceeded
    True
    """

    def found(name: str) -> Any:
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = renamed[name]
        warnings.warn(f"{module}.{name} is called {new} now; {LEAVES}", DeprecationWarning, 2)
        return getattr(sys.modules[module], new)

    return found


LEARNERS: Final = {"sdp-bucb": "bucb"}
"""Old name of a learner -> new one; stored runs and studies keep the old one."""
LEARNER_OPTIONS: Final = {
    "pooled=false": "share_across_steps=false",
    "pooled=weighed": "share_across_steps=true",
    "replan=rarely": "replan=geometric",
    "staged=false": "time_homogeneous=true",
    "staged=true": "time_homogeneous=false",
}
"""Options of learners: old spelling -> new one."""


def today(learner: str, *, warn: bool = False) -> str:
    """A learner with its options as they are called today.

    >>> today("ucbvi:staged=false,bonus=bernstein")
    'ucbvi:time_homogeneous=true,bonus=bernstein'
    """
    name, colon, listed = learner.partition(":")
    found = name + colon + _respelled(listed, LEARNER_OPTIONS)
    wanted = LEARNERS.get(found, found)
    if warn and wanted != learner:
        warnings.warn(f"learner '{learner}' is written '{wanted}' now; {LEAVES}", DeprecationWarning, 3)
    return found


def stored(learner: str) -> str:
    """A learner as files write it.

    >>> stored("bucb:share_across_steps=true")
    'bucb:pooled=weighed'
    """
    name, colon, listed = learner.partition(":")
    return name + colon + _respelled(listed, {new: old for old, new in LEARNER_OPTIONS.items()})


def _respelled(listed: str, spelling: Mapping[str, str]) -> str:
    words = ((item, "".join(item.split())) for item in listed.split(","))
    return ",".join(spelling.get(word, item) for item, word in words)
