"""Array types for signatures: what the numbers are; the shape stands in the docstring."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.int8]
