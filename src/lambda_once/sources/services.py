"""
Other AWS services that invoke a function by themselves: one table of how each is recognised and keyed.

Their events aren't keyed like direct invocations: they have fields that belong to one delivery (a token, a
timestamp, a trace id), or nothing that distinguishes one occasion from the next. Shapes are from the
developer guides.

What we're not happy with: the table ends with a guess, "an AWS service that lambda-once does not know"; a
service that AWS adds next is a direct invocation unless its events have ``aws:`` or ``aws.`` in their source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from lambda_once.core.identity import Flaw
from lambda_once.errors import Misconfigured
from lambda_once.sources.caller import Caller, of_connection, of_identity
from lambda_once.sources.envelopes import at, text_at

Event = Mapping[str, Any]


class Service(NamedTuple):
    """A row of the table."""

    name: str
    by: tuple[str, ...]
    """Each of its events has one of these fields: an event with none of any row is recognised quickly."""
    recognises: Callable[[Event], bool]
    identity: Callable[[Event], object] | None = None
    """The fields that all deliveries of one event share: the key, and unless it *reads* the fingerprint."""
    reads: Callable[[Event], object] | None = None
    """What counts of the content if *identity* is only the event's place, which ``key=`` replaces."""
    refused: str | None = None
    """Why an event is refused even with a key."""
    counts: tuple[str, ...] = ()
    """The fields of the fingerprint under ``key=``; none: all."""
    operation: Callable[[Event], str | None] | None = None
    """What is asked for, which is part of the scope; None: the service has one operation."""
    operation_in: str = ""
    """The name of the operation in the content, and so in messages: the field that has it."""
    caller: Callable[[Event], Caller] | None = None
    """Who asks; None: the service itself."""
    asynchronous: bool = False
    """Whether Lambda invokes the function asynchronously for it, and so retries by itself."""

    def content(self, payload: object) -> object:
        """
        Return the part of *payload* to hash, an event of this service without ignored fields.

        It has the operation, too: the event may be an argument of a function, which has no scope.
        """
        if isinstance(payload, list):  # AppSync's batch
            return [self.content(each) for each in payload]
        if self.reads is not None and isinstance(payload, Mapping):
            return self.reads(payload)
        if not isinstance(payload, Mapping) or not self.counts:
            return payload
        operation = None if self.operation is None else self.operation(payload)
        content = {} if operation is None else {self.operation_in: operation}
        return content | {name: payload[name] for name in self.counts if name in payload}

    @property
    def flaw(self) -> Flaw | None:
        """Why an event of it cannot be keyed without ``key=``; None if it can."""
        if self.identity is not None:
            return None
        reason = f"An event of {self.name} has no id that all its deliveries share. Nothing ran."
        return Flaw(Misconfigured(f"{reason} Pass once.event a key= that identifies the work."))

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
_POLL: Final = "It is a poll, and a replay would return the first answer for ever: it must not be replayed"


def service_of(event: object) -> Service | None:
    """Return the service that sent *event*; None if no row of the table recognises it."""
    first = event[0] if isinstance(event, list) and event else event  # AppSync sends batches as lists
    if not isinstance(first, Mapping) or NAMES.isdisjoint(first):
        return None
    services = (service for service in SERVICES if any(name in first for name in service.by))
    return next((service for service in services if service.recognises(first)), None)


# ---------------------------------------------------------------- shapes


def _has(*names: str) -> Callable[[Event], bool]:
    return lambda event: all(isinstance(event.get(name), str) for name in names)


