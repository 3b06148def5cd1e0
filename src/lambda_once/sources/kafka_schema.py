"""Kafka values by a schema (Avro, Protobuf or JSON schema), as Powertools reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import BadData, decoded

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig


def record_class(schema: SchemaConfig) -> Callable[[dict[str, Any]], Any]:
    """Return a function that decodes records by *schema*. Raises `Misconfigured` if the schema is invalid."""
    try:
        from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecordRecords
        from aws_lambda_powertools.utilities.kafka.deserializer.deserializer import get_deserializer
        from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig as Schema

        if isinstance(schema, Schema):
            get_deserializer(schema.value_schema_type, schema.value_schema, None)
    except ImportError as error:
        raise Misconfigured(
            f"schema= needs {error.name}: install aws-lambda-powertools[kafka-consumer-avro] or "
            "aws-lambda-powertools[kafka-consumer-protobuf]"
        ) from error
    except Exception as error:
        raise Misconfigured(f"schema= cannot be read: {type(error).__name__}") from error
    if not isinstance(schema, Schema):
        raise Misconfigured(f"schema= must be Powertools' SchemaConfig, not a {type(schema).__name__}")
    return lambda raw: ConsumerRecordRecords(raw, schema)


def schema_value(record: Any) -> object:
    """Return the value of *record*, of such a class. Raises `BadData` if it does not fit its schema."""
    try:
        decoded(record.original_value)
    except BadData as error:
        raise BadData(f"has a value that {error}") from None
    try:
        return record.value
    except Exception as error:  # noqa: BLE001  (the codecs, and a serializer of the user's, may raise anything)
        # Not chained: messages of the codecs repeat the value.
        raise BadData(f"has a value that does not fit its schema ({type(error).__name__})") from None
