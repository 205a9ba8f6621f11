"""Deployment noise: exact integer samplers on the operating system's CSPRNG.

Every function takes `SecureNoise` and nothing else, returns integers (or booleans), and has exactly the law in its
docstring: total variation distance 0, no floating-point rounding between the random bits and the result. Parameters
are rationals; a float is taken as the rational it is, exactly.

    bits          random words, the only door to the operating system; uniform integers and permutations
    inversion     rational parameters, rigorous integer enclosures of e^-γ, and Lemma N4 (exact inversion): against a
                  lazily extended uniform number; coins
    blocks        two-level sampling, so that a scale of millions needs no table; geometric, Laplace, Gaussian
"""

from tacit.noise.exact.bits import permutation, uniform_integers
from tacit.noise.exact.blocks import discrete_gaussian, discrete_laplace, geometric
from tacit.noise.exact.inversion import bernoulli, bernoulli_each, bernoulli_logistic, fair_bits

__all__ = [
    "bernoulli",
    "bernoulli_each",
    "bernoulli_logistic",
    "discrete_gaussian",
    "discrete_laplace",
    "fair_bits",
    "geometric",
    "permutation",
    "uniform_integers",
]
