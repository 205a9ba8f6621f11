"""The frontier: regret against the certified epsilon, in every trust model."""
