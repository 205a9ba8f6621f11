"""Shuffle trust: which counters a stage has, how many noise bits, and what travels."""
