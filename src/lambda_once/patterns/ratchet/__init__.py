"""Puts and deletes by the writer's timestamp: every order of the same writes ends in the same item."""

from lambda_once.patterns.ratchet.ratchet import Page, Ratchet, Revision

__all__ = ["Page", "Ratchet", "Revision"]
