"""Attacks on every guarantee: empirical lower bounds on epsilon, beside what was claimed and what is certified."""
