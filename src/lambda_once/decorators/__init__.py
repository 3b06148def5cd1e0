"""What all sources share: checks, names, identification, and how a handler calls its work."""
