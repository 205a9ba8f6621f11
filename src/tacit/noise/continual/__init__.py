"""Continual counters: every prefix sum of a stream, released with noise that is correlated over time."""
