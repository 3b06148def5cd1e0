"""
What senders write beside a payload: which of it says what the work is.

A message is its payload and what the sender wrote beside it, so that counts in hash and fingerprint: message
attributes of SQS and SNS, in one form whichever of them delivers; headers and three properties of RabbitMQ;
properties and type of ActiveMQ; headers of Kafka; what a caller put into a Lambda client context. Left out is
what a library, a tracer or a broker stamps anew on each send or delivery: `LEFT_OUT`, in any case of letters;
nothing else goes by a pattern. An SNS subject doesn't count: raw delivery loses it.

What we're not happy with: the table is of names that others chose, and a tracer that isn't listed makes every
delivery of a message new. Names as common as Spring's ``id`` need a second name to tell who wrote them.
`lambda-once explain` shows what counts.
"""

from __future__ import annotations

import re
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

Forms = Mapping[str, object]
"""Values by name, as `_spelled`."""

MAPPINGS: Final = (dict, Mapping)  # isinstance of a dict is quick, of an abstract class slow
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MS: Final = 10**12
"""Times since 1970 in milliseconds are greater, since 2001."""


def _has_java_time(forms: Forms) -> bool:
    match forms["timestamp"]:
        case [str(kind), *_]:
            return kind == "Number.java.lang.Long"
        case _:
            return False


def _has_uuid_and_time(forms: Forms) -> bool:
    id_, time = plain_header(forms["id"]), forms["timestamp"]
    return isinstance(id_, str) and bool(_UUID.fullmatch(id_)) and isinstance(time, int) and time > _MS


def _has_java_uuid(forms: Forms) -> bool:
    types = _text(forms["spring_json_header_types"])
    return isinstance(types, str) and '"id":"java.util.UUID"' in types


# ---------------------------------------------------------------- the table


class Row(NamedTuple):
    """Names that one library, tracer or broker stamps anew."""

    stamped_by: str
    names: str
    """As *source* spells them, a blank between two; what ends in ``*`` is how names begin."""
    source: str
    """Documentation or code that shows the names."""
    where: str = ""
    """Which messages, in the words of the page; "": all."""
    beside: tuple[str, ...] = ()
    """Names that tell who wrote the message: without them *names* are the sender's own."""
    holds: Callable[[Forms], bool] | None = None
    """What their values must be, too."""
    rabbitmq: bool = False
    """Whether they're too common to go by name alone outside RabbitMQ's headers."""
    is_dead_letter: bool = False
    """Whether *beside* identifies a dead letter of a service: its queue isn't its origin."""


_GITHUB: Final = "https://github.com"
_SPRING_AMQP: Final = f"{_GITHUB}/spring-projects/spring-amqp/blob/main"
_SPRING_KAFKA: Final = (
    f"{_GITHUB}/spring-projects/spring-kafka/blob/main/spring-kafka/src/main/java/org/springframework/kafka"
)
_RABBITMQ: Final = f"{_GITHUB}/rabbitmq/rabbitmq-server/blob/main/deps"
_ACTIVEMQ: Final = f"{_GITHUB}/apache/activemq/blob/main"
_AWS: Final = "https://docs.aws.amazon.com"

