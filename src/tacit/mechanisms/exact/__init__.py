"""Deployment noise: exact integer samplers on the operating system's CSPRNG.

Every function takes `SecureNoise` and nothing else, returns integers (or booleans), and has exactly the law in its
docstring: total variation distance 0, no floating-point rounding between the random bits and the result. Parameters
are rationals; a float is taken as the rational it is, exactly.

    bits          random words; the only door to the operating system
    arithmetic    rational parameters; rigorous integer enclosures of e^-γ
    inversion     Lemma N4 (exact inversion): against a lazily extended uniform number
    blocks        two-level sampling, so that a scale of millions needs no table of millions
    bernoulli, geometric, discrete_laplace, discrete_gaussian, binomial, integers    the laws
"""

from tacit.mechanisms.exact.bernoulli import bernoulli, bernoulli_each, bernoulli_exp, bernoulli_logistic, fair_bits
from tacit.mechanisms.exact.binomial import binomial
from tacit.mechanisms.exact.discrete_gaussian import discrete_gaussian
from tacit.mechanisms.exact.discrete_laplace import discrete_laplace
from tacit.mechanisms.exact.geometric import geometric
from tacit.mechanisms.exact.integers import permutation, uniform_integers

__all__ = [
    "bernoulli",
    "bernoulli_each",
    "bernoulli_exp",
    "bernoulli_logistic",
    "binomial",
    "discrete_gaussian",
    "discrete_laplace",
    "fair_bits",
    "geometric",
    "permutation",
    "uniform_integers",
]
