"""Runs: a configuration becomes parts, parts become seeds, seeds become a result that is kept, drawn and told."""
