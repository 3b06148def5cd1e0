"""What lambda-once costs beside Powertools' idempotency utility: one run, the same events, one table."""
