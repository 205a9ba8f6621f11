"""The world: Markov decision processes and their Gymnasium side."""