LEFT_OUT: Final = (
    Row("W3C Trace Context", "traceparent tracestate", "https://www.w3.org/TR/trace-context/"),
    Row("W3C Baggage", "baggage", "https://www.w3.org/TR/baggage/"),
    Row("Sentry", "sentry-trace", f"{_GITHUB}/getsentry/sentry-python/blob/master/sentry_sdk/tracing.py"),
    Row("Zipkin", "b3 X-B3-*", f"{_GITHUB}/openzipkin/b3-propagation"),
    Row(
        "Datadog",
        "_datadog x-datadog-* dd-pathway-ctx dd-pathway-ctx-base64",
        f"{_GITHUB}/DataDog/dd-trace-py",
    ),
    Row(
        "Datadog, time in queue",
        "x_datadog_kafka_produced x_datadog_rabbitmq_produced x_datadog_jms_produced x_datadog_jms_batch_id",
        f"{_GITHUB}/DataDog/dd-trace-java/tree/master/dd-java-agent/instrumentation",
    ),
    Row(
        "New Relic", "newrelic", "https://rubydoc.info/github/newrelic/rpm/NewRelic/Agent/DistributedTracing"
    ),
    Row(
        "Elastic APM",
        "elastic-apm-traceparent",
        f"{_GITHUB}/elastic/apm-agent-python/blob/main/elasticapm/conf/constants.py",
    ),
    Row(
        "Jaeger",
        "uber-trace-id uberctx-*",
        f"{_GITHUB}/jaegertracing/jaeger-client-python/blob/master/jaeger_client/constants.py",
    ),
    Row(
        "OpenTracing",
        "ot-tracer-* ot-baggage-*",
        f"{_GITHUB}/opentracing/basictracer-python/blob/master/basictracer/text_propagator.py",
    ),
    Row(
        "Instana",
        "X-INSTANA-* X_INSTANA_*",
        "https://app.unpkg.com/@instana/core@5.2.2/files/src/tracing/constants.js",
    ),
    Row(
        "SkyWalking",
        "sw8 sw8-*",
        "https://skywalking.apache.org/docs/main/v9.0.0/en/protocols/"
        "skywalking-cross-process-propagation-headers-protocol-v3",
    ),
    Row(
        "Google Cloud Trace",
        "X-Cloud-Trace-Context",
        "https://docs.cloud.google.com/trace/docs/trace-context",
    ),
    # The system attribute AWSTraceHeader is no message attribute.
    Row(
        "AWS X-Ray",
        "X-Amzn-Trace-Id",
        f"{_AWS}/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader",
    ),
    Row(
        "clients and gateways",
        "correlationId X-Correlation-Id requestId X-Request-Id x-amzn-RequestId",
        "https://http.dev/x-correlation-id",
    ),
    Row(
        "SQS Extended Client",
        "ExtendedPayloadSize SQSLargePayloadSize",
        f"{_GITHUB}/awslabs/amazon-sqs-java-extended-client-lib",
    ),
    Row(
        "Lambda's dead-letter queues",
        "ErrorCode ErrorMessage",
        f"{_AWS}/lambda/latest/dg/invocation-async-retain-records.html#invocation-dlq",
        where="`ErrorCode` beside `RequestID`",
        beside=("RequestID", "ErrorCode"),
        is_dead_letter=True,
    ),
    # EventBridge Scheduler's have more, which tell one occurrence from the next.
    Row(
        "EventBridge's dead-letter queues",
        "ERROR_CODE ERROR_MESSAGE EXHAUSTED_RETRY_CONDITION RETRY_ATTEMPTS",
        f"{_AWS}/eventbridge/latest/userguide/eb-rule-dlq.html",
        where="`ERROR_CODE` beside `TARGET_ARN`",
        beside=("TARGET_ARN", "ERROR_CODE"),
        is_dead_letter=True,
    ),
    Row(
        "AgentCore Gateway",
        "bedrockAgentCoreAwsRequestId bedrockAgentCoreMcpMessageId bedrockAgentCoreMessageVersion",
        f"{_AWS}/bedrock-agentcore/latest/devguide/gateway-add-target-lambda.html",
    ),
    Row(
        "Spring Cloud AWS",
        "id timestamp",
        f"{_GITHUB}/adamw/elasticmq/issues/46",
        where="`timestamp` a `Number.java.lang.Long`",
        beside=("timestamp",),
        holds=_has_java_time,
    ),
    # MessageHeaders of spring-messaging always has both; this mapper sends what doesn't begin with amqp_.
    Row(
        "Spring AMQP",
        "id timestamp",
        f"{_SPRING_AMQP}/spring-amqp/src/main/java/org/springframework/amqp/support/SimpleAmqpHeaderMapper.java",
        where="only in RabbitMQ's headers, `id` a UUID, `timestamp` in milliseconds",
        beside=("id", "timestamp"),
        holds=_has_uuid_and_time,
        rabbitmq=True,
    ),
    Row(
        "Spring AMQP, replies",
        "spring_reply_correlation spring_reply_to",
        f"{_SPRING_AMQP}/spring-amqp/src/main/java/org/springframework/amqp/support/SimpleAmqpHeaderMapper.java",
    ),
    Row(
        "Spring AMQP, returns",
        "spring_listener_return_correlation spring_returned_message_correlation",
        f"{_SPRING_AMQP}/spring-rabbit/src/main/java/org/springframework/amqp/rabbit/connection/"
        "PublisherCallbackChannel.java",
    ),
    Row(
        "Spring AMQP, requests",
        "spring_request_return_correlation",
        f"{_SPRING_AMQP}/spring-rabbit/src/main/java/org/springframework/amqp/rabbit/core/RabbitTemplate.java",
    ),
    Row(
        "Spring AMQP, retries",
        "x-exception-message x-exception-stacktrace x-original-exchange x-original-routingKey",
        f"{_SPRING_AMQP}/spring-rabbit/src/main/java/org/springframework/amqp/rabbit/retry/"
        "RepublishMessageRecoverer.java",
    ),
    Row(
        "Spring Kafka",
        "id timestamp",
        f"{_SPRING_KAFKA}/support/JsonKafkaHeaderMapper.java",
        where="`spring_json_header_types` has `id` as `java.util.UUID`",
        beside=("spring_json_header_types",),
        holds=_has_java_uuid,
    ),
    Row(
        "Spring Kafka, replies and dead letters",
        "kafka_correlationId kafka_replyTopic kafka_replyPartition kafka_dlt-* kafka_exception-* "
        "kafka_key-exception-* kafka_original-*",
        f"{_SPRING_KAFKA}/support/KafkaHeaders.java",
    ),
    Row(
        "Spring Kafka, retries",
        "retry_topic-attempts retry_topic-backoff-timestamp retry_topic-original-timestamp",
        f"{_SPRING_KAFKA}/retrytopic/RetryTopicHeaders.java",
    ),
    Row(
        "MassTransit, traces",
        "MT-Activity-Id MT-Activity-Correlation-Context MT-Activity-Propagation",
        f"{_GITHUB}/MassTransit/MassTransit/blob/develop/src/MassTransit/Logging/Diagnostics/DiagnosticHeaders.cs",
    ),
    # Not MT-MessageType, and not MT-Quartz-*: times are all that tells one occurrence from the next.
    Row(
        "MassTransit",
        "MT-Fault-* MT-Host-* MT-Reason MT-Redelivery-Count MT-OriginalMessageId MT-InitiatorId "
        "MT-InitiatingConversationId MT-Scheduling-TokenId MT-Forwarder-Address MT-Source-Address "
        "MT-Response-Address",
        f"{_GITHUB}/MassTransit/MassTransit/blob/develop/src/MassTransit.Abstractions/MessageHeaders.cs",
    ),
    Row(
        "MassTransit, raw messages",
        "MessageId ConversationId",
        f"{_GITHUB}/MassTransit/MassTransit/blob/develop/src/MassTransit/Serialization/RawMessageSerializer.cs",
        where="beside `MT-Host-Info`",
        beside=("MT-Host-Info",),
    ),
    # Not EnclosedMessageTypes, SagaId, OriginatingEndpoint and MessageIntent: they say what the work is.
    Row(
        "NServiceBus",
        "NServiceBus.MessageId NServiceBus.CorrelationId NServiceBus.ConversationId "
        "NServiceBus.PreviousConversationId NServiceBus.RelatedTo NServiceBus.TimeSent "
        "NServiceBus.DeliverAt NServiceBus.Retries NServiceBus.Retries.Timestamp "
        "NServiceBus.FLRetries NServiceBus.ProcessingStarted NServiceBus.ProcessingEnded "
        "NServiceBus.ProcessingEndpoint NServiceBus.ProcessingMachine NServiceBus.OriginatingMachine "
        "NServiceBus.ReplyToAddress NServiceBus.Version NServiceBus.OpenTelemetry.StartNewTrace "
        "$.diagnostics.*",
        f"{_GITHUB}/Particular/NServiceBus/blob/master/src/NServiceBus.Core/Headers.cs",
    ),
    Row(
        "NServiceBus, failures",
        "NServiceBus.FailedQ NServiceBus.TimeOfFailure NServiceBus.ExceptionInfo.*",
        f"{_GITHUB}/Particular/NServiceBus/blob/master/src/NServiceBus.Core/Recoverability/Faults/"
        "FaultsHeaderKeys.cs",
    ),
    # On other brokers it has its headers in the body (kombu, "virtual transports").
    Row(
        "Celery",
        "id root_id parent_id group retries eta expires timelimit origin",
        f"{_GITHUB}/celery/celery/blob/main/docs/internals/protocol.rst",
        where="only in RabbitMQ's headers, beside `task`, `lang` and `root_id`",
        beside=("task", "lang", "root_id"),
        rabbitmq=True,
    ),
    Row(
        "RabbitMQ, dead letters",
        "x-death x-first-death-* x-last-death-*",
        "https://www.rabbitmq.com/docs/dlx#effects",
    ),
    # Dead-lettering with a routing key of its own removes it; BCC is never delivered.
    Row(
        "RabbitMQ, dead letters",
        "CC",
        "https://www.rabbitmq.com/docs/dlx#effects",
        where="only in its headers",
        rabbitmq=True,
    ),
    Row(
        "RabbitMQ, quorum queues",
        "x-delivery-count x-acquired-count",
        f"{_RABBITMQ}/rabbit/src/rabbit_fifo_client.erl",
    ),
    Row(
        "RabbitMQ, federation",
        "x-received-from",
        f"{_RABBITMQ}/rabbitmq_federation_common/include/rabbit_federation.hrl",
    ),
    Row(
        "RabbitMQ, federated queues",
        "x-original-exchange x-original-routing-key x-original-cc",
        f"{_RABBITMQ}/rabbitmq_queue_federation/src/rabbit_federation_queue_link.erl",
    ),
    Row(
        "RabbitMQ, shovels",
        "x-shovelled x-shovelled-timestamp",
        f"{_RABBITMQ}/rabbitmq_shovel/src/rabbit_shovel_util.erl",
    ),
    Row(
        "RabbitMQ, shovels in one cluster",
        "x-opt-shovelled-by x-opt-shovelled-timestamp x-opt-shovel-type x-opt-shovel-name",
        f"{_RABBITMQ}/rabbitmq_shovel/src/rabbit_local_shovel.erl",
    ),
    Row(
        "RabbitMQ, routing node",
        "x-routed-by",
        f"{_RABBITMQ}/rabbit/src/rabbit_msg_interceptor_routing_node.erl",
    ),
    Row(
        "RabbitMQ, time on delivery",
        "x-opt-rabbitmq-sent-time",
        f"{_RABBITMQ}/rabbit/src/rabbit_msg_interceptor_timestamp.erl",
    ),
    Row(
        "RabbitMQ, time on arrival",
        "timestamp_in_ms",
        f"{_RABBITMQ}/rabbit/src/rabbit_msg_interceptor_timestamp.erl",
        where="only in its headers",
        rabbitmq=True,
    ),
    # Not JMSXGroupID.
    Row(
        "JMS, JMSX properties",
        "JMSXUserID JMSXAppID JMSXDeliveryCount JMSXGroupSeq JMSXProducerTXID JMSXConsumerTXID "
        "JMSXRcvTimestamp JMSXState",
        "https://help.hcl-software.com/hcllink/1.3.1/adapters/jms/references/r_jms_JMS_specific_Properties_.html",
    ),
    # Not JMSType, and not JMSDestination, the origin.
    Row(
        "JMS, header fields",
        "JMSMessageID JMSTimestamp JMSCorrelationID JMSReplyTo JMSDeliveryMode JMSExpiration "
        "JMSPriority JMSRedelivered",
        f"{_ACTIVEMQ}/activemq-client/src/main/java/org/apache/activemq/filter/PropertyExpression.java",
    ),
    Row(
        "ActiveMQ, dead letters",
        "dlqDeliveryFailureCause",
        f"{_ACTIVEMQ}/activemq-client/src/main/java/org/apache/activemq/command/ActiveMQMessage.java",
    ),
    Row(
        "ActiveMQ, expired messages",
        "originalExpiration",
        f"{_ACTIVEMQ}/activemq-broker/src/main/java/org/apache/activemq/broker/region/RegionBroker.java",
    ),
    Row(
        "ActiveMQ, scheduled messages",
        "scheduledJobId AMQ_SCHEDULED_*",
        f"{_ACTIVEMQ}/activemq-client/src/main/java/org/apache/activemq/ScheduledMessage.java",
    ),
)
"""The names that don't count."""


