"""Noise for one release: laplace, gaussian, bounded, bits of randomized response, one slot in two codes, binomial."""
