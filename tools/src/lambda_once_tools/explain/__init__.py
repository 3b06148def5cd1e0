"""Why two events are, or are not, the same unit of work."""