class _Conditional(NamedTuple):
    """A row that applies only to messages with all names of *beside*; in lower case."""

    beside: frozenset[str]
    names: frozenset[str]
    holds: Callable[[Forms], bool] | None


class _Table(NamedTuple):
    """Rows, ready to be looked up by names in lower case."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    conditional: tuple[_Conditional, ...]
    marks: frozenset[str]
    """One name of *beside* of each conditional row: without any of them no such row applies."""

    def left_out(self, forms: Forms) -> set[str]:
        """Return the names among *forms* that don't count."""
        left_out = {name for name in forms if name in self.names or name.startswith(self.prefixes)}
        if not self.marks.isdisjoint(forms):
            for beside, names, holds in self.conditional:
                if beside <= forms.keys() and (holds is None or holds(forms)):
                    left_out |= names
        return left_out


def _spelled(name: str) -> str:
    """
    Return *name* in lower case, with the hyphens that a property of JMS cannot have.

    OpenTelemetry's and Datadog's agents write ``__dash__`` (MessagePropertySetter, MessageInjectAdapter).
    """
    return name.lower().replace("__dash__", "-")


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _build_table(rows: Iterable[Row]) -> _Table:
    names: list[str] = []
    conditional: list[_Conditional] = []
    for row in rows:
        if row.beside:
            conditional.append(_Conditional(_lower(row.beside), _lower(row.names.split()), row.holds))
        else:
            names += row.names.split()
    whole = _lower(name for name in names if not name.endswith("*"))
    prefixes = tuple(name[:-1].lower() for name in names if name.endswith("*"))
    marks = frozenset(min(row.beside) for row in conditional)
    return _Table(whole, prefixes, tuple(conditional), marks)


