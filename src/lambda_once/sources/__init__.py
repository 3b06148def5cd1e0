"""Sources of events: how each is recognised, and what is a unit of work in its events."""
