"""Simulation only: who knows the truth and keeps the score, one judge per kind of world."""
