"""Sealed batches: files of permuted messages, opened, counted and mixed in bounded memory, on one core or many."""
