"""Statistics: what one person adds to a release, as a bounded vector of whole numbers."""
