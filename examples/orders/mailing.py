"""A mail service. It may be down, and it knows no idempotency keys."""

from __future__ import annotations

from .effects import EFFECTS


class MailServiceDown(Exception):
    """Nothing was sent."""


class MailService:
    """Sends every mail that it is asked for, unless it is ``down``."""

    down = False

    def send(self, address: str, text: str) -> None:
        """Send a mail. Raises `MailServiceDown`."""
        if self.down:
            raise MailServiceDown(text)
        EFFECTS.add("mailed", address)


MAIL = MailService()
