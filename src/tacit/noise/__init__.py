"""Noise primitives: guarantees, sampler, precision, event, device and deployment in one file each.

`noise`: one release, in every counter or in the bits of a device. `continual`: every prefix of a stream. `exact`:
integer samplers on the operating system's randomness, for deployments. `table`: all of them by name.
"""

from __future__ import annotations

from tacit.noise.additive import Additive
from tacit.noise.binomial import Binomial
from tacit.noise.bounded import Bounded
from tacit.noise.continual.counter import ContinualCounter
from tacit.noise.continual.factorization import BufferedToeplitz
from tacit.noise.continual.kary_tree import KaryTree
from tacit.noise.continual.tree import LaplaceTree
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.protocol import Mechanism, Randomizer
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.unary_encoding import UnaryEncoding

__all__ = [
    "Additive",
    "Binomial",
    "Bounded",
    "BufferedToeplitz",
    "ContinualCounter",
    "Gaussian",
    "KaryTree",
    "Laplace",
    "LaplaceTree",
    "Mechanism",
    "RandomizedResponse",
    "Randomizer",
    "SubsetSelection",
    "UnaryEncoding",
]
