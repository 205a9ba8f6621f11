"""The interaction: charge, roll out, release, forget, update."""
