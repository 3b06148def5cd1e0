"""
What can go wrong with a document, beside what can with any table.

    OnceError
    ├── RetryLater
    │   ├── VersionConflict   another version stands: read it, and decide again
    │   └── Unreadable        a version is on its way to this replica: read again later
    └── GiveUp
        └── VersionAhead      the newest version is dated in the future: see to the clocks
"""

from __future__ import annotations

from lambda_once.errors import GiveUp, RetryLater


class VersionConflict(RetryLater):
    """
    The document is not at the version that was expected. Nothing of this write can be read.

    ``standing``: the version that stands, None where there is no document.
    """

    def __init__(self, message: str, *, standing: str | None = None) -> None:
        super().__init__(message)
        self.standing = standing


class Unreadable(RetryLater):
    """There is a document, and none of its versions is whole here: its parts are still on their way."""


class VersionAhead(GiveUp):
    """The newest version is dated further in the future than clocks may differ. Nothing was written."""
