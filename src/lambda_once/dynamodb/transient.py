"""
Which of DynamoDB's errors pass: the same request may succeed later.

Source: DynamoDB developer guide, "Error handling with DynamoDB".
"""

from __future__ import annotations

from typing import Final

AGAIN: Final = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_SERVER_ERROR: Final = 500


def passes(code: str, status: int, codes: frozenset[str] = AGAIN) -> bool:
    """Tell whether an error of this *code* and HTTP *status* may be gone at the next try; *codes* are."""
    return code in codes or status >= _SERVER_ERROR
