"""The words that a user chooses among: plain literals, importable at no cost."""

from __future__ import annotations

from typing import Literal, TypeAlias

Trust: TypeAlias = Literal["none", "central", "shuffle", "local"]
"""Whom users trust with their data: everybody, a curator, a shuffler, nobody."""
Calibration: TypeAlias = Literal["none", "tight", "paper"]
"""Where the noise comes from: there is none, the least for the claim, or as a paper prints it."""
Constants: TypeAlias = Literal["theory", "practical", "printed", "valid", "none"]
"""The confidence widths of a learner: the theorem's, the one practical rule, as a paper prints them, or none at all."""
Estimator: TypeAlias = Literal["centred", "as-written"]
"""How a learner of bandit losses estimates them."""
