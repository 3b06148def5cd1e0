"""Idempotent sums: one conditional write updates the counter and records the id of its cause."""

from lambda_once.patterns.ledger.ledger import Ledger

__all__ = ["Ledger"]
