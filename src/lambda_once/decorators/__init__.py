"""What `Once` offers: each decorator turns its events into calls of the engine."""
