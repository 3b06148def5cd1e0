"""Five services: unprotected, with what they had before, and with lambda-once (docs/migrations.md)."""
