"""Watching videos: sessions of the published simulator RecSim, written anew and compiled."""