_TABLE: Final = _build_table(row for row in LEFT_OUT if not row.rabbitmq)
_OF_RABBITMQ: Final = _build_table(LEFT_OUT)
_DEAD_LETTERS: Final = tuple(_lower(row.beside) for row in LEFT_OUT if row.is_dead_letter)


# ---------------------------------------------------------------- what counts


def counted(attributes: object) -> dict[str, object]:
    """
    Return what counts of *attributes*, those of a message of SQS or SNS: type and value by name.

    *attributes* are as SQS writes them (``dataType``, ``stringValue``) or SNS (``Type``, ``Value``); binary
    values are base64 in both. What is in neither form counts as it is.
    """
    if not attributes or not isinstance(attributes, MAPPINGS):
        return {}
    return _drop_left_out({str(name): _form(value) for name, value in attributes.items()})


def united(around: Mapping[str, object], attributes: Mapping[str, object]) -> dict[str, object]:
    """
    Return *attributes* and those *around* them: a message group, or those of the message around an envelope.

    Of one name with two values both count, that of *attributes* as ``messageAttributes.`` and the name.
    """
    taken = {name for name, form in attributes.items() if around.get(name, form) != form}
    both = {**around, **{name: form for name, form in attributes.items() if name not in taken}}
    for name in sorted(taken):
        label = f"messageAttributes.{name}"
        while label in both:
            label = f"messageAttributes.{label}"
        both[label] = attributes[name]
    return both


