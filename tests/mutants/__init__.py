"""Planted privacy bugs, the honest originals in which they are planted, and who must catch them (`mutations`)."""
