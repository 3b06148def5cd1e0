"""What is known of the requests of one write, of which several may be in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.errors import StoreUnavailable
from lambda_once.patterns.ratchet.timestamps import is_older

if TYPE_CHECKING:
    import threading

    from lambda_once.patterns.ratchet.timestamps import Stamp


class InFlight:
    """
    All requests of one write of a revision: in flight, answered and unanswered.

    ``open``: how many may have taken effect, as far as is known.
    """

    def __init__(self, key: str, content: tuple[str | None, bool] | None, lock: threading.Lock) -> None:
        self.key = key
        self.content = content
        self.open = 0
        self._written = False
        self._lock = lock

    def written(self) -> None:
        """Note that one request took effect."""
        with self._lock:
            self._written = True

    def refused(self, *, unanswered: bool) -> None:
        """Note that one request was refused; *unanswered*: an earlier try of it may have taken effect."""
        with self._lock:
            self.open -= not unanswered

    def was_written(self, stamp: Stamp, stored: Stamp | None) -> bool:
        """
        Return whether another request of this write took effect before the item became *stored*.

        Raises `StoreUnavailable` where one may have: then *stored* may have replaced it. Whatever replaced
        this write is not older; so where *stored* is older, this write never took effect.
        """
        with self._lock:
            if self._written:
                return True
            if self.open == 0 or (stored is not None and is_older(stored, stamp)):
                return False
        raise StoreUnavailable(
            f"{self.key}: a request got no answer, and the item is newer now, or gone: it may have been "
            f"written or not. Read it, and decide again"
        )
