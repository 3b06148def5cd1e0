"""
The context that a Lambda authorizer adds to events, and advice if it names no user.

API Gateway writes it, a client cannot. A REST API has its context beside `principalId`, which the authorizer
must return; in an HTTP API the context is all there is, and a simple response need not have one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from lambda_once.core.fields import LONGEST_NAME, printable
from lambda_once.core.lifecycle import Presented

CONSTANTS: Final = frozenset({"user", "me", "user|a1b2c3d4"})
"""Principals of AWS' sample authorizers, which are the same for everybody."""

_OF_GATEWAY: Final = frozenset({"principalId", "integrationLatency"})
_LISTED: Final = 10
"""Most names of a context that a log line lists."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that JMESPath reads without quotes."""


class AuthorizerContext(NamedTuple):
    """The context from a Lambda authorizer, and the expression that selects it."""

    path: str
    found: Mapping[str, object]

    @property
    def principal(self) -> str | None:
        """Its `principalId`; None for a constant one, which does not identify a caller."""
        principal = self.found.get("principalId")
        named = isinstance(principal, str) and principal and principal not in CONSTANTS
        return str(principal) if named else None

    def presented(self, credential: str | None) -> Presented:
        """Return what a request presents that it has let pass: *credential*, or nothing that counts."""
        if credential is None:
            return Presented(None, proof=False, advice=f"cannot be replayed: {self._unnamed()}")
        if self.principal is None:
            advice = self._unnamed()
        else:
            advice = (
                f'if principalId is a person\'s id and no constant, pass caller="{self.path}.principalId"'
            )
        return Presented(credential, advice=f"was acquired with other credentials: {advice}")

    def _unnamed(self) -> str:
        names = [str(name) for name in self.found if name not in _OF_GATEWAY]
        listed = ", ".join(printable(name) for name in names[:_LISTED]) or "nothing"
        likely = [name for name in names if name.lower() == "sub" or "user" in name.lower()]
        name = next((name for name in (*likely, *names) if len(name) <= LONGEST_NAME), None)
        way = (
            "Let it return the user's id as userId, and pass"
            if name is None
            else "Pass the one that is the user's id, such as"
        )
        write = _as_caller(self.path, name or "userId")
        return f"the Lambda authorizer names no user; its context has {listed}. {way} {write}"


def _as_caller(path: str, name: str) -> str:
    """Return ``caller=`` with the expression that selects *name* below *path*, as it is written in Python."""
    if _PLAIN.fullmatch(name):
        return f'caller="{path}.{name}"'
    return f"caller={f'{path}.{json.dumps(name)}'!r}"


def context_of(context: object) -> AuthorizerContext | None:
    """Return the authorizer's part of *context*, that of a request; None if no Lambda authorizer ran."""
    path = "requestContext.authorizer"
    found = context.get("authorizer") if isinstance(context, Mapping) else None
    if not isinstance(found, Mapping) or not found:
        return None
    if "lambda" in found:  # payload format 2.0
        inner = found["lambda"]
        return AuthorizerContext(f"{path}.lambda", inner if isinstance(inner, Mapping) else {})
    others = (found.get(name, "") for name in ("claims", "jwt", "iam"))
    of_another = any(each is None or isinstance(each, Mapping) for each in others)
    return None if of_another and not found.get("principalId") else AuthorizerContext(path, found)
