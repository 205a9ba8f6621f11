"""Sensitive: trajectories and exact counts. Nothing below the privatizers may leave this room."""
