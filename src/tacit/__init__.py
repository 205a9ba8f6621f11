"""Differentially private reinforcement learning."""
