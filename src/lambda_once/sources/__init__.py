"""A file for each source: how its events are read, how they run, and what the source gets back."""
