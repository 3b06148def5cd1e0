"""
Who gets the stored response of an HTTP event, found by sending it with other credentials.

The row is the one that a completion of the first request leaves, and `core.lifecycle.decide` decides about
each of the others, as the engine does. Nothing runs and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from lambda_once.core.lifecycle import Course, Record, Request, decide, new_attempt_id
from lambda_once.core.writes import (
    Acquire,
    Complete,
    Holder,
    Unclaimed,
    Write,
    acquired_row,
    after_write,
    new_write_id,
)
from lambda_once.decorators.http import HttpIdentifier, problem_of
from lambda_once.errors import KeyReused, Misconfigured, OnceError, OtherCaller
from lambda_once.explain.senders import Sender, sent_by
from lambda_once.sources import api_gateway
from lambda_once.sources.authorizer import context_of
from lambda_once.sources.caller import Origin, caller_of, tenant_scope

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.identification import Identification
    from lambda_once.decorators.identify import Identifier
    from lambda_once.sources.problems import Problem


class Gets(Enum):
    """The outcome of a request."""

    RUNS = "runs"
    RESPONSE = "response"
    REFUSED = "refused"
    FAILS = "fails"
    """The invocation does: the decorator is misconfigured for the request, or a selector raised."""
    NOTHING = "not applicable"
    """There is no such sender."""


class Reply(NamedTuple):
    """The outcome for one sender."""

    sender: Sender
    who: str
    """The sender in words; why it is not applicable."""
    gets: Gets
    problem: Problem | None = None
    """Of a refusal."""
    error: str | None = None
    """The class of the exception of a failure."""


class Disclosure(NamedTuple):
    """Others than the first caller get the response."""

    to: tuple[Sender, ...]
    declared: bool
    """Whether ``caller=False`` says so."""
    advice: str


def replies(identifier: HttpIdentifier, event: Mapping[str, Any], senders: Iterable[Sender]) -> list[Reply]:
    """Return what each of *senders* gets for *event* once its first request has completed."""
    try:
        first = _identified(identifier, event)
    except Exception:  # noqa: BLE001  (it is refused, whatever raised: there is no response)
        first = None
    record = None if first is None else _completed(first, _bare(identifier, event).runtime.clock.now())
    return [_reply(identifier, event, record, sender) for sender in dict.fromkeys(senders)]


def disclosure(
    identifier: HttpIdentifier, event: Mapping[str, Any], found: Sequence[Reply]
) -> Disclosure | None:
    """Return to whom else than its first caller the response of *event* goes by *found*; None: to nobody."""
    others = (each.sender for each in found if each.gets is Gets.RESPONSE)
    to = tuple(sender for sender in others if not sender.is_first_caller)
    if not to:
        return None
    return Disclosure(to, identifier.caller_selector is False, _advice(identifier.caller_selector, event, to))


# ---------------------------------------------------------------- the answer to one request


def _reply(
    identifier: HttpIdentifier, event: Mapping[str, Any], record: Record | None, sender: Sender
) -> Reply:
    sent = sent_by(sender, event, identifier.caller_selector)
    if sent.event is None:
        return Reply(sender, sent.who, Gets.NOTHING)
    try:
        course = _course(identifier, sent.event, record)
    except OnceError as error:
        if isinstance(error, Misconfigured):
            return Reply(sender, sent.who, Gets.FAILS, error=type(error).__name__)
        return Reply(sender, sent.who, Gets.REFUSED, problem_of(_bare(identifier, event).settings, error))
    except Exception as error:  # noqa: BLE001  (a key or scope of the user's may raise anything)
        return Reply(sender, sent.who, Gets.FAILS, error=type(error).__name__)
    return Reply(sender, sent.who, Gets.RESPONSE if course is Course.REPLAY else Gets.RUNS)


def _course(identifier: HttpIdentifier, event: Mapping[str, Any], record: Record | None) -> Course:
    """Return what *event* comes to where *record* is the only row. Raises the error that refuses it."""
    found = _identified(identifier, event)
    if found is None or record is None or found.token != record.token:
        return Course.RUN
    bare = _bare(identifier, event)
    request = Request(new_attempt_id(), found.fingerprint, bare.settings.rule, found.presented)
    course = decide(record, request, bare.runtime.clock.now())
    if course in _ERRORS:
        raise _ERRORS[course](course.value)
    return course


_ERRORS: Final = {Course.OTHER_CALLER: OtherCaller, Course.KEY_REUSED: KeyReused}
"""What `engine.replay` raises of a row that is complete with a result."""


def _identified(identifier: HttpIdentifier, event: Mapping[str, Any]) -> Identification | None:
    """Return the identification of *event*; None: it is not protected. Raises what refuses it."""
    kind, method = api_gateway.kind_of(event), api_gateway.method_of(event)
    found = identifier.read(event, kind, method, None) if identifier.covers(method) else None
    if found is None:
        return None
    identified = identifier.of_kind(kind, found.keep).identify(found.unit)
    if identified.error is not None:
        raise identified.error
    return identified


def _bare(identifier: HttpIdentifier, event: Mapping[str, Any]) -> Identifier:
    """Return the identifier of requests of *event*'s kind, whatever their key is."""
    return identifier.of_kind(api_gateway.kind_of(event))


