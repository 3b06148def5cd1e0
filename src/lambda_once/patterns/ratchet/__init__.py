"""Puts and deletes ordered by the writer's timestamp: the same writes in any order end in the same item."""

from lambda_once.patterns.ratchet.ratchet import Ratchet, Revision

__all__ = ["Ratchet", "Revision"]
