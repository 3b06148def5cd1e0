"""Sums that are added to once: the update and the id of what caused it, in one conditional write."""

from lambda_once.patterns.ledger.errors import BelowFloor, Conflict, Full
from lambda_once.patterns.ledger.ledger import Changed, Entry, Ledger

__all__ = ["BelowFloor", "Changed", "Conflict", "Entry", "Full", "Ledger"]