def _under(*path: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(at(event, *path), str)


def _object(*path: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(at(event, *path), Mapping)


def _list(*path: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(at(event, *path), list)


def _is(name: str, *values: str) -> Callable[[Event], bool]:
    return lambda event: event.get(name) in values


def _all(*shapes: Callable[[Event], bool]) -> Callable[[Event], bool]:
    return lambda event: all(shape(event) for shape in shapes)


def _any(*shapes: Callable[[Event], bool]) -> Callable[[Event], bool]:
    return lambda event: any(shape(event) for shape in shapes)


def _is_cloudformation(event: Event) -> bool:
    is_request = event.get("RequestType") in ("Create", "Update", "Delete")
    has_url = "ResponseURL" in event  # of any type: a parser makes an object of it
    return is_request and has_url and _has("StackId", "RequestId")(event)


def _is_cdk_poll(event: Event) -> bool:
    """
    Whether CDK's provider framework polls whether a resource is complete.

    It sends the request together with what onEvent has returned: an id of the resource, which CloudFormation
    does not know before a Create, and perhaps Data, which CloudFormation never sends.
    """
    has_answer = "Data" in event or (event.get("RequestType") == "Create" and "PhysicalResourceId" in event)
    return has_answer and _is_cloudformation(event)


def is_tumbling_window(event: object) -> bool:
    """Whether *event* belongs to a tumbling window of a stream (developer guide, Kinesis and DynamoDB)."""
    final, window = at(event, "isFinalInvokeForWindow"), at(event, "window")
    return isinstance(final, bool) and isinstance(window, Mapping)


_is_cognito: Final = _all(_has("triggerSource", "userPoolId"), _object("request"))
_AFTERWARDS: Final = ("Post", "CustomEmailSender", "CustomSMSSender")
"""Beginnings of the triggers whose response Cognito ignores."""


def _is_cognito_afterwards(event: Event) -> bool:
    return _is_cognito(event) and event["triggerSource"].startswith(_AFTERWARDS)


_is_secret: Final = _has("SecretId", "ClientRequestToken", "Step")


def _is_appsync_authorizer(event: Event) -> bool:
    of_gateway = "type" in event  # the authorizer of an HTTP API, payload 1.0
    return not of_gateway and _has("authorizationToken")(event) and _under("requestContext", "apiId")(event)


def _is_provisioning(event: Event) -> bool:
    """Whether a device asks to be provisioned (IoT Core developer guide, "Pre-provisioning hooks")."""
    template = event.get("templateArn")
    has_template = isinstance(template, str) and (
        ":provisioningtemplate/" in template or "claimCertificateId" in event
    )
    return has_template and isinstance(event.get("parameters"), Mapping)


def _is_edge(event: Event) -> bool:
    match event:
        case {"Records": [first, *_]}:
            return isinstance(at(first, "cf"), Mapping)
        case _:
            return False


def _is_appconfig(event: Event) -> bool:
    """Whether an extension's pre-action may change or stop what follows (AppConfig user guide)."""
    action = str(event.get("Type")).replace("_", "").lower()
    return action.startswith("pre") and _has("InvocationId")(event) and _object("Application")(event)


def _is_appsync(event: Event) -> bool:
    resolver = isinstance(event.get("arguments"), Mapping) and (
        _under("info", "fieldName")(event) or _has("typeName", "fieldName")(event)
    )
    return resolver or (_under("info", "operation")(event) and "channelNamespace" in event["info"])


def _field(event: Event) -> str | None:
    """Return ``Type.field``, or of AppSync Events ``namespace/channel/operation``."""
    info = event.get("info", event)
    if at(info, "channelNamespace") is not None:
        parts = (("channelNamespace", "name"), ("channel", "path"), ("operation",))
        return "/".join(str(at(info, *path)) for path in parts)
    kind = text_at(event, "info", "parentTypeName") or text_at(event, "typeName")
    field = text_at(event, "info", "fieldName") or text_at(event, "fieldName")
    return None if field is None else f"{kind or ''}.{field}"


_OBJECT_CONTEXTS: Final = tuple(
    f"{call}Context" for call in ("getObject", "headObject", "listObjects", "listObjectsV2")
)


def _is_ses(event: Event) -> bool:
    match event:
        case {"Records": [*records]} if records:
            return all(
                at(record, "eventSource") == "aws:ses"
                and isinstance(at(record, "ses", "mail", "messageId"), str)
                for record in records
            )
        case _:
            return False


def _recipients(record: object) -> list[str]:
    recipients = at(record, "ses", "receipt", "recipients")
    return sorted(map(str, recipients)) if isinstance(recipients, list) else []


def _is_of_aws(event: Event) -> bool:
    """Whether the event names any source of AWS."""
    records = event.get("Records")
    first = records[0] if isinstance(records, list) and records else None
    sources = (at(part, name) for part in (event, first) for name in ("eventSource", "EventSource"))
    return any(str(source).startswith("aws:") for source in sources) or (
        str(event.get("source")).startswith("aws.") and "detail-type" not in event
    )


# ---------------------------------------------------------------- identities


def _fields(*names: str) -> Callable[[Event], object]:
    return lambda event: [event[name] for name in names]


_SENT: Final = ("from", "sender", "replyTo", "to", "cc", "bcc", "subject")
"""
Headers that a mail which is sent again has again (SES developer guide, "Contents of notifications"): not its
date and ids, nor the address that bounces go to, which may be new for each mail.
"""


def _mails(event: Event) -> object:
    records = event.get("Records")
    return [
        {
            "recipients": _recipients(record),
            **{name: at(record, "ses", "mail", "commonHeaders", name) for name in _SENT},
        }
        for record in (records if isinstance(records, list) else [])
    ]


def _mail(event: Event) -> object:
    # SES developer guide, "Receipt rules": every rule that matches runs, each for the recipients it matched.
    ids = [[at(record, "ses", "mail", "messageId"), _recipients(record)] for record in event["Records"]]
    return ids[0] if len(ids) == 1 else ids


# ---------------------------------------------------------------- the table: the first match counts

SERVICES: Final[tuple[Service, ...]] = (
    Service(
        "a tumbling window",
        ("window",),
        is_tumbling_window,
        refused="Its response is the state of this one window and must not be replayed",
    ),
    Service("the isComplete of a CDK custom resource", ("RequestType",), _is_cdk_poll, refused=_POLL),
    Service(
        "a CloudFormation custom resource",
        ("RequestType",),
        _is_cloudformation,
        identity=_fields("StackId", "RequestId"),
        asynchronous=True,
    ),
    Service(
        "CodePipeline",
        ("CodePipeline.job",),
        _under("CodePipeline.job", "id"),
        identity=lambda event: event["CodePipeline.job"]["id"],
        asynchronous=True,
    ),
    Service("Amazon SES", ("Records",), _is_ses, identity=_mail, reads=_mails, asynchronous=True),
    Service(
        "the rotation of Secrets Manager at its step testSecret",
        ("SecretId",),
        _all(_is_secret, _is("Step", "testSecret")),
        refused=_VERDICT,
    ),
    Service(
        "the rotation of Secrets Manager",
        ("SecretId",),
        _is_secret,
        identity=_fields("SecretId", "ClientRequestToken", "Step"),
    ),
    Service(
        "a Cognito trigger that runs afterwards",
        ("triggerSource",),
        _is_cognito_afterwards,
        counts=("triggerSource", "userPoolId", "userName", "request"),
    ),
    Service("a Cognito trigger whose answer Cognito uses", ("triggerSource",), _is_cognito, refused=_VERDICT),
    Service("an AppSync authorizer", ("authorizationToken",), _is_appsync_authorizer, refused=_VERDICT),
    Service(  # Transfer Family user guide, "Lambda event message structure"
        "the identity provider of Transfer Family",
        ("serverId",),
        _all(_has("username", "serverId"), _is("protocol", "SFTP", "FTPS", "FTP")),
        refused=_VERDICT,
    ),
    Service(
        "AppSync",
        ("arguments", "info"),
        _is_appsync,
        counts=("arguments", "source", "prev", "events"),
        operation=_field,
        operation_in="info",
        caller=lambda event: of_identity(event.get("identity")),
    ),
    Service(
        "a WebSocket API",
        ("requestContext",),
        _under("requestContext", "connectionId"),
        counts=("body",),
        operation=lambda event: text_at(event, "requestContext", "routeKey"),
        operation_in="requestContext",
        caller=lambda event: of_connection(event["requestContext"]),
    ),
    Service(
        "VPC Lattice",
        ("raw_path", "requestContext"),  # event structure 1, 2
        _all(_has("method"), _any(_has("raw_path"), _under("requestContext", "serviceArn"))),
        refused="Its requests are not supported",
    ),
    Service(
        "an IoT custom authorizer",
        ("protocolData",),
        _all(
            _object("protocolData"), _any(_object("connectionMetadata"), lambda e: "signatureVerified" in e)
        ),
        refused=_VERDICT,
    ),
    Service("the provisioning hook of AWS IoT", ("templateArn",), _is_provisioning, refused=_VERDICT),
    Service(
        "the connection handler of Client VPN",
        ("connection-id",),
        _has("connection-id", "endpoint-id"),
        refused=_VERDICT,
    ),
    Service("Lambda@Edge", ("Records",), _is_edge, refused=_VERDICT),
    Service(
        "Cognito Sync",
        ("identityPoolId",),
        _all(_has("identityPoolId"), _is("eventType", "SyncTrigger")),
        refused=_VERDICT,
    ),
    Service(
        "the termination policy of an Auto Scaling group",
        ("CapacityToTerminate",),
        _all(_has("AutoScalingGroupARN"), _list("CapacityToTerminate")),
        refused=_VERDICT,
    ),
    Service(
        "a CloudFormation Hook",
        ("hookTypeName",),
        _has("hookTypeName", "actionInvocationPoint"),
        refused=_VERDICT,
    ),
    Service(
        "an interceptor of a Bedrock AgentCore gateway",
        ("interceptorInputVersion",),
        _all(_has("interceptorInputVersion"), _any(_object("mcp"), _object("http"))),
        refused=_VERDICT,
    ),
    Service("an extension of AWS AppConfig", ("InvocationId",), _is_appconfig, refused=_VERDICT),
    Service(
        "a lifecycle hook of Amazon ECS",
        ("lifecycleStage",),
        _all(_has("lifecycleStage", "executionId"), _object("executionDetails")),
        refused=_POLL,
    ),
    Service(
        "Data Firehose",
        ("deliveryStreamArn",),
        _all(_has("invocationId", "deliveryStreamArn"), _list("records")),
        refused=_ONE_CALL,
    ),
    Service(
        "Kinesis Data Analytics",
        ("applicationArn",),
        _all(_has("invocationId", "applicationArn"), _list("records")),
        refused=_ONE_CALL,
    ),
    Service(
        "S3 Object Lambda",
        _OBJECT_CONTEXTS,
        _any(*map(_object, _OBJECT_CONTEXTS)),
        refused=_ONE_CALL,
    ),
    Service(
        "a CloudFormation macro",
        ("transformId",),
        _all(_has("transformId", "requestId"), _object("fragment")),
        refused=_ONE_CALL,
    ),
    Service(
        "a custom widget of CloudWatch",
        ("widgetContext",),
        _under("widgetContext", "dashboardName"),
        refused=_ONE_CALL,
    ),
    Service(
        "a data source of CloudWatch",
        ("EventType",),
        _is("EventType", "GetMetricData", "DescribeGetMetricData"),
        refused=_ONE_CALL,
    ),
    Service(
        "a SIP media application of Chime SDK",
        ("InvocationEventType",),
        _all(_has("InvocationEventType"), _under("CallDetails", "TransactionId")),
        refused=_ONE_CALL,
    ),
    Service(
        "a Lambda UDF of Amazon Redshift",
        ("external_function",),
        _all(_has("request_id", "external_function"), _list("arguments")),
        refused=_ONE_CALL,
    ),
    Service(
        "a federated query of Amazon Athena",
        ("@type",),
        _all(_has("@type"), _object("identity"), lambda event: event["@type"].endswith("Request")),
        refused=_ONE_CALL,
    ),
    Service(
        "S3 Batch Operations",
        ("invocationSchemaVersion",),
        _all(_has("invocationSchemaVersion", "invocationId"), _list("tasks")),
        refused=_ONE_CALL,
    ),
    Service(
        "AWS Config",
        ("configRuleName",),
        _has("invokingEvent", "configRuleName", "resultToken"),
        counts=("invokingEvent", "ruleParameters", "configRuleName"),
        asynchronous=True,
    ),
    Service(
        "CloudWatch Logs",
        ("awslogs",),
        lambda event: at(event, "awslogs", "data") is not None,
        asynchronous=True,
    ),
    Service(
        "Amazon Lex",
        ("bot",),
        _all(_is("invocationSource", "DialogCodeHook", "FulfillmentCodeHook"), _object("bot")),
    ),
    Service(
        "Amazon Connect",
        ("Details",),
        _all(_is("Name", "ContactFlowEvent"), _under("Details", "ContactData", "ContactId")),
    ),
    Service(
        "AWS IoT",
        ("clickType", "deviceEvent", "event"),
        _any(
            _has("serialNumber", "clickType"),  # a button
            _all(_object("deviceInfo"), _object("deviceEvent")),  # 1-Click
            _under("event", "payload", "actionExecutionId"),
        ),
        asynchronous=True,
    ),
    Service(
        "a Bedrock agent",
        ("actionGroup",),
        _all(_has("messageVersion", "sessionId", "actionGroup"), _object("agent")),
    ),
    Service(
        "Amazon DocumentDB",
        ("eventSource",),
        _is("eventSource", "aws:docdb"),
        counts=("events",),
    ),
    Service(
        "an AWS service that lambda-once does not know",
        ("eventSource", "EventSource", "Records", "source"),
        _is_of_aws,
    ),
)

NAMES: Final = frozenset(name for service in SERVICES for name in service.by)
"""An event of a service has one of these fields."""
