"""Neural policies for any Gymnasium environment with a Discrete action space; needs the extra `[torch]`.

PyTorch is imported when something is first used, so the rest of tacit does not need it.
"""

from __future__ import annotations

__all__: list[str] = []
