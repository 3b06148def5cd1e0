"""What a decorator becomes: one face a kind of source, over one engine."""
