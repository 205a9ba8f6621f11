"""Sealing: HPKE to shuffler, mixer and learner, the keys of the three, and what is bound into every sealed byte."""
