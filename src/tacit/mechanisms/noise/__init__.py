"""Noise for one release: laplace, gaussian, bounded, randomized response, one slot in two codes, noise bits."""
