"""Cases: worlds that others made, with the design of every experiment fixed before its numbers."""
