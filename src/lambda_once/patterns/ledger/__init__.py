"""Sums that are added to once: the update and the id of its cause, in one conditional write."""

from lambda_once.patterns.ledger.ledger import Ledger

__all__ = ["Ledger"]
