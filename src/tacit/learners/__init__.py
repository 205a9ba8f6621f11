"""One algorithm per file; none can import a trajectory."""
