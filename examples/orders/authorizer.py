"""
The Lambda authorizer of the orders API: it says who a request comes from, before anything is replayed.

It is not protected itself: a replayed verdict would let callers pass, and `once` refuses its events.
"""

from __future__ import annotations

from typing import Any

SESSIONS = {"session-77": "cust_77", "session-78": "cust_78"}
"""A session service's answers: the customer of each session."""


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """
    Answer a request of payload format 2.0 by a simple response.

    ``principalId`` is the customer, never a constant such as "user": it keeps customers apart. The route
    says so by ``caller=``, so a renewed session gets the stored response all the same.
    """
    del context
    scheme, _, session = event.get("headers", {}).get("authorization", "").partition(" ")
    customer = SESSIONS.get(session) if scheme.lower() == "bearer" else None
    if customer is None:
        return {"isAuthorized": False}
    return {"isAuthorized": True, "context": {"principalId": customer}}
