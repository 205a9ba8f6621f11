"""Every byte of a file that matters: mutations of all files of all kinds of directories are found, honest ones pass.

What matters is every file that a directory or a handed-out document consists of. A mutation changes, removes or adds
bytes, or the whole file; of a database it changes one value of one row. All of them must be refused: "FALSE", "not
verified" or unreadable. Honest directories of the same kinds must be true.
"""

from __future__ import annotations

from tacit.protocol import TOTALS

assert TOTALS is not None

SMALL = {"environment": "random-mdp:states=2,actions=2,horizon=2", "episodes": 8, "checkpoints": 2, "workers": 1}
LOCAL = {"trust": "local", "epsilon": 1.0, "delta": 0.0, "mechanism": "laplace"}
MAPPING = {
    "horizon": 2,
    "states": [{"column": "state", "categories": ["well", "sick"]}],
    "actions": {"column": "action", "categories": ["wait", "pill"]},
    "rewards": {"column": "reward", "bounds": [0, 1]},
}
