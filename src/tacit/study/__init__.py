"""Studies: learning from real people, stage by stage, over files, with exact noise and without a simulator.

The public names are in `__all__` and imported when they are first used: a device needs no planner.

>>> from tacit.study import Device, plan_study
>>> design = plan_study(states=2, actions=2, horizon=2, trust="local", epsilon=1.0, delta=0.0, stages=2, target=50)
>>> design.parts().certificate.holds, Device(None, cap=1.0, floor=1, key=None).bundle
(True, None)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.study.collector import Collector
    from tacit.study.design import StudyDesign, plan_study
    from tacit.study.device import Device
    from tacit.study.study import Study
    from tacit.study.trial import plan_trial

__all__ = ["Collector", "Device", "Study", "StudyDesign", "plan_study", "plan_trial"]

_HOMES = {
    "Collector": "collector",
    "Device": "device",
    "Study": "study",
    "StudyDesign": "design",
    "plan_study": "design",
    "plan_trial": "trial",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit.study' has no attribute {name!r}")
    return getattr(import_module(f"tacit.study.{_HOMES[name]}"), name)
