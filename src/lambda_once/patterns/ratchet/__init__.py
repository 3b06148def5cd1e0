"""Puts and deletes by the writer's timestamp: every order of the same writes ends in the same item."""

from lambda_once.patterns.ratchet.ratchet import Ratchet, Revision

__all__ = ["Ratchet", "Revision"]
