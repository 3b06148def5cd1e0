"""Puts and deletes by the writer's timestamp: every order of the same writes ends in the same item."""

from lambda_once.patterns.ratchet.ratchet import Attempt, LostRace, Ratchet, Stale, Written
from lambda_once.patterns.ratchet.reads import Page
from lambda_once.patterns.ratchet.stamps import TooFarAhead

__all__ = ["Attempt", "LostRace", "Page", "Ratchet", "Stale", "TooFarAhead", "Written"]
