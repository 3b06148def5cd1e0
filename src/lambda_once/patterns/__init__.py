"""
Patterns for work that needs no token, because the data can carry its own idempotency.

Each is one module with one class, and needs boto3 and nothing else of this package's decorators.
"""