def _completed(found: Identification, now: datetime) -> Record:
    """Return the row of *found* after its attempt has completed with a result."""
    attempt, change = new_attempt_id(), Complete(None)
    row = acquired_row(
        None,
        Acquire(
            token=found.token,
            attempt_id=attempt,
            locked_by="explain",
            now=now,
            lease=now,
            take=Unclaimed(take_over=False),
            ttl=None,
            fingerprint=found.fingerprint,
            caller=None if found.presented is None else found.presented.mark(attempt),
        ),
    )
    write = Write(found.token, Holder(attempt), change, now, None, new_write_id(change))
    return cast("Record", after_write(row, write))  # its attempt holds the row


# ---------------------------------------------------------------- what to do about it


def _advice(selector: object, event: Mapping[str, Any], to: Sequence[Sender]) -> str:
    if selector is False:
        return "caller=False declares that all callers of a key are one"
    tenant = tenant_scope(event) if Sender.OTHER_TENANT in to else None
    if tenant is not None:
        return f"users are told apart, their tenants are not: for the claim {tenant[0]} pass {tenant[1]}"
    if selector is not None:
        return _OF_HEADER if Sender.FORGED in to and Sender.OTHER_USER not in to else _OF_SELECTOR
    authorizer = context_of(event.get("requestContext"))
    if authorizer is not None:
        return authorizer.advice
    origins = caller_of(event, api_gateway.header_values(event), hashed=True).origins
    return next((advice for origin, advice in _ADVICE.items() if origin in origins), _NOBODY)


_OF_SELECTOR: Final = "caller= selects the same value for them: select the id of the user"
_OF_HEADER: Final = (
    "caller= reads a header that any client can send: select what the gateway has verified, or pass a "
    "function of the event that verifies it"
)
_NOBODY: Final = (
    'nothing in the request names its caller: use an authorizer or caller=, or unscoped="refuse", which '
    "answers such requests with 400"
)
_ADVICE: Final[Mapping[Origin, str]] = {
    Origin.API_KEY_ID: (
        "an API key names an application: use an authorizer, or, if each key is one user's, "
        'caller="requestContext.identity.apiKeyId"'
    ),
    Origin.CERTIFICATE: (
        "a certificate names an application: use an authorizer, or as caller= a function of the event that "
        "returns the user"
    ),
    Origin.API_KEY: (
        "an API key names an application: use an authorizer, or, if each key is one user's, "
        """caller='headers."x-api-key"'"""
    ),
    Origin.COOKIES: (
        "under an Idempotency-Key cookies count for nothing: select the one of the session, such as "
        'caller="cookies.session"'
    ),
}
