"""
Other AWS services that invoke a function by themselves: one table of how each is recognised and keyed.

Their events are not direct invocations: they have fields that belong to one delivery (a token, a timestamp, a
trace id), or nothing that distinguishes one occasion from the next. Shapes are from the developer guides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import at

Event = Mapping[str, Any]


class Service(NamedTuple):
    """A row of the table."""

    name: str
    recognises: Callable[[Event], bool]
    identity: Callable[[Event], object] | None = None
    """The fields that all deliveries of one event share: the key, and the whole fingerprint."""
    refused: str | None = None
    """Why an event is refused even with a key."""
    counts: tuple[str, ...] = ()
    """The fields of the fingerprint under ``key=``; none: all."""
    asynchronous: bool = False
    """Whether Lambda invokes the function asynchronously for it, and so retries by itself."""

    def content(self, payload: object) -> object:
        """Return the part of *payload* to hash, an event of this service without ignored fields."""
        if not isinstance(payload, Mapping) or not self.counts:
            return payload
        return {name: payload[name] for name in self.counts if name in payload}

    @property
    def needs_key(self) -> str | None:
        """Why an event of it cannot be keyed without ``key=``; None if it can."""
        if self.identity is not None:
            return None
        return (
            f"An event of {self.name} has no id that all its deliveries share. Nothing ran. "
            "Pass once.event a key= that identifies the work."
        )

    def misplaced(self, decorator: str) -> Misconfigured:
        """Return the error for *decorator* in front of an event of this service."""
        if self.refused is not None:
            advice = f"{self.refused}, with any key. Protect the effect inside with once.run."
        elif self.identity is None:
            advice = "Use once.event with key= for it."
        else:
            advice = "Use once.event for it."
        return Misconfigured(f"{decorator} received an event of {self.name}. Nothing ran. {advice}")


_VERDICT: Final = "Its response is a decision and must not be replayed"
_ONE_CALL: Final = "Its response belongs to this one call and must not be replayed"


def service_of(event: object) -> Service | None:
    """Return the service that sent *event*; None if no row of the table recognises it."""
    given = event[0] if isinstance(event, list) and event else event  # AppSync sends batches as lists
    if not isinstance(given, Mapping):
        return None
    return next((service for service in SERVICES if service.recognises(given)), None)


# ---------------------------------------------------------------- shapes


def _has(*names: str) -> Callable[[Event], bool]:
    return lambda event: all(isinstance(event.get(name), str) for name in names)


def _under(*path: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(at(event, *path), str)


def _is_cloudformation(event: Event) -> bool:
    known = event.get("RequestType") in ("Create", "Update", "Delete")
    return (
        known and _has("StackId", "RequestId")(event) and "ResponseURL" in event
    )  # a parser's URL is no text


def is_tumbling_window(event: object) -> bool:
    """Whether *event* belongs to a tumbling window of a stream (developer guide, Kinesis and DynamoDB)."""
    final, window = at(event, "isFinalInvokeForWindow"), at(event, "window")
    return isinstance(final, bool) and isinstance(window, Mapping)


def _is_cognito(event: Event) -> bool:
    return _has("triggerSource", "userPoolId")(event) and isinstance(event.get("request"), Mapping)


def _is_cognito_afterwards(event: Event) -> bool:
    return _is_cognito(event) and str(event["triggerSource"]).startswith("Post")


def _is_secret_test(event: Event) -> bool:
    return _is_secret(event) and event["Step"] == "testSecret"


_is_secret: Final = _has("SecretId", "ClientRequestToken", "Step")


def _is_appsync_authorizer(event: Event) -> bool:
    return _has("authorizationToken")(event) and _under("requestContext", "apiId")(event)


def _is_transfer(event: Event) -> bool:
    """Whether the event asks who a user is (Transfer Family user guide, "Lambda event message structure")."""
    return _has("username", "serverId")(event) and event.get("protocol") in ("SFTP", "FTPS", "FTP")


def _is_appsync(event: Event) -> bool:
    resolver = isinstance(event.get("arguments"), Mapping) and (
        _under("info", "fieldName")(event) or _has("typeName", "fieldName")(event)
    )
    return resolver or (_under("info", "operation")(event) and "channelNamespace" in event["info"])


def _is_firehose(event: Event) -> bool:
    return _has("invocationId", "deliveryStreamArn")(event) and isinstance(event.get("records"), list)


def _is_s3_batch(event: Event) -> bool:
    return _has("invocationSchemaVersion", "invocationId")(event) and isinstance(event.get("tasks"), list)


def _is_ses(event: Event) -> bool:
    match event:
        case {"Records": [*records]} if records:
            return all(
                at(one, "eventSource") == "aws:ses" and isinstance(at(one, "ses", "mail", "messageId"), str)
                for one in records
            )
        case _:
            return False


def _is_lex(event: Event) -> bool:
    hook = event.get("invocationSource") in ("DialogCodeHook", "FulfillmentCodeHook")
    return hook and isinstance(event.get("bot"), Mapping)


def _is_connect(event: Event) -> bool:
    return event.get("Name") == "ContactFlowEvent" and _under("Details", "ContactData", "ContactId")(event)


def _is_iot(event: Event) -> bool:
    button = _has("serialNumber", "clickType")(event)
    one_click = isinstance(event.get("deviceInfo"), Mapping) and isinstance(event.get("deviceEvent"), Mapping)
    return button or one_click or _under("event", "payload", "actionExecutionId")(event)


def _is_agent(event: Event) -> bool:
    return _has("messageVersion", "sessionId", "actionGroup")(event) and isinstance(
        event.get("agent"), Mapping
    )


def _is_of_aws(event: Event) -> bool:
    """Whether the event names a source of AWS, whichever."""
    records = event.get("Records")
    first = records[0] if isinstance(records, list) and records else None
    named = (at(each, name) for each in (event, first) for name in ("eventSource", "EventSource"))
    return any(str(name).startswith("aws:") for name in named) or (
        str(event.get("source")).startswith("aws.") and "detail-type" not in event
    )


# ---------------------------------------------------------------- identities


def _fields(*names: str) -> Callable[[Event], object]:
    return lambda event: [event[name] for name in names]


def _job(event: Event) -> object:
    return event["CodePipeline.job"]["id"]


def _mail(event: Event) -> object:
    ids = [at(record, "ses", "mail", "messageId") for record in event["Records"]]
    return ids[0] if len(ids) == 1 else ids


# ---------------------------------------------------------------- the table: the first match counts

SERVICES: Final[tuple[Service, ...]] = (
    Service(
        "a tumbling window",
        is_tumbling_window,
        refused="Its response is the state of this one window and must not be replayed",
    ),
    Service(
        "a CloudFormation custom resource",
        _is_cloudformation,
        identity=_fields("StackId", "RequestId"),
        asynchronous=True,
    ),
    Service("CodePipeline", _under("CodePipeline.job", "id"), identity=_job, asynchronous=True),
    Service("Amazon SES", _is_ses, identity=_mail, asynchronous=True),
    Service("the rotation of Secrets Manager at its step testSecret", _is_secret_test, refused=_VERDICT),
    Service(
        "the rotation of Secrets Manager",
        _is_secret,
        identity=_fields("SecretId", "ClientRequestToken", "Step"),
    ),
    Service(
        "a Cognito trigger that runs afterwards",
        _is_cognito_afterwards,
        counts=("triggerSource", "userPoolId", "userName", "request"),
    ),
    Service("a Cognito trigger whose answer Cognito uses", _is_cognito, refused=_VERDICT),
    Service("an AppSync authorizer", _is_appsync_authorizer, refused=_VERDICT),
    Service("the identity provider of Transfer Family", _is_transfer, refused=_VERDICT),
    Service(
        "AppSync", _is_appsync, counts=("arguments", "typeName", "fieldName", "info", "source", "events")
    ),
    Service("a WebSocket API", _under("requestContext", "connectionId"), counts=("body",)),
    Service("Data Firehose", _is_firehose, refused=_ONE_CALL),
    Service("S3 Batch Operations", _is_s3_batch, refused=_ONE_CALL),
    Service(
        "AWS Config",
        _has("invokingEvent", "configRuleName", "resultToken"),
        counts=("invokingEvent", "ruleParameters", "configRuleName"),
        asynchronous=True,
    ),
    Service("CloudWatch Logs", lambda event: at(event, "awslogs", "data") is not None, asynchronous=True),
    Service("Amazon Lex", _is_lex),
    Service("Amazon Connect", _is_connect),
    Service("AWS IoT", _is_iot, asynchronous=True),
    Service("a Bedrock agent", _is_agent),
    Service("Amazon DocumentDB", lambda event: event.get("eventSource") == "aws:docdb", counts=("events",)),
    Service("an AWS service that lambda-once does not know", _is_of_aws),
)
