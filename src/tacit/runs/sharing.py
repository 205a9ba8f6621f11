"""Experiments that share runs: a run that another figure of the same paper has finished is copied, not run again.

Rows follow from the configuration alone, so a finished run with the same configuration is the run itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tacit.runs.config import RunConfig
from tacit.runs.runner import Notify
from tacit.runs.storage import RunDirectory, writing_to

__all__ = ["borrow_finished"]


def borrow_finished(runs: Mapping[str, RunConfig], root: Path, *, notify: Notify) -> int:
    """Copy the runs (by their place) that a sibling or a child of this experiment has finished; returns how many.

    Results of an experiment lie in `root` = .../name/scale, those of its siblings and children in .../other/scale and
    .../name/child/scale.
    """
    copied = 0
    for place, config in runs.items():
        here = root / place
        if RunDirectory(here).begun:
            continue
        siblings, children = root.parent.parent.glob(f"*/{root.name}"), root.parent.glob(f"*/{root.name}")
        for sibling in sorted([*siblings, *children]):
            there = RunDirectory(sibling / place)
            if sibling == root or not there.finished or there.header().get("config") != config.to_dict():
                continue
            with writing_to(here):
                shutil.copytree(there.path, here)
            notify(f"{here}: finished in {sibling}, copied")
            copied += 1
            break
    return copied
