"""
Patterns for work that needs no token, because the data carries its own idempotency.

Each works without the decorators, and needs boto3 alone. Their results and errors are in `results`.
"""
