"""Tokens: blind signatures (RFC 9474) that say "somebody of the list, once in this stage" and nothing else."""
