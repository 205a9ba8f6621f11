"""Shuffle trust: which counters, how many noise bits, three roles, single batches and running totals."""
