"""Noise primitives: guarantees, sampler, precision, event, device and deployment in one file each.

`noise`: one release, in every counter or in the bits of a device. `continual`: every prefix of a stream. `exact`:
integer samplers on the operating system's randomness, for deployments. `table`: all of them by name.
"""

from __future__ import annotations

from tacit.mechanisms.continual.counter import ContinualCounter
from tacit.mechanisms.continual.factorization import BufferedToeplitz
from tacit.mechanisms.continual.kary_tree import KaryTree
from tacit.mechanisms.continual.tree import LaplaceTree
from tacit.mechanisms.noise.additive import Additive
from tacit.mechanisms.noise.binomial import Binomial
from tacit.mechanisms.noise.bounded import Bounded
from tacit.mechanisms.noise.gaussian import Gaussian
from tacit.mechanisms.noise.laplace import Laplace
from tacit.mechanisms.noise.randomized_response import RandomizedResponse
from tacit.mechanisms.noise.subset_selection import SubsetSelection
from tacit.mechanisms.noise.unary_encoding import UnaryEncoding
from tacit.mechanisms.protocol import Mechanism, Randomizer

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
