"""Noise primitives: numbered guarantees, sampler, precision and event in one file each.

One release: Laplace, Gaussian, Bounded, Binomial, RandomizedResponse, UnaryEncoding, SubsetSelection. Continual
release, one number per user: LaplaceTree, GaussianTree, KaryTree, SquareRootFactorization, BufferedToeplitz. Exact
samplers on the operating system's randomness, for deployments: `tacit.mechanisms.exact`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.errors import UnknownName
from tacit.mechanisms.binomial import Binomial
from tacit.mechanisms.bounded import Bounded
from tacit.mechanisms.factorization import BufferedToeplitz, SquareRootFactorization
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.kary_tree import KaryTree
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.protocol import Mechanism
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.subset_selection import SubsetSelection
from tacit.mechanisms.tree import GaussianTree, LaplaceTree
from tacit.mechanisms.unary_encoding import UnaryEncoding

__all__ = [
    "MECHANISMS",
    "Binomial",
    "Bounded",
    "BufferedToeplitz",
    "Gaussian",
    "GaussianTree",
    "KaryTree",
    "Laplace",
    "LaplaceTree",
    "Mechanism",
    "RandomizedResponse",
    "SquareRootFactorization",
    "SubsetSelection",
    "UnaryEncoding",
    "mechanism_named",
]

MECHANISMS: Final[Mapping[str, type[Any]]] = {
    "binomial": Binomial,
    "bounded": Bounded,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "oue": UnaryEncoding,
    "rr": RandomizedResponse,
    "subset": SubsetSelection,
}
"""The noise that covers one release, by its name on the command line."""


def mechanism_named(name: str) -> type[Any]:
    """The mechanism of this name, or an error that suggests the nearest one.

    >>> mechanism_named("gaussian").__name__
    'Gaussian'
    """
    if name not in MECHANISMS:
        raise UnknownName("mechanism", name, MECHANISMS)
    return MECHANISMS[name]
