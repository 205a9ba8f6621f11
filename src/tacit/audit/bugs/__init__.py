"""Planted privacy bugs: privatizers, protocols and loops that are wrong in exactly one way. Never use them."""