def counted_amqp(properties: object) -> dict[str, object]:
    """
    Return what counts of *properties*, the ``basicProperties`` of a message of RabbitMQ.

    These are ``type``, ``contentType`` and ``contentEncoding``, and its headers by name; a header with one of
    these three names is ``headers.type`` and so on. Lambda delivers texts in headers as bytes (Lambda
    developer guide, "Using Lambda with Amazon MQ"); here they're text again, in lists and tables, too.
    """
    return _with_properties(properties, ("type", "contentType", "contentEncoding"), "headers", _OF_RABBITMQ)


def counted_jms(message: object) -> dict[str, object]:
    """
    Return what counts of *message*, one of ActiveMQ: its properties by name, and its ``type``.

    A property named ``type`` is ``properties.type``.
    """
    return _with_properties(message, ("type",), "properties", _TABLE)


def counted_kafka(headers: object) -> list[list[object]]:
    """
    Return what counts of *headers*, those of a record of Kafka: name and value of each, in their order.

    Lambda sends values as lists of bytes, which may be signed (powertools-lambda-python, issue 6862). Here
    they are text, or if they aren't UTF-8, an object with their ``base64``; null stays null.
    """
    if not headers or not isinstance(headers, list | tuple):
        return []
    pairs = [
        (str(name), value)
        for header in headers
        if isinstance(header, MAPPINGS)
        for name, value in header.items()
    ]
    left_out = _TABLE.left_out({_spelled(name): value for name, value in pairs})
    return [[name, _text(value)] for name, value in pairs if _spelled(name) not in left_out]


