"""Services: the parties of a study behind HTTP, each its own process, database and keys."""
