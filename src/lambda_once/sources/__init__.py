"""Where events come from: how each source is recognised, and what it makes a unit of work."""