TOOL: Final = "bedrockAgentCoreToolName"
"""What AgentCore's gateway calls the tool, ``target___tool``: the operation (as its row in `LEFT_OUT`)."""
GATEWAY: Final = "bedrockAgentCoreGatewayId"
_OF_GATEWAY: Final = frozenset({TOOL, GATEWAY, "bedrockAgentCoreTargetId"})
"""Operation and origin; the tool's name has its target."""


def counted_context(custom: object) -> dict[str, object]:
    """Return what counts of *custom*, the part of a Lambda client context that is the caller's: by name."""
    if not custom or not isinstance(custom, MAPPINGS):
        return {}
    return {name: value for name, value in _drop_left_out(custom).items() if name not in _OF_GATEWAY}


def is_dead_letter(attributes: object) -> bool:
    """
    Whether *attributes* are those of a dead letter that Lambda or EventBridge wrote.

    Their queue isn't the origin of the work, which is in the body. Dead letters of SQS, RabbitMQ and ActiveMQ
    have no such attributes.
    """
    if not attributes or not isinstance(attributes, MAPPINGS):
        return False
    names = _lower(map(str, attributes))
    return any(marks <= names for marks in _DEAD_LETTERS)


def _drop_left_out(attributes: Mapping[str, object], table: _Table = _TABLE) -> dict[str, object]:
    """Return *attributes* without those that *table* leaves out."""
    left_out = table.left_out({_spelled(str(name)): value for name, value in attributes.items()})
    return {str(name): value for name, value in attributes.items() if _spelled(str(name)) not in left_out}


def _with_properties(
    message: object, properties: tuple[str, ...], field: str, table: _Table
) -> dict[str, object]:
    """Return *properties* of *message* unless empty, and what *table* leaves of the headers in *field*."""
    if not isinstance(message, MAPPINGS):
        return {}
    attributes = {name: plain_header(message[name]) for name in properties if message.get(name)}
    headers = message.get(field)
    if headers and isinstance(headers, MAPPINGS):
        for name, value in _drop_left_out(headers, table).items():
            attributes[f"{field}.{name}" if name in properties else name] = plain_header(value)
    return attributes


# ---------------------------------------------------------------- forms of values

_MOST_LEVELS: Final = 16
"""Levels of tables and lists within a header whose bytes become text: RabbitMQ's own have three."""


def _form(value: object) -> object:
    match value:
        case {"dataType": kind, "stringValue": str(text)} | {"dataType": kind, "binaryValue": str(text)}:
            return [kind, text]
        case {"Type": kind, "Value": text}:
            return [kind, text]
        case _:
            return value


def plain_header(value: object, levels: int = _MOST_LEVELS) -> object:
    """Return *value*, of a header of RabbitMQ, with text in place of ``{"bytes": […]}``."""
    if not levels:
        return value
    if isinstance(value, MAPPINGS):
        if len(value) == 1 and "bytes" in value:
            return _text(value["bytes"])
        return {str(name): plain_header(part, levels - 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_header(part, levels - 1) for part in value]
    return value


def _text(value: object) -> object:
    """Return *value*, bytes or numbers that may be signed, as text or base64; anything else as it is."""
    if isinstance(value, list | tuple):
        try:
            value = bytes(value)
        except ValueError:  # a number below 0
            try:
                value = array("b", value).tobytes()
            except (OverflowError, TypeError):
                return value
        except TypeError:
            return value
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
