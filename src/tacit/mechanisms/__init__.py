"""Noise primitives: numbered guarantees, sampler, precision and event in one file each."""
